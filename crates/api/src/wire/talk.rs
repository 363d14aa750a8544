//! Turns on the wire: messages and replies.

use sederunt_core::Error;
use sederunt_core::json::Json;
use sederunt_core::session::MemoryMode as CoreMode;
use sederunt_core::talk::Tier as CoreTier;
use sederunt_core::talk::turn::OnBusy as CoreOnBusy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Confidence, Count, Raw, words};
use crate::query::params;

words!(
    /// Which model answers.
    Tier = CoreTier { Fast, Quality }
);
words!(
    /// What becomes of a message that comes while a turn runs.
    OnBusy = CoreOnBusy { Queue, Reject, Interrupt, Steer }
);

/// Where what is said may go. `persistent` is another word for `local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryMode {
    #[serde(alias = "persistent")]
    Local,
    Synced,
    Incognito,
}

impl From<MemoryMode> for CoreMode {
    fn from(mode: MemoryMode) -> Self {
        match mode {
            MemoryMode::Local => Self::Local,
            MemoryMode::Synced => Self::Synced,
            MemoryMode::Incognito => Self::Incognito,
        }
    }
}

/// Messages that are answered and forgotten.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"messages": [{"role": "user", "content": "Hello"}]}))]
pub struct TurnRequest {
    /// Oldest first; the last one is the user's.
    #[schema(min_items = 1, max_items = 500)]
    pub messages: Vec<TurnMessage>,
    /// Another model than the server's own.
    pub model: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnMessage {
    pub role: TurnRole,
    pub content: String,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnRole {
    User,
    Assistant,
}

/// A message in a conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"message": "Hello", "thread_id": "cli:main"}))]
pub struct ChatRequest {
    #[schema(min_length = 1)]
    pub message: String,
    /// The conversation; it is opened with its first message.
    #[schema(min_length = 1, max_length = 200)]
    pub thread_id: String,
    /// Whose memory to use, where the caller may say so; the conversation's own otherwise.
    #[schema(max_length = 200)]
    pub user_id: Option<String>,
    /// Fixed with the first message.
    pub memory_mode: Option<MemoryMode>,
    pub response_model_tier: Option<Tier>,
}

impl ChatRequest {
    /// The message as parts of a content.
    pub fn content(&self) -> Result<Json, Error> {
        text_part(&self.message)
    }
}

/// A plain text as a content; a blank one is refused.
pub fn text_part(text: &str) -> Result<Json, Error> {
    if text.trim().is_empty() {
        return Err(Error::invalid("message", "must say something"));
    }
    Json::of(&serde_json::json!([{"type": "text", "text": text}]))
}

/// How grave what was said is, in codes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Crisis {
    /// 0 to 3; from 2 on the crisis response has answered.
    pub level: u8,
    pub confidence: Confidence,
    pub reason_code: String,
    pub flags: Vec<String>,
}

/// The answer of a turn.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatResponse {
    pub response_text: String,
    /// `talk`, `memory`, `exercise`, `closing` or `crisis`; `confirmation` where somebody has to agree to a tool call
    /// before the turn goes on: its answer comes through the log.
    pub response_type: String,
    /// What waits for that decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    pub response_style: String,
    pub therapeutic_approach: Option<String>,
    /// `none`, or `suggest_end_session`: nothing that is said ends a sitting by itself.
    pub session_action: String,
    pub crisis: Crisis,
    pub diagnostics: Raw,
    /// The sequence of the answer; null where nothing is kept.
    pub sequence: Option<Count>,
    /// The turn was stopped; what was said until then is the answer.
    pub stopped: bool,
}

/// A message for a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "Hello"}))]
pub struct MessageRequest {
    /// What is said; this or `content`.
    pub text: Option<String>,
    /// Parts: text, file or data.
    #[schema(value_type = Raw, required = false)]
    pub content: Option<Raw>,
    /// The agent is meant; in a conversation of two it always is.
    pub mentioned: Option<bool>,
    /// Keep it and show it, and let nobody answer.
    pub append_only: Option<bool>,
    pub on_busy: Option<OnBusy>,
}

impl MessageRequest {
    pub fn content(&self) -> Result<Json, Error> {
        match (&self.text, &self.content) {
            (Some(text), None) => text_part(text),
            (None, Some(content)) => Ok(content.0.clone()),
            _ => Err(Error::invalid("text", "give either `text` or `content`")),
        }
    }
}

/// A message that was kept.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MessageDone {
    pub session_id: String,
    /// The name of the message: its session and sequence.
    pub message_id: String,
    pub sequence: Count,
    /// Somebody answers it.
    pub triggered: bool,
    /// The answer, where it was waited for.
    pub reply: Option<ChatResponse>,
}

/// Why to look back over a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "manual"}))]
pub struct CheckpointRequest {
    /// `manual` is the one that a caller may give.
    pub reason: Option<String>,
}

/// What looking back came to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckpointDone {
    /// Nothing new: nothing was done.
    pub ran: bool,
    pub events_read: Count,
    /// What was written: `candidates`, `description`, `working_memory`.
    pub wrote: Vec<String>,
}

/// The state of a conversation as its log tells it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Replay {
    pub session_id: String,
    /// The last sequence that was taken into account.
    pub sequence: Count,
    pub state: Raw,
    /// Whether the kept state is the same; null for a state of the past.
    pub matches: Option<bool>,
}

params! {
    /// Whether to wait.
    pub struct WaitQuery {
        /// Answer with the reply, not before it is there.
        wait: bool = switch(),
    }
}

params! {
    /// How far to read.
    pub struct AtSequenceQuery {
        /// The state after this sequence; the newest otherwise.
        at_sequence | "atSequence": Option<u64> = number(),
    }
}
