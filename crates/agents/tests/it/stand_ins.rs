//! What models that stand in for real ones have in common.

use futures_util::future::BoxFuture;
use sederunt_agents::model::{Error, Reply, Stop, Usage};

/// A model in the middle of its reply.
pub type Saying<'a> = BoxFuture<'a, Result<Reply, Error>>;

/// A reply of nothing but words.
pub fn spoken(text: &str) -> Reply {
    Reply {
        text: text.to_owned(),
        thinking: String::new(),
        calls: Vec::new(),
        bad_calls: Vec::new(),
        usage: Usage::default(),
        stop: Stop::End,
    }
}
