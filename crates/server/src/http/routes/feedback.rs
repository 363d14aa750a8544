//! Feedback: thumbs with words, feedback sessions, statistics.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::Nothing;
use sederunt_api::wire::feedback::{
    AppendFeedback, CaptureDone, CaptureRequest, FailureList, FailuresQuery, FeedbackAppended,
    FeedbackFinalized, FeedbackOpened, FeedbackSession, FeedbackSessionList, FeedbackSessionsQuery,
    FeedbackStats, Markdown, OpenFeedback, SummaryQuery,
};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Give feedback
///
/// A thumb up or down with words about an agent's work. If the words say too little, the server keeps the thumb and
/// answers with a question (`clarification_required`). If they contain a secret, it keeps nothing (`blocked`).
/// Otherwise it opens a feedback session for further messages, and draws the lesson when that is finalized.
#[utoipa::path(
    post, path = "/api/feedback", operation_id = "capture_feedback", tag = "feedback",
    request_body = CaptureRequest,
    responses((status = 200, description = "The outcome", body = CaptureDone))
)]
pub async fn capture(
    State(app): State<App>,
    caller: Caller,
    input: Input<CaptureRequest>,
) -> Result<Json<CaptureDone>> {
    let wish = input.body.try_into()?;
    Ok(Json(app.engine.capture_feedback(&caller.actor, wish, input.key).await?.into()))
}

/// Read the statistics of feedback
#[utoipa::path(
    get, path = "/api/feedback/stats", operation_id = "feedback_stats", tag = "feedback",
    responses((status = 200, description = "The figures", body = FeedbackStats))
)]
pub async fn stats(
    State(app): State<App>,
    caller: Caller,
    Params(()): Params<()>,
) -> Result<Json<FeedbackStats>> {
    Ok(Json(app.engine.feedback_stats(&caller.actor).await?.into()))
}

/// Read the newest feedback as Markdown
#[utoipa::path(
    get, path = "/api/feedback/summary", operation_id = "feedback_summary", tag = "feedback", params(SummaryQuery),
    responses((status = 200, description = "Markdown", body = Markdown))
)]
pub async fn summary(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<SummaryQuery>,
) -> Result<Json<Markdown>> {
    let markdown = app
        .engine
        .feedback_summary(&caller.actor, usize::try_from(asked.recent).unwrap_or(usize::MAX))
        .await?;
    Ok(Json(Markdown { markdown }))
}

/// List failures
///
/// The server records every failed run of a task: the code of the failure, and the event of the log that says why.
/// Owners see all records; other callers name a session or a task, and see the records of sessions that they may
/// read.
#[utoipa::path(
    get, path = "/api/feedback/failures", operation_id = "list_failures", tag = "feedback",
    params(FailuresQuery),
    responses((status = 200, description = "A page, newest first", body = FailureList))
)]
pub async fn failures(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<FailuresQuery>,
) -> Result<Json<FailureList>> {
    let FailuresQuery { task, session, after, limit } = asked;
    let page = app.engine.failures(&caller.actor, task.as_deref(), session, after, limit).await?;
    Ok(Json(page.into()))
}

/// Open a feedback session
///
/// For an earlier feedback event, with the signal of that event.
#[utoipa::path(
    post, path = "/api/feedback/sessions", operation_id = "open_feedback_session", tag = "feedback",
    request_body = OpenFeedback,
    responses((status = 200, description = "Opened", body = FeedbackOpened))
)]
pub async fn open(
    State(app): State<App>,
    caller: Caller,
    input: Input<OpenFeedback>,
) -> Result<Json<FeedbackOpened>> {
    let asked = input.body;
    let opened = app
        .engine
        .open_feedback(
            &caller.actor,
            &asked.feedback_event_id,
            asked.signal.into(),
            asked.initial_context,
            input.key,
        )
        .await?;
    Ok(Json(opened.into()))
}

/// List feedback sessions
#[utoipa::path(
    get, path = "/api/feedback/sessions", operation_id = "list_feedback_sessions", tag = "feedback",
    params(FeedbackSessionsQuery),
    responses((status = 200, description = "A page, newest first", body = FeedbackSessionList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<FeedbackSessionsQuery>,
) -> Result<Json<FeedbackSessionList>> {
    let page = app
        .engine
        .feedback_sessions(&caller.actor, asked.state.map(Into::into), asked.after, asked.limit)
        .await?;
    Ok(Json(page.into()))
}

/// Read a feedback session
#[utoipa::path(
    get, path = "/api/feedback/sessions/{id}", operation_id = "get_feedback_session", tag = "feedback",
    params(("id" = String, Path, description = "The feedback session")),
    responses((status = 200, description = "The session, open or finalized", body = FeedbackSession))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<Json<FeedbackSession>> {
    Ok(Json(app.engine.feedback_session(&caller.actor, &id).await?.into()))
}

/// Add to a feedback session
///
/// A message that cannot be added is not an error: `status` says why. Each message restarts the minute after which
/// the session is finalized.
#[utoipa::path(
    post, path = "/api/feedback/sessions/{id}/append", operation_id = "append_feedback_context", tag = "feedback",
    params(("id" = String, Path, description = "The feedback session")), request_body = AppendFeedback,
    responses((status = 200, description = "The outcome", body = FeedbackAppended))
)]
pub async fn append(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    input: Input<AppendFeedback>,
) -> Result<Json<FeedbackAppended>> {
    let role = input.body.role.map_or(sederunt_core::feedback::capture::Speaker::User, Into::into);
    let added = app.engine.append_feedback(&caller.actor, &id, role, &input.body.message, input.key).await?;
    Ok(Json(FeedbackAppended::of(&id, added)))
}

/// Finalize a feedback session
///
/// The server draws the lesson. It does so by itself after a minute without a message.
#[utoipa::path(
    post, path = "/api/feedback/sessions/{id}/finalize", operation_id = "finalize_feedback_session",
    tag = "feedback", params(("id" = String, Path, description = "The feedback session")),
    request_body = Option<Nothing>,
    responses((status = 200, description = "The outcome", body = FeedbackFinalized))
)]
pub async fn finalize(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    _input: Input<Nothing>,
) -> Result<Json<FeedbackFinalized>> {
    let done = app.conversations()?.lesson_writer().finalize(&caller.actor, &id).await?;
    Ok(Json(FeedbackFinalized::of(&id, done)))
}
