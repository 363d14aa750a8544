//! Share links: each opens one session to anyone who has the link.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::people::{Share, ShareRequest};
use sederunt_core::SessionId;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Share a session
///
/// The link shows title, status, messages and result until it expires or is revoked.
#[utoipa::path(
    post, path = "/api/sessions/{id}/share", operation_id = "share_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = ShareRequest,
    responses((status = 201, description = "The link", body = Share))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<ShareRequest>,
) -> Result<(StatusCode, Json<Share>)> {
    let life = Duration::from_secs(input.body.expires_in);
    let made = app.engine.share(&caller.actor, &id, input.body.access.into(), life, input.key).await?;
    Ok((StatusCode::CREATED, Json(Share::of(made, &app.about.base_url))))
}

/// Revoke a share link
///
/// Its streams end within five seconds.
#[utoipa::path(
    delete, path = "/api/shares/{id}", operation_id = "revoke_share", tag = "sessions",
    params(("id" = String, Path, description = "The link's id, not its token")),
    responses((status = 204, description = "Revoked"))
)]
pub async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<StatusCode> {
    app.engine.revoke_share(&caller.actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
