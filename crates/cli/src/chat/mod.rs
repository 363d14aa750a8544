//! `chat`: a conversation in the terminal. It speaks only to a server, as every other client does; without one,
//! `host` starts one for as long as the chat lasts.

mod client;
pub mod commands;
mod complete;
mod confirm;
mod editor;
mod endings;
mod feedback;
mod history;
mod leave;
mod look;
mod memory;
mod render;
mod repl;
mod turn;

use std::io::IsTerminal;

use sederunt_core::UserId;
use sederunt_server::client::Client;
use tokio::signal::unix::{SignalKind, signal};

use self::client::Talk;
use self::commands::Verbosity;
use self::editor::{Editor, Threads};
use self::history::History;
use self::leave::shell_word;
use self::memory::Lists;
use self::render::Paint;
use self::repl::{Front, Repl};
use crate::args::{Chat, Global};
use crate::commands::Scene;
use crate::exit::{Failure, Result};
use crate::host::{Host, Lasts, Wish};
use crate::output::Out;

pub async fn run(scene: &Scene, wish: Chat) -> Result<()> {
    let is_terminal =
        !scene.out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if let Some(user) = &wish.user_id {
        UserId::parse(user).map_err(|error| Failure::usage(format!("--user-id: {error}")))?;
    }
    // A program's next call goes on with the sitting that this one leaves open.
    let lasts = if is_terminal { Lasts::Here } else { Lasts::Beyond };
    let host = Host::find(scene, Wish { door: &wish.door, incognito: wish.incognito, lasts }).await?;
    let gone = hung_up()?;
    let again = command_again(&scene.global, &wish);
    let done = tokio::select! {
        done = talk(host.client.clone(), scene.out, wish, again, is_terminal) => done,
        () = gone => Err(repl::interrupted()),
    };
    host.close().await;
    done
}

/// Waits until the terminal is closed or the process is told to end: the conversation is left as when its server
/// shuts down.
fn hung_up() -> Result<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).map_err(|error| Failure::io("cannot listen for signals", &error));
    let (mut hang_up, mut terminate) = (listen(SignalKind::hangup())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = hang_up.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Talks until the person leaves.
async fn talk(client: Client, out: Out, wish: Chat, again: String, is_terminal: bool) -> Result<()> {
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
        talk: Talk::new(client, wish.user_id, wish.incognito),
        thread: wish.thread_id.unwrap_or_else(drawn_thread),
        tier: wish.tier,
        verbosity: Verbosity::default(),
        traces: false,
        front,
        out,
        paint: Paint { colour },
        interrupts,
        threads,
        shown: Lists::default(),
        feedback: None,
        again,
    };
    repl.run().await
}

/// The command that continues here: with the flags for the server and the user.
fn command_again(global: &Global, wish: &Chat) -> String {
    let mut line = "sederunt chat".to_owned();
    let key_file = global.key_file.as_ref().map(|file| file.display().to_string());
    let config = global.config.as_ref().map(|file| file.display().to_string());
    let tenant = (global.tenant != "default").then(|| global.tenant.clone());
    for (flag, value) in [
        ("--store", &global.store),
        ("--server", &global.server),
        ("--key-file", &key_file),
        ("--config", &config),
        ("--tenant", &tenant),
        ("--user-id", &wish.user_id),
    ] {
        if let Some(value) = value {
            line.push_str(&format!(" {flag} {}", shell_word(value)));
        }
    }
    line
}

/// A random name for a new conversation.
fn drawn_thread() -> String {
    format!("local-{}", sederunt_core::ids::random_hex::<6>())
}
