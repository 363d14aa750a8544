//! Bare batches behind a bare route: axum, and what it takes from a request goes into a batch as it came. No access, no
//! rules, no tenants, no index; the answer is one number. Whatever stands behind HTTP on the same machine has this above it.

use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;

use super::postgres::Batches;

/// Serves until it is killed; prints where it listens.
pub fn serve(url: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let batches = Arc::new(Batches::open(url).await?);
        let router = Router::new().route("/api/sessions/{name}/events", post(append)).with_state(batches);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on http://{}", listener.local_addr()?);
        axum::serve(listener, router).await?;
        Ok(())
    })
}

async fn append(State(batches): State<Arc<Batches>>, Path(name): Path<String>, body: String) -> StatusCode {
    let Some(session) = name.strip_prefix('s').and_then(|number| number.parse().ok()) else {
        return StatusCode::NOT_FOUND;
    };
    match batches.append(session, body.into()).await {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
