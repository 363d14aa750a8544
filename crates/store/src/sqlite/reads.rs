//! Read helpers: point reads on the caller's thread, page reads after the side files have caught up, and retention
//! purges.

use sederunt_core::store::{Change, RowKey};
use sederunt_core::{Error, Result, TenantId};

use super::fault::report;
use super::open::Side;
use super::{SqliteStore, crises, outbox, tenants};

impl SqliteStore {
    /// Waits until the side files hold everything that was acknowledged before this call.
    pub(super) async fn sync_side_files(&self) -> Result<()> {
        if !self.side_files.is_behind() {
            return Ok(());
        }
        let (side_files, writer) = (self.side_files.clone(), self.writer.clone());
        tokio::task::spawn_blocking(move || side_files.catch_up(&writer)).await.map_err(Error::internal)?
    }

    /// Reads rows of a tenant from a side file.
    pub(super) async fn read_side_file<T: Default + Send + 'static>(
        &self,
        tenant: &TenantId,
        read: impl FnOnce(&rusqlite::Connection, i64) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.sync_side_files().await?;
        self.read_tenant(tenant, read).await
    }

    /// Reads rows of a tenant in one snapshot, on a blocking thread.
    pub(super) async fn read_tenant<T: Default + Send + 'static>(
        &self,
        tenant: &TenantId,
        read: impl FnOnce(&rusqlite::Connection, i64) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let tenant = tenant.clone();
        self.readers
            .read_pooled(move |db| {
                let page = db.unchecked_transaction().map_err(report)?;
                let Some(tk) = tenants::key_of(&page, &tenant).map_err(report)? else {
                    return Ok(T::default());
                };
                read(&page, tk).map_err(report)
            })
            .await
    }

    pub(super) async fn purge(
        &self,
        side: Side,
        delete: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<usize> + Send + 'static,
    ) -> Result<u64> {
        self.sync_side_files().await?;
        let done = self.side_files.copied_to();
        let crossed_out: Result<()> = self.writer.run(move |tx| Ok(outbox::remove_to(tx.db, done)?)).await;
        crossed_out?;
        let side_files = self.side_files.clone();
        tokio::task::spawn_blocking(move || side_files.purge(side, delete)).await.map_err(Error::internal)?
    }

    /// The existing crises among those that the records of a change rest on. A commit cannot read their file.
    pub(super) async fn existing_crises(&self, change: &Change) -> Result<Vec<Box<str>>> {
        let mut found = Vec::new();
        for key in change.rests_on() {
            let RowKey::Crisis(id) = key else { continue };
            self.sync_side_files().await?;
            if self.read_inline(|db| crises::exists(db, &change.tenant, &id)).await? {
                found.push(id.into());
            }
        }
        Ok(found)
    }

    /// Reads a row or a short page on the caller's thread.
    pub(super) async fn read_inline<T>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.readers.read_inline(|db| read(db).map_err(report)).await
    }

    /// Reads a page that may take a while, on a blocking thread.
    pub(super) async fn read_pooled<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.read_pooled(move |db| read(db).map_err(report)).await
    }

    /// Reads a row that the caller is about to change, on the writer's connection if it is idle: its page cache holds
    /// that row.
    pub(super) async fn read_on_writer<T>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        if let Some(db) = self.writer.idle_connection() {
            let _turn = self.files.turn_to_read();
            return read(&db).map_err(report);
        }
        self.read_inline(read).await
    }
}
