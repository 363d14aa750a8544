//! The MCP surface, at `/mcp`: tools and resources over the same engine as every other surface.
//!
//! Every request is independent: the middleware has authenticated the caller, the tool calls the engine, and no state is
//! kept. That is what the protocol asks for since 2026-07-28, and what it allows before: clients of the older
//! versions introduce themselves and get no session. So any node answers any request, a restart forgets nothing, and
//! nothing is keyed on `Mcp-Session-Id`.
//!
//! The engine's refusals are results of a tool ([`answer`]); the protocol's own errors are for invalid requests.
//! Tools are listed in [`tool`], one file for each group of them.

mod answer;
pub mod bridge;
mod feedback;
mod handler;
mod lessons;
mod resources;
mod schema;
mod tasks;
mod tool;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rmcp::model::ErrorData;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sederunt_core::{Error, limits};

use self::handler::Handler;
use crate::http::App;
use crate::http::body::Text;
use crate::http::error::RequestError;
use crate::http::origin::{another_site, origin_of};

pub const PATH: &str = "/mcp";

/// The names of all tools.
#[cfg(test)]
pub fn tool_names() -> Vec<String> {
    tool::all().iter().map(|tool| tool.shown.name.to_string()).collect()
}

/// The surface.
#[derive(Clone)]
pub struct Mcp {
    app: App,
    service: StreamableHttpService<Handler, NeverSessionManager>,
}

impl Mcp {
    pub fn new(app: App) -> Self {
        // The middleware knows who may call, and by which name; the SDK would check again, and know less.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_sse_keep_alive(None)
            .with_max_request_body_bytes(limits::BODY_BYTES_MAX)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let handler = Handler { app: app.clone() };
        let service = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        Self { app, service }
    }

    /// Answers one request that the middleware has let in.
    pub async fn answer(self, request: Request) -> Response {
        if let Err(refused) = self.check_origin(request.headers()) {
            return RequestError::from(refused).into_response();
        }
        let (parts, body) = request.into_parts();
        let text = match Text::read(&parts, body).await {
            Ok(text) => text.text,
            Err(RequestError::Core(Error::BadJson(why))) => {
                return answer::unreadable(ErrorData::parse_error(why, None));
            }
            Err(refused @ RequestError::Core(Error::Invalid { .. })) => {
                return answer::unreadable(ErrorData::invalid_request(refused.message(), None));
            }
            Err(refused) => return refused.into_response(),
        };
        let answered = self.service.handle(Request::from_parts(parts, Body::from(text))).await;
        if answered.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // It is valid JSON, as checked above, but no message of the protocol.
            return answer::unreadable(ErrorData::invalid_request(
                "the body is no JSON-RPC message of MCP", None,
            ));
        }
        answered.map(Body::new)
    }

    /// Refuses pages of other sites. On a server without authentication the middleware has done so.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Error> {
        let own = |origin: &HeaderValue| origin.as_bytes() == origin_of(&self.app.about.base_url).as_bytes();
        if self.app.local.is_some() || headers.get_all(header::ORIGIN).iter().all(own) {
            return Ok(());
        }
        Err(another_site())
    }
}
