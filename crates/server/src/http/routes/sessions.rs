//! Sessions: open, list, read, state, change, move, retry, fork, stop, delete, export.

use async_stream::try_stream;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use sederunt_api::wire::Nothing;
use sederunt_api::wire::session::{
    DeleteQuery, ExportQuery, Fork, OpenSession, PageQuery, PatchSession, Session, SessionList, SessionView,
    SessionsQuery, ShareQuery, Transition,
};
use sederunt_api::wire::state::StateView;
use sederunt_core::access::ReadExtent;
use sederunt_core::event::EventQuery;
use sederunt_core::session::export::{ExportExtent, ExportFormat, ExportWriter};
use sederunt_core::{Error, SessionId, limits};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Open a session
///
/// Creates a session, or opens the existing one with this id: lists show it again and its scalar metadata is merged;
/// its other fields stay.
#[utoipa::path(
    post, path = "/api/sessions", operation_id = "open_session", tag = "sessions", request_body = OpenSession,
    responses(
        (status = 201, description = "Made", body = Session),
        (status = 200, description = "The session existed", body = Session),
        (status = 404, description = "A session that the caller may not see has this id",
            body = sederunt_api::wire::error::Envelope)
    )
)]
pub async fn open(
    State(app): State<App>,
    caller: Caller,
    input: Input<OpenSession>,
) -> Result<(StatusCode, Json<Session>)> {
    let opened = app.engine.open(&caller.actor, input.body.into(), input.key).await?;
    let status = if opened.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(opened.session.into())))
}

/// List sessions
///
/// Newest activity first. Callers who are not owners see the sessions in which they take part.
#[utoipa::path(
    get, path = "/api/sessions", operation_id = "list_sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, description = "A page", body = SessionList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<SessionsQuery>,
) -> Result<Json<SessionList>> {
    Ok(Json(app.engine.sessions(&caller.actor, query.try_into()?).await?.into()))
}

/// Read a session
///
/// Through a share link: only its title, status and result.
#[utoipa::path(
    get, path = "/api/sessions/{id}", operation_id = "get_session", tag = "sessions",
    params(("id" = String, Path, description = "The session"), ShareQuery),
    responses((status = 200, description = "The session", body = SessionView))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<Json<SessionView>> {
    let session = app.engine.session(&caller.actor, &id).await?;
    Ok(Json(match ReadExtent::of(caller.actor.role).whole_row {
        true => SessionView::Full(Box::new(session.into())),
        false => SessionView::Shared(session.into()),
    }))
}

/// Read the state of a session
///
/// Its status, counts, open turn and claim. The server reads one row, so polling costs the same for a log of any
/// length. Through a share link: only its status and last sequence.
#[utoipa::path(
    get, path = "/api/sessions/{id}/state", operation_id = "get_session_state", tag = "sessions",
    params(("id" = String, Path, description = "The session"), ShareQuery),
    responses((status = 200, description = "Its status", body = StateView))
)]
pub async fn state(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<Json<StateView>> {
    let state = app.engine.state(&caller.actor, &id).await?;
    Ok(Json(match ReadExtent::of(caller.actor.role).whole_row {
        true => StateView::Full(Box::new(state.into())),
        false => StateView::Shared(state.into()),
    }))
}

/// Change a session
///
/// If participants are added to a conversation whose open sitting uses one person's memory, the server ends that
/// sitting first: its memories stay that person's.
#[utoipa::path(
    patch, path = "/api/sessions/{id}", operation_id = "patch_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = PatchSession,
    responses((status = 200, description = "Changed", body = Session))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<PatchSession>,
) -> Result<Json<Session>> {
    Ok(Json(app.conversations()?.patch(&caller.actor, &id, input.body.into(), input.key).await?.into()))
}

/// Delete a session
///
/// Deletes the session and its log. A session that runs or waits for a decision must be stopped first (409
/// `session_running`). A group's session is 409 `group_session`, unless an owner sends `force=true`.
#[utoipa::path(
    delete, path = "/api/sessions/{id}", operation_id = "delete_session", tag = "sessions",
    params(("id" = String, Path, description = "The session"), DeleteQuery),
    responses((status = 204, description = "Deleted"))
)]
pub async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(DeleteQuery { force }): Params<DeleteQuery>,
) -> Result<StatusCode> {
    match force {
        true => app.engine.delete_by_force(&caller.actor, &id).await?,
        false => app.engine.delete(&caller.actor, &id).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Move a session to another status
///
/// Allowed: start a draft, cancel, abandon or expire a session, and move an external session between `idle` and
/// `running`. All other changes of status come from claims, answers and decisions.
#[utoipa::path(
    post, path = "/api/sessions/{id}/transition", operation_id = "transition_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = Transition,
    responses((status = 200, description = "Moved", body = Session))
)]
pub async fn transition(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Transition>,
) -> Result<Json<Session>> {
    Ok(Json(app.engine.transition(&caller.actor, &id, input.body.into(), input.key).await?.into()))
}

/// Retry a failed session in a new session
#[utoipa::path(
    post, path = "/api/sessions/{id}/retry", operation_id = "retry_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = Option<Nothing>,
    responses((status = 201, description = "The new session", body = Session))
)]
pub async fn retry(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Nothing>,
) -> Result<(StatusCode, Json<Session>)> {
    let session = app.engine.retry(&caller.actor, &id, input.key).await?;
    Ok((StatusCode::CREATED, Json(session.into())))
}

/// Ask a session to stop
///
/// The worker learns of it in the answer to its next heartbeat or append. A session without a worker ends at once.
#[utoipa::path(
    post, path = "/api/sessions/{id}/stop", operation_id = "stop_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = Option<Nothing>,
    responses((status = 200, description = "Requested", body = Session))
)]
pub async fn stop(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Nothing>,
) -> Result<Json<Session>> {
    let session = app.engine.stop(&caller.actor, &id, input.key).await?;
    app.go_on(&caller.actor.tenant, &id);
    Ok(Json(session.into()))
}

/// Fork a session
///
/// Creates a session whose log begins with this session's events up to a sequence.
#[utoipa::path(
    post, path = "/api/sessions/{id}/fork", operation_id = "fork_session", tag = "sessions",
    params(("id" = String, Path, description = "The session")), request_body = Fork,
    responses((status = 201, description = "The new session", body = Session))
)]
pub async fn fork(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Fork>,
) -> Result<(StatusCode, Json<Session>)> {
    let session = app.engine.fork(&caller.actor, &id, input.body.at_sequence.0, input.key).await?;
    Ok((StatusCode::CREATED, Json(session.into())))
}

/// List the children of a session
#[utoipa::path(
    get, path = "/api/sessions/{id}/children", operation_id = "list_children", tag = "sessions",
    params(("id" = String, Path, description = "The session"), PageQuery),
    responses((status = 200, description = "A page", body = SessionList))
)]
pub async fn children(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(page): Params<PageQuery>,
) -> Result<Json<SessionList>> {
    Ok(Json(app.engine.children(&caller.actor, &id, page.limit, page.after).await?.into()))
}

/// Export a session
///
/// The messages as Markdown (with short tool results) or plain text, for people to read. With `all=true` the whole
/// log. JSON always has the session and the whole log.
#[utoipa::path(
    get, path = "/api/sessions/{id}/export", operation_id = "export_session", tag = "sessions",
    params(("id" = String, Path, description = "The session"), ExportQuery),
    responses((status = 200, description = "The export", content(
        (String = "text/markdown; charset=utf-8"), (String = "text/plain; charset=utf-8"),
        (Object = "application/json"),
    )))
)]
pub async fn export(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(query): Params<ExportQuery>,
) -> Result<Response> {
    let format = query.format.map_or(ExportFormat::Markdown, Into::into);
    let extent = if query.all { ExportExtent::Everything } else { ExportExtent::Messages };
    let session = app.engine.export(&caller.actor, &id).await?;
    let last = session.head.last_sequence;
    // Page by page: a long log is never whole in memory. Events that are appended meanwhile are left out.
    let body = try_stream! {
        let mut paper = ExportWriter::new(format, extent);
        yield Bytes::from(paper.begin(&session));
        let mut after = 0;
        while after < last {
            let query = EventQuery {
                after,
                before: Some(last + 1),
                limit: limits::PAGE_ROWS_MAX,
                ..EventQuery::default()
            };
            let page = app.engine.read(&caller.actor, &session.id, query).await?;
            yield Bytes::from(paper.events(&page.events));
            if !page.has_more || page.next_after <= after {
                break;
            }
            after = page.next_after;
        }
        yield Bytes::from(paper.end());
    };
    let mut response = Response::new(Body::from_stream::<_>(typed(body)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    Ok(response)
}

/// Fixes the error type of an export's stream: on an error the connection breaks off, so that no client takes a part
/// for the whole.
fn typed<S: futures_util::Stream<Item = Result<Bytes, Error>>>(stream: S) -> S {
    stream
}
