//! Feedback on the wire: what is sent, the sessions in which more is added, records of failed runs, statistics.

mod capture;
mod failure;
mod session;
mod stats;

use sederunt_core::feedback::{capture as core, session as core_session};

pub use self::capture::{CaptureDone, CaptureRequest, GuardrailChecks, HistoryMessage, RubricScore};
pub use self::failure::{CodeCount, Failure, FailureCounts, FailureList, FailuresQuery};
pub use self::session::{
    AppendFeedback, Complaint, FeedbackAppended, FeedbackFinalized, FeedbackMessage, FeedbackOpened,
    FeedbackSession, FeedbackSessionList, FeedbackSessionsQuery, OpenFeedback,
};
pub use self::stats::{
    FeedbackStats, LabelCounts, Markdown, NamedCounts, Recommendation, SummaryQuery, ThumbCounts,
};
use super::words;

words!(
    /// A thumb.
    Signal = core::Signal { Up, Down } in "snake_case"
);
words!(
    /// The author of a message.
    Speaker = core::Speaker { User, Assistant } in "snake_case"
);
words!(
    /// Whether the decision was wrong, or its execution.
    FailureType = core::FailureType { Decision, Execution } in "snake_case"
);
words!(
    /// Whether a feedback session takes further messages.
    FeedbackState = core_session::FeedbackState { Open, Finalized } in "snake_case"
);
