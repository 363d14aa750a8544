//! What a log says of the steps so far: the transcript, what was used up, and the calls that nobody answered. Pure.

use std::sync::Arc;

use sederunt_core::event::Event;
use sederunt_core::json::Json;
use sederunt_core::library::task::RunLimits;

use crate::model::{Message, ToolCall, Usage};

/// A run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    pub messages: Vec<Message>,
    pub spent: Spent,
    /// Calls without a result, oldest first.
    pub open: Vec<Open>,
}

/// What a run has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Replies of the model.
    pub steps: u64,
    pub usage: Usage,
}

impl Spent {
    pub(crate) fn add(&mut self, usage: Usage) {
        self.steps += 1;
        let sum = &mut self.usage;
        sum.input_tokens += usage.input_tokens;
        sum.output_tokens += usage.output_tokens;
        sum.cached_tokens += usage.cached_tokens;
        if let Some(cost) = usage.cost_micros {
            *sum.cost_micros.get_or_insert(0) += cost;
        }
    }

    /// The limit that this has reached, where nothing may take more steps than so many.
    pub(crate) fn reached(&self, limits: &RunLimits, steps_max: u64) -> Option<&'static str> {
        let tokens = self.usage.input_tokens + self.usage.output_tokens;
        let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit);
        if over(limits.steps, self.steps) || self.steps >= steps_max {
            Some("steps")
        } else if over(limits.tokens, tokens) {
            Some("tokens")
        } else if over(limits.cost_micros, self.usage.cost_micros.unwrap_or(0)) {
            Some("cost_micros")
        } else {
            None
        }
    }
}

/// A call that has no result in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub call: ToolCall,
    /// Where it stands in the log: a model may give two calls one id and the same arguments.
    pub sequence: u64,
    /// It was begun: whether it acted is not known.
    pub begun: bool,
    /// The turn in which it was asked for.
    pub turn: Option<u64>,
}

impl Open {
    /// A call that an event asks for, and that nobody has begun.
    fn new(call: ToolCall, event: &Event) -> Self {
        Self { call, sequence: event.sequence, begun: false, turn: event.turn }
    }

    /// The calls of a reply that has just been put into the log as these events.
    pub(crate) fn of_reply(calls: &[ToolCall], noted: &[Arc<Event>]) -> Vec<Self> {
        let asked = noted.iter().filter(|event| event.kind.as_str() == "agent.tool_call");
        calls.iter().zip(asked).map(|(call, event)| Self::new(call.clone(), event)).collect()
    }
}

/// Reads a log, oldest event first.
pub(crate) fn read(events: &[Event]) -> Past {
    let mut past = Past::default();
    let mut step_of_last = None;
    for event in events {
        let metadata = event.metadata.as_ref().map(Json::value).unwrap_or_default();
        let word =
            |key: &str| metadata.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let step = metadata.get("step").and_then(serde_json::Value::as_u64);
        if let Some(usage) = metadata.get("usage").cloned()
            && let Ok(usage) = serde_json::from_value(usage)
        {
            past.spent.add(usage);
        }
        match event.kind.as_str() {
            "user.message" => {
                let text =
                    event.text().or_else(|| event.content.as_ref().map(|json| json.as_str().to_owned()));
                past.messages.push(Message::user(text.unwrap_or_default()));
            }
            "agent.message" => past.messages.push(Message::assistant(event.text().unwrap_or_default())),
            "agent.tool_call" => {
                let call =
                    ToolCall { id: word("tool_call_id"), name: word("tool_name"), args: args_of(event) };
                past.open.push(Open::new(call.clone(), event));
                // The calls of one reply belong to it.
                match past.messages.last_mut() {
                    Some(Message::Assistant { calls, .. }) if step == step_of_last => calls.push(call),
                    _ => past.messages.push(Message::Assistant { text: String::new(), calls: vec![call] }),
                }
            }
            "tool.invocation_started" => {
                let id = word("invocation_id");
                for open in past.open.iter_mut().filter(|open| open.call.id == id) {
                    open.begun = true;
                }
            }
            "agent.tool_result" => {
                let id = word("tool_call_id");
                // Calls of one id are answered in their order.
                if let Some(answered) = past.open.iter().position(|open| open.call.id == id) {
                    past.open.remove(answered);
                }
                past.messages.push(Message::ToolResult {
                    call_id: id,
                    name: word("tool_name"),
                    content: event.text().unwrap_or_default(),
                    is_error: metadata.get("is_error").and_then(serde_json::Value::as_bool).unwrap_or(false),
                });
            }
            "session.error" if word("code") == "output_invalid" => {
                past.messages.push(Message::user(unfit(&word("message"))));
            }
            _ => {}
        }
        if matches!(event.kind.as_str(), "agent.message" | "agent.tool_call") {
            step_of_last = step;
        }
    }
    past
}

/// What a model is told when its result does not keep the contract.
pub(crate) fn unfit(complaints: &str) -> String {
    format!(
        "[Your result does not fit what was asked for: {complaints}. Answer again with the whole result.]"
    )
}

fn args_of(event: &Event) -> Json {
    let parts: Vec<Json> = event.content.as_ref().and_then(|content| content.read().ok()).unwrap_or_default();
    parts
        .first()
        .and_then(|part| part.fields().into_iter().find(|(key, _)| key == "args"))
        .map_or_else(Json::empty_object, |(_, args)| args)
}

#[cfg(test)]
mod tests {
    use sederunt_core::event::EventType;
    use sederunt_core::{SessionId, Timestamp};

    use super::*;

    fn event(kind: &str, metadata: &str, content: &str) -> Event {
        let json = |text: &str| (!text.is_empty()).then(|| Json::parse(text.as_bytes()).unwrap());
        Event {
            session_id: SessionId::stored("s"),
            sequence: 1,
            kind: EventType::parse(kind).unwrap(),
            content: json(content),
            metadata: json(metadata),
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            at: Timestamp::default(),
        }
    }

    #[test]
    fn a_log_becomes_a_transcript_with_what_is_left_open() {
        let call = |id: &str| format!(r#"{{"tool_call_id":"{id}","tool_name":"t","step":1}}"#);
        let past = read(&[
            event("session.created", "{}", ""),
            event("user.message", "", r#"[{"type":"text","text":"hi"}]"#),
            event(
                "agent.message",
                r#"{"step":1,"usage":{"input_tokens":3,"output_tokens":2,"cached_tokens":0,"cost_micros":9}}"#,
                r#"[{"type":"text","text":"let me see"}]"#,
            ),
            event("agent.tool_call", &call("c1"), r#"[{"type":"tool-call","args":{"n":1.50}}]"#),
            event("agent.tool_call", &call("c2"), ""),
            event("agent.tool_call", &call("c3"), ""),
            event("tool.invocation_started", r#"{"invocation_id":"c1"}"#, ""),
            event(
                "agent.tool_result",
                r#"{"tool_call_id":"c1","tool_name":"t","is_error":true}"#,
                r#"[{"type":"text","text":"no"}]"#,
            ),
            event("tool.invocation_started", r#"{"invocation_id":"c2"}"#, ""),
        ]);
        assert_eq!(past.messages.len(), 3);
        let Message::Assistant { text, calls } = &past.messages[1] else { panic!("{past:?}") };
        assert_eq!((text.as_str(), calls.len(), calls[0].args.as_str()), ("let me see", 3, r#"{"n":1.50}"#));
        let open: Vec<(&str, bool)> =
            past.open.iter().map(|open| (open.call.id.as_str(), open.begun)).collect();
        assert_eq!(open, [("c2", true), ("c3", false)]);
        assert_eq!((past.spent.steps, past.spent.usage.cost_micros), (1, Some(9)));
    }

    #[test]
    fn of_two_calls_with_one_id_a_result_answers_the_first() {
        let call = r#"{"tool_call_id":"c1","tool_name":"t","step":1}"#;
        let at = |sequence, kind: &str, metadata: &str| Event { sequence, ..event(kind, metadata, "") };
        let past = read(&[
            at(1, "agent.tool_call", call),
            at(2, "agent.tool_call", call),
            at(3, "tool.invocation_started", r#"{"invocation_id":"c1"}"#),
            at(4, "agent.tool_result", call),
        ]);
        let open: Vec<(u64, bool)> = past.open.iter().map(|open| (open.sequence, open.begun)).collect();
        assert_eq!(open, [(2, true)], "the other has none, and may have been begun");
    }

    #[test]
    fn a_result_that_did_not_fit_is_told_to_whoever_goes_on() {
        let past =
            read(&[event("session.error", r#"{"code":"output_invalid","message":"n is missing"}"#, "")]);
        assert!(past.messages[0].text().contains("n is missing"));
        assert!(read(&[event("session.error", r#"{"code":"x","message":"y"}"#, "")]).messages.is_empty());
    }

    #[test]
    fn a_run_ends_at_the_first_limit_it_reaches() {
        let spent = |steps, input_tokens, cost| Spent {
            steps,
            usage: Usage { input_tokens, cost_micros: Some(cost), ..Default::default() },
        };
        let limits = RunLimits { steps: Some(3), tokens: Some(100), cost_micros: Some(50), wall_ms: None };
        for (spent, limit) in [
            (spent(2, 99, 49), None),
            (spent(3, 0, 0), Some("steps")),
            (spent(0, 100, 0), Some("tokens")),
            (spent(0, 0, 50), Some("cost_micros")),
        ] {
            assert_eq!(spent.reached(&limits, 200), limit, "{spent:?}");
        }
        assert_eq!(spent(7, 0, 0).reached(&RunLimits::default(), 7), Some("steps"));
    }
}
