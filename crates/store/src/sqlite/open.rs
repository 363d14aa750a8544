//! The files of a store, and how connections to them are opened: the directory, its lock, file permissions and
//! pragmas. A store in memory uses the same databases under a name that only this process knows.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use sederunt_core::{Error, Result};

use super::fault::report;
use super::{migrate, search};

/// Older versions can corrupt a write-ahead log that two connections reset at once.
const VERSION_MIN: i32 = 3_051_003;
/// Pages in the write-ahead log before the checkpointer moves them. Rarer is cheaper, and 64 MB is not too long to
/// read back after a crash.
pub(super) const CHECKPOINT_PAGES: u32 = 16_000;
/// The same for a quiet writer, whose changes touch the same few pages again and again.
pub(super) const CHECKPOINT_PAGES_QUIET: u32 = 1_000;
/// No other process writes, so a lock is held for a moment only, by a checkpoint or a backup.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Statements that one connection keeps compiled.
const STATEMENTS_KEPT: usize = 160;

/// Where a store keeps its databases.
#[derive(Clone, Debug)]
pub enum Place {
    Directory(PathBuf),
    /// Private to this store and gone with it; no byte of it reaches a disk.
    Memory,
}

/// A side file: rows with their own retention, apart from `threads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Memory,
    Crisis,
    Feedback,
}

impl Side {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Crisis, Self::Feedback];

    /// The name under which readers attach it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Crisis => "crisis",
            Self::Feedback => "feedback",
        }
    }

    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Memory => "memory.sqlite3",
            Self::Crisis => "crisis.sqlite3",
            Self::Feedback => "session_feedback.sqlite3",
        }
    }

    pub(super) const fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Memory => migrate::MEMORY,
            Self::Crisis => migrate::CRISIS,
            Self::Feedback => migrate::FEEDBACK,
        }
    }
}

/// The databases of one open store.
#[derive(Debug)]
pub(super) struct Files {
    threads: String,
    search: String,
    /// In the order of [`Side::ALL`].
    sides: [String; 3],
    directory: Option<PathBuf>,
    /// In memory, connections share one cache, in which a reader could see half a commit or fail on a lock at once.
    /// There, readers and the writer take turns.
    turns: Option<RwLock<()>>,
    /// In memory, a database lives as long as a connection to it is open.
    anchors: Mutex<Vec<Connection>>,
    /// Keeps other processes out while this store is open.
    lock: Mutex<Option<File>>,
}

impl Files {
    pub(super) fn open(place: &Place) -> Result<Self> {
        if rusqlite::version_number() < VERSION_MIN {
            let found = rusqlite::version();
            return Err(Error::internal(format!("SQLite {found} is older than 3.51.3 and not safe to use")));
        }
        let mut files = match place {
            Place::Directory(directory) => Self::in_directory(directory)?,
            Place::Memory => Self::in_memory(),
        };
        let mut threads = files.threads().map_err(report)?;
        migrate::migrate(&mut threads, migrate::THREADS)?;
        let mut search = files.search_or_new().map_err(report)?;
        migrate::migrate(&mut search, migrate::SEARCH)?;
        let mut anchors = vec![threads, search];
        for side in Side::ALL {
            let mut db = files.side(side).map_err(report)?;
            migrate::migrate(&mut db, side.steps())?;
            anchors.push(db);
        }
        if files.directory.is_none() {
            files.anchors = Mutex::new(anchors);
        }
        Ok(files)
    }

    fn in_directory(directory: &Path) -> Result<Self> {
        make_private_directory(directory).map_err(|error| unusable(directory, &error))?;
        let directory = directory.canonicalize().map_err(|error| unusable(directory, &error))?;
        let lock = lock(&directory)?;
        Ok(Self { lock: Mutex::new(Some(lock)), ..Self::unlocked(&directory)? })
    }

    /// The files in a directory, without its lock: another process may have them open.
    pub(super) fn unlocked(directory: &Path) -> Result<Self> {
        let path = |name: &str| {
            let path = directory.join(name);
            make_private_file(&path).map_err(|error| unusable(&path, &error))?;
            path.to_str()
                .map(str::to_owned)
                .ok_or_else(|| Error::invalid("store", "the path of the store must be valid UTF-8"))
        };
        Ok(Self {
            threads: path("threads.sqlite3")?,
            search: path("search.sqlite3")?,
            sides: [path(Side::Memory.file())?, path(Side::Crisis.file())?, path(Side::Feedback.file())?],
            directory: Some(directory.to_owned()),
            turns: None,
            anchors: Mutex::default(),
            lock: Mutex::default(),
        })
    }

    fn in_memory() -> Self {
        let name = uuid::Uuid::new_v4().simple();
        Self {
            threads: format!("file:threads-{name}?mode=memory&cache=shared"),
            search: format!("file:search-{name}?mode=memory&cache=shared"),
            sides: Side::ALL.map(|side| format!("file:{}-{name}?mode=memory&cache=shared", side.name())),
            directory: None,
            turns: Some(RwLock::new(())),
            anchors: Mutex::default(),
            lock: Mutex::default(),
        }
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Opens the connection of the writer.
    pub(super) fn threads(&self) -> rusqlite::Result<Connection> {
        let db = self.connect(&self.threads)?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "cache_size", -64 * 1024)?;
        Ok(db)
    }

    /// Opens the connection of the indexer. The file is derived, so the last moments before a power cut may be lost;
    /// the indexer reads them again.
    pub(super) fn search(&self) -> rusqlite::Result<Connection> {
        let db = self.connect(&self.search)?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(db)
    }

    /// Opens the search file. A damaged one is replaced: everything in it can be read again from the logs.
    fn search_or_new(&self) -> rusqlite::Result<Connection> {
        let damaged = |error: &rusqlite::Error| {
            matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
        };
        match self.search() {
            Err(error) if damaged(&error) => {
                tracing::warn!(%error, "the search file is damaged; the indexer fills a new one from the log, which is complete");
                for suffix in ["-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{suffix}", self.search));
                }
                File::create(&self.search).map_err(|_| error)?;
                self.search()
            }
            opened => opened,
        }
    }

    /// Opens a connection that writes to a side file. Its rows have left the outbox, so a power cut must not lose
    /// them.
    pub(super) fn side(&self, side: Side) -> rusqlite::Result<Connection> {
        let db = self.connect(&self.sides[side as usize])?;
        db.pragma_update(None, "synchronous", "FULL")?;
        Ok(db)
    }

    /// Opens a connection that only reads, with all other files attached to `threads`.
    pub(super) fn reader(&self) -> rusqlite::Result<Connection> {
        let db = self.connect(&self.threads)?;
        db.execute("ATTACH ?1 AS search", [&self.search])?;
        for (side, path) in Side::ALL.into_iter().zip(&self.sides) {
            db.execute(&format!("ATTACH ?1 AS {}", side.name()), [path])?;
        }
        db.pragma_update(None, "query_only", "ON")?;
        search::add_functions(&db)?;
        Ok(db)
    }

    fn connect(&self, path: &str) -> rusqlite::Result<Connection> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if self.directory.is_none() {
            flags |= OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_CREATE;
        }
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY_WAIT)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        // Otherwise SQLite compiles a cached statement again whenever other values are bound to it.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if self.directory.is_some() {
            db.pragma_update(None, "journal_mode", "WAL")?;
            db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            // No memory map: a connection that sees another's commit would unmap the whole file and map it again.
        } else if db.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))? == 0 {
            // Allows the pages of deleted sessions to be given back. Only the first connection asks for it, before
            // there is a table: the pragma writes, and would block connections that are in use.
            db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        db.pragma_update(None, "temp_store", "MEMORY")?;
        db.pragma_update(None, "foreign_keys", "ON")?;
        db.pragma_update(None, "secure_delete", "ON")?;
        Ok(db)
    }

    /// Lets another process open the store, once this one has closed all connections.
    pub(super) fn unlock(&self) {
        self.anchors.lock().clear();
        *self.lock.lock() = None;
    }

    pub(super) fn turn_to_read(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.turns.as_ref().map(RwLock::read)
    }

    pub(super) fn turn_to_write(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.turns.as_ref().map(RwLock::write)
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::invalid("store", format!("{} cannot be used: {error}", path.display()))
}

fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let file = make_private_file(&path).map_err(|error| unusable(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::invalid(
            "store",
            format!(
                "{} is open in another process; stop that one, or go through its server",
                directory.display()
            ),
        )),
        Err(TryLockError::Error(error)) => Err(unusable(&path, &error)),
    }
}

pub(super) fn make_private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// SQLite gives the write-ahead log and its index the permissions of the database.
pub(super) fn make_private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
