//! /api/keys, and proving who one is

use std::time::{Duration, Instant};

use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use sederunt_server::{Auth, Rate};
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_demoted_users_keys_and_streams_lose_the_old_role_within_five_seconds,
    a_key_says_whether_its_user_exists,
    a_key_opens_its_tenant_until_it_is_revoked,
    nobody_gets_in_without_a_key,
    only_owners_administer,
    a_lending_key_acts_for_others_with_the_lower_role,
    a_channel_key_keeps_to_its_prefix,
    eager_callers_are_told_to_wait,
    what_does_not_fit_a_key_is_refused,
    who_guesses_too_often_waits_before_the_store_is_asked,
);

async fn a_key_opens_its_tenant_until_it_is_revoked(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let made = owner
        .post("/api/keys", json!({"role": "member", "user": "ann", "expires_in": 3600}))
        .await
        .expect(201)
        .body;
    assert_eq!(
        (&made["role"], &made["user"], &made["tenant"]),
        (&json!("member"), &json!("ann"), &json!("default"))
    );
    let secret = made["key"].as_str().unwrap();
    server.bearer(secret).get("/api/sessions").await.expect(200);
    let listed = owner.get("/api/keys").await.expect(200);
    assert!(!listed.text.contains(secret) && listed.text.contains(made["id"].as_str().unwrap()));
    let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
    owner.delete(&path).await.expect(204);
    owner.delete("/api/keys/nope").await.refused(404, "not_found");
    let listed = owner.get("/api/keys").await.expect(200).body;
    assert!(listed["items"].as_array().unwrap().iter().any(|key| key["revoked_at"].is_string()));
}

async fn nobody_gets_in_without_a_key(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    for path in ["/api/sessions", "/api/sessions/x", "/api/keys", "/api/stream", "/metrics", "/api/tenants"] {
        let refused = server.anyone().get(path).await.refused(401, "unauthenticated");
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
    }
    for credential in ["Bearer sdr_wrong", "Bearer x", "Basic eDp5", "Bearer"] {
        let caller = server.anyone().with("authorization", credential);
        caller.get("/api/sessions").await.refused(401, "unauthenticated");
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/"] {
        server.anyone().get(path).await.expect(200);
    }
}

async fn only_owners_administer(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    for (role, user) in [(Role::Member, "ann"), (Role::Guest, "gus"), (Role::Worker, "")] {
        let caller = server.key(role, user).await;
        caller.get("/api/keys").await.refused(403, "denied");
        caller.post("/api/keys", json!({"role": "owner"})).await.refused(403, "denied");
        caller.get("/api/users").await.refused(403, "denied");
        caller.post("/api/users", json!({})).await.refused(403, "denied");
        caller.get("/api/tenants").await.refused(403, "denied");
    }
    server.key(Role::Owner, "").await.get("/api/tenants").await.refused(403, "denied");
}

async fn a_lending_key_acts_for_others_with_the_lower_role(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    owner.post("/api/users", json!({"id": "ann", "role": "member"})).await.expect(201);
    let (lender, _) =
        server.new_key(NewKey { role: Some(Role::Owner), act_as: true, ..NewKey::default() }).await;
    let as_ann = server.bearer(&lender).with("x-sederunt-user", "ann");
    let made = as_ann.post("/api/sessions", json!({"session_type": "mixed"})).await.expect(201).body;
    assert_eq!(made["user_id"], "ann");
    as_ann.get("/api/keys").await.refused(403, "denied");
    server
        .bearer(&lender)
        .with("x-sederunt-user", "nobody")
        .get("/api/sessions")
        .await
        .refused(403, "denied");
    owner.with("x-sederunt-user", "ann").get("/api/sessions").await.refused(403, "denied");
}

async fn a_channel_key_keeps_to_its_prefix(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let wish = NewKey { role: Some(Role::Channel), prefix: Some("telegram:".into()), ..NewKey::default() };
    let (secret, _) = server.new_key(wish).await;
    let channel = server.bearer(&secret);
    let id = channel.session(json!({"id": "telegram:2026-11-15-0011aabb", "session_type": "mixed"})).await;
    channel.say(&id, "hello").await.expect(201);
    let refused = channel.post("/api/sessions", json!({"id": "web-1", "session_type": "mixed"})).await;
    assert!(refused.status.is_client_error());
    let owner = server.key(Role::Owner, "").await;
    let other = owner.session(json!({"session_type": "mixed"})).await;
    channel.get(&format!("/api/sessions/{other}")).await.refused(404, "not_found");
}

async fn eager_callers_are_told_to_wait(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.rates.per_credential = Rate::new(1, 5);
        config.rates.failures_per_peer = Rate::new(1, 3);
    })
    .await;
    let (eager, calm) = (server.key(Role::Owner, "").await, server.key(Role::Owner, "").await);
    for _ in 0..5 {
        eager.get("/api/keys").await.expect(200);
    }
    let refused = eager.get("/api/keys").await.refused(429, "rate_limited");
    assert_eq!(refused.headers["retry-after"], "1");
    calm.get("/api/keys").await.expect(200);
    for n in 0..3 {
        server.bearer(&format!("sdr_guess{n}")).get("/api/keys").await.refused(401, "unauthenticated");
    }
    server.bearer("sdr_guess").get("/api/keys").await.refused(429, "rate_limited");
    calm.get("/api/keys").await.expect(200);
}

async fn what_does_not_fit_a_key_is_refused(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    for (body, field) in [
        (json!({}), "role"),
        (json!({"role": "emperor"}), "role"),
        (json!({"role": "share"}), "role"),
        (json!({"role": "member"}), "user"),
        (json!({"role": "channel"}), "prefix"),
        (json!({"role": "channel", "prefix": "telegram"}), "prefix"),
        (json!({"role": "channel", "prefix": "telegram:1"}), "prefix"),
        (json!({"role": "owner", "prefix": "x:"}), "prefix"),
        (json!({"role": "worker", "act_as": true}), "act_as"),
        (json!({"role": "owner", "expires_in": 0}), "expires_in"),
        (json!({"role": "owner", "tenant": "other"}), "tenant"),
    ] {
        let refused = server.anyone().post("/api/keys", body.clone()).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{body}");
    }
}

async fn who_guesses_too_often_waits_before_the_store_is_asked(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.rates.failures_per_peer = Rate::new(1, 3);
    })
    .await;
    let known = server.key(Role::Owner, "").await;
    known.get("/api/sessions").await.expect(200);
    let mut waited = None;
    for n in 0..10 {
        for guess in 0..8 {
            server.bearer(&format!("sdr_{n}_{guess}")).get("/api/sessions").await;
        }
        // A key that was never shown before cannot be told from a guess without asking the store.
        let fresh = server.key(Role::Owner, "").await;
        let answer = fresh.get("/api/sessions").await;
        if answer.status == 429 {
            answer.refused(429, "rate_limited");
            waited = Some(fresh);
            break;
        }
    }
    let fresh = waited.unwrap_or_else(|| panic!("nobody had to wait"));
    known.get("/api/sessions").await.expect(200);
    while fresh.get("/api/sessions").await.status == 429 {
        tokio::task::yield_now().await;
    }
}

async fn a_demoted_users_keys_and_streams_lose_the_old_role_within_five_seconds(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    owner.post("/api/users", json!({"id": "tom", "role": "owner"})).await.expect(201);
    let (tom, worker) = (server.key(Role::Owner, "tom").await, server.key(Role::Worker, "tom").await);
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let mut stream = tom.follow(&format!("/api/sessions/{id}/stream?after=1")).await;
    stream.expect("ready").await;
    let waiting = {
        let tom = tom.clone();
        async move { tom.post("/api/claims", json!({"worker": "w", "wait_ms": 20_000})).await }
    };
    owner.patch("/api/users/tom", json!({"role": "guest"})).await.expect(200);
    let demoted = Instant::now();
    let (claims, ()) = futures_util::future::join(waiting, stream.end()).await;
    claims.refused(401, "unauthenticated");
    assert!(demoted.elapsed() < Duration::from_secs(6), "{:?}", demoted.elapsed());
    tom.post("/api/keys", json!({"role": "owner", "user": "tom"})).await.refused(403, "denied");
    tom.get(&format!("/api/sessions/{id}")).await.refused(404, "not_found");
    worker.post("/api/claims", json!({"worker": "w"})).await.expect(200);
    // The key is the user's: it has as much of its own role as the user's row allows, up as well as down.
    owner.patch("/api/users/tom", json!({"role": "member"})).await.expect(200);
    let raised = Instant::now();
    while tom.post("/api/sessions", json!({"session_type": "mixed"})).await.status != 201 {
        assert!(raised.elapsed() < Duration::from_secs(6));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tom.get("/api/keys").await.refused(403, "denied");
}

async fn a_key_says_whether_its_user_exists(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    owner.post("/api/users", json!({"id": "ann"})).await.expect(201);
    for (user, exists) in
        [(json!("ann"), json!(true)), (json!("an"), json!(false)), (json!(null), json!(null))]
    {
        let made = owner.post("/api/keys", json!({"role": "owner", "user": user})).await.expect(201).body;
        assert_eq!(made["user_exists"], exists, "{user}");
    }
}
