//! /api/search

use sederunt_core::access::Role;
use serde_json::json;

use crate::house::{Ground, House, on_every_store};

on_every_store!(words_are_found_in_what_the_caller_may_see, a_search_needs_words);

async fn words_are_found_in_what_the_caller_may_see(ground: Ground) {
    let house = House::keyed(ground).await;
    let (ann, bob) = (house.key(Role::Member, "ann").await, house.key(Role::Member, "bob").await);
    let id = ann.session(json!({"session_type": "mixed"})).await;
    ann.say(&id, "the budget of the harbour").await.expect(201);
    house.engine.index_now().await.unwrap();
    let hits = ann.get("/api/search?q=harbour+budget").await.expect(200).body;
    let hit = hits["items"].as_array().unwrap().iter().find(|hit| hit["sequence"] == 2).unwrap();
    assert_eq!(hit["session_id"], json!(id));
    assert!(hit["snippet"].as_str().unwrap().contains("harbour"));
    assert_eq!(bob.get("/api/search?q=harbour").await.expect(200).body["items"], json!([]));
    assert_eq!(ann.get("/api/search?q=submarine").await.expect(200).body["items"], json!([]));
}

async fn a_search_needs_words(ground: Ground) {
    let house = House::local(ground).await;
    for path in [
        "/api/search", "/api/search?q=", "/api/search?q=%20!", "/api/search?q=a&cursor=x",
        "/api/search?x=1&q=a",
    ] {
        house.anyone().get(path).await.refused(422, "invalid");
    }
    let long = "a".repeat(501);
    house.anyone().get(&format!("/api/search?q={long}")).await.refused(422, "invalid");
}
