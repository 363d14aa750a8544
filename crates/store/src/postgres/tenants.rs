//! Tenants: create, list, suspend, remove.

use sederunt_core::error::{Conflict, Error};
use sederunt_core::ids::TenantId;
use sederunt_core::people::{Audit, Tenant};
use sederunt_core::quota::UseByHolder;
use sederunt_core::store::{StoreFuture, TenantRowStore};
use tokio_postgres::Row;

use super::fault::{Fault, Result};
use super::rows::Columns;
use super::tx::{Context, Scope, Tx, within};
use super::{PostgresStore, read, sessions};

/// Every table with rows of tenants except `tenants` itself, in the order in which a removal empties them.
pub(super) const TENANT_TABLES: [&str; 39] = [
    "browser_sessions", "link_codes", "shares", "api_keys", "identities", "users", "idempotency",
    "approvals", "responses", "documents", "document_patches", "doc_facets", "docs", "feedback_names",
    "feedback_sessions", "feedback_events", "lesson_words", "lessons", "memory_words", "memories",
    "crisis_log", "session_feedback", "talks", "session_heads", "sessions", "participants", "departures",
    "session_metadata", "session_ranges", "external_ids", "events", "search_docs", "search_done", "audit",
    "reply_pieces", "channel_deliveries", "channel_conversations", "channel_updates", "channels",
];
/// Rows that one statement of a removal deletes, so that it holds no lock for long.
const PORTION: i64 = 5_000;

const TENANT: &str = "SELECT id, suspended, created_at FROM tenants";

fn tenant_of(row: &Row) -> Result<Tenant> {
    let mut columns = Columns::of(row);
    Ok(Tenant {
        id: TenantId::stored(columns.take::<&str>()?),
        suspended: columns.take()?,
        created_at: columns.time()?,
    })
}

impl TenantRowStore for PostgresStore {
    fn tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, Option<Tenant>> {
        read(async move {
            let rows = self
                .context
                .read(Scope::Named(id), &format!("{TENANT} WHERE id = $1"), &[&id.as_str()])
                .await?;
            rows.first().map(tenant_of).transpose()
        })
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        read(async move {
            let rows = self
                .context
                .read(Scope::All, &format!("{TENANT} WHERE id IS NOT NULL ORDER BY id"), &[])
                .await?;
            rows.iter().map(tenant_of).collect()
        })
    }

    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> StoreFuture<'a, Tenant> {
        read(create(&self.context, id, audit))
    }

    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> StoreFuture<'a, Tenant> {
        read(suspend(&self.context, id, suspended, audit))
    }

    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, ()> {
        read(delete(&self.context, id))
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, UseByHolder> {
        read(sessions::usage(&self.context, tenant))
    }
}

async fn create(context: &Context, id: &TenantId, audit: Audit) -> Result<Tenant> {
    within(async {
        let tx = context.begin(Scope::Named(id)).await?;
        let made = async {
            let now = tx.clock(context).await?;
            let sql =
                "INSERT INTO tenants (id, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING tk";
            let rows = tx.query(sql, &[&id.as_str(), &now.as_micros()]).await?;
            let row = rows.first().ok_or_else(|| Fault::Core(Conflict::AlreadyExists.into()))?;
            let tk: i32 = row.try_get(0)?;
            enter(&tx, tk).await?;
            write_down(&tx, tk, now.as_micros(), &audit).await?;
            Ok(Tenant { id: id.clone(), suspended: false, created_at: now })
        }
        .await;
        end(tx, made).await
    })
    .await
}

async fn suspend(context: &Context, id: &TenantId, suspended: bool, audit: Audit) -> Result<Tenant> {
    within(async {
        let tx = context.begin(Scope::Named(id)).await?;
        let done = async {
            let now = tx.clock(context).await?;
            let sql =
                "UPDATE tenants SET suspended = $2 WHERE id = $1 RETURNING id, suspended, created_at, tk";
            let rows = tx.query(sql, &[&id.as_str(), &suspended]).await?;
            let row = rows.first().ok_or(Fault::Core(Error::NotFound))?;
            let tk: i32 = row.try_get(3)?;
            enter(&tx, tk).await?;
            write_down(&tx, tk, now.as_micros(), &audit).await?;
            tenant_of(row)
        }
        .await;
        end(tx, done).await
    })
    .await
}

async fn enter(tx: &Tx, tk: i32) -> Result<()> {
    tx.query("SELECT set_config('app.tk', $1, true)", &[&tk.to_string()]).await?;
    Ok(())
}

async fn write_down(tx: &Tx, tk: i32, at: i64, audit: &Audit) -> Result<()> {
    let sql = "INSERT INTO audit (tk, at, actor, action, target) VALUES ($1, $2, $3, $4, $5)";
    tx.execute(sql, &[&tk, &at, &audit.actor, &audit.action, &audit.target]).await?;
    Ok(())
}

async fn end<T>(tx: Tx, outcome: Result<T>) -> Result<T> {
    match outcome {
        Ok(done) => tx.commit().await.map(|()| done),
        Err(fault) => {
            tx.rollback().await;
            Err(fault)
        }
    }
}

/// Removes a tenant: first its name, so that no caller reaches it, then its rows in portions. After a crash,
/// [`sweep`] finds the nameless tenant and removes the rest.
async fn delete(context: &Context, id: &TenantId) -> Result<()> {
    let tk = context.tk(id).await?.ok_or(Fault::Core(Error::NotFound))?;
    let tx = context.begin(Scope::Tenant(tk)).await?;
    let named = tx.execute("UPDATE tenants SET id = NULL WHERE tk = $1 AND id IS NOT NULL", &[&tk]).await;
    let named = end(tx, named).await?;
    context.tenants.invalidate(id);
    if named == 0 {
        return Err(Error::NotFound.into());
    }
    empty(context, tk).await
}

/// Removes the rows of tenants whose removal was interrupted.
pub(super) async fn sweep(context: &Context) -> Result<()> {
    for row in context.read(Scope::All, "SELECT tk FROM tenants WHERE id IS NULL", &[]).await? {
        empty(context, row.try_get(0)?).await?;
    }
    Ok(())
}

async fn empty(context: &Context, tk: i32) -> Result<()> {
    for table in TENANT_TABLES {
        let sql = format!(
            "DELETE FROM {table} WHERE tk = $1 AND ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE tk = $1 LIMIT $2))"
        );
        loop {
            let tx = context.begin(Scope::Whole(tk)).await?;
            let gone = tx.execute(&sql, &[&tk, &PORTION]).await;
            if end(tx, gone).await? == 0 {
                break;
            }
        }
    }
    let tx = context.begin(Scope::Tenant(tk)).await?;
    let gone = tx.execute("DELETE FROM tenants WHERE tk = $1 AND id IS NULL", &[&tk]).await;
    match end(tx, gone).await {
        // A caller with a cached tenant number has written meanwhile; the next sweep deletes that too.
        Err(fault) if fault.violated().is_some() => Ok(()),
        done => done.map(drop),
    }
}
