//! The crisis log: that crises were answered, when and how.

use sederunt_core::error::Error;
use sederunt_core::ids::TenantId;
use sederunt_core::safety::codes::HoldReason;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::store::{CrisisStore, StoreFuture};
use sederunt_core::time::Timestamp;

use super::fault::Result;
use super::tx::{Context, Scope, Tx, int};
use super::{PostgresStore, read};
use crate::day_start;

pub(super) async fn add(tx: &Tx, tk: i32, crisis: &CrisisRecord) -> Result<()> {
    let sql = "INSERT INTO crisis_log (tk, id, session_id_opaque, detected_at, held_until, value)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tk, id) DO NOTHING";
    tx.execute(
        sql,
        &[
            &tk,
            &crisis.id.to_string(),
            &crisis.session_id_opaque.as_str(),
            &crisis.detected_at.as_micros(),
            &crisis.retention_extended_until.map(Timestamp::as_micros),
            &serde_json::to_string(crisis).map_err(Error::internal)?,
        ],
    )
    .await
    .map(drop)
}

/// Returns the rows written.
pub(super) async fn hold(tx: &Tx, tk: i32, id: &str, until: Timestamp, reason: HoldReason) -> Result<u64> {
    let rows = tx
        .query("SELECT value FROM crisis_log WHERE tk = $1 AND id = $2 FOR NO KEY UPDATE", &[&tk, &id])
        .await?;
    let Some(row) = rows.first() else { return Ok(0) };
    let mut crisis: CrisisRecord = serde_json::from_str(row.try_get(0)?).map_err(Error::internal)?;
    crisis.extend(until, reason);
    let (held, value) = (
        crisis.retention_extended_until.map(Timestamp::as_micros),
        serde_json::to_string(&crisis).map_err(Error::internal)?,
    );
    let sql = "UPDATE crisis_log SET held_until = $3, value = $4 WHERE tk = $1 AND id = $2";
    tx.execute(sql, &[&tk, &id, &held, &value]).await
}

impl CrisisStore for PostgresStore {
    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<CrisisRecord>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql = "SELECT value FROM crisis_log WHERE tk = $1 AND detected_at >= $2 AND detected_at < $3
             ORDER BY detected_at, insertion_order LIMIT $4";
            let limit = int(limit as u64);
            let rows = self
                .context
                .read(Scope::Tenant(tk), sql, &[&tk, &from.as_micros(), &to.as_micros(), &limit])
                .await?;
            rows.iter()
                .map(|row| Ok(serde_json::from_str(row.try_get(0)?).map_err(Error::internal)?))
                .collect()
        })
    }
}

/// How many rows a purge with the same bounds would delete.
pub(super) async fn purgeable(context: &Context, before: Timestamp, now: Timestamp) -> Result<u64> {
    let (before, now) = (day_start(before).as_micros(), now.as_micros());
    let sql = "SELECT count(tk) FROM crisis_log
         WHERE detected_at < $1 AND (held_until IS NULL OR held_until <= $2)";
    let rows = context.read(Scope::All, sql, &[&before, &now]).await?;
    rows.first().map_or(Ok(0), |row| Ok(row.try_get::<_, i64>(0)?.unsigned_abs()))
}

/// Deletes the crises from before the day of `before`, unless they are held longer. VACUUM, and so the operator of
/// the database, decides when their bytes leave the files.
pub(super) async fn purge(context: &Context, before: Timestamp, now: Timestamp) -> Result<u64> {
    let (before, now) = (day_start(before).as_micros(), now.as_micros());
    let sql = "SELECT DISTINCT tk FROM crisis_log WHERE detected_at < $1 AND (held_until IS NULL OR held_until <= $2)";
    let mut gone = 0;
    for row in context.read(Scope::All, sql, &[&before, &now]).await? {
        let tk: i32 = row.try_get(0)?;
        let tx = context.begin(Scope::Tenant(tk)).await?;
        let sql = "DELETE FROM crisis_log WHERE tk = $1 AND detected_at < $2 AND (held_until IS NULL OR held_until <= $3)";
        gone += tx.execute(sql, &[&tk, &before, &now]).await?;
        tx.commit().await?;
    }
    Ok(gone)
}
