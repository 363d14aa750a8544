//! Sederunt beside its peers: all compared figures were taken in the same run, in turns.
//!
//! Without a subcommand it runs the measures and prints one table. The subcommands are processes that a measure
//! starts, so that memory, processor time and instructions belong to one side alone.

mod activity;
mod activity_block;
mod appends;
mod bench;
mod child;
mod claims;
mod delivery;
mod documents;
mod fanout;
mod findable;
mod flat;
mod lessons;
mod limits;
mod lists;
mod load;
mod pages;
mod payload;
mod peer;
mod postgres;
mod probe;
mod process;
mod raw;
mod report;
mod rounds;
mod serve;
mod sse;
mod subject;
mod talk;
mod work;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

use bench::Bench;
use report::{Report, Row};

/// A run that takes longer leaves out the rest and says so.
const RUN_MAX: Duration = Duration::from_secs(15 * 60);

type Measure = fn(&Bench) -> Result<Vec<Row>>;

/// In the order in which they run; the disk is probed again in the middle.
const MEASURES: [(&str, Measure); 29] = [
    ("appends", appends::singles),
    ("batches", appends::batches),
    ("tail", appends::tail),
    ("embedded", appends::embedded),
    ("one-session", appends::one_session),
    ("postgres", postgres::appends),
    ("findable", findable::under_load),
    ("pages", pages::pages),
    ("process", process::start),
    ("flat", flat::growth),
    ("autosave", flat::autosave),
    ("claims", claims::on_sqlite),
    ("claims-postgres", claims::on_postgres),
    ("fanout", fanout::paced),
    ("saturated", fanout::saturated),
    ("idle-streams", fanout::idle),
    ("delivery", delivery::both),
    ("work", work::handed_over),
    ("runs", work::runs),
    ("turns", talk::turns),
    ("talk", talk::whole_turns),
    ("recall", talk::recall),
    ("lessons", lessons::found),
    ("mcp", lessons::piped),
    ("activity", activity::recorded),
    ("activity-block", activity_block::beside_a_session),
    ("patches", documents::patched),
    ("documents", documents::opened),
    ("document-readers", documents::followed),
];

/// Measures Sederunt beside its peers and prints one table.
#[derive(Parser)]
#[command(disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// One round of less each: shows that everything runs, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Run this measure alone; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = MEASURES.map(|(name, _)| name))]
    only: Vec<String>,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// A bare fan-out server
    #[command(hide = true)]
    BareFanout,
    /// A bare driver behind a bare route
    #[command(hide = true)]
    BareRoute {
        /// The address of a PostgreSQL database, or the path of a new file
        database: String,
        #[arg(long, default_value_t = raw::postgres::LANES)]
        lanes: usize,
    },
    /// The product's server, where its binary was not built
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        listen: std::net::SocketAddr,
        #[arg(long, value_parser = ["keys"])]
        auth: String,
        #[arg(long)]
        store: String,
    },
    /// Appends to a session N times, for counting instructions
    #[command(hide = true)]
    ProbeAppend { store: String, session: String, count: u64 },
    /// Takes turns in a session N times, for counting instructions
    #[command(hide = true)]
    ProbeTurn { store: String, session: String, count: u64 },
    /// Saves a response N times, for counting instructions
    #[command(hide = true)]
    ProbeSave { store: String, session: String, count: u64 },
    /// Reads pages of a session N times, for counting instructions
    #[command(hide = true)]
    ProbePage { store: String, session: String, count: u64 },
    /// Appends batches of a person's activity N times, for counting instructions
    #[command(hide = true)]
    ProbeHuman { store: String, session: String, count: u64 },
    /// Appends batches of custom events N times, for counting instructions
    #[command(hide = true)]
    ProbeCustom { store: String, session: String, count: u64 },
    /// Reads a person's recent activity N times, for counting instructions
    #[command(hide = true)]
    ProbeActivityBlock { store: String, session: String, count: u64 },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.part {
        None => measure(arguments.quick, &arguments.only),
        Some(Part::BareFanout) => raw::fanout::serve(),
        Some(Part::BareRoute { database, lanes }) => raw::route::serve(&database, lanes),
        Some(Part::Serve { listen, store, .. }) => serve::serve(listen, &store),
        Some(Part::ProbeAppend { store, session, count }) => {
            flat::run(flat::FlatProbe::Append, &store, &session, count)
        }
        Some(Part::ProbeTurn { store, session, count }) => {
            flat::run(flat::FlatProbe::Turn, &store, &session, count)
        }
        Some(Part::ProbeSave { store, session, count }) => {
            flat::run(flat::FlatProbe::Save, &store, &session, count)
        }
        Some(Part::ProbePage { store, session, count }) => {
            flat::run(flat::FlatProbe::Page, &store, &session, count)
        }
        Some(Part::ProbeHuman { store, session, count }) => {
            flat::run(flat::FlatProbe::Human, &store, &session, count)
        }
        Some(Part::ProbeCustom { store, session, count }) => {
            flat::run(flat::FlatProbe::Custom, &store, &session, count)
        }
        Some(Part::ProbeActivityBlock { store, session, count }) => {
            flat::run(flat::FlatProbe::ActivityBlock, &store, &session, count)
        }
    }
}

fn measure(quick: bool, only: &[String]) -> Result<()> {
    let start = Instant::now();
    let bench = Bench::new(quick)?;
    let mut probes = vec![("before", bench.disk)];
    let chosen: Vec<_> =
        MEASURES.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|one| one == name)).collect();
    let mut rows = Vec::new();
    let mut failed = 0;
    for (nth, (name, measure)) in chosen.iter().enumerate() {
        if nth > 0 && nth == chosen.len() / 2 {
            probes.push(("in the middle", probe::fdatasync(&bench.dir)?));
        }
        let began = Instant::now();
        eprintln!("{name}");
        let measured =
            if start.elapsed() < RUN_MAX { measure(&bench) } else { Err(anyhow::anyhow!("out of time")) };
        let measured = measured.unwrap_or_else(|error| {
            failed += 1;
            show_end_of(&bench.log());
            vec![Row::failed(*name, &error)]
        });
        measured.iter().for_each(Row::announce);
        let _ = std::fs::remove_file(bench.log());
        eprintln!("  took {:.1} s", began.elapsed().as_secs_f64());
        rows.extend(measured);
    }
    probes.push(("after", probe::fdatasync(&bench.dir)?));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let report = Report {
        command: format!("make bench{}", arguments_text(&arguments)),
        versions: versions(&bench),
        probes,
        rows,
    };
    println!("{}", report.to_markdown());
    eprintln!("took {:.0} s", start.elapsed().as_secs_f64());
    if only.is_empty() && !quick && failed == 0 {
        report.write_into(&bench.root.join("docs/BENCHMARKS.md"))?;
    }
    ensure!(failed == 0, "{failed} measures did not come to an end");
    Ok(())
}

/// The last lines of a log, without those about answered requests.
fn show_end_of(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let words: Vec<&str> =
        text.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    words.iter().rev().take(5).rev().for_each(|line| eprintln!("  {line}"));
}

fn arguments_text(arguments: &[String]) -> String {
    if arguments.is_empty() { String::new() } else { format!(" ARGS='{}'", arguments.join(" ")) }
}

fn versions(bench: &Bench) -> Vec<String> {
    let postgres = bench.postgres().and_then(raw::postgres::version).unwrap_or_else(|_| "absent".into());
    let adk = probe::version_of(
        bench.root.join(".venv-bench/bin/python"),
        &["-c", "from importlib.metadata import version; print(version('google-adk'))"],
    );
    let langgraph = probe::version_of(
        bench.root.join(".venv-bench/bin/python"),
        &["-c", "from importlib.metadata import version; print(version('langgraph-checkpoint-sqlite'))"],
    );
    let is_real = subject::server_program().is_ok_and(|program| program.ends_with("sederunt"));
    let served_by = if is_real { "" } else { " (served by the benchmark itself)" };
    let redis = probe::version_of("redis-server", &["--version"]);
    let redis = redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?").to_owned();
    vec![
        format!("Sederunt {}{served_by}", env!("CARGO_PKG_VERSION")),
        format!("SQLite {}", rusqlite::version()),
        format!("PostgreSQL {postgres}"),
        format!("Redis {redis}"),
        format!("google-adk {adk}"),
        format!("langgraph-checkpoint-sqlite {langgraph}"),
        probe::version_of("rustc", &["--version"]),
    ]
}
