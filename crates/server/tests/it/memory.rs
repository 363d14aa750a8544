//! /api/memory

use serde_json::json;

use crate::house::{Ground, Guest, House, on_every_store};

on_every_store!(
    what_is_remembered_can_be_listed_and_forgotten_by_its_id,
    recall_is_switched_for_its_owner,
    rules_are_listed_and_forgotten,
    a_page_of_facts_goes_on_where_the_last_one_ended,
    nobody_is_asked_about_in_general,
);

async fn remember(guest: &Guest<'_>, thread: &str, what: &str) {
    let wish = json!({"thread_id": thread, "message": format!("Remember that {what}"), "user_id": "ada"});
    let answer = guest.post("/api/chat", wish).await.expect(200).body;
    assert_eq!(answer["response_type"], "memory", "{answer}");
}

async fn what_is_remembered_can_be_listed_and_forgotten_by_its_id(ground: Ground) {
    let house = House::local(ground).await;
    let me = house.anyone();
    remember(&me, "t", "my sister is called Mona").await;
    let facts = me.get("/api/memory/facts?user_id=ada").await.expect(200).body;
    let fact = &facts["items"][0];
    assert!(fact["object"].as_str().unwrap().contains("Mona"), "{fact}");
    assert_eq!(fact["sources"][0]["session_id"], "t");
    assert_eq!(fact["sources"][0]["sequences"].as_array().unwrap().len(), 1);
    let id = fact["id"].as_str().unwrap();
    me.delete(&format!("/api/memory/facts/{id}?user_id=bob")).await.refused(404, "not_found");
    me.delete(&format!("/api/memory/arcs/{id}?user_id=ada")).await.refused(404, "not_found");
    me.delete(&format!("/api/memory/facts/{id}?user_id=ada")).await.expect(204);
    me.delete(&format!("/api/memory/facts/{id}?user_id=ada")).await.refused(404, "not_found");
    assert_eq!(me.get("/api/memory/facts?user_id=ada").await.expect(200).body["items"], json!([]));
}

async fn recall_is_switched_for_its_owner(ground: Ground) {
    let house = House::local(ground).await;
    let me = house.anyone();
    let status = async |user: &str| {
        me.get(&format!("/api/memory/status?user_id={user}")).await.expect(200).body["recall_enabled"].clone()
    };
    assert_eq!(status("ada").await, json!(false));
    me.patch("/api/memory/recall", json!({"enabled": true, "user_id": "ada"})).await.expect(200);
    assert_eq!((status("ada").await, status("bob").await), (json!(true), json!(false)));
    me.patch("/api/memory/recall", json!({"enabled": "yes", "user_id": "ada"})).await.refused(422, "invalid");
}

async fn rules_are_listed_and_forgotten(ground: Ground) {
    let house = House::local(ground).await;
    let me = house.anyone();
    for text in ["Please always answer briefly", "Please always answer briefly"] {
        me.post("/api/chat", json!({"thread_id": "t", "message": text})).await.expect(200);
    }
    me.post("/api/threads/t/end", json!({})).await.expect(200);
    let rules = me.get("/api/memory/rules?thread_id=t").await.expect(200).body;
    assert_eq!(rules["items"].as_array().unwrap().len(), 1, "{rules}");
    let id = rules["items"][0]["id"].as_str().unwrap().to_owned();
    me.delete(&format!("/api/memory/rules/{id}?thread_id=t")).await.expect(204);
    me.delete(&format!("/api/memory/rules/{id}?thread_id=t")).await.refused(404, "not_found");
}

async fn a_page_of_facts_goes_on_where_the_last_one_ended(ground: Ground) {
    let house = House::local(ground).await;
    let me = house.anyone();
    for what in ["I own a red kayak", "the cellar is full of apples", "Tuesday is chess night"] {
        remember(&me, "t", what).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = me.get(&format!("/api/memory/facts?user_id=ada&limit=2{cursor}")).await.expect(200).body;
        seen.extend(page["items"].as_array().unwrap().iter().map(|fact| fact["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 3);
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

async fn nobody_is_asked_about_in_general(ground: Ground) {
    let house = House::local(ground).await;
    for path in ["status", "facts", "arcs", "rules"] {
        house.anyone().get(&format!("/api/memory/{path}")).await.refused(422, "invalid");
    }
}
