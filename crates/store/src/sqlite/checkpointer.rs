//! The thread that moves the write-ahead log of `threads` into the database, beside the writer and not in its way.
//!
//! A passive checkpoint on a connection of its own stops no writer, but what is committed meanwhile stays in the log, and
//! a log is written over from its beginning only once all of it has been moved. So this thread copies and syncs most pages
//! without any lock, and then takes the writer's lock for the few that are left. The writer waits for those alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;
use sederunt_core::{Error, Result};

use super::open::Files;

/// Passes without the writer's lock: each moves what was committed during the one before.
const PASSES_MAX: usize = 2;
/// Pages that may be left for the pass under the writer's lock; they take well under a millisecond.
const LOCKED_PAGES_MAX: i32 = 64;
/// The pause after a pass that a reader kept from the end of the log.
const RETRY: Duration = Duration::from_millis(20);

/// The way to the thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Checkpointer {
    requests: Sender<()>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// `log_pages` is the length of the log after the last commit. `hold_writer` runs its argument while nothing is written,
    /// or not at all once the store is closed.
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

    /// Asks for a checkpoint; one that is under way or asked for already is enough.
    pub(super) fn request(&self) {
        let _ = self.requests.try_send(());
    }

    /// Lets the thread end, and waits for it.
    pub(super) fn stop(self) {
        drop(self.requests);
        let _ = self.thread.join();
    }
}

fn serve(files: &Files, log_pages: &AtomicI32, hold_writer: impl Fn(&mut dyn FnMut()), asked: &Receiver<()>) {
    let mut db = None;
    while asked.recv().is_ok() {
        let done = connected(&mut db, files).and_then(|db| checkpoint(db, log_pages, &hold_writer));
        match done {
            Ok(true) => {}
            Ok(false) => std::thread::sleep(RETRY),
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log could not be moved into the database; the next commit tries again");
                db = None;
                std::thread::sleep(RETRY);
            }
        }
    }
}

fn connected<'c>(db: &'c mut Option<Connection>, files: &Files) -> rusqlite::Result<&'c Connection> {
    Ok(match db {
        Some(db) => db,
        none => none.insert(files.threads()?),
    })
}

/// Answers whether the whole log was moved.
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

/// What a pass has moved of the log, counted from its beginning.
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
