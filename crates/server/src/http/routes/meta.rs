//! The server itself: liveness, readiness, the OpenAPI document, metrics.

use axum::Json;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use sederunt_core::Error;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::query::Params;
use crate::http::{App, JSON, page, spec, web_app};
use crate::metrics;

/// A sign of life.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    pub status: String,
    pub version: String,
}

fn healthy() -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Check that the process is alive
#[utoipa::path(
    get, path = "/healthz", operation_id = "health", tag = "server", security(()),
    responses((status = 200, description = "Alive", body = Health))
)]
pub async fn health(Params(()): Params<()>) -> Json<Health> {
    healthy()
}

/// Check that the store answers
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "server", security(()),
    responses((status = 200, description = "Ready", body = Health))
)]
pub async fn ready(State(app): State<App>, Params(()): Params<()>) -> Result<Json<Health>> {
    app.engine.ready().await?;
    Ok(healthy())
}

/// Read metrics
///
/// With authentication only the operator may read them: they count over all tenants.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses((status = 200, description = "In Prometheus' text format", body = String,
        content_type = "text/plain; version=0.0.4; charset=utf-8"))
)]
pub async fn figures(State(app): State<App>, caller: Caller, Params(()): Params<()>) -> Result<Response> {
    if app.local.is_none() && !caller.is_operator {
        return Err(Error::denied("only the operator of this installation may do this").into());
    }
    let handle = app.metrics.as_ref().ok_or(Error::NotFound)?;
    let (logs, readers) = app.engine.hub().audience();
    metrics::audience(logs, readers);
    let mut response = handle.render().into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Read this document
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "server", security(()),
    responses((status = 200, description = "The OpenAPI document", body = Object))
)]
pub async fn document(Params(()): Params<()>) -> Response {
    let mut response = spec::document().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Read the home page
///
/// The page of the web app. A build without it, and a program that mounts these routes among its own, shows a page that
/// says what runs here.
#[utoipa::path(
    get, path = "/", operation_id = "home", tag = "server", security(()),
    responses((status = 200, description = "An HTML page for people", body = String, content_type = "text/html; charset=utf-8"))
)]
pub async fn home(State(app): State<App>, headers: HeaderMap) -> Response {
    if let Some(page) = app.shows_app.then(|| web_app::index(&headers)).flatten() {
        return page;
    }
    let mut response = Html(page::home(&app.about)).into_response();
    let headers = response.headers_mut();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
                  frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
