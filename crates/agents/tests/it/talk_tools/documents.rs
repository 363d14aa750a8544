//! Documents inside turns: an agent patches them by the built-in tool, by the rule that people patch them by.

use sederunt_core::document::DocumentKey;
use sederunt_core::engine::PatchRequest;
use sederunt_core::json::Json;

use super::world::{World, id};

const PATCHES: &str = r#"[
    {"call":{"name":"patch_document","args":{"id":"note"}}},
    {"call":{"name":"patch_document","args":{"id":"note","base_sequence":2,
        "ops":[{"op":"replace","path":"/a","value":"agent"}]}}},
    {"call":{"name":"patch_document","args":{"id":"note","ops":[{"op":"add","path":"/b","value":1}]}}},
    {"call":{"name":"patch_document","args":{"id":"none","ops":[{"op":"add","path":"/b","value":1}]}}},
    {"say":"Done."}]"#;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

#[tokio::test]
async fn an_agent_patches_a_document_as_the_engine_of_its_turn() {
    let builtin = r#"{"type":"builtin","name":"patch_document"}"#.to_owned();
    let world = World::new(PATCHES, &[builtin]).await;
    let key = DocumentKey::parse("scratch", "note").unwrap();
    let opened =
        world.engine.open_document(&world.me, &id(), &key, Some(&json(r#"{"a":0}"#)), None).await.unwrap();
    let ops = json(r#"[{"op":"replace","path":"/a","value":"person"}]"#);
    let request = PatchRequest { base_sequence: opened.sequence, ops, epoch: None, wants_inverse: false };
    let person = world.engine.patch_document(&world.me, &id(), &key, request, None).await.unwrap();
    assert_eq!(world.say("Write it down.").await.text, "Done.");

    let found = world.engine.shared_document(&world.me, &id(), &key, None).await.unwrap();
    assert_eq!(found.value.as_str(), r#"{"a":"person","b":1}"#);
    let log = world.log().await;
    let results: Vec<String> = log
        .iter()
        .filter(|event| event.kind.as_str() == "agent.tool_result")
        .map(|event| event.text().unwrap_or_default())
        .collect();
    assert_eq!(results[0], format!("sequence: {}\nvalue: {{\"a\":\"person\"}}", person.sequence));
    let refused = format!(
        "others have changed the document meanwhile at `/a`; read it again. Its sequence is {};",
        person.sequence
    );
    assert!(results[1].starts_with(&refused), "{}", results[1]);
    assert_eq!(results[2], format!("The document is patched; its sequence is {}.", found.sequence));
    assert_eq!(results[3], "this session has no such document");
    let patch = log.iter().find(|event| event.sequence == found.sequence).unwrap();
    assert_eq!(patch.kind.as_str(), "state.patch");
    assert!(patch.author.is_some() && patch.turn.is_some(), "it is the turn's: {patch:?}");
    world.requests();
}
