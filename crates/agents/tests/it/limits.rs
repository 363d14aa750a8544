//! What providers and tools may send, and how often they are asked: each limit exactly, and one past it.

use std::time::Duration;

use sederunt_agents::executor::kit::Means;
use sederunt_agents::limits;
use sederunt_agents::model::embed::Embedder;
use sederunt_agents::model::realtime::Realtime;
use sederunt_agents::model::retry::RetryPolicy;
use sederunt_agents::model::{Error, Settings};
use sederunt_core::talk::turn::OnBusy;
use serde_json::{Value, json};

use crate::talk_tools::world::{World, tool};
use crate::wire::{Answer, Server, ok};

#[test]
fn a_provider_that_asks_for_a_longer_wait_than_the_bound_is_not_asked_again() {
    let policy = RetryPolicy::default();
    let asked = limits::RETRY_AFTER_MAX;
    assert_eq!(policy.wait(1, Some(asked), 1.0), Some(asked));
    assert_eq!(policy.wait(1, Some(asked + Duration::from_nanos(1)), 1.0), None);
}

/// A body of exactly this many bytes: spaces, and the JSON.
fn padded(body: &Value, bytes: usize) -> String {
    let body = body.to_string();
    " ".repeat(bytes - body.len()) + &body
}

async fn embed(answer: Answer, text: &str) -> (Result<usize, Error>, Value) {
    let server = Server::start(vec![answer]).await;
    let embedder = Embedder::new(&Settings::new(server.url("/v1"), None, "m")).unwrap();
    let made = embedder.embed(&[text]).await.map(|vectors| vectors.len());
    let asked = serde_json::from_str(&server.asked()[0].body).unwrap();
    (made, asked)
}

#[tokio::test]
async fn a_text_is_embedded_up_to_the_bound_and_vectors_are_read_up_to_theirs() {
    let vectors = json!({"data": [{"index": 0, "embedding": [1.0, 0.0]}]});
    for chars in [limits::EMBED_CHARS_MAX, limits::EMBED_CHARS_MAX + 1] {
        let (made, asked) = embed(Answer::status(200, "", &vectors.to_string()), &"ä".repeat(chars)).await;
        assert_eq!(made.unwrap(), 1);
        assert_eq!(asked["input"][0].as_str().unwrap().chars().count(), limits::EMBED_CHARS_MAX);
    }
    let most = limits::EMBED_BYTES_MAX;
    let (fits, _) = embed(Answer::status(200, "", &padded(&vectors, most)), "x").await;
    assert_eq!(fits, Ok(1));
    let (exceeds, _) = embed(Answer::status(200, "", &padded(&vectors, most + 1)), "x").await;
    assert_eq!(exceeds, Err(Error::ReplyTooLarge { limit: most }));
}

#[tokio::test]
async fn the_code_of_a_refusal_is_looked_for_up_to_the_bound() {
    let refusal = json!({"error": {"code": "model_not_found", "message": "no such model"}});
    for (bytes, code) in [
        (limits::REFUSAL_BYTES_MAX, Some("model_not_found".to_owned())),
        (limits::REFUSAL_BYTES_MAX + 1, None),
    ] {
        let (refused, _) = embed(Answer::status(404, "", &padded(&refusal, bytes)), "x").await;
        assert_eq!(refused, Err(Error::Refused { status: 404, code }), "{bytes}");
    }
}

#[tokio::test]
async fn a_secret_of_a_spoken_conversation_is_read_up_to_the_bound() {
    let most = limits::CLIENT_SECRET_BYTES_MAX;
    for (bytes, fits) in [(most, true), (most + 1, false)] {
        let given = padded(&json!({"value": "ek"}), bytes);
        let server = Server::start(vec![Answer::status(200, "", &given)]).await;
        let realtime = Realtime::new(&Settings::new(server.url("/v1"), Some("k".into()), "speech")).unwrap();
        match realtime.client_secret("").await {
            Ok(_) => assert!(fits, "{bytes}"),
            Err(error) => assert_eq!((error, fits), (Error::ReplyTooLarge { limit: most }, false)),
        }
    }
}

#[tokio::test]
async fn a_turn_takes_no_more_steps_than_the_bound_even_if_its_agent_sets_none() {
    let most = usize::try_from(limits::TURN_STEPS_MAX).unwrap();
    let steps: Vec<&str> = std::iter::repeat_n(r#"{"call":{"name":"send"}}"#, most).collect();
    let server = Server::start((0..most).map(|_| ok("1")).collect()).await;
    let steps = format!(r#"[{},{{"say":"too late"}}]"#, steps.join(","));
    let world = World::with(&steps, &[tool("send", &server.url("/send"), "")], "", Means::default()).await;
    let taken = world.post("Go.", OnBusy::Queue).await;
    assert_eq!(world.reply(taken).await.unwrap_err().code(), "unavailable");
    let story = world.story().await;
    assert!(story.ends_with("result(send) error(limit_steps) /failed"), "{story}");
    assert_eq!(server.asked().len(), most);
}

#[tokio::test]
async fn a_tool_that_is_not_reached_is_tried_as_often_as_the_bound() {
    let tries = usize::try_from(limits::TOOL_TRIES_MAX).unwrap();
    let away = || Answer::status(503, "", "");
    for (failures, outcome) in [(tries - 1, "result(send)"), (tries, "tool_unavailable(send)")] {
        let answers = std::iter::repeat_with(away).take(failures).chain([ok("1")]).collect();
        let server = Server::start(answers).await;
        let steps = r#"[{"call":{"name":"send"}},{"say":"Done."}]"#;
        let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
        world.say("Go.").await;
        let story = world.story().await;
        assert!(story.contains(outcome), "{failures}: {story}");
        assert_eq!(server.asked().len(), tries);
    }
}
