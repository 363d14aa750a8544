//! What a list of sessions can be asked for, and where a page goes on.

use super::{SessionType, Status, StatusSet};
use crate::ids::{SessionId, UserId};

/// Filters of a list; all given ones must hold. Newest activity first.
#[derive(Clone, Debug, Default)]
pub struct SessionQuery {
    pub session_type: Option<SessionType>,
    pub status: Option<Status>,
    pub group: Option<StatusSet>,
    pub kind: Option<String>,
    pub platform: Option<String>,
    pub interactive: Option<bool>,
    pub task_id: Option<String>,
    pub entity_id: Option<String>,
    pub agent_slug: Option<String>,
    /// The holder.
    pub user_id: Option<UserId>,
    pub parent_id: Option<SessionId>,
    pub metadata: Vec<(String, String)>,
    /// Words in title, description or messages.
    pub text: Option<String>,
    /// `None`: only sessions that are not hidden. `Some(true)`: only hidden ones. `Some(false)`: both.
    pub inactive: Option<bool>,
    pub parents_only: bool,
    /// Whose eyes: `None` sees the whole tenant.
    pub seen_by: Option<Eyes>,
    pub after: Option<ListCursor>,
    pub limit: usize,
}

/// What a caller that is no owner may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eyes {
    Participant(UserId),
    Claims(crate::ids::CredentialId),
    Prefix(String),
}

/// The last row of a page: (minute of activity, tie-breaker of the store).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCursor {
    pub minute: i64,
    pub tie: i64,
}

impl std::fmt::Display for ListCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.minute, self.tie)
    }
}

impl ListCursor {
    pub fn parse(text: &str) -> Option<Self> {
        let (minute, tie) = text.split_once('.')?;
        Some(Self { minute: minute.parse().ok()?, tie: tie.parse().ok()? })
    }
}

/// One page of anything listed.
#[derive(Clone, Debug)]
pub struct Page<T, C = ListCursor> {
    pub items: Vec<T>,
    pub next: Option<C>,
}
