//! The recent-activity block of the caller.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::activity_block::{ActivityBlock, ActivityBlockQuery};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::query::Params;

/// Read the caller's recent activity
///
/// A text for a prompt: the task that the caller works on and what the caller did last, inside a border of its own that
/// nothing in it can forge.
#[utoipa::path(
    get, path = "/api/activity-block", operation_id = "get_activity_block", tag = "activity",
    params(ActivityBlockQuery),
    responses((status = 200, description = "The block; null while the caller works on nothing", body = ActivityBlock))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<ActivityBlockQuery>,
) -> Result<Json<ActivityBlock>> {
    let activity = app.engine.activity_block(&caller.actor, query.limit).await?;
    Ok(Json(ActivityBlock { block: activity.map(|activity| activity.block) }))
}
