//! The bridges of a person.

use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::session::Session;
use sederunt_core::store::{BridgeStore, StoreFuture};
use sederunt_core::time::Timestamp;

use super::fault::Result;
use super::rows::Columns;
use super::sessions::session_sql;
use super::tx::{Context, Param, Scope, int};
use super::{PostgresStore, read};

/// The unique index that a second running bridge of a person violates.
pub(super) const ONE_RUNNING: &str = "one_running_bridge";

impl BridgeStore for PostgresStore {
    fn running_bridge<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: Option<&'a UserId>,
    ) -> StoreFuture<'a, Option<Session>> {
        read(async move {
            let rest =
                "WHERE h.tk = $1 AND coalesce(h.holder, '') = $2 AND h.is_bridge AND h.status = 'running'";
            Ok(sessions(&self.context, tenant, rest, &[&name(holder)]).await?.pop())
        })
    }

    fn ended_bridges<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: Option<&'a UserId>,
        before: Option<Timestamp>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Session>> {
        read(async move {
            let before = before.map_or(i64::MAX, Timestamp::as_micros);
            let rest =
                "WHERE h.tk = $1 AND coalesce(h.holder, '') = $2 AND h.is_bridge AND h.status <> 'running'
                 AND s.completed_at < $3 ORDER BY h.sk LIMIT $4";
            sessions(&self.context, tenant, rest, &[&name(holder), &before, &int(limit as u64)]).await
        })
    }
}

async fn sessions(
    context: &Context,
    tenant: &TenantId,
    rest: &str,
    more: &[Param<'_>],
) -> Result<Vec<Session>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Vec::new()) };
    let params: Vec<Param<'_>> = std::iter::once(&tk as Param<'_>).chain(more.iter().copied()).collect();
    let rows = context.read(Scope::Tenant(tk), &session_sql(rest), &params).await?;
    rows.iter().map(|row| Ok(Columns::of(row).whole(tenant)?.value)).collect()
}

/// A holder as the index of bridges has it.
fn name(holder: Option<&UserId>) -> &str {
    holder.map_or("", UserId::as_str)
}
