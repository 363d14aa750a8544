//! A server without authentication answers to this machine alone

use sederunt_server::{Auth, Server, ServerConfig};
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store, raw};

on_every_store!(
    only_the_listener_itself_is_called,
    a_key_that_is_shown_counts,
    it_does_not_start_where_strangers_could_reach_it,
);

async fn only_the_listener_itself_is_called(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let (address, port) = (server.address, server.address.port());
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")] {
        let answer =
            raw(address, &format!("GET /api/sessions HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
                .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    let own = format!("Host: 127.0.0.1:{port}");
    for headers in [
        "Host: evil.example".to_owned(),
        format!("Host: evil.example:{port}"),
        "Host: 127.0.0.1:1".to_owned(),
        "Host: 127.0.0.1".to_owned(),
        format!("{own}\r\nOrigin: null"),
        format!("{own}\r\nOrigin: https://evil.example"),
        format!("{own}\r\nOrigin: http://localhost:1"),
        format!("{own}\r\nX-Forwarded-For: 1.2.3.4"),
        format!("{own}\r\nForwarded: for=1.2.3.4"),
        format!("{own}\r\nX-Real-IP: 1.2.3.4"),
        format!("{own}\r\nVia: 1.1 proxy"),
        format!("{own}\r\nCF-Connecting-IP: 1.2.3.4"),
    ] {
        for line in [
            "GET /api/sessions", "GET /healthz", "POST /api/sessions", "DELETE /api/sessions/x", "GET /nope",
            "OPTIONS /api/sessions",
        ] {
            let answer =
                raw(address, &format!("{line} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n")).await;
            assert!(
                answer.starts_with("HTTP/1.1 403") && answer.contains("\"denied\""),
                "{line} {headers}: {answer}"
            );
        }
    }
}

async fn a_key_that_is_shown_counts(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    server.bearer("sdr_wrong").get("/api/sessions").await.refused(401, "unauthenticated");
    let worker = server.key(sederunt_core::Role::Worker, "").await;
    worker.post("/api/sessions", json!({"session_type": "mixed"})).await.refused(403, "denied");
}

async fn it_does_not_start_where_strangers_could_reach_it(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let bind = async |listen: &str, auth: Auth, public_url: Option<&str>| {
        let config = ServerConfig {
            listen: listen.parse().unwrap(),
            auth,
            public_url: public_url.map(str::to_owned),
            ..ServerConfig::default()
        };
        Server::bind(server.engine.clone(), config).await.is_ok()
    };
    assert!(!bind("0.0.0.0:0", Auth::Local, None).await);
    assert!(!bind("127.0.0.1:0", Auth::Local, Some("https://sessions.example")).await);
    assert!(bind("127.0.0.1:0", Auth::Local, Some("http://localhost:7070")).await);
    assert!(bind("0.0.0.0:0", Auth::Keys, Some("https://sessions.example")).await);
}
