//! Ways to the database: plain on loopback, TLS elsewhere; one pool per role.
//!
//! A pooled connection takes its role and its search path once, after connecting, and keeps them:
//! what differs from one transaction to the next is set inside the transaction alone.

use std::future::poll_fn;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use sederunt_core::Error;
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{Fault, Result};

/// How long a caller waits for a connection before it is told that the store cannot answer.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long one statement may run; deletions of whole sessions are given more.
const STATEMENT_MAX: Duration = Duration::from_secs(10);
/// How long a batch waits for the lock of a session.
const LOCK_MAX: Duration = Duration::from_secs(3);
/// How long sent bytes may stay unanswered by the other machine.
const SILENCE_MAX: Duration = Duration::from_secs(8);

/// The roles that a connection may take. None of them owns a table or may bypass its policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Everything of one tenant.
    App,
    /// Keys and states of all tenants.
    Scan,
    /// Plain appends to the tenants of a batch.
    Append,
    /// Numbers of documents with certain words.
    Find,
    /// The text of unfinished replies, of the tenants of a burst.
    Relay,
}

impl Role {
    pub(super) const ALL: [Self; 5] = [Self::App, Self::Scan, Self::Append, Self::Find, Self::Relay];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::App => "sederunt_app",
            Self::Scan => "sederunt_scan",
            Self::Append => "sederunt_append",
            Self::Find => "sederunt_find",
            Self::Relay => "sederunt_relay",
        }
    }
}

/// The schema of a store, and those beside it of what is kept apart.
pub(super) fn schemas(schema: &str) -> [String; 4] {
    ["", "_memory", "_crisis", "_feedback"].map(|apart| format!("{schema}{apart}"))
}

/// A database, and how to reach it.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    pub(super) schema: Arc<str>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("schema", &self.schema).field("tls", &self.tls.is_some()).finish()
    }
}

impl Address {
    pub(super) fn parse(url: &str, schema: &str) -> Result<Self, Error> {
        let wrong = |error: tokio_postgres::Error| {
            Error::invalid("store", format!("is no PostgreSQL address: {error}"))
        };
        let mut config = Config::from_str(url).map_err(wrong)?;
        let plain_name = schema.len() <= 48
            && schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !plain_name || schema.starts_with("pg_") {
            return Err(Error::invalid("schema", "must be 1 to 48 lower-case letters, digits and `_`"));
        }
        config
            .connect_timeout(CONNECT_MAX)
            .keepalives_idle(Duration::from_secs(30))
            .tcp_user_timeout(SILENCE_MAX)
            .application_name(format!("sederunt {schema}"));
        let wanted = match config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Prefer => !config.get_hosts().iter().all(is_near),
            _ => true,
        };
        Ok(Self { config, tls: wanted.then(rustls).transpose()?, schema: schema.into() })
    }

    /// What a fresh connection is told, besides its role.
    fn settings(&self) -> String {
        format!(
            "SET search_path TO {}; SET statement_timeout TO {}; SET standard_conforming_strings TO on; \
             SET idle_in_transaction_session_timeout TO {}; ",
            schemas(&self.schema).join(", "),
            STATEMENT_MAX.as_millis(),
            (STATEMENT_MAX * 2).as_millis()
        )
    }

    /// A pool of connections that have taken a role.
    pub(super) fn pool(&self, role: Role, size: usize) -> Result<Pool, Error> {
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match &self.tls {
            Some(tls) => Manager::from_config(self.config.clone(), tls.clone(), manager_config),
            None => Manager::from_config(self.config.clone(), NoTls, manager_config),
        };
        let mut settings = self.settings();
        if matches!(role, Role::App | Role::Append) {
            // Their statements go by key, for tenants of any size: planned once, for the average tenant. A plan for
            // the tenant at hand takes one that is younger than the statistics for empty, and then any index is
            // as good as the right one.
            settings.push_str("SET plan_cache_mode TO force_generic_plan; ");
            // No statement of theirs runs as long as it takes to compile one.
            settings.push_str("SET jit TO off; ");
            for way in ["seqscan", "hashjoin", "mergejoin", "bitmapscan", "material"] {
                settings.push_str(&format!("SET enable_{way} TO off; "));
            }
            // What counts is how many rows a way looks at, also while there are few: a way that looks at all of them is planned
            // once and kept while they become many.
            for (cost, units) in
                [("cpu_tuple_cost", 1.0), ("cpu_index_tuple_cost", 1.0), ("random_page_cost", 0.1)]
            {
                settings.push_str(&format!("SET {cost} TO {units}; "));
            }
            // A batch asks for each key once. Version 13 has no such way.
            settings.push_str(
                "SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_memoize'; ",
            );
        }
        if role == Role::Scan {
            // It reads and notifies; nothing that it does has to outlive a crash.
            settings.push_str("SET synchronous_commit TO off; ");
        }
        if role == Role::Append {
            // One session that is held by somebody must not hold up the rest of a batch for long.
            settings.push_str(&format!("SET lock_timeout TO {}; ", LOCK_MAX.as_millis()));
        }
        settings.push_str(&format!("SET ROLE {}", role.name()));
        Pool::builder(manager)
            .max_size(size)
            // The connection that was used last has the warmest caches.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(CONNECT_MAX))
            .create_timeout(Some(CONNECT_MAX))
            .recycle_timeout(Some(CONNECT_MAX))
            .runtime(Runtime::Tokio1)
            .post_create(Hook::async_fn(move |client, _| {
                let settings = settings.clone();
                Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(Error::internal)
    }

    /// A connection outside the pools, as the login user, and what the server says on its own.
    pub(super) async fn alone(&self) -> Result<(Client, mpsc::UnboundedReceiver<String>)> {
        let (said, heard) = mpsc::unbounded_channel();
        let client = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                attend(connection, said);
                client
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                attend(connection, said);
                client
            }
        };
        client.batch_execute(&self.settings()).await.map_err(Fault::from)?;
        Ok((client, heard))
    }
}

/// Drives a connection and passes on the payloads of its notifications; the channel closes with it.
fn attend<S, T>(mut connection: tokio_postgres::Connection<S, T>, said: mpsc::UnboundedSender<String>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message
                && said.send(note.payload().to_owned()).is_err()
            {
                break;
            }
        }
    });
}

fn is_near(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    }
}

fn rustls() -> Result<MakeRustlsConnect, Error> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
