//! API keys of the caller's tenant.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::people::{CreatedKey, KeyList, NewKey};
use sederunt_core::CredentialId;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Make a key
///
/// The answer is the only place where the secret appears: the server stores its hash.
#[utoipa::path(
    post, path = "/api/keys", operation_id = "create_key", tag = "people", request_body = NewKey,
    responses((status = 201, description = "Made", body = CreatedKey))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    input: Input<NewKey>,
) -> Result<(StatusCode, Json<CreatedKey>)> {
    let created = app.engine.create_key(&caller.actor, input.body.try_into()?, input.key).await?;
    Ok((StatusCode::CREATED, Json(created.into())))
}

/// List keys
#[utoipa::path(
    get, path = "/api/keys", operation_id = "list_keys", tag = "people",
    responses((status = 200, description = "All keys of the tenant", body = KeyList))
)]
pub async fn list(State(app): State<App>, caller: Caller, Params(()): Params<()>) -> Result<Json<KeyList>> {
    let keys = app.engine.keys(&caller.actor).await?;
    Ok(Json(KeyList { items: keys.into_iter().map(Into::into).collect(), next_cursor: None }))
}

/// Revoke a key
///
/// Every node refuses it within five seconds, and its streams end.
#[utoipa::path(
    delete, path = "/api/keys/{id}", operation_id = "revoke_key", tag = "people",
    params(("id" = String, Path, description = "The key's id, not its secret")),
    responses((status = 204, description = "Revoked"))
)]
pub async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<CredentialId>,
    Params(()): Params<()>,
) -> Result<StatusCode> {
    app.engine.revoke_key(&caller.actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
