//! Finds the server for a command that needs one: the named one, the one that has the store open, or one that is
//! started here for as long as the command lasts. The command works the same with each.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use sederunt::{Place, TenantId};
use sederunt_api::client::Client;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::api::connect;
use crate::api::server_file::{self, StoreUser};
use crate::args::ConnectArgs;
use crate::commands::CommandContext;
use crate::config::{AuthKind, StorePlace};
use crate::exit::{Exit, Failure, Result};
use crate::serve::{RunningServer, server_config};

/// What a command wants of its server.
#[derive(Clone, Copy, Debug)]
pub struct ServerNeed<'a> {
    pub connect_args: &'a ConnectArgs,
    /// An incognito chat stays in this process, unless a server was named.
    pub incognito: bool,
    pub lasts: SittingsLast,
}

/// What happens to open sittings when our own server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SittingsLast {
    /// They end with it.
    Here,
    /// The next server goes on with them.
    Beyond,
}

/// How long to retry while other processes open or close the store.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A server to talk to.
#[derive(Debug)]
pub struct Host {
    pub client: Client,
    own: Option<Own>,
}

/// A server of our own.
#[derive(Debug)]
struct Own {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Host {
    /// Finds a server. Of several processes that start at once, one opens the store and the others find it.
    pub async fn find(context: &CommandContext, wish: ServerNeed<'_>) -> Result<Self> {
        let since = Instant::now();
        loop {
            match Self::look(context, wish).await {
                Err(failure) if failure.exit() == Exit::Unavailable && since.elapsed() < PATIENCE => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                found => return found,
            }
        }
    }

    async fn look(context: &CommandContext, wish: ServerNeed<'_>) -> Result<Self> {
        let ConnectArgs { model, key } = wish.connect_args;
        let global = &context.global;
        let tenant = TenantId::parse(&global.tenant)?;
        let key = match &global.key_file {
            Some(file) => Some(server_file::read_key(file)?),
            None => key.clone(),
        };
        let model_refused = |url: &str| {
            Failure::usage(format!("the server at {url} has its own model")).hint("leave out --model")
        };
        if let Some(url) = &global.server {
            if model.is_some() {
                return Err(model_refused(url));
            }
            return Ok(Self { client: connect(url, key, &tenant)?, own: None });
        }
        if let Some(directory) = context.config.directory().filter(|_| !wish.incognito)
            && let StoreUser::Server(running) = server_file::holder(directory).await
        {
            if model.is_some() {
                return Err(model_refused(&running.url));
            }
            let key = key.map_or_else(|| server_file::read_key(&server_file::key_path(directory)), Ok)?;
            return Ok(Self { client: connect(&running.url, Some(key), &tenant)?, own: None });
        }
        Self::start(context, wish).await
    }

    /// Starts a server that only this process, and readers of the store's directory, can call.
    async fn start(context: &CommandContext, wish: ServerNeed<'_>) -> Result<Self> {
        let mut config = context.config.clone();
        config.listen = "127.0.0.1:0".to_owned();
        config.auth = AuthKind::Keys;
        config.public_url = None;
        let mut tenant = TenantId::parse(&context.global.tenant)?;
        if wish.incognito {
            leave_no_core();
            config.store = StorePlace(Place::Memory);
            config.operator_key_file = None;
            tenant = TenantId::stored("default");
        }
        let mut server = server_config(&config)?;
        if wish.lasts == SittingsLast::Beyond {
            server.finalize_max = Duration::ZERO;
        }
        let server = RunningServer::open(&config, server).await?;
        let client = connect(&server.url, Some(server.key.clone()), &tenant)?;
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Ok(Self { client, own: Some(Own { stop, serving }) })
    }

    /// Whether the server runs in this process.
    pub fn is_ours(&self) -> bool {
        self.own.is_some()
    }

    /// Releases it; our own server shuts down in order.
    pub async fn close(self) {
        if let Some(Own { stop, serving }) = self.own {
            let _ = stop.send(());
            let _ = serving.await;
        }
    }
}

/// Disables core dumps, which could hold what was said. Lowering a limit is always allowed.
fn leave_no_core() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
}
