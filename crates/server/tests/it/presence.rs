//! /api/sessions/{id}/presence, and streams with `presence=true`

use http::Method;
use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use serde_json::{Value, json};

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    people_see_each_other_and_a_link_sees_how_many,
    a_stream_shows_who_is_there_without_an_id_and_only_if_it_is_asked,
    what_does_not_fit_is_refused_by_name_and_shows_nobody,
    presence_is_for_people_who_may_see_the_session,
    an_incognito_session_shows_nobody,
    a_state_is_in_no_row_and_no_log,
    a_revoked_key_ends_the_presence_that_it_renewed,
);

async fn put(caller: &Caller<'_>, body: Value) -> Answer {
    caller.send(Method::PUT, "/api/sessions/s/presence", Some(body.to_string())).await
}

fn users(body: &Value) -> Vec<&str> {
    body["present"].as_array().unwrap().iter().map(|one| one["user_id"].as_str().unwrap()).collect()
}

async fn people_see_each_other_and_a_link_sees_how_many(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, gus) = (server.key(Role::Member, "ann").await, server.key(Role::Guest, "gus").await);
    ann.session(json!({"id": "s", "session_type": "mixed", "participants": ["gus"]})).await;
    let state = r#"{"state": {"cursor": [1, 1.50]}}"#.to_owned();
    let mine = ann.send(Method::PUT, "/api/sessions/s/presence", Some(state)).await.expect(200);
    assert!(mine.text.contains(r#""state":{"cursor":[1,1.50]}"#), "as it was sent: {}", mine.text);
    assert!(mine.body["present"][0]["since"].as_str().unwrap().ends_with('Z'));
    let both = put(&gus, json!({})).await.expect(200).body;
    assert_eq!((users(&both), &both["count"]), (vec!["ann", "gus"], &json!(2)));
    assert_eq!(both["present"][1]["state"], Value::Null);
    for reader in [&ann, &gus, &server.key(Role::Owner, "olga").await] {
        assert_eq!(users(&reader.get("/api/sessions/s/presence").await.expect(200).body), ["ann", "gus"]);
    }
    let link =
        ann.post("/api/sessions/s/share", json!({"access": "submit", "expires_in": 60})).await.expect(201);
    let token = link.body["token"].as_str().unwrap();
    let stranger = server.anyone().with("x-share-token", token);
    assert_eq!(stranger.get("/api/sessions/s/presence").await.expect(200).text, r#"{"count":2}"#);
    let mut stream =
        server.anyone().follow(&format!("/api/sessions/s/stream?presence=true&share={token}")).await;
    assert_eq!(stream.expect("presence").await, json!({"count": 2}));
    gus.delete("/api/sessions/s/presence").await.expect(204);
    gus.delete("/api/sessions/s/presence").await.expect(204);
    assert_eq!(users(&ann.get("/api/sessions/s/presence").await.expect(200).body), ["ann"]);
}

async fn a_stream_shows_who_is_there_without_an_id_and_only_if_it_is_asked(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    owner.session(json!({"id": "s", "session_type": "mixed"})).await;
    put(&owner, json!({"state": {"n": 1}})).await.expect(200);
    let mut stream = owner.follow("/api/sessions/s/stream?presence=true").await;
    let first = stream.next().await.unwrap();
    assert_eq!((first.event.as_str(), &first.id), ("presence", &None));
    let list: Value = serde_json::from_str(&first.data).unwrap();
    assert_eq!(
        (&list["present"][0]["user_id"], &list["present"][0]["state"]),
        (&Value::Null, &json!({"n": 1}))
    );
    assert_eq!(stream.sequences(1).await, [1]);
    stream.expect("ready").await;
    owner.delete("/api/sessions/s/presence").await.expect(204);
    assert_eq!(stream.expect("presence").await, json!({"count": 0, "present": []}));
    owner.say("s", "hi").await.expect(201);
    assert_eq!(stream.sequences(1).await, [2]);

    let mut plain = owner.follow("/api/sessions/s/stream?after=1").await;
    assert_eq!(plain.sequences(1).await, [2]);
    plain.expect("ready").await;
    owner.get("/api/sessions/s/stream?presence=perhaps").await.refused(422, "invalid");
}

async fn what_does_not_fit_is_refused_by_name_and_shows_nobody(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    owner.session(json!({"id": "s", "session_type": "mixed"})).await;
    let deep = format!("{{\"state\":{}1{}}}", "{\"a\":".repeat(70), "}".repeat(70));
    let large = json!({"state": {"a": "x".repeat(1_024 - 7)}}).to_string();
    let table = [
        ("{", 400, "bad_json"),
        ("[]", 422, "invalid"),
        (r#"{"state":[]}"#, 422, "invalid"),
        (r#"{"state":"here"}"#, 422, "invalid"),
        (r#"{"state":1}"#, 422, "invalid"),
        (r#"{"state":true}"#, 422, "invalid"),
        (r#"{"state":{"a":1,"a":2}}"#, 422, "invalid"),
        (r#"{"state":{},"user_id":"ann"}"#, 422, "invalid"),
        (&deep, 422, "invalid"),
        (&large, 413, "too_large"),
    ];
    for (body, status, code) in table {
        let answer = owner.send(Method::PUT, "/api/sessions/s/presence", Some(body.to_owned())).await;
        answer.refused(status, code);
    }
    assert_eq!(owner.get("/api/sessions/s/presence").await.expect(200).body["count"], 0);
    put(&owner, json!({"state": {"a": "x".repeat(1_024 - 8)}})).await.expect(200);
    let soon = put(&owner, json!({"state": {}})).await.refused(429, "rate_limited");
    assert_eq!(soon.headers["retry-after"], "1");
    put(&owner, json!({"state": {"a": "x".repeat(1_024 - 8)}})).await.expect(200);
    owner.get("/api/sessions/none/presence").await.refused(404, "not_found");
}

async fn presence_is_for_people_who_may_see_the_session(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let ann = server.key(Role::Member, "ann").await;
    ann.session(json!({"id": "s", "session_type": "mixed"})).await;
    let link =
        ann.post("/api/sessions/s/share", json!({"access": "submit", "expires_in": 60})).await.expect(201);
    let channel = NewKey { role: Some(Role::Channel), prefix: Some("s:".into()), ..NewKey::default() };
    let table = [
        (server.key(Role::Member, "max").await, 404),
        (server.key(Role::Guest, "gil").await, 404),
        (server.key(Role::Worker, "").await, 404),
        (server.bearer(&server.new_key(channel).await.0), 404),
        (server.key(Role::Owner, "").await, 403),
        (server.anyone().with("x-share-token", link.body["token"].as_str().unwrap()), 403),
        (server.anyone(), 401),
    ];
    for (caller, status) in table {
        put(&caller, json!({})).await.expect(status);
        caller.delete("/api/sessions/s/presence").await.expect(status);
    }
    assert_eq!(ann.get("/api/sessions/s/presence").await.expect(200).body["count"], 0);
}

async fn an_incognito_session_shows_nobody(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    owner.session(json!({"id": "s", "session_type": "mixed", "memory_mode": "incognito"})).await;
    put(&owner, json!({})).await.refused(409, "type_mismatch");
    owner.delete("/api/sessions/s/presence").await.refused(409, "type_mismatch");
    let nobody = json!({"count": 0, "present": []});
    assert_eq!(owner.get("/api/sessions/s/presence").await.expect(200).body, nobody);
    let mut stream = owner.follow("/api/sessions/s/stream?presence=true").await;
    assert_eq!(stream.expect("presence").await, nobody, "a client that always asks is not shut out");
}

async fn a_state_is_in_no_row_and_no_log(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    owner.session(json!({"id": "s", "session_type": "mixed"})).await;
    owner.say("s", "what-is-said-is-kept").await.expect(201);
    put(&owner, json!({"state": {"note": "a-passing-thought"}})).await.expect(200);
    // A store in memory has no file or table that another could read.
    if !matches!(store_kind, StoreKind::Memory) {
        assert!(server.keeps_text("what-is-said-is-kept").await, "the search finds what is kept");
        assert!(!server.keeps_text("a-passing-thought").await);
    }
    assert_eq!(owner.get("/api/sessions/s").await.expect(200).body["last_sequence"], 2);
}

async fn a_revoked_key_ends_the_presence_that_it_renewed(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let olga = server.key(Role::Owner, "olga").await;
    olga.session(json!({"id": "s", "session_type": "mixed", "participants": ["ann", "bob"]})).await;
    let key = NewKey { role: Some(Role::Member), user: Some("ann".into()), ..NewKey::default() };
    let (secret, id) = server.new_key(key).await;
    put(&server.bearer(&secret), json!({})).await.expect(200);
    put(&server.key(Role::Member, "bob").await, json!({})).await.expect(200);
    let mut stream = olga.follow("/api/sessions/s/stream?presence=true").await;
    assert_eq!(stream.expect("presence").await["count"], 2);
    olga.delete(&format!("/api/keys/{id}")).await.expect(204);
    assert_eq!(users(&olga.get("/api/sessions/s/presence").await.expect(200).body), ["bob"]);
    while stream.next().await.unwrap().event != "presence" {}
}
