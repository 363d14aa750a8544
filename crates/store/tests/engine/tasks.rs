//! Tasks run: one session or a graph of them, under the contract that was frozen when they began.

use std::time::Duration;

use sederunt_core::Conflict;
use sederunt_core::error::Error;
use sederunt_core::json::Json;
use sederunt_core::library::{Agent, Bundle, CriteriaSet, Entity, Task};
use sederunt_core::session::{Session, Status};
use sederunt_core::strict;
use sederunt_core::work::run::Run;
use sederunt_core::work::{ClaimRequest, Claimed, Settle};
use sederunt_core::{Actor, Role};

use crate::on_both_stores;
use crate::world::{World, request};

on_both_stores!(
    a_triggered_task_is_claimed_with_everything_a_worker_needs,
    only_active_tasks_are_started,
    a_task_names_only_what_is_there,
    a_slug_belongs_to_one_task,
    members_start_and_change_their_own_tasks_and_loosen_nothing,
    a_result_is_written_back_with_the_end_of_its_run,
    a_result_that_cannot_be_written_back_ends_nothing,
    a_result_that_does_not_fit_is_repaired_once_and_then_fails,
    a_hard_block_fails_the_run_at_once,
    lists_of_entities_and_related_entities_are_made,
    steps_start_as_their_dependencies_complete,
    a_failed_step_fails_the_run_and_calls_off_the_rest,
    a_run_may_go_on_without_a_failed_step,
    two_last_steps_that_end_at_once_end_the_run,
    stopping_a_run_calls_off_its_steps,
    retrying_a_step_takes_over_what_was_done,
    a_persons_step_waits_in_the_inbox_and_is_checked,
    a_bundle_carries_every_field,
    what_a_run_uses_adds_up_over_its_attempts,
    the_standing_of_a_task_is_that_of_its_newest_run,
    the_sessions_of_a_paused_task_wait_and_others_go_first,
    an_agent_has_no_more_runs_at_once_than_it_may,
);

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

pub async fn define_task(world: &World, text: &str) -> String {
    let task: Task = strict::read(json(text).as_str()).unwrap();
    world.engine.define(&world.owner(), None, task, None).await.unwrap().id.into()
}

pub async fn define_entity(world: &World, id: &str, fields: &str) {
    let entity = Entity { type_slug: "note".into(), title: None, fields: json(fields) };
    world.engine.define(&world.owner(), Some(id), entity, None).await.unwrap();
}

pub async fn entity(world: &World, id: &str) -> String {
    let found = world.engine.definition::<Entity>(&world.owner(), id).await.unwrap();
    found.value.fields.as_str().to_owned()
}

pub async fn complete(
    world: &World,
    worker: &Actor,
    claim: &Claimed,
    result: &str,
) -> Result<Session, Error> {
    let how = Settle::Complete { result: Some(json(result)), text: None, usage: None };
    world.engine.settle(worker, &claim.session.id, claim.epoch, how, None).await
}

pub async fn fail(world: &World, worker: &Actor, claim: &Claimed) -> Session {
    let how = Settle::Fail { error: "it broke".into(), retryable: false, reason: None, usage: None };
    world.engine.settle(worker, &claim.session.id, claim.epoch, how, None).await.unwrap()
}

pub async fn trigger(world: &World, task: &str) -> Session {
    let session = world.engine.trigger(&world.owner(), task, None, None).await.unwrap();
    assert_eq!(world.session(session.id.as_str()).await, session, "what is told is what is kept");
    session
}

pub async fn take(world: &World, worker: &Actor) -> Claimed {
    world.claim(worker).await.pop().expect("there is work")
}

/// The step that a session stands for.
fn step(session: &Session) -> String {
    Run::of(session).step.expect("a step").key
}

async fn children(world: &World, parent: &Session) -> Vec<(String, Status)> {
    let page = world.engine.children(&world.owner(), &parent.id, 100, None).await.unwrap();
    let mut all: Vec<_> = page.items.iter().map(|child| (step(child), child.head.status)).collect();
    all.sort();
    all
}

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

async fn only_active_tasks_are_started(world: &World) {
    let task = define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#).await;
    for status in ["paused", "done", "archived"] {
        let patch = json(&format!(r#"{{"status":"{status}"}}"#));
        world.engine.redefine::<Task>(&world.owner(), &task, &patch, None).await.unwrap();
        let refused = world.engine.trigger(&world.owner(), &task, None, None).await.unwrap_err();
        assert_eq!(refused.code(), "task_not_active", "{status}");
    }
    world
        .engine
        .redefine::<Task>(&world.owner(), &task, &json(r#"{"status":"active"}"#), None)
        .await
        .unwrap();
    assert_eq!(trigger(world, &task).await.head.status, Status::Pending);
}

async fn a_task_names_only_what_is_there(world: &World) {
    for (text, field) in [
        (r#"{"slug":"t","name":"T","agent_slug":"nobody"}"#, "agent_slug"),
        (r#"{"slug":"t","name":"T","steps":[{"key":"a","agent_slug":"nobody"}]}"#, "agent_slug"),
        (r#"{"slug":"t","name":"T","entity_id":"none"}"#, "entity_id"),
        (r#"{"slug":"t","name":"T","criteria_set_ids":["none"]}"#, "criteria_set_ids"),
    ] {
        let task: Task = strict::read(json(text).as_str()).unwrap();
        match world.engine.define(&world.owner(), None, task, None).await {
            Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field),
            other => panic!("{text}: {other:?}"),
        }
    }
    let none = world.engine.definitions::<Task>(&world.owner(), Vec::new(), None, 10).await.unwrap();
    assert!(none.items.is_empty());
}

async fn a_slug_belongs_to_one_task(world: &World) {
    let text = r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#;
    define_task(world, text).await;
    let again: Task = strict::read(text).unwrap();
    let refused = world.engine.define(&world.owner(), None, again, None).await.unwrap_err();
    assert_eq!(refused.code(), "already_exists");
}

async fn members_start_and_change_their_own_tasks_and_loosen_nothing(world: &World) {
    let (ada, bob) = (world.actor(Role::Member, "ada"), world.actor(Role::Member, "bob"));
    let text = r#"{"slug":"t","name":"T","agent_slug":"eliza","requires_approval":true}"#;
    let task: Task = strict::read(text).unwrap();
    let task = world.engine.define(&ada, None, task, None).await.unwrap();
    assert_eq!(task.created_by, ada.user);
    let patch = |text: &str| json(text);
    let change = async |actor: &Actor, text: &str| {
        world.engine.redefine::<Task>(actor, &task.id, &patch(text), None).await.map(|task| task.version)
    };
    assert_eq!(change(&ada, r#"{"name":"Better"}"#).await.unwrap(), 2);
    assert_eq!(change(&ada, r#"{"requires_approval":false}"#).await.unwrap_err().code(), "denied");
    assert_eq!(change(&bob, r#"{"name":"Mine"}"#).await.unwrap_err().code(), "not_found");
    assert_eq!(change(&world.owner(), r#"{"requires_approval":false}"#).await.unwrap(), 3);
    assert!(world.engine.trigger(&ada, "t", None, None).await.is_ok());
    assert_eq!(world.engine.trigger(&bob, "t", None, None).await.unwrap_err().code(), "not_found");
    change(&world.owner(), r#"{"assigned_to":"bob"}"#).await.unwrap();
    let session = world.engine.trigger(&bob, "t", None, None).await.unwrap();
    assert!(world.engine.session(&ada, &session.id).await.is_ok(), "who made the task sees its runs");
    for role in [Role::Guest, Role::Worker, Role::Channel] {
        let other = world.actor(role, "x");
        assert!(world.engine.trigger(&other, "t", None, None).await.is_err(), "{role:?}");
    }
}

async fn a_result_is_written_back_with_the_end_of_its_run(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", r#"{"kept":1.50,"n":0}"#).await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1",
            "output":{"type":"entity","fields":{"n":"count","who":"by.name"},
                "schema":{"type":"object","required":["count"],"properties":{"count":{"type":"integer"}}}}}"#,
    )
    .await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let done =
        complete(world, &worker, &claim, r#"{"count":7,"by":{"name":"x"},"more":true}"#).await.unwrap();
    assert_eq!(done.head.status, Status::Completed);
    assert_eq!(entity(world, "e1").await, r#"{"kept":1.50,"n":7,"who":"x"}"#);
}

async fn a_result_that_cannot_be_written_back_ends_nothing(world: &World) {
    let worker = world.worker("w");
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","output":{"type":"entities","entity_type":"note"}}"#,
    )
    .await;
    let session = trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let twins = complete(world, &worker, &claim, r#"[{"id":"e1","n":1},{"id":"e1","n":2}]"#).await;
    assert!(twins.is_err(), "two new entities have one id");
    assert_eq!(world.session(session.id.as_str()).await.head.status, Status::Running);
    let none = world.engine.definition::<Entity>(&world.owner(), "e1").await;
    assert_eq!(none.unwrap_err().code(), "not_found");
    let done = complete(world, &worker, &claim, r#"[{"id":"e1","n":1},{"id":"e2","n":2}]"#).await.unwrap();
    assert_eq!(done.head.status, Status::Completed);
    assert_eq!(entity(world, "e1").await, r#"{"n":1}"#);
}

async fn a_result_that_does_not_fit_is_repaired_once_and_then_fails(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", "{}").await;
    let contract = r#"{"slug":"SLUG","name":"T","agent_slug":"eliza","entity_id":"e1",
        "output":{"type":"entity","schema":{"type":"object","required":["n"]}}}"#;
    for (slug, second, end) in [("a", r#"{"n":1}"#, Status::Completed), ("b", "{}", Status::Failed)] {
        define_task(world, &contract.replace("SLUG", slug)).await;
        trigger(world, slug).await;
        let claim = take(world, &worker).await;
        match complete(world, &worker, &claim, r#"{"m":1}"#).await {
            Err(Error::OutputInvalid { complaints }) => {
                assert!(complaints[0].contains('n'), "{complaints:?}")
            }
            other => panic!("{other:?}"),
        }
        let waiting = world.session(claim.session.id.as_str()).await;
        assert_eq!(waiting.head.status, Status::Running, "the claim stays the worker's");
        let done = complete(world, &worker, &claim, second).await.unwrap();
        assert_eq!(done.head.status, end);
        if end == Status::Failed {
            assert_eq!(done.details.end_reason.as_deref(), Some("output_invalid"));
        }
    }
    assert_eq!(entity(world, "e1").await, r#"{"n":1}"#);
}

pub async fn define_criteria(world: &World) {
    let set: CriteriaSet = strict::read(
        json(
            r#"{"name":"care","dimensions":[{"slug":"tone","type":"select",
                "options":[{"value":"kind","score":1},{"value":"curt","score":0.5,"flag":true},{"value":"cruel"}],
                "option_styles":{"cruel":{"hard_block":true,"color":"red"}}}]}"#,
        )
        .as_str(),
    )
    .unwrap();
    world.engine.define(&world.owner(), Some("care"), set, None).await.unwrap();
}

async fn a_hard_block_fails_the_run_at_once(world: &World) {
    let worker = world.worker("w");
    define_criteria(world).await;
    define_entity(world, "e1", "{}").await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1","criteria_set_ids":["care"],
            "output":{"type":"entity"}}"#,
    )
    .await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let done = complete(world, &worker, &claim, r#"{"tone":"cruel"}"#).await.unwrap();
    assert_eq!(done.head.status, Status::Failed);
    assert_eq!(done.details.end_reason.as_deref(), Some("hard_blocked"));
    assert!(done.details.error_message.unwrap().contains("cruel"));
    assert_eq!(entity(world, "e1").await, "{}");
}

async fn lists_of_entities_and_related_entities_are_made(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", r#"{"links":["old"]}"#).await;
    define_task(
        world,
        r#"{"slug":"many","name":"T","agent_slug":"eliza","output":{"type":"entities","entity_type":"fact"}}"#,
    )
    .await;
    define_task(
        world,
        r#"{"slug":"rel","name":"T","agent_slug":"eliza","entity_id":"e1",
            "output":{"type":"relation-entity","entity_type":"link","relation":"links"}}"#,
    )
    .await;
    trigger(world, "many").await;
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, r#"[{"x":1},{"id":"e1","x":2},{"id":"new","title":"N"}]"#)
        .await
        .unwrap();
    let facets = vec![("type_slug", "fact".to_owned())];
    let facts = world.engine.definitions::<Entity>(&world.owner(), facets, None, 10).await.unwrap();
    assert_eq!(facts.items.len(), 2);
    assert_eq!(facts.items[0].value.title.as_deref(), Some("N"));
    assert_eq!(entity(world, "e1").await, r#"{"links":["old"],"x":2}"#);

    trigger(world, "rel").await;
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, r#"{"to":"there"}"#).await.unwrap();
    let facets = vec![("type_slug", "link".to_owned())];
    let links = world.engine.definitions::<Entity>(&world.owner(), facets, None, 10).await.unwrap();
    let made = &links.items[0].id;
    assert_eq!(entity(world, "e1").await, format!(r#"{{"links":["old","{made}"],"x":2}}"#));
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
    assert_eq!(inbox[0].kind, sederunt_core::approval::Kind::Question);
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
    assert_eq!(inbox.state, sederunt_core::approval::State::Approved);
}

async fn a_bundle_carries_every_field(world: &World) {
    define_criteria(world).await;
    define_entity(world, "e1", r#"{"a":1.50}"#).await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1","criteria_set_ids":["care"],
            "approval":{"expires_in_s":60,"on_expiry":"deny"},"limits":{"tokens":5},"priority":-3,
            "steps":[{"key":"a","agent_slug":"eliza","input":{"x":[1]},"output":{"type":"text"}}],
            "on_child_failure":"continue","requires_approval":true,"description":"D","assigned_to":"ada"}"#,
    )
    .await;
    let agent: Agent = strict::read(
        json(
            r#"{"slug":"w","name":"W","model":"eliza","instructions":"I","limits":{"concurrency":2},"tools":[
                {"type":"http","name":"look_up","url":"https://example.org/x","schema":{"type":"object"},
                 "headers":{"X-Key":"secret:k"},"requires_confirmation":true},
                {"type":"mcp","server":"files","allow":["read"]},{"type":"builtin","name":"request_input"}]}"#,
        )
        .as_str(),
    )
    .unwrap();
    world.engine.define(&world.owner(), None, agent, None).await.unwrap();
    let bundle = world.engine.bundle(&world.owner()).await.unwrap();
    assert_eq!(bundle.len(), 4);
    let text = serde_json::to_string(&bundle).unwrap();
    assert!(text.contains(r#""hard_block":true,"color":"red""#), "{text}");
    let read: Bundle = serde_json::from_str(&text).unwrap();
    assert_eq!(read, bundle);
    // Into a tenant that has nothing yet, and there again.
    let elsewhere = world.other_tenant().await;
    assert_eq!(world.engine.import(&elsewhere, read.clone(), None).await.unwrap(), 4);
    assert_eq!(world.engine.bundle(&elsewhere).await.unwrap(), bundle);
    assert_eq!(world.engine.import(&elsewhere, read, None).await.unwrap(), 4);
    let task = world.engine.definition::<Task>(&elsewhere, "t").await.unwrap();
    assert_eq!(task.version, 1, "what is the same is left alone");
    // Whole or not at all.
    let mut broken = bundle.clone();
    broken.entities[0].value.type_slug = "other".into();
    broken.tasks[0].value.agent_slug = Some("nobody".into());
    assert!(world.engine.import(&elsewhere, broken, None).await.is_err());
    assert_eq!(world.engine.bundle(&elsewhere).await.unwrap(), bundle);
    let member = world.actor(Role::Member, "ada");
    assert_eq!(world.engine.bundle(&member).await.unwrap_err().code(), "denied");
}

async fn what_a_run_uses_adds_up_over_its_attempts(world: &World) {
    let worker = world.worker("w");
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#).await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let how = Settle::Fail {
        error: "busy".into(),
        retryable: true,
        reason: None,
        usage: Some(json(r#"{"input_tokens":10,"cost":0.5,"model":"a"}"#)),
    };
    world.engine.settle(&worker, &claim.session.id, claim.epoch, how, None).await.unwrap();
    let claim = take(world, &worker).await;
    let usage = Some(json(r#"{"input_tokens":5,"output_tokens":2,"cost":0.25,"model":"b"}"#));
    let how = Settle::Complete { result: None, text: None, usage };
    let done = world.engine.settle(&worker, &claim.session.id, claim.epoch, how, None).await.unwrap();
    assert_eq!(
        done.details.usage.unwrap().as_str(),
        r#"{"input_tokens":15,"cost":0.75,"model":"b","output_tokens":2}"#
    );
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
    let mut held: Vec<Claimed> = [a, b, c].into_iter().flat_map(Result::unwrap).collect();
    held.extend(world.engine.claim(&worker, many(&[]), None).await.unwrap());
    let of = |held: &[Claimed], agent: &str| {
        held.iter().filter(|claim| claim.session.details.agent_slug.as_deref() == Some(agent)).count()
    };
    assert_eq!((of(&held, "one"), of(&held, "eliza")), (2, 1));
    // An end makes room, and wakes who waits for it.
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
