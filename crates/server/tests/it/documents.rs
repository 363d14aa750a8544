//! /api/sessions/{id}/documents

use std::time::{Duration, Instant};

use sederunt_core::access::Role;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_document_is_opened_patched_read_and_applied,
    what_does_not_fit_is_refused_and_nothing_is_written,
    a_member_proposes_and_an_owner_decides,
);

const DOC: &str = "/api/sessions/s/documents/scratch/note";

async fn a_document_is_opened_patched_read_and_applied(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    owner.post("/api/sessions", json!({"id": "s", "session_type": "mixed"})).await.expect(201);
    let opened = owner.put(DOC, json!({"value": {"b": 1, "a": [1.0]}})).await.expect(201);
    let digest: String =
        Sha256::digest(br#"{"a":[1.0],"b":1}"#).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(opened.text.contains(r#""value":{"a":[1.0],"b":1}"#), "keys are sorted: {}", opened.text);
    let base = opened.body["sequence"].as_u64().unwrap();
    assert_eq!(
        (&opened.body["digest"], &opened.body["document"]),
        (&json!(digest), &json!({"kind": "scratch", "id": "note"}))
    );
    owner.put(DOC, json!({})).await.refused(409, "already_exists");
    let patch = format!("{DOC}/patch");
    let ops = json!([{"op": "add", "path": "/a/-", "value": 2}]);
    let done = owner
        .post(&format!("{patch}?inverse=true"), json!({"base_sequence": base, "ops": ops}))
        .await
        .expect(201)
        .body;
    assert_eq!(done["inverse"], json!([{"op": "remove", "path": "/a/1"}]));
    let second = owner.post(&patch, json!({"base_sequence": base, "ops": ops})).await.expect(201).body;
    assert_eq!((&second["rebased"], second.get("inverse")), (&json!(true), None));
    let whole = json!([{"op": "replace", "path": "/a", "value": 0}]);
    let stale =
        owner.post(&patch, json!({"base_sequence": base, "ops": whole})).await.refused(409, "stale_base");
    assert_eq!(
        stale.body["error"]["details"],
        json!({"sequence": second["sequence"], "conflicts": ["/a/-"]})
    );
    let now = owner.get(DOC).await.expect(200).body;
    assert_eq!((&now["value"], &now["sequence"]), (&json!({"a": [1.0, 2, 2], "b": 1}), &second["sequence"]));
    let before = owner.get(&format!("{DOC}?at_sequence={}", done["sequence"])).await.expect(200).body;
    assert_eq!(before["value"], json!({"a": [1.0, 2], "b": 1}));
    let listed = owner.get("/api/sessions/s/documents").await.expect(200).body;
    assert_eq!(listed["documents"][0]["opened_sequence"], base);
    owner.get("/api/sessions/s/documents/scratch/none").await.refused(404, "not_found");
    owner.get("/api/sessions/s/documents/banana/note").await.refused(404, "not_found");

    owner
        .post("/api/entities", json!({"id": "e", "type_slug": "company", "fields": {"n": 1}}))
        .await
        .expect(201);
    let path = "/api/sessions/s/documents/entity/e";
    let base = owner.put(path, json!({})).await.expect(201).body["sequence"].clone();
    let ops = json!([{"op": "replace", "path": "/n", "value": 2}]);
    let done = owner
        .post(&format!("{path}/patch"), json!({"base_sequence": base, "ops": ops}))
        .await
        .expect(201)
        .body;
    owner.post(&format!("{path}/apply"), json!({"base_sequence": base})).await.refused(409, "stale_base");
    let applied = owner
        .post(&format!("{path}/apply"), json!({"base_sequence": done["sequence"]}))
        .await
        .expect(200)
        .body;
    assert_eq!(applied, json!({"fields": ["n"], "version": 2, "approval_id": null}));
    assert_eq!(owner.get("/api/entities/e").await.expect(200).body["fields"], json!({"n": 2}));
    owner
        .post("/api/sessions/s/share", json!({"access": "read", "expires_in": 60}))
        .await
        .refused(409, "type_mismatch");
}

async fn what_does_not_fit_is_refused_and_nothing_is_written(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    owner.post("/api/sessions", json!({"id": "s", "session_type": "mixed"})).await.expect(201);
    let opened =
        owner.put(DOC, json!({"value": {"a": 1, "l": [1], "x": "y".repeat(1000)}})).await.expect(201).body;
    let base = opened["sequence"].as_u64().unwrap();
    let message = json!({"events": [{"type": "user.message", "content": "hi"}]});
    let message =
        owner.post("/api/sessions/s/events", message).await.expect(201).body["last_sequence"].clone();
    let other =
        owner.put("/api/sessions/s/documents/scratch/other", json!({})).await.expect(201).body["sequence"]
            .clone();
    let op = |op: Value| json!([op]);
    let doubling: Vec<Value> =
        (0..40).map(|at| json!({"op": "copy", "from": "", "path": format!("/c{at}")})).collect();
    let many = vec![json!({"op": "test", "path": "/a", "value": 1}); 101];
    let table = [
        (json!({}), "ops"),
        (op(json!({"op": "frob", "path": "/a"})), "ops[0].op"),
        (op(json!({"op": "remove", "path": "a"})), "ops[0].path"),
        (op(json!({"op": "remove", "path": "/~2"})), "ops[0].path"),
        (op(json!({"op": "remove", "path": "/l/01"})), "ops[0].path"),
        (op(json!({"op": "replace", "path": "/l/-", "value": 1})), "ops[0].path"),
        (op(json!({"op": "add", "path": "/l/2", "value": 1})), "ops[0].path"),
        (op(json!({"op": "move", "from": "/l", "path": "/l/0"})), "ops[0].path"),
        (op(json!({"op": "remove", "path": ""})), "ops[0].path"),
        (op(json!({"op": "move", "path": "/a"})), "ops[0].from"),
        (op(json!({"op": "add", "path": "/__proto__/x", "value": 1})), "ops[0].path"),
        (Value::Array(many), "ops"),
        (Value::Array(doubling), "ops[7].path"),
    ];
    let before = owner.get("/api/sessions/s").await.expect(200).body["last_sequence"].clone();
    let started = Instant::now();
    for (ops, field) in table {
        let body = json!({"base_sequence": base, "ops": ops});
        let refused = owner.post(&format!("{DOC}/patch"), body).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{}", refused.text);
        let event = json!({"type": "state.patch", "metadata":
            {"document": {"kind": "scratch", "id": "note"}, "base_sequence": base, "ops": ops}});
        owner.post("/api/sessions/s/events", json!({"events": [event]})).await.refused(422, "invalid");
    }
    assert!(started.elapsed() < Duration::from_secs(10), "bounded time");
    let ops = json!([{"op": "add", "path": "/b", "value": 1}]);
    for bad in [message, other, json!(-1), json!(1u64 << 53), json!("1"), json!(1.5), json!(null)] {
        let body = json!({"base_sequence": bad, "ops": ops});
        owner.post(&format!("{DOC}/patch"), body).await.refused(422, "invalid");
        let event = json!({"type": "state.patch", "metadata":
            {"document": {"kind": "scratch", "id": "note"}, "base_sequence": bad, "ops": ops}});
        owner.post("/api/sessions/s/events", json!({"events": [event]})).await.refused(422, "invalid");
    }
    owner.get(&format!("{DOC}?at_sequence=99")).await.refused(422, "invalid");
    owner.get(&format!("{DOC}?at_sequence=x")).await.refused(422, "invalid");
    owner.post(&format!("{DOC}/apply"), json!({"base_sequence": base})).await.refused(409, "type_mismatch");
    let after = owner.get("/api/sessions/s").await.expect(200).body["last_sequence"].clone();
    assert_eq!(after, before, "nothing was written");
    assert_eq!(owner.get(DOC).await.expect(200).body["digest"], opened["digest"]);
    owner.post("/api/sessions", json!({"id": "t", "session_type": "tool"})).await.expect(201);
    owner.put("/api/sessions/t/documents/scratch/a", json!({})).await.refused(409, "type_mismatch");
    let event = json!({"type": "state.patch", "metadata":
        {"document": {"kind": "scratch", "id": "a"}, "base_sequence": 0, "ops": ops}});
    owner.post("/api/sessions/t/events", json!({"events": [event]})).await.refused(409, "type_mismatch");
}

async fn a_member_proposes_and_an_owner_decides(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    owner
        .post("/api/entities", json!({"id": "e", "type_slug": "company", "fields": {"n": 1}}))
        .await
        .expect(201);
    ada.post("/api/sessions", json!({"id": "s", "session_type": "mixed"})).await.expect(201);
    let path = "/api/sessions/s/documents/entity/e";
    let base = ada.put(path, json!({})).await.expect(201).body["sequence"].clone();
    let ops = json!([{"op": "replace", "path": "/n", "value": 2}]);
    let done =
        ada.post(&format!("{path}/patch"), json!({"base_sequence": base, "ops": ops})).await.expect(201).body;
    let apply = json!({"base_sequence": done["sequence"]});
    let asked = ada.post(&format!("{path}/apply"), apply).await.expect(202).body;
    assert_eq!((&asked["fields"], &asked["version"]), (&json!(["n"]), &json!(null)));
    let id = asked["approval_id"].as_str().unwrap();
    let waiting = owner.get(&format!("/api/approvals/{id}")).await.expect(200).body;
    assert_eq!((&waiting["kind"], &waiting["promotion"]["entity_id"]), (&json!("promotion"), &json!("e")));
    owner.post(&format!("/api/approvals/{id}/decide"), json!({"decision": "approve"})).await.expect(200);
    assert_eq!(owner.get("/api/entities/e").await.expect(200).body["fields"], json!({"n": 2}));
}
