//! The HTTP surface: requests come in through the [`middleware`] and are translated in [`routes`]. Their JSON types are
//! [`sederunt_api::wire`].

pub mod auth;
pub mod body;
mod browser_cookie;
mod compress;
mod encode;
mod encoding;
pub mod error;
mod form;
mod from_agents;
mod jwt;
mod lease;
mod local;
pub mod middleware;
mod missing;
pub mod origin;
mod page;
mod path;
pub mod query;
mod rate;
mod refused_credentials;
pub mod request_id;
mod respondent;
pub mod rights;
mod router;
mod routes;
mod spec;
mod sse;
mod stall;
mod unread;
mod web_app;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use metrics_exporter_prometheus::PrometheusHandle;
use sederunt_agents::executor::Kit;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::Conversations;
use sederunt_core::engine::Engine;
use sederunt_core::live::budget::StreamBudget;
use sederunt_core::{Error, SessionId, TenantId};
use tokio::sync::watch;

pub use auth::CallerIdentity;
pub use middleware::{Peer, overloaded, tells_health};
pub use rate::FORGET_EVERY;
pub use refused_credentials::audit_refused;
pub use router::router;
pub use spec::openapi;
pub use stall::{DrainRule, Patient};
pub use unread::UnreadBody;

use crate::config::{ConfigError, ServerConfig};
use crate::metrics::Measures;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Everything that requests share.
#[derive(Clone, Debug)]
pub struct App(Arc<AppState>);

#[derive(Debug)]
pub struct AppState {
    pub engine: Engine,
    conversations: Option<Conversations>,
    pub auth: auth::Authenticator,
    pub counters: rate::Counters,
    pub stream_budget: Arc<StreamBudget>,
    pub measures: Measures,
    /// The names of the listener, on a server without authentication.
    pub local: Option<local::Names>,
    pub about: ServerInfo,
    /// How often a quiet stream sends a heartbeat.
    pub heartbeat: Duration,
    pub metrics: Option<PrometheusHandle>,
    pub phase: watch::Receiver<Phase>,
    /// Whether people who open the server in a browser are shown the web app.
    pub shows_app: bool,
}

/// What the server says of itself.
#[derive(Debug)]
pub struct ServerInfo {
    pub auth: &'static str,
    /// The kind and version of the database.
    pub store: String,
    /// Where clients reach this server.
    pub base_url: String,
}

/// The phase of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    /// Accepts nothing new; open requests may end.
    Draining,
    /// Open requests are dropped.
    Closed,
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// Conversations with only the built-in model, for a server without configured models.
pub fn plain_conversations(engine: &Engine) -> Result<Conversations, ConfigError> {
    let outbound =
        Outbound::new(Allow::default()).map_err(|error| ConfigError::Outbound(error.to_string()))?;
    let kit = Arc::new(Kit::plain(outbound));
    Ok(Conversations::new(engine.clone(), kit, sederunt_agents::talk::Settings::default()))
}

impl App {
    /// Without conversations in the configuration, this process runs none. The web app is shown where all paths of a
    /// listener are this server's: its pages have absolute addresses.
    pub fn new(
        engine: Engine,
        config: &ServerConfig,
        store: String,
        listener: std::net::SocketAddr,
        phase: watch::Receiver<Phase>,
        shows_app: bool,
    ) -> Result<Self, ConfigError> {
        let local = matches!(config.auth, crate::config::Auth::Local).then(|| local::Names::of(listener));
        let base_url = match &config.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{listener}"),
        };
        engine.hub().on_milestone(crate::metrics::milestone);
        Ok(Self(Arc::new(AppState {
            auth: auth::Authenticator::new(engine.clone(), config, &base_url)?,
            conversations: config.conversations.clone(),
            engine,
            counters: rate::Counters::new(config.rates),
            stream_budget: config.stream_budget.clone(),
            measures: Measures::new(),
            local,
            about: ServerInfo { auth: config.auth.name(), store, base_url },
            heartbeat: config.streams.heartbeat,
            metrics: config.metrics.clone(),
            phase,
            shows_app,
        })))
    }

    /// Runs conversations and draws lessons.
    pub fn conversations(&self) -> Result<&Conversations, Error> {
        let missing = || Error::unavailable(std::io::Error::other("this process holds no conversations"));
        self.conversations.as_ref().ok_or_else(missing)
    }

    /// Resumes a conversation after a decision. In a process that ends with its answer, the next server resumes it.
    pub fn go_on(&self, tenant: &TenantId, id: &SessionId) {
        if let Some(conversations) = &self.conversations {
            conversations.go_on(tenant, id);
        }
    }
}
