//! /api/sessions/human

use sederunt_core::Role;
use serde_json::{Value, json};

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_person_says_what_they_work_on,
    what_a_bridge_refuses_is_typed_and_changes_nothing,
    in_local_mode_the_caller_is_one_person,
    an_owner_sees_the_row_of_anothers_bridge_and_nothing_of_its_log,
);

const ENTITY: &str = "0190d3c0-0000-7000-8000-00000000000a";

async fn a_person_says_what_they_work_on(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let task = json!({"slug": "q2", "name": "Q2 review", "assigned_to": "ada"});
    let task = owner.post("/api/tasks", task).await.expect(201).id();
    assert_eq!(ada.get("/api/sessions/human/active").await.expect(200).body, json!({"session": null}));
    let started = ada.post("/api/sessions/human/start", json!({"taskId": "q2"})).await.expect(201).body;
    let session = &started["session"];
    assert_eq!((&session["status"], &session["title"]), (&json!("running"), &json!("Q2 review")));
    assert_eq!((&session["session_type"], &session["user_id"]), (&json!("mixed"), &json!("ada")));
    assert_eq!(session["source"]["kind"], "human-session-bridge");
    assert_eq!((&session["task_id"], &started["task"]["id"]), (&json!(task), &json!(task)));
    ada.post("/api/sessions/human/start", json!({"task_id": task})).await.expect(200);
    let active = ada.get("/api/sessions/human/active").await.expect(200).body;
    assert_eq!((&active["session"]["id"], &active["task"]["slug"]), (&session["id"], &json!("q2")));

    let id = session["id"].as_str().unwrap();
    let path = format!("/api/sessions/{id}/events");
    let view = json!({"type": "human.entity_view", "metadata": {"entityId": ENTITY, "entityType": "companies",
        "pathname": format!("/t/acme/companies/{ENTITY}?tab=2"), "at": "2026-11-18T09:30:00Z"}});
    let marker = json!({"type": "human.marker", "content": "drafting"});
    let done = ada.post(&path, json!({"events": [view, marker, view]})).await.expect(201).body;
    assert_eq!((&done["dropped"], &done["last_sequence"]), (&json!(1), &json!(3)));
    assert_eq!(
        done["events"][0]["metadata"],
        json!({"entity_id": ENTITY, "entity_type": "companies", "pathname": format!("/t/acme/companies/{ENTITY}"),
            "at": "2026-11-18T09:30:00Z"})
    );
    assert_eq!(done["events"].as_array().unwrap().len(), 2);

    let stopped = ada.post("/api/sessions/human/stop", json!({"sessionId": id})).await.expect(200).body;
    assert_eq!(stopped["status"], "completed");
    assert!(stopped["completed_at"].is_string());
    let again = ada.post("/api/sessions/human/stop", json!({"session_id": id})).await.expect(200).body;
    assert_eq!(again, stopped);
    ada.delete("/api/sessions/human?before=yesterday").await.refused(422, "invalid");
    let none = ada.delete("/api/sessions/human?before=2020-01-01T00:00:00Z").await.expect(200).body;
    assert_eq!(none, json!({"deleted": 0}));
    ada.post("/api/sessions/human/start", json!({"task_id": task})).await.expect(201);
    assert_eq!(ada.delete("/api/sessions/human").await.expect(200).body, json!({"deleted": 2}));
    ada.get(&format!("/api/sessions/{id}")).await.refused(404, "not_found");
}

async fn what_a_bridge_refuses_is_typed_and_changes_nothing(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let task = json!({"slug": "q2", "name": "Q2 review", "assigned_to": "ada"});
    owner.post("/api/tasks", task).await.expect(201);
    let later = json!({"slug": "later", "name": "Later", "status": "paused", "assigned_to": "ada"});
    owner.post("/api/tasks", later).await.expect(201);
    let start = "/api/sessions/human/start";
    ada.post(start, json!({})).await.refused(422, "invalid");
    ada.post(start, json!({"task_id": ""})).await.refused(422, "invalid");
    ada.post(start, json!({"task_id": "q2", "title": "x"})).await.refused(422, "invalid");
    ada.post(start, json!({"task_id": "none"})).await.refused(404, "not_found");
    ada.post(start, json!({"task_id": "later"})).await.refused(409, "task_not_active");
    let nameless = server.key(Role::Owner, "").await;
    nameless.post(start, json!({"task_id": "q2"})).await.refused(403, "denied");
    nameless.get("/api/sessions/human/active").await.refused(403, "denied");
    ada.post("/api/sessions/human/stop", json!({})).await.refused(422, "invalid");
    ada.post("/api/sessions/human/stop", json!({"session_id": "none"})).await.refused(404, "not_found");
    ada.post("/api/sessions", json!({"id": "human", "session_type": "mixed"})).await.refused(422, "invalid");
    let source = json!({"session_type": "mixed", "source": {"kind": "human-session-bridge"}});
    ada.post("/api/sessions", source).await.refused(422, "invalid");

    let bridge = ada.post(start, json!({"task_id": "q2"})).await.expect(201).body;
    let id = bridge["session"]["id"].as_str().unwrap();
    let path = format!("/api/sessions/{id}/events");
    let marker = json!({"type": "human.marker", "content": "x"});
    let send = async |event: Value| ada.post(&path, json!({"events": [marker, event]})).await;
    for kind in ["agent.message", "session.completed", "user.message", "external.event"] {
        send(json!({"type": kind, "content": "x"})).await.refused(403, "denied");
    }
    let path_of = |path: &str| json!({"type": "human.navigate", "metadata": {"pathname": path}});
    for (event, field) in [
        (json!({"type": "human.keypress", "metadata": {"key": "a"}}), "type"),
        (json!({"type": "human.marker", "content": "x".repeat(2001)}), "content"),
        (json!({"type": "human.marker"}), "content"),
        (path_of("chat"), "metadata.pathname"),
        (path_of(&format!("/{}", "x".repeat(512))), "metadata.pathname"),
        (path_of("/a\u{202e}\n"), "metadata.pathname"),
        (json!({"type": "human.navigate", "metadata": {"pathname": "/", "scroll": 4}}), "metadata.scroll"),
        (json!({"type": "human.navigate", "metadata": {"pathname": "/"}, "content": "x"}), "content"),
        (json!({"type": "human.marker", "content": "x", "subthread_id": "s"}), "subthread_id"),
        (json!({"type": "human.marker", "content": "x", "external_event_id": "e"}), "external_event_id"),
    ] {
        let refused = send(event).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{}", refused.text);
    }
    let switch =
        json!({"type": "human.task_switch", "metadata": {"from_task_id": "later", "to_task_id": "q2"}});
    send(switch).await.refused(409, "stale_base");
    owner.post(&path, json!({"events": [marker]})).await.refused(403, "denied");
    let bob = server.key(Role::Member, "bob").await;
    bob.post(&path, json!({"events": [marker]})).await.refused(404, "not_found");
    bob.post("/api/sessions/human/stop", json!({"session_id": id})).await.refused(404, "not_found");
    let row = ada.get(&format!("/api/sessions/{id}")).await.expect(200).body;
    assert_eq!(row["last_sequence"], 1, "nothing has landed");
    ada.post("/api/sessions/human/stop", json!({"session_id": id})).await.expect(200);
    ada.post(&path, json!({"events": [marker]})).await.refused(409, "session_closed");
}

async fn in_local_mode_the_caller_is_one_person(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    me.post("/api/tasks", json!({"slug": "q2", "name": "Q2"})).await.expect(201);
    let bridge = me.post("/api/sessions/human/start", json!({"task_id": "q2"})).await.expect(201).body;
    assert_eq!(bridge["session"]["user_id"], Value::Null);
    let path = format!("/api/sessions/{}/events", bridge["session"]["id"].as_str().unwrap());
    me.post(&path, json!({"events": [{"type": "human.marker", "content": "x"}]})).await.expect(201);
    me.get(&path).await.expect(200);
    me.post("/api/sessions/human/start", json!({"task_id": "q2"})).await.expect(200);
}

async fn an_owner_sees_the_row_of_anothers_bridge_and_nothing_of_its_log(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let task = json!({"slug": "q2", "name": "Q2 review", "assigned_to": "ada"});
    owner.post("/api/tasks", task).await.expect(201);
    let bridge = ada.post("/api/sessions/human/start", json!({"task_id": "q2"})).await.expect(201).body;
    let id = bridge["session"]["id"].as_str().unwrap();
    let at = |rest: &str| format!("/api/sessions/{id}{rest}");
    let marker = json!({"events": [{"type": "human.marker", "content": "confidential"}]});
    ada.post(&at("/events"), marker).await.expect(201);
    let row = owner.get(&at("")).await.expect(200);
    assert!(!row.text.contains("confidential"), "{}", row.text);
    let listed = owner.get("/api/sessions?kind=human-session-bridge").await.expect(200);
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 1);
    assert!(!listed.text.contains("confidential"));
    for rest in ["/events", "/events?after_sequence=9", "/state", "/replay", "/export?format=json&all=true"] {
        owner.get(&at(rest)).await.refused(403, "denied");
        ada.get(&at(rest)).await.expect(200);
    }
    let streamed = owner.status_of(http::Method::GET, &at("/stream")).await;
    assert_eq!(streamed.status, 403);
    owner.get(&format!("/api/threads/{id}/state")).await.refused(403, "denied");
    assert!(!owner.get(&format!("/api/threads/{id}/history")).await.text.contains("confidential"));
    let standing = owner.get("/api/tasks/q2/status").await.expect(200);
    assert_eq!((&standing.body["session"], standing.text.contains("confidential")), (&Value::Null, false));
    for (path, body) in [
        ("/fork", json!({"at_sequence": 1})),
        ("/retry", json!({})),
        ("/share", json!({"access": "read", "expires_in": 60})),
        ("/participants/me", json!({})),
    ] {
        ada.post(&at(path), body).await.refused(409, "type_mismatch");
    }
    ada.send(http::Method::PATCH, &at(""), Some(json!({"participants": ["bob"]}).to_string()))
        .await
        .refused(409, "type_mismatch");
    for body in [json!({"text": "hi"}), json!({"text": "hi", "append_only": true})] {
        ada.post(&at("/messages"), body).await.refused(422, "invalid");
    }
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read",
        "params": {"uri": format!("sederunt://sessions/{id}")}});
    let resource = owner.with("accept", "application/json, text/event-stream").post("/mcp", read).await;
    assert!(!resource.text.contains("confidential"), "{}", resource.text);
}
