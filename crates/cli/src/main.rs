//! The binary `sederunt`: arguments, configuration, wiring, exit codes. The product is in `sederunt-core`; this crate
//! parses input and formats output.

mod agents;
mod api;
mod args;
mod caps;
mod channels;
mod chat;
mod commands;
mod config;
mod demo;
mod doctor;
mod exit;
mod host;
mod mcp;
mod output;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::exit::Exit;

/// Events are allocated by one thread and freed by another, which costs locks in the default allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Sparse memory would be resident two megabytes at a time, and be no faster for it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::note(exit::Failure::io("cannot start", &error).to_string());
            return Exit::Error.into();
        }
    };
    let is_json = cli.global.json;
    let done = runtime.block_on(commands::run(cli));
    // A blocking call in progress must not keep a finished command alive.
    runtime.shutdown_background();
    match done {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            let said = if is_json { failure.coded() } else { failure.to_string() };
            if !said.is_empty() {
                output::note(said);
            }
            failure.exit().into()
        }
    }
}
