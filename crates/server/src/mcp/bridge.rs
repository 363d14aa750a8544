//! The tools and resources of a server on stdin and stdout. Only a bridge: it passes requests to the server's `/mcp`
//! over one connection (a line) that is kept open, and asks for another one when that broke. A call that was cut short
//! is made once more under the same key, so that it has one effect.
//!
//! The functions are boxed, so that the protocol's code is compiled in this crate and not again in its callers.

use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    ContentBlock, ErrorData, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, PingRequest, ReadResourceRequestParams, ReadResourceResponse,
    RequestMetaObject, ServerConfig,
};
use rmcp::service::{RequestContext, RunningService, ServerInitializeError, serve_client, serve_server};
use rmcp::transport::common::client_side_sse::NeverRetry;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, stdio_pipes};
use rmcp::{RoleClient, RoleServer, ServerHandler, ServiceError};
use sederunt_agents::tool::mcp::IDEMPOTENCY_KEY;
use sederunt_api::client::{Client, Error};
use sederunt_core::ids::random_hex;
use serde_json::{Value, json};

use super::PATH;

pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An open connection to a server.
#[derive(Clone, Debug)]
pub struct Line(Arc<RunningService<RoleClient, ClientConfig>>);

impl Line {
    /// Whether both are the same connection.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Why no connection was opened.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The server's answer to a plain request.
    #[error(transparent)]
    Refused(Error),
    #[error("the server does not speak MCP: {0}")]
    NotMcp(String),
}

/// The source of the bridge's connections.
pub trait Lines: Send + Sync {
    /// The open connection. A caller whose connection broke names it, and gets a new one.
    fn line<'a>(&'a self, broken: Option<&'a Line>) -> Boxed<'a, Result<Line, Lost>>;
}

/// No server answers: the reason as a code and as a sentence.
#[derive(Clone, Debug)]
pub struct Lost {
    pub code: String,
    pub sentence: String,
}

/// Connects to a server.
pub fn dial(client: &Client) -> Boxed<'_, Result<Line, DialError>> {
    Box::pin(async move {
        let (http, url, headers) = client.connection_to(PATH).map_err(DialError::Refused)?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.custom_headers =
            headers.into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
        // A broken connection is reported at once; the bridge opens the next one.
        config.retry_config = Arc::new(NeverRetry::default());
        let us = Implementation::new("sederunt", env!("CARGO_PKG_VERSION"));
        let us = ClientConfig::new(ClientCapabilities::default(), us);
        match serve_client(us, StreamableHttpClientTransport::with_client(http, config)).await {
            Ok(line) => Ok(Line(Arc::new(line))),
            // A plain request gets a clearer error.
            Err(error) => Err(match client.post::<Value>(PATH, &json!({})).await {
                Err(refused) if !matches!(refused, Error::Strange(_)) => DialError::Refused(refused),
                _ => DialError::NotMcp(error.to_string()),
            }),
        }
    })
}

/// Answers on stdin and stdout as the server behind this connection, until they are closed. The error says what came
/// in that is not MCP.
pub fn serve_stdio(first: &Line, lines: Arc<dyn Lines>) -> Boxed<'static, Result<(), String>> {
    let mut info = ServerConfig::default();
    if let Some(said) = first.0.peer_info() {
        info.capabilities = said.capabilities.clone();
        info.instructions = said.instructions.clone();
        info.server_info = said.server_info.clone().unwrap_or(info.server_info);
    }
    let bridge = Bridge { info, lines };
    Box::pin(async move {
        match serve_server(bridge, stdio_pipes()).await {
            Ok(serving) => {
                let _ = serving.waiting().await;
                Ok(())
            }
            // The client closed its side before it began.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
}

struct Bridge {
    /// How the server introduced itself.
    info: ServerConfig,
    lines: Arc<dyn Lines>,
}

/// Why a request has no answer.
enum Broke {
    /// The server answered with an error.
    Said(ErrorData),
    Lost(Lost),
}

impl From<Lost> for Broke {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<ServiceError> for Broke {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::Said(error),
            error => {
                let sentence = format!("the server does not answer: {error}");
                Self::Lost(Lost { code: "unavailable".to_owned(), sentence })
            }
        }
    }
}

impl From<Broke> for ErrorData {
    fn from(broke: Broke) -> Self {
        match broke {
            Broke::Said(error) => error,
            Broke::Lost(lost) => Self::internal_error(lost.sentence, None),
        }
    }
}

impl Bridge {
    /// Passes on one request; once more if the connection broke.
    async fn hand_on<T, F>(&self, ask: impl Fn(Line) -> F + Send) -> Result<T, Broke>
    where
        F: Future<Output = Result<T, ServiceError>> + Send,
        T: Send,
    {
        let line = self.lines.line(None).await?;
        match ask(line.clone()).await {
            Ok(answer) => Ok(answer),
            Err(ServiceError::McpError(error)) => Err(Broke::Said(error)),
            Err(_) => Ok(ask(self.lines.line(Some(&line)).await?).await?),
        }
    }
}

impl ServerHandler for Bridge {
    fn get_info(&self) -> ServerConfig {
        self.info.clone()
    }

    async fn ping(&self, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let ping = |line: Line| async move {
            line.0.send_request(ClientRequest::PingRequest(PingRequest::default())).await.map(drop)
        };
        Ok(self.hand_on(ping).await?)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let page = &plain(page);
        Ok(self.hand_on(|line| async move { line.0.list_tools(page.clone()).await }).await?)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut call = CallToolRequestParams::new(request.name);
        call.arguments = request.arguments;
        let key = context.meta.get(IDEMPOTENCY_KEY).cloned();
        let key = key.unwrap_or_else(|| random_hex::<16>().into());
        let meta = call.meta.get_or_insert_with(RequestMetaObject::new);
        meta.insert(IDEMPOTENCY_KEY.to_owned(), key);
        let call = &call;
        match self.hand_on(|line| async move { line.0.call_tool(call.clone()).await }).await {
            Ok(result) => Ok(result.into()),
            Err(Broke::Said(error)) => Err(error),
            Err(Broke::Lost(lost)) => Ok(unanswered(&lost).into()),
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let page = &plain(page);
        Ok(self.hand_on(|line| async move { line.0.list_resources(page.clone()).await }).await?)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let page = &plain(page);
        Ok(self.hand_on(|line| async move { line.0.list_resource_templates(page.clone()).await }).await?)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let wish = &ReadResourceRequestParams::new(request.uri);
        Ok(self.hand_on(|line| async move { line.0.read_resource(wish.clone()).await }).await?.into())
    }
}

/// The pagination of a request, without the client's metadata.
fn plain(page: Option<PaginatedRequestParams>) -> Option<PaginatedRequestParams> {
    page.map(|page| PaginatedRequestParams::default().with_cursor(page.cursor))
}

/// What a tool answers when there is no server to ask.
fn unanswered(Lost { code, sentence }: &Lost) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(sentence)]);
    result.structured_content = Some(json!({ "error": { "code": code, "message": sentence } }));
    result
}
