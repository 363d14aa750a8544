//! Flat cost: an append and a page read in a session of a million events against one of ten in the same store,
//! counted in instructions, because time on a shared machine says less.

use std::fs;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use sederunt_core::definitions::View;
use sederunt_core::engine::{Append, Engine};
use sederunt_core::event::EventQuery;
use sederunt_core::ids::SessionId;
use sederunt_core::json::Json;

use crate::bench::{Bench, LONG, SHORT};
use crate::child;
use crate::load::single_threaded;
use crate::payload::Payloads;
use crate::raw::sqlite::page_start;
use crate::report::Row;
use crate::subject::{self, Subject, open};

/// Operations whose instructions are counted, after as many that warm up.
const COUNTED: u64 = 200;
const WARM_UP: u64 = 50;
/// Saves of a response before its next one is counted.
const SAVES: u64 = 1_000;
/// A page that both sessions can fill.
const PAGE_ROWS: usize = 10;
/// A function that only the search index's own thread runs.
const INDEXES: &str = "fts5UpdateMethod";

/// What a probe does.
#[derive(Clone, Copy)]
pub enum FlatProbe {
    Append,
    Page,
    Turn,
    Human,
    Custom,
    ActivityBlock,
    Save,
}

impl FlatProbe {
    const fn name(self) -> &'static str {
        match self {
            Self::Append => "probe-append",
            Self::Page => "probe-page",
            Self::Turn => "probe-turn",
            Self::Human => "probe-human",
            Self::Custom => "probe-custom",
            Self::ActivityBlock => "probe-activity-block",
            Self::Save => "probe-save",
        }
    }
}

pub fn growth(bench: &Bench) -> Result<Vec<Row>> {
    // Pages first: appends make the short session longer.
    [(FlatProbe::Page, "page of 10"), (FlatProbe::Append, "append"), (FlatProbe::Turn, "turn")]
        .into_iter()
        .map(|(probe, what)| {
            let url = &bench.large()?.url;
            let long = instructions(bench, probe, url, LONG)?;
            let short = instructions(bench, probe, url, SHORT)?;
            let measure = format!("{what} in a session of {} events / one of 10", bench.long_events());
            Ok(Row::at_most_times(measure, long, short, "instructions", 1.1))
        })
        .collect()
}

/// A save of a response that was saved a thousand times against one of a response that was not.
pub fn autosave(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_disk(bench)?;
    let mut responses = Vec::new();
    subject.with_engine(async |engine| {
        for (id, saves) in [("saved-often", SAVES), ("saved-never", 0)] {
            let form =
                r#"{"title":"Form","questions":[{"key":"n","label":"N","type":"number"}],"response":{}}"#;
            let view: View = sederunt_core::strict::read(form)?;
            let owner = subject::owner();
            engine.define(&owner, Some(id), view, None).await?;
            let response = engine.open_response(&owner, id, None, None, None).await?.response.session.id;
            for nth in 0..saves {
                save(engine, &response, nth).await?;
            }
            responses.push(response);
        }
        Ok(())
    })?;
    let [often, never] = &responses[..] else { bail!("the responses were not made") };
    let often = instructions(bench, FlatProbe::Save, &subject.url, often.as_str())?;
    let never = instructions(bench, FlatProbe::Save, &subject.url, never.as_str())?;
    let measure = format!("autosave of a form after {SAVES} saves / after none");
    Ok(vec![Row::at_most_times(measure, often, never, "instructions", 1.25)])
}

async fn save(engine: &Engine, response: &SessionId, nth: u64) -> Result<()> {
    let values = Json::parse(format!(r#"{{"n":{nth}}}"#).as_bytes())?;
    engine.save_response(&subject::owner(), response, None, &values, None).await?;
    Ok(())
}

/// Instructions of one operation: those of a run with many minus those of a run with none.
pub fn instructions(bench: &Bench, probe: FlatProbe, url: &str, session: &str) -> Result<f64> {
    let none = counted(bench, probe, url, session, 0)?;
    let many = counted(bench, probe, url, session, COUNTED)?;
    ensure!(many > none, "{COUNTED} operations took no instructions: {many} against {none}");
    Ok((many - none) / COUNTED as f64)
}

/// Instructions of a whole run without the indexer's thread, which works in batches of its own.
fn counted(bench: &Bench, probe: FlatProbe, url: &str, session: &str, count: u64) -> Result<f64> {
    let dir = tempfile::tempdir_in(&bench.dir)?;
    let done = child::command("valgrind")
        .args(["--tool=callgrind", "--quiet", "--separate-threads=yes"])
        .arg(format!("--callgrind-out-file={}", dir.path().join("thread").display()))
        .arg(child::this_program()?)
        .args([probe.name(), url, session, &count.to_string()])
        .output()
        .context("valgrind did not start; scripts/setup --bench installs it")?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut sum = 0.0;
    for thread in fs::read_dir(dir.path())? {
        let text = fs::read_to_string(thread?.path())?;
        if !text.contains(INDEXES) {
            let totals = text.lines().filter_map(|line| line.strip_prefix("totals: "));
            sum += totals.filter_map(|number| number.trim().parse::<f64>().ok()).sum::<f64>();
        }
    }
    ensure!(sum > 0.0, "callgrind counted nothing");
    Ok(sum)
}

/// Opens the store, warms up, does `count` operations and closes: run under callgrind.
pub fn run(probe: FlatProbe, url: &str, session: &str, count: u64) -> Result<()> {
    let payloads = Payloads::new();
    single_threaded()?.block_on(async {
        let engine = open(url).await?;
        let id = SessionId::parse(session)?;
        let last = match probe {
            // Its session is named by the person who holds it.
            FlatProbe::ActivityBlock => 0,
            _ => engine.session(&subject::owner(), &id).await?.head.last_sequence,
        };
        for nth in 0..WARM_UP + count {
            operate(&engine, probe, &payloads, &id, last, nth).await?;
        }
        engine.close().await;
        Ok(())
    })
}

async fn operate(
    engine: &Engine,
    probe: FlatProbe,
    payloads: &Payloads,
    id: &SessionId,
    last: u64,
    nth: u64,
) -> Result<()> {
    let owner = Arc::new(subject::owner());
    match probe {
        FlatProbe::Append => {
            let wish = Append { events: vec![subject::draft(payloads, nth)], ..Append::default() };
            engine.append(&owner, id, wish, None).await?;
        }
        FlatProbe::Turn => crate::talk::turn(engine, id).await?,
        FlatProbe::Human | FlatProbe::Custom => crate::activity::append(engine, probe, id, nth).await?,
        FlatProbe::ActivityBlock => crate::activity_block::read(engine, id.as_str()).await?,
        // A number that the log does not hold yet, whatever was saved before.
        FlatProbe::Save => save(engine, id, last + nth).await?,
        FlatProbe::Page => {
            let after = page_start(nth, last);
            let after = after.min(last - PAGE_ROWS as u64);
            let query = EventQuery { after, limit: PAGE_ROWS, ..EventQuery::default() };
            let page = engine.read(&owner, id, query).await?;
            ensure!(page.events.len() == PAGE_ROWS, "a page held {} events", page.events.len());
        }
    }
    Ok(())
}
