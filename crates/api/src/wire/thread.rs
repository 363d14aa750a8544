//! Conversations as their surfaces show them: lists, histories, state, endings.

use sederunt_core::Timestamp;
use sederunt_core::engine::TalkStanding;
use sederunt_core::event::Event;
use sederunt_core::feedback::{
    Label as CoreLabel, Modality as CoreModality, Rating, RatingCounts, RatingSource as CoreSource,
};
use sederunt_core::session::Session;
use sederunt_core::session::query::ListCursor;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::feedback::{CaptureDone, LabelCounts};
use super::talk::MemoryMode;
use super::{Count, Raw, words};
use crate::limits::{THREADS_DEFAULT, THREADS_MAX};
use crate::query::params;

words!(
    /// Whether the sitting helped.
    Label = CoreLabel { Positive, Negative, Skip }
);
words!(
    /// The surface on which the sitting was rated.
    RatingSource = CoreSource { CliEnd, CliExit, ApiEnd, WebEnd, VoiceEnd }
);
words!(
    /// Whether the sitting was written or spoken.
    Modality = CoreModality { Text, Voice }
);

/// A conversation in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Thread {
    pub thread_id: String,
    pub title: Option<String>,
    /// Its description, or the beginning of its first message.
    pub description: Option<String>,
    /// The beginning of its last message.
    pub preview: Option<String>,
    pub turn_count: Count,
    pub message_count: Count,
    /// It has messages.
    pub has_context: bool,
    #[schema(value_type = String, format = DateTime)]
    pub last_activity_at: Timestamp,
}

/// A rating of a sitting: a label without words.
#[derive(Debug, Serialize, ToSchema)]
pub struct SittingRating {
    pub id: String,
    /// `positive`, `negative` or `skip`.
    pub label: String,
    /// Turns of the sitting when it was rated.
    pub turn_count_at_end: Count,
    /// Where it was ended: `cli_end`, `cli_exit`, `api_end`, `web_end` or `voice_end`.
    pub source: String,
    /// `text` or `voice`.
    pub modality: String,
    #[schema(value_type = String, format = DateTime)]
    pub recorded_at: Timestamp,
}

/// The ratings of a conversation, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct RatingList {
    pub items: Vec<SittingRating>,
    pub counts: LabelCounts,
}

impl From<Vec<Rating>> for RatingList {
    fn from(ratings: Vec<Rating>) -> Self {
        let counts = RatingCounts::of(&ratings).into();
        let item = |rating: Rating| SittingRating {
            id: rating.id.to_string(),
            label: rating.label.as_str().to_owned(),
            turn_count_at_end: Count(rating.turn_count_at_end),
            source: rating.source.as_str().to_owned(),
            modality: rating.modality.as_str().to_owned(),
            recorded_at: rating.recorded_at,
        };
        Self { items: ratings.into_iter().map(item).collect(), counts }
    }
}

impl From<Session> for Thread {
    fn from(session: Session) -> Self {
        Self {
            thread_id: session.id.to_string(),
            title: session.details.title.map(Into::into),
            description: session.details.description.map(Into::into),
            preview: session.head.preview.map(Into::into),
            turn_count: Count(session.head.turn_count),
            message_count: Count(session.head.message_count),
            has_context: session.head.message_count > 0,
            last_activity_at: session.head.last_at,
        }
    }
}

/// Conversations, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadList {
    pub items: Vec<Thread>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

/// One message of a conversation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Said {
    /// `user` or `assistant`.
    pub role: String,
    pub text: String,
    pub sequence: Count,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<Event> for Said {
    fn from(event: Event) -> Self {
        let role = if event.kind.as_str() == "user.message" { "user" } else { "assistant" };
        Self {
            role: role.to_owned(),
            text: event.shown_text().unwrap_or_default(),
            sequence: Count(event.sequence),
            at: event.at,
        }
    }
}

/// What was said, oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct History {
    pub items: Vec<Said>,
}

/// The status of a conversation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadStatus {
    pub has_active_session: bool,
    /// `absent`, `active`, `expired` or `interrupted`.
    pub status: String,
    /// The number of the open sitting, and the turns answered in it.
    pub sitting: Option<Count>,
    pub turn_count: Count,
    /// Messages that wait for their turn.
    pub waiting: Count,
}

impl ThreadStatus {
    /// The status of a conversation that has not begun.
    pub fn absent() -> Self {
        Self {
            has_active_session: false,
            status: "absent".to_owned(),
            sitting: None,
            turn_count: Count(0),
            waiting: Count(0),
        }
    }
}

impl From<TalkStanding> for ThreadStatus {
    fn from(standing: TalkStanding) -> Self {
        let sitting = standing.talk.sitting.as_ref();
        Self {
            has_active_session: sitting.is_some(),
            status: standing.liveness.as_str().to_owned(),
            sitting: sitting.map(|open| Count(open.number)),
            turn_count: Count(sitting.map_or(0, |open| open.turns)),
            waiting: Count(standing.talk.queue.len() as u64),
        }
    }
}

/// The inner state of a conversation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadState {
    pub thread_id: String,
    pub sequence: Count,
    /// The fields that turns carry on, without the messages.
    pub state: Raw,
}

/// How to end a sitting. All of it may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"feedback": "positive"}))]
pub struct EndRequest {
    /// Whether the sitting helped. Left out: no rating.
    pub feedback: Option<Label>,
    pub memory_mode: Option<MemoryMode>,
    /// `api_end` unless said otherwise.
    pub source: Option<RatingSource>,
    pub modality: Option<Modality>,
    /// Keep nothing of it: no rating, no summary, no memory.
    pub discard: Option<bool>,
}

/// How a sitting ended.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct EndDone {
    pub finalized: bool,
    pub summary: Option<String>,
    pub themes: Vec<String>,
    pub mood_opened: Option<String>,
    pub mood_closed: Option<String>,
    pub turn_count: u64,
    pub open_loops: Vec<String>,
    pub resolved_threads: Vec<String>,
    /// Why the sitting is not finalized, or what was left out.
    pub detail: Option<String>,
}

impl EndDone {
    pub fn nothing() -> Self {
        Self { detail: Some("there is no open sitting to end".to_owned()), ..Self::default() }
    }
}

impl EndDone {
    /// The end of a sitting that the caller discarded.
    #[must_use]
    pub fn discarded(mut self) -> Self {
        if self.finalized {
            self.detail = Some("the sitting was discarded, as asked".to_owned());
        }
        self
    }
}

/// A rating of the sitting that ended last.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"feedback": "negative", "comment": "The answers are too long"}))]
pub struct RateRequest {
    pub feedback: Label,
    /// Words for feedback, with `positive` or `negative`. They are stored as feedback of their own; the rating has no
    /// words.
    #[schema(max_length = 4000)]
    pub comment: Option<String>,
    pub memory_mode: Option<MemoryMode>,
    pub source: Option<RatingSource>,
    pub modality: Option<Modality>,
}

/// Whether the rating was stored: only the first rating of a sitting is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RateDone {
    pub recorded: bool,
    /// The outcome of the comment. The rating is stored in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_up: Option<CaptureDone>,
}

params! {
    /// A page of conversations.
    pub struct ThreadsQuery {
        limit: usize = PageLimit::at_most(THREADS_MAX, THREADS_DEFAULT),
        /// A `next_cursor` of this list.
        after as "cursor": Option<ListCursor> =
            text().parsed("must be a `next_cursor` of this list", ListCursor::parse),
    }
}

params! {
    /// How much of a history.
    pub struct HistoryQuery {
        /// How many of the newest messages.
        limit: usize = page_limit(),
    }
}
