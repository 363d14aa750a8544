//! A reply as events of the log.

use std::borrow::Cow;

use sederunt_core::Error;
use sederunt_core::engine::DraftEvent;
use sederunt_core::json::Json;
use serde_json::json;

use super::event;
use crate::limits;
use crate::model::ModelReply;

/// Marks a text that was too long to be kept whole.
const CUT: &str = "\n[The text was longer; the rest was cut.]";

/// The events of a reply: its thinking, its text, its calls. A text that is longer than one event takes several; what
/// no batch could hold is cut and marked.
pub(crate) fn reply_events(step: u64, reply: &ModelReply) -> Result<Vec<DraftEvent>, Error> {
    let mut usage = Some(serde_json::to_value(reply.usage).map_err(Error::internal)?);
    let mut metadata = |mut fields: serde_json::Value| {
        fields["step"] = step.into();
        if let Some(usage) = usage.take() {
            fields["usage"] = usage;
        }
        Json::of(&fields)
    };
    let text = |text: &str| Json::of(&json!([{"type": "text", "text": text}]));
    let mut events = Vec::new();
    if !reply.thinking.trim().is_empty() {
        let thinking = within(&reply.thinking, limits::TEXT_EVENT_BYTES_MAX);
        events.push(event("agent.thinking", metadata(json!({}))?, Some(text(&thinking)?)));
    }
    if !reply.text.trim().is_empty() {
        let args: usize = reply.calls.iter().map(|call| call.args.len()).sum();
        let room = limits::REPLY_LOGGED_BYTES_MAX.saturating_sub(args).max(limits::TEXT_EVENT_BYTES_MAX);
        for piece in pieces(&within(&reply.text, room), limits::TEXT_EVENT_BYTES_MAX) {
            events.push(event("agent.message", metadata(json!({}))?, Some(text(piece)?)));
        }
    }
    for (place, call) in reply.calls.iter().enumerate() {
        let mut fields = json!({"tool_call_id": call.id, "tool_name": call.name});
        if let Some(bad) = reply.bad_calls.iter().find(|bad| bad.place == place) {
            fields["bad_arguments"] = bad.why.as_str().into();
        }
        let fields = metadata(fields)?;
        let part = Json::object([("type", &Json::stored(r#""tool-call""#)), ("args", &call.args)]);
        events.push(event("agent.tool_call", fields, Some(Json::of(&[part])?)));
    }
    if events.is_empty() {
        // An empty reply has usage too.
        events.push(event("agent.thinking", metadata(json!({}))?, Some(text("")?)));
    }
    Ok(events)
}

/// A text whose JSON has at most `bytes_max` bytes: the text itself, or its beginning and a mark. NUL, which no store
/// keeps, is replaced.
pub(crate) fn within(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let text =
        if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) };
    // With its quotes.
    let fits = |text: &str| text.chars().map(escaped_len).sum::<usize>() + 2 <= bytes_max;
    if text.len() * 6 + 2 <= bytes_max || fits(&text) {
        return text;
    }
    let room = bytes_max.saturating_sub(CUT.chars().map(escaped_len).sum::<usize>() + 2);
    let start = pieces(&text, room).first().copied().unwrap_or_default();
    Cow::Owned(format!("{start}{CUT}"))
}

/// A text in pieces whose JSON, without the quotes, has at most `bytes_max` bytes each.
fn pieces(text: &str, bytes_max: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (at, c) in text.char_indices() {
        let more = escaped_len(c);
        if size + more > bytes_max {
            pieces.push(&text[start..at]);
            (start, size) = (at, 0);
        }
        size += more;
    }
    pieces.push(&text[start..]);
    pieces
}

/// The bytes that a character takes in JSON.
const fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if (c as u32) < 0x20 => 6,
        c => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::limits::{BATCH_BYTES_MAX, EVENT_BYTES_MAX};

    use super::*;
    use crate::model::{BadCall, StopReason, ToolCall, Usage};

    fn reply(text: String) -> ModelReply {
        ModelReply {
            text,
            thinking: String::new(),
            calls: Vec::new(),
            bad_calls: Vec::new(),
            usage: Usage::default(),
            stop: StopReason::End,
        }
    }

    fn said(events: &[DraftEvent]) -> String {
        let text = |event: &DraftEvent| event.content.as_ref().unwrap().value()[0]["text"].clone();
        events.iter().map(|event| text(event).as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_text_that_one_event_cannot_hold_goes_over_several() {
        for (unit, times) in [("é", 200_000), ("\u{1}", 100_000), ("\"\n", 300_000), ("x", 3_000_000)] {
            let whole = unit.repeat(times);
            let events = reply_events(1, &reply(whole.clone())).unwrap();
            assert!(events.len() > 1, "{unit:?}");
            assert!(
                events.iter().all(|event| event.content.as_ref().unwrap().len() < EVENT_BYTES_MAX - 4096)
            );
            assert_eq!(said(&events), whole);
        }
        let fits = "x".repeat(limits::TEXT_EVENT_BYTES_MAX - 2);
        assert_eq!(reply_events(1, &reply(fits.clone())).unwrap().len(), 1);
        assert_eq!(reply_events(1, &reply(fits + "xxx")).unwrap().len(), 2);
    }

    #[test]
    fn what_no_batch_could_hold_is_cut_and_says_so() {
        let calls = vec![ToolCall { id: "c".into(), name: "t".into(), args: Json::empty_object() }];
        let long = ModelReply { calls, thinking: "y".repeat(1_000_000), ..reply("\u{1}".repeat(4_000_000)) };
        let events = reply_events(1, &long).unwrap();
        let bytes: usize = events.iter().map(|event| event.content.as_ref().unwrap().len()).sum();
        assert!(bytes < BATCH_BYTES_MAX - 64 * 1024, "{bytes}");
        let messages: Vec<DraftEvent> =
            events.iter().filter(|event| event.kind == "agent.message").cloned().collect();
        assert!(said(&messages).ends_with(CUT));
        assert!(said(&events[..1]).ends_with(CUT), "a thought has one event");
        assert_eq!(within("a\0b", 100), "a\u{fffd}b");
        assert_eq!(within(&"x".repeat(98), 100).len(), 98);
        assert_ne!(within(&"x".repeat(99), 100).len(), 99);
    }

    #[test]
    fn a_call_with_arguments_that_cannot_be_read_is_marked() {
        let calls = vec![ToolCall { id: "c".into(), name: "t".into(), args: Json::empty_object() }];
        let bad_calls = vec![BadCall { place: 0, why: "no object".into() }];
        let events = reply_events(1, &ModelReply { calls, bad_calls, ..reply(String::new()) }).unwrap();
        assert_eq!(events[0].metadata.as_ref().unwrap().value()["bad_arguments"], "no object");
    }

    #[test]
    fn a_text_one_byte_too_long_for_its_batch_is_cut_and_marked() {
        let logged = |bytes: usize| said(&reply_events(1, &reply("x".repeat(bytes))).unwrap());
        // With its quotes.
        let most = limits::REPLY_LOGGED_BYTES_MAX - 2;
        assert_eq!(logged(most).len(), most);
        let cut = logged(most + 1);
        assert!(cut.ends_with(CUT) && cut.len() <= most, "{}", cut.len());
    }
}
