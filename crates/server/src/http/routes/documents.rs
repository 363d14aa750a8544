//! Documents of a session: list, open, read, patch and apply them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use sederunt_api::wire::document::{
    AppliedDocument, ApplyDocument, Document, DocumentList, DocumentQuery, OpenDocument, PatchDocument,
    PatchQuery, PatchedDocument,
};
use sederunt_core::SessionId;
use sederunt_core::document::DocumentKey;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::{Input, InputWithParams};
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// List documents
///
/// The documents of a mixed session, by kind and id; at most 50.
#[utoipa::path(
    get, path = "/api/sessions/{id}/documents", operation_id = "list_documents", tag = "documents",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, description = "All of them", body = DocumentList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    Params(()): Params<()>,
) -> Result<Json<DocumentList>> {
    Ok(Json(app.engine.documents(&caller.actor, &id).await?.into()))
}

/// Read a document
///
/// Its newest value, or the one that it had at a sequence of the log. Earlier states are computed two at a time; beyond
/// that the answer is 503 `unavailable`.
#[utoipa::path(
    get, path = "/api/sessions/{id}/documents/{kind}/{doc}", operation_id = "get_document", tag = "documents",
    params(
        ("id" = String, Path, description = "The session"),
        ("kind" = String, Path, description = "`scratch`, `entity` or `view`"),
        ("doc" = String, Path, description = "The id of the document: that of its entity or view, or any name"),
        DocumentQuery,
    ),
    responses((status = 200, description = "The document", body = Document))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName((id, key)): PathName<(SessionId, DocumentKey)>,
    Params(query): Params<DocumentQuery>,
) -> Result<Json<Document>> {
    Ok(Json(app.engine.shared_document(&caller.actor, &id, &key, query.at_sequence).await?.into()))
}

/// Open a document
///
/// A scratch document begins with the given value. One of an entity or a view begins from its row, is opened by an owner or
/// a member who may read that row, and only in a session without guests and share links (409 `type_mismatch`). One that is
/// open already is 409 `already_exists`.
#[utoipa::path(
    put, path = "/api/sessions/{id}/documents/{kind}/{doc}", operation_id = "open_document", tag = "documents",
    params(
        ("id" = String, Path, description = "The session"),
        ("kind" = String, Path, description = "`scratch`, `entity` or `view`"),
        ("doc" = String, Path, description = "The id of the document: that of its entity or view, or any name"),
    ),
    request_body = Option<OpenDocument>,
    responses((status = 201, description = "Opened", body = Document))
)]
pub async fn open(
    State(app): State<App>,
    caller: Caller,
    PathName((id, key)): PathName<(SessionId, DocumentKey)>,
    input: Input<OpenDocument>,
) -> Result<(StatusCode, Json<Document>)> {
    let value = input.body.value.as_ref().map(|value| &value.0);
    let opened = app.engine.open_document(&caller.actor, &id, &key, value, input.key).await?;
    Ok((StatusCode::CREATED, Json(opened.into())))
}

/// Patch a document
///
/// The same as appending `state.patch` to the log. A patch on an older state is accepted as it is if it reads and writes no
/// place that was written since; otherwise it is 409 `stale_base` with `details.sequence` and the written places in
/// `details.conflicts`.
#[utoipa::path(
    post, path = "/api/sessions/{id}/documents/{kind}/{doc}/patch", operation_id = "patch_document", tag = "documents",
    params(
        ("id" = String, Path, description = "The session"),
        ("kind" = String, Path, description = "`scratch`, `entity` or `view`"),
        ("doc" = String, Path, description = "The id of the document"),
        PatchQuery,
    ),
    request_body = PatchDocument,
    responses((status = 201, description = "Accepted", body = PatchedDocument))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName((id, key)): PathName<(SessionId, DocumentKey)>,
    input: InputWithParams<PatchDocument, PatchQuery>,
) -> Result<(StatusCode, Json<PatchedDocument>)> {
    let request = input.body.into_core(input.asked.inverse);
    let done = app.engine.patch_document(&caller.actor, &id, &key, request, input.key).await?;
    Ok((StatusCode::CREATED, Json(done.into())))
}

/// Apply a document
///
/// Writes what the document of an entity or a view has changed to its row: an owner at once (200), a member by an approval
/// that an owner decides on (202). A base that is not the newest, or a field that the row has changed meanwhile, is 409
/// `stale_base`.
#[utoipa::path(
    post, path = "/api/sessions/{id}/documents/{kind}/{doc}/apply", operation_id = "apply_document", tag = "documents",
    params(
        ("id" = String, Path, description = "The session"),
        ("kind" = String, Path, description = "`entity` or `view`"),
        ("doc" = String, Path, description = "The id of the document"),
    ),
    request_body = ApplyDocument,
    responses(
        (status = 200, description = "Written, or nothing to write", body = AppliedDocument),
        (status = 202, description = "An owner is asked", body = AppliedDocument),
    )
)]
pub async fn apply(
    State(app): State<App>,
    caller: Caller,
    PathName((id, key)): PathName<(SessionId, DocumentKey)>,
    input: Input<ApplyDocument>,
) -> Result<Response> {
    let base = input.body.base_sequence.0;
    let done = app.engine.apply_document(&caller.actor, &id, &key, base, input.key).await?;
    let status = if done.approval_id.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(AppliedDocument::from(done))).into_response())
}
