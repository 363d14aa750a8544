//! Commands about the documents of a session.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum DocumentsCommand {
    /// List the documents of a session
    Ls {
        /// The session: its id or the beginning of it
        session: String,
    },
    /// Print a document
    Show {
        #[command(flatten)]
        document: DocumentArgs,
        /// As it was at this sequence of the session's log
        #[arg(long, value_name = "SEQUENCE")]
        at: Option<u64>,
    },
    /// Patch a document, and open it first with --open
    Patch {
        #[command(flatten)]
        document: DocumentArgs,
        /// A file with JSON Patch operations, or `-` for stdin
        file: String,
        /// The sequence of the newest patch that you have seen; without it, the newest there is
        #[arg(long, value_name = "SEQUENCE")]
        base: Option<u64>,
        /// Also print the operations that take the patch back
        #[arg(long)]
        inverse: bool,
        /// Open the document if the session has none of this name
        #[arg(long)]
        open: bool,
    },
    /// Write what a document has changed to its entity or view
    Apply {
        #[command(flatten)]
        document: DocumentArgs,
    },
}

/// The name of a document.
#[derive(Debug, Args)]
pub struct DocumentArgs {
    /// The session: its id or the beginning of it
    pub session: String,
    /// The document: KIND/ID, where KIND is scratch, entity or view
    #[arg(value_name = "KIND/ID")]
    pub document: String,
}
