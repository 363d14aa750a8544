//! The human bridge: what the caller says they are working on.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::human::{ActiveWork, ForgetQuery, Forgotten, StartWork, StopWork, WorkingOn};
use sederunt_api::wire::session::Session;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::query::Params;

/// Start working on a task
///
/// Opens a running session in which the caller's own activity is recorded as `human.*` events. The caller has one at a
/// time: one for another task is completed (`end_reason` `superseded`). Ends by itself after 12 hours.
#[utoipa::path(
    post, path = "/api/sessions/human/start", operation_id = "start_work", tag = "activity",
    request_body = StartWork,
    responses(
        (status = 201, description = "Started", body = WorkingOn),
        (status = 200, description = "The caller works on this task already", body = WorkingOn)
    )
)]
pub async fn start(
    State(app): State<App>,
    caller: Caller,
    input: Input<StartWork>,
) -> Result<(StatusCode, Json<WorkingOn>)> {
    let task = input.body.task_id.as_deref();
    let started = app.engine.start_bridge(&caller.actor, task, input.key).await?;
    let status = if started.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(started.into())))
}

/// Read what the caller works on
#[utoipa::path(
    get, path = "/api/sessions/human/active", operation_id = "get_active_work", tag = "activity",
    responses((status = 200, description = "The running session and its task; null without one", body = ActiveWork))
)]
pub async fn active(
    State(app): State<App>,
    caller: Caller,
    Params(()): Params<()>,
) -> Result<Json<ActiveWork>> {
    Ok(Json(app.engine.active_bridge(&caller.actor).await?.into()))
}

/// Stop working on a task
///
/// Completes the session. One that has ended stays as it is.
#[utoipa::path(
    post, path = "/api/sessions/human/stop", operation_id = "stop_work", tag = "activity", request_body = StopWork,
    responses((status = 200, description = "The session, which has ended", body = Session))
)]
pub async fn stop(State(app): State<App>, caller: Caller, input: Input<StopWork>) -> Result<Json<Session>> {
    let id = input.body.session_id.as_deref();
    Ok(Json(app.engine.stop_bridge(&caller.actor, id, input.key).await?.into()))
}

/// Forget what the caller worked on
///
/// Deletes the caller's own sessions of this kind with their events.
#[utoipa::path(
    delete, path = "/api/sessions/human", operation_id = "forget_work", tag = "activity", params(ForgetQuery),
    responses((status = 200, description = "Deleted", body = Forgotten))
)]
pub async fn forget(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<ForgetQuery>,
) -> Result<Json<Forgotten>> {
    let deleted = app.engine.forget_bridges(&caller.actor, query.before).await?;
    Ok(Json(Forgotten { deleted }))
}
