//! The event room: the taxonomy, who may write what, and how a log grows.
//!
//! Owns [`kind`] (types, roles, authority), [`payload`] (the typed keys), [`log`] (the pure step
//! from a head and new events to numbered events). Refuses to know how events are stored or sent.

pub mod kind;
pub mod log;
pub mod payload;
mod store;

use std::borrow::Cow;
use std::sync::Arc;

use crate::ids::SessionId;
use crate::json::Json;
use crate::talk::silence;
use crate::time::Timestamp;

pub use kind::{
    EventRole, EventType, Kinds, MESSAGE_TYPES, Writer, is_human_event_type, is_valid_event_type,
};
pub use log::{ColdColumns, advance};
pub use store::{EventStore, SearchStore};

/// One immutable line of a session's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub session_id: SessionId,
    pub sequence: u64,
    pub kind: EventType,
    pub content: Option<Json>,
    pub metadata: Option<Json>,
    pub subthread_id: Option<Box<str>>,
    pub external_event_id: Option<Box<str>>,
    pub turn: Option<u64>,
    pub author: Option<Box<str>>,
    pub at: Timestamp,
}

/// An event that has been checked and waits for its number.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    pub kind: EventType,
    pub content: Option<Json>,
    pub metadata: Option<Json>,
    pub subthread_id: Option<Box<str>>,
    pub external_event_id: Option<Box<str>>,
    pub author: Option<Box<str>>,
}

impl NewEvent {
    /// An event of the engine's own.
    pub fn engine(kind: EventType, metadata: Option<Json>) -> Self {
        Self { kind, content: None, metadata, subthread_id: None, external_event_id: None, author: None }
    }

    /// What this event costs its batch and page.
    pub fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Json::len) + self.metadata.as_ref().map_or(0, Json::len)
    }
}

impl Event {
    /// Leaves what a share link shows: what was said, and when.
    pub fn keep_content_alone(&mut self) {
        self.metadata = None;
        self.subthread_id = None;
        self.external_event_id = None;
        self.turn = None;
        self.author = None;
    }

    pub fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Json::len) + self.metadata.as_ref().map_or(0, Json::len)
    }

    /// The text parts, joined, as the log holds them: what a model is given.
    pub fn text(&self) -> Option<String> {
        payload::text_of(self.content.as_ref()?)
    }

    /// The text as readers are shown it: what a preview, an export and the search index read.
    pub fn shown_text(&self) -> Option<String> {
        payload::shown_text_of(self.kind.as_str(), self.content.as_ref()?)
    }

    /// The content as readers are shown it, where they are not shown the log itself.
    pub fn shown_content(&self) -> Option<Cow<'_, Json>> {
        let content = self.content.as_ref()?;
        match self.kind.as_str() == "agent.message" && silence::may_hold_marker(content) {
            true => Some(Cow::Owned(silence::shown_parts(content))),
            false => Some(Cow::Borrowed(content)),
        }
    }
}

/// The outcome of one event of an append.
#[derive(Clone, Debug)]
pub enum AppendOutcome {
    New(Arc<Event>),
    /// The log already has this external id, at this sequence; nothing was added.
    Repeat(u64),
}

impl AppendOutcome {
    pub fn sequence(&self) -> u64 {
        match self {
            Self::New(event) => event.sequence,
            Self::Repeat(sequence) => *sequence,
        }
    }
}

/// What to read of a log.
#[derive(Clone, Debug)]
pub struct EventQuery {
    pub after: u64,
    pub before: Option<u64>,
    pub types: Vec<String>,
    pub newest_first: bool,
    pub limit: usize,
    /// Bytes of events after which the page ends; one event that is larger is a page by itself.
    pub bytes_max: usize,
}

impl EventQuery {
    /// The same for messages alone; all of them, unless types of messages were asked for.
    #[must_use]
    pub fn of_messages(mut self) -> Self {
        self.types.retain(|kind| MESSAGE_TYPES.contains(&kind.as_str()));
        if self.types.is_empty() {
            self.types = MESSAGE_TYPES.map(str::to_owned).to_vec();
        }
        self
    }
}

impl Default for EventQuery {
    fn default() -> Self {
        Self {
            after: 0,
            before: None,
            types: Vec::new(),
            newest_first: false,
            limit: crate::limits::PAGE_ROWS_DEFAULT,
            bytes_max: crate::limits::PAGE_BYTES_MAX,
        }
    }
}

/// A page of a log; it ends at the row, byte or scan limit and says where to go on.
#[derive(Clone, Debug)]
pub struct EventPage {
    pub events: Vec<Event>,
    pub last_sequence: u64,
    pub has_more: bool,
    /// The sequence to pass as `after` (or `before`, newest first) for the next page.
    pub next_after: u64,
    /// The log is that of a human bridge, which not everybody reads who sees its row.
    pub is_bridge: bool,
}
