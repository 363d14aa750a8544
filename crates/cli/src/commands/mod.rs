//! Carries out a parsed command line: one file per noun.

mod audit;
mod bundle;
mod claims;
mod config;
mod documents;
pub mod feedback;
mod human;
mod inbox;
mod keys;
pub mod lessons;
mod library;
pub mod memory;
mod purge;
mod responses;
mod safety;
pub(crate) mod sessions;
mod shares;
mod store;
mod tasks;
mod tenants;
mod tools;
mod users;
mod work;

use std::io::Read;

use clap::CommandFactory;
use sederunt::Json;
use serde_json::{Value, json};

use crate::api::{ApiClient, Missing, Request};
use crate::args::{Cli, Command, GlobalArgs};
use crate::config::{Config, Layers, Shown};
use crate::exit::{Failure, Result};
use crate::output::{Column, Out, note, plain};
use crate::{chat, doctor, mcp, serve};

/// What every command is given.
#[derive(Debug)]
pub struct CommandContext {
    pub config: Config,
    pub shown: Vec<Shown>,
    pub global: GlobalArgs,
    pub out: Out,
}

impl CommandContext {
    /// The client of the API.
    async fn api(&self, missing: Missing) -> Result<ApiClient> {
        ApiClient::find(&self.config, &self.global, missing).await
    }

    /// Sends one request.
    async fn send(&self, missing: Missing, request: Request) -> Result<Value> {
        let api = self.api(missing).await?;
        let answer = api.send(request).await;
        api.close().await;
        answer
    }

    /// Shows one page: a table for people, the page itself for programs.
    fn page(&self, page: &Value, columns: &[Column]) -> Result<()> {
        if self.out.is_json() {
            return self.out.value(page);
        }
        self.out.list(page["items"].as_array().map_or(&[], Vec::as_slice), columns)?;
        if let Some(cursor) = page["next_cursor"].as_str() {
            note(format!("There are more: go on with --cursor {cursor}"));
        }
        Ok(())
    }

    /// Shows a definition, and prints the warnings of the answer; with `--json` they are in the answer.
    fn defined(&self, thing: &Value, fields: &[Column]) -> Result<()> {
        self.out.thing(thing, fields)?;
        if !self.out.is_json() {
            warn(thing);
        }
        Ok(())
    }

    /// Confirms an action that has no answer of its own.
    fn done(&self, id: &str, what: &str) -> Result<()> {
        if self.out.is_json() {
            return self.out.value(&json!({ "id": id, what: true }));
        }
        self.out.line(format!("{what} {id}"))
    }
}

/// A body of the given fields, each unchanged.
fn object<const N: usize>(fields: [(&str, Option<Json>); N]) -> Json {
    Json::object(fields.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))))
}

/// Prints the warnings of an answer.
fn warn(answer: &Value) {
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        note(format!("warning: {}", plain(warning)));
    }
}

/// JSON that was given on the command line.
fn json_of(flag: &str, text: &str) -> Result<Json> {
    Json::parse(text.as_bytes()).map_err(|error| Failure::from(error).hint(format!("{flag} takes JSON")))
}

/// JSON from a file, or from stdin where the file is `-`.
fn json_in(file: &str) -> Result<Json> {
    let read = if file == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let bytes = read.map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
    Json::parse(&bytes).map_err(|error| Failure::from(error).hint(format!("{file} must hold JSON")))
}

pub async fn run(cli: Cli) -> Result<()> {
    let out = Out::new(cli.global.json);
    match &cli.command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "sederunt", &mut script);
            return out.raw(&script);
        }
        Command::Openapi => return out.raw(sederunt_server::openapi().as_bytes()),
        _ => {}
    }
    let flags = cli.flags();
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let (config, shown) = Layers::new(cli.global.config.as_deref(), environment, flags)?.read()?;
    let context = CommandContext { config, shown, global: cli.global, out };
    match cli.command {
        Command::Serve(wish) => serve::run(&context, wish.demo).await,
        Command::Chat(wish) => chat::run(&context, wish).await,
        Command::Mcp(connect_args) => mcp::run(context, connect_args).await,
        Command::Sessions(command) => sessions::run(&context, command).await,
        Command::Tasks(command) => tasks::run(&context, command).await,
        Command::Agents(command) => library::agents(&context, command).await,
        Command::Entities(command) => library::entities(&context, command).await,
        Command::Criteria(command) => library::criteria(&context, command).await,
        Command::Views(command) => library::views(&context, command).await,
        Command::Tools(command) => tools::run(&context, command).await,
        Command::Responses(command) => responses::run(&context, command).await,
        Command::Documents(command) => documents::run(&context, command).await,
        Command::Bundle(command) => bundle::run(&context, command).await,
        Command::Inbox(wish) => inbox::run(&context, wish).await,
        Command::Approve(wish) => inbox::approve(&context, wish).await,
        Command::Deny(wish) => inbox::deny(&context, wish).await,
        Command::Work { command } => work::run(&context, command).await,
        Command::Human(command) => human::run(&context, command).await,
        Command::Claims(command) => claims::run(&context, command).await,
        Command::Feedback(command) => feedback::run(&context, command).await,
        Command::Lessons(command) => lessons::run(&context, command).await,
        Command::Keys(command) => keys::run(&context, command).await,
        Command::Shares(command) => shares::run(&context, command).await,
        Command::Users(command) => users::run(&context, command).await,
        Command::Tenants(command) => tenants::run(&context, command).await,
        Command::Audit(wish) => audit::run(&context, wish).await,
        Command::Purge(wish) => purge::run(&context, wish).await,
        Command::Memory(command) => memory::run(&context, command).await,
        Command::Safety(command) => safety::run(&context, command).await,
        Command::Migrate(_) => store::migrate(&context).await,
        Command::Backup { to } => store::backup(&context, &to).await,
        Command::Restore { from } => store::restore(&context, &from).await,
        Command::Copy(wish) => store::copy(&context, &wish).await,
        Command::Doctor => doctor::run(&context).await,
        Command::Config(_) => config::show(&context),
        Command::Openapi | Command::Completions { .. } => Ok(()),
    }
}
