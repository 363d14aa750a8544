//! The process: how soon it listens and how much memory it takes, on a store of a million events.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::report::Row;
use crate::rounds::median;

/// Long enough for the work after the start to finish.
const SETTLE: Duration = Duration::from_secs(2);

pub fn start(bench: &Bench) -> Result<Vec<Row>> {
    let subject = bench.large()?;
    let (mut after_s, mut resident_mb) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let node = subject.serve()?;
        after_s.push(node.listening.after.as_secs_f64());
        std::thread::sleep(SETTLE);
        resident_mb.push(node.listening.usage()?.resident_kb / 1024.0);
        node.listening.end()?;
    }
    let events = bench.long_events();
    Ok(vec![
        Row::at_most(
            format!("listens after, on {events} events"),
            median(after_s.into_iter()),
            0.0,
            "s",
            0.5,
        ),
        Row::at_most("resident when idle", median(resident_mb.into_iter()), 0.0, "MB", 50.0),
    ])
}
