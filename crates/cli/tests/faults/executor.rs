//! `kill -9` of a server whose workers are in the middle of runs, at moments chosen by a seed: before a call, while
//! the tool is acting, right after its answer, before the run is settled. Whoever takes over finishes every run, and
//! no tool acts twice.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::harness::{Client, Node, PATIENCE, Place, eventually, goes_on, sederunt, within};
use crate::stand_in::{drawn, header, hung_up, request};

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
        results.add(&client, run).await;
    }
    let acted = tool.acted();
    assert!(acted.values().all(|&times| times == 1), "a tool acted twice under one key: {acted:?}");
    let Results { answered, unknown } = results;
    assert_eq!(answered + unknown, CALLS * runs.len(), "every call has its result");
    assert!(unknown >= held, "{held} calls were cut off, {unknown} are known to be unknown");
    assert!(
        (answered..=answered + unknown).contains(&acted.len()),
        "{answered} calls were answered, {unknown} are unknown, and the tool acted {} times",
        acted.len()
    );
    assert!(held >= ROUNDS_MIN / 4 && answered >= runs.len() / 2, "{held} cut off, {answered} answered");
}

/// A server with workers that think by script, and a lease that is soon lost.
async fn serve(place: &Place, dir: &Path) -> Node {
    let think = |what: Value| {
        let mut step = what;
        step["delay_ms"] = THINKS_MS.into();
        step
    };
    let mut steps: Vec<Value> =
        (0..CALLS).map(|n| think(json!({"call": {"name": "send", "args": {"n": n}}}))).collect();
    steps.push(think(json!({"say": "All is sent."})));
    std::fs::write(dir.join("script.json"), json!({"steps": steps}).to_string()).unwrap();
    let agents = dir.join("agents.toml");
    std::fs::write(&agents, "allow = [\"127.0.0.1\"]\n[scripts]\nsender = \"script.json\"\n").unwrap();
    let mut command = sederunt();
    command
        .env("SEDERUNT_AGENTS_FILE", agents)
        .env("SEDERUNT_WORKERS", "8")
        .env("SEDERUNT_WORK_LEASE", "300ms")
        .env("SEDERUNT_WORK_MAX_ATTEMPTS", "1000");
    Node::launch(command, place, "local").listening().await.unwrap()
}

async fn define(client: &Client, url: &str) {
    let tool = json!({"type": "http", "name": "send", "url": url});
    let agent = json!({"slug": "sender", "name": "Sender", "model": "scripted:sender", "tools": [tool]});
    client.post("/api/agents", agent).await.expect(201);
    let task = json!({"slug": "send", "name": "Send", "agent_slug": "sender"});
    client.post("/api/tasks", task).await.expect(201);
}

async fn trigger(client: &Client) -> String {
    let session = client.post("/api/tasks/send/trigger", json!({})).await.expect(201);
    session["id"].as_str().unwrap().to_owned()
}

/// What came of all calls.
#[derive(Default)]
struct Results {
    answered: usize,
    unknown: usize,
}

impl Results {
    /// Reads the log of a run that has ended: it is whole, and its calls and results are pairs, each result behind
    /// its call.
    async fn add(&mut self, client: &Client, run: &str) {
        let session = client.get(&format!("/api/sessions/{run}")).await.expect(200);
        assert_eq!(session["status"], "completed", "{session}");
        let page = client.get(&format!("/api/sessions/{run}/events?limit=1000")).await.expect(200);
        let mut open: BTreeMap<String, bool> = BTreeMap::new();
        let mut said = 0;
        for (nth, event) in page["events"].as_array().unwrap().iter().enumerate() {
            assert_eq!(event["sequence"], nth + 1, "{run} has a hole or a repeat");
            let metadata = &event["metadata"];
            let id = || metadata["tool_call_id"].as_str().unwrap().to_owned();
            match event["type"].as_str().unwrap() {
                "agent.tool_call" => {
                    assert_eq!(open.insert(id(), false), None, "{run} made a call twice");
                }
                "agent.tool_result" => {
                    assert_eq!(open.insert(id(), true), Some(false), "a result without its call in {run}");
                    match metadata["outcome"].as_str() {
                        None => {
                            assert_eq!(event["content"][0]["text"], "\"sent\"", "{event}");
                            self.answered += 1;
                        }
                        Some("outcome_unknown") => self.unknown += 1,
                        Some(other) => panic!("{other}: {event}"),
                    }
                }
                "agent.message" => said += 1,
                _ => {}
            }
        }
        assert!(open.len() == CALLS && open.values().all(|answered| *answered), "{run}: {open:?}");
        assert_eq!(said, 1, "{run} has one last word");
    }
}

/// What the tool tells the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Held,
    Answered,
}

/// A tool that acts when a call has reached it, and remembers under which key.
struct Tool {
    url: String,
    state: Arc<State>,
    seen: tokio::sync::Mutex<mpsc::UnboundedReceiver<Seen>>,
}

struct State {
    acted: Mutex<HashMap<String, usize>>,
    /// The next call is not answered.
    holds: AtomicBool,
    tell: mpsc::UnboundedSender<Seen>,
}

impl Tool {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/send", listener.local_addr().unwrap());
        let (tell, seen) = mpsc::unbounded_channel();
        let state = Arc::new(State { acted: Mutex::default(), holds: AtomicBool::new(false), tell });
        let served = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = served.clone();
                tokio::spawn(async move { state.serve(stream).await });
            }
        });
        Self { url, state, seen: tokio::sync::Mutex::new(seen) }
    }

    /// Forgets what was told of the round before; the next call is held if `hold` says so.
    fn forget(&self, hold: bool) {
        if let Ok(mut seen) = self.seen.try_lock() {
            while seen.try_recv().is_ok() {}
        }
        self.state.holds.store(hold, Ordering::SeqCst);
    }

    /// Waits until this was seen so many times.
    async fn wait_for(&self, what: Seen, times: u64) {
        let mut seen = self.seen.lock().await;
        for _ in 0..times {
            within("a call of the tool", PATIENCE, async { while seen.recv().await.unwrap() != what {} })
                .await;
        }
    }

    /// How often it acted, by key.
    fn acted(&self) -> HashMap<String, usize> {
        self.state.acted.lock().unwrap().clone()
    }
}

impl State {
    /// Takes one call from a connection, acts, and answers unless the caller is to be left without an answer.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let text = request(&mut stream).await?;
        let key = header(&text, "idempotency-key").expect("a call has a key");
        *self.acted.lock().unwrap().entry(key.to_owned()).or_default() += 1;
        if self.holds.swap(false, Ordering::SeqCst) {
            let _ = self.tell.send(Seen::Held);
            hung_up(&mut stream).await;
            return None;
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 6\r\nconnection: close\r\n\r\n\"sent\"";
        stream.write_all(answer.as_bytes()).await.ok()?;
        let _ = self.tell.send(Seen::Answered);
        Some(())
    }
}
