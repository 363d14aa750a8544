//! Durable appends on SQLite: over HTTP one by one, in batches and into one session; and embedded, without HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use sederunt_core::engine::{Append, Engine};
use sederunt_core::event::EventQuery;
use sederunt_core::ids::SessionId;
use sederunt_core::store::IdemKey;
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::child::{self, Listening};
use crate::load::{self, Drive, Driven, Target};
use crate::payload::{Payloads, SESSIONS};
use crate::peer::Peer;
use crate::raw::redis::Redis;
use crate::raw::sqlite::{self, Appends};
use crate::report::Row;
use crate::rounds::{Latencies, Sample, interleave};
use crate::subject::{self, Node, Subject};

const CONNECTIONS: usize = 64;
const PEER_CONNECTIONS: usize = 32;
const BATCH: usize = 16;
const WRITERS: usize = 16;
/// A tail is noisier than a rate, so its median is taken of more rounds.
const TAIL_ROUNDS: usize = 5;

/// Single events over 64 connections, beside the bare driver, Redis and ADK.
pub fn singles(bench: &Bench) -> Result<Vec<Row>> {
    let redis = Redis::start(&bench.dir)?;
    let mut adk = Peer::start(&bench.root, "adk.py", &bench.dir.join("adk.db"))?;
    let count = bench.some(100_000);
    let [raw, ours, redis, adk] = interleave(
        bench.rounds,
        [
            &mut || sqlite::append(&bench.dir, &bench.payloads, appends(bench, CONNECTIONS, 1, count)),
            &mut || spread_out(bench, CONNECTIONS, 1, count),
            &mut || redis.append(&bench.payloads, appends(bench, PEER_CONNECTIONS, 1, count)),
            &mut || adk.append_for(if bench.quick { 1.0 } else { 3.0 }),
        ],
    )?;
    Ok(vec![
        Row::at_least(
            "HTTP append, 64 connections / bare driver, 64 producers",
            ours.per_s,
            raw.per_s,
            "events",
            0.5,
        ),
        Row::at_most_times("HTTP append p99 / bare driver's p99", ours.p99_ms, raw.p99_ms, "ms", 3.0),
        Row::at_least(
            "HTTP append / Google ADK append_event, 32 tasks",
            ours.per_s,
            adk.per_s,
            "events",
            50.0,
        ),
        Row::beside(
            "HTTP append / Redis XADD, appendfsync always, 32 connections",
            ours.per_s,
            redis.per_s,
            "events",
            "aim 0.9 ×",
        ),
    ])
}

/// Sixteen events a request.
pub fn batches(bench: &Bench) -> Result<Vec<Row>> {
    let redis = Redis::start(&bench.dir)?;
    let count = bench.some(10_000);
    let [raw, route, ours, redis] = interleave(
        bench.rounds,
        [
            &mut || sqlite::append(&bench.dir, &bench.payloads, appends(bench, CONNECTIONS, BATCH, count)),
            &mut || behind_a_route(bench, CONNECTIONS, BATCH, count),
            &mut || spread_out(bench, CONNECTIONS, BATCH, count),
            &mut || redis.append(&bench.payloads, appends(bench, PEER_CONNECTIONS, BATCH, count)),
        ],
    )?;
    Ok(vec![
        Row::at_least("HTTP append of 16 / bare driver, batches of 16", ours.per_s, raw.per_s, "events", 0.6),
        Row::beside(
            "bare driver behind a bare HTTP route, batches of 16 / bare driver, batches of 16",
            route.per_s,
            raw.per_s,
            "events",
            "–",
        ),
        Row::beside(
            "HTTP append of 16 / Redis pipelines of 16, 32 connections",
            ours.per_s,
            redis.per_s,
            "events",
            "–",
        ),
    ])
}

/// The latency of the slowest appends of one, eight and sixty-four callers, beside the bare driver behind a bare
/// route.
pub fn tail(bench: &Bench) -> Result<Vec<Row>> {
    let rounds = if bench.quick { 1 } else { TAIL_ROUNDS };
    let beside = |connections: usize, count: u64| {
        let count = bench.some(count);
        interleave(
            rounds,
            [&mut || behind_a_route(bench, connections, 1, count), &mut || {
                spread_out(bench, connections, 1, count)
            }],
        )
    };
    let [route_1, ours_1] = beside(1, 6_000)?;
    let [route_8, ours_8] = beside(8, 30_000)?;
    let [route_64, ours_64] = beside(64, 60_000)?;
    Ok(vec![
        Row::at_most_beyond(
            "HTTP append, one caller, p99.9 / bare driver behind a bare HTTP route",
            ours_1.p999_ms,
            route_1.p999_ms,
            "ms",
            3.0,
        ),
        Row::at_most_times(
            "HTTP append, 8 callers, p99 / bare driver behind a bare HTTP route",
            ours_8.p99_ms,
            route_8.p99_ms,
            "ms",
            3.0,
        ),
        Row::at_most_times(
            "HTTP append, 64 callers, p99 / bare driver behind a bare HTTP route",
            ours_64.p99_ms,
            route_64.p99_ms,
            "ms",
            3.0,
        ),
    ])
}

/// The engine in this process, without and with an idempotency key on every append.
pub fn embedded(bench: &Bench) -> Result<Vec<Row>> {
    let count = bench.some(100_000);
    let [raw, plain, keyed] = interleave(
        bench.rounds,
        [
            &mut || sqlite::append(&bench.dir, &bench.payloads, appends(bench, CONNECTIONS, 1, count)),
            &mut || in_process(bench, count, Keys::None),
            &mut || in_process(bench, count, Keys::OnEvery),
        ],
    )?;
    Ok(vec![
        Row::at_least("embedded append, 64 tasks / bare driver", plain.per_s, raw.per_s, "events", 0.8),
        Row::at_least(
            "embedded append with a key on each / bare driver",
            keyed.per_s,
            raw.per_s,
            "events",
            0.6,
        ),
    ])
}

/// Sixteen writers on one session, against sixteen spread out over many.
pub fn one_session(bench: &Bench) -> Result<Vec<Row>> {
    let count = bench.some(40_000);
    let mut refused = 0;
    let [spread, one] = interleave(
        bench.rounds,
        [&mut || spread_out(bench, WRITERS, 1, count), &mut || {
            let subject = Subject::on_disk(bench)?.with_sessions()?;
            let node = subject.serve()?;
            let driven = drive(bench, &node.target, WRITERS, 1, count, |_| 0)?;
            node.check_stored(driven.answered)?;
            refused += driven.refused;
            let mut driven = driven;
            Ok(Sample::new(driven.answered, driven.took, &mut driven.latencies))
        }],
    )?;
    Ok(vec![
        Row::none_of("refusals with 16 writers on one session", refused),
        Row::at_least("16 writers on one session / spread out", one.per_s, spread.per_s, "events", 0.5),
    ])
}

fn appends(bench: &Bench, producers: usize, batch: usize, count: u64) -> Appends {
    Appends { producers, batch, count, cap: bench.cap }
}

/// Appends over HTTP to a thousand sessions of a fresh store.
fn spread_out(bench: &Bench, connections: usize, batch: usize, count: u64) -> Result<Sample> {
    let subject = Subject::on_disk(bench)?.with_sessions()?;
    let node = subject.serve()?;
    spread_out_on(bench, &node, connections, batch, count)
}

/// The bare driver behind a bare HTTP route, under the same load on the same machine.
fn behind_a_route(bench: &Bench, connections: usize, batch: usize, count: u64) -> Result<Sample> {
    let dir = tempfile::tempdir_in(&bench.dir)?;
    let path = dir.path().join("raw.sqlite3");
    let mut command = child::command(child::this_program()?);
    let server = Listening::start(command.arg("bare-route").arg(&path), &bench.log())?;
    let target = Target::new(server.addr, None);
    let driven = drive(bench, &target, connections, batch, count, |nth| nth as usize % SESSIONS)?;
    drop(server);
    sqlite::check_stored(&path, driven.answered * batch as u64)?;
    driven.sample(batch as u64)
}

/// The same on a server that runs already.
pub fn spread_out_on(
    bench: &Bench,
    node: &Node,
    connections: usize,
    batch: usize,
    count: u64,
) -> Result<Sample> {
    let before = node.listening.usage()?.cpu_s;
    let driven = drive(bench, &node.target, connections, batch, count, |nth| nth as usize % SESSIONS)?;
    let cpu_us = (node.listening.usage()?.cpu_s - before) * 1e6 / driven.answered.max(1) as f64;
    eprintln!("  the server spent {cpu_us:.0} µs of processor time a request");
    node.check_stored(driven.answered * batch as u64)?;
    driven.sample(batch as u64)
}

pub fn drive(
    bench: &Bench,
    target: &Target,
    connections: usize,
    batch: usize,
    count: u64,
    session_of: impl Fn(u64) -> usize + Send + Sync + 'static,
) -> Result<Driven> {
    let shape = Drive { connections, count, cap: bench.cap, expect: 201 };
    drive_as(&bench.payloads, target, shape, batch, session_of)
}

/// Appends in this shape instead of the run's own.
pub fn drive_as(
    payloads: &Arc<Payloads>,
    target: &Target,
    shape: Drive,
    batch: usize,
    session_of: impl Fn(u64) -> usize + Send + Sync + 'static,
) -> Result<Driven> {
    let paths: Vec<String> =
        (0..SESSIONS).map(|nth| format!("/api/sessions/{}/events", subject::name(nth))).collect();
    let (requests, payloads) = (target.clone(), payloads.clone());
    load::drive(target, shape, move |nth, request| {
        let mut body = Vec::with_capacity(batch * 400);
        payloads.body(nth, batch, &mut body);
        requests.post(&paths[session_of(nth)], &body, request);
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Keys {
    None,
    OnEvery,
}

fn in_process(bench: &Bench, count: u64, keys: Keys) -> Result<Sample> {
    let subject = Subject::on_disk(bench)?.with_sessions()?;
    subject.with_engine(async |engine| {
        let tickets = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..CONNECTIONS {
            tasks.spawn(append_all(
                bench.payloads.clone(),
                engine.engine.clone(),
                tickets.clone(),
                start,
                bench.cap,
                count,
                keys,
            ));
        }
        let mut all = Latencies::default();
        while let Some(done) = tasks.join_next().await {
            all.join(done??);
        }
        let took = start.elapsed();
        let stored = stored_events(engine).await?;
        ensure!(stored == all.len() as u64, "{stored} events stored, {} acknowledged", all.len());
        Ok(Sample::new(stored, took, &mut all))
    })
}

/// Reads every session to its end in this process, as [`Node::check_stored`] does over HTTP.
async fn stored_events(engine: &Engine) -> Result<u64> {
    let mut stored = 0;
    for nth in 0..SESSIONS {
        let id = SessionId::parse(&subject::name(nth))?;
        let mut last = 0;
        loop {
            let query = EventQuery { after: last, limit: 1_000, ..EventQuery::default() };
            let page = engine.read(&subject::owner(), &id, query).await?;
            for event in page.events {
                ensure!(event.sequence == last + 1, "in {id}, {} comes after {last}", event.sequence);
                last = event.sequence;
            }
            if !page.has_more {
                break;
            }
        }
        stored += last - 1;
    }
    Ok(stored)
}

async fn append_all(
    payloads: Arc<Payloads>,
    engine: Engine,
    tickets: Arc<AtomicU64>,
    start: Instant,
    cap: std::time::Duration,
    count: u64,
    keys: Keys,
) -> Result<Latencies> {
    let actor = Arc::new(subject::owner());
    let sessions = (0..SESSIONS).map(|nth| SessionId::parse(&subject::name(nth)));
    let sessions: Vec<SessionId> = sessions.collect::<Result<_, _>>()?;
    let mut latencies = Latencies::default();
    while start.elapsed() < cap {
        let nth = tickets.fetch_add(1, Ordering::Relaxed);
        if nth >= count {
            break;
        }
        let key = (keys == Keys::OnEvery).then(|| {
            let scope = *uuid::Uuid::new_v4().as_bytes();
            IdemKey { scope, body: scope, note: None }
        });
        let wish = Append { events: vec![subject::draft(&payloads, nth)], ..Append::default() };
        let sent = Instant::now();
        engine.append(&actor, &sessions[nth as usize % SESSIONS], wish, key).await?;
        latencies.add(sent.elapsed());
    }
    Ok(latencies)
}
