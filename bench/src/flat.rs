//! Flat cost: an append and a page read in a session of a million events against one of ten in the same store,
//! counted in instructions, because time on a shared machine says less.

use std::fs;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use sederunt_core::engine::{Append, Engine};
use sederunt_core::event::EventQuery;
use sederunt_core::ids::SessionId;

use crate::bench::{Bench, LONG, SHORT};
use crate::child;
use crate::load::single_threaded;
use crate::payload::Payloads;
use crate::raw::sqlite::page_start;
use crate::report::Row;
use crate::subject::{self, open};

/// Operations whose instructions are counted, after as many that warm up.
const COUNTED: u64 = 200;
const WARM_UP: u64 = 50;
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
