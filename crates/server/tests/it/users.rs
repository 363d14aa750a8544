//! /api/users

use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_user_is_made_read_and_changed, identities_belong_to_one_user, two_users_become_one,
    users_are_listed_in_pages
);

async fn a_user_is_made_read_and_changed(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let made = owner.post("/api/users", json!({"id": "ann", "name": "Ann"})).await.expect(201).body;
    assert_eq!(
        (&made["role"], &made["suspended"], &made["identities"]),
        (&json!("member"), &json!(false), &json!([]))
    );
    owner.post("/api/users", json!({"id": "ann"})).await.refused(409, "already_exists");
    let changed =
        owner.patch("/api/users/ann", json!({"role": "guest", "suspended": true})).await.expect(200).body;
    assert_eq!(
        (&changed["role"], &changed["suspended"], &changed["name"]),
        (&json!("guest"), &json!(true), &json!("Ann"))
    );
    assert_eq!(owner.get("/api/users/ann").await.expect(200).body, changed);
    owner.get("/api/users/nobody").await.refused(404, "not_found");
    owner.patch("/api/users/ann", json!({"role": "worker"})).await.refused(422, "invalid");
}

async fn identities_belong_to_one_user(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for id in ["ann", "bob"] {
        owner.post("/api/users", json!({"id": id})).await.expect(201);
    }
    let identity = json!({"platform": "telegram", "external_id": "42"});
    let linked = owner.post("/api/users/ann/identities", identity.clone()).await.expect(200).body;
    assert_eq!(linked["identities"], json!([identity]));
    owner.post("/api/users/ann/identities", identity.clone()).await.expect(200);
    owner.post("/api/users/bob/identities", identity).await.refused(409, "already_exists");
    let strange = json!({"platform": "pigeon", "external_id": "42"});
    owner.post("/api/users/ann/identities", strange).await.refused(422, "invalid");
}

async fn two_users_become_one(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for id in ["ann", "annie"] {
        owner.post("/api/users", json!({"id": id})).await.expect(201);
    }
    let identity = json!({"platform": "slack", "external_id": "T1:U1"});
    owner.post("/api/users/annie/identities", identity.clone()).await.expect(200);
    for (user, thread, town, rule) in
        [("ann", "a", "Graz", "Always answer briefly"), ("annie", "b", "Linz", "Never use any emojis")]
    {
        for text in [format!("Remember that I know {town}"), format!("Remember that I want maps of {town}")] {
            let wish = json!({"thread_id": thread, "message": text, "user_id": user});
            owner.post("/api/chat", wish).await.expect(200);
        }
        for _ in 0..2 {
            let wish = json!({"thread_id": thread, "message": rule, "user_id": user});
            owner.post("/api/chat", wish).await.expect(200);
        }
        owner.post(&format!("/api/threads/{thread}/end"), json!({})).await.expect(200);
    }
    let status = async |user: &str| {
        let status = owner.get(&format!("/api/memory/status?user_id={user}")).await.expect(200).body;
        ["facts", "arcs", "rules"].map(|kind| status[kind].as_u64().unwrap())
    };
    let (ann, annie) = (status("ann").await, status("annie").await);
    assert!(annie.iter().all(|count| *count > 0), "{annie:?}");
    let remaining = owner.post("/api/users/annie/merge", json!({"into": "ann"})).await.expect(200).body;
    assert_eq!((&remaining["id"], &remaining["identities"]), (&json!("ann"), &json!([identity])));
    assert_eq!(owner.get("/api/users/annie").await.expect(200).body["merged_into"], "ann");
    let both = [0, 1, 2].map(|kind| ann[kind] + annie[kind]);
    assert_eq!((status("ann").await, status("annie").await), (both, [0, 0, 0]), "with what is remembered");
    owner.post("/api/users/ann/merge", json!({"into": "ann"})).await.refused(422, "invalid");
}

async fn users_are_listed_in_pages(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for id in ["a", "b", "c"] {
        owner.post("/api/users", json!({"id": id})).await.expect(201);
    }
    let first = owner.get("/api/users?limit=2").await.expect(200).body;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = owner.get(&format!("/api/users?limit=2&cursor={cursor}")).await.expect(200).body;
    assert_eq!((&rest["items"][0]["id"], &rest["next_cursor"]), (&json!("c"), &json!(null)));
}
