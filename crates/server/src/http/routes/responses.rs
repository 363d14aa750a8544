//! Responses: open one for a view, save, submit and abandon it, read one or all of a view.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response as HttpResponse};
use axum::{Extension, Json};
use http::{HeaderMap, StatusCode};
use sederunt_api::wire::Nothing;
use sederunt_api::wire::response::{
    OpenResponse, PromoteResponse, Response, ResponseList, ResponsesQuery, SaveResponse, SubmitResponse,
    SubmittedResponse,
};
use sederunt_api::wire::session::ShareQuery;
use sederunt_core::SessionId;
use sederunt_core::response::ResponseFilter;

use super::views::address;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;
use crate::http::respondent::{cookie, with_cookie};
use crate::http::{App, Peer};

/// Open a response
///
/// The caller's open response to the view, or a new one with the view's questions as they are now. A member is known
/// by the credential, a stranger by the link and a cookie that this answer sets.
#[utoipa::path(
    post, path = "/api/views/{id}/responses", operation_id = "open_response", tag = "responses",
    params(("id" = String, Path, description = "The view")), request_body = OpenResponse,
    responses(
        (status = 200, description = "The response that the caller has open", body = Response),
        (status = 201, description = "A new response", body = Response),
    )
)]
pub async fn open(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    input: Input<OpenResponse>,
) -> Result<HttpResponse> {
    app.counters.new_respondent(&caller, address(peer))?;
    let entity = input.body.entity_id.as_deref();
    let opened =
        app.engine.open_response(&caller.actor, &id, cookie(&headers, &id), entity, input.key).await?;
    let status = if opened.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let answer = (status, Json(Response::from(opened.response))).into_response();
    Ok(with_cookie(answer, &app, &caller, &id, opened.cookie).await?)
}

/// List the responses to a view
///
/// For owners, the view's maker and the assignee.
#[utoipa::path(
    get, path = "/api/views/{id}/responses", operation_id = "list_responses", tag = "responses",
    params(("id" = String, Path, description = "The view"), ResponsesQuery),
    responses((status = 200, description = "A page, newest first", body = ResponseList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(query): Params<ResponsesQuery>,
) -> Result<Json<ResponseList>> {
    let filter = query.status.map_or(ResponseFilter::All, Into::into);
    let page = app.engine.responses(&caller.actor, &id, filter, query.after, query.limit).await?;
    Ok(Json(page.into()))
}

/// Read a response
///
/// For its respondent, owners, the view's maker and the assignee. A link shows it only with the cookie of the
/// respondent who opened it.
#[utoipa::path(
    get, path = "/api/responses/{id}", operation_id = "get_response", tag = "responses",
    params(("id" = String, Path, description = "The response"), ShareQuery),
    responses((status = 200, description = "The response", body = Response))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
    headers: HeaderMap,
) -> Result<Json<Response>> {
    let response = app.engine.response(&caller.actor, &id, own_cookie(&caller, &headers)).await?;
    Ok(Json(response.into()))
}

/// Save a response
///
/// Merged key by key. Types and sizes are checked; what is required may still be missing. Values that are there already
/// change nothing.
#[utoipa::path(
    patch, path = "/api/responses/{id}", operation_id = "save_response", tag = "responses",
    params(("id" = String, Path, description = "The response")), request_body = SaveResponse,
    responses((status = 200, description = "Saved", body = Response))
)]
pub async fn save(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    headers: HeaderMap,
    input: Input<SaveResponse>,
) -> Result<Json<Response>> {
    let SaveResponse { values, version } = input.body;
    let cookie = own_cookie(&caller, &headers);
    let saved = app.engine.save_response(&caller.actor, &id, cookie, &values.0, version).await?;
    Ok(Json(saved.into()))
}

/// Submit a response
///
/// The values over what was saved, checked as a whole. The same again is 200 with `repeated`, another one 409
/// `already_answered`.
#[utoipa::path(
    post, path = "/api/responses/{id}/submit", operation_id = "submit_response", tag = "responses",
    params(("id" = String, Path, description = "The response")), request_body = SubmitResponse,
    responses((status = 200, description = "Submitted", body = SubmittedResponse))
)]
pub async fn submit(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    headers: HeaderMap,
    input: Input<SubmitResponse>,
) -> Result<Json<SubmittedResponse>> {
    let values = input.body.values.as_ref().map(|values| &values.0);
    let done = app
        .engine
        .submit_response(&caller.actor, &id, own_cookie(&caller, &headers), values, input.key)
        .await?;
    Ok(Json(SubmittedResponse { response: done.response.into(), repeated: done.repeated }))
}

/// Abandon a response
///
/// For its respondent and owners. The respondent may then open another.
#[utoipa::path(
    post, path = "/api/responses/{id}/abandon", operation_id = "abandon_response", tag = "responses",
    params(("id" = String, Path, description = "The response")), request_body = Option<Nothing>,
    responses((status = 200, description = "Abandoned", body = Response))
)]
pub async fn abandon(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    headers: HeaderMap,
    input: Input<Nothing>,
) -> Result<Json<Response>> {
    let cookie = own_cookie(&caller, &headers);
    let gone = app.engine.abandon_response(&caller.actor, &id, cookie, input.key).await?;
    Ok(Json(gone.into()))
}

/// Promote a response
///
/// Asks a person whether the fields of a submitted response may be written to an entity: by hand where the form does not
/// ask by itself, or again after a denial or an expiry. For owners and the form's maker. 409 `session_running` while a
/// promotion is pending, `already_decided` once it is promoted, `invalid_transition` before it is submitted.
#[utoipa::path(
    post, path = "/api/responses/{id}/promote", operation_id = "promote_response", tag = "responses",
    params(("id" = String, Path, description = "The response")), request_body = Option<PromoteResponse>,
    responses((status = 200, description = "Asked", body = Response))
)]
pub async fn promote(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<PromoteResponse>,
) -> Result<Json<Response>> {
    let to = input.body.assigned_to.as_deref();
    Ok(Json(app.engine.promote(&caller.actor, &id, to, input.key).await?.into()))
}

/// The cookie by which a stranger is recognised: that of the view which the link opens.
fn own_cookie<'a>(caller: &Caller, headers: &'a HeaderMap) -> Option<&'a str> {
    caller.actor.view.as_deref().and_then(|view| cookie(headers, view))
}
