//! What models that stand in for real ones have in common.

use futures_util::future::BoxFuture;
use sederunt_agents::model::{Error, ModelReply, StopReason, Usage};

/// A model in the middle of its reply.
pub type Saying<'a> = BoxFuture<'a, Result<ModelReply, Error>>;

/// A reply of nothing but words.
pub fn spoken(text: &str) -> ModelReply {
    ModelReply {
        text: text.to_owned(),
        thinking: String::new(),
        calls: Vec::new(),
        bad_calls: Vec::new(),
        usage: Usage::default(),
        stop: StopReason::End,
    }
}
