//! A transcript that any model accepts, made from any log, including what a crash left half done.
//!
//! Every call is followed at once by its result, and every result belongs to a call. A call whose result was never
//! written gets one that says so; a result whose call is gone is left out; a result that came late moves to its call.

use std::collections::HashSet;

use crate::model::{Message, ToolCall};

/// The result of a call whose outcome is unknown.
pub const OUTCOME_UNKNOWN: &str =
    "outcome_unknown: the run was interrupted before this call reported; it may or may not have taken effect";

/// One user message and everything that answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    pub messages: Vec<Message>,
}

impl Turn {
    /// Splits messages where the user speaks.
    pub fn split(messages: impl IntoIterator<Item = Message>) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::new();
        for message in messages {
            match turns.last_mut() {
                Some(turn) if !matches!(message, Message::User { .. }) => turn.messages.push(message),
                _ => turns.push(Self { messages: vec![message] }),
            }
        }
        turns
    }
}

/// The same turns, valid. Empty turns are removed.
pub fn mend(turns: &[Turn]) -> Vec<Turn> {
    let flat: Vec<&Message> = turns.iter().flat_map(|turn| &turn.messages).collect();
    let mut at = 0;
    let mended = turns.iter().map(|turn| {
        let mut messages = Vec::new();
        for message in &turn.messages {
            at += 1;
            match message {
                Message::User { text } if text.trim().is_empty() => {}
                Message::User { .. } => messages.push(message.clone()),
                Message::Assistant { text, calls } if text.trim().is_empty() && calls.is_empty() => {}
                Message::Assistant { text, calls } => {
                    let calls = distinct(calls);
                    messages.push(Message::Assistant { text: text.clone(), calls: calls.clone() });
                    messages.extend(calls.iter().map(|call| result_of(call, &flat[at..])));
                }
                Message::ToolResult { .. } => {}
            }
        }
        Turn { messages }
    });
    mended.filter(|turn| !turn.messages.is_empty()).collect()
}

/// Calls with ids of their own: the first of each.
fn distinct(calls: &[ToolCall]) -> Vec<ToolCall> {
    let mut seen = HashSet::new();
    calls.iter().filter(|call| seen.insert(call.id.as_str())).cloned().collect()
}

/// The first result of a call among what came later. Where the same id is called again, what follows belongs to
/// that call.
fn result_of(call: &ToolCall, later: &[&Message]) -> Message {
    let is_again = |message: &&&Message| matches!(message, Message::Assistant { calls, .. } if calls.iter().any(|again| again.id == call.id));
    let found = later.iter().take_while(|message| !is_again(message)).find_map(|message| match message {
        Message::ToolResult { call_id, content, is_error, .. } if *call_id == call.id => {
            Some((content.clone(), *is_error))
        }
        _ => None,
    });
    let (content, is_error) = found.unwrap_or_else(|| (OUTCOME_UNKNOWN.to_owned(), true));
    Message::ToolResult { call_id: call.id.clone(), name: call.name.clone(), content, is_error }
}

/// What is wrong with a transcript, if anything.
pub fn flaw(messages: &[Message]) -> Option<&'static str> {
    let mut open: Vec<&str> = Vec::new();
    match (messages.first(), messages.last()) {
        (Some(Message::User { .. }), Some(Message::User { .. } | Message::ToolResult { .. })) => {}
        (Some(Message::User { .. }), _) => return Some("it ends with the model's own words"),
        _ => return Some("it does not begin with the user"),
    }
    for message in messages {
        match message {
            Message::ToolResult { call_id, .. } => match open.iter().position(|id| id == call_id) {
                Some(place) => drop(open.remove(place)),
                None => return Some("a result without its call"),
            },
            _ if !open.is_empty() => return Some("a call without its result"),
            Message::Assistant { calls, .. } => {
                open = calls.iter().map(|call| call.id.as_str()).collect();
                if open.iter().collect::<HashSet<_>>().len() < open.len() {
                    return Some("two calls with one id");
                }
            }
            Message::User { .. } => {}
        }
    }
    (!open.is_empty()).then_some("a call without its result")
}

#[cfg(test)]
mod tests {
    use sederunt_core::json::Json;

    use super::*;

    fn calls(ids: &[&str]) -> Message {
        let call =
            |id: &&str| ToolCall { id: (*id).to_owned(), name: "t".to_owned(), args: Json::empty_object() };
        Message::Assistant { text: String::new(), calls: ids.iter().map(call).collect() }
    }

    fn result(id: &str, content: &str) -> Message {
        Message::ToolResult {
            call_id: id.to_owned(),
            name: "t".to_owned(),
            content: content.to_owned(),
            is_error: content == OUTCOME_UNKNOWN,
        }
    }

    fn mended(messages: Vec<Message>) -> Vec<Message> {
        mend(&Turn::split(messages)).into_iter().flat_map(|turn| turn.messages).collect()
    }

    #[test]
    fn what_a_crash_left_behind_is_mended() {
        let user = || Message::user("u");
        let unknown = |id| result(id, OUTCOME_UNKNOWN);
        let cases = [
            (
                "whole",
                vec![user(), calls(&["a"]), result("a", "1")],
                vec![user(), calls(&["a"]), result("a", "1")],
            ),
            ("no result", vec![user(), calls(&["a"])], vec![user(), calls(&["a"]), unknown("a")]),
            (
                "one of two results",
                vec![user(), calls(&["a", "b"]), result("b", "2")],
                vec![user(), calls(&["a", "b"]), unknown("a"), result("b", "2")],
            ),
            ("no call", vec![user(), result("a", "1")], vec![user()]),
            (
                "a late result",
                vec![user(), calls(&["a"]), user(), result("a", "1")],
                vec![user(), calls(&["a"]), result("a", "1"), user()],
            ),
            (
                "two results",
                vec![user(), calls(&["a"]), result("a", "1"), result("a", "2")],
                vec![user(), calls(&["a"]), result("a", "1")],
            ),
            (
                "the same id again",
                vec![user(), calls(&["a"]), calls(&["a"]), result("a", "2")],
                vec![user(), calls(&["a"]), unknown("a"), calls(&["a"]), result("a", "2")],
            ),
            (
                "twins",
                vec![user(), calls(&["a", "a"]), result("a", "1")],
                vec![user(), calls(&["a"]), result("a", "1")],
            ),
            ("empty words", vec![user(), Message::assistant(" "), Message::user("")], vec![user()]),
        ];
        for (name, messages, expected) in cases {
            assert_eq!(mended(messages), expected, "{name}");
        }
    }

    #[test]
    fn a_flaw_is_named() {
        let user = || Message::user("u");
        let cases = [
            (vec![user()], None),
            (vec![user(), calls(&["a"]), result("a", "1")], None),
            (vec![], Some("it does not begin with the user")),
            (vec![calls(&["a"]), result("a", "1")], Some("it does not begin with the user")),
            (vec![user(), Message::assistant("x")], Some("it ends with the model's own words")),
            (vec![user(), calls(&["a"]), user()], Some("a call without its result")),
            (vec![user(), calls(&["a", "b"]), result("a", "1")], Some("a call without its result")),
            (vec![user(), result("a", "1")], Some("a result without its call")),
            (
                vec![user(), calls(&["a", "a"]), result("a", "1"), result("a", "1")],
                Some("two calls with one id"),
            ),
        ];
        for (messages, expected) in cases {
            assert_eq!(flaw(&messages), expected, "{messages:?}");
        }
    }
}
