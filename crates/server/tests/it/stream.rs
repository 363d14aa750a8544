//! /api/sessions/{id}/stream

use std::time::{Duration, Instant};

use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use sederunt_core::limits;
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    the_backlog_comes_first_and_then_what_is_new,
    a_stream_resumes_after_what_was_seen,
    every_sequence_comes_once_and_in_order_under_many_writers,
    deltas_are_shown_and_not_numbered,
    a_deleted_session_ends_its_streams,
    a_revoked_key_ends_its_streams_within_five_seconds,
    a_participant_who_is_removed_stops_seeing_within_five_seconds,
    a_cursor_that_makes_no_sense_is_refused,
);

async fn the_backlog_comes_first_and_then_what_is_new(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    owner.say(&id, "before").await.expect(201);
    let mut stream = owner.follow(&format!("/api/sessions/{id}/stream")).await;
    assert_eq!(stream.sequences(2).await, [1, 2]);
    stream.expect("ready").await;
    owner.say(&id, "after").await.expect(201);
    let event = stream.expect("message").await;
    assert_eq!((&event["sequence"], &event["content"][0]["text"]), (&json!(3), &json!("after")));
    let read = owner.get(&format!("/api/sessions/{id}/events?after_sequence=2")).await.expect(200).body;
    assert_eq!(read["events"][0], event, "a stream and a page say the same");
}

async fn a_stream_resumes_after_what_was_seen(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    for n in 0..5 {
        owner.say(&id, &n.to_string()).await.expect(201);
    }
    let path = format!("/api/sessions/{id}/stream");
    assert_eq!(owner.follow(&format!("{path}?after=4")).await.sequences(2).await, [5, 6]);
    let browser = owner.clone().with("last-event-id", "5");
    let mut back = browser.follow(&format!("{path}?after=0")).await;
    assert_eq!(back.sequences(1).await, [6]);
    back.expect("ready").await;
    let mut at_the_end = owner.follow(&format!("{path}?after=6")).await;
    at_the_end.expect("ready").await;
}

async fn every_sequence_comes_once_and_in_order_under_many_writers(store_kind: StoreKind) {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/stream");
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(owner.follow(&path).await);
    }
    let write = async {
        let say = |n| {
            let (owner, id) = (owner.clone(), id.clone());
            async move {
                for m in 0..EACH {
                    owner.say(&id, &format!("{n} {m}")).await.expect(201);
                }
            }
        };
        futures_util::future::join_all((0..WRITERS).map(say)).await
    };
    let read = futures_util::future::join_all(readers.iter_mut().map(async |reader| {
        let mut seen = Vec::new();
        while seen.len() < WRITERS * EACH + 1 {
            let message = reader.next().await.unwrap();
            seen.extend(message.id.and_then(|id| id.parse::<usize>().ok()));
        }
        seen
    }));
    let (_, seen) = tokio::join!(write, read);
    let expected: Vec<usize> = (1..=WRITERS * EACH + 1).collect();
    assert!(seen.iter().all(|seen| *seen == expected));
}

async fn deltas_are_shown_and_not_numbered(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let claimed = owner.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let epoch = &claimed["claims"][0]["epoch"];
    let mut early = owner.follow(&format!("/api/sessions/{id}/stream")).await;
    let backlog =
        owner.get(&format!("/api/sessions/{id}/events")).await.expect(200).body["last_sequence"].clone();
    early.sequences(usize::try_from(backlog.as_u64().unwrap()).unwrap()).await;
    early.expect("ready").await;
    let delta = format!("/api/sessions/{id}/delta");
    owner.post(&delta, json!({"epoch": epoch, "text": "Hé"})).await.expect(204);
    assert_eq!(early.expect("delta").await, json!({"text": "Hé", "offset": 0}));
    owner.post(&delta, json!({"epoch": epoch, "text": "llo"})).await.expect(204);
    assert_eq!(early.expect("delta").await, json!({"text": "llo", "offset": 3}));
    let mut late = owner.follow(&format!("/api/sessions/{id}/stream?after={backlog}")).await;
    let shown = [late.next().await.unwrap(), late.next().await.unwrap()];
    let delta_shown = shown.iter().find(|message| message.event == "delta").unwrap();
    assert_eq!(delta_shown.data, "{\"text\":\"Héllo\",\"offset\":0}");
    owner.post(&delta, json!({"epoch": 99, "text": "x"})).await.refused(409, "fenced");
    assert_eq!(owner.get(&format!("/api/sessions/{id}/events")).await.body["last_sequence"], backlog);
}

async fn a_deleted_session_ends_its_streams(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let mut stream = owner.follow(&format!("/api/sessions/{id}/stream?after=1")).await;
    stream.expect("ready").await;
    owner.delete(&format!("/api/sessions/{id}")).await.expect(204);
    stream.end().await;
}

async fn a_revoked_key_ends_its_streams_within_five_seconds(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (secret, key) = server.new_key(NewKey { role: Some(Role::Owner), ..NewKey::default() }).await;
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let mut stream = server.bearer(&secret).follow(&format!("/api/sessions/{id}/stream?after=1")).await;
    let mut hints = server.bearer(&secret).follow("/api/stream").await;
    stream.expect("ready").await;
    hints.expect("ready").await;
    owner.delete(&format!("/api/keys/{key}")).await.expect(204);
    let revoked = Instant::now();
    stream.end().await;
    hints.end().await;
    assert!(revoked.elapsed() < limits::REVOCATION_REACHES, "{:?}", revoked.elapsed());
    server.bearer(&secret).get("/api/sessions").await.refused(401, "unauthenticated");
}

async fn a_participant_who_is_removed_stops_seeing_within_five_seconds(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let id = ann.session(json!({"session_type": "mixed", "participants": ["bob"]})).await;
    let mut stream = bob.follow(&format!("/api/sessions/{id}/stream?after=1")).await;
    stream.expect("ready").await;
    ann.patch(&format!("/api/sessions/{id}"), json!({"participants": []})).await.expect(200);
    let removed = Instant::now();
    stream.end().await;
    assert!(
        removed.elapsed() < limits::REVOCATION_REACHES + Duration::from_millis(200),
        "{:?}",
        removed.elapsed()
    );
}

async fn a_cursor_that_makes_no_sense_is_refused(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/stream");
    owner.get(&format!("{path}?after=99")).await.refused(422, "invalid");
    owner.get(&format!("{path}?after=x")).await.refused(422, "invalid");
    owner.clone().with("last-event-id", "x").get(&path).await.refused(422, "invalid");
}
