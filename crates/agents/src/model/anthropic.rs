//! The messages API as Anthropic publishes it, streamed.
//!
//! Events carry their kind inside their data as well; `message_stop` ends them, and kinds that are not known
//! are passed over, as the format asks. The instructions are marked for the provider's cache. A wanted output
//! schema is a block of the system prompt, after the cached one: that works with every version and every
//! gateway.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::assembly::{Assembly, CallFragment};
use super::http::{BadSettings, Endpoint, KeyHeader, ProviderFailure};
use super::{
    DeltaSink, Error, Message, Model, ModelReply, Request, Settings, StopReason, Usage, schema_instruction,
};
use crate::limits;

const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// A model behind Anthropic's address, or one that speaks like it.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    model: String,
}

impl Anthropic {
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let endpoint = Endpoint::new(settings, "/v1/messages", KeyHeader::Named("x-api-key"))?;
        Ok(Self { endpoint, model: settings.model.clone() })
    }

    fn body(&self, request: &Request) -> Value {
        let mut system = Vec::new();
        if !request.instructions.is_empty() {
            let cached = json!({"type": "ephemeral"});
            system.push(json!({"type": "text", "text": request.instructions, "cache_control": cached}));
        }
        if let Some(schema) = &request.output_schema {
            system.push(json!({"type": "text", "text": schema_instruction(schema)}));
        }
        let mut body = json!({
            "model": self.model,
            "max_tokens": request.max_tokens.unwrap_or(limits::REPLY_TOKENS_DEFAULT),
            "messages": messages(&request.messages, request.tools.is_empty()),
            "stream": true,
        });
        if !system.is_empty() {
            body["system"] = system.into();
        }
        if !request.tools.is_empty() {
            let tool = |tool: &super::ToolSpec| {
                let super::ToolSpec { name, description, schema } = tool;
                json!({"name": name, "description": description, "input_schema": schema})
            };
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        body
    }

    async fn stream(&self, request: &Request, heard: DeltaSink<'_>) -> Result<ModelReply, Error> {
        let mut frames = self.endpoint.open(&[VERSION], &self.body(request)).await?;
        let mut assembly = Assembly::new(heard);
        let mut used = AnthropicUsage::default();
        let mut stop = None;
        loop {
            let frame = match frames.next().await {
                // A server that gave a stop reason has sent everything.
                Err(Error::CutShort) if stop.is_some() => break,
                frame => frame?,
            };
            let event: StreamEvent = serde_json::from_str(&frame.data)
                .map_err(|_| Error::Malformed { what: "an unreadable event" })?;
            match event {
                StreamEvent::MessageStart { message } => used.add(message.usage),
                StreamEvent::ContentBlockStart { index, content_block } => {
                    content_block.take(index, &mut assembly)?
                }
                StreamEvent::ContentBlockDelta { index, delta } => delta.take(index, &mut assembly)?,
                StreamEvent::MessageDelta { delta, usage } => {
                    used.add(usage.unwrap_or_default());
                    if let Some(reason) = delta.stop_reason {
                        stop = Some(stop_of(&reason));
                    }
                }
                StreamEvent::MessageStop => break,
                StreamEvent::Error { error } => return Err(error.as_error(None, None)),
                StreamEvent::Other => {}
            }
        }
        assembly.finish(stop.unwrap_or(StopReason::End), used.as_usage())
    }
}

impl Model for Anthropic {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, Error>> {
        Box::pin(self.stream(request, heard))
    }
}

/// The messages with alternating roles: neighbours of the same role become one, and empty ones, which the format
/// refuses, are left out. The format also refuses past calls in a request without tools: they are written as text.
fn messages(messages: &[Message], told: bool) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = blocks(message, told);
        match turns.last_mut() {
            Some((last, turn)) if *last == role => turn.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push((role, blocks)),
        }
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn blocks(message: &Message, told: bool) -> (&'static str, Vec<Value>) {
    let words = |text: &str| (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}));
    match message {
        Message::User { text } => ("user", words(text).into_iter().collect()),
        Message::Assistant { text, calls } => {
            let call = |call: &super::ToolCall| match told {
                true => {
                    json!({"type": "text", "text": format!("[called {} with {}]", call.name, call.args.as_str())})
                }
                false => {
                    json!({"type": "tool_use", "id": id(&call.id), "name": call.name, "input": call.args})
                }
            };
            ("assistant", words(text).into_iter().chain(calls.iter().map(call)).collect())
        }
        Message::ToolResult { name, content, .. } if told => {
            ("user", vec![json!({"type": "text", "text": format!("[{name} answered]\n{content}")})])
        }
        Message::ToolResult { call_id, content, is_error, .. } => {
            let mut block = json!({"type": "tool_result", "tool_use_id": id(call_id), "content": content});
            if *is_error {
                block["is_error"] = true.into();
            }
            ("user", vec![block])
        }
    }
}

/// A call's id in the characters that the format accepts: a session may have begun with another provider.
fn id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

fn stop_of(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::Calls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Refused,
        _ => StopReason::End,
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StreamEvent {
    MessageStart {
        message: MessageStart,
    },
    ContentBlockStart {
        index: u64,
        content_block: BlockStart,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    MessageDelta {
        delta: MessageEnd,
        usage: Option<AnthropicUsage>,
    },
    MessageStop,
    Error {
        error: ProviderFailure,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageStart {
    #[serde(default)]
    usage: AnthropicUsage,
}

#[derive(Deserialize)]
struct MessageEnd {
    stop_reason: Option<String>,
}

/// A block as it begins.
#[derive(Deserialize)]
struct BlockStart {
    r#type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    input: Option<Value>,
}

impl BlockStart {
    fn take(self, index: u64, assembly: &mut Assembly<'_>) -> Result<(), Error> {
        match self.r#type.as_str() {
            "text" => assembly.text(&self.text),
            "thinking" => assembly.thinking(&self.thinking),
            "tool_use" => {
                // Empty, and filled by the deltas that follow; some gateways send it whole instead.
                let whole =
                    self.input.filter(|input| input.as_object().is_some_and(|input| !input.is_empty()));
                let args = whole.map(|input| input.to_string()).unwrap_or_default();
                assembly.call(CallFragment {
                    index: Some(index),
                    id: &self.id,
                    name: &self.name,
                    args: &args,
                })
            }
            _ => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Other,
}

impl BlockDelta {
    fn take(self, index: u64, assembly: &mut Assembly<'_>) -> Result<(), Error> {
        match self {
            Self::TextDelta { text } => assembly.text(&text),
            Self::ThinkingDelta { thinking } => assembly.thinking(&thinking),
            Self::InputJsonDelta { partial_json } => assembly.call(CallFragment {
                index: Some(index),
                args: &partial_json,
                ..CallFragment::default()
            }),
            Self::Other => Ok(()),
        }
    }
}

/// Counts as the format gives them: running totals, and the cached parts beside the rest.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl AnthropicUsage {
    fn add(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
    }

    fn as_usage(&self) -> Usage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        Usage {
            input_tokens: self.input_tokens.unwrap_or(0).saturating_add(cached).saturating_add(written),
            output_tokens: self.output_tokens.unwrap_or(0),
            cached_tokens: cached,
            cost_micros: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::json::Json;

    use super::super::{ToolCall, ToolSpec};
    use super::*;

    #[test]
    fn a_request_is_written_as_published() {
        let model = Anthropic::new(&Settings::new("http://127.0.0.1:1", None, "m")).unwrap();
        let args = Json::parse(br#"{"n":1}"#).unwrap();
        let request = Request {
            instructions: "Be brief.".to_owned(),
            messages: vec![
                Message::user("Context"),
                Message::user("Hi"),
                Message::Assistant {
                    text: " ".to_owned(),
                    calls: vec![ToolCall { id: "c.1".to_owned(), name: "add".to_owned(), args }],
                },
                Message::ToolResult {
                    call_id: "c.1".to_owned(),
                    name: "add".to_owned(),
                    content: "no".to_owned(),
                    is_error: true,
                },
                Message::user("and?"),
            ],
            tools: vec![ToolSpec {
                name: "add".to_owned(),
                description: "Adds".to_owned(),
                schema: Json::parse(br#"{"type":"object"}"#).unwrap(),
            }],
            output_schema: None,
            max_tokens: None,
            replies_cut: 0,
        };
        let expected = json!({
            "model": "m",
            "max_tokens": limits::REPLY_TOKENS_DEFAULT,
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Context"}, {"type": "text", "text": "Hi"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "c_1", "name": "add", "input": {"n": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c_1", "content": "no", "is_error": true},
                    {"type": "text", "text": "and?"}]},
            ],
            "stream": true,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "add", "description": "Adds", "input_schema": {"type": "object"}}],
        });
        assert_eq!(model.body(&request), expected);
    }

    #[test]
    fn without_tools_earlier_calls_are_told_in_words() {
        let args = Json::empty_object();
        let call = ToolCall { id: "c".to_owned(), name: "add".to_owned(), args };
        let result = Message::ToolResult {
            call_id: "c".to_owned(),
            name: "add".to_owned(),
            content: "3".to_owned(),
            is_error: false,
        };
        let said = messages(&[Message::Assistant { text: String::new(), calls: vec![call] }, result], true);
        let words =
            |role: &str, text: &str| json!({"role": role, "content": [{"type": "text", "text": text}]});
        assert_eq!(said, [words("assistant", "[called add with {}]"), words("user", "[add answered]\n3")]);
    }

    #[test]
    fn a_wanted_schema_stands_behind_the_cached_part() {
        let model = Anthropic::new(&Settings::new("http://127.0.0.1:1", None, "m")).unwrap();
        let schema = Some(Json::parse(br#"{"type":"string"}"#).unwrap());
        let body = model.body(&Request {
            instructions: "x".to_owned(),
            output_schema: schema,
            ..Request::default()
        });
        assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
        assert!(body["system"][1]["text"].as_str().unwrap().ends_with(r#"{"type":"string"}"#));
        assert_eq!(body["system"][1]["cache_control"], Value::Null);
    }
}
