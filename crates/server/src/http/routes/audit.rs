//! The audit trail of the caller's tenant.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::people::{AuditList, AuditQuery};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::query::Params;

/// Read the audit trail
///
/// For owners: who made, changed, exported or deleted what, newest first. In the tenant `default` also refused
/// credentials, counted by address and minute, and what the operator did above all tenants: tenants deleted, records
/// purged, backups made.
#[utoipa::path(
    get, path = "/api/audit", operation_id = "read_audit", tag = "people", params(AuditQuery),
    responses((status = 200, description = "A page, newest first", body = AuditList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(page): Params<AuditQuery>,
) -> Result<Json<AuditList>> {
    Ok(Json(app.engine.audit(&caller.actor, page.after, page.limit).await?.into()))
}
