//! People of the caller's tenant.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::people::{Identity, Merge, NewUser, PatchUser, User, UserList, UsersQuery};
use sederunt_core::UserId;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Make a user
#[utoipa::path(
    post, path = "/api/users", operation_id = "create_user", tag = "people", request_body = Option<NewUser>,
    responses((status = 201, description = "Made", body = User))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    input: Input<NewUser>,
) -> Result<(StatusCode, Json<User>)> {
    let user = app.engine.create_user(&caller.actor, input.body.into(), input.key).await?;
    Ok((StatusCode::CREATED, Json(user.into())))
}

/// List users
#[utoipa::path(
    get, path = "/api/users", operation_id = "list_users", tag = "people", params(UsersQuery),
    responses((status = 200, description = "A page, by id", body = UserList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(page): Params<UsersQuery>,
) -> Result<Json<UserList>> {
    let users = app.engine.users(&caller.actor, page.after.as_deref(), page.limit).await?;
    let next_cursor = users.last().filter(|_| users.len() == page.limit).map(|user| user.id.to_string());
    Ok(Json(UserList { items: users.into_iter().map(Into::into).collect(), next_cursor }))
}

/// Read a user
#[utoipa::path(
    get, path = "/api/users/{id}", operation_id = "get_user", tag = "people",
    params(("id" = String, Path, description = "The user")),
    responses((status = 200, description = "The user", body = User))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<UserId>,
    Params(()): Params<()>,
) -> Result<Json<User>> {
    Ok(Json(app.engine.user(&caller.actor, &id).await?.into()))
}

/// Change a user
///
/// The credentials of a suspended user are refused within five seconds.
#[utoipa::path(
    patch, path = "/api/users/{id}", operation_id = "patch_user", tag = "people",
    params(("id" = String, Path, description = "The user")), request_body = PatchUser,
    responses((status = 200, description = "Changed", body = User))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<UserId>,
    input: Input<PatchUser>,
) -> Result<Json<User>> {
    Ok(Json(app.engine.update_user(&caller.actor, &id, input.body.into()).await?.into()))
}

/// Link a user to an identity on a platform
#[utoipa::path(
    post, path = "/api/users/{id}/identities", operation_id = "link_identity", tag = "people",
    params(("id" = String, Path, description = "The user")), request_body = Identity,
    responses((status = 200, description = "Linked", body = User))
)]
pub async fn link(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<UserId>,
    input: Input<Identity>,
) -> Result<Json<User>> {
    Ok(Json(app.engine.link_identity(&caller.actor, &id, input.body.into(), input.key).await?.into()))
}

/// Merge two users
///
/// Moves the identities and sessions of this user to the other user.
#[utoipa::path(
    post, path = "/api/users/{id}/merge", operation_id = "merge_users", tag = "people",
    params(("id" = String, Path, description = "The user that is merged")), request_body = Merge,
    responses((status = 200, description = "The user that remains", body = User))
)]
pub async fn merge(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<UserId>,
    input: Input<Merge>,
) -> Result<Json<User>> {
    let into = UserId::parse(&input.body.into)?;
    Ok(Json(app.engine.merge_users(&caller.actor, &id, &into, input.key).await?.into()))
}
