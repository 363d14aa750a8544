//! Who is present in a session.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::presence::{Attend, Presence};
use sederunt_api::wire::session::ShareQuery;
use sederunt_core::SessionId;
use sederunt_core::access::ReadExtent;
use sederunt_core::strict::read;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Text;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Be shown as present in a session
///
/// For 30 seconds; call again to stay. The state changes at most once a second (429 `rate_limited`). Nothing of it is
/// stored. At most 100 people are present in a session (429 `quota_exceeded`); an incognito session shows nobody (409
/// `type_mismatch`).
#[utoipa::path(
    put, path = "/api/sessions/{id}/presence", operation_id = "attend_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = Attend,
    responses((status = 200, description = "Who is present", body = Presence))
)]
pub async fn put(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    body: Text,
) -> Result<Json<Presence>> {
    let state = read::<Attend<'_>>(&body.text)?.into_core();
    let list = app.engine.attend(&caller.actor, &id, state).await?;
    Ok(Json(Presence::of(&list, ReadExtent::of(caller.actor.role).people)))
}

/// Read who is present in a session
///
/// Through a share link: only how many.
#[utoipa::path(
    get, path = "/api/sessions/{id}/presence", operation_id = "get_presence", tag = "sessions",
    params(("id" = String, Path, description = "The session"), ShareQuery),
    responses((status = 200, description = "Who is present", body = Presence))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<Json<Presence>> {
    let list = app.engine.present(&caller.actor, &id).await?;
    Ok(Json(Presence::of(&list, ReadExtent::of(caller.actor.role).people)))
}

/// No longer be shown as present in a session
#[utoipa::path(
    delete, path = "/api/sessions/{id}/presence", operation_id = "end_presence", tag = "sessions",
    params(("id" = String, Path, description = "The session")),
    responses((status = 204, description = "The caller is not present"))
)]
pub async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<StatusCode> {
    app.engine.absent(&caller.actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
