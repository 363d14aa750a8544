//! What runs and conversations stand on: an engine over a store, a runtime that can be lost, and waiting.

use std::sync::{Arc, OnceLock};

use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Engine, Settings};
use sederunt_core::json::Json;
use sederunt_core::live::Hub;
use sederunt_core::store::Store;
use sederunt_store::postgres::{PostgresOptions, PostgresStore};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
use tokio::runtime::{Builder, Runtime};

use crate::wire::SOON;

/// An engine over stores in memory.
pub struct InMemory {
    pub engine: Engine,
    /// The durable store, for what the engine does not show.
    pub store: Arc<dyn Store>,
    /// The store of incognito sessions, once there is one.
    pub private: Arc<OnceLock<Arc<dyn Store>>>,
    pub clock: Arc<SystemClock>,
}

pub fn in_memory() -> InMemory {
    let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
    let (time, heard) = (clock.clone(), hub.clone());
    let open = move || -> sederunt_core::Result<Arc<dyn Store>> {
        let options = SqliteOptions { place: Place::Memory, clock: time.clone(), hub: heard.clone() };
        Ok(SqliteStore::open(options)?)
    };
    let store = open().unwrap();
    let private: Arc<OnceLock<Arc<dyn Store>>> = Arc::default();
    let opened = private.clone();
    let open_private = move || {
        let store = open()?;
        Ok(opened.get_or_init(|| store).clone())
    };
    let engine = Engine::new(store.clone(), hub, Settings::default()).with_private(open_private);
    InMemory { engine, store, private, clock }
}

/// A node of its own on PostgreSQL.
pub async fn node(schema: &str, clock: &Arc<SystemClock>) -> Engine {
    let url = std::env::var("SEDERUNT_TEST_POSTGRES")
        .expect("SEDERUNT_TEST_POSTGRES is not set: run the tests by `make test` or scripts/with-postgres");
    let hub = Arc::new(Hub::default());
    let plain = PostgresOptions::new(url, hub.clone());
    let options = PostgresOptions { schema: schema.to_owned(), clock: clock.clone(), pool_size: 6, ..plain };
    Engine::new(PostgresStore::open(options).await.unwrap(), hub, Settings::default())
}

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

pub fn decide(decision: Decision, args: Option<&str>) -> DecisionRequest {
    DecisionRequest {
        decision,
        modified_args: args.map(json),
        modified_output: None,
        reason: Some("because".into()),
        digest: None,
    }
}

/// Looks again and again until something holds that tells nobody when it does; but not for ever.
pub async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let look = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, look).await.unwrap_or_else(|_| panic!("it never came to be: {what}"));
}

/// Does something on a runtime that can be ended with everything on it.
pub fn elsewhere(work: impl Future<Output = ()> + Send + 'static) -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(async move {
        work.await;
        std::future::pending::<()>().await;
    });
    runtime
}

/// Ends a runtime with everything on it, and waits until that is so.
pub async fn gone(runtime: Runtime) {
    tokio::task::spawn_blocking(move || runtime.shutdown_timeout(SOON)).await.unwrap();
}
