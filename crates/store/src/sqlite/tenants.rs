//! Tenants: find, create, suspend, and remove with all their rows.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::ids::{Incarnation, SessionId, TenantId};
use sederunt_core::people::{Audit, Tenant};
use sederunt_core::quota::UseByHolder;
use sederunt_core::session::Status;
use sederunt_core::store::{Notice, StoreFuture, TenantRowStore};
use sederunt_core::{Conflict, Error, Timestamp};

use super::fault::{WorkError, refuse};
use super::indexer::IndexMark;
use super::outbox::{self, OutboxEntry};
use super::records::write_audit;
use super::writer::WriteTransaction;
use super::{SqliteStore, apply, heads, sessions};

/// The tables whose rows are deleted with their tenant, in this order. Rows of a session are deleted with the session
/// ([`sessions::SESSION_TABLES`]), rows of side files by an outbox entry. A share link may have no session.
pub(super) const TENANT_TABLES: [&str; 17] = [
    "shares", "browser_sessions", "link_codes", "feedback_names", "feedback_sessions", "feedback_events",
    "lessons", "idempotency", "identities", "users", "keys", "audit", "doc_facets", "docs",
    "channel_updates", "channels", "tenants",
];
/// Sessions that one step of a removal deletes before other callers may write.
const STEP_SESSIONS: i64 = 50;

pub(super) fn key_of(db: &Connection, id: &TenantId) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT tk FROM tenants WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()
}

impl TenantRowStore for SqliteStore {
    fn tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, Option<Tenant>> {
        self.read_inline(move |db| find(db, id)).boxed()
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        self.read_pooled(all).boxed()
    }

    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> StoreFuture<'a, Tenant> {
        let id = id.clone();
        self.writer.run(move |tx| create(tx, &id, &audit)).boxed()
    }

    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> StoreFuture<'a, Tenant> {
        let id = id.clone();
        self.writer.run(move |tx| suspend(tx, &id, suspended, &audit)).boxed()
    }

    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, ()> {
        async move {
            let named = id.clone();
            let tk = self.writer.run(move |tx| remove_name(tx, &named)).await?;
            loop {
                let was = id.clone();
                if self.writer.run(move |tx| remove_step(tx, tk, &was)).await? {
                    return self.sync_side_files().await;
                }
            }
        }
        .boxed()
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, UseByHolder> {
        let tenant = tenant.clone();
        self.read_pooled(move |db| sessions::usage(db, &tenant)).boxed()
    }
}

fn find(db: &Connection, id: &TenantId) -> rusqlite::Result<Option<Tenant>> {
    db.prepare_cached("SELECT id, suspended, created_at FROM tenants WHERE id = ?1")?
        .query_row([id.as_str()], read)
        .optional()
}

fn all(db: &Connection) -> rusqlite::Result<Vec<Tenant>> {
    db.prepare_cached("SELECT id, suspended, created_at FROM tenants WHERE id IS NOT NULL ORDER BY id")?
        .query_map([], read)?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    Ok(Tenant {
        id: TenantId::stored(row.get_ref(0)?.as_str()?),
        suspended: row.get(1)?,
        created_at: Timestamp::from_micros(row.get(2)?),
    })
}

fn create(tx: &mut WriteTransaction<'_>, id: &TenantId, audit: &Audit) -> Result<Tenant, WorkError<Error>> {
    if tx.tenant(id)?.is_some() {
        return refuse(Conflict::AlreadyExists);
    }
    let now = tx.now();
    let tk = tx
        .db
        .prepare_cached("INSERT INTO tenants (id, created_at) VALUES (?1, ?2)")?
        .insert(params![id.as_str(), now.as_micros()])?;
    write_audit(tx.db, tk, audit, now)?;
    Ok(Tenant { id: id.clone(), suspended: false, created_at: now })
}

fn suspend(
    tx: &mut WriteTransaction<'_>,
    id: &TenantId,
    suspended: bool,
    audit: &Audit,
) -> Result<Tenant, WorkError<Error>> {
    let Some(tk) = tx.tenant(id)? else { return refuse(Error::NotFound) };
    let now = tx.now();
    tx.db
        .prepare_cached("UPDATE tenants SET suspended = ?2 WHERE tk = ?1")?
        .execute(params![tk, suspended])?;
    write_audit(tx.db, tk, audit, now)?;
    let tenant = find(tx.db, id)?;
    Ok(tenant.unwrap_or(Tenant { id: id.clone(), suspended, created_at: now }))
}

/// Takes a tenant's name away, so that no caller reaches it any more. Its rows are deleted in steps; a restart
/// continues them.
pub(super) fn remove_name(tx: &mut WriteTransaction<'_>, id: &TenantId) -> Result<i64, WorkError<Error>> {
    let Some(tk) = tx.tenant(id)? else { return refuse(Error::NotFound) };
    tx.db.prepare_cached("UPDATE tenants SET id = NULL WHERE tk = ?1")?.execute([tk])?;
    tx.forget_tenant(id);
    Ok(tk)
}

/// Tenants whose removal was interrupted.
fn nameless(db: &Connection) -> rusqlite::Result<Vec<i64>> {
    db.prepare_cached("SELECT tk FROM tenants WHERE id IS NULL")?.query_map([], |row| row.get(0))?.collect()
}

/// A session that was deleted with its tenant.
#[derive(Debug)]
pub(super) struct RemovedSession {
    id: SessionId,
    incarnation: Incarnation,
    last_sequence: u64,
}

/// Deletes some sessions of an unnamed tenant and returns them. After the last session it deletes the tenant and
/// returns none.
fn remove_some(db: &Connection, tk: i64) -> rusqlite::Result<Vec<RemovedSession>> {
    let sessions: Vec<(i64, RemovedSession)> = db
        .prepare_cached(concat!(
            "SELECT h.sk, h.id, h.incarnation, l.last_sequence FROM ",
            heads::tables!(),
            " WHERE h.tk = ?1 LIMIT ?2"
        ))?
        .query_map([tk, STEP_SESSIONS], |row| {
            let gone = RemovedSession {
                id: SessionId::stored(row.get_ref(1)?.as_str()?),
                incarnation: Incarnation(uuid::Uuid::from_bytes(row.get(2)?)),
                last_sequence: row.get::<_, i64>(3)?.cast_unsigned(),
            };
            Ok((row.get(0)?, gone))
        })?
        .collect::<rusqlite::Result<_>>()?;
    if sessions.is_empty() {
        db.execute("DELETE FROM lesson_words WHERE n IN (SELECT n FROM lessons WHERE tk = ?1)", [tk])?;
        for table in TENANT_TABLES {
            db.execute(&format!("DELETE FROM {table} WHERE tk = ?1"), [tk])?;
        }
    }
    sessions.into_iter().map(|(sk, gone)| apply::delete(db, tk, sk).map(|()| gone)).collect()
}

/// One step of a removal. Returns whether it was the last.
pub(super) fn remove_step(
    tx: &mut WriteTransaction<'_>,
    tk: i64,
    was: &TenantId,
) -> Result<bool, WorkError<Error>> {
    let gone = remove_some(tx.db, tk)?;
    let last = gone.is_empty();
    if last {
        tx.add_to_outbox(tk, &OutboxEntry::DropTenant)?;
    }
    for RemovedSession { id, incarnation, last_sequence } in gone {
        tx.announce(Notice {
            tenant: was.clone(),
            session: id,
            incarnation,
            last_sequence,
            events: Vec::new(),
            status: Status::Abandoned,
            row_changed: true,
            deleted: true,
        });
    }
    tx.mark(IndexMark::QUEUE);
    Ok(last)
}

/// Finishes removals that a stop interrupted.
pub(super) fn finish_removals(db: &mut Connection) -> rusqlite::Result<()> {
    for tk in nameless(db)? {
        loop {
            let step = db.transaction()?;
            let last = remove_some(&step, tk)?.is_empty();
            if last {
                outbox::add(&step, tk, &OutboxEntry::DropTenant)?;
            }
            step.commit()?;
            if last {
                break;
            }
        }
    }
    Ok(())
}
