//! Idempotency-Key on every POST

use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_repeat_has_one_effect_and_the_first_answer,
    another_body_under_the_same_key_is_refused,
    a_key_belongs_to_its_caller_and_its_path,
    a_secret_is_not_told_twice,
    a_settlement_can_be_repeated,
    twins_in_flight_have_one_effect,
    a_lent_key_repeats_nothing_of_another_user,
    a_repeat_is_shown_nothing_that_its_caller_may_not_read_any_more,
);

async fn a_repeat_has_one_effect_and_the_first_answer(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let keyed = server.anyone().with("idempotency-key", "k-1");
    let wish = json!({"session_type": "mixed"});
    let first = keyed.post("/api/sessions", wish.clone()).await.expect(201);
    let second = keyed.post("/api/sessions", wish).await.expect(201);
    assert_eq!(first.id(), second.id());
    let said = keyed.say(&first.id(), "once").await.expect(201).body;
    assert_eq!(keyed.say(&first.id(), "once").await.expect(201).body, said);
    server.anyone().say(&first.id(), "meanwhile").await.expect(201);
    assert_eq!(keyed.say(&first.id(), "once").await.expect(201).body, said, "the first answer again");
    let log = server.anyone().get(&format!("/api/sessions/{}/events", first.id())).await.expect(200).body;
    assert_eq!(log["last_sequence"], 3);
}

async fn another_body_under_the_same_key_is_refused(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let id = server.anyone().session(json!({"session_type": "mixed"})).await;
    let keyed = server.anyone().with("idempotency-key", "k-1");
    keyed.say(&id, "one").await.expect(201);
    keyed.say(&id, "two").await.refused(422, "idempotency_mismatch");
    let path = format!("/api/sessions/{id}/events");
    let spaced = r#"{ "events": [ {"type": "user.message", "content": "\u006fne"} ] }"#;
    keyed.post_text(&path, spaced).await.expect(201);
    server.anyone().with("idempotency-key", &"k".repeat(201)).say(&id, "x").await.refused(422, "invalid");
    server.anyone().with("idempotency-key", "a b").say(&id, "x").await.refused(422, "invalid");
}

async fn a_key_belongs_to_its_caller_and_its_path(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let ann = server.key(Role::Member, "ann").await.with("idempotency-key", "k");
    let bob = server.key(Role::Member, "bob").await.with("idempotency-key", "k");
    let first = ann.session(json!({"session_type": "mixed", "participants": ["bob"]})).await;
    let second = bob.session(json!({"session_type": "mixed", "participants": ["ann"]})).await;
    assert_ne!(first, second);
    for session in [&first, &second] {
        for caller in [&ann, &bob] {
            caller.say(session, "same words").await.expect(201);
        }
        let log = ann.get(&format!("/api/sessions/{session}/events")).await.expect(200).body;
        assert_eq!(log["last_sequence"], 3);
    }
}

async fn a_secret_is_not_told_twice(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let keyed = server.anyone().with("idempotency-key", "k");
    let wish = json!({"role": "owner"});
    let first = keyed.post("/api/keys", wish.clone()).await.expect(201).body;
    let second = keyed.post("/api/keys", wish).await.expect(201).body;
    assert!(first["key"].as_str().unwrap().starts_with("sdr_"));
    assert_eq!((&second["key"], &second["id"]), (&json!(null), &first["id"]));
    let id = server.anyone().session(json!({"session_type": "mixed"})).await;
    let share = json!({"access": "read", "expires_in": 60});
    let first = keyed.post(&format!("/api/sessions/{id}/share"), share.clone()).await.expect(201).body;
    let second = keyed.post(&format!("/api/sessions/{id}/share"), share).await.expect(201).body;
    assert_eq!((&second["token"], &second["url"], &second["id"]), (&json!(null), &json!(null), &first["id"]));
}

async fn a_settlement_can_be_repeated(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let claim = owner.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let keyed = owner.clone().with("idempotency-key", "done");
    let body = json!({"epoch": claim["claims"][0]["epoch"], "result": {"n": 1}});
    let first = keyed.post(&format!("/api/sessions/{id}/complete"), body.clone()).await.expect(200).body;
    let second = keyed.post(&format!("/api/sessions/{id}/complete"), body.clone()).await.expect(200).body;
    assert_eq!(first, second);
    owner.post(&format!("/api/sessions/{id}/complete"), body).await.refused(409, "fenced");
}

async fn a_lent_key_repeats_nothing_of_another_user(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    for user in ["alice", "mallory"] {
        owner.post("/api/users", json!({"id": user, "role": "member"})).await.expect(201);
    }
    let wish =
        NewKey { role: Some(Role::Member), user: Some("gateway".into()), act_as: true, ..NewKey::default() };
    let (secret, _) = server.new_key(wish).await;
    let acting =
        |user: &str| server.bearer(&secret).with("x-sederunt-user", user).with("idempotency-key", "1");
    let (alice, mallory) = (acting("alice"), acting("mallory"));
    let hers = alice.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{hers}");
    alice.patch(&path, json!({"title": "Alice's own"})).await.expect(200);
    mallory.get(&path).await.refused(404, "not_found");
    let others = mallory.session(json!({"session_type": "mixed"})).await;
    assert_ne!(others, hers, "the same key and body of another user is another request");

    // The same under every name that both can call: never a byte of the other's.
    let task = json!({"slug": "sweep", "name": "Sweep", "assigned_to": "alice"});
    owner.post("/api/tasks", task).await.expect(201);
    alice.say(&hers, "a secret").await.expect(201);
    for (path, body) in [
        (format!("{path}/events"), json!({"events": [{"type": "user.message", "content": "a secret"}]})),
        (format!("{path}/fork"), json!({"at_sequence": 1})),
        (format!("{path}/stop"), json!({})),
        ("/api/tasks/sweep/trigger".to_owned(), json!({})),
        ("/api/feedback".to_owned(), json!({"signal": "down", "context": "it gave the wrong total twice"})),
        ("/api/chat".to_owned(), json!({"message": "Hello.", "thread_id": hers})),
    ] {
        let first = alice.post(&path, body.clone()).await;
        let second = mallory.post(&path, body).await;
        let refused = [403, 404].contains(&second.status.as_u16());
        assert!(refused || second.body != first.body, "{path}: {}", second.text);
    }
}

async fn a_repeat_is_shown_nothing_that_its_caller_may_not_read_any_more(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let ann = server.key(Role::Member, "ann").await.with("idempotency-key", "k");
    let id = owner.session(json!({"session_type": "mixed", "participants": ["ann"]})).await;
    ann.say(&id, "while I was here").await.expect(201);
    ann.say(&id, "while I was here").await.expect(201);
    owner.patch(&format!("/api/sessions/{id}"), json!({"participants": []})).await.expect(200);
    ann.say(&id, "while I was here").await.refused(404, "not_found");
}

async fn twins_in_flight_have_one_effect(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let id = server.anyone().session(json!({"session_type": "mixed"})).await;
    let keyed = server.anyone().with("idempotency-key", "twin");
    let answers = futures_util::future::join_all((0..16).map(|_| keyed.say(&id, "once"))).await;
    for answer in &answers {
        assert_eq!(answer.status, 201, "{}", answer.text);
        assert_eq!(answer.body, answers[0].body);
    }
    let log = server.anyone().get(&format!("/api/sessions/{id}/events")).await.expect(200).body;
    assert_eq!(log["last_sequence"], 2);
}
