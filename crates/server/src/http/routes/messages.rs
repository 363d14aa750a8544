//! Messages in sessions, and looking back over what was said.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::talk::{
    AtSequenceQuery, CheckpointDone, CheckpointRequest, MessageDone, MessageRequest, Replay, WaitQuery,
};
use sederunt_api::wire::{Count, Raw};
use sederunt_core::engine::Post;
use sederunt_core::{Error, SessionId};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::{Input, InputWithParams};
use crate::http::error::Result;
use crate::http::from_agents::chat_response;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Post a message
///
/// Appends a message to a conversation. Between one person and the agent every message starts a turn. In a group
/// (`source.type` is `group`) an owner's does, and another person's if it is said to the agent (`mentioned`); any other is
/// only kept: `triggered` is false. Through a channel's key the rights are those of the `sender`, of whom the key's `who`
/// decides whether they may start turns at all. If a turn is running, `on_busy` says what happens. With `append_only` no turn starts.
#[utoipa::path(
    post, path = "/api/sessions/{id}/messages", operation_id = "post_message", tag = "talk",
    params(("id" = String, Path, description = "The session"), WaitQuery), request_body = MessageRequest,
    responses(
        (status = 202, description = "Appended; the reply comes through the log", body = MessageDone),
        (status = 200, description = "Appended, and nobody answers it; or, with `wait`, the reply is in the answer", body = MessageDone)
    )
)]
pub async fn post(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: InputWithParams<MessageRequest, WaitQuery>,
) -> Result<(StatusCode, Json<MessageDone>)> {
    let content = input.body.content()?;
    let done = |sequence: u64, triggered| MessageDone {
        session_id: id.to_string(),
        message_id: format!("{id}#{sequence}"),
        sequence: Count(sequence),
        triggered,
        told: None,
        reply: None,
    };
    let only_keeps = input.body.append_only.unwrap_or(false);
    if only_keeps && input.body.sender.is_none() && input.body.change.is_none() {
        let appended = app.engine.append_message(&caller.actor, &id, content, input.key).await?;
        return Ok((StatusCode::OK, Json(done(appended.last_sequence, false))));
    }
    let wish = Post {
        on_busy: input.body.on_busy.map(Into::into).unwrap_or_default(),
        is_directed: input.body.mentioned.unwrap_or(false),
        thread: input.body.subthread_id,
        sender: input.body.sender.map(Into::into),
        change: input.body.change.map(Into::into),
        only_keeps,
        ..Post::of(content)
    };
    let taken = app.conversations()?.post(&caller.actor, &id, wish, input.key).await?;
    let mut answer = done(taken.message.sequence, !taken.is_kept);
    answer.told.clone_from(&taken.told);
    if taken.is_kept {
        return Ok((StatusCode::OK, Json(answer)));
    }
    if !input.asked.wait {
        return Ok((StatusCode::ACCEPTED, Json(answer)));
    }
    answer.reply = Some(chat_response(app.conversations()?.reply_to(&caller.actor, taken).await?)?);
    Ok((StatusCode::OK, Json(answer)))
}

/// Extract memories from a session
///
/// The server reads the messages since the last checkpoint, stores what is worth remembering, and writes the
/// session's description unless a person wrote one. Without new messages it does nothing.
#[utoipa::path(
    post, path = "/api/sessions/{id}/checkpoint", operation_id = "checkpoint", tag = "talk",
    params(("id" = String, Path, description = "The session")), request_body = Option<CheckpointRequest>,
    responses((status = 200, description = "The outcome", body = CheckpointDone))
)]
pub async fn checkpoint(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<CheckpointRequest>,
) -> Result<Json<CheckpointDone>> {
    if input.body.reason.as_deref().is_some_and(|reason| reason != "manual") {
        return Err(Error::invalid("reason", "must be manual").into());
    }
    let done = app.conversations()?.checkpoint(&caller.actor, &id).await?;
    Ok(Json(CheckpointDone {
        ran: done.ran,
        events_read: Count(done.events_read),
        wrote: done.wrote.into_iter().map(str::to_owned).collect(),
    }))
}

/// Rebuild a conversation's state from its log
///
/// At any sequence. For the newest one, `matches` says whether the stored state is the same.
#[utoipa::path(
    get, path = "/api/sessions/{id}/replay", operation_id = "replay", tag = "talk",
    params(("id" = String, Path, description = "The session"), AtSequenceQuery),
    responses((status = 200, description = "The state", body = Replay))
)]
pub async fn replay(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(query): Params<AtSequenceQuery>,
) -> Result<Json<Replay>> {
    let standing = app.engine.standing(&caller.actor, &id).await?;
    let last = standing.session.head.last_sequence;
    let sequence = query.at_sequence.unwrap_or(last).min(last);
    let state = app.engine.state_at(&caller.actor, &id, sequence).await?;
    let matches = (sequence == last).then(|| state == standing.talk.state);
    let state = Raw(sederunt_core::json::Json::of(&state)?);
    Ok(Json(Replay { session_id: id.to_string(), sequence: Count(sequence), state, matches }))
}
