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
