//! A person's work queue.

use std::time::Duration;

use super::Engine;
use super::sessions::check_limit;
use crate::access::{self, Actor, Role, Verb};
use crate::approval::Approval;
use crate::definitions::{DefinitionKind, StoredDefinition, Task};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::session::Session;
use crate::session::query::Page;
use crate::time::Timestamp;
use crate::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf, midnight};

/// A failure older than this is out of the queue.
const FAILED_SHOWN: Duration = Duration::from_secs(24 * 3600);

/// An item of a bucket, with its subject.
#[derive(Clone, Debug)]
pub enum WaitingItem {
    /// With its task, if it has one that the caller may read.
    Approval(Box<Approval>, Box<Session>, Option<Box<StoredDefinition<Task>>>),
    Session(Box<Session>),
    Task(Box<StoredDefinition<Task>>),
}

impl Engine {
    /// How many items each of the caller's buckets has.
    pub async fn queue_counts(&self, actor: &Actor, zone: Option<&str>) -> Result<QueueCounts> {
        let of = self.queue_of(actor, zone).await?;
        self.tenant.queue_counts(&actor.tenant, of).await
    }

    /// A page of one bucket, newest first.
    pub async fn queue(
        &self,
        actor: &Actor,
        bucket: Bucket,
        zone: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<WaitingItem, i64>> {
        check_limit(limit)?;
        let of = self.queue_of(actor, zone).await?;
        let page = self.tenant.queue(&actor.tenant, of, bucket, after, limit).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for item in page.items {
            // Items that were deleted meanwhile are left out.
            items.extend(self.waiting(actor, item).await?);
        }
        Ok(Page { items, next: page.next })
    }

    async fn waiting(&self, actor: &Actor, item: QueueItem) -> Result<Option<WaitingItem>> {
        let session = async |id| self.sessions.session(&actor.tenant, id).await;
        Ok(match item {
            QueueItem::Approval { id, session: on } => {
                let approval = match self.sessions.approval(&actor.tenant, &id).await? {
                    Some(approval) => Some(self.with_link(&actor.tenant, approval).await?),
                    None => None,
                };
                let session = session(&on).await?;
                match approval.zip(session) {
                    Some((approval, session)) => {
                        let task = self.shown_definition(actor, approval.task_id.as_deref()).await?;
                        let task = task.map(Box::new);
                        Some(WaitingItem::Approval(Box::new(approval), Box::new(session), task))
                    }
                    None => None,
                }
            }
            QueueItem::Session(id) => session(&id)
                .await?
                // The bridge of another person is counted, and its row is for owners.
                .filter(|found| !found.head.is_bridge || access::check(actor, Verb::Read, found).is_ok())
                .map(|session| WaitingItem::Session(Box::new(session))),
            QueueItem::Task(id) => match self.tenant.doc(&actor.tenant, DefinitionKind::Task, &id).await? {
                Some(doc) => Some(WaitingItem::Task(Box::new(StoredDefinition::of(&doc)?))),
                None => None,
            },
        })
    }

    async fn queue_of(&self, actor: &Actor, zone: Option<&str>) -> Result<QueueOf> {
        let user = queue_owner(actor)?;
        queue_at(self.tenant.now().await?, user, actor.role == Role::Owner, zone)
    }
}

/// The person whose work queue a caller reads; `None`: every task of the tenant counts.
pub(super) fn queue_owner(actor: &Actor) -> Result<Option<UserId>> {
    match (actor.role, actor.user.clone()) {
        (Role::Owner, user) => Ok(user),
        (Role::Member, Some(user)) => Ok(Some(user)),
        _ => Err(Error::denied("a work queue is a person's")),
    }
}

/// A person's work queue at a time.
pub(super) fn queue_at(
    now: Timestamp,
    user: Option<UserId>,
    is_owner: bool,
    zone: Option<&str>,
) -> Result<QueueOf> {
    Ok(QueueOf { user, is_owner, day_start: midnight(now, zone)?, failed_since: now.minus(FAILED_SHOWN) })
}
