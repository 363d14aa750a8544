//! How soon an appended word can be found, while other callers append as fast as they can.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::appends::drive_as;
use crate::bench::Bench;
use crate::load::{Connection, Drive, Target, single_threaded};
use crate::payload::SESSIONS;
use crate::report::Row;
use crate::rounds::Latencies;
use crate::subject::{self, Node, Subject};

/// How long the other callers append.
const LOAD: Duration = Duration::from_secs(6);
/// Between two words, and between two searches for one.
const PAUSE: Duration = Duration::from_millis(50);
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub fn under_load(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (store, subject, connections) in
        [("SQLite", Subject::on_disk(bench)?, 64), ("PostgreSQL", Subject::on_postgres(bench)?, 32)]
    {
        let subject = subject.with_sessions()?;
        let mut times = measure(bench, &subject.serve()?, connections)?;
        eprintln!("  {} words, p50 {:.0} ms, p99 {:.0} ms", times.len(), times.at(0.5), times.at(0.99));
        let measure =
            format!("{store}: a word is found after, beside {connections} connections that append, p99");
        rows.push(Row::at_most(measure, times.at(0.99), 0.0, "ms", 1_000.0));
    }
    Ok(rows)
}

/// From the acknowledgement of a word to the first search that finds it.
fn measure(bench: &Bench, node: &Node, connections: usize) -> Result<Latencies> {
    let cap = if bench.quick { LOAD / 3 } else { LOAD };
    let shape = Drive { connections, count: u64::MAX, cap, expect: 201 };
    let (payloads, target, ended) = (&bench.payloads, &node.target, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let driven = drive_as(payloads, target, shape, 1, |nth| nth as usize % SESSIONS);
            ended.store(true, Ordering::Relaxed);
            driven
        });
        let times = single_threaded()?.block_on(say_and_look(target, &ended));
        let driven = others.join().map_err(|_| anyhow::anyhow!("the load panicked"))??;
        ensure!(driven.refused == 0, "{:?}", driven.first_refusal);
        eprintln!("  beside {:.0} appends/s", driven.answered as f64 / driven.took.as_secs_f64());
        times
    })
}

async fn say_and_look(target: &Target, ended: &AtomicBool) -> Result<Latencies> {
    let mut connection = target.connect().await?;
    let path = format!("/api/sessions/{}/events", subject::name(0));
    let mut times = Latencies::default();
    for nth in 0.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let word = format!("findable{nth}");
        let said = json!({"events": [{"type": "user.message", "content": format!("now {word} is said")}]});
        let mut request = Vec::new();
        target.post(&path, said.to_string().as_bytes(), &mut request);
        connection.ask(&request).await?.json::<Value>(201)?;
        let kept = Instant::now();
        while !is_found(target, &mut connection, &word).await? {
            ensure!(kept.elapsed() < Duration::from_secs(60), "{word} is not found after a minute");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        times.add(kept.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(times)
}

async fn is_found(target: &Target, connection: &mut Connection, word: &str) -> Result<bool> {
    let mut request = Vec::new();
    target.get(&format!("/api/search?q={word}&limit=1"), &mut request);
    let found: Value = connection.ask(&request).await?.json(200)?;
    Ok(!found["items"].as_array().context("no list of hits")?.is_empty())
}
