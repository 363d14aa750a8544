//! `sederunt mcp` as programs start it, several of them on one store, and the official clients on both ways in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::world::{PATIENCE, Running, World, kill, ran, talk};

/// A program that speaks to `sederunt mcp` line by line.
struct Speaker {
    process: Running,
    stdin: ChildStdin,
    heard: Receiver<Value>,
    asked: u64,
}

impl Speaker {
    fn start(world: &World, args: &[&str]) -> Self {
        let mut all = vec!["mcp"];
        all.extend(args);
        let mut process = Running::start(world.command(&all).stdin(Stdio::piped()));
        let stdin = process.child().stdin.take().unwrap();
        let mut stderr = process.child().stderr.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::stderr()));
        let stdout: BufReader<_> = process.stdout();
        let (said, heard) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line);
                let _ = said.send(message.unwrap_or_else(|_| panic!("not of the protocol: {line}")));
            }
        });
        let mut speaker = Self { process, stdin, heard, asked: 0 };
        let us = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": us});
        assert_eq!(speaker.ask("initialize", hello)["result"]["serverInfo"]["name"], "sederunt");
        speaker.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        speaker
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        let answer = self.heard.recv_timeout(PATIENCE).unwrap();
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// Where the task stands, which every process on its store knows.
    fn sees_the_task(&mut self) {
        let result = self.call("getTaskStatus", json!({"taskId": "letter"}));
        assert_eq!(result["structuredContent"]["task_name"], "Write a letter", "{result}");
    }

    fn pid(&mut self) -> u32 {
        self.process.child().id()
    }

    /// Closes its stdin, and says how it ended.
    fn end(self) -> i32 {
        drop(self.stdin);
        self.process.wait()
    }
}

/// A store with a conversation and a task in it.
fn furnished() -> World {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 2).await));
    let task = json!({"slug": "letter", "name": "Write a letter", "agent_slug": "eliza"});
    std::fs::write(world.path("task.json"), task.to_string()).unwrap();
    world.ok(&["tasks", "create", "task.json"]);
    world
}

/// The process that serves the store.
fn server_of(world: &World) -> u64 {
    let text = std::fs::read_to_string(world.store().join("server.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["pid"].as_u64().unwrap()
}

#[test]
fn one_alone_serves_itself_and_ends_with_its_input() {
    let world = furnished();
    let mut speaker = Speaker::start(&world, &[]);
    assert_eq!(server_of(&world), u64::from(speaker.pid()));
    assert_eq!(speaker.ask("ping", json!({}))["result"], json!({}));
    let tools = speaker.ask("tools/list", json!({}))["result"]["tools"].clone();
    assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "retrySession"), "{tools}");
    speaker.sees_the_task();
    let refused = speaker.call("retrySession", json!({"sessionId": "nothing"}));
    assert_eq!(
        (&refused["isError"], &refused["structuredContent"]["error"]["code"]),
        (&json!(true), &json!("not_found"))
    );
    let listed = speaker.ask("resources/list", json!({}))["result"]["resources"].clone();
    let read =
        speaker.ask("resources/read", json!({"uri": listed[0]["uri"]}))["result"]["contents"][0].clone();
    assert!(read["text"].as_str().unwrap().contains("message 2"), "{read}");
    let templates = speaker.ask("resources/templates/list", json!({}))["result"]["resourceTemplates"].clone();
    assert_eq!(templates[0]["uriTemplate"], "sederunt://sessions/{id}");
    assert_eq!(speaker.ask("tools/call", json!({"name": "no_such_tool"}))["error"]["code"], -32602);
    // Commands beside it go through it.
    assert_eq!(world.json(&["tasks", "show", "letter"])["slug"], "letter");
    assert_eq!(speaker.end(), 0);
    assert!(!world.store().join("server.json").exists());
}

#[test]
fn several_share_a_store_and_outlive_the_one_that_serves_it() {
    let world = furnished();
    let mut all: Vec<Speaker> = (0..3).map(|_| Speaker::start(&world, &[])).collect();
    let first = u64::from(all[0].pid());
    for speaker in &mut all {
        speaker.sees_the_task();
    }
    assert_eq!(server_of(&world), first, "the others found it");
    // One that ends in order, and one that is killed.
    assert_eq!(all.remove(0).end(), 0);
    all[0].sees_the_task();
    all[1].sees_the_task();
    let second = server_of(&world);
    let at = all.iter_mut().position(|speaker| u64::from(speaker.pid()) == second).unwrap();
    let mut killed = all.remove(at);
    kill("-KILL", killed.pid());
    killed.process.wait();
    all[0].sees_the_task();
    assert_eq!(server_of(&world), u64::from(all[0].pid()));
    Speaker::start(&world, &[]).sees_the_task();
    assert_eq!(all.remove(0).end(), 0);
}

#[test]
fn those_that_start_at_once_find_each_other() {
    let world = furnished();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut speaker = Speaker::start(&world, &[]);
                speaker.sees_the_task();
                assert_eq!(speaker.end(), 0);
            });
        }
    });
}

#[test]
fn a_call_through_a_server_that_has_gone_is_refused_in_words() {
    let world = furnished();
    let server = world.serve(&["--auth", "keys"]);
    let key = world.json(&["keys", "create", "--role", "member", "--user", "ada"]);
    let url = server.url.clone();
    let mut speaker = Speaker::start(&world, &["--server", &url, "--key", key["key"].as_str().unwrap()]);
    let hidden = speaker.call("getTaskStatus", json!({"taskId": "letter"}));
    assert_eq!(hidden["structuredContent"]["error"]["code"], "not_found", "the key says who calls");
    assert_eq!(server.stop("-TERM"), 0);
    let lost = speaker.call("getTaskStatus", json!({"taskId": "letter"}));
    assert_eq!(
        (&lost["isError"], &lost["structuredContent"]["error"]["code"]),
        (&json!(true), &json!("unavailable"))
    );
    assert!(lost["content"][0]["text"].as_str().unwrap().contains("does not answer"), "{lost}");
    assert_eq!(speaker.ask("tools/list", json!({}))["error"]["code"], -32603);
    assert_eq!(speaker.end(), 0);
}

#[test]
fn what_cannot_work_is_said_before_anything_is_spoken() {
    let world = furnished();
    let server = world.serve(&["--auth", "keys"]);
    world.fails(&["mcp", "--server", &server.url], 4);
    world.fails(&["mcp", "--server", &server.url, "--key", "sdr_wrong"], 4);
    world.fails(&["mcp", "--server", "http://127.0.0.1:1"], 5);
    world.fails(&["mcp", "--server", "nowhere"], 2);
    world.fails(&["mcp", "--model", "eliza"], 2);
    assert_eq!(server.stop("-TERM"), 0);
    assert_eq!(world.run(&["mcp"]).code, 0, "nothing was asked");
}

/// A server that is only a script: it takes every message, and hangs up on the first call.
struct Fickle {
    url: String,
    heard: Receiver<Value>,
}

impl Fickle {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (told, heard) = channel();
        std::thread::spawn(move || {
            let mut calls = 0;
            for connection in listener.incoming() {
                let mut reader = BufReader::new(connection.unwrap());
                while let Some(message) = body(&mut reader) {
                    let is_call = message["method"] == "tools/call";
                    calls += u32::from(is_call);
                    let _ = told.send(message.clone());
                    if is_call && calls == 1 {
                        break;
                    }
                    reader.get_mut().write_all(answer(&message).as_bytes()).unwrap();
                }
            }
        });
        Self { url, heard }
    }
}

/// The body of the next request, unless there is none.
fn body(reader: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    for line in reader.by_ref().lines().map_while(Result::ok) {
        if line.is_empty() {
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            return serde_json::from_slice(&body).ok();
        }
        if let Some(given) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = given.trim().parse().unwrap();
        }
    }
    None
}

fn answer(message: &Value) -> String {
    let result = match message["method"].as_str().unwrap() {
        "initialize" => {
            json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "sederunt", "version": "0"}})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": "done"}], "isError": false}),
        _ => return "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
    };
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_call_that_was_cut_short_is_made_once_more_under_its_key() {
    let world = World::new();
    let server = Fickle::start();
    let mut speaker = Speaker::start(&world, &["--server", &server.url]);
    for _ in 0..3 {
        assert_eq!(speaker.call("retrySession", json!({"sessionId": "x"}))["content"][0]["text"], "done");
    }
    assert_eq!(speaker.end(), 0);
    let heard: Vec<Value> = server.heard.try_iter().collect();
    let methods: Vec<_> = heard.iter().map(|message| message["method"].as_str().unwrap()).collect();
    let hello = ["initialize", "notifications/initialized"];
    let expected = [&hello[..], &["tools/call"], &hello, &["tools/call"; 3]].concat();
    assert_eq!(methods, expected, "one line is kept, and opened again only when it broke");
    let keys: Vec<_> = heard
        .iter()
        .filter_map(|message| message["params"]["_meta"]["sederunt/idempotency_key"].as_str())
        .collect();
    assert_eq!((keys.len(), keys[0]), (4, keys[1]), "{keys:?}");
    assert!(keys[1] != keys[2] && keys[2] != keys[3], "another call is another call: {keys:?}");
}

/// The official clients: what runs them.
fn clients() -> [Vec<String>; 2] {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    let sdk = here.join("node_modules/@modelcontextprotocol/sdk/package.json");
    for needed in [&python, &sdk] {
        assert!(needed.exists(), "{} is missing: run scripts/setup", needed.display());
    }
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    [
        vec![text(&python), text(&here.join("client.py"))],
        vec!["node".to_owned(), text(&here.join("client.mjs"))],
    ]
}

/// Lets each official client do the same steps, over each transport, and gives what came of them.
pub fn spoken(world: &World, http: &[&str], steps: &Value) -> Vec<Vec<Value>> {
    let binary = env!("CARGO_BIN_EXE_sederunt");
    let mut outcomes = Vec::new();
    for client in clients() {
        for way in [vec!["stdio", binary, "mcp"], [&["http"], http].concat()] {
            let mut command = Command::new(&client[0]);
            command.arg(&client[1]).arg(steps.to_string()).args(&way).current_dir(world.directory.path());
            let ran = ran(command.stdin(Stdio::null()).output().unwrap());
            assert_eq!(ran.code, 0, "{client:?} {way:?}: {}", ran.stderr);
            outcomes.push(serde_json::from_str(&ran.stdout).unwrap());
        }
    }
    outcomes
}

#[test]
fn the_official_clients_find_the_tools_and_resources_on_both_ways() {
    let world = furnished();
    let server = world.serve(&["--workers", "0"]);
    let failed = {
        let run = world.json(&["tasks", "trigger", "letter"]);
        let id = run["id"].as_str().unwrap().to_owned();
        let stop = format!("/api/sessions/{id}/stop");
        let client = sederunt_api::client::Client::new(&server.url, None).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { client.post::<Value>(&stop, &json!({})).await.unwrap() });
        id
    };
    let steps = json!([
        ["tools"], ["call", "getTaskStatus", {"taskId": "letter"}], ["call", "retrySession", {"sessionId": failed}],
        ["call", "retrySession", {"sessionId": "nothing"}], ["call", "getTaskStatus", {"taskId": 5}],
        ["call", "no_such_tool", {}], ["resources"], ["templates"], ["read", "sederunt://sessions/cli:main"],
        ["read", "sederunt://sessions/cli:main/transcript"], ["read", "sederunt://sessions/nothing"],
    ]);
    let mut retried = std::collections::HashSet::new();
    for outcome in spoken(&world, &[&format!("{}/mcp", server.url)], &steps) {
        let [
            hello,
            tools,
            standing,
            again,
            missing,
            misfit,
            unknown,
            resources,
            templates,
            json,
            paper,
            nothing,
        ] = &outcome[..]
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(hello["server"], "sederunt");
        assert!(tools.as_array().unwrap().contains(&json!("getTaskStatus")), "{tools}");
        assert_eq!(
            (&standing["is_error"], &standing["value"]["task_slug"]),
            (&json!(false), &json!("letter"))
        );
        let text: Value = serde_json::from_str(standing["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, standing["value"]);
        assert_eq!(again["value"]["retry_of"], json!(failed), "{again}");
        assert!(retried.insert(again["value"]["id"].as_str().unwrap().to_owned()), "each call is one run");
        assert_eq!(
            (&missing["is_error"], &missing["value"]["error"]["code"]),
            (&json!(true), &json!("not_found"))
        );
        assert_eq!(misfit["value"]["error"]["field"], "taskId", "{misfit}");
        assert_eq!(unknown["error"], -32602);
        assert!(
            resources.as_array().unwrap().contains(&json!("sederunt://sessions/cli:main")),
            "{resources}"
        );
        assert_eq!(templates[0], "sederunt://sessions/{id}");
        let shown: Value = serde_json::from_str(json["text"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&json["mime_type"], &shown["session"]["id"]),
            (&json!("application/json"), &json!("cli:main"))
        );
        assert!(paper["text"].as_str().unwrap().starts_with("# About cli:main"), "{paper}");
        assert_eq!(nothing["error"], -32002);
    }
    assert_eq!(retried.len(), 4);
}

#[test]
fn the_official_clients_give_feedback_and_are_told_what_it_taught() {
    let world = furnished();
    let server = world.serve(&["--workers", "0"]);
    let client = sederunt_api::client::Client::new(&server.url, None).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let post = |path: String, body: Value| runtime.block_on(client.post::<Value>(&path, &body)).unwrap();
    let thumb = || json!({"signal": "down", "context": "It edited the lock file by hand"});
    let first = post("/api/feedback".to_owned(), thumb());
    let session = first["feedback_session"]["session_id"].as_str().unwrap();
    let done = post(format!("/api/feedback/sessions/{session}/finalize"), json!({}));
    let uri = format!("sederunt://lessons/{}", done["lesson"]["id"].as_str().unwrap());
    let open = post("/api/feedback".to_owned(), thumb());
    let (event, session) = (&open["feedback_event_id"], &open["feedback_session"]["session_id"]);
    let mut on_a_session = thumb();
    on_a_session["sessionId"] = json!("cli:main");
    on_a_session["sequences"] = json!([1]);
    let steps = json!([
        ["tools"], ["call", "capture_feedback", {"signal": "up"}], ["call", "capture_feedback", on_a_session],
        ["call", "open_feedback_session", {"feedbackEventId": event, "signal": "down"}],
        ["call", "append_feedback_context", {"sessionId": session, "message": "and slowly"}],
        ["call", "append_feedback_context", {"sessionId": session, "message": "x", "role": "system"}],
        ["call", "finalize_feedback_session", {"sessionId": session}], ["call", "feedback_summary", {}],
        ["call", "feedback_stats", {}], ["call", "recall", {"query": "edit the lock file"}],
        ["call", "search_lessons", {"query": "lock"}], ["call", "retrieve_lessons", {"toolName": "edit", "actionContext": "lock file"}],
        ["call", "prevention_rules", {"minOccurrences": 1}], ["call", "prevention_rules", {"outputPath": "x"}], ["read", uri],
    ]);
    for (at, outcome) in spoken(&world, &[&format!("{}/mcp", server.url)], &steps).iter().enumerate() {
        assert_eq!(outcome[1].as_array().unwrap().len(), 12);
        let of = |step: usize| {
            assert_eq!(outcome[step]["is_error"], json!(false), "{}", outcome[step]);
            outcome[step]["value"].clone()
        };
        assert_eq!(of(2)["status"], "clarification_required");
        assert_eq!(of(3)["feedback_session"]["status"], "open");
        assert_eq!(of(4)["status"], "open");
        // All four talk about one session, which the first of them closes.
        assert_eq!(of(5)["status"], if at == 0 { "appended" } else { "closed" });
        assert_eq!(
            (&outcome[6]["is_error"], &outcome[6]["value"]["error"]["field"]),
            (&json!(true), &json!("role"))
        );
        assert_eq!(of(7)["status"], if at == 0 { "finalized" } else { "already_finalized" });
        assert_eq!(of(8)["markdown"], outcome[8]["text"]);
        assert!(of(9)["down"].as_u64().unwrap() >= 2);
        assert!(outcome[10]["text"].as_str().unwrap().contains("lock file"), "{}", outcome[10]);
        assert!(of(11)["items"][0]["text"].as_str().unwrap().contains("lock file"));
        assert!(of(12)["items"][0]["text"].as_str().unwrap().contains("lock file"));
        assert!(of(13)["items"][0]["then"].is_string());
        assert_eq!(outcome[14]["value"]["error"]["field"], "outputPath");
        assert!(outcome[15]["text"].as_str().unwrap().contains("lock file"), "{}", outcome[15]);
    }
}

#[test]
fn the_official_clients_show_their_key() {
    let world = furnished();
    let server = world.serve(&["--auth", "keys"]);
    let key = world.json(&["keys", "create", "--role", "member", "--user", "ada"]);
    let steps = json!([["call", "getTaskStatus", {"taskId": "letter"}]]);
    let url = format!("{}/mcp", server.url);
    let outcomes = spoken(&world, &[&url, key["key"].as_str().unwrap()], &steps);
    let found: Vec<_> = outcomes.iter().map(|outcome| outcome[1]["is_error"] == json!(false)).collect();
    assert_eq!(found, [true, false, true, false], "over stdio they are the owner of the store");
}
