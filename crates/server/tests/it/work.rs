//! /api/claims, and what follows from a claim

use std::time::Duration;

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{StoreKind, TestServer, on_every_store, within};

on_every_store!(
    a_claim_is_worked_on_and_completed,
    a_lost_lease_is_fenced_off_and_the_work_goes_on,
    another_workers_key_is_fenced_even_with_the_right_epoch,
    a_waiting_claim_wakes_when_work_appears,
    a_failure_may_be_tried_again,
    a_run_may_pause,
    a_stop_reaches_the_worker,
    a_worker_sees_what_it_claimed_and_nothing_else,
    claims_are_for_workers_and_owners,
    claims_are_bounded,
);

async fn claim(worker: &crate::server::Caller<'_>) -> Value {
    let claims = worker.post("/api/claims", json!({"worker": "w-1"})).await.expect(200).body;
    claims["claims"][0].clone()
}

async fn a_claim_is_worked_on_and_completed(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let wish =
        json!({"session_type": "agent", "status": "pending", "agent_slug": "scribe", "input": {"q": 1}});
    let id = owner.session(wish).await;
    let other = json!({"worker": "w-1", "agent_slugs": ["painter"]});
    assert_eq!(worker.post("/api/claims", other).await.expect(200).body, json!({"claims": []}));
    let claimed = claim(&worker).await;
    assert_eq!((&claimed["session"]["id"], &claimed["session"]["input"]), (&json!(id), &json!({"q": 1})));
    assert_eq!(claimed["session"]["claim"]["worker"], "w-1");
    let epoch = &claimed["epoch"];
    let beat =
        worker.post(&format!("/api/sessions/{id}/heartbeat"), json!({"epoch": epoch})).await.expect(200).body;
    assert_eq!(beat["stop_requested"], false);
    let step = json!({"epoch": epoch, "events": [{"type": "agent.message", "content": "working"}]});
    let done = worker.post(&format!("/api/sessions/{id}/events"), step).await.expect(201).body;
    assert_eq!(done["stop_requested"], false);
    let result = json!({"epoch": epoch, "result": {"answer": 42}, "text": "done", "usage": {"tokens": 7}});
    let ended = worker.post(&format!("/api/sessions/{id}/complete"), result).await.expect(200).body;
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!({"answer": 42})));
    assert_eq!((&ended["usage"], &ended["claim"]), (&json!({"tokens": 7}), &json!(null)));
    let shown = owner.get(&format!("/api/sessions/{id}")).await.expect(200).body;
    assert_eq!(shown["last_message_preview"], "done");
}

async fn a_lost_lease_is_fenced_off_and_the_work_goes_on(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let first = claim(&owner).await;
    server.clock.advance(Duration::from_secs(31));
    let stale = json!({"epoch": first["epoch"], "events": [{"type": "agent.message", "content": "late"}]});
    owner.post(&format!("/api/sessions/{id}/events"), stale).await.refused(409, "fenced");
    let second =
        owner.post("/api/claims", json!({"worker": "w-2", "wait_ms": 20_000})).await.expect(200).body;
    let second = &second["claims"][0];
    assert_eq!(second["session"]["id"], json!(id), "the sweeper freed it");
    assert!(second["epoch"].as_u64() > first["epoch"].as_u64());
    for (verb, body) in [
        ("heartbeat", json!({"epoch": first["epoch"]})),
        ("complete", json!({"epoch": first["epoch"]})),
        ("fail", json!({"epoch": first["epoch"], "error": "x"})),
        ("yield", json!({"epoch": first["epoch"], "kind": "idle"})),
        ("delta", json!({"epoch": first["epoch"], "text": "x"})),
    ] {
        owner.post(&format!("/api/sessions/{id}/{verb}"), body).await.refused(409, "fenced");
    }
}

async fn another_workers_key_is_fenced_even_with_the_right_epoch(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (one, two) = (server.key(Role::Worker, "").await, server.key(Role::Worker, "").await);
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let claimed = claim(&one).await;
    let body = json!({"epoch": claimed["epoch"]});
    two.post(&format!("/api/sessions/{id}/complete"), body.clone()).await.refused(409, "fenced");
    two.post(&format!("/api/sessions/{id}/heartbeat"), body.clone()).await.refused(409, "fenced");
    let events = json!({"epoch": claimed["epoch"], "events": [{"type": "agent.message", "content": "x"}]});
    two.post(&format!("/api/sessions/{id}/events"), events).await.refused(409, "fenced");
    one.post(&format!("/api/sessions/{id}/complete"), body).await.expect(200);
}

async fn a_waiting_claim_wakes_when_work_appears(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let waiting = owner.post("/api/claims", json!({"worker": "w", "wait_ms": 30_000}));
    let appearing = async {
        owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    };
    let (claims, ()) = within(async { tokio::join!(waiting, appearing) }).await;
    assert_eq!(claims.expect(200).body["claims"].as_array().unwrap().len(), 1);
}

async fn a_failure_may_be_tried_again(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let path = format!("/api/sessions/{id}/fail");
    let first = claim(&owner).await;
    let body = json!({"epoch": first["epoch"], "error": "the model was away", "retryable": true});
    assert_eq!(owner.post(&path, body).await.expect(200).body["status"], "pending");
    let second = claim(&owner).await;
    let body = json!({"epoch": second["epoch"], "error": "no way"});
    let failed = owner.post(&path, body).await.expect(200).body;
    assert_eq!((&failed["status"], &failed["error_message"]), (&json!("failed"), &json!("no way")));
}

async fn a_run_may_pause(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for (body, status) in [
        (json!({"kind": "tool", "tool_call": {"id": "c", "name": "pay", "args": {}}}), "awaiting_tool"),
        (json!({"kind": "human", "question": {"text": "Which one?"}}), "waiting_human"),
        (json!({"kind": "idle"}), "idle"),
    ] {
        let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
        let mut body = body;
        body["epoch"] = claim(&owner).await["epoch"].clone();
        let paused = owner.post(&format!("/api/sessions/{id}/yield"), body).await.expect(200).body;
        assert_eq!((&paused["status"], &paused["claim"]), (&json!(status), &json!(null)));
    }
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let epoch = claim(&owner).await["epoch"].clone();
    let mixed = json!({"epoch": epoch, "kind": "idle", "question": {"text": "?"}});
    owner.post(&format!("/api/sessions/{id}/yield"), mixed).await.refused(422, "invalid");
}

async fn a_stop_reaches_the_worker(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let claimed = claim(&owner).await;
    owner.post(&format!("/api/sessions/{id}/stop"), json!({})).await.expect(200);
    let beat = json!({"epoch": claimed["epoch"]});
    assert_eq!(
        owner.post(&format!("/api/sessions/{id}/heartbeat"), beat).await.expect(200).body["stop_requested"],
        true
    );
    let step = json!({"epoch": claimed["epoch"], "events": [{"type": "agent.message", "content": "x"}]});
    assert_eq!(
        owner.post(&format!("/api/sessions/{id}/events"), step).await.expect(201).body["stop_requested"],
        true
    );
}

async fn a_worker_sees_what_it_claimed_and_nothing_else(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let talk = owner.session(json!({"session_type": "mixed"})).await;
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    worker.get(&format!("/api/sessions/{id}")).await.refused(404, "not_found");
    claim(&worker).await;
    worker.get(&format!("/api/sessions/{id}")).await.expect(200);
    worker.get(&format!("/api/sessions/{talk}/events")).await.refused(404, "not_found");
    worker.say(&talk, "psst").await.refused(404, "not_found");
    let list = worker.get("/api/sessions").await.expect(200).body;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    worker.post("/api/sessions", json!({"session_type": "mixed"})).await.refused(403, "denied");
}

async fn claims_are_for_workers_and_owners(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    for (role, user) in [(Role::Member, "ann"), (Role::Guest, "gus")] {
        let caller = server.key(role, user).await;
        caller.post("/api/claims", json!({"worker": "w"})).await.refused(403, "denied");
    }
}

async fn claims_are_bounded(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for (body, field) in [
        (json!({}), "worker"),
        (json!({"worker": ""}), "worker"),
        (json!({"worker": "w", "limit": 0}), "limit"),
        (json!({"worker": "w", "limit": 101}), "limit"),
        (json!({"worker": "w", "lease_ms": 99}), "lease_ms"),
        (json!({"worker": "w", "lease_ms": 600_001}), "lease_ms"),
        (json!({"worker": "w", "wait_ms": 60_001}), "wait_ms"),
        (json!({"worker": "w", "session_types": ["dream"]}), "session_types[0]"),
    ] {
        let refused = owner.post("/api/claims", body.clone()).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{body}");
    }
    owner.post("/api/claims", json!({"worker": "w", "limit": 100, "lease_ms": 600_000})).await.expect(200);
}
