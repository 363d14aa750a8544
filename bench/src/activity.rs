//! What a person records: a batch of a browser against as many events of the caller's own type, by the same way.

use std::sync::Arc;

use anyhow::Result;
use sederunt_core::definitions::Task;
use sederunt_core::engine::{Append, DraftEvent, Engine};
use sederunt_core::ids::SessionId;
use sederunt_core::json::Json;
use serde_json::json;
use uuid::Uuid;

use crate::bench::Bench;
use crate::flat::{self, FlatProbe};
use crate::report::Row;
use crate::subject::{self, Subject};

/// Events of one batch.
const BATCH: u64 = 10;

/// A batch of a person's activity beside a batch of custom events, in instructions.
pub fn recorded(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_disk(bench)?;
    let bridge = subject.with_engine(async |engine| {
        let owner = subject::owner();
        let task: Task = serde_json::from_value(json!({"slug": "review", "name": "Review"}))?;
        engine.define(&owner, None, task, None).await?;
        engine.open(&owner, subject::talk(0), None).await?;
        Ok(engine.start_bridge(&owner, Some("review"), None).await?.session.id)
    })?;
    let human = flat::instructions(bench, FlatProbe::Human, &subject.url, bridge.as_str())?;
    let custom = flat::instructions(bench, FlatProbe::Custom, &subject.url, &subject::name(0))?;
    let measure = format!("batch of {BATCH} human events / of {BATCH} custom events, by the same way");
    Ok(vec![Row::at_most_times(measure, human, custom, "instructions", 2.0)])
}

/// Appends one batch: of what a browser records, or of custom events with as much in them.
pub async fn append(engine: &Engine, probe: FlatProbe, id: &SessionId, nth: u64) -> Result<()> {
    let owner = Arc::new(subject::owner());
    let drafts = (0..BATCH).map(|n| draft(probe, nth * BATCH + n));
    let wish = Append { events: drafts.collect::<Result<_>>()?, ..Append::default() };
    engine.append(&owner, id, wish, None).await?;
    Ok(())
}

/// Six visits, two views of entities and two markers in every batch.
fn draft(probe: FlatProbe, number: u64) -> Result<DraftEvent> {
    let path = format!("/t/default/companies/{number}");
    let entity = Uuid::now_v7();
    let view =
        json!({"entity_id": entity, "entity_type": "companies", "pathname": format!("/entities/{entity}")});
    let (kind, metadata, content) = match (probe, number % 5) {
        (FlatProbe::Human, 0) => ("human.marker", None, Some(json!("drafting outreach"))),
        (FlatProbe::Human, 1) => ("human.entity_view", Some(view), None),
        (FlatProbe::Human, _) => ("human.navigate", Some(json!({"pathname": path})), None),
        (_, 0) => ("app.noted", None, Some(json!("drafting outreach"))),
        (_, 1) => ("app.viewed", Some(view), None),
        _ => ("app.visited", Some(json!({"pathname": path})), None),
    };
    let json = |value: Option<serde_json::Value>| value.map(|value| Json::of(&value)).transpose();
    Ok(DraftEvent {
        kind: kind.into(),
        metadata: json(metadata)?,
        content: json(content)?,
        ..DraftEvent::default()
    })
}
