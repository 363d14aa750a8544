//! Tools of an MCP server, over a child process or over HTTP.
//!
//! A server is declared in the configuration, never by API. It is started when it is first needed, asked for its
//! tools, and started again by the next call when it went away; a call that was under way then fails as
//! [`Error::CutShort`], since it may have acted. A child sees only the environment that the configuration gives it,
//! its standard error is discarded, and it is ended when the [`Server`] is dropped. HTTP servers pass the guard of
//! [`crate::outbound`].
//!
//! Each call carries, in `_meta`, `sederunt/idempotency_key`, `sederunt/session_id` and, once a person has approved
//! it, `sederunt/confirmed`. A result whose JSON says `"requires_confirmation": true` has not acted.

mod dial;
mod elicitation;
mod names;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, RequestMetaObject};
use sederunt_core::json::Json;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::elicitation::CallInput;
use super::http::{Secrets, wish_for_confirmation};
use super::{BadTool, CallContext, Error, Outcome, SentSecrets, Tool, ToolCall, ToolSpec};
use crate::limits;
use crate::outbound::Outbound;
use dial::{Dial, Line};
pub use names::offered;

/// The name in `_meta` under which a call carries its idempotency key. Sederunt's own MCP server reads it too.
pub const IDEMPOTENCY_KEY: &str = "sederunt/idempotency_key";

/// A server as it is configured. Values may hold `${NAME}` for a secret.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The prefix of its tools' names.
    pub name: String,
    pub transport: Transport,
    /// How long it may take to start and introduce itself.
    pub start_max: Duration,
}

impl Settings {
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self { name: name.into(), transport, start_max: limits::MCP_START_MAX }
    }
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum Transport {
    /// A child process that speaks on its standard streams. `env` is all it sees of the environment.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)> },
    /// Streamable HTTP.
    Http { url: String, headers: Vec<(String, String)> },
}

/// One MCP server.
#[derive(Debug)]
pub struct Server {
    name: String,
    dial: Dial,
    start_max: Duration,
    /// The secrets that its configuration fills in: it knows them, and may repeat them.
    sent: SentSecrets,
    line: Mutex<Option<Arc<Line>>>,
}

impl Server {
    /// A server that has not been started yet.
    pub fn new(settings: Settings, secrets: &Secrets, outbound: &Outbound) -> Result<Arc<Self>, BadTool> {
        let Settings { name, transport, start_max } = settings;
        let filled_in: Vec<&str> = match &transport {
            Transport::Stdio { env, .. } => env.iter().map(|(_, value)| value.as_str()).collect(),
            Transport::Http { headers, .. } => headers.iter().map(|(_, value)| value.as_str()).collect(),
        };
        let sent = SentSecrets::named_in(filled_in, secrets);
        let dial = Dial::new(&name, transport, secrets, outbound)?;
        Ok(Arc::new(Self { name, dial, start_max, sent, line: Mutex::default() }))
    }

    /// Its tools, named `server__tool`.
    pub async fn tools(self: &Arc<Self>) -> Result<Vec<Arc<dyn Tool>>, Error> {
        let line = self.line(false).await?;
        let listed = timeout(self.start_max, line.list_all_tools()).await;
        let listed = listed.map_err(|_| Error::TimedOut { after: self.start_max })?;
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return Err(self.failure(&line, &error).await),
        };
        check_count(listed.len())?;
        let tool = |tool: rmcp::model::Tool| {
            let description = self.sent.hidden_in(tool.description.as_deref().unwrap_or_default());
            let schema =
                Json::of(&*tool.input_schema).map_err(|_| Error::Malformed { what: "a tool's schema" })?;
            let spec = ToolSpec {
                name: offered(&self.name, &tool.name),
                description: described(&description),
                schema: self.sent.hidden_in_schema(schema)?,
            };
            Ok(Arc::new(McpTool { server: Arc::clone(self), name: tool.name.into_owned(), spec })
                as Arc<dyn Tool>)
        };
        listed.into_iter().map(tool).collect()
    }

    /// The open connection, or a new one. Only one is opened at a time. On one that can ask, no call was given up before it
    /// was answered.
    async fn line(&self, can_ask: bool) -> Result<Arc<Line>, Error> {
        let mut line = self.line.lock().await;
        let is_fit = |line: &&Arc<Line>| {
            let is_dead = line.is_closed() || line.is_transport_closed();
            let is_doubtful = can_ask && line.service().calls.has_stray();
            !is_dead && !is_doubtful
        };
        if let Some(open) = line.as_ref().filter(is_fit) {
            return Ok(Arc::clone(open));
        }
        let opened = timeout(self.start_max, self.dial.open()).await;
        let opened = Arc::new(opened.map_err(|_| Error::TimedOut { after: self.start_max })??);
        *line = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The meaning of an error; a broken connection is dropped, so that the next call opens another.
    async fn failure(&self, broken: &Arc<Line>, error: &ServiceError) -> Error {
        match error {
            ServiceError::TransportClosed
            | ServiceError::TransportSend(_)
            | ServiceError::Cancelled { .. } => {
                let mut line = self.line.lock().await;
                if line.as_ref().is_some_and(|line| Arc::ptr_eq(line, broken)) {
                    *line = None;
                }
                Error::CutShort
            }
            ServiceError::Timeout { timeout } => Error::TimedOut { after: *timeout },
            _ => Error::Malformed { what: "not an answer to the request" },
        }
    }

    async fn call(
        &self,
        name: &str,
        call: &ToolCall,
        context: &CallContext,
        after: Duration,
    ) -> Result<Outcome, Error> {
        let (until, late) = (Instant::now() + after, Error::TimedOut { after });
        let line =
            timeout_at(until, self.line(context.asker.is_some())).await.map_err(|_| late.clone())??;
        let mut input = context.input.clone().unwrap_or_default();
        loop {
            let mut params = CallToolRequestParams::new(name.to_owned());
            params.meta = Some(meta(context));
            params.arguments = call.args.value().as_object().cloned();
            let CallInput { responses, state, rounds } = input;
            params.input_responses = (!responses.is_empty()).then_some(responses);
            params.request_state = state;
            let under_way = line.service().calls.begin(&call.name, context.asker.clone(), until);
            let mut sent = Box::pin(line.call_tool_once(params));
            let answer = match timeout_at(until, &mut sent).await {
                Ok(answer) => answer,
                // The server was declined just now, and may say what follows.
                Err(_) if under_way.has_asked() => {
                    timeout(limits::INPUT_DECLINED_GRACE, &mut sent).await.map_err(|_| late.clone())?
                }
                Err(_) => return Err(late),
            };
            match answer {
                Ok(CallToolResponse::Complete(result)) => {
                    under_way.answered();
                    return Ok(outcome(result));
                }
                Ok(CallToolResponse::InputRequired(asked)) => {
                    under_way.answered();
                    let rounds = rounds + 1;
                    if rounds > limits::INPUT_ROUNDS_MAX {
                        return Err(Error::InputEndless { limit: limits::INPUT_ROUNDS_MAX });
                    }
                    let asked = elicitation::read(asked, rounds)?;
                    if !asked.forms.is_empty() {
                        return Ok(Outcome::NeedsInput(Box::new(asked)));
                    }
                    if asked.responses.is_empty() {
                        // The server only wants to be called again.
                        sleep(limits::TOOL_TRY_WAIT * rounds).await;
                    }
                    input = asked.declined();
                }
                Ok(_) => {
                    under_way.answered();
                    return Err(Error::Malformed { what: "not an answer to the request" });
                }
                // The server answered with an error: that is a result.
                Err(ServiceError::McpError(error)) => {
                    under_way.answered();
                    let content = error.message.into_owned();
                    return Ok(Outcome::Done { content, is_error: true, cut: false });
                }
                Err(error) => return Err(self.failure(&line, &error).await),
            }
        }
    }
}

#[derive(Debug)]
struct McpTool {
    server: Arc<Server>,
    /// The server's own name for it.
    name: String,
    spec: ToolSpec,
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn sends(&self) -> &SentSecrets {
        &self.server.sent
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        self.call_within(call, context, limits::TOOL_CALL_MAX)
    }

    fn call_within<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
        after: Duration,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(self.server.call(&self.name, call, context, after))
    }
}

fn meta(context: &CallContext) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    meta.insert(IDEMPOTENCY_KEY.to_owned(), context.idempotency_key.clone().into());
    meta.insert("sederunt/session_id".to_owned(), context.session_id.as_str().into());
    if context.confirmed {
        meta.insert("sederunt/confirmed".to_owned(), true.into());
    }
    meta
}

fn outcome(result: CallToolResult) -> Outcome {
    let is_error = result.is_error.unwrap_or(false);
    let structured = result.structured_content.map(|value| value.to_string());
    let parts = result.content.into_iter().map(|block| match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(_) => "[an image]".to_owned(),
        ContentBlock::Audio(_) => "[a recording]".to_owned(),
        ContentBlock::Resource(_) | ContentBlock::ResourceLink(_) => "[a resource]".to_owned(),
        _ => "[something that is not text]".to_owned(),
    });
    let words = parts.collect::<Vec<_>>().join("\n");
    let wish = [structured.as_deref(), Some(&words)].into_iter().flatten().find_map(wish_for_confirmation);
    if let Some(summary) = wish.filter(|_| !is_error) {
        return Outcome::NeedsConfirmation { summary };
    }
    let content = if words.is_empty() { structured.unwrap_or_default() } else { words };
    Outcome::Done { content, is_error, cut: false }
}

/// Refuses a server that brings more tools than a model is offered.
fn check_count(tools: usize) -> Result<(), Error> {
    match tools > limits::MCP_TOOLS_MAX {
        true => Err(Error::Malformed { what: "too many tools" }),
        false => Ok(()),
    }
}

/// A tool's description as the model is given it; it is sent with every request.
fn described(description: &str) -> String {
    description.chars().take(sederunt_core::limits::DESCRIPTION_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_read_as_words_or_as_a_wish() {
        let done =
            |content: &str, is_error| Outcome::Done { content: content.to_owned(), is_error, cut: false };
        let wish = Outcome::NeedsConfirmation { summary: "Sure?".to_owned() };
        let asks = r#"{"requires_confirmation":true,"summary":"Sure?"}"#;
        let cases = [
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                done("a\nb", false),
            ),
            (json!({"content": [{"type": "text", "text": "no"}], "isError": true}), done("no", true)),
            (json!({"content": [], "structuredContent": {"n": 1}}), done(r#"{"n":1}"#, false)),
            (
                json!({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}),
                done("[an image]", false),
            ),
            (json!({"content": [{"type": "text", "text": asks}]}), wish),
            (json!({"content": [{"type": "text", "text": asks}], "isError": true}), done(asks, true)),
        ];
        for (result, expected) in cases {
            assert_eq!(outcome(serde_json::from_value(result.clone()).unwrap()), expected, "{result}");
        }
    }

    #[test]
    fn one_tool_too_many_is_refused_and_a_long_description_is_cut() {
        assert!(check_count(limits::MCP_TOOLS_MAX).is_ok());
        assert!(matches!(check_count(limits::MCP_TOOLS_MAX + 1), Err(Error::Malformed { .. })));
        let most = sederunt_core::limits::DESCRIPTION_CHARS_MAX;
        for chars in [most, most + 1] {
            assert_eq!(described(&"ä".repeat(chars)), "ä".repeat(most));
        }
    }
}
