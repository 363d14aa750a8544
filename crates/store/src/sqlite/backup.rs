//! Copies of a store while it is in use, and stores made from such copies.
//!
//! Only `threads` is copied: it is the truth. The words are derived from it, and a copy of them that
//! is a moment younger could name sessions that the copied threads have never had.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use sederunt_core::{Error, Result};

use super::fault::report;
use super::migrate;
use super::open::{Files, make_private_directory, make_private_file};

/// Pages copied between two reports of progress.
const STEP_PAGES: i32 = 2_000;
const NAME: &str = "threads.sqlite3";
/// What is counted on both sides.
const COUNTED: [&str; 8] =
    ["tenants", "session_heads", "session_details", "events", "users", "keys", "docs", "approvals"];

/// Copies the store as it is at this moment into a fresh directory.
pub(super) fn back_up(files: &Files, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let from = files.reader().map_err(report)?;
    let _turn = files.turn_to_read();
    copy(&from, to, progress)
}

/// Makes a store in a fresh directory from a copy.
pub(super) fn restore(from: &Path, to: &Path) -> Result<()> {
    let source = from.join(NAME);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let from = Connection::open_with_flags(&source, flags)
        .map_err(|error| Error::invalid("from", format!("{} cannot be read: {error}", source.display())))?;
    from.pragma_update(None, "query_only", "ON").map_err(report)?;
    let version = migrate::version(&from).map_err(report)?;
    if version == 0 || version as usize > migrate::THREADS.len() {
        let message = format!("{} has schema {version}, which this version cannot read", source.display());
        return Err(Error::invalid("from", message));
    }
    check(&from)?;
    copy(&from, to, &mut |_, _| {})
}

fn copy(from: &Connection, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    make_fresh_directory(to)?;
    let path = to.join(NAME);
    make_private_file(&path).map_err(|error| Error::invalid("to", error.to_string()))?;
    let mut target = Connection::open(&path).map_err(report)?;
    // One snapshot for all steps: without it every write in between would start the copy anew.
    let snapshot = from.unchecked_transaction().map_err(report)?;
    let expected = count(&snapshot).map_err(report)?;
    {
        let backup = Backup::new(&snapshot, &mut target).map_err(report)?;
        loop {
            let step = backup.step(STEP_PAGES).map_err(report)?;
            let seen = backup.progress();
            let total = u64::try_from(seen.pagecount).unwrap_or_default();
            progress(total - u64::try_from(seen.remaining).unwrap_or_default(), total);
            if matches!(step, StepResult::Done) {
                break;
            }
        }
    }
    drop(snapshot);
    check(&target)?;
    let copied = count(&target).map_err(report)?;
    if copied != expected {
        return Err(Error::internal(format!(
            "the copy has {copied:?} rows of {COUNTED:?}, not {expected:?}"
        )));
    }
    Ok(())
}

fn make_fresh_directory(path: &Path) -> Result<()> {
    let bad =
        |error: std::io::Error| Error::invalid("to", format!("{} cannot be used: {error}", path.display()));
    make_private_directory(path).map_err(bad)?;
    if std::fs::read_dir(path).map_err(bad)?.next().is_some() {
        return Err(Error::invalid("to", format!("{} is not empty; name a new directory", path.display())));
    }
    Ok(())
}

fn check(db: &Connection) -> Result<()> {
    let verdict: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(report)?;
    if verdict == "ok" { Ok(()) } else { Err(Error::internal(format!("the copy is damaged: {verdict}"))) }
}

/// A copy of an older schema may not have every table yet.
fn count(db: &Connection) -> rusqlite::Result<[Option<i64>; COUNTED.len()]> {
    let mut counts = [None; COUNTED.len()];
    for (count, table) in counts.iter_mut().zip(COUNTED) {
        if db.table_exists(Some("main"), table)? {
            *count = db.query_row(&format!("SELECT count(*) FROM main.{table}"), [], |row| row.get(0))?;
        }
    }
    Ok(counts)
}
