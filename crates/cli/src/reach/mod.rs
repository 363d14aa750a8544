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

    /// Does what was asked, and says what the interface would say.
    pub async fn ask(&self, ask: Ask) -> Result<Value> {
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
