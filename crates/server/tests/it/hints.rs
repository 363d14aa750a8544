//! /api/stream

use sederunt_core::access::Role;
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    hints_name_what_changed,
    hints_resume_from_their_cursor_or_are_reset,
    hints_show_only_what_the_caller_may_see,
    hints_follow_who_takes_part,
);

async fn hints_name_what_changed(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let mut hints = owner.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let hint = hints.expect("sessions").await;
    assert_eq!(hint["sessions"][0]["id"], json!(id));
    let mut counts = owner.follow("/api/stream?topics=counts").await;
    counts.expect("ready").await;
    owner.session(json!({"session_type": "mixed"})).await;
    counts.expect("counts").await;
    owner.get("/api/stream?topics=weather").await.refused(422, "invalid");
}

async fn hints_resume_from_their_cursor_or_are_reset(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let mut hints = owner.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    owner.session(json!({"id": "a", "session_type": "mixed"})).await;
    let cursor = hints.next().await.unwrap().id.unwrap();
    owner.session(json!({"id": "b", "session_type": "mixed"})).await;
    let mut resumed =
        owner.clone().with("last-event-id", &cursor).follow("/api/stream?topics=sessions").await;
    resumed.expect("ready").await;
    let hint = resumed.expect("sessions").await;
    assert_eq!(hint["sessions"].as_array().unwrap().last().unwrap()["id"], "b");
    let mut foreign = owner.follow("/api/stream?cursor=elsewhere.5").await;
    foreign.expect("ready").await;
    foreign.expect("reset").await;
}

async fn hints_show_only_what_the_caller_may_see(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let mut hints = bob.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    ann.session(json!({"id": "private", "session_type": "mixed"})).await;
    ann.session(json!({"id": "common", "session_type": "mixed", "participants": ["bob"]})).await;
    let seen = hints.expect("sessions").await;
    assert!(seen["sessions"].as_array().unwrap().iter().all(|session| session["id"] == "common"), "{seen}");
}

async fn hints_follow_who_takes_part(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let mut hints = bob.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    let named = |hint: &serde_json::Value| hint["sessions"][0]["id"].as_str().unwrap().to_owned();
    ann.session(json!({"id": "first", "session_type": "mixed", "participants": ["bob"]})).await;
    assert_eq!(named(&hints.expect("sessions").await), "first");
    ann.patch("/api/sessions/first", json!({"participants": []})).await.expect(200);
    ann.say("first", "he is gone").await.expect(201);
    ann.session(json!({"id": "second", "session_type": "mixed"})).await;
    ann.say("second", "he is not here yet").await.expect(201);
    ann.patch("/api/sessions/second", json!({"participants": ["bob"]})).await.expect(200);
    assert_eq!(named(&hints.expect("sessions").await), "second");
}
