//! Event types: the closed families, the open custom names, the role of each, and who may write it. A caller never
//! chooses a role; it follows from the type.

use std::sync::Arc;

use crate::document::PATCH;
use crate::error::{Error, Result};
use crate::limits;

/// Every type the product itself defines.
pub const KNOWN: &[&str] = &[
    "user.message", "user.tool_result", "user.tool_confirmation", "user.form_submit", "user.form_draft",
    "user.output_approval", "agent.message", "agent.tool_call", "agent.tool_result", "agent.thinking",
    "session.created", "session.claimed", "session.status_change", "session.error", "session.completed",
    "session.context_injected", "session.waiting_approval", "session.introspection",
    "session.sitting_started", "session.sitting_ended", "session.turn", "tool.session_started",
    "tool.field_changed", "tool.invocation_started", "tool.invocation_completed", "tool.invocation_failed",
    "tool.composition_step.started", "tool.composition_step.completed", "human.navigate",
    "human.entity_view", "human.marker", "human.task_switch", "external.event", "state.patch",
];

/// Prefixes whose names are all listed in [`KNOWN`].
const CLOSED_PREFIXES: [&str; 7] = ["user.", "agent.", "session.", "tool.", "human.", "external.", "state."];

/// A valid event type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Known(&'static str),
    /// A dotted name outside the product's prefixes.
    Custom(Arc<str>),
}

/// The types of what people and agents say to each other.
pub const MESSAGE_TYPES: [&str; 2] = ["user.message", "agent.message"];

impl EventType {
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(known) = KNOWN.iter().find(|known| **known == text) {
            return Ok(Self::Known(known));
        }
        if !is_valid_event_type(text) {
            return Err(Error::invalid(
                "type",
                "is neither a known event type nor a dotted custom name such as `billing.charged`",
            ));
        }
        Ok(Self::Custom(text.into()))
    }

    /// Wraps a type that a store wrote.
    pub fn stored(text: &str) -> Self {
        KNOWN
            .iter()
            .find(|known| **known == text)
            .map_or_else(|| Self::Custom(text.into()), |known| Self::Known(known))
    }

    /// A type of [`KNOWN`], for the engine's own events.
    pub const fn known(text: &'static str) -> Self {
        Self::Known(text)
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(text) => text,
            Self::Custom(text) => text,
        }
    }

    pub fn role(&self) -> EventRole {
        match self.as_str().split('.').next() {
            Some("user" | "human") => EventRole::User,
            Some("agent" | "tool") => EventRole::Agent,
            _ => EventRole::System,
        }
    }

    /// Who may write it through an append.
    pub fn writer(&self) -> Writer {
        match self.as_str() {
            "user.message" => Writer::Participant,
            "external.event" => Writer::AnyoneEvenAfterTheEnd,
            "state.patch" => Writer::ParticipantOrWorker,
            text if text.starts_with("agent.") || text.starts_with("tool.") => Writer::Worker,
            text if text.starts_with("human.") => Writer::BridgeHolder,
            text if text.starts_with("session.") || text.starts_with("user.") => Writer::Engine,
            _ => Writer::ParticipantOrWorker,
        }
    }

    /// Whether the engine writes it about the session itself.
    pub fn is_of_session(&self) -> bool {
        self.as_str().starts_with("session.")
    }

    /// Whether it patches a document.
    pub fn is_patch(&self) -> bool {
        self.as_str() == PATCH
    }

    pub fn is_message(&self) -> bool {
        MESSAGE_TYPES.contains(&self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRole {
    User,
    Agent,
    System,
}

impl EventRole {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::System => "system",
        }
    }
}

/// Who may write an event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Engine,
    Worker,
    BridgeHolder,
    Participant,
    ParticipantOrWorker,
    AnyoneEvenAfterTheEnd,
}

/// The writers that a batch of events needs, folded so that a guard is checked once per batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// The first event type of the batch that only Sederunt itself writes.
    pub engine: Option<&'static str>,
    pub worker: bool,
    pub bridge: bool,
    /// At least one event is none of a person's own activity, which is all that a human bridge takes.
    pub beside_bridge: bool,
    pub participant: bool,
    /// The first event type about a tool: in a tool session only Sederunt itself writes it.
    pub tool: Option<&'static str>,
    /// At least one event is of a type that a closed session refuses.
    pub open_only: bool,
    /// At least one event patches a document.
    pub patch: bool,
}

impl Kinds {
    pub fn of<'a>(types: impl IntoIterator<Item = &'a EventType>) -> Self {
        let mut kinds = Self::default();
        for kind in types {
            match kind.writer() {
                Writer::Engine => {
                    kinds.engine.get_or_insert(match kind {
                        EventType::Known(name) => name,
                        EventType::Custom(_) => "session.*",
                    });
                }
                Writer::Worker => kinds.worker = true,
                Writer::BridgeHolder => kinds.bridge = true,
                Writer::Participant => kinds.participant = true,
                Writer::ParticipantOrWorker | Writer::AnyoneEvenAfterTheEnd => {}
            }
            if let EventType::Known(name) = kind
                && name.starts_with("tool.")
            {
                kinds.tool.get_or_insert(name);
            }
            kinds.beside_bridge |= kind.writer() != Writer::BridgeHolder;
            kinds.open_only |= kind.writer() != Writer::AnyoneEvenAfterTheEnd;
            kinds.patch |= kind.is_patch();
        }
        kinds
    }
}

/// Whether a text is a valid event type: listed, or a dotted custom name of lower-case words.
pub fn is_valid_event_type(text: &str) -> bool {
    if KNOWN.contains(&text) {
        return true;
    }
    text.len() <= limits::NAME_CHARS_MAX
        && text.contains('.')
        && !CLOSED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        && text.split('.').all(|word| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
        })
}

/// Whether a text names what a browser may record about its user.
pub fn is_human_event_type(text: &str) -> bool {
    text.starts_with("human.") && KNOWN.contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_type_has_the_role_and_writer_of_the_table() {
        let table = [
            ("user.message", EventRole::User, Writer::Participant),
            ("user.tool_confirmation", EventRole::User, Writer::Engine),
            ("user.output_approval", EventRole::User, Writer::Engine),
            ("user.form_submit", EventRole::User, Writer::Engine),
            ("agent.message", EventRole::Agent, Writer::Worker),
            ("agent.thinking", EventRole::Agent, Writer::Worker),
            ("tool.composition_step.started", EventRole::Agent, Writer::Worker),
            ("session.status_change", EventRole::System, Writer::Engine),
            ("session.sitting_ended", EventRole::System, Writer::Engine),
            ("human.marker", EventRole::User, Writer::BridgeHolder),
            ("external.event", EventRole::System, Writer::AnyoneEvenAfterTheEnd),
            ("state.patch", EventRole::System, Writer::ParticipantOrWorker),
            ("billing.charged", EventRole::System, Writer::ParticipantOrWorker),
        ];
        for (text, role, writer) in table {
            let kind = EventType::parse(text).unwrap();
            assert_eq!((kind.role(), kind.writer()), (role, writer), "{text}");
        }
    }

    #[test]
    fn forged_and_malformed_types_are_refused() {
        for bad in [
            "", "message", "user.hello", "session.hacked", "agent.", ".a", "a.", "a..b", "A.b", "a.B",
            "a b.c", "tool.composition_step", "human.keypress", "external.other", "state.snapshot",
            "a.\u{1F600}",
        ] {
            assert!(EventType::parse(bad).is_err(), "{bad}");
            assert!(!is_valid_event_type(bad), "{bad}");
        }
        assert!(EventType::parse(&format!("a.{}", "b".repeat(limits::NAME_CHARS_MAX - 2))).is_ok());
        assert!(EventType::parse(&format!("a.{}", "b".repeat(limits::NAME_CHARS_MAX - 1))).is_err());
        assert!(is_human_event_type("human.navigate") && !is_human_event_type("human.keypress"));
    }

    #[test]
    fn a_batch_needs_the_hands_of_all_its_events() {
        let types: Vec<EventType> =
            ["external.event", "agent.message"].iter().map(|t| EventType::parse(t).unwrap()).collect();
        let kinds = Kinds::of(&types);
        assert!(kinds.worker && kinds.open_only && !kinds.participant && kinds.engine.is_none());
        assert!(!Kinds::of(&types[..1]).open_only);
    }
}
