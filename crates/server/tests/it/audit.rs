//! /api/audit

use sederunt_core::access::Role;
use sederunt_core::people::RefusedCredentials;
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    an_owner_reads_who_defined_loosened_exported_and_deleted_what,
    the_audit_trail_is_for_owners_and_is_paged,
    refused_credentials_and_deleted_tenants_stand_in_the_trail_of_the_installation,
    purges_and_backups_stand_in_the_trail_of_the_installation,
    a_page_of_conversations_is_full_whatever_lies_between_them,
);

async fn trail(owner: &Caller<'_>) -> Vec<(String, String)> {
    let page = owner.get("/api/audit?limit=1000").await.expect(200).body;
    let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let lines = page["items"].as_array().unwrap();
    lines.iter().rev().map(|line| (text(line, "actor"), text(line, "action"))).collect()
}

async fn an_owner_reads_who_defined_loosened_exported_and_deleted_what(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let before = trail(&owner).await.len();
    let confirmed =
        json!({"type": "http", "name": "send", "url": "https://example.org", "requires_confirmation": true});
    let agent = json!({"slug": "a", "name": "A", "model": "eliza", "tools": [confirmed.clone()]});
    owner.post("/api/agents", agent).await.expect(201);
    let task = json!({"slug": "t", "name": "T", "agent_slug": "a", "requires_approval": true});
    owner.post("/api/tasks", task).await.expect(201);
    owner.patch("/api/tasks/t", json!({"name": "T2"})).await.expect(200);
    owner.patch("/api/tasks/t", json!({"name": "T2"})).await.expect(200);
    owner.patch("/api/tasks/t", json!({"requires_approval": false})).await.expect(200);
    let mut free = confirmed;
    free["requires_confirmation"] = json!(false);
    owner.patch("/api/agents/a", json!({"tools": [free]})).await.expect(200);
    owner.session(json!({"id": "s", "session_type": "mixed"})).await;
    owner.session(json!({"id": "quiet", "session_type": "mixed", "memory_mode": "incognito"})).await;
    for id in ["s", "quiet"] {
        owner.get(&format!("/api/sessions/{id}/export")).await.expect(200);
    }
    owner.get("/api/bundle").await.expect(200);
    owner.delete("/api/sessions/s").await.expect(204);
    let actions: Vec<String> = trail(&owner)
        .await
        .split_off(before)
        .into_iter()
        .map(|(actor, action)| {
            assert_eq!(actor, "olga", "{action}");
            action
        })
        .collect();
    assert_eq!(
        actions,
        [
            "agent.create", "task.create", "task.change", "task.loosen_approval",
            "agent.loosen_confirmation", "session.export", "bundle.export", "session.delete",
        ]
    );
}

async fn the_audit_trail_is_for_owners_and_is_paged(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    for role in [Role::Member, Role::Guest, Role::Worker] {
        server.key(role, "other").await.get("/api/audit").await.refused(403, "denied");
    }
    for id in ["u1", "u2", "u3"] {
        owner.post("/api/users", json!({"id": id})).await.expect(201);
    }
    let whole = owner.get("/api/audit?limit=1000").await.expect(200).body;
    let (mut paged, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let page = owner.get(&format!("/api/audit?{query}")).await.expect(200).body;
        paged.extend(page["items"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(json!(paged), whole["items"]);
    assert_eq!(paged[0]["target"], "u3");
    owner.get("/api/audit?cursor=x").await.refused(422, "invalid");
}

async fn refused_credentials_and_deleted_tenants_stand_in_the_trail_of_the_installation(
    store_kind: StoreKind,
) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let operator = server.operator();
    operator.post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    operator.delete("/api/tenants/acme").await.expect(204);
    let refused = RefusedCredentials { times: 40, unchecked: 0 };
    server.engine.note_refused_credentials("192.0.2.1", refused).await.unwrap();
    let page = owner.get("/api/audit?limit=2").await.expect(200).body;
    let lines: Vec<[&str; 3]> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| ["actor", "action", "target"].map(|name| line[name].as_str().unwrap()))
        .collect();
    assert_eq!(
        lines,
        [["192.0.2.1", "credential.refused", "40 within a minute"], ["operator", "tenant.delete", "acme"]]
    );
}

async fn purges_and_backups_stand_in_the_trail_of_the_installation(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, operator) = (server.key(Role::Owner, "olga").await, server.operator());
    let before = trail(&owner).await.len();
    operator.post("/api/purge", json!({"preview": true})).await.expect(200);
    operator.post("/api/purge", json!({"ratings_days": 10, "crisis_days": 20})).await.expect(200);
    operator.post("/api/audit/backup", json!({"name": "2026-11-15"})).await.expect(204);
    operator.post("/api/audit/backup", json!({"name": "x".repeat(201)})).await.refused(422, "invalid");
    owner.post("/api/audit/backup", json!({"name": "mine"})).await.refused(403, "denied");
    let told = trail(&owner).await.split_off(before);
    let expected = ["records.purge", "store.backup"].map(|what| ("operator".to_owned(), what.to_owned()));
    assert_eq!(told, expected, "a preview is no purge");
    let lines = owner.get("/api/audit?limit=2").await.expect(200).body;
    assert_eq!(lines["items"][0]["target"], "2026-11-15");
    let now = server.engine.now().await.unwrap();
    let day = |days: u64| now.minus(std::time::Duration::from_secs(days * 86_400)).day();
    let purged = format!("ratings before {}, crises before {}", day(10), day(20));
    assert_eq!(lines["items"][1]["target"], purged);
}

async fn a_page_of_conversations_is_full_whatever_lies_between_them(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for id in ["one", "two"] {
        me.post("/api/chat", json!({"thread_id": id, "message": "hello"})).await.expect(200);
    }
    for n in 0..6 {
        me.session(json!({"id": format!("work-{n}"), "session_type": "mixed", "status": "pending"})).await;
    }
    let page = me.get("/api/threads?limit=3").await.expect(200).body;
    let ids: Vec<&str> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["thread_id"].as_str().unwrap())
        .collect();
    assert_eq!((ids, &page["next_cursor"]), (vec!["two", "one"], &Value::Null));
}
