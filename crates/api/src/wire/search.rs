//! Search and hints on the wire.

use sederunt_core::engine::ApprovalFigures as CoreFigures;
use sederunt_core::live::Hint as CoreHint;
use sederunt_core::memory::Memory;
use sederunt_core::session::query::Page;
use sederunt_core::store::SearchHit;
use sederunt_core::{Error, Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::{SessionType, Status};
use crate::limits::HINT_CURSOR_CHARS_MAX;
use crate::query::params;

params! {
    /// Words to find.
    pub struct SearchQuery {
        /// Words that must all be found in a message, or in a title or description.
        q: String = text().chars_min(1).chars_max(limits::QUERY_CHARS_MAX).example("budget").required(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this search.
        after as "cursor": Option<i64> =
            text().pattern("^-?[0-9]{1,18}$").parsed("must be a `next_cursor` of this search", parse_row),
    }
}

/// A match of a search.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    pub session_id: String,
    pub title: Option<String>,
    pub session_type: SessionType,
    pub status: Status,
    #[schema(value_type = String, format = DateTime)]
    pub last_activity_at: Timestamp,
    /// The event, or null for the title or description.
    pub sequence: Option<u64>,
    pub snippet: String,
}

/// A match in the caller's memory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FoundMemory {
    pub id: String,
    /// `fact` or `arc`.
    pub kind: String,
    pub text: String,
}

impl From<Memory> for FoundMemory {
    fn from(memory: Memory) -> Self {
        Self { kind: memory.kind().as_str().to_owned(), text: memory.text(), id: memory.id }
    }
}

/// A page of hits, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hits {
    pub items: Vec<Hit>,
    /// Matches in the caller's own memory, best first. Only on the first page.
    #[serde(default)]
    pub memories: Vec<FoundMemory>,
    pub next_cursor: Option<String>,
}

impl From<Page<SearchHit, i64>> for Hits {
    fn from(page: Page<SearchHit, i64>) -> Self {
        let hit = |hit: SearchHit| Hit {
            session_id: hit.session.to_string(),
            title: hit.about.title.map(Into::into),
            session_type: hit.about.session_type.into(),
            status: hit.about.status.into(),
            last_activity_at: hit.about.last_at,
            sequence: hit.sequence,
            snippet: hit.snippet,
        };
        Self {
            items: page.items.into_iter().map(hit).collect(),
            memories: Vec::new(),
            next_cursor: page.next.map(|cursor| cursor.to_string()),
        }
    }
}

params! {
    /// What hints are wanted about.
    pub struct HintsQuery {
        /// `sessions`, `approvals` and `counts`, separated by commas. Left out: all.
        topics: Vec<String> = text()
            .example("sessions,counts")
            .pattern("^(sessions|approvals|counts)(,(sessions|approvals|counts))*$")
            .list(),
        /// The time zone of the counts; left out, UTC.
        zone as "tz": Option<String> = text().example("Europe/London"),
        /// The `id` of the last hint seen. `Last-Event-ID` wins.
        cursor: Option<String> = text().chars_max(HINT_CURSOR_CHARS_MAX),
    }
}

/// What lists a client keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topics {
    pub sessions: bool,
    pub approvals: bool,
    pub counts: bool,
}

impl Topics {
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        if words.is_empty() {
            return Ok(Self { sessions: true, approvals: true, counts: true });
        }
        let mut topics = Self { sessions: false, approvals: false, counts: false };
        for word in words {
            match word.as_str() {
                "sessions" => topics.sessions = true,
                "approvals" => topics.approvals = true,
                "counts" => topics.counts = true,
                _ => return Err(Error::invalid("topics", "must be sessions, approvals or counts")),
            }
        }
        Ok(topics)
    }
}

/// Something about this session changed: read it again if you show it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hint {
    pub id: String,
    pub status: Status,
    pub last_sequence: u64,
    /// The session's row changed, not only its log.
    pub row_changed: bool,
    pub deleted: bool,
}

impl From<&CoreHint> for Hint {
    fn from(hint: &CoreHint) -> Self {
        Self {
            id: hint.session.to_string(),
            status: hint.status.into(),
            last_sequence: hint.last_sequence,
            row_changed: hint.row_changed,
            deleted: hint.deleted,
        }
    }
}

/// How many approvals wait for the caller, and which ones came and went since this stream said so last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalFigures {
    /// At most 1,000.
    pub pending: usize,
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl From<CoreFigures> for ApprovalFigures {
    fn from(figures: CoreFigures) -> Self {
        let CoreFigures { pending, added, removed } = figures;
        let texts = |ids: Vec<Box<str>>| ids.into_iter().map(Into::into).collect();
        Self { pending, added: texts(added), removed: texts(removed) }
    }
}
