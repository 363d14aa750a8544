//! From an append to its one reader: on the same node, and across two nodes on PostgreSQL; and there, from a piece of
//! an unfinished reply to its one reader.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::RngExt as _;
use serde_json::json;

use crate::bench::Bench;
use crate::fanout::{append_body, publish};
use crate::load::{Target, single_threaded};
use crate::report::Row;
use crate::rounds::Latencies;
use crate::sse::Subscriber;
use crate::subject::Subject;
use crate::work::Caller;

const DELIVER_WITHIN: Duration = Duration::from_secs(10);
/// Longer than the measure takes.
const LEASE: Duration = Duration::from_secs(600);
/// About as much as a model says at a time.
const PIECE: &str = "a few words more ";

pub fn both(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = same_node(bench)?;
    rows.extend(two_nodes(bench)?);
    Ok(rows)
}

fn same_node(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_disk(bench)?.with_sessions()?;
    let node = subject.serve()?;
    let mut times = deliveries(bench, &node.target, &node.target, bench.some(500))?;
    let measure = "append to one reader, same node, p50";
    Ok(vec![Row::at_most(measure, times.at(0.5), bench.disk.p50_ms, "ms", 2.0)])
}

fn two_nodes(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_postgres(bench)?.with_sessions()?;
    let (here, there) = (subject.serve()?, subject.serve()?);
    let mut times = deliveries(bench, &here.target, &there.target, bench.some(200))?;
    eprintln!("  p50 {:.1} ms, p99 {:.1} ms", times.at(0.5), times.at(0.99));
    let append = "append to one reader, two nodes on PostgreSQL, p50";
    let mut rows = vec![Row::at_most(append, times.at(0.5), bench.disk.p50_ms, "ms", 30.0)];
    let mut times = deltas(&here.target, &there.target, bench.some(500))?;
    eprintln!("  p50 {:.1} ms, p99 {:.1} ms", times.at(0.5), times.at(0.99));
    // No disk in between: the pieces of replies are in an unlogged table.
    let piece = "piece of an unfinished reply to one reader, two nodes on PostgreSQL, p50";
    rows.push(Row::at_most(piece, times.at(0.5), 0.0, "ms", 50.0));
    Ok(rows)
}

/// Sends an unfinished reply piece by piece with uneven pauses, as a model writes it, each only after the one before
/// it was delivered.
fn deltas(writer: &Target, reader: &Target, count: u64) -> Result<Latencies> {
    single_threaded()?.block_on(async {
        let mut writer = Caller::to(writer).await?;
        let wish = json!({"id": "reply", "session_type": "agent", "status": "pending"});
        writer.post("/api/sessions", &wish, 201).await?;
        let order = json!({"worker": "bench", "lease_ms": LEASE.as_millis() as u64});
        let claim = writer.post("/api/claims", &order, 200).await?["claims"][0].take();
        let last = claim["session"]["last_sequence"].as_u64().context("a claim of nothing")?;
        let path = format!("/api/sessions/reply/stream?after={last}");
        let mut reader = Subscriber::open(reader, &path, last).await?;
        let (mut times, mut told) = (Latencies::default(), 0);
        for _ in 0..count {
            told += PIECE.len();
            let sent = Instant::now();
            let piece = json!({"epoch": claim["epoch"], "text": PIECE});
            let tell = writer.tell("/api/sessions/reply/delta", &piece);
            let hear = async {
                let mut at = sent;
                while reader.reply_bytes() < told {
                    let heard = tokio::time::timeout(DELIVER_WITHIN, reader.take()).await;
                    at = heard.context("a piece of a reply was not delivered")??.0;
                }
                anyhow::Ok(at)
            };
            let ((), at) = tokio::try_join!(tell, hear)?;
            times.add(at - sent);
            let pause = rand::rng().random_range(1..30);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(times)
    })
}

/// Appends one by one with uneven pauses, each only after the one before it was delivered.
fn deliveries(bench: &Bench, writer: &Target, reader: &Target, count: u64) -> Result<Latencies> {
    single_threaded()?.block_on(async {
        let mut reader = Subscriber::open(reader, "/api/sessions/s0/stream?after=1", 1).await?;
        let mut connection = writer.connect().await?;
        let mut times = Latencies::default();
        for nth in 0..count {
            let sent = Instant::now();
            let append = publish(bench, &mut connection, writer, "/api/sessions/s0/events", append_body, nth);
            let deliver = async {
                let heard = tokio::time::timeout(DELIVER_WITHIN, reader.take()).await;
                anyhow::Ok(heard.context("an event was not delivered")??.0)
            };
            let ((), at) = tokio::try_join!(append, deliver)?;
            // A heartbeat may come before the event: then the event is next.
            let at = if reader.last() < nth + 2 { reader.take().await?.0 } else { at };
            times.add(at - sent);
            let pause = rand::rng().random_range(1..30);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(times)
    })
}
