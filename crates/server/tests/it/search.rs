//! /api/search

use sederunt_core::access::Role;
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(words_are_found_in_what_the_caller_may_see, a_search_needs_words);

async fn words_are_found_in_what_the_caller_may_see(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let id = ann.session(json!({"session_type": "mixed"})).await;
    ann.say(&id, "the budget of the harbour").await.expect(201);
    server.engine.index_now().await.unwrap();
    let hits = ann.get("/api/search?q=harbour+budget").await.expect(200).body;
    let hit = hits["items"].as_array().unwrap().iter().find(|hit| hit["sequence"] == 2).unwrap();
    assert_eq!(hit["session_id"], json!(id));
    assert!(hit["snippet"].as_str().unwrap().contains("harbour"));
    let row = ann.get(&format!("/api/sessions/{id}")).await.expect(200).body;
    for field in ["title", "session_type", "status", "last_activity_at"] {
        assert_eq!(hit[field], row[field], "{field}");
    }
    assert!(hit["title"].is_null() && hit["last_activity_at"].is_string());
    assert_eq!(bob.get("/api/search?q=harbour").await.expect(200).body["items"], json!([]));
    assert_eq!(ann.get("/api/search?q=submarine").await.expect(200).body["items"], json!([]));
}

async fn a_search_needs_words(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    for path in [
        "/api/search", "/api/search?q=", "/api/search?q=%20!", "/api/search?q=a&cursor=x",
        "/api/search?x=1&q=a",
    ] {
        server.anyone().get(path).await.refused(422, "invalid");
    }
    let long = "a".repeat(501);
    server.anyone().get(&format!("/api/search?q={long}")).await.refused(422, "invalid");
}
