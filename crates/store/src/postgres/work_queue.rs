//! The work queue of a person.

use postgres_types::Type;
use sederunt_core::ids::TenantId;
use sederunt_core::session::query::Page;
use sederunt_core::store::{StoreFuture, WorkQueueStore};
use sederunt_core::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use tokio_postgres::Row;

use super::fault::Result;
use super::tx::{Context, Param, Scope};
use super::{PostgresStore, read};
use crate::work_queue::{self, QueueTables};

const TABLES: QueueTables = QueueTables {
    hot: "session_heads",
    wide: "sessions",
    in_work: "",
    not_in_work: "",
    not_a_bridge: " AND NOT s.is_bridge",
};

impl WorkQueueStore for PostgresStore {
    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> StoreFuture<'a, QueueCounts> {
        read(async move { counts(&self.context, tenant, &of).await })
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<QueueItem, i64>> {
        read(async move { page(&self.context, tenant, &of, bucket, after, limit).await })
    }
}

pub(super) async fn counts(context: &Context, tenant: &TenantId, of: &QueueOf) -> Result<QueueCounts> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(QueueCounts::default()) };
    let rows = lines(context, tk, of, &work_queue::counts(of, &TABLES)).await?;
    let Some(row) = rows.first() else { return Ok(QueueCounts::default()) };
    let count = |at: usize| row.try_get::<_, i64>(at).map(i64::cast_unsigned);
    Ok(QueueCounts {
        needs_me: count(0)?,
        running: count(1)?,
        delegatable: count(2)?,
        failed: count(3)?,
        done_today: count(4)?,
    })
}

async fn page(
    context: &Context,
    tenant: &TenantId,
    of: &QueueOf,
    bucket: Bucket,
    after: Option<i64>,
    limit: usize,
) -> Result<Page<QueueItem, i64>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Page::default()) };
    let rows = lines(context, tk, of, &work_queue::page(of, bucket, &TABLES, after, limit)).await?;
    let lines = rows
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)))
        .collect::<Result<_>>()?;
    Ok(work_queue::items(lines, limit))
}

async fn lines(context: &Context, tk: i32, of: &QueueOf, sql: &str) -> Result<Vec<Row>> {
    let user = of.user.as_ref().map(|user| user.as_str().to_owned());
    let mut params: Vec<(Param<'_>, Type)> = vec![(&tk, Type::INT4)];
    params.extend(user.iter().map(|user| (user as Param<'_>, Type::TEXT)));
    context.read_uncached(Scope::Tenant(tk), sql, &params).await
}
