//! Share links: each opens one session or one view to anyone who has the link.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::people::{Share, ShareList, ShareRequest, SharesQuery};
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

/// List share links
///
/// Owners see all links of the tenant, members those that they made, those of sessions that they hold, and the links to
/// views that they made. Links of an incognito session are listed only with `session_id`. No link shows its token.
#[utoipa::path(
    get, path = "/api/shares", operation_id = "list_shares", tag = "sessions", params(SharesQuery),
    responses((status = 200, description = "A page, newest first", body = ShareList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<SharesQuery>,
) -> Result<Json<ShareList>> {
    let SharesQuery { session_id, view_id, limit, after } = asked;
    Ok(Json(app.engine.shares(&caller.actor, session_id, view_id, after, limit).await?.into()))
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
