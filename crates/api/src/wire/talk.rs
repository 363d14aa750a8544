//! Turns on the wire: messages and replies.

use sederunt_core::Error;
use sederunt_core::json::Json;
use sederunt_core::people::{ChannelChange, ChannelChangeKind, ChannelSender, Identity as CoreIdentity};
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
    /// What happens to a message that arrives while a turn runs.
    OnBusy = CoreOnBusy { Queue, Reject, Interrupt, Steer }
);

/// Where the messages may be stored. `persistent` is another word for `local`.
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

/// Messages for a stateless turn: the server stores nothing.
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
    /// The user whose memory to use, if the caller may act for others. Left out: that of the conversation.
    #[schema(max_length = 200)]
    pub user_id: Option<String>,
    /// Fixed with the first message.
    pub memory_mode: Option<MemoryMode>,
    pub response_model_tier: Option<Tier>,
    /// In a group: the message is said to the agent.
    pub mentioned: Option<bool>,
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

/// The crisis level of a message, in codes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Crisis {
    /// 0 to 3. From 2 on, the reply is the crisis response.
    pub level: u8,
    pub confidence: Confidence,
    pub reason_code: String,
    pub flags: Vec<String>,
}

/// The answer of a turn.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatResponse {
    pub response_text: String,
    /// `talk`, `memory`, `exercise`, `closing` or `crisis`; `confirmation` if a person has to approve a tool call
    /// first: the reply then comes through the log; `kept` if nobody answers a message in a group.
    pub response_type: String,
    /// The approval that has to be decided first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    pub response_style: String,
    pub therapeutic_approach: Option<String>,
    /// `none`, or `suggest_end_session`. No message ends a sitting by itself.
    pub session_action: String,
    pub crisis: Crisis,
    pub diagnostics: Raw,
    /// The sequence of the answer; null where nothing is kept.
    pub sequence: Option<Count>,
    /// The turn was stopped; the reply is the text until then.
    pub stopped: bool,
}

/// A message for a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "Hello"}))]
pub struct MessageRequest {
    /// The message as text. Give either `text` or `content`.
    pub text: Option<String>,
    /// Parts: text, file or data.
    #[schema(value_type = Raw, required = false)]
    pub content: Option<Raw>,
    /// The message is said to the agent: it mentions the agent, answers it, or is a command. In a conversation with one
    /// person every message is; in a group one is not unless this says so.
    pub mentioned: Option<bool>,
    /// The thread of the conversation that it belongs to.
    #[serde(alias = "thread_id")]
    #[schema(min_length = 1, max_length = 200)]
    pub subthread_id: Option<String>,
    /// Who says it. Only for a channel's key, and only about accounts of its own platform.
    pub sender: Option<Sender>,
    /// It is no message, but something that happened to the conversation. Only for a channel's key.
    pub change: Option<Change>,
    /// Append it without starting a turn.
    pub append_only: Option<bool>,
    pub on_busy: Option<OnBusy>,
}

/// Who says a message, as a channel tells it. Somebody unknown becomes a guest with this account.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"platform": "telegram", "external_id": "42", "name": "Ada"}))]
pub struct Sender {
    /// The platform of the channel: the first part of its key's prefix.
    #[schema(min_length = 1, max_length = 200)]
    pub platform: String,
    /// The account on that platform; on Slack `team:user`.
    #[schema(min_length = 1, max_length = 200)]
    pub external_id: String,
    /// The name that the platform shows for it. It is other people's text.
    pub name: Option<String>,
    /// It is a bot: what it says starts no turn.
    #[serde(default)]
    pub is_bot: bool,
}

impl From<Sender> for ChannelSender {
    fn from(sender: Sender) -> Self {
        let identity = CoreIdentity { platform: sender.platform, external_id: sender.external_id };
        Self { identity, name: sender.name, is_bot: sender.is_bot }
    }
}

words!(
    /// What happened to a conversation.
    ChangeKind = ChannelChangeKind { Edit, Deletion, Join, Pin }
);

/// Something that happened to a conversation: the log gets an `external.event` with this `kind` and `of`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"kind": "edit", "of": 3}))]
pub struct Change {
    pub kind: ChangeKind,
    /// The sequence of the message that it is about; left out for a join.
    pub of: Option<u64>,
}

impl From<Change> for ChannelChange {
    fn from(change: Change) -> Self {
        Self { kind: change.kind.into(), of: change.of }
    }
}

impl MessageRequest {
    /// The content of a message, or of a change, which may have none.
    pub fn content(&self) -> Result<Json, Error> {
        match (&self.text, &self.content) {
            (Some(text), None) => text_part(text),
            (None, Some(content)) => Ok(content.0.clone()),
            (None, None) if self.change.is_some() => Ok(Json::stored("[]")),
            _ => Err(Error::invalid("text", "give either `text` or `content`")),
        }
    }
}

/// A message that was appended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MessageDone {
    pub session_id: String,
    /// The name of the message: its session and sequence.
    pub message_id: String,
    pub sequence: Count,
    /// A turn answers it.
    pub triggered: bool,
    /// What to tell the person at once: a code to link their account with, or that nobody answers them. The log does
    /// not hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// The reply, if the request waited for it.
    pub reply: Option<ChatResponse>,
}

/// The reason for a checkpoint.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "manual"}))]
pub struct CheckpointRequest {
    /// Only `manual`.
    pub reason: Option<String>,
}

/// The outcome of a checkpoint.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckpointDone {
    /// `false`: there were no new messages.
    pub ran: bool,
    pub events_read: Count,
    /// What was written: `candidates`, `description`, `working_memory`.
    pub wrote: Vec<String>,
}

/// The state of a conversation, rebuilt from its log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Replay {
    pub session_id: String,
    /// The last sequence that was taken into account.
    pub sequence: Count,
    pub state: Raw,
    /// Whether the stored state is the same; null for an earlier sequence.
    pub matches: Option<bool>,
}

params! {
    /// Whether to wait.
    pub struct WaitQuery {
        /// Wait for the reply, and answer with it.
        wait: bool = switch(),
    }
}

params! {
    /// How far to read.
    pub struct AtSequenceQuery {
        /// The state after this sequence. Left out: the newest.
        at_sequence | "atSequence": Option<u64> = number(),
    }
}
