//! A pool of connections that only read.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use sederunt_core::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault::report;
use super::open::Files;

/// Reads at once; more would only compete for the same cores.
const READERS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Readers {
    files: Arc<Files>,
    idle: Mutex<Vec<Connection>>,
    free: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(files: Arc<Files>) -> Arc<Self> {
        Arc::new(Self { files, idle: Mutex::default(), free: Arc::new(Semaphore::new(READERS_MAX)) })
    }

    /// Reads a row or a short page on the caller's thread: it takes microseconds, and a hand-over to another thread
    /// takes longer.
    pub(super) async fn read_inline<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let permit = self.permit().await?;
        self.lend(permit, read)
    }

    /// Reads a page that may take a while, on a blocking thread.
    pub(super) async fn read_pooled<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.permit().await?;
        let readers = self.clone();
        tokio::task::spawn_blocking(move || readers.lend(permit, read)).await.map_err(Error::internal)?
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.map_err(Error::unavailable)
    }

    fn lend<T>(
        &self,
        permit: OwnedSemaphorePermit,
        read: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let idle = self.idle.lock().pop();
        let db = match idle {
            Some(db) => db,
            None => self.files.reader().map_err(report)?,
        };
        let answer = {
            let _turn = self.files.turn_to_read();
            read(&db)
        };
        if !self.free.is_closed() {
            self.idle.lock().push(db);
        }
        drop(permit);
        answer
    }

    pub(super) fn close(&self) {
        self.free.close();
        self.idle.lock().clear();
    }
}

/// Runs several reads in one snapshot.
pub(super) fn in_snapshot<T>(
    db: &Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let answer = read(db);
    let ended = db.prepare_cached("COMMIT").and_then(|mut end| end.execute([]));
    if ended.is_err() && !db.is_autocommit() {
        // The connection goes back to the pool and must not stay in a transaction.
        db.execute_batch("ROLLBACK")?;
    }
    answer
}
