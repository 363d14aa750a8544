//! A bare fan-out: axum, one tokio broadcast channel, a server-sent-event body per subscriber. No log, no access, no
//! resume, no heartbeat. Runs as a process of its own, like the server that it is compared with.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::broadcast;

/// Deep enough that the load generator's window never overruns it.
const CHANNEL_EVENTS: usize = 4_096;

struct Shared {
    events: broadcast::Sender<Bytes>,
    /// Held while an event is sent, so that sequences go out in order.
    sequence: Mutex<u64>,
}

/// Serves until it is killed; prints where it listens.
pub fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (events, _) = broadcast::channel(CHANNEL_EVENTS);
        let shared = Arc::new(Shared { events, sequence: Mutex::new(0) });
        let router = Router::new()
            .route("/publish", post(publish))
            .route("/stream", get(subscribe))
            .with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on http://{}", listener.local_addr()?);
        axum::serve(listener, router).await?;
        Ok(())
    })
}

async fn publish(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let sequence = {
        let mut last = shared.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        let mut frame = format!("id: {last}\ndata: ").into_bytes();
        frame.extend_from_slice(&body);
        frame.extend_from_slice(b"\n\n");
        let _ = shared.events.send(frame.into());
        *last
    };
    (StatusCode::CREATED, format!(r#"{{"last_sequence":{sequence}}}"#)).into_response()
}

async fn subscribe(State(shared): State<Arc<Shared>>) -> Response {
    let receiver = shared.events.subscribe();
    let ready = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"event: ready\ndata: {}\n\n"))]);
    let live = stream::unfold(receiver, |mut receiver| async move {
        // A subscriber that fell behind the channel is cut: its client notices.
        receiver.recv().await.ok().map(|frame| (Ok(frame), receiver))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(ready, live));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
