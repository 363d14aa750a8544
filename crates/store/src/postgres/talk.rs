//! The state of conversations beside their sessions, and which of them the keeper should look at.

use sederunt_core::error::Error;
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::memory::Owner;
use sederunt_core::session::Session;
use sederunt_core::store::{DueSession, StoreFuture, TalkStore};
use sederunt_core::talk::Talk;
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{Context, Param, Scope, Tx, int};
use super::writes::{Writes, cells};
use super::{PostgresStore, read, sessions};

/// Writes the row whole; its times and sequences are set.
pub(super) fn write<'a>(tk: i32, sk: i64, talk: &Talk, writes: &mut Writes<'a>) -> Result<()> {
    let body = serde_json::to_string(talk).map_err(Error::internal)?;
    writes.add_after(
        "INSERT INTO talks (tk, sk, active_at, waiting, body) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (tk, sk) DO UPDATE SET active_at = excluded.active_at, waiting = excluded.waiting,
             body = excluded.body",
        cells![tk, sk, talk.active_at().map(Timestamp::as_micros), talk.waiting().map(int), body],
    );
    Ok(())
}

/// The sessions in which this user has an open sitting.
pub(super) async fn open_of(tx: &Tx, tk: i32, user: &UserId) -> Result<Vec<i64>> {
    let rows = tx.query("SELECT sk, body FROM talks WHERE tk = $1 AND active_at IS NOT NULL", &[&tk]).await?;
    let mut theirs = Vec::new();
    for row in &rows {
        let (sk, talk) = keyed(row)?;
        if talk.sitting.is_some_and(|open| open.owner == Owner::user(user)) {
            theirs.push(sk);
        }
    }
    Ok(theirs)
}

/// Hands the open sittings in these sessions, whose heads are locked, over to another user.
pub(super) async fn merge(tx: &Tx, tk: i32, sessions: &[i64], from: &UserId, into: &UserId) -> Result<()> {
    let rows =
        tx.query("SELECT sk, body FROM talks WHERE tk = $1 AND sk = ANY ($2)", &[&tk, &sessions]).await?;
    for row in &rows {
        let (sk, mut talk) = keyed(row)?;
        if talk.hand_over(from, into) {
            let body = serde_json::to_string(&talk).map_err(Error::internal)?;
            tx.execute("UPDATE talks SET body = $3 WHERE tk = $1 AND sk = $2", &[&tk, &sk, &body]).await?;
        }
    }
    Ok(())
}

fn keyed(row: &Row) -> Result<(i64, Talk)> {
    Ok((row.try_get(0)?, serde_json::from_str(row.try_get(1)?).map_err(Error::internal)?))
}

impl TalkStore for PostgresStore {
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<(Session, Talk)>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = sessions::session_sql_with(
                ", (SELECT k.body FROM talks k WHERE k.tk = h.tk AND k.sk = h.sk)",
                "WHERE h.tk = $1 AND s.tk = $1 AND s.id = $2",
            );
            let rows = self.context.read(Scope::Tenant(tk), &sql, &[&tk, &id.as_str()]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let mut columns = Columns::of(row);
            let session = columns.whole(tenant)?.value;
            let talk = columns.take::<Option<&str>>()?.map(serde_json::from_str).transpose();
            Ok(Some((session, talk.map_err(Error::internal)?.unwrap_or_default())))
        })
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        read(async move {
            // The limit is in the text, and heads are read one by one: the planner takes a limit in a parameter for a
            // tenth of all rows, and then reads all heads to find a few.
            let sql = format!(
                "SELECT t.id, h.id FROM (SELECT tk, sk, active_at FROM talks WHERE active_at < $1
                 ORDER BY active_at LIMIT {}) k
             CROSS JOIN LATERAL (SELECT id FROM session_heads WHERE tk = k.tk AND sk = k.sk OFFSET 0) h
             JOIN tenants t ON t.tk = k.tk WHERE t.id IS NOT NULL ORDER BY k.active_at",
                int(limit as u64)
            );
            due(&self.context, &sql, &[&active_before.as_micros()]).await
        })
    }

    fn waiting_turns(&self, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        read(async move {
            let sql = format!(
                "SELECT t.id, h.id FROM (SELECT tk, sk FROM talks WHERE waiting IS NOT NULL) k
             CROSS JOIN LATERAL
                 (SELECT id FROM session_heads WHERE tk = k.tk AND sk = k.sk AND status IN ('idle', 'running')
                     AND lease_until IS NULL OFFSET 0) h
             JOIN tenants t ON t.tk = k.tk WHERE t.id IS NOT NULL LIMIT {}",
                int(limit as u64)
            );
            due(&self.context, &sql, &[]).await
        })
    }
}

async fn due(context: &Context, sql: &str, params: &[Param<'_>]) -> Result<Vec<DueSession>> {
    let rows = context.read(Scope::All, sql, params).await?;
    rows.iter()
        .map(|row| {
            Ok(DueSession {
                tenant: TenantId::stored(row.try_get::<_, &str>(0)?),
                session: SessionId::stored(row.try_get::<_, &str>(1)?),
            })
        })
        .collect()
}

/// The secret key of this installation.
pub(super) async fn installation_key(context: &Context) -> Result<[u8; 32]> {
    let rows = context.read(Scope::All, "SELECT key FROM installation", &[]).await?;
    let key: &[u8] =
        rows.first().ok_or_else(|| Error::internal("the installation has no key"))?.try_get(0)?;
    Ok(key.try_into().map_err(Error::internal)?)
}
