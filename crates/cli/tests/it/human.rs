use serde_json::{Value, json};

use crate::world::World;

#[test]
fn a_person_says_what_they_work_on_with_and_without_a_server() {
    let world = World::new();
    std::fs::write(world.path("task.json"), json!({"slug": "q2", "name": "Q2 review"}).to_string()).unwrap();
    world.ok(&["tasks", "create", "task.json"]);
    assert!(world.ok(&["human", "active"]).contains("working on nothing"));
    let started = world.ok(&["human", "start", "q2"]);
    assert!(started.contains("Q2 review"), "{started}");
    let again = world.json(&["human", "start", "q2"]);
    world.ok(&["tasks", "pause", "q2"]);
    assert_eq!(
        world.json(&["human", "start", "q2"])["session"],
        again["session"],
        "it goes on, paused or not"
    );
    let alone = world.json(&["human", "active"]);
    assert_eq!((&alone["session"]["user_id"], &alone["task"]["slug"]), (&Value::Null, &json!("q2")));

    let server = world.serve(&["--workers", "0"]);
    let session = world.json(&["human", "active"])["session"]["id"].as_str().unwrap().to_owned();
    assert_eq!(alone["session"]["id"], session.as_str(), "the same person beside a server");
    // A caller without a credential is that person too.
    let client = sederunt_api::client::Client::new(&server.url, None).unwrap();
    let body = json!({"events": [{"type": "human.marker", "content": "drafting"}]});
    let path = format!("/api/sessions/{session}/events");
    let done: Value =
        tokio::runtime::Runtime::new().unwrap().block_on(async { client.post(&path, &body).await.unwrap() });
    assert_eq!((&done["dropped"], &done["last_sequence"]), (&json!(0), &json!(2)));
    let block = world.ok(&["human", "block", "--limit", "5"]);
    assert!(block.starts_with("<recent-activity untrusted=\"true\">\n"), "{block}");
    assert!(block.ends_with("marker \"drafting\"\n</recent-activity>\n"), "{block}");
    assert_eq!(world.json(&["human", "block"])["block"].as_str().map(str::len), Some(block.len() - 1));
    let stopped = world.json(&["human", "stop"]);
    assert!(world.ok(&["human", "block"]).contains("working on nothing"));
    assert_eq!(world.json(&["human", "block"]), json!({"block": null}));
    assert_eq!((&stopped["status"], &stopped["id"]), (&json!("completed"), &json!(session)));
    assert_eq!(world.json(&["human", "stop", &session])["status"], "completed");
    assert_eq!(world.json(&["human", "forget", "--before", "2020-01-01T00:00:00Z"]), json!({"deleted": 0}));
    assert_eq!(world.json(&["human", "forget"]), json!({"deleted": 1}));
    assert!(world.ok(&["human", "forget"]).contains("deleted 0 sessions"));
    world.fails(&["human", "start", "q2"], 4);
    world.fails(&["human", "start", "nothing"], 3);
    assert!(world.json(&["human", "active"])["session"].is_null());
    assert_eq!(world.json(&["human", "stop"]), json!({"session": null}));
}
