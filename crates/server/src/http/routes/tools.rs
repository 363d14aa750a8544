//! Tools: define, list, read, change; and their sessions: start, fill, invoke, cancel, read.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::Nothing;
use sederunt_api::wire::definitions::{
    DefinitionAnswer, DefinitionListQuery, DefinitionPage, DefinitionsQuery, NewToolDefinition,
    PatchToolDefinition, ToolDefinition, ToolDefinitionList,
};
use sederunt_api::wire::tool::{
    FillTool, InvokeTool, StartTool, ToolSession, ToolSessionList, ToolSessionsQuery,
};
use sederunt_core::SessionId;
use sederunt_core::definitions::{self, read};
use sederunt_core::engine::ToolStart;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::{Input, Text};
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Define a tool
#[utoipa::path(
    post, path = "/api/tools", operation_id = "create_tool", tag = "tools", request_body = NewToolDefinition,
    responses((status = 201, description = "Defined", body = ToolDefinition))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    text: Text,
) -> Result<(StatusCode, Json<DefinitionAnswer<definitions::ToolDefinition>>)> {
    let (id, wish) = read(&text.json())?;
    let made = app.engine.define(&caller.actor, id.as_deref(), wish, text.key).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// List tools
#[utoipa::path(
    get, path = "/api/tools", operation_id = "list_tools", tag = "tools", params(DefinitionsQuery),
    responses((status = 200, description = "A page, newest first", body = ToolDefinitionList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<DefinitionsQuery>,
) -> Result<Json<DefinitionPage<definitions::ToolDefinition>>> {
    let DefinitionListQuery { filters, after, limit } = query.into();
    Ok(Json(app.engine.definitions(&caller.actor, filters, after, limit).await?.into()))
}

/// Read a tool
#[utoipa::path(
    get, path = "/api/tools/{id}", operation_id = "get_tool", tag = "tools",
    params(("id" = String, Path, description = "The tool: its slug")),
    responses((status = 200, description = "The tool", body = ToolDefinition))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<DefinitionAnswer<definitions::ToolDefinition>>> {
    Ok(Json(app.engine.definition(&caller.actor, &id).await?.into()))
}

/// Change a tool
///
/// Given fields are replaced, `null` clears a field. Sessions that are already started keep the tool as it was.
#[utoipa::path(
    patch, path = "/api/tools/{id}", operation_id = "patch_tool", tag = "tools",
    params(("id" = String, Path, description = "The tool: its slug")), request_body = PatchToolDefinition,
    responses((status = 200, description = "Changed", body = ToolDefinition))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    text: Text,
) -> Result<Json<DefinitionAnswer<definitions::ToolDefinition>>> {
    Ok(Json(app.engine.redefine(&caller.actor, &id, &text.json(), text.key).await?.into()))
}

/// Start a tool session
///
/// A draft of the tool as it is now, with the first values if there are any. `rerun_of` begins with the values of another
/// session of the same tool.
#[utoipa::path(
    post, path = "/api/tools/{id}/sessions", operation_id = "start_tool_session", tag = "tools",
    params(("id" = String, Path, description = "The tool: its slug")), request_body = Option<StartTool>,
    responses((status = 201, description = "Started", body = ToolSession))
)]
pub async fn start(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    input: Input<StartTool>,
) -> Result<(StatusCode, Json<ToolSession>)> {
    let StartTool { values, rerun_of } = input.body;
    let rerun_of = rerun_of.as_deref().map(SessionId::parse).transpose()?;
    let wish = ToolStart { values: values.map(|values| values.0), rerun_of };
    let started = app.engine.start_tool(&caller.actor, &id, wish, input.key).await?;
    Ok((StatusCode::CREATED, Json(started.into())))
}

/// List the sessions of a tool
///
/// The run history: all of it for owners, their own for members.
#[utoipa::path(
    get, path = "/api/tools/{id}/sessions", operation_id = "list_tool_sessions", tag = "tools",
    params(("id" = String, Path, description = "The tool: its slug"), ToolSessionsQuery),
    responses((status = 200, description = "A page, newest activity first", body = ToolSessionList))
)]
pub async fn sessions(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(query): Params<ToolSessionsQuery>,
) -> Result<Json<ToolSessionList>> {
    let filter = query.filter();
    Ok(Json(app.engine.tool_sessions(&caller.actor, &id, filter, query.after, query.limit).await?.into()))
}

/// Read a tool session
///
/// For its holder and owners.
#[utoipa::path(
    get, path = "/api/tool-sessions/{id}", operation_id = "get_tool_session", tag = "tools",
    params(("id" = String, Path, description = "The tool session")),
    responses((status = 200, description = "The tool session", body = ToolSession))
)]
pub async fn session(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<Json<ToolSession>> {
    Ok(Json(app.engine.tool_session(&caller.actor, &id).await?.into()))
}

/// Fill in a tool session
///
/// Merged key by key. Types and sizes are checked; what is required may still be missing. Each changed field is one event;
/// values that are there already change nothing.
#[utoipa::path(
    patch, path = "/api/tool-sessions/{id}", operation_id = "fill_tool_session", tag = "tools",
    params(("id" = String, Path, description = "The tool session")), request_body = FillTool,
    responses((status = 200, description = "Saved", body = ToolSession))
)]
pub async fn fill(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<FillTool>,
) -> Result<Json<ToolSession>> {
    let FillTool { values, version } = input.body;
    Ok(Json(app.engine.fill_tool(&caller.actor, &id, &values.0, version).await?.into()))
}

/// Invoke a tool
///
/// The values over what was filled in, checked as a whole: a misfit is 422 with its place and at most ten complaints, and
/// nothing is written. A second invocation while one runs is 409 `session_running`.
#[utoipa::path(
    post, path = "/api/tool-sessions/{id}/invoke", operation_id = "invoke_tool_session", tag = "tools",
    params(("id" = String, Path, description = "The tool session")), request_body = Option<InvokeTool>,
    responses((status = 202, description = "Queued or started", body = ToolSession))
)]
pub async fn invoke(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<InvokeTool>,
) -> Result<(StatusCode, Json<ToolSession>)> {
    let values = input.body.values.as_ref().map(|values| &values.0);
    let invoked = app.engine.invoke_tool(&caller.actor, &id, values, input.key).await?;
    Ok((StatusCode::ACCEPTED, Json(invoked.into())))
}

/// Cancel a tool session
///
/// At once: a worker that holds it finds its claim gone. A tool that was called already may have acted.
#[utoipa::path(
    post, path = "/api/tool-sessions/{id}/cancel", operation_id = "cancel_tool_session", tag = "tools",
    params(("id" = String, Path, description = "The tool session")), request_body = Option<Nothing>,
    responses((status = 200, description = "Cancelled", body = ToolSession))
)]
pub async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Nothing>,
) -> Result<Json<ToolSession>> {
    Ok(Json(app.engine.cancel_tool(&caller.actor, &id, input.key).await?.into()))
}
