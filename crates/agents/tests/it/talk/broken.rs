//! Turns whose model fails or whose runner is gone: the conversation works afterwards.

use std::time::Duration;

use sederunt_core::talk::Liveness;
use sederunt_core::talk::turn::OnBusy;

use super::world::{World, post};
use crate::ground::{elsewhere, gone, until};
use crate::wire::SOON;

#[tokio::test]
async fn a_model_that_fails_leaves_a_conversation_that_works() {
    let (world, mut gate) = World::gated(true);
    let id = world.open("t").await;
    let taken = world.post(&id, "one", OnBusy::Queue).await;
    gate.begins().await;
    gate.let_go();
    let failed = world.reply(taken).await.unwrap_err();
    assert_eq!(failed.code(), "unavailable");
    let story = world.story("t").await;
    assert_eq!(story[4..], ["message", "error", "turn:failed", "to idle"]);
    assert_eq!(world.liveness("t").await, Liveness::Active);
}

#[tokio::test]
async fn a_turn_whose_runner_is_gone_is_closed_and_the_next_one_works() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    // The first runner lives on a runtime of its own, which is dropped in the middle of the turn.
    let (conversations, me, there) = (world.conversations.clone(), world.me.clone(), id.clone());
    let runtime = elsewhere(async move {
        conversations.post(&me, &there, post("one", OnBusy::Queue, None), None).await.unwrap();
    });
    gate.begins().await;
    gone(runtime).await;
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.liveness("t").await, Liveness::Interrupted);
    let taken = world.post(&id, "two", OnBusy::Reject).await;
    gate.begins().await;
    gate.let_go();
    assert_eq!(world.reply(taken).await.unwrap().text, "I hear two");
    let story = world.story("t").await;
    assert_eq!(story.iter().filter(|said| *said == "turn:interrupted").count(), 1, "{story:?}");
}

#[tokio::test]
async fn what_waits_behind_a_dead_turn_is_gone_on_with_by_whoever_keeps_the_store() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let (conversations, me, there) = (world.conversations.clone(), world.me.clone(), id.clone());
    let runtime = elsewhere(async move {
        conversations.post(&me, &there, post("one", OnBusy::Queue, None), None).await.unwrap();
        conversations.post(&me, &there, post("two", OnBusy::Queue, None), None).await.unwrap();
    });
    gate.begins().await;
    let queue = async || world.engine.standing(&world.me, &id).await.unwrap().talk.queue;
    until("the second message waits", async || !queue().await.is_empty()).await;
    gone(runtime).await;
    world.clock.advance(Duration::from_secs(31));
    world.engine.sweep().await.unwrap();
    assert_eq!(world.liveness("t").await, Liveness::Interrupted);
    assert_eq!(world.conversations.sweep().await.unwrap().resumed, 1);
    assert_eq!(gate.begins().await.messages.last().unwrap().text(), "two");
    gate.let_go();
    world.conversations.drain(SOON).await;
    assert_eq!(world.liveness("t").await, Liveness::Active);
}
