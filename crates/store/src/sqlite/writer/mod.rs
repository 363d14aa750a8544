//! The one desk at which everything is written: whatever is queued is committed with one sync, the
//! living part of the process is told in commit order, and then callers are acknowledged.
//!
//! A thread sits at the desk. A caller who comes alone, to an empty desk, does its piece of work itself: two hand-overs
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

use super::blocking::Way;
use super::checkpointer::Checkpointer;
use super::events;
use super::fault::{Trouble, report};
use super::heads::{self, Found};
use super::idempotency::{self, Finding, Unfiled};
use super::indexer::{Dirty, Mark};
use super::open::{CHECKPOINT_PAGES, CHECKPOINT_PAGES_QUIET, Files};
use super::outbox::{self, Errand};
use super::side_files::Annex;

/// Bytes of events in one group: a group of full batches must not outgrow memory.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Commits one after the other, each of a single piece, after which the desk is quiet.
const QUIET_COMMITS: u32 = 64;

/// Heads that the writer remembers: reading one costs about as much as writing the event.
const HEADS_KEPT: usize = 8_192;

/// The way to the desk.
#[derive(Debug)]
pub(in crate::sqlite) struct Writer {
    queue: Sender<Queued>,
    shared: Arc<Shared>,
    /// Pieces of work so far: whoever finds its own number to be the last still has come alone.
    arrivals: AtomicU64,
}

/// What the thread and callers who write themselves have in common.
#[derive(Debug)]
struct Shared {
    /// `None` once the store is closed.
    desk: Mutex<Option<Desk>>,
    /// Whether the last group was a single piece. While several write at once, they share commits.
    calm: AtomicBool,
    /// Whether the runtime was found to keep its threads for itself.
    refused: AtomicBool,
}

/// What the writer needs of the rest of the store.
#[derive(Debug)]
pub(in crate::sqlite) struct Surroundings {
    pub files: Arc<Files>,
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
    pub dirty: Arc<Dirty>,
    pub annex: Arc<Annex>,
    pub unfiled: Arc<Unfiled>,
}

impl Writer {
    pub(in crate::sqlite) fn start(around: Surroundings) -> Result<Self> {
        let (queue, tasks) = bounded(limits::WRITE_QUEUE_MAX);
        let mut desk = Desk::new(around);
        desk.connect().map_err(report)?;
        let (files, log_pages) = (desk.around.files.clone(), desk.log_pages.clone());
        let shared = Arc::new(Shared {
            desk: Mutex::new(Some(desk)),
            calm: AtomicBool::new(true),
            refused: AtomicBool::new(false),
        });
        if files.directory().is_some() {
            let held = shared.clone();
            let hold_writer = move |work: &mut dyn FnMut()| {
                if held.desk.lock().is_some() {
                    work();
                }
            };
            let checkpointer = Checkpointer::start(files, log_pages, hold_writer)?;
            if let Some(desk) = shared.desk.lock().as_mut() {
                desk.checkpointer = Some(checkpointer);
            }
        }
        let sits = shared.clone();
        std::thread::Builder::new()
            .name("sederunt-writer".into())
            .spawn(move || sits.serve(&tasks))
            .map_err(Error::internal)?;
        Ok(Self { queue, shared, arrivals: AtomicU64::new(0) })
    }

    /// Does a piece of work in a transaction, together with whatever else is queued. The work may
    /// run more than once, but only one run is kept. It must refuse before it writes.
    pub(in crate::sqlite) async fn ask<T, E>(
        &self,
        work: impl FnMut(&mut Ledger<'_>) -> Result<T, Trouble<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        let task = Asked { work, outcome: None, done };
        if let Some(task) = self.alone(Box::new(task)).await {
            self.queue.try_send(Queued::Task(task)).map_err(|refused| match refused {
                TrySendError::Full(_) => Error::unavailable("too many changes are waiting to be written"),
                TrySendError::Disconnected(_) => Error::unavailable("the store is closed"),
            })?;
        }
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the store was closed meanwhile").into()))
    }

    /// Does a piece of work on this very thread, if nobody else is about to write. Gives it back otherwise.
    async fn alone(&self, task: Box<dyn Task>) -> Option<Box<dyn Task>> {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.shared.calm.load(Ordering::Relaxed) || self.shared.refused.load(Ordering::Relaxed) {
            return Some(task);
        }
        let Some(way) = Way::here() else { return Some(task) };
        // Whatever else is ready to run may have something to write: on one thread, nobody else could tell.
        tokio::task::yield_now().await;
        if self.arrivals.load(Ordering::Relaxed) != number || !self.queue.is_empty() {
            return Some(task);
        }
        self.do_here(way, task)
    }

    fn do_here(&self, way: Way, task: Box<dyn Task>) -> Option<Box<dyn Task>> {
        let Some(mut sits) = self.shared.desk.try_lock() else { return Some(task) };
        let Some(desk) = sits.as_mut() else { return Some(task) };
        let mut group = vec![task];
        if !way.block(|| desk.settle(&mut group, None)) {
            self.shared.refused.store(true, Ordering::Relaxed);
        }
        group.pop()
    }

    /// The connection that everything is written with, to read by, if nobody writes or is about to: what was written last
    /// is at hand there, while any other connection has to read it again.
    pub(in crate::sqlite) fn at_hand(&self) -> Option<MappedMutexGuard<'_, Connection>> {
        if !self.shared.calm.load(Ordering::Relaxed) || !self.queue.is_empty() {
            return None;
        }
        MutexGuard::try_map(self.shared.desk.try_lock()?, |desk| desk.as_mut()?.db.as_mut()).ok()
    }

    /// Leaves a piece of work that nobody waits for; if there is no room, it is not done.
    pub(in crate::sqlite) fn tell(
        &self,
        mut work: impl FnMut(&mut Ledger<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let (done, _) = oneshot::channel();
        let task = Asked {
            work: move |ledger: &mut Ledger<'_>| Ok::<_, Trouble<Error>>(work(ledger)?),
            outcome: None,
            done,
        };
        let _ = self.queue.try_send(Queued::Task(Box::new(task)));
    }

    #[cfg(test)]
    pub(in crate::sqlite) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Finishes what is queued, moves the log into the database and lets the thread end.
    pub(in crate::sqlite) async fn close(&self) {
        let (done, answer) = oneshot::channel();
        let queue = self.queue.clone();
        let _ = tokio::task::spawn_blocking(move || queue.send(Queued::Close(done))).await;
        let _ = answer.await;
    }
}

/// A piece of work in the queue.
trait Task: Send {
    /// Does it, or remembers why it was refused. Fails only as the database fails.
    fn run(&mut self, ledger: &mut Ledger<'_>) -> rusqlite::Result<()>;
    fn acknowledge(self: Box<Self>);
    fn fail(self: Box<Self>, error: Error);
}

struct Asked<W, T, E> {
    work: W,
    outcome: Option<Result<T, E>>,
    done: oneshot::Sender<Result<T, E>>,
}

impl<W, T, E> Task for Asked<W, T, E>
where
    W: FnMut(&mut Ledger<'_>) -> Result<T, Trouble<E>> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, ledger: &mut Ledger<'_>) -> rusqlite::Result<()> {
        self.outcome = Some(match (self.work)(ledger) {
            Ok(answer) => Ok(answer),
            Err(Trouble::Refused(refusal)) => Err(refusal),
            Err(Trouble::Failed(error)) => return Err(error),
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
enum Queued {
    Task(Box<dyn Task>),
    Close(oneshot::Sender<()>),
}

/// What a piece of work sees of the transaction that it runs in.
pub(in crate::sqlite) struct Ledger<'a> {
    pub db: &'a Connection,
    pub hot: Hot<'a>,
    pub unfiled: &'a Unfiled,
    clock: &'a SystemClock,
    known: &'a mut Known,
    notes: &'a mut Notes,
}

/// What the writer remembers of rows that only it writes. After a rollback it knows nothing.
#[derive(Debug, Default)]
struct Known {
    tenants: HashMap<TenantId, i64>,
    heads: HashMap<(i64, SessionId), Found>,
}

/// The statements of plain appends, each looked up once for a whole group, when it is first needed.
pub(in crate::sqlite) struct Hot<'a> {
    db: &'a Connection,
    head: Option<CachedStatement<'a>>,
    event: Option<CachedStatement<'a>>,
    tail: Option<CachedStatement<'a>>,
    find_key: Option<Finding<'a>>,
    remember_key: Option<CachedStatement<'a>>,
}

impl<'a> Hot<'a> {
    const fn of(db: &'a Connection) -> Self {
        Self { db, head: None, event: None, tail: None, find_key: None, remember_key: None }
    }

    fn head(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        kept(&mut self.head, self.db, heads::BY_ID)
    }

    pub(in crate::sqlite) fn event(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        kept(&mut self.event, self.db, events::INSERT)
    }

    pub(in crate::sqlite) fn tail(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        kept(&mut self.tail, self.db, heads::SAVE_TAIL)
    }

    pub(in crate::sqlite) fn find_key(&mut self) -> rusqlite::Result<&mut Finding<'a>> {
        Ok(match &mut self.find_key {
            Some(finding) => finding,
            none => none.insert(Finding::of(self.db)?),
        })
    }

    pub(in crate::sqlite) fn remember_key(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        kept(&mut self.remember_key, self.db, idempotency::REMEMBER)
    }
}

fn kept<'h, 'a>(
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
struct Notes {
    notices: Vec<Notice>,
    marks: Vec<Mark>,
    /// The last errand that the group left.
    errand: i64,
    bytes: usize,
}

impl Notes {
    fn clear(&mut self) {
        self.notices.clear();
        self.marks.clear();
        self.errand = 0;
        self.bytes = 0;
    }
}

impl Ledger<'_> {
    pub(in crate::sqlite) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The surrogate of a tenant. Only this thread makes and removes tenants, so it may remember.
    pub(in crate::sqlite) fn tenant(&mut self, id: &TenantId) -> rusqlite::Result<Option<i64>> {
        if let Some(tk) = self.known.tenants.get(id) {
            return Ok(Some(*tk));
        }
        let found = self
            .db
            .prepare_cached("SELECT tk FROM tenants WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(tk) = found {
            self.known.tenants.insert(id.clone(), tk);
        }
        Ok(found)
    }

    pub(in crate::sqlite) fn forget_tenant(&mut self, id: &TenantId) {
        self.known.tenants.remove(id);
    }

    /// The head of a session, as the changes before this one left it.
    pub(in crate::sqlite) fn head(&mut self, tk: i64, id: &SessionId) -> rusqlite::Result<Option<Found>> {
        match self.known.heads.get(&(tk, id.clone())) {
            Some(found) => {
                let found = Some(found.clone());
                // Every test that runs without optimisation proves that nothing writes behind its back.
                debug_assert_eq!(
                    found,
                    heads::by_id(self.hot.head()?, tk, id)?,
                    "a remembered head is stale"
                );
                Ok(found)
            }
            None => heads::by_id(self.hot.head()?, tk, id),
        }
    }

    /// Remembers a head that was written.
    pub(in crate::sqlite) fn keep_head(&mut self, tk: i64, id: &SessionId, found: Found) {
        if self.known.heads.len() >= HEADS_KEPT {
            self.known.heads.clear();
        }
        self.known.heads.insert((tk, id.clone()), found);
    }

    pub(in crate::sqlite) fn forget_head(&mut self, tk: i64, id: &SessionId) {
        self.known.heads.remove(&(tk, id.clone()));
    }

    /// Forgets every head: rows were written past this thread's memory of them.
    pub(in crate::sqlite) fn forget_heads(&mut self) {
        self.known.heads.clear();
    }

    pub(in crate::sqlite) fn announce(&mut self, notice: Notice) {
        self.notes.bytes += notice.events.iter().map(|event| event.bytes()).sum::<usize>();
        self.notes.notices.push(notice);
    }

    pub(in crate::sqlite) fn mark(&mut self, mark: Mark) {
        self.notes.marks.push(mark);
    }

    /// Leaves something to be written into another file.
    pub(in crate::sqlite) fn leave(&mut self, tk: i64, errand: &Errand) -> rusqlite::Result<()> {
        self.notes.errand = outbox::add(self.db, tk, errand)?;
        Ok(())
    }
}

impl Shared {
    fn serve(&self, queue: &Receiver<Queued>) {
        let mut group: Vec<Box<dyn Task>> = Vec::with_capacity(limits::GROUP_MAX);
        loop {
            wait_for(queue);
            let mut sits = self.desk.lock();
            let Some(desk) = sits.as_mut() else { return };
            match queue.try_recv() {
                Ok(Queued::Task(task)) => group.push(task),
                Ok(Queued::Close(done)) => {
                    desk.closing = Some(done);
                    break;
                }
                Err(TryRecvError::Empty) => continue,
                Err(TryRecvError::Disconnected) => break,
            }
            let size = desk.settle(&mut group, Some(queue));
            self.calm.store(size == 1, Ordering::Relaxed);
            if desk.closing.is_some() {
                break;
            }
        }
        let desk = self.desk.lock().take();
        if let Some(desk) = desk {
            desk.leave();
        }
    }
}

/// Waits for something in the queue, and leaves it there.
fn wait_for(queue: &Receiver<Queued>) {
    let mut ready = Select::new();
    ready.recv(queue);
    ready.ready();
}

/// What is written with, and by one at a time.
#[derive(Debug)]
struct Desk {
    around: Surroundings,
    db: Option<Connection>,
    /// Pages in the write-ahead log after the last commit.
    log_pages: Arc<AtomicI32>,
    /// Moves that log into the database; none in memory, where there is no log.
    checkpointer: Option<Checkpointer>,
    /// Commits of a single piece since the last of several.
    singles: u32,
    known: Known,
    notes: Notes,
    closing: Option<oneshot::Sender<()>>,
}

impl Desk {
    fn new(around: Surroundings) -> Self {
        Self {
            around,
            db: None,
            log_pages: Arc::default(),
            checkpointer: None,
            singles: 0,
            known: Known::default(),
            notes: Notes::default(),
            closing: None,
        }
    }

    fn connect(&mut self) -> rusqlite::Result<()> {
        if self.db.is_none() {
            let mut db = self.around.files.threads()?;
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
    fn settle(&mut self, group: &mut Vec<Box<dyn Task>>, more: Option<&Receiver<Queued>>) -> usize {
        let done = self.transact(group, more);
        let size = group.len();
        self.singles = if size == 1 { self.singles.saturating_add(1) } else { 0 };
        match done {
            Ok(()) => self.publish(group),
            Err(error) if size > 1 => {
                tracing::warn!(%error, size, "a group of changes failed; each is tried alone");
                group.drain(..).for_each(|task| self.try_alone(task));
            }
            Err(error) => fail(group, error),
        }
        if let Some(checkpointer) = self.checkpointer.as_ref().filter(|_| self.log_is_long()) {
            checkpointer.request();
        }
        size
    }

    /// Long for a desk at which much is going on, where moving it rarely is cheaper; where little is, a short log is
    /// written over and over, which a disk confirms in half the time that it takes for a file that grows.
    fn log_is_long(&self) -> bool {
        let enough = if self.singles < QUIET_COMMITS { CHECKPOINT_PAGES } else { CHECKPOINT_PAGES_QUIET };
        self.log_pages.load(Ordering::Relaxed) >= enough.cast_signed()
    }

    fn try_alone(&mut self, task: Box<dyn Task>) {
        let mut alone = vec![task];
        match self.transact(&mut alone, None) {
            Ok(()) => self.publish(&mut alone),
            Err(error) => fail(&mut alone, error),
        }
    }

    /// Runs the group, and what arrives meanwhile, in one transaction.
    fn transact(
        &mut self,
        group: &mut Vec<Box<dyn Task>>,
        more: Option<&Receiver<Queued>>,
    ) -> Result<(), Error> {
        self.notes.clear();
        self.connect().map_err(report)?;
        let Some(db) = &self.db else { return Err(Error::internal("no connection")) };
        let files = self.around.files.clone();
        let _turn = files.turn_to_write();
        let (known, notes, clock) = (&mut self.known, &mut self.notes, &*self.around.clock);
        let unfiled = &*self.around.unfiled;
        let closing = &mut self.closing;
        let written = catch_unwind(AssertUnwindSafe(|| -> rusqlite::Result<()> {
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut ledger = Ledger { db, hot: Hot::of(db), unfiled, clock, known, notes };
            for task in group.iter_mut() {
                task.run(&mut ledger)?;
            }
            while let Some(queue) = more
                && group.len() < limits::GROUP_MAX
                && ledger.notes.bytes < GROUP_BYTES_MAX
                && let Ok(queued) = queue.try_recv()
            {
                match queued {
                    // In the group before it runs: whatever happens, somebody answers for it.
                    Queued::Task(task) => group.push_mut(task).run(&mut ledger)?,
                    Queued::Close(done) => {
                        *closing = Some(done);
                        break;
                    }
                }
            }
            let filed = unfiled.file(db)?;
            let began = Instant::now();
            db.prepare_cached("COMMIT")?.execute([])?;
            if filed {
                unfiled.forget();
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
        let Some(db) = self.db.as_ref().filter(|_| self.around.files.directory().is_none()) else { return };
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
        self.known = Known::default();
        let Some(db) = &self.db else { return };
        // The database may have rolled back by itself already; a connection that cannot get out of
        // its transaction is given up for a new one.
        let rolled_back = db.is_autocommit() || db.execute_batch("ROLLBACK").is_ok();
        if !rolled_back || !db.is_autocommit() {
            self.db = None;
        }
    }

    fn publish(&mut self, group: &mut Vec<Box<dyn Task>>) {
        let events: usize = self.notes.notices.iter().map(|notice| notice.events.len()).sum();
        if events > 0 {
            metrics::counter!("sederunt_store_events_total").increment(events as u64);
        }
        self.around.hub.committed(&self.notes.notices);
        self.around.dirty.add(self.notes.marks.drain(..));
        self.around.annex.left(self.notes.errand);
        self.notes.clear();
        for task in group.drain(..) {
            task.acknowledge();
        }
    }

    fn leave(self) {
        if let Some(checkpointer) = self.checkpointer {
            checkpointer.stop();
        }
        if let Some(db) = self.db
            && self.around.files.directory().is_some()
            && let Err(error) = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::warn!(%error, "the write-ahead log could not be folded in; the next start does it");
        }
        drop(self.around);
        if let Some(done) = self.closing {
            let _ = done.send(());
        }
    }
}

fn fail(alone: &mut Vec<Box<dyn Task>>, error: Error) {
    if let Some(task) = alone.pop() {
        task.fail(error);
    }
}
