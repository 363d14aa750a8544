//! Commands around what people think of an agent's work, and what is learned from it.

use clap::{Args, Subcommand};

use super::PageArgs;

const SIGNALS: [&str; 2] = ["up", "down"];

#[derive(Debug, Subcommand)]
pub enum FeedbackCommand {
    /// Give a thumb up or down with a few words about an agent's work
    ///
    /// Opens a feedback session, to which messages can be added. Feedback that says too little to learn from is kept as a
    /// thumb, and the answer asks for what is missing. Feedback with a secret in it is refused.
    Give(GiveFeedbackArgs),
    /// Open a feedback session on feedback that was given before
    Open {
        /// The feedback: its id, fb_…
        event: String,
        /// The thumb that was given
        #[arg(value_parser = SIGNALS)]
        signal: String,
        /// First message of the session
        context: Option<String>,
    },
    /// Add a message to an open feedback session
    Add {
        /// The feedback session: its id, fbs_…
        session: String,
        /// Message to add
        message: String,
        /// Add it as this speaker
        #[arg(long, default_value = "user", value_parser = ["user", "assistant"])]
        role: String,
    },
    /// Close a feedback session and show its lesson
    Finalize {
        /// The feedback session: its id, fbs_…
        session: String,
    },
    /// Show a feedback session
    Show {
        /// The feedback session: its id, fbs_…
        session: String,
    },
    /// List feedback sessions, newest first
    Ls {
        /// Only those that are still open
        #[arg(long)]
        open: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// List failed runs of tasks with their reasons, newest first
    Failures {
        /// Only those of this task, by its slug or id
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Only the failure of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Count thumbs, and ratings of sittings by label
    Stats,
    /// List the ratings of a conversation's sittings: labels, no words
    Ratings {
        /// The conversation
        thread: String,
    },
    /// Print the figures and the newest thumbs as Markdown
    Summary {
        /// Print this many of the newest thumbs
        #[arg(long, value_name = "N", default_value_t = 20)]
        recent: u32,
    },
}

#[derive(Debug, Args)]
pub struct GiveFeedbackArgs {
    /// A thumb: up or down
    #[arg(value_parser = SIGNALS)]
    pub signal: String,
    /// What the feedback is about
    pub words: Vec<String>,
    /// What went wrong
    #[arg(long, value_name = "TEXT")]
    pub wrong: Option<String>,
    /// What to do instead
    #[arg(long, value_name = "TEXT")]
    pub change: Option<String>,
    /// What worked
    #[arg(long, value_name = "TEXT")]
    pub worked: Option<String>,
    /// Tag it; may be given more than once
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// The skill that the agent used
    #[arg(long, value_name = "NAME")]
    pub skill: Option<String>,
    /// Session that the feedback is about
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Sequence of an event in that session; may be given more than once
    #[arg(long = "sequence", value_name = "N", requires = "session")]
    pub sequences: Vec<u64>,
}

#[derive(Debug, Subcommand)]
pub enum LessonsCommand {
    /// List lessons, newest first
    Ls {
        #[command(flatten)]
        filter: LessonFilterArgs,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Find lessons by words, the best fits first
    Search {
        /// The words
        #[arg(required = true)]
        words: Vec<String>,
        #[command(flatten)]
        filter: LessonFilterArgs,
        /// List at most this many
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
    /// Show one lesson: its text, its sources, its effect
    Show {
        /// The lesson: its id, lesson_…
        id: String,
    },
    /// Accept a lesson: agents receive it, and it does not fade
    Accept {
        /// The lesson: its id, lesson_…
        id: String,
    },
    /// Change the text or the tags of a lesson
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Edit {
        /// The lesson: its id, lesson_…
        id: String,
        /// Set this text
        #[arg(long, group = "change")]
        text: Option<String>,
        /// Set these tags instead of the present ones; may be given more than once
        #[arg(long = "tag", value_name = "TAG", value_delimiter = ',', group = "change")]
        tags: Vec<String>,
    },
    /// Retire a lesson; it does not come back by itself
    Retire {
        /// The lesson: its id, lesson_…
        id: String,
    },
    /// List prevention rules: lessons that came up often
    Rules {
        /// Only those that came up at least this often
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
        min: u64,
    },
}

#[derive(Debug, Args)]
pub struct LessonFilterArgs {
    /// Only in this state; may be given more than once
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',',
        value_parser = ["proposed", "active", "retired"])]
    pub states: Vec<String>,
    /// Only with this tag; may be given more than once
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
}
