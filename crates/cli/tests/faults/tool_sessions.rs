//! `kill -9` of a server whose workers run tools, at moments chosen by a seed: before the claim, while the tool is acting,
//! right after its answer, before the invocation is settled. Every invocation has one start and one end, and acts once
//! behind its key, also as a step of another one.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Node, PATIENCE, Place, eventually, goes_on, sederunt};
use crate::stand_in::drawn;
use crate::tool::{self, Seen, Tool};

const ROUNDS_MIN: usize = 12;
/// Sessions that every round begins; each is a tool with two steps.
const RUNS: usize = 3;
/// The longest wait before a kill, in milliseconds.
const PAUSE_MS: u64 = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invocations_whose_workers_are_killed_start_and_end_once_on_sqlite() {
    workers_are_killed(Place::sqlite(), 11).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invocations_whose_workers_are_killed_start_and_end_once_on_postgres() {
    workers_are_killed(Place::postgres().await, 12).await;
}

async fn workers_are_killed(place: Place, mut seed: u64) {
    println!("the seed is {seed}");
    let (dir, tool) = (TempDir::with_prefix("sederunt-faults-").unwrap(), Tool::start().await);
    let mut sessions: Vec<String> = Vec::new();
    let (start, mut round, mut held) = (Instant::now(), 0, 0);
    while round < ROUNDS_MIN || goes_on(start) {
        let node = serve(&place, dir.path()).await;
        let client = node.client();
        if round == 0 {
            define(&client, &tool.url).await;
        }
        let cuts_off = round % 3 == 0;
        tool.forget(cuts_off);
        for _ in 0..RUNS {
            sessions.push(run(&client).await);
        }
        if cuts_off {
            tool.wait_for(Seen::Held, 1).await;
            held += 1;
        } else if round % 3 == 1 {
            tool.wait_for(Seen::Answered, 1 + drawn(&mut seed) % 3).await;
        }
        tokio::time::sleep(Duration::from_millis(drawn(&mut seed) % PAUSE_MS)).await;
        node.kill_9();
        round += 1;
    }

    let node = serve(&place, dir.path()).await;
    tool.forget(false);
    let client = node.client();
    eventually("every tool session ends", PATIENCE, async || {
        let open = client.get("/api/sessions?group=active&limit=1").await.expect(200);
        open["items"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
    let mut keys: Vec<String> = Vec::new();
    for session in &sessions {
        let whole = read(&client, session).await;
        assert_eq!(whole["steps"].as_array().unwrap().len(), 2, "{whole}");
        for step in whole["steps"].as_array().unwrap() {
            let step = read(&client, step["session_id"].as_str().unwrap()).await;
            keys.push(step["invocation"]["id"].as_str().unwrap().to_owned());
        }
    }
    let mut acted: Vec<String> = tool.acted().into_keys().collect();
    acted.sort_unstable();
    keys.sort_unstable();
    assert_eq!(acted, keys, "every invocation acted behind its own key, and nothing else did");
    assert!(held >= ROUNDS_MIN / 3, "{held} calls were cut off");
}

/// A server whose workers may call the tool, and lose their leases soon.
async fn serve(place: &Place, dir: &Path) -> Node {
    let agents = tool::script(dir, &[json!({"say": "Nothing."})]);
    let mut command = sederunt();
    command
        .env("SEDERUNT_AGENTS_FILE", agents)
        .env("SEDERUNT_WORKERS", "8")
        .env("SEDERUNT_WORK_LEASE", "300ms")
        .env("SEDERUNT_WORK_MAX_ATTEMPTS", "1000");
    Node::launch(command, place, "local").listening().await.unwrap()
}

async fn define(client: &Client, url: &str) {
    let form = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let send =
        json!({"slug": "send", "name": "Send", "input_schema": form, "run": {"type": "http", "url": url}});
    client.post("/api/tools", send).await.expect(201);
    let steps = json!([
        {"key": "first", "tool": "send", "input": {"text": {"$from": "/values/text"}}},
        {"key": "second", "tool": "send", "input": {"text": {"$from": "/steps/first/result"}}},
    ]);
    let twice = json!({"slug": "twice", "name": "Twice", "input_schema": form, "run": {"type": "steps", "steps": steps}});
    client.post("/api/tools", twice).await.expect(201);
}

async fn run(client: &Client) -> String {
    let started =
        client.post("/api/tools/twice/sessions", json!({"values": {"text": "hi"}})).await.expect(201);
    let id = started["id"].as_str().unwrap();
    client.post(&format!("/api/tool-sessions/{id}/invoke"), json!({})).await.expect(202);
    id.to_owned()
}

/// Reads a tool session that has ended: its log is whole, and its invocation started and ended once.
async fn read(client: &Client, id: &str) -> Value {
    let session = client.get(&format!("/api/tool-sessions/{id}")).await.expect(200);
    assert_eq!((&session["status"], &session["result"]), (&json!("completed"), &json!("sent")), "{session}");
    let page = client.get(&format!("/api/sessions/{id}/events?limit=1000")).await.expect(200);
    let events = page["events"].as_array().unwrap();
    let times = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert!(events.iter().enumerate().all(|(n, event)| event["sequence"] == n + 1), "{id} has a hole");
    assert_eq!(
        (
            times("tool.invocation_started"),
            times("tool.invocation_completed"),
            times("tool.invocation_failed")
        ),
        (1, 1, 0),
        "{id}: {page}"
    );
    session
}
