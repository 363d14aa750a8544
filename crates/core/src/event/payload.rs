//! The typed payloads: which metadata keys each event type must carry, and what its content may be.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::EventType;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits;
use crate::talk::silence;

/// What an agent says.
const AGENT_MESSAGE: &str = "agent.message";

/// What a metadata key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Text,
    Number,
    Flag,
    Object,
    List,
    Any,
}

/// Required keys of each typed event. Further keys are kept as they are.
pub const REQUIRED: &[(&str, &[(&str, Shape)])] = &[
    ("human.navigate", &[("pathname", Shape::Text)]),
    (
        "human.entity_view",
        &[("entity_id", Shape::Text), ("entity_type", Shape::Text), ("pathname", Shape::Text)],
    ),
    ("human.task_switch", &[("from_task_id", Shape::Any), ("to_task_id", Shape::Any)]),
    ("agent.tool_call", &[("tool_call_id", Shape::Text), ("tool_name", Shape::Text)]),
    ("agent.tool_result", &[("tool_call_id", Shape::Text), ("tool_name", Shape::Text)]),
    ("session.status_change", &[("from", Shape::Text), ("to", Shape::Text)]),
    ("session.claimed", &[("worker", Shape::Text), ("epoch", Shape::Number)]),
    ("session.error", &[("code", Shape::Text), ("message", Shape::Text)]),
    ("session.turn", &[("outcome", Shape::Text)]),
    ("session.waiting_approval", &[("approval_id", Shape::Text), ("kind", Shape::Text)]),
    ("session.context_injected", &[("kind", Shape::Text), ("ids", Shape::List)]),
    (
        "session.introspection",
        &[("reason", Shape::Text), ("from_sequence", Shape::Number), ("to_sequence", Shape::Number)],
    ),
    ("user.tool_confirmation", &[("approval_id", Shape::Text), ("decision", Shape::Text)]),
    ("user.output_approval", &[("approval_id", Shape::Text), ("decision", Shape::Text)]),
    ("user.form_submit", &[("view_id", Shape::Text), ("respondent", Shape::Any), ("values", Shape::Object)]),
    ("user.form_draft", &[("values", Shape::Object)]),
    ("tool.session_started", &[("tool_slug", Shape::Text)]),
    ("tool.field_changed", &[("field", Shape::Text), ("value", Shape::Any)]),
    ("tool.invocation_started", &[("invocation_id", Shape::Text)]),
    ("tool.invocation_completed", &[("invocation_id", Shape::Text)]),
    ("tool.invocation_failed", &[("invocation_id", Shape::Text)]),
    ("tool.composition_step.started", &[("step", Shape::Any), ("child_session_id", Shape::Text)]),
    ("tool.composition_step.completed", &[("step", Shape::Any), ("child_session_id", Shape::Text)]),
    ("state.patch", &[("document", Shape::Object), ("base_sequence", Shape::Number), ("ops", Shape::List)]),
];

/// Parts that a participant may put into a message: what a person can say, never a tool's output.
const PARTICIPANT_PARTS: [&str; 2] = ["text", "file"];

/// Checks content and metadata against the type. Content must be an array of parts already.
pub fn check(kind: &EventType, content: Option<&Json>, metadata: Option<&Json>) -> Result<()> {
    if kind.is_patch() && content.is_some() {
        return Err(Error::invalid(
            "content",
            "a patch has `metadata` alone; opening a document writes its value",
        ));
    }
    let required =
        REQUIRED.iter().find(|(known, _)| *known == kind.as_str()).map_or(&[][..], |(_, keys)| keys);
    if !required.is_empty() {
        let fields = metadata.map(Json::value).unwrap_or_default();
        for (key, shape) in required {
            let fits = fields.get(*key).is_some_and(|value| match shape {
                Shape::Text => value.is_string(),
                Shape::Number => value.is_u64(),
                Shape::Flag => value.is_boolean(),
                Shape::Object => value.is_object(),
                Shape::List => value.is_array(),
                Shape::Any => true,
            });
            if !fits {
                let message =
                    format!("`{}` needs `metadata.{key}` ({shape:?})", kind.as_str()).to_lowercase();
                return Err(Error::invalid(format!("metadata.{key}"), message));
            }
        }
    }
    let Some(content) = content else {
        if kind.is_message() {
            return Err(Error::invalid("content", "a message needs content"));
        }
        return Ok(());
    };
    if !content.is_array() {
        return Err(Error::invalid("content", "must be text or an array of parts"));
    }
    if kind.as_str() == "user.message" { check_message_parts(content) } else { check_other_parts(content) }
}

#[derive(serde::Deserialize)]
struct MessagePart<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

/// A text part holds a text: readers of a log rely on it.
fn check_text_part(text: Option<&RawValue>) -> Result<()> {
    match text {
        Some(text) if text.get().starts_with('"') => Ok(()),
        _ => Err(Error::invalid("content", "a `text` part needs `text`, and that is a string")),
    }
}

/// The parts of any message but a user's: objects, of which those of type `text` hold a text.
fn check_other_parts(content: &Json) -> Result<()> {
    let raw: Vec<&RawValue> =
        content.read().map_err(|_| Error::invalid("content", "must be text or an array of parts"))?;
    if raw.iter().any(|part| !part.get().starts_with('{')) {
        return Err(Error::invalid("content", "every part must be an object"));
    }
    for part in raw {
        // A part whose `type` or `text` is repeated or not a string cannot be read: it is no text part.
        let Ok(part) = serde_json::from_str::<ContentPart<'_>>(part.get()) else { continue };
        if part.kind.is_some_and(|kind| kind.get() == "\"text\"") {
            check_text_part(part.text)?;
        }
    }
    Ok(())
}

fn check_message_parts(content: &Json) -> Result<()> {
    let parts = content
        .read::<Vec<MessagePart<'_>>>()
        .map_err(|_| Error::invalid("content", "every part must be an object with a `type`"))?;
    if parts.is_empty() {
        return Err(Error::invalid("content", "a message needs at least one part"));
    }
    for part in parts {
        if !PARTICIPANT_PARTS.contains(&&*part.kind) && part.kind != "data" && !part.kind.starts_with("data-")
        {
            return Err(Error::invalid(
                "content",
                format!(
                    "a `{}` part cannot be part of a user's message; use text, file or data parts",
                    part.kind
                ),
            ));
        }
        if part.kind == "text" {
            check_text_part(part.text)?;
        }
    }
    Ok(())
}

/// A plain string becomes one text part; an array stays.
pub fn content_parts(content: Json) -> Result<Json> {
    if content.as_str().starts_with('"') {
        let mut text = String::with_capacity(content.len() + 32);
        let _ = write!(text, "[{{\"type\":\"text\",\"text\":{}}}]", content.as_str());
        return Ok(Json::stored(text));
    }
    if !content.is_array() {
        return Err(Error::invalid("content", "must be text or an array of parts"));
    }
    Ok(content)
}

/// The text parts of a content array, joined by line breaks.
pub fn text_of(content: &Json) -> Option<String> {
    let mut text = String::new();
    for more in texts_of(&content.read::<Vec<_>>().ok()?) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&more);
    }
    (!text.is_empty()).then_some(text)
}

/// The text of an event of this type, as readers are shown it: what an agent says is shown without the markers of
/// silence. `None` if nothing is left.
pub fn shown_text_of(kind: &str, content: &Json) -> Option<String> {
    let text = text_of(content)?;
    match kind == AGENT_MESSAGE && silence::may_hold_marker(content) {
        true => Some(silence::shown_text(&text).into_owned()).filter(|shown| !shown.is_empty()),
        false => Some(text),
    }
}

/// The beginning of a message of this type on one line, as lists show it.
pub fn preview_of(kind: &str, content: &Json, chars: usize) -> Option<Box<str>> {
    if kind == AGENT_MESSAGE && silence::may_hold_marker(content) {
        return shown_text_of(kind, content).and_then(|text| beginning_of(&text, chars));
    }
    let parts = content.read::<Vec<_>>().ok()?;
    texts_of(&parts).find_map(|text| beginning_of(&text, chars))
}

/// The beginning of a text on one line; `None` if it is blank.
fn beginning_of(text: &str, chars: usize) -> Option<Box<str>> {
    if text.trim_start().is_empty() {
        return None;
    }
    let mut preview = String::with_capacity(text.len().min(chars * 4));
    let mut left = chars;
    let mut gap = false;
    for c in text.trim_start().chars() {
        if c.is_whitespace() {
            gap = true;
            continue;
        }
        let needed = if gap { 2 } else { 1 };
        if left < needed {
            break;
        }
        if gap {
            preview.push(' ');
        }
        preview.push(c);
        left -= needed;
        gap = false;
    }
    Some(preview.into())
}

/// One part of a content, borrowed from its JSON text.
#[derive(serde::Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

fn texts_of<'a>(parts: &[ContentPart<'a>]) -> impl Iterator<Item = Cow<'a, str>> {
    parts
        .iter()
        .filter(|part| part.kind.is_some_and(|kind| kind.get() == "\"text\""))
        .filter_map(|part| unquoted(part.text?.get()))
}

/// The value of a JSON string; without escapes it is borrowed.
fn unquoted(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Refuses an event that is larger than one may be.
pub fn check_size(content: Option<&Json>, metadata: Option<&Json>) -> Result<()> {
    if metadata.map_or(0, Json::len) > limits::METADATA_BYTES_MAX {
        return Err(Error::TooLarge { what: "metadata", limit: limits::METADATA_BYTES_MAX });
    }
    if content.map_or(0, Json::len) + metadata.map_or(0, Json::len) > limits::EVENT_BYTES_MAX {
        return Err(Error::TooLarge { what: "event", limit: limits::EVENT_BYTES_MAX });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::event::kind::KNOWN;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_row_of_the_payload_table_names_a_known_type() {
        assert!(REQUIRED.iter().all(|(kind, keys)| KNOWN.contains(kind) && !keys.is_empty()));
    }

    #[test]
    fn a_missing_or_misshapen_key_is_refused_for_every_typed_event() {
        for (kind, keys) in REQUIRED {
            let kind = EventType::parse(kind).unwrap();
            let full: serde_json::Map<String, Value> = keys
                .iter()
                .map(|(key, shape)| {
                    let value = match shape {
                        Shape::Text => Value::from("x"),
                        Shape::Number => Value::from(1),
                        Shape::Flag => Value::from(true),
                        Shape::Object => serde_json::json!({}),
                        Shape::List => serde_json::json!([]),
                        Shape::Any => Value::Null,
                    };
                    ((*key).to_owned(), value)
                })
                .collect();
            let of = |map: &serde_json::Map<String, Value>| Json::of(map).unwrap();
            assert!(check(&kind, None, Some(&of(&full))).is_ok(), "{}", kind.as_str());
            for (key, _) in *keys {
                let mut less = full.clone();
                less.remove(*key);
                assert_eq!(check(&kind, None, Some(&of(&less))).unwrap_err().code(), "invalid");
            }
        }
    }

    #[test]
    fn a_users_message_holds_text_file_and_data_parts_only() {
        let message = EventType::parse("user.message").unwrap();
        for good in
            [r#"[{"type":"text","text":"hi"}]"#, r#"[{"type":"file","url":"x"}]"#, r#"[{"type":"data-x"}]"#]
        {
            assert!(check(&message, Some(&json(good)), None).is_ok(), "{good}");
        }
        for bad in [
            r#"[{"type":"tool-call"}]"#, r#"[{"type":"tool-result"}]"#, "[]", r#"["x"]"#, "{}",
            r#"[{"text":1}]"#,
        ] {
            assert!(check(&message, Some(&json(bad)), None).is_err(), "{bad}");
        }
        assert!(check(&message, None, None).is_err());
    }

    #[test]
    fn a_text_part_holds_a_text_in_every_event() {
        for kind in ["user.message", "agent.message", "agent.thinking", "billing.charged"] {
            let kind = EventType::parse(kind).unwrap();
            for bad in [
                r#"[{"type":"text","text":true}]"#, r#"[{"type":"text"}]"#,
                r#"[{"type":"text","text":null}]"#,
            ] {
                let refused = check(&kind, Some(&json(bad)), None).unwrap_err();
                assert_eq!(refused.code(), "invalid", "{kind:?} {bad}");
            }
            assert!(check(&kind, Some(&json(r#"[{"type":"text","text":""}]"#)), None).is_ok());
        }
    }

    #[test]
    fn plain_text_becomes_one_text_part() {
        let parts = content_parts(json(r#""say \"hi\"""#)).unwrap();
        assert_eq!(parts.as_str(), r#"[{"type":"text","text":"say \"hi\""}]"#);
        assert_eq!(text_of(&parts).unwrap(), "say \"hi\"");
        assert!(content_parts(json("5")).is_err());
    }

    #[test]
    fn a_preview_is_one_short_line() {
        let long = format!(r#"[{{"type":"file"}},{{"type":"text","text":"  a\n b {}"}}]"#, "é".repeat(200));
        let preview = preview_of("user.message", &json(&long), limits::PREVIEW_CHARS).unwrap();
        assert!(preview.starts_with("a b é") && preview.chars().count() == limits::PREVIEW_CHARS);
        assert_eq!(preview_of("user.message", &json(r#"[{"type":"file"}]"#), 80), None);
        let silent = json(r#"[{"type":"text","text":"<NO_REPLY>"}]"#);
        assert_eq!(preview_of("agent.message", &silent, 80), None, "an agent that is silent says nothing");
        assert_eq!(shown_text_of("agent.message", &silent), None);
        assert_eq!(
            shown_text_of("user.message", &silent).as_deref(),
            Some("<NO_REPLY>"),
            "a person may quote it"
        );
        let partly = json(r#"[{"type":"text","text":"Yes. <NO_REPLY>"}]"#);
        assert_eq!(preview_of("agent.message", &partly, 80).as_deref(), Some("Yes."));
    }
}
