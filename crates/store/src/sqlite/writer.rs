//! The one thread that writes: it takes whatever is queued, commits it with one sync, tells the
//! living part of the process in commit order, and then acknowledges.
//!
//! Work reads before it writes, so a refusal leaves nothing behind and no savepoints are needed.
//! When the database fails, the whole group is rolled back and each piece tried alone, so that only
//! the bad one fails. The thread outlives every failure, a full disk and a panic included.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rusqlite::{CachedStatement, Connection, OptionalExtension};
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_core::live::Hub;
use sederunt_core::store::Notice;
use sederunt_core::{Error, Result, SessionId, TenantId, Timestamp, limits};
use tokio::sync::oneshot;

use super::annex::Annex;
use super::errands::{self, Errand};
use super::fault::{Trouble, report};
use super::heads::{self, Found};
use super::indexer::{Dirty, Mark};
use super::open::Files;
use super::{events, idempotency};

/// Bytes of events in one group: a group of full batches must not outgrow memory.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Heads that the writer remembers: reading one costs about as much as writing the event.
const HEADS_KEPT: usize = 8_192;

/// The way to the writer's thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Sender<Queued>,
}

/// What the writer needs of the rest of the store.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub files: Arc<Files>,
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
    pub dirty: Arc<Dirty>,
    pub annex: Arc<Annex>,
}

impl Writer {
    pub(super) fn start(around: Surroundings) -> Result<Self> {
        let (queue, tasks) = bounded(limits::WRITE_QUEUE_MAX);
        let mut desk = Desk::new(around);
        desk.connect().map_err(report)?;
        std::thread::Builder::new()
            .name("sederunt-writer".into())
            .spawn(move || desk.serve(&tasks))
            .map_err(Error::internal)?;
        Ok(Self { queue })
    }

    /// Does a piece of work in a transaction, together with whatever else is queued. The work may
    /// run more than once, but only one run is kept. It must refuse before it writes.
    pub(super) async fn ask<T, E>(
        &self,
        work: impl FnMut(&mut Ledger<'_>) -> Result<T, Trouble<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        let task = Asked { work, outcome: None, done };
        self.queue.try_send(Queued::Task(Box::new(task))).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::unavailable("too many changes are waiting to be written"),
            TrySendError::Disconnected(_) => Error::unavailable("the store is closed"),
        })?;
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the store was closed meanwhile").into()))
    }

    /// Leaves a piece of work that nobody waits for; if there is no room, it is not done.
    pub(super) fn tell(
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
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Finishes what is queued, moves the log into the database and lets the thread end.
    pub(super) async fn close(&self) {
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
pub(super) struct Ledger<'a> {
    pub db: &'a Connection,
    pub hot: Hot<'a>,
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

/// The statements of plain appends, looked up once for a whole group.
pub(super) struct Hot<'a> {
    pub head: CachedStatement<'a>,
    pub event: CachedStatement<'a>,
    pub tail: CachedStatement<'a>,
    pub find_key: CachedStatement<'a>,
    pub remember_key: CachedStatement<'a>,
}

impl<'a> Hot<'a> {
    fn of(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            head: db.prepare_cached(heads::BY_ID)?,
            event: db.prepare_cached(events::INSERT)?,
            tail: db.prepare_cached(heads::SAVE_TAIL)?,
            find_key: db.prepare_cached(idempotency::FIND)?,
            remember_key: db.prepare_cached(idempotency::REMEMBER)?,
        })
    }
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
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The surrogate of a tenant. Only this thread makes and removes tenants, so it may remember.
    pub(super) fn tenant(&mut self, id: &TenantId) -> rusqlite::Result<Option<i64>> {
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

    pub(super) fn forget_tenant(&mut self, id: &TenantId) {
        self.known.tenants.remove(id);
    }

    /// The head of a session, as the changes before this one left it.
    pub(super) fn head(&mut self, tk: i64, id: &SessionId) -> rusqlite::Result<Option<Found>> {
        match self.known.heads.get(&(tk, id.clone())) {
            Some(found) => {
                let found = Some(found.clone());
                // Every test that runs without optimisation proves that nothing writes behind its back.
                debug_assert_eq!(
                    found,
                    heads::by_id(&mut self.hot.head, tk, id)?,
                    "a remembered head is stale"
                );
                Ok(found)
            }
            None => heads::by_id(&mut self.hot.head, tk, id),
        }
    }

    /// Remembers a head that was written.
    pub(super) fn keep_head(&mut self, tk: i64, id: &SessionId, found: Found) {
        if self.known.heads.len() >= HEADS_KEPT {
            self.known.heads.clear();
        }
        self.known.heads.insert((tk, id.clone()), found);
    }

    pub(super) fn forget_head(&mut self, tk: i64, id: &SessionId) {
        self.known.heads.remove(&(tk, id.clone()));
    }

    /// Forgets every head: rows were written past this thread's memory of them.
    pub(super) fn forget_heads(&mut self) {
        self.known.heads.clear();
    }

    pub(super) fn announce(&mut self, notice: Notice) {
        self.notes.bytes += notice.events.iter().map(|event| event.bytes()).sum::<usize>();
        self.notes.notices.push(notice);
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.notes.marks.push(mark);
    }

    /// Leaves something to be written into another file.
    pub(super) fn leave(&mut self, tk: i64, errand: &Errand) -> rusqlite::Result<()> {
        self.notes.errand = errands::add(self.db, tk, errand)?;
        Ok(())
    }
}

/// The writer's own side.
struct Desk {
    around: Surroundings,
    db: Option<Connection>,
    known: Known,
    notes: Notes,
    closing: Option<oneshot::Sender<()>>,
}

impl Desk {
    fn new(around: Surroundings) -> Self {
        Self { around, db: None, known: Known::default(), notes: Notes::default(), closing: None }
    }

    fn connect(&mut self) -> rusqlite::Result<()> {
        if self.db.is_none() {
            self.db = Some(self.around.files.threads()?);
        }
        Ok(())
    }

    fn serve(mut self, queue: &Receiver<Queued>) {
        let mut group: Vec<Box<dyn Task>> = Vec::with_capacity(limits::GROUP_MAX);
        while self.closing.is_none()
            && let Ok(queued) = queue.recv()
        {
            match queued {
                Queued::Task(task) => group.push(task),
                Queued::Close(done) => {
                    self.closing = Some(done);
                    break;
                }
            }
            match self.transact(&mut group, Some(queue)) {
                Ok(()) => self.publish(&mut group),
                Err(error) if group.len() > 1 => {
                    tracing::warn!(%error, size = group.len(), "a group failed; trying each change alone");
                    group.drain(..).for_each(|task| self.try_alone(task));
                }
                Err(error) => fail(&mut group, error),
            }
        }
        self.leave();
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
        let closing = &mut self.closing;
        let written = catch_unwind(AssertUnwindSafe(|| -> rusqlite::Result<()> {
            db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut ledger = Ledger { db, hot: Hot::of(db)?, clock, known, notes };
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
            let began = Instant::now();
            db.prepare_cached("COMMIT")?.execute([])?;
            metrics::histogram!("sederunt_store_commit_seconds").record(began.elapsed());
            metrics::histogram!("sederunt_store_group_size").record(group.len() as f64);
            Ok(())
        }));
        let error = match written {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => report(error),
            Err(_) => Error::internal("a change made the writer panic"),
        };
        self.roll_back();
        Err(error)
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
        if let Some(db) = self.db
            && self.around.files.directory().is_some()
            && let Err(error) = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::warn!(%error, "the write-ahead log was left for the next start");
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
