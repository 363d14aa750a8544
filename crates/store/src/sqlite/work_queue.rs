//! The work queue of a person.

use futures_util::FutureExt as _;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use sederunt_core::ids::TenantId;
use sederunt_core::session::query::Page;
use sederunt_core::store::{StoreFuture, WorkQueueStore};
use sederunt_core::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};

use super::SqliteStore;
use super::filtered_list::sqlite_placeholders;
use crate::work_queue::{self, QueueTables};

pub(super) const TABLES: QueueTables = QueueTables {
    hot: "sessions",
    wide: "session_details",
    in_work: " AND s.in_work = 1",
    not_in_work: " AND s.in_work = 0",
    not_a_bridge: " AND s.source_kind <> 'human-session-bridge'",
};

impl WorkQueueStore for SqliteStore {
    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> StoreFuture<'a, QueueCounts> {
        self.read_tenant(tenant, move |db, tk| counts(db, tk, &of)).boxed()
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<QueueItem, i64>> {
        self.read_tenant(tenant, move |db, tk| page(db, tk, &of, bucket, after, limit)).boxed()
    }
}

pub(super) fn counts(db: &Connection, tk: i64, of: &QueueOf) -> rusqlite::Result<QueueCounts> {
    let mut statement = db.prepare_cached(&sqlite_placeholders(&work_queue::counts(of, &TABLES)))?;
    statement.query_row(params_from_iter(values(tk, of)), |row| {
        let count = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
        Ok(QueueCounts {
            needs_me: count(0)?,
            running: count(1)?,
            delegatable: count(2)?,
            failed: count(3)?,
            done_today: count(4)?,
        })
    })
}

pub(super) fn page(
    db: &Connection,
    tk: i64,
    of: &QueueOf,
    bucket: Bucket,
    after: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Page<QueueItem, i64>> {
    let mut statement =
        db.prepare_cached(&sqlite_placeholders(&work_queue::page(of, bucket, &TABLES, after, limit)))?;
    let lines = statement
        .query_map(params_from_iter(values(tk, of)), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(work_queue::items(lines, limit))
}

fn values(tk: i64, of: &QueueOf) -> Vec<Value> {
    std::iter::once(tk.into()).chain(of.user.iter().map(|user| user.as_str().to_owned().into())).collect()
}
