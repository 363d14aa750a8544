//! Connections: kept, ended and counted, whatever was asked on them

use std::net::SocketAddr;
use std::time::Duration;

use sederunt_core::access::Role;
use sederunt_core::limits;
use sederunt_server::{Auth, Rate, TrustedProxies};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::server::{StoreKind, TestServer, on_store, within};

on_store!(
    in_memory, Memory:
    a_refusal_before_the_body_keeps_the_connection_or_says_that_it_ends,
    a_long_body_that_nobody_reads_ends_the_connection_after_its_answer,
    a_client_that_waits_to_send_its_body_is_not_asked_for_it_in_vain,
    silent_connections_make_room_for_others,
    a_full_server_still_says_that_it_is_healthy,
    a_head_that_does_not_come_is_given_up,
    the_caller_behind_a_trusted_proxy_is_counted_by_its_own_address
);

/// A client that writes what it likes and reads one answer after another from the same connection.
struct Line {
    address: SocketAddr,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// An answer as it came over the wire.
#[derive(Debug)]
struct WireAnswer {
    status: u16,
    head: String,
    body: String,
}

impl WireAnswer {
    fn says_that_it_ends(&self) -> bool {
        self.head.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
    }
}

impl Line {
    async fn open(address: SocketAddr) -> Self {
        let (reader, writer) = TcpStream::connect(address).await.unwrap().into_split();
        Self { address, reader: BufReader::new(reader), writer }
    }

    async fn send(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    fn head(&self, line: &str, headers: &str, length: usize) -> String {
        let address = self.address;
        format!(
            "{line} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    }

    /// The next answer; `None` if the connection ended instead.
    async fn answer(&mut self) -> Option<WireAnswer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match within(self.reader.read_line(&mut head)).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.to_ascii_lowercase();
        let length =
            length.split("content-length: ").nth(1).map_or("0", |rest| rest.split('\r').next().unwrap());
        let mut body = vec![0; length.parse().unwrap()];
        within(self.reader.read_exact(&mut body)).await.unwrap();
        Some(WireAnswer { status, head, body: String::from_utf8(body).unwrap() })
    }
}

/// Time passes for the server: it answers somebody else.
async fn meanwhile(address: SocketAddr) {
    let mut other = Line::open(address).await;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
    for _ in 0..5 {
        other.send(&request).await;
        assert_eq!(other.answer().await.unwrap().status, 200);
    }
}

async fn refusing(store_kind: StoreKind) -> (TestServer, String) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.rates.failures_per_peer = Rate::new(1, 1);
    })
    .await;
    let (secret, _) =
        server.new_key(sederunt_core::engine::NewKey { role: Some(Role::Owner), ..Default::default() }).await;
    // A credential that was never seen would have to wait behind the failures below.
    server.bearer(&secret).get("/api/sessions").await.expect(200);
    (server, format!("Authorization: Bearer {secret}\r\n"))
}

async fn a_refusal_before_the_body_keeps_the_connection_or_says_that_it_ends(store_kind: StoreKind) {
    let (server, owner) = refusing(store_kind).await;
    let body = format!("{{\"title\":\"{}\"}}", "x".repeat(2000));
    let table = [
        ([401, 429], "POST /api/sessions", ""),
        ([404, 404], "POST /nope", ""),
        ([405, 405], "PUT /api/sessions", owner.as_str()),
        ([422, 422], "POST /api/sessions?x=1", owner.as_str()),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for (statuses, request, headers) in table {
        let mut line = Line::open(server.address).await;
        for round in 0..3 {
            if round > 0 {
                // One failure more than the address may have.
                server.anyone().get("/api/sessions").await;
            }
            line.send(&line.head(request, headers, body.len())).await;
            meanwhile(server.address).await;
            line.send(&body).await;
            let answer =
                line.answer().await.unwrap_or_else(|| panic!("{request}: no answer in round {round}"));
            assert!(statuses.contains(&answer.status), "{request}: {answer:?}");
            seen.insert(answer.status);
            assert!(answer.body.contains("\"request_id\""), "{answer:?}");
            assert!(!answer.says_that_it_ends(), "a small body is drained: {answer:?}");
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [401, 404, 405, 422, 429]);
}

async fn a_long_body_that_nobody_reads_ends_the_connection_after_its_answer(store_kind: StoreKind) {
    let (server, owner) = refusing(store_kind).await;
    let too_long = 5 * limits::BODY_BYTES_MAX;
    let table = [
        (404, "POST /nope", "", limits::UNREAD_BODY_DRAINED_BYTES_MAX + 1),
        (401, "POST /api/sessions", "", 1024 * 1024),
        (413, "POST /api/sessions", owner.as_str(), too_long),
    ];
    for (status, request, headers, length) in table {
        let mut line = Line::open(server.address).await;
        line.send(&line.head(request, headers, length)).await;
        let Line { address, reader, mut writer } = line;
        let written = tokio::spawn(async move {
            let _ = writer.write_all(&vec![b' '; length]).await;
            writer
        });
        let mut line = Line { address, reader, writer: within(written).await.unwrap() };
        let answer = line.answer().await.unwrap_or_else(|| panic!("{request}: no answer"));
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.says_that_it_ends(), "{answer:?}");
        assert!(line.answer().await.is_none(), "and it does end");
    }
}

async fn a_client_that_waits_to_send_its_body_is_not_asked_for_it_in_vain(store_kind: StoreKind) {
    let (server, _) = refusing(store_kind).await;
    let mut line = Line::open(server.address).await;
    line.send(&line.head("POST /nope", "Expect: 100-continue\r\n", 20)).await;
    let answer = line.answer().await.unwrap();
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.says_that_it_ends(), "{answer:?}");
}

/// Asks on a connection of its own.
async fn ask(address: SocketAddr, path: &str) -> Option<WireAnswer> {
    let mut line = Line::open(address).await;
    line.send(&format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")).await;
    line.answer().await
}

async fn silent_connections_make_room_for_others(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| config.connections.max = 20).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let mut stream = owner.follow(&format!("/api/sessions/{id}/stream?after=1")).await;
    stream.expect("ready").await;
    let mut silent = Vec::new();
    for _ in 0..60 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
        assert_eq!(ask(server.address, "/healthz").await.unwrap().status, 200);
    }
    owner.say(&id, "still here").await.expect(201);
    assert_eq!(stream.sequences(1).await, [2], "an open stream is not closed for others");
    let oldest = within(silent[0].read(&mut [0; 1])).await;
    assert!(matches!(oldest, Ok(0) | Err(_)), "the oldest silent connection went: {oldest:?}");
}

async fn a_full_server_still_says_that_it_is_healthy(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| config.connections.max = 3).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = server.anyone().follow("/api/stream").await;
        stream.expect("ready").await;
        streams.push(stream);
    }
    // A connection in the reserve ends with its answer. One that takes the place of the last, while that is still
    // closing, is an ordinary one.
    let mut in_reserve = 0;
    for _ in 0..2 * limits::CONNECTIONS_RESERVED {
        let healthy = ask(server.address, "/healthz").await.unwrap();
        assert_eq!(healthy.status, 200);
        in_reserve += usize::from(healthy.says_that_it_ends());
    }
    assert!(in_reserve > limits::CONNECTIONS_RESERVED, "{in_reserve}");
    let refused = ask(server.address, "/api/sessions").await.unwrap();
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("\"unavailable\"") && refused.head.contains("retry-after"), "{refused:?}");
    streams.pop();
    let answered = async {
        while ask(server.address, "/api/sessions").await.is_none_or(|answer| answer.status != 200) {
            tokio::task::yield_now().await;
        }
    };
    within(answered).await;
}

async fn a_head_that_does_not_come_is_given_up(store_kind: StoreKind) {
    let server =
        TestServer::open(store_kind, |config| config.connections.head_max = Duration::from_millis(300)).await;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let mut kept = Line::open(server.address).await;
    kept.send(&request).await;
    assert_eq!(kept.answer().await.unwrap().status, 200);
    let mut silent = Line::open(server.address).await;
    let mut halting = Line::open(server.address).await;
    halting.send("GET /healthz HTTP/1.1\r\nHost: ").await;
    assert!(silent.answer().await.is_none());
    assert!(halting.answer().await.is_none());
    kept.send(&request).await;
    assert_eq!(kept.answer().await.unwrap().status, 200, "an idle connection is kept");
    kept.send(&request[..10]).await;
    assert!(kept.answer().await.is_none(), "but not one whose next head does not end");
}

async fn the_caller_behind_a_trusted_proxy_is_counted_by_its_own_address(store_kind: StoreKind) {
    for trusted in [true, false] {
        let server = TestServer::open(store_kind, |config| {
            config.auth = Auth::Keys;
            config.rates.failures_per_peer = Rate::new(1, 1);
            if trusted {
                config.trusted_proxies = TrustedProxies(vec!["127.0.0.0/8".parse().unwrap()]);
            }
        })
        .await;
        let status = async |caller: String| {
            let guess = server.bearer("sdr_wrong").with("x-forwarded-for", &caller);
            guess.get("/api/sessions").await.status.as_u16()
        };
        let (mut strangers, mut one) = (Vec::new(), Vec::new());
        for n in 1..=20 {
            strangers.push(status(format!("198.51.100.{n}")).await);
            // What stands to the left was invented by the caller.
            one.push(status(format!("192.0.2.{n}, 198.51.100.99")).await);
        }
        assert_eq!(strangers.contains(&429), !trusted, "{strangers:?}");
        assert!(one.contains(&429), "{one:?}");
    }
}
