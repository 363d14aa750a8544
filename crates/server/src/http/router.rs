//! Every route, with its documentation, in one list.

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, on, post};
use http::{HeaderMap, Method, Uri};
use sederunt_core::Error;
use utoipa::Path as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::{PathItemExt as _, paste, routes};

use super::error::RequestError;
use super::routes::{
    activity_block, agents, approvals, audit, bundle, chat, crises, criteria, documents, entities, events,
    feedback, human, keys, lessons, link_codes, memory, messages, meta, participants, presence, responses,
    search, sessions, shares, sign_in, streams, tasks, tenants, threads, tools, users, views, voice, work,
    work_queue,
};
use super::{App, middleware, spec, web_app};
use crate::mcp::{self, Mcp};

/// Every documented route: the handlers of one path in a row. Passed to a macro, which expands the list as needed.
macro_rules! every_route {
    ($make:ident) => {
        $make! {
            [sessions::open, sessions::list]
            [sessions::get, sessions::patch, sessions::delete]
            [sessions::state]
            [sessions::transition]
            [sessions::retry]
            [sessions::stop]
            [sessions::fork]
            [sessions::children]
            [sessions::export]
            [participants::leave, participants::come_back]
            [presence::put, presence::get, presence::delete]
            [human::start]
            [human::active]
            [human::stop]
            [human::forget]
            [activity_block::get]
            [shares::create]
            [shares::list]
            [shares::revoke]
            [events::append, events::read]
            [documents::list]
            [documents::get, documents::open]
            [documents::patch]
            [documents::apply]
            [streams::session]
            [streams::hints]
            [search::search]
            [work::claim]
            [work::heartbeat]
            [work::complete]
            [work::fail]
            [work::pause]
            [work::delta]
            [tasks::create, tasks::list]
            [tasks::get, tasks::patch]
            [tasks::trigger]
            [tasks::status]
            [agents::create, agents::list]
            [agents::get, agents::patch]
            [entities::create, entities::list]
            [entities::get, entities::patch]
            [entities::sessions]
            [entities::status_map]
            [criteria::create, criteria::list]
            [criteria::get, criteria::patch]
            [tools::create, tools::list]
            [tools::get, tools::patch]
            [tools::start, tools::sessions]
            [tools::session, tools::fill]
            [tools::invoke]
            [tools::cancel]
            [views::create, views::list]
            [views::get, views::patch]
            [views::answers]
            [views::share]
            [views::lead]
            [views::submit]
            [views::page, views::submit_page]
            [views::script]
            [views::style]
            [responses::open, responses::list]
            [responses::get, responses::save]
            [responses::submit]
            [responses::abandon]
            [responses::promote]
            [bundle::export, bundle::import]
            [approvals::list]
            [approvals::get]
            [approvals::decide]
            [approvals::decide_by_action]
            [approvals::human_complete]
            [approvals::elicitation_reply]
            [work_queue::counts]
            [work_queue::bucket]
            [messages::post]
            [messages::checkpoint]
            [messages::replay]
            [chat::turn]
            [chat::chat]
            [chat::stream]
            [threads::list]
            [threads::history]
            [threads::state]
            [threads::status]
            [threads::end]
            [threads::rate]
            [threads::ratings]
            [memory::status]
            [memory::facts]
            [memory::forget_fact]
            [memory::arcs]
            [memory::forget_arc]
            [memory::rules]
            [memory::forget_rule]
            [memory::recall]
            [crises::hold]
            [feedback::capture]
            [feedback::stats]
            [feedback::summary]
            [feedback::failures]
            [feedback::open, feedback::list]
            [feedback::get]
            [feedback::append]
            [feedback::finalize]
            [lessons::list]
            [lessons::retrieve]
            [lessons::recall]
            [lessons::rules]
            [lessons::get, lessons::patch]
            [voice::session]
            [voice::turn]
            [voice::tools]
            [voice::end]
            [keys::create, keys::list]
            [keys::revoke]
            [sign_in::config]
            [sign_in::sign_in, sign_in::sign_out]
            [sign_in::list]
            [sign_in::end]
            [sign_in::me]
            [users::create, users::list]
            [users::get, users::patch]
            [users::link]
            [users::merge]
            [link_codes::look]
            [link_codes::link]
            [audit::list]
            [tenants::list, tenants::create]
            [tenants::patch, tenants::delete]
            [tenants::create_key, tenants::keys]
            [tenants::revoke_key]
            [tenants::purge]
            [tenants::note_backup]
            [meta::health]
            [meta::ready]
            [meta::figures]
            [meta::document]
            [meta::home]
        }
    };
}

/// The OpenAPI document of the routes.
pub fn documented() -> OpenApi {
    macro_rules! documented {
        ($([$($module:ident :: $handler:ident),+])+) => {
            OpenApiRouter::<App>::with_openapi(spec::head())
                $(.routes(routes!($($module::$handler),+)))+
                .into_openapi()
        };
    }
    every_route!(documented)
}

/// The routes without the document: building it takes longer than answering most requests.
fn served() -> Router<App> {
    macro_rules! served {
        ($([$($module:ident :: $handler:ident),+])+) => {
            Router::new()$($(.route(
                &paste!($module::[<__path_ $handler>]::path()),
                on(paste!($module::[<__path_ $handler>]::methods())[0].to_method_filter(), $module::$handler),
            ))+)+
        };
    }
    every_route!(served)
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

/// The MCP endpoint, which describes itself.
fn mcp(app: App) -> Router<App> {
    let mcp = Mcp::new(app);
    Router::new().route(mcp::PATH, post(move |request| mcp.answer(request)))
}

/// The routes inside the layer around every route.
pub fn router(app: App) -> Router {
    served()
        .merge(actions())
        .merge(older_names())
        .merge(mcp(app.clone()))
        .fallback(unrouted)
        .method_not_allowed_fallback(async || RequestError::Method)
        .layer(from_fn_with_state(app.clone(), middleware::around_every_route))
        .with_state(app)
}

/// The answer to a path that no route takes: a file or a page of the web app, or a refusal.
async fn unrouted(State(app): State<App>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let shown = app.shows_app.then(|| web_app::answer(&method, uri.path(), &headers)).flatten();
    shown.unwrap_or_else(|| RequestError::from(Error::NotFound).into_response())
}
