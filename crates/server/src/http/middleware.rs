//! The one layer around every route: request id, authentication, rate limits, logging and metrics.
//!
//! Everything here happens once per request and in this order, so it is one function rather than a stack of layers.
//! It logs the route's template, never a path, a query or a body: those hold ids, tokens and what people said.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Uri, Version, header};
use sederunt_core::Error;

use super::App;
use super::auth::{Caller, CallerIdentity};
use super::browser_cookie;
use super::compress;
use super::encoding;
use super::error::RequestError;
use super::form;
use super::missing;
use super::origin;
use super::request_id::{self, RequestId};
use super::respondent;
use super::rights;
use crate::metrics::{NO_ROUTE, route_name};

/// The address that a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// A request that takes longer is logged even if it went well.
const SLOW: Duration = Duration::from_secs(1);

/// Routes by which the holder of a link answers a view.
const FORMS: [&str; 4] =
    ["/api/views/{id}/submit-interaction", "/api/views/{id}/lead", "/api/responses/{id}/submit", VIEW_PAGE];

/// The one page that people are sent to: its refusals are pages too.
const VIEW_PAGE: &str = "/views/{id}";

pub async fn around_every_route(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (mut head, body) = request.into_parts();
    let id = request_id::of(&head.headers);
    let method = head.method.clone();
    let route = head.extensions.get::<MatchedPath>().cloned();
    let route = route_name(route.as_ref());
    let uri = head.uri.clone();
    let encoding = encoding::accepted(&head.headers);
    let token_in_address = head.uri.query().is_some_and(|query| query.contains("share="));
    let mut caller = None;
    let mut response = match admit(&app, route, &head).await {
        Err(refused) => refused.into_response(),
        Ok(admitted) => {
            if let Some(admitted) = &admitted {
                head.extensions.insert(admitted.clone());
                head.extensions.insert(RequestId(id.clone()));
            }
            caller = admitted;
            match AssertUnwindSafe(next.run(Request::from_parts(head, body))).catch_unwind().await {
                Ok(response) => response,
                Err(panic) => RequestError::from(Error::internal(panic_text(&*panic))).into_response(),
            }
        }
    };
    let id_text = id.to_str().unwrap_or_default();
    if let Some(refused) = response.extensions_mut().remove::<Arc<RequestError>>() {
        refused.log(id_text, route);
        response = match (&*refused, missing::sentence(route, uri.path())) {
            (RequestError::Core(Error::NotFound), Some(sentence)) => {
                RequestError::Missing(sentence).envelope(id_text)
            }
            (refused, _) => refused.envelope(id_text),
        };
        if route == VIEW_PAGE {
            response = as_page(&refused, has_link(&uri), response);
        }
        if let Some(causes) = refused.causes() {
            response.extensions_mut().insert(causes);
        }
    }
    let status = response.status();
    let took = began.elapsed();
    app.measures.answered(&method, route, status, took);
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(
                target: "sederunt::http",
                method = method.as_str(),
                route,
                status = status.as_u16(),
                ms = (took.as_secs_f64() * 100_000.0).round() / 100.0,
                request_id = id_text,
                tenant = caller.as_ref().map(|caller| caller.actor.tenant.as_str()),
            )
        };
    }
    // Successful requests are only counted; a log line for each would cost as much as the work itself.
    if status.is_client_error() || status.is_server_error() || took >= SLOW {
        log!(info);
    } else {
        log!(debug);
    }
    if let Some(encoding) = encoding {
        response = compress::compressed(encoding, response).await;
    }
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static(request_id::X_REQUEST_ID), id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if token_in_address {
        headers.entry(header::REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets a request through to its route, with its caller if the route needs one.
async fn admit(app: &App, route: &str, head: &Parts) -> Result<Option<Caller>, RequestError> {
    if head.version == Version::HTTP_11 && head.headers.get_all(header::HOST).iter().count() != 1 {
        return Err(RequestError::Host);
    }
    if let Some(names) = &app.local {
        names.check(&head.method, &head.uri, &head.headers)?;
    }
    // A path without a route reveals nothing, so no credential is needed.
    if route == NO_ROUTE || rights::needs_nothing(route) {
        return Ok(None);
    }
    let peer = head.extensions.get::<Peer>().map(|peer| peer.0);
    let must_wait = || app.counters.must_wait(peer?);
    let proved = match head.extensions.get::<CallerIdentity>() {
        Some(identity) => Ok(identity.clone().into()),
        None => app.auth.caller(&head.headers, head.uri.query(), must_wait).await,
    };
    let mut caller: Caller = match proved {
        Ok(caller) => caller,
        Err(error @ Error::Unauthenticated(_)) => {
            if let Some(peer) = peer {
                app.counters.failure(peer)?;
            }
            return Err(error.into());
        }
        Err(error) => {
            if let (Error::RateLimited(_), Some(peer)) = (&error, peer) {
                app.counters.unchecked(peer);
            }
            return Err(error.into());
        }
    };
    if caller.browser_secret().is_some() {
        browser_cookie::check_own_page(&head.method, &head.headers, &app.about.base_url)?;
    }
    app.counters.address(&caller, peer)?;
    caller.respondent = respondent::proven(app, &caller, route, head).await?;
    app.counters.request(&caller, peer)?;
    if caller.is_share() && recognises_respondents(route) && app.local.is_none() {
        origin::check_own_page(&head.headers, &app.about.base_url)?;
    }
    if caller.is_share() && !rights::opens_to_shares(&head.method, route) {
        return Err(Error::denied("a share link opens what it was made for, nothing else").into());
    }
    if caller.is_share() && FORMS.contains(&route) && head.method != Method::GET {
        app.counters.form(&caller)?;
    }
    Ok(Some(caller))
}

/// Whether a route is one by which respondents answer: a browser sends their cookie with it.
fn recognises_respondents(route: &str) -> bool {
    ["/views/", "/api/views/", "/api/responses/"].iter().any(|begin| route.starts_with(begin))
}

/// Whether a path is one of the health checks.
pub fn tells_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// The answer to a request when the server has no room.
pub fn overloaded(request: &Request) -> Response {
    let id = request_id::of(request.headers());
    let refused = RequestError::from(Error::unavailable(std::io::Error::other("all connections are busy")));
    let mut response = refused.envelope(id.to_str().unwrap_or_default());
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static(request_id::X_REQUEST_ID), id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A refusal as a page, with the headers of the JSON answer.
fn as_page(refused: &RequestError, has_link: bool, envelope: Response) -> Response {
    let (mut head, _) = envelope.into_parts();
    let message = match refused {
        RequestError::Core(Error::Unauthenticated(_)) if !has_link => {
            "This form is for people who are known here, and a browser cannot say who you are. \
             Ask an owner for a personal link to it."
                .to_owned()
        }
        RequestError::Core(Error::Unauthenticated(_) | Error::NotFound) => {
            "The link is unknown, expired or revoked.".to_owned()
        }
        refused => refused.message(),
    };
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    form::guarded(Response::from_parts(head, form::refused(&message).into()), &[])
}

/// Whether an address carries the token of a share link.
fn has_link(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("share=")))
}

pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    format!("panic: {}", text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use sederunt_core::TenantId;
    use sederunt_core::engine::{Engine, Operator, Settings};
    use sederunt_core::live::Hub;
    use sederunt_core::session::SourceKind;
    use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
    use tokio::sync::watch;
    use tower::ServiceExt;

    use super::*;
    use crate::config::{Auth, Rate, Rates, ServerConfig};
    use crate::http::{Phase, audit_refused};

    fn app(config: &ServerConfig) -> App {
        let hub = Arc::new(Hub::default());
        let options = SqliteOptions { place: Place::Memory, clock: Arc::default(), hub: hub.clone() };
        let engine = Engine::new(SqliteStore::open(options).unwrap(), hub, Settings::default());
        let listener = "127.0.0.1:7070".parse().unwrap();
        let (_phase, watched) = watch::channel(Phase::Serving);
        App::new(engine, config, "store".into(), listener, watched, true).unwrap()
    }

    #[tokio::test]
    async fn a_panic_is_a_refusal_like_any_other() {
        let app = app(&ServerConfig::default());
        let router: Router = Router::new()
            .route("/healthz", get(async || -> &'static str { panic!("a secret in a panic") }))
            .layer(from_fn_with_state(app.clone(), around_every_route));
        let request = Request::get("/healthz").header("host", "127.0.0.1:7070").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key(request_id::X_REQUEST_ID));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], "internal");
        assert!(!body.to_string().contains("secret"));
    }

    #[tokio::test]
    async fn guesses_that_are_refused_unchecked_stand_in_the_audit_trail_in_one_line() {
        let rates = Rates { failures_per_peer: Rate::new(1, 2), ..Rates::default() };
        let app = app(&ServerConfig { auth: Auth::Keys, rates, ..ServerConfig::default() });
        let router: Router = Router::new()
            .route("/api/sessions", get(async || "never reached"))
            .layer(from_fn_with_state(app.clone(), around_every_route));
        let mut statuses = Vec::new();
        for n in 0..40 {
            let request = Request::get("/api/sessions")
                .header("host", "sederunt.example")
                .header("authorization", format!("Bearer sdr_guess_{n}"))
                .extension(Peer("192.0.2.7".parse().unwrap()))
                .body(Body::empty())
                .unwrap();
            statuses.push(router.clone().oneshot(request).await.unwrap().status().as_u16());
        }
        assert_eq!(statuses[..2], [401, 401]);
        let limited = statuses.iter().filter(|status| **status == 429).count();
        assert!(limited > 30, "{statuses:?}");
        audit_refused(&app).await;
        audit_refused(&app).await;
        let owner = Operator::owner_of(TenantId::stored("default"), SourceKind::Api);
        let lines = app.engine.audit(&owner, None, 100).await.unwrap().items;
        let refused: Vec<_> = lines.iter().filter(|line| line.action == "credential.refused").collect();
        let [line] = refused[..] else { panic!("{lines:?}") };
        assert_eq!(line.actor, "192.0.2.7");
        let times: Vec<usize> = line.target.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert_eq!(times[0], 40, "{}", line.target);
        assert!(times[1] >= 30 && line.target.contains("unchecked"), "{}", line.target);
    }
}
