//! The live part of a process: its listeners, and what they have not seen yet.
//!
//! Owns the [`Hub`] that stores publish into, in commit order, and that streams, claim calls and hint streams wait
//! on. Holds nothing that must survive a restart: a log is read from the store whenever the ring in memory does not
//! reach back far enough.

mod bell;
pub mod budget;
pub mod hints;
pub mod reply;
pub mod ring;
mod store;

use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use tokio::sync::watch;

pub use hints::{Hint, HintReader, ScopedHintReader};
pub use reply::{Delta, ends_reply};
pub use ring::{EventFrame, LogReader, ReaderStep};
pub use store::DeltaStore;

use crate::access::ReadScope;
use crate::ids::{Incarnation, SessionId, TenantId};
use crate::presence::decide::AccessLoss;
use crate::presence::{PresenceBoard, PresenceChange};
use crate::session::Status;
use crate::store::Notice;
use crate::time::Timestamp;
use crate::work::milestone::Milestone;

/// All listeners and waiters of this process. One per store.
#[derive(Debug, Default)]
pub struct Hub {
    logs: DashMap<Incarnation, Arc<ring::LogChannel>>,
    hints: DashMap<TenantId, Arc<hints::HintChannel>>,
    work: DashMap<TenantId, watch::Sender<u64>>,
    rows: DashMap<Incarnation, watch::Sender<u64>>,
    replies: reply::Replies,
    presence: PresenceBoard,
    listener: OnceLock<MilestoneListener>,
}

/// The milestone listener.
struct MilestoneListener(Box<MilestoneCallback>);
type MilestoneCallback = dyn Fn(&Milestone, Timestamp) + Send + Sync;

impl std::fmt::Debug for MilestoneListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

impl Hub {
    /// Takes the notices of a commit. Stores call it in commit order, before they acknowledge the callers.
    pub fn committed(&self, notices: &[Notice]) {
        for notice in notices {
            self.replies.settle(notice);
            // Looked up by key: asking whether the map is empty would visit every shard.
            if let Some(channel) = self.logs.get(&notice.incarnation) {
                channel.publish(&notice.events, notice.last_sequence);
                if notice.deleted {
                    channel.delete();
                }
            }
            if notice.deleted {
                self.presence.close(notice.incarnation);
            }
            if notice.row_changed {
                self.row_changed(notice.incarnation);
            }
            self.hint(&notice.tenant, notice.status, notice.row_changed, || Hint::of(notice));
        }
    }

    /// Registers the milestone listener of this node. Only the first registration counts, so that two servers in one
    /// process do not count twice; returns whether this was it.
    pub fn on_milestone(&self, tell: impl Fn(&Milestone, Timestamp) + Send + Sync + 'static) -> bool {
        self.listener.set(MilestoneListener(Box::new(tell))).is_ok()
    }

    /// Tells the milestone listener of a milestone, and when it was committed.
    pub fn tell(&self, milestone: &Milestone, at: Timestamp) {
        if let Some(MilestoneListener(tell)) = self.listener.get() {
            tell(milestone, at);
        }
    }

    /// Takes another node's commit: the log has grown, and its events are read from the store.
    pub fn raised(&self, incarnation: Incarnation, last_sequence: u64, hint: Hint) {
        if let Some(channel) = self.logs.get(&incarnation) {
            if hint.deleted {
                channel.delete();
            } else {
                channel.raise(last_sequence);
            }
        }
        if hint.deleted {
            self.presence.close(incarnation);
        }
        if hint.row_changed {
            self.row_changed(incarnation);
        }
        let (tenant, status, row_changed) = (hint.tenant.clone(), hint.status, hint.row_changed);
        self.hint(&tenant, status, row_changed, || hint);
    }

    fn row_changed(&self, incarnation: Incarnation) {
        if let Some(watched) = self.rows.get(&incarnation) {
            watched.send_modify(|count| *count += 1);
        }
    }

    /// Watches a session's row, so that the worker that runs it learns at once of a stop or a steering message.
    pub fn watch_row(self: &Arc<Self>, incarnation: Incarnation) -> RowWatch {
        let changes = self.rows.entry(incarnation).or_default().subscribe();
        RowWatch { hub: self.clone(), incarnation, changes }
    }

    /// Wakes waiting workers, and publishes the hint if the tenant has hint readers; only then is the hint built.
    fn hint(&self, tenant: &TenantId, status: Status, row_changed: bool, hint: impl FnOnce() -> Hint) {
        // New work, or the end of a run: an agent at its concurrency limit can take another.
        let work_or_room = status == Status::Pending
            || status.is_terminal()
            || matches!(status, Status::WaitingHuman | Status::AwaitingTool);
        if work_or_room
            && row_changed
            && let Some(waiters) = self.work.get(tenant)
        {
            waiters.send_modify(|count| *count += 1);
        }
        if let Some(channel) = self.hints.get(tenant) {
            channel.publish(hint());
        }
    }

    /// Wakes the claim calls that wait in a tenant: work may have become available without a change of a session.
    pub fn wake_workers(&self, tenant: &TenantId) {
        if let Some(waiters) = self.work.get(tenant) {
            waiters.send_modify(|count| *count += 1);
        }
    }

    /// Makes every listener read the store: notifications may have been lost.
    pub fn wake_all(&self) {
        for channel in &self.logs {
            channel.doubt();
        }
        for waiters in &self.work {
            waiters.send_modify(|count| *count += 1);
        }
        for watched in &self.rows {
            watched.send_modify(|count| *count += 1);
        }
        for channel in &self.hints {
            channel.reset();
        }
    }

    /// The logs that have listeners here, for a store that must poll for other nodes' commits.
    pub fn listened(&self) -> Vec<(Incarnation, u64)> {
        self.logs.iter().map(|entry| (*entry.key(), entry.mark())).collect()
    }

    /// Whether this log has a listener here.
    pub fn listens_to(&self, incarnation: Incarnation) -> bool {
        self.logs.contains_key(&incarnation)
    }

    /// Starts listening to a log. Register first, read the store after, so that nothing is missed in between.
    pub fn listen(self: &Arc<Self>, incarnation: Incarnation, cursor: u64) -> LogReader {
        let channel = self.logs.entry(incarnation).or_default().clone();
        LogReader::new(self.clone(), incarnation, channel, cursor)
    }

    fn unlisten(&self, incarnation: Incarnation, channel: &Arc<ring::LogChannel>) {
        // When the last reader leaves, two references are left: the map's and that reader's.
        self.logs.remove_if(&incarnation, |_, listed| {
            Arc::ptr_eq(listed, channel) && Arc::strong_count(listed) <= 2
        });
    }

    /// Adds text to the unfinished reply of a session, and wakes its readers.
    pub fn delta(&self, delta: &Delta) {
        self.replies.add(delta);
        if let Some(channel) = self.logs.get(&delta.incarnation) {
            channel.tell();
        }
    }

    /// The length of the unfinished reply: where the next delta starts.
    pub fn reply_len(&self, incarnation: Incarnation, epoch: u64) -> usize {
        self.replies.len(incarnation, epoch)
    }

    /// Whether an unfinished reply of this session is known here.
    pub fn has_reply(&self, incarnation: Incarnation) -> bool {
        self.replies.knows(incarnation)
    }

    /// Takes another node's notice that a session's unfinished reply is over: its message, or the end of its run, is
    /// in the log.
    pub fn reply_finished(&self, incarnation: Incarnation) {
        self.replies.drop_reply(incarnation);
    }

    /// Who is present in sessions. Changes go through the methods of this hub, which wake the readers.
    pub fn presence(&self) -> &PresenceBoard {
        &self.presence
    }

    /// Wakes the readers of sessions whose list of people has changed.
    pub fn presence_changed(&self, sessions: &[Incarnation]) {
        for channel in sessions.iter().filter_map(|incarnation| self.logs.get(incarnation)) {
            channel.tell();
        }
    }

    /// Takes another node's change of who is present.
    pub fn presence_heard(&self, change: PresenceChange) {
        self.presence_changed(&self.presence.heard(change));
    }

    /// Ends the presences of people who have lost access; returns what the other nodes are to be told.
    pub fn presence_lost(&self, tenant: &TenantId, loss: AccessLoss, at: Timestamp) -> Vec<PresenceChange> {
        let (changes, changed) = self.presence.lose(tenant, loss, at);
        self.presence_changed(&changed);
        changes
    }

    /// Listens to hints about a tenant's sessions, from a cursor of this process or from now on.
    pub fn hints(&self, tenant: &TenantId, cursor: Option<&str>) -> HintReader {
        let channel = self.hints.entry(tenant.clone()).or_default().clone();
        HintReader::new(channel, cursor)
    }

    /// Listens to the hints about a tenant's sessions in a scope. The first such listener of a tenant also gets the
    /// router and must run it.
    pub fn scoped_hints(
        &self,
        tenant: &TenantId,
        scope: ReadScope,
        cursor: Option<&str>,
    ) -> (ScopedHintReader, Option<hints::HintRouter>) {
        let channel = self.hints.entry(tenant.clone()).or_default().clone();
        ScopedHintReader::new(channel, scope, cursor)
    }

    /// Waits for work to appear in a tenant. Subscribe before reading the store, await afterwards.
    pub fn work(&self, tenant: &TenantId) -> watch::Receiver<u64> {
        self.work.entry(tenant.clone()).or_default().subscribe()
    }

    /// How many logs are listened to, and by how many readers.
    pub fn audience(&self) -> (usize, usize) {
        let readers = self.logs.iter().map(|entry| entry.readers()).sum();
        (self.logs.len(), readers)
    }

    /// The part of the unfinished reply that a reader has not seen.
    fn reply_since(
        &self,
        incarnation: Incarnation,
        seen: &mut reply::ReplyPosition,
    ) -> Option<reply::ReplyPiece> {
        self.replies.since(incarnation, seen)
    }
}

/// Reports changes of one session's row until it is dropped.
#[derive(Debug)]
pub struct RowWatch {
    hub: Arc<Hub>,
    incarnation: Incarnation,
    changes: watch::Receiver<u64>,
}

impl RowWatch {
    /// Whether the row changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        let changed = self.changes.has_changed().unwrap_or(false);
        self.changes.mark_unchanged();
        changed
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for RowWatch {
    fn drop(&mut self) {
        self.hub.rows.remove_if(&self.incarnation, |_, watched| watched.receiver_count() <= 1);
    }
}

/// What names a session in a hint.
pub type SessionRef = (TenantId, SessionId);
