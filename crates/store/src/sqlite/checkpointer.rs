//! The checkpointer: a thread that moves the write-ahead log of `threads` into the database without delaying the
//! writer.
//!
//! A passive checkpoint on another connection stops no writer, but what is committed meanwhile stays in the log, and
//! SQLite overwrites a log from its beginning only once all of it has been moved. So this thread moves and syncs most
//! pages without a lock, and then takes the writer's lock for the few that are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;
use sederunt_core::{Error, Result};

use super::open::Files;

/// Passes without the writer's lock; each moves what was committed during the one before.
const PASSES_MAX: usize = 2;
/// Pages that may be left for the pass under the writer's lock; they take well under a millisecond.
const LOCKED_PAGES_MAX: i32 = 64;
/// The pause after a pass that a reader stopped before the end of the log.
const RETRY: Duration = Duration::from_millis(20);

/// The handle of the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Checkpointer {
    requests: Sender<()>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// `log_pages` is the length of the log after the last commit. `hold_writer` runs its argument under the writer's
    /// lock, or not at all once the store is closed.
    pub(super) fn start(
        files: Arc<Files>,
        log_pages: Arc<AtomicI32>,
        hold_writer: impl Fn(&mut dyn FnMut()) + Send + 'static,
    ) -> Result<Self> {
        let (requests, asked) = bounded(1);
        let thread = std::thread::Builder::new()
            .name("sederunt-checkpointer".into())
            .spawn(move || serve(&files, &log_pages, hold_writer, &asked))
            .map_err(Error::internal)?;
        Ok(Self { requests, thread })
    }

    /// Requests a checkpoint. A request while one is pending or in progress adds nothing.
    pub(super) fn request(&self) {
        let _ = self.requests.try_send(());
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(self) {
        drop(self.requests);
        let _ = self.thread.join();
    }
}

fn serve(files: &Files, log_pages: &AtomicI32, hold_writer: impl Fn(&mut dyn FnMut()), asked: &Receiver<()>) {
    let mut db = None;
    while asked.recv().is_ok() {
        let done = connect_once(&mut db, files).and_then(|db| checkpoint(db, log_pages, &hold_writer));
        match done {
            Ok(true) => {}
            Ok(false) => std::thread::sleep(RETRY),
            Err(error) => {
                tracing::warn!(%error, "the checkpointer could not move the write-ahead log into the database; the next commit requests it again");
                db = None;
                std::thread::sleep(RETRY);
            }
        }
    }
}

fn connect_once<'c>(db: &'c mut Option<Connection>, files: &Files) -> rusqlite::Result<&'c Connection> {
    Ok(match db {
        Some(db) => db,
        none => none.insert(files.threads()?),
    })
}

/// Returns whether the whole log was moved.
fn checkpoint(
    db: &Connection,
    log_pages: &AtomicI32,
    hold_writer: &impl Fn(&mut dyn FnMut()),
) -> rusqlite::Result<bool> {
    for _ in 0..PASSES_MAX {
        let moved = pass(db)?;
        if log_pages.load(Ordering::Relaxed) - moved.pages <= LOCKED_PAGES_MAX {
            break;
        }
    }
    let mut last = Ok(CheckpointProgress { pages: 0, is_all: true });
    hold_writer(&mut || last = pass(db));
    Ok(last?.is_all)
}

/// The pages that a pass moved, counted from the beginning of the log.
struct CheckpointProgress {
    pages: i32,
    is_all: bool,
}

fn pass(db: &Connection) -> rusqlite::Result<CheckpointProgress> {
    db.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?.query_row([], |row| {
        let (log, pages): (i32, i32) = (row.get(1)?, row.get(2)?);
        Ok(CheckpointProgress { pages, is_all: pages >= log })
    })
}
