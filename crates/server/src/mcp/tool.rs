//! A tool: its description, and its function.

use std::sync::{Arc, LazyLock};

use futures_util::future::{BoxFuture, FutureExt, TryFutureExt, ready};
use rmcp::model::{Tool as Shown, ToolAnnotations};
use sederunt_api::wire::feedback::Markdown;
use sederunt_core::access::Actor;
use sederunt_core::engine::Engine;
use sederunt_core::store::IdemKey;
use sederunt_core::{Error, strict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{feedback, lessons, schema, tasks};
use crate::http::App;
use crate::http::auth::Caller;

pub type ToolFuture<'a> = BoxFuture<'a, Result<ToolOutput, Error>>;

/// A tool's result: for programs, and as text.
pub struct ToolOutput {
    pub value: Value,
    pub text: String,
}

/// One tool.
pub struct McpTool {
    pub shown: Shown,
    /// Other names that it accepts, which are not listed.
    aliases: Vec<&'static str>,
    does: Box<dyn for<'a> Fn(ToolCall<'a>) -> ToolFuture<'a> + Send + Sync>,
}

/// All tools, in the order in which they are listed.
pub fn all() -> &'static [McpTool] {
    static TOOLS: LazyLock<Vec<McpTool>> = LazyLock::new(|| {
        tasks::tools().into_iter().chain(feedback::tools()).chain(lessons::tools()).collect()
    });
    &TOOLS
}

pub fn find(name: &str) -> Option<&'static McpTool> {
    all().iter().find(|tool| tool.shown.name == name || tool.aliases.contains(&name))
}

impl McpTool {
    pub fn call<'a>(&self, asked: ToolCall<'a>) -> ToolFuture<'a> {
        (self.does)(asked)
    }

    /// Adds another name that it accepts.
    pub fn also_called(mut self, alias: &'static str) -> Self {
        self.aliases.push(alias);
        self
    }
}

/// What a tool changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Nothing but the count of what was shown.
    Counts,
    /// Adds something each time.
    Adds,
    /// Ends something, once.
    Settles,
}

/// A tool being built: `Draft::new(…)`, what it [`gives`](Draft::gives), what it [`does`](Draft::does).
pub struct Draft(Shown);

impl Draft {
    pub fn new(name: &'static str, title: &str, description: &'static str, effect: Effect) -> Self {
        // None of them removes anything or reaches beyond this server.
        let hints = ToolAnnotations::with_title(title).destructive(false).open_world(false);
        let hints = match effect {
            Effect::Reads => hints.read_only(true).idempotent(true),
            Effect::Counts | Effect::Adds => hints.read_only(false).idempotent(false),
            Effect::Settles => hints.read_only(false).idempotent(true),
        };
        Self(Shown::new(name, description, Arc::default()).with_title(title).with_annotations(hints))
    }

    /// Sets the type of the result.
    pub fn gives<R: ToSchema>(self) -> Self {
        Self(self.0.with_raw_output_schema(Arc::new(schema::of_answer::<R>())))
    }

    /// Sets the function. The type of its arguments is both shown to callers and read from their calls.
    pub fn does<A>(mut self, does: for<'a> fn(ToolCall<'a>, A) -> ToolFuture<'a>) -> McpTool
    where
        A: ToSchema + for<'de> Deserialize<'de> + Send + 'static,
    {
        self.0.input_schema = Arc::new(schema::of_arguments::<A>());
        McpTool {
            shown: self.0,
            aliases: Vec::new(),
            does: Box::new(move |asked| match strict::read(asked.text) {
                Ok(arguments) => does(asked, arguments).map_err(named_as_asked).boxed(),
                Err(error) => ready(Err(error)).boxed(),
            }),
        }
    }
}

/// Names fields in an error as tool callers write them: `feedbackEventId`, not `feedback_event_id`.
fn named_as_asked(error: Error) -> Error {
    match error {
        Error::Invalid { field, message } => Error::Invalid { field: camel(&field).into(), message },
        other => other,
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let initial = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &initial.into_iter().chain(letters).collect::<String>()
    })
}

/// One call of a tool.
pub struct ToolCall<'a> {
    pub app: &'a App,
    pub caller: &'a Caller,
    /// The arguments.
    pub text: &'a str,
    /// The idempotency key, by which a repeat is recognised.
    pub key: Option<IdemKey>,
}

impl ToolCall<'_> {
    pub fn engine(&self) -> &Engine {
        &self.app.engine
    }

    pub fn actor(&self) -> &Actor {
        &self.caller.actor
    }
}

/// A result as JSON.
pub fn shown(result: impl Serialize) -> Result<ToolOutput, Error> {
    let value = serde_json::to_value(result).map_err(Error::internal)?;
    Ok(ToolOutput { text: value.to_string(), value })
}

/// A page of Markdown as the result.
pub fn page(markdown: String) -> Result<ToolOutput, Error> {
    let text = markdown.clone();
    Ok(ToolOutput { text, ..shown(Markdown { markdown })? })
}

/// An error with the caller's name of a field instead of the product's.
pub fn renamed(error: Error, from: &str, to: &'static str) -> Error {
    match error {
        Error::Invalid { field, message } if field == from => Error::invalid(to, message),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_as_callers_write_them() {
        for (name, written) in [
            ("signal", "signal"),
            ("feedback_event_id", "feedbackEventId"),
            ("tags[0].a_b", "tags[0].aB"),
            ("", ""),
        ] {
            assert_eq!(camel(name), written);
        }
    }
}
