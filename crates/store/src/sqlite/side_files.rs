//! The side files: memories, crises, ratings. A commit for them first goes to the outbox of `threads` (`outbox.rs`);
//! from there it is copied, in order, by the first reader or commit that finds entries. A reader that finds none pays
//! one comparison.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use sederunt_core::{Error, Result};

use super::fault::report;
use super::open::{Files, Side};
use super::outbox::{self, OutboxRow};
use super::writer::Writer;

/// Outbox entries that are copied with one sync of each file.
const STEP: i64 = 1_000;
/// Attempts to empty the write-ahead logs while readers hold them.
const CLEAR_TRIES_MAX: usize = 3;

#[derive(Debug)]
pub(super) struct SideFiles {
    files: Arc<Files>,
    /// The newest outbox entry that was committed.
    committed_to: AtomicI64,
    /// The newest outbox entry that was copied.
    copied_to: AtomicI64,
    connections: Mutex<Option<SideConnections>>,
}

#[derive(Debug)]
struct SideConnections {
    threads: Connection,
    /// In the order of [`Side::ALL`].
    sides: [Connection; 3],
}

impl SideConnections {
    fn open(files: &Files) -> rusqlite::Result<Self> {
        let sides = [files.side(Side::Memory)?, files.side(Side::Crisis)?, files.side(Side::Feedback)?];
        Ok(Self { threads: files.reader()?, sides })
    }
}

impl SideFiles {
    /// Entries of a former process count as committed and not copied.
    pub(super) fn open(files: Arc<Files>) -> Result<Self> {
        let connections = SideConnections::open(&files).map_err(report)?;
        let committed_to = outbox::newest(&connections.threads).map_err(report)?;
        Ok(Self {
            files,
            committed_to: AtomicI64::new(committed_to),
            copied_to: AtomicI64::new(0),
            connections: Mutex::new(Some(connections)),
        })
    }

    /// Notes that entries up to this one are committed.
    pub(super) fn note_committed(&self, n: i64) {
        self.committed_to.fetch_max(n, Ordering::AcqRel);
    }

    pub(super) fn is_behind(&self) -> bool {
        self.copied_to() < self.committed_to.load(Ordering::Acquire)
    }

    pub(super) fn copied_to(&self) -> i64 {
        self.copied_to.load(Ordering::Acquire)
    }

    /// Copies everything that was committed before this call. Ratings and crises that cannot be written stay in the
    /// outbox and are tried again; readers of memories do not wait for them.
    pub(super) fn catch_up(&self, writer: &Writer) -> Result<()> {
        let wanted = self.committed_to.load(Ordering::Acquire);
        let mut connections = self.connections.lock();
        while self.copied_to() < wanted {
            if let Some(error) = self.step(&mut connections, writer).map_err(report)? {
                log_postponed(&error);
                break;
            }
        }
        Ok(())
    }

    /// Copies what is pending, unless another caller copies already; that one goes on until nothing is left.
    pub(super) fn copy_unless_busy(&self, writer: &Writer) {
        while self.is_behind()
            && let Some(mut connections) = self.connections.try_lock()
        {
            match self.step(&mut connections, writer) {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => return log_postponed(&error),
            }
        }
    }

    /// Copies some entries. Returns the error if those for ratings or crises could not be written.
    fn step(
        &self,
        connections: &mut Option<SideConnections>,
        writer: &Writer,
    ) -> rusqlite::Result<Option<rusqlite::Error>> {
        let mut open = match connections.take() {
            Some(open) => open,
            None => SideConnections::open(&self.files)?,
        };
        // After a failure the files are opened again.
        let last = match copy_some(&self.files, &open.threads, &mut open.sides, self.copied_to())? {
            CopyStep::Stuck(error) => return Ok(Some(error)),
            CopyStep::To(last) => last,
            CopyStep::Nothing => {
                *connections = Some(open);
                self.copied_to.fetch_max(self.committed_to.load(Ordering::Acquire), Ordering::AcqRel);
                return Ok(None);
            }
        };
        *connections = Some(open);
        self.copied_to.fetch_max(last, Ordering::AcqRel);
        writer.run_detached(move |tx| outbox::remove_to(tx.db, last));
        Ok(None)
    }

    /// Deletes rows of a file so that no byte of them stays in the file or in a log. The caller has removed the
    /// copied entries from the outbox before, because a crash would bring them back.
    pub(super) fn purge(
        &self,
        side: Side,
        delete: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
    ) -> Result<u64> {
        let mut connections = self.connections.lock();
        let gone = self.at(&mut connections, side, delete)?;
        if let (Some(open), Some(_)) = (&*connections, self.files.directory()) {
            clear_logs(&open.threads)?;
        }
        Ok(gone as u64)
    }

    /// Writes rows that no commit decides, such as vectors.
    pub(super) fn write(
        &self,
        side: Side,
        write: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        self.at(&mut self.connections.lock(), side, |db| {
            let step = db.unchecked_transaction()?;
            write(&step)?;
            step.commit()
        })
    }

    /// Works on a file. After a failure the files are opened again.
    fn at<T>(
        &self,
        connections: &mut Option<SideConnections>,
        side: Side,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let open = match connections.take() {
            Some(open) => open,
            None => SideConnections::open(&self.files).map_err(report)?,
        };
        let done = {
            let _turn = self.files.turn_to_write();
            work(&open.sides[side as usize]).map_err(report)?
        };
        *connections = Some(open);
        Ok(done)
    }

    /// Moves the write-ahead logs into the files and closes them.
    pub(super) fn close(&self) {
        let Some(connections) = self.connections.lock().take() else { return };
        if self.files.directory().is_none() {
            return;
        }
        for db in &connections.sides {
            if let Err(error) = checkpoint(db) {
                tracing::warn!(%error, "the store could not move a write-ahead log into its side file; the next start does it");
            }
        }
    }
}

fn log_postponed(error: &rusqlite::Error) {
    tracing::warn!(%error, "the store could not write records to a side file; it keeps them in the outbox and tries again");
}

/// The result of copying some entries.
enum CopyStep {
    Nothing,
    /// Everything up to this entry was copied.
    To(i64),
    /// Memories were copied; ratings or crises failed. All entries stay in the outbox and are copied again.
    Stuck(rusqlite::Error),
}

/// Copies some entries to all side files.
fn copy_some(
    files: &Files,
    threads: &Connection,
    sides: &mut [Connection; 3],
    after: i64,
) -> rusqlite::Result<CopyStep> {
    let _turn = files.turn_to_write();
    let lines = outbox::read(threads, after, STEP)?;
    let mut stuck = None;
    for (side, db) in Side::ALL.into_iter().zip(sides) {
        match run(&lines, side, db) {
            Ok(()) => {}
            Err(error) if side == Side::Memory => return Err(error),
            Err(error) => {
                stuck = Some(error);
                continue;
            }
        }
        if files.directory().is_some() && lines.iter().any(|line| line.entry.removes()) {
            checkpoint(db)?;
        }
    }
    Ok(match (stuck, lines.last()) {
        (Some(error), _) => CopyStep::Stuck(error),
        (None, Some(last)) => CopyStep::To(last.n),
        (None, None) => CopyStep::Nothing,
    })
}

fn run(lines: &[OutboxRow], side: Side, db: &mut Connection) -> rusqlite::Result<()> {
    if !lines.iter().any(|line| line.entry.concerns(side)) {
        return Ok(());
    }
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for line in lines {
        line.entry.run(&step, side, line.tk)?;
    }
    step.commit()
}

/// Copies the whole outbox of a store that no process writes to, and leaves the entries there.
pub(super) fn copy_all(files: &Files) -> rusqlite::Result<()> {
    let mut connections = SideConnections::open(files)?;
    let mut done = 0;
    loop {
        match copy_some(files, &connections.threads, &mut connections.sides, done)? {
            CopyStep::To(last) => done = last,
            CopyStep::Nothing => return Ok(()),
            CopyStep::Stuck(error) => return Err(error),
        }
    }
}

/// Empties the write-ahead log. Returns whether a reader prevented it.
fn checkpoint(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
}

/// Empties the write-ahead logs of all files that this reader has open.
fn clear_logs(reader: &Connection) -> Result<()> {
    for _ in 0..CLEAR_TRIES_MAX {
        if !checkpoint(reader).map_err(report)? {
            return Ok(());
        }
    }
    Err(Error::unavailable("purged rows are still in a log that a reader holds; purge again"))
}
