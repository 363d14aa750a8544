//! Tool sessions: given up after silence, invoked once whoever asks, retried behind one start, and never deeper than three.

use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::definitions::ToolDefinition;
use sederunt_core::engine::{NewUser, Post, PostFate, RunningTurn, ToolStart};
use sederunt_core::event::EventQuery;
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::session::{Session, SessionType, Status};
use sederunt_core::talk::turn::{TurnOutcome, TurnOutcomeKind};
use sederunt_core::talk::{StateFields, TurnRecords};
use sederunt_core::work::{ClaimRequest, ClaimedRun, Pause, Settle};
use sederunt_core::{Actor, Error, Role, SessionId, UserId, limits, strict};

use crate::harness::{World, hold, request};
use crate::on_both_stores;
use crate::tasks::{define_task, json};

on_both_stores!(
    seven_silent_days_abandon_a_tool_session_and_a_value_re_arms_it,
    eight_invocations_at_once_on_two_nodes_are_one,
    a_lost_lease_starts_no_second_invocation_and_the_last_one_ends_it,
    tools_with_steps_are_nested_at_most_three_deep,
    what_was_invoked_is_not_abandoned_by_silence,
    every_end_of_a_step_is_told_in_its_parents_log,
    the_tools_that_a_run_called_end_with_it,
    the_tools_that_a_turn_called_end_when_it_is_cut_short,
    an_invocation_goes_on_for_whom_its_person_became,
);

async fn define(world: &World, slug: &str, run: &str) -> Result<(), Error> {
    let text = format!(
        r#"{{"slug":"{slug}","name":"T","run":{run},"input_schema":{{"type":"object",
            "properties":{{"n":{{"type":"integer"}}}}}}}}"#
    );
    let tool: ToolDefinition = strict::read(json(&text).as_str()).unwrap();
    world.engine.define(&world.owner(), None, tool, None).await.map(drop)
}

const HTTP: &str = r#"{"type":"http","url":"https://example.org/"}"#;

async fn start(world: &World) -> SessionId {
    let ada = world.actor(Role::Member, "ada");
    world.engine.start_tool(&ada, "t", ToolStart::default(), None).await.unwrap().session.id
}

async fn count(world: &World, id: &SessionId, kind: &str) -> usize {
    let query = EventQuery { limit: 1000, ..EventQuery::default() };
    let events = world.engine.read(&world.owner(), id, query).await.unwrap().events;
    events.iter().filter(|event| event.kind.as_str() == kind).count()
}

async fn seven_silent_days_abandon_a_tool_session_and_a_value_re_arms_it(world: &World) {
    define(world, "t", HTTP).await.unwrap();
    let (ada, id) = (world.actor(Role::Member, "ada"), start(world).await);
    let status = async || world.session(id.as_str()).await.head.status;
    let nearly = limits::TOOL_SESSION_DEADLINE - Duration::from_secs(60);
    world.clock.advance(nearly);
    world.engine.sweep().await.unwrap();
    assert_eq!(status().await, Status::Draft);
    world.engine.fill_tool(&ada, &id, &json(r#"{"n":1}"#), None).await.unwrap();
    world.clock.advance(nearly);
    world.engine.sweep().await.unwrap();
    assert_eq!(status().await, Status::Running);
    world.clock.advance(Duration::from_secs(120));
    world.engine.sweep().await.unwrap();
    assert_eq!(status().await, Status::Abandoned);
    assert_eq!(count(world, &id, "tool.invocation_failed").await, 0, "nothing was invoked");
}

async fn eight_invocations_at_once_on_two_nodes_are_one(world: &World) {
    define(world, "t", HTTP).await.unwrap();
    let other = world.other_node().await;
    let (ada, id) = (world.actor(Role::Member, "ada"), start(world).await);
    let invocations = (0..8).map(|n: usize| {
        let engine = if n.is_multiple_of(2) { world.engine.clone() } else { other.clone() };
        let (ada, id) = (ada.clone(), id.clone());
        tokio::spawn(async move { engine.invoke_tool(&ada, &id, None, None).await })
    });
    let done: Vec<_> = join_all(invocations).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
    for refused in done.into_iter().filter_map(Result::err) {
        assert_eq!(refused.code(), "session_running");
    }
}

async fn a_lost_lease_starts_no_second_invocation_and_the_last_one_ends_it(world: &World) {
    define(world, "t", HTTP).await.unwrap();
    let (ada, id) = (world.actor(Role::Member, "ada"), start(world).await);
    world.engine.invoke_tool(&ada, &id, None, None).await.unwrap();
    let worker = world.actor(Role::Worker, "w");
    let claim = async || {
        let wish = ClaimRequest { session_types: vec![SessionType::Tool], ..request() };
        world.engine.claim(&worker, wish, None).await.unwrap().pop().unwrap()
    };
    let first = claim().await;
    world.clock.advance(Duration::from_secs(31));
    world.engine.sweep().await.unwrap();
    let second = claim().await;
    let done = || Settle::Complete { result: None, text: None, usage: None };
    let late = world.engine.settle(&worker, &id, first.epoch, done(), None).await;
    assert_eq!(late.unwrap_err().code(), "fenced");
    world.engine.settle(&worker, &id, second.epoch, done(), None).await.unwrap();
    assert_eq!(count(world, &id, "tool.invocation_started").await, 1);
    assert_eq!(count(world, &id, "tool.invocation_completed").await, 1);

    let id = start(world).await;
    world.engine.invoke_tool(&ada, &id, None, None).await.unwrap();
    for _ in 0..limits::ATTEMPTS_MAX {
        claim().await;
        world.clock.advance(Duration::from_secs(31));
        world.engine.sweep().await.unwrap();
    }
    assert_eq!(world.session(id.as_str()).await.head.status, Status::Failed);
    assert_eq!(count(world, &id, "tool.invocation_started").await, 1);
    assert_eq!(count(world, &id, "tool.invocation_failed").await, 1);
}

async fn tools_with_steps_are_nested_at_most_three_deep(world: &World) {
    define(world, "t0", HTTP).await.unwrap();
    let steps =
        |tool: usize| format!(r#"{{"type":"steps","steps":[{{"key":"k","tool":"t{tool}","input":{{}}}}]}}"#);
    for depth in 1..=limits::TOOL_NESTING_MAX {
        define(world, &format!("t{depth}"), &steps(depth - 1)).await.unwrap();
    }
    let deeper = define(world, "deeper", &steps(limits::TOOL_NESTING_MAX)).await;
    assert_eq!(deeper.unwrap_err().code(), "invalid");
}

async fn take(world: &World, worker: &Actor) -> ClaimedRun {
    let wish = ClaimRequest { session_types: vec![SessionType::Tool], ..request() };
    world.engine.claim(worker, wish, None).await.unwrap().pop().expect("a tool is queued")
}

async fn settle(world: &World, worker: &Actor, claim: &ClaimedRun, how: Settle) {
    world.engine.settle(worker, &claim.session.id, claim.epoch, how, None).await.unwrap();
}

fn fails() -> Settle {
    Settle::Fail { error: "no".to_owned(), retryable: false, reason: None, usage: None }
}

fn completes(result: &str) -> Settle {
    Settle::Complete { result: Some(json(result)), text: None, usage: None }
}

/// A session of a tool with steps, invoked by ada.
async fn invoked(world: &World, slug: &str, steps: &str) -> SessionId {
    define(world, slug, &format!(r#"{{"type":"steps","steps":[{steps}]}}"#)).await.unwrap();
    let ada = world.actor(Role::Member, "ada");
    let id = world.engine.start_tool(&ada, slug, ToolStart::default(), None).await.unwrap().session.id;
    world.engine.invoke_tool(&ada, &id, None, None).await.unwrap();
    id
}

/// The status of a session of a tool, and those of its steps in their order.
async fn standing(world: &World, id: &SessionId) -> (Status, Vec<(String, Status)>) {
    let found = world.engine.tool_session(&world.owner(), id).await.unwrap();
    let steps = found.steps.into_iter().map(|step| (step.key, step.session.head.status)).collect();
    (found.session.head.status, steps)
}

async fn what_was_invoked_is_not_abandoned_by_silence(world: &World) {
    define(world, "t", HTTP).await.unwrap();
    let steps = r#"{"key":"a","tool":"t","input":{}},{"key":"b","tool":"t","input":{},"depends_on":["a"]}"#;
    let id = invoked(world, "outer", steps).await;
    let worker = world.actor(Role::Worker, "w");
    let nearly = limits::WAITING_DEADLINE - Duration::from_secs(60);
    world.clock.advance(nearly);
    world.engine.sweep().await.unwrap();
    let first = take(world, &worker).await;
    let question = Some(json(r#"{"text":"How many?"}"#));
    let asks = Settle::Yield { pause: Pause::Human { question }, usage: None };
    settle(world, &worker, &first, asks).await;
    world.clock.advance(nearly);
    world.engine.sweep().await.unwrap();
    let expected = vec![("a".to_owned(), Status::WaitingHuman), ("b".to_owned(), Status::Draft)];
    assert_eq!(standing(world, &id).await, (Status::Running, expected), "twice as long as a form is kept");
    world.clock.advance(Duration::from_secs(120));
    world.engine.sweep().await.unwrap();
    let expected = vec![("a".to_owned(), Status::Expired), ("b".to_owned(), Status::Abandoned)];
    assert_eq!(standing(world, &id).await, (Status::Failed, expected), "the step's own deadline ends all");
}

/// How often a log tells of steps that started and that ended.
async fn told(world: &World, id: &SessionId) -> (usize, usize) {
    let started = count(world, id, "tool.composition_step.started").await;
    (started, count(world, id, "tool.composition_step.completed").await)
}

async fn every_end_of_a_step_is_told_in_its_parents_log(world: &World) {
    define(world, "t", HTTP).await.unwrap();
    define(world, "inner", r#"{"type":"steps","steps":[{"key":"k","tool":"t","input":{}}]}"#).await.unwrap();
    let steps = r#"{"key":"a","tool":"t","input":{}},{"key":"b","tool":"t","input":{},"depends_on":["a"]},
        {"key":"c","tool":"inner","input":{}}"#;
    let worker = world.actor(Role::Worker, "w");
    let ada = world.actor(Role::Member, "ada");
    for fails_itself in [true, false] {
        let id = invoked(world, if fails_itself { "one" } else { "two" }, steps).await;
        assert_eq!(told(world, &id).await, (2, 0));
        let steps = world.engine.tool_session(&ada, &id).await.unwrap().steps;
        let [a, _, c] = &steps[..] else { panic!("{steps:?}") };
        if fails_itself {
            // Of the two that are queued, the first step is the one that fails.
            let mut claims = vec![take(world, &worker).await, take(world, &worker).await];
            let first = claims.iter().position(|claim| claim.session.id == a.session.id).unwrap();
            settle(world, &worker, &claims.remove(first), fails()).await;
            let late =
                world.engine.settle(&worker, &claims[0].session.id, claims[0].epoch, fails(), None).await;
            assert_eq!(late.unwrap_err().code(), "fenced", "a called-off tool is fenced off at once");
        } else {
            world.engine.cancel_tool(&ada, &id, None).await.unwrap();
        }
        let (status, after) = standing(world, &id).await;
        assert!(status.is_failing() && after.iter().all(|(_, status)| status.is_failing()), "{after:?}");
        assert_eq!(told(world, &id).await, (2, 3), "each of the three steps has ended once");
        assert_eq!(told(world, &c.session.id).await, (1, 1), "also inside a step");
        assert_eq!(count(world, &id, "tool.invocation_failed").await, 1);
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        let log = world.engine.read(&world.owner(), &id, query).await.unwrap().events;
        let place = |kind: &str| log.iter().rposition(|event| event.kind.as_str() == kind).unwrap();
        assert!(place("tool.composition_step.completed") < place("tool.invocation_failed"));
    }
}

async fn calls(world: &World, caller: &Session, key: &str) -> SessionId {
    world.engine.call_tool(caller, "t", &json("{}"), key).await.unwrap().id
}

async fn the_tools_that_a_run_called_end_with_it(world: &World) {
    define(world, "t", HTTP).await.unwrap();
    define(world, "nested", r#"{"type":"steps","steps":[{"key":"k","tool":"t","input":{}}]}"#).await.unwrap();
    let (worker, owner) = (world.worker("w"), world.owner());
    let status = async |id: &SessionId| world.session(id.as_str()).await.head.status;

    let run = world.claimed("stopped", &worker).await;
    let (child, nested) = (
        calls(world, &run.session, "1").await,
        world.engine.call_tool(&run.session, "nested", &json("{}"), "2").await.unwrap().id,
    );
    world.engine.stop(&owner, &run.session.id, None).await.unwrap();
    settle(world, &worker, &run, fails()).await;
    assert_eq!(status(&run.session.id).await, Status::Abandoned);
    assert_eq!((status(&child).await, status(&nested).await), (Status::Abandoned, Status::Abandoned));
    let below = world.engine.tool_session(&owner, &nested).await.unwrap().steps;
    assert_eq!(below[0].session.head.status, Status::Abandoned);

    let run = world.claimed("died", &worker).await;
    let child = calls(world, &run.session, "1").await;
    for attempt in 1..=limits::ATTEMPTS_MAX {
        world.clock.advance(Duration::from_secs(31));
        world.engine.sweep().await.unwrap();
        let expected = if attempt < limits::ATTEMPTS_MAX { Status::Pending } else { Status::Abandoned };
        assert_eq!(status(&child).await, expected, "another worker waits for the same child");
        world.claim(&worker).await;
    }
    assert_eq!(status(&run.session.id).await, Status::Failed);

    let run = world.claimed("failed", &worker).await;
    let child = calls(world, &run.session, "1").await;
    settle(world, &worker, &run, fails()).await;
    assert_eq!(status(&child).await, Status::Abandoned);
}

async fn turn(world: &World, said: &str) -> RunningTurn {
    let post = Post::text(said).unwrap();
    let id = SessionId::stored("talk");
    match world.engine.post(&world.owner(), &id, post, &hold("a"), None).await.unwrap().fate {
        PostFate::Started(begun) => *begun,
        other => panic!("{other:?}"),
    }
}

async fn the_tools_that_a_turn_called_end_when_it_is_cut_short(world: &World) {
    define(world, "t", HTTP).await.unwrap();
    world.talk("talk").await;
    let status = async |id: &SessionId| world.session(id.as_str()).await.head.status;
    let finish = async |begun: &RunningTurn, kind: TurnOutcomeKind| {
        let outcome = TurnOutcome {
            kind,
            events: Vec::new(),
            change: StateFields::default(),
            buffer: Buffer::default(),
            crisis: 0,
            records: TurnRecords::default(),
            usage: None,
        };
        world.engine.finish_turn(begun, outcome).await.unwrap();
    };
    for kind in [TurnOutcomeKind::Stopped, TurnOutcomeKind::Failed] {
        let begun = turn(world, "Call it.").await;
        let child = calls(world, &begun.session, kind.as_str()).await;
        finish(&begun, kind).await;
        assert_eq!(status(&child).await, Status::Abandoned, "{kind:?}");
    }
    for is_swept in [true, false] {
        let begun = turn(world, "Call it.").await;
        let child = calls(world, &begun.session, if is_swept { "swept" } else { "next" }).await;
        world.clock.advance(Duration::from_secs(31));
        if is_swept {
            world.engine.sweep().await.unwrap();
        } else {
            let next = turn(world, "Still there?").await;
            finish(&next, TurnOutcomeKind::Answered).await;
        }
        assert_eq!(status(&child).await, Status::Abandoned, "swept: {is_swept}");
    }
    assert_eq!(status(&SessionId::stored("talk")).await, Status::Idle);
}

async fn an_invocation_goes_on_for_whom_its_person_became(world: &World) {
    for user in ["ada", "bea"] {
        let new = NewUser { id: Some(user.to_owned()), ..NewUser::default() };
        world.engine.create_user(&world.owner(), new, None).await.unwrap();
    }
    define(world, "t", HTTP).await.unwrap();
    define_task(world, r#"{"slug":"hers","name":"Hers","agent_slug":"external","assigned_to":"ada"}"#).await;
    define(world, "run", r#"{"type":"task","task":"hers"}"#).await.unwrap();
    let steps = r#"{"key":"a","tool":"t","input":{}},{"key":"b","tool":"run","input":{},"depends_on":["a"]}"#;
    let id = invoked(world, "outer", steps).await;
    let (ada, bea) = (UserId::stored("ada"), UserId::stored("bea"));
    world.engine.merge_users(&world.owner(), &ada, &bea, None).await.unwrap();
    let worker = world.actor(Role::Worker, "w");
    let first = take(world, &worker).await;
    settle(world, &worker, &first, completes("{}")).await;
    let now = world.engine.tool_session(&world.actor(Role::Member, "bea"), &id).await.unwrap();
    assert_eq!(now.session.head.status, Status::Running, "{:?}", now.session.details.error_message);
    let step = &now.steps[1].session;
    assert_eq!((step.head.status, &step.head.holder), (Status::Running, &Some(bea.clone())));
    let run = world.claim(&worker).await.pop().expect("her task is queued");
    assert_eq!(run.session.details.parent_id.as_ref(), Some(&step.id));
    assert_eq!(run.session.head.holder, Some(bea));
}
