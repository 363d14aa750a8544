//! Commands around tasks: definitions, approvals, the work queue.

use clap::{Args, Subcommand};

use crate::config::Span;

/// A file with JSON in it, or `-` for stdin.
pub type JsonFile = String;

#[derive(Debug, Subcommand)]
pub enum TasksCommand {
    /// List tasks, newest first
    Ls(ListTasksArgs),
    /// Show one task
    Show {
        /// The task: its id or slug
        task: String,
    },
    /// Define a task
    Create {
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Change a task: given fields replace, null clears
    Edit {
        /// The task: its id or slug
        task: String,
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Start a task
    Trigger {
        /// The task: its id or slug
        task: String,
        /// Input of this run; its fields replace those of the task's input
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Show the status of a task's newest run
    Status {
        /// The task: its id or slug
        task: String,
    },
    /// Pause a task: it cannot be started, and its pending runs are not handed out
    Pause {
        /// The task: its id or slug
        task: String,
    },
    /// Resume a paused task
    Resume {
        /// The task: its id or slug
        task: String,
    },
}

#[derive(Debug, Args)]
pub struct ListTasksArgs {
    /// Only tasks that are active, paused, done or archived
    #[arg(long)]
    pub status: Option<String>,
    /// Only tasks of this agent
    #[arg(long, value_name = "SLUG")]
    pub agent: Option<String>,
    /// Only tasks that are assigned to this user
    #[arg(long, value_name = "USER")]
    pub assigned_to: Option<String>,
    /// Only tasks about this entity
    #[arg(long, value_name = "ID")]
    pub entity: Option<String>,
    #[command(flatten)]
    pub page: PageArgs,
}

#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// List agents, newest first
    Ls(PageArgs),
    /// Show one agent
    Show {
        /// The agent: its slug
        slug: String,
    },
    /// Define an agent
    Create {
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Change an agent: given fields replace, null clears
    Edit {
        /// The agent: its slug
        slug: String,
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Subcommand)]
pub enum EntitiesCommand {
    /// List entities, newest first
    Ls {
        /// Only entities of this type
        #[arg(long = "type", value_name = "SLUG")]
        type_slug: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one entity
    Show {
        /// The entity: its id
        id: String,
    },
    /// Define an entity
    Create {
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Change an entity: given fields replace, null clears
    Edit {
        /// The entity: its id
        id: String,
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Show the status of its fields and blocks, by the newest sessions that work on them
    Status {
        /// The entity: its id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List tools, newest first
    Ls(PageArgs),
    /// Show one tool
    Show {
        /// The tool: its slug
        slug: String,
    },
    /// Define a tool
    Create {
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Change a tool: given fields replace, null clears
    Edit {
        /// The tool: its slug
        slug: String,
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Run a tool
    Run(RunToolArgs),
    /// List the sessions of a tool, newest activity first
    History {
        /// The tool: its slug
        slug: String,
        /// Only those that are active, completed or cancelled
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only your own
        #[arg(long)]
        mine: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one session of a tool
    Session {
        /// The tool session: its id
        id: String,
    },
    /// Cancel a session of a tool
    Cancel {
        /// The tool session: its id
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct RunToolArgs {
    /// The tool: its slug
    pub slug: String,
    /// Its values; of a secret, the name
    #[arg(value_name = "KEY=VALUE")]
    pub values: Vec<String>,
    /// Begin with the values of this session of the same tool
    #[arg(long, value_name = "ID")]
    pub rerun_of: Option<String>,
    /// Wait until it has ended
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Subcommand)]
pub enum CriteriaCommand {
    /// List criteria sets, newest first
    Ls(PageArgs),
    /// Show one criteria set
    Show {
        /// The criteria set: its id
        id: String,
    },
    /// Define a criteria set
    Create {
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Change a criteria set: given fields replace, null clears
    Edit {
        /// The criteria set: its id
        id: String,
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Subcommand)]
pub enum ViewsCommand {
    /// List views, newest first
    Ls(PageArgs),
    /// Show one view
    Show {
        /// The view: its id
        id: String,
    },
    /// Define a view
    Create {
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Change a view: given fields replace, null clears
    Edit {
        /// The view: its id
        id: String,
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
    /// Create a link to a form and print it, once
    Share {
        /// The view: its id
        id: String,
        /// Make it personal: this member answers, without signing in
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        /// Expire it after this time, such as 7d
        #[arg(long, value_name = "TIME")]
        expires: Option<Span>,
    },
    /// List responses, newest first, or export them as CSV
    Responses(ViewResponsesArgs),
    /// List answers, oldest first
    Answers {
        /// The id of the view
        id: String,
        #[command(flatten)]
        page: PageArgs,
    },
}

/// Which responses to a view.
#[derive(Debug, Args)]
pub struct ViewResponsesArgs {
    /// The id of the view
    pub id: String,
    /// Only those with this status: draft, submitted, promoted or abandoned
    #[arg(long, value_name = "WORD")]
    pub status: Option<String>,
    /// Print all of them as CSV, for spreadsheets
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    pub csv: bool,
    #[command(flatten)]
    pub page: PageArgs,
}

#[derive(Debug, Subcommand)]
pub enum ResponsesCommand {
    /// List the responses to a view, newest first
    Ls {
        /// The id of the view
        view: String,
        /// Only those with this status: draft, submitted, promoted or abandoned
        #[arg(long, value_name = "WORD")]
        status: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one response
    Show {
        /// The response: its id
        id: String,
    },
    /// Ask whether a submitted response may be written to its entity
    Promote {
        /// The response: its id
        id: String,
        /// Let this user decide
        #[arg(long, value_name = "USER")]
        assigned_to: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Export every definition of the tenant to a file or stdout
    Export {
        /// Write to this file, or `-` for stdout
        #[arg(default_value = "-")]
        file: String,
    },
    /// Import definitions, all of them or none; one with the same id is replaced
    Import {
        /// Read JSON from this file, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct InboxArgs {
    /// List what was decided too
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(subcommand)]
    pub one: Option<InboxCommand>,
}

#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    /// Show one approval with everything that is staged
    Show {
        /// The approval: its id, or at least four characters of its beginning
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// The approval: its id, or at least four characters of its beginning
    pub id: String,
    /// Replace these arguments of the tool call; others stay
    #[arg(long, value_name = "JSON", conflicts_with = "output")]
    pub args: Option<String>,
    /// Replace these values of the output; others stay
    #[arg(long, value_name = "JSON")]
    pub output: Option<String>,
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Decide only if this is still the digest of what is staged
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
}

#[derive(Debug, Args)]
pub struct DenyArgs {
    /// The approval: its id, or at least four characters of its beginning
    pub id: String,
    /// Tell the agent this reason; it tries again with it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Decide only if this is still the digest of what is staged
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum WorkCommand {
    /// Count each bucket of the queue
    Counts {
        /// Begin today at midnight in this time zone, such as Europe/London
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
    },
    /// List one bucket, newest first
    Ls {
        /// One of needs_me, running, delegatable (tasks of an agent without a run under way), failed or done_today
        bucket: String,
        /// Begin today at midnight in this time zone, such as Europe/London
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
}

#[derive(Clone, Debug, Args)]
pub struct PageArgs {
    /// List at most this many
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Continue after the last page, with its cursor
    #[arg(long)]
    pub cursor: Option<String>,
}
