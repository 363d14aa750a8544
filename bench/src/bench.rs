//! x
use std::sync::Arc;
use std::time::Duration;
use anyhow::Result;
use crate::raw::sqlite::Appends;
use crate::{payload::Payloads, peer::Peer, probe, raw, rounds::Sample};
pub fn baselines() -> Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dir = root.join("target/bench");
    std::fs::create_dir_all(&dir)?;
    let dir = tempfile::tempdir_in(dir)?;
    let dir = dir.path();
    let cap = Duration::from_secs(3);
    let say = |what: &str, s: Sample| eprintln!("{what}: {:.0}/s p50 {:.2} p99 {:.2}", s.per_s, s.p50_ms, s.p99_ms);
    let p = probe::fdatasync(dir)?;
    eprintln!("probe {:.3} {:.3} load {}", p.p50_ms, p.p99_ms, p.load);
    let payloads = Arc::new(Payloads::new());
    for (producers, batch, count) in [(1, 1, 10_000), (32, 1, 60_000), (64, 1, 100_000), (64, 16, 10_000)] {
        say(&format!("sqlite {producers}x{batch}"), raw::sqlite::append(dir, &payloads, Appends { producers, batch, count, cap })?);
    }
    let redis = raw::redis::Redis::start(dir)?;
    for (producers, batch, count) in [(32, 1, 60_000), (32, 16, 10_000)] {
        say(&format!("redis {producers}x{batch}"), redis.append(&payloads, Appends { producers, batch, count, cap })?);
    }
    let log = raw::sqlite::Log::prepare(dir, &payloads, 200_000)?;
    say("pages", log.read_pages(20_000, cap)?);
    let queue = raw::sqlite::Queue::prepare(dir, 100_000)?;
    say("claims", queue.claim(8, 30_000, 32)?);
    if let Ok(pg) = std::env::var("SEDERUNT_TEST_POSTGRES") {
        say("pg batches 256", raw::postgres::append(&pg, &payloads, raw::postgres::How::Batches, 256, 60_000, cap)?);
        say("pg batches 32", raw::postgres::append(&pg, &payloads, raw::postgres::How::Batches, 32, 60_000, cap)?);
        say("pg singles 32", raw::postgres::append(&pg, &payloads, raw::postgres::How::Singles, 32, 30_000, cap)?);
        let queue = raw::postgres::Queue::prepare(&pg, 100_000)?;
        say("pg claims", queue.claim(8, 30_000, 32)?);
    }
    let mut adk = Peer::start(&root, "adk.py", &dir.join("adk.db"))?;
    say("adk", adk.append_for(2.0)?);
    Ok(())
}
