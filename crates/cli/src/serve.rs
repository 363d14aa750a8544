//! `serve`: opens the store, runs the server over it, and everything that lives as long as they do.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sederunt::{Place, Sederunt};
use sederunt_agents::background::RunningExecutor;
use sederunt_core::people::SecretHash;
use sederunt_server::{
    Auth, ConfigError, JwtConfig, JwtKeys, Rate, Rates, Server, ServerConfig, StreamTimes,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::agents;
use crate::api::server_file::{self, Running, StoreUser};
use crate::caps;
use crate::commands::CommandContext;
use crate::config::{AuthKind, Config, Jwt, LogFormat};
use crate::demo;
use crate::exit::{Exit, Failure, Result};
use crate::output::note;

pub async fn run(context: &CommandContext, demo: bool) -> Result<()> {
    let config = &context.config;
    start_log(config.log, "info");
    caps::raise_files();
    let mut server_config = server_config(config)?;
    server_config.check().map_err(refused)?;
    server_config.metrics = start_metrics();
    // Before the address is announced: a signal that comes at once must drain, not kill.
    let signals = Signals::new()?;
    let public_url = server_config.public_url.clone();
    let server = RunningServer::open(config, server_config).await?;
    let demo = demo.then(|| {
        let address = public_url.unwrap_or_else(|| server.url.clone());
        tokio::spawn(demo::run(server.store.conversations().clone(), address))
    });
    tracing::info!(target: "sederunt", url = %server.url, store = %config.store.0, "serving");
    let said = match context.out.line(format!("listening on {}", server.url)) {
        // The parent process may not read the line.
        Ok(()) | Err(Failure::Closed) => {
            server.serve(signals.stop(config.directory().map(Path::to_owned))).await;
            Ok(())
        }
        Err(failure) => {
            server.serve(std::future::ready(())).await;
            Err(failure)
        }
    };
    if let Some(demo) = demo {
        demo.abort();
        let _ = demo.await;
    }
    tracing::info!(target: "sederunt", "stopped");
    said
}

/// An open store with its server and workers. `serve` must be called: it also closes everything.
pub struct RunningServer {
    pub url: String,
    /// The operator's key.
    pub key: String,
    store: Sederunt,
    server: Server,
    executor: Option<RunningExecutor>,
    directory: Option<PathBuf>,
    drain: Duration,
}

impl RunningServer {
    /// Opens the store and the port, and announces them to commands on this machine.
    pub async fn open(config: &Config, server_config: ServerConfig) -> Result<Self> {
        let directory = config.directory();
        if let Some(directory) = directory {
            let holder = server_file::holder(directory).await;
            if holder != StoreUser::None {
                return Err(server_file::in_use(directory, &holder));
            }
        }
        let opened = config.opener(true)?.open_place(&config.store.0).await;
        // Another process took the store a moment ago.
        if let (Err(_), Some(taken)) =
            (&opened, directory.filter(|directory| server_file::is_locked(directory)))
        {
            return Err(server_file::in_use(taken, &StoreUser::OtherProcess));
        }
        let store = opened?;
        match Self::over(&store, config, server_config).await {
            Ok((server, key, executor)) => Ok(Self {
                url: format!("http://{}", server.local_addr()),
                key,
                store,
                server,
                executor,
                directory: directory.map(Path::to_owned),
                drain: config.shutdown.drain.0,
            }),
            Err(failure) => {
                directory.into_iter().for_each(server_file::forget);
                store.close().await;
                Err(failure)
            }
        }
    }

    async fn over(
        store: &Sederunt,
        config: &Config,
        mut server_config: ServerConfig,
    ) -> Result<(Server, String, Option<RunningExecutor>)> {
        let key = match (&config.operator_key_file, config.directory()) {
            (Some(file), _) => server_file::read_key(file)?,
            (None, Some(directory)) => server_file::operator_key(directory)?,
            (None, None) => server_file::fresh_key(),
        };
        server_config.operator_key_hash = Some(SecretHash::of(&key));
        let kit = Arc::new(agents::kit(config)?);
        store.engine().declare_secrets(kit.secret_hosts());
        store.engine().declare_models(kit.clone());
        server_config.conversations = Some(agents::conversations(store.engine(), kit.clone(), config)?);
        let server = Server::bind(store.engine().clone(), server_config).await.map_err(refused)?;
        if let Some(directory) = config.directory() {
            let url = format!("http://{}", server.local_addr());
            server_file::announce(directory, &Running { url, pid: std::process::id() })?;
        }
        let reached_at =
            config.public_url.clone().unwrap_or_else(|| format!("http://{}", server.local_addr()));
        let executor = agents::start_executor(store.engine(), kit, config, &reached_at);
        Ok((server, key, executor))
    }

    /// Serves until `shutdown` resolves, lets open work finish for a while, and closes everything.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) {
        // A command that comes while this server shuts down must wait for the store, not call a closed port.
        let leave = async {
            shutdown.await;
            self.directory.as_deref().into_iter().for_each(server_file::forget);
        };
        self.server.run(leave).await;
        if let Some(executor) = self.executor {
            executor.stop(self.drain).await;
        }
        self.store.close().await;
    }
}

/// The signals that ask this process to end.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn new() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(|error| Failure::io("cannot listen for signals", &error));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Resolves at the first signal, which drains. A second one ends the process at once: what was acknowledged is on
    /// disk.
    async fn stop(mut self, directory: Option<PathBuf>) {
        self.next().await;
        note(
            "finishing what is under way; a second signal ends at once, and loses nothing that was acknowledged",
        );
        tokio::spawn(async move {
            self.next().await;
            if let Some(directory) = directory {
                server_file::forget(&directory);
            }
            std::process::exit(Exit::Error as i32);
        });
    }
}

/// The server's configuration.
pub fn server_config(config: &Config) -> Result<ServerConfig> {
    let (rates, streams, files) = (config.rates, &config.streams, caps::files());
    Ok(ServerConfig {
        listen: address(&config.listen)?,
        auth: auth(config)?,
        public_url: config.public_url.clone(),
        rates: Rates {
            per_credential: Rate::new(rates.credential_per_second, rates.credential_burst),
            per_share: Rate::new(rates.share_per_second, rates.share_burst),
            forms_per_respondent: Rate::new(rates.form_per_second, rates.form_burst),
            new_respondents_per_peer: NonZeroU32::new(rates.new_respondents_per_minute),
            leads_per_link: NonZeroU32::new(rates.leads_per_hour).zip(NonZeroU32::new(rates.leads_burst)),
            failures_per_peer: Rate::new(rates.failures_per_second, rates.failures_burst),
        },
        streams: StreamTimes {
            stall_max: streams.stall.0,
            drain_bytes_per_second_min: streams.drain_bytes_per_second,
            drain_window: streams.drain_window.0,
            ..StreamTimes::default()
        },
        stream_budget: caps::stream_budget(streams, files),
        connections: caps::connections(&config.connections, files),
        trusted_proxies: caps::trusted_proxies(config.trusted_proxies.as_deref())?,
        sweep_every: config.work.sweep_every.0,
        keep_every: config.talk.sweep_every.0,
        // With several nodes the others continue open sittings; a store of its own has no other node.
        finalize_max: match config.store.0 {
            Place::Postgres(_) => Duration::ZERO,
            Place::Directory(_) | Place::Memory => config.talk.finalize_on_shutdown.0,
        },
        drain_max: config.shutdown.drain.0,
        ..ServerConfig::default()
    })
}

fn address(text: &str) -> Result<SocketAddr> {
    let wrong = || Failure::usage(format!("`listen` is `{text}`, which is no address; write HOST:PORT"));
    text.to_socket_addrs().map_err(|_| wrong())?.next().ok_or_else(wrong)
}

fn auth(config: &Config) -> Result<Auth> {
    match config.auth {
        AuthKind::Local => Ok(Auth::Local),
        AuthKind::Keys => Ok(Auth::Keys),
        AuthKind::Jwt => {
            let Jwt { issuer, audience, .. } = config.jwt.clone();
            Ok(Auth::Jwt(JwtConfig { issuer, audience, ..JwtConfig::new(token_keys(&config.jwt)?) }))
        }
    }
}

fn token_keys(jwt: &Jwt) -> Result<JwtKeys> {
    match (&jwt.secret_file, &jwt.jwks_file, &jwt.jwks_url) {
        (Some(path), None, None) => {
            let secret = std::fs::read(path).map_err(|error| {
                Failure::usage(format!("the file {} cannot be read: {error}", path.display()))
            })?;
            Ok(JwtKeys::Secret(secret.trim_ascii().to_owned()))
        }
        (None, Some(path), None) => Ok(JwtKeys::JwksFile(path.clone())),
        (None, None, Some(url)) => Ok(JwtKeys::JwksUrl(url.clone())),
        _ => Err(Failure::usage(
            "with `auth = jwt`, set one of `jwt.secret_file`, `jwt.jwks_file` and `jwt.jwks_url`",
        )),
    }
}

fn refused(error: ConfigError) -> Failure {
    match &error {
        ConfigError::OpenToStrangers(_)
        | ConfigError::PublicWithoutAuth(_)
        | ConfigError::PublicUrl(_)
        | ConfigError::ProxyWithoutAuth
        | ConfigError::Outbound(_)
        | ConfigError::Jwt(_) => Failure::usage(error.to_string()),
        ConfigError::Listen(..) => Failure::new(Exit::Error, "io", error.to_string())
            .hint("choose another address with --listen, or stop what listens there"),
    }
}

/// Starts the log on stderr. `RUST_LOG` takes precedence over `level`.
pub fn start_log(format: LogFormat, level: &str) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{level},rmcp=off")));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // The reader of the log may be gone; reporting that on the same stderr would panic.
        .log_internal_errors(false);
    // A second start in one process keeps the first log.
    let _ = match format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

/// Without a recorder the server still serves, but has no metrics.
fn start_metrics() -> Option<metrics_exporter_prometheus::PrometheusHandle> {
    sederunt_server::recorder().and_then(|recorder| recorder.install_recorder()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_numbers_or_a_name_with_a_port() {
        assert_eq!(address("127.0.0.1:7070").unwrap().port(), 7070);
        assert!(address("localhost:0").unwrap().ip().is_loopback());
        for bad in ["", "7070", "127.0.0.1", "127.0.0.1:port"] {
            assert_eq!(address(bad).unwrap_err().exit(), Exit::Usage, "{bad}");
        }
    }
}
