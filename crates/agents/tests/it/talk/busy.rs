//! Messages while a turn runs: they wait, interrupt, steer or are refused, and a turn may be stopped.

use std::time::Instant;

use sederunt_core::talk::turn::OnBusy;

use super::world::{World, post};
use crate::wire::STOP_HEARD;

#[tokio::test]
async fn a_message_while_a_turn_runs_waits_for_its_own() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let first = world.post(&id, "one", OnBusy::Queue).await;
    gate.begins().await;
    let second = world.post(&id, "two", OnBusy::Queue).await;
    let refused =
        world.conversations.post(&world.me, &id, post("no", OnBusy::Reject, None), None).await.unwrap_err();
    assert_eq!(refused.code(), "session_busy");
    gate.let_go();
    assert_eq!(world.reply(first).await.unwrap().text, "I hear one");
    let request = gate.begins().await;
    assert_eq!(request.messages.last().unwrap().text(), "two");
    gate.let_go();
    assert_eq!(world.reply(second).await.unwrap().text, "I hear two");
    let events = world.log("t").await;
    for event in events.iter().filter(|event| event.kind.as_str() == "agent.message") {
        let asked = events.iter().find(|asked| Some(asked.sequence) == event.turn).unwrap();
        assert_eq!(event.text().unwrap(), format!("I hear {}", asked.text().unwrap()));
    }
}

#[tokio::test]
async fn an_interruption_keeps_what_was_said_and_is_next() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let first = world.post(&id, "one", OnBusy::Queue).await;
    gate.begins().await;
    let second = world.post(&id, "two", OnBusy::Interrupt).await;
    let stopped = world.reply(first).await.unwrap();
    assert_eq!((stopped.text.as_str(), stopped.stopped), ("I hear ", true));
    gate.begins().await;
    gate.let_go();
    assert_eq!(world.reply(second).await.unwrap().text, "I hear two");
}

#[tokio::test]
async fn a_message_that_steers_is_heard_in_the_same_turn() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let first = world.post(&id, "one", OnBusy::Queue).await;
    gate.begins().await;
    let steering = world.post(&id, "rather two", OnBusy::Steer).await;
    gate.let_go();
    let request = gate.begins().await;
    assert_eq!(request.messages.last().unwrap().text(), "rather two");
    gate.let_go();
    assert_eq!(world.reply(first).await.unwrap().text, "I hear rather two");
    let heard = world.reply(steering).await.unwrap();
    assert_eq!(heard.text, "I hear rather two", "whoever steered waits for the turn that heard it");
    let turns = world.story("t").await.iter().filter(|said| said.starts_with("turn:")).count();
    assert_eq!(turns, 1);
    let standing = world.engine.standing(&world.me, &id).await.unwrap();
    assert!(standing.talk.queue.is_empty());
}

#[tokio::test]
async fn somebody_may_stop_a_turn_and_talk_goes_on() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let taken = world.post(&id, "one", OnBusy::Queue).await;
    gate.begins().await;
    let asked = Instant::now();
    world.engine.stop(&world.me, &id, None).await.unwrap();
    assert!(world.reply(taken).await.unwrap().stopped);
    let took = asked.elapsed();
    println!("the turn ended {took:?} after the stop was asked for");
    assert!(took < STOP_HEARD, "{took:?}");
    let taken = world.post(&id, "two", OnBusy::Reject).await;
    gate.begins().await;
    gate.let_go();
    assert_eq!(world.reply(taken).await.unwrap().text, "I hear two");
}

#[tokio::test]
async fn a_stop_that_comes_before_the_turn_watches_its_row_is_heard_without_a_heartbeat() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let taken = world.post(&id, "one", OnBusy::Queue).await;
    let asked = Instant::now();
    let (engine, me) = (world.engine.clone(), world.me.clone());
    let stop = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(engine.stop(&me, &id, None)).unwrap();
    };
    // The turn is claimed, and runs on this thread, which waits here: it begins after the stop.
    std::thread::spawn(stop).join().unwrap();
    gate.begins().await;
    assert!(world.reply(taken).await.unwrap().stopped);
    let took = asked.elapsed();
    println!("the turn ended {took:?} after the stop was asked for");
    assert!(took < STOP_HEARD, "{took:?}");
}
