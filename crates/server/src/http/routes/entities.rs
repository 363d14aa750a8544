//! Entities: define, list, read, change, and see the sessions that were about them.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::definitions::{
    DefinitionAnswer, DefinitionListQuery, DefinitionPage, EntitiesQuery, Entity, EntityList, NewEntity,
    PatchEntity,
};
use sederunt_api::wire::task::{EntitySessionList, EntitySessionsQuery, StatusMap};
use sederunt_core::definitions::{self, read};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Text;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Define an entity
#[utoipa::path(
    post, path = "/api/entities", operation_id = "create_entity", tag = "library", request_body = NewEntity,
    responses((status = 201, description = "Defined", body = Entity))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    text: Text,
) -> Result<(StatusCode, Json<DefinitionAnswer<definitions::Entity>>)> {
    let (id, wish) = read(&text.json())?;
    let made = app.engine.define(&caller.actor, id.as_deref(), wish, text.key).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// List entities
#[utoipa::path(
    get, path = "/api/entities", operation_id = "list_entities", tag = "library", params(EntitiesQuery),
    responses((status = 200, description = "A page, newest first", body = EntityList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<EntitiesQuery>,
) -> Result<Json<DefinitionPage<definitions::Entity>>> {
    let DefinitionListQuery { filters, after, limit } = query.into();
    let page = app.engine.definitions(&caller.actor, filters, after, limit).await?;
    Ok(Json(page.into()))
}

/// Read an entity
#[utoipa::path(
    get, path = "/api/entities/{id}", operation_id = "get_entity", tag = "library",
    params(("id" = String, Path, description = "The entity")),
    responses((status = 200, description = "The entity", body = Entity))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<DefinitionAnswer<definitions::Entity>>> {
    let found = app.engine.definition(&caller.actor, &id).await?;
    Ok(Json(found.into()))
}

/// Change an entity
///
/// Given fields are replaced, `null` clears a field. Runs that are already started keep the definition they were
/// started with.
#[utoipa::path(
    patch, path = "/api/entities/{id}", operation_id = "patch_entity", tag = "library",
    params(("id" = String, Path, description = "The entity")), request_body = PatchEntity,
    responses((status = 200, description = "Changed", body = Entity))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    text: Text,
) -> Result<Json<DefinitionAnswer<definitions::Entity>>> {
    let changed = app.engine.redefine(&caller.actor, &id, &text.json(), text.key).await?;
    Ok(Json(changed.into()))
}

/// Read the status of an entity's fields and blocks
///
/// Each field and each block has the status of the newest session that works on it, among the newest 100 about the entity
/// that the caller may see. A session works on the fields of its run's contract or of its form, and on the block that its
/// metadata names as `block_id`.
#[utoipa::path(
    get, path = "/api/entities/{id}/status-map", operation_id = "entity_status_map", tag = "library",
    params(("id" = String, Path, description = "The entity")),
    responses((status = 200, description = "The status by field and by block", body = StatusMap))
)]
pub async fn status_map(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<StatusMap>> {
    Ok(Json(app.engine.entity_status_map(&caller.actor, &id).await?.into()))
}

/// List the sessions that were about an entity
#[utoipa::path(
    get, path = "/api/entities/{id}/sessions", operation_id = "list_entity_sessions", tag = "library",
    params(("id" = String, Path, description = "The entity"), EntitySessionsQuery),
    responses((status = 200, description = "A page, newest activity first", body = EntitySessionList))
)]
pub async fn sessions(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(asked): Params<EntitySessionsQuery>,
) -> Result<Json<EntitySessionList>> {
    let (parents_only, rows) = (asked.parents_only()?, asked.rows()?);
    let page = app.engine.entity_sessions(&caller.actor, &id, parents_only, asked.after, rows).await?;
    Ok(Json(page.into()))
}
