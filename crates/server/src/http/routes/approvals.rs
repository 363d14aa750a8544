//! Approvals: list, decide, answer.

use axum::Json;
use axum::extract::State;
use sederunt_api::wire::approval::{
    Approval, ApprovalAnswer, ApprovalExpansion, ApprovalList, ApprovalsQuery, Decide, ElicitationAction,
    ElicitationReply, ExpandQuery, HumanComplete,
};
use sederunt_api::wire::session::Session;
use sederunt_core::approval::decide::TurnDown;
use sederunt_core::{Error, SessionId};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

/// List approvals
///
/// The approvals that the caller may decide: an owner sees all of the tenant, a member those assigned to it.
#[utoipa::path(
    get, path = "/api/approvals", operation_id = "list_approvals", tag = "approvals", params(ApprovalsQuery),
    responses((status = 200, description = "A page, newest first", body = ApprovalList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<ApprovalsQuery>,
) -> Result<Json<ApprovalList>> {
    Ok(Json(app.engine.approvals(&caller.actor, query.mine, query.into()).await?.into()))
}

/// Read an approval
///
/// With `expand=context`: also what a person needs to decide, as far as the caller may see it.
#[utoipa::path(
    get, path = "/api/approvals/{id}", operation_id = "get_approval", tag = "approvals",
    params(("id" = String, Path, description = "The approval"), ExpandQuery),
    responses((status = 200, description = "The approval", body = ApprovalAnswer))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(ExpandQuery { expand }): Params<ExpandQuery>,
) -> Result<Json<ApprovalAnswer>> {
    Ok(Json(match expand {
        Some(ApprovalExpansion::Context) => app.engine.approval_in_context(&caller.actor, &id).await?.into(),
        None => app.engine.approval(&caller.actor, &id).await?.into(),
    }))
}

/// Decide on an approval
///
/// The decision, the values it writes and the waiting session change in one commit. The same decision again changes
/// nothing; the opposite one is 409 `already_decided`. An edit that chooses a blocked option is 422 `hard_blocked`
/// and leaves the approval pending. A question is answered by `human-complete` or `elicitation-reply`, or denied
/// here. A conversation's turn that waited for the decision continues.
#[utoipa::path(
    post, path = "/api/approvals/{id}/decide", operation_id = "decide", tag = "approvals",
    params(("id" = String, Path, description = "The approval")), request_body = Decide,
    responses((status = 200, description = "Decided", body = Approval))
)]
pub async fn decide(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    input: Input<Decide>,
) -> Result<Json<Approval>> {
    let decided = app.engine.decide(&caller.actor, &id, input.body.into(), input.key).await?;
    app.go_on(&caller.actor.tenant, &decided.session);
    Ok(Json(decided.into()))
}

/// Decide on an action
///
/// Like deciding on an approval. The path names an approval, or a task that has exactly one pending approval; several
/// are 409 `several_pending`.
#[utoipa::path(
    post, path = "/api/actions/{id}/tool-approval", operation_id = "decide_by_action", tag = "approvals",
    params(("id" = String, Path, description = "The approval, or its task")), request_body = Decide,
    responses((status = 200, description = "Decided", body = Approval))
)]
pub async fn decide_by_action(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    input: Input<Decide>,
) -> Result<Json<Approval>> {
    let decided = app.engine.decide_for(&caller.actor, &id, input.body.into(), input.key).await?;
    app.go_on(&caller.actor.tenant, &decided.session);
    Ok(Json(decided.into()))
}

/// Complete a person's step
///
/// A result that does not fit the step's output contract is 422 `output_invalid`, and the step keeps waiting.
#[utoipa::path(
    post, path = "/api/sessions/{id}/human-complete", operation_id = "human_complete", tag = "approvals",
    params(("id" = String, Path, description = "The session")), request_body = Option<HumanComplete>,
    responses((status = 200, description = "Completed", body = Session))
)]
pub async fn human_complete(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<HumanComplete>,
) -> Result<Json<Session>> {
    let HumanComplete { result, text } = input.body;
    let result = result.map(|raw| raw.0);
    Ok(Json(app.engine.human_complete(&caller.actor, &id, result, text, input.key).await?.into()))
}

/// Answer a run's question
///
/// The run is queued again and continues with the answer. What a called MCP server asks may be declined or cancelled
/// instead; the server is told which.
#[utoipa::path(
    post, path = "/api/sessions/{id}/elicitation-reply", operation_id = "elicitation_reply", tag = "approvals",
    params(("id" = String, Path, description = "The session")), request_body = ElicitationReply,
    responses((status = 200, description = "Answered", body = Session))
)]
pub async fn elicitation_reply(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<ElicitationReply>,
) -> Result<Json<Session>> {
    let (actor, key) = (&caller.actor, input.key);
    let ElicitationReply { reply, action } = input.body;
    let how = match action {
        None | Some(ElicitationAction::Accept) => {
            let reply = reply.ok_or_else(|| Error::invalid("reply", "is missing"))?;
            return Ok(Json(app.engine.reply(actor, &id, reply.0, key).await?.into()));
        }
        Some(ElicitationAction::Decline) => TurnDown::Decline,
        Some(ElicitationAction::Cancel) => TurnDown::Cancel,
    };
    if reply.is_some() {
        return Err(Error::invalid("reply", "belongs to `accept`").into());
    }
    Ok(Json(app.engine.turn_down(actor, &id, how, key).await?.into()))
}
