//! Spoken conversations on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::talk::MemoryMode;
use super::thread::Label;
use super::{Count, Raw};

/// The conversation in which to speak.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"thread_id": "web-1a2b3c4d"}))]
pub struct VoiceStart {
    #[schema(min_length = 1, max_length = 200)]
    pub thread_id: String,
    #[schema(max_length = 200)]
    pub user_id: Option<String>,
    pub memory_mode: Option<MemoryMode>,
}

/// Instructions and tools for a realtime model.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct VoiceSession {
    pub thread_id: String,
    pub instructions: String,
    pub tools: Raw,
    /// The rules for talking to this person; empty for incognito conversations.
    pub memory_text: String,
    /// A short-lived secret of the realtime provider; null if no provider is configured or it gave none.
    pub client_secret: Option<String>,
}

/// A finished spoken turn.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"thread_id": "web-1a2b3c4d", "user_text": "Hi", "assistant_text": "Hello.", "external_id": "t1"}))]
pub struct VoiceTurn {
    #[schema(min_length = 1, max_length = 200)]
    pub thread_id: String,
    #[schema(max_length = 200)]
    pub user_id: Option<String>,
    pub memory_mode: Option<MemoryMode>,
    #[schema(min_length = 1)]
    pub user_text: String,
    #[schema(min_length = 1)]
    pub assistant_text: String,
    /// Identifies the turn: a repeat with the same id changes nothing.
    #[schema(min_length = 1, max_length = 190)]
    pub external_id: String,
}

/// A spoken turn that was appended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct VoiceTurnDone {
    pub sequence: Count,
    /// The turn had been appended before.
    pub repeated: bool,
}

/// A tool call of the realtime model.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"thread_id": "web-1a2b3c4d", "name": "recall", "arguments": {"query": "garden"}}))]
pub struct VoiceToolCall {
    #[schema(min_length = 1, max_length = 200)]
    pub thread_id: String,
    #[schema(max_length = 200)]
    pub user_id: Option<String>,
    pub name: String,
    #[schema(value_type = Raw, required = false)]
    pub arguments: Option<Raw>,
}

/// The result of a tool.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct VoiceToolDone {
    pub result: Raw,
}

/// How a spoken sitting ends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"thread_id": "web-1a2b3c4d", "feedback": "positive"}))]
pub struct VoiceEnd {
    #[schema(min_length = 1, max_length = 200)]
    pub thread_id: String,
    pub feedback: Option<Label>,
    pub discard: Option<bool>,
}
