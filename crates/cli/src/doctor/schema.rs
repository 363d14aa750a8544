//! Reads the schema version of a store without changing it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use sederunt::{Error, Place};
use sederunt_store::postgres::inspect::inspect;

use crate::config::Config;
use crate::exit::Result;

/// The schema that the store has now; 0 where there is none yet.
pub async fn found(config: &Config) -> Result<u32> {
    found_at(&config.store.0, config).await
}

/// The schema that another place has now.
pub async fn found_at(place: &Place, config: &Config) -> Result<u32> {
    match place {
        Place::Memory => Ok(0),
        Place::Directory(directory) => Ok(in_directory(directory)?),
        Place::Postgres(url) => Ok(inspect(url, &config.postgres.schema).await?.schema_version),
    }
}

/// The schema that this binary writes.
pub async fn known() -> Result<u32> {
    let store = sederunt::open("memory:").await?;
    let vitals = store.store().vitals().await;
    store.close().await;
    Ok(vitals?.schema_version)
}

fn in_directory(directory: &Path) -> sederunt::Result<u32> {
    let path = directory.join("threads.sqlite3");
    if !path.exists() {
        return Ok(0);
    }
    look(&path)?.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(Error::internal)
}

/// A connection that changes nothing. It can read beside the writer.
pub fn look(path: &Path) -> sederunt::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(Error::unavailable)?;
    db.pragma_update(None, "query_only", "ON").map_err(Error::unavailable)?;
    Ok(db)
}
