//! The crisis log: hold its records beyond their retention.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::Count;
use sederunt_api::wire::crisis::{HoldCrises, HoldDone};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;

/// Exempt crisis records from purging
///
/// The records of one conversation, or of the whole tenant, until a date. A hold is never shortened.
#[utoipa::path(
    post, path = "/api/crises/hold", operation_id = "hold_crises", tag = "memory", request_body = HoldCrises,
    responses((status = 200, description = "The number of records that are held", body = HoldDone))
)]
pub async fn hold(
    State(app): State<App>,
    caller: Caller,
    input: Input<HoldCrises>,
) -> Result<Json<HoldDone>> {
    let held = app.engine.hold_crises(&caller.actor, &input.body.try_into()?).await?;
    Ok(Json(HoldDone { held: Count(held) }))
}
