//! Lists and searches in a tenant of a hundred thousand sessions.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sederunt_core::json::Json;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{SessionType, Status};

use crate::bench::Bench;
use crate::load::{self, Drive};
use crate::payload;
use crate::report::Row;
use crate::rounds::Latencies;
use crate::subject::{self, Subject};

const PAGE_ROWS: usize = 50;
/// Each of them keeps a part of the rows; the slowest one counts.
const FILTERS: [&str; 5] = [
    "status=pending", "status=running&agent_slug=agent-3", "metadata.team=t7", "task_id=task-11",
    "group=live",
];
/// A word in thousands of titles, two that few titles share, and one that occurs once.
const SEARCHES: [&str; 3] = ["invoice", "invoice weather", "number777"];

/// How many sessions there are.
pub fn sessions(bench: &Bench) -> u64 {
    bench.stored(100_000)
}

/// Fills a store with pending sessions of several teams, agents and tasks.
pub fn many(bench: &Bench, subject: Subject) -> Result<Subject> {
    eprintln!("  making {} pending sessions", sessions(bench));
    subject.with_engine(async |engine| {
        subject::make_sessions(engine, sessions(bench) as usize, pending).await?;
        engine.index_now().await?;
        Ok(())
    })?;
    subject.settle()?;
    Ok(subject)
}

fn pending(nth: usize) -> OpenSession {
    OpenSession {
        id: Some(subject::name(nth)),
        session_type: Some(SessionType::Agent),
        status: Some(Status::Pending),
        agent_slug: Some(format!("agent-{}", nth % 5)),
        task_id: Some(format!("task-{}", nth % 100)),
        title: Some(payload::title(nth)),
        metadata: Some(Json::stored(format!(r#"{{"team":"t{}","n":{nth}}}"#, nth % 20))),
        priority: Some((nth % 3) as i32),
        ..OpenSession::default()
    }
}

/// The slowest of several filtered lists over HTTP, and of several searches at the store.
pub fn measure(bench: &Bench, subject: &Subject, store: &str) -> Result<Vec<Row>> {
    let repeats = bench.some(200);
    let searched = subject.with_engine(async |engine| {
        let mut slowest: f64 = 0.0;
        for words in SEARCHES {
            let mut times = Latencies::default();
            for _ in 0..repeats {
                let sent = Instant::now();
                let found = engine.search(&subject::owner(), words, None, PAGE_ROWS).await?;
                times.add(sent.elapsed());
                ensure!(!found.items.is_empty(), "nothing was found for {words:?}");
            }
            let p50 = times.at(0.5);
            eprintln!("  {store}: search {words:?}: p50 {p50:.2} ms");
            slowest = slowest.max(p50);
        }
        Ok(slowest)
    })?;
    let node = subject.serve()?;
    let mut listed: f64 = 0.0;
    for filter in FILTERS {
        let target = node.target.clone();
        let shape = Drive { connections: 1, count: repeats, cap: Duration::from_secs(10), expect: 200 };
        let path = format!("/api/sessions?{filter}&limit={PAGE_ROWS}");
        let driven = load::drive(&node.target, shape, move |_, request| target.get(&path, request))?;
        let p50 = driven.sample(1)?.p50_ms;
        eprintln!("  {store}: list {filter}: p50 {p50:.2} ms");
        listed = listed.max(p50);
    }
    let count = sessions(bench);
    Ok(vec![
        Row::at_most(
            format!("{store}: slowest filtered list, page of 50 of {count}, p50"),
            listed,
            0.0,
            "ms",
            5.0,
        ),
        Row::at_most(format!("{store}: slowest search in {count} sessions, p50"), searched, 0.0, "ms", 20.0),
    ])
}
