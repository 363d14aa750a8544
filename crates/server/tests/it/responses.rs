//! /api/views/{id}/responses and /api/responses/{id}

use sederunt_core::access::Role;
use sederunt_core::limits;
use sederunt_core::view::respondent::cookie_name;
use serde_json::{Value, json};

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    a_member_saves_and_submits_and_owners_read_it,
    values_that_do_not_fit_are_refused_and_nothing_is_written,
    an_id_of_another_type_is_no_response,
    a_tool_session_and_a_response_are_not_found_on_each_others_routes,
);

fn survey() -> Value {
    json!({"title": "How?", "publish_config": {"gate": "none"}, "response": {}, "questions": [
        {"key": "a", "label": "A", "required": true}, {"key": "n", "label": "N", "type": "number"},
        {"key": "s", "label": "S", "type": "scale", "min": 1, "max": 5, "labels": {"1": "never"}},
        {"key": "long", "label": "L", "max": 100_000}]})
}

async fn open(caller: &Caller<'_>, view: &str) -> Answer {
    caller.post(&format!("/api/views/{view}/responses"), json!({})).await
}

async fn a_member_saves_and_submits_and_owners_read_it(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let view = owner.post("/api/views", survey()).await.expect(201).id();
    let opened = open(&ada, &view).await.expect(201);
    let id = opened.id();
    assert!(!opened.text.contains(&cookie_name(&view)), "a member needs no cookie");
    assert_eq!(
        opened.body,
        json!({"id": id, "view_id": view, "status": "draft", "values": {}, "version": 1, "entity_id": null,
            "respondent": {"kind": "user", "id": "ada"}, "is_anonymous": false, "score": null, "flags": [],
            "promotion": null, "created_at": opened.body["created_at"], "updated_at": opened.body["updated_at"],
            "submitted_at": null, "promoted_at": null})
    );
    assert_eq!(open(&ada, &view).await.expect(200).id(), id);
    let path = format!("/api/responses/{id}");
    let saved = ada.patch(&path, json!({"values": {"n": 1, "s": 5}, "version": 1})).await.expect(200).body;
    assert_eq!((&saved["values"], &saved["status"]), (&json!({"n": 1, "s": 5}), &json!("draft")));
    let stale = ada.patch(&path, json!({"values": {"n": 2}, "version": 1})).await.refused(409, "stale_base");
    assert_eq!(stale.body["error"]["details"]["version"], saved["version"]);
    assert_eq!(owner.get(&format!("/api/sessions/{id}")).await.expect(200).body["status"], "running");
    ada.post(&format!("{path}/submit"), json!({})).await.refused(422, "invalid");
    let done = ada.post(&format!("{path}/submit"), json!({"values": {"a": "x"}})).await.expect(200).body;
    assert_eq!((&done["status"], &done["repeated"]), (&json!("submitted"), &json!(false)));
    assert_eq!(done["values"], json!({"n": 1, "s": 5, "a": "x"}));
    assert!(done["submitted_at"].is_string());
    assert_eq!(ada.post(&format!("{path}/submit"), json!({})).await.expect(200).body["repeated"], true);
    let other = json!({"values": {"a": "y"}});
    ada.post(&format!("{path}/submit"), other).await.refused(409, "already_answered");
    ada.post(&format!("{path}/abandon"), json!({})).await.refused(409, "session_closed");
    open(&ada, &view).await.refused(409, "already_answered");

    let bob = server.key(Role::Member, "bob").await;
    bob.get(&path).await.refused(404, "not_found");
    let listed = |status: &str| format!("/api/views/{view}/responses?status={status}");
    bob.get(&listed("submitted")).await.refused(404, "not_found");
    let page = owner.get(&listed("submitted")).await.expect(200).body;
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next_cursor"]), (1, &Value::Null));
    assert_eq!(page["items"][0]["id"], id.as_str());
    for status in ["draft", "promoted", "abandoned"] {
        assert_eq!(owner.get(&listed(status)).await.expect(200).body["items"], json!([]), "{status}");
    }
    owner.get(&listed("completed")).await.refused(422, "invalid");
    assert_eq!(owner.get(&path).await.expect(200).body["values"]["a"], "x");
    owner.patch(&path, json!({"values": {"a": "z"}})).await.refused(403, "denied");
    assert_eq!(open(&bob, &view).await.expect(201).body["values"], json!({}));
    let shown = ada.get(&format!("/api/views/{view}")).await.expect(200).body;
    assert_eq!((&shown["open"], &shown["answered"]), (&json!(true), &json!(true)));
}

async fn values_that_do_not_fit_are_refused_and_nothing_is_written(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let view = owner.post("/api/views", survey()).await.expect(201).id();
    let id = open(&ada, &view).await.expect(201).id();
    let path = format!("/api/responses/{id}");
    let log = async || owner.get(&format!("/api/sessions/{id}/events")).await.expect(200).body;
    let before = log().await;
    let many: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("k{n}"), json!(n))).collect();
    let around = r#"{"long":""}"#.len();
    let long = |bytes: usize| json!({"long": "x".repeat(bytes - around)});
    for (values, status, field) in [
        (json!({"other": 1}), 422, "values.other"),
        (json!({"__proto__": {"a": 1}}), 422, "values.__proto__"),
        (json!({"n": "1"}), 422, "values.n"),
        (json!({"s": 6}), 422, "values.s"),
        (json!({"s": 1.5}), 422, "values.s"),
        (json!({"a": ["x"]}), 422, "values.a"),
        (json!([]), 422, "values"),
        (json!("x"), 422, "values"),
        (Value::Object(many), 413, ""),
        (long(limits::ANSWER_BYTES_MAX + 1), 413, ""),
    ] {
        for (verb, path) in [("save", path.clone()), ("submit", format!("{path}/submit"))] {
            let body = json!({"values": values});
            let answer =
                if verb == "save" { ada.patch(&path, body).await } else { ada.post(&path, body).await };
            assert_eq!(answer.status.as_u16(), status, "{verb} {field}: {}", answer.text);
            if !field.is_empty() {
                assert_eq!(answer.body["error"]["field"], field, "{verb}");
            }
        }
    }
    assert_eq!(log().await, before, "nothing was written");
    ada.patch(&path, json!({"values": long(limits::ANSWER_BYTES_MAX)})).await.expect(200);
    ada.patch(&path, json!({"values": {"a": "1"}})).await.refused(413, "too_large");
}

async fn an_id_of_another_type_is_no_response(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let (plain, talk, tool) = (
        owner.session(json!({"session_type": "response"})).await,
        owner.session(json!({"session_type": "mixed"})).await,
        owner.session(json!({"session_type": "tool"})).await,
    );
    for (id, status, code) in
        [(plain, 409, "type_mismatch"), (talk, 404, "not_found"), (tool, 404, "not_found")]
    {
        let path = format!("/api/responses/{id}");
        owner.get(&path).await.refused(status, code);
        owner.patch(&path, json!({"values": {}})).await.refused(status, code);
        owner.post(&format!("{path}/submit"), json!({})).await.refused(status, code);
        owner.post(&format!("{path}/abandon"), json!({})).await.refused(status, code);
        owner.post(&format!("{path}/promote"), json!({})).await.refused(status, code);
    }
}

async fn a_tool_session_and_a_response_are_not_found_on_each_others_routes(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let view = owner.post("/api/views", survey()).await.expect(201).id();
    let response = open(&owner, &view).await.expect(201).id();
    let tool = json!({"slug": "look-up", "name": "Look up", "run": {"type": "http", "url": "http://127.0.0.1:1/"},
        "input_schema": {"type": "object", "properties": {}}});
    owner.post("/api/tools", tool).await.expect(201);
    let tool = owner.post("/api/tools/look-up/sessions", json!({"values": {}})).await.expect(201).id();
    let path = format!("/api/tool-sessions/{response}");
    owner.get(&path).await.refused(404, "not_found");
    owner.patch(&path, json!({"values": {}})).await.refused(404, "not_found");
    owner.post(&format!("{path}/invoke"), json!({})).await.refused(404, "not_found");
    owner.post(&format!("{path}/cancel"), json!({})).await.refused(404, "not_found");
    let path = format!("/api/responses/{tool}");
    owner.get(&path).await.refused(404, "not_found");
    owner.patch(&path, json!({"values": {}})).await.refused(404, "not_found");
    for verb in ["submit", "abandon", "promote"] {
        owner.post(&format!("{path}/{verb}"), json!({})).await.refused(404, "not_found");
    }
    // No list of one type shows another.
    let ids = async |path: &str| -> Vec<String> {
        let page = owner.get(path).await.expect(200).body;
        page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&format!("/api/views/{view}/responses")).await, [response.as_str()]);
    assert_eq!(ids("/api/tools/look-up/sessions").await, [tool.as_str()]);
    for (kind, only) in [("response", &response), ("tool", &tool)] {
        assert_eq!(ids(&format!("/api/sessions?session_type={kind}")).await, [only.as_str()], "{kind}");
    }
    owner.get(&format!("/api/sessions/{response}")).await.expect(200);
    owner.get(&format!("/api/sessions/{tool}")).await.expect(200);
}
