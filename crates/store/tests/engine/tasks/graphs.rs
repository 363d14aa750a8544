//! Runs of several steps: in their order, with people among them, and what a failure, a stop or a retry does.

use sederunt_core::error::Error;
use sederunt_core::session::{Session, Status};
use sederunt_core::work::run::Run;
use sederunt_core::{Conflict, Role};

use super::{complete, define_task, fail, json, take, trigger};
use crate::harness::World;
use crate::on_both_stores;

on_both_stores!(
    steps_start_as_their_dependencies_complete,
    a_failed_step_fails_the_run_and_calls_off_the_rest,
    a_run_may_go_on_without_a_failed_step,
    two_last_steps_that_end_at_once_end_the_run,
    stopping_a_run_calls_off_its_steps,
    retrying_a_step_takes_over_what_was_done,
    a_persons_step_waits_in_the_inbox_and_is_checked,
);

/// The step of a session.
fn step(session: &Session) -> String {
    Run::of(session).step.expect("a step").key
}

async fn children(world: &World, parent: &Session) -> Vec<(String, Status)> {
    let page = world.engine.children(&world.owner(), &parent.id, 100, None).await.unwrap();
    let mut all: Vec<_> = page.items.iter().map(|child| (step(child), child.head.status)).collect();
    all.sort();
    all
}

const DIAMOND: &str = r#"{"slug":"g","name":"G","steps":[
    {"key":"a","agent_slug":"eliza"},
    {"key":"b","agent_slug":"eliza","depends_on":["a"]},
    {"key":"c","agent_slug":"eliza","depends_on":["a"]},
    {"key":"d","agent_slug":"eliza","depends_on":["b","c"]}]}"#;

async fn steps_start_as_their_dependencies_complete(world: &World) {
    let worker = world.worker("w");
    define_task(world, DIAMOND).await;
    let parent = trigger(world, "g").await;
    assert_eq!(parent.head.status, Status::Running);
    let names = |all: Vec<(String, Status)>| {
        all.into_iter().map(|(key, status)| format!("{key} {status}")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(names(children(world, &parent).await), "a pending, b draft, c draft, d draft");
    let a = take(world, &worker).await;
    assert!(world.claim(&worker).await.is_empty(), "nothing else may start");
    complete(world, &worker, &a, r#""A""#).await.unwrap();
    assert_eq!(names(children(world, &parent).await), "a completed, b pending, c pending, d draft");
    let (b, c) = (take(world, &worker).await, take(world, &worker).await);
    complete(world, &worker, &c, r#""C""#).await.unwrap();
    assert_eq!(names(children(world, &parent).await), "a completed, b running, c completed, d draft");
    complete(world, &worker, &b, r#""B""#).await.unwrap();
    let d = take(world, &worker).await;
    let mut results = world.engine.brief(&d, None).await.unwrap().results;
    results.sort_by(|x, y| x.0.cmp(&y.0));
    assert_eq!(results, [("b".to_owned(), json(r#""B""#)), ("c".to_owned(), json(r#""C""#))]);
    complete(world, &worker, &d, r#"{"all":true}"#).await.unwrap();
    let parent = world.session(parent.id.as_str()).await;
    assert_eq!(parent.head.status, Status::Completed);
    assert_eq!(parent.details.result.unwrap().as_str(), r#"{"all":true}"#, "the last step's is the run's");
}

async fn a_failed_step_fails_the_run_and_calls_off_the_rest(world: &World) {
    let worker = world.worker("w");
    define_task(world, DIAMOND).await;
    let parent = trigger(world, "g").await;
    let a = take(world, &worker).await;
    complete(world, &worker, &a, "1").await.unwrap();
    let (b, c) = (take(world, &worker).await, take(world, &worker).await);
    fail(world, &worker, &b).await;
    let ended = world.session(parent.id.as_str()).await;
    assert_eq!(ended.head.status, Status::Failed);
    assert_eq!(ended.details.end_reason.as_deref(), Some("child_failed"));
    let beat = world.engine.heartbeat(&worker, &c.session.id, c.epoch, None).await.unwrap();
    assert!(beat.stop_requested, "a worker in the middle is told to stop");
    let states = children(world, &parent).await;
    assert_eq!(states[3], ("d".to_owned(), Status::Abandoned));
}

async fn a_run_may_go_on_without_a_failed_step(world: &World) {
    let worker = world.worker("w");
    define_task(
        world,
        r#"{"slug":"g","name":"G","on_child_failure":"continue","steps":[
            {"key":"a","agent_slug":"eliza"},{"key":"b","agent_slug":"eliza"},
            {"key":"c","agent_slug":"eliza","depends_on":["a"]}]}"#,
    )
    .await;
    let parent = trigger(world, "g").await;
    let (one, two) = (take(world, &worker).await, take(world, &worker).await);
    let (a, b) = if step(&one.session) == "a" { (one, two) } else { (two, one) };
    fail(world, &worker, &a).await;
    assert_eq!(world.session(parent.id.as_str()).await.head.status, Status::Running);
    complete(world, &worker, &b, "2").await.unwrap();
    let ended = world.session(parent.id.as_str()).await;
    assert_eq!(ended.head.status, Status::Completed);
    assert_eq!(children(world, &parent).await[2].1, Status::Abandoned);
}

async fn two_last_steps_that_end_at_once_end_the_run(world: &World) {
    let worker = world.worker("w");
    define_task(
        world,
        r#"{"slug":"g","name":"G","steps":[{"key":"a","agent_slug":"eliza"},{"key":"b","agent_slug":"eliza"}]}"#,
    )
    .await;
    for _ in 0..10 {
        let parent = trigger(world, "g").await;
        let (a, b) = (take(world, &worker).await, take(world, &worker).await);
        let (first, second) =
            tokio::join!(complete(world, &worker, &a, "1"), complete(world, &worker, &b, "2"));
        first.unwrap();
        second.unwrap();
        assert_eq!(world.session(parent.id.as_str()).await.head.status, Status::Completed);
    }
}

async fn stopping_a_run_calls_off_its_steps(world: &World) {
    let worker = world.worker("w");
    define_task(world, DIAMOND).await;
    let parent = trigger(world, "g").await;
    let a = take(world, &worker).await;
    world.engine.stop(&world.owner(), &parent.id, None).await.unwrap();
    assert_eq!(world.session(parent.id.as_str()).await.head.status, Status::Abandoned);
    assert!(world.engine.heartbeat(&worker, &a.session.id, a.epoch, None).await.unwrap().stop_requested);
    let settled = fail(world, &worker, &a).await;
    assert_eq!(settled.head.status, Status::Abandoned);
    assert!(children(world, &parent).await.iter().all(|(_, status)| status.is_terminal()));
}

async fn retrying_a_step_takes_over_what_was_done(world: &World) {
    let worker = world.worker("w");
    define_task(
        world,
        r#"{"slug":"g","name":"G","steps":[{"key":"a","agent_slug":"eliza"},
            {"key":"b","agent_slug":"eliza","depends_on":["a"]},{"key":"c","agent_slug":"eliza","depends_on":["b"]}]}"#,
    )
    .await;
    let parent = trigger(world, "g").await;
    let a = take(world, &worker).await;
    complete(world, &worker, &a, r#""A""#).await.unwrap();
    let refused = world.engine.retry(&world.owner(), &a.session.id, None).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict(Conflict::InvalidTransition { .. })), "{refused}");
    let b = take(world, &worker).await;
    fail(world, &worker, &b).await;
    let again = world.engine.retry(&world.owner(), &b.session.id, None).await.unwrap();
    assert_ne!(again.id, parent.id);
    assert_eq!((again.head.status, again.details.retry_of.as_ref()), (Status::Running, Some(&parent.id)));
    let states = children(world, &again).await;
    assert_eq!(
        states.iter().map(|(_, status)| *status).collect::<Vec<_>>(),
        [Status::Completed, Status::Pending, Status::Draft]
    );
    let b = take(world, &worker).await;
    assert_eq!(world.engine.brief(&b, None).await.unwrap().results, [("a".to_owned(), json(r#""A""#))]);
    complete(world, &worker, &b, "2").await.unwrap();
    let c = take(world, &worker).await;
    complete(world, &worker, &c, "3").await.unwrap();
    assert_eq!(world.session(again.id.as_str()).await.head.status, Status::Completed);
}

async fn a_persons_step_waits_in_the_inbox_and_is_checked(world: &World) {
    let worker = world.worker("w");
    let ada = world.actor(Role::Member, "ada");
    let bob = world.actor(Role::Member, "bob");
    define_task(
        world,
        r#"{"slug":"g","name":"G","steps":[{"key":"look","name":"Have a look","assigned_to":"ada",
              "output":{"type":"entity","entity_type":"note","schema":{"type":"object","required":["ok"]}}},
            {"key":"write","agent_slug":"eliza","depends_on":["look"]}]}"#,
    )
    .await;
    let parent = trigger(world, "g").await;
    let query = || sederunt_core::approval::ApprovalQuery { limit: 10, ..Default::default() };
    let inbox = world.engine.approvals(&ada, true, query()).await.unwrap().items;
    assert_eq!(inbox.len(), 1);
    assert_eq!(inbox[0].kind, sederunt_core::approval::ApprovalKind::Question);
    assert!(world.engine.approvals(&bob, true, query()).await.unwrap().items.is_empty());
    let id = inbox[0].session.clone();
    let done = |result: &str| Some(json(result));
    let finish = |actor, result| world.engine.human_complete(actor, &id, result, None, None);
    assert_eq!(finish(&bob, done("{}")).await.unwrap_err().code(), "not_found");
    assert_eq!(finish(&ada, done("{}")).await.unwrap_err().code(), "output_invalid");
    assert!(world.claim(&worker).await.is_empty(), "the next step waits");
    let session = finish(&ada, done(r#"{"ok":true}"#)).await.unwrap();
    assert_eq!(session.head.status, Status::Completed);
    assert!(finish(&ada, done(r#"{"ok":true}"#)).await.is_err(), "it is done");
    let write = take(world, &worker).await;
    assert_eq!(world.engine.brief(&write, None).await.unwrap().results[0].1.as_str(), r#"{"ok":true}"#);
    complete(world, &worker, &write, "1").await.unwrap();
    assert_eq!(world.session(parent.id.as_str()).await.head.status, Status::Completed);
    let inbox = world.engine.approval(&ada, &inbox[0].id).await.unwrap();
    assert_eq!(inbox.state, sederunt_core::approval::ApprovalState::Approved);
}
