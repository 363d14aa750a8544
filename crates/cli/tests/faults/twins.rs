//! The same request twice, under one idempotency key: across a kill, and on two nodes at the same
//! instant. One effect, and the same answer for everyone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::harness::{Answer, Client, Node, PATIENCE, Place, goes_on, within};
use crate::ledger::read_log;

const SESSION: &str = "cli:twins";
const EVENTS: &str = "/api/sessions/cli:twins/events";
const TWINS: usize = 64;
const WRITERS: usize = 16;
const ROUNDS_MIN: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_one_effect_across_a_kill_on_sqlite() {
    a_key_has_one_effect_across_a_kill(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_one_effect_across_a_kill_on_postgres() {
    a_key_has_one_effect_across_a_kill(Place::postgres().await).await;
}

/// A keyed append, and its answer if one came.
#[derive(Debug)]
struct Sent {
    key: String,
    answer: Option<Value>,
}

/// Two events whose texts name the key; no external id takes part in this.
fn body(key: &str) -> Value {
    let event = |half: &str| json!({"type": "user.message", "content": format!("{key} {half}")});
    json!({"events": [event("first"), event("second")]})
}

async fn a_key_has_one_effect_across_a_kill(place: Place) {
    let (start, mut round, mut sent, mut doubts) = (Instant::now(), 0, Vec::<Sent>::new(), 0);
    let mut node = Node::start(&place).await;
    node.client().open(SESSION).await;
    while round < ROUNDS_MIN || goes_on(start) {
        let now = send_until_killed(node, round, 30 + 23 * (round % 4)).await;
        node = Node::start(&place).await;
        repeat_twice(&node.client(), &now).await;
        doubts += now.iter().filter(|sent| sent.answer.is_none()).count();
        sent.extend(now);
        round += 1;
    }
    let mut times: HashMap<String, usize> = HashMap::new();
    for line in read_log(&node.client(), SESSION).await {
        *times.entry(line.text.unwrap_or_default()).or_default() += 1;
    }
    for key in sent.iter().map(|sent| &sent.key) {
        for half in ["first", "second"] {
            assert_eq!(times.get(&format!("{key} {half}")), Some(&1), "{key}");
        }
    }
    assert!(sent.len() >= 30 * ROUNDS_MIN && doubts >= ROUNDS_MIN, "{} sent, {doubts} in doubt", sent.len());
}

async fn send_until_killed(node: Node, round: usize, answers: usize) -> Vec<Sent> {
    let (answered, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, answered, enough) = (node.client(), answered.clone(), enough.clone());
            tokio::spawn(async move {
                let mut sent = Vec::new();
                loop {
                    let key = format!("r{round}.w{writer}.{}", sent.len());
                    let answer = client.send("POST", EVENTS, Some(&body(&key)), Some(&key)).await.ok();
                    let lost = answer.is_none();
                    sent.push(Sent { key, answer: answer.map(|answer| answer.expect(201)) });
                    if lost {
                        return sent;
                    }
                    if answered.fetch_add(1, Ordering::Relaxed) + 1 == answers {
                        enough.notify_one();
                    }
                }
            })
        })
        .collect();
    within("the appends are answered", PATIENCE, enough.notified()).await;
    node.kill_9();
    let mut sent = Vec::new();
    for task in tasks {
        sent.extend(within("the end is noticed", PATIENCE, task).await.unwrap());
    }
    sent
}

async fn repeat_twice(client: &Client, sent: &[Sent]) {
    join_all(sent.iter().map(async |sent| {
        let first = client.post_keyed(EVENTS, &body(&sent.key), &sent.key).await.expect(201);
        let second = client.post_keyed(EVENTS, &body(&sent.key), &sent.key).await.expect(201);
        assert_eq!(second["events"], first["events"], "{}", sent.key);
        if let Some(answer) = &sent.answer {
            assert_eq!(first["events"], answer["events"], "{}", sent.key);
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twins_on_two_nodes_have_one_effect_and_one_answer() {
    let place = Place::postgres().await;
    let nodes = [Node::start(&place).await, Node::start(&place).await];
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    clients[0].open(SESSION).await;

    for round in 0..4 {
        let key = format!("twins-{round}");
        let answers = at_once(&clients, EVENTS, &body(&key), &key).await;
        let first = answers[0].clone().expect(201);
        assert_eq!(first["events"].as_array().map(Vec::len), Some(2), "{first}");
        for answer in answers {
            assert_eq!(answer.expect(201), first);
        }
        let log = read_log(&clients[1], SESSION).await;
        assert_eq!(log.len(), 1 + 2 * (round + 1), "{log:?}");
        for client in &clients {
            let other = client.post_keyed(EVENTS, &body("something else"), &key).await;
            assert_eq!((other.status, other.code()), (422, "idempotency_mismatch"), "{}", other.body);
        }
        assert_eq!(read_log(&clients[0], SESSION).await.len(), log.len(), "a refused body was written");
    }

    let wish = json!({"session_type": "agent", "status": "pending", "metadata": {"twin": "yes"}});
    let opened = at_once(&clients, "/api/sessions", &wish, "open").await;
    let id = opened[0].body["id"].clone();
    assert!(id.is_string() && opened.iter().all(|answer| answer.status == 201), "{opened:?}");
    assert!(opened.iter().all(|answer| answer.body["id"] == id), "{opened:?}");
    let list = clients[1].get("/api/sessions?metadata.twin=yes").await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");

    for _ in 0..5 {
        clients[0]
            .post("/api/sessions", json!({"session_type": "agent", "status": "pending"}))
            .await
            .expect(201);
    }
    let order = json!({"worker": "w", "limit": 2});
    let claims = at_once(&clients, "/api/claims", &order, "claim").await;
    let ids = |answer: &Answer| -> Vec<Value> {
        let claims = answer.body["claims"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
        claims.iter().map(|claim| claim["session"]["id"].clone()).collect()
    };
    assert_eq!(ids(&claims[0]).len(), 2, "{:?}", claims[0]);
    assert!(claims.iter().all(|answer| ids(answer) == ids(&claims[0])), "twins claimed different sessions");
    let running = clients[1].get("/api/sessions?status=running").await.expect(200);
    assert_eq!(running["items"].as_array().map(Vec::len), Some(2), "{running}");
}

/// Sends the same request from both nodes' clients at one instant.
async fn at_once(clients: &[Client], path: &str, body: &Value, key: &str) -> Vec<Answer> {
    let start = Arc::new(Barrier::new(TWINS));
    let twins = (0..TWINS).map(|twin| {
        let (client, start) = (clients[twin % clients.len()].clone(), start.clone());
        let (path, body, key) = (path.to_owned(), body.clone(), key.to_owned());
        tokio::spawn(async move {
            start.wait().await;
            client.post_keyed(&path, &body, &key).await
        })
    });
    join_all(twins).await.into_iter().map(Result::unwrap).collect()
}
