//! Streams whose reader is slow, silent, or behind what is still there

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::server::{Caller, StoreKind, TestServer, on_every_store, on_store, until, within};

on_every_store!(
    a_reader_that_takes_nothing_is_cut_and_resumes_where_it_was,
    a_quiet_stream_shows_signs_of_life,
);

mod removed {
    super::on_store!(on_file, File: rows_that_were_removed_are_a_gap);
    super::on_store!(on_postgres, Postgres: rows_that_were_removed_are_a_gap);

    use super::rows_that_were_removed_are_a_gap;
}

/// Far more than the machine buffers for a connection whose reader has a small window.
pub const EVENTS: usize = 48;
const EVENT_BYTES: usize = 200_000;

/// A connection that takes little at a time.
pub async fn narrow(server: &TestServer, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

pub async fn fill(owner: &Caller<'_>, id: &str) {
    let event = json!({"type": "user.message", "content": "x".repeat(EVENT_BYTES)});
    for _ in 0..EVENTS / 16 {
        let events = vec![event.clone(); 16];
        owner.post(&format!("/api/sessions/{id}/events"), json!({ "events": events })).await.expect(201);
    }
}

async fn a_reader_that_takes_nothing_is_cut_and_resumes_where_it_was(store_kind: StoreKind) {
    let server =
        TestServer::open(store_kind, |config| config.streams.stall_max = Duration::from_millis(200)).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    fill(&owner, &id).await;
    let mut slow = narrow(&server, &format!("/api/sessions/{id}/stream")).await;
    let audience = || server.engine.hub().audience();
    until("somebody listens", || audience() == (1, 1)).await;
    until("nobody listens any more", || audience() == (0, 0)).await;

    // What was on its way comes still; then the connection ends in the middle of things.
    let mut taken = Vec::new();
    let _ = within(slow.read_to_end(&mut taken)).await;
    assert!(taken.len() < EVENTS * EVENT_BYTES, "{} bytes came", taken.len());
    let text = String::from_utf8_lossy(&taken);
    assert!(text.starts_with("HTTP/1.1 200"), "{text:.100}");
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let seen = whole.lines().filter_map(|line| line.strip_prefix("id: ")?.parse::<u64>().ok());
    let seen: Vec<u64> = seen.collect();
    let last = seen.last().copied().unwrap_or(0);
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());

    let back = owner.clone().with("last-event-id", &last.to_string());
    let mut stream = back.follow(&format!("/api/sessions/{id}/stream")).await;
    let end = EVENTS as u64 + 1;
    let rest = stream.sequences(usize::try_from(end - last).unwrap()).await;
    assert_eq!(rest, (last + 1..=end).collect::<Vec<_>>());
    stream.expect("ready").await;
}

async fn a_quiet_stream_shows_signs_of_life(store_kind: StoreKind) {
    let server =
        TestServer::open(store_kind, |config| config.streams.heartbeat = Duration::from_millis(50)).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    for path in [format!("/api/sessions/{id}/stream?after=1"), "/api/stream".to_owned()] {
        let mut stream = narrow(&server, &path).await;
        let mut text = String::new();
        let two_signs = async {
            let mut bytes = [0; 1024];
            while text.matches("\n:\n\n").count() < 2 {
                let read = stream.read(&mut bytes).await.unwrap();
                assert_ne!(read, 0, "the stream ended: {text}");
                text.push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        };
        within(two_signs).await;
        assert!(text.contains("event: ready\n"), "{text}");
        assert!(!text.contains("\nid:"), "a sign of life has no id: {text}");
    }
}

async fn rows_that_were_removed_are_a_gap(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    for n in 2..=8 {
        owner.say(&id, &n.to_string()).await.expect(201);
    }
    server.lose_events(1, 2).await;
    server.lose_events(5, 6).await;
    let path = format!("/api/sessions/{id}/stream");
    let table = [
        (0, vec![json!({"first": 3}), json!(3), json!(4), json!({"first": 7}), json!(7), json!(8)]),
        (1, vec![json!({"first": 3}), json!(3), json!(4), json!({"first": 7}), json!(7), json!(8)]),
        (2, vec![json!(3), json!(4), json!({"first": 7}), json!(7), json!(8)]),
        (5, vec![json!({"first": 7}), json!(7), json!(8)]),
        (6, vec![json!(7), json!(8)]),
    ];
    for (after, expected) in table {
        let mut stream = owner.follow(&format!("{path}?after={after}")).await;
        let mut told: Vec<Value> = Vec::new();
        loop {
            let message = stream.next().await.unwrap();
            let data: Value = serde_json::from_str(&message.data).unwrap();
            match message.event.as_str() {
                "message" => told.push(data["sequence"].clone()),
                "gap" => {
                    assert_eq!(message.id, None, "a gap moves no cursor");
                    told.push(data);
                }
                _ => break,
            }
        }
        assert_eq!(told, expected, "after {after}");
    }
    let mut stream = owner.follow(&format!("{path}?after=8")).await;
    stream.expect("ready").await;
    owner.say(&id, "9").await.expect(201);
    assert_eq!(stream.sequences(1).await, [9], "nothing is missing here");
}
