//! Tools inside turns: what is in the log, what later turns know, and that nothing is done twice.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sederunt_agents::executor::kit::Means;
use sederunt_agents::talk::Progress;
use sederunt_core::talk::turn::OnBusy;
use tokio::sync::Semaphore;

use super::world::{SEND, World, id, kind, tool};
use crate::ground::{gone, until};
use crate::wire::{Answer, Server, ok};

#[tokio::test]
async fn a_turn_has_something_done_and_later_turns_know_of_it() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let world = World::new(SEND, &[tool("send", &server.url("/send"), "")]).await;
    let mut taken = world.post("Send it.", OnBusy::Queue).await;
    let mut heard = String::new();
    while let Some(progress) = taken.progress.recv().await {
        if let Progress::Chunk(text) = progress {
            heard.push_str(&text);
        }
    }
    assert_eq!(heard, "Let me see.\n\nIt is sent.");
    assert_eq!(world.reply(taken).await.unwrap().text, "It is sent.");
    assert_eq!(world.say("Thanks.").await.text, "You are welcome.");
    assert_eq!(
        world.story().await,
        "Let me see. call(send) result(send) It is sent. /answered You are welcome. /answered"
    );
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].body.as_str()), (1, r#"{"to":"x","text":"hi"}"#));
    assert!(asked[0].head.contains("idempotency-key: "));
    let requests = world.requests();
    assert_eq!(requests[0].tools.len(), 1);
    let kinds: Vec<&str> = requests[2].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "agent", "user"]);
    let events = world.log().await;
    let turn = events.iter().find(|event| event.kind.as_str() == "user.message").unwrap().sequence;
    let of_turn = events.iter().filter(|event| event.kind.as_str().starts_with("agent.tool"));
    assert!(of_turn.into_iter().all(|event| event.turn == Some(turn)));
    assert_eq!(world.session().await.head.turn_count, 2);
}

#[tokio::test]
async fn a_turn_that_calls_nothing_leaves_what_any_turn_leaves() {
    let server = Server::start(vec![]).await;
    let world = World::new(r#"[{"say":"Hello."}]"#, &[tool("send", &server.url("/send"), "")]).await;
    let before = world.session().await.head.version;
    world.say("Hi.").await;
    let kinds: Vec<String> = world.log().await.iter().map(|event| event.kind.as_str().to_owned()).collect();
    assert_eq!(
        kinds,
        [
            "session.created", "session.sitting_started", "user.message", "session.status_change",
            "agent.message", "session.turn", "session.status_change"
        ]
    );
    assert_eq!(world.session().await.head.version, before + 2, "two commits");
}

#[tokio::test]
async fn two_calls_of_one_id_with_the_same_arguments_are_two_effects() {
    let server = Server::start(vec![ok("1"), ok("2")]).await;
    let steps = r#"[{"call":{"name":"send","args":{"n":1}}},{"say":"Done."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
    world.model.twins.store(true, Ordering::Relaxed);
    assert_eq!(world.say("Send it twice.").await.text, "Done.");
    let asked = server.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "a tool that knows the key would take the second for a repeat");
    world.requests();
}

#[tokio::test]
async fn what_cannot_be_done_is_told_to_the_model_and_the_turn_goes_on() {
    let cases = [
        ("unknown", r#"{"name":"fly"}"#, vec![], "unknown_tool(fly)"),
        ("bad arguments", r#"{"name":"send","args":{"n":"x"}}"#, vec![], "bad_arguments(send)"),
        ("refused", r#"{"name":"send"}"#, vec![Answer::status(403, "", "no")], "result(send)"),
        ("silence", r#"{"name":"send"}"#, vec![Answer::Hang(Vec::new())], "outcome_unknown(send)"),
        ("garbage", r#"{"name":"send"}"#, vec![Answer::Bytes(b"what?".to_vec())], "outcome_unknown(send)"),
    ];
    for (name, call, answers, told) in cases {
        let server = Server::start(answers).await;
        let steps = format!(r#"[{{"call":{call}}},{{"say":"So be it."}}]"#);
        let schema = r#","timeout_ms":500,"schema":{"type":"object","properties":{"n":{"type":"integer"}}}"#;
        let world = World::new(&steps, &[tool("send", &server.url("/send"), schema)]).await;
        assert_eq!(world.say("Go.").await.text, "So be it.", "{name}");
        let story = world.story().await;
        assert!(story.contains(told), "{name}: {story}");
        let result = world.log().await.into_iter().find(|event| event.kind.as_str() == "agent.tool_result");
        assert_eq!(result.unwrap().metadata.unwrap().value()["is_error"], true, "{name}");
        world.requests();
    }
}

#[tokio::test]
async fn a_model_that_only_calls_what_it_was_not_given_has_not_answered() {
    let world = World::new(r#"[{"call":{"name":"send"}},{"say":"Here I am."}]"#, &[]).await;
    let taken = world.post("Hello?", OnBusy::Queue).await;
    assert_eq!(world.reply(taken).await.unwrap_err().code(), "unavailable");
    assert_eq!(world.story().await, "error(model_failed) /failed");
}

#[tokio::test]
async fn a_turn_takes_no_more_steps_than_its_agent_may() {
    let server = Server::start(vec![ok("1"), ok("2"), ok("3")]).await;
    let steps = r#"[{"call":{"name":"send"}},{"call":{"name":"send"}},{"say":"too late"}]"#;
    let tools = [tool("send", &server.url("/send"), "")];
    let world = World::with(steps, &tools, r#","limits":{"steps":2}"#, Means::default()).await;
    let taken = world.post("Go.", OnBusy::Queue).await;
    assert_eq!(world.reply(taken).await.unwrap_err().code(), "unavailable");
    assert_eq!(
        world.story().await,
        "call(send) result(send) call(send) result(send) error(limit_steps) /failed"
    );
    assert_eq!(world.say("And now?").await.text, "too late", "talk goes on");
}

#[tokio::test]
async fn a_stop_ends_a_turn_in_the_middle_of_a_call_and_every_call_has_a_result() {
    let server = Server::start(vec![Answer::Hang(Vec::new())]).await;
    let steps =
        r#"[{"call":[{"name":"send","args":{"n":1}},{"name":"send","args":{"n":2}}]},{"say":"Yes?"}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
    let taken = world.post("Go.", OnBusy::Queue).await;
    until("the call", async || !server.asked().is_empty()).await;
    world.engine.stop(&world.me, &id(), None).await.unwrap();
    assert!(world.reply(taken).await.unwrap().stopped);
    assert_eq!(world.story().await, "call(send) call(send) outcome_unknown(send) cancelled(send) /stopped");
    assert_eq!(world.say("Hello?").await.text, "Yes?");
    assert_eq!((world.requests().len(), server.asked().len()), (2, 1));
}

#[tokio::test]
async fn a_message_that_steers_is_heard_at_the_next_step() {
    let server = Server::start(vec![ok("1")]).await;
    let steps = r#"[{"call":{"name":"send"}},{"say":"Very well."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
    world.model.leave.forget_permits(Semaphore::MAX_PERMITS);
    let taken = world.post("Go.", OnBusy::Queue).await;
    until("the model is asked", async || !world.model.seen.lock().unwrap().is_empty()).await;
    world.post("Rather not.", OnBusy::Steer).await;
    world.model.leave.add_permits(2);
    assert_eq!(world.reply(taken).await.unwrap().text, "Very well.");
    let requests = world.requests();
    let kinds: Vec<&str> = requests[1].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "user"]);
    assert_eq!(requests[1].messages[3].text(), "Rather not.");
}

#[tokio::test]
async fn a_call_of_a_turn_that_died_is_not_made_again_and_the_next_turn_closes_it() {
    let mut server = Server::start(vec![Answer::Hang(Vec::new())]).await;
    let steps = r#"[{"call":{"name":"send"}},{"say":"I cannot tell."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
    let runtime = world.say_elsewhere("Go.");
    until("the call", async || !server.asked().is_empty()).await;
    gone(runtime).await;
    server.client_is_gone().await;
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.say("Did you?").await.text, "I cannot tell.");
    assert_eq!(world.story().await, "call(send) /interrupted outcome_unknown(send) I cannot tell. /answered");
    assert_eq!(server.asked().len(), 1);
    let requests = world.requests();
    let kinds: Vec<&str> = requests[1].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "user"]);
}
