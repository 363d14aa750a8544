//! A server that is told to stop

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{StoreKind, TestServer, on_every_store, within};

on_every_store!(
    streams_end_and_open_requests_finish, a_request_that_does_not_end_is_cut,
    a_thousand_clients_at_once_are_served,
);

/// The head of a request whose body comes when the server says that it reads it.
fn head(address: SocketAddr, length: usize) -> String {
    format!(
        "POST /api/sessions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    )
}

async fn await_continue(stream: &mut TcpStream) {
    let mut said = [0; 25];
    within(stream.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
}

async fn streams_end_and_open_requests_finish(store_kind: StoreKind) {
    let mut server = TestServer::local(store_kind).await;
    let address = server.address;
    let id = server.anyone().session(json!({"session_type": "mixed"})).await;
    let mut stream = server.anyone().follow(&format!("/api/sessions/{id}/stream?after=1")).await;
    stream.expect("ready").await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let body = r#"{"session_type":"mixed","id":"late"}"#;
    slow.write_all(head(address, body.len()).as_bytes()).await.unwrap();
    await_continue(&mut slow).await;
    slow.write_all(&body.as_bytes()[..10]).await.unwrap();
    let ended = server.stop();
    assert_eq!(stream.next().await, None, "streams end at once");
    slow.write_all(&body.as_bytes()[10..]).await.unwrap();
    let mut answer = String::new();
    within(slow.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    within(ended).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nothing new is taken");
}

async fn a_request_that_does_not_end_is_cut(store_kind: StoreKind) {
    let mut server =
        TestServer::open(store_kind, |config| config.drain_max = Duration::from_millis(50)).await;
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    stuck.write_all(head(server.address, 10).as_bytes()).await.unwrap();
    await_continue(&mut stuck).await;
    within(server.stop()).await.unwrap();
    let mut rest = Vec::new();
    let _ = within(stuck.read_to_end(&mut rest)).await;
    assert!(!String::from_utf8_lossy(&rest).contains("201"));
}

async fn a_thousand_clients_at_once_are_served(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let address = server.address;
    let call = |_| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.starts_with("HTTP/1.1 200")
    };
    let served = within(futures_util::future::join_all((0..1000).map(call))).await;
    assert!(served.into_iter().all(|served| served));
}
