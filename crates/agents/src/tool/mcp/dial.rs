//! Opens a connection to an MCP server.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::common::client_side_sse::NeverRetry;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use secrecy::{ExposeSecret, SecretString};
use tokio::process::Command;

use super::super::http::{Secrets, fill, filled};
use super::elicitation::McpClient;
use super::{BadTool, Error, Transport};
use crate::outbound::Outbound;

pub(super) type Line = RunningService<RoleClient, McpClient>;

/// A transport with its secrets filled in.
pub(super) enum Dial {
    Child { command: String, args: Vec<String>, env: Vec<(String, SecretString)> },
    Http { url: String, headers: HashMap<HeaderName, HeaderValue>, outbound: Outbound },
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Child { command, .. } => {
                f.debug_struct("Child").field("command", command).finish_non_exhaustive()
            }
            Self::Http { url, .. } => f.debug_struct("Http").field("url", url).finish_non_exhaustive(),
        }
    }
}

impl Dial {
    pub fn new(name: &str, to: Transport, secrets: &Secrets, outbound: &Outbound) -> Result<Self, BadTool> {
        match to {
            Transport::Stdio { command, args, env } => {
                let env = env.into_iter().map(|(key, value)| match fill(&value, secrets) {
                    Ok(value) => Ok((key, SecretString::from(value))),
                    Err(secret) => Err(BadTool::Secret { name: name.to_owned(), secret: secret.to_owned() }),
                });
                Ok(Self::Child { command, args, env: env.collect::<Result<_, _>>()? })
            }
            Transport::Http { url, headers } => {
                outbound.check(&url).map_err(|why| BadTool::Address { name: name.to_owned(), why })?;
                let headers = filled(name, &headers, secrets)?;
                let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                Ok(Self::Http { url, headers, outbound: outbound.clone() })
            }
        }
    }

    /// Opens a connection in the newest form of the protocol that the server speaks.
    pub async fn open(&self) -> Result<Line, Error> {
        let newest = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        match self.open_as(newest).await {
            // A server of before may hang up on what it does not know.
            Err(_) => self.open_as(ClientLifecycleMode::Initialize).await,
            opened => opened,
        }
    }

    async fn open_as(&self, lifecycle: ClientLifecycleMode) -> Result<Line, Error> {
        let client = McpClient::default();
        let opened = match self {
            Self::Child { command, args, env } => {
                let mut child = Command::new(command);
                let env = env.iter().map(|(key, value)| (key, value.expose_secret()));
                child.args(args).env_clear().envs(env).kill_on_drop(true);
                let transport = TokioChildProcess::builder(child).stderr(Stdio::null()).spawn();
                let (transport, _) = transport.map_err(|_| Error::Unreachable)?;
                serve_client_with_lifecycle(client, transport, lifecycle).await
            }
            Self::Http { url, headers, outbound } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.custom_headers = headers.clone();
                // A broken stream is reported at once; the next call opens another connection.
                config.retry_config = Arc::new(NeverRetry::default());
                let transport = StreamableHttpClientTransport::with_client(outbound.client(), config);
                serve_client_with_lifecycle(client, transport, lifecycle).await
            }
        };
        opened.map_err(|error| match error {
            ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
                Error::Unreachable
            }
            _ => Error::Malformed { what: "not an MCP server that we understand" },
        })
    }
}
