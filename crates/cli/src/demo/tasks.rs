//! Demo tasks: an agent, an entity, criteria, and two tasks, each started once. The server's own workers run them;
//! their outputs wait in the inbox. Everything defined here has an id that begins with `demo-`.

use std::sync::Arc;

use sederunt::{Actor, Engine, Json, Result};
use sederunt_core::definitions::Bundle;
use serde_json::json;

pub async fn define_and_start(engine: &Engine, me: &Arc<Actor>) -> Result<()> {
    let definitions = json!({
        "agents": [{
            "slug": "demo-reporter",
            "name": "Reporter",
            "instructions": "You report on the weather in one or two sentences.",
            "model": "eliza",
        }],
        "criteria_sets": [{
            "id": "demo-tone",
            "name": "Tone",
            "dimensions": [{
                "slug": "tone",
                "options": [
                    {"value": "kind", "score": 1},
                    {"value": "curt", "score": 0.5, "flag": true},
                    {"value": "cruel", "score": 0},
                ],
                "option_styles": {"cruel": {"hard_block": true}},
            }],
        }],
        "entities": [{"id": "demo-oban", "type_slug": "place", "title": "Oban", "fields": {"country": "Scotland"}}],
        "tasks": [
            {
                "id": "demo-report",
                "slug": "demo-report",
                "name": "Report the weather in Oban",
                "agent_slug": "demo-reporter",
                "entity_id": "demo-oban",
                "criteria_set_ids": ["demo-tone"],
                "requires_approval": true,
                "output": {
                    "type": "entity",
                    "schema": {
                        "type": "object",
                        "required": ["summary", "tone"],
                        "properties": {
                            "summary": {"type": "string"},
                            "tone": {"enum": ["kind", "curt", "cruel"]},
                        },
                    },
                },
            },
            {
                "id": "demo-publish",
                "slug": "demo-publish",
                "name": "Publish the forecast",
                "steps": [
                    {"key": "write", "name": "Write the forecast", "agent_slug": "demo-reporter"},
                    {"key": "read", "name": "Read it before it goes out", "assigned_to": "you", "depends_on": ["write"]},
                    {"key": "publish", "name": "Publish it", "agent_slug": "demo-reporter", "depends_on": ["read"]},
                ],
            },
        ],
    });
    let bundle = Bundle::read(&Json::of(&definitions)?)?;
    engine.import(me, bundle, None).await?;
    for task in ["demo-report", "demo-publish"] {
        engine.trigger(me, task, None, None).await?;
    }
    Ok(())
}
