//! The handler that the SDK calls once for each request: it finds the caller, and passes the request on.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, Tool as ShownTool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use sederunt_agents::tool::mcp::IDEMPOTENCY_KEY;
use sederunt_core::Error;

use super::answer::refusal;
use super::tool::ToolCall;
use super::{answer, resources, tool};
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::idem_key;
use crate::http::middleware::panic_text;
use crate::http::request_id::RequestId;

const ABOUT: &str = "Sederunt keeps the sessions of agents and people: their logs, the work on tasks, and what was \
    learnt. Tools answer with the same JSON as the HTTP interface. A refusal is a result with `isError` and \
    `error.code`.";

/// Tools and resources over the engine.
#[derive(Clone, Debug)]
pub struct Handler {
    pub app: App,
}

/// What the middleware found out about the request.
struct Heard<'a> {
    caller: &'a Caller,
    request_id: &'a RequestId,
    headers: &'a HeaderMap,
}

impl Handler {
    fn hear(context: &RequestContext<RoleServer>) -> Result<Heard<'_>, ErrorData> {
        let heard = context.extensions.get::<Parts>().and_then(|parts| {
            let (caller, request_id) = (parts.extensions.get()?, parts.extensions.get()?);
            Some(Heard { caller, request_id, headers: &parts.headers })
        });
        heard.ok_or_else(|| ErrorData::internal_error("the request carries no credential", None))
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let us = Implementation::new("sederunt", env!("CARGO_PKG_VERSION"))
            .with_title("Sederunt")
            .with_website_url(env!("CARGO_PKG_REPOSITORY"));
        ServerConfig::new(can).with_server_info(us).with_instructions(ABOUT)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tool::all().iter().map(|tool| tool.shown.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<ShownTool> {
        tool::find(name).map(|tool| tool.shown.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Heard { caller, request_id, headers } = Self::hear(&context)?;
        let Some(tool) = tool::find(&request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let missing = answer::missing(request.arguments.as_ref());
        let called = async {
            // Canonical already, because the body was.
            let text =
                serde_json::to_string(&request.arguments.unwrap_or_default()).map_err(Error::internal)?;
            let given = match context.meta.get(IDEMPOTENCY_KEY) {
                Some(given) => Some(given.as_str().unwrap_or_default().as_bytes()),
                None => headers.get("idempotency-key").map(HeaderValue::as_bytes),
            };
            let line = format!("MCP {}", request.name);
            let key = match given {
                Some(given) => idem_key(caller, &line, given, &text)?,
                None => None,
            };
            tool.call(ToolCall { app: &self.app, caller, text: &text, key }).await
        };
        let called = match AssertUnwindSafe(called).catch_unwind().await {
            Ok(called) => called,
            Err(panic) => Err(Error::internal(panic_text(&*panic))),
        };
        Ok(match called {
            Ok(given) => answer::given(given),
            Err(error) => answer::refused(error, missing, request_id),
        }
        .into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let Heard { caller, request_id, .. } = Self::hear(&context)?;
        let cursor = request.and_then(|request| request.cursor);
        let listed = resources::list(&self.app.engine, &caller.actor, cursor.as_deref()).await;
        listed.map_err(|error| refusal(error, request_id))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Heard { caller, request_id, .. } = Self::hear(&context)?;
        let read = resources::read(&self.app.engine, &caller.actor, request.uri).await;
        read.map(Into::into).map_err(|error| refusal(error, request_id))
    }
}
