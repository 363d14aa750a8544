//! Every route, with its documentation, in one list.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use sederunt_core::Error;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::error::Refused;
use super::routes::{
    agents, approvals, audit, bundle, chat, crises, criteria, entities, events, feedback, keys, lessons,
    memory, messages, meta, participants, search, sessions, shares, streams, tasks, tenants, threads, today,
    users, views, voice, work,
};
use super::{App, gate, spec};
use crate::mcp::{self, Mcp};

/// The routes and what is documented of them.
pub fn documented() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(spec::head())
        .routes(routes!(sessions::open, sessions::list))
        .routes(routes!(sessions::get, sessions::patch, sessions::delete))
        .routes(routes!(sessions::state))
        .routes(routes!(sessions::transition))
        .routes(routes!(sessions::retry))
        .routes(routes!(sessions::stop))
        .routes(routes!(sessions::fork))
        .routes(routes!(sessions::children))
        .routes(routes!(sessions::export))
        .routes(routes!(participants::leave, participants::come_back))
        .routes(routes!(shares::create))
        .routes(routes!(shares::revoke))
        .routes(routes!(events::append, events::read))
        .routes(routes!(streams::session))
        .routes(routes!(streams::hints))
        .routes(routes!(search::search))
        .routes(routes!(work::claim))
        .routes(routes!(work::heartbeat))
        .routes(routes!(work::complete))
        .routes(routes!(work::fail))
        .routes(routes!(work::pause))
        .routes(routes!(work::delta))
        .routes(routes!(tasks::create, tasks::list))
        .routes(routes!(tasks::get, tasks::patch))
        .routes(routes!(tasks::trigger))
        .routes(routes!(tasks::status))
        .routes(routes!(agents::create, agents::list))
        .routes(routes!(agents::get, agents::patch))
        .routes(routes!(entities::create, entities::list))
        .routes(routes!(entities::get, entities::patch))
        .routes(routes!(entities::sessions))
        .routes(routes!(criteria::create, criteria::list))
        .routes(routes!(criteria::get, criteria::patch))
        .routes(routes!(views::create, views::list))
        .routes(routes!(views::get, views::patch))
        .routes(routes!(views::answers))
        .routes(routes!(views::share))
        .routes(routes!(views::lead))
        .routes(routes!(views::submit))
        .routes(routes!(views::page))
        .routes(routes!(views::script))
        .routes(routes!(views::style))
        .routes(routes!(bundle::export, bundle::import))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::get))
        .routes(routes!(approvals::decide))
        .routes(routes!(approvals::decide_by_action))
        .routes(routes!(approvals::human_complete))
        .routes(routes!(approvals::elicitation_reply))
        .routes(routes!(today::counts))
        .routes(routes!(today::bucket))
        .routes(routes!(messages::post))
        .routes(routes!(messages::checkpoint))
        .routes(routes!(messages::replay))
        .routes(routes!(chat::turn))
        .routes(routes!(chat::chat))
        .routes(routes!(chat::stream))
        .routes(routes!(threads::list))
        .routes(routes!(threads::history))
        .routes(routes!(threads::state))
        .routes(routes!(threads::status))
        .routes(routes!(threads::end))
        .routes(routes!(threads::rate))
        .routes(routes!(threads::ratings))
        .routes(routes!(memory::status))
        .routes(routes!(memory::facts))
        .routes(routes!(memory::forget_fact))
        .routes(routes!(memory::arcs))
        .routes(routes!(memory::forget_arc))
        .routes(routes!(memory::rules))
        .routes(routes!(memory::forget_rule))
        .routes(routes!(memory::recall))
        .routes(routes!(crises::hold))
        .routes(routes!(feedback::capture))
        .routes(routes!(feedback::stats))
        .routes(routes!(feedback::summary))
        .routes(routes!(feedback::failures))
        .routes(routes!(feedback::open, feedback::list))
        .routes(routes!(feedback::get))
        .routes(routes!(feedback::append))
        .routes(routes!(feedback::finalize))
        .routes(routes!(lessons::list))
        .routes(routes!(lessons::retrieve))
        .routes(routes!(lessons::recall))
        .routes(routes!(lessons::rules))
        .routes(routes!(lessons::get, lessons::patch))
        .routes(routes!(voice::session))
        .routes(routes!(voice::turn))
        .routes(routes!(voice::tools))
        .routes(routes!(voice::end))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(users::create, users::list))
        .routes(routes!(users::get, users::patch))
        .routes(routes!(users::link))
        .routes(routes!(users::merge))
        .routes(routes!(audit::list))
        .routes(routes!(tenants::list, tenants::create))
        .routes(routes!(tenants::patch, tenants::delete))
        .routes(routes!(tenants::create_key, tenants::keys))
        .routes(routes!(tenants::revoke_key))
        .routes(routes!(tenants::purge))
        .routes(routes!(meta::health))
        .routes(routes!(meta::ready))
        .routes(routes!(meta::figures))
        .routes(routes!(meta::document))
        .routes(routes!(meta::home))
}

/// The routes of tasks under their other name.
fn actions() -> Router<App> {
    Router::new()
        .route(spec::ACTIONS, post(tasks::create).get(tasks::list))
        .route("/api/actions/{id}", get(tasks::get).patch(tasks::patch))
        .route("/api/actions/{id}/trigger", post(tasks::trigger))
        .route("/api/actions/{id}/status", get(tasks::status))
}

/// The end of a sitting under its older name.
fn older_names() -> Router<App> {
    Router::new().route("/threads/{id}/end", post(threads::end))
}

/// The way in for clients of MCP, which is described by itself.
fn mcp(app: App) -> Router<App> {
    let mcp = Mcp::new(app);
    Router::new().route(mcp::PATH, post(move |request| mcp.answer(request)))
}

/// The routes behind their gate.
pub fn router(app: App) -> Router {
    let (routes, _) = documented().split_for_parts();
    routes
        .merge(actions())
        .merge(older_names())
        .merge(mcp(app.clone()))
        .fallback(async || Refused::from(Error::NotFound))
        .method_not_allowed_fallback(async || Refused::Method)
        .layer(from_fn_with_state(app.clone(), gate::gate))
        .with_state(app)
}
