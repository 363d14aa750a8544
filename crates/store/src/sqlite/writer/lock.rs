//! The writer's lock, and the connection under it: commits groups, publishes them and answers for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Select, TryRecvError};
use parking_lot::Mutex;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OptionalExtension};
use sederunt_core::{Error, Result, limits};
use tokio::sync::oneshot;

use super::statements::AppendStatements;
use super::transaction::{CommitNotes, WriteTransaction, WriterCache};
use super::{WriteTask, WriterContext, WriterMessage};
use crate::sqlite::checkpointer::Checkpointer;
use crate::sqlite::fault::report;
use crate::sqlite::open::{CHECKPOINT_PAGES, CHECKPOINT_PAGES_QUIET};

/// Bytes of events in one group: a group of full batches must not outgrow memory.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Groups of a single piece of work, one after the other, after which the writer counts as quiet.
const QUIET_COMMITS: u32 = 64;

/// Shared by the writer's thread and by callers that commit inline.
#[derive(Debug)]
pub(super) struct WriterLock {
    /// `None` once the store is closed.
    pub(super) state: Mutex<Option<WriterState>>,
    /// Whether the last group was a single piece of work. While several callers write at once, they queue and share
    /// commits.
    pub(super) last_group_single: AtomicBool,
    /// Set once the runtime refused to let a caller block its thread; from then on every caller queues.
    pub(super) inline_refused: AtomicBool,
}

impl WriterLock {
    pub(super) fn serve(&self, queue: &Receiver<WriterMessage>) {
        let mut group: Vec<Box<dyn WriteTask>> = Vec::with_capacity(limits::GROUP_MAX);
        loop {
            wait_for(queue);
            let mut guard = self.state.lock();
            let Some(state) = guard.as_mut() else { return };
            match queue.try_recv() {
                Ok(WriterMessage::Task(task)) => group.push(task),
                Ok(WriterMessage::Close(done)) => {
                    state.closing = Some(done);
                    break;
                }
                Err(TryRecvError::Empty) => continue,
                Err(TryRecvError::Disconnected) => break,
            }
            let size = state.commit_group(&mut group, Some(queue));
            self.last_group_single.store(size == 1, Ordering::Relaxed);
            if state.closing.is_some() {
                break;
            }
        }
        let state = self.state.lock().take();
        if let Some(state) = state {
            state.shut_down();
        }
    }
}

/// Waits until the queue holds something, and leaves it there.
fn wait_for(queue: &Receiver<WriterMessage>) {
    let mut ready = Select::new();
    ready.recv(queue);
    ready.ready();
}

/// The connection that writes, and what belongs to it. Used under the lock only.
#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) context: WriterContext,
    pub(super) db: Option<Connection>,
    /// Pages in the write-ahead log after the last commit.
    pub(super) log_pages: Arc<AtomicI32>,
    /// Moves that log into the database. In memory there is no log and no checkpointer.
    pub(super) checkpointer: Option<Checkpointer>,
    /// Commits of a single piece of work since the last commit of several.
    singles: u32,
    cache: WriterCache,
    notes: CommitNotes,
    closing: Option<oneshot::Sender<()>>,
}

impl WriterState {
    pub(super) fn new(context: WriterContext) -> Self {
        Self {
            context,
            db: None,
            log_pages: Arc::default(),
            checkpointer: None,
            singles: 0,
            cache: WriterCache::default(),
            notes: CommitNotes::default(),
            closing: None,
        }
    }

    pub(super) fn connect(&mut self) -> rusqlite::Result<()> {
        if self.db.is_none() {
            let mut db = self.context.files.threads()?;
            // Replaces SQLite's automatic checkpoint, which would move the log before the commit returns.
            let log_pages = self.log_pages.clone();
            db.wal_hook(Some(move |_: &mut Wal, pages| {
                log_pages.store(pages, Ordering::Relaxed);
                Ok(())
            }))?;
            self.db = Some(db);
        }
        Ok(())
    }

    /// Commits a group and answers its callers. Returns the size of the group.
    pub(super) fn commit_group(
        &mut self,
        group: &mut Vec<Box<dyn WriteTask>>,
        more: Option<&Receiver<WriterMessage>>,
    ) -> usize {
        let done = self.transact(group, more);
        let size = group.len();
        self.singles = if size == 1 { self.singles.saturating_add(1) } else { 0 };
        match done {
            Ok(()) => self.publish(group),
            Err(error) if size > 1 => {
                tracing::warn!(%error, size, "the writer could not commit a group of changes; it tries each change alone");
                group.drain(..).for_each(|task| self.commit_alone(task));
            }
            Err(error) => fail(group, error),
        }
        if let Some(checkpointer) = self.checkpointer.as_ref().filter(|_| self.log_is_long()) {
            checkpointer.request();
        }
        size
    }

    /// A busy writer moves a long log rarely, which is cheaper. A quiet one overwrites a short log again and again,
    /// which a disk confirms in half the time that it takes for a file that grows.
    fn log_is_long(&self) -> bool {
        let enough = if self.singles < QUIET_COMMITS { CHECKPOINT_PAGES } else { CHECKPOINT_PAGES_QUIET };
        self.log_pages.load(Ordering::Relaxed) >= enough.cast_signed()
    }

    fn commit_alone(&mut self, task: Box<dyn WriteTask>) {
        let mut alone = vec![task];
        match self.transact(&mut alone, None) {
            Ok(()) => self.publish(&mut alone),
            Err(error) => fail(&mut alone, error),
        }
    }

    /// Runs the group, and the work that arrives meanwhile, in one transaction.
    fn transact(
        &mut self,
        group: &mut Vec<Box<dyn WriteTask>>,
        more: Option<&Receiver<WriterMessage>>,
    ) -> Result<(), Error> {
        self.notes.clear();
        self.connect().map_err(report)?;
        let Some(db) = &self.db else { return Err(Error::internal("no connection")) };
        let files = self.context.files.clone();
        let _turn = files.turn_to_write();
        let (cache, notes, clock) = (&mut self.cache, &mut self.notes, &*self.context.clock);
        let pending_keys = &*self.context.pending_keys;
        let closing = &mut self.closing;
        let written = catch_unwind(AssertUnwindSafe(|| -> rusqlite::Result<()> {
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut tx = WriteTransaction {
                db,
                statements: AppendStatements::of(db),
                pending_keys,
                clock,
                cache,
                notes,
            };
            for task in group.iter_mut() {
                task.run(&mut tx)?;
            }
            while let Some(queue) = more
                && group.len() < limits::GROUP_MAX
                && tx.notes.bytes < GROUP_BYTES_MAX
                && let Ok(queued) = queue.try_recv()
            {
                match queued {
                    // Pushed before it runs, so that its caller is answered whatever happens.
                    WriterMessage::Task(task) => group.push_mut(task).run(&mut tx)?,
                    WriterMessage::Close(done) => {
                        *closing = Some(done);
                        break;
                    }
                }
            }
            let flushed = pending_keys.flush(db)?;
            let began = Instant::now();
            db.prepare_cached("COMMIT")?.execute([])?;
            if flushed {
                pending_keys.clear();
            }
            metrics::histogram!("sederunt_store_commit_seconds").record(began.elapsed());
            metrics::histogram!("sederunt_store_group_size").record(group.len() as f64);
            Ok(())
        }));
        let error = match written {
            Ok(Ok(())) => {
                self.give_back_memory();
                return Ok(());
            }
            Ok(Err(error)) => report(error),
            Err(_) => Error::internal("a change made the writer panic"),
        };
        self.roll_back();
        Err(error)
    }

    /// In memory, gives the pages of deleted sessions back to the system; otherwise SQLite would keep them for later
    /// writes.
    fn give_back_memory(&self) {
        let Some(db) = self.db.as_ref().filter(|_| self.context.files.directory().is_none()) else { return };
        if !self.notes.notices.iter().any(|notice| notice.deleted) {
            return;
        }
        let shrink = || -> rusqlite::Result<()> {
            let mut vacuum = db.prepare("PRAGMA incremental_vacuum")?;
            let mut freed = vacuum.query([])?;
            while freed.next()?.is_some() {}
            db.query_row("PRAGMA shrink_memory", [], |_| Ok(())).optional().map(drop)
        };
        if let Err(error) = shrink() {
            tracing::warn!(%error, "the writer could not give back the memory of a deleted session; the store reuses it");
        }
    }

    fn roll_back(&mut self) {
        self.notes.clear();
        self.cache = WriterCache::default();
        let Some(db) = &self.db else { return };
        // SQLite may have rolled back by itself already. A connection that cannot leave its transaction is replaced.
        let rolled_back = db.is_autocommit() || db.execute_batch("ROLLBACK").is_ok();
        if !rolled_back || !db.is_autocommit() {
            self.db = None;
        }
    }

    fn publish(&mut self, group: &mut Vec<Box<dyn WriteTask>>) {
        let events: usize = self.notes.notices.iter().map(|notice| notice.events.len()).sum();
        if events > 0 {
            metrics::counter!("sederunt_store_events_total").increment(events as u64);
        }
        self.context.hub.committed(&self.notes.notices);
        self.context.index_marks.add(self.notes.marks.drain(..));
        self.context.side_files.note_committed(self.notes.entry);
        self.notes.clear();
        for task in group.drain(..) {
            task.acknowledge();
        }
    }

    fn shut_down(self) {
        if let Some(checkpointer) = self.checkpointer {
            checkpointer.stop();
        }
        if let Some(db) = self.db
            && self.context.files.directory().is_some()
            && let Err(error) = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::warn!(%error, "the writer could not move the write-ahead log into the database; the next start does it");
        }
        drop(self.context);
        if let Some(done) = self.closing {
            let _ = done.send(());
        }
    }
}

fn fail(alone: &mut Vec<Box<dyn WriteTask>>, error: Error) {
    if let Some(task) = alone.pop() {
        task.fail(error);
    }
}
