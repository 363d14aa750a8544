//! Agents: define, list, read, change.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::definitions::{
    Agent, AgentList, DefinitionAnswer, DefinitionListQuery, DefinitionPage, DefinitionsQuery, NewAgent,
    PatchAgent,
};
use sederunt_core::definitions::{self, read};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Text;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Define an agent
///
/// Its slug is its id.
#[utoipa::path(
    post, path = "/api/agents", operation_id = "create_agent", tag = "library", request_body = NewAgent,
    responses((status = 201, description = "Defined", body = Agent))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    text: Text,
) -> Result<(StatusCode, Json<DefinitionAnswer<definitions::Agent>>)> {
    let (id, wish) = read(&text.json())?;
    let made = app.engine.define(&caller.actor, id.as_deref(), wish, text.key).await?;
    let warnings = app.engine.warnings(&caller.actor, &made.value).await?;
    Ok((StatusCode::CREATED, Json(DefinitionAnswer::warned(made, warnings))))
}

/// List agents
#[utoipa::path(
    get, path = "/api/agents", operation_id = "list_agents", tag = "library", params(DefinitionsQuery),
    responses((status = 200, description = "A page, newest first", body = AgentList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<DefinitionsQuery>,
) -> Result<Json<DefinitionPage<definitions::Agent>>> {
    let DefinitionListQuery { filters, after, limit } = query.into();
    let page = app.engine.definitions(&caller.actor, filters, after, limit).await?;
    Ok(Json(page.into()))
}

/// Read an agent
#[utoipa::path(
    get, path = "/api/agents/{id}", operation_id = "get_agent", tag = "library",
    params(("id" = String, Path, description = "The agent's slug")),
    responses((status = 200, description = "The agent", body = Agent))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<DefinitionAnswer<definitions::Agent>>> {
    let found = app.engine.definition(&caller.actor, &id).await?;
    Ok(Json(found.into()))
}

/// Change an agent
///
/// Given fields are replaced, `null` clears a field. Runs that are already started keep the definition they were
/// started with.
#[utoipa::path(
    patch, path = "/api/agents/{id}", operation_id = "patch_agent", tag = "library",
    params(("id" = String, Path, description = "The agent's slug")), request_body = PatchAgent,
    responses((status = 200, description = "Changed", body = Agent))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    text: Text,
) -> Result<Json<DefinitionAnswer<definitions::Agent>>> {
    let changed = app.engine.redefine(&caller.actor, &id, &text.json(), text.key).await?;
    let warnings = app.engine.warnings(&caller.actor, &changed.value).await?;
    Ok(Json(DefinitionAnswer::warned(changed, warnings)))
}
