//! A model: a request goes in, deltas are heard while it answers, a reply comes out.
//!
//! This room owns the one trait that every model implements and the types that cross it. It refuses to keep state: a
//! request carries everything, so any node can go on where another one died. Dropping the future of [`Model::run`]
//! cancels the call and closes its connection. Nothing here prints a key or words of a conversation.
//!
//! [`openai`] and [`anthropic`] speak the wire; [`scripted`] replays a fixture; [`eliza`] talks by rules, with no key
//! and no network; [`choice`] opens one by its name, [`retry`] wraps any of them; [`price`] computes what a reply
//! cost. Two rooms do not talk: [`embed`] turns texts into vectors, [`realtime`] lets a browser speak with a provider
//! directly.

pub mod anthropic;
mod assembly;
pub mod choice;
pub mod eliza;
pub mod embed;
mod error;
mod http;
pub mod openai;
pub mod price;
pub mod realtime;
pub mod retry;
pub mod scripted;
mod sse;

use futures_util::future::BoxFuture;
use sederunt_core::json::Json;
use serde::{Deserialize, Serialize};

pub use error::{Error, Wait};
pub use http::{BadSettings, Settings};

/// A language model.
pub trait Model: Send + Sync + std::fmt::Debug {
    /// Answers a request. Pieces of the reply go to the listener as they come; the reply holds all of them.
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, Error>>;
}

/// The listener while a model speaks.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// Everything that a model is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The stable prefix: the same bytes from call to call, so that providers can cache it.
    pub instructions: String,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    /// The reply's text is to be one JSON value that satisfies this schema. The caller checks it.
    pub output_schema: Option<Json>,
    pub max_tokens: Option<u32>,
    /// Replies of the model that were cut from the front of `messages`.
    pub replies_cut: usize,
}

impl Request {
    /// How often the model has spoken before this request, cut replies included.
    pub fn replies(&self) -> usize {
        let kept =
            self.messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        self.replies_cut + kept
    }
}

/// What a model is told of a schema that its provider does not enforce.
fn schema_instruction(schema: &Json) -> String {
    format!(
        "Answer with one JSON value that satisfies this JSON Schema, and with nothing else:\n{}",
        schema.as_str()
    )
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    User { text: String },
    Assistant { text: String, calls: Vec<ToolCall> },
    ToolResult { call_id: String, name: String, content: String, is_error: bool },
}

impl Message {
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), calls: Vec::new() }
    }

    /// What the message says in words.
    pub fn text(&self) -> &str {
        match self {
            Self::User { text } | Self::Assistant { text, .. } => text,
            Self::ToolResult { content, .. } => content,
        }
    }
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Json,
}

/// A model wants a tool to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub args: Json,
}

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Thinking(String),
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReply {
    pub text: String,
    pub thinking: String,
    pub calls: Vec<ToolCall>,
    /// Calls that cannot be made as they are.
    pub bad_calls: Vec<BadCall>,
    pub usage: Usage,
    pub stop: StopReason,
}

/// A call with unreadable arguments. It is listed among the calls without arguments, and is answered with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCall {
    /// Its place among the calls.
    pub place: usize,
    /// What is wrong, in a sentence for the model.
    pub why: String,
}

/// The usage of one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The part of `input_tokens` that came from the provider's cache.
    pub cached_tokens: u64,
    /// In millionths of the currency of the price table; unknown without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// Why a model stopped speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    End,
    /// It waits for the results of its calls.
    Calls,
    /// It ran out of tokens; the text is cut.
    Length,
    /// It, or a filter of its provider, would not answer.
    Refused,
}
