//! /api/sessions/{id}/events

use sederunt_core::limits;
use serde_json::{Value, json};

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    events_are_numbered_and_read_back_as_given,
    a_batch_lands_whole_or_not_at_all,
    an_expected_sequence_is_held_against_the_log,
    an_external_id_is_written_once,
    pages_go_on_where_they_say,
    who_may_write_what_is_decided_by_the_type,
    limits_are_met_and_refused_one_past,
    a_closed_session_takes_external_events_alone,
);

async fn events_are_numbered_and_read_back_as_given(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"id": "log \"é\" 1", "session_type": "mixed"})).await;
    let path = "/api/sessions/log%20%22%C3%A9%22%201/events";
    let body = r#" {"events" : [ {"type":"user.message","content":"say \u00e9 \"hi\"\n","metadata":{"b":1.50,"a":[ ]}},
        {"type":"billing.charged","subthread_id":"t1","external_event_id":"x-1","role":"system"} ] } "#;
    let done = owner.post_text(path, body).await.expect(201).body;
    assert_eq!(done["last_sequence"], 3);
    assert_eq!(done.get("stop_requested"), None);
    let first = &done["events"][0];
    assert_eq!(first["content"], json!([{"type": "text", "text": "say é \"hi\"\n"}]));
    assert_eq!((&first["sequence"], &first["role"], &first["turn"]), (&json!(2), &json!("user"), &json!(2)));
    assert_eq!(first["session_id"], json!(id));
    let read = owner.get(&format!("{path}?after_sequence=1")).await.expect(200);
    assert_eq!(read.body["events"], done["events"]);
    assert!(read.text.contains(r#""metadata":{"b":1.50,"a":[]}"#), "{}", read.text);
    assert_eq!(read.body["has_more"], false);
    let newest = owner.get(&format!("{path}?order=desc&limit=1")).await.expect(200).body;
    assert_eq!(newest["events"][0]["type"], "billing.charged");
    let typed = owner.get(&format!("{path}?types=session.created,billing.charged")).await.expect(200).body;
    assert_eq!(typed["events"].as_array().unwrap().len(), 2);
}

async fn a_batch_lands_whole_or_not_at_all(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/events");
    let good = json!({"type": "user.message", "content": "hi"});
    for bad in
        [json!({"type": "no.Such"}), json!({"type": "user.message"}), json!({"type": "session.created"})]
    {
        let refused = owner.post(&path, json!({"events": [good, bad]})).await;
        assert!(refused.status.is_client_error(), "{}", refused.text);
    }
    assert_eq!(owner.get(&path).await.expect(200).body["last_sequence"], 1);
    owner.post(&path, json!({"events": []})).await.refused(422, "invalid");
}

async fn an_expected_sequence_is_held_against_the_log(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/events");
    let events = json!([{"type": "external.event"}]);
    owner.post(&path, json!({"events": events, "expected_sequence": 1})).await.expect(201);
    let refused = owner
        .post(&path, json!({"events": events, "expected_sequence": 1}))
        .await
        .refused(409, "sequence_mismatch");
    assert_eq!(refused.body["error"]["details"], json!({"last_sequence": 2}));
}

async fn an_external_id_is_written_once(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/events");
    let event = |n: u64| json!({"type": "external.event", "external_event_id": "e", "metadata": {"n": n}});
    let first = owner.post(&path, json!({"events": [event(1)]})).await.expect(201).body;
    let second = owner.post(&path, json!({"events": [event(2), {"type": "a.b"}]})).await.expect(201).body;
    assert_eq!(second["events"][0], first["events"][0]);
    assert_eq!(second["last_sequence"], 3);
}

async fn pages_go_on_where_they_say(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/events");
    let events: Vec<Value> = (0..24).map(|n| json!({"type": "a.b", "metadata": {"n": n}})).collect();
    owner.post(&path, json!({"events": events})).await.expect(201);
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = owner.get(&format!("{path}?after_sequence={after}&limit=10")).await.expect(200).body;
        seen.extend(
            page["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_u64().unwrap()),
        );
        after = page["next_after"].as_u64().unwrap();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(seen, (1..=25).collect::<Vec<_>>());
    let middle = owner.get(&format!("{path}?after_sequence=3&before_sequence=6")).await.expect(200).body;
    assert_eq!(middle["events"].as_array().unwrap().len(), 2);
}

async fn who_may_write_what_is_decided_by_the_type(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/events");
    let content = json!([{"type": "text", "text": "x"}]);
    for (event, status, code) in [
        (json!({"type": "session.completed"}), 403, "denied"),
        (json!({"type": "agent.message", "content": content}), 403, "denied"),
        (json!({"type": "human.marker", "content": content}), 403, "denied"),
        (json!({"type": "user.message", "content": [{"type": "tool-result"}]}), 422, "invalid"),
        (json!({"type": "user.message", "content": "x", "role": "agent"}), 422, "invalid"),
        (json!({"type": "user.shout", "content": "x"}), 422, "invalid"),
    ] {
        owner.post(&path, json!({"events": [event]})).await.refused(status, code);
    }
    let stale = json!({"events": [{"type": "agent.message", "content": content}], "epoch": 7});
    owner.post(&path, stale).await.refused(409, "fenced");
}

async fn limits_are_met_and_refused_one_past(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/events");
    let many = |n: usize| json!({"events": vec![json!({"type": "a.b"}); n]});
    owner.post(&path, many(limits::BATCH_EVENTS_MAX)).await.expect(201);
    let refused = owner.post(&path, many(limits::BATCH_EVENTS_MAX + 1)).await.refused(413, "too_large");
    assert_eq!(refused.body["error"]["details"]["limit"], limits::BATCH_EVENTS_MAX);
    let sized =
        |bytes: usize| json!({"events": [{"type": "user.message", "content": "x".repeat(bytes - 27)}]});
    owner.post(&path, sized(limits::EVENT_BYTES_MAX)).await.expect(201);
    owner.post(&path, sized(limits::EVENT_BYTES_MAX + 1)).await.refused(413, "too_large");
    let body = |bytes: usize| format!("{{\"events\":[]{}}}", " ".repeat(bytes - 13));
    owner.post_text(&path, &body(limits::BODY_BYTES_MAX)).await.refused(422, "invalid");
    owner.post_text(&path, &body(limits::BODY_BYTES_MAX + 1)).await.refused(413, "too_large");
    owner.get(&format!("{path}?limit={}", limits::PAGE_ROWS_MAX)).await.expect(200);
    owner.get(&format!("{path}?limit={}", limits::PAGE_ROWS_MAX + 1)).await.refused(422, "invalid");
}

async fn a_closed_session_takes_external_events_alone(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent"})).await;
    owner.post(&format!("/api/sessions/{id}/transition"), json!({"to": "abandoned"})).await.expect(200);
    owner.say(&id, "too late").await.refused(409, "session_closed");
    let path = format!("/api/sessions/{id}/events");
    owner.post(&path, json!({"events": [{"type": "external.event"}]})).await.expect(201);
}
