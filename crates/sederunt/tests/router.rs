//! The routes inside a program of its own: under its path, behind its authentication.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, extract::State};
use http::StatusCode;
use http_body_util::BodyExt;
use sederunt::http::CallerIdentity;
use sederunt::{Actor, NewUser, Sederunt, SourceKind};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A product: its own page, and the routes under `/sessions`. Its authentication is a header with a user's name.
async fn product() -> (Arc<Sederunt>, Router) {
    let mut store = sederunt::open("memory:").await.unwrap();
    let routes = store.router("https://shop.example/sessions").unwrap();
    let store = Arc::new(store);
    let owner = Actor::local(SourceKind::Api);
    for id in ["ada", "grace"] {
        let user = NewUser { id: Some(id.to_owned()), ..NewUser::default() };
        store.create_user(&owner, user, None).await.unwrap();
    }
    let identified = routes.layer(from_fn_with_state(store.clone(), identify));
    let product = Router::new().route("/", get(async || "the shop")).nest("/sessions", identified);
    (store, product)
}

async fn identify(State(store): State<Arc<Sederunt>>, mut request: Request, next: Next) -> Response {
    let name = request.headers().get("x-shop-user").and_then(|name| name.to_str().ok()).map(str::to_owned);
    if let Some(name) = name
        && let Ok(actor) = store.acting_for(&name).await
    {
        request.extensions_mut().insert(CallerIdentity(actor));
    }
    next.run(request).await
}

async fn ask(
    product: &Router,
    user: Option<&str>,
    method: &str,
    path: &str,
    body: Value,
) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).header("host", "shop.example");
    let request = request.header("content-type", "application/json");
    let request = match user {
        Some(user) => request.header("x-shop-user", user),
        None => request,
    };
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let response = product.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_says_who_calls() {
    let (store, product) = product().await;
    let wish = || json!({"id": "s", "session_type": "mixed", "title": "Order A-7"});
    let (status, refused) = ask(&product, None, "POST", "/sessions/api/sessions", wish()).await;
    assert_eq!((status.as_u16(), &refused["error"]["code"]), (401, &json!("unauthenticated")));
    let (status, _) = ask(&product, Some("nobody"), "POST", "/sessions/api/sessions", wish()).await;
    assert_eq!(status, 401);
    let (status, made) = ask(&product, Some("ada"), "POST", "/sessions/api/sessions", wish()).await;
    assert_eq!(status, 201, "{made}");
    let (status, seen) = ask(&product, Some("ada"), "GET", "/sessions/api/sessions/s", Value::Null).await;
    assert_eq!((status.as_u16(), &seen["title"]), (200, &json!("Order A-7")));
    let (status, hidden) = ask(&product, Some("grace"), "GET", "/sessions/api/sessions/s", Value::Null).await;
    assert_eq!(status, 404);
    assert_eq!(hidden["error"]["message"], "there is no session `s`, or it is not yours to see");
    drop(product);
    Arc::into_inner(store).unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_are_found_under_any_path_and_leave_the_others_alone() {
    let (_store, product) = product().await;
    let outer = Router::new().nest("/v1", product);
    let (status, health) = ask(&outer, None, "GET", "/v1/sessions/healthz", Value::Null).await;
    assert_eq!(status, 200, "{health}");
    assert_eq!(ask(&outer, None, "GET", "/v1/sessions/nowhere", Value::Null).await.0, 404);
    assert_eq!(ask(&outer, None, "GET", "/v1", Value::Null).await.0, 200);
    assert_eq!(ask(&outer, None, "GET", "/sessions/healthz", Value::Null).await.0, 404);
}
