//! The tools of one run, each behind its checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{BadTool, CallContext, Error, Outcome, Schema, SentSecrets, Tool, ToolCall, ToolSpec};
use crate::limits;

/// Whether a person must approve every call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    Always,
    /// Only when the tool itself asks for it.
    WhenAsked,
}

/// Tools by name.
#[derive(Debug)]
pub struct Toolbox {
    tools: BTreeMap<String, Entry>,
    call_max: Duration,
    /// The secrets among the arguments of its calls.
    sent: SentSecrets,
}

#[derive(Debug)]
struct Entry {
    tool: Arc<dyn Tool>,
    schema: Schema,
    confirm: Confirm,
    call_max: Duration,
}

impl Default for Toolbox {
    fn default() -> Self {
        Self::new(limits::TOOL_CALL_MAX)
    }
}

impl Toolbox {
    /// An empty box whose calls may take at most `call_max`.
    pub fn new(call_max: Duration) -> Self {
        Self { tools: BTreeMap::new(), call_max, sent: SentSecrets::default() }
    }

    /// Hides secrets that are among the arguments in everything that comes back, beside those that a tool itself sends.
    #[must_use]
    pub fn hiding(self, sent: SentSecrets) -> Self {
        Self { sent, ..self }
    }

    pub fn add(&mut self, tool: Arc<dyn Tool>, confirm: Confirm) -> Result<(), BadTool> {
        self.add_within(tool, confirm, self.call_max)
    }

    /// Adds a tool with its own time limit, which cannot exceed the box's.
    pub fn add_within(
        &mut self,
        tool: Arc<dyn Tool>,
        confirm: Confirm,
        call_max: Duration,
    ) -> Result<(), BadTool> {
        let call_max = call_max.min(self.call_max);
        let spec = tool.spec();
        let name = spec.name.clone();
        if !is_name(&name) {
            return Err(BadTool::Name { name });
        }
        if self.tools.contains_key(&name) {
            return Err(BadTool::Taken { name });
        }
        let schema = Schema::parse(&name, &spec.schema)?;
        self.tools.insert(name, Entry { tool, schema, confirm, call_max });
        Ok(())
    }

    /// Adds a tool that keeps its own time, which may exceed the box's; `call_max` is a backstop.
    pub fn add_patient(&mut self, tool: Arc<dyn Tool>, call_max: Duration) -> Result<(), BadTool> {
        let own = std::mem::replace(&mut self.call_max, call_max);
        let added = self.add(tool, Confirm::WhenAsked);
        self.call_max = own;
        added
    }

    /// The tools as a model is told of them, always in the same order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|entry| entry.tool.spec().clone()).collect()
    }

    /// The tool of this name as a model is told of it.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.get(name).map(|entry| entry.tool.spec())
    }

    /// Whether a call that another worker began can be made again: see [`Tool::finds_again`].
    pub fn finds_again(&self, call: &ToolCall) -> bool {
        self.tools.get(&call.name).is_some_and(|entry| entry.tool.finds_again())
    }

    /// The question to a person before this call may be begun; `None` where no approval is needed, or where the call
    /// could not be made anyway.
    pub fn asks_first(&self, call: &ToolCall) -> Option<String> {
        let entry = self.tools.get(&call.name).filter(|entry| entry.confirm == Confirm::Always)?;
        let fits = call.args.len() <= limits::ARGUMENT_BYTES_MAX
            && entry.schema.problems(&call.args.value()).is_empty();
        fits.then(|| leave_for(call))
    }

    /// Calls a tool, if the call is valid and needs no approval first.
    pub async fn call(&self, call: &ToolCall, context: &CallContext) -> Result<Outcome, Error> {
        let entry = self.tools.get(&call.name).ok_or_else(|| Error::Unknown { name: call.name.clone() })?;
        let sent = entry.tool.sends().and(&self.sent);
        let outcome = Self::call_entry(entry, call, context, &sent).await;
        let outcome = outcome.and_then(|outcome| sent.hidden_in_outcome(outcome));
        outcome.map(within_bounds).map_err(|error| sent.hidden_in_error(error))
    }

    async fn call_entry(
        entry: &Entry,
        call: &ToolCall,
        context: &CallContext,
        sent: &SentSecrets,
    ) -> Result<Outcome, Error> {
        if call.args.len() > limits::ARGUMENT_BYTES_MAX {
            return Err(Error::ArgumentsTooLarge { limit: limits::ARGUMENT_BYTES_MAX });
        }
        let problems = entry.schema.problems(&call.args.value());
        if !problems.is_empty() {
            return Err(Error::BadArguments { name: call.name.clone(), problems });
        }
        if entry.confirm == Confirm::Always && !context.confirmed {
            return Ok(Outcome::NeedsConfirmation { summary: leave_for(call) });
        }
        let asker = context.asker.clone().map(|asker| sent.hidden_from(asker));
        let context = CallContext { asker, ..context.clone() };
        entry.tool.call_within(call, &context, entry.call_max).await
    }
}

fn leave_for(call: &ToolCall) -> String {
    format!("Call `{}`?", call.name)
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=limits::TOOL_NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_letter)
}

/// Cuts what is too long for a model and an event, and marks it.
fn within_bounds(outcome: Outcome) -> Outcome {
    let (mut content, is_error, cut) = match outcome {
        Outcome::Done { content, is_error, cut } => (content, is_error, cut),
        Outcome::NeedsConfirmation { summary } => {
            let summary = summary.chars().take(limits::SUMMARY_CHARS_MAX).collect();
            return Outcome::NeedsConfirmation { summary };
        }
        Outcome::NeedsInput(_) => return outcome,
    };
    let is_long = content.len() > limits::RESULT_BYTES_MAX;
    if is_long {
        content.truncate(content.floor_char_boundary(limits::RESULT_BYTES_MAX));
    }
    if is_long || cut {
        content.push_str("\n[The result was longer; the rest was cut.]");
    }
    Outcome::Done { content, is_error, cut: cut || is_long }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use sederunt_core::ids::{SessionId, TenantId};
    use sederunt_core::json::Json;

    use super::*;

    #[derive(Debug)]
    struct Fixed {
        spec: ToolSpec,
        /// `None` never answers.
        outcome: Option<Result<Outcome, Error>>,
    }

    impl Tool for Fixed {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }

        fn call<'a>(&'a self, _: &'a ToolCall, _: &'a CallContext) -> BoxFuture<'a, Result<Outcome, Error>> {
            match &self.outcome {
                Some(outcome) => Box::pin(std::future::ready(outcome.clone())),
                None => Box::pin(std::future::pending()),
            }
        }
    }

    fn tool(name: &str, schema: &str, outcome: Option<Result<Outcome, Error>>) -> Arc<dyn Tool> {
        let schema = Json::parse(schema.as_bytes()).unwrap();
        Arc::new(Fixed {
            spec: ToolSpec { name: name.to_owned(), description: String::new(), schema },
            outcome,
        })
    }

    fn context(confirmed: bool) -> CallContext {
        CallContext {
            tenant_id: TenantId::stored("t"),
            session_id: SessionId::stored("s"),
            idempotency_key: "k".to_owned(),
            confirmed,
            input: None,
            asker: None,
        }
    }

    fn call(name: &str, args: &str) -> ToolCall {
        ToolCall { id: "c".to_owned(), name: name.to_owned(), args: Json::stored(args) }
    }

    const SCHEMA: &str = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_checked_before_and_after() {
        let mut tools = Toolbox::default();
        let done = |text: &str| Some(Ok(Outcome::done(text)));
        let long = "é".repeat(limits::RESULT_BYTES_MAX / 2 + 1);
        tools.add(tool("add", SCHEMA, done("3")), Confirm::WhenAsked).unwrap();
        tools.add(tool("careful", SCHEMA, done("done")), Confirm::Always).unwrap();
        tools.add(tool("hangs", SCHEMA, None), Confirm::WhenAsked).unwrap();
        let short = Duration::from_millis(5);
        tools.add_within(tool("hasty", SCHEMA, None), Confirm::WhenAsked, short).unwrap();
        let over = limits::TOOL_CALL_MAX * 2;
        tools.add_within(tool("slow", SCHEMA, None), Confirm::WhenAsked, over).unwrap();
        tools.add(tool("long", SCHEMA, done(&long)), Confirm::WhenAsked).unwrap();
        let fits = r#"{"n":1}"#;
        let huge = format!(r#"{{"n":1,"x":"{}"}}"#, "x".repeat(limits::ARGUMENT_BYTES_MAX));

        let run = |name: &'static str, args: &str, confirmed| {
            let (call, context, tools) = (call(name, args), context(confirmed), &tools);
            async move { tools.call(&call, &context).await }
        };
        assert_eq!(run("add", fits, false).await, Ok(Outcome::done("3")));
        assert_eq!(run("none", fits, false).await, Err(Error::Unknown { name: "none".to_owned() }));
        assert!(matches!(run("add", "{}", false).await, Err(Error::BadArguments { .. })));
        assert!(matches!(run("add", &huge, false).await, Err(Error::ArgumentsTooLarge { .. })));
        assert!(matches!(run("careful", fits, false).await, Ok(Outcome::NeedsConfirmation { .. })));
        assert!(matches!(run("careful", "{}", false).await, Err(Error::BadArguments { .. })));
        assert_eq!(run("careful", fits, true).await, Ok(Outcome::done("done")));
        for (name, after) in
            [("hangs", limits::TOOL_CALL_MAX), ("hasty", short), ("slow", limits::TOOL_CALL_MAX)]
        {
            assert_eq!(run(name, fits, false).await, Err(Error::TimedOut { after }), "{name}");
        }
        let Ok(Outcome::Done { content, cut: true, .. }) = run("long", fits, false).await else {
            panic!("not cut");
        };
        assert!(content.ends_with("the rest was cut.]") && content.len() < limits::RESULT_BYTES_MAX + 100);
    }

    #[tokio::test]
    async fn what_comes_back_shows_no_secret_and_a_question_is_cut_behind_it() {
        let long = "x".repeat(limits::SUMMARY_CHARS_MAX - 3);
        let asks = Ok(Outcome::NeedsConfirmation { summary: format!("{long}hidden") });
        let mut sent = SentSecrets::default();
        sent.add("k", &"hidden".to_owned().into());
        let mut tools = Toolbox::default().hiding(sent);
        tools.add(tool("say", SCHEMA, Some(Ok(Outcome::done("it is hidden")))), Confirm::WhenAsked).unwrap();
        tools.add(tool("ask", SCHEMA, Some(asks)), Confirm::WhenAsked).unwrap();
        let said = tools.call(&call("say", r#"{"n":1}"#), &context(false)).await;
        assert_eq!(said, Ok(Outcome::done("it is [secret k]")));
        let asked = tools.call(&call("ask", r#"{"n":1}"#), &context(false)).await;
        assert_eq!(asked, Ok(Outcome::NeedsConfirmation { summary: format!("{long}[se") }));
        let Err(Error::BadArguments { problems, .. }) =
            tools.call(&call("say", r#"{"n":"hidden"}"#), &context(false)).await
        else {
            panic!("they fit")
        };
        assert!(!problems.join(" ").contains("hidden"), "{problems:?}");
    }

    #[test]
    fn a_tool_that_cannot_be_offered_is_refused() {
        let mut tools = Toolbox::default();
        tools.add(tool("a", SCHEMA, None), Confirm::WhenAsked).unwrap();
        let too_long = "x".repeat(limits::TOOL_NAME_CHARS_MAX + 1);
        for name in ["", "a.b", "ä", "a b", &too_long] {
            let refused = tools.add(tool(name, SCHEMA, None), Confirm::WhenAsked);
            assert_eq!(refused, Err(BadTool::Name { name: name.to_owned() }));
        }
        let twin = tools.add(tool("a", SCHEMA, None), Confirm::WhenAsked);
        assert_eq!(twin, Err(BadTool::Taken { name: "a".to_owned() }));
        let bad = tools.add(tool("b", "[]", None), Confirm::WhenAsked);
        assert!(matches!(bad, Err(BadTool::Schema { .. })));
        assert_eq!(tools.specs().len(), 1);
    }
}
