//! Appends over HTTP on PostgreSQL: many at once against bare batches, a few against one statement per append.

use anyhow::Result;

use crate::appends::{drive, spread_out_on};
use crate::bench::Bench;
use crate::child::{self, Listening};
use crate::load::{Target, single_threaded};
use crate::payload::SESSIONS;
use crate::raw::postgres::{How, LANES, append, check_stored, fresh};
use crate::report::Row;
use crate::rounds::{Sample, interleave};
use crate::subject::Subject;

const MANY: usize = 256;
const FEW: usize = 32;

pub fn appends(bench: &Bench) -> Result<Vec<Row>> {
    let server = bench.postgres()?;
    let (many, few) = (bench.some(60_000), bench.some(30_000));
    let [raw_many, route_many, ours_many, raw_few, route_few, ours_few] = interleave(
        bench.rounds,
        [
            &mut || append(server, &bench.payloads, How::Batches, MANY, many, bench.cap),
            &mut || behind_a_route(bench, MANY, many, LANES),
            &mut || over_http(bench, MANY, many),
            &mut || append(server, &bench.payloads, How::Singles, FEW, few, bench.cap),
            &mut || behind_a_route(bench, FEW, few, 1),
            &mut || over_http(bench, FEW, few),
        ],
    )?;
    let bar = if bench.has_fast_disk() { 1.2 } else { 0.9 };
    Ok(vec![
        Row::at_least(
            "PostgreSQL: HTTP append, 256 connections / bare batches",
            ours_many.per_s,
            raw_many.per_s,
            "events",
            0.5,
        ),
        Row::beside(
            "PostgreSQL: bare batches behind a bare HTTP route, 256 connections / bare batches",
            route_many.per_s,
            raw_many.per_s,
            "events",
            "–",
        ),
        Row::beside(
            "PostgreSQL: HTTP append, 256 connections / bare batches behind a bare HTTP route",
            ours_many.per_s,
            route_many.per_s,
            "events",
            "–",
        ),
        Row::at_least(
            "PostgreSQL: HTTP append, 32 connections / one statement per append on 32",
            ours_few.per_s,
            raw_few.per_s,
            "events",
            bar,
        ),
        Row::beside(
            "PostgreSQL: bare batches behind a bare HTTP route, 32 connections / one statement per append on 32",
            route_few.per_s,
            raw_few.per_s,
            "events",
            "–",
        ),
    ])
}

fn over_http(bench: &Bench, connections: usize, count: u64) -> Result<Sample> {
    let subject = Subject::on_postgres(bench)?.with_sessions()?;
    let node = subject.serve()?;
    spread_out_on(bench, &node, connections, 1, count)
}

/// Bare batches behind a bare HTTP route, under the same load on the same machine. Few callers share one lane, as in
/// the product.
fn behind_a_route(bench: &Bench, connections: usize, count: u64, lanes: usize) -> Result<Sample> {
    let database = fresh(bench.postgres()?)?;
    let mut command = child::command(child::this_program()?);
    command.args(["bare-route", &database.url, "--lanes", &lanes.to_string()]);
    let server = Listening::start(&mut command, &bench.log())?;
    let target = Target::new(server.addr, None);
    let driven = drive(bench, &target, connections, 1, count, |nth| nth as usize % SESSIONS)?;
    single_threaded()?.block_on(check_stored(&database.url, driven.answered))?;
    driven.sample(1)
}
