//! Inspects a database from outside, for `doctor`. Changes nothing, and works on a schema of any version or none.

use sederunt_core::{Result, Timestamp};

use super::connect::{Address, DbRole, schemas};
use super::fault::Fault;
use super::login::{self, LoginRights};
use super::migrate;

/// The result of an inspection.
#[derive(Clone, Debug)]
pub struct PostgresInspection {
    pub server_version: String,
    /// 15.4 is 150004.
    pub server_version_num: i32,
    /// 0 where there is no schema yet.
    pub schema_version: u32,
    /// The database's clock.
    pub now: Timestamp,
    pub roles_missing: Vec<String>,
    /// Roles of this installation that bypass the policies.
    pub roles_unbound: Vec<String>,
    /// What the login may do.
    pub login: LoginRights,
    /// Tables with rows of tenants, and those of them that no policy binds.
    pub tables: i64,
    pub tables_unbound: Vec<String>,
}

/// Tables without rows of tenants.
const OPEN_TABLES: [&str; 2] = ["schema_history", "installation"];

/// Inspects a database.
pub async fn inspect(url: &str, schema: &str) -> Result<PostgresInspection> {
    let address = Address::parse(url, schema)?;
    Ok(look(&address).await?)
}

async fn look(address: &Address) -> Result<PostgresInspection, Fault> {
    let (client, _said) = address.connect().await?;
    let login = login::rights(&client, &address.schema).await?;
    migrate::look_as_scan(&client, &address.schema).await?;
    let server = client
        .query_one(
            "SELECT current_setting('server_version'), current_setting('server_version_num')::int, \
             (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, to_regclass('schema_history') IS NOT NULL",
            &[],
        )
        .await?;
    let schema_version = match server.try_get(3)? {
        true => client
            .query_one("SELECT coalesce(max(version), 0)::int FROM schema_history", &[])
            .await?
            .try_get(0)?,
        false => 0,
    };
    let ours = DbRole::names(&address.schema);
    let roles = client
        .query(
            "SELECT rolname::text, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = ANY ($1)",
            &[&ours.as_slice()],
        )
        .await?;
    let (mut found, mut roles_unbound): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for row in roles {
        let name: String = row.try_get(0)?;
        if row.try_get(1)? {
            roles_unbound.push(name.clone());
        }
        found.push(name);
    }
    let tables = client
        .query(
            "SELECT c.relname::text, c.relrowsecurity AND c.relforcerowsecurity \
             FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace \
             WHERE s.nspname = ANY ($1) AND c.relkind IN ('r', 'p') AND c.relname <> ALL ($2)",
            &[&schemas(&address.schema).as_slice(), &OPEN_TABLES.as_slice()],
        )
        .await?;
    let mut tables_unbound = Vec::new();
    for row in &tables {
        if !row.try_get::<_, bool>(1)? {
            tables_unbound.push(row.try_get(0)?);
        }
    }
    Ok(PostgresInspection {
        server_version: server.try_get(0)?,
        server_version_num: server.try_get(1)?,
        schema_version: u32::try_from(schema_version).unwrap_or(0),
        now: Timestamp::from_micros(server.try_get(2)?),
        roles_missing: ours.into_iter().filter(|name| !found.contains(name)).collect(),
        roles_unbound,
        login,
        tables: i64::try_from(tables.len()).unwrap_or(i64::MAX),
        tables_unbound,
    })
}
