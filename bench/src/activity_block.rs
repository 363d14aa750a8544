//! The recent-activity block: beside reading one session over HTTP, and in a bridge of very many events.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sederunt_core::access::Actor;
use sederunt_core::definitions::{Entity, Task};
use sederunt_core::engine::{Append, DraftEvent, Engine};
use sederunt_core::ids::UserId;
use sederunt_core::json::Json;
use serde_json::json;

use crate::bench::Bench;
use crate::flat::{self, FlatProbe};
use crate::load::{self, Drive};
use crate::report::Row;
use crate::rounds::interleave;
use crate::subject::{self, Subject};

/// The person of the benchmark's key, whose bridge has few events.
const FEW: &str = "bench";
/// A person whose bridge has very many.
const MANY: &str = "busy";
/// Events that a block shows; each is the view of another entity.
const SHOWN: usize = 20;
/// Events of one append.
const BATCH: usize = 100;
const ROUNDS: usize = 5;

/// A block of twenty entities beside reading a session, and its cost in a long bridge against a short one.
pub fn beside_a_session(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_disk(bench)?;
    let long = bench.stored(100_000) as usize;
    eprintln!("  recording {long} events");
    let bridge = subject.with_engine(async |engine| {
        define(engine).await?;
        record(engine, MANY, long).await?;
        record(engine, FEW, SHOWN).await
    })?;
    let many = flat::instructions(bench, FlatProbe::ActivityBlock, &subject.url, MANY)?;
    let few = flat::instructions(bench, FlatProbe::ActivityBlock, &subject.url, FEW)?;
    let node = subject.serve()?;
    let count = bench.some(500);
    let drive = |path: String| {
        let target = node.target.clone();
        let shape = Drive { connections: 1, count, cap: Duration::from_secs(10), expect: 200 };
        load::drive(&node.target, shape, move |_, request| target.get(&path, request))?.sample(1)
    };
    let rounds = if bench.quick { 1 } else { ROUNDS };
    let [block, session, events] = interleave(
        rounds,
        [
            &mut || drive(format!("/api/activity-block?limit={SHOWN}")),
            &mut || drive(format!("/api/sessions/{bridge}")),
            &mut || drive(format!("/api/sessions/{bridge}/events?order=desc&limit={SHOWN}")),
        ],
    )?;
    Ok(vec![
        Row::at_most_times(
            format!("recent activity, {SHOWN} events of {SHOWN} entities / GET of a session, p50"),
            block.p50_ms,
            session.p50_ms,
            "ms",
            4.0,
        ),
        Row::beside(
            format!("recent activity / GET of the same {SHOWN} events alone, calls a second"),
            block.per_s,
            events.per_s,
            "calls",
            "the events are one of its three reads",
        ),
        Row::at_most_times(
            format!("recent activity in a bridge of {long} events / one of {SHOWN}"),
            many,
            few,
            "instructions",
            1.25,
        ),
    ])
}

/// Reads the block of a person.
pub async fn read(engine: &Engine, person: &str) -> Result<()> {
    let block = engine.activity_block(&actor(person), SHOWN).await?.context("no bridge runs")?.block;
    ensure!(block.matches(" viewed **").count() == SHOWN, "{block}");
    Ok(())
}

fn actor(person: &str) -> Arc<Actor> {
    Arc::new(Actor { user: Some(UserId::stored(person)), ..subject::owner() })
}

fn entity(nth: usize) -> String {
    format!("0193a5f0-0000-7000-8000-{nth:012}")
}

async fn define(engine: &Engine) -> Result<()> {
    let task: Task = Json::of(&json!({"slug": "review", "name": "Portfolio review"}))?.read()?;
    engine.define(&subject::owner(), None, task, None).await?;
    for nth in 0..SHOWN {
        let fields = json!({"city": "Oban", "people": nth, "notes": "n".repeat(500)});
        let body = json!({"type_slug": "companies", "title": format!("Company {nth}"), "fields": fields});
        let value: Entity = Json::of(&body)?.read()?;
        engine.define(&subject::owner(), Some(&entity(nth)), value, None).await?;
    }
    Ok(())
}

/// Has a person record this many events, of which the last are views of entities. Returns the bridge.
async fn record(engine: &Engine, person: &str, count: usize) -> Result<String> {
    let who = actor(person);
    let bridge = engine.start_bridge(&who, Some("review"), None).await?.session.id;
    let event = |nth: usize| -> Result<DraftEvent> {
        let view = nth.checked_sub(count - SHOWN);
        let (kind, metadata) = match view {
            None => ("human.navigate", json!({"pathname": format!("/pages/{nth}")})),
            Some(nth) => {
                let id = entity(nth);
                let path = format!("/t/default/companies/{id}");
                ("human.entity_view", json!({"entity_id": id, "entity_type": "companies", "pathname": path}))
            }
        };
        Ok(DraftEvent { kind: kind.into(), metadata: Some(Json::of(&metadata)?), ..DraftEvent::default() })
    };
    for from in (0..count).step_by(BATCH) {
        let events = (from..count.min(from + BATCH)).map(event).collect::<Result<_>>()?;
        engine.append(&who, &bridge, Append { events, ..Append::default() }, None).await?;
    }
    Ok(bridge.to_string())
}
