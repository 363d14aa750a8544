//! Chat completions as OpenAI publishes them and many others serve them, streamed.
//!
//! Frames are `data:` lines with one chunk each; `[DONE]` ends them. Servers differ in small things, and this
//! file knows the common ones: usage in a chunk of its own or with the last choice, thinking as
//! `reasoning_content` or `reasoning`, calls without an index, no `[DONE]` after a finish reason.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::assembly::{Assembly, CallFragment};
use super::http::{BadSettings, Endpoint, KeyHeader, ProviderFailure};
use super::{
    DeltaSink, Error, Message, Model, ModelReply, Request, Settings, StopReason, Usage, schema_instruction,
};

/// A model behind an OpenAI-compatible address.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
    /// The server is OpenAI itself, not one that is compatible with it.
    is_openai: bool,
}

impl OpenAi {
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let endpoint = Endpoint::new(settings, "/chat/completions", KeyHeader::Bearer)?;
        let is_openai = endpoint.url().host_str() == Some("api.openai.com");
        Ok(Self { endpoint, model: settings.model.clone(), is_openai })
    }

    fn body(&self, request: &Request) -> Value {
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        // Some compatible servers ignore `response_format`: there the prompt holds the schema as well.
        let told = request.output_schema.as_ref().filter(|_| !self.is_openai).map(schema_instruction);
        let instructions = [Some(request.instructions.as_str()), told.as_deref()];
        let instructions: Vec<&str> =
            instructions.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        if !instructions.is_empty() {
            messages.push(json!({"role": "system", "content": instructions.join("\n\n")}));
        }
        messages.extend(request.messages.iter().map(message));
        let mut body = json!({
            "model": self.model,
            "messages": messages,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if !request.tools.is_empty() {
            let tool = |tool: &super::ToolSpec| {
                json!({"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.schema,
                }})
            };
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        if let Some(schema) = &request.output_schema {
            body["response_format"] =
                json!({"type": "json_schema", "json_schema": {"name": "output", "schema": schema}});
        }
        if let Some(tokens) = request.max_tokens {
            // OpenAI's newer models refuse the old name, and others know only that.
            let limit = if self.is_openai { "max_completion_tokens" } else { "max_tokens" };
            body[limit] = tokens.into();
        }
        body
    }

    async fn stream(&self, request: &Request, heard: DeltaSink<'_>) -> Result<ModelReply, Error> {
        let mut frames = self.endpoint.open(&[], &self.body(request)).await?;
        let mut assembly = Assembly::new(heard);
        let mut usage = Usage::default();
        let mut stop = None;
        loop {
            let frame = match frames.next().await {
                // A server that gave a stop reason has sent everything.
                Err(Error::CutShort) if stop.is_some() => break,
                frame => frame?,
            };
            if frame.data == "[DONE]" {
                break;
            }
            let chunk: CompletionChunk = serde_json::from_str(&frame.data)
                .map_err(|_| Error::Malformed { what: "a chunk is not JSON" })?;
            if let Some(failure) = chunk.error {
                return Err(failure.as_error(None, None));
            }
            if let Some(used) = &chunk.usage {
                usage = used.as_usage();
            }
            let Some(choices) = chunk.choices else {
                match chunk.usage {
                    Some(_) => continue,
                    None => return Err(Error::Malformed { what: "a chunk without choices" }),
                }
            };
            for choice in choices {
                if let Some(reason) = choice.take(&mut assembly)? {
                    stop = Some(reason);
                }
            }
        }
        assembly.finish(stop.unwrap_or(StopReason::End), usage)
    }
}

impl Model for OpenAi {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, Error>> {
        Box::pin(self.stream(request, heard))
    }
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, calls } => {
            let call = |call: &super::ToolCall| {
                let function = json!({"name": call.name, "arguments": call.args.as_str()});
                json!({"id": call.id, "type": "function", "function": function})
            };
            let content = (!text.is_empty()).then_some(text);
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Message::ToolResult { call_id, content, is_error, .. } => {
            // The format cannot mark a failed call.
            let content = if *is_error { format!("Error: {content}") } else { content.clone() };
            json!({"role": "tool", "tool_call_id": call_id, "content": content})
        }
    }
}

#[derive(Deserialize)]
struct CompletionChunk {
    choices: Option<Vec<StreamChoice>>,
    usage: Option<OpenAiUsage>,
    error: Option<ProviderFailure>,
}

#[derive(Deserialize)]
struct StreamChoice {
    delta: Option<ChoiceDelta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChoiceDelta {
    content: Option<String>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<ToolCallDelta>>,
}

#[derive(Deserialize)]
struct ToolCallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

impl StreamChoice {
    /// Passes on the chunk's content; returns the stop reason, if it has one.
    fn take(self, assembly: &mut Assembly<'_>) -> Result<Option<StopReason>, Error> {
        let mut stop = self.finish_reason.as_deref().map(|reason| match reason {
            "tool_calls" | "function_call" => StopReason::Calls,
            "length" => StopReason::Length,
            "content_filter" => StopReason::Refused,
            _ => StopReason::End,
        });
        let Some(piece) = self.delta else { return Ok(stop) };
        if let Some(thinking) = piece.reasoning_content.or(piece.reasoning) {
            assembly.thinking(&thinking)?;
        }
        if let Some(text) = piece.content {
            assembly.text(&text)?;
        }
        if let Some(text) = piece.refusal.filter(|text| !text.is_empty()) {
            assembly.text(&text)?;
            stop = Some(StopReason::Refused);
        }
        for call in piece.tool_calls.unwrap_or_default() {
            let function = call.function.unwrap_or_default();
            assembly.call(CallFragment {
                index: call.index,
                id: call.id.as_deref().unwrap_or_default(),
                name: function.name.as_deref().unwrap_or_default(),
                args: function.arguments.as_deref().unwrap_or_default(),
            })?;
        }
        Ok(stop)
    }
}

#[derive(Deserialize)]
struct OpenAiUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptTokensDetails>,
}

#[derive(Deserialize)]
struct PromptTokensDetails {
    cached_tokens: Option<u64>,
}

impl OpenAiUsage {
    fn as_usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_tokens,
            output_tokens: self.completion_tokens,
            cached_tokens: self
                .prompt_tokens_details
                .as_ref()
                .and_then(|input| input.cached_tokens)
                .unwrap_or(0),
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
        let model = OpenAi::new(&Settings::new("http://127.0.0.1:1/v1", None, "m")).unwrap();
        let args = Json::parse(br#"{"n":1.50}"#).unwrap();
        let request = Request {
            instructions: "Be brief.".to_owned(),
            messages: vec![
                Message::user("Hi"),
                Message::Assistant {
                    text: String::new(),
                    calls: vec![ToolCall { id: "c1".to_owned(), name: "add".to_owned(), args }],
                },
                Message::ToolResult {
                    call_id: "c1".to_owned(),
                    name: "add".to_owned(),
                    content: "no".to_owned(),
                    is_error: true,
                },
            ],
            tools: vec![ToolSpec {
                name: "add".to_owned(),
                description: "Adds".to_owned(),
                schema: Json::parse(br#"{"type":"object"}"#).unwrap(),
            }],
            output_schema: Some(Json::parse(br#"{"type":"string"}"#).unwrap()),
            max_tokens: Some(9),
            replies_cut: 0,
        };
        let expected = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief.\n\nAnswer with one JSON value that satisfies this JSON Schema, and \
                    with nothing else:\n{\"type\":\"string\"}"},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"n\":1.50}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "Error: no"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function":
                {"name": "add", "description": "Adds", "parameters": {"type": "object"}}}],
            "response_format":
                {"type": "json_schema", "json_schema": {"name": "output", "schema": {"type": "string"}}},
            "max_tokens": 9,
        });
        assert_eq!(model.body(&request), expected);
    }

    #[test]
    fn openai_itself_gets_the_newer_name_of_the_limit_and_the_schema_once() {
        let model = OpenAi::new(&Settings::new("https://api.openai.com/v1", None, "m")).unwrap();
        let schema = Json::parse(br#"{"type":"string"}"#).unwrap();
        let request = Request { max_tokens: Some(9), output_schema: Some(schema), ..Request::default() };
        let body = model.body(&request);
        assert_eq!(body["max_completion_tokens"], 9);
        assert_eq!(body["response_format"]["json_schema"]["schema"], json!({"type": "string"}));
        assert_eq!(body["messages"], json!([]));
    }
}
