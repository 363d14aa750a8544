//! The stores under test, each opened for one test and removed after it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use sederunt_core::TenantId;
use sederunt_core::clock::SystemClock;
use sederunt_core::live::Hub;
use sederunt_core::people::Audit;
use sederunt_core::store::Store;
use sederunt_store::postgres::{PostgresOptions, PostgresStore};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};

/// Tables that may hold rows although there is only an empty default tenant: they belong to the installation or are
/// derived.
const OTHER_TABLES: [&str; 13] = [
    "tenants", "audit", "idempotency", "installation", "search_docs", "search_done", "search_outbox",
    "talk_outbox", "reply_pieces", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4", "schema_history",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    SqliteFile,
    SqliteMemory,
    Postgres,
}

/// A store, seen from one tenant.
#[derive(Clone, Debug)]
pub struct TestStore {
    pub store: Arc<dyn Store>,
    pub hub: Arc<Hub>,
    pub clock: Arc<SystemClock>,
    pub tenant: TenantId,
    home: Home,
}

#[derive(Clone, Debug)]
enum Home {
    Directory(PathBuf),
    Memory,
    Schema { url: String, name: String },
}

impl Deref for TestStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl TestStore {
    /// The same store, seen from another tenant, which is created if needed.
    pub async fn tenant_named(&self, name: &str) -> Self {
        let tenant = TenantId::stored(name);
        if self.store.tenant(&tenant).await.unwrap().is_none() {
            self.store.create_tenant(&tenant, made(name)).await.unwrap();
        }
        Self { tenant, ..self.clone() }
    }

    /// Whether other nodes may write, so that this one also polls for commits.
    pub fn has_nodes(&self) -> bool {
        matches!(self.home, Home::Schema { .. })
    }

    /// A second store over the same data, as another node has it. The test closes it.
    pub async fn another_node(&self) -> Self {
        let hub = Arc::new(Hub::default());
        let store = open(&self.home, &hub, &self.clock).await;
        Self { store, hub, ..self.clone() }
    }

    /// The rows of each table with data of tenants, counted past the store.
    pub async fn rows_kept(&self) -> BTreeMap<String, i64> {
        let count = |table: &str| format!("SELECT count(*) FROM {table}");
        let is_kept = |table: &String| !OTHER_TABLES.contains(&table.as_str());
        match &self.home {
            Home::Directory(path) => {
                let mut rows = BTreeMap::new();
                for file in ["threads", "memory", "crisis", "session_feedback"] {
                    let db = rusqlite::Connection::open(path.join(file).with_extension("sqlite3")).unwrap();
                    let mut tables =
                        db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
                    for table in tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap) {
                        if is_kept(&table) {
                            let found = db.query_row(&count(&table), [], |row| row.get(0)).unwrap();
                            rows.insert(table, found);
                        }
                    }
                }
                rows
            }
            Home::Schema { url, name } => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                let path =
                    format!("SET search_path = \"{name}\", {name}_memory, {name}_crisis, {name}_feedback");
                client.batch_execute(&path).await.unwrap();
                let sql =
                    "SELECT tablename::text FROM pg_tables WHERE schemaname = ANY (current_schemas(false))";
                let tables = client.query(sql, &[]).await.unwrap();
                let mut rows = BTreeMap::new();
                for table in tables.iter().map(|row| row.get(0)).filter(is_kept) {
                    let found = client.query_one(&count(&table), &[]).await.unwrap().get(0);
                    rows.insert(table, found);
                }
                rows
            }
            Home::Memory => panic!("nobody else can look into a store in memory"),
        }
    }

    /// Runs a statement past the store, as another version of this program might have.
    pub async fn execute(&self, sql: &str) {
        match &self.home {
            Home::Directory(path) => {
                let db = rusqlite::Connection::open(path.join("threads.sqlite3")).unwrap();
                db.execute_batch(sql).unwrap();
            }
            Home::Schema { url, name } => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute(&format!("SET search_path = \"{name}\"; {sql}")).await.unwrap();
            }
            Home::Memory => panic!("nobody else can write to a store in memory"),
        }
    }

    /// The same data copied into PostgreSQL, as a store of its own. `None` where nothing can be copied.
    pub async fn copied(&self) -> Option<Self> {
        let Home::Directory(path) = &self.home else { return None };
        let (url, name) = (postgres_url(), format!("conf_{}", uuid::Uuid::now_v7().simple()));
        sederunt_store::postgres::copy::copy(path, &url, &name, &mut |_, _| {}).await.unwrap();
        let home = Home::Schema { url, name };
        let hub = Arc::new(Hub::default());
        let store = open(&home, &hub, &self.clock).await;
        Some(Self { store, hub, home, ..self.clone() })
    }

    /// Closes and removes what [`TestStore::copied`] has made.
    pub async fn remove(self) {
        self.store.close().await;
        if let Home::Schema { url, name } = &self.home {
            drop_schema(url, name).await;
        }
    }

    /// The same data behind a new store and a new clock, after this one was closed.
    pub async fn reopened(&self) -> Self {
        self.store.close().await;
        let (hub, clock) = (Arc::new(Hub::default()), Arc::new(SystemClock::default()));
        let store = open(&self.home, &hub, &clock).await;
        Self { store, hub, clock, ..self.clone() }
    }
}

/// Runs a test on a store of its own, and removes that store whether or not the test fails.
pub async fn with(kind: Kind, test: impl AsyncFnOnce(&TestStore)) {
    let directory = tempfile::tempdir().unwrap();
    let home = match kind {
        Kind::SqliteFile => Home::Directory(directory.path().join("store")),
        Kind::SqliteMemory => Home::Memory,
        Kind::Postgres => {
            Home::Schema { url: postgres_url(), name: format!("conf_{}", uuid::Uuid::now_v7().simple()) }
        }
    };
    let (hub, clock) = (Arc::new(Hub::default()), Arc::new(SystemClock::default()));
    let store = open(&home, &hub, &clock).await;
    let tenant = TenantId::stored("acme");
    store.create_tenant(&tenant, made("acme")).await.unwrap();
    let subject = TestStore { store, hub, clock, tenant, home };

    let outcome = AssertUnwindSafe(test(&subject)).catch_unwind().await;
    subject.store.close().await;
    if let Home::Schema { url, name } = &subject.home {
        drop_schema(url, name).await;
    }
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

async fn open(home: &Home, hub: &Arc<Hub>, clock: &Arc<SystemClock>) -> Arc<dyn Store> {
    let (hub, clock) = (hub.clone(), clock.clone());
    match home {
        Home::Directory(path) => {
            SqliteStore::open(SqliteOptions { place: Place::Directory(path.clone()), clock, hub }).unwrap()
        }
        Home::Memory => SqliteStore::open(SqliteOptions { place: Place::Memory, clock, hub }).unwrap(),
        Home::Schema { url, name } => {
            let (url, schema) = (url.clone(), name.clone());
            PostgresStore::open(PostgresOptions { url, schema, clock, hub, migrate: true, pool_size: 8 })
                .await
                .unwrap()
        }
    }
}

fn postgres_url() -> String {
    std::env::var("SEDERUNT_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!(
            "SEDERUNT_TEST_POSTGRES is not set, and every store must be tested: \
             run this through scripts/with-postgres, or name a server's URL"
        )
    })
}

async fn drop_schema(url: &str, name: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let all = ["", "_memory", "_crisis", "_feedback"].map(|apart| format!("\"{name}{apart}\"")).join(", ");
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS {all} CASCADE")).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

fn made(tenant: &str) -> Audit {
    Audit { actor: "operator".into(), action: "tenant.create", target: tenant.into() }
}
