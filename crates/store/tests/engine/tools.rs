//! Tool sessions: given up after silence, invoked once whoever asks, retried behind one start, and never deeper than three.

use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::definitions::ToolDefinition;
use sederunt_core::engine::ToolStart;
use sederunt_core::event::EventQuery;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::work::{ClaimRequest, Settle};
use sederunt_core::{Error, Role, SessionId, limits, strict};

use crate::harness::{World, request};
use crate::on_both_stores;
use crate::tasks::json;

on_both_stores!(
    seven_silent_days_abandon_a_tool_session_and_a_value_re_arms_it,
    eight_invocations_at_once_on_two_nodes_are_one,
    a_lost_lease_starts_no_second_invocation_and_the_last_one_ends_it,
    tools_with_steps_are_nested_at_most_three_deep,
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
