//! A worker whose lease lapsed writes nothing more: not by any verb, not before and not after the
//! sweeper or somebody else took over, and not by guessing the new epoch.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Key, Node, PATIENCE, Place, eventually, sederunt};
use crate::ledger::read_log;

const LEASE: Duration = Duration::from_millis(200);
/// Every verb of a claim holder.
const VERBS: [&str; 6] = ["events", "heartbeat", "delta", "complete", "fail", "yield"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_lost_its_lease_is_fenced_off_on_sqlite() {
    a_worker_that_lost_its_lease_is_fenced_off(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_lost_its_lease_is_fenced_off_on_postgres() {
    a_worker_that_lost_its_lease_is_fenced_off(Place::postgres().await).await;
}

async fn a_worker_that_lost_its_lease_is_fenced_off(place: Place) {
    let key = place.create_key("owner", "root");
    let mut never_swept = sederunt();
    never_swept.env("SEDERUNT_WORK_SWEEP_EVERY", "1h");
    let node = Node::launch(never_swept, &place, "keys").listening().await.unwrap();
    let owner = node.client().with_key(&key);
    let keys = [worker(&owner).await, worker(&owner).await];
    let slow = node.client().with_key(&keys[0]);
    let ids = VERBS.map(|verb| format!("job-{verb}"));
    for id in &ids {
        let wish = json!({"id": id, "session_type": "agent", "status": "pending"});
        owner.post("/api/sessions", wish).await.expect(201);
    }

    assert_eq!(claim_all(&slow, LEASE).await, ids.len(), "the slow worker holds everything");
    let claimed = Instant::now();
    eventually("the lease lapses", PATIENCE, async || (claimed.elapsed() > LEASE).then_some(())).await;
    let mut refusals = refused_everywhere(&slow, &ids, 1, &owner).await;
    node.kill_9();

    let node = Node::start_with_keys(&place).await;
    let owner = node.client().with_key(&key);
    let [slow, next] = keys.map(|key| node.client().with_key(&key));
    for id in &ids {
        eventually("the lease is taken back", PATIENCE, async || {
            let session = owner.get(&format!("/api/sessions/{id}")).await.expect(200);
            (session["status"] == "pending" && session["claim"].is_null()).then_some(())
        })
        .await;
    }
    refusals += refused_everywhere(&slow, &ids, 1, &owner).await;

    assert_eq!(
        claim_all(&next, Duration::from_secs(60)).await,
        ids.len(),
        "the next worker holds everything"
    );
    for epoch in [1, 2, 3] {
        refusals += refused_everywhere(&slow, &ids, epoch, &owner).await;
    }
    // Nor is it enough to hold the key that the claim was made with: a run of the same worker that
    // was left behind knows another epoch.
    for epoch in [1, 3] {
        refusals += refused_everywhere(&next, &ids, epoch, &owner).await;
    }
    // An owner is not the holder of the claim either.
    refusals += refused_everywhere(&owner, &ids, 2, &owner).await;
    assert_eq!(refusals, 8 * VERBS.len() * ids.len());

    for (id, verb) in ids.iter().zip(VERBS) {
        let answer = next.post(&format!("/api/sessions/{id}/{verb}"), body(verb, 2)).await;
        assert!((200..300).contains(&answer.status), "{verb} of the claim holder: {answer:?}");
        let kinds: Vec<String> = read_log(&owner, id).await.into_iter().map(|line| line.kind).collect();
        let told = kinds.iter().filter(|kind| *kind == "agent.message").count();
        assert_eq!(told, usize::from(verb == "events"), "{id}: {kinds:?}");
    }
}

/// Tries every verb on every session. Each is refused as fenced and leaves no trace.
async fn refused_everywhere(worker: &Client, ids: &[String], epoch: u64, owner: &Client) -> usize {
    let mut refusals = 0;
    for id in ids {
        let before = outside(owner, id).await;
        for verb in VERBS {
            let answer = worker.post(&format!("/api/sessions/{id}/{verb}"), body(verb, epoch)).await;
            assert_eq!(
                (answer.status, answer.code()),
                (409, "fenced"),
                "{verb} with {epoch}: {}",
                answer.body
            );
            refusals += 1;
        }
        assert_eq!(outside(owner, id).await, before, "a refused call has left a trace on {id}");
    }
    refusals
}

/// What anyone can see of a session that a worker's call could change.
async fn outside(owner: &Client, id: &str) -> Value {
    let session = owner.get(&format!("/api/sessions/{id}")).await.expect(200);
    json!([session["status"], session["version"], session["last_sequence"], session["claim"]])
}

fn body(verb: &str, epoch: u64) -> Value {
    match verb {
        "events" => json!({"epoch": epoch, "events": [{"type": "agent.message", "content": "done"}]}),
        "heartbeat" => json!({"epoch": epoch}),
        "delta" => json!({"epoch": epoch, "text": "half a wor"}),
        "complete" => json!({"epoch": epoch, "result": 7}),
        "fail" => json!({"epoch": epoch, "error": "it broke", "retryable": true}),
        "yield" => json!({"epoch": epoch, "kind": "human", "question": {"text": "may I?"}}),
        _ => unreachable!("{verb}"),
    }
}

async fn claim_all(worker: &Client, lease: Duration) -> usize {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap();
    let order = json!({"worker": "w", "limit": 50, "lease_ms": lease_ms});
    worker.post("/api/claims", order).await.expect(200)["claims"].as_array().unwrap().len()
}

async fn worker(owner: &Client) -> Key {
    Key::of(&owner.post("/api/keys", json!({"role": "worker"})).await.expect(201))
}
