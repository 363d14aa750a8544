//! `mcp`: the tools and resources of a server on stdin and stdout. Only a pipe: it passes requests to the server's
//! `/mcp` over one connection that is kept open.
//!
//! The server may belong to another process that ends before this one. Then the next request finds or starts another;
//! a call that was cut short is made once more under the same key, so that it has one effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

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
use sederunt_core::ids::random_hex;
use sederunt_server::client::Client;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::args::Door;
use crate::commands::Scene;
use crate::exit::{Exit, Failure, Result};
use crate::host::{Host, Lasts, Wish};
use crate::serve::{Signals, start_log};

/// How long to look for another server before a request is given up.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub async fn run(scene: Scene, door: Door) -> Result<()> {
    start_log(scene.config.log, "warn");
    let mut signals = Signals::new()?;
    let pipe = Arc::new(Pipe::open(scene, door).await?);
    let serving = async {
        match serve_server(pipe.clone(), stdio_pipes()).await {
            Ok(serving) => {
                let _ = serving.waiting().await;
                Ok(())
            }
            // The client closed its side before it began.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(Failure::usage(format!("what came in is not MCP: {error}"))),
        }
    };
    let done = tokio::select! {
        done = serving => done,
        () = signals.next() => Ok(()),
    };
    pipe.close().await;
    done
}

/// The connection to a server, which may change.
struct Pipe {
    scene: Scene,
    door: Door,
    /// How the server introduced itself.
    info: ServerConfig,
    way: Mutex<Option<Way>>,
}

/// A server, and the connection to it.
struct Way {
    host: Host,
    line: Arc<Line>,
}

type Line = RunningService<RoleClient, ClientConfig>;

/// Why a request has no answer.
enum Broke {
    /// The server answered with an error.
    Said(ErrorData),
    /// No server answers.
    Lost(Failure),
}

impl From<Failure> for Broke {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

impl From<ServiceError> for Broke {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::Said(error),
            error => Self::Lost(Failure::unavailable(format!("the server does not answer: {error}"))),
        }
    }
}

impl From<Broke> for ErrorData {
    fn from(broke: Broke) -> Self {
        match broke {
            Broke::Said(error) => error,
            Broke::Lost(failure) => Self::internal_error(failure.sentence().to_owned(), None),
        }
    }
}

impl Pipe {
    async fn open(scene: Scene, door: Door) -> Result<Self> {
        let way = Self::find(&scene, &door).await?;
        let mut info = ServerConfig::default();
        if let Some(said) = way.line.peer_info() {
            info.capabilities = said.capabilities.clone();
            info.instructions = said.instructions.clone();
            info.server_info = said.server_info.clone().unwrap_or(info.server_info);
        }
        Ok(Self { scene, door, info, way: Mutex::new(Some(way)) })
    }

    /// Finds a server and connects to it. A server that is shutting down is skipped.
    async fn find(scene: &Scene, door: &Door) -> Result<Way> {
        // Another server may replace one that shuts down, unless this one was named.
        let patience = if scene.global.server.is_some() { Duration::ZERO } else { PATIENCE };
        let since = Instant::now();
        loop {
            let host = match Host::find(scene, Wish { door, incognito: false, lasts: Lasts::Beyond }).await {
                // Another process may have opened the store and not serve yet.
                Err(failure) if failure.exit() != Exit::Usage && since.elapsed() < patience => {
                    tokio::time::sleep(LOOK_EVERY).await;
                    continue;
                }
                found => found?,
            };
            match dial(&host.client).await {
                Ok(line) => return Ok(Way { host, line: Arc::new(line) }),
                Err(failure) => {
                    host.close().await;
                    if failure.exit() != Exit::Unavailable || since.elapsed() >= patience {
                        return Err(failure);
                    }
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    /// The open connection. A caller whose connection broke names it, and gets a new one.
    async fn line(&self, broken: Option<&Arc<Line>>) -> Result<Arc<Line>> {
        let mut way = self.way.lock().await;
        if let Some(Way { line, .. }) = &*way
            && !broken.is_some_and(|broken| Arc::ptr_eq(broken, line))
        {
            return Ok(line.clone());
        }
        let found = match way.take() {
            // Our own server has not ended: only the connection to it has.
            Some(ours) if ours.host.is_ours() => {
                let ours = way.insert(ours);
                ours.line = Arc::new(dial(&ours.host.client).await?);
                return Ok(ours.line.clone());
            }
            _ => Self::find(&self.scene, &self.door).await?,
        };
        let line = found.line.clone();
        *way = Some(found);
        Ok(line)
    }

    /// Passes on one request; once more if the connection broke.
    async fn hand_on<T, F>(&self, ask: impl Fn(Arc<Line>) -> F + Send) -> Result<T, Broke>
    where
        F: Future<Output = Result<T, ServiceError>> + Send,
        T: Send,
    {
        let line = self.line(None).await?;
        match ask(line.clone()).await {
            Ok(answer) => Ok(answer),
            Err(ServiceError::McpError(error)) => Err(Broke::Said(error)),
            Err(_) => Ok(ask(self.line(Some(&line)).await?).await?),
        }
    }

    async fn close(&self) {
        if let Some(Way { host, line }) = self.way.lock().await.take() {
            drop(line);
            host.close().await;
        }
    }
}

/// Connects to a server.
async fn dial(client: &Client) -> Result<Line> {
    let (http, url, headers) = client.way_to("/mcp")?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.custom_headers = headers.into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
    // A broken connection is reported at once; this pipe opens the next one.
    config.retry_config = Arc::new(NeverRetry::default());
    let us = Implementation::new("sederunt", env!("CARGO_PKG_VERSION"));
    let us = ClientConfig::new(ClientCapabilities::default(), us);
    match serve_client(us, StreamableHttpClientTransport::with_client(http, config)).await {
        Ok(line) => Ok(line),
        // A plain request gets a clearer error.
        Err(error) => Err(match client.post::<Value>("/mcp", &json!({})).await {
            Err(refused) if !matches!(refused, sederunt_server::client::Error::Strange(_)) => refused.into(),
            _ => Failure::unavailable(format!("the server does not speak MCP: {error}")),
        }),
    }
}

impl ServerHandler for Pipe {
    fn get_info(&self) -> ServerConfig {
        self.info.clone()
    }

    async fn ping(&self, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let ping = |line: Arc<Line>| async move {
            line.send_request(ClientRequest::PingRequest(PingRequest::default())).await.map(drop)
        };
        Ok(self.hand_on(ping).await?)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let page = &plain(page);
        Ok(self.hand_on(|line| async move { line.list_tools(page.clone()).await }).await?)
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
        match self.hand_on(|line| async move { line.call_tool(call.clone()).await }).await {
            Ok(result) => Ok(result.into()),
            Err(Broke::Said(error)) => Err(error),
            Err(Broke::Lost(failure)) => Ok(lost(&failure).into()),
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let page = &plain(page);
        Ok(self.hand_on(|line| async move { line.list_resources(page.clone()).await }).await?)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let page = &plain(page);
        Ok(self.hand_on(|line| async move { line.list_resource_templates(page.clone()).await }).await?)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let wish = &ReadResourceRequestParams::new(request.uri);
        Ok(self.hand_on(|line| async move { line.read_resource(wish.clone()).await }).await?.into())
    }
}

/// The pagination of a request, without the client's metadata.
fn plain(page: Option<PaginatedRequestParams>) -> Option<PaginatedRequestParams> {
    page.map(|page| PaginatedRequestParams::default().with_cursor(page.cursor))
}

/// What a tool answers when there is no server to ask.
fn lost(failure: &Failure) -> CallToolResult {
    let (code, sentence) = (failure.code(), failure.sentence());
    let mut result = CallToolResult::error(vec![ContentBlock::text(sentence)]);
    result.structured_content = Some(json!({ "error": { "code": code, "message": sentence } }));
    result
}
