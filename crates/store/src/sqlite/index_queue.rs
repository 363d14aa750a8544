//! Sessions whose title, description or deletion the indexer has yet to take over. A row is written in the commit
//! that changed the session, so a crash in between loses nothing.

use rusqlite::{Connection, params};

/// A session with the number of its row, by which it is removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexQueueRow {
    pub n: i64,
    pub sk: i64,
}

pub(super) fn add(db: &Connection, sk: i64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO search_outbox (sk) VALUES (?1)")?.execute([sk]).map(drop)
}

/// The oldest rows.
pub(super) fn read(db: &Connection, limit: i64) -> rusqlite::Result<Vec<IndexQueueRow>> {
    db.prepare_cached("SELECT n, sk FROM search_outbox ORDER BY n LIMIT ?1")?
        .query_map([limit], |row| Ok(IndexQueueRow { n: row.get(0)?, sk: row.get(1)? }))?
        .collect()
}

/// Removes the rows up to this number.
pub(super) fn remove_to(db: &Connection, n: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM search_outbox WHERE n <= ?1")?.execute(params![n]).map(drop)
}
