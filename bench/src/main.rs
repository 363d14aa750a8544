//! Sederunt beside its peers: every figure that is compared was taken in the same run, in turns.
//!
//! Without a subcommand it runs the measures and prints one table. The subcommands are what a measure starts as a
//! process of its own, so that memory and processor time belong to one side alone.

mod bench;
mod child;
mod load;
mod payload;
mod peer;
mod probe;
mod raw;
mod report;
mod rounds;
mod sse;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// The baselines and peers alone, briefly.
    Baselines,
    /// A bare fan-out server.
    #[command(hide = true)]
    BareFanout,
}

fn main() -> Result<()> {
    match Arguments::parse().part {
        None | Some(Part::Baselines) => bench::baselines(),
        Some(Part::BareFanout) => raw::fanout::serve(),
    }
}
