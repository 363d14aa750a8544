//! Conversations: list them, look into them, end and rate their sittings.

use axum::Json;
use axum::extract::State;
use sederunt_agents::talk::end::EndWish;
use sederunt_api::wire::feedback::CaptureDone;
use sederunt_api::wire::thread::{
    EndDone, EndRequest, History, HistoryQuery, RateDone, RateRequest, RatingList, ThreadList, ThreadState,
    ThreadStatus, ThreadsQuery, check_mode,
};
use sederunt_api::wire::{Count, Raw};
use sederunt_core::access::Verb;
use sederunt_core::feedback::capture::Capture;
use sederunt_core::feedback::{RatingRequest, RatingSource};
use sederunt_core::session::SessionType;
use sederunt_core::session::query::{SessionQuery, TypeFilter};
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
    let query = SessionQuery {
        inactive: Some(false),
        talks_only: true,
        after: asked.after,
        ..SessionQuery::of(TypeFilter::Only(SessionType::Mixed), asked.limit)
    };
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
    let session = match app.engine.session(&caller.actor, &id).await {
        Ok(session) => session,
        Err(Error::NotFound) => return Ok(Json(History { items: Vec::new() })),
        Err(error) => return Err(error.into()),
    };
    let said = app.engine.said_since(&session, None, query.limit).await?;
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
    match app.engine.standing(&caller.actor, &id).await {
        Ok(standing) => Ok(Json(standing.into())),
        Err(Error::NotFound) => Ok(Json(ThreadStatus {
            has_active_session: false,
            status: "absent".to_owned(),
            sitting: None,
            turn_count: Count(0),
            waiting: Count(0),
        })),
        Err(error) => Err(error.into()),
    }
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
        check_mode(&session, Some(mode))?;
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
/// Rates the sitting that ended last, or else the open one; only the first rating of a sitting counts. Before any
/// sitting has ended it is 409 `nothing_ended`. A comment becomes feedback on the conversation, stored apart from the
/// rating.
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
    let label = asked.feedback.into();
    let comment = match asked.comment {
        Some(comment) => Capture::beside(label, comment, id.clone())?,
        None => None,
    };
    let (session, _) = app.engine.conversation(&caller.actor, Verb::Read, &id).await?;
    check_mode(&session, asked.memory_mode)?;
    let rate = RatingRequest {
        label,
        source: asked.source.map_or(RatingSource::ApiEnd, Into::into),
        modality: asked.modality.map(Into::into).unwrap_or_default(),
    };
    let recorded = app.engine.rate_ended(&caller.actor, &id, rate).await?;
    let follow_up = match comment {
        Some(wish) => Some(match app.engine.capture_feedback(&caller.actor, wish, input.key).await {
            Ok(captured) => captured.into(),
            Err(error) => {
                tracing::warn!(target: "sederunt::feedback", code = error.code(), %error, "a comment on a sitting could not be written; the caller was told, and the sitting is ended");
                CaptureDone::refused(RequestError::from(error).message())
            }
        }),
        None => None,
    };
    Ok(Json(RateDone { recorded, follow_up }))
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
