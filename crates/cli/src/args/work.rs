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
        /// Its id or slug
        task: String,
    },
    /// Define a task
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change a task: given fields replace, null clears
    Edit {
        /// Its id or slug
        task: String,
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Start a task
    Trigger {
        /// Its id or slug
        task: String,
        /// Laid over the task's own input
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Show where a task's newest run stands
    Status {
        /// Its id or slug
        task: String,
    },
    /// Let a task not be started for now
    Pause {
        /// Its id or slug
        task: String,
    },
    /// Let a paused task be started again
    Resume {
        /// Its id or slug
        task: String,
    },
}

#[derive(Debug, Args)]
pub struct ListTasks {
    /// active, paused, done or archived
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
        /// Its slug
        slug: String,
    },
    /// Define an agent
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change an agent: given fields replace, null clears
    Edit {
        /// Its slug
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
        /// Its id
        id: String,
    },
    /// Define an entity
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change an entity: given fields replace, null clears
    Edit {
        /// Its id
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
        /// Its id
        id: String,
    },
    /// Define a criteria set
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change a criteria set: given fields replace, null clears
    Edit {
        /// Its id
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
        /// Its id
        id: String,
    },
    /// Define a view
    Create {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
    /// Change a view: given fields replace, null clears
    Edit {
        /// Its id
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
    /// Take definitions in, whole or not at all
    Import {
        /// A file with JSON in it, or `-` for stdin
        file: JsonFile,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Inbox {
    /// What was decided too
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
    /// Arguments to use instead, of a tool call
    #[arg(long, value_name = "JSON", conflicts_with = "output")]
    pub args: Option<String>,
    /// Values to write instead, of an output
    #[arg(long, value_name = "JSON")]
    pub output: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Of what you saw: deciding on anything else is refused
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
}

#[derive(Debug, Args)]
pub struct Deny {
    /// The approval: its id, or at least four characters of its beginning
    pub id: String,
    /// Why; a run that goes on is told
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Of what you saw: deciding on anything else is refused
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Work {
    /// Count each bucket of the queue
    Counts {
        /// Whose midnight: Europe/London
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
    },
    /// List one bucket, newest first
    Ls {
        /// needs_me, running, delegatable, failed or done_today
        bucket: String,
        /// Whose midnight: Europe/London
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
