//! /api/sessions/{id}/participants/me, and what guests and members do in sessions of others

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_guest_talks_where_invited_and_changes_nothing_else,
    a_sitting_is_ended_and_rated_by_its_holder_its_opener_or_an_owner,
    only_members_and_owners_ask_the_model_and_only_owners_choose_it,
    whoever_has_left_is_put_back_by_themselves_or_an_owner_alone,
    a_worker_cannot_tell_a_missing_session_from_one_that_it_does_not_hold,
);

async fn a_guest_talks_where_invited_and_changes_nothing_else(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, mia) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "mia").await);
    let gus = server.key(Role::Guest, "gus").await;
    let id = ann.session(json!({"session_type": "mixed", "participants": ["gus", "mia"]})).await;
    let path = format!("/api/sessions/{id}");
    gus.say(&id, "hello").await.expect(201);
    gus.post(&format!("{path}/messages"), json!({"text": "Hello.", "append_only": true})).await.expect(200);
    let before = ann.get(&path).await.expect(200).body;
    for body in [
        json!({"title": "pwned"}),
        json!({"inactive": true}),
        json!({"metadata": {"approved": true}}),
        json!({"description": "pwned"}),
        json!({"participants": []}),
    ] {
        gus.patch(&path, body.clone()).await.refused(403, "denied");
        server.key(Role::Guest, "stranger").await.patch(&path, body).await.refused(404, "not_found");
    }
    gus.post(&format!("{path}/transition"), json!({"to": "abandoned"})).await.refused(403, "denied");
    gus.post(&format!("{path}/checkpoint"), json!({"reason": "manual"})).await.refused(403, "denied");
    assert_eq!(ann.get(&path).await.expect(200).body, before);
    mia.patch(&path, json!({"title": "ours"})).await.expect(200);
}

async fn a_sitting_is_ended_and_rated_by_its_holder_its_opener_or_an_owner(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let ann = server.key(Role::Member, "ann").await;
    let (gus, mia) = (server.key(Role::Guest, "gus").await, server.key(Role::Member, "mia").await);
    ann.session(json!({"id": "trip", "session_type": "mixed", "participants": ["gus", "mia"]})).await;
    let say = json!({"message": "Hello.", "thread_id": "trip"});
    let (end, rate) = ("/api/threads/trip/end", "/api/threads/trip/feedback");
    ann.post("/api/chat", say.clone()).await.expect(200);
    for other in [&gus, &mia] {
        for body in [json!({"discard": true}), json!({"feedback": "positive"})] {
            other.post(end, body.clone()).await.refused(403, "denied");
            other.post("/threads/trip/end", body).await.refused(403, "denied");
        }
        other.post(rate, json!({"feedback": "positive"})).await.refused(403, "denied");
    }
    assert_eq!(
        ann.get("/api/threads/trip/session-status").await.expect(200).body["has_active_session"],
        true
    );
    assert_eq!(ann.post(end, json!({})).await.expect(200).body["finalized"], true);
    gus.post(rate, json!({"feedback": "positive"})).await.refused(403, "denied");
    ann.post(rate, json!({"feedback": "positive"})).await.expect(200);
    // Whoever opened a sitting ends it and rates it.
    gus.post("/api/chat", say).await.expect(200);
    mia.post(end, json!({})).await.refused(403, "denied");
    assert_eq!(gus.post(end, json!({"feedback": "skip"})).await.expect(200).body["finalized"], true);
}

async fn only_members_and_owners_ask_the_model_and_only_owners_choose_it(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let turn = |model: Value| json!({"messages": [{"role": "user", "content": "Hello."}], "model": model});
    for (role, plain, configured, other) in
        [(Role::Owner, 200, 200, 422), (Role::Member, 200, 200, 403), (Role::Guest, 403, 403, 403)]
    {
        let caller = server.key(role, "pat").await;
        for (model, status) in
            [(json!(null), plain), (json!("eliza"), configured), (json!("openai:x"), other)]
        {
            let answer = caller.post("/api/turn", turn(model.clone())).await;
            assert_eq!(answer.status, status, "{role:?} {model}: {}", answer.text);
        }
    }
}

async fn whoever_has_left_is_put_back_by_themselves_or_an_owner_alone(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let (ann, gus) = (server.key(Role::Member, "ann").await, server.key(Role::Guest, "gus").await);
    let id = ann.session(json!({"session_type": "mixed", "participants": ["gus"]})).await;
    let (path, me) = (format!("/api/sessions/{id}"), format!("/api/sessions/{id}/participants/me"));
    let people = async || ann.get(&path).await.expect(200).body["participants"].clone();
    gus.delete(&me).await.expect(204);
    assert_eq!(people().await, json!(["ann"]));
    gus.get(&path).await.refused(404, "not_found");
    gus.delete(&me).await.refused(404, "not_found");
    let invited = json!({"participants": ["gus"]});
    ann.patch(&path, invited.clone()).await.refused(403, "denied");
    ann.patch(&path, json!({"participants": ["mia"], "title": "without gus"})).await.expect(200);
    gus.post(&me, json!({})).await.expect(200);
    assert_eq!(people().await, json!(["ann", "gus", "mia"]));
    ann.patch(&path, invited.clone()).await.expect(200);
    gus.delete(&me).await.expect(204);
    owner.patch(&path, invited.clone()).await.expect(200);
    gus.get(&path).await.expect(200);
    // Whoever was taken off by the holder has not left, and does not come back alone.
    ann.patch(&path, json!({"participants": []})).await.expect(200);
    gus.post(&me, json!({})).await.refused(404, "not_found");
    ann.patch(&path, invited).await.expect(200);
    ann.delete(&me).await.refused(403, "denied");
    server.key(Role::Guest, "stranger").await.delete(&me).await.refused(404, "not_found");
}

async fn a_worker_cannot_tell_a_missing_session_from_one_that_it_does_not_hold(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let answer = async |id: &str, what: &str, body: Value| {
        let mut refused =
            worker.post(&format!("/api/sessions/{id}/{what}"), body).await.refused(409, "fenced").body;
        refused["error"]["request_id"] = Value::Null;
        refused
    };
    let event = json!({"type": "agent.message", "content": "x"});
    for (what, body) in [
        ("heartbeat", json!({"epoch": 1})),
        ("complete", json!({"epoch": 1})),
        ("fail", json!({"epoch": 1, "error": "x"})),
        ("yield", json!({"epoch": 1, "kind": "idle"})),
        ("delta", json!({"epoch": 1, "text": "x"})),
        ("events", json!({"epoch": 1, "events": [event]})),
    ] {
        assert_eq!(answer(&id, what, body.clone()).await, answer("missing", what, body).await, "{what}");
    }
}
