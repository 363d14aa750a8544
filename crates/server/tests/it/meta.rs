//! What the server says of itself

use std::sync::LazyLock;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use sederunt_core::access::Role;
use sederunt_server::Auth;
use serde_json::{Value, json};

use crate::server::{StoreKind, TestServer, on_every_store, raw};
use crate::web_app::has_app;

on_every_store!(
    it_says_that_it_lives_and_can_work,
    the_page_says_what_runs_here,
    strangers_are_told_little_and_browsers_guess_nothing,
    figures_are_counted_by_route_and_shown_to_the_operator,
    runs_of_tasks_are_counted_and_timed,
    the_served_document_is_the_checked_in_one,
);

/// There is one recorder in a process.
static FIGURES: LazyLock<PrometheusHandle> =
    LazyLock::new(|| sederunt_server::recorder().unwrap().install_recorder().unwrap());

async fn it_says_that_it_lives_and_can_work(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    for path in ["/healthz", "/readyz"] {
        let answer = server.anyone().get(path).await.expect(200);
        assert_eq!(answer.body, json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}));
    }
}

async fn the_page_says_what_runs_here(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let page = server.anyone().get("/").await.expect(200);
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(page.headers.contains_key("content-security-policy"));
    match has_app() {
        true => assert!(page.text.contains("/assets/"), "{}", page.text),
        false => assert!(
            page.text.contains(env!("CARGO_PKG_VERSION")) && page.text.contains("/openapi.json"),
            "{}",
            page.text
        ),
    }
}

async fn strangers_are_told_little_and_browsers_guess_nothing(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let version = server.engine.vitals().await.unwrap().server_version;
    let page = server.anyone().get("/").await.expect(200);
    assert!(!page.text.contains(&version), "{}", page.text);
    for path in ["/", "/healthz", "/openapi.json", "/nope", "/api/sessions", "/assets/view-form.js"] {
        let answer = server.anyone().get(path).await;
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
    }
    let shared = server.anyone().get("/api/sessions/x?share=unknown").await.refused(401, "unauthenticated");
    assert_eq!(shared.headers["referrer-policy"], "no-referrer");
    let address = server.address;
    for hosts in [String::new(), format!("Host: {address}\r\nHost: {address}\r\n")] {
        let request = format!("GET /healthz HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        let answer = raw(address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}

async fn figures_are_counted_by_route_and_shown_to_the_operator(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.metrics = Some(FIGURES.clone());
    })
    .await;
    let owner = server.key(Role::Owner, "").await;
    let id = owner.session(json!({"id": "very-private-id", "session_type": "mixed"})).await;
    let mut stream = owner.follow(&format!("/api/sessions/{id}/stream?after=1")).await;
    stream.expect("ready").await;
    owner.get("/metrics").await.refused(403, "denied");
    let figures = server.operator().get("/metrics").await.expect(200).text;
    for line in [
        r#"sederunt_http_requests_total{method="POST",route="/api/sessions",status="201"}"#,
        r#"sederunt_http_request_seconds_bucket{method="GET",route="/api/sessions/{id}/stream""#,
        r#"sederunt_streams_open{kind="log"}"#,
        "sederunt_log_readers ",
    ] {
        assert!(figures.contains(line), "{line} is missing:\n{figures}");
    }
    assert!(!figures.contains("very-private-id"));
}

async fn runs_of_tasks_are_counted_and_timed(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| config.metrics = Some(FIGURES.clone())).await;
    let me = server.anyone();
    let task = json!({"slug": "very-private-task", "name": "T", "agent_slug": "eliza"});
    me.post("/api/tasks", task).await.expect(201);
    let claimed = async || {
        let run = me.post("/api/tasks/very-private-task/trigger", json!({})).await.expect(201).id();
        let claims = me.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
        (run, claims["claims"][0]["epoch"].clone())
    };
    let (done, epoch) = claimed().await;
    server.clock.advance(Duration::from_secs(7));
    me.post(&format!("/api/sessions/{done}/complete"), json!({"epoch": epoch})).await.expect(200);
    for _ in 0..2 {
        let (failed, epoch) = claimed().await;
        let failure = json!({"epoch": epoch, "error": "no ink"});
        me.post(&format!("/api/sessions/{failed}/fail"), failure).await.expect(200);
    }
    let stopped = me.post("/api/tasks/very-private-task/trigger", json!({})).await.expect(201).id();
    me.post(&format!("/api/sessions/{stopped}/stop"), json!({})).await.expect(200);
    let figures = me.get("/metrics").await.expect(200).text;
    for line in [
        r#"sederunt_task_sessions_started_total{kind="run"} 3"#,
        r#"sederunt_task_sessions_completed_total{kind="run"} 1"#,
        r#"sederunt_task_sessions_failed_total{kind="run",status="failed"} 2"#,
        r#"sederunt_task_sessions_failed_total{kind="run",status="abandoned"} 1"#,
        r#"sederunt_task_session_seconds_bucket{kind="run",status="completed",le="5"} 0"#,
        r#"sederunt_task_session_seconds_bucket{kind="run",status="completed",le="15"} 1"#,
        r#"sederunt_task_session_seconds_count{kind="run",status="failed"} 2"#,
    ] {
        assert!(figures.contains(line), "{line} is missing:\n{figures}");
    }
    assert!(!figures.contains("very-private"), "tasks are no labels");
}

async fn the_served_document_is_the_checked_in_one(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let served = server.anyone().get("/openapi.json").await.expect(200);
    let checked_in =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../api/openapi.json")).unwrap();
    assert!(
        served.text == checked_in,
        "api/openapi.json is stale: run `sederunt openapi > api/openapi.json`"
    );
    assert_eq!(sederunt_server::openapi(), checked_in);
    let document: Value = serde_json::from_str(&checked_in).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
}
