//! The one writer. It commits whatever is queued with one sync, then tells the hub in commit order, then acknowledges
//! the callers.
//!
//! The writer has a thread. A caller that finds no other writer runs its work on its own thread (`try_inline`),
//! because two hand-overs between threads take about as long as the work. Callers that arrive meanwhile queue for the
//! writer's thread, which commits all of them as one group.
//!
//! Work reads before it writes, so a refusal leaves nothing behind and no savepoints are needed. When the database
//! fails, the group is rolled back and each piece of work is tried alone, so that only the bad one fails. The thread
//! outlives every failure, a full disk and a panic included.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the queue, and which callers run inline |
//! | `lock.rs` | the lock, the connection under it, and the commit of a group |
//! | `transaction.rs` | what the work sees: the transaction, cached rows, what to publish after the commit |
//! | `statements.rs` | the prepared statements of plain appends |

mod lock;
mod statements;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Sender, TrySendError, bounded};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use rusqlite::Connection;
use sederunt_core::clock::SystemClock;
use sederunt_core::live::Hub;
use sederunt_core::{Error, Result, limits};
use tokio::sync::oneshot;

use self::lock::{WriterLock, WriterState};
pub(super) use self::transaction::WriteTransaction;
use super::blocking::BlockMode;
use super::checkpointer::Checkpointer;
use super::fault::{WorkError, report};
use super::idempotency::PendingKeys;
use super::indexer::IndexMarks;
use super::open::Files;
use super::side_files::SideFiles;

/// The handle of the writer.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Sender<WriterMessage>,
    lock: Arc<WriterLock>,
    /// Counts the calls of `run`. A caller whose number is still the last one after a yield has no company.
    arrivals: AtomicU64,
}

/// The parts of the store that the writer uses.
#[derive(Debug)]
pub(super) struct WriterContext {
    pub files: Arc<Files>,
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
    pub index_marks: Arc<IndexMarks>,
    pub side_files: Arc<SideFiles>,
    pub pending_keys: Arc<PendingKeys>,
}

impl Writer {
    pub(super) fn start(context: WriterContext) -> Result<Self> {
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

    /// Runs work in a transaction, together with whatever else is queued. The work may run more than once, but only
    /// one run is committed. It must refuse before it writes.
    pub(super) async fn run<T, E>(
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

    /// Runs the work on the caller's thread if no other caller is about to write; gives it back otherwise.
    async fn try_inline(&self, task: Box<dyn WriteTask>) -> Option<Box<dyn WriteTask>> {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.lock.last_group_single.load(Ordering::Relaxed)
            || self.lock.inline_refused.load(Ordering::Relaxed)
        {
            return Some(task);
        }
        let Some(mode) = BlockMode::of_current_runtime() else { return Some(task) };
        // Lets other tasks that are ready to run reach this point first: on one thread, their calls could not be seen
        // otherwise.
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

    /// The writer's connection, to read with, unless a caller writes or is about to. Its page cache holds what was
    /// written last; every other connection has to read that again.
    pub(super) fn idle_connection(&self) -> Option<MappedMutexGuard<'_, Connection>> {
        if !self.lock.last_group_single.load(Ordering::Relaxed) || !self.queue.is_empty() {
            return None;
        }
        MutexGuard::try_map(self.lock.state.try_lock()?, |state| state.as_mut()?.db.as_mut()).ok()
    }

    /// Queues work whose result no caller waits for. If the queue is full, the work is dropped.
    pub(super) fn run_detached(
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
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Commits what is queued, moves the log into the database and ends the thread.
    pub(super) async fn close(&self) {
        let (done, answer) = oneshot::channel();
        let queue = self.queue.clone();
        let _ = tokio::task::spawn_blocking(move || queue.send(WriterMessage::Close(done))).await;
        let _ = answer.await;
    }
}

/// Work in the queue, with its caller.
trait WriteTask: Send {
    /// Runs the work and keeps its answer or its refusal. Fails only when the database fails.
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
            // The caller may have stopped waiting; the commit stands.
            let _ = self.done.send(outcome);
        }
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.done.send(Err(error.into()));
    }
}

/// A message to the writer's thread.
enum WriterMessage {
    Task(Box<dyn WriteTask>),
    Close(oneshot::Sender<()>),
}
