//! A reply as surfaces return it, read back from the log: the same for the node that ran the turn and for a caller
//! that waited on another node.

use std::sync::Arc;

use sederunt_core::Error;
use sederunt_core::event::Event;
use serde_json::{Value, json};

/// The reply of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReply {
    pub text: String,
    /// The kind of answer: `talk`, `memory`, `exercise`, `closing`, `crisis`, `confirmation` where a person must
    /// approve a tool call before the turn goes on, or `kept` where nobody answers the message.
    pub kind: String,
    /// The approval that the turn waits for.
    pub approval_id: Option<String>,
    pub style: String,
    pub approach: Option<String>,
    /// `none`, or `suggest_end_session`. A goodbye ends nothing by itself.
    pub session_action: String,
    pub crisis: Value,
    pub diagnostics: Value,
    /// The sequence of the reply, or of the end of the turn when nothing was said.
    pub sequence: u64,
    /// A caller stopped it; the text so far is the reply.
    pub stopped: bool,
}

/// Whether an event belongs to the answer of any turn.
pub fn tells_of_turns(event: &Event) -> bool {
    matches!(
        event.kind.as_str(),
        "agent.message" | "session.waiting_approval" | "session.turn" | "session.error"
    )
}

/// The turn that this event closes, if that turn has taken up this message beside its own.
pub fn turn_that_took(event: &Event, message: u64) -> Option<u64> {
    if event.kind.as_str() != "session.turn" {
        return None;
    }
    let closed = metadata(event);
    let took = closed["took"].as_array()?.iter().any(|taken| taken.as_u64() == Some(message));
    closed["turn"].as_u64().filter(|_| took)
}

/// Whether an event belongs to the answer of a turn.
pub fn is_of(event: &Event, turn: u64) -> bool {
    match event.kind.as_str() {
        "agent.message" | "session.waiting_approval" => event.turn == Some(turn),
        "session.turn" | "session.error" => metadata(event)["turn"].as_u64().or(event.turn) == Some(turn),
        _ => false,
    }
}

fn metadata(event: &Event) -> Value {
    event.metadata.as_ref().map(sederunt_core::json::Json::value).unwrap_or_default()
}

impl TurnReply {
    /// Reads the reply of a turn; `None` while the turn still runs.
    pub fn read(events: &[Arc<Event>], turn: u64) -> Option<Result<Self, Error>> {
        let ends = |event: &&Arc<Event>| {
            matches!(event.kind.as_str(), "session.turn" | "session.waiting_approval") && is_of(event, turn)
        };
        let end = events.iter().find(ends)?;
        let said = metadata(end);
        if end.kind.as_str() == "session.waiting_approval" {
            return Some(Ok(Self::asking(end, &said)));
        }
        let outcome = said["outcome"].as_str().unwrap_or_default();
        let message =
            events.iter().rfind(|event| event.kind.as_str() == "agent.message" && is_of(event, turn));
        match outcome {
            "answered" | "stopped" => {}
            "interrupted" => {
                return Some(Err(Error::unavailable("the turn was interrupted; say it again")));
            }
            "timed_out" => return Some(Err(Error::unavailable("nobody agreed to a tool call in time"))),
            _ => return Some(Err(Error::unavailable("the model could not be reached"))),
        }
        let state = &said["state"];
        let text = |field: &str| state[field].as_str().unwrap_or_default().to_owned();
        let own = message.map(|message| metadata(message)).unwrap_or_default();
        Some(Ok(Self {
            text: message.and_then(|message| message.shown_text()).unwrap_or_default(),
            kind: state["route"].as_str().unwrap_or("talk").to_owned(),
            approval_id: None,
            style: text("response_style"),
            approach: state["therapeutic_approach"].as_str().map(str::to_owned),
            session_action: own["session_action"].as_str().unwrap_or("none").to_owned(),
            crisis: match &state["crisis"] {
                Value::Null => calm(),
                crisis => crisis.clone(),
            },
            diagnostics: state["diagnostics"].clone(),
            sequence: message.map_or(end.sequence, |message| message.sequence),
            stopped: outcome == "stopped",
        }))
    }

    /// What a caller is told who waits for the reply to a message that nobody answers.
    pub(super) fn none_to(message: u64) -> Self {
        Self {
            text: String::new(),
            kind: "kept".to_owned(),
            approval_id: None,
            style: "plain".to_owned(),
            approach: None,
            session_action: "none".to_owned(),
            crisis: calm(),
            diagnostics: json!({}),
            sequence: message,
            stopped: false,
        }
    }

    /// The reply of a turn that waits for approval.
    fn asking(asked: &Event, said: &Value) -> Self {
        Self {
            text: asked.text().unwrap_or_default(),
            kind: "confirmation".to_owned(),
            approval_id: said["approval_id"].as_str().map(str::to_owned),
            style: "plain".to_owned(),
            approach: None,
            session_action: "none".to_owned(),
            crisis: calm(),
            diagnostics: json!({}),
            sequence: asked.sequence,
            stopped: false,
        }
    }
}

fn calm() -> Value {
    json!({"level": 0, "confidence": 0.0, "reason_code": "no_signal", "flags": []})
}
