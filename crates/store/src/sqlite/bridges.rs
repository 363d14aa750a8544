//! The bridges of a person.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::session::Session;
use sederunt_core::store::{BridgeStore, StoreFuture};

use super::sessions::ByKey;
use super::{SqliteStore, tenants};

impl BridgeStore for SqliteStore {
    fn running_bridge<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: Option<&'a UserId>,
    ) -> StoreFuture<'a, Option<Session>> {
        self.read_on_writer(move |db| {
            let Some(tk) = tenants::key_of(db, tenant)? else { return Ok(None) };
            let running = running(db, tk, holder)?;
            running.map_or(Ok(None), |(sk, _)| ByKey::of(db)?.get(tenant, sk))
        })
        .boxed()
    }

    fn ended_bridges<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: Option<&'a UserId>,
        before: Option<Timestamp>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Session>> {
        self.read_inline(move |db| {
            let Some(tk) = tenants::key_of(db, tenant)? else { return Ok(Vec::new()) };
            let before = before.map_or(i64::MAX, Timestamp::as_micros);
            let keys: Vec<i64> = db
                .prepare_cached(
                    "SELECT h.sk FROM session_heads h JOIN session_details d ON d.sk = h.sk \
                     WHERE h.tk = ?1 AND coalesce(h.holder, '') = ?2 AND h.is_bridge AND h.status <> 'running' \
                     AND d.completed_at < ?3 ORDER BY h.sk LIMIT ?4",
                )?
                .query_map(params![tk, name(holder), before, i64::try_from(limit).unwrap_or(i64::MAX)], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut sessions = ByKey::of(db)?;
            keys.into_iter().filter_map(|sk| sessions.get(tenant, sk).transpose()).collect()
        })
        .boxed()
    }
}

/// The number and id of the running bridge of a person.
pub(super) fn running(
    db: &Connection,
    tk: i64,
    holder: Option<&UserId>,
) -> rusqlite::Result<Option<(i64, String)>> {
    db.prepare_cached(
        "SELECT sk, id FROM session_heads WHERE tk = ?1 AND coalesce(holder, '') = ?2 AND is_bridge \
         AND status = 'running'",
    )?
    .query_row(params![tk, name(holder)], |row| Ok((row.get(0)?, row.get(1)?)))
    .optional()
}

/// A holder as the index of bridges has it.
fn name(holder: Option<&UserId>) -> &str {
    holder.map_or("", UserId::as_str)
}
