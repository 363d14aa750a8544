//! A person's work queue on the wire.

use sederunt_core::definitions as core;
use sederunt_core::engine::WaitingItem;
use sederunt_core::session::query::Page;
use sederunt_core::work::queue::QueueCounts as CoreCounts;
use serde::Serialize;
use utoipa::ToSchema;

use super::approval::Approval;
use super::definitions::{DefinitionAnswer, Task};
use super::session::Session;
use crate::query::params;

/// How many lines each bucket has.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct QueueCounts {
    /// Approvals assigned to me, and sessions on my tasks that wait for a person.
    pub needs_me: u64,
    /// Running or pending sessions on my tasks.
    pub running: u64,
    /// My active tasks with an agent and nothing running or pending.
    pub delegatable: u64,
    /// Failing sessions on my tasks, last changed less than a day ago.
    pub failed: u64,
    /// Sessions on my tasks that completed since my midnight.
    pub done_today: u64,
}

impl From<CoreCounts> for QueueCounts {
    fn from(counts: CoreCounts) -> Self {
        let CoreCounts { needs_me, running, delegatable, failed, done_today } = counts;
        Self { needs_me, running, delegatable, failed, done_today }
    }
}

/// One line of a bucket: an approval with its session and, if it has one, its task; a session; or a task.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QueueItem {
    pub kind: QueueItemKind,
    pub approval: Option<Approval>,
    pub session: Option<Session>,
    #[schema(value_type = Option<Task>)]
    pub task: Option<DefinitionAnswer<core::Task>>,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueItemKind {
    Approval,
    Session,
    Task,
}

impl From<WaitingItem> for QueueItem {
    fn from(waiting: WaitingItem) -> Self {
        let (kind, approval, session, task) = match waiting {
            WaitingItem::Approval(approval, session, task) => (
                QueueItemKind::Approval,
                Some((*approval).into()),
                Some((*session).into()),
                task.map(|task| (*task).into()),
            ),
            WaitingItem::Session(session) => (QueueItemKind::Session, None, Some((*session).into()), None),
            WaitingItem::Task(task) => (QueueItemKind::Task, None, None, Some((*task).into())),
        };
        Self { kind, approval, session, task }
    }
}

/// A page of a bucket, newest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QueueList {
    pub items: Vec<QueueItem>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<WaitingItem, i64>> for QueueList {
    fn from(page: Page<WaitingItem, i64>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

params! {
    /// Whose midnight.
    pub struct ZoneQuery {
        /// A time zone; left out, UTC.
        zone as "tz": Option<String> = text().example("Europe/London"),
    }
}

params! {
    /// A page of a bucket.
    pub struct BucketQuery {
        /// A time zone; left out, UTC.
        zone as "tz": Option<String> = text().example("Europe/London"),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}
