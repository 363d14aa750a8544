//! Milestones: each one sent once, by the node that committed it, after the commit.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::engine::Engine;
use sederunt_core::work::Settle;
use sederunt_core::work::milestone::{Milestone, MilestoneKind};
use sederunt_core::{Role, SessionId};

use crate::harness::{World, key, request};
use crate::on_both_stores;
use crate::tasks::{complete, define_task, fail, take, trigger};

on_both_stores!(
    each_run_is_told_of_when_it_starts_and_when_it_ends,
    a_repeated_call_tells_nothing_and_one_that_is_refused_neither,
    of_many_nodes_one_tells,
);

type Told = Arc<Mutex<Vec<Milestone>>>;

fn listening(engines: &[&Engine]) -> Told {
    let told = Told::default();
    for engine in engines {
        let told = told.clone();
        engine.hub().on_milestone(move |milestone, _| told.lock().push(milestone.clone()));
    }
    told
}

/// The milestones of a session since the last call: names, with the outcome.
fn of(told: &Told, id: &SessionId) -> Vec<String> {
    let all = told.lock();
    let own = all.iter().filter(|milestone| milestone.session == *id);
    own.map(|milestone| match milestone.what {
        MilestoneKind::Started => milestone.name().to_owned(),
        MilestoneKind::Ended { status, .. } => format!("{} {status}", milestone.name()),
    })
    .collect()
}

const PLAIN: &str = r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#;

async fn each_run_is_told_of_when_it_starts_and_when_it_ends(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    let told = listening(&[&world.engine]);
    define_task(world, PLAIN).await;
    let done = trigger(world, "t").await;
    assert_eq!(of(&told, &done.id), [""; 0], "queued is not started");
    let claim = take(world, &worker).await;
    world.clock.advance(Duration::from_secs(20));
    complete(world, &worker, &claim, "1").await.unwrap();
    assert_eq!(of(&told, &done.id), ["task.session_started", "task.session_completed completed"]);
    let session = world.session(done.id.as_str()).await;
    let took = told.lock().last().unwrap().took(session.details.completed_at.unwrap()).unwrap();
    assert!(took >= Duration::from_secs(20) && took < Duration::from_secs(80), "{took:?}");
    // Three attempts are one run.
    let lost = trigger(world, "t").await;
    for _ in 0..3 {
        take(world, &worker).await;
        world.clock.advance(Duration::from_secs(31));
        world.engine.sweep().await.unwrap();
    }
    assert_eq!(of(&told, &lost.id), ["task.session_started", "task.session_failed failed"]);
    let stopped = trigger(world, "t").await;
    world.engine.stop(&owner, &stopped.id, None).await.unwrap();
    assert_eq!(of(&told, &stopped.id), ["task.session_failed abandoned"]);
    // A run of steps, of which one fails and another is called off.
    define_task(
        world,
        r#"{"slug":"g","name":"G","steps":[{"key":"a","agent_slug":"eliza"},
            {"key":"b","agent_slug":"eliza","depends_on":["a"]}]}"#,
    )
    .await;
    let parent = trigger(world, "g").await;
    assert_eq!(of(&told, &parent.id), ["task.session_started"]);
    let claim = take(world, &worker).await;
    fail(world, &worker, &claim).await;
    assert_eq!(of(&told, &claim.session.id), ["task.session_started", "task.session_failed failed"]);
    assert_eq!(of(&told, &parent.id), ["task.session_started", "task.session_failed failed"]);
    let steps = told.lock().iter().filter(|milestone| milestone.is_step).count();
    assert_eq!(steps, 3, "two of the step that failed, one of the step that was called off");
    // Work without a task, and talk, have no milestones.
    let before = told.lock().len();
    let claim = world.claimed("loose", &worker).await;
    complete(world, &worker, &claim, "1").await.unwrap();
    world.talk("chat").await;
    assert_eq!(told.lock().len(), before);
}

async fn a_repeated_call_tells_nothing_and_one_that_is_refused_neither(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    let told = listening(&[&world.engine]);
    define_task(world, r#"{"slug":"g","name":"G","steps":[{"key":"a","assigned_to":"ada"}]}"#).await;
    for _ in 0..2 {
        let run = world.engine.trigger(&owner, "g", None, key("trigger", 3)).await.unwrap();
        assert_eq!(of(&told, &run.id), ["task.session_started"]);
    }
    define_task(world, PLAIN).await;
    let run = trigger(world, "t").await;
    let claim =
        async || world.engine.claim(&worker, request(), key("claim", 1)).await.unwrap().pop().unwrap();
    let (first, again) = (claim().await, claim().await);
    assert_eq!((first.epoch, first.again, again.epoch, again.again), (1, false, 1, true));
    assert_eq!(of(&told, &run.id), ["task.session_started"]);
    let how = || Settle::Complete { result: None, text: None, usage: None };
    let stranger = world.actor(Role::Worker, "other");
    let fenced = world.engine.settle(&stranger, &run.id, 1, how(), None).await.unwrap_err();
    assert_eq!((fenced.code(), of(&told, &run.id).len()), ("fenced", 1));
    for _ in 0..2 {
        world.engine.settle(&worker, &run.id, 1, how(), key("settle", 2)).await.unwrap();
    }
    assert_eq!(of(&told, &run.id), ["task.session_started", "task.session_completed completed"]);
}

async fn of_many_nodes_one_tells(world: &World) {
    let worker = world.worker("w");
    let other = world.other_node().await;
    let told = listening(&[&world.engine, &other]);
    define_task(world, PLAIN).await;
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(trigger(world, "t").await.id);
    }
    let mut working = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (node, worker) = ([&world.engine, &other][n % 2].clone(), worker.clone());
        working.spawn(async move {
            for claim in node.claim(&worker, request(), None).await.unwrap() {
                let how = Settle::Complete { result: None, text: None, usage: None };
                node.settle(&worker, &claim.session.id, claim.epoch, how, None).await.unwrap();
            }
        });
    }
    working.join_all().await;
    for run in &runs {
        assert_eq!(of(&told, run), ["task.session_started", "task.session_completed completed"]);
    }
    assert_eq!(told.lock().len(), 2 * runs.len());
}
