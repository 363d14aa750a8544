//! The command line: every command with its arguments, and nothing of what they do.

mod feedback;
mod work;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub use feedback::{Feedback, GiveFeedback, LessonFilter, Lessons};
pub use work::{
    Agents, Approve, Bundle, Criteria, Deny, Entities, Inbox, InboxOne, ListTasks, PageOf, Tasks, Views, Work,
};

use crate::chat::commands::Tier;
use crate::config::{Flag, Span};

/// The session server for AI agents.
///
/// Exit codes: 0 done, 1 error, 2 usage, 3 not found, 4 refused, 5 unavailable.
#[derive(Debug, Parser)]
#[command(name = "sederunt", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The store: a directory, `memory:` or `postgres://…` [default: ./.store]
    #[arg(long, global = true, value_name = "PLACE")]
    pub store: Option<String>,
    /// The tenant to work in
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    pub tenant: String,
    /// Write JSON for programs instead of tables for people
    #[arg(long, global = true)]
    pub json: bool,
    /// Go through this server instead of opening the store
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// The file with the key to show to the server
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The configuration file (TOML)
    #[arg(long, global = true, value_name = "FILE", env = "SEDERUNT_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the server
    Serve(Serve),
    /// Talk in the terminal
    ///
    /// Without --server it goes through the server that has the store open, or starts one for as long as the chat
    /// lasts. Lines that are piped in are answered one by one.
    Chat(Chat),
    /// Speak MCP on stdin and stdout, for an agent that starts this command
    ///
    /// Without --server it goes through the server that has the store open, or starts one for as long as it lasts;
    /// any number of them share a store. It ends when stdin does.
    Mcp(Door),
    /// Look at sessions, follow their logs, run them again
    #[command(subcommand, visible_alias = "session")]
    Sessions(Sessions),
    /// Define tasks, start them, see where they stand
    #[command(subcommand, visible_alias = "task")]
    Tasks(Tasks),
    /// Define agents
    #[command(subcommand, visible_alias = "agent")]
    Agents(Agents),
    /// Define entities: what work is about
    #[command(subcommand, visible_alias = "entity")]
    Entities(Entities),
    /// Define criteria sets, by which outputs are judged
    #[command(subcommand)]
    Criteria(Criteria),
    /// Define views: forms that people answer
    #[command(subcommand, visible_alias = "view")]
    Views(Views),
    /// Export and import all definitions of a tenant
    #[command(subcommand)]
    Bundle(Bundle),
    /// See what waits for a decision or an answer
    Inbox(Inbox),
    /// Approve what waits
    Approve(Approve),
    /// Deny what waits
    Deny(Deny),
    /// See the work queue: what needs you, runs, failed, is done; alone it counts them
    Work {
        #[command(subcommand)]
        command: Option<Work>,
    },
    /// Look at claims and take work
    #[command(subcommand)]
    Claims(Claims),
    /// Say what you think of an agent's work, and add to it
    #[command(subcommand)]
    Feedback(Feedback),
    /// See what feedback has taught, accept it, reword it, retire it
    #[command(subcommand, visible_alias = "lesson")]
    Lessons(Lessons),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Keys(Keys),
    /// Create users, set roles, link identities
    #[command(subcommand)]
    Users(Users),
    /// Make, suspend and delete tenants
    #[command(subcommand)]
    Tenants(Tenants),
    /// Read the audit trail: who made, changed, exported or deleted what
    Audit(Audit),
    /// Delete old ratings and crisis records of all tenants; what is held stays
    ///
    /// Without --yes it counts what would be deleted, and deletes nothing. --tenant has no effect.
    Purge(Purge),
    /// Show how much is remembered, and how conversations were rated
    #[command(subcommand)]
    Memory(Memory),
    /// Keep crisis records from being purged
    #[command(subcommand)]
    Safety(Safety),
    /// Bring the store to the schema of this version; the server does it by itself where its login may
    Migrate(Migrate),
    /// Copy an SQLite store into a new directory, also while it is in use
    Backup {
        /// The new directory
        to: PathBuf,
    },
    /// Make the SQLite store that --store names from a backup; it must not exist yet
    Restore {
        /// The directory of the backup
        from: PathBuf,
    },
    /// Copy an SQLite store into an empty PostgreSQL database
    Copy(Copy),
    /// Check the store, its files, its clock and its versions
    Doctor,
    /// Show the settings in force, and where each came from
    #[command(subcommand)]
    Config(ShowConfig),
    /// Print the description of the HTTP interface
    Openapi,
    /// Print a completion script for a shell
    Completions {
        /// The shell that reads it
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub struct Purge {
    /// Keep ratings for so many days
    #[arg(long, value_name = "DAYS", default_value_t = 180, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub ratings: u32,
    /// Keep the crisis log for so many days
    #[arg(long, value_name = "DAYS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub crisis: u32,
    /// Delete; without this it only says what would be deleted
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Subcommand)]
pub enum Memory {
    /// Count facts, arcs, rules, ratings by label, and crisis records
    ///
    /// Without --thread and --user-id, ratings and crisis records are those of the whole tenant where an owner asks.
    Status {
        /// A conversation, and what it uses of memory
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// A user
        #[arg(long, value_name = "ID")]
        user_id: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum Safety {
    /// Exempt crisis records of the tenant from purging until a date; a hold is never shortened
    Hold {
        /// The last day on which they are held, or a time
        #[arg(long, value_name = "DATE")]
        until: String,
        /// Those of one conversation alone
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Why
        #[arg(long, default_value = "legal_hold",
            value_parser = ["legal_hold", "incident_review", "complaint", "audit"])]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub struct Serve {
    /// The address and port to serve on [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Who may call: everybody on this machine (local), or those with a key (keys) or a token (jwt) [default: local]
    #[arg(long, value_name = "MODE", value_parser = ["local", "keys", "jwt"])]
    pub auth: Option<String>,
    /// The address by which others reach this server
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// How to write the log [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
    /// Runs that this server works on at once; 0 leaves all work to others [default: 4]
    #[arg(long, value_name = "N")]
    pub workers: Option<String>,
    /// Default model for agents without one: eliza, openai:MODEL, anthropic:MODEL or scripted:FILE [default: eliza]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The model that answers in conversations when `quality` is asked for
    #[arg(long, value_name = "MODEL")]
    pub response_model: Option<String>,
    /// Fill an empty store with sessions to look at, and keep some of them moving
    #[arg(long)]
    pub demo: bool,
}

#[derive(Debug, Args)]
pub struct Chat {
    /// The conversation to go on with; without it a new one
    #[arg(long, value_name = "ID")]
    pub thread_id: Option<String>,
    /// Whose memory is used; without it the conversation has its own
    #[arg(long, value_name = "ID")]
    pub user_id: Option<String>,
    /// Keep nothing: no conversation, no memory, no line of history; --user-id is ignored
    #[arg(long)]
    pub incognito: bool,
    /// Which model answers
    #[arg(long, value_enum, default_value_t)]
    pub tier: Tier,
    #[command(flatten)]
    pub door: Door,
    /// Write without colours, as NO_COLOR asks for too
    #[arg(long)]
    pub no_color: bool,
}

/// What is said to a server that is found, or started.
#[derive(Debug, Args)]
pub struct Door {
    /// The model, where a server is started: eliza, openai:MODEL, anthropic:MODEL or scripted:FILE
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The key to show to the server; --key-file keeps it out of the list of processes
    #[arg(long, value_name = "KEY", env = "SEDERUNT_KEY", hide_env_values = true)]
    pub key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List sessions, newest first
    Ls(ListSessions),
    /// Show one session
    Show {
        /// The session: its id, or at least four characters of its beginning
        id: String,
    },
    /// Follow a session's log until the session is closed
    Tail {
        /// The session: its id, or at least four characters of its beginning
        id: String,
        /// Start after this sequence
        #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
        after: u64,
        /// Stop at the end of the log instead of waiting for more
        #[arg(long)]
        no_follow: bool,
    },
    /// Write what was said in a session to a file or stdout
    Export {
        /// The session: its id, or at least four characters of its beginning
        id: String,
        /// Markdown, JSON (always the whole log) or plain text
        #[arg(long, value_enum, default_value_t = Paper::Md)]
        format: Paper,
        /// The whole log, not only what was said
        #[arg(long)]
        all: bool,
        /// The file to write; stdout without it
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Make a new session that does the work of a failed one again
    Retry {
        /// The session: its id, or at least four characters of its beginning
        id: String,
    },
    /// Stop a session; one that no worker holds ends at once, another when its worker is told
    Stop {
        /// The session: its id, or at least four characters of its beginning
        id: String,
    },
    /// Answer the question that a run asked
    Answer {
        /// The session: its id, or at least four characters of its beginning
        id: String,
        /// The answer as text
        #[arg(required_unless_present = "value", conflicts_with = "value")]
        text: Option<String>,
        /// The answer as JSON
        #[arg(long, value_name = "JSON")]
        value: Option<String>,
    },
    /// Complete a step that is a person's to do
    Done {
        /// The session: its id, or at least four characters of its beginning
        id: String,
        /// What came of it, as JSON
        #[arg(long, value_name = "JSON")]
        result: Option<String>,
        /// What came of it, as text
        #[arg(long)]
        text: Option<String>,
    },
    /// Delete sessions with their logs
    Rm {
        /// The sessions: their ids, or at least four characters of the beginning of each
        #[arg(required = true)]
        ids: Vec<String>,
        /// Also sessions of groups (owners)
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Default, Args)]
pub struct ListSessions {
    /// Only sessions of this type: agent, response, tool or mixed
    #[arg(long = "type", value_name = "TYPE")]
    pub session_type: Option<String>,
    /// draft, pending, running, waiting_human, awaiting_tool, idle, completed, failed, expired or abandoned; several with
    /// commas in between
    #[arg(long)]
    pub status: Option<String>,
    /// Only sessions of this group: active, live, failing or terminal
    #[arg(long)]
    pub group: Option<String>,
    /// Only runs of this task
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "SLUG")]
    pub agent: Option<String>,
    /// Only sessions about this entity
    #[arg(long, value_name = "ID")]
    pub entity: Option<String>,
    /// Only sessions of this user
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// Only sessions whose metadata holds this value; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub metadata: Vec<(String, String)>,
    /// Only sessions with these words in title, description or messages
    #[arg(long, value_name = "WORDS")]
    pub search: Option<String>,
    /// Hidden sessions too
    #[arg(long)]
    pub all: bool,
    /// Only sessions without a parent
    #[arg(long)]
    pub parents_only: bool,
    /// How many to list at most
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Go on where the last page ended
    #[arg(long)]
    pub cursor: Option<String>,
}

#[derive(Debug, Args)]
pub struct Audit {
    /// Lines to show
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Go on where the last page ended
    #[arg(long)]
    pub cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Paper {
    Md,
    Json,
    Txt,
}

#[derive(Debug, Subcommand)]
pub enum Claims {
    /// List claimed sessions with their leases
    Ls,
    /// Claim pending sessions
    Take(TakeClaims),
}

#[derive(Debug, Args)]
pub struct TakeClaims {
    /// A name by which people recognise this worker
    #[arg(long, value_name = "NAME")]
    pub worker: String,
    /// Only sessions of this type; may be given more than once
    #[arg(long = "type", value_name = "TYPE")]
    pub session_types: Vec<String>,
    /// Only sessions of this agent; may be given more than once
    #[arg(long = "agent", value_name = "SLUG")]
    pub agent_slugs: Vec<String>,
    /// How many to claim at most
    #[arg(long, default_value_t = 1)]
    pub limit: u32,
    /// How long the claim holds without a heartbeat; the server's setting without it
    #[arg(long)]
    pub lease: Option<Span>,
    /// How long to wait for work
    #[arg(long, default_value = "0s")]
    pub wait: Span,
}

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make a key; its secret is shown once
    Create(CreateKey),
    /// List the keys of the tenant
    Ls,
    /// Revoke a key
    Revoke {
        /// The id of the key, as `keys ls` shows it
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct CreateKey {
    /// Whose key it is; needed for members and guests
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// owner, member, guest, worker or channel
    #[arg(long)]
    pub role: String,
    /// The session-id prefix of a channel's key
    #[arg(long)]
    pub prefix: Option<String>,
    /// The key may act for other users of the tenant
    #[arg(long)]
    pub act_as: bool,
    /// When the key stops working, counted from now: 30d
    #[arg(long, value_name = "TIME")]
    pub expires: Option<Span>,
}

#[derive(Debug, Subcommand)]
pub enum Users {
    /// List the users of the tenant
    Ls,
    /// Make a user
    Create {
        /// The user's id; without it one is made up
        id: Option<String>,
        /// What people call them
        #[arg(long)]
        name: Option<String>,
        /// owner, member or guest
        #[arg(long, default_value = "member")]
        role: String,
    },
    /// Set a user's role
    Role {
        /// The user
        id: String,
        /// owner, member or guest
        role: String,
    },
    /// Say who a user is on a platform
    Link {
        /// The user
        id: String,
        /// telegram, slack or discord
        #[arg(long)]
        platform: String,
        /// Their id there
        #[arg(long, value_name = "ID")]
        external_id: String,
    },
    /// Make one person of two: everything of the first becomes the second's
    Merge {
        /// The user that goes
        from: String,
        /// The user that stays
        into: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum Tenants {
    /// List all tenants
    Ls,
    /// Make a tenant
    Create {
        /// Its name
        id: String,
    },
    /// Refuse all credentials of a tenant
    Suspend {
        /// The tenant
        id: String,
    },
    /// Take a suspended tenant's credentials again
    Resume {
        /// The tenant
        id: String,
    },
    /// Delete a tenant with everything in it
    Delete {
        /// The tenant
        id: String,
        /// Delete; without this nothing is deleted
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub struct Migrate {
    /// The database as the login that owns its tables: `postgres://…`; without it, --store
    #[arg(long, value_name = "URL")]
    pub migrate_store: Option<String>,
}

#[derive(Debug, Args)]
pub struct Copy {
    /// The directory of the SQLite store
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The database to fill: `postgres://…`
    #[arg(long, value_name = "URL")]
    pub to: String,
}

#[derive(Debug, Subcommand)]
pub enum ShowConfig {
    /// Every setting with its value and its source
    Show,
}

impl Cli {
    /// The settings that were given as flags.
    pub fn flags(&self) -> Vec<Flag> {
        let mut flags = Vec::new();
        let mut add = |setting, flag, value: &Option<String>| {
            flags.extend(value.clone().map(|value| Flag { setting, flag, value }));
        };
        add("store", "--store", &self.global.store);
        if let Command::Serve(serve) = &self.command {
            add("listen", "--listen", &serve.listen);
            add("auth", "--auth", &serve.auth);
            add("public_url", "--public-url", &serve.public_url);
            add("log", "--log", &serve.log);
            add("workers", "--workers", &serve.workers);
            add("model", "--model", &serve.model);
            add("response_model", "--response-model", &serve.response_model);
        }
        if let Command::Migrate(migrate) = &self.command {
            add("migrate_store", "--migrate-store", &migrate.migrate_store);
        }
        if let Command::Chat(Chat { door, .. }) | Command::Mcp(door) = &self.command {
            add("model", "--model", &door.model);
        }
        flags
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_every_argument_has_help() {
        fn walk(command: &clap::Command, path: &str, bare: &mut Vec<String>) {
            if command.get_about().is_none() {
                bare.push(path.to_owned());
            }
            for argument in command.get_arguments() {
                let is_clap = matches!(argument.get_id().as_str(), "help" | "version");
                if !is_clap && argument.get_help().is_none() {
                    bare.push(format!("{path} {}", argument.get_id()));
                }
            }
            for inner in command.get_subcommands() {
                walk(inner, &format!("{path} {}", inner.get_name()), bare);
            }
        }
        let mut bare = Vec::new();
        walk(&Cli::command(), "sederunt", &mut bare);
        assert!(bare.is_empty(), "without help: {bare:#?}");
    }

    #[test]
    fn global_options_stand_before_or_after_the_command() {
        for line in
            [["sederunt", "--tenant", "acme", "keys", "ls"], ["sederunt", "keys", "ls", "--tenant", "acme"]]
        {
            assert_eq!(Cli::parse_from(line).global.tenant, "acme");
        }
    }

    #[test]
    fn flags_of_serve_are_settings() {
        let cli = Cli::parse_from(["sederunt", "serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
        let flags: Vec<_> = cli.flags().into_iter().map(|flag| (flag.setting, flag.value)).collect();
        assert_eq!(flags, [("store", "memory:".to_owned()), ("listen", "127.0.0.1:0".to_owned())]);
    }
}
