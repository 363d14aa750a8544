//! A server that answers the talk routes as the contract says, by heart, and remembers what it was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::PATIENCE;

/// What is known of a server's day.
#[derive(Default)]
struct Day {
    asked: Vec<Asked>,
    /// Conversations with an open sitting.
    sittings: Vec<String>,
    facts: Vec<Value>,
    rules: Vec<Value>,
    stopped: bool,
    /// Nothing can be summed up.
    broken: bool,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub body: Value,
}

#[derive(Clone)]
pub struct Stub {
    pub url: String,
    day: Arc<(Mutex<Day>, Condvar)>,
}

impl Stub {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fact = |id: &str, object: &str| json!({"id": id, "subject": "user", "predicate": "lives_in", "object": object, "quote": format!("I live in {object}")});
        let day = Day {
            facts: vec![fact("f-1", "Oslo"), fact("f-2", "Bergen")],
            rules: vec![json!({"id": "r-1", "text": "Be brief", "quotes": []})],
            ..Day::default()
        };
        let stub = Self { url, day: Arc::new((Mutex::new(day), Condvar::new())) };
        let serving = stub.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        stub
    }

    /// A server on which no sitting can be summed up.
    pub fn broken() -> Self {
        let stub = Self::start();
        stub.day.0.lock().unwrap().broken = true;
        stub
    }

    /// The bodies of all requests of a kind whose path ends so.
    pub fn asked(&self, method: &str, end: &str) -> Vec<Value> {
        let day = self.day.0.lock().unwrap();
        let these = day.asked.iter().filter(|asked| asked.method == method && asked.path.ends_with(end));
        these.map(|asked| asked.body.clone()).collect()
    }

    /// The paths of all requests of a kind.
    pub fn paths(&self, method: &str) -> Vec<String> {
        let day = self.day.0.lock().unwrap();
        day.asked.iter().filter(|asked| asked.method == method).map(|asked| asked.path.clone()).collect()
    }

    /// Somebody else deletes the first fact.
    pub fn lose_first_fact(&self) {
        self.day.0.lock().unwrap().facts.remove(0);
    }

    fn serve(&self, stream: TcpStream) {
        let mut head = [0; 64];
        let is_socket = loop {
            let seen = stream.peek(&mut head).unwrap_or(0);
            if seen == 0 {
                return;
            }
            if head[..seen].contains(&b'\r') || seen == head.len() {
                break head.starts_with(b"GET /api/chat/stream ");
            }
        };
        if is_socket {
            // A client that goes away in the middle is no failure of the server.
            let _ = tungstenite::accept(stream).map(|socket| self.talk(socket));
        } else {
            self.answer(stream);
        }
    }

    fn talk(&self, mut socket: WebSocket<TcpStream>) {
        let Ok(Message::Text(text)) = socket.read() else { return };
        let body: Value = serde_json::from_str(&text).unwrap();
        let message = body["message"].as_str().unwrap().to_owned();
        let thread = body["thread_id"].as_str().unwrap().to_owned();
        {
            let mut day = self.day.0.lock().unwrap();
            day.asked.push(Asked { method: "WS".into(), path: "/api/chat/stream".into(), body });
            day.sittings.push(thread);
        }
        let mut send = |frame: Value| {
            let _ = socket.send(Message::text(frame.to_string()));
        };
        let stage =
            |stage: &str, detail: Option<&str>| json!({"type": "status", "stage": stage, "detail": detail});
        let chunk = |text: &str| json!({"type": "chunk", "text": text});
        let done = |text: &str, level: u8, action: &str| {
            json!({"type": "done", "response": {"response_text": text, "response_type": "talk",
                "response_style": "conversational", "therapeutic_approach": null, "session_action": action,
                "crisis": {"level": level, "confidence": 1.0, "reason_code": "no_signal", "flags": []},
                "diagnostics": {"stages_us": {"safety": 100}}, "sequence": 2, "stopped": false}})
        };
        send(stage("safety", None));
        match message.as_str() {
            "tell me a long story" => {
                send(chunk("Once upon a time "));
                let (day, changed) = &*self.day;
                let day = day.lock().unwrap();
                drop(changed.wait_timeout_while(day, PATIENCE, |day| !day.stopped).unwrap());
                let mut whole = done("Once upon a time", 0, "none");
                whole["response"]["stopped"] = true.into();
                send(whole);
            }
            "i am in danger" => {
                send(stage("route", Some("crisis")));
                send(chunk("Please call 112. "));
                send(chunk("You are not alone."));
                send(done("Please call 112. You are not alone.", 3, "suggest_end_session"));
            }
            "send it" => {
                send(chunk("Let me see."));
                let mut asks = done("Send it?", 0, "none");
                asks["response"]["response_type"] = "confirmation".into();
                asks["response"]["approval_id"] = "ap-1".into();
                send(asks);
            }
            "goodbye" => send(done("Take care.", 0, "suggest_end_session")),
            "break" => {
                send(
                    json!({"type": "error", "code": "unavailable", "message": "the model could not be reached"}),
                );
            }
            other => {
                let reply = format!("You said: {other}.");
                let half = reply.char_indices().nth(5).unwrap().0;
                send(chunk(&reply[..half]));
                send(chunk(&reply[half..]));
                send(done(&reply, 0, "none"));
            }
        }
        let _ = socket.close(None);
        // Until the other side has closed too.
        while socket.read().is_ok() {}
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some((method, path, body)) = request(&mut reader) else { return };
        let (status, answer) = self.decide(&method, &path, &body);
        // A list is a stream of its events.
        let (kind, text) = match answer.as_array() {
            Some(events) => (
                "text/event-stream",
                events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>(),
            ),
            None => ("application/json", answer.to_string()),
        };
        let headers = format!("Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: close", text.len());
        let _ = stream.write_all(format!("HTTP/1.1 {status} X\r\n{headers}\r\n\r\n{text}").as_bytes());
    }

    fn decide(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (lock, changed) = &*self.day;
        let mut day = lock.lock().unwrap();
        let path = path.split('?').next().unwrap_or_default();
        day.asked.push(Asked { method: method.into(), path: path.into(), body: body.clone() });
        let names: Vec<&str> = path.split('/').skip(1).collect();
        let missing = || refusal(404, "not_found", "there is no such thing, or it is not yours to see");
        let list = |rows: &[Value]| (200, json!({"items": rows, "next_cursor": null}));
        match (method, names.as_slice()) {
            ("GET", ["api", "threads", id, "session-status"]) => {
                (200, json!({"has_active_session": day.sittings.iter().any(|open| open == id)}))
            }
            ("POST", ["api", "threads", _, "end"]) if day.broken => {
                refusal(503, "unavailable", "the summary could not be made")
            }
            ("POST", ["api", "threads", id, "end"]) => {
                day.sittings.retain(|open| open != id);
                (
                    200,
                    json!({"finalized": true, "summary": "We talked about the sea.", "themes": ["sea"],
                    "mood_opened": "low", "mood_closed": "better", "turn_count": 1, "open_loops": [],
                    "resolved_threads": [], "detail": null}),
                )
            }
            ("POST", ["api", "sessions", id, "stop"]) => {
                day.stopped = true;
                changed.notify_all();
                (200, json!({"id": id}))
            }
            ("GET", ["api", "approvals", id]) => (
                200,
                json!({"id": id, "kind": "tool", "state": "pending", "digest": "d-1", "staged":
                    {"id": "c-1", "name": "send", "summary": "Send it?", "args": {"to": "x"}}}),
            ),
            ("POST", ["api", "approvals", id, "decide"]) => (200, json!({"id": id})),
            ("GET", ["api", "sessions", _, "stream"]) => (
                200,
                json!([
                    {"type": "agent.message", "sequence": 9, "metadata": null,
                     "content": [{"type": "text", "text": "So be it."}]},
                    {"type": "session.turn", "sequence": 10, "metadata": {"outcome": "answered"}},
                ]),
            ),
            ("GET", ["api", "threads"]) => list(&[json!({"thread_id": "trip-to-rome", "turn_count": 3,
                "message_count": 6, "has_context": true})]),
            ("GET", ["api", "threads", _, "history"]) => list(&[
                json!({"role": "user", "text": "earlier"}),
                json!({"role": "assistant", "text": "indeed"}),
            ]),
            ("POST", ["api", "feedback"]) => (200, given(&body["context"])),
            ("POST", ["api", "feedback", "sessions"]) => (200, opened()),
            ("POST", ["api", "feedback", "sessions", id, "append"]) => {
                let status = if body["message"] == "too late" { "closed" } else { "appended" };
                (
                    200,
                    json!({"status": status, "session_id": id, "message_count": 1, "truncated": false,
                    "message": (status == "closed").then_some("it was finalized a while ago")}),
                )
            }
            ("GET", ["api", "sessions", id]) if day.sittings.iter().any(|open| open == id) => {
                (200, json!({"id": id, "turn_count": 1}))
            }
            ("GET", ["api", "sessions", "trip-to-rome"]) => {
                (200, json!({"id": "trip-to-rome", "turn_count": 3}))
            }
            ("GET", ["api", "memory", "status"]) => (
                200,
                json!({"facts": day.facts.len(), "arcs": 0, "rules": 1,
                "recall_enabled": true, "session_feedback_count": 4, "crisis_log_count": 0}),
            ),
            ("GET", ["api", "memory", "facts"]) => list(&day.facts),
            ("GET", ["api", "memory", "rules"]) => list(&day.rules),
            ("GET", ["api", "memory", "arcs"]) => list(&[]),
            ("DELETE", ["api", "memory", "facts", id]) => {
                let before = day.facts.len();
                day.facts.retain(|fact| fact["id"] != *id);
                if day.facts.len() < before { (200, json!({})) } else { missing() }
            }
            ("DELETE", ["api", "memory", "rules", _]) => (200, json!({})),
            ("PATCH", ["api", "memory", "recall"]) => (200, json!({"enabled": body["enabled"]})),
            ("GET", ["healthz" | "readyz"]) => (200, json!({"status": "ok", "version": "0"})),
            _ => missing(),
        }
    }
}

fn opened() -> Value {
    json!({"status": "open", "session_id": "fbs_1", "message": "Add more with append_feedback_context; it closes after 60 s of silence"})
}

/// What comes of feedback with these words.
fn given(words: &Value) -> Value {
    match words.as_str() {
        None | Some("wrong") => json!({"status": "clarification_required", "feedback_event_id": "fb_1",
            "prompt": "What went wrong?", "example": "It guessed."}),
        Some("my password") => json!({"status": "blocked", "reason": "credential"}),
        Some(_) => json!({"status": "accepted", "feedback_event_id": "fb_1", "feedback_session": opened(),
            "suggestions": [{"id": "lesson_1", "text": "Be brief", "polarity": "negative"}]}),
    }
}

fn refusal(status: u16, code: &str, message: &str) -> (u16, Value) {
    (status, json!({"error": {"code": code, "message": message, "request_id": "1"}}))
}

/// One request from a connection; nothing when the client has gone.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(':') {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.trim().to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, path, serde_json::from_slice(&body).unwrap_or_default()))
}
