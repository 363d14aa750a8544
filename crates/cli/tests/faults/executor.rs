//! `kill -9` of a server whose workers are in the middle of runs, at moments chosen by a seed: before a call, while
//! the tool is acting, right after its answer, before the run is settled. Whoever takes over finishes every run, and
//! no tool acts twice.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Node, PATIENCE, Place, eventually, goes_on, sederunt};
use crate::stand_in::drawn;
use crate::tool::{self, Results, Seen, Tool};

const ROUNDS_MIN: usize = 16;
/// Runs that every round begins.
const RUNS: usize = 3;
/// Calls of every run.
const CALLS: usize = 2;
/// How long the model thinks before each step: long enough to be killed meanwhile.
const THINKS_MS: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_killed_leave_nothing_undone_and_nothing_done_twice_on_sqlite() {
    workers_are_killed(Place::sqlite(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_killed_leave_nothing_undone_and_nothing_done_twice_on_postgres() {
    workers_are_killed(Place::postgres().await, 2).await;
}

/// When a server is killed, so many milliseconds after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Runs were begun.
    Begun,
    /// A call has reached the tool, which does not answer any more.
    Acting,
    /// The tool has answered.
    Answered,
}

async fn workers_are_killed(place: Place, mut seed: u64) {
    let (dir, tool) = (TempDir::with_prefix("sederunt-faults-").unwrap(), Tool::start().await);
    let mut runs: Vec<String> = Vec::new();
    let (start, mut round, mut held) = (Instant::now(), 0, 0);
    while round < ROUNDS_MIN || goes_on(start) {
        let node = serve(&place, dir.path()).await;
        let client = node.client();
        if round == 0 {
            define(&client, &tool.url).await;
        }
        let moment = [Moment::Acting, Moment::Answered, Moment::Begun, Moment::Answered][round % 4];
        // Enough for a model to think twice, so that the kill falls before, into and behind what follows.
        let pause = Duration::from_millis(drawn(&mut seed) % (3 * THINKS_MS));
        let nth = 1 + drawn(&mut seed) % RUNS as u64;
        tool.forget(moment == Moment::Acting);
        for _ in 0..RUNS {
            runs.push(trigger(&client).await);
        }
        match moment {
            Moment::Begun => {}
            Moment::Acting => {
                tool.wait_for(Seen::Held, 1).await;
                held += 1;
            }
            Moment::Answered => tool.wait_for(Seen::Answered, nth).await,
        }
        if moment != Moment::Acting {
            tokio::time::sleep(pause).await;
        }
        node.kill_9();
        round += 1;
    }

    let node = serve(&place, dir.path()).await;
    tool.forget(false);
    let client = node.client();
    eventually("every run ends", PATIENCE, async || {
        let open = client.get("/api/sessions?group=active&limit=1").await.expect(200);
        open["items"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
    let mut results = Results::default();
    for run in &runs {
        read(&client, run, &mut results).await;
    }
    let Results { answered, unknown } = results;
    assert_eq!(answered + unknown, CALLS * runs.len(), "every call has its result");
    assert!(unknown >= held, "{held} calls were cut off, {unknown} are known to be unknown");
    results.fit(&tool);
    assert!(held >= ROUNDS_MIN / 4 && answered >= runs.len() / 2, "{held} cut off, {answered} answered");
}

/// A server with workers that think by script, and a lease that is soon lost.
async fn serve(place: &Place, dir: &Path) -> Node {
    let think = |mut step: Value| {
        step["delay_ms"] = THINKS_MS.into();
        step
    };
    let mut steps: Vec<Value> =
        (0..CALLS).map(|n| think(json!({"call": {"name": "send", "args": {"n": n}}}))).collect();
    steps.push(think(json!({"say": "All is sent."})));
    let agents = tool::script(dir, &steps);
    let mut command = sederunt();
    command
        .env("SEDERUNT_AGENTS_FILE", agents)
        .env("SEDERUNT_WORKERS", "8")
        .env("SEDERUNT_WORK_LEASE", "300ms")
        .env("SEDERUNT_WORK_MAX_ATTEMPTS", "1000");
    Node::launch(command, place, "local").listening().await.unwrap()
}

async fn define(client: &Client, url: &str) {
    tool::define_sender(client, url).await;
    let task = json!({"slug": "send", "name": "Send", "agent_slug": "sender"});
    client.post("/api/tasks", task).await.expect(201);
}

async fn trigger(client: &Client) -> String {
    let session = client.post("/api/tasks/send/trigger", json!({})).await.expect(201);
    session["id"].as_str().unwrap().to_owned()
}

/// Reads the log of a run that has ended: it is whole, and has one last word.
async fn read(client: &Client, run: &str, results: &mut Results) {
    let session = client.get(&format!("/api/sessions/{run}")).await.expect(200);
    assert_eq!(session["status"], "completed", "{session}");
    let page = client.get(&format!("/api/sessions/{run}/events?limit=1000")).await.expect(200);
    let events = page["events"].as_array().unwrap();
    assert_eq!(results.add(run, events), CALLS, "the calls of {run}");
    let said = events.iter().filter(|event| event["type"] == "agent.message").count();
    assert_eq!(said, 1, "{run} has one last word");
}
