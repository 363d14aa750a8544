//! Read helpers: point reads on the caller's thread, page reads after the side files have caught up, and retention
//! purges.

use sederunt_core::store::{Change, RowKey};
use sederunt_core::{Error, Result, TenantId};

use super::fault::report;
use super::open::Side;
use super::{SqliteStore, crises, outbox, tenants};

impl SqliteStore {
    /// Waits until the other files hold everything that was acknowledged before this call.
    pub(super) async fn carried_over(&self) -> Result<()> {
        if !self.annex.is_behind() {
            return Ok(());
        }
        let (annex, writer) = (self.annex.clone(), self.writer.clone());
        tokio::task::spawn_blocking(move || annex.catch_up(&writer)).await.map_err(Error::internal)?
    }

    /// Reads something of a tenant from another file.
    pub(super) async fn beside<T: Default + Send + 'static>(
        &self,
        tenant: &TenantId,
        read: impl FnOnce(&rusqlite::Connection, i64) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carried_over().await?;
        self.within(tenant, read).await
    }

    /// Reads of a tenant, in one look.
    pub(super) async fn within<T: Default + Send + 'static>(
        &self,
        tenant: &TenantId,
        read: impl FnOnce(&rusqlite::Connection, i64) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let tenant = tenant.clone();
        self.readers
            .far(move |db| {
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
        self.carried_over().await?;
        let done = self.annex.done_to();
        let crossed_out: Result<()> =
            self.writer.ask(move |ledger| Ok(outbox::remove_to(ledger.db, done)?)).await;
        crossed_out?;
        let annex = self.annex.clone();
        tokio::task::spawn_blocking(move || annex.purge(side, delete)).await.map_err(Error::internal)?
    }

    /// The crises that the records of a change rest on and that are there: a commit cannot look into their file.
    pub(super) async fn crises_found(&self, change: &Change) -> Result<Vec<Box<str>>> {
        let mut found = Vec::new();
        for key in change.rests_on() {
            let RowKey::Crisis(id) = key else { continue };
            self.carried_over().await?;
            if self.near(|db| crises::exists(db, &change.tenant, &id)).await? {
                found.push(id.into());
            }
        }
        Ok(found)
    }

    /// Reads one thing here and now.
    pub(super) async fn near<T>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.readers.near(|db| read(db).map_err(report)).await
    }

    /// Reads something that may take a while, off the threads that serve everyone else.
    pub(super) async fn far<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.far(move |db| read(db).map_err(report)).await
    }

    /// Reads one thing that is about to be changed: its pages are at hand where it was written last.
    pub(super) async fn at_hand<T>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        if let Some(db) = self.writer.at_hand() {
            let _turn = self.files.turn_to_read();
            return read(&db).map_err(report);
        }
        self.near(read).await
    }
}
