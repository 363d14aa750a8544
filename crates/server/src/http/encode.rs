//! Events as bytes: written straight into one buffer, for answers and for streams alike.
//!
//! Content and metadata are canonical JSON already, so they are copied unchanged. A share link gets the same shape
//! with everything but the message left empty.

use std::io::Write as _;

use bytes::Bytes;
use sederunt_api::wire::presence::Presence;
use sederunt_core::Event;
use sederunt_core::access::EventView;
use sederunt_core::live::reply::ReplyPiece;
use sederunt_core::presence::PresenceList;

/// Bytes reserved for an event's own fields, beside its content and metadata.
const EVENT_FRAME_BYTES: usize = 320;

/// Writes one event as JSON.
pub fn event(out: &mut Vec<u8>, event: &Event, view: EventView) {
    let full = view == EventView::Full;
    out.reserve(event.bytes() + EVENT_FRAME_BYTES);
    out.extend_from_slice(b"{\"session_id\":");
    text(out, event.session_id.as_str());
    out.extend_from_slice(b",\"sequence\":");
    number(out, event.sequence);
    out.extend_from_slice(b",\"type\":");
    text(out, event.kind.as_str());
    out.extend_from_slice(b",\"role\":");
    text(out, event.kind.role().as_str());
    out.extend_from_slice(b",\"content\":");
    match full {
        true => raw(out, event.content.as_ref().map(|json| json.as_str())),
        false => raw(out, event.shown_content().as_ref().map(|json| json.as_str())),
    }
    out.extend_from_slice(b",\"metadata\":");
    raw(out, event.metadata.as_ref().filter(|_| full).map(|json| json.as_str()));
    out.extend_from_slice(b",\"subthread_id\":");
    optional(out, event.subthread_id.as_deref().filter(|_| full));
    out.extend_from_slice(b",\"external_event_id\":");
    optional(out, event.external_event_id.as_deref().filter(|_| full));
    out.extend_from_slice(b",\"turn\":");
    match event.turn.filter(|_| full) {
        Some(turn) => number(out, turn),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"author\":");
    optional(out, event.author.as_deref().filter(|_| full));
    out.extend_from_slice(b",\"at\":\"");
    // Writing into a vector does not fail.
    let _ = write!(out, "{}", event.at);
    out.extend_from_slice(b"\"}");
}

/// Writes events as a JSON array.
pub fn events<'a>(out: &mut Vec<u8>, events: impl IntoIterator<Item = &'a Event>, view: EventView) {
    out.push(b'[');
    let start = out.len();
    for one in events {
        if out.len() > start {
            out.push(b',');
        }
        event(out, one, view);
    }
    out.push(b']');
}

/// One event as a frame of a stream.
pub fn frame(one: &Event, view: EventView) -> Bytes {
    let mut out = Vec::with_capacity(one.bytes() + EVENT_FRAME_BYTES);
    out.extend_from_slice(b"id: ");
    number(&mut out, one.sequence);
    out.extend_from_slice(b"\ndata: ");
    event(&mut out, one, view);
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// A piece of an unfinished reply as a frame of a stream, without a sequence.
pub fn delta(shown: &ReplyPiece) -> Bytes {
    let mut out = Vec::with_capacity(shown.text.len() + 64);
    out.extend_from_slice(b"event: delta\ndata: {\"text\":");
    text(&mut out, &shown.text);
    out.extend_from_slice(b",\"offset\":");
    number(&mut out, shown.offset as u64);
    out.extend_from_slice(b"}\n\n");
    out.into()
}

/// Who is present as a frame of a stream, without a sequence; encoded once for all readers who are shown people.
pub fn presence(list: &PresenceList, shows_people: bool) -> Bytes {
    let encoded = |list: &PresenceList| {
        let data = serde_json::to_string(&Presence::of(list, shows_people)).unwrap_or_default();
        Bytes::from(format!("event: presence\ndata: {data}\n\n"))
    };
    if shows_people { list.wire(encoded) } else { encoded(list) }
}

/// Tells a reader that the log starts later than its cursor.
pub fn gap(first: u64) -> Bytes {
    format!("event: gap\ndata: {{\"first\":{first}}}\n\n").into()
}

pub fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn raw(out: &mut Vec<u8>, json: Option<&str>) {
    out.extend_from_slice(json.map_or(b"null", str::as_bytes));
}

fn optional(out: &mut Vec<u8>, value: Option<&str>) {
    match value {
        Some(value) => text(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes a JSON string. Names rarely hold anything that must be escaped.
pub fn text(out: &mut Vec<u8>, value: &str) {
    if value.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        // Writing a string into a vector does not fail.
        let _ = serde_json::to_writer(out, value);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use sederunt_core::event::EventType;
    use sederunt_core::json::Json;
    use sederunt_core::{SessionId, Timestamp};
    use serde_json::{Value, json};

    use super::*;
    use sederunt_api::wire;

    fn sample() -> Event {
        Event {
            session_id: SessionId::stored("a \"quoted\" \\ id"),
            sequence: 41,
            kind: EventType::parse("user.message").unwrap(),
            content: Some(Json::stored(r#"[{"type":"text","text":"two\nlines \u0001"}]"#)),
            metadata: Some(Json::stored(r#"{"n":1.50}"#)),
            subthread_id: Some("t\t1".into()),
            external_event_id: Some("x".into()),
            turn: Some(41),
            author: Some("ann".into()),
            at: Timestamp::from_micros(1_793_000_000_123_456),
        }
    }

    fn value(event_: &Event, view: EventView) -> Value {
        let mut out = Vec::new();
        event(&mut out, event_, view);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_event_is_written_as_the_contract_shows_it() {
        assert_eq!(
            value(&sample(), EventView::Full),
            json!({
                "session_id": "a \"quoted\" \\ id", "sequence": 41, "type": "user.message", "role": "user",
                "content": [{"type": "text", "text": "two\nlines \u{1}"}], "metadata": {"n": 1.5},
                "subthread_id": "t\t1", "external_event_id": "x", "turn": 41, "author": "ann",
                "at": "2026-10-26T07:33:20.123456Z",
            })
        );
        let bare = Event {
            content: None,
            metadata: None,
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            ..sample()
        };
        for empty in ["content", "metadata", "subthread_id", "external_event_id", "turn", "author"] {
            assert_eq!(value(&bare, EventView::Full)[empty], Value::Null);
        }
    }

    #[test]
    fn the_written_form_is_the_documented_one() {
        let mut out = Vec::new();
        event(&mut out, &sample(), EventView::Full);
        let documented: wire::event::Event = serde_json::from_slice(&out).unwrap();
        assert_eq!(serde_json::to_string(&documented).unwrap().as_bytes(), out);
    }

    #[test]
    fn numbers_in_stored_json_are_not_touched() {
        let mut out = Vec::new();
        event(&mut out, &sample(), EventView::Full);
        assert!(String::from_utf8(out).unwrap().contains(r#""metadata":{"n":1.50}"#));
    }

    #[test]
    fn a_share_link_sees_messages_and_nothing_around_them() {
        let seen = value(&sample(), EventView::Shared);
        assert_eq!(seen["content"], value(&sample(), EventView::Full)["content"]);
        for hidden in ["metadata", "subthread_id", "external_event_id", "turn", "author"] {
            assert_eq!(seen[hidden], Value::Null, "{hidden}");
        }
        let thought = Event { kind: EventType::parse("agent.thinking").unwrap(), ..sample() };
        assert!(
            EventView::Shared.shows(&sample())
                && !EventView::Shared.shows(&thought)
                && EventView::Full.shows(&thought)
        );
    }

    #[test]
    fn frames_are_one_line_of_data_with_their_sequence() {
        let frame = String::from_utf8(frame(&sample(), EventView::Full).to_vec()).unwrap();
        let lines: Vec<&str> = frame.split('\n').collect();
        assert_eq!(lines[0], "id: 41");
        assert!(lines[1].starts_with("data: {\"session_id\""));
        assert_eq!(lines[2..], ["", ""]);
        let delta = delta(&ReplyPiece { offset: 3, text: "a\n\"b".into() });
        assert_eq!(&delta[..], b"event: delta\ndata: {\"text\":\"a\\n\\\"b\",\"offset\":3}\n\n");
        assert_eq!(&gap(5)[..], b"event: gap\ndata: {\"first\":5}\n\n");
    }
}
