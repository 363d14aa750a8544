//! Opens a store, copies it, and restores a copy.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use sederunt_core::Result;
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_core::live::Hub;

use super::fault::report;
use super::idempotency::PendingKeys;
use super::indexer::{self, IndexMarks};
use super::open::{Files, Place};
use super::readers::Readers;
use super::side_files::{self, SideFiles};
use super::writer::{Writer, WriterContext};
use super::{SqliteStore, backup, sweep, tenants};

/// Options of a store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub place: Place,
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
}

impl SqliteStore {
    /// Opens or creates the store, migrates its schema, and starts its threads.
    pub fn open(options: SqliteOptions) -> Result<Arc<Self>> {
        let SqliteOptions { place, clock, hub } = options;
        let files = Arc::new(Files::open(&place)?);
        tenants::finish_removals(&mut files.threads().map_err(report)?).map_err(report)?;
        if let Place::Directory(_) = place {
            let freed =
                sweep::free_claims_of_the_last_process(&files.threads().map_err(report)?, clock.now())
                    .map_err(report)?;
            if freed > 0 {
                tracing::info!(
                    target: "sederunt::store",
                    sessions = freed,
                    "the last process ended while turns or runs were in progress; this process continues them"
                );
            }
        }
        let index_marks = Arc::new(IndexMarks::default());
        let side_files = Arc::new(SideFiles::open(files.clone())?);
        let pending_keys = Arc::new(PendingKeys::load(&files.threads().map_err(report)?).map_err(report)?);
        let context = WriterContext {
            files: files.clone(),
            clock: clock.clone(),
            hub,
            index_marks: index_marks.clone(),
            side_files: side_files.clone(),
            pending_keys: pending_keys.clone(),
        };
        let writer = Arc::new(Writer::start(context)?);
        side_files.copy_unless_busy(&writer);
        let indexer =
            indexer::start(files.clone(), clock.clone(), index_marks.clone(), Arc::downgrade(&writer))?;
        let readers = Readers::new(files.clone());
        let indexer = Mutex::new(Some(indexer));
        Ok(Arc::new(Self { files, clock, readers, writer, index_marks, side_files, pending_keys, indexer }))
    }

    /// Copies the store, as it is now, into an empty directory while it stays in use. `progress` receives the pages
    /// done and the pages in all.
    pub fn backup(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.side_files.catch_up(&self.writer)?;
        backup::back_up(&self.files, to, progress)
    }

    /// Creates a store in an empty directory from what [`SqliteStore::backup`] wrote.
    pub fn restore(from: &Path, to: &Path) -> Result<()> {
        backup::restore(from, to)
    }
}

/// Copies the outbox of a store in a directory to its side files. No process may write to it meanwhile, but it may be
/// open.
pub(crate) fn copy_side_files(directory: &Path) -> Result<()> {
    Files::unlocked(directory).and_then(|files| side_files::copy_all(&files).map_err(report))
}
