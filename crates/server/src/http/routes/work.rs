//! The routes of workers: claim, heartbeat, settle, and text of an unfinished reply.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::session::Session;
use sederunt_api::wire::work::{
    ClaimRequest, Claimed, Claims, Complete, Delta, Fail, Heartbeat, HeartbeatRequest, Yield,
};
use sederunt_core::SessionId;
use sederunt_core::engine::Engine;
use sederunt_core::store::IdemKey;
use sederunt_core::work::{ClaimRequest as ClaimOf, ClaimedRun, Settle, needs_brief};

use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::{App, Phase};

/// Claim work
///
/// Gives pending sessions to the calling worker, each to one worker only: highest priority first, then oldest. With
/// `wait_ms` the server waits for work; the list is empty if there is none. Each claim carries the brief of its task,
/// and what a person decided since the last run paused.
#[utoipa::path(
    post, path = "/api/claims", operation_id = "claim", tag = "work", request_body = ClaimRequest,
    responses((status = 200, description = "The claimed sessions", body = Claims))
)]
pub async fn claim(
    State(app): State<App>,
    caller: Caller,
    input: Input<ClaimRequest>,
) -> Result<Json<Claims>> {
    let request = input.body.into_core(app.engine.settings().lease);
    request.check()?;
    // In short turns, so that a stopping server does not wait for callers that wait for work.
    let until = Instant::now() + request.wait;
    loop {
        let wait = until.saturating_duration_since(Instant::now()).min(TURN);
        let claimed = app.engine.claim(&caller.actor, ClaimOf { wait, ..request.clone() }, input.key).await?;
        let leaving = *app.phase.borrow() > Phase::Serving;
        if !claimed.is_empty() || leaving || Instant::now() >= until {
            return Ok(Json(briefed(&app.engine, claimed).await?));
        }
        // Work can come a minute after the request did: a key that was revoked or demoted meanwhile gets none.
        app.auth.still_holds(&caller).await?;
    }
}

/// The claimed sessions, each with its brief.
async fn briefed(engine: &Engine, claimed: Vec<ClaimedRun>) -> Result<Claims> {
    let mut claims = Vec::with_capacity(claimed.len());
    for claimed in claimed {
        let pending_answers;
        let brief = if needs_brief(&claimed.session) {
            let mut brief = engine.brief(&claimed, None).await?;
            pending_answers = std::mem::take(&mut brief.answers);
            Some(brief)
        } else {
            pending_answers = Vec::new();
            None
        };
        claims.push(Claimed {
            session: claimed.session.into(),
            epoch: claimed.epoch,
            lease_until: claimed.lease_until,
            resume: brief.as_ref().and_then(|brief| brief.run.resume.clone()).map(Into::into),
            brief: brief.map(Into::into),
            pending_answers: pending_answers.into_iter().map(Into::into).collect(),
        });
    }
    Ok(Claims { claims })
}

/// How long a claim waits in one turn.
const TURN: Duration = Duration::from_secs(1);

/// Renew a claim
#[utoipa::path(
    post, path = "/api/sessions/{id}/heartbeat", operation_id = "heartbeat", tag = "work",
    params(("id" = String, Path, description = "The session")), request_body = HeartbeatRequest,
    responses((status = 200, description = "Renewed", body = Heartbeat))
)]
pub async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<HeartbeatRequest>,
) -> Result<Json<Heartbeat>> {
    let lease = input.body.lease_ms.map(Duration::from_millis);
    Ok(Json(app.engine.heartbeat(&caller.actor, &id, input.body.epoch.0, lease).await?.into()))
}

/// Complete a run
///
/// A result that does not fit the output contract is 422 `output_invalid` with the reasons in `details.complaints`;
/// the worker keeps its claim and may repair the result once. If the task requires approval, the session then waits
/// for a person.
#[utoipa::path(
    post, path = "/api/sessions/{id}/complete", operation_id = "complete", tag = "work",
    params(("id" = String, Path, description = "The session")), request_body = Complete,
    responses((status = 200, description = "Settled", body = Session))
)]
pub async fn complete(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Complete>,
) -> Result<Json<Session>> {
    settle(&app, &caller, &id, input.body.into_core(), input.key).await
}

/// Fail a run
#[utoipa::path(
    post, path = "/api/sessions/{id}/fail", operation_id = "fail", tag = "work",
    params(("id" = String, Path, description = "The session")), request_body = Fail,
    responses((status = 200, description = "Settled", body = Session))
)]
pub async fn fail(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Fail>,
) -> Result<Json<Session>> {
    settle(&app, &caller, &id, input.body.into_core(), input.key).await
}

/// Pause a run
///
/// The session waits until a person decides on a tool call, a person answers, or a message arrives.
#[utoipa::path(
    post, path = "/api/sessions/{id}/yield", operation_id = "yield", tag = "work",
    params(("id" = String, Path, description = "The session")), request_body = Yield,
    responses((status = 200, description = "Settled", body = Session))
)]
pub async fn pause(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Yield>,
) -> Result<Json<Session>> {
    settle(&app, &caller, &id, input.body.into_core()?, input.key).await
}

async fn settle(
    app: &App,
    caller: &Caller,
    id: &SessionId,
    (epoch, how): (u64, Settle),
    key: Option<IdemKey>,
) -> Result<Json<Session>> {
    Ok(Json(app.engine.settle(&caller.actor, id, epoch, how, key).await?.into()))
}

/// Stream the text of an unfinished reply
///
/// Readers of the session's stream receive it at once; it is not written to the log. The finished message is an
/// event.
#[utoipa::path(
    post, path = "/api/sessions/{id}/delta", operation_id = "delta", tag = "work",
    params(("id" = String, Path, description = "The session")), request_body = Delta,
    responses((status = 204, description = "Sent to the readers"))
)]
pub async fn delta(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<SessionId>,
    input: Input<Delta>,
) -> Result<StatusCode> {
    app.engine.delta(&caller.actor, &id, input.body.epoch.0, &input.body.text).await?;
    Ok(StatusCode::NO_CONTENT)
}
