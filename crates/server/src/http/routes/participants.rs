//! A participant's own part in a session: leaving it, and coming back.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::Nothing;
use sederunt_api::wire::session::Session;
use sederunt_core::SessionId;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Leave a session
///
/// The caller is no longer a participant and no longer sees the session. Only the caller or an owner can add the
/// caller again. The holder of a session cannot leave it.
#[utoipa::path(
    delete, path = "/api/sessions/{id}/participants/me", operation_id = "leave_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")),
    responses((status = 204, description = "Left"))
)]
pub async fn leave(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<StatusCode> {
    app.engine.leave(&caller.actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Return to a session that the caller has left
#[utoipa::path(
    post, path = "/api/sessions/{id}/participants/me", operation_id = "come_back_to_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = Option<Nothing>,
    responses((status = 200, description = "The caller takes part again", body = Session))
)]
pub async fn come_back(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Nothing>,
) -> Result<Json<Session>> {
    Ok(Json(app.conversations()?.come_back(&caller.actor, &id, input.key).await?.into()))
}
