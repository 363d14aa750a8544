//! `kill -9` while responses are submitted and their promotions decided: a submitted response has one submit event and
//! one promotion, and an entity is there exactly where its approval and its event are.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Client, Node, Place};

const ROUNDS: usize = 4;
const RESPONSES: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_between_submits_and_decisions_leaves_no_half_on_sqlite() {
    kill_9_leaves_no_half(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_between_submits_and_decisions_leaves_no_half_on_postgres() {
    kill_9_leaves_no_half(Place::postgres().await).await;
}

async fn kill_9_leaves_no_half(place: Place) {
    let node = Node::start(&place).await;
    let view = json!({"id": "form", "title": "Form", "questions": [{"key": "n", "label": "N"}],
        "response": {"entity_type": "note", "fields": {"n": "n"}, "promote": "approval", "once": false}});
    node.client().post("/api/views", view).await.expect(201);
    drop(node);
    let (mut submitted, mut approved) = (0, 0);
    for round in 0..ROUNDS {
        let node = Node::start(&place).await;
        let client = node.client();
        let mut ids = Vec::new();
        for _ in 0..RESPONSES {
            let opened = client.post("/api/views/form/responses", json!({})).await.expect(201);
            let id = opened["id"].as_str().unwrap().to_owned();
            let values = json!({"values": {"n": format!("{round}")}});
            // The same respondent may open the next one only after this one is submitted: two submit it at once.
            let path = format!("/api/responses/{id}/submit");
            let both = join_all([0, 1].map(|_| client.post(&path, values.clone()))).await;
            both.into_iter().for_each(|answer| drop(answer.expect(200)));
            submitted += 1;
            ids.push(id);
        }
        let deciding = ids.clone().into_iter().map(|id| {
            let client = client.clone();
            tokio::spawn(async move {
                let Some(approval) = promotion(&client, &id).await else { return false };
                let path = format!("/api/approvals/{approval}/decide");
                let decision = json!({"decision": "approve"});
                let answer = client.send("POST", &path, Some(&decision), None).await;
                answer.is_ok_and(|answer| answer.status == 200)
            })
        });
        let deciding: Vec<_> = deciding.collect();
        tokio::time::sleep(std::time::Duration::from_millis(5 + 15 * round as u64)).await;
        node.kill_9();
        let acknowledged: Vec<bool> = join_all(deciding).await.into_iter().map(Result::unwrap).collect();

        let node = Node::start(&place).await;
        let client = node.client();
        for (id, acknowledged) in ids.iter().zip(acknowledged) {
            let is_promoted = check(&client, id).await;
            assert!(is_promoted || !acknowledged, "an acknowledged decision is there: {id}");
            if !is_promoted {
                let approval = promotion(&client, id).await.expect("one promotion waits");
                let path = format!("/api/approvals/{approval}/decide");
                client.post(&path, json!({"decision": "approve"})).await.expect(200);
                assert!(check(&client, id).await);
            }
            approved += 1;
        }
    }
    assert_eq!((submitted, approved), (ROUNDS * RESPONSES, ROUNDS * RESPONSES));
    let node = Node::start(&place).await;
    let made = node.client().get("/api/entities?type_slug=note&limit=200").await.expect(200);
    assert_eq!(made["items"].as_array().unwrap().len(), approved, "an entity for each, once");
}

/// The pending promotion of a response.
async fn promotion(client: &Client, id: &str) -> Option<String> {
    let path = format!("/api/approvals?state=pending&session_id={id}");
    let answer = client.send("GET", &path, None, None).await.ok()?;
    Some(answer.body["items"][0]["id"].as_str()?.to_owned())
}

/// Whether a response was promoted; everything about it says the same.
async fn check(client: &Client, id: &str) -> bool {
    let response = client.get(&format!("/api/responses/{id}")).await.expect(200);
    let approvals = client.get(&format!("/api/approvals?session_id={id}")).await.expect(200);
    let [approval] = &approvals["items"].as_array().unwrap()[..] else { panic!("{approvals}") };
    let entity = approval["promotion"]["entity_id"].as_str().unwrap();
    let is_made = client.get(&format!("/api/entities/{entity}")).await.status == 200;
    let events = async |kind: &str| -> usize {
        let page: Value = client.get(&format!("/api/sessions/{id}/events?types={kind}")).await.expect(200);
        page["events"].as_array().unwrap().len()
    };
    assert_eq!(events("user.form_submit").await, 1);
    let is_promoted = response["status"] == "promoted";
    assert_eq!(is_promoted, approval["state"] == "approved", "{approval}");
    assert_eq!(is_promoted, is_made, "{approval}");
    assert_eq!(usize::from(is_promoted), events("user.output_approval").await);
    assert_eq!(is_promoted, !response["promoted_at"].is_null());
    is_promoted
}
