//! A tool that acts as soon as a call has reached it, an agent that calls it by a script, and what logs say of the
//! calls.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::harness::{Client, PATIENCE, within};
use crate::stand_in::{header, hung_up, request};

/// Writes down what the sender says and calls; the file tells a server of it.
pub fn script(dir: &Path, steps: &[Value]) -> PathBuf {
    std::fs::write(dir.join("script.json"), json!({"steps": steps}).to_string()).unwrap();
    let agents = dir.join("agents.toml");
    std::fs::write(&agents, "allow = [\"127.0.0.1\"]\n[scripts]\nsender = \"script.json\"\n").unwrap();
    agents
}

/// The agent that calls the tool.
pub async fn define_sender(client: &Client, url: &str) {
    let tool = json!({"type": "http", "name": "send", "url": url});
    let agent = json!({"slug": "sender", "name": "Sender", "model": "scripted:sender", "tools": [tool]});
    client.post("/api/agents", agent).await.expect(201);
}

/// What came of all calls.
#[derive(Clone, Copy, Default)]
pub struct Results {
    pub answered: usize,
    pub unknown: usize,
}

impl Results {
    /// Reads a log: it is whole, and its calls and results are pairs, each result behind its call. Returns how many.
    pub fn add(&mut self, id: &str, events: &[Value]) -> usize {
        let mut calls: BTreeMap<&str, bool> = BTreeMap::new();
        for (nth, event) in events.iter().enumerate() {
            assert_eq!(event["sequence"], nth + 1, "{id} has a hole or a repeat");
            let metadata = &event["metadata"];
            let call = || metadata["tool_call_id"].as_str().unwrap();
            match event["type"].as_str().unwrap() {
                "agent.tool_call" => {
                    assert_eq!(calls.insert(call(), false), None, "{id} made a call twice");
                }
                "agent.tool_result" => {
                    assert_eq!(calls.insert(call(), true), Some(false), "a result without its call in {id}");
                    match metadata["outcome"].as_str() {
                        None => {
                            assert_eq!(event["content"][0]["text"], "\"sent\"", "{event}");
                            self.answered += 1;
                        }
                        Some("outcome_unknown") => self.unknown += 1,
                        Some(other) => panic!("{other}: {event}"),
                    }
                }
                _ => {}
            }
        }
        assert!(calls.values().all(|answered| *answered), "a call without its result in {id}: {calls:?}");
        calls.len()
    }

    /// Whether these can be the results of what the tool did: nothing twice, nothing that was not asked for.
    pub fn fit(&self, tool: &Tool) {
        let acted = tool.acted();
        assert!(acted.values().all(|&times| times == 1), "a tool acted twice under one key: {acted:?}");
        let Self { answered, unknown } = *self;
        assert!(
            (answered..=answered + unknown).contains(&acted.len()),
            "{answered} calls were answered, {unknown} are unknown, and the tool acted {} times",
            acted.len()
        );
    }
}

/// What the tool tells the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Held,
    Answered,
}

/// A tool that acts when a call has reached it, and remembers under which key.
pub struct Tool {
    pub url: String,
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
    pub async fn start() -> Self {
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
    pub fn forget(&self, hold: bool) {
        if let Ok(mut seen) = self.seen.try_lock() {
            while seen.try_recv().is_ok() {}
        }
        self.state.holds.store(hold, Ordering::SeqCst);
    }

    /// Waits until this was seen so many times.
    pub async fn wait_for(&self, what: Seen, times: u64) {
        let mut seen = self.seen.lock().await;
        for _ in 0..times {
            within("a call of the tool", PATIENCE, async { while seen.recv().await.unwrap() != what {} })
                .await;
        }
    }

    /// How often it acted, by key.
    pub fn acted(&self) -> HashMap<String, usize> {
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
