//! Claims: 8 workers take pending sessions, 32 at a time, from a queue of a hundred thousand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sederunt_core::engine::Engine;
use sederunt_core::work::ClaimRequest;
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::lists;
use crate::raw::{self, Taking};
use crate::report::Row;
use crate::rounds::{Sample, interleave};
use crate::subject::{self, Subject};

const WORKERS: usize = 8;
const EACH: usize = 32;

pub fn on_sqlite(bench: &Bench) -> Result<Vec<Row>> {
    let (pending, count) = sizes(bench);
    let queue = raw::sqlite::SqliteQueue::prepare(&bench.dir, pending, Taking::Rows)?;
    let log = raw::sqlite::SqliteQueue::prepare(&bench.dir, pending, Taking::RowsAndEvents)?;
    let lists = raw::sqlite::SqliteQueue::prepare(&bench.dir, pending, Taking::RowsEventsAndLists)?;
    let subject = lists::many(bench, Subject::on_disk(bench)?)?;
    let opened = subject.open()?;
    let [raw, told, listed, ours] = interleave(
        bench.rounds,
        [
            &mut || queue.claim(WORKERS, count, EACH),
            &mut || log.claim(WORKERS, count, EACH),
            &mut || lists.claim(WORKERS, count, EACH),
            &mut || opened.run(async |engine| claim(engine, count).await),
        ],
    )?;
    opened.close();
    let mut rows = beside("SQLite", pending, [raw, told, listed], ours);
    rows.extend(lists::measure(bench, &subject, "SQLite")?);
    Ok(rows)
}

pub fn on_postgres(bench: &Bench) -> Result<Vec<Row>> {
    let (pending, count) = sizes(bench);
    let queue = raw::postgres::PostgresQueue::prepare(bench.postgres()?, pending, Taking::Rows)?;
    let log = raw::postgres::PostgresQueue::prepare(bench.postgres()?, pending, Taking::RowsAndEvents)?;
    let lists =
        raw::postgres::PostgresQueue::prepare(bench.postgres()?, pending, Taking::RowsEventsAndLists)?;
    let subject = lists::many(bench, Subject::on_postgres(bench)?)?;
    let opened = subject.open()?;
    let [raw, told, listed, ours] = interleave(
        bench.rounds,
        [
            &mut || queue.claim(WORKERS, count, EACH),
            &mut || log.claim(WORKERS, count, EACH),
            &mut || lists.claim(WORKERS, count, EACH),
            &mut || opened.run(async |engine| claim(engine, count).await),
        ],
    )?;
    opened.close();
    let mut rows = beside("PostgreSQL", pending, [raw, told, listed], ours);
    rows.extend(lists::measure(bench, &subject, "PostgreSQL")?);
    Ok(rows)
}

/// How many are pending, and how many of them one round takes.
fn sizes(bench: &Bench) -> (u64, u64) {
    let pending = lists::sessions(bench);
    (pending, pending / 5)
}

/// One row for the statement alone, one for the statement with the log, and one for the statement with the log and
/// the lists, which has no bar.
fn beside(store: &str, pending: u64, [raw, told, listed]: [Sample; 3], ours: Sample) -> Vec<Row> {
    let measure = format!("{store}: claims, {pending} pending, 8 workers, 32 at a time");
    let row = |bare: &str, theirs: Sample| {
        Row::at_least(format!("{measure} / {bare}"), ours.per_s, theirs.per_s, "sessions", 0.6)
    };
    let lists = format!("{measure} / bare statement, its events and lists");
    vec![
        row("bare statement", raw),
        row("bare statement and its events", told),
        Row::beside(lists, ours.per_s, listed.per_s, "sessions", "–"),
    ]
}

/// Takes `count` sessions. The workers have taken some before the clock starts, as the bare ones have connected and
/// prepared their statements by then; and the indexer has caught up.
async fn claim(engine: &Engine, count: u64) -> Result<Sample> {
    engine.index_now().await?;
    work(engine, (WORKERS * EACH) as u64).await?;
    let start = Instant::now();
    let taken = work(engine, count).await?;
    Ok(Sample::rate(taken, start.elapsed()))
}

async fn work(engine: &Engine, count: u64) -> Result<u64> {
    let taken = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let (engine, taken) = (engine.clone(), taken.clone());
        tasks.spawn(async move {
            let actor = subject::owner();
            while taken.load(Ordering::Relaxed) < count {
                let request = ClaimRequest {
                    worker: format!("worker-{worker}"),
                    session_types: Vec::new(),
                    agent_slugs: Vec::new(),
                    limit: EACH,
                    lease: Duration::from_secs(600),
                    wait: Duration::ZERO,
                };
                let claimed = engine.claim(&actor, request, None).await?;
                ensure!(claimed.len() == EACH, "a claim took {} sessions", claimed.len());
                taken.fetch_add(claimed.len() as u64, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(taken.load(Ordering::Relaxed))
}
