//! Nodes that race for the same work: every claim, every move and every settlement has one winner.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::harness::{Answer, Client, Node, Place};
use crate::ledger::read_log;

const SESSIONS: usize = 300;
const WORKERS: usize = 12;
const RACES: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_hand_out_each_session_once() {
    each_session_is_claimed_once(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_hand_out_each_session_once() {
    each_session_is_claimed_once(3).await;
}

async fn each_session_is_claimed_once(nodes: usize) {
    let (_place, nodes) = nodes_on_one_database(nodes).await;
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    let creators = (0..WORKERS).map(|worker| {
        let client = clients[worker % clients.len()].clone();
        async move {
            for number in (worker..SESSIONS).step_by(WORKERS) {
                open(&client, &format!("job-{number}"), "pending").await;
            }
        }
    });
    join_all(creators).await;

    let start = Arc::new(Barrier::new(WORKERS));
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (client, start) = (clients[worker % clients.len()].clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                claim_all(&client, worker).await
            })
        })
        .collect();
    let mut holders: HashMap<String, usize> = HashMap::new();
    for (worker, task) in workers.into_iter().enumerate() {
        for session in task.await.unwrap() {
            let first = holders.insert(session.clone(), worker);
            assert_eq!(first, None, "{session} was handed out twice, the second time to {worker}");
        }
    }
    assert_eq!(holders.len(), SESSIONS);
    let busy = (0..WORKERS).filter(|worker| holders.values().any(|holder| holder == worker)).count();
    assert!(busy >= WORKERS / 2, "only {busy} workers got anything: that was no race");
    for session in holders.keys().take(60) {
        let claimed = read_log(&clients[0], session).await;
        assert_eq!(claimed.iter().filter(|line| line.kind == "session.claimed").count(), 1, "{session}");
    }
}

/// Claims one to three at a time until nothing is left; settles every second one on the way.
async fn claim_all(client: &Client, worker: usize) -> Vec<String> {
    let mut held = Vec::new();
    loop {
        let order =
            json!({"worker": format!("worker-{worker}"), "limit": 1 + held.len() % 3, "lease_ms": 60_000});
        let claims = client.post("/api/claims", order).await.expect(200);
        let claims = claims["claims"].as_array().unwrap().clone();
        if claims.is_empty() {
            return held;
        }
        for claim in claims {
            assert_eq!(claim["epoch"], 1, "{claim}");
            let id = claim["session"]["id"].as_str().unwrap().to_owned();
            if held.len() % 2 == 0 {
                client.post(&format!("/api/sessions/{id}/complete"), json!({"epoch": 1})).await.expect(200);
            }
            held.push(id);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_of_moves_settlements_or_appends_has_one_winner() {
    let (_place, nodes) = nodes_on_one_database(2).await;
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    let client = &clients[0];
    for race in 0..RACES {
        let id = format!("race-{race}");
        open(client, &id, "draft").await;
        let start = json!({"to": "pending", "expected": "draft"});
        one_winner(&clients, &id, "transition", 200, "invalid_transition", |_| start.clone()).await;

        let told = json!({"type": "race.told"});
        let seen = read_log(client, &id).await.len();
        let append = |_| json!({"events": [told], "expected_sequence": seen});
        one_winner(&clients, &id, "events", 201, "sequence_mismatch", append).await;

        let claims = client.post("/api/claims", json!({"worker": "racer"})).await.expect(200);
        assert_eq!(claims["claims"][0]["session"]["id"], id, "{claims}");
        let winner = one_winner(
            &clients,
            &id,
            "complete",
            200,
            "fenced",
            |racer| json!({"epoch": 1, "result": {"racer": racer}}),
        )
        .await;
        let session = client.get(&format!("/api/sessions/{id}")).await.expect(200);
        assert_eq!(session["status"], "completed");
        assert_eq!(session["result"], json!({"racer": winner}), "the winner was told, and another won");
        let log = read_log(client, &id).await;
        assert_eq!(log.iter().filter(|line| line.kind == "session.completed").count(), 1);
        assert_eq!(log.iter().filter(|line| line.kind == "race.told").count(), 1);
    }
}

/// Sends the same wish from everywhere at once. Exactly one is granted; returns which.
async fn one_winner(
    clients: &[Client],
    id: &str,
    verb: &str,
    granted: u16,
    conflict: &str,
    body: impl Fn(usize) -> Value,
) -> usize {
    let start = Arc::new(Barrier::new(WORKERS));
    let racers = (0..WORKERS).map(|racer| {
        let (client, start, body) = (clients[racer % clients.len()].clone(), start.clone(), body(racer));
        let path = format!("/api/sessions/{id}/{verb}");
        tokio::spawn(async move {
            start.wait().await;
            client.post(&path, body).await
        })
    });
    let answers: Vec<Answer> = join_all(racers).await.into_iter().map(Result::unwrap).collect();
    let (winners, losers): (Vec<_>, Vec<_>) =
        answers.iter().enumerate().partition(|(_, answer)| answer.status == granted);
    assert_eq!(winners.len(), 1, "{verb}: {answers:?}");
    for (_, loser) in losers {
        assert_eq!((loser.status, loser.code()), (409, conflict), "{verb}: {}", loser.body);
    }
    winners[0].0
}

async fn open(client: &Client, id: &str, status: &str) {
    let wish = json!({"id": id, "session_type": "agent", "status": status});
    client.post("/api/sessions", wish).await.expect(201);
}

async fn nodes_on_one_database(count: usize) -> (Place, Vec<Node>) {
    let place = Place::postgres().await;
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(Node::start(&place).await);
    }
    (place, nodes)
}
