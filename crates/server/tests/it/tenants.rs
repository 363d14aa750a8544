//! /api/tenants: the operator's

use sederunt_core::access::Role;
use sederunt_core::limits;
use serde_json::json;
use std::time::Instant;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    tenants_are_walls,
    a_suspended_tenant_is_shut_out_within_five_seconds,
    tenants_are_the_operators
);

async fn tenants_are_walls(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let operator = server.operator();
    for id in ["acme", "other"] {
        assert_eq!(operator.post("/api/tenants", json!({"id": id})).await.expect(201).body["id"], id);
    }
    operator.post("/api/tenants", json!({"id": "acme"})).await.refused(409, "already_exists");
    operator.post("/api/tenants", json!({"id": "a/b"})).await.refused(422, "invalid");
    let key = async |tenant: &str| {
        let made = operator
            .post(&format!("/api/tenants/{tenant}/keys"), json!({"role": "owner"}))
            .await
            .expect(201)
            .body;
        assert_eq!(made["tenant"], tenant);
        (made["key"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
    };
    let ((acme, acme_key), (other, _)) = (key("acme").await, key("other").await);
    let (acme, other) = (server.bearer(&acme), server.bearer(&other));
    acme.session(json!({"id": "same", "session_type": "mixed", "title": "secret plans"})).await;
    other.get("/api/sessions/same").await.refused(404, "not_found");
    other.say("same", "hello?").await.refused(404, "not_found");
    other.get("/api/sessions/same/stream").await.refused(404, "not_found");
    other.delete(&format!("/api/keys/{acme_key}")).await.refused(404, "not_found");
    assert_eq!(other.get("/api/sessions").await.expect(200).body["items"], json!([]));
    other.session(json!({"id": "same", "session_type": "agent"})).await;
    assert_eq!(acme.get("/api/sessions/same").await.expect(200).body["title"], "secret plans");
    let keys = operator.get("/api/tenants/acme/keys").await.expect(200).body;
    assert_eq!(keys["items"].as_array().unwrap().len(), 1);
    operator.delete(&format!("/api/tenants/acme/keys/{acme_key}")).await.expect(204);
    operator.delete("/api/tenants/acme").await.expect(204);
    operator.delete("/api/tenants/acme").await.refused(404, "not_found");
    operator.get("/api/tenants/acme/keys").await.refused(404, "not_found");
    operator.delete("/api/tenants/default").await.refused(403, "denied");
}

async fn a_suspended_tenant_is_shut_out_within_five_seconds(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let operator = server.operator();
    operator.post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    let made = operator.post("/api/tenants/acme/keys", json!({"role": "owner"})).await.expect(201).body;
    let owner = server.bearer(made["key"].as_str().unwrap());
    owner.session(json!({"id": "s", "session_type": "mixed"})).await;
    let mut stream = owner.follow("/api/sessions/s/stream?after=1").await;
    stream.expect("ready").await;
    assert_eq!(
        operator.patch("/api/tenants/acme", json!({"suspended": true})).await.expect(200).body["suspended"],
        true
    );
    let suspended = Instant::now();
    stream.end().await;
    assert!(suspended.elapsed() < limits::REVOCATION_REACHES);
    owner.get("/api/sessions").await.refused(401, "unauthenticated");
    operator.patch("/api/tenants/nowhere", json!({"suspended": true})).await.refused(404, "not_found");
}

async fn tenants_are_the_operators(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    server.anyone().get("/api/tenants").await.refused(403, "denied");
    server.key(Role::Owner, "").await.post("/api/tenants", json!({"id": "x"})).await.refused(403, "denied");
    let listed = server.operator().get("/api/tenants").await.expect(200).body;
    assert_eq!(listed["items"][0]["id"], "default");
    let elsewhere = server.operator().with("x-sederunt-tenant", "default");
    assert_eq!(
        elsewhere.post("/api/sessions", json!({"session_type": "mixed"})).await.expect(201).body["source"]["kind"],
        "cli"
    );
}
