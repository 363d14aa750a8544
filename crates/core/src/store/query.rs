//! Questions to a store, and its answers.

use crate::feedback;
use crate::ids::{SessionId, TenantId, UserId};
use crate::memory::vector::Vector;
use crate::memory::{self, Owner};
use crate::safety::opaque::OpaqueId;
use crate::session::{SessionType, Status};
use crate::time::Timestamp;

/// A session that the sweeper should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSession {
    pub tenant: TenantId,
    pub session: SessionId,
}

/// An approval that the sweeper should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueApproval {
    pub tenant: TenantId,
    pub approval: Box<str>,
}

/// Which memories to read.
#[derive(Clone, Debug)]
pub struct MemoryQuery {
    pub owner: Owner,
    pub kind: Option<memory::MemoryKind>,
    /// Any of these, best match first, instead of newest first; then `after` is not used.
    pub words: Vec<String>,
    /// Created at or after this.
    pub since: Option<Timestamp>,
    /// Also what another memory has taken the place of.
    pub dormant: bool,
    pub after: Option<i64>,
    pub limit: usize,
}

/// Which vectors to read.
#[derive(Clone, Debug)]
pub struct VectorQuery {
    pub owner: Owner,
    /// Which model made them; those of two cannot be compared.
    pub model: String,
    /// Made after the one of this number.
    pub after: i64,
    /// The newest so many.
    pub limit: usize,
}

/// The vectors of an owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vectors {
    /// How many there are in all.
    pub kept: u64,
    pub items: Vec<NumberedVector>,
}

/// The vector of a memory. Numbers grow with every vector of an owner; two made at once may share one.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedVector {
    pub number: i64,
    pub memory: String,
    pub vector: Vector,
}

/// A feedback session that silence has closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackDue {
    pub tenant: TenantId,
    pub id: String,
}

/// Which feedback sessions to read, newest first.
#[derive(Clone, Debug)]
pub struct FeedbackQuery {
    pub state: Option<feedback::session::FeedbackState>,
    /// Those of one user.
    pub author: Option<UserId>,
    pub after: Option<i64>,
    pub limit: usize,
}

/// Which failed runs to read, newest first.
#[derive(Clone, Debug, Default)]
pub struct FailureQuery {
    /// Those of one task.
    pub task_id: Option<String>,
    /// That of one session.
    pub session: Option<SessionId>,
    pub after: Option<i64>,
    pub limit: usize,
}

/// Whose ratings and crises are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsOf {
    Tenant,
    /// One session, by the name that its records give it.
    Session(OpaqueId),
    /// Those that name this user.
    User(UserId),
}

/// How many records there are beside what was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordsKept {
    pub ratings: u64,
    pub crises: u64,
}

/// Words to find, and in whose eyes.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// Words; all must be found. Never empty.
    pub words: Vec<String>,
    pub seen_by: Option<crate::session::query::Visibility>,
    pub after: Option<i64>,
    pub limit: usize,
}

/// Something that the words were found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    pub session: SessionId,
    pub about: HitSession,
    /// The event, or `None` for the title or description.
    pub sequence: Option<u64>,
    pub snippet: String,
}

/// What a hit shows of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitSession {
    pub title: Option<Box<str>>,
    pub session_type: SessionType,
    pub status: Status,
    pub last_at: Timestamp,
}

/// One stored line of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub target: String,
}

/// How the store is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    pub kind: &'static str,
    pub server_version: String,
    pub schema_version: u32,
    pub sessions: u64,
    pub events: u64,
    pub bytes: u64,
}
