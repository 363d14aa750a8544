//! The store on SQLite: one writer with group commit, a pool of readers, side files with their own retention, and a
//! full-text index that follows the log by half a second.
//!
//! | part | does |
//! |---|---|
//! | `writer/`, `blocking`, `apply`, `records` | commits changes in groups; what a change does to the rows |
//! | `idempotency` | keys of repeated requests |
//! | `checkpointer` | moves the write-ahead log into the database |
//! | `readers`, `reads` | connections that read, and where a read runs |
//! | `outbox`, `side_files` | the outbox to memories, crises and ratings, and those files |
//! | `index_queue`, `indexer`, `search` | the full-text index |
//! | `open`, `start`, `migrate`, `backup`, `inspect` | files and connections, opening, schema, copies, `doctor` |
//!
//! Start with `apply`, `writer` and `migrations/`.

mod apply;
mod approvals;
mod backup;
mod blocking;
mod bridges;
mod browser_sessions;
mod channels;
mod checkpointer;
mod claims;
mod crises;
mod definitions;
mod documents;
mod events;
mod fault;
mod feedback;
mod filtered_list;
mod heads;
mod idempotency;
mod index_queue;
mod indexer;
pub mod inspect;
mod lessons;
mod list;
mod logs;
mod memories;
mod migrate;
mod open;
mod outbox;
mod people;
mod ratings;
mod readers;
mod reads;
mod records;
mod responses;
mod search;
mod sessions;
mod side_files;
mod start;
mod sweep;
mod talk;
mod tenants;
mod vectors;
mod work_queue;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_core::live::Delta;
use sederunt_core::presence::PresenceChange;
use sederunt_core::store::{
    Change, CommitResult, CommitStore, DeltaStore, IdemKey, PresenceStore, Refusal, Replay, StoreFuture,
    UpkeepStore, Vitals,
};
use sederunt_core::{Error, Result, TenantId, Timestamp};

use fault::report;
use idempotency::{KeyLookup, PendingKeys};
use indexer::IndexMarks;
use open::Files;
pub use open::Place;
use readers::Readers;
use side_files::SideFiles;
pub use start::SqliteOptions;
pub(crate) use start::copy_side_files;
use writer::Writer;

/// Sederunt's store in a directory, or in memory.
#[derive(Debug)]
pub struct SqliteStore {
    files: Arc<Files>,
    clock: Arc<SystemClock>,
    readers: Arc<Readers>,
    writer: Arc<Writer>,
    index_marks: Arc<IndexMarks>,
    side_files: Arc<SideFiles>,
    pending_keys: Arc<PendingKeys>,
    indexer: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.index_marks.close();
    }
}

impl CommitStore for SqliteStore {
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<CommitResult, Refusal>> {
        if change.records.iter().all(|record| record.side().is_none()) {
            return self.writer.run(move |tx| apply::commit(tx, &change, &[])).boxed();
        }
        async move {
            let crises = self.existing_crises(&change).await?;
            let done = self.writer.run(move |tx| apply::commit(tx, &change, &crises)).await;
            let (side_files, writer) = (self.side_files.clone(), self.writer.clone());
            tokio::task::spawn_blocking(move || side_files.copy_unless_busy(&writer));
            done
        }
        .boxed()
    }

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> StoreFuture<'a, Option<Replay>> {
        self.readers
            .read_inline(move |db| {
                let Some(tk) = tenants::key_of(db, tenant).map_err(report)? else { return Ok(None) };
                let mut finding = KeyLookup::of(db).map_err(report)?;
                match finding.find(&self.pending_keys, tk, &key).map_err(report)? {
                    Some(used) if used.body != key.body => Err(Error::IdempotencyMismatch),
                    used => Ok(used.map(|used| used.replay)),
                }
            })
            .boxed()
    }
}

impl DeltaStore for SqliteStore {
    /// One process has one hub: there is no other node to tell.
    fn spread_delta(&self, _: &TenantId, _: Delta) {}
}

impl PresenceStore for SqliteStore {
    /// One process has one hub.
    fn spread_presence(&self, _: PresenceChange) {}
}

impl UpkeepStore for SqliteStore {
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        async { Ok(self.clock.now()) }.boxed()
    }

    fn installation_key(&self) -> StoreFuture<'_, [u8; 32]> {
        self.read_inline(talk::installation_key).boxed()
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        self.read_inline(|db| db.prepare_cached("SELECT 1 FROM tenants LIMIT 1")?.exists([]).map(drop))
            .boxed()
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        self.read_pooled(sweep::vitals).boxed()
    }

    fn index_now(&self) -> StoreFuture<'_, ()> {
        self.index_marks.drained().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.sync_side_files().await {
                tracing::warn!(%error, "the store could not copy committed records to its side files; the next start does it");
            }
            self.writer.close().await;
            self.index_marks.close();
            let indexer = self.indexer.lock().take();
            if let Some(indexer) = indexer {
                let _ = tokio::task::spawn_blocking(move || indexer.join()).await;
            }
            self.readers.close();
            self.side_files.close();
            self.files.unlock();
        }
        .boxed()
    }
}
