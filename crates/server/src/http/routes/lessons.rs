//! Lessons: find them, get those for what is about to be done, accept, reword and retire them.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::feedback::Markdown;
use sederunt_api::wire::lesson::{
    AboutQuery, Lesson, LessonList, LessonsQuery, PatchLesson, PreventionRules, RulesQuery,
};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// List or search lessons
///
/// Owners and workers see all lessons of the tenant. Members and guests see lessons that came from their own feedback
/// or from a session in which they take part.
#[utoipa::path(
    get, path = "/api/lessons", operation_id = "list_lessons", tag = "feedback", params(LessonsQuery),
    responses((status = 200, description = "A page, best match or newest first", body = LessonList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<LessonsQuery>,
) -> Result<Json<LessonList>> {
    Ok(Json(app.engine.search_lessons(&caller.actor, query.try_into()?).await?.into()))
}

/// Retrieve the lessons for a piece of work
///
/// The lessons count as shown.
#[utoipa::path(
    get, path = "/api/lessons/retrieve", operation_id = "retrieve_lessons", tag = "feedback", params(AboutQuery),
    responses((status = 200, description = "The best first", body = LessonList))
)]
pub async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<AboutQuery>,
) -> Result<Json<LessonList>> {
    let (about, limit) = query.checked()?;
    let found = app.engine.retrieve_lessons(&caller.actor, &about, limit).await?;
    Ok(Json(LessonList { items: found.into_iter().map(Into::into).collect(), next_cursor: None }))
}

/// Recall lessons and rules as Markdown
///
/// The lessons that match the words, and the prevention rules. The lessons count as shown.
#[utoipa::path(
    get, path = "/api/lessons/recall", operation_id = "recall_lessons", tag = "feedback", params(AboutQuery),
    responses((status = 200, description = "Markdown", body = Markdown))
)]
pub async fn recall(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<AboutQuery>,
) -> Result<Json<Markdown>> {
    let (about, limit) = query.checked()?;
    let markdown = app.engine.recall_lessons(&caller.actor, &about, limit).await?;
    Ok(Json(Markdown { markdown }))
}

/// List prevention rules
///
/// Lessons that came up in three or more feedback events. A rule loses weight with its lesson.
#[utoipa::path(
    get, path = "/api/lessons/rules", operation_id = "prevention_rules", tag = "feedback", params(RulesQuery),
    responses((status = 200, description = "The weightiest first", body = PreventionRules))
)]
pub async fn rules(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<RulesQuery>,
) -> Result<Json<PreventionRules>> {
    Ok(Json(app.engine.prevention_rules(&caller.actor, query.checked()?).await?.into()))
}

/// Read a lesson
#[utoipa::path(
    get, path = "/api/lessons/{id}", operation_id = "get_lesson", tag = "feedback",
    params(("id" = String, Path, description = "The lesson")),
    responses((status = 200, description = "The lesson", body = Lesson))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<Lesson>> {
    Ok(Json(app.engine.lesson(&caller.actor, &id).await?.into()))
}

/// Accept, reword or retire a lesson
///
/// An accepted lesson does not lose confidence over time. A retired lesson is shown to no agent, and new feedback
/// does not bring it back.
#[utoipa::path(
    patch, path = "/api/lessons/{id}", operation_id = "patch_lesson", tag = "feedback",
    params(("id" = String, Path, description = "The lesson")), request_body = PatchLesson,
    responses((status = 200, description = "Changed", body = Lesson))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    input: Input<PatchLesson>,
) -> Result<Json<Lesson>> {
    Ok(Json(app.engine.change_lesson(&caller.actor, &id, input.body.into()).await?.into()))
}
