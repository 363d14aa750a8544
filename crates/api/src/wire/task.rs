//! Runs of tasks on the wire: starting one, its progress, and the runs about an entity.

use std::collections::BTreeMap;

use sederunt_core::engine::{self, TaskStanding as CoreStanding};
use sederunt_core::session::block;
use sederunt_core::session::query::{ListCursor, Page};
use sederunt_core::work::output::OutputContract;
use sederunt_core::{Error, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Raw;
use super::definitions::{Output, TaskStatus};
use super::event::Event;
use super::session::{Session, Status};
use crate::limits::{ENTITY_SESSIONS_DEFAULT, ENTITY_SESSIONS_MAX};
use crate::query::params;

/// A task to be started.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"input": {"city": "Oban"}}))]
pub struct Trigger {
    /// Laid over the task's own input, field by field. At most 256 KiB.
    #[schema(value_type = Raw, required = false)]
    pub input: Option<Raw>,
}

/// The newest run of a task.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TaskStanding {
    pub task_id: String,
    pub task_slug: String,
    pub task_name: String,
    #[schema(value_type = TaskStatus)]
    pub task_status: &'static str,
    /// The newest run that the caller may see; null if there is none.
    pub session: Option<Session>,
    pub status: Option<Status>,
    /// How long it took, or has been running.
    pub duration_ms: Option<i64>,
    pub error_message: Option<String>,
    /// The newest events of that run, oldest first.
    pub events: Vec<Event>,
}

impl From<CoreStanding> for TaskStanding {
    fn from(standing: CoreStanding) -> Self {
        let task = standing.task;
        let session = standing.session.map(Session::from);
        Self {
            task_id: task.id.into(),
            task_slug: task.value.slug,
            task_name: task.value.name,
            task_status: task.value.status.as_str(),
            status: session.as_ref().map(|session| session.status),
            error_message: session.as_ref().and_then(|session| session.error_message.clone()),
            session,
            duration_ms: standing.duration_ms,
            events: standing.events.iter().map(Event::from).collect(),
        }
    }
}

/// A session that was about an entity.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EntitySession {
    pub id: String,
    pub task_id: Option<String>,
    pub task_slug: Option<String>,
    pub task_name: Option<String>,
    /// The task's output contract, as it is now.
    #[schema(value_type = Option<Output>)]
    pub task_output_config: Option<OutputContract>,
    pub status: Status,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    pub duration_ms: Option<i64>,
    pub parent_id: Option<String>,
    pub error_message: Option<String>,
    pub child_count: usize,
}

impl From<engine::EntitySession> for EntitySession {
    fn from(row: engine::EntitySession) -> Self {
        let details = row.session.details;
        let (task_slug, task_name, task_output_config) = match row.task {
            Some(task) => (Some(task.value.slug), Some(task.value.name), task.value.output),
            None => (None, None, None),
        };
        Self {
            id: row.session.id.to_string(),
            task_id: details.task_id.map(Into::into),
            task_slug,
            task_name,
            task_output_config,
            status: row.session.head.status.into(),
            started_at: details.started_at,
            completed_at: details.completed_at,
            duration_ms: row.duration_ms,
            parent_id: details.parent_id.map(|id| id.to_string()),
            error_message: details.error_message.map(Into::into),
            child_count: row.child_count,
        }
    }
}

/// A page of an entity's sessions, newest activity first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EntitySessionList {
    pub items: Vec<EntitySession>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<engine::EntitySession>> for EntitySessionList {
    fn from(page: Page<engine::EntitySession>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|cursor| cursor.to_string()),
        }
    }
}

/// The status of a field or a block, by the newest session that works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockStatus {
    Pending,
    InProgress,
    WaitingHuman,
    Complete,
    Failed,
}

impl From<block::BlockStatus> for BlockStatus {
    fn from(status: block::BlockStatus) -> Self {
        match status {
            block::BlockStatus::Pending => Self::Pending,
            block::BlockStatus::InProgress => Self::InProgress,
            block::BlockStatus::WaitingHuman => Self::WaitingHuman,
            block::BlockStatus::Complete => Self::Complete,
            block::BlockStatus::Failed => Self::Failed,
        }
    }
}

/// The status of an entity's fields and of the blocks of its page.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"by_field": {"price": "in-progress"}, "by_block": {"pricing": "complete"}}))]
pub struct StatusMap {
    pub by_field: BTreeMap<String, BlockStatus>,
    pub by_block: BTreeMap<String, BlockStatus>,
}

impl From<block::TaskStatusMap> for StatusMap {
    fn from(map: block::TaskStatusMap) -> Self {
        let words = |each: BTreeMap<String, block::BlockStatus>| {
            each.into_iter().map(|(name, status)| (name, status.into())).collect()
        };
        Self { by_field: words(map.by_field), by_block: words(map.by_block) }
    }
}

params! {
    /// Which sessions about an entity.
    pub struct EntitySessionsQuery {
        /// Only sessions without a parent.
        parents_only | "parentsOnly": Option<bool> = flag(),
        /// The opposite of `parents_only`; give one of the two.
        include_children | "includeChildren": Option<bool> = flag(),
        /// A larger limit than 100 is read as 100.
        limit: u64 = number().min(1).or(ENTITY_SESSIONS_DEFAULT as u64),
        /// A `next_cursor` of this list.
        after as "cursor": Option<ListCursor> = list_cursor(),
    }
}

impl EntitySessionsQuery {
    /// The size of the page.
    pub fn rows(&self) -> Result<usize, Error> {
        match self.limit {
            0 => Err(Error::invalid("limit", "must be at least 1")),
            limit => Ok(usize::try_from(limit).unwrap_or(ENTITY_SESSIONS_MAX).min(ENTITY_SESSIONS_MAX)),
        }
    }

    /// Whether only sessions without a parent are wanted.
    pub fn parents_only(&self) -> Result<bool, Error> {
        if self.parents_only.is_some() && self.parents_only == self.include_children {
            return Err(Error::invalid("include_children", "contradicts `parents_only`"));
        }
        Ok(self.parents_only.or(self.include_children.map(|with| !with)).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_page_of_sessions_than_the_bound_is_cut_to_it() {
        let rows = |limit: usize| {
            let limit = limit as u64;
            EntitySessionsQuery { parents_only: None, include_children: None, limit, after: None }.rows()
        };
        assert_eq!(rows(ENTITY_SESSIONS_MAX - 1).unwrap(), ENTITY_SESSIONS_MAX - 1);
        assert_eq!(rows(ENTITY_SESSIONS_MAX).unwrap(), ENTITY_SESSIONS_MAX);
        assert_eq!(rows(ENTITY_SESSIONS_MAX + 1).unwrap(), ENTITY_SESSIONS_MAX);
        assert!(rows(0).is_err());
    }
}
