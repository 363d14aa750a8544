//! /api/sessions/{id}/stop while a model speaks: how soon it is heard, and what is left of what was said

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sederunt_agents::executor::{Executor, Kit, Settings as ExecutorSettings};
use sederunt_agents::model::{Delta, DeltaSink, Error, Model, ModelReply, Request};
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Settings};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::server::{Caller, Follower, StoreKind, TestServer, on_every_store, within};

on_every_store!(
    a_turn_hears_a_stop_at_once_and_keeps_what_was_said,
    a_run_hears_a_stop_at_once_and_keeps_what_was_said
);

/// How long after a stop was asked for the work has ended, on a machine that does other things too. It takes a few
/// milliseconds; whatever waited for a heartbeat would take ten seconds.
const STOP_HEARD: Duration = Duration::from_secs(1);

/// A model that speaks and never comes to an end.
#[derive(Debug)]
struct Babbler;

impl Model for Babbler {
    fn run<'a>(&'a self, _: &'a Request, heard: DeltaSink<'a>) -> BoxFuture<'a, Result<ModelReply, Error>> {
        Box::pin(async move {
            for word in 0u64.. {
                heard(Delta::Text(format!("word {word} ")));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            std::future::pending().await
        })
    }
}

fn kit() -> Arc<Kit> {
    let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
    kit.named = BTreeMap::from([("scripted:babbler".to_owned(), Arc::new(Babbler) as Arc<dyn Model>)]);
    Arc::new(kit)
}

/// A server that holds conversations with the babbler and does nothing else by itself.
async fn server(store_kind: StoreKind) -> TestServer {
    let server = TestServer::open_over(store_kind, |engine, config| {
        config.sweep_every = Duration::from_secs(3600);
        config.keep_every = Duration::from_secs(3600);
        config.conversations = Some(Conversations::new(engine.clone(), kit(), Settings::default()));
    })
    .await;
    let agent = json!({"slug": "babbler", "name": "Babbler", "model": "scripted:babbler"});
    server.anyone().post("/api/agents", agent).await.expect(201);
    server
}

/// Reads along until a few words were said.
async fn hear(stream: &mut Follower) -> String {
    let mut said = String::new();
    while said.len() < 20 {
        let message = stream.next().await.unwrap();
        if message.event == "delta" {
            let delta: Value = serde_json::from_str(&message.data).unwrap();
            said.push_str(delta["text"].as_str().unwrap());
        }
    }
    said
}

/// Stops what speaks in a session, and checks what is left of it.
async fn stop(me: &Caller<'_>, id: &str, stream: &mut Follower) {
    let heard = hear(stream).await;
    let asked = Instant::now();
    me.post(&format!("/api/sessions/{id}/stop"), json!({})).await.expect(200);
    let left = stream.event(|event| event["type"] == "agent.message").await;
    let took = asked.elapsed();
    println!("what was said is in the log {took:?} after the stop was asked for");
    assert!(took < STOP_HEARD, "{took:?}");
    assert_eq!(left["metadata"]["interrupted"], true);
    let kept = left["content"][0]["text"].as_str().unwrap();
    assert!(kept.starts_with(&heard), "`{heard}` was streamed, `{kept}` was kept");
}

async fn a_turn_hears_a_stop_at_once_and_keeps_what_was_said(store_kind: StoreKind) {
    let server = server(store_kind).await;
    let me = server.anyone();
    let wish = json!({"id": "t", "session_type": "mixed", "agent_slug": "babbler"});
    me.post("/api/sessions", wish).await.expect(201);
    let mut stream = me.follow("/api/sessions/t/stream").await;
    me.post("/api/sessions/t/messages", json!({"text": "Tell me a story."})).await.expect(202);
    stop(&me, "t", &mut stream).await;
    stream.event(|event| event["type"] == "session.turn").await;
    assert_eq!(me.get("/api/sessions/t").await.expect(200).body["status"], "idle");
}

async fn a_run_hears_a_stop_at_once_and_keeps_what_was_said(store_kind: StoreKind) {
    let server = server(store_kind).await;
    let me = server.anyone();
    let settings = ExecutorSettings {
        worker: "w".to_owned(),
        runs_max: 1,
        lease: Duration::from_secs(30),
        base_url: "http://localhost".to_owned(),
    };
    let executor = Executor::new(server.engine.clone(), kit(), settings);
    let (leave, leaving) = watch::channel(false);
    let serving = tokio::spawn(async move { executor.serve(leaving).await });
    let task = json!({"slug": "story", "name": "Story", "agent_slug": "babbler"});
    me.post("/api/tasks", task).await.expect(201);
    let id = me.post("/api/tasks/story/trigger", json!({})).await.expect(201).id();
    let mut stream = me.follow(&format!("/api/sessions/{id}/stream")).await;
    stop(&me, &id, &mut stream).await;
    stream.event(|event| event["metadata"]["to"] == "abandoned").await;
    let session = me.get(&format!("/api/sessions/{id}")).await.expect(200).body;
    assert_eq!((&session["status"], &session["end_reason"]), (&json!("abandoned"), &json!("stopped")));
    leave.send(true).unwrap();
    within(serving).await.unwrap();
}
