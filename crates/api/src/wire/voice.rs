//! Spoken conversations on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::talk::MemoryMode;
use super::thread::Label;
use super::{Count, Raw};

/// Where a spoken conversation takes place.
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

/// What a realtime model is told.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct VoiceSession {
    pub thread_id: String,
    pub instructions: String,
    pub tools: Raw,
    /// How the person wants to be talked to; empty in incognito.
    pub memory_text: String,
    /// A short-lived secret of the realtime provider; null where none is set up, or none was given.
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
    /// By which a repeat is known.
    #[schema(min_length = 1, max_length = 190)]
    pub external_id: String,
}

/// A spoken turn that was written down.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct VoiceTurnDone {
    pub sequence: Count,
    /// It had been written down before.
    pub repeated: bool,
}

/// A tool that the realtime model wants.
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

/// What a tool answered.
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
