//! `kill -9` and a restart on the same SQLite directory, with leases as they are by default: the lock on the directory
//! proves that the old process is gone, so the new one takes over its turn and its run at once. A worker that claimed
//! by HTTP is a process of its own: it outlives the server and keeps its claim.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Node, PATIENCE, Place, eventually, sederunt};
use crate::tool::{self, Seen, Tool};

/// Far below the lease of 30 s that the dead process held, and enough for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_takes_over_what_the_dead_process_ran_and_leaves_other_workers_their_claims() {
    let (place, dir, tool) =
        (Place::sqlite(), TempDir::with_prefix("sederunt-faults-").unwrap(), Tool::start().await);
    let steps = [json!({"call": {"name": "send", "args": {}}}), json!({"say": "That is all."})];
    let agents = tool::script(dir.path(), &steps);
    let serve = async || {
        let mut command = sederunt();
        command.env("SEDERUNT_AGENTS_FILE", &agents).env("SEDERUNT_WORKERS", "2");
        Node::launch(command, &place, "local").listening().await.unwrap()
    };
    let node = serve().await;
    let client = node.client();
    tool::define_sender(&client, &tool.url).await;
    let task = json!({"slug": "send", "name": "Send", "agent_slug": "sender"});
    client.post("/api/tasks", task).await.expect(201);

    tool.forget(true);
    let run = client.post("/api/tasks/send/trigger", json!({})).await.expect(201);
    let run = run["id"].as_str().unwrap();
    tool.wait_for(Seen::Held, 1).await;
    let talk = json!({"id": "cli:talk", "session_type": "mixed", "agent_slug": "sender"});
    client.post("/api/sessions", talk).await.expect(201);
    tool.forget(true);
    client.post("/api/sessions/cli:talk/messages", json!({"text": "Send it."})).await.expect(202);
    tool.wait_for(Seen::Held, 1).await;
    let job = json!({"id": "job", "session_type": "response", "status": "pending"});
    client.post("/api/sessions", job).await.expect(201);
    let order = json!({"worker": "elsewhere", "session_types": ["response"], "lease_ms": 120_000});
    let claims = client.post("/api/claims", order).await.expect(200);
    let epoch = claims["claims"][0]["epoch"].as_u64().expect("the job was handed out");
    assert_eq!(status(&client, run).await, "running");
    node.kill_9();

    let (node, restarted) = (serve().await, Instant::now());
    let client = node.client();
    eventually("the run is taken over and ends", PATIENCE, async || {
        (status(&client, run).await == "completed").then_some(())
    })
    .await;
    eventually("the turn is closed", PATIENCE, async || {
        let page = client.get("/api/sessions/cli:talk/events?types=session.turn").await.expect(200);
        (!page["events"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    assert!(restarted.elapsed() < AT_ONCE, "it took {:?}", restarted.elapsed());
    assert_eq!(status(&client, "job").await, "running");
    client.post("/api/sessions/job/heartbeat", json!({"epoch": epoch})).await.expect(200);
    client.post("/api/sessions/job/complete", json!({"epoch": epoch, "text": "done"})).await.expect(200);
}

async fn status(client: &Client, id: &str) -> Value {
    client.get(&format!("/api/sessions/{id}")).await.expect(200)["status"].clone()
}
