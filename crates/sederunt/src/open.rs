//! From an address to a running engine, and back: opening, sweeping, closing.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::executor::Kit;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Settings as TalkSettings};
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Engine, Settings};
use sederunt_core::error::{Error, Result};
use sederunt_core::live::Hub;
use sederunt_core::quota::QuotaSettings;
use sederunt_core::store::Store;
use sederunt_store::postgres::{PostgresOptions, PostgresStore};
use sederunt_store::sqlite::{self, SqliteOptions, SqliteStore};

use crate::Place;

/// How often expired idempotency keys are removed.
const PURGE_EVERY: Duration = Duration::from_secs(600);

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    pub settings: Settings,
    /// What tenants and users may keep.
    pub quotas: QuotaSettings,
    /// The clock of leases and deadlines; PostgreSQL uses only its offset.
    pub clock: Arc<SystemClock>,
    /// The schema of PostgreSQL that holds the tables.
    pub schema: String,
    /// Connections to PostgreSQL.
    pub pool_size: usize,
    /// Brings an older schema up to this version; otherwise such a store is refused.
    pub migrate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            quotas: QuotaSettings::default(),
            clock: Arc::default(),
            schema: "sederunt".into(),
            pool_size: 16,
            migrate: true,
        }
    }
}

/// Opens the store at an address: a directory, `sqlite:PATH`, `memory:` or `postgres://…`.
pub async fn open(url: &str) -> Result<Sederunt> {
    Sederunt::open(&url.parse()?, Options::default()).await
}

/// An open store with the engine over it. Its commands are methods of [`Engine`].
#[derive(Debug)]
pub struct Sederunt {
    engine: Engine,
}

impl Sederunt {
    pub async fn open(place: &Place, options: Options) -> Result<Self> {
        let hub = Arc::new(Hub::default());
        let (settings, clock) = (options.settings, options.clock);
        let private = clock.clone();
        let in_files = |place| SqliteOptions { place, clock: clock.clone(), hub: hub.clone() };
        let store: Arc<dyn Store> = match place {
            Place::Directory(path) => SqliteStore::open(in_files(sqlite::Place::Directory(path.clone())))?,
            Place::Memory => SqliteStore::open(in_files(sqlite::Place::Memory))?,
            Place::Postgres(url) => {
                let options = PostgresOptions {
                    url: url.clone(),
                    schema: options.schema,
                    clock,
                    hub: hub.clone(),
                    migrate: options.migrate,
                    pool_size: options.pool_size,
                };
                PostgresStore::open(options).await?
            }
        };
        let heard = hub.clone();
        let open = move || -> Result<Arc<dyn Store>> {
            let place = sqlite::Place::Memory;
            let options = SqliteOptions { place, clock: private.clone(), hub: heard.clone() };
            Ok(SqliteStore::open(options)?)
        };
        Ok(Self { engine: Engine::new(store, hub, settings).with_private(open).with_quotas(options.quotas) })
    }

    /// The engine, to be cloned into tasks.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Conversations with the built-in model, which needs no key and no network. For models of your own, hand a [`Kit`] that has them
    /// to [`Conversations::new`].
    pub fn conversations(&self) -> Result<Conversations> {
        let outbound = Outbound::new(Allow::default()).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Conversations::new(self.engine.clone(), Arc::new(Kit::plain(outbound)), TalkSettings::default()))
    }

    /// Frees lost leases, ends overdue sessions and removes old keys at each interval until `stop` resolves. One
    /// sweeper per store is enough; several do no harm.
    pub async fn run_sweeper(&self, every: Duration, stop: impl Future<Output = ()>) {
        let mut sweep = tokio::time::interval(every);
        let mut purge = tokio::time::interval(PURGE_EVERY);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        loop {
            let done = tokio::select! {
                () = &mut stop => return,
                _ = sweep.tick() => self.engine.sweep().await.map(drop),
                _ = purge.tick() => self.engine.purge_idempotency_keys().await.map(drop),
            };
            if let Err(error) = done {
                tracing::warn!(target: "sederunt::sweeper", code = error.code(), "a sweep failed; the next one takes up the rest");
            }
        }
    }

    /// Finishes queued writes and releases files and connections.
    pub async fn close(self) {
        self.engine.close().await;
    }
}

impl Deref for Sederunt {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}
