//! The session room: what a session is, how its status may move, what its row says.
//!
//! Owns the status table ([`status`]), the outward vocabularies ([`outward`]), the row ([`row`]),
//! what of it moves ([`state`]), and the pure decisions about opening, changing and deleting
//! sessions ([`decide`]).
//! Refuses to know events' payloads (see [`crate::event`]) and who is calling beyond an
//! [`Actor`](crate::access::Actor).

pub mod block;
pub mod decide;
pub mod export;
pub mod outward;
pub mod query;
pub mod row;
pub mod source;
pub mod state;
pub mod status;
mod store;

pub use row::{Claim, Details, Head, Session};
pub use source::{SessionSource, SourceKind};
pub use state::SessionState;
pub use status::{Status, StatusSet};
pub use store::{SessionListStore, SessionRowStore};

use crate::error::{Error, Result};

/// What a session is for. Set at creation, never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SessionType {
    Agent,
    Response,
    Tool,
    Mixed,
}

impl SessionType {
    pub const ALL: [Self; 4] = [Self::Agent, Self::Response, Self::Tool, Self::Mixed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Response => "response",
            Self::Tool => "tool",
            Self::Mixed => "mixed",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| Error::invalid("session_type", "must be agent, response, tool or mixed"))
    }
}

/// Where the memory of a session may go. Fixed at creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryMode {
    Local,
    Synced,
    Incognito,
}

impl MemoryMode {
    pub const ALL: [Self; 3] = [Self::Local, Self::Synced, Self::Incognito];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Synced => "synced",
            Self::Incognito => "incognito",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| Error::invalid("memory_mode", "must be local, synced or incognito"))
    }
}

/// Who wrote a session's description: a user's is never overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptionSource {
    Fallback,
    Introspection,
    User,
}

impl DescriptionSource {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fallback => "fallback",
            Self::Introspection => "introspection",
            Self::User => "user",
        }
    }

    pub fn stored(text: &str) -> Option<Self> {
        [Self::Fallback, Self::Introspection, Self::User].into_iter().find(|source| source.as_str() == text)
    }
}
