//! Feedback sessions: opened, added to, finalized.

use sederunt_core::engine::{FeedbackEnding, FeedbackOpening};
use sederunt_core::feedback::complaint;
use sederunt_core::feedback::session::{self, AdditionOutcome};
use sederunt_core::lesson::merge::MergeOutcome;
use sederunt_core::session::query::Page;
use sederunt_core::{Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FeedbackState, Signal, Speaker};
use crate::query::params;
use crate::wire::Count;
use crate::wire::lesson::Lesson;

/// A feedback session to be opened.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"feedback_event_id": "fb_0123456789ab", "signal": "down"}))]
pub struct OpenFeedback {
    #[serde(alias = "feedbackEventId")]
    #[schema(min_length = 1, max_length = 200)]
    pub feedback_event_id: String,
    /// The signal of the feedback event.
    pub signal: Signal,
    #[serde(alias = "initialContext")]
    #[schema(max_length = 4000)]
    pub initial_context: Option<String>,
}

/// A feedback session that was opened; `blocked` if what it was to be opened with carries a secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackOpened {
    #[schema(pattern = "^(open|finalized|blocked)$")]
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    pub message: String,
}

impl From<session::FeedbackSession> for FeedbackOpened {
    fn from(opened: session::FeedbackSession) -> Self {
        let seconds = opened.expires_at.as_micros().saturating_sub(opened.opened_at.as_micros()) / 1_000_000;
        Self {
            status: opened.state.as_str().to_owned(),
            session_id: Some(opened.id),
            expires_at: Some(opened.expires_at),
            message: format!("Add more with append_feedback_context; it closes after {seconds} s of silence"),
        }
    }
}

impl From<FeedbackOpening> for FeedbackOpened {
    fn from(opened: FeedbackOpening) -> Self {
        match opened {
            FeedbackOpening::Open(session) => (*session).into(),
            FeedbackOpening::Blocked(kind) => Self {
                status: "blocked".to_owned(),
                session_id: None,
                expires_at: None,
                message: blocked(kind),
            },
        }
    }
}

fn blocked(kind: sederunt_core::feedback::secret::SecretKind) -> String {
    format!("it carries a secret ({}): leave that out; nothing was kept", kind.as_str())
}

/// A message for a feedback session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"message": "and it did not run the tests"}))]
pub struct AppendFeedback {
    /// Cut after 1,000 characters, which the answer says.
    pub message: String,
    pub role: Option<Speaker>,
}

/// The outcome of adding a message: `appended`, or why not: `not_found`, `closed`, `full`, `invalid`, `blocked`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackAppended {
    #[schema(pattern = "^(appended|not_found|closed|full|invalid|blocked)$")]
    pub status: String,
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_count: Option<Count>,
    /// When the session is finalized unless another message is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The end of the message was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl FeedbackAppended {
    pub fn of(id: &str, added: AdditionOutcome) -> Self {
        let refused = |status: &str, message: String| Self {
            status: status.to_owned(),
            session_id: id.to_owned(),
            message_count: None,
            expires_at: None,
            truncated: None,
            message: Some(message),
        };
        match added {
            AdditionOutcome::Appended { session, truncated } => Self {
                status: "appended".to_owned(),
                session_id: session.id,
                message_count: Some(Count(session.body.messages.len() as u64)),
                expires_at: Some(session.expires_at),
                truncated: Some(truncated),
                message: None,
            },
            AdditionOutcome::NotFound => refused("not_found", "there is no such feedback session".to_owned()),
            AdditionOutcome::Closed { at } => refused("closed", format!("it was finalized at {at}")),
            AdditionOutcome::Full => {
                refused("full", format!("it holds {} messages already", limits::FEEDBACK_MESSAGES_MAX))
            }
            AdditionOutcome::Invalid { message } => refused("invalid", message.to_owned()),
            AdditionOutcome::Blocked(kind) => refused("blocked", blocked(kind)),
        }
    }
}

/// A complaint in the words of feedback.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Complaint {
    /// `constraint`, `ignored-instruction`, `missed-expectation`, `omission`, `damage`, `dishonesty`, `performance`,
    /// `quality` or `general-frustration`.
    #[serde(rename = "type")]
    pub kind: String,
    pub detail: String,
    pub source: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<complaint::Complaint> for Complaint {
    fn from(one: complaint::Complaint) -> Self {
        Self { kind: one.kind.as_str().to_owned(), detail: one.detail, source: one.source, at: one.at }
    }
}

/// A message that was added.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackMessage {
    pub role: Speaker,
    pub text: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A feedback session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackSession {
    pub session_id: String,
    pub feedback_event_id: String,
    pub signal: Signal,
    pub status: FeedbackState,
    pub initial_context: Option<String>,
    /// All words of the person together.
    pub enriched_context: String,
    pub messages: Vec<FeedbackMessage>,
    pub message_count: Count,
    pub complaints: Vec<Complaint>,
    #[schema(value_type = String, format = DateTime)]
    pub opened_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finalized_at: Option<Timestamp>,
    /// `asked` or `silence`.
    pub reason: Option<String>,
    /// The lesson that was drawn from it.
    pub lesson_id: Option<String>,
}

impl From<session::FeedbackSession> for FeedbackSession {
    fn from(one: session::FeedbackSession) -> Self {
        let enriched_context = one.enriched_context();
        let complaints = match &one.body.closed {
            Some(closed) => closed.complaints.clone(),
            None => one.complaints(),
        };
        let closed = one.body.closed;
        let message = |said: session::Addition| FeedbackMessage {
            role: said.role.into(),
            text: said.text,
            at: said.at,
        };
        Self {
            session_id: one.id,
            feedback_event_id: one.event,
            signal: one.signal.into(),
            status: one.state.into(),
            initial_context: one.body.initial_context,
            enriched_context,
            message_count: Count(one.body.messages.len() as u64),
            messages: one.body.messages.into_iter().map(message).collect(),
            complaints: complaints.into_iter().map(Into::into).collect(),
            opened_at: one.opened_at,
            expires_at: one.expires_at,
            finalized_at: closed.as_ref().map(|closed| closed.at),
            reason: closed.as_ref().map(|closed| closed.reason.as_str().to_owned()),
            lesson_id: closed.and_then(|closed| closed.lesson),
        }
    }
}

/// A page of feedback sessions, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackSessionList {
    pub items: Vec<FeedbackSession>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<session::FeedbackSession, i64>> for FeedbackSessionList {
    fn from(page: Page<session::FeedbackSession, i64>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// The outcome of finalizing a feedback session: `finalized`, `already_finalized` or `not_found`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackFinalized {
    #[schema(pattern = "^(finalized|already_finalized|not_found)$")]
    pub status: String,
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<FeedbackSession>,
    /// How long it was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_up_count: Option<Count>,
    /// The lesson; left out if there was nothing to learn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lesson: Option<Lesson>,
    /// Whether the lesson is `new`, came up `again`, or had `counted` this feedback before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
}

impl FeedbackFinalized {
    pub fn of(id: &str, done: FeedbackEnding) -> Self {
        let of = |status: &str, session: Option<session::FeedbackSession>| {
            let closed_at = session.as_ref().and_then(|one| one.body.closed.as_ref()).map(|closed| closed.at);
            let open_for =
                session.as_ref().zip(closed_at).map(|(one, at)| at.as_micros() - one.opened_at.as_micros());
            Self {
                status: status.to_owned(),
                session_id: id.to_owned(),
                duration_ms: open_for.map(|micros| Count(u64::try_from(micros / 1_000).unwrap_or(0))),
                follow_up_count: session.as_ref().map(|one| Count(one.body.messages.len() as u64)),
                session: session.map(Into::into),
                lesson: None,
                learned: None,
            }
        };
        match done {
            FeedbackEnding::Finalized { session, merged, .. } => {
                let learned = merged.as_ref().map(|merged| match merged {
                    MergeOutcome::New(_) => "new",
                    MergeOutcome::Again(_) => "again",
                    MergeOutcome::Counted(_) => "counted",
                });
                Self {
                    lesson: merged.map(|merged| merged.lesson().clone().into()),
                    learned: learned.map(str::to_owned),
                    ..of("finalized", Some(*session))
                }
            }
            FeedbackEnding::Already(session) => of("already_finalized", Some(*session)),
            FeedbackEnding::NotFound => of("not_found", None),
        }
    }
}

params! {
    /// Which feedback sessions.
    pub struct FeedbackSessionsQuery {
        state: Option<FeedbackState> = named_word(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}
