//! The way from a command to the sessions: the store itself, or a server that has it open.
//!
//! Commands say what they want ([`Ask`]) and get it as the interface shows it, whichever way it
//! went. A store that a local server has open is reached through that server, with the operator's
//! key that lies in the store; otherwise the store is opened here.

mod ask;
pub mod beside;
mod feedback;
mod library;
mod server;
mod store;

use std::path::Path;

use sederunt::{Actor, Operator, Place, Sederunt, SourceKind, TenantId};
use sederunt_server::client::Client;
use serde_json::Value;

pub use ask::{Ask, Decision, Noun, SessionFilter};
pub use feedback::{FeedbackAsk, LessonAsk};
pub use server::{connect, path};

use self::beside::Holder;
use crate::args::Global;
use crate::config::Config;
use crate::exit::{Exit, Failure, Result};

/// What is shorter than this is taken as it stands.
const SHORT_ID_CHARS_MIN: usize = 4;

/// Rows of a page that is searched for the beginning of an id, and how many pages are: the newest.
const ROWS: u32 = 1000;
const SHORT_ID_PAGES_MAX: usize = 10;

/// Whether a command may make a store that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Make,
    Refuse,
}

/// The way that was found.
#[derive(Debug)]
pub enum Reach {
    Store { store: Sederunt, actor: Box<Actor>, config: Box<Config> },
    Server(Client),
}

impl Reach {
    pub async fn find(config: &Config, global: &Global, missing: Missing) -> Result<Self> {
        let tenant = TenantId::parse(&global.tenant)?;
        if let Some(url) = &global.server {
            let key = global.key_file.as_deref().map(beside::read_key).transpose()?;
            return Ok(Self::Server(server::connect(url, key, &tenant)?));
        }
        if let Some(directory) = config.directory() {
            match beside::holder(directory).await {
                Holder::Nobody => check_there(directory, missing)?,
                Holder::Server(running) => {
                    let key = match &global.key_file {
                        Some(file) => beside::read_key(file)?,
                        None => beside::read_key(&beside::key_path(directory))?,
                    };
                    return Ok(Self::Server(server::connect(&running.url, Some(key), &tenant)?));
                }
                holder @ Holder::Somebody => return Err(beside::in_use(directory, &holder)),
            }
        }
        let store = Sederunt::open(&config.store.0, config.options(missing == Missing::Make)?).await?;
        if let Place::Directory(directory) = &config.store.0 {
            // We hold the store, so no server does: what one left behind is stale.
            beside::forget(directory);
        }
        let found = store.store().tenant(&tenant).await?;
        if found.is_none() {
            store.close().await;
            let sentence = format!("there is no tenant `{tenant}`");
            return Err(Failure::new(Exit::NotFound, "not_found", sentence)
                .hint(format!("make it with `sederunt tenants create {tenant}`")));
        }
        let actor = Box::new(Operator::owner_of(tenant, SourceKind::Cli));
        Ok(Self::Store { store, actor, config: Box::new(config.clone()) })
    }

    /// Does what was asked, and says what the interface would say. A session or an approval may be
    /// named by the beginning of its id.
    pub async fn ask(&self, ask: Ask) -> Result<Value> {
        let Some((noun, name)) = ask.subject().map(|(noun, name)| (noun, name.to_owned())) else {
            return self.ask_as_written(ask).await;
        };
        let failure = match self.ask_as_written(ask.clone()).await {
            Err(failure) if failure.exit() == Exit::NotFound => failure.naming(noun, &name),
            answer => return answer,
        };
        match self.completed(noun, &name).await? {
            Some(whole) => self.ask_as_written(ask.about(whole)).await,
            None => Err(failure),
        }
    }

    /// The whole id of the one session or approval whose id begins like this.
    async fn completed(&self, noun: &str, begun: &str) -> Result<Option<String>> {
        if begun.chars().count() < SHORT_ID_CHARS_MIN || !matches!(noun, "session" | "approval") {
            return Ok(None);
        }
        let mut found: Vec<String> = Vec::new();
        let mut cursor = None;
        for _ in 0..SHORT_ID_PAGES_MAX {
            let limit = ROWS;
            let ask = match noun {
                "session" => {
                    Ask::Sessions(SessionFilter { all: true, limit, cursor, ..SessionFilter::default() })
                }
                _ => Ask::Approvals { state: None, limit, cursor },
            };
            let page = self.ask_as_written(ask).await?;
            let ids = page["items"].as_array().into_iter().flatten().filter_map(|row| row["id"].as_str());
            found.extend(ids.filter(|id| id.starts_with(begun)).map(str::to_owned));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() || found.len() > 1 {
                break;
            }
        }
        match found.as_slice() {
            [] => Ok(None),
            [whole] => Ok(Some(whole.clone())),
            [first, second, ..] => Err(Failure::usage(format!(
                "`{begun}` begins several ids, among them {first} and {second}; write more of it"
            ))),
        }
    }

    async fn ask_as_written(&self, ask: Ask) -> Result<Value> {
        match self {
            Self::Store { store, actor, config } => store::answer(store, actor, config, ask).await,
            Self::Server(client) => server::answer(client, ask).await,
        }
    }

    /// Lets go of the store.
    pub async fn close(self) {
        match self {
            Self::Store { store, .. } => store.close().await,
            Self::Server(_) => {}
        }
    }
}

fn check_there(directory: &Path, missing: Missing) -> Result<()> {
    if missing == Missing::Make || directory.join("threads.sqlite3").exists() {
        return Ok(());
    }
    let sentence = format!("there is no store in {}", directory.display());
    Err(Failure::new(Exit::NotFound, "not_found", sentence)
        .hint("name one with --store, or start one with `sederunt serve`"))
}
