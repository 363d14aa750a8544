//! Demo tasks: an agent, entities, criteria, and two tasks, each started once. The server's own workers run them; their
//! outputs wait in the inbox. A third task is what the person at the demo works on. Everything defined here has an id that
//! begins with `demo-`, except the place that the person visits: a visit names its entity by a UUID.

use std::sync::Arc;

use sederunt::{Actor, Append, DraftEvent, Engine, Json, Result};
use sederunt_core::definitions::Bundle;
use serde_json::{Value, json};

/// The task that the demo's tool runs.
pub const PLAN: &str = "demo-outing";

/// The entity that the person at the demo visits.
pub const VISITED: &str = "de300000-0000-4000-8000-000000000001";

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
        "entities": [
            {"id": "demo-oban", "type_slug": "place", "title": "Oban", "fields": {"country": "Scotland"}},
            {"id": VISITED, "type_slug": "place", "title": "Isle of Mull", "fields": {"country": "Scotland"}},
        ],
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
            {"id": PLAN, "slug": PLAN, "name": "Plan an outing", "agent_slug": "demo-reporter"},
            {"id": "demo-trip", "slug": "demo-trip", "name": "Plan the trip to Mull"},
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
    work_on_the_trip(engine, me).await
}

/// Has the person at the demo work on a task, with a few steps of their own.
async fn work_on_the_trip(engine: &Engine, me: &Arc<Actor>) -> Result<()> {
    let bridge = engine.start_bridge(me, Some("demo-trip"), None).await?.session.id;
    let path = format!("/entities/{VISITED}");
    let view = json!({"entity_id": VISITED, "entity_type": "place", "pathname": path});
    let step = |kind: &str, content: Option<&str>, metadata: Option<Value>| -> Result<DraftEvent> {
        Ok(DraftEvent {
            kind: format!("human.{kind}"),
            content: content.map(|text| Json::of(&text)).transpose()?,
            metadata: metadata.as_ref().map(Json::of).transpose()?,
            ..DraftEvent::default()
        })
    };
    let events = vec![
        step("navigate", None, Some(json!({"pathname": path})))?,
        step("entity_view", None, Some(view))?,
        step("marker", Some("comparing the ferries"), None)?,
        step("navigate", None, Some(json!({"pathname": "/timetable"})))?,
    ];
    engine.append(me, &bridge, Append { events, ..Append::default() }, None).await.map(drop)
}
