//! /api/sessions/{id}/share and /api/shares

use std::time::{Duration, Instant};

use sederunt_core::access::Role;
use sederunt_core::limits;
use sederunt_server::{Auth, Rate};
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    a_link_shows_title_status_messages_and_result_alone,
    a_link_opens_nothing_else,
    a_revoked_link_ends_its_streams_within_five_seconds,
    an_expired_link_opens_nothing,
    links_are_counted_on_their_own,
    links_are_listed_without_their_tokens,
    a_link_that_is_revoked_during_a_draft_saves_nothing_more,
    links_that_open_nothing_are_told_alike,
);

async fn shared(owner: &Caller<'_>, access: &str) -> (String, Value) {
    let id = owner
        .session(json!({"session_type": "mixed", "title": "Minutes", "metadata": {"secret": "x"}}))
        .await;
    let event = json!({"type": "user.message", "content": "hello", "metadata": {"ip": "10.0.0.1"}, "external_event_id": "e"});
    let other = json!({"type": "external.event", "metadata": {"internal": true}});
    owner.post(&format!("/api/sessions/{id}/events"), json!({"events": [event, other]})).await.expect(201);
    let wish = json!({"access": access, "expires_in": 3600});
    let share = owner.post(&format!("/api/sessions/{id}/share"), wish).await.expect(201).body;
    (id, share)
}

async fn a_link_shows_title_status_messages_and_result_alone(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (id, share) = shared(&owner, "read").await;
    let token = share["token"].as_str().unwrap();
    assert_eq!(share["url"], json!(format!("http://{}/api/sessions/{id}?share={token}", server.address)));
    let holder = server.anyone();
    let seen = holder.get(&format!("/api/sessions/{id}?share={token}")).await.expect(200).body;
    assert_eq!(seen, json!({"id": id, "title": "Minutes", "status": "idle", "result": null}));
    let state = holder.get(&format!("/api/sessions/{id}/state?share={token}")).await.expect(200).body;
    assert_eq!(state, json!({"session_id": id, "status": "idle", "last_sequence": 3}));
    let by_header = holder.clone().with("x-share-token", token);
    let log = by_header.get(&format!("/api/sessions/{id}/events")).await.expect(200).body;
    let events = log["events"].as_array().unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["content"][0]["text"], "hello");
    for hidden in ["metadata", "author", "external_event_id", "subthread_id", "turn"] {
        assert_eq!(events[0][hidden], json!(null), "{hidden}");
    }
    by_header.get(&format!("/api/sessions/{id}/events?types=external.event")).await.refused(403, "denied");
    let mut stream = holder.follow(&format!("/api/sessions/{id}/stream?share={token}")).await;
    let first = stream.expect("message").await;
    assert_eq!((&first["sequence"], &first["metadata"]), (&json!(2), &json!(null)));
    stream.expect("ready").await;
    let hidden = json!({"events": [{"type": "a.b", "metadata": {"x": 1}}]});
    owner.post(&format!("/api/sessions/{id}/events"), hidden).await.expect(201);
    owner.say(&id, "again").await.expect(201);
    assert_eq!(stream.expect("message").await["content"][0]["text"], "again");
}

async fn a_link_opens_nothing_else(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (id, share) = shared(&owner, "submit").await;
    let other = owner.session(json!({"session_type": "mixed"})).await;
    let holder = server.anyone().with("x-share-token", share["token"].as_str().unwrap());
    holder.get(&format!("/api/sessions/{other}")).await.refused(404, "not_found");
    holder.get(&format!("/api/sessions/{other}/events")).await.refused(404, "not_found");
    holder.get(&format!("/api/sessions/{other}/state")).await.refused(404, "not_found");
    for path in
        ["/api/sessions", "/api/keys", "/api/users", "/api/search?q=hello", "/api/stream", "/api/tenants"]
    {
        holder.get(path).await.refused(403, "denied");
    }
    for suffix in ["children", "export"] {
        holder.get(&format!("/api/sessions/{id}/{suffix}")).await.refused(403, "denied");
    }
    holder.patch(&format!("/api/sessions/{id}"), json!({"title": "Mine"})).await.refused(403, "denied");
    holder.delete(&format!("/api/sessions/{id}")).await.refused(403, "denied");
    holder.say(&id, "let me in").await.refused(403, "denied");
    for (suffix, body) in [
        ("share", json!({"access": "read", "expires_in": 60})),
        ("fork", json!({"at_sequence": 1})),
        ("transition", json!({"to": "abandoned"})),
    ] {
        holder.post(&format!("/api/sessions/{id}/{suffix}"), body).await.refused(403, "denied");
    }
    server
        .anyone()
        .with("x-share-token", "wrong")
        .get(&format!("/api/sessions/{id}"))
        .await
        .refused(401, "unauthenticated");
}

async fn a_revoked_link_ends_its_streams_within_five_seconds(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (id, share) = shared(&owner, "read").await;
    let token = share["token"].as_str().unwrap();
    let mut stream =
        server.anyone().follow(&format!("/api/sessions/{id}/stream?share={token}&after=3")).await;
    stream.expect("ready").await;
    owner.delete(&format!("/api/shares/{}", share["id"].as_str().unwrap())).await.expect(204);
    let revoked = Instant::now();
    stream.end().await;
    assert!(revoked.elapsed() < limits::REVOCATION_REACHES);
    server.anyone().get(&format!("/api/sessions/{id}?share={token}")).await.refused(401, "unauthenticated");
    owner.delete("/api/shares/nope").await.refused(404, "not_found");
}

async fn an_expired_link_opens_nothing(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (id, share) = shared(&owner, "read").await;
    server.clock.advance(Duration::from_secs(3601));
    let path = format!("/api/sessions/{id}?share={}", share["token"].as_str().unwrap());
    server.anyone().get(&path).await.refused(401, "unauthenticated");
    for expires_in in [0, 31_536_001] {
        let wish = json!({"access": "read", "expires_in": expires_in});
        owner.post(&format!("/api/sessions/{id}/share"), wish).await.refused(422, "invalid");
    }
}

/// A form that takes responses, and a link to it.
async fn shared_form(owner: &Caller<'_>, id: &str) -> Value {
    let form = json!({"id": id, "title": "Which?", "questions": [{"key": "a", "label": "A"}],
        "publish_config": {"gate": "none"}, "response": {}});
    owner.post("/api/views", form).await.expect(201);
    owner.post(&format!("/api/views/{id}/share"), json!({"expires_in": 3600})).await.expect(201).body
}

async fn a_link_that_is_revoked_during_a_draft_saves_nothing_more(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let made = shared_form(&owner, "form").await;
    let token = made["token"].as_str().unwrap();
    assert_eq!(made["url"], json!(format!("http://{}/views/form?share={token}", server.address)));
    let stranger = server.anyone().with("x-share-token", token);
    let opened = stranger.post("/api/views/form/responses", json!({})).await.expect(201);
    let cookie = opened.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let known = stranger.clone().with("cookie", &cookie);
    let path = format!("/api/responses/{}", opened.id());
    let save = |text: &str| json!({"values": {"a": text}});
    known.patch(&path, save("one")).await.expect(200);
    assert_eq!(known.get(&path).await.expect(200).body["values"], json!({"a": "one"}));
    stranger.get(&path).await.refused(404, "not_found");
    owner.delete(&format!("/api/shares/{}", made["id"].as_str().unwrap())).await.expect(204);
    let revoked = Instant::now();
    while known.patch(&path, save("two")).await.status != 401 {
        assert!(revoked.elapsed() < limits::REVOCATION_REACHES, "the link still saves");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    known.get(&path).await.refused(401, "unauthenticated");
    known.post(&format!("{path}/submit"), json!({})).await.refused(401, "unauthenticated");
    known.get("/api/views/form").await.refused(401, "unauthenticated");
    assert_eq!(owner.get(&path).await.expect(200).body["status"], "draft");
}

async fn links_that_open_nothing_are_told_alike(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let made = shared_form(&owner, "form").await;
    let other = shared_form(&owner, "other").await;
    let brief = owner.post("/api/views/form/share", json!({"expires_in": 1})).await.expect(201).body;
    let revoked = owner.post("/api/views/form/share", json!({})).await.expect(201).body;
    owner.delete(&format!("/api/shares/{}", revoked["id"].as_str().unwrap())).await.expect(204);
    server.clock.advance(Duration::from_secs(10));
    let told = async |token: &str, path: &str| {
        let mut body = server.anyone().with("x-share-token", token).get(path).await.body;
        body["error"].as_object_mut().map(|error| error.remove("request_id"));
        body
    };
    let unknown = told("nothing", "/api/views/form").await;
    assert_eq!(unknown["error"]["code"], "unauthenticated");
    for link in [&brief, &revoked] {
        assert_eq!(told(link["token"].as_str().unwrap(), "/api/views/form").await, unknown);
    }
    let missing = told(made["token"].as_str().unwrap(), "/api/views/nothing").await;
    assert_eq!(missing["error"]["code"], "not_found");
    let text = told(other["token"].as_str().unwrap(), "/api/views/form").await.to_string();
    assert_eq!(text.replace("form", "nothing"), missing.to_string(), "another form is as good as none");
    for token in [&made, &other].map(|link| link["token"].as_str().unwrap()) {
        let link = server.anyone().with("x-share-token", token);
        for path in ["/api/views", "/api/shares", "/api/sessions", "/api/views/form/answers", "/api/entities"]
        {
            link.get(path).await.refused(403, "denied");
        }
    }
}

async fn links_are_listed_without_their_tokens(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let (first, of_first) = shared(&owner, "read").await;
    let (second, of_second) = shared(&owner, "submit").await;
    owner.delete(&format!("/api/shares/{}", of_first["id"].as_str().unwrap())).await.expect(204);
    let all = owner.get("/api/shares").await.expect(200);
    for share in [&of_first, &of_second] {
        assert!(!all.text.contains(share["token"].as_str().unwrap()), "{}", all.text);
    }
    let items = all.body["items"].as_array().unwrap();
    assert_eq!((items.len(), &all.body["next_cursor"]), (2, &json!(null)));
    let mut newest = items[0].clone();
    let at = newest.as_object_mut().unwrap().remove("created_at").unwrap();
    assert!(at.is_string());
    assert_eq!(
        newest,
        json!({"id": of_second["id"], "session_id": second, "view_id": null, "access": "submit",
        "created_by": "olga", "expires_at": of_second["expires_at"], "revoked_at": null})
    );
    assert!(items[1]["session_id"] == first.as_str() && items[1]["revoked_at"].is_string());
    let page = owner.get("/api/shares?limit=1").await.expect(200).body;
    let next =
        owner.get(&format!("/api/shares?limit=1&cursor={}", page["next_cursor"].as_str().unwrap())).await;
    assert_eq!((&page["items"][0], &next.expect(200).body["items"][0]), (&items[0], &items[1]));
    let of_one = owner.get(&format!("/api/shares?session_id={first}")).await.expect(200).body;
    assert_eq!(of_one["items"], json!([items[1]]));
    assert_eq!(owner.get("/api/shares?view_id=nothing").await.expect(200).body["items"], json!([]));
    for bad in ["cursor=x", "cursor=x.y", "limit=0", "token=x"] {
        owner.get(&format!("/api/shares?{bad}")).await.refused(422, "invalid");
    }
    let member = server.key(Role::Member, "max").await;
    assert_eq!(member.get("/api/shares").await.expect(200).body["items"], json!([]));
    let link = server.anyone().with("x-share-token", of_second["token"].as_str().unwrap());
    link.get("/api/shares").await.refused(403, "denied");
}

async fn links_are_counted_on_their_own(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.rates.per_share = Rate::new(1, 2);
    })
    .await;
    let owner = server.key(Role::Owner, "").await;
    let (id, share) = shared(&owner, "read").await;
    let path = format!("/api/sessions/{id}?share={}", share["token"].as_str().unwrap());
    for _ in 0..2 {
        server.anyone().get(&path).await.expect(200);
    }
    server.anyone().get(&path).await.refused(429, "rate_limited");
    owner.get(&format!("/api/sessions/{id}")).await.expect(200);
}
