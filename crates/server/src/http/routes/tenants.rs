//! The operator's routes: tenants, and the keys of any of them.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use http::StatusCode;
use http::request::Parts;
use sederunt_api::limits::PURGE_DAYS_MAX;
use sederunt_api::wire::people::{
    BackupMade, CreatedKey, KeyList, NewKey, NewTenant, PatchTenant, Purge, Purged, Tenant, TenantList,
};
use sederunt_core::access::Actor;
use sederunt_core::engine::Operator;
use sederunt_core::session::SourceKind;
use sederunt_core::{CredentialId, Error, TenantId};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::{RequestError, Result};
use crate::http::path::PathName;
use crate::http::query::Params;

/// Lets only the operator through.
#[derive(Debug)]
pub struct AsOperator;

impl<S: Sync> FromRequestParts<S> for AsOperator {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RequestError> {
        if Caller::from_request_parts(parts, state).await?.is_operator {
            return Ok(Self);
        }
        Err(Error::denied("only the operator of this installation may do this").into())
    }
}

/// List tenants
#[utoipa::path(
    get, path = "/api/tenants", operation_id = "list_tenants", tag = "operator",
    responses((status = 200, description = "All tenants", body = TenantList))
)]
pub async fn list(State(app): State<App>, _: AsOperator, Params(()): Params<()>) -> Result<Json<TenantList>> {
    let tenants = app.engine.operator().tenants().await?;
    Ok(Json(TenantList { items: tenants.into_iter().map(Into::into).collect(), next_cursor: None }))
}

/// Make a tenant
#[utoipa::path(
    post, path = "/api/tenants", operation_id = "create_tenant", tag = "operator", request_body = NewTenant,
    responses((status = 201, description = "Made", body = Tenant))
)]
pub async fn create(
    State(app): State<App>,
    _: AsOperator,
    input: Input<NewTenant>,
) -> Result<(StatusCode, Json<Tenant>)> {
    let id = TenantId::parse(&input.body.id).map_err(renamed)?;
    Ok((StatusCode::CREATED, Json(app.engine.operator().create_tenant(&id).await?.into())))
}

/// Suspend or resume a tenant
///
/// The credentials of a suspended tenant are refused within five seconds.
#[utoipa::path(
    patch, path = "/api/tenants/{id}", operation_id = "patch_tenant", tag = "operator",
    params(("id" = String, Path, description = "The tenant")), request_body = PatchTenant,
    responses((status = 200, description = "Changed", body = Tenant))
)]
pub async fn patch(
    State(app): State<App>,
    _: AsOperator,
    PathName(id): PathName<TenantId>,
    input: Input<PatchTenant>,
) -> Result<Json<Tenant>> {
    Ok(Json(app.engine.operator().suspend_tenant(&id, input.body.suspended).await?.into()))
}

/// Delete a tenant with everything in it
#[utoipa::path(
    delete, path = "/api/tenants/{id}", operation_id = "delete_tenant", tag = "operator",
    params(("id" = String, Path, description = "The tenant")),
    responses((status = 204, description = "Deleted"))
)]
pub async fn delete(
    State(app): State<App>,
    _: AsOperator,
    PathName(id): PathName<TenantId>,
    Params(()): Params<()>,
) -> Result<StatusCode> {
    app.engine.operator().delete_tenant(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a key of a tenant
#[utoipa::path(
    post, path = "/api/tenants/{id}/keys", operation_id = "create_tenant_key", tag = "operator",
    params(("id" = String, Path, description = "The tenant")), request_body = NewKey,
    responses((status = 201, description = "Made", body = CreatedKey))
)]
pub async fn create_key(
    State(app): State<App>,
    _: AsOperator,
    PathName(id): PathName<TenantId>,
    input: Input<NewKey>,
) -> Result<(StatusCode, Json<CreatedKey>)> {
    let owner = owner_of(&app, id).await?;
    let created = app.engine.create_key(&owner, input.body.try_into()?, input.key).await?;
    Ok((StatusCode::CREATED, Json(created.into())))
}

/// List the keys of a tenant
#[utoipa::path(
    get, path = "/api/tenants/{id}/keys", operation_id = "list_tenant_keys", tag = "operator",
    params(("id" = String, Path, description = "The tenant")),
    responses((status = 200, description = "All keys of the tenant", body = KeyList))
)]
pub async fn keys(
    State(app): State<App>,
    _: AsOperator,
    PathName(id): PathName<TenantId>,
    Params(()): Params<()>,
) -> Result<Json<KeyList>> {
    let owner = owner_of(&app, id).await?;
    let keys = app.engine.keys(&owner).await?;
    Ok(Json(KeyList { items: keys.into_iter().map(Into::into).collect(), next_cursor: None }))
}

/// Revoke a key of a tenant
#[utoipa::path(
    delete, path = "/api/tenants/{id}/keys/{key_id}", operation_id = "revoke_tenant_key", tag = "operator",
    params(("id" = String, Path, description = "The tenant"), ("key_id" = String, Path, description = "The key")),
    responses((status = 204, description = "Revoked"))
)]
pub async fn revoke_key(
    State(app): State<App>,
    _: AsOperator,
    PathName((id, key)): PathName<(TenantId, CredentialId)>,
    Params(()): Params<()>,
) -> Result<StatusCode> {
    let owner = owner_of(&app, id).await?;
    app.engine.revoke_key(&owner, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The operator as the owner of a tenant that exists.
async fn owner_of(app: &App, id: TenantId) -> Result<Actor> {
    app.engine.operator().tenant(&id).await?;
    Ok(Operator::owner_of(id, SourceKind::Cli))
}

/// A tenant's name is called `id` in its own request.
fn renamed(error: Error) -> Error {
    match error {
        Error::Invalid { message, .. } => Error::invalid("id", message),
        other => other,
    }
}

/// Purge old records
///
/// Deletes ratings and crisis records of all tenants that are older than so many whole days. Crisis records that are
/// held stay. The server does the same once a day by itself. With `preview` it only counts them.
#[utoipa::path(
    post, path = "/api/purge", operation_id = "purge", tag = "operator", request_body = Option<Purge>,
    responses((status = 200, description = "The number of deleted records", body = Purged))
)]
pub async fn purge(State(app): State<App>, _: AsOperator, input: Input<Purge>) -> Result<Json<Purged>> {
    let kept = |field: &'static str, days: Option<u32>| match days {
        Some(days @ 1..=PURGE_DAYS_MAX) => Ok(Some(Duration::from_secs(u64::from(days) * 86_400))),
        Some(_) => Err(Error::invalid(field, format!("must be 1 to {PURGE_DAYS_MAX}"))),
        None => Ok(None),
    };
    let ratings = kept("ratings_days", input.body.ratings_days)?;
    let crises = kept("crisis_days", input.body.crisis_days)?;
    let counted = if input.body.preview {
        app.engine.purgeable_records(ratings, crises).await?
    } else {
        app.engine.operator().purge_records(ratings, crises).await?
    };
    Ok(Json(counted.into()))
}

/// Note that a backup was made
///
/// `sederunt backup` copies the files of a store that is in use by itself, and tells the server, which writes it into the audit
/// trail of the tenant `default`.
#[utoipa::path(
    post, path = "/api/audit/backup", operation_id = "note_backup", tag = "operator", request_body = BackupMade,
    responses((status = 204, description = "Written to the audit trail"))
)]
pub async fn note_backup(
    State(app): State<App>,
    _: AsOperator,
    input: Input<BackupMade>,
) -> Result<StatusCode> {
    app.engine.operator().note_backup(&input.body.name).await?;
    Ok(StatusCode::NO_CONTENT)
}
