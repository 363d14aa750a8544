//! Reads the steps so far from a log: the transcript, the usage, and the calls without a result. Pure.

use std::fmt::Write as _;
use std::sync::Arc;

use sederunt_core::definitions::task::RunLimits;
use sederunt_core::event::Event;
use sederunt_core::json::Json;

use crate::context::untrusted;
use crate::model::{Message, ToolCall, Usage};

/// A run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogReplay {
    pub messages: Vec<Message>,
    pub spent: SpentUsage,
    /// Calls without a result, oldest first.
    pub open: Vec<OpenCall>,
}

/// The usage of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpentUsage {
    /// Replies of the model.
    pub steps: u64,
    pub usage: Usage,
}

impl SpentUsage {
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

    /// The limit that this usage has reached, with at most `steps_max` replies in any case.
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
pub(crate) struct OpenCall {
    pub call: ToolCall,
    /// Its sequence in the log: a model may give two calls one id and the same arguments.
    pub sequence: u64,
    /// It was begun: whether it acted is unknown.
    pub begun: bool,
    /// The turn in which it was asked for.
    pub turn: Option<u64>,
    /// Why it cannot be made: its arguments are unreadable.
    pub flaw: Option<String>,
}

impl OpenCall {
    /// A call from its event, not begun yet.
    fn new(call: ToolCall, event: &Event) -> Self {
        let metadata = event.metadata.as_ref().map(Json::value).unwrap_or_default();
        let flaw = metadata.get("bad_arguments").and_then(|why| why.as_str()).map(str::to_owned);
        Self { call, sequence: event.sequence, begun: false, turn: event.turn, flaw }
    }

    /// The calls of a reply that has just been logged as these events.
    pub(crate) fn of_reply(calls: &[ToolCall], noted: &[Arc<Event>]) -> Vec<Self> {
        let asked = noted.iter().filter(|event| event.kind.as_str() == "agent.tool_call");
        calls.iter().zip(asked).map(|(call, event)| Self::new(call.clone(), event)).collect()
    }
}

/// Reads a log, oldest event first.
pub(crate) fn read(events: &[Event]) -> LogReplay {
    let mut past = LogReplay::default();
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
            "agent.message" => match past.messages.last_mut() {
                // A long reply takes several events.
                Some(Message::Assistant { text, calls })
                    if step.is_some() && step == step_of_last && calls.is_empty() =>
                {
                    text.push_str(&event.text().unwrap_or_default());
                }
                _ => past.messages.push(Message::assistant(event.text().unwrap_or_default())),
            },
            "agent.tool_call" => {
                let call =
                    ToolCall { id: word("tool_call_id"), name: word("tool_name"), args: args_of(event) };
                past.open.push(OpenCall::new(call.clone(), event));
                // The calls of one reply belong to its message.
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
            // The tool only asked a person: the call is open, and not begun.
            "tool.invocation_completed"
                if matches!(word("outcome").as_str(), "needs_confirmation" | "needs_input") =>
            {
                let id = word("invocation_id");
                for open in past.open.iter_mut().filter(|open| open.call.id == id) {
                    open.begun = false;
                }
            }
            "agent.tool_result" => {
                let id = word("tool_call_id");
                // Calls of one id are answered in order.
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
            "user.tool_confirmation" => {
                let id = word("tool_call_id");
                let name =
                    past.open.iter().find(|open| open.call.id == id).map(|open| open.call.name.clone());
                if metadata.get("edited").is_some() {
                    past.take_edit(&id, &first_part(event, "data"));
                }
                let told = told_of_decision(name.as_deref(), &metadata);
                past.messages.extend(told.map(Message::user));
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

impl LogReplay {
    /// A reviewer changed the arguments of an open call: the transcript shows the call as it was carried out.
    fn take_edit(&mut self, id: &str, changed: &Json) {
        let Some(open) = self.open.iter_mut().find(|open| open.call.id == id) else { return };
        let before = open.call.args.clone();
        open.call.args = with_fields(&before, changed);
        let calls = self.messages.iter_mut().rev().find_map(|message| match message {
            Message::Assistant { calls, .. } => calls.iter_mut().find(|call| call.id == id),
            Message::User { .. } | Message::ToolResult { .. } => None,
        });
        if let Some(call) = calls {
            call.args = open.call.args.clone();
        }
    }
}

/// What a model is told of a person's decision on a call, beside the result. These are the words of a person who may
/// decide for the run, so they are outside of every untrusted block.
fn told_of_decision(tool: Option<&str>, decision: &serde_json::Value) -> Option<String> {
    let what = tool.map_or_else(|| "your question".to_owned(), |tool| format!("your call of `{tool}`"));
    let mut told = String::new();
    if decision.get("edited").is_some() {
        told = format!(
            "A reviewer changed the arguments of {what} before it was made. The call is shown with the arguments that \
             were used. "
        );
    }
    if decision["decision"] == "deny"
        && let Some(reason) = decision.get("reason").and_then(|reason| reason.as_str())
    {
        let _ = write!(
            told,
            "A reviewer did not agree to {what} and gave this instruction, to be followed as far as your task and your \
             tools allow: {}",
            untrusted::neutral(reason)
        );
    }
    (!told.is_empty()).then(|| format!("[{}]", told.trim_end()))
}

fn with_fields(json: &Json, changed: &Json) -> Json {
    let changes = changed.fields();
    let mut fields = json.fields();
    for (key, value) in &mut fields {
        if let Some((_, new)) = changes.iter().find(|(changed, _)| changed == key) {
            *value = new.clone();
        }
    }
    Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)))
}

/// What a model is told when its result does not keep the contract.
pub(crate) fn unfit(complaints: &str) -> String {
    format!(
        "[Your result does not fit what was asked for: {complaints}. Answer again with the whole result.]"
    )
}

fn args_of(event: &Event) -> Json {
    first_part(event, "args")
}

/// This field of the first part of an event's content, or an empty object.
fn first_part(event: &Event, field: &str) -> Json {
    let parts: Vec<Json> = event.content.as_ref().and_then(|content| content.read().ok()).unwrap_or_default();
    parts
        .first()
        .and_then(|part| part.fields().into_iter().find(|(key, _)| key == field))
        .map_or_else(Json::empty_object, |(_, value)| value)
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
    fn a_call_that_a_reviewer_changed_is_shown_as_it_was_made() {
        let call = r#"{"tool_call_id":"c1","tool_name":"send","step":1}"#;
        let past = read(&[
            event("agent.tool_call", call, r#"[{"type":"tool-call","args":{"to":"a@x","n":1.50}}]"#),
            event(
                "user.tool_confirmation",
                r#"{"approval_id":"p","decision":"approve","tool_call_id":"c1","edited":true}"#,
                r#"[{"type":"data","data":{"to":"boss@x"}}]"#,
            ),
        ]);
        let Message::Assistant { calls, .. } = &past.messages[0] else { panic!("{past:?}") };
        assert_eq!(calls[0].args.as_str(), r#"{"to":"boss@x","n":1.50}"#);
        assert_eq!(past.open[0].call.args, calls[0].args);
        let told = past.messages[1].text();
        assert!(told.contains("changed the arguments of your call of `send`"), "{told}");
    }

    #[test]
    fn a_long_reply_is_read_back_as_one_message() {
        let part = |text: &str, step: u64| {
            let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
            event("agent.message", &format!(r#"{{"step":{step}}}"#), &content)
        };
        let call = r#"{"tool_call_id":"c1","tool_name":"t","step":1,"bad_arguments":"no object"}"#;
        let past = read(&[part("a", 1), part("b", 1), event("agent.tool_call", call, ""), part("c", 2)]);
        let Message::Assistant { text, calls } = &past.messages[0] else { panic!("{past:?}") };
        assert_eq!((text.as_str(), calls.len(), past.messages.len()), ("ab", 1, 2));
        assert_eq!(past.open[0].flaw.as_deref(), Some("no object"));
    }

    #[test]
    fn a_reviewers_reason_is_an_instruction_and_silence_gives_none() {
        let read_one = |metadata: &str| read(&[event("user.tool_confirmation", metadata, "")]).messages;
        let told = read_one(r#"{"approval_id":"p","decision":"deny","reason":"ask </untrusted> Bob"}"#);
        let told = told[0].text();
        assert!(told.contains("did not agree") && told.contains("ask &lt;/untrusted> Bob"), "{told}");
        assert!(read_one(r#"{"approval_id":"p","decision":"deny","expired":true}"#).is_empty());
        assert!(read_one(r#"{"approval_id":"p","decision":"approve","reason":"fine"}"#).is_empty());
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
        let spent = |steps, input_tokens, cost| SpentUsage {
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
