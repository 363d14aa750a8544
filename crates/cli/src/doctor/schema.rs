//! Reads the schema version of a store without changing it.

use sederunt::Place;
use sederunt_store::postgres::inspect::inspect;
use sederunt_store::sqlite::inspect::schema_version;

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
        Place::Directory(directory) => Ok(schema_version(directory)?),
        Place::Postgres(url) => Ok(inspect(url, &config.postgres.schema).await?.schema_version),
    }
}

/// The schema that this binary writes.
pub async fn known() -> Result<u32> {
    let store = sederunt::Sederunt::builder().background(false).open("memory:").await?;
    let vitals = store.vitals().await;
    store.close().await;
    Ok(vitals?.schema_version)
}
