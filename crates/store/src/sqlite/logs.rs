//! Logs and the sessions that refer to them. A session is a list of ranges of logs: the shared beginning of a fork is
//! in the logs of other sessions, the rest in its own. A log is deleted when no session refers to it; of a log whose
//! session is gone, only the part that forks refer to is kept.

use rusqlite::{Connection, OptionalExtension, params};

use super::heads::StoredHead;

/// The key of an event: the log's number in the upper half, the sequence in the lower.
pub(super) const fn key(log: i64, sequence: u64) -> i64 {
    (log << 32) | (sequence & SEQUENCE_MASK).cast_signed()
}

pub(super) const fn sequence_of(key: i64) -> u64 {
    key.cast_unsigned() & SEQUENCE_MASK
}

const SEQUENCE_MASK: u64 = 0xFFFF_FFFF;

/// Sequences of one log, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogRange {
    pub log: i64,
    pub from: u64,
    pub to: u64,
}

/// The ranges that hold the sequences `low..=high` of a session, in order.
pub(super) fn ranges(
    db: &Connection,
    sk: i64,
    prefix_to: u64,
    low: u64,
    high: u64,
) -> rusqlite::Result<Vec<LogRange>> {
    let mut ranges = Vec::with_capacity(1);
    if low <= prefix_to {
        let mut statement = db.prepare_cached(
            "SELECT log, max(from_seq, ?2), min(to_seq, ?3) FROM session_ranges \
             WHERE sk = ?1 AND to_seq >= ?2 AND from_seq <= ?3 ORDER BY from_seq",
        )?;
        let rows = statement.query_map(params![sk, low.cast_signed(), high.cast_signed()], |row| {
            Ok(LogRange {
                log: row.get(0)?,
                from: row.get::<_, i64>(1)?.cast_unsigned(),
                to: row.get::<_, i64>(2)?.cast_unsigned(),
            })
        })?;
        for range in rows {
            ranges.push(range?);
        }
    }
    let from = low.max(prefix_to + 1);
    if from <= high {
        ranges.push(LogRange { log: sk, from, to: high });
    }
    Ok(ranges)
}

/// Gives a new session the first sequences of another one.
pub(super) fn share_prefix(
    db: &Connection,
    sk: i64,
    source: &StoredHead,
    at_sequence: u64,
) -> rusqlite::Result<()> {
    for range in ranges(db, source.sk, source.prefix_to, 1, at_sequence)? {
        db.prepare_cached("INSERT INTO session_ranges (sk, from_seq, to_seq, log) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![sk, range.from.cast_signed(), range.to.cast_signed(), range.log])?;
    }
    Ok(())
}

/// The sequence of the event with this external id in a session.
pub(super) fn first_of(
    db: &Connection,
    sk: i64,
    prefix_to: u64,
    external_id: &str,
) -> rusqlite::Result<Option<u64>> {
    let in_own = db
        .prepare_cached("SELECT seq FROM event_external WHERE log = ?1 AND external_id = ?2")?
        .query_row(params![sk, external_id], |row| row.get::<_, i64>(0))
        .optional()?;
    let found = match in_own {
        None if prefix_to > 0 => db
            .prepare_cached(
                "SELECT e.seq FROM session_ranges r JOIN event_external e ON e.log = r.log AND e.external_id = ?2 \
                 WHERE r.sk = ?1 AND e.seq BETWEEN r.from_seq AND r.to_seq LIMIT 1",
            )?
            .query_row(params![sk, external_id], |row| row.get::<_, i64>(0))
            .optional()?,
        own => own,
    };
    Ok(found.map(i64::cast_unsigned))
}

/// Stores the sequence of an external id.
pub(super) fn remember(db: &Connection, log: i64, external_id: &str, sequence: u64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO event_external (log, external_id, seq) VALUES (?1, ?2, ?3)")?
        .execute(params![log, external_id, sequence.cast_signed()])
        .map(drop)
}

/// Deletes a session's own log and the logs that only it referred to. Its head must still exist; the caller deletes
/// it afterwards.
pub(super) fn release(db: &Connection, sk: i64) -> rusqlite::Result<()> {
    let borrowed: Vec<i64> = db
        .prepare_cached("SELECT DISTINCT log FROM session_ranges WHERE sk = ?1")?
        .query_map([sk], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    db.prepare_cached("DELETE FROM session_ranges WHERE sk = ?1")?.execute([sk])?;
    for log in borrowed {
        let owned = db.prepare_cached("SELECT 1 FROM session_heads WHERE sk = ?1")?.exists([log])?;
        if !owned {
            trim(db, log)?;
        }
    }
    trim(db, sk)
}

/// Deletes the events that no fork refers to, from a log whose session is gone.
fn trim(db: &Connection, log: i64) -> rusqlite::Result<()> {
    let kept_to: i64 = db
        .prepare_cached("SELECT coalesce(max(to_seq), 0) FROM session_ranges WHERE log = ?1")?
        .query_row([log], |row| row.get(0))?;
    let first_gone = kept_to.cast_unsigned() + 1;
    db.prepare_cached("DELETE FROM events WHERE k BETWEEN ?1 AND ?2")?
        .execute([key(log, first_gone), key(log, SEQUENCE_MASK)])?;
    for table in ["event_external", "document_patches"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE log = ?1 AND seq > ?2"))?
            .execute([log, kept_to])?;
    }
    Ok(())
}
