//! The files beside `threads` that are no index of it: memories, crises, ratings. Whatever is committed for them waits
//! in the outbox of `threads`; here it is carried over, in order, by whoever comes first. A reader that finds nothing
//! waiting pays one comparison.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use sederunt_core::{Error, Result};

use super::fault::report;
use super::open::{Files, Side};
use super::outbox::{self, Line};
use super::writer::Writer;

/// Errands carried over with one sync of each file.
const STEP: i64 = 1_000;
/// How often the write-ahead logs are emptied again when readers were in the way.
const CLEAR_TRIES_MAX: usize = 3;

#[derive(Debug)]
pub(super) struct Annex {
    files: Arc<Files>,
    /// The newest errand that was committed.
    left_to: AtomicI64,
    /// The newest errand that was carried over.
    done_to: AtomicI64,
    desk: Mutex<Option<Desk>>,
}

#[derive(Debug)]
struct Desk {
    threads: Connection,
    /// In the order of [`Side::ALL`].
    sides: [Connection; 3],
}

impl Desk {
    fn open(files: &Files) -> rusqlite::Result<Self> {
        let sides = [files.side(Side::Memory)?, files.side(Side::Crisis)?, files.side(Side::Feedback)?];
        Ok(Self { threads: files.reader()?, sides })
    }
}

impl Annex {
    /// Whatever a former run left to be done is still to be done.
    pub(super) fn open(files: Arc<Files>) -> Result<Self> {
        let desk = Desk::open(&files).map_err(report)?;
        let left_to = outbox::newest(&desk.threads).map_err(report)?;
        Ok(Self {
            files,
            left_to: AtomicI64::new(left_to),
            done_to: AtomicI64::new(0),
            desk: Mutex::new(Some(desk)),
        })
    }

    /// Errands up to this one have been committed.
    pub(super) fn left(&self, n: i64) {
        self.left_to.fetch_max(n, Ordering::AcqRel);
    }

    pub(super) fn is_behind(&self) -> bool {
        self.done_to() < self.left_to.load(Ordering::Acquire)
    }

    pub(super) fn done_to(&self) -> i64 {
        self.done_to.load(Ordering::Acquire)
    }

    /// Carries over everything that was committed before this call. Ratings and crises that cannot be written stay in
    /// the outbox and are tried again: nobody's memory waits for them.
    pub(super) fn catch_up(&self, writer: &Writer) -> Result<()> {
        let wanted = self.left_to.load(Ordering::Acquire);
        let mut desk = self.desk.lock();
        while self.done_to() < wanted {
            if let Some(error) = self.step(&mut desk, writer).map_err(report)? {
                put_off(&error);
                break;
            }
        }
        Ok(())
    }

    /// The same for somebody who waits for nothing: whoever is at it already goes on until nothing is left.
    pub(super) fn keep_up(&self, writer: &Writer) {
        while self.is_behind()
            && let Some(mut desk) = self.desk.try_lock()
        {
            match self.step(&mut desk, writer) {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => return put_off(&error),
            }
        }
    }

    /// Carries some outbox over. Answers with why those for ratings or crises could not be, where that is so.
    fn step(&self, desk: &mut Option<Desk>, writer: &Writer) -> rusqlite::Result<Option<rusqlite::Error>> {
        let mut open = match desk.take() {
            Some(open) => open,
            None => Desk::open(&self.files)?,
        };
        // After a failure they are opened anew.
        let last = match carry_over(&self.files, &open.threads, &mut open.sides, self.done_to())? {
            Carried::Stuck(error) => return Ok(Some(error)),
            Carried::To(last) => last,
            Carried::Nothing => {
                *desk = Some(open);
                self.done_to.fetch_max(self.left_to.load(Ordering::Acquire), Ordering::AcqRel);
                return Ok(None);
            }
        };
        *desk = Some(open);
        self.done_to.fetch_max(last, Ordering::AcqRel);
        writer.tell(move |ledger| outbox::remove_to(ledger.db, last));
        Ok(None)
    }

    /// Deletes from a file and leaves no byte of it behind, in that file or on the way to it. What was carried over
    /// must have been crossed out before, or a crash would bring it back.
    pub(super) fn purge(
        &self,
        side: Side,
        delete: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
    ) -> Result<u64> {
        let mut desk = self.desk.lock();
        let gone = self.at(&mut desk, side, delete)?;
        if let (Some(open), Some(_)) = (&*desk, self.files.directory()) {
            clear_logs(&open.threads)?;
        }
        Ok(gone as u64)
    }

    /// Writes into a file what no commit decides.
    pub(super) fn write(
        &self,
        side: Side,
        write: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        self.at(&mut self.desk.lock(), side, |db| {
            let step = db.unchecked_transaction()?;
            write(&step)?;
            step.commit()
        })
    }

    /// Works on a file, which after a failure is opened anew.
    fn at<T>(
        &self,
        desk: &mut Option<Desk>,
        side: Side,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let open = match desk.take() {
            Some(open) => open,
            None => Desk::open(&self.files).map_err(report)?,
        };
        let done = {
            let _turn = self.files.turn_to_write();
            work(&open.sides[side as usize]).map_err(report)?
        };
        *desk = Some(open);
        Ok(done)
    }

    /// Moves the write-ahead logs into the files and lets go of them.
    pub(super) fn close(&self) {
        let Some(desk) = self.desk.lock().take() else { return };
        if self.files.directory().is_none() {
            return;
        }
        for db in &desk.sides {
            if let Err(error) = checkpoint(db) {
                tracing::warn!(%error, "a write-ahead log could not be folded in; the next start does it");
            }
        }
    }
}

fn put_off(error: &rusqlite::Error) {
    tracing::warn!(%error, "records for a file beside `threads` could not be written; they are kept and tried again");
}

/// How far outbox were carried over.
enum Carried {
    Nothing,
    /// All up to this one.
    To(i64),
    /// Those for memories were; those for ratings or crises could not be, and all of them stay to be done again.
    Stuck(rusqlite::Error),
}

/// Carries some outbox over.
fn carry_over(
    files: &Files,
    threads: &Connection,
    sides: &mut [Connection; 3],
    after: i64,
) -> rusqlite::Result<Carried> {
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
        if files.directory().is_some() && lines.iter().any(|line| line.errand.removes()) {
            checkpoint(db)?;
        }
    }
    Ok(match (stuck, lines.last()) {
        (Some(error), _) => Carried::Stuck(error),
        (None, Some(last)) => Carried::To(last.n),
        (None, None) => Carried::Nothing,
    })
}

fn run(lines: &[Line], side: Side, db: &mut Connection) -> rusqlite::Result<()> {
    if !lines.iter().any(|line| line.errand.concerns(side)) {
        return Ok(());
    }
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for line in lines {
        line.errand.run(&step, side, line.tk)?;
    }
    step.commit()
}

/// Carries over what waits in the outbox of files that nobody else writes to, and leaves it there.
pub(super) fn settle(files: &Files) -> rusqlite::Result<()> {
    let mut desk = Desk::open(files)?;
    let mut done = 0;
    loop {
        match carry_over(files, &desk.threads, &mut desk.sides, done)? {
            Carried::To(last) => done = last,
            Carried::Nothing => return Ok(()),
            Carried::Stuck(error) => return Err(error),
        }
    }
}

/// Empties the write-ahead log; answers whether somebody who reads was in the way.
fn checkpoint(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
}

/// Empties the write-ahead logs of all files that a reader has open.
fn clear_logs(reader: &Connection) -> Result<()> {
    for _ in 0..CLEAR_TRIES_MAX {
        if !checkpoint(reader).map_err(report)? {
            return Ok(());
        }
    }
    Err(Error::unavailable("what was purged is still in a log that somebody reads; purge again"))
}
