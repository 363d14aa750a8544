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
mod inspect;
mod leave;
mod memory;
mod render;
mod repl;
mod turn;

use std::io::IsTerminal;

use sederunt_api::client::Client;
use sederunt_core::UserId;
use tokio::signal::unix::{SignalKind, signal};

use self::client::ChatClient;
use self::commands::Verbosity;
use self::editor::{Editor, Threads};
use self::history::History;
use self::leave::shell_word;
use self::memory::Lists;
use self::render::Paint;
use self::repl::{Front, Repl};
use crate::args::{ChatArgs, GlobalArgs};
use crate::commands::CommandContext;
use crate::exit::{Exit, Failure, Result};
use crate::host::{Host, ServerNeed, SittingsLast};
use crate::output::Out;

pub async fn run(context: &CommandContext, wish: ChatArgs) -> Result<()> {
    let is_terminal =
        !context.out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if let Some(user) = &wish.user_id {
        UserId::parse(user)
            .map_err(|error| Failure::usage(error.to_string().replace("`user_id`", "`--user-id`")))?;
    }
    // A program's next call goes on with the sitting that this one leaves open.
    let lasts = if is_terminal { SittingsLast::Here } else { SittingsLast::Beyond };
    let host = Host::find(
        context,
        ServerNeed { connect_args: &wish.connect_args, incognito: wish.incognito, lasts },
    )
    .await?;
    let gone = hung_up()?;
    let flags = flags_again(&context.global);
    let kept = if wish.incognito { "" } else { "; the conversation is kept" };
    let done = tokio::select! {
        done = talk(host.client.clone(), context.out, wish, flags, is_terminal) => done,
        () = gone => Err(Failure::new(Exit::Error, "interrupted", format!("a signal ended this chat{kept}"))),
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
async fn talk(client: Client, out: Out, wish: ChatArgs, flags: String, is_terminal: bool) -> Result<()> {
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
        talk: ChatClient::new(client, wish.user_id, wish.incognito),
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
        flags,
    };
    repl.run().await
}

/// The flags that lead another command to the same store or server, and tenant.
fn flags_again(global: &GlobalArgs) -> String {
    let key_file = global.key_file.as_ref().map(|file| file.display().to_string());
    let config = global.config.as_ref().map(|file| file.display().to_string());
    let tenant = (global.tenant != "default").then(|| global.tenant.clone());
    [
        ("--store", &global.store),
        ("--server", &global.server),
        ("--key-file", &key_file),
        ("--config", &config),
        ("--tenant", &tenant),
    ]
    .into_iter()
    .filter_map(|(flag, value)| value.as_ref().map(|value| format!(" {flag} {}", shell_word(value))))
    .collect()
}

/// A random name for a new conversation.
fn drawn_thread() -> String {
    format!("local-{}", sederunt_core::ids::random_hex::<6>())
}
