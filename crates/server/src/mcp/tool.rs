//! A tool: what is shown of it, and what it does.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use rmcp::model::{Tool as Shown, ToolAnnotations};
use sederunt_core::access::Actor;
use sederunt_core::engine::Engine;
use sederunt_core::store::IdemKey;
use sederunt_core::{Error, strict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{schema, tasks};
use crate::http::App;
use crate::http::auth::Caller;

pub type Answer<'a> = BoxFuture<'a, Result<Value, Error>>;

/// One tool.
pub struct Tool {
    pub shown: Shown,
    does: for<'a> fn(Asked<'a>) -> Answer<'a>,
}

/// All of them, in the order in which they are listed.
pub fn all() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| tasks::tools().into());
    &TOOLS
}

pub fn find(name: &str) -> Option<&'static Tool> {
    all().iter().find(|tool| tool.shown.name == name)
}

impl Tool {
    pub fn call<'a>(&self, asked: Asked<'a>) -> Answer<'a> {
        (self.does)(asked)
    }
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Adds something each time.
    Adds,
}

/// A tool on its way: `Draft::new(…)`, what it [`takes`](Draft::takes), what it [`does`](Draft::does).
pub struct Draft(Shown);

impl Draft {
    pub fn new(name: &'static str, title: &str, description: &'static str, effect: Effect) -> Self {
        // None of them removes anything or reaches beyond this server.
        let hints = ToolAnnotations::with_title(title).destructive(false).open_world(false);
        let hints = match effect {
            Effect::Reads => hints.read_only(true).idempotent(true),
            Effect::Adds => hints.read_only(false).idempotent(false),
        };
        Self(Shown::new(name, description, Arc::default()).with_title(title).with_annotations(hints))
    }

    /// Says what the arguments are.
    pub fn takes<A: ToSchema>(mut self) -> Self {
        self.0.input_schema = Arc::new(schema::of::<A>());
        self
    }

    /// Says what the result is.
    pub fn gives<R: ToSchema>(self) -> Self {
        Self(self.0.with_raw_output_schema(Arc::new(schema::of_answer::<R>())))
    }

    pub fn does(self, does: for<'a> fn(Asked<'a>) -> Answer<'a>) -> Tool {
        Tool { shown: self.0, does }
    }
}

/// One call of a tool.
pub struct Asked<'a> {
    pub app: &'a App,
    pub caller: &'a Caller,
    /// The arguments.
    pub text: &'a str,
    /// What makes a repeat the same call.
    pub key: Option<IdemKey>,
}

impl Asked<'_> {
    pub fn engine(&self) -> &Engine {
        &self.app.engine
    }

    pub fn actor(&self) -> &Actor {
        &self.caller.actor
    }

    /// The arguments as the tool knows them, or which of them does not fit.
    pub fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Error> {
        strict::read(self.text)
    }
}

/// A result as JSON.
pub fn shown(result: impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(Error::internal)
}
