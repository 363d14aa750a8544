//! `chat`: a conversation in the terminal. It speaks to a server and to nothing else, as every other client does;
//! where there is none, `host` starts one for as long as the chat lasts.

mod client;
pub mod commands;
mod complete;
mod editor;
mod endings;
mod history;
mod leave;
mod look;
mod memory;
mod render;
mod repl;
mod turn;

use std::io::IsTerminal;

use sederunt_server::client::Client;
use tokio::signal::unix::{SignalKind, signal};

use self::client::Talk;
use self::commands::{Tier, Verbosity};
use self::editor::{Editor, Threads};
use self::history::History;
use self::memory::Lists;
use self::render::Paint;
use self::repl::{Front, Repl};
use crate::exit::{Failure, Result};
use crate::output::Out;

/// How somebody wants to talk.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    pub thread: Option<String>,
    pub user: Option<String>,
    pub incognito: bool,
    pub tier: Tier,
    pub no_color: bool,
}

/// Talks until somebody leaves.
pub async fn talk(client: Client, wish: Wish, json: bool) -> Result<()> {
    let out = Out::new(json);
    let is_terminal = !json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let interrupts = signal(SignalKind::interrupt());
    let interrupts = interrupts.map_err(|error| Failure::io("cannot listen for Ctrl-C", &error))?;
    let threads = Threads::default();
    let variable = |name: &str| std::env::var(name).ok();
    let front = if is_terminal {
        let place = if wish.incognito { None } else { History::place(variable) };
        Front::Terminal(Editor::start(threads.clone(), place.map(History::at))?)
    } else {
        Front::Pipe
    };
    let colour = is_terminal && !wish.no_color && variable("NO_COLOR").is_none_or(|wish| wish.is_empty());
    let mut repl = Repl {
        talk: Talk::new(client, wish.user, wish.incognito),
        thread: wish.thread.unwrap_or_else(drawn_thread),
        tier: wish.tier,
        verbosity: Verbosity::default(),
        traces: false,
        front,
        out,
        paint: Paint { colour },
        interrupts,
        threads,
        shown: Lists::default(),
    };
    repl.run().await
}

/// The name of a conversation that was given none. It follows from nothing.
fn drawn_thread() -> String {
    format!("local-{}", sederunt_core::ids::random_hex::<6>())
}
