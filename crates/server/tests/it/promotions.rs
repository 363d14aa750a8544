//! Promotions over HTTP: from the submit of a response to its entity

use std::time::Duration;

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    a_response_is_staged_edited_approved_and_promoted,
    a_hard_block_at_submit_asks_nobody,
    a_denied_promotion_is_asked_again_by_owners_and_the_maker,
    a_promotion_that_nobody_decides_expires_and_its_response_stays,
    what_has_changed_since_is_named_and_not_overwritten,
    a_response_that_waits_for_a_decision_is_not_deleted,
    responses_and_tools_are_not_retried,
);

/// A form whose responses ada decides on.
async fn form(owner: &Caller<'_>) -> String {
    let criteria = json!({"id": "care", "name": "Care", "dimensions": [{"slug": "size",
        "options": [{"value": "small", "score": 1}, {"value": "big", "score": 0.5, "flag": true}, {"value": "vast"}],
        "option_styles": {"vast": {"hard_block": true}}}]});
    owner.post("/api/criteria-sets", criteria).await.expect(201);
    let view = json!({"title": "Apply", "questions": [
            {"key": "name", "label": "Name", "required": true},
            {"key": "stand", "label": "Stand", "type": "choice",
                "options": [{"value": "small"}, {"value": "big"}, {"value": "vast"}]},
            {"key": "note", "label": "Note"}],
        "response": {"entity_type": "exhibitor", "fields": {"name": "name", "stand": "size"},
            "criteria_set_id": "care", "promote": "approval", "assigned_to": "ada"}});
    owner.post("/api/views", view).await.expect(201).id()
}

/// Opens and submits a response.
async fn submit(by: &Caller<'_>, view: &str, open: Value, values: Value) -> Value {
    let id = by.post(&format!("/api/views/{view}/responses"), open).await.expect(201).id();
    by.post(&format!("/api/responses/{id}/submit"), json!({"values": values})).await.expect(200).body
}

fn path_of(response: &Value) -> String {
    format!("/api/responses/{}", response["id"].as_str().unwrap())
}

fn decide(response: &Value) -> String {
    format!("/api/approvals/{}/decide", response["promotion"]["approval_id"].as_str().unwrap())
}

async fn a_response_is_staged_edited_approved_and_promoted(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (rita, ada) = (server.key(Role::Member, "rita").await, server.key(Role::Member, "ada").await);
    let view = form(&owner).await;
    let answers = json!({"name": "Acme", "stand": "big", "note": "near the door"});
    let response = submit(&rita, &view, json!({}), answers).await;
    assert_eq!(response["status"], "submitted");
    assert_eq!((&response["score"], &response["flags"]), (&json!(0.5), &json!(["size:big"])));
    assert_eq!(response["promotion"]["state"], "pending");
    assert_eq!(response["promoted_at"], json!(null));

    let inbox = ada.get("/api/approvals?state=pending").await.expect(200).body;
    let approval = &inbox["items"][0];
    assert_eq!((&approval["kind"], &approval["session_id"]), (&json!("promotion"), &response["id"]));
    assert_eq!(approval["staged"], json!({"name": "Acme", "size": "big"}));
    assert_eq!(approval["promotion"]["is_new"], true);
    assert_eq!(approval["promotion"]["entity_type"], "exhibitor");
    let waiting = ada.get("/api/today/needs_me").await.expect(200).body;
    assert_eq!(waiting["items"][0]["approval"]["id"], approval["id"]);
    let path = decide(&response);
    rita.post(&path, json!({"decision": "approve"})).await.refused(404, "not_found");
    let edit = |edit: Value| json!({"decision": "approve", "modified_output": edit});
    let blocked = ada.post(&path, edit(json!({"size": "vast"}))).await.refused(422, "hard_blocked");
    assert_eq!(blocked.body["error"]["details"], json!({"dimension": "size", "option": "vast"}));
    let refused = ada.post(&path, edit(json!({"note": "x"}))).await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "modified_output.note");
    let decided = ada.post(&path, edit(json!({"size": "small"}))).await.expect(200).body;
    assert_eq!((&decided["state"], &decided["score"]), (&json!("approved"), &json!(1.0)));

    let entity = approval["promotion"]["entity_id"].as_str().unwrap();
    let entity = ada.get(&format!("/api/entities/{entity}")).await.expect(200).body;
    assert_eq!(entity["fields"], json!({"name": "Acme", "size": "small"}));
    let promoted = rita.get(&path_of(&response)).await.expect(200).body;
    assert_eq!(
        (&promoted["status"], &promoted["promotion"]["state"]),
        (&json!("promoted"), &json!("approved"))
    );
    assert_eq!(promoted["promoted_at"], decided["decided_at"]);
    let session =
        owner.get(&format!("/api/sessions/{}", response["id"].as_str().unwrap())).await.expect(200).body;
    assert_eq!(session["status"], "completed", "the stored status");
    let list = async |status: &str| {
        let page = owner.get(&format!("/api/views/{view}/responses?status={status}")).await.expect(200).body;
        page["items"].as_array().unwrap().len()
    };
    assert_eq!((list("promoted").await, list("submitted").await), (1, 0));
    let again = format!("{}/promote", path_of(&response));
    owner.post(&again, json!({})).await.refused(409, "already_decided");
}

async fn a_hard_block_at_submit_asks_nobody(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let view = form(&owner).await;
    let response = submit(&owner, &view, json!({}), json!({"name": "Acme", "stand": "vast"})).await;
    assert_eq!(response["status"], "submitted");
    let promotion = &response["promotion"];
    assert_eq!((&promotion["state"], &promotion["approval_id"]), (&json!("blocked"), &json!(null)));
    assert_eq!((&promotion["dimension"], &promotion["option"]), (&json!("size"), &json!("vast")));
    assert_eq!(owner.get("/api/approvals").await.expect(200).body["items"], json!([]));
    owner.post(&format!("{}/promote", path_of(&response)), json!({})).await.refused(422, "hard_blocked");
}

async fn a_denied_promotion_is_asked_again_by_owners_and_the_maker(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (rita, ada) = (server.key(Role::Member, "rita").await, server.key(Role::Member, "ada").await);
    let view = form(&owner).await;
    let response = submit(&rita, &view, json!({}), json!({"name": "Acme"})).await;
    let promote = format!("{}/promote", path_of(&response));
    owner.post(&promote, json!({})).await.refused(409, "session_running");
    ada.post(&decide(&response), json!({"decision": "deny", "reason": "too vague"})).await.expect(200);
    let denied = rita.get(&path_of(&response)).await.expect(200).body;
    assert_eq!(denied["status"], "submitted");
    assert_eq!(
        (&denied["promotion"]["state"], &denied["promotion"]["reason"]),
        (&json!("denied"), &json!("too vague"))
    );
    rita.post(&promote, json!({})).await.refused(403, "denied");
    server.key(Role::Member, "eve").await.post(&promote, json!({})).await.refused(404, "not_found");
    for (body, field) in [(json!({"assigned_to": "a/b"}), "assigned_to"), (json!({"to": "ada"}), "to")] {
        let refused = owner.post(&promote, body).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field);
    }
    let again = owner.post(&promote, json!({"assigned_to": "bob"})).await.expect(200).body;
    assert_eq!(again["promotion"]["state"], "pending");
    assert_ne!(again["promotion"]["approval_id"], denied["promotion"]["approval_id"]);
    ada.post(&decide(&again), json!({"decision": "approve"})).await.refused(404, "not_found");
    server
        .key(Role::Member, "bob")
        .await
        .post(&decide(&again), json!({"decision": "approve"}))
        .await
        .expect(200);
}

async fn a_promotion_that_nobody_decides_expires_and_its_response_stays(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let view = form(&owner).await;
    let response = submit(&owner, &view, json!({}), json!({"name": "Acme"})).await;
    server.clock.advance(Duration::from_secs(7 * 24 * 3600));
    owner.post(&decide(&response), json!({"decision": "approve"})).await.refused(409, "already_decided");
    server.engine.sweep().await.unwrap();
    let expired = owner.get(&path_of(&response)).await.expect(200).body;
    assert_eq!(
        (&expired["status"], &expired["promotion"]["state"]),
        (&json!("submitted"), &json!("expired"))
    );
    let again = owner.post(&format!("{}/promote", path_of(&response)), json!({})).await.expect(200).body;
    owner.post(&decide(&again), json!({"decision": "approve"})).await.expect(200);
}

async fn what_has_changed_since_is_named_and_not_overwritten(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let view = form(&owner).await;
    let acme = json!({"id": "acme", "type_slug": "exhibitor", "fields": {"size": "small", "hall": 1}});
    owner.post("/api/entities", acme).await.expect(201);
    owner.post("/api/entities", json!({"id": "oban", "type_slug": "town"})).await.expect(201);
    let open = format!("/api/views/{view}/responses");
    let refused = owner.post(&open, json!({"entity_id": "oban"})).await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "entity_id");
    let response =
        submit(&owner, &view, json!({"entity_id": "acme"}), json!({"name": "Acme", "stand": "big"})).await;
    let set = async |fields: Value| {
        owner.patch("/api/entities/acme", json!({ "fields": fields })).await.expect(200);
    };
    set(json!({"size": "big", "hall": 1})).await;
    let stale =
        owner.post(&decide(&response), json!({"decision": "approve"})).await.refused(409, "stale_base");
    assert_eq!(stale.body["error"]["details"], json!({"fields": ["size"]}));
    set(json!({"size": "small", "hall": 2})).await;
    owner.post(&decide(&response), json!({"decision": "approve"})).await.expect(200);
    let entity = owner.get("/api/entities/acme").await.expect(200).body;
    assert_eq!(entity["fields"], json!({"size": "big", "hall": 2, "name": "Acme"}));
}

async fn a_response_that_waits_for_a_decision_is_not_deleted(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let view = form(&owner).await;
    let response = submit(&owner, &view, json!({}), json!({"name": "Acme"})).await;
    let session = format!("/api/sessions/{}", response["id"].as_str().unwrap());
    owner.delete(&session).await.refused(409, "session_running");
    owner.post(&decide(&response), json!({"decision": "deny"})).await.expect(200);
    owner.delete(&session).await.expect(204);
    owner.get(&path_of(&response)).await.refused(404, "not_found");
}

async fn responses_and_tools_are_not_retried(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for kind in ["response", "tool"] {
        let id = owner.post("/api/sessions", json!({"session_type": kind})).await.expect(201).id();
        owner.post(&format!("/api/sessions/{id}/transition"), json!({"to": "abandoned"})).await.expect(200);
        owner.post(&format!("/api/sessions/{id}/retry"), json!({})).await.refused(409, "type_mismatch");
        owner.post(&format!("/api/responses/{id}/promote"), json!({})).await.refused(
            if kind == "response" { 409 } else { 404 },
            if kind == "response" { "type_mismatch" } else { "not_found" },
        );
    }
}
