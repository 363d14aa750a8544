//! Signing in and out from a browser, and who the caller is.

use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sederunt_api::limits::SIGN_IN_TOKEN_CHARS_MAX;
use sederunt_api::wire::sign_in::{
    BrowserSession, BrowserSessionList, Me, MyUser, SignInConfig, SignInRequest,
};
use sederunt_core::limits::NAME_CHARS_MAX;
use sederunt_core::{Error, access};

use crate::http::App;
use crate::http::auth::{Caller, SignInSecret};
use crate::http::body::Input;
use crate::http::browser_cookie;
use crate::http::error::Result;
use crate::http::middleware::Peer;
use crate::http::path::PathName;
use crate::http::query::Params;

/// Read how people sign in
#[utoipa::path(
    get, path = "/auth/config", operation_id = "sign_in_config", tag = "people", security(()),
    responses((status = 200, description = "How people sign in here", body = SignInConfig))
)]
pub async fn config(State(app): State<App>, Params(()): Params<()>) -> Json<SignInConfig> {
    Json(SignInConfig {
        mode: app.about.auth.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sign_in: app.auth.sign_in_kinds().iter().map(|&kind| kind.to_owned()).collect(),
    })
}

/// Sign in from a browser
///
/// Exchanges a person's key or token for a cookie that no script can read. The cookie ends with the key or token, after
/// twelve hours without a request, and after seven days. Unknown, revoked and expired credentials get the same answer.
#[utoipa::path(
    post, path = "/auth/session", operation_id = "sign_in", tag = "people", security(()), request_body = SignInRequest,
    responses((status = 204, description = "Signed in; the answer sets the cookie"))
)]
pub async fn sign_in(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    input: Input<SignInRequest>,
) -> Result<Response> {
    let secret = match (&input.body.key, &input.body.token) {
        (Some(key), None) => SignInSecret::Key(bounded("key", key, NAME_CHARS_MAX)?),
        (None, Some(token)) => SignInSecret::Token(bounded("token", token, SIGN_IN_TOKEN_CHARS_MAX)?),
        _ => return Err(Error::invalid("key", "give either `key` or `token`").into()),
    };
    browser_cookie::check_sign_in(&headers, &app.about.base_url)?;
    let peer = peer.map(|Extension(Peer(address))| address);
    if let Some(wait) = peer.and_then(|peer| app.counters.must_wait(peer)) {
        return Err(Error::RateLimited(wait).into());
    }
    let browser = headers.get(header::USER_AGENT).and_then(|name| name.to_str().ok());
    let signed_in = match app.auth.sign_in(secret, browser).await {
        Err(error @ Error::Unauthenticated(_)) => {
            if let Some(peer) = peer {
                app.counters.failure(peer)?;
            }
            return Err(error.into());
        }
        signed_in => signed_in?,
    };
    let session = &signed_in.session;
    let cookie =
        browser_cookie::set(&app.about.base_url, &signed_in.secret, session.created_at, session.expires_at);
    Ok(with_cookie(cookie))
}

/// Refuses a secret that is longer than any that can be right, before it is hashed or checked.
fn bounded<'a>(field: &'static str, secret: &'a str, chars_max: usize) -> Result<&'a str> {
    match secret.chars().count() {
        0 => Err(Error::invalid(field, "must not be empty").into()),
        chars if chars > chars_max => {
            Err(Error::invalid(field, format!("must be at most {chars_max} characters")).into())
        }
        _ => Ok(secret),
    }
}

/// Sign out of this browser
#[utoipa::path(
    delete, path = "/auth/session", operation_id = "sign_out", tag = "people", security(()),
    responses((status = 204, description = "Signed out; the answer removes the cookie"))
)]
pub async fn sign_out(
    State(app): State<App>,
    headers: HeaderMap,
    Params(()): Params<()>,
) -> Result<Response> {
    if let Some(secret) = browser_cookie::read(&headers, &app.about.base_url) {
        browser_cookie::check_own_page(&Method::DELETE, &headers, &app.about.base_url)?;
        app.engine.sign_out(secret).await?;
        app.auth.forget_browser(secret);
    }
    Ok(with_cookie(browser_cookie::remove(&app.about.base_url)))
}

/// List the browsers in which I am signed in
#[utoipa::path(
    get, path = "/auth/sessions", operation_id = "list_browser_sessions", tag = "people",
    responses((status = 200, description = "The caller's own, the newest first", body = BrowserSessionList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(()): Params<()>,
) -> Result<Json<BrowserSessionList>> {
    let own = app.engine.browser_sessions(&caller.actor).await?;
    let current = current(&app, &caller).await?;
    let items = own.into_iter().map(|session| BrowserSession::of(session, current.as_deref())).collect();
    Ok(Json(BrowserSessionList { items, next_cursor: None }))
}

/// Sign out of another browser
///
/// Also answers 204 for a browser session that is over or is another person's, and changes nothing.
#[utoipa::path(
    delete, path = "/auth/sessions/{id}", operation_id = "end_browser_session", tag = "people",
    params(("id" = String, Path, description = "The id of the browser session")),
    responses((status = 204, description = "Signed out, on every node within five seconds"))
)]
pub async fn end(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
) -> Result<StatusCode> {
    app.engine.end_browser_session(&caller.actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read who I am
#[utoipa::path(
    get, path = "/api/me", operation_id = "me", tag = "people",
    responses((status = 200, description = "The caller, and what the caller's role may do", body = Me))
)]
pub async fn me(State(app): State<App>, caller: Caller, Params(()): Params<()>) -> Result<Json<Me>> {
    let actor = &caller.actor;
    let row = app.engine.own_user(actor).await?;
    let session = match caller.browser_secret() {
        Some(secret) => Some(app.engine.browser_session(secret).await?),
        None => None,
    };
    Ok(Json(Me {
        tenant: actor.tenant.to_string(),
        user: actor.user.as_ref().map(|id| MyUser { id: id.to_string(), name: row.and_then(|row| row.name) }),
        role: actor.role.as_str().to_owned(),
        auth: caller.proof_name().to_owned(),
        can: access::verbs_of(actor.role).map(|verb| verb.as_str().to_owned()).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        expires_at: session.map(|session| session.expires_at),
    }))
}

/// The id of the browser session that the caller uses.
async fn current(app: &App, caller: &Caller) -> Result<Option<String>> {
    match caller.browser_secret() {
        None => Ok(None),
        Some(secret) => Ok(Some(app.engine.browser_session(secret).await?.id)),
    }
}

fn with_cookie(cookie: Option<HeaderValue>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
