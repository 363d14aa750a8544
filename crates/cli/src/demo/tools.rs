//! The demo's tool: a form that starts one of the demo's tasks, run once, and a second session that is not filled in yet.

use std::sync::Arc;

use sederunt::{Actor, Engine, Json, Result};
use sederunt_core::definitions::ToolDefinition;
use sederunt_core::engine::ToolStart;
use serde_json::json;

const TOOL: &str = "demo-plan";

pub async fn run_one(engine: &Engine, me: &Arc<Actor>, task: &str) -> Result<()> {
    let tool: ToolDefinition = sederunt_core::strict::read(
        Json::of(&json!({
            "slug": TOOL,
            "name": "Plan an outing",
            "description": "Starts the task of the same name with a place and a number of people.",
            "input_schema": {"type": "object", "required": ["place"], "properties": {
                "place": {"type": "string", "title": "Where to"},
                "people": {"type": "integer", "minimum": 1, "title": "How many people"},
            }},
            "run": {"type": "task", "task": task},
        }))?
        .as_str(),
    )?;
    engine.define(me, None, tool, None).await?;
    let values = Some(Json::of(&json!({"place": "Mull", "people": 3}))?);
    let started = engine.start_tool(me, TOOL, ToolStart { values, rerun_of: None }, None).await?;
    engine.invoke_tool(me, &started.session.id, None, None).await?;
    let values = Some(Json::of(&json!({"people": 2}))?);
    engine.start_tool(me, TOOL, ToolStart { values, rerun_of: None }, None).await.map(drop)
}
