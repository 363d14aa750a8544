//! Filters of a list of sessions, and the cursor of a page.

use super::{SessionType, StatusSet};
use crate::ids::{SessionId, UserId};

/// Which types a query is about. There is no default: every caller names it, so that rows of another type cannot slip
/// in by omission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeFilter {
    All,
    Only(SessionType),
}

impl TypeFilter {
    /// The one type, for a filter in a query.
    pub const fn only(self) -> Option<SessionType> {
        match self {
            Self::All => None,
            Self::Only(session_type) => Some(session_type),
        }
    }
}

/// Filters of a list; all given ones must hold. Newest activity first.
#[derive(Clone, Debug)]
pub struct SessionQuery {
    pub types: TypeFilter,
    /// Only these; empty: all.
    pub ids: Vec<SessionId>,
    /// Any of these.
    pub status: Option<StatusSet>,
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
    /// Only conversations.
    pub talks_only: bool,
    /// No human bridges: they are nobody's run.
    pub without_bridges: bool,
    /// What the caller may see; `None` sees the whole tenant.
    pub seen_by: Option<Visibility>,
    pub after: Option<ListCursor>,
    pub limit: usize,
}

impl SessionQuery {
    /// The statuses that rows may have; any, where neither statuses nor a group are asked for.
    pub const fn statuses(&self) -> Option<StatusSet> {
        match (self.status, self.group) {
            (Some(status), Some(group)) => Some(status.and(group)),
            (Some(only), None) | (None, Some(only)) => Some(only),
            (None, None) => None,
        }
    }

    /// A first page of conversations: sessions in which people and agents take turns. Hidden ones are left out.
    pub const fn conversations(limit: usize) -> Self {
        let mut query = Self::of(TypeFilter::Only(SessionType::Mixed), limit);
        query.talks_only = true;
        query.inactive = Some(false);
        query
    }

    /// A first page without any filter but the types.
    pub const fn of(types: TypeFilter, limit: usize) -> Self {
        Self {
            types,
            ids: Vec::new(),
            status: None,
            group: None,
            kind: None,
            platform: None,
            interactive: None,
            task_id: None,
            entity_id: None,
            agent_slug: None,
            user_id: None,
            parent_id: None,
            metadata: Vec::new(),
            text: None,
            inactive: None,
            parents_only: false,
            talks_only: false,
            without_bridges: false,
            seen_by: None,
            after: None,
            limit,
        }
    }
}

/// What a caller that is no owner may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
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

impl<T, C> Default for Page<T, C> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

impl<T> Page<T, i64> {
    /// Cuts a page out of numbered rows; the caller loaded one row more than fits.
    pub fn cut(mut rows: Vec<(i64, T)>, limit: usize) -> Self {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().map(|(n, _)| *n).filter(|_| more);
        Self { items: rows.into_iter().map(|(_, row)| row).collect(), next }
    }
}
