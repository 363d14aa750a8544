//! What does not fit is refused by name, and nothing is written

use http::Method;
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store, raw};

on_every_store!(
    broken_json_is_refused_alike_everywhere,
    fields_that_do_not_fit_are_named,
    only_json_bodies_are_taken,
    unknown_parameters_are_refused,
    unknown_paths_and_methods_are_refused_in_the_envelope,
    names_that_nothing_can_have_are_missing,
    a_request_id_is_taken_or_drawn,
);

async fn broken_json_is_refused_alike_everywhere(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let deep = format!(
        "{{\"events\":[{{\"type\":\"a.b\",\"metadata\":{}{}}}]}}",
        "{\"a\":".repeat(70),
        "1}".repeat(70).replace("1}1", "1").trim_start_matches('1').to_owned()
    );
    let table: [(&str, u16, &str); 9] = [
        ("{", 400, "bad_json"),
        ("{\"events\":[]} x", 400, "bad_json"),
        ("{'a':1}", 400, "bad_json"),
        ("{\"a\":1,\"a\":2}", 422, "invalid"),
        (r#"{"events":[{"type":"user.message","content":"\u0000"}]}"#, 422, "invalid"),
        (r#"{"events":[{"type":"user.message","content":"\ud800"}]}"#, 422, "invalid"),
        (r#"{"events":[{"type":"a.b","metadata":{"n":1e999}}]}"#, 422, "invalid"),
        ("[]", 422, "invalid"),
        ("null", 422, "invalid"),
    ];
    for path in [format!("/api/sessions/{id}/events"), "/api/sessions".to_owned(), "/api/claims".to_owned()] {
        for (body, status, code) in table {
            owner.post_text(&path, body).await.refused(status, code);
        }
    }
    let refused = owner.post_text(&format!("/api/sessions/{id}/events"), &deep).await;
    assert!(matches!(refused.status.as_u16(), 400 | 422), "{}", refused.text);
    assert_eq!(owner.get(&format!("/api/sessions/{id}")).await.expect(200).body["last_sequence"], 1);
}

async fn fields_that_do_not_fit_are_named(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for (body, field) in [
        (json!({}), "session_type"),
        (json!({"session_type": "dream"}), "session_type"),
        (json!({"session_type": "mixed", "titel": "x"}), "titel"),
        (json!({"session_type": "mixed", "title": 5}), "title"),
        (json!({"session_type": "mixed", "title": "x".repeat(201)}), "title"),
        (json!({"session_type": "mixed", "id": ""}), "id"),
        (json!({"session_type": "mixed", "id": "a/b"}), "id"),
        (json!({"session_type": "mixed", "id": "human"}), "id"),
        (json!({"session_type": "mixed", "id": "x".repeat(201)}), "id"),
        (json!({"session_type": "mixed", "metadata": []}), "metadata"),
        (json!({"session_type": "mixed", "status": "running"}), "status"),
        (json!({"session_type": "mixed", "priority": 1001}), "priority"),
        (json!({"session_type": "mixed", "source": ["api"]}), "source"),
        (json!({"session_type": "mixed", "source": {"colour": "red"}}), "source.colour"),
        (json!({"session_type": "mixed", "task_id": "a", "taskId": "b"}), "task_id"),
    ] {
        let refused = owner.post("/api/sessions", body.clone()).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{body}");
    }
    assert_eq!(owner.get("/api/sessions").await.expect(200).body["items"], json!([]));
}

async fn only_json_bodies_are_taken(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let body = r#"{"session_type":"mixed"}"#;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let refused = server.anyone().with("content-type", kind).post_text("/api/sessions", body).await;
        assert_eq!(refused.refused(415, "invalid").body["error"]["field"], "content-type");
    }
    let spoken = server.anyone().with("content-type", "application/json; charset=utf-8");
    spoken.post_text("/api/sessions", body).await.expect(201);
}

async fn unknown_parameters_are_refused(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    for path in [
        "/api/sessions?color=red".to_owned(),
        "/api/sessions?limit=1&limit=2".to_owned(),
        "/api/sessions?cursor=1".to_owned(),
        "/api/sessions?status=asleep".to_owned(),
        format!("/api/sessions/{id}?verbose=1"),
        format!("/api/sessions/{id}/events?order=up"),
        format!("/api/sessions/{id}/events?types=no"),
        format!("/api/sessions/{id}/children?x"),
        "/api/keys?limit=1".to_owned(),
        "/healthz?x=1".to_owned(),
    ] {
        owner.get(&path).await.refused(422, "invalid");
    }
    owner.post("/api/sessions?x=1", json!({"session_type": "mixed"})).await.refused(422, "invalid");
}

async fn unknown_paths_and_methods_are_refused_in_the_envelope(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for path in ["/nope", "/api", "/api/nope", "/api/sessions/", "/api/sessions/x/nope", "/API/sessions"] {
        owner.get(path).await.refused(404, "not_found");
    }
    let refused = owner.send(Method::PUT, "/api/sessions", None).await.refused(405, "method_not_allowed");
    let allow = refused.headers["allow"].to_str().unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    owner.send(Method::DELETE, "/openapi.json", None).await.refused(405, "method_not_allowed");
}

async fn names_that_nothing_can_have_are_missing(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    for name in ["%00", "a%2Fb", "%FF", "%20x", "..%2F", &"x".repeat(201)] {
        server.anyone().get(&format!("/api/sessions/{name}")).await.refused(404, "not_found");
    }
}

async fn a_request_id_is_taken_or_drawn(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let named =
        server.anyone().with("x-request-id", "mine-1").get("/api/sessions/x").await.refused(404, "not_found");
    assert_eq!(named.body["error"]["request_id"], "mine-1");
    let drawn = server.anyone().with("x-request-id", "two words").get("/healthz").await.expect(200);
    assert_ne!(drawn.headers["x-request-id"], "two words");
    let odd = raw(server.address, "GARBAGE\r\n\r\n").await;
    assert!(odd.starts_with("HTTP/1.1 400"), "{odd}");
}
