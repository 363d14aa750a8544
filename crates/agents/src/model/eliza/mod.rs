//! A model that talks by rules: no key, no network, no chance. It exists so that every feature runs offline.
//!
//! In the manner of the old programme it is named for, it looks for the strongest keyword in what was said,
//! takes the sentence apart by a pattern, turns the pronouns round and answers with a part of it; which of
//! several answers it gives depends only on how often it has spoken. Beyond talk it knows two tricks:
//!
//! - `use NAME {"a": 1}` calls the tool of that name, where there is one, and the next reply reports its
//!   result;
//! - a wanted output schema is answered with a small JSON value that satisfies it (`minimal.rs`).
//!
//! `rules.rs` holds what it says, `talk.rs` how it finds it.

mod minimal;
mod rules;
mod talk;

pub use talk::from_memory;

use futures_util::future::BoxFuture;
use sederunt_core::json::Json;

use super::{Delta, DeltaSink, Error, Message, Model, ModelReply, Request, StopReason, ToolCall, Usage};
use crate::context::{estimate, untrusted};
use crate::talk::company::without_speaker;

/// Characters of a tool's result that are repeated.
const REPORT_CHARS_MAX: usize = 300;

/// The rule-based model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Eliza;

impl Model for Eliza {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, Error>> {
        Box::pin(async move {
            let (text, calls) = answer(request);
            for word in text.split_inclusive(' ') {
                heard(Delta::Text(word.to_owned()));
                tokio::task::yield_now().await;
            }
            let usage = Usage {
                input_tokens: estimate::request(request) as u64,
                output_tokens: estimate::tokens(&text) as u64,
                ..Usage::default()
            };
            let stop = if calls.is_empty() { StopReason::End } else { StopReason::Calls };
            Ok(ModelReply { text, thinking: String::new(), calls, bad_calls: Vec::new(), usage, stop })
        })
    }
}

fn answer(request: &Request) -> (String, Vec<ToolCall>) {
    let spoken = request.replies();
    let words = match request.messages.last() {
        Some(Message::ToolResult { name, content, is_error, .. }) => {
            let content: String = untrusted::strip_tags(content).chars().take(REPORT_CHARS_MAX).collect();
            let verb = if *is_error { "failed" } else { "answered" };
            format!("{name} {verb}: {}", content.trim())
        }
        Some(Message::User { text }) => {
            let said = untrusted::without_blocks(text);
            let said = without_speaker(&said);
            if let Some(call) = wish(said, request) {
                return (format!("I will use {}.", call.name), vec![call]);
            }
            talk::reply(said, spoken)
        }
        Some(Message::Assistant { .. }) | None => talk::reply("", spoken),
    };
    match &request.output_schema {
        Some(schema) => (minimal::value(&schema.value(), &words).to_string(), Vec::new()),
        None => (words, Vec::new()),
    }
}

/// The call that the user spells out.
fn wish(said: &str, request: &Request) -> Option<ToolCall> {
    let (verb, rest) = said.trim().split_once(char::is_whitespace)?;
    if !verb.eq_ignore_ascii_case("use") {
        return None;
    }
    let (name, args) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), "{}"));
    let tool = request.tools.iter().find(|tool| tool.name == name)?;
    let args = Json::parse(args.trim().as_bytes()).ok().filter(Json::is_object)?;
    Some(ToolCall { id: format!("call_{}_0", request.replies()), name: tool.name.clone(), args })
}

#[cfg(test)]
mod tests {
    use super::super::ToolSpec;
    use super::*;

    async fn ask(request: &Request) -> (ModelReply, Vec<Delta>) {
        let mut deltas = Vec::new();
        let reply = Eliza.run(request, &mut |delta| deltas.push(delta)).await.unwrap();
        (reply, deltas)
    }

    fn said(text: &str) -> Request {
        Request { messages: vec![Message::user(text)], ..Request::default() }
    }

    #[tokio::test]
    async fn the_answer_is_heard_word_by_word_and_is_the_same_each_time() {
        let request = said("Hello there");
        let (reply, deltas) = ask(&request).await;
        let heard: String = deltas
            .iter()
            .map(|delta| match delta {
                Delta::Text(text) | Delta::Thinking(text) => text.as_str(),
            })
            .collect();
        assert!(deltas.len() > 2);
        assert_eq!(heard, reply.text);
        assert_eq!(ask(&request).await, (reply.clone(), deltas));
        assert_eq!(reply.stop, StopReason::End);
        assert!(reply.usage.input_tokens > 0 && reply.usage.output_tokens > 0);
    }

    #[tokio::test]
    async fn a_tool_is_called_when_it_is_asked_for_by_name_and_its_result_is_reported() {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            schema: Json::parse(b"{}").unwrap(),
        };
        let with_tool = |text: &str| Request { tools: vec![spec("add")], ..said(text) };
        let cases = [
            (r#"use add {"a": 1}"#, Some(r#"{"a":1}"#)),
            ("Use add", Some("{}")),
            ("use subtract {}", None),
            ("use add [1]", None),
            ("add", None),
        ];
        for (text, expected) in cases {
            let (reply, _) = ask(&with_tool(text)).await;
            let args = reply.calls.first().map(|call| call.args.as_str());
            assert_eq!(args, expected, "{text}");
            assert_eq!(
                reply.stop,
                if expected.is_some() { StopReason::Calls } else { StopReason::End },
                "{text}"
            );
        }
        let mut request = with_tool("use add");
        request.messages.push(Message::ToolResult {
            call_id: "call_0_0".to_owned(),
            name: "add".to_owned(),
            content: untrusted::block(untrusted::BlockKind::ToolResult, "42"),
            is_error: false,
        });
        assert_eq!(ask(&request).await.0.text, "add answered: 42");
    }

    #[tokio::test]
    async fn a_schema_is_answered_with_a_value_that_satisfies_it() {
        let schema = br#"{"type":"object","required":["title","done"],
            "properties":{"title":{"type":"string","maxLength":10},"done":{"type":"boolean"}}}"#;
        let request = Request { output_schema: Some(Json::parse(schema).unwrap()), ..said("I am tired") };
        let value: serde_json::Value = serde_json::from_str(&ask(&request).await.0.text).unwrap();
        let schema = serde_json::from_slice(schema).unwrap();
        assert!(jsonschema::is_valid(&schema, &value), "{value}");
    }

    #[tokio::test]
    async fn a_task_is_answered_and_what_surrounds_it_is_not() {
        let input = crate::context::Input {
            task: "Sort the mail".to_owned(),
            memory: vec!["I dream of my mother".to_owned()],
            ..crate::context::Input::default()
        };
        let request = crate::context::build(&input, 2_000).unwrap().request;
        let (reply, _) = ask(&request).await;
        assert!(reply.text.starts_with("I have read the task."), "{}", reply.text);
    }
}
