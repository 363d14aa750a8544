//! The one state at which everything is written: whatever is queued is committed with one sync, the
//! living part of the process is told in commit order, and then callers are acknowledged.
//!
//! A thread guard at the state. A caller who comes alone, to an empty state, does its piece of work itself: two hand-overs
//! between threads take about as long as the work. Whoever comes meanwhile queues up for the thread, which takes them all.
//!
//! Work reads before it writes, so a refusal leaves nothing behind and no savepoints are needed.
//! When the database fails, the whole group is rolled back and each piece tried alone, so that only
//! the bad one fails. The thread outlives every failure, a full disk and a panic included.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Select, Sender, TryRecvError, TrySendError, bounded};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use rusqlite::hooks::Wal;
use rusqlite::{CachedStatement, Connection, OptionalExtension};
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_core::live::Hub;
use sederunt_core::store::Notice;
use sederunt_core::{Error, Result, SessionId, TenantId, Timestamp, limits};
use tokio::sync::oneshot;

use super::blocking::BlockMode;
use super::checkpointer::Checkpointer;
use super::events;
use super::fault::{WorkError, report};
use super::heads::{self, StoredHead};
use super::idempotency::{self, KeyLookup, PendingKeys};
use super::indexer::{IndexMark, IndexMarks};
use super::open::{CHECKPOINT_PAGES, CHECKPOINT_PAGES_QUIET, Files};
use super::outbox::{self, OutboxEntry};
use super::side_files::SideFiles;

/// Bytes of events in one group: a group of full batches must not outgrow memory.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Commits one after the other, each of a single piece, after which the state is quiet.
const QUIET_COMMITS: u32 = 64;

/// Heads that the writer remembers: reading one costs about as much as writing the event.
const HEADS_KEPT: usize = 8_192;

/// The mode to the state.
#[derive(Debug)]
pub(in crate::sqlite) struct Writer {
    queue: Sender<WriterMessage>,
    lock: Arc<WriterLock>,
    /// Pieces of work so far: whoever finds its own number to be the last still has come alone.
    arrivals: AtomicU64,
}

/// What the thread and callers who write themselves have in common.
#[derive(Debug)]
struct WriterLock {
    /// `None` once the store is closed.
    state: Mutex<Option<WriterState>>,
    /// Whether the last group was a single piece. While several write at once, they share commits.
    last_group_single: AtomicBool,
    /// Whether the runtime was found to keep its threads for itself.
    inline_refused: AtomicBool,
}

/// What the writer needs of the rest of the store.
#[derive(Debug)]
pub(in crate::sqlite) struct WriterContext {
    pub files: Arc<Files>,
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
    pub index_marks: Arc<IndexMarks>,
    pub side_files: Arc<SideFiles>,
    pub pending_keys: Arc<PendingKeys>,
}

impl Writer {
    pub(in crate::sqlite) fn start(context: WriterContext) -> Result<Self> {
        let (queue, tasks) = bounded(limits::WRITE_QUEUE_MAX);
        let mut state = WriterState::new(context);
        state.connect().map_err(report)?;
        let (files, log_pages) = (state.context.files.clone(), state.log_pages.clone());
        let lock = Arc::new(WriterLock {
            state: Mutex::new(Some(state)),
            last_group_single: AtomicBool::new(true),
            inline_refused: AtomicBool::new(false),
        });
        if files.directory().is_some() {
            let held = lock.clone();
            let hold_writer = move |work: &mut dyn FnMut()| {
                if held.state.lock().is_some() {
                    work();
                }
            };
            let checkpointer = Checkpointer::start(files, log_pages, hold_writer)?;
            if let Some(state) = lock.state.lock().as_mut() {
                state.checkpointer = Some(checkpointer);
            }
        }
        let guard = lock.clone();
        std::thread::Builder::new()
            .name("sederunt-writer".into())
            .spawn(move || guard.serve(&tasks))
            .map_err(Error::internal)?;
        Ok(Self { queue, lock, arrivals: AtomicU64::new(0) })
    }

    /// Does a piece of work in a transaction, together with whatever else is queued. The work may
    /// run more than once, but only one run is kept. It must refuse before it writes.
    pub(in crate::sqlite) async fn run<T, E>(
        &self,
        work: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, WorkError<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        let task = QueuedWork { work, outcome: None, done };
        if let Some(task) = self.try_inline(Box::new(task)).await {
            self.queue.try_send(WriterMessage::Task(task)).map_err(|refused| match refused {
                TrySendError::Full(_) => Error::unavailable("too many changes are waiting to be written"),
                TrySendError::Disconnected(_) => Error::unavailable("the store is closed"),
            })?;
        }
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the store was closed meanwhile").into()))
    }

    /// Does a piece of work on this very thread, if nobody else is about to write. Gives it back otherwise.
    async fn try_inline(&self, task: Box<dyn WriteTask>) -> Option<Box<dyn WriteTask>> {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.lock.last_group_single.load(Ordering::Relaxed)
            || self.lock.inline_refused.load(Ordering::Relaxed)
        {
            return Some(task);
        }
        let Some(mode) = BlockMode::of_current_runtime() else { return Some(task) };
        // Whatever else is ready to run may have something to write: on one thread, nobody else could tell.
        tokio::task::yield_now().await;
        if self.arrivals.load(Ordering::Relaxed) != number || !self.queue.is_empty() {
            return Some(task);
        }
        self.run_inline(mode, task)
    }

    fn run_inline(&self, mode: BlockMode, task: Box<dyn WriteTask>) -> Option<Box<dyn WriteTask>> {
        let Some(mut guard) = self.lock.state.try_lock() else { return Some(task) };
        let Some(state) = guard.as_mut() else { return Some(task) };
        let mut group = vec![task];
        if !mode.block(|| state.commit_group(&mut group, None)) {
            self.lock.inline_refused.store(true, Ordering::Relaxed);
        }
        group.pop()
    }

    /// The connection that everything is written with, to read by, if nobody writes or is about to: what was written last
    /// is at hand there, while any other connection has to read it again.
    pub(in crate::sqlite) fn idle_connection(&self) -> Option<MappedMutexGuard<'_, Connection>> {
        if !self.lock.last_group_single.load(Ordering::Relaxed) || !self.queue.is_empty() {
            return None;
        }
        MutexGuard::try_map(self.lock.state.try_lock()?, |state| state.as_mut()?.db.as_mut()).ok()
    }

    /// Leaves a piece of work that nobody waits for; if there is no room, it is not done.
    pub(in crate::sqlite) fn run_detached(
        &self,
        mut work: impl FnMut(&mut WriteTransaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let (done, _) = oneshot::channel();
        let task = QueuedWork {
            work: move |tx: &mut WriteTransaction<'_>| Ok::<_, WorkError<Error>>(work(tx)?),
            outcome: None,
            done,
        };
        let _ = self.queue.try_send(WriterMessage::Task(Box::new(task)));
    }

    #[cfg(test)]
    pub(in crate::sqlite) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Finishes what is queued, moves the log into the database and lets the thread end.
    pub(in crate::sqlite) async fn close(&self) {
        let (done, answer) = oneshot::channel();
        let queue = self.queue.clone();
        let _ = tokio::task::spawn_blocking(move || queue.send(WriterMessage::Close(done))).await;
        let _ = answer.await;
    }
}

/// A piece of work in the queue.
trait WriteTask: Send {
    /// Does it, or remembers why it was refused. Fails only as the database fails.
    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> rusqlite::Result<()>;
    fn acknowledge(self: Box<Self>);
    fn fail(self: Box<Self>, error: Error);
}

struct QueuedWork<W, T, E> {
    work: W,
    outcome: Option<Result<T, E>>,
    done: oneshot::Sender<Result<T, E>>,
}

impl<W, T, E> WriteTask for QueuedWork<W, T, E>
where
    W: FnMut(&mut WriteTransaction<'_>) -> Result<T, WorkError<E>> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> rusqlite::Result<()> {
        self.outcome = Some(match (self.work)(tx) {
            Ok(answer) => Ok(answer),
            Err(WorkError::Refused(refusal)) => Err(refusal),
            Err(WorkError::Failed(error)) => return Err(error),
        });
        Ok(())
    }

    fn acknowledge(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // A caller that stopped waiting is no reason to stop.
            let _ = self.done.send(outcome);
        }
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.done.send(Err(error.into()));
    }
}

/// What stands in the queue.
enum WriterMessage {
    Task(Box<dyn WriteTask>),
    Close(oneshot::Sender<()>),
}

/// What a piece of work sees of the transaction that it runs in.
pub(in crate::sqlite) struct WriteTransaction<'a> {
    pub db: &'a Connection,
    pub statements: AppendStatements<'a>,
    pub pending_keys: &'a PendingKeys,
    clock: &'a SystemClock,
    cache: &'a mut WriterCache,
    notes: &'a mut CommitNotes,
}

/// What the writer remembers of rows that only it writes. After a rollback it knows nothing.
#[derive(Debug, Default)]
struct WriterCache {
    tenants: HashMap<TenantId, i64>,
    heads: HashMap<(i64, SessionId), StoredHead>,
}

/// The statements of plain appends, each looked up once for a whole group, when it is first needed.
pub(in crate::sqlite) struct AppendStatements<'a> {
    db: &'a Connection,
    head: Option<CachedStatement<'a>>,
    event: Option<CachedStatement<'a>>,
    tail: Option<CachedStatement<'a>>,
    find_key: Option<KeyLookup<'a>>,
    remember_key: Option<CachedStatement<'a>>,
}

impl<'a> AppendStatements<'a> {
    const fn of(db: &'a Connection) -> Self {
        Self { db, head: None, event: None, tail: None, find_key: None, remember_key: None }
    }

    fn head(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.head, self.db, heads::BY_ID)
    }

    pub(in crate::sqlite) fn event(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.event, self.db, events::INSERT)
    }

    pub(in crate::sqlite) fn tail(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.tail, self.db, heads::SAVE_TAIL)
    }

    pub(in crate::sqlite) fn find_key(&mut self) -> rusqlite::Result<&mut KeyLookup<'a>> {
        Ok(match &mut self.find_key {
            Some(finding) => finding,
            none => none.insert(KeyLookup::of(self.db)?),
        })
    }

    pub(in crate::sqlite) fn remember_key(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.remember_key, self.db, idempotency::REMEMBER)
    }
}

fn prepared<'h, 'a>(
    place: &'h mut Option<CachedStatement<'a>>,
    db: &'a Connection,
    sql: &str,
) -> rusqlite::Result<&'h mut CachedStatement<'a>> {
    Ok(match place {
        Some(statement) => statement,
        none => none.insert(db.prepare_cached(sql)?),
    })
}

/// What is told after the commit.
#[derive(Debug, Default)]
struct CommitNotes {
    notices: Vec<Notice>,
    marks: Vec<IndexMark>,
    /// The last entry that the group left.
    entry: i64,
    bytes: usize,
}

impl CommitNotes {
    fn clear(&mut self) {
        self.notices.clear();
        self.marks.clear();
        self.entry = 0;
        self.bytes = 0;
    }
}

impl WriteTransaction<'_> {
    pub(in crate::sqlite) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The surrogate of a tenant. Only this thread makes and removes tenants, so it may remember.
    pub(in crate::sqlite) fn tenant(&mut self, id: &TenantId) -> rusqlite::Result<Option<i64>> {
        if let Some(tk) = self.cache.tenants.get(id) {
            return Ok(Some(*tk));
        }
        let found = self
            .db
            .prepare_cached("SELECT tk FROM tenants WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(tk) = found {
            self.cache.tenants.insert(id.clone(), tk);
        }
        Ok(found)
    }

    pub(in crate::sqlite) fn forget_tenant(&mut self, id: &TenantId) {
        self.cache.tenants.remove(id);
    }

    /// The head of a session, as the changes before this one left it.
    pub(in crate::sqlite) fn head(
        &mut self,
        tk: i64,
        id: &SessionId,
    ) -> rusqlite::Result<Option<StoredHead>> {
        match self.cache.heads.get(&(tk, id.clone())) {
            Some(found) => {
                let found = Some(found.clone());
                // Every test that runs without optimisation proves that nothing writes behind its back.
                debug_assert_eq!(
                    found,
                    heads::by_id(self.statements.head()?, tk, id)?,
                    "a remembered head is stale"
                );
                Ok(found)
            }
            None => heads::by_id(self.statements.head()?, tk, id),
        }
    }

    /// Remembers a head that was written.
    pub(in crate::sqlite) fn keep_head(&mut self, tk: i64, id: &SessionId, found: StoredHead) {
        if self.cache.heads.len() >= HEADS_KEPT {
            self.cache.heads.clear();
        }
        self.cache.heads.insert((tk, id.clone()), found);
    }

    pub(in crate::sqlite) fn forget_head(&mut self, tk: i64, id: &SessionId) {
        self.cache.heads.remove(&(tk, id.clone()));
    }

    /// Forgets every head: rows were written past this thread's memory of them.
    pub(in crate::sqlite) fn forget_heads(&mut self) {
        self.cache.heads.clear();
    }

    pub(in crate::sqlite) fn announce(&mut self, notice: Notice) {
        self.notes.bytes += notice.events.iter().map(|event| event.bytes()).sum::<usize>();
        self.notes.notices.push(notice);
    }

    pub(in crate::sqlite) fn mark(&mut self, mark: IndexMark) {
        self.notes.marks.push(mark);
    }

    /// Leaves something to be written into another file.
    pub(in crate::sqlite) fn add_to_outbox(&mut self, tk: i64, entry: &OutboxEntry) -> rusqlite::Result<()> {
        self.notes.entry = outbox::add(self.db, tk, entry)?;
        Ok(())
    }
}

impl WriterLock {
    fn serve(&self, queue: &Receiver<WriterMessage>) {
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

/// Waits for something in the queue, and leaves it there.
fn wait_for(queue: &Receiver<WriterMessage>) {
    let mut ready = Select::new();
    ready.recv(queue);
    ready.ready();
}

/// What is written with, and by one at a time.
#[derive(Debug)]
struct WriterState {
    context: WriterContext,
    db: Option<Connection>,
    /// Pages in the write-ahead log after the last commit.
    log_pages: Arc<AtomicI32>,
    /// Moves that log into the database; none in memory, where there is no log.
    checkpointer: Option<Checkpointer>,
    /// Commits of a single piece since the last of several.
    singles: u32,
    cache: WriterCache,
    notes: CommitNotes,
    closing: Option<oneshot::Sender<()>>,
}

impl WriterState {
    fn new(context: WriterContext) -> Self {
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

    fn connect(&mut self) -> rusqlite::Result<()> {
        if self.db.is_none() {
            let mut db = self.context.files.threads()?;
            // In place of the database's own habit, which is to move the log before it answers for a commit.
            let log_pages = self.log_pages.clone();
            db.wal_hook(Some(move |_: &mut Wal, pages| {
                log_pages.store(pages, Ordering::Relaxed);
                Ok(())
            }))?;
            self.db = Some(db);
        }
        Ok(())
    }

    /// Commits a group and answers for it; answers how large it was.
    fn commit_group(
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
                tracing::warn!(%error, size, "a group of changes failed; each is tried alone");
                group.drain(..).for_each(|task| self.commit_alone(task));
            }
            Err(error) => fail(group, error),
        }
        if let Some(checkpointer) = self.checkpointer.as_ref().filter(|_| self.log_is_long()) {
            checkpointer.request();
        }
        size
    }

    /// Long for a state at which much is going on, where moving it rarely is cheaper; where little is, a short log is
    /// written over and over, which a disk confirms in half the time that it takes for a file that grows.
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

    /// Runs the group, and what arrives meanwhile, in one transaction.
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
                    // In the group before it runs: whatever happens, somebody answers for it.
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

    /// In memory, what a deleted session took goes back to the system: otherwise its pages would be kept for whatever is
    /// written next.
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
            tracing::warn!(%error, "the memory of a deleted session could not be given back; it is used again");
        }
    }

    fn roll_back(&mut self) {
        self.notes.clear();
        self.cache = WriterCache::default();
        let Some(db) = &self.db else { return };
        // The database may have rolled back by itself already; a connection that cannot get out of
        // its transaction is given up for a new one.
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
            tracing::warn!(%error, "the write-ahead log could not be folded in; the next start does it");
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
