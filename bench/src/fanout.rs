//! One session with a thousand live readers: at a steady pace, saturated beside a bare fan-out, and ten thousand
//! streams that hear nothing. Every sequence is checked by every reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::child::{self, Listening};
use crate::limits;
use crate::load::{Connection, Target, single_threaded};
use crate::payload::SESSIONS;
use crate::report::Row;
use crate::rounds::{Latencies, Sample, interleave};
use crate::sse::Subscriber;
use crate::subject::{self, Subject};

const READERS: u64 = 1_000;
const PER_SECOND: u64 = 100;
const IDLE_STREAMS: u64 = 10_000;
/// Streams that are opened at the same time.
const OPEN_AT_ONCE: usize = 64;
/// Writers of the saturated run, and how many events they may be ahead of the average reader.
const WRITERS: usize = 8;
const AHEAD_MAX: u64 = 256;
const DELIVER_WITHIN: Duration = Duration::from_secs(60);

/// A server on which events are published and followed.
#[derive(Clone)]
struct Stage {
    target: Target,
    publish: String,
    follow: String,
    /// The last sequence before anything is published.
    last: u64,
    body: fn(&Bench, u64) -> Vec<u8>,
}

/// A hundred events a second to a thousand readers.
pub fn paced(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_disk(bench)?.with_sessions()?;
    let node = subject.serve()?;
    let stage = ours(&node.target);
    let events = PER_SECOND * if bench.quick { 3 } else { 10 };
    let mut latencies = single_threaded()?.block_on(publish_paced(bench, &stage, events))?;
    let p99 = latencies.at(0.99);
    eprintln!("  {} deliveries, p50 {:.1} ms, p99 {p99:.1} ms", latencies.len(), latencies.at(0.5));
    Ok(vec![Row::at_most(
        "1,000 readers of one session, 100 events/s: delivery p99",
        p99,
        bench.disk.p50_ms,
        "ms",
        30.0,
    )])
}

/// The most deliveries per second, beside a bare fan-out.
pub fn saturated(bench: &Bench) -> Result<Vec<Row>> {
    let events = bench.some(2_000);
    let [bare, ours] = interleave(
        bench.rounds,
        [
            &mut || {
                let mut command = child::command(child::this_program()?);
                command.arg("bare-fanout");
                let server = Listening::start(&mut command, &bench.log())?;
                single_threaded()?.block_on(publish_saturated(bench, &bare(&server), events))
            },
            &mut || {
                let subject = Subject::on_disk(bench)?.with_sessions()?;
                let node = subject.serve()?;
                let before = node.listening.usage()?.cpu_s;
                let sample =
                    single_threaded()?.block_on(publish_saturated(bench, &ours(&node.target), events))?;
                let cpu_us = (node.listening.usage()?.cpu_s - before) * 1e6 / (events * READERS) as f64;
                eprintln!("  the server spent {cpu_us:.2} µs of processor time a delivery");
                Ok(sample)
            },
        ],
    )?;
    Ok(vec![Row::at_least(
        "1,000 readers, saturated / bare axum fan-out",
        ours.per_s,
        bare.per_s,
        "deliveries",
        0.6,
    )])
}

/// The cost of an idle stream.
pub fn idle(bench: &Bench) -> Result<Vec<Row>> {
    limits::raise_open_files(IDLE_STREAMS + 500)?;
    let streams = bench.stored(IDLE_STREAMS);
    let subject = Subject::on_disk(bench)?.with_sessions()?;
    let node = subject.serve()?;
    let kb_each = single_threaded()?.block_on(async {
        let target = &node.target;
        // The first readers also pay for what all share.
        let first = open_all(target, (0..100).map(stream_of)).await?;
        let before = node.listening.usage()?.resident_kb;
        let mut rest = open_all(target, (100..streams).map(stream_of)).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let kb_each = (node.listening.usage()?.resident_kb - before) / rest.len() as f64;
        // All of them must still be alive: each receives one event.
        append_to_each(bench, target).await?;
        for subscriber in &mut rest {
            let heard = tokio::time::timeout(DELIVER_WITHIN, async {
                while subscriber.last() < 2 {
                    subscriber.take().await?;
                }
                anyhow::Ok(())
            });
            heard.await.context("an idle stream has died")??;
        }
        drop(first);
        anyhow::Ok(kb_each)
    })?;
    Ok(vec![Row::at_most(format!("memory of one of {streams} idle streams"), kb_each, 0.0, "KB", 40.0)])
}

fn stream_of(nth: u64) -> (String, u64) {
    (format!("/api/sessions/{}/stream?after=1", subject::name(nth as usize % SESSIONS)), 1)
}

async fn append_to_each(bench: &Bench, target: &Target) -> Result<()> {
    let mut connection = target.connect().await?;
    for nth in 0..SESSIONS {
        let path = format!("/api/sessions/{}/events", subject::name(nth));
        publish(bench, &mut connection, target, &path, append_body, nth as u64).await?;
    }
    Ok(())
}

fn ours(target: &Target) -> Stage {
    Stage {
        target: target.clone(),
        publish: "/api/sessions/s0/events".into(),
        follow: "/api/sessions/s0/stream?after=1".into(),
        last: 1,
        body: append_body,
    }
}

fn bare(server: &Listening) -> Stage {
    Stage {
        target: Target::new(server.addr, None),
        publish: "/publish".into(),
        follow: "/stream".into(),
        last: 0,
        body: bare_body,
    }
}

pub fn append_body(bench: &Bench, nth: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(400);
    bench.payloads.body(nth, 1, &mut body);
    body
}

/// An event of the same size as ours on the wire.
fn bare_body(bench: &Bench, nth: u64) -> Vec<u8> {
    format!(
        r#"{{"session_id":"s0","sequence":{nth},"type":"user.message","role":"user","content":{},"metadata":null,"subthread_id":null,"external_event_id":null,"turn":{nth},"author":"bench","at":"2026-01-01T00:00:00.000000Z"}}"#,
        bench.payloads.nth(nth)
    )
    .into_bytes()
}

pub async fn publish(
    bench: &Bench,
    connection: &mut Connection,
    target: &Target,
    path: &str,
    body: fn(&Bench, u64) -> Vec<u8>,
    nth: u64,
) -> Result<()> {
    let mut request = Vec::with_capacity(1024);
    target.post(path, &body(bench, nth), &mut request);
    let answer = connection.ask(&request).await?;
    ensure!(answer.status == 201, "status {}: {}", answer.status, answer.text());
    Ok(())
}

/// Opens streams, some at a time, and waits until every one is live.
async fn open_all(target: &Target, streams: impl Iterator<Item = (String, u64)>) -> Result<Vec<Subscriber>> {
    let mut open = Vec::new();
    let mut opening = JoinSet::new();
    for (path, after) in streams {
        let target = target.clone();
        opening.spawn(async move { Subscriber::open(&target, &path, after).await });
        if opening.len() >= OPEN_AT_ONCE {
            open.extend(opening.join_next().await.transpose()?.transpose()?);
        }
    }
    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
    }
    Ok(open)
}

async fn readers(stage: &Stage) -> Result<Vec<Subscriber>> {
    open_all(&stage.target, (0..READERS).map(|_| (stage.follow.clone(), stage.last))).await
}

/// Publishes at the pace, and returns the time from sending each event to each of its deliveries.
async fn publish_paced(bench: &Bench, stage: &Stage, events: u64) -> Result<Latencies> {
    let start = Instant::now();
    let sent: Arc<Vec<AtomicU64>> = Arc::new((0..events).map(|_| AtomicU64::new(0)).collect());
    let mut listening = JoinSet::new();
    for mut reader in readers(stage).await? {
        let (sent, first) = (sent.clone(), stage.last + 1);
        listening.spawn(async move {
            let mut latencies = Latencies::default();
            while reader.last() < first + sent.len() as u64 - 1 {
                let (at, _) = reader.take().await?;
                for event in latencies.len() as u64..reader.last() + 1 - first {
                    let sent = Duration::from_micros(sent[event as usize].load(Ordering::Relaxed));
                    latencies.add(at.saturating_duration_since(start + sent));
                }
            }
            anyhow::Ok(latencies)
        });
    }
    let mut connection = stage.target.connect().await?;
    let mut pace = tokio::time::interval(Duration::from_secs(1) / PER_SECOND as u32);
    for nth in 0..events {
        pace.tick().await;
        sent[nth as usize].store(start.elapsed().as_micros() as u64, Ordering::Relaxed);
        publish(bench, &mut connection, &stage.target, &stage.publish, stage.body, nth).await?;
    }
    let mut all = Latencies::default();
    while let Some(done) =
        tokio::time::timeout(DELIVER_WITHIN, listening.join_next()).await.context("deliveries are missing")?
    {
        all.join(done??);
    }
    ensure!(all.len() as u64 == events * READERS, "{} deliveries of {}", all.len(), events * READERS);
    Ok(all)
}

/// Publishes as fast as the readers follow, and returns the deliveries per second.
async fn publish_saturated(bench: &Bench, stage: &Stage, events: u64) -> Result<Sample> {
    let delivered = Arc::new(AtomicU64::new(0));
    let mut listening = JoinSet::new();
    for mut reader in readers(stage).await? {
        let (delivered, goal) = (delivered.clone(), stage.last + events);
        listening.spawn(async move {
            while reader.last() < goal {
                let (_, more) = reader.take().await?;
                delivered.fetch_add(more, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let tickets = AtomicU64::new(0);
    let start = Instant::now();
    let writers = (0..WRITERS).map(|_| async {
        let mut connection = stage.target.connect().await?;
        loop {
            let nth = tickets.fetch_add(1, Ordering::Relaxed);
            if nth >= events {
                return anyhow::Ok(());
            }
            while nth.saturating_sub(delivered.load(Ordering::Relaxed) / READERS) > AHEAD_MAX {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            publish(bench, &mut connection, &stage.target, &stage.publish, stage.body, nth).await?;
        }
    });
    futures_util::future::try_join_all(writers).await?;
    while let Some(done) =
        tokio::time::timeout(DELIVER_WITHIN, listening.join_next()).await.context("deliveries are missing")?
    {
        done??;
    }
    let all = delivered.load(Ordering::Relaxed);
    ensure!(all == events * READERS, "{all} deliveries of {}", events * READERS);
    Ok(Sample::rate(all, start.elapsed()))
}
