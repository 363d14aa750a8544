//! The loop of a chat: reads a line, carries it out, and so on until the person leaves.

use std::future::Future;
use std::io::BufRead;

use sederunt_api::client::Error;
use tokio::signal::unix::Signal;

use super::client::ChatClient;
use super::commands::{self, Afterwards, BadLine, ChatCommand, ChatLine, Tier, Verbosity};
use super::editor::{Editor, Threads};
use super::endings::Typed;
use super::memory::Lists;
use super::render::{self, Paint};
use crate::exit::{Exit, Failure, Result};
use crate::output::{Out, note};

/// Where lines come from.
#[derive(Debug)]
pub enum Front {
    Terminal(Editor),
    /// A program, which is never asked a question.
    Pipe,
}

/// What happens after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Stay,
    Leave,
}

/// A chat that is going on.
#[derive(Debug)]
pub struct Repl {
    pub talk: ChatClient,
    pub thread: String,
    pub tier: Tier,
    pub verbosity: Verbosity,
    pub traces: bool,
    pub front: Front,
    pub out: Out,
    pub paint: Paint,
    pub interrupts: Signal,
    /// Names for completion.
    pub threads: Threads,
    /// The lists that positions refer to.
    pub shown: Lists,
    /// The open feedback session on this conversation.
    pub feedback: Option<String>,
    /// The flags that lead another command to the same store or server, and tenant.
    pub flags: String,
}

const PROMPT: &str = "› ";

impl Repl {
    pub async fn run(&mut self) -> Result<()> {
        self.greet()?;
        loop {
            let next = match self.line().await? {
                Typed::Line(line) => self.take(&line).await,
                Typed::Interrupted => {
                    self.aside("/exit leaves, /help says what else there is").map(|()| Next::Stay)
                }
                Typed::End if self.is_terminal() => self.exit().await,
                Typed::End => return Ok(()),
            };
            match next {
                Ok(Next::Stay) => {}
                Ok(Next::Leave) => return Ok(()),
                Err(failure @ Failure::Because { .. }) if self.is_terminal() => note(failure.to_string()),
                Err(failure) => return Err(failure),
            }
        }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self.front, Front::Terminal(_))
    }

    async fn line(&mut self) -> Result<Typed> {
        match &self.front {
            Front::Terminal(editor) => editor.line(self.paint.prompt(PROMPT)).await,
            Front::Pipe => tokio::select! {
                line = piped_line() => line,
                _ = self.interrupts.recv() => Err(interrupted()),
            },
        }
    }

    /// Asks a person. A program is not asked.
    pub async fn ask(&self, question: &str) -> Result<Typed> {
        match &self.front {
            Front::Terminal(editor) => editor.answer(self.paint.question(question)).await,
            Front::Pipe => Ok(Typed::End),
        }
    }

    /// Shows secondary text, to people only.
    pub fn aside(&self, text: &str) -> Result<()> {
        if self.is_terminal() { self.out.line(self.paint.dim(text)) } else { Ok(()) }
    }

    fn greet(&self) -> Result<()> {
        let kept = if self.talk.is_incognito() { "; nothing of it is kept" } else { "" };
        self.aside(&format!(
            "Conversation {}{kept}. /help shows the commands, /end closes the sitting.",
            self.thread
        ))
    }

    async fn take(&mut self, line: &str) -> Result<Next> {
        match commands::read(line) {
            ChatLine::Nothing => {}
            ChatLine::Message(message) => self.say(&message).await?,
            ChatLine::Command(command) => return self.obey(command).await,
            ChatLine::Misread(BadLine::Unknown { word, nearest }) => {
                let sentence = format!("there is no command /{}", crate::output::visible(&word));
                let failure = Failure::usage(sentence);
                return Err(match nearest {
                    Some(nearest) => failure.hint(format!("did you mean /{nearest}?")),
                    None => failure.hint("/help shows all of them"),
                });
            }
            ChatLine::Misread(BadLine::Usage(entry)) => {
                if !self.is_terminal() {
                    return Err(Failure::usage(format!("usage: {}", entry.usage)));
                }
                note(format!("Usage: {}", entry.usage));
            }
        }
        Ok(Next::Stay)
    }

    async fn obey(&mut self, command: ChatCommand) -> Result<Next> {
        match command {
            ChatCommand::Help => self.help()?,
            ChatCommand::Keys => self.keys()?,
            ChatCommand::Status => self.status().await?,
            ChatCommand::Doctor => self.doctor().await?,
            ChatCommand::History(n) => self.history(n).await?,
            ChatCommand::Context => self.context().await?,
            ChatCommand::Summary(length) => self.summary(length).await?,
            ChatCommand::Search { scope, text } => self.search(scope, &text).await?,
            ChatCommand::Export { format, all, file } => self.export(format, all, file.as_deref()).await?,
            ChatCommand::Memory(command) => self.memory(command).await?,
            ChatCommand::Feedback(command) => self.feedback(command).await?,
            ChatCommand::Threads(n) => self.list_threads(n).await?,
            ChatCommand::Resume(thread) => self.resume(thread).await?,
            ChatCommand::New(thread) => self.go_on_in(thread)?,
            ChatCommand::Clear if self.is_terminal() => render::clear(&self.out)?,
            ChatCommand::Clear => {}
            ChatCommand::Mode => self.mode()?,
            ChatCommand::Tier(tier) => {
                self.tier = tier.unwrap_or(self.tier);
                self.aside(match self.tier {
                    Tier::Fast => "The fast model answers.",
                    Tier::Quality => {
                        "The quality model answers; a server without one answers with the model that it has."
                    }
                })?;
            }
            ChatCommand::Verbosity(verbosity) => {
                self.verbosity = verbosity.unwrap_or(self.verbosity);
                self.aside(&format!("Verbosity is {}.", self.verbosity.as_str()))?;
            }
            ChatCommand::Trace(traces) => {
                self.traces = traces.unwrap_or(self.traces);
                self.aside(if self.traces { "Replies are traced." } else { "Replies are not traced." })?;
            }
            ChatCommand::DebugState => self.debug_state().await?,
            ChatCommand::End(afterwards) => return self.end(afterwards).await,
            ChatCommand::Exit => return self.exit().await,
        }
        Ok(Next::Stay)
    }

    /// Goes on in a new conversation; the one before stays as it is.
    pub fn go_on_in(&mut self, thread: Option<String>) -> Result<()> {
        self.switch(thread.unwrap_or_else(super::drawn_thread));
        self.aside(&format!("This is conversation {}.", self.thread))
    }

    pub fn switch(&mut self, thread: String) {
        self.thread = thread;
        self.shown = Lists::default();
        self.feedback = None;
    }

    async fn end(&mut self, afterwards: Afterwards) -> Result<Next> {
        self.end_sitting().await?;
        match afterwards {
            Afterwards::Leave => self.farewell().map(|()| Next::Leave),
            Afterwards::New(thread) => self.go_on_in(thread).map(|()| Next::Stay),
        }
    }
}

/// Waits for an answer, until the person presses Ctrl-C.
pub async fn patiently<T>(
    interrupts: &mut Signal,
    work: impl Future<Output = std::result::Result<T, Error>>,
) -> Result<T> {
    forget_interrupts(interrupts).await;
    tokio::select! {
        done = work => Ok(done?),
        _ = interrupts.recv() => Err(interrupted()),
    }
}

pub fn interrupted() -> Failure {
    Failure::new(Exit::Error, "interrupted", "interrupted")
}

/// Drops a Ctrl-C that was pressed before there was anything to interrupt.
pub async fn forget_interrupts(interrupts: &mut Signal) {
    let _ = tokio::time::timeout(std::time::Duration::ZERO, interrupts.recv()).await;
}

/// The next line of a program. A line that ends with a backslash continues.
async fn piped_line() -> Result<Typed> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let mut stdin = std::io::stdin().lock();
        while stdin.read_line(&mut line)? > 0 && line.ends_with("\\\n") {}
        Ok(if line.is_empty() { Typed::End } else { Typed::Line(line) })
    });
    let failed = |error: std::io::Error| Failure::usage(format!("cannot read what was piped in: {error}"));
    match read.await {
        Ok(read) => read.map_err(failed),
        Err(_) => Ok(Typed::End),
    }
}
