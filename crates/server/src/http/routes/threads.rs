//! Conversations: list them, look into them, end and rate their sittings.

use axum::Json;
use axum::extract::State;
use sederunt_agents::talk::end::EndWish;
use sederunt_api::wire::feedback::CaptureDone;
use sederunt_api::wire::thread::{
    EndDone, EndRequest, History, HistoryQuery, RateDone, RateRequest, RatingList, ThreadList, ThreadState,
    ThreadStatus, ThreadsQuery,
};
use sederunt_api::wire::{Count, Raw};
use sederunt_core::engine::SittingRating;
use sederunt_core::feedback::{RatingRequest, RatingSource};
use sederunt_core::session::decide::check_memory_mode;
use sederunt_core::session::query::SessionQuery;
use sederunt_core::{Error, SessionId};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::{Input, Text};
use crate::http::error::{RequestError, Result};
use crate::http::from_agents::end_done;
use crate::http::path::PathName;
use crate::http::query::Params;
use sederunt_api::wire::talk::AtSequenceQuery;

/// List conversations
///
/// Newest first. Incognito conversations are not listed.
#[utoipa::path(
    get, path = "/api/threads", operation_id = "list_threads", tag = "talk", params(ThreadsQuery),
    responses((status = 200, description = "A page", body = ThreadList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<ThreadsQuery>,
) -> Result<Json<ThreadList>> {
    let query = SessionQuery { after: asked.after, ..SessionQuery::conversations(asked.limit) };
    let page = app.engine.sessions(&caller.actor, query).await?;
    Ok(Json(ThreadList {
        items: page.items.into_iter().map(Into::into).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// Read the messages of a conversation
///
/// The newest messages, in their order. Empty for a conversation that has not begun.
#[utoipa::path(
    get, path = "/api/threads/{id}/history", operation_id = "thread_history", tag = "talk",
    params(("id" = String, Path, description = "The conversation"), HistoryQuery),
    responses((status = 200, description = "The messages", body = History))
)]
pub async fn history(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(query): Params<HistoryQuery>,
) -> Result<Json<History>> {
    let said = app.engine.history(&caller.actor, &id, query.limit).await?;
    Ok(Json(History { items: said.into_iter().map(Into::into).collect() }))
}

/// Read the inner state of a conversation
#[utoipa::path(
    get, path = "/api/threads/{id}/state", operation_id = "thread_state", tag = "talk",
    params(("id" = String, Path, description = "The conversation"), AtSequenceQuery),
    responses((status = 200, description = "Its state", body = ThreadState))
)]
pub async fn state(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(query): Params<AtSequenceQuery>,
) -> Result<Json<ThreadState>> {
    let standing = app.engine.standing(&caller.actor, &id).await?;
    let last = standing.session.head.last_sequence;
    let (sequence, state) = match query.at_sequence {
        Some(at) if at < last => (at, app.engine.state_at(&caller.actor, &id, at).await?),
        _ => (last, standing.talk.state),
    };
    let state = Raw(sederunt_core::json::Json::of(&state)?);
    Ok(Json(ThreadState { thread_id: id.to_string(), sequence: Count(sequence), state }))
}

/// Ask whether a sitting is open
#[utoipa::path(
    get, path = "/api/threads/{id}/session-status", operation_id = "thread_status", tag = "talk",
    params(("id" = String, Path, description = "The conversation")),
    responses((status = 200, description = "Its status", body = ThreadStatus))
)]
pub async fn status(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<Json<ThreadStatus>> {
    let standing = app.engine.standing_if_begun(&caller.actor, &id).await?;
    Ok(Json(standing.map_or_else(ThreadStatus::absent, Into::into)))
}

/// End a sitting
///
/// The server rates the sitting, summarises it, stores its memories and closes it; the next message opens a new
/// sitting. It waits for a running turn. If no sitting is open, nothing happens and the status is 200.
#[utoipa::path(
    post, path = "/api/threads/{id}/end", operation_id = "end_sitting", tag = "talk",
    params(("id" = String, Path, description = "The conversation")), request_body = Option<EndRequest>,
    responses((status = 200, description = "How it ended", body = EndDone))
)]
pub async fn end(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    body: Text,
) -> Result<Json<EndDone>> {
    // Nothing, `null` and `{}` all mean: no rating.
    let asked: EndRequest = match body.text.as_str() {
        "null" => EndRequest::default(),
        text => sederunt_core::strict::read(text)?,
    };
    let wish = EndWish {
        rating: asked.feedback.map(Into::into),
        source: asked.source.map_or(RatingSource::ApiEnd, Into::into),
        modality: asked.modality.map(Into::into).unwrap_or_default(),
        discard: asked.discard.unwrap_or(false),
    };
    let discard = wish.discard;
    if let Some(mode) = asked.memory_mode
        && let Ok(session) = app.engine.session(&caller.actor, &id).await
    {
        check_memory_mode(&session, Some(mode.into()))?;
    }
    match app.conversations()?.end(&caller.actor, &id, wish).await {
        Ok(ending) if discard => Ok(Json(end_done(ending).discarded())),
        Ok(ending) => Ok(Json(end_done(ending))),
        // A missing conversation and another user's look the same: nothing to end.
        Err(Error::NotFound) => Ok(Json(EndDone::nothing())),
        Err(error) => Err(error.into()),
    }
}

/// Rate a sitting that has ended
///
/// Rates the sitting that ended last; its first rating counts. Before any sitting has ended it is 409 `nothing_ended`.
/// A comment becomes feedback on the conversation, stored apart from the rating.
#[utoipa::path(
    post, path = "/api/threads/{id}/feedback", operation_id = "rate_sitting", tag = "talk",
    params(("id" = String, Path, description = "The conversation")), request_body = RateRequest,
    responses((status = 200, description = "The outcome", body = RateDone))
)]
pub async fn rate(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<RateRequest>,
) -> Result<Json<RateDone>> {
    let asked = input.body;
    let wish = SittingRating {
        rating: RatingRequest {
            label: asked.feedback.into(),
            source: asked.source.map_or(RatingSource::ApiEnd, Into::into),
            modality: asked.modality.map(Into::into).unwrap_or_default(),
        },
        comment: asked.comment,
        memory_mode: asked.memory_mode.map(Into::into),
    };
    let done = app.engine.rate_sitting(&caller.actor, &id, wish, input.key).await?;
    let follow_up = done.comment.map(|comment| match comment {
        Ok(captured) => captured.into(),
        Err(error) => CaptureDone::refused(RequestError::from(error).message()),
    });
    Ok(Json(RateDone { recorded: done.recorded, follow_up }))
}

/// List the ratings of a conversation
///
/// The ratings of its sittings, oldest first, and the count of each label. A rating has no words and names no user.
#[utoipa::path(
    get, path = "/api/threads/{id}/ratings", operation_id = "list_ratings", tag = "talk",
    params(("id" = String, Path, description = "The conversation")),
    responses((status = 200, description = "Its ratings", body = RatingList))
)]
pub async fn ratings(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<Json<RatingList>> {
    Ok(Json(app.engine.ratings(&caller.actor, &id).await?.into()))
}
