//! Tasks: define, list, read, change, start, and read their progress.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::definitions::{
    DefinitionAnswer, DefinitionListQuery, DefinitionPage, NewTask, PatchTask, Task, TaskList, TasksQuery,
};
use sederunt_api::wire::session::Session;
use sederunt_api::wire::task::{TaskStanding, Trigger};
use sederunt_core::definitions::{self, read};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::{Input, Text};
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Define a task
///
/// Members define their own tasks. The agents, entities and criteria sets that a task names must exist.
#[utoipa::path(
    post, path = "/api/tasks", operation_id = "create_task", tag = "library", request_body = NewTask,
    responses((status = 201, description = "Defined", body = Task))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    text: Text,
) -> Result<(StatusCode, Json<DefinitionAnswer<definitions::Task>>)> {
    let (id, wish) = read(&text.json())?;
    let made = app.engine.define(&caller.actor, id.as_deref(), wish, text.key).await?;
    let warnings = app.engine.warnings(&caller.actor, &made.value).await?;
    Ok((StatusCode::CREATED, Json(DefinitionAnswer::warned(made, warnings))))
}

/// List tasks
///
/// Members see the tasks that they created and those that are assigned to them.
#[utoipa::path(
    get, path = "/api/tasks", operation_id = "list_tasks", tag = "library", params(TasksQuery),
    responses((status = 200, description = "A page, newest first", body = TaskList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<TasksQuery>,
) -> Result<Json<DefinitionPage<definitions::Task>>> {
    let DefinitionListQuery { filters, after, limit } = query.into();
    let page = app.engine.definitions(&caller.actor, filters, after, limit).await?;
    Ok(Json(page.into()))
}

/// Read a task
#[utoipa::path(
    get, path = "/api/tasks/{id}", operation_id = "get_task", tag = "library",
    params(("id" = String, Path, description = "The task's id or slug")),
    responses((status = 200, description = "The task", body = Task))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<DefinitionAnswer<definitions::Task>>> {
    let found = app.engine.definition(&caller.actor, &id).await?;
    Ok(Json(found.into()))
}

/// Change a task
///
/// Given fields are replaced, `null` clears a field. Runs that are already started keep the definition they were
/// started with.
#[utoipa::path(
    patch, path = "/api/tasks/{id}", operation_id = "patch_task", tag = "library",
    params(("id" = String, Path, description = "The task's id or slug")), request_body = PatchTask,
    responses((status = 200, description = "Changed", body = Task))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    text: Text,
) -> Result<Json<DefinitionAnswer<definitions::Task>>> {
    let changed = app.engine.redefine(&caller.actor, &id, &text.json(), text.key).await?;
    let warnings = app.engine.warnings(&caller.actor, &changed.value).await?;
    Ok(Json(DefinitionAnswer::warned(changed, warnings)))
}

/// Start a task
///
/// Creates a pending session; for a task with steps, a parent with one child per step. A person's step waits in that
/// person's work queue.
#[utoipa::path(
    post, path = "/api/tasks/{id}/trigger", operation_id = "trigger_task", tag = "library",
    params(("id" = String, Path, description = "The task's id or slug")), request_body = Option<Trigger>,
    responses((status = 201, description = "The session of the run", body = Session))
)]
pub async fn trigger(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    input: Input<Trigger>,
) -> Result<(StatusCode, Json<Session>)> {
    let wish = input.body.input.map(|raw| raw.0);
    let session = app.engine.trigger(&caller.actor, &id, wish, input.key).await?;
    Ok((StatusCode::CREATED, Json(session.into())))
}

/// Read the status of a task
///
/// Its newest run, the duration and error of that run, and the newest events.
#[utoipa::path(
    get, path = "/api/tasks/{id}/status", operation_id = "get_task_status", tag = "library",
    params(("id" = String, Path, description = "The task's id or slug")),
    responses((status = 200, description = "Its status", body = TaskStanding))
)]
pub async fn status(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<TaskStanding>> {
    Ok(Json(app.engine.task_standing(&caller.actor, &id).await?.into()))
}
