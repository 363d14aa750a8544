//! The command line: every command with its arguments, and nothing of what they do.

mod documents;
mod feedback;
mod human;
mod work;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub use documents::{DocumentArgs, DocumentsCommand};
pub use feedback::{FeedbackCommand, GiveFeedbackArgs, LessonFilterArgs, LessonsCommand};
pub use human::HumanCommand;
pub use work::{
    AgentsCommand, ApproveArgs, BundleCommand, CriteriaCommand, DenyArgs, EntitiesCommand, InboxArgs,
    InboxCommand, ListTasksArgs, PageArgs, ResponsesCommand, RunToolArgs, TasksCommand, ToolsCommand,
    ViewResponsesArgs, ViewsCommand, WorkCommand,
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
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalArgs {
    /// Open this store: a directory, `memory:` or `postgres://…` [default: ./.store]
    #[arg(long, global = true, value_name = "PLACE")]
    pub store: Option<String>,
    /// Work in this tenant
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    pub tenant: String,
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub json: bool,
    /// Send commands to this server instead of opening the store
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Read the API key from this file
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Read settings from this TOML file
    #[arg(long, global = true, value_name = "FILE", env = "SEDERUNT_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the server
    Serve(ServeArgs),
    /// Talk in the terminal
    ///
    /// Without --server it goes through the server that has the store open, or starts one for as long as the chat
    /// lasts. Lines that are piped in are answered one by one.
    Chat(ChatArgs),
    /// Serve MCP on stdin and stdout, for an agent that starts this command
    ///
    /// Without --server it goes through the server that has the store open, or starts one for as long as it lasts;
    /// any number of them share a store. It ends when stdin does.
    Mcp(ConnectArgs),
    /// List sessions, follow their logs, retry and stop them
    #[command(subcommand, visible_alias = "session")]
    Sessions(SessionsCommand),
    /// Define tasks, start them, show their status
    #[command(subcommand, visible_alias = "task")]
    Tasks(TasksCommand),
    /// Define agents
    #[command(subcommand, visible_alias = "agent")]
    Agents(AgentsCommand),
    /// Define entities, the records that work is about
    #[command(subcommand, visible_alias = "entity")]
    Entities(EntitiesCommand),
    /// Define tools, run them, show their run history
    #[command(subcommand, visible_alias = "tool")]
    Tools(ToolsCommand),
    /// Define criteria sets, which judge outputs
    #[command(subcommand)]
    Criteria(CriteriaCommand),
    /// Define views, the forms that people answer
    #[command(subcommand, visible_alias = "view")]
    Views(ViewsCommand),
    /// List and show responses, the answers that are saved before they are submitted
    #[command(subcommand, visible_alias = "response")]
    Responses(ResponsesCommand),
    /// Show, patch and apply the documents that people and agents edit together
    #[command(subcommand, visible_alias = "document")]
    Documents(DocumentsCommand),
    /// Export and import all definitions of a tenant
    #[command(subcommand)]
    Bundle(BundleCommand),
    /// List what waits for a decision or an answer
    Inbox(InboxArgs),
    /// Approve a tool call or an output
    Approve(ApproveArgs),
    /// Deny a tool call or an output
    Deny(DenyArgs),
    /// Count or list the work queue: what needs you, what runs, what failed, what is done today
    Work {
        #[command(subcommand)]
        command: Option<WorkCommand>,
    },
    /// Say which task you are working on, see what agents are told of it, stop, forget what was recorded
    #[command(subcommand)]
    Human(HumanCommand),
    /// List claims, claim work
    #[command(subcommand)]
    Claims(ClaimsCommand),
    /// Give feedback on an agent's work, add to it, close it
    #[command(subcommand)]
    Feedback(FeedbackCommand),
    /// List, accept, reword and retire what feedback has taught
    #[command(subcommand, visible_alias = "lesson")]
    Lessons(LessonsCommand),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Create, list and revoke share links
    #[command(subcommand, visible_alias = "share")]
    Shares(SharesCommand),
    /// Create users, set roles, link identities
    #[command(subcommand)]
    Users(UsersCommand),
    /// Create, suspend and delete tenants
    #[command(subcommand)]
    Tenants(TenantsCommand),
    /// List who created, changed, exported or deleted what
    Audit(AuditArgs),
    /// Delete old ratings and crisis records of all tenants, except those on hold
    ///
    /// Without --yes it counts what would be deleted, and deletes nothing. --tenant has no effect.
    Purge(PurgeArgs),
    /// Count memories, ratings and crisis records
    #[command(subcommand)]
    Memory(MemoryCommand),
    /// Exempt crisis records from purging
    #[command(subcommand)]
    Safety(SafetyCommand),
    /// Upgrade the store to the schema of this version; a server does it at its start if its login may
    Migrate(MigrateArgs),
    /// Copy an SQLite store into a new directory, also while it is in use
    Backup {
        /// The new directory
        to: PathBuf,
    },
    /// Restore a backup into the SQLite store that --store names; it must not exist yet
    Restore {
        /// The directory of the backup
        from: PathBuf,
    },
    /// Copy an SQLite store into an empty PostgreSQL database
    Copy(CopyArgs),
    /// Check the store, its files, its clock and its versions
    Doctor,
    /// Show the settings and where each comes from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the OpenAPI document of the HTTP API
    Openapi,
    /// Print a completion script for a shell
    Completions {
        /// Print it for this shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// Keep ratings for so many days
    #[arg(long, value_name = "DAYS", default_value_t = 180, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub ratings: u32,
    /// Keep the crisis log for so many days
    #[arg(long, value_name = "DAYS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub crisis: u32,
    /// Delete; without this, only print what would be deleted
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// Count facts, arcs, rules, ratings by label, and crisis records
    ///
    /// Without --thread and --user-id, ratings and crisis records are those of the whole tenant where an owner asks.
    Status {
        /// Count only for this conversation
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Count only for this user
        #[arg(long, value_name = "ID")]
        user_id: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum SafetyCommand {
    /// Exempt crisis records of the tenant from purging until a date; a hold is never shortened
    Hold {
        /// Hold them until the end of this day, or until this time
        #[arg(long, value_name = "DATE")]
        until: String,
        /// Hold only those of this conversation
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Record this reason
        #[arg(long, default_value = "legal_hold",
            value_parser = ["legal_hold", "incident_review", "complaint", "audit"])]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Listen on this address and port [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Accept every caller on this machine (local), or callers with a key (keys) or a token (jwt) [default: local]
    #[arg(long, value_name = "MODE", value_parser = ["local", "keys", "jwt"])]
    pub auth: Option<String>,
    /// Begin links with this address, by which others reach the server
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Write the log in this format [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
    /// Run at most this many tasks at once; 0 leaves all work to other workers [default: 4]
    #[arg(long, value_name = "N")]
    pub workers: Option<String>,
    /// Default model for agents without one: eliza, openai:MODEL, anthropic:MODEL or scripted:FILE [default: eliza]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Model that answers conversations in the tier `quality`
    #[arg(long, value_name = "MODEL")]
    pub response_model: Option<String>,
    /// Fill an empty store with sessions to look at, and keep some of them moving
    #[arg(long)]
    pub demo: bool,
}

#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Continue this conversation; without it, start a new one
    #[arg(long, value_name = "ID")]
    pub thread_id: Option<String>,
    /// Use the memory of this user; without it, the conversation has its own
    #[arg(long, value_name = "ID")]
    pub user_id: Option<String>,
    /// Store nothing: no conversation, no memory, no history; --user-id is ignored
    #[arg(long)]
    pub incognito: bool,
    /// Answer with the fast or the better model
    #[arg(long, value_enum, default_value_t)]
    pub tier: Tier,
    #[command(flatten)]
    pub connect_args: ConnectArgs,
    /// Print without colours, as with NO_COLOR
    #[arg(long)]
    pub no_color: bool,
}

/// How a server is reached, or started.
#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// Model of a server that is started here: eliza, openai:MODEL, anthropic:MODEL or scripted:FILE
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Authenticate with this key; --key-file keeps it out of the list of processes
    #[arg(long, value_name = "KEY", env = "SEDERUNT_KEY", hide_env_values = true)]
    pub key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, newest first
    Ls(ListSessionsArgs),
    /// Show one session
    Show {
        /// The session: its id, or at least four characters of its beginning
        id: String,
    },
    /// List who is present in a session
    Present {
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
    /// Export the messages of a session to a file or stdout
    Export {
        /// The session: its id, or at least four characters of its beginning
        id: String,
        /// Write Markdown, JSON (always the whole log) or plain text
        #[arg(long, value_enum, default_value_t = ExportFormat::Md)]
        format: ExportFormat,
        /// Export the whole log, not only messages
        #[arg(long)]
        all: bool,
        /// Write to this file instead of stdout
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Retry the work of a failed session in a new one
    Retry {
        /// The session: its id, or at least four characters of its beginning
        id: String,
    },
    /// Stop a session: at once, or when the worker that runs it hears of it
    Stop {
        /// The session: its id, or at least four characters of its beginning
        id: String,
    },
    /// Answer the question that a run asked
    Answer {
        /// The session: its id, or at least four characters of its beginning
        id: String,
        /// Answer as text
        #[arg(required_unless_present = "value", conflicts_with = "value")]
        text: Option<String>,
        /// Answer as JSON
        #[arg(long, value_name = "JSON")]
        value: Option<String>,
    },
    /// Complete a step that is assigned to a person
    Done {
        /// The session: its id, or at least four characters of its beginning
        id: String,
        /// Result as JSON
        #[arg(long, value_name = "JSON")]
        result: Option<String>,
        /// Result as text
        #[arg(long)]
        text: Option<String>,
    },
    /// Delete sessions with their logs
    Rm {
        /// The sessions: their ids, or at least four characters of the beginning of each
        #[arg(required = true)]
        ids: Vec<String>,
        /// Delete group sessions too (owners only)
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Default, Args)]
pub struct ListSessionsArgs {
    /// Only sessions of this type: agent, response, tool or mixed
    #[arg(long = "type", value_name = "TYPE")]
    pub session_type: Option<String>,
    /// Only sessions in this status: draft, pending, running, waiting_human, awaiting_tool, idle, completed, failed, expired or abandoned; several with
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
    /// List hidden sessions too
    #[arg(long)]
    pub all: bool,
    /// Only sessions without a parent
    #[arg(long)]
    pub parents_only: bool,
    /// List at most this many
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Continue after the last page, with its cursor
    #[arg(long)]
    pub cursor: Option<String>,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// List at most this many lines
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// Continue after the last page, with its cursor
    #[arg(long)]
    pub cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ExportFormat {
    Md,
    Json,
    Txt,
}

#[derive(Debug, Subcommand)]
pub enum ClaimsCommand {
    /// List claimed sessions with their leases
    Ls,
    /// Claim pending sessions
    Take(TakeClaimsArgs),
}

#[derive(Debug, Args)]
pub struct TakeClaimsArgs {
    /// Show this name of the worker in claims
    #[arg(long, value_name = "NAME")]
    pub worker: String,
    /// Only sessions of this type; may be given more than once
    #[arg(long = "type", value_name = "TYPE")]
    pub session_types: Vec<String>,
    /// Only sessions of this agent; may be given more than once
    #[arg(long = "agent", value_name = "SLUG")]
    pub agent_slugs: Vec<String>,
    /// Claim at most this many
    #[arg(long, default_value_t = 1)]
    pub limit: u32,
    /// Hold the claim this long without a heartbeat; the default is a setting of the server
    #[arg(long)]
    pub lease: Option<Span>,
    /// Wait this long for work
    #[arg(long, default_value = "0s")]
    pub wait: Span,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create a key and print its secret, once
    Create(CreateKeyArgs),
    /// List the keys of the tenant
    Ls,
    /// Revoke a key
    Revoke {
        /// The id of the key, as `keys ls` shows it
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct CreateKeyArgs {
    /// Create it for this user; required for members and guests
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// Give it this role: owner, member, guest, worker or channel
    #[arg(long)]
    pub role: String,
    /// Bind a channel's key to session ids with this prefix, which ends with a colon, such as telegram:
    #[arg(long)]
    pub prefix: Option<String>,
    /// Who may start turns through a channel's key: everyone, known (the default) or linked
    #[arg(long)]
    pub who: Option<String>,
    /// Which messages in threads are said to the agent: mention (the default) or follow
    #[arg(long)]
    pub threads: Option<String>,
    /// Let it act for other users of the tenant
    #[arg(long)]
    pub act_as: bool,
    /// Expire it after this time, such as 30d
    #[arg(long, value_name = "TIME")]
    pub expires: Option<Span>,
}

#[derive(Debug, Subcommand)]
pub enum SharesCommand {
    /// List share links, newest first
    Ls {
        /// Only links of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Only links to this view
        #[arg(long, value_name = "ID")]
        view: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Create a link to a session and print it, once; `views share` makes links to forms
    Create {
        /// The session: its id
        session: String,
        /// Let its bearer read, or also answer the session's forms: read or submit
        #[arg(long, default_value = "read")]
        access: String,
        /// Expire it after this time
        #[arg(long, value_name = "TIME", default_value = "7d")]
        expires: Span,
    },
    /// Revoke a link
    Revoke {
        /// The id of the link, as `shares ls` shows it
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum UsersCommand {
    /// List the users of the tenant
    Ls,
    /// Create a user
    Create {
        /// Id of the user; drawn if it is left out
        id: Option<String>,
        /// Name of the user
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
    /// Link a user to an identity on a platform, by name or by the code that a channel showed
    ///
    /// `users link ada --platform telegram --external-id 42` links an account that you know. `users link --code ABCD2345`
    /// shows whose account it is and asks; with a user, the account becomes that user's with everything that its guest
    /// has.
    Link {
        /// The user
        #[arg(required_unless_present = "code")]
        id: Option<String>,
        /// telegram, slack or discord
        #[arg(long, required_unless_present = "code", conflicts_with = "code")]
        platform: Option<String>,
        /// Id of the user on that platform; on Slack team:user
        #[arg(long, value_name = "ID", required_unless_present = "code", conflicts_with = "code")]
        external_id: Option<String>,
        /// The code that the person was shown
        #[arg(long)]
        code: Option<String>,
        /// Do not ask
        #[arg(long, requires = "code")]
        yes: bool,
    },
    /// Merge two users: the second receives everything of the first
    Merge {
        /// User that is removed
        from: String,
        /// User that remains
        into: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum TenantsCommand {
    /// List all tenants
    Ls,
    /// Create a tenant
    Create {
        /// Name of the tenant
        id: String,
    },
    /// Refuse all credentials of a tenant
    Suspend {
        /// The tenant
        id: String,
    },
    /// Accept the credentials of a suspended tenant again
    Resume {
        /// The tenant
        id: String,
    },
    /// Delete a tenant with everything in it
    Delete {
        /// The tenant
        id: String,
        /// Delete; without this, nothing is deleted
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Connect as the login that owns the tables: `postgres://…`; without it, use --store
    #[arg(long, value_name = "URL")]
    pub migrate_store: Option<String>,
}

#[derive(Debug, Args)]
pub struct CopyArgs {
    /// The directory of the SQLite store
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The database to fill: `postgres://…`
    #[arg(long, value_name = "URL")]
    pub to: String,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting with its value and its source
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
        if let Command::Chat(ChatArgs { connect_args, .. }) | Command::Mcp(connect_args) = &self.command {
            add("model", "--model", &connect_args.model);
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
