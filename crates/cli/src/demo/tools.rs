//! The demo's tool: a form that starts one of the demo's tasks, run once, and a second session that is not filled in yet.

use std::sync::Arc;

use sederunt::{Actor, Engine, Json, PatchSession, Result, SessionId};
use sederunt_core::definitions::ToolDefinition;
use sederunt_core::engine::ToolStart;
use serde_json::{Value, json};

const TOOL: &str = "demo-plan";

pub async fn run_one(engine: &Engine, me: &Arc<Actor>, task: &str) -> Result<()> {
    let tool: ToolDefinition = sederunt_core::strict::read(
        Json::of(&json!({
            "slug": TOOL,
            "name": "Ask for an outing",
            "description": "Starts the task `Plan an outing` with a place and a number of people.",
            "input_schema": {"type": "object", "required": ["place"], "properties": {
                "place": {"type": "string", "title": "Where to"},
                "people": {"type": "integer", "minimum": 1, "title": "How many people"},
            }},
            "run": {"type": "task", "task": task},
        }))?
        .as_str(),
    )?;
    engine.define(me, None, tool, None).await?;
    let run = start(engine, me, "Ask for an outing to Mull", json!({"place": "Mull", "people": 3})).await?;
    engine.invoke_tool(me, &run, None, None).await?;
    start(engine, me, "Ask for an outing for two", json!({"people": 2})).await.map(drop)
}

/// Opens a session of the tool, marked as the demo's.
async fn start(engine: &Engine, me: &Arc<Actor>, title: &str, values: Value) -> Result<SessionId> {
    let wish = ToolStart { values: Some(Json::of(&values)?), rerun_of: None };
    let id = engine.start_tool(me, TOOL, wish, None).await?.session.id;
    let mark = PatchSession {
        title: Some(Some(title.to_owned())),
        metadata: Some(Json::of(&json!({ "demo": true }))?),
        ..PatchSession::default()
    };
    engine.patch(me, &id, mark, None).await?;
    Ok(id)
}
