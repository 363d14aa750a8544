//! The start of a spoken conversation beside a realtime provider that gives a secret, refuses, breaks, babbles or is
//! not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use sederunt_agents::model;
use sederunt_agents::model::realtime::Realtime;
use sederunt_agents::talk::Settings;
use sederunt_agents::talk::voice::VoiceBriefing;
use serde_json::json;

use crate::talk::World;
use crate::wire::{Answer, Server};

const KEY: &str = "sk-never-seen";

async fn told(url: &str) -> (World, VoiceBriefing) {
    let settings = model::Settings::new(url, Some(KEY.into()), "speech");
    let realtime = Some(Arc::new(Realtime::new(&settings).unwrap()));
    let settings = Settings { realtime, instructions: "Be brief.".to_owned(), ..Settings::default() };
    let world = World::set(BTreeMap::new(), "eliza", settings);
    let id = world.conversations.open(&world.me, "t", None).await.unwrap();
    let told = world.conversations.voice_session(&world.me, &id, None).await.unwrap();
    (world, told)
}

#[tokio::test]
async fn a_spoken_conversation_gets_a_secret_and_never_the_key() {
    let given = json!({"value": "ek_short", "expires_at": 1, "session": {"type": "realtime"}}).to_string();
    let provider = Server::start(vec![Answer::status(200, "", &given)]).await;
    let (world, told) = told(&provider.url("/v1")).await;
    assert_eq!(told.client_secret(), Some("ek_short"));
    let asked = &provider.asked()[0];
    assert!(asked.head.starts_with("post /v1/realtime/client_secrets "), "{}", asked.head);
    assert!(asked.head.contains(&format!("authorization: bearer {KEY}")), "{}", asked.head);
    let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(
        body,
        json!({"session": {"type": "realtime", "model": "speech", "instructions": "Be brief."}})
    );
    let shown = format!("{told:?} {:?} {:?}", world.conversations, world.log("t").await);
    assert!(!shown.contains(KEY) && !shown.contains("ek_short"), "{shown}");
}

#[tokio::test]
async fn a_provider_that_gives_no_secret_spoils_no_start() {
    for answer in [
        Answer::status(401, "", r#"{"error":{"message":"bad key"}}"#),
        Answer::status(500, "", "oops"),
        Answer::status(200, "", "nonsense"),
        Answer::status(200, "", r#"{"value":""}"#),
        Answer::Bytes(Vec::new()),
    ] {
        let provider = Server::start(vec![answer.clone()]).await;
        assert_eq!(told(&provider.url("/v1")).await.1.client_secret(), None, "{answer:?}");
    }
    assert_eq!(told("http://127.0.0.1:1/v1").await.1.client_secret(), None, "nobody is there");
}
