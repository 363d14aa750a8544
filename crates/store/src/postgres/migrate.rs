//! The schema: created, migrated, or refused if it is newer than this program.

use sederunt_core::Error;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connect::{Address, DbRole};
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
    ("roles", include_str!("migrations/V15__roles.sql")),
    ("departures", include_str!("migrations/V16__departures.sql")),
    ("personal_links", include_str!("migrations/V17__personal_links.sql")),
    ("human_bridge", include_str!("migrations/V18__human_bridge.sql")),
    ("view_links", include_str!("migrations/V19__view_links.sql")),
    ("responses", include_str!("migrations/V20__responses.sql")),
    ("tool_sessions", include_str!("migrations/V21__tool_sessions.sql")),
    ("documents", include_str!("migrations/V22__documents.sql")),
    ("browser_sessions", include_str!("migrations/V23__browser_sessions.sql")),
    ("copied_activity", include_str!("migrations/V24__copied_activity.sql")),
    ("channel_people", include_str!("migrations/V25__channel_people.sql")),
    ("channels", include_str!("migrations/V26__channels.sql")),
];

/// The version that this program writes.
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// Parallel starts may conflict in the catalogue of roles, which no lock of one database covers.
const ROLE_TRIES_MAX: usize = 20;

/// What the migrating login is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MigrationLogin {
    /// Migrations only: it owns the tables, and another login serves.
    Owns,
    /// Serving too, so it must be able to take the roles.
    Serves,
}

/// The text of a step for a schema. The first thirteen steps name the roles as they were called when all
/// installations of a server shared them.
fn text_of(sql: &str, schema: &str) -> String {
    let ours = DbRole::ALL.iter().fold(sql.to_owned(), |text, role| {
        text.replace(&format!("sederunt_{}", role.part()), &role.name("{schema}"))
    });
    ours.replace("{schema}", schema)
}

/// Migrates the schema to [`VERSION`]. Parallel starts wait for each other.
pub(super) async fn migrate(address: &Address, login: MigrationLogin) -> Result<()> {
    let (client, _said) = address.connect().await?;
    client.batch_execute("SET statement_timeout TO 0").await?;
    make_roles(&client, &address.schema, login).await?;
    let schema = &address.schema;
    let lock = hash64(&[b"migrate", schema.as_bytes()]);
    for (at, (name, sql)) in STEPS.iter().enumerate() {
        let version = i32::try_from(at + 1).unwrap_or(i32::MAX);
        let begun = async {
            client.batch_execute("BEGIN").await?;
            client.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
            if at == 0 {
                let roles = DbRole::serving_names(schema).join(", ");
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
                client.batch_execute(&text_of(sql, schema)).await?;
                client.execute("INSERT INTO schema_history VALUES ($1, $2)", &[&version, name]).await?;
            }
            client.batch_execute("COMMIT").await?;
            Ok::<_, Fault>(())
        };
        begun.await?;
    }
    Ok(())
}

/// Migrates an older schema as the login that serves. A login that may not do that, because another one owns the
/// tables, is told what to do.
pub(super) async fn migrate_if_older(address: &Address) -> Result<()> {
    let found = version_of(address).await?;
    if found == STEPS.len() as i64 {
        return Ok(());
    }
    match migrate(address, MigrationLogin::Serves).await {
        Err(Fault::Database(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let refused =
                error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
            Err(Error::denied(format!(
                "the schema `{}` has version {found}, this program needs {VERSION}, and the login that serves may not \
                 change it ({refused}): run `sederunt migrate --migrate-store postgres://OWNER@…` with the login that \
                 owns the tables, and start again",
                address.schema
            ))
            .into())
        }
        done => done,
    }
}

/// Refuses to start on a schema of another version.
pub(super) async fn check(address: &Address) -> Result<()> {
    let found = version_of(address).await?;
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

/// The version that a schema has; 0 where there is none, or nothing that this login may see.
pub(super) async fn version_of(address: &Address) -> Result<i64> {
    let (client, _said) = address.connect().await?;
    look_as_scan(&client, &address.schema).await?;
    match newest(&client).await {
        Err(Fault::Database(error))
            if [SqlState::UNDEFINED_TABLE, SqlState::INSUFFICIENT_PRIVILEGE]
                .iter()
                .any(|state| error.code() == Some(state)) =>
        {
            Ok(0)
        }
        found => found,
    }
}

/// Takes the role that may read the version, if it exists: a login that inherits nothing sees nothing without it.
pub(super) async fn look_as_scan(client: &Client, schema: &str) -> Result<()> {
    match client.batch_execute(&format!("SET ROLE {}", DbRole::Scan.name(schema))).await {
        Err(error) if error.as_db_error().is_none() => Err(error.into()),
        _ => Ok(()),
    }
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

/// Roles belong to the whole server, so the start of another database may be creating them too.
async fn make_roles(client: &Client, schema: &str, login: MigrationLogin) -> Result<()> {
    let serving = DbRole::serving_names(schema);
    for name in DbRole::names(schema) {
        let is_taken = login == MigrationLogin::Serves && serving.contains(&name);
        let mut tries = 0;
        loop {
            match make_role(client, &name, is_taken).await {
                Ok(()) => break,
                Err(error) if tries < ROLE_TRIES_MAX && is_race(&error) => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

async fn make_role(
    client: &Client,
    name: &str,
    is_taken: bool,
) -> std::result::Result<(), tokio_postgres::Error> {
    let found = client.query_opt("SELECT 1 FROM pg_roles WHERE rolname = $1", &[&name]).await?;
    if found.is_none() {
        client
            .batch_execute(&format!("CREATE ROLE {name} NOLOGIN NOBYPASSRLS NOSUPERUSER NOINHERIT"))
            .await?;
    }
    match is_taken {
        true => grant_role(client, name).await.map(drop),
        false => Ok(()),
    }
}

/// Grants a role to the login, if it may not take it. Returns whether it was granted now.
pub(super) async fn grant_role(
    client: &Client,
    name: &str,
) -> std::result::Result<bool, tokio_postgres::Error> {
    let member = client.query_one(&format!("SELECT {}", may_take("$1::name")), &[&name]).await?;
    let is_new = !member.try_get::<_, bool>(0)?;
    if is_new {
        client.batch_execute(&format!("GRANT {name} TO CURRENT_USER")).await?;
    }
    Ok(is_new)
}

/// Whether the login may take a role. From version 16 on, the creator of a role is its member without that right.
pub(super) fn may_take(role: &str) -> String {
    format!(
        "pg_has_role(session_user, {role}, \
         CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)"
    )
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::DUPLICATE_OBJECT
            || *error.code() == SqlState::UNIQUE_VIOLATION
            || error.message().contains("concurrently updated")
    })
}
