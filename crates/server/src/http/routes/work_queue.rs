//! The caller's work queue.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::work_queue::{BucketQuery, QueueCounts, QueueList, ZoneQuery};
use sederunt_core::work::queue::Bucket;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Count the work queue
///
/// Counts the work of the caller's tasks: those it created or is assigned to. For a credential without a user: of all
/// tasks of the tenant.
#[utoipa::path(
    get, path = "/api/today/work-queue-counts", operation_id = "count_work_queue", tag = "approvals",
    params(ZoneQuery),
    responses((status = 200, description = "How many lines each bucket has", body = QueueCounts))
)]
pub async fn counts(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<ZoneQuery>,
) -> Result<Json<QueueCounts>> {
    Ok(Json(app.engine.queue_counts(&caller.actor, query.zone.as_deref()).await?.into()))
}

/// List a bucket of the work queue
#[utoipa::path(
    get, path = "/api/today/{bucket}", operation_id = "list_work_queue", tag = "approvals",
    params(
        ("bucket" = String, Path,
            description = "`needs_me`, `running`, `delegatable`, `failed` or `done_today`"),
        BucketQuery
    ),
    responses((status = 200, description = "A page, newest first", body = QueueList))
)]
pub async fn bucket(
    State(app): State<App>,
    caller: Caller,
    PathName(bucket): PathName<Bucket>,
    Params(asked): Params<BucketQuery>,
) -> Result<Json<QueueList>> {
    let BucketQuery { zone, after, limit } = asked;
    let page = app.engine.queue(&caller.actor, bucket, zone.as_deref(), after, limit).await?;
    Ok(Json(page.into()))
}
