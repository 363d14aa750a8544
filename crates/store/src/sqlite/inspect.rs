//! Inspects the files of a store from outside, for `doctor`. Changes nothing, works beside a server that has the
//! store open, and on a schema of any version or none.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use sederunt_core::{Error, Result, Timestamp};

use super::migrate;

const THREADS: &str = "threads.sqlite3";

/// The result of an inspection.
#[derive(Clone, Debug)]
pub struct SqliteInspection {
    pub schema_version: u32,
    /// `None` where another version of this program wrote the schema.
    pub contents: Option<Contents>,
}

#[derive(Clone, Copy, Debug)]
pub struct Contents {
    pub sessions: i64,
    /// Outbox entries that are not yet in their side files.
    pub outbox: i64,
    /// The time of the newest event.
    pub newest: Timestamp,
}

/// A side file, which can be lost by itself.
#[derive(Clone, Copy, Debug)]
pub struct SideFile {
    pub name: &'static str,
    /// What it holds.
    pub holds: &'static str,
    count: &'static str,
}

pub const SIDE_FILES: [SideFile; 3] = [
    SideFile { name: "memory.sqlite3", holds: "memories", count: "SELECT count(*) FROM memories" },
    SideFile { name: "crisis.sqlite3", holds: "crises", count: "SELECT count(*) FROM crisis_log" },
    SideFile {
        name: "session_feedback.sqlite3",
        holds: "ratings",
        count: "SELECT count(*) FROM session_feedback",
    },
];

/// The version of SQLite, as text and as a number: 3.51.3 is 3051003.
pub fn sqlite_version() -> (&'static str, i32) {
    (rusqlite::version(), rusqlite::version_number())
}

/// The schema of the store in a directory; 0 where there is none.
pub fn schema_version(directory: &Path) -> Result<u32> {
    let path = directory.join(THREADS);
    if !path.exists() {
        return Ok(0);
    }
    migrate::version(&look(&path)?).map_err(Error::internal)
}

/// Inspects the store in a directory.
pub fn inspect(directory: &Path) -> Result<SqliteInspection> {
    let db = look(&directory.join(THREADS))?;
    let found = number(&db, "PRAGMA user_version")?;
    let mut inspection =
        SqliteInspection { schema_version: u32::try_from(found).unwrap_or(u32::MAX), contents: None };
    if usize::try_from(found) == Ok(migrate::THREADS.len()) {
        let newest = number(&db, "SELECT coalesce(max(last_at), 0) FROM session_tails")?;
        inspection.contents = Some(Contents {
            sessions: number(&db, "SELECT count(*) FROM session_heads")?,
            outbox: number(&db, "SELECT count(*) FROM talk_outbox")?,
            newest: Timestamp::from_micros(newest),
        });
    }
    Ok(inspection)
}

impl SideFile {
    /// How many records the file holds. `None` where it does not exist yet: the next start makes it.
    pub fn records(&self, directory: &Path) -> Result<Option<i64>> {
        let path = directory.join(self.name);
        if !path.exists() {
            return Ok(None);
        }
        number(&look(&path)?, self.count).map(Some)
    }
}

fn number(db: &Connection, sql: &str) -> Result<i64> {
    db.query_row(sql, [], |row| row.get(0)).map_err(Error::unavailable)
}

/// Opens a connection that changes nothing and may read beside the writer.
fn look(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(Error::unavailable)?;
    db.pragma_update(None, "query_only", "ON").map_err(Error::unavailable)?;
    Ok(db)
}
