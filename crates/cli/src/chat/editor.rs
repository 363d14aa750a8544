//! The line editor at a terminal: several lines, completion, history. It blocks, so it runs on a thread of its own
//! and is asked for one line at a time.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use rustyline::completion::Completer;
use rustyline::config::BellStyle;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Cmd, CompletionType, Config, Context, Helper, KeyCode, KeyEvent, Modifiers};
use tokio::sync::oneshot;

use super::complete;
use super::endings::Typed;
use super::history::{self, History};
use crate::exit::{Exit, Failure, Result};

/// The names of conversations for completion.
pub type Threads = Arc<Mutex<Vec<String>>>;

/// The channel to the editing thread.
#[derive(Debug)]
pub struct Editor {
    ask: mpsc::Sender<Question>,
}

#[derive(Debug)]
struct Question {
    /// Without and with colour.
    prompt: (String, String),
    /// Whether it is a line of the chat; the answer to a question is not kept in the history.
    chats: bool,
    answer: oneshot::Sender<Result<Typed>>,
}

impl Editor {
    pub fn start(threads: Threads, history: Option<History>) -> Result<Self> {
        let (ask, asked) = mpsc::channel();
        let name = std::thread::Builder::new().name("editor".to_owned());
        name.spawn(move || edit(&asked, threads, history))
            .map_err(|error| Failure::io("cannot start the line editor", &error))?;
        Ok(Self { ask })
    }

    /// The next line of the chat.
    pub async fn line(&self, prompt: (String, String)) -> Result<Typed> {
        self.read(prompt, true).await
    }

    /// The answer to a question.
    pub async fn answer(&self, question: (String, String)) -> Result<Typed> {
        self.read(question, false).await
    }

    async fn read(&self, prompt: (String, String), chats: bool) -> Result<Typed> {
        let (answer, answered) = oneshot::channel();
        // If the thread has ended, it drops the question, and the receiver below fails.
        let _ = self.ask.send(Question { prompt, chats, answer });
        answered.await.unwrap_or_else(|_| Err(Failure::new(Exit::Error, "io", "the terminal is gone")))
    }
}

type Lines = rustyline::Editor<Guide, MemHistory>;

fn edit(asked: &mpsc::Receiver<Question>, threads: Threads, history: Option<History>) {
    let Ok(mut lines) = lines(threads) else { return };
    for line in history.iter().flat_map(History::lines) {
        let _ = lines.add_history_entry(line);
    }
    while let Ok(Question { prompt, chats, answer }) = asked.recv() {
        if let Some(guide) = lines.helper_mut() {
            guide.chats = chats;
        }
        let typed = match lines.readline(&prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => {
                Err(Failure::new(Exit::Error, "io", format!("cannot read from the terminal: {error}")))
            }
        };
        if let (true, Ok(Typed::Line(line))) = (chats && !is_blank(&typed), &typed) {
            let _ = lines.add_history_entry(line.as_str());
            if let Some(history) = &history {
                // The chat goes on if its history cannot be written.
                let _ = history.add(line);
            }
        }
        let _ = answer.send(typed);
    }
}

fn is_blank(typed: &Result<Typed>) -> bool {
    matches!(typed, Ok(Typed::Line(line)) if line.trim().is_empty())
}

fn lines(threads: Threads) -> rustyline::Result<Lines> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .bell_style(BellStyle::None)
        .max_history_size(history::LINES_MAX)?
        .build();
    let past = MemHistory::with_config(&config);
    let mut lines = Lines::with_history(config, past)?;
    lines.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    lines.set_helper(Some(Guide { chats: true, threads }));
    Ok(lines)
}

/// Completion and validation of a line while it is typed.
struct Guide {
    chats: bool,
    threads: Threads,
}

impl Completer for Guide {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        if !self.chats {
            return Ok((cursor, Vec::new()));
        }
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(complete::candidates(line, cursor, &threads))
    }
}

impl Validator for Guide {
    /// A line that ends with a backslash goes on.
    fn validate(&self, line: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = self.chats && line.input().ends_with('\\');
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Hinter for Guide {
    type Hint = String;
}

impl Highlighter for Guide {}

impl Helper for Guide {}
