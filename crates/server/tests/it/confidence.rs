//! One scale of confidence wherever an answer has one: from 0 to 1, with at most two decimals

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::mcp::{call, given, line, new};
use crate::server::{Caller, StoreKind, TestServer, on_every_store};

on_every_store!(every_answer_says_confidence_on_one_scale);

/// Every confidence in an answer, as it was written.
fn confidences(answer: &Value, found: &mut Vec<String>) {
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Number(number) if name == "confidence" => found.push(number.to_string()),
                    value => confidences(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| confidences(item, found)),
        _ => {}
    }
}

/// What answers have said that is on no scale or on another one.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn look(&mut self, what: &str, answer: &Value) {
        let mut found = Vec::new();
        confidences(answer, &mut found);
        if found.is_empty() {
            self.0.push(format!("{what} says nothing of confidence: {answer}"));
        }
        for written in found {
            let number: f64 = written.parse().unwrap();
            let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            if !(0.0..=1.0).contains(&number) || decimals > 2 {
                self.0.push(format!("{what} says {written}"));
            }
        }
    }

    async fn get(&mut self, who: &Caller<'_>, path: &str) {
        self.look(path, &who.get(path).await.expect(200).body);
    }
}

async fn every_answer_says_confidence_on_one_scale(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, ben) = (server.key(Role::Owner, "ann").await, server.key(Role::Member, "ben").await);
    let mut wrong = Wrong::default();
    let chat = async |text: &str| {
        ann.post("/api/chat", json!({"thread_id": "t", "message": text})).await.expect(200).body
    };
    for text in ["Remember that I live in Graz", "Hello", "I can't go on like this, I want to die"] {
        wrong.look(text, &chat(text).await);
    }
    wrong.get(&ann, "/api/threads/t/state").await;
    wrong.get(&ann, "/api/sessions/t/replay").await;
    wrong.get(&ann, "/api/sessions/t/events").await;
    wrong.get(&ann, "/api/memory/facts").await;

    for who in [&ann, &ben, &ben] {
        let thumb = json!({"signal": "down", "context": "You edited the lock file by hand again"});
        let captured = who.post("/api/feedback", thumb).await.expect(200).body;
        let session = captured["feedback_session"]["session_id"].as_str().unwrap();
        let done = who.post(&format!("/api/feedback/sessions/{session}/finalize"), json!({})).await;
        wrong.look("finalize", &done.expect(200).body);
    }
    wrong.get(&ann, "/api/lessons").await;
    wrong.get(&ann, "/api/lessons/rules").await;

    let local = TestServer::local(store_kind).await;
    let line = line(&local, &[], new()).await;
    let thumb = json!({"signal": "down", "context": "You edited the lock file by hand again"});
    let captured = given(call(&line, "capture_feedback", thumb).await);
    let session = json!({"sessionId": captured["feedback_session"]["session_id"]});
    wrong.look("finalize_feedback_session", &given(call(&line, "finalize_feedback_session", session).await));
    wrong.look("search_lessons", &given(call(&line, "search_lessons", json!({})).await));
    assert!(wrong.0.is_empty(), "{}", wrong.0.join("\n"));
}
