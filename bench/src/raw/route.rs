//! Bare batches behind a bare route: axum puts what a request carries into a batch unchanged. No access, no rules, no
//! tenants, no index; the answer is one number. It is the upper bound for any server behind HTTP on the same machine.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::{Path as At, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::value::RawValue;

use super::postgres::Batches;
use super::sqlite::Writer;

/// The baseline behind the route.
enum Bare {
    Postgres(Batches),
    Sqlite(Writer),
}

/// Serves until it is killed; prints where it listens.
pub fn serve(url: &str, lanes: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let bare = if url.starts_with("postgres:") {
            Bare::Postgres(Batches::open(url, lanes).await?)
        } else {
            Bare::Sqlite(Writer::start(Path::new(url))?)
        };
        let router =
            Router::new().route("/api/sessions/{name}/events", post(append)).with_state(Arc::new(bare));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on http://{}", listener.local_addr()?);
        axum::serve(listener, router).await?;
        Ok(())
    })
}

async fn append(State(bare): State<Arc<Bare>>, At(name): At<String>, body: String) -> StatusCode {
    let Some(session) = name.strip_prefix('s').and_then(|number| number.parse().ok()) else {
        return StatusCode::NOT_FOUND;
    };
    let done = match &*bare {
        Bare::Postgres(batches) => batches.append(session, body.into()).await,
        Bare::Sqlite(writer) => match contents(&body) {
            Ok(contents) => writer.append(session, contents).await,
            Err(_) => return StatusCode::BAD_REQUEST,
        },
    };
    match done {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[derive(serde::Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    events: Vec<Said<'a>>,
}

#[derive(serde::Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

/// The content of each event of a request, unchanged.
fn contents(body: &str) -> Result<Vec<Arc<str>>> {
    let body: Body<'_> = serde_json::from_str(body)?;
    Ok(body.events.iter().map(|event| event.content.get().into()).collect())
}
