//! A person who starts work twice at the same instant, or whose server dies: one human session runs.

use serde_json::{Value, json};

use crate::harness::{Answer, Client, Node, Place};

const RACES: usize = 200;

async fn tasks(client: &Client) {
    for slug in ["one", "two"] {
        client.post("/api/tasks", json!({"slug": slug, "name": slug})).await.expect(201);
    }
}

async fn start(client: &Client, task: &str) -> Answer {
    client.post("/api/sessions/human/start", json!({"task_id": task})).await
}

fn session(answer: Answer) -> String {
    assert!([200, 201].contains(&answer.status), "{} {}", answer.status, answer.body);
    answer.body["session"]["id"].as_str().unwrap().to_owned()
}

/// The ids of the human sessions with this status.
async fn bridges(client: &Client, status: &str) -> Vec<String> {
    let path = format!("/api/sessions?kind=human-session-bridge&status={status}&limit=1000");
    let page: Value = client.get(&path).await.expect(200);
    page["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_starts_at_once_on_two_nodes_one_runs_and_the_other_is_superseded_or_the_same() {
    let place = Place::postgres().await;
    let (one, two) = (Node::start(&place).await, Node::start(&place).await);
    let (one, two) = (one.client(), two.client());
    tasks(&one).await;
    let (mut superseded, mut shared) = (0, 0);
    for race in 0..RACES {
        let other = if race % 2 == 0 { "two" } else { "one" };
        let (first, second) = tokio::join!(start(&one, "one"), start(&two, other));
        let (first, second) = (session(first), session(second));
        let running = bridges(&one, "running").await;
        assert_eq!(running.len(), 1, "race {race}");
        assert!(running[0] == first || running[0] == second, "race {race}");
        if first == second {
            shared += 1;
        } else {
            let lost = if running[0] == first { &second } else { &first };
            let row = one.get(&format!("/api/sessions/{lost}")).await.expect(200);
            assert_eq!((&row["status"], &row["end_reason"]), (&json!("completed"), &json!("superseded")));
            superseded += 1;
        }
        one.post("/api/sessions/human/stop", json!({"session_id": running[0]})).await.expect(200);
    }
    assert_eq!((superseded, shared), (RACES / 2, RACES / 2), "of different tasks, and of the same task");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_survives_a_kill_and_the_next_supersedes_it_on_sqlite() {
    a_start_survives_a_kill_and_the_next_supersedes_it(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_survives_a_kill_and_the_next_supersedes_it_on_postgres() {
    a_start_survives_a_kill_and_the_next_supersedes_it(Place::postgres().await).await;
}

async fn a_start_survives_a_kill_and_the_next_supersedes_it(place: Place) {
    let node = Node::start(&place).await;
    tasks(&node.client()).await;
    let first = session(start(&node.client(), "one").await);
    let marker = json!({"events": [{"type": "human.marker", "content": "before"}]});
    let path = format!("/api/sessions/{first}/events");
    node.client().post(&path, marker.clone()).await.expect(201);
    node.kill_9();

    let node = Node::start(&place).await;
    let client = node.client();
    assert_eq!(session(start(&client, "one").await), first, "it still runs");
    let done = client.post(&path, marker.clone()).await.expect(201);
    assert_eq!(done["last_sequence"], 3);
    node.kill_9();

    let node = Node::start(&place).await;
    let client = node.client();
    let second = session(start(&client, "two").await);
    assert_eq!(bridges(&client, "running").await, [second]);
    assert_eq!(bridges(&client, "completed").await, [first]);
    assert_eq!(client.post(&path, marker).await.code(), "session_closed");
}
