//! Criteria sets: define, list, read, change.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::definitions::{
    CriteriaSet, CriteriaSetList, DefinitionAnswer, DefinitionListQuery, DefinitionPage, DefinitionsQuery,
    NewCriteriaSet, PatchCriteriaSet,
};
use sederunt_core::definitions::{self, read};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Text;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Define a criteria set
#[utoipa::path(
    post, path = "/api/criteria-sets", operation_id = "create_criteria_set", tag = "library", request_body = NewCriteriaSet,
    responses((status = 201, description = "Defined", body = CriteriaSet))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    text: Text,
) -> Result<(StatusCode, Json<DefinitionAnswer<definitions::CriteriaSet>>)> {
    let (id, wish) = read(&text.json())?;
    let made = app.engine.define(&caller.actor, id.as_deref(), wish, text.key).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// List criteria sets
#[utoipa::path(
    get, path = "/api/criteria-sets", operation_id = "list_criteria_sets", tag = "library", params(DefinitionsQuery),
    responses((status = 200, description = "A page, newest first", body = CriteriaSetList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<DefinitionsQuery>,
) -> Result<Json<DefinitionPage<definitions::CriteriaSet>>> {
    let DefinitionListQuery { filters, after, limit } = query.into();
    let page = app.engine.definitions(&caller.actor, filters, after, limit).await?;
    Ok(Json(page.into()))
}

/// Read a criteria set
#[utoipa::path(
    get, path = "/api/criteria-sets/{id}", operation_id = "get_criteria_set", tag = "library",
    params(("id" = String, Path, description = "The criteria set")),
    responses((status = 200, description = "The criteria set", body = CriteriaSet))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<DefinitionAnswer<definitions::CriteriaSet>>> {
    let found = app.engine.definition(&caller.actor, &id).await?;
    Ok(Json(found.into()))
}

/// Change a criteria set
///
/// Given fields are replaced, `null` clears a field. Runs that are already started keep the definition they were
/// started with.
#[utoipa::path(
    patch, path = "/api/criteria-sets/{id}", operation_id = "patch_criteria_set", tag = "library",
    params(("id" = String, Path, description = "The criteria set")), request_body = PatchCriteriaSet,
    responses((status = 200, description = "Changed", body = CriteriaSet))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    text: Text,
) -> Result<Json<DefinitionAnswer<definitions::CriteriaSet>>> {
    let changed = app.engine.redefine(&caller.actor, &id, &text.json(), text.key).await?;
    Ok(Json(changed.into()))
}
