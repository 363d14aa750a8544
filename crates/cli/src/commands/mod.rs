//! From a parsed command line to what it does: one file per noun.

mod claims;
mod config;
mod keys;
mod sessions;
mod store;
mod tenants;
mod users;

use clap::CommandFactory;
use serde_json::json;

use crate::args::{Cli, Command, Global};
use crate::config::{Config, Layers, Shown};
use crate::exit::Result;
use crate::output::Out;
use crate::reach::{Ask, Missing, Reach};
use crate::{doctor, serve};

/// What every command is given.
#[derive(Debug)]
pub struct Scene {
    pub config: Config,
    pub shown: Vec<Shown>,
    pub global: Global,
    pub out: Out,
}

impl Scene {
    /// Asks one thing, by whichever way there is.
    async fn ask(&self, missing: Missing, ask: Ask) -> Result<serde_json::Value> {
        let reach = Reach::find(&self.config, &self.global, missing).await?;
        let answer = reach.ask(ask).await;
        reach.close().await;
        answer
    }

    /// Says that something was done that has no answer of its own.
    fn done(&self, id: &str, what: &str) -> Result<()> {
        if self.out.is_json() {
            return self.out.value(&json!({ "id": id, what: true }));
        }
        self.out.line(format!("{what} {id}"))
    }
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
    let scene = Scene { config, shown, global: cli.global, out };
    match cli.command {
        Command::Serve(wish) => serve::run(&scene, wish.demo).await,
        Command::Sessions(command) => sessions::run(&scene, command).await,
        Command::Claims(command) => claims::run(&scene, command).await,
        Command::Keys(command) => keys::run(&scene, command).await,
        Command::Users(command) => users::run(&scene, command).await,
        Command::Tenants(command) => tenants::run(&scene, command).await,
        Command::Migrate => store::migrate(&scene).await,
        Command::Backup { to } => store::backup(&scene, &to).await,
        Command::Restore { from } => store::restore(&scene, &from).await,
        Command::Copy(wish) => store::copy(&scene, &wish).await,
        Command::Doctor => doctor::run(&scene).await,
        Command::Config(_) => config::show(&scene),
        Command::Openapi | Command::Completions { .. } => Ok(()),
    }
}
