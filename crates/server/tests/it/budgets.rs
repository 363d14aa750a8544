//! How many streams one caller may have open, and what they hold

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::Role;
use sederunt_core::engine::Engine;
use sederunt_core::ids::TenantId;
use sederunt_core::limits;
use sederunt_core::live::budget::{StreamAccount, StreamBudget, StreamCap, StreamCaps};
use sederunt_core::quota::{QuotaLimits, QuotaSettings};
use sederunt_server::{Auth, ServerConfig};
use serde_json::json;

use crate::readers::{EVENTS, fill, narrow};
use crate::server::{Caller, StoreKind, TestServer, on_store, until, within};

on_store!(
    in_memory, Memory:
    slow_readers_of_a_link_hold_no_more_than_its_budget,
    a_stream_that_waits_for_its_budget_ends_with_its_link,
    every_kind_of_stream_counts_for_its_credential,
    a_tenant_has_only_so_many_streams_and_each_that_ends_makes_room
);
on_store!(
    on_postgres, Postgres:
    slow_readers_of_a_link_hold_no_more_than_its_budget,
    a_tenant_has_only_so_many_streams_and_each_that_ends_makes_room
);

fn cap(streams: usize, bytes: usize) -> StreamCap {
    StreamCap { streams, bytes }
}

async fn keyed(store_kind: StoreKind, caps: StreamCaps) -> (TestServer, Arc<StreamBudget>) {
    let budget = Arc::new(StreamBudget::new(caps));
    let ours = budget.clone();
    let configure = move |config: &mut ServerConfig| {
        config.auth = Auth::Keys;
        config.stream_budget = ours;
        // Readers are slow here for as long as the test needs, however busy the machine is.
        config.streams.stall_max = Duration::from_secs(600);
        config.streams.drain_window = Duration::from_secs(600);
    };
    (TestServer::open(store_kind, configure).await, budget)
}

/// A session with a long log, the link that opens it, and the address of its stream.
async fn shared(owner: &Caller<'_>) -> (String, String) {
    let id = owner.session(json!({"session_type": "mixed"})).await;
    fill(owner, &id).await;
    let link =
        owner.post(&format!("/api/sessions/{id}/share"), json!({"access": "read", "expires_in": 600})).await;
    let link = link.expect(201);
    let token = link.body["token"].as_str().unwrap();
    (link.id(), format!("/api/sessions/{id}/stream?share={token}"))
}

async fn slow_readers_of_a_link_hold_no_more_than_its_budget(store_kind: StoreKind) {
    let bytes_max = 2 * limits::STREAM_PAGE_BYTES_MAX;
    let caps = StreamCaps {
        per_link: cap(100, bytes_max),
        per_link_and_address: cap(6, 10 * bytes_max),
        ..StreamCaps::default()
    };
    let (server, budget) = keyed(store_kind, caps).await;
    let owner = server.key(Role::Owner, "").await;
    let (_, path) = shared(&owner).await;
    let used = || budget.used(&StreamAccount::InAll);
    let mut slow = Vec::new();
    // A stream opens while there is room for the bytes of another page.
    for open in 1..=6 {
        // Another stream may take the room first: then this one was refused, and is opened again.
        while used().streams < open {
            until("there is room", || used().bytes < bytes_max).await;
            slow.push(narrow(&server, &path).await);
            let opens = async {
                while used().streams < open {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(2), opens).await;
        }
    }
    for _ in 0..20 {
        assert!(used().bytes <= bytes_max, "{:?}", used());
        server.anyone().get("/healthz").await.expect(200);
    }
    let seventh = server.anyone().get(&path).await.refused(429, "rate_limited");
    assert_eq!(seventh.headers["retry-after"], limits::STREAM_RETRY_AFTER.as_secs().to_string().as_str());
    owner.get(&path.replace("stream", "events")).await.expect(200);
    drop(slow);
    until("all are gone", || used() == Default::default()).await;
    let mut stream = server.anyone().follow(&path).await;
    assert_eq!(stream.sequences(EVENTS).await.len(), EVENTS, "whoever reads gets everything");
}

async fn a_stream_that_waits_for_its_budget_ends_with_its_link(store_kind: StoreKind) {
    let caps = StreamCaps { per_link: cap(100, limits::STREAM_PAGE_BYTES_MAX + 1), ..StreamCaps::default() };
    let (server, budget) = keyed(store_kind, caps).await;
    let owner = server.key(Role::Owner, "").await;
    let (link, path) = shared(&owner).await;
    let _slow = narrow(&server, &path).await;
    until("it holds a page", || budget.used(&StreamAccount::InAll).bytes > 0).await;
    let mut waiting = server.anyone().follow(&path).await;
    until("two are open", || budget.used(&StreamAccount::InAll).streams == 2).await;
    owner.delete(&format!("/api/shares/{link}")).await.expect(204);
    within(waiting.end()).await;
    until("it is counted no more", || budget.used(&StreamAccount::InAll).streams < 2).await;
}

async fn every_kind_of_stream_counts_for_its_credential(store_kind: StoreKind) {
    let caps = StreamCaps { per_credential: cap(1, limits::STREAM_BYTES_MAX), ..StreamCaps::default() };
    let (server, budget) = keyed(store_kind, caps).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let id = ann.session(json!({"session_type": "mixed"})).await;
    let upgrading = ann
        .clone()
        .with("connection", "upgrade")
        .with("upgrade", "websocket")
        .with("sec-websocket-version", "13")
        .with("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let log = format!("/api/sessions/{id}/stream");
    for open in ["/api/stream", log.as_str()] {
        let mut stream = ann.follow(open).await;
        assert!(stream.next().await.is_some());
        ann.get("/api/stream").await.refused(429, "rate_limited");
        ann.get(&log).await.refused(429, "rate_limited");
        upgrading.get("/api/chat/stream").await.refused(429, "rate_limited");
        ann.get(&format!("/api/sessions/{id}")).await.expect(200);
        let mut other = bob.follow("/api/stream").await;
        other.expect("ready").await;
        drop((stream, other));
        until("both are gone", || budget.used(&StreamAccount::InAll).streams == 0).await;
    }
}

async fn a_tenant_has_only_so_many_streams_and_each_that_ends_makes_room(store_kind: StoreKind) {
    let standard = QuotaLimits { tenant_streams: 2, ..QuotaLimits::default() };
    let quotas = QuotaSettings { standard, ..QuotaSettings::default() };
    let budget = Arc::new(StreamBudget::default());
    let ours = budget.clone();
    let configure = move |_: &Engine, config: &mut ServerConfig| {
        config.auth = Auth::Keys;
        config.stream_budget = ours;
    };
    let server = TestServer::open_with(store_kind, quotas, configure).await;
    let (owner, bob) = (server.key(Role::Owner, "ann").await, server.key(Role::Member, "bob").await);
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let link =
        owner.post(&format!("/api/sessions/{id}/share"), json!({"access": "read", "expires_in": 600})).await;
    let token = link.expect(201).body["token"].as_str().unwrap().to_owned();
    let shared = format!("/api/sessions/{id}/stream?share={token}");
    let mut first = bob.follow("/api/stream").await;
    first.expect("ready").await;
    let mut second = server.anyone().follow(&shared).await;
    assert!(second.next().await.is_some());
    let refused = owner.get("/api/stream").await.refused(429, "quota_exceeded");
    assert_eq!(refused.body["error"]["details"], json!({"quota": "quotas.tenant_streams", "limit": 2}));
    let sentence = refused.body["error"]["message"].as_str().unwrap();
    assert!(sentence.contains("close streams"), "{sentence}");
    assert_eq!(refused.headers["retry-after"], limits::STREAM_RETRY_AFTER.as_secs().to_string().as_str());
    server.anyone().get(&shared).await.refused(429, "quota_exceeded");
    drop(second);
    until("one is open", || budget.used(&StreamAccount::Tenant(TenantId::stored("default"))).streams == 1)
        .await;
    let mut third = owner.follow("/api/stream").await;
    third.expect("ready").await;
}
