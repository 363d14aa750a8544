//! `kill -9` in the middle of a tool call of a turn: while the tool is acting, right after its answer, or before. The
//! turn is closed, its call has a result, the tool acts once, and the next message is answered.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Node, Place, goes_on, sederunt};
use crate::stand_in::drawn;
use crate::tool::{self, Results, Seen, Tool};

const ROUNDS_MIN: usize = 4;
/// A dead turn is free after this; a live one must not lose its claim on a busy machine.
const LEASE: &str = "2s";
/// What is left to chance around what is waited for.
const PAUSE_MS_MAX: u64 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_a_call_of_a_turn_leaves_nothing_open_and_nothing_done_twice_on_sqlite() {
    killed_in_a_call(Place::sqlite(), 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_a_call_of_a_turn_leaves_nothing_open_and_nothing_done_twice_on_postgres() {
    killed_in_a_call(Place::postgres().await, 6).await;
}

async fn killed_in_a_call(place: Place, mut seed: u64) {
    println!("the seed is {seed}");
    let (dir, tool) = (TempDir::with_prefix("sederunt-faults-").unwrap(), Tool::start().await);
    let mut node = serve(&place, dir.path()).await;
    tool::define_sender(&node.client(), &tool.url).await;
    let (start, mut round, mut held) = (Instant::now(), 0, 0);
    let mut results = Results::default();
    while round < ROUNDS_MIN || goes_on(start) {
        let id = format!("cli:call-{round}");
        let session = json!({"id": id, "session_type": "mixed", "agent_slug": "sender"});
        node.client().post("/api/sessions", session).await.expect(201);
        let is_held = round % 2 == 0;
        tool.forget(is_held);
        let path = format!("/api/sessions/{id}/messages");
        node.client().post(&path, json!({"text": "Send it."})).await.expect(202);
        match round % 4 {
            0 | 2 => tool.wait_for(Seen::Held, 1).await,
            1 => tool.wait_for(Seen::Answered, 1).await,
            _ => {}
        }
        if !is_held {
            tokio::time::sleep(Duration::from_millis(drawn(&mut seed) % PAUSE_MS_MAX)).await;
        }
        node.kill_9();

        node = serve(&place, dir.path()).await;
        let events = goes_on_talking(&node.client(), &id).await;
        let before = results;
        assert_eq!(results.add(&id, &events), 1, "{id} has one call");
        results.fit(&tool);
        if is_held {
            held += 1;
            assert_eq!(results.unknown, before.unknown + 1, "{id}: nobody knows what came of the call");
        }
        round += 1;
    }
    assert_eq!(results.answered + results.unknown, round, "every call has its result");
    assert!(held >= ROUNDS_MIN / 2, "only {held} calls were cut off");
}

/// The next message is answered, and every turn is closed once. Returns the log.
async fn goes_on_talking(client: &Client, id: &str) -> Vec<Value> {
    let said = client.post("/api/chat", json!({"thread_id": id, "message": "And now?"})).await.expect(200);
    assert_eq!(said["response_text"], "That is all.", "{id}: {said}");
    let page = client.get(&format!("/api/sessions/{id}/events?limit=1000")).await.expect(200);
    let events = page["events"].as_array().unwrap().clone();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let messages = of("user.message");
    assert_eq!(messages.len(), 2, "{id}");
    for message in messages {
        let closed: Vec<_> = of("session.turn")
            .into_iter()
            .filter(|event| event["metadata"]["turn"] == message["sequence"])
            .map(|event| event["metadata"]["outcome"].as_str().unwrap())
            .collect();
        assert!(
            matches!(closed[..], ["answered" | "interrupted"]),
            "{id}: {message} was closed by {closed:?}"
        );
    }
    let replay = client.get(&format!("/api/sessions/{id}/replay")).await.expect(200);
    assert_eq!(replay["matches"], true, "{id}: {replay}");
    events
}

/// A server whose agent calls once, and whose dead turns are soon free.
async fn serve(place: &Place, dir: &Path) -> Node {
    let mut steps = vec![json!({"call": {"name": "send", "args": {"to": "all"}}})];
    steps.extend(std::iter::repeat_n(json!({"say": "That is all."}), 3));
    let mut command = sederunt();
    command
        .env("SEDERUNT_AGENTS_FILE", tool::script(dir, &steps))
        .env("SEDERUNT_TALK_LEASE", LEASE)
        .env("SEDERUNT_TALK_SWEEP_EVERY", "100ms");
    Node::launch(command, place, "local").listening().await.unwrap()
}
