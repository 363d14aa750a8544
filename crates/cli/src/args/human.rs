//! Commands about what a person works on.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum HumanCommand {
    /// Start working on a task; what you worked on before is completed
    Start {
        /// The task: its id or slug
        task: String,
    },
    /// Show what you are working on
    Active,
    /// Print your recent activity as agents are given it
    Block {
        /// The most events, the latest ones
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// Stop working on it
    Stop {
        /// The session of your work; without it, the running one
        session: Option<String>,
    },
    /// Delete what was recorded of your work: all of it, also what is running
    Forget {
        /// Only what ended before this time
        #[arg(long, value_name = "TIME")]
        before: Option<String>,
    },
}
