//! Records of runs that failed.

use sederunt_core::feedback::{capture, stats};
use sederunt_core::session::query::Page;
use sederunt_core::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::query::params;
use crate::wire::Count;

/// Counts of failed runs. No rating counts them.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FailureCounts {
    pub total: Count,
    pub last_7_days: Count,
    pub last_30_days: Count,
    /// The commonest first.
    pub codes: Vec<CodeCount>,
}

/// Failures of one kind.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CodeCount {
    pub code: String,
    pub total: Count,
}

impl From<stats::Failures> for FailureCounts {
    fn from(failures: stats::Failures) -> Self {
        let code = |(code, total)| CodeCount { code, total: Count(total) };
        Self {
            total: Count(failures.lifetime),
            last_7_days: Count(failures.days_7),
            last_30_days: Count(failures.days_30),
            codes: failures.codes.into_iter().map(code).collect(),
        }
    }
}

/// The record of a failed run.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub feedback_event_id: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `lease_lost`, `denied`, `hard_blocked`, `output_invalid`, `child_failed`, the limit that was reached, or what the
    /// worker called it.
    pub code: String,
    /// The session's error message; null if it contains a secret.
    pub message: Option<String>,
    pub task_id: String,
    pub task_slug: Option<String>,
    /// The step, of a task that has steps.
    pub step: Option<String>,
    pub agent_slug: Option<String>,
    pub session_id: Option<String>,
    /// The event of the session's log that says why.
    pub sequence: Option<Count>,
}

/// A page of failures, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FailureList {
    pub items: Vec<Failure>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<capture::FeedbackEvent, i64>> for FailureList {
    fn from(page: Page<capture::FeedbackEvent, i64>) -> Self {
        let failure = |event: capture::FeedbackEvent| {
            let body = event.body;
            body.failure.map(|failure| Failure {
                feedback_event_id: event.id,
                at: event.at,
                code: failure.code,
                message: body.words.what_went_wrong,
                task_id: failure.task_id,
                task_slug: failure.task_slug,
                step: failure.step,
                agent_slug: body.agent,
                session_id: event.session.map(|id| id.to_string()),
                sequence: body.sequences.first().copied().map(Count),
            })
        };
        Self {
            items: page.items.into_iter().filter_map(failure).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

params! {
    /// Which failures.
    pub struct FailuresQuery {
        /// Only failures of this task, by its id or slug.
        task as "task_id" | "taskId": Option<String> = text(),
        /// Only the failure of this session.
        session as "session_id" | "sessionId": Option<SessionId> =
            text().parsed("is no id of a session", session_id),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}
