//! Pages of a long log over HTTP, against one bare reader that prints the same rows as JSON.

use anyhow::Result;

use crate::bench::{Bench, LONG};
use crate::load::{self, Drive};
use crate::raw::sqlite::{Log, page_start};
use crate::report::Row;
use crate::rounds::interleave;

const CONNECTIONS: usize = 8;

pub fn pages(bench: &Bench) -> Result<Vec<Row>> {
    let events = bench.long_events();
    let log = Log::prepare(&bench.dir, &bench.payloads, events)?;
    let node = bench.large()?.serve()?;
    let count = bench.some(20_000);
    let [raw, ours] = interleave(
        bench.rounds,
        [&mut || log.read_pages(count, bench.cap / 2), &mut || {
            let target = node.target.clone();
            let shape = Drive { connections: CONNECTIONS, count, cap: bench.cap / 2, expect: 200 };
            load::drive(&node.target, shape, move |nth, request| {
                let after = page_start(nth, events);
                target.get(&format!("/api/sessions/{LONG}/events?after_sequence={after}&limit=100"), request);
            })?
            .sample(1)
        }],
    )?;
    let measure = format!("HTTP page of 100 out of {events} events, 8 connections / one bare reader");
    Ok(vec![Row::at_least(measure, ours.per_s, raw.per_s, "pages", 0.4)])
}
