//! Exports a session: its row and log as Markdown, plain text or JSON, piece by piece, so that a long log is never
//! whole in memory.

use std::fmt::Write as _;

use serde_json::json;

use super::Session;
use crate::error::{Error, Result};
use crate::event::{Event, EventRole};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Markdown,
    Text,
    Json,
}

impl ExportFormat {
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "md" => Ok(Self::Markdown),
            "txt" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(Error::invalid("format", "must be md, json or txt")),
        }
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// How much of a log is written. JSON is for programs and always holds everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportExtent {
    /// Messages, and in Markdown short tool results: what a person reads.
    #[default]
    Messages,
    Everything,
}

/// Tool results are cut to this many characters where people read them.
const TOOL_ANSWER_CHARS_MAX: usize = 300;

/// Writes an export: [`ExportWriter::begin`], any number of [`ExportWriter::events`], [`ExportWriter::end`].
#[derive(Debug)]
pub struct ExportWriter {
    format: ExportFormat,
    extent: ExportExtent,
    first: bool,
}

impl ExportWriter {
    pub fn new(format: ExportFormat, extent: ExportExtent) -> Self {
        Self { format, extent, first: true }
    }

    pub fn begin(&self, session: &Session) -> String {
        let named = [session.details.title.as_deref(), session.details.description.as_deref()];
        let title = named.into_iter().flatten().next().unwrap_or(session.id.as_str());
        let status = session.head.status;
        let begun = to_the_second(session.details.created_at);
        match self.format {
            ExportFormat::Markdown => format!("# {title}\n\n`{}` · {status} · {begun} UTC\n", session.id),
            ExportFormat::Text => format!("{title}\n{} · {status} · {begun} UTC\n", session.id),
            ExportFormat::Json => {
                let row = json!({
                    "id": session.id,
                    "session_type": session.head.session_type.as_str(),
                    "status": status.as_str(),
                    "title": session.details.title,
                    "description": session.details.description,
                    "user_id": session.head.holder,
                    "participants": session.participants,
                    "metadata": session.details.metadata,
                    "result": session.details.result,
                    "usage": session.details.usage,
                    "last_sequence": session.head.last_sequence,
                    "created_at": session.details.created_at,
                    "completed_at": session.details.completed_at,
                });
                format!("{{\"session\":{row},\"events\":[")
            }
        }
    }

    pub fn events(&mut self, events: &[Event]) -> String {
        let mut out = String::new();
        for event in events {
            match self.format {
                ExportFormat::Json => {
                    if !std::mem::take(&mut self.first) {
                        out.push(',');
                    }
                    let _ = write!(out, "\n{}", event_json(event));
                }
                ExportFormat::Markdown | ExportFormat::Text => self.line(event, &mut out),
            }
        }
        out
    }

    pub fn end(&self) -> &'static str {
        match self.format {
            ExportFormat::Json => "\n]}\n",
            ExportFormat::Markdown | ExportFormat::Text => "",
        }
    }

    fn line(&self, event: &Event, out: &mut String) {
        let who = match (event.kind.role(), event.author.as_deref()) {
            (EventRole::User, Some(author)) => author,
            (role, _) => role.as_str(),
        };
        let text = event.shown_text();
        let at = to_the_second(event.at);
        let said = text.as_deref().filter(|_| event.kind.is_message());
        let _ = match (self.format, said) {
            (ExportFormat::Markdown, Some(text)) => {
                write!(out, "\n**{who}** · {} · {at}\n\n{text}\n", event.sequence)
            }
            (_, Some(text)) => write!(out, "\n[{}] {at} {who}: {text}\n", event.sequence),
            (ExportFormat::Markdown, None) if self.extent == ExportExtent::Messages => {
                tool_answer(event).map_or(Ok(()), |answer| write!(out, "\n> {answer}\n"))
            }
            (_, None) if self.extent == ExportExtent::Messages => Ok(()),
            (ExportFormat::Markdown, None) => {
                let detail = event.metadata.as_ref().map_or("", |metadata| metadata.as_str());
                write!(out, "\n- {} · {at} `{}` {detail}\n", event.sequence, event.kind.as_str())
            }
            (_, None) => writeln!(out, "[{}] {at} {}", event.sequence, event.kind.as_str()),
        };
    }
}

/// A time to the second, for people. Exports in JSON hold the whole of it.
fn to_the_second(at: Timestamp) -> String {
    at.to_string().chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

/// A tool's result, in one short line.
fn tool_answer(event: &Event) -> Option<String> {
    if !matches!(event.kind.as_str(), "agent.tool_result" | "user.tool_result") {
        return None;
    }
    let metadata = event.metadata.as_ref().map(crate::json::Json::value).unwrap_or_default();
    let name = metadata["tool_name"].as_str().unwrap_or("tool");
    let answer = event.text().unwrap_or_else(|| match &metadata["output"] {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let mut line = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(TOOL_ANSWER_CHARS_MAX) {
        line.truncate(end);
        line.push('…');
    }
    Some(format!("`{name}` {}", if line.is_empty() { "answered" } else { line.as_str() }))
}

fn event_json(event: &Event) -> String {
    json!({
        "session_id": event.session_id,
        "sequence": event.sequence,
        "type": event.kind.as_str(),
        "role": event.kind.role().as_str(),
        "content": event.shown_content(),
        "metadata": event.metadata,
        "subthread_id": event.subthread_id,
        "external_event_id": event.external_event_id,
        "turn": event.turn,
        "author": event.author,
        "at": event.at,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;
    use crate::json::Json;
    use crate::session::Status;
    use crate::session::decide::tests::session_in;

    #[test]
    fn an_export_holds_every_event_in_each_format() {
        let event = |sequence, kind: &'static str, content: Option<&str>| Event {
            session_id: crate::SessionId::stored("s"),
            sequence,
            kind: EventType::known(kind),
            content: content.map(|text| Json::parse(text.as_bytes()).unwrap()),
            metadata: None,
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: Some("ada".into()),
            at: crate::Timestamp::from_micros(0),
        };
        let events = [
            event(1, "session.created", None),
            event(2, "user.message", Some(r#"[{"type":"text","text":"hello"}]"#)),
        ];
        for format in [ExportFormat::Markdown, ExportFormat::Text, ExportFormat::Json] {
            let mut paper = ExportWriter::new(format, ExportExtent::Everything);
            let text = paper.begin(&session_in(Status::Idle))
                + &paper.events(&events[..1])
                + &paper.events(&events[1..]);
            let text = text + paper.end();
            assert!(text.contains("hello") && text.contains("session.created"), "{text}");
            assert_eq!(
                text.contains(".000000Z"),
                format == ExportFormat::Json,
                "people read seconds: {text}"
            );
            if format == ExportFormat::Json {
                let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(value["events"].as_array().unwrap().len(), 2);
            }
        }
    }

    #[test]
    fn an_export_for_people_holds_what_was_said_and_json_holds_everything() {
        let event = |kind: &'static str, content: Option<&str>, metadata: Option<&str>| Event {
            session_id: crate::SessionId::stored("s"),
            sequence: 1,
            kind: EventType::known(kind),
            content: content.map(|text| Json::parse(text.as_bytes()).unwrap()),
            metadata: metadata.map(|text| Json::parse(text.as_bytes()).unwrap()),
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: Some("ada".into()),
            at: crate::Timestamp::from_micros(0),
        };
        let long = format!(r#"[{{"type":"text","text":"{}"}}]"#, "rain ".repeat(200));
        let events = [
            event("user.message", Some(r#"[{"type":"text","text":"hello"}]"#), None),
            event("agent.tool_result", Some(&long), Some(r#"{"tool_name":"weather"}"#)),
            event("session.turn", None, Some(r#"{"turn":3,"state":{"stages_us":{}}}"#)),
        ];
        for (format, tool, log) in [
            (ExportFormat::Markdown, true, false),
            (ExportFormat::Text, false, false),
            (ExportFormat::Json, true, true),
        ] {
            let text = ExportWriter::new(format, ExportExtent::Messages).events(&events);
            assert!(text.contains("hello"), "{text}");
            assert_eq!(text.contains("rain"), tool, "{text}");
            assert_eq!(text.contains("stages_us"), log, "{text}");
        }
        let text = ExportWriter::new(ExportFormat::Markdown, ExportExtent::Messages).events(&events);
        assert!(text.contains("> `weather` rain") && text.contains('…'), "{text}");
        assert!(text.chars().count() < 500, "{text}");
    }
}
