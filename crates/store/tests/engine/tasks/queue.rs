//! What a worker gets, and when: the brief, paused tasks, busy agents, and the progress of a task.

use std::time::Duration;

use sederunt_core::definitions::{Agent, Task};
use sederunt_core::session::Status;
use sederunt_core::strict;
use sederunt_core::work::{ClaimRequest, ClaimedRun};

use super::{complete, define_entity, define_task, fail, json, take, trigger};
use crate::harness::{World, request};
use crate::on_both_stores;

on_both_stores!(
    a_triggered_task_is_claimed_with_everything_a_worker_needs,
    the_standing_of_a_task_is_that_of_its_newest_run,
    the_sessions_of_a_paused_task_wait_and_others_go_first,
    an_agent_has_no_more_runs_at_once_than_it_may,
);

async fn a_triggered_task_is_claimed_with_everything_a_worker_needs(world: &World) {
    let agent: Agent = strict::read(r#"{"slug":"writer","name":"Writer","instructions":"Write."}"#).unwrap();
    world.engine.define(&world.owner(), None, agent, None).await.unwrap();
    define_entity(world, "e1", r#"{"a":1}"#).await;
    let task = define_task(
        world,
        r#"{"slug":"t","name":"Do it","agent_slug":"writer","entity_id":"e1","input":{"a":1,"b":2},
            "priority":5,"description":"Well.","limits":{"steps":7}}"#,
    )
    .await;
    let input = Some(json(r#"{"b":3,"c":4}"#));
    let session = world.engine.trigger(&world.owner(), "t", input, None).await.unwrap();
    assert_eq!((session.head.status, session.head.priority), (Status::Pending, 5));
    assert_eq!(session.details.task_id.as_deref(), Some(&*task));
    assert_eq!(session.details.input.as_ref().unwrap().as_str(), r#"{"a":1,"b":3,"c":4}"#);
    assert_eq!(session.details.title.as_deref(), Some("Do it"));

    let claim = take(world, &world.worker("w")).await;
    assert_eq!(claim.session.id, session.id);
    let brief = world.engine.brief(&claim, None).await.unwrap();
    assert_eq!(brief.agent.unwrap().value.instructions.as_deref(), Some("Write."));
    assert_eq!(brief.entity.unwrap().value.fields.as_str(), r#"{"a":1}"#);
    assert_eq!(brief.run.description.as_deref(), Some("Well."));
    assert_eq!(brief.run.limits.steps, Some(7));
    assert!(brief.run.resume.is_none() && brief.results.is_empty());
}

async fn the_standing_of_a_task_is_that_of_its_newest_run(world: &World) {
    let worker = world.worker("w");
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#).await;
    let standing = world.engine.task_standing(&world.owner(), "t").await.unwrap();
    assert!(standing.session.is_none() && standing.events.is_empty());
    trigger(world, "t").await;
    let claim = world.engine.claim(&worker, request(), None).await.unwrap().pop().unwrap();
    world.clock.advance(Duration::from_secs(3));
    fail(world, &worker, &claim).await;
    let standing = world.engine.task_standing(&world.owner(), "t").await.unwrap();
    let session = standing.session.unwrap();
    assert_eq!(session.head.status, Status::Failed);
    assert_eq!(session.details.error_message.as_deref(), Some("it broke"));
    assert!(standing.duration_ms.unwrap() >= 3_000);
    assert_eq!(standing.events.last().unwrap().kind.as_str(), "session.status_change");
}

async fn the_sessions_of_a_paused_task_wait_and_others_go_first(world: &World) {
    let worker = world.worker("w");
    let paused = define_task(world, r#"{"slug":"p","name":"P","agent_slug":"eliza","priority":9}"#).await;
    define_task(world, r#"{"slug":"o","name":"O","agent_slug":"eliza"}"#).await;
    for _ in 0..5 {
        trigger(world, "p").await;
    }
    let other = trigger(world, "o").await;
    let set = async |status: &str| {
        let patch = json(&format!(r#"{{"status":"{status}"}}"#));
        world.engine.redefine::<Task>(&world.owner(), &paused, &patch, None).await.unwrap();
    };
    set("paused").await;
    assert_eq!(take(world, &worker).await.session.id, other.id);
    let by_agent = || ClaimRequest { agent_slugs: vec!["eliza".into()], ..request() };
    assert!(world.claim(&worker).await.is_empty());
    assert!(world.engine.claim(&worker, by_agent(), None).await.unwrap().is_empty());
    // A worker that waits is woken when the task goes on.
    let waiting = ClaimRequest { wait: Duration::from_secs(20), ..by_agent() };
    let (claims, ()) = tokio::join!(world.engine.claim(&worker, waiting, None), set("active"));
    assert_eq!(claims.unwrap().len(), 1);
    let rest = ClaimRequest { limit: 10, ..request() };
    assert_eq!(world.engine.claim(&worker, rest, None).await.unwrap().len(), 4);
}

async fn an_agent_has_no_more_runs_at_once_than_it_may(world: &World) {
    let worker = world.worker("w");
    let agent: Agent = strict::read(r#"{"slug":"one","name":"One","limits":{"concurrency":2}}"#).unwrap();
    world.engine.define(&world.owner(), None, agent, None).await.unwrap();
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"one","priority":5}"#).await;
    define_task(world, r#"{"slug":"o","name":"O","agent_slug":"eliza"}"#).await;
    for _ in 0..4 {
        trigger(world, "t").await;
    }
    trigger(world, "o").await;
    let many = |agents: &[&str]| ClaimRequest {
        limit: 10,
        agent_slugs: agents.iter().map(|agent| (*agent).to_owned()).collect(),
        ..request()
    };
    // Several at once ask for the same: two of them are handed out, and the one of another agent.
    let (a, b, c) = tokio::join!(
        world.engine.claim(&worker, many(&["one"]), None),
        world.engine.claim(&worker, many(&[]), None),
        world.engine.claim(&worker, many(&["one", "eliza"]), None),
    );
    let mut held: Vec<ClaimedRun> = [a, b, c].into_iter().flat_map(Result::unwrap).collect();
    held.extend(world.engine.claim(&worker, many(&[]), None).await.unwrap());
    let of = |held: &[ClaimedRun], agent: &str| {
        held.iter().filter(|claim| claim.session.details.agent_slug.as_deref() == Some(agent)).count()
    };
    assert_eq!((of(&held, "one"), of(&held, "eliza")), (2, 1));
    // An end makes room, and wakes a waiting worker.
    let first = held.iter().find(|claim| claim.session.details.agent_slug.as_deref() == Some("one")).unwrap();
    let waiting = ClaimRequest { wait: Duration::from_secs(20), ..many(&["one"]) };
    let (claims, done) =
        tokio::join!(world.engine.claim(&worker, waiting, None), complete(world, &worker, first, "1"));
    done.unwrap();
    assert_eq!(claims.unwrap().len(), 1);
    // A higher limit lets the last one go.
    let patch = json(r#"{"limits":{"concurrency":9}}"#);
    world.engine.redefine::<Agent>(&world.owner(), "one", &patch, None).await.unwrap();
    assert_eq!(world.engine.claim(&worker, many(&[]), None).await.unwrap().len(), 1);
}
