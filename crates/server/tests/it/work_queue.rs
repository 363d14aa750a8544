//! /api/today: a person's work queue

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store};
use crate::tasks::{claim, complete, judged, stage, trigger};

on_every_store!(work_moves_through_the_buckets_of_its_people, a_queue_is_a_persons,);

async fn counts(who: &Caller<'_>) -> [u64; 5] {
    let counts = who.get("/api/today/work-queue-counts?tz=Europe/London").await.expect(200).body;
    ["needs_me", "running", "delegatable", "failed", "done_today"].map(|name| counts[name].as_u64().unwrap())
}

async fn bucket(who: &Caller<'_>, name: &str) -> Vec<Value> {
    let page = who.get(&format!("/api/today/{name}")).await.expect(200).body;
    page["items"].as_array().unwrap().clone()
}

async fn work_moves_through_the_buckets_of_its_people(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let (ada, bob) = (server.key(Role::Member, "ada").await, server.key(Role::Member, "bob").await);
    stage(&owner).await;
    owner.post("/api/tasks", judged()).await.expect(201);
    assert_eq!(counts(&ada).await, [0, 0, 1, 0, 0]);
    assert_eq!(bucket(&ada, "delegatable").await[0]["task"]["slug"], "report");

    let session = trigger(&owner, "report").await;
    assert_eq!(counts(&ada).await, [0, 1, 0, 0, 0]);
    let line = &bucket(&ada, "running").await[0];
    assert_eq!((&line["kind"], &line["session"]["id"]), (&json!("session"), &json!(session)));

    let claimed = claim(&worker).await;
    complete(&worker, &claimed, json!({"summary": "x", "tone": "kind"})).await.expect(200);
    assert_eq!(counts(&ada).await[0], 1);
    let line = &bucket(&ada, "needs_me").await[0];
    assert_eq!((&line["kind"], &line["session"]["id"]), (&json!("approval"), &json!(session)));
    assert_eq!(
        (&line["task"]["slug"], &line["task"]["name"]),
        (&json!("report"), &json!("Report on a city"))
    );
    let approval = line["approval"]["id"].as_str().unwrap();
    ada.post(&format!("/api/approvals/{approval}/decide"), json!({"decision": "approve"})).await.expect(200);
    assert_eq!(counts(&ada).await, [0, 0, 1, 0, 1]);
    assert_eq!(bucket(&ada, "done_today").await[0]["session"]["id"], json!(session));

    let failing = trigger(&owner, "report").await;
    let claimed = claim(&worker).await;
    let failure = json!({"epoch": claimed["epoch"], "error": "no ink"});
    worker.post(&format!("/api/sessions/{failing}/fail"), failure).await.expect(200);
    assert_eq!(counts(&ada).await, [0, 0, 1, 1, 1]);
    assert_eq!(bucket(&ada, "failed").await[0]["session"]["error_message"], "no ink");
    assert_eq!(counts(&owner).await, [0, 0, 1, 1, 1], "an owner without a name sees every task");
    assert_eq!(counts(&bob).await, [0; 5], "nothing is on the tasks of somebody else");
}

async fn a_queue_is_a_persons(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (guest, worker) = (server.key(Role::Guest, "eve").await, server.key(Role::Worker, "").await);
    for caller in [&guest, &worker] {
        caller.get("/api/today/work-queue-counts").await.refused(403, "denied");
        caller.get("/api/today/running").await.refused(403, "denied");
    }
    owner.get("/api/today/yesterday").await.refused(404, "not_found");
    for query in ["tz=Mars/Olympus", "nonsense=1"] {
        owner.get(&format!("/api/today/work-queue-counts?{query}")).await.refused(422, "invalid");
        owner.get(&format!("/api/today/running?{query}")).await.refused(422, "invalid");
    }
    for query in ["limit=0", "cursor=x"] {
        owner.get(&format!("/api/today/running?{query}")).await.refused(422, "invalid");
    }
}
