//! What reads all tenants: due sessions, old idempotency keys, the store's health.

use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::store::{DueApproval, DueSession, RecordsKept, StoreFuture, SweepStore, Vitals};
use sederunt_core::time::Timestamp;

use super::connect::schemas;
use super::fault::Result;
use super::tx::{Context, Scope, count, int};
use super::{PostgresStore, crises, migrate, ratings, read};

/// Idempotency keys that one statement deletes.
const PORTION: i64 = 5_000;

impl SweepStore for PostgresStore {
    fn due(&self, silent_since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        read(due(&self.context, silent_since, limit))
    }

    fn due_promotions(&self, limit: usize) -> StoreFuture<'_, Vec<DueApproval>> {
        read(due_promotions(&self.context, limit))
    }

    fn purge_keys(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        read(purge_keys(&self.context, before))
    }

    fn purge_ratings(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        read(ratings::purge(&self.context, before))
    }

    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> StoreFuture<'_, u64> {
        read(crises::purge(&self.context, before, now))
    }

    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, RecordsKept> {
        read(async move {
            let ratings = ratings::purgeable(&self.context, ratings_before).await?;
            let crises = crises::purgeable(&self.context, crises_before, now).await?;
            Ok(RecordsKept { ratings, crises })
        })
    }
}

/// The three reasons to be due, each by its own index; a session with two of them is named once. Only running
/// sessions have a lease.
async fn due(context: &Context, silent_since: Timestamp, limit: usize) -> Result<Vec<DueSession>> {
    let sql = "WITH found AS (
             (SELECT tk, sk, id FROM session_heads
              WHERE status = 'running' AND lease_until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + $1
              ORDER BY lease_until LIMIT $4)
             UNION
             (SELECT tk, sk, id FROM session_heads
              WHERE deadline_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + $1
              ORDER BY deadline_at LIMIT $4)
             UNION
             (SELECT tk, sk, id FROM session_heads
              WHERE active_minute <= $3 AND last_at < $2 AND NOT inactive
                  AND status NOT IN ('pending', 'running', 'waiting_human', 'awaiting_tool')
              ORDER BY active_minute LIMIT $4))
         SELECT t.id, f.id FROM found f JOIN tenants t ON t.tk = f.tk WHERE t.id IS NOT NULL LIMIT $4";
    let offset = context.clock.offset_micros();
    let rows = context
        .read(
            Scope::All,
            sql,
            &[&offset, &silent_since.as_micros(), &silent_since.minute(), &int(limit as u64)],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(DueSession {
                tenant: TenantId::stored(row.try_get::<_, &str>(0)?),
                session: SessionId::stored(row.try_get::<_, &str>(1)?),
            })
        })
        .collect()
}

async fn due_promotions(context: &Context, limit: usize) -> Result<Vec<DueApproval>> {
    let sql = "SELECT t.id, a.id FROM approvals a JOIN tenants t ON t.tk = a.tk
         WHERE a.expires_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + $1
             AND a.kind = 'promotion' AND a.state = 'pending' AND t.id IS NOT NULL
         ORDER BY a.expires_at LIMIT $2";
    let offset = context.clock.offset_micros();
    let rows = context.read(Scope::All, sql, &[&offset, &int(limit as u64)]).await?;
    rows.iter()
        .map(|row| {
            Ok(DueApproval {
                tenant: TenantId::stored(row.try_get::<_, &str>(0)?),
                approval: row.try_get::<_, &str>(1)?.into(),
            })
        })
        .collect()
}

async fn purge_keys(context: &Context, before: Timestamp) -> Result<u64> {
    let before = before.as_micros();
    let mut gone = 0;
    for row in
        context.read(Scope::All, "SELECT DISTINCT tk FROM idempotency WHERE at < $1", &[&before]).await?
    {
        let tk: i32 = row.try_get(0)?;
        loop {
            let tx = context.begin(Scope::Tenant(tk)).await?;
            let sql = "DELETE FROM idempotency WHERE tk = $1 AND ctid = ANY (ARRAY(
                 SELECT ctid FROM idempotency WHERE tk = $1 AND at < $2 LIMIT $3))";
            let portion = tx.execute(sql, &[&tk, &before, &PORTION]).await?;
            tx.commit().await?;
            gone += portion;
            if portion == 0 {
                break;
            }
        }
    }
    Ok(gone)
}

pub(super) async fn ready(context: &Context) -> Result<()> {
    context.read(Scope::All, "SELECT 1 FROM tenants LIMIT 1", &[]).await.map(drop)
}

pub(super) async fn vitals(context: &Context) -> Result<Vitals> {
    let sql = "SELECT current_setting('server_version'), (SELECT max(version) FROM schema_history),
             (SELECT count(*) FROM session_heads), (SELECT coalesce(sum(last_sequence), 0)::bigint FROM session_heads),
             (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
              FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
              WHERE s.nspname = ANY ($1) AND c.relkind = 'r')";
    let rows = context.read(Scope::All, sql, &[&schemas(&context.schema).as_slice()]).await?;
    let mut vitals = Vitals { kind: "postgres", schema_version: migrate::VERSION, ..Vitals::default() };
    if let Some(row) = rows.first() {
        vitals.server_version = row.try_get(0)?;
        vitals.schema_version = u32::try_from(row.try_get::<_, i32>(1)?).unwrap_or(0);
        vitals.sessions = count(row.try_get(2)?);
        vitals.events = count(row.try_get(3)?);
        vitals.bytes = count(row.try_get(4)?);
    }
    Ok(vitals)
}
