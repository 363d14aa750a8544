//! Workers that die or come too late, models that break and agents that cannot run here.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::approval::decide::Decision;
use sederunt_core::definitions::{Agent, ToolDefinition};
use sederunt_core::session::Status;
use sederunt_core::strict;
use serde_json::{Value, json};

use super::elicitation;
use super::world::{LEASE, World, tool};
use crate::ground::until;
use crate::wire::{Answer, Server};

#[tokio::test]
async fn a_call_that_was_begun_before_a_crash_is_not_made_again() {
    for more in ["", r#","requires_confirmation":true"#] {
        let mut world = World::new();
        let mut server = Server::start(vec![Answer::Hang(Vec::new())]).await;
        world.script(
            "sender",
            r#"[{"call":{"name":"send","args":{"to":"x"}}},{"expect":"outcome_unknown","say":"I cannot tell."}]"#,
        );
        world.agent("sender", &tool("send", &server.url("/send"), more)).await;
        let id = world.trigger("sender", "").await;
        if !more.is_empty() {
            world.work().await;
            world.decide(Decision::Approve, None).await;
        }
        let first = world.executor(LEASE);
        let actor = Arc::new(first.actor(world.owner.tenant.clone()));
        let claimed = first.take(&actor, 1).await.unwrap().pop().unwrap();
        let running = tokio::spawn(async move { first.run(&actor, claimed).await });
        until("the call", async || !server.asked().is_empty()).await;
        running.abort();
        server.client_is_gone().await;

        world.clock.advance(LEASE + Duration::from_secs(1));
        assert_eq!(world.engine.sweep().await.unwrap().leases_lost, 1);
        world.work().await;
        assert_eq!(world.session(&id).await.head.status, Status::Completed);
        assert_eq!(
            world.story(&id).await,
            "tool_call(send) tool_result(send: outcome_unknown) message(I cannot tell.)"
        );
        assert_eq!(world.invocations(&id).await, "started failed(outcome_unknown)");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_writes_nothing_more() {
    let mut world = World::new();
    let server = Server::start(vec![Answer::Hang(Vec::new())]).await;
    world.script("sender", r#"[{"call":{"name":"send"}},{"say":"Done."}]"#);
    world.agent("sender", &tool("send", &server.url("/send"), r#","timeout_ms":1"#)).await;
    let id = world.trigger("sender", "").await;
    let (first, second) = (world.executor(LEASE), world.executor(LEASE));
    let actor = Arc::new(first.actor(world.owner.tenant.clone()));
    let claimed = first.take(&actor, 1).await.unwrap().pop().unwrap();
    world.clock.advance(LEASE + Duration::from_secs(1));
    world.engine.sweep().await.unwrap();
    let other = Arc::new(second.actor(world.owner.tenant.clone()));
    let taken = second.take(&other, 1).await.unwrap().pop().unwrap();
    let before = world.log(&id).await.len();
    first.run(&actor, claimed).await;
    assert_eq!(world.log(&id).await.len(), before, "the first worker is fenced off");
    assert!(server.asked().is_empty(), "and it called nothing");
    drop(taken);
}

#[tokio::test]
async fn a_model_that_may_recover_is_given_another_run() {
    let mut world = World::new();
    world.script("flaky", r#"[{"fail":{"kind":"cut_short","times":1},"say":"Here I am."}]"#);
    world.agent("flaky", "[]").await;
    let id = world.trigger("flaky", "").await;
    world.work().await;
    let session = world.session(&id).await;
    assert_eq!((session.head.status, session.head.attempts), (Status::Completed, 2));
}

#[tokio::test]
async fn an_agent_that_this_server_cannot_be_fails_and_an_external_one_is_left_alone() {
    let mut world = World::new();
    for (slug, model) in [("ghost", "openai:none"), ("elsewhere", "external")] {
        let text = format!(r#"{{"slug":"{slug}","name":"X","model":"{model}"}}"#);
        let agent: Agent = strict::read(&text).unwrap();
        world.engine.define(&world.owner, None, agent, None).await.unwrap();
    }
    let server = "[{\"type\":\"mcp\",\"server\":\"none\"}]";
    world.script("mcp", r#"[{"say":"x"}]"#);
    world.agent("mcp", server).await;
    let (ghost, elsewhere, mcp) = (
        world.trigger("ghost", "").await,
        world.trigger("elsewhere", "").await,
        world.trigger("mcp", "").await,
    );
    world.work().await;
    for id in [ghost, mcp] {
        let session = world.session(&id).await;
        assert_eq!(session.details.end_reason.as_deref(), Some("agent_unfit"));
    }
    assert_eq!(world.session(&elsewhere).await.head.status, Status::Pending);
}

fn pays(_: &Value) -> Value {
    elicitation::done("paid")
}

#[tokio::test]
async fn the_next_worker_waits_for_the_tool_that_a_dead_one_had_called() {
    let (mut world, server) = elicitation::world_with(pays).await;
    let tool = json!({"slug": "t", "name": "T", "input_schema": {"type": "object"},
        "run": {"type": "mcp", "server": "bank", "tool": "pay"}});
    let tool: ToolDefinition = strict::read(&tool.to_string()).unwrap();
    world.engine.define(&world.owner, None, tool, None).await.unwrap();
    world.script("payer", r#"[{"call":{"name":"t","args":{}}},{"expect":"paid","say":"Done."}]"#);
    world.agent("payer", r#"[{"type":"tool","slug":"t"}]"#).await;
    let id = world.trigger("payer", "").await;
    let executor = world.executor(LEASE);
    let actor = Arc::new(executor.actor(world.owner.tenant.clone()));
    let run = executor.take(&actor, 1).await.unwrap().pop().unwrap();
    let children = async || world.engine.children(&world.owner, &id, 10, None).await.unwrap().items.len();
    tokio::select! {
        () = executor.run(&actor, run) => panic!("nobody runs the tool"),
        () = until("the call", async || children().await == 1) => {}
    }
    // The worker is gone, and nobody has run the tool yet.
    world.clock.advance(LEASE + Duration::from_secs(1));
    world.engine.sweep().await.unwrap();
    let tools = async {
        let mut taken = Vec::new();
        while taken.is_empty() {
            tokio::task::yield_now().await;
            taken = executor.take_tools(&actor, 1).await.unwrap();
        }
        executor.run(&actor, taken.remove(0)).await;
    };
    let again = executor.take(&actor, 1).await.unwrap().pop().expect("the run is queued again");
    tokio::join!(executor.run(&actor, again), tools);
    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    assert_eq!(server.called().len(), 1);
    assert_eq!(world.invocations(&id).await, "started completed");
    assert_eq!(children().await, 1);
}
