//! Copies a store of SQLite files into an empty database: in one transaction, read back and compared row for row
//! before it commits.
//!
//! Rows are written under the same role and policies as any other write, a tenant at a time. Only events are written
//! under a role of their own, which adds events of one tenant and does nothing else: the policy on what people record
//! allows the usual role no event of a bridge that has ended. The login creates the schema and sets its sequences, so it
//! is the login of migrations; it has the role of copies for as long as the transaction lasts. Row numbers are kept. The
//! search index is not copied: the store builds what is missing when it is opened.

mod source;
mod tables;

use std::path::Path;

use futures_util::TryStreamExt;
use sederunt_core::{Error, Result};
use tokio::sync::mpsc;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use self::source::{CopyChunk, CopySource};
use self::tables::{CopiedTable, TABLES, TableDigest};
use super::connect::{Address, DbRole};
use super::fault::Fault;
use super::migrate::{self, MigrationLogin, grant_role};
use super::tx::AS_STORE;

/// Chunks that may wait to be written.
const PIECES_AHEAD: usize = 4;

/// The sequences that continue where the files ended: the sequence, and the file and table that say where.
const NUMBERED: [(&str, (&str, &str)); 10] = [
    ("'session_keys'", ("main", "session_heads")),
    ("pg_get_serial_sequence('docs', 'n')", ("main", "docs")),
    ("pg_get_serial_sequence('approvals', 'n')", ("main", "approvals")),
    ("pg_get_serial_sequence('channel_deliveries', 'n')", ("main", "channel_deliveries")),
    ("pg_get_serial_sequence('feedback_events', 'n')", ("main", "feedback_events")),
    ("pg_get_serial_sequence('feedback_sessions', 'n')", ("main", "feedback_sessions")),
    ("pg_get_serial_sequence('lessons', 'n')", ("main", "lessons")),
    ("pg_get_serial_sequence('memories', 'n')", ("memory", "memories")),
    ("pg_get_serial_sequence('crisis_log', 'insertion_order')", ("crisis", "crisis_log")),
    ("pg_get_serial_sequence('session_feedback', 'insertion_order')", ("feedback", "session_feedback")),
];

/// The rows that were copied and compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Each table with its rows.
    pub rows: Vec<(&'static str, u64)>,
}

/// Copies the SQLite store in a directory, to which no process may write meanwhile, into an empty schema. `progress`
/// receives the rows done and the rows in all; every row counts twice, once when it is written and once when it is
/// read back.
pub async fn copy(
    from: &Path,
    url: &str,
    schema: &str,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<CopyReport> {
    let address = Address::parse(url, schema)?;
    let source = CopySource::open(from)?;
    let refused = |fault| with_advice(fault, schema);
    migrate::migrate(&address, MigrationLogin::Serves).await.map_err(refused)?;
    fill(&address, source, progress).await.map_err(refused)
}

/// What a login is told that may not do all that a copy does.
fn with_advice(fault: Fault, schema: &str) -> Error {
    let lacks_rights =
        |error: &&tokio_postgres::Error| error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
    let refused = match &fault {
        Fault::Database(error) => Some(error).filter(lacks_rights).and_then(|error| error.as_db_error()),
        _ => None,
    };
    match refused {
        Some(refused) => Error::denied(format!(
            "the login in `--to` may not do all that a copy does ({}): it makes the tables and owns them, and takes the roles \
             {}; let it make roles, or make these and grant them to it for as long as the copy takes",
            refused.message(),
            DbRole::names(schema).join(", ")
        )),
        None => fault.into(),
    }
}

async fn fill(
    address: &Address,
    source: CopySource,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<CopyReport, Fault> {
    let (client, _said) = address.connect().await?;
    client
        .batch_execute(
            "BEGIN; SET LOCAL statement_timeout TO 0; SET LOCAL idle_in_transaction_session_timeout TO 0",
        )
        .await?;
    let total = source.rows().map_err(Error::internal)? * 2;
    let mut last_keys = Vec::with_capacity(NUMBERED.len());
    for (_, (file, table)) in NUMBERED {
        last_keys.push(source.last_key(file, table).map_err(Error::internal)?);
    }
    let installation = source.installation_key().map_err(Error::internal)?;
    let as_app = format!("SET LOCAL ROLE {}; {AS_STORE}", DbRole::App.name(&address.schema));
    let copying = DbRole::Copying.name(&address.schema);
    let is_lent = grant_role(&client, &copying).await?;
    let as_copy = format!("SET LOCAL ROLE {copying}");
    client.batch_execute(&as_app).await?;
    check_empty(&client, &address.schema).await?;

    let (send, mut pieces) = mpsc::channel(PIECES_AHEAD);
    let reader = tokio::task::spawn_blocking(move || source.read(&send));
    let mut progress_so_far =
        CopyProgress { written: vec![TableDigest::default(); TABLES.len()], done: 0, total };
    let mut tenants = Vec::new();
    while let Some(piece) = pieces.recv().await {
        match piece {
            CopyChunk::Tenant(tk) => {
                see_tenant(&client, tk).await?;
                tenants.push(tk);
            }
            CopyChunk::Rows { table, json, digest } => {
                let is_event = TABLES[table].name == "events";
                if is_event {
                    client.batch_execute(&as_copy).await?;
                }
                client.execute(&TABLES[table].insert(), &[&json]).await?;
                if is_event {
                    client.batch_execute(&as_app).await?;
                }
                progress_so_far.wrote(table, digest, progress);
            }
        }
    }
    reader.await.map_err(Error::internal)?.map_err(Error::internal)?;

    let found = read_back(&client, &tenants, &mut progress_so_far, progress).await?;
    for ((table, written), found) in TABLES.iter().zip(&progress_so_far.written).zip(&found) {
        if written != found {
            let name = table.name;
            return Err(Error::internal(format!("`{name}` reads back as {found:?}, not {written:?}")).into());
        }
    }
    client.batch_execute("RESET ROLE").await?;
    for ((sequence, _), last) in NUMBERED.iter().zip(&last_keys) {
        let sql = format!("SELECT setval({sequence}, greatest($1::bigint, 1), $1::bigint > 0)");
        client.execute(&sql, &[last]).await?;
    }
    let last_tenant = i64::from(tenants.iter().copied().max().unwrap_or(1));
    let sql = "SELECT setval(pg_get_serial_sequence('tenants', 'tk'), greatest($1::bigint, 1))";
    client.execute(sql, &[&last_tenant]).await?;
    client.execute("UPDATE installation SET key = $1", &[&installation]).await?;
    if is_lent {
        client.batch_execute(&format!("REVOKE {copying} FROM CURRENT_USER")).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(CopyReport {
        rows: TABLES
            .iter()
            .zip(&progress_so_far.written)
            .map(|(table, digest)| (table.name, digest.rows))
            .collect(),
    })
}

/// What was written so far.
struct CopyProgress {
    written: Vec<TableDigest>,
    done: u64,
    total: u64,
}

impl CopyProgress {
    fn wrote(&mut self, table: usize, digest: TableDigest, progress: &mut (dyn FnMut(u64, u64) + Send)) {
        self.written[table].add(digest);
        self.done += digest.rows;
        progress(self.done, self.total.max(self.done));
    }
}

/// Refuses a database that holds more than what a migration creates.
async fn check_empty(client: &Client, schema: &str) -> Result<(), Fault> {
    // The default tenant is the first that a migration creates; this role cannot see another one.
    see_tenant(client, 1).await?;
    for table in TABLES.iter().filter(|table| table.name != "tenants") {
        let sql = format!("SELECT 1 FROM {} LIMIT 1", table.name);
        if !client.query(&sql, &[]).await?.is_empty() {
            return Err(not_empty().into());
        }
    }
    client.batch_execute(&format!("SET LOCAL ROLE {}", DbRole::Scan.name(schema))).await?;
    let tenants = client.query("SELECT tk FROM tenants LIMIT 2", &[]).await?;
    client.batch_execute(&format!("SET LOCAL ROLE {}", DbRole::App.name(schema))).await?;
    match tenants.len() {
        0 | 1 => Ok(()),
        _ => Err(not_empty().into()),
    }
}

fn not_empty() -> Error {
    Error::denied("the database holds a store already; copy into an empty one")
}

async fn see_tenant(client: &Client, tk: i32) -> Result<(), Fault> {
    client.execute("SELECT set_config('app.tk', $1, true)", &[&tk.to_string()]).await?;
    Ok(())
}

/// Reads everything back from the database.
async fn read_back(
    client: &Client,
    tenants: &[i32],
    progress_so_far: &mut CopyProgress,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Vec<TableDigest>, Fault> {
    let mut found = vec![TableDigest::default(); TABLES.len()];
    for tk in tenants {
        see_tenant(client, *tk).await?;
        for (table, digest) in TABLES.iter().zip(&mut found) {
            let seen = digest_of(client, table).await?;
            digest.add(seen);
            progress_so_far.done += seen.rows;
            progress(progress_so_far.done, progress_so_far.total.max(progress_so_far.done));
        }
    }
    Ok(found)
}

async fn digest_of(client: &Client, table: &CopiedTable) -> Result<TableDigest, Fault> {
    let mut digest = TableDigest::default();
    let no_parameters: [&str; 0] = [];
    let mut rows = std::pin::pin!(client.query_raw(&table.read_back(), no_parameters).await?);
    while let Some(row) = rows.try_next().await? {
        let mut fields = Vec::with_capacity(row.len());
        for at in 0..row.len() {
            fields.push(row.try_get::<_, Option<&str>>(at)?);
        }
        digest.row(&fields);
    }
    Ok(digest)
}
