//! The choices before a store is opened.

use std::sync::Arc;

use sederunt_agents::background::{Background, Pass, Periods, RunningExecutor};
use sederunt_agents::executor::{Executor, Kit, Settings as ExecutorSettings};
use sederunt_agents::model::Model;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Settings as TalkSettings};
use sederunt_agents::tool::Tool;
use sederunt_core::activity::ActivitySettings;
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Engine, Settings};
use sederunt_core::error::{Error, Result};
use sederunt_core::limits;
use sederunt_core::live::Hub;
use sederunt_core::quota::QuotaSettings;
use sederunt_core::store::Store;
use sederunt_store::postgres::{PostgresOptions, PostgresStore};
use sederunt_store::sqlite::{self, SqliteOptions, SqliteStore};

use crate::{Place, Sederunt};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    pub settings: Settings,
    /// What tenants and users may keep.
    pub quotas: QuotaSettings,
    /// What is recorded of people's own activity, and who reads it.
    pub activity: ActivitySettings,
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
            activity: ActivitySettings::default(),
            clock: Arc::default(),
            schema: "sederunt".into(),
            pool_size: 16,
            migrate: true,
        }
    }
}

/// Chooses what is opened and what runs beside it.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> sederunt::Result<()> {
/// let store = sederunt::Sederunt::builder().background(false).open("memory:").await?;
/// store.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Builder {
    options: Options,
    background: bool,
    periods: Periods,
    runs_max: Option<usize>,
    models: Vec<(String, Arc<dyn Model>)>,
    default_model: Option<String>,
    toolsets: Vec<(String, Vec<Arc<dyn Tool>>)>,
    kit: Option<Kit>,
    conversations: TalkSettings,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            options: Options::default(),
            background: true,
            periods: Periods::default(),
            runs_max: None,
            models: Vec::new(),
            default_model: None,
            toolsets: Vec::new(),
            kit: None,
            conversations: TalkSettings::default(),
        }
    }
}

impl Builder {
    /// Settings, quotas, and how PostgreSQL is used.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Whether lost leases, overdue sessions, silent conversations and silent feedback are looked after. On by default.
    /// One process per store is enough; without any, nothing of that ever ends by itself.
    #[must_use]
    pub fn background(self, runs: bool) -> Self {
        Self { background: runs, ..self }
    }

    /// How often the background work looks.
    #[must_use]
    pub fn periods(self, periods: Periods) -> Self {
        Self { periods, ..self }
    }

    /// Runs tasks of agents in this process, at most so many at once.
    #[must_use]
    pub fn executor(self, runs_max: usize) -> Self {
        Self { runs_max: Some(runs_max), ..self }
    }

    /// A model of your own, under the name by which agents use it. The first one becomes the default model, and starts the
    /// executor with one run at a time, unless the builder says otherwise.
    #[must_use]
    pub fn model(mut self, name: &str, model: impl Model + 'static) -> Self {
        self.models.push((name.to_owned(), Arc::new(model)));
        self
    }

    /// The model of agents that name none.
    #[must_use]
    pub fn default_model(self, name: &str) -> Self {
        Self { default_model: Some(name.to_owned()), ..self }
    }

    /// A tool of your own, in a set. Agents name a set as they name an MCP server:
    /// `{"type": "mcp", "server": SET, "requires_confirmation": [TOOL]}`.
    #[must_use]
    pub fn tool(mut self, set: &str, tool: impl Tool + 'static) -> Self {
        let tool: Arc<dyn Tool> = Arc::new(tool);
        match self.toolsets.iter_mut().find(|(name, _)| name == set) {
            Some((_, tools)) => tools.push(tool),
            None => self.toolsets.push((set.to_owned(), vec![tool])),
        }
        self
    }

    /// Providers, prices, secrets and MCP servers. Models and tools of the builder are added to it.
    #[must_use]
    pub fn kit(self, kit: Kit) -> Self {
        Self { kit: Some(kit), ..self }
    }

    /// How conversations are held.
    #[must_use]
    pub fn conversations(self, settings: TalkSettings) -> Self {
        Self { conversations: settings, ..self }
    }

    /// Opens the store at an address. A directory that another process, or this one, has open is refused.
    pub async fn open(self, url: &str) -> Result<Sederunt> {
        self.open_place(&url.parse()?).await
    }

    pub async fn open_place(self, place: &Place) -> Result<Sederunt> {
        let runs_max = self.runs_max.or((!self.models.is_empty() || self.kit.is_some()).then_some(1));
        let mut kit = match self.kit {
            Some(kit) => kit,
            None => Kit::plain(
                Outbound::new(Allow::default()).map_err(|error| Error::internal(error.to_string()))?,
            ),
        };
        if let Some(name) = self.default_model.or_else(|| self.models.first().map(|(name, _)| name.clone())) {
            kit.default_model = name;
        }
        kit.named.extend(self.models);
        kit.toolsets.extend(self.toolsets);
        let kit = Arc::new(kit);
        let engine = engine(place, self.options).await?;
        engine.declare_secrets(kit.secret_hosts());
        engine.declare_models(kit.clone());
        let conversations = Conversations::new(engine.clone(), kit.clone(), self.conversations);
        let background =
            self.background.then(|| Background::start(&conversations, self.periods, |_: Pass| {}));
        let executor = runs_max.filter(|runs| *runs > 0).map(|runs_max| {
            let settings = ExecutorSettings {
                worker: format!("sederunt-{}", std::process::id()),
                runs_max,
                lease: limits::LEASE_DEFAULT,
                base_url: String::new(),
            };
            RunningExecutor::start(Executor::new(engine.clone(), kit, settings))
        });
        Ok(Sederunt {
            engine,
            conversations,
            background,
            executor,
            #[cfg(feature = "http")]
            mounted: Vec::new(),
        })
    }
}

/// The engine over the store of an address.
async fn engine(place: &Place, options: Options) -> Result<Engine> {
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
    let engine = Engine::new(store, hub, settings).with_private(open).with_quotas(options.quotas);
    Ok(engine.with_activity(options.activity.checked()?))
}
