//! What the sweeper asks for: sessions whose lease or deadline has passed; and figures about the whole store.

use futures_util::FutureExt as _;
use rusqlite::{Connection, params};
use sederunt_core::Timestamp;
use sederunt_core::clock::Clock as _;
use sederunt_core::error::Result;
use sederunt_core::ids::{ProcessWorker, SessionId, TenantId};
use sederunt_core::store::{DueApproval, DueSession, RecordsKept, StoreFuture, SweepStore, Vitals};

use super::open::Side;
use super::{SqliteStore, crises, heads, idempotency, migrate, ratings};

pub(super) const LEASES: &str = "SELECT h.sk FROM tenants t CROSS JOIN sessions s INDEXED BY sessions_by_state ON s.tk = t.tk \
     AND s.session_type IN ('agent', 'response', 'tool', 'mixed') AND s.status = 'running' AND s.inactive IN (0, 1) \
     CROSS JOIN session_heads h ON h.sk = s.sk AND h.lease_until <= ?1 ORDER BY h.lease_until LIMIT ?3";

impl SweepStore for SqliteStore {
    fn due(&self, silent_since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        let now = self.clock.now();
        self.read_pooled(move |db| due(db, now, silent_since, limit)).boxed()
    }

    fn due_promotions(&self, limit: usize) -> StoreFuture<'_, Vec<DueApproval>> {
        let now = self.clock.now();
        self.read_pooled(move |db| due_promotions(db, now, limit)).boxed()
    }

    fn purge_keys(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        async move {
            let mut gone = 0;
            loop {
                let some: Result<u64> =
                    self.writer.run(move |tx| Ok(idempotency::purge_some(tx.db, before)?)).await;
                match some? {
                    0 => return Ok(gone),
                    some => gone += some,
                }
            }
        }
        .boxed()
    }

    fn purge_ratings(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        self.purge(Side::Feedback, move |db| ratings::purge(db, before)).boxed()
    }

    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> StoreFuture<'_, u64> {
        self.purge(Side::Crisis, move |db| crises::purge(db, before, now)).boxed()
    }

    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, RecordsKept> {
        async move {
            self.sync_side_files().await?;
            self.read_inline(|db| {
                Ok(RecordsKept {
                    ratings: ratings::purgeable(db, ratings_before)?,
                    crises: crises::purgeable(db, crises_before, now)?,
                })
            })
            .await
        }
        .boxed()
    }
}

/// Sessions whose lease or deadline has passed, then those that were silent for too long. Each probe stops at the
/// limit, so the cost follows what is due. Leases are searched among running sessions: no other has one.
fn due(
    db: &Connection,
    now: Timestamp,
    silent_since: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<DueSession>> {
    let probes = [
        (LEASES, now),
        ("SELECT sk FROM session_heads WHERE deadline_at <= ?1 ORDER BY deadline_at LIMIT ?3", now),
        (
            "SELECT s.sk FROM tenants t CROSS JOIN sessions s INDEXED BY sessions_by_state ON s.tk = t.tk \
             AND s.session_type IN ('agent', 'response', 'tool', 'mixed') AND s.status IN ('draft', 'idle', 'completed', 'failed', 'expired', 'abandoned') \
             AND s.inactive = 0 AND s.active_minute <= ?2 \
             CROSS JOIN session_tails l ON l.sk = s.sk AND l.last_at < ?1 LIMIT ?3",
            silent_since,
        ),
    ];
    let mut found: Vec<i64> = Vec::new();
    for (sql, at) in probes {
        let left = i64::try_from(limit.saturating_sub(found.len())).unwrap_or(i64::MAX);
        let mut statement = db.prepare_cached(sql)?;
        for sk in statement.query_map(params![at.as_micros(), at.minute(), left], |row| row.get(0))? {
            let sk = sk?;
            if !found.contains(&sk) {
                found.push(sk);
            }
        }
    }
    let mut name = db.prepare_cached(
        "SELECT t.id, h.id FROM session_heads h JOIN tenants t ON t.tk = h.tk WHERE h.sk = ?1 AND t.id IS NOT NULL",
    )?;
    let mut due = Vec::with_capacity(found.len());
    for sk in found {
        for named in name.query_map([sk], |row| {
            Ok(DueSession {
                tenant: TenantId::stored(row.get_ref(0)?.as_str()?),
                session: SessionId::stored(row.get_ref(1)?.as_str()?),
            })
        })? {
            due.push(named?);
        }
    }
    Ok(due)
}

pub(super) const PROMOTIONS: &str = "SELECT t.id, a.id FROM approvals a CROSS JOIN tenants t ON t.tk = a.tk WHERE a.expires_at <= ?1 \
     AND a.kind = 'promotion' AND a.state = 'pending' AND t.id IS NOT NULL ORDER BY a.expires_at LIMIT ?2";

fn due_promotions(db: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<Vec<DueApproval>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(PROMOTIONS)?;
    let due = statement.query_map(params![now.as_micros(), limit], |row| {
        Ok(DueApproval { tenant: TenantId::stored(row.get_ref(0)?.as_str()?), approval: row.get(1)? })
    })?;
    due.collect()
}

/// Ends the leases of the turns and runs of the process that had this store open before; the lock on the directory
/// proves that it is gone. Claims over HTTP belong to other processes and keep their leases. Returns how many ended.
pub(super) fn free_claims_of_the_last_process(db: &Connection, now: Timestamp) -> rusqlite::Result<usize> {
    let mut end = db.prepare(
        "UPDATE session_heads SET lease_until = ?1 WHERE lease_until > ?1 AND sk IN \
         (SELECT h.sk FROM tenants t CROSS JOIN sessions s INDEXED BY sessions_by_state ON s.tk = t.tk \
          AND s.session_type IN ('agent', 'response', 'tool', 'mixed') AND s.status = 'running' AND s.inactive IN (0, 1) \
          CROSS JOIN session_heads h ON h.sk = s.sk AND substr(h.claim_credential, 1, length(?2)) = ?2)",
    )?;
    ProcessWorker::ALL.iter().try_fold(0, |ended, worker| {
        Ok(ended + end.execute(params![now.as_micros(), worker.credential_prefix()])?)
    })
}

pub(super) fn vitals(db: &Connection) -> rusqlite::Result<Vitals> {
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned);
    Ok(Vitals {
        kind: "sqlite",
        server_version: rusqlite::version().to_owned(),
        schema_version: migrate::version(db)?,
        sessions: number("SELECT count(*) FROM session_heads")?,
        events: number(concat!(
            "SELECT coalesce(sum(l.last_sequence - h.prefix_to), 0) FROM ",
            heads::tables!()
        ))?,
        bytes: ["main", "search", "memory", "crisis", "feedback"].iter().try_fold(0, |sum, file| {
            let sql = "SELECT page_count * page_size FROM pragma_page_count(?1), pragma_page_size(?1)";
            db.query_row(sql, [file], |row| row.get::<_, i64>(0)).map(|bytes| sum + bytes.cast_unsigned())
        })?,
    })
}
