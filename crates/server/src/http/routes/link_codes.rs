//! Codes by which accounts on platforms are linked.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::people::{CodeAccount, LookAtCode, UseCode, User};
use sederunt_core::UserId;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;

/// Look at the account that a code is for
///
/// A person who sends `/link` in a direct chat of a channel is shown a code. It works for ten minutes, and once.
#[utoipa::path(
    post, path = "/api/link-codes/look", operation_id = "look_at_link_code", tag = "people", request_body = LookAtCode,
    responses((status = 200, description = "The account", body = CodeAccount))
)]
pub async fn look(
    State(app): State<App>,
    caller: Caller,
    input: Input<LookAtCode>,
) -> Result<Json<CodeAccount>> {
    Ok(Json(app.engine.link_code(&caller.actor, &input.body.code).await?.into()))
}

/// Link an account by its code
///
/// The code is used up. The account is known from now on, or becomes another user's.
#[utoipa::path(
    post, path = "/api/link-codes/use", operation_id = "use_link_code", tag = "people", request_body = UseCode,
    responses((status = 200, description = "The user who has the account", body = User))
)]
pub async fn link(State(app): State<App>, caller: Caller, input: Input<UseCode>) -> Result<Json<User>> {
    let into = input.body.user_id.as_deref().map(UserId::parse).transpose()?;
    let linked = app.engine.link_by_code(&caller.actor, &input.body.code, into.as_ref(), input.key).await?;
    Ok(Json(linked.into()))
}
