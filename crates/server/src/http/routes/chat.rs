//! Talk: a turn in a conversation, a stateless one, and one whose reply is streamed.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use sederunt_agents::talk::Progress;
use sederunt_api::wire::error::Envelope;
use sederunt_api::wire::talk::{ChatRequest, ChatResponse, TurnRequest};
use sederunt_core::engine::Post;
use sederunt_core::{Error, SessionId, limits};
use serde_json::json;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::{RequestError, Result};
use crate::http::from_agents::{chat_response, stateless_response, turn_messages};
use crate::http::lease::Leased;
use crate::http::query::Params;

/// Run a stateless turn
#[utoipa::path(
    post, path = "/api/turn", operation_id = "turn", tag = "talk", request_body = TurnRequest,
    responses((status = 200, description = "The reply", body = ChatResponse))
)]
pub async fn turn(
    State(app): State<App>,
    caller: Caller,
    input: Input<TurnRequest>,
) -> Result<Json<ChatResponse>> {
    let model = input.body.model.clone();
    let messages = turn_messages(input.body);
    let answer = app.conversations()?.run_agent(&caller.actor, &messages, model.as_deref()).await?;
    Ok(Json(stateless_response(answer)?))
}

/// Send a message and wait for the reply
///
/// Appends the message, runs a turn and appends the reply. The first message opens the conversation. While another
/// turn runs, this one waits for it. A repeat under the same `Idempotency-Key` waits for the turn of the first
/// request. In a group a message that nobody answers has the `response_type` `kept` and an empty text.
#[utoipa::path(
    post, path = "/api/chat", operation_id = "chat", tag = "talk", request_body = ChatRequest,
    responses((status = 200, description = "The reply", body = ChatResponse))
)]
pub async fn chat(
    State(app): State<App>,
    caller: Caller,
    input: Input<ChatRequest>,
) -> Result<Json<ChatResponse>> {
    let caller = app.auth.acting_for(&caller, input.body.user_id.as_deref()).await?;
    let taken = {
        let (id, post) = open(&app, &caller, &input.body).await?;
        app.conversations()?.post(&caller.actor, &id, post, input.key).await?
    };
    Ok(Json(chat_response(app.conversations()?.reply_to(&caller.actor, taken).await?)?))
}

/// The conversation that a request names, and its message.
async fn open(app: &App, caller: &Caller, request: &ChatRequest) -> Result<(SessionId, Post)> {
    let content = request.content()?;
    let mode = request.memory_mode.map(Into::into);
    let id = app.conversations()?.open(&caller.actor, &request.thread_id, mode).await?;
    let post = Post {
        tier: request.response_model_tier.map(Into::into).unwrap_or_default(),
        user: request.user_id.clone(),
        is_directed: request.mentioned.unwrap_or(false),
        ..Post::of(content)
    };
    Ok((id, post))
}

/// Send a message and stream the reply
///
/// A WebSocket. Send one request as JSON, shaped as for `chat`; frames come back:
/// `{"type":"status","stage","detail"}`, `{"type":"chunk","text"}`, `{"type":"done","response"}` or
/// `{"type":"error","code","message"}`. It closes with 1000 after the answer, 1008 for a conflict or bad
/// input, 1011 for a failure. Hanging up does not stop the turn.
#[utoipa::path(
    get, path = "/api/chat/stream", operation_id = "chat_stream", tag = "talk",
    responses(
        (status = 101, description = "The connection becomes a WebSocket"),
        (status = 426, description = "This is a WebSocket: `upgrade_required`", body = Envelope)
    )
)]
pub async fn stream(
    State(app): State<App>,
    caller: Caller,
    Params(()): Params<()>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    lease: Leased,
) -> Result<Response> {
    let upgrade = upgrade.map_err(|_| RequestError::Upgrade)?;
    Ok(upgrade.max_message_size(limits::BODY_BYTES_MAX).on_upgrade(move |socket| async move {
        let _open = lease;
        serve(app, caller, socket).await
    }))
}

/// How long a client may take to send its request.
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(30);
/// The longest reason that a close may carry.
const REASON_BYTES_MAX: usize = 120;

async fn serve(app: App, caller: Caller, mut socket: WebSocket) {
    let (code, reason) = match answer(&app, &caller, &mut socket).await {
        Ok(()) => (1000, String::new()),
        Err(refused) => {
            let (code, message) = (refused.code(), refused.message());
            let frame = json!({"type": "error", "code": code, "message": message});
            let _ = socket.send(Message::text(frame.to_string())).await;
            let close = if refused.status().is_server_error() { 1011 } else { 1008 };
            (close, code.chars().take(REASON_BYTES_MAX).collect())
        }
    };
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}

async fn answer(app: &App, caller: &Caller, socket: &mut WebSocket) -> Result<()> {
    let request = request(socket).await?;
    let caller = app.auth.acting_for(caller, request.user_id.as_deref()).await?;
    let (id, post) = open(app, &caller, &request).await?;
    let mut taken = app.conversations()?.post(&caller.actor, &id, post, None).await?;
    while let Some(progress) = taken.progress.recv().await {
        let frame = match progress {
            Progress::Stage { stage, detail } => json!({"type": "status", "stage": stage, "detail": detail}),
            Progress::Chunk(text) => json!({"type": "chunk", "text": text}),
        };
        // The turn goes on without a listener.
        if socket.send(Message::text(frame.to_string())).await.is_err() {
            return Ok(());
        }
    }
    let reply = app.conversations()?.reply_to(&caller.actor, taken).await?;
    let response = chat_response(reply)?;
    let frame = json!({"type": "done", "response": response});
    let _ = socket.send(Message::text(frame.to_string())).await;
    Ok(())
}

/// The one request of a connection.
async fn request(socket: &mut WebSocket) -> Result<ChatRequest> {
    let text = tokio::time::timeout(REQUEST_WAIT_MAX, async {
        while let Some(message) = socket.recv().await {
            match message {
                Ok(Message::Text(text)) => return Ok(text),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(Message::Binary(_) | Message::Close(_)) | Err(_) => break,
            }
        }
        Err(RequestError::from(Error::BadJson("send one request as text".to_owned())))
    })
    .await
    .map_err(|_| RequestError::SlowBody)??;
    let canonical = sederunt_core::json::canonical(text.as_bytes())?;
    Ok(sederunt_core::strict::read(&canonical)?)
}
