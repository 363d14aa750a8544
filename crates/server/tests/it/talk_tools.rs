//! /api/chat with an agent that has tools: what a caller is told while a turn waits for leave, and what the decision does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use futures_util::SinkExt;
use sederunt_agents::executor::Kit;
use sederunt_agents::model::Model;
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Settings};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store, within};
use crate::talk::{frames, socket};

on_every_store!(
    a_caller_is_told_what_waits_and_the_decision_lets_the_turn_go_on,
    a_listener_is_told_what_waits,
    a_turn_that_waits_is_stopped_and_what_is_behind_it_is_answered,
    a_turn_that_waited_too_long_is_given_up_and_what_is_behind_it_is_answered,
);

type Sent = Arc<Mutex<Vec<String>>>;

/// A tool that remembers what it was told to send.
async fn tool() -> (String, Sent) {
    let sent = Sent::default();
    let app = Router::new()
        .route(
            "/send",
            post(|State(sent): State<Sent>, body: String| async move {
                sent.lock().unwrap().push(body);
                r#""sent""#
            }),
        )
        .with_state(sent.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/send", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, sent)
}

/// A server with a conversation `t` whose agent may send things, if somebody agrees.
async fn server(store_kind: StoreKind) -> (TestServer, Sent) {
    let server = TestServer::open_over(store_kind, |engine, config| {
        let script = r#"{"steps":[{"call":{"name":"send","args":{"to":"x","text":"hi"}}},{"say":"So be it."},{"say":"Yes."}]}"#;
        let model: Arc<dyn Model> = Arc::new(Scripted::parse(script).unwrap());
        let mut kit = Kit::plain(Outbound::new(Allow::parse(["127.0.0.1"]).unwrap()).unwrap());
        kit.named = BTreeMap::from([("scripted:s".to_owned(), model)]);
        // Nobody comes by to look: everything goes on by itself.
        config.keep_every = Duration::from_secs(3600);
        config.conversations = Some(Conversations::new(engine.clone(), Arc::new(kit), Settings::default()));
    })
    .await;
    let (url, sent) = tool().await;
    let me = server.anyone();
    let agent = json!({"slug": "a", "name": "A", "model": "scripted:s", "tools":
        [{"type": "http", "name": "send", "url": url, "requires_confirmation": true}]});
    me.post("/api/agents", agent).await.expect(201);
    me.post("/api/sessions", json!({"id": "t", "session_type": "mixed", "agent_slug": "a"}))
        .await
        .expect(201);
    (server, sent)
}

async fn chat(guest: &Caller<'_>) -> Answer {
    guest.post("/api/chat", json!({"thread_id": "t", "message": "Send it."})).await.expect(200)
}

/// Waits until the conversation has nothing under way, and tells what was said in it.
async fn said(guest: &Caller<'_>) -> Vec<String> {
    within(async {
        while guest.get("/api/sessions/t").await.body["status"] != "idle" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let history = guest.get("/api/threads/t/history").await.expect(200).body;
    let items = history["items"].as_array().unwrap();
    items.iter().map(|item| item["text"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn a_caller_is_told_what_waits_and_the_decision_lets_the_turn_go_on(store_kind: StoreKind) {
    let (server, sent) = server(store_kind).await;
    let me = server.anyone().with("idempotency-key", "k");
    let told = chat(&me).await.body;
    assert_eq!(
        (&told["response_type"], &told["response_text"]),
        (&json!("confirmation"), &json!("Call `send`?"))
    );
    assert_eq!(chat(&me).await.body, told, "a repeat is told the same");
    let me = server.anyone();
    let path = format!("/api/approvals/{}", told["approval_id"].as_str().unwrap());
    let asked = me.get(&path).await.expect(200).body;
    assert_eq!(
        (&asked["kind"], &asked["state"], &asked["session_id"]),
        (&json!("tool"), &json!("pending"), &json!("t"))
    );
    assert_eq!(asked["staged"]["args"], json!({"to": "x", "text": "hi"}));
    assert!(asked["expires_at"].is_string(), "{asked}");
    assert_eq!(me.get("/api/sessions/t").await.body["status"], "awaiting_tool");
    me.delete("/api/sessions/t").await.refused(409, "session_running");

    let word = json!({"decision": "approve", "modified_args": {"to": "y"}, "digest": asked["digest"]});
    let decided = me.post(&format!("{path}/decide"), word).await.expect(200).body;
    assert_eq!(
        (&decided["state"], &decided["edited"]),
        (&json!("approved"), &json!({"to": "y", "text": "hi"}))
    );
    assert_eq!(said(&me).await.last().unwrap(), "So be it.");
    assert_eq!(*sent.lock().unwrap(), [r#"{"to":"y","text":"hi"}"#]);
    me.post(&format!("{path}/decide"), json!({"decision": "deny"})).await.refused(409, "already_decided");
    let log = me.get("/api/sessions/t/events?limit=1000").await.expect(200).body;
    let kinds: Vec<&str> =
        log["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    for kind in ["agent.tool_call", "agent.tool_result", "session.waiting_approval", "user.tool_confirmation"]
    {
        assert_eq!(kinds.iter().filter(|known| **known == kind).count(), 1, "{kind}: {kinds:?}");
    }
}

async fn a_listener_is_told_what_waits(store_kind: StoreKind) {
    let (server, sent) = server(store_kind).await;
    let mut socket = socket(&server).await;
    socket.send(Message::text(json!({"thread_id": "t", "message": "Send it."}).to_string())).await.unwrap();
    let (frames, code) = frames(&mut socket).await;
    assert_eq!(code, 1000);
    let done = &frames.last().unwrap()["response"];
    assert_eq!(done["response_type"], "confirmation");
    let uses_tool =
        |frame: &Value| (&frame["stage"], &frame["detail"]) == (&json!("respond"), &json!("send"));
    assert!(frames.iter().any(uses_tool), "{frames:?}");
    let path = format!("/api/approvals/{}/decide", done["approval_id"].as_str().unwrap());
    server.anyone().post(&path, json!({"decision": "deny"})).await.expect(200);
    assert_eq!(said(&server.anyone()).await.last().unwrap(), "So be it.");
    assert!(sent.lock().unwrap().is_empty());
}

async fn a_turn_that_waits_is_stopped_and_what_is_behind_it_is_answered(store_kind: StoreKind) {
    let (server, sent) = server(store_kind).await;
    let me = server.anyone();
    let told = chat(&me).await.body;
    me.post("/api/sessions/t/messages", json!({"text": "Hello?"})).await.expect(202);
    me.post("/api/sessions/t/stop", json!({})).await.expect(200);
    is_over(&me, &told, "cancelled").await;
    assert!(sent.lock().unwrap().is_empty());
}

async fn a_turn_that_waited_too_long_is_given_up_and_what_is_behind_it_is_answered(store_kind: StoreKind) {
    let (server, sent) = server(store_kind).await;
    let me = server.anyone();
    let told = chat(&me).await.body;
    me.post("/api/sessions/t/messages", json!({"text": "Hello?"})).await.expect(202);
    server.clock.advance(sederunt_core::limits::CONFIRM_WITHIN);
    is_over(&me, &told, "expired").await;
    let path = format!("/api/approvals/{}/decide", told["approval_id"].as_str().unwrap());
    me.post(&path, json!({"decision": "approve"})).await.refused(409, "already_decided");
    assert!(sent.lock().unwrap().is_empty());
}

/// Waits until the message behind a turn is answered; what the turn asked for stands so.
async fn is_over(guest: &Caller<'_>, told: &Value, state: &str) {
    within(async {
        while said(guest).await.last().unwrap() != "So be it." {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let path = format!("/api/approvals/{}", told["approval_id"].as_str().unwrap());
    assert_eq!(guest.get(&path).await.expect(200).body["state"], state);
}
