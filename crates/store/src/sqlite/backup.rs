//! Backups of a store while it is in use, and stores restored from them.
//!
//! `threads` is copied first: it decides, and its outbox can be copied again onto side files that are a moment
//! younger. The search index is not copied: it is derived, and a younger copy could name sessions that the copied
//! `threads` never had.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, MAIN_DB, OpenFlags};
use sederunt_core::{Error, Result};

use super::fault::report;
use super::migrate;
use super::open::{Files, Side, make_private_directory, make_private_file};

/// Pages copied between two reports of progress.
const STEP_PAGES: i32 = 2_000;

/// A file of the backup.
struct BackupFile {
    file: &'static str,
    /// The name under which a reader attaches it.
    name: &'static str,
    steps: &'static [&'static str],
    /// The tables whose rows are counted in the file and in its copy.
    counted: &'static [&'static str],
}

const THREADS: BackupFile = BackupFile {
    file: "threads.sqlite3",
    name: "main",
    steps: migrate::THREADS,
    counted: &[
        "tenants", "session_heads", "session_details", "events", "users", "keys", "docs", "approvals",
        "talks", "talk_outbox", "feedback_events", "feedback_sessions", "lessons", "lesson_words",
    ],
};

const fn backup_file(side: Side) -> BackupFile {
    let counted: &[&str] = match side {
        Side::Memory => &["memories", "memory_words"],
        Side::Crisis => &["crisis_log"],
        Side::Feedback => &["session_feedback"],
    };
    BackupFile { file: side.file(), name: side.name(), steps: side.steps(), counted }
}

const BACKUP_FILES: [BackupFile; 4] =
    [THREADS, backup_file(Side::Memory), backup_file(Side::Crisis), backup_file(Side::Feedback)];

/// Copies the store as it is at this moment into a fresh directory.
pub(super) fn back_up(files: &Files, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let from = files.reader().map_err(report)?;
    let _turn = files.turn_to_read();
    make_fresh_directory(to)?;
    let mut total = 0;
    for file in &BACKUP_FILES {
        let sql = "SELECT page_count FROM pragma_page_count(?1)";
        total += from.query_row(sql, [file.name], |row| row.get::<_, i64>(0)).map_err(report)?.unsigned_abs();
    }
    let mut done = 0;
    for file in &BACKUP_FILES {
        let mut pages = 0;
        copy(&from, file.name, file, to, &mut |copied, all| {
            pages = all;
            progress((done + copied).min(total), total);
        })?;
        done += pages;
    }
    Ok(())
}

/// Restores a store into an empty directory from a backup, or from the directory of a store that is open.
pub(super) fn restore(from: &Path, to: &Path) -> Result<()> {
    let mut sources = Vec::new();
    for file in &BACKUP_FILES {
        // An older backup may lack this file.
        let source = from.join(file.file);
        if file.name == THREADS.name || source.exists() {
            sources.push((file, readable(&source, file)?));
        }
    }
    make_fresh_directory(to)?;
    for (file, source) in &sources {
        copy(source, THREADS.name, file, to, &mut |_, _| {})?;
    }
    Ok(())
}

fn readable(source: &Path, file: &BackupFile) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(source, flags)
        .map_err(|error| Error::invalid("from", format!("{} cannot be read: {error}", source.display())))?;
    db.pragma_update(None, "query_only", "ON").map_err(report)?;
    let version = migrate::version(&db).map_err(report)?;
    if version == 0 || version as usize > file.steps.len() {
        let message = format!("{} has schema {version}, which this version cannot read", source.display());
        return Err(Error::invalid("from", message));
    }
    check(&db)?;
    Ok(db)
}

fn copy(
    from: &Connection,
    name: &str,
    file: &BackupFile,
    to: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let path = to.join(file.file);
    make_private_file(&path).map_err(|error| Error::invalid("to", error.to_string()))?;
    let mut target = Connection::open(&path).map_err(report)?;
    // One snapshot for all steps: without it, every write in between would restart the copy.
    let snapshot = from.unchecked_transaction().map_err(report)?;
    let expected = count(&snapshot, name, file).map_err(report)?;
    {
        let backup = Backup::new_with_names(&snapshot, name, &mut target, MAIN_DB).map_err(report)?;
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
    let copied = count(&target, THREADS.name, file).map_err(report)?;
    if copied != expected {
        let (file, tables) = (file.file, file.counted);
        return Err(Error::internal(format!("{file} has {copied:?} rows of {tables:?}, not {expected:?}")));
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

/// Counts rows. A backup of an older schema may lack tables.
fn count(db: &Connection, name: &str, file: &BackupFile) -> rusqlite::Result<Vec<Option<i64>>> {
    file.counted
        .iter()
        .map(|table| match db.table_exists(Some(name), *table)? {
            true => db.query_row(&format!("SELECT count(*) FROM {name}.{table}"), [], |row| row.get(0)),
            false => Ok(None),
        })
        .collect()
}
