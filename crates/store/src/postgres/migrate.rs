//! The schema: made, brought forward, or refused when it is newer than this program.

use sederunt_core::Error;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connect::{Address, Role};
use super::fault::{Fault, Result};
use super::tx::hash64;

/// Every step, in order; the position is the version. A released step is never edited.
const STEPS: &[(&str, &str)] = &[
    ("log", include_str!("migrations/V1__log.sql")),
    ("work", include_str!("migrations/V2__work.sql")),
    ("talk", include_str!("migrations/V3__talk.sql")),
    ("lessons", include_str!("migrations/V4__lessons.sql")),
    ("failures", include_str!("migrations/V5__failures.sql")),
    ("views", include_str!("migrations/V6__views.sql")),
    ("fewer_pages", include_str!("migrations/V7__fewer_pages.sql")),
    ("stock", include_str!("migrations/V8__stock.sql")),
    ("known_rows", include_str!("migrations/V9__known_rows.sql")),
    ("bursts", include_str!("migrations/V10__bursts.sql")),
    ("in_work", include_str!("migrations/V11__in_work.sql")),
    ("names", include_str!("migrations/V12__names.sql")),
    ("sizes", include_str!("migrations/V13__sizes.sql")),
    ("reply_pieces", include_str!("migrations/V14__reply_pieces.sql")),
];

/// The version that this program writes.
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// Parallel starts may meet in the catalogue of roles, which no lock of one database covers.
const ROLE_TRIES_MAX: usize = 20;

/// Brings the schema to [`VERSION`]. Starts in parallel wait for each other.
pub(super) async fn bring_up(address: &Address) -> Result<()> {
    let (client, _said) = address.alone().await?;
    client.batch_execute("SET statement_timeout TO 0").await?;
    make_roles(&client).await?;
    let schema = &address.schema;
    let lock = hash64(&[b"migrate", schema.as_bytes()]);
    for (at, (name, sql)) in STEPS.iter().enumerate() {
        let version = i32::try_from(at + 1).unwrap_or(i32::MAX);
        let begun = async {
            client.batch_execute("BEGIN").await?;
            client.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
            if at == 0 {
                let roles = Role::ALL.map(Role::name).join(", ");
                client
                    .batch_execute(&format!(
                        "CREATE SCHEMA IF NOT EXISTS {schema}; GRANT USAGE ON SCHEMA {schema} TO {roles}; \
                         CREATE TABLE IF NOT EXISTS schema_history (version integer PRIMARY KEY, name text NOT NULL); \
                         GRANT SELECT ON schema_history TO {roles}"
                    ))
                    .await?;
            }
            let found = newest(&client).await?;
            if found > STEPS.len() as i64 {
                return Err(newer(found).into());
            }
            if found < i64::from(version) {
                client.batch_execute(&sql.replace("{schema}", schema)).await?;
                client.execute("INSERT INTO schema_history VALUES ($1, $2)", &[&version, name]).await?;
            }
            client.batch_execute("COMMIT").await?;
            Ok::<_, Fault>(())
        };
        begun.await?;
    }
    Ok(())
}

/// Refuses to start on a schema that another program has written.
pub(super) async fn check(address: &Address) -> Result<()> {
    let (client, _said) = address.alone().await?;
    let found = match newest(&client).await {
        Ok(found) => found,
        Err(Fault::Database(error)) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => 0,
        Err(other) => return Err(other),
    };
    if found > STEPS.len() as i64 {
        return Err(newer(found).into());
    }
    if found < STEPS.len() as i64 {
        let text =
            format!("the schema has version {found} and this program needs {VERSION}: run `migrate` first");
        return Err(Error::internal(text).into());
    }
    Ok(())
}

async fn newest(client: &Client) -> Result<i64> {
    let row = client.query_one("SELECT coalesce(max(version), 0)::bigint FROM schema_history", &[]).await?;
    Ok(row.try_get(0)?)
}

fn newer(found: i64) -> Error {
    Error::internal(format!(
        "the schema has version {found}, and this program knows only {VERSION}: use a newer one"
    ))
}

/// The roles belong to the whole server, so another database's start may be making them too.
async fn make_roles(client: &Client) -> Result<()> {
    for role in Role::ALL {
        let name = role.name();
        let mut tries = 0;
        loop {
            match make_role(client, name).await {
                Ok(()) => break,
                Err(error) if tries < ROLE_TRIES_MAX && is_race(&error) => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

async fn make_role(client: &Client, name: &str) -> std::result::Result<(), tokio_postgres::Error> {
    let found = client.query_opt("SELECT 1 FROM pg_roles WHERE rolname = $1", &[&name]).await?;
    if found.is_none() {
        client
            .batch_execute(&format!("CREATE ROLE {name} NOLOGIN NOBYPASSRLS NOSUPERUSER NOINHERIT"))
            .await?;
    }
    // From version 16 on, whoever makes a role is its member without the right to take it.
    let sql = "SELECT pg_has_role(current_user, $1,
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)";
    let member = client.query_one(sql, &[&name]).await?;
    if !member.try_get::<_, bool>(0)? {
        client.batch_execute(&format!("GRANT {name} TO CURRENT_USER")).await?;
    }
    Ok(())
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::DUPLICATE_OBJECT
            || *error.code() == SqlState::UNIQUE_VIOLATION
            || error.message().contains("concurrently updated")
    })
}
