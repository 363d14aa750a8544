//! The demo's entity whose fields stand differently: one was written, one waits for a person, one could not be found and
//! one is queued. The demo runs these tasks itself, as a worker from outside.

use std::sync::Arc;

use sederunt::{Actor, ClaimRequest, Engine, Error, Json, Result, SessionType, Settle};
use sederunt_core::definitions::Bundle;
use serde_json::json;

use super::demo_text::usage;
use super::tasks::VISITED;

/// The agent whose tasks are run while filling.
const SCOUT: &str = "demo-scout";
/// An agent that no worker runs.
const NIGHTLY: &str = "demo-archivist";

pub async fn fill_in(engine: &Engine, me: &Arc<Actor>) -> Result<()> {
    let agent = |slug: &str, name: &str| json!({"slug": slug, "name": name, "model": "external"});
    let task = |slug: &str, name: &str, agent: &str, field: &str, asks: bool| {
        json!({
            "id": slug, "slug": slug, "name": name, "agent_slug": agent, "entity_id": VISITED,
            "requires_approval": asks,
            "output": {"type": "entity", "schema": {"type": "object", "required": [field],
                "properties": {field: {"type": "string"}}}},
        })
    };
    let definitions = json!({
        "agents": [agent(SCOUT, "Scout"), agent(NIGHTLY, "Archivist")],
        "tasks": [
            task("demo-ferries", "Find the ferries to Mull", SCOUT, "ferries", false),
            task("demo-beds", "Find a place to sleep on Mull", SCOUT, "lodging", true),
            task("demo-walks", "Find the walks of Mull", SCOUT, "walks", false),
            task("demo-history", "Write the history of Mull", NIGHTLY, "history", false),
        ],
    });
    engine.import(me, Bundle::read(&Json::of(&definitions)?)?, None).await?;
    let found = |field: &str, text: &str, tokens| -> Result<Settle> {
        Ok(Settle::Complete {
            result: Some(Json::of(&json!({ field: text }))?),
            text: None,
            usage: Some(usage(tokens)?),
        })
    };
    run(engine, me, "demo-ferries", found("ferries", "From Oban, 46 minutes, five a day", (2_240, 118))?)
        .await?;
    run(engine, me, "demo-beds", found("lodging", "The inn at Tobermory, two rooms", (3_910, 204))?).await?;
    let lost = Settle::Fail {
        error: "the map service did not answer".into(),
        retryable: false,
        reason: None,
        usage: Some(usage((1_020, 12))?),
    };
    run(engine, me, "demo-walks", lost).await?;
    engine.trigger(me, "demo-history", None, None).await.map(drop)
}

/// Starts a task and ends its run.
async fn run(engine: &Engine, me: &Arc<Actor>, task: &str, how: Settle) -> Result<()> {
    engine.trigger(me, task, None, None).await?;
    let request = ClaimRequest {
        worker: "demo".into(),
        session_types: vec![SessionType::Agent],
        agent_slugs: vec![SCOUT.into()],
        limit: 1,
        lease: engine.settings().lease,
        wait: std::time::Duration::ZERO,
    };
    let claimed = engine.claim(me, request, None).await?.pop();
    let claimed = claimed.ok_or_else(|| Error::internal("the demo's own run was taken by another worker"))?;
    engine.settle(me, &claimed.session.id, claimed.epoch, how, None).await.map(drop)
}
