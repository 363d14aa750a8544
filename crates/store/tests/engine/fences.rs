//! A worker that lost its claim writes nothing; a stop reaches the worker that has one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::access::Actor;
use sederunt_core::engine::Append;
use sederunt_core::event::EventQuery;
use sederunt_core::json::Json;
use sederunt_core::session::Status;
use sederunt_core::time::Timestamp;
use sederunt_core::work::{ClaimedRun, Pause, Settle};

use crate::harness::{World, says};
use crate::on_both_stores;

on_both_stores!(
    a_lapsed_worker_is_fenced_on_every_verb,
    another_workers_key_with_the_right_epoch_is_fenced,
    an_owner_cannot_write_for_the_agent_while_a_worker_has_it,
    a_stop_reaches_the_worker_by_its_next_heartbeat_or_append,
    a_heartbeat_keeps_the_claim,
    one_that_is_fenced_takes_no_other_along,
    last_words_and_the_end_of_a_run_land_together,
    last_words_after_a_stop_are_kept_and_the_run_is_stopped,
    last_words_keep_to_what_a_worker_may_write,
);

async fn fenced_on_every_verb(world: &World, who: &Arc<Actor>, id: &str, epoch: u64) {
    let before = world.session(id).await;
    let sid = &before.id;
    let engine = &world.engine;
    let append = Append { epoch: Some(epoch), ..says("agent.message", "late") };
    let beat = engine.heartbeat(who, sid, epoch, None).await.map(drop);
    // It has the current row: only the fence refuses it.
    let late = ClaimedRun { session: before.clone(), epoch, lease_until: Timestamp::default(), again: false };
    let answers = [
        ("append", engine.append(who, sid, append, None).await.map(drop)),
        ("heartbeat", beat),
        ("delta", engine.delta(who, sid, epoch, "x").await),
        (
            "complete",
            settle(world, who, sid, epoch, Settle::Complete { result: None, text: None, usage: None }).await,
        ),
        (
            "fail",
            settle(
                world,
                who,
                sid,
                epoch,
                Settle::Fail { error: "x".into(), retryable: true, reason: None, usage: None },
            )
            .await,
        ),
        ("yield", settle(world, who, sid, epoch, Settle::Yield { pause: Pause::Idle, usage: None }).await),
        ("last words", say_last(world, who, &late).await),
    ];
    for (verb, answer) in answers {
        assert_eq!(answer.expect_err(verb).code(), "fenced", "{verb}");
    }
    assert_eq!(world.session(id).await, before, "a fenced worker changed something");
}

/// Completes a run with its last words.
async fn say_last(world: &World, who: &Arc<Actor>, claimed: &ClaimedRun) -> sederunt_core::Result<()> {
    let how = Settle::Complete { result: Some(Json::empty_object()), text: None, usage: None };
    world.engine.settle_saying(who, claimed, how, says("agent.message", "last").events).await
}

async fn settle(
    world: &World,
    who: &Actor,
    id: &sederunt_core::SessionId,
    epoch: u64,
    how: Settle,
) -> sederunt_core::Result<()> {
    world.engine.settle(who, id, epoch, how, None).await.map(drop)
}

async fn a_lapsed_worker_is_fenced_on_every_verb(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    world.clock.advance(Duration::from_secs(31));
    fenced_on_every_verb(world, &worker, "s", claim.epoch).await;
    world.engine.sweep().await.unwrap();
    fenced_on_every_verb(world, &worker, "s", claim.epoch).await;
    let other = world.worker("other");
    let next = world.claim(&other).await.pop().unwrap();
    assert_eq!(next.epoch, claim.epoch + 1);
    fenced_on_every_verb(world, &worker, "s", claim.epoch).await;
    let append = Append { epoch: Some(next.epoch), ..says("agent.message", "mine") };
    world.engine.append(&other, &next.session.id, append, None).await.unwrap();
}

async fn another_workers_key_with_the_right_epoch_is_fenced(world: &World) {
    let claim = world.claimed("s", &world.worker("w")).await;
    fenced_on_every_verb(world, &world.worker("thief"), "s", claim.epoch).await;
}

async fn an_owner_cannot_write_for_the_agent_while_a_worker_has_it(world: &World) {
    let claim = world.claimed("s", &world.worker("w")).await;
    let answer =
        world.engine.append(&world.owner(), &claim.session.id, says("agent.message", "x"), None).await;
    assert_eq!(answer.unwrap_err().code(), "fenced");
    world
        .engine
        .append(&world.owner(), &claim.session.id, says("user.message", "hurry"), None)
        .await
        .unwrap();
}

async fn a_stop_reaches_the_worker_by_its_next_heartbeat_or_append(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    let id = &claim.session.id;
    let append = || Append { epoch: Some(claim.epoch), ..says("agent.message", "x") };
    assert!(!world.engine.append(&worker, id, append(), None).await.unwrap().stop_requested);
    world.engine.stop(&world.owner(), id, None).await.unwrap();
    assert!(world.engine.append(&worker, id, append(), None).await.unwrap().stop_requested);
    assert!(world.engine.heartbeat(&worker, id, claim.epoch, None).await.unwrap().stop_requested);
    world.clock.advance(Duration::from_secs(31));
    world.engine.sweep().await.unwrap();
    let session = world.session("s").await;
    assert_eq!(
        (session.head.status, session.details.end_reason.as_deref()),
        (Status::Abandoned, Some("stopped"))
    );
}

async fn a_heartbeat_keeps_the_claim(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    for _ in 0..4 {
        world.clock.advance(Duration::from_secs(20));
        world.engine.heartbeat(&worker, &claim.session.id, claim.epoch, None).await.unwrap();
        world.engine.sweep().await.unwrap();
    }
    assert_eq!(world.session("s").await.head.status, Status::Running);
}

async fn one_that_is_fenced_takes_no_other_along(world: &World) {
    let worker = world.worker("w");
    let mut claims = Vec::new();
    for n in 0..24 {
        claims.push(world.claimed(&format!("s{n}"), &worker).await);
    }
    // At once, so that they share commits.
    let beats = claims.iter().enumerate().map(|(n, claim)| {
        let epoch = if n % 3 == 0 { claim.epoch + 1 } else { claim.epoch };
        world.engine.heartbeat(&worker, &claim.session.id, epoch, None)
    });
    for (n, beat) in join_all(beats).await.into_iter().enumerate() {
        match beat {
            Ok(_) => assert_ne!(n % 3, 0, "s{n} was renewed with another's epoch"),
            Err(error) => assert_eq!((n % 3, error.code()), (0, "fenced"), "s{n}"),
        }
    }
}

async fn kinds(world: &World, id: &str) -> Vec<String> {
    let query = EventQuery { limit: 100, ..EventQuery::default() };
    let log = world.engine.read(&world.owner(), &sederunt_core::SessionId::stored(id), query).await.unwrap();
    log.events.iter().map(|event| event.kind.as_str().to_owned()).collect()
}

async fn last_words_and_the_end_of_a_run_land_together(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    say_last(world, &worker, &claim).await.unwrap();
    assert_eq!(
        kinds(world, "s").await[3..],
        ["agent.message", "session.status_change", "session.completed"],
        "the message comes before the end"
    );
    let session = world.session("s").await;
    assert_eq!((session.head.status, session.head.message_count), (Status::Completed, 1));
    assert_eq!(session.head.version, claim.session.head.version + 1, "one commit has done it");
}

async fn last_words_after_a_stop_are_kept_and_the_run_is_stopped(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    world.engine.stop(&world.owner(), &claim.session.id, None).await.unwrap();
    say_last(world, &worker, &claim).await.unwrap();
    let session = world.session("s").await;
    assert_eq!(
        (session.head.status, session.details.end_reason.as_deref()),
        (Status::Abandoned, Some("stopped"))
    );
    assert!(session.details.result.is_none(), "what came too late is no result");
    assert_eq!(kinds(world, "s").await[3], "agent.message");
}

async fn last_words_keep_to_what_a_worker_may_write(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    let before = world.session("s").await;
    for kind in ["session.completed", "user.message", "human.marker"] {
        let how = Settle::Complete { result: None, text: None, usage: None };
        let words = says(kind, "forged").events;
        let said = world.engine.settle_saying(&worker, &claim, how, words).await;
        assert!(said.is_err(), "{kind}");
    }
    assert_eq!(world.session("s").await, before);
}
