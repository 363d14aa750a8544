//! Commands around what people think of an agent's work, and what is learned from it.

use clap::{Args, Subcommand};

use super::PageOf;

const SIGNALS: [&str; 2] = ["up", "down"];

#[derive(Debug, Subcommand)]
pub enum Feedback {
    /// Give a thumb with a few words about the work of an agent
    ///
    /// A feedback session is opened for what else there is to say. What says too little to learn from is kept as a
    /// thumb, and you are asked what is missing; what carries a secret is refused.
    Give(GiveFeedback),
    /// Open a feedback session on feedback that was given before
    Open {
        /// The feedback: its id, fb_…
        event: String,
        /// The thumb that was given
        #[arg(value_parser = SIGNALS)]
        signal: String,
        /// The first words of the session
        context: Option<String>,
    },
    /// Add a message to an open feedback session
    Add {
        /// The feedback session: its id, fbs_…
        session: String,
        /// What to add
        message: String,
        /// Who says it
        #[arg(long, default_value = "user", value_parser = ["user", "assistant"])]
        role: String,
    },
    /// Close a feedback session, and see what it teaches
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
        page: PageOf,
    },
    /// List failed runs of tasks with their reasons, newest first
    Failures {
        /// Only those of this task, by its slug or id
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Only that of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        #[command(flatten)]
        page: PageOf,
    },
    /// Show what the thumbs add up to, and how many sittings were rated how
    Stats,
    /// List the ratings of a conversation's sittings: labels, no words
    Ratings {
        /// The conversation
        thread: String,
    },
    /// Read the figures and the newest thumbs as a page of Markdown
    Summary {
        /// How many of the newest thumbs
        #[arg(long, value_name = "N", default_value_t = 20)]
        recent: u32,
    },
}

#[derive(Debug, Args)]
pub struct GiveFeedback {
    /// A thumb: up or down
    #[arg(value_parser = SIGNALS)]
    pub signal: String,
    /// What it is about
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
    /// A word to find it by; may be given more than once
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// The skill that the agent used
    #[arg(long, value_name = "NAME")]
    pub skill: Option<String>,
    /// The session that it is about
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// A place in the log of that session; may be given more than once
    #[arg(long = "sequence", value_name = "N", requires = "session")]
    pub sequences: Vec<u64>,
}

#[derive(Debug, Subcommand)]
pub enum Lessons {
    /// List lessons, newest first
    Ls {
        #[command(flatten)]
        filter: LessonFilter,
        #[command(flatten)]
        page: PageOf,
    },
    /// Find lessons by words, the best fits first
    Search {
        /// The words
        #[arg(required = true)]
        words: Vec<String>,
        #[command(flatten)]
        filter: LessonFilter,
        /// How many to list at most
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
    /// Show one lesson: what it says, where it came up, what it has done
    Show {
        /// The lesson: its id, lesson_…
        id: String,
    },
    /// Accept a lesson: agents are given it, and it does not fade
    Accept {
        /// The lesson: its id, lesson_…
        id: String,
    },
    /// Reword a lesson, or tag it anew
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Edit {
        /// The lesson: its id, lesson_…
        id: String,
        /// What it says from now on
        #[arg(long, group = "change")]
        text: Option<String>,
        /// A tag, instead of those that it has; may be given more than once
        #[arg(long = "tag", value_name = "TAG", value_delimiter = ',', group = "change")]
        tags: Vec<String>,
    },
    /// Take a lesson out of use; it does not come back by itself
    Retire {
        /// The lesson: its id, lesson_…
        id: String,
    },
    /// List prevention rules: what came up so often that it must not happen again
    Rules {
        /// How often it must have come up
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
        min: u64,
    },
}

#[derive(Debug, Args)]
pub struct LessonFilter {
    /// Only in this state; may be given more than once
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',',
        value_parser = ["proposed", "active", "retired"])]
    pub states: Vec<String>,
    /// Only with this tag; may be given more than once
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
}
