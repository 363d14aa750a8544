//! Memories: list, delete, and switch recall on or off.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sederunt_api::wire::memory::{
    ArcList, FactList, MemoryPageQuery, MemoryQuery, MemoryStatus, RecallDone, RecallRequest, RuleList,
};
use sederunt_core::engine::MemoryScope;
use sederunt_core::memory::owner::MemoryAct;
use sederunt_core::memory::{Memory, MemoryKind};
use sederunt_core::session::query::Page;
use sederunt_core::{Error, SessionId};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::path::PathName;
use crate::http::query::Params;

async fn scope(app: &App, caller: &Caller, whose: &MemoryQuery, act: MemoryAct) -> Result<MemoryScope> {
    let MemoryQuery { thread, user } = whose;
    let caller = app.auth.acting_for(caller, user.as_deref()).await?;
    Ok(app.engine.memory_scope(&caller.actor, thread.as_ref(), user.as_deref(), act).await?)
}

async fn page<T: From<Page<Memory, i64>>>(
    app: &App,
    caller: &Caller,
    asked: &MemoryPageQuery,
    kind: MemoryKind,
) -> Result<Json<T>> {
    let scope = scope(app, caller, &asked.whose(), MemoryAct::Read).await?;
    let page = app.engine.memories(&scope, kind, asked.after, asked.limit).await?;
    Ok(Json(page.into()))
}

async fn forget(
    app: &App,
    caller: &Caller,
    whose: &MemoryQuery,
    kind: MemoryKind,
    id: &str,
) -> Result<StatusCode> {
    let scope = scope(app, caller, whose, MemoryAct::Forget).await?;
    app.engine.forget(&scope, kind, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Count memories
#[utoipa::path(
    get, path = "/api/memory/status", operation_id = "memory_status", tag = "memory", params(MemoryQuery),
    responses((status = 200, description = "The counts", body = MemoryStatus))
)]
pub async fn status(
    State(app): State<App>,
    caller: Caller,
    Params(whose): Params<MemoryQuery>,
) -> Result<Json<MemoryStatus>> {
    let scope = scope(&app, &caller, &whose, MemoryAct::Read).await?;
    Ok(Json(app.engine.memory_status(&scope).await?.into()))
}

/// List facts
#[utoipa::path(
    get, path = "/api/memory/facts", operation_id = "list_facts", tag = "memory", params(MemoryPageQuery),
    responses((status = 200, description = "A page, newest first", body = FactList))
)]
pub async fn facts(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<MemoryPageQuery>,
) -> Result<Json<FactList>> {
    page(&app, &caller, &asked, MemoryKind::Fact).await
}

/// Forget a fact
#[utoipa::path(
    delete, path = "/api/memory/facts/{id}", operation_id = "forget_fact", tag = "memory",
    params(("id" = String, Path, description = "The fact"), MemoryQuery),
    responses((status = 204, description = "Forgotten"))
)]
pub async fn forget_fact(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(whose): Params<MemoryQuery>,
) -> Result<StatusCode> {
    forget(&app, &caller, &whose, MemoryKind::Fact, &id).await
}

/// List arcs
#[utoipa::path(
    get, path = "/api/memory/arcs", operation_id = "list_arcs", tag = "memory", params(MemoryPageQuery),
    responses((status = 200, description = "A page, newest first", body = ArcList))
)]
pub async fn arcs(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<MemoryPageQuery>,
) -> Result<Json<ArcList>> {
    page(&app, &caller, &asked, MemoryKind::Arc).await
}

/// Forget an arc
#[utoipa::path(
    delete, path = "/api/memory/arcs/{id}", operation_id = "forget_arc", tag = "memory",
    params(("id" = String, Path, description = "The arc"), MemoryQuery),
    responses((status = 204, description = "Forgotten"))
)]
pub async fn forget_arc(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(whose): Params<MemoryQuery>,
) -> Result<StatusCode> {
    forget(&app, &caller, &whose, MemoryKind::Arc, &id).await
}

/// List rules
#[utoipa::path(
    get, path = "/api/memory/rules", operation_id = "list_rules", tag = "memory", params(MemoryQuery),
    responses((status = 200, description = "The rules, oldest first", body = RuleList))
)]
pub async fn rules(
    State(app): State<App>,
    caller: Caller,
    Params(whose): Params<MemoryQuery>,
) -> Result<Json<RuleList>> {
    let scope = scope(&app, &caller, &whose, MemoryAct::Read).await?;
    Ok(Json(app.engine.profile(&scope).await?.into()))
}

/// Forget a rule
#[utoipa::path(
    delete, path = "/api/memory/rules/{id}", operation_id = "forget_rule", tag = "memory",
    params(("id" = String, Path, description = "The rule"), MemoryQuery),
    responses((status = 204, description = "Forgotten"))
)]
pub async fn forget_rule(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(whose): Params<MemoryQuery>,
) -> Result<StatusCode> {
    let scope = scope(&app, &caller, &whose, MemoryAct::Forget).await?;
    app.engine.forget_rule(&scope, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Switch recall on or off
#[utoipa::path(
    patch, path = "/api/memory/recall", operation_id = "set_recall", tag = "memory", request_body = RecallRequest,
    responses((status = 200, description = "The setting", body = RecallDone))
)]
pub async fn recall(
    State(app): State<App>,
    caller: Caller,
    input: Input<RecallRequest>,
) -> Result<Json<RecallDone>> {
    let asked = input.body;
    let thread = asked
        .thread_id
        .as_deref()
        .map(|text| {
            SessionId::parse(text).map_err(|_| Error::invalid("thread_id", "is no id of a conversation"))
        })
        .transpose()?;
    let whose = MemoryQuery { thread, user: asked.user_id };
    let scope = scope(&app, &caller, &whose, MemoryAct::SwitchRecall).await?;
    app.engine.set_recall(&scope, asked.enabled).await?;
    Ok(Json(RecallDone { enabled: asked.enabled }))
}
