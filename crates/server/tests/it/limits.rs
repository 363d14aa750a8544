//! Limits that only a request meets: each is reached exactly, and then gone past by one.

use reqwest::Method;
use sederunt_api::limits as api_limits;
use sederunt_core::access::Role;
use sederunt_core::clock::{Clock as _, SystemClock};
use sederunt_core::{Timestamp, limits};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::{StoreKind, TestServer, on_every_store, on_store, within};

on_every_store!(
    a_list_is_filtered_by_as_many_keys_of_metadata_as_the_bound,
    links_and_cookies_live_as_long_as_they_say,
    what_a_request_names_is_taken_at_its_bound_and_refused_one_past_it,
);
on_store!(unread_in_memory, Memory: what_is_left_of_a_refused_body_is_read_up_to_the_bound);

async fn a_list_is_filtered_by_as_many_keys_of_metadata_as_the_bound(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let list = |keys: usize| {
        let filters: Vec<String> = (0..keys).map(|n| format!("metadata.k{n}=1")).collect();
        format!("/api/sessions?{}", filters.join("&"))
    };
    owner.get(&list(limits::METADATA_FILTER_KEYS_MAX)).await.expect(200);
    let refused = owner.get(&list(limits::METADATA_FILTER_KEYS_MAX + 1)).await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "metadata");
}

async fn links_and_cookies_live_as_long_as_they_say(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    owner.post("/api/users", json!({"id": "ada", "role": "member"})).await.expect(201);
    owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let claims = worker.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let claim = &claims["claims"][0];
    let publish = async |gate: &str| {
        let view = json!({
            "title": "T", "publish_config": {"gate": gate}, "questions": [{"key": "why", "label": "Why?"}],
            "session_id": claim["session"]["id"], "epoch": claim["epoch"],
        });
        worker.post("/api/views", view).await.expect(201)
    };
    let before = SystemClock::default().now();
    let view = publish("member").await.id();
    let link = owner.post(&format!("/api/views/{view}/share"), json!({"user_id": "ada"})).await.expect(201);
    let until = Timestamp::parse(link.body["expires_at"].as_str().unwrap()).unwrap();
    assert!(until >= before.plus(limits::PERSONAL_LINK_LIFE), "{until}");
    assert!(until <= SystemClock::default().now().plus(limits::PERSONAL_LINK_LIFE), "{until}");

    let open = publish("none").await;
    let token = open.body["url"].as_str().unwrap().split_once("?share=").unwrap().1.to_owned();
    let stranger = server.anyone().with("x-share-token", &token);
    let path = format!("/api/views/{}/submit-interaction", open.id());
    let taken = stranger.post(&path, json!({"values": {"why": "so"}})).await.expect(200);
    let cookie = taken.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains(&format!("; Max-Age={};", limits::CLEARANCE_LIFE.as_secs())), "{cookie}");
}

async fn what_is_left_of_a_refused_body_is_read_up_to_the_bound(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    for (length, is_read) in
        [(limits::UNREAD_BODY_LINGER_BYTES_MAX, true), (limits::UNREAD_BODY_LINGER_BYTES_MAX + 1, false)]
    {
        let mut line = TcpStream::connect(server.address).await.unwrap();
        let head =
            format!("POST /nope HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n\r\n", server.address);
        line.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        within(line.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 404");
        let written = within(line.write_all(&vec![b' '; length])).await;
        assert_eq!(written.is_ok(), is_read, "{length}: {written:?}");
    }
}

async fn what_a_request_names_is_taken_at_its_bound_and_refused_one_past_it(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, operator) = (server.key(Role::Owner, "").await, server.operator());
    let session = owner.session(json!({"session_type": "mixed"})).await;
    let share = format!("/api/sessions/{session}/share");
    let (key, links) = (api_limits::KEY_LIFE_S_MAX, limits::SHARE_LIFE_MAX.as_secs());
    let days = api_limits::PURGE_DAYS_MAX;
    let turn = |chars: usize| json!({"thread_id": "v", "user_text": "Hello", "assistant_text": "I see.", "external_id": "x".repeat(chars)});
    let id = limits::VOICE_TURN_ID_CHARS_MAX;
    let me = server.key(Role::Member, "ann").await;
    for (who, path, fits, exceeds, field) in [
        (
            &owner,
            "/api/keys",
            json!({"role": "owner", "expires_in": key}),
            json!({"role": "owner", "expires_in": key + 1}),
            "expires_in",
        ),
        (
            &owner,
            &*share,
            json!({"access": "read", "expires_in": links}),
            json!({"access": "read", "expires_in": links + 1}),
            "expires_in",
        ),
        (
            &operator,
            "/api/purge",
            json!({"preview": true, "crisis_days": days}),
            json!({"preview": true, "crisis_days": days + 1}),
            "crisis_days",
        ),
        (
            &operator,
            "/api/purge",
            json!({"preview": true, "ratings_days": days}),
            json!({"preview": true, "ratings_days": days + 1}),
            "ratings_days",
        ),
        (&me, "/api/voice/turn", turn(id), turn(id + 1), "external_id"),
    ] {
        let taken = who.post(path, fits).await;
        assert!(taken.status.is_success(), "{path} {field}: {}", taken.text);
        let refused = who.post(path, exceeds).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{path}");
    }
    for (path, most, field) in [
        ("/api/audit?cursor=", api_limits::ROW_CURSOR_CHARS_MAX, "cursor"),
        // A time, a point and an id.
        ("/api/shares?cursor=0.", api_limits::SHARE_CURSOR_CHARS_MAX - "0.".len(), "cursor"),
        ("/api/stream?cursor=", api_limits::HINT_CURSOR_CHARS_MAX, "cursor"),
        ("/api/lessons?tags=", api_limits::TAG_FILTER_CHARS_MAX, "tags"),
    ] {
        let at = |chars: usize| format!("{path}{}", "0".repeat(chars));
        assert_eq!(owner.status_of(Method::GET, &at(most)).await.status, 200, "{path}");
        let refused = owner.get(&at(most + 1)).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{path}");
    }
}
