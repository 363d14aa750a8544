//! Commands around tasks: what people define, what waits for them, what is on their plate.

use clap::{Args, Subcommand};

/// A file with JSON in it, or `-` for stdin.
pub type JsonFile = String;

#[derive(Debug, Subcommand)]
pub enum Tasks {
    /// List tasks, newest first
    Ls(ListTasks),
    /// Show one task
    Show {
        /// The task: its id or slug
        task: String,
    },
    /// Define a task
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change a task: given fields replace, null clears
    Edit {
        /// The task: its id or slug
        task: String,
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Start a task
    Trigger {
        /// The task: its id or slug
        task: String,
        /// Input of this run, laid over the task's own
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Show where a task's newest run stands
    Status {
        /// The task: its id or slug
        task: String,
    },
    /// Pause a task: it is not started, and what waits for it is not handed out
    Pause {
        /// The task: its id or slug
        task: String,
    },
    /// Let a paused task go on
    Resume {
        /// The task: its id or slug
        task: String,
    },
}

#[derive(Debug, Args)]
pub struct ListTasks {
    /// Only tasks that are active, paused, done or archived
    #[arg(long)]
    pub status: Option<String>,
    /// Only tasks of this agent
    #[arg(long, value_name = "SLUG")]
    pub agent: Option<String>,
    /// Only tasks that are this person's to do
    #[arg(long, value_name = "USER")]
    pub assigned_to: Option<String>,
    /// Only tasks about this entity
    #[arg(long, value_name = "ID")]
    pub entity: Option<String>,
    #[command(flatten)]
    pub page: PageOf,
}

#[derive(Debug, Subcommand)]
pub enum Agents {
    /// List agents, newest first
    Ls(PageOf),
    /// Show one agent
    Show {
        /// The agent: its slug
        slug: String,
    },
    /// Define an agent
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change an agent: given fields replace, null clears
    Edit {
        /// The agent: its slug
        slug: String,
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Subcommand)]
pub enum Entities {
    /// List entities, newest first
    Ls {
        /// Only entities of this type
        #[arg(long = "type", value_name = "SLUG")]
        type_slug: Option<String>,
        #[command(flatten)]
        page: PageOf,
    },
    /// Show one entity
    Show {
        /// The entity: its id
        id: String,
    },
    /// Define an entity
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change an entity: given fields replace, null clears
    Edit {
        /// The entity: its id
        id: String,
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Subcommand)]
pub enum Criteria {
    /// List criteria sets, newest first
    Ls(PageOf),
    /// Show one criteria set
    Show {
        /// The criteria set: its id
        id: String,
    },
    /// Define a criteria set
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change a criteria set: given fields replace, null clears
    Edit {
        /// The criteria set: its id
        id: String,
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Subcommand)]
pub enum Views {
    /// List views, newest first
    Ls(PageOf),
    /// Show one view
    Show {
        /// The view: its id
        id: String,
    },
    /// Define a view
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change a view: given fields replace, null clears
    Edit {
        /// The view: its id
        id: String,
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// List what people answered, oldest first
    Answers {
        /// The id of the view
        id: String,
        #[command(flatten)]
        page: PageOf,
    },
}

#[derive(Debug, Subcommand)]
pub enum Bundle {
    /// Write every definition of the tenant to a file or stdout
    Export {
        /// The file to write, or `-` for stdout
        #[arg(default_value = "-")]
        file: String,
    },
    /// Take definitions in: all of them or none; one with the same id is replaced
    Import {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Inbox {
    /// Also what was decided
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub page: PageOf,
    #[command(subcommand)]
    pub one: Option<InboxOne>,
}

#[derive(Debug, Subcommand)]
pub enum InboxOne {
    /// Show what waits, with everything that was staged
    Show {
        /// The approval: its id, or at least four characters of its beginning
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct Approve {
    /// The approval: its id, or at least four characters of its beginning
    pub id: String,
    /// Arguments of the tool call to use instead; those left out stay
    #[arg(long, value_name = "JSON", conflicts_with = "output")]
    pub args: Option<String>,
    /// Values of the output to write instead; those left out stay
    #[arg(long, value_name = "JSON")]
    pub output: Option<String>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The digest of what you saw; the decision is refused if something else is staged by now
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
}

#[derive(Debug, Args)]
pub struct Deny {
    /// The approval: its id, or at least four characters of its beginning
    pub id: String,
    /// Why; the agent is told, and tries again by it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The digest of what you saw; the decision is refused if something else is staged by now
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Work {
    /// Count each bucket of the queue
    Counts {
        /// The time zone whose midnight begins today, such as Europe/London
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
    },
    /// List one bucket, newest first
    Ls {
        /// needs_me, running, delegatable (tasks of an agent without a run under way), failed or done_today
        bucket: String,
        /// The time zone whose midnight begins today, such as Europe/London
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
        #[command(flatten)]
        page: PageOf,
    },
}

#[derive(Clone, Debug, Args)]
pub struct PageOf {
    /// How many to list at most
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Go on where the last page ended
    #[arg(long)]
    pub cursor: Option<String>,
}
