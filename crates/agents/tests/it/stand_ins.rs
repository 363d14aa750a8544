//! What models that stand in for real ones have in common.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use sederunt_agents::model::{
    Delta, DeltaSink, Error, Message, Model, ModelReply, Request, StopReason, Usage,
};

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

/// Says one thing, and remembers what it was told.
#[derive(Debug)]
pub struct Overheard {
    says: Result<&'static str, ()>,
    told: Mutex<Vec<Request>>,
}

impl Overheard {
    pub fn new(says: &'static str) -> Arc<Self> {
        Arc::new(Self { says: Ok(says), told: Mutex::default() })
    }

    pub fn broken() -> Arc<Self> {
        Arc::new(Self { says: Err(()), told: Mutex::default() })
    }

    /// What it was told to be.
    pub fn instructions(&self) -> String {
        self.told.lock().unwrap().iter().map(|request| request.instructions.clone()).collect()
    }

    /// Everything that it was told, request by request.
    pub fn requests(&self) -> Vec<Request> {
        self.told.lock().unwrap().clone()
    }

    /// What a person or a task has said to it, all in one.
    pub fn prompts(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        let text = |message: &Message| match message {
            Message::User { text } => text.clone(),
            _ => String::new(),
        };
        told.iter().map(|request| request.messages.iter().map(text).collect::<Vec<_>>().join("\n")).collect()
    }
}

impl Model for Overheard {
    fn run<'a>(&'a self, request: &'a Request, hear: DeltaSink<'a>) -> Saying<'a> {
        self.told.lock().unwrap().push(request.clone());
        Box::pin(async move {
            let says = self.says.map_err(|()| Error::Malformed { what: "nothing" })?;
            hear(Delta::Text(says.to_owned()));
            Ok(spoken(says))
        })
    }
}
