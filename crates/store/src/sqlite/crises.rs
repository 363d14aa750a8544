//! The crisis log: that crises were answered, when and how.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::TenantId;
use sederunt_core::safety::codes::HoldReason;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::store::{CrisisStore, RecordsOf, StoreFuture};

use super::SqliteStore;
use super::fault::{unreadable, unwritable};
use crate::day_start;

pub(super) fn add(db: &Connection, tk: i64, crisis: &CrisisRecord) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO crisis_log (tk, id, session_id_opaque, detected_at, held_until, value) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tk, id) DO NOTHING",
    )?
    .execute(params![
        tk,
        crisis.id.to_string(),
        crisis.session_id_opaque.as_str(),
        crisis.detected_at.as_micros(),
        crisis.retention_extended_until.map(Timestamp::as_micros),
        serde_json::to_string(crisis).map_err(unwritable)?,
    ])
    .map(drop)
}

pub(super) fn hold(
    db: &Connection,
    tk: i64,
    id: &str,
    until: Timestamp,
    reason: HoldReason,
) -> rusqlite::Result<()> {
    let found: Option<CrisisRecord> = db
        .prepare_cached("SELECT value FROM crisis_log WHERE tk = ?1 AND id = ?2")?
        .query_row(params![tk, id], |row| serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(unreadable))
        .optional()?;
    let Some(mut crisis) = found else { return Ok(()) };
    crisis.extend(until, reason);
    db.prepare_cached("UPDATE crisis_log SET held_until = ?3, value = ?4 WHERE tk = ?1 AND id = ?2")?
        .execute(params![
            tk,
            id,
            crisis.retention_extended_until.map(Timestamp::as_micros),
            serde_json::to_string(&crisis).map_err(unwritable)?,
        ])
        .map(drop)
}

pub(super) fn exists(db: &Connection, tenant: &TenantId, id: &str) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM tenants t JOIN crisis_log c ON c.tk = t.tk AND c.id = ?2 WHERE t.id = ?1",
    )?
    .exists([tenant.as_str(), id])
}

pub(super) const BETWEEN: &str = "SELECT value FROM crisis_log WHERE tk = ?1 AND detected_at >= ?2 AND detected_at < ?3 \
     ORDER BY detected_at, insertion_order LIMIT ?4";

impl CrisisStore for SqliteStore {
    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<CrisisRecord>> {
        self.read_side_file(tenant, move |db, tk| {
            db.prepare_cached(BETWEEN)?
                .query_map(
                    params![tk, from.as_micros(), to.as_micros(), i64::try_from(limit).unwrap_or(i64::MAX)],
                    |row| serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(unreadable),
                )?
                .collect()
        })
        .boxed()
    }
}

pub(super) fn count(db: &Connection, tk: i64, of: &RecordsOf) -> rusqlite::Result<u64> {
    let (sql, asked) = match of {
        RecordsOf::Tenant => ("SELECT count(*) FROM crisis_log WHERE tk = ?1 AND ?2 IS NULL", None),
        RecordsOf::Session(opaque) => (
            "SELECT count(*) FROM crisis_log WHERE tk = ?1 AND session_id_opaque = ?2",
            Some(opaque.as_str()),
        ),
        RecordsOf::User(user) => (
            "SELECT count(*) FROM crisis_log WHERE tk = ?1 AND value ->> '$.user_id_or_null' = ?2",
            Some(user.as_str()),
        ),
    };
    db.prepare_cached(sql)?.query_row(params![tk, asked], |row| row.get(0).map(i64::cast_unsigned))
}

/// How many rows a purge with the same bounds would delete.
pub(super) fn purgeable(db: &Connection, before: Timestamp, now: Timestamp) -> rusqlite::Result<u64> {
    let sql =
        "SELECT count(*) FROM crisis_log WHERE detected_at < ?1 AND (held_until IS NULL OR held_until <= ?2)";
    let bounds = [day_start(before).as_micros(), now.as_micros()];
    db.query_row(sql, bounds, |row| row.get(0).map(i64::cast_unsigned))
}

/// Deletes the crises from before the day of `before`, unless they are held longer.
pub(super) fn purge(db: &Connection, before: Timestamp, now: Timestamp) -> rusqlite::Result<usize> {
    db.execute(
        "DELETE FROM crisis_log WHERE detected_at < ?1 AND (held_until IS NULL OR held_until <= ?2)",
        [day_start(before).as_micros(), now.as_micros()],
    )
}

pub(super) fn remove_all(db: &Connection, tk: i64) -> rusqlite::Result<()> {
    db.execute("DELETE FROM crisis_log WHERE tk = ?1", [tk]).map(drop)
}
