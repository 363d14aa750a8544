//! Leaving a chat: the sitting is rated if the person likes, summed up or discarded, and the person gets a goodbye in
//! any case.

use serde_json::Value;

use super::client::{EndRequest, Source};
use super::endings::{self, Label, Leaving, Read, Typed};
use super::render::{Waiting, width, wrapped};
use super::repl::{Next, Repl, patiently};
use crate::exit::{Failure, Result};
use crate::output::{note, plain, visible};

impl Repl {
    /// `/end`: rating, summary.
    pub async fn end_sitting(&mut self) -> Result<()> {
        if !self.is_sitting().await {
            return self.aside("There is no open sitting to end.");
        }
        let rating = self.rating().await?;
        self.close(EndRequest::Keep { rating, source: Source::End }).await
    }

    /// `/exit`: is it kept? Then as `/end`.
    pub async fn exit(&mut self) -> Result<Next> {
        if !self.is_terminal() {
            // A program that stops talking leaves the sitting open.
            return Ok(Next::Leave);
        }
        if self.is_sitting().await {
            let leaving = if self.talk.is_incognito() { Leaving::Discard } else { self.leaving().await? };
            let source = Source::Exit;
            let end = match leaving {
                Leaving::Back => return Ok(Next::Stay),
                Leaving::Discard => EndRequest::Discard { source },
                Leaving::Keep => EndRequest::Keep { rating: self.rating().await?, source },
            };
            self.close(end).await?;
        }
        self.farewell().map(|()| Next::Leave)
    }

    pub fn farewell(&self) -> Result<()> {
        if self.talk.is_incognito() {
            return self.aside("Goodbye. Nothing of this was kept.");
        }
        let user = self.talk.user().map(|user| format!(" --user-id {}", shell_word(user)));
        self.aside(&format!(
            "Goodbye. To go on from here: sederunt chat{}{} --thread-id {}",
            self.flags,
            user.unwrap_or_default(),
            shell_word(&self.thread)
        ))
    }

    /// Whether there is a sitting to end. If the server cannot say, the person is asked.
    async fn is_sitting(&mut self) -> bool {
        patiently(&mut self.interrupts, self.talk.is_sitting(&self.thread)).await.unwrap_or(true)
    }

    async fn rating(&self) -> Result<Option<Label>> {
        let mut question = "Did this help you? [y/n/s, Enter for no answer] ";
        for _ in 0..2 {
            match endings::rating(&self.ask(question).await?) {
                Read::As(label) => return Ok(label),
                Read::Unclear => question = "y for yes, n for no, s to skip, Enter for no answer [y/n/s] ",
            }
        }
        Ok(None)
    }

    async fn leaving(&self) -> Result<Leaving> {
        let mut question = "Keep a summary of this sitting? [Y/n] ";
        for _ in 0..2 {
            match endings::leaving(&self.ask(question).await?) {
                Read::As(leaving) => return Ok(leaving),
                Read::Unclear => question = "y keeps it, n discards it, Ctrl-C goes back [Y/n] ",
            }
        }
        Ok(Leaving::Back)
    }

    /// Ends the sitting. A failure is shown, and does not keep the person from leaving.
    async fn close(&mut self, end: EndRequest) -> Result<()> {
        let waiting = Waiting::start(self.is_terminal(), "ending the sitting");
        let ended = patiently(&mut self.interrupts, self.talk.end(&self.thread, end)).await;
        drop(waiting);
        match ended {
            // The farewell says that nothing was kept.
            Ok(_) if self.talk.is_incognito() => Ok(()),
            Ok(_) if matches!(end, EndRequest::Discard { .. }) => {
                self.aside("No summary was kept. The conversation stays; delete it with:")?;
                self.aside(&format!("  sederunt sessions rm{} {}", self.flags, shell_word(&self.thread)))
            }
            Ok(answer) if self.out.is_json() => self.out.value(&answer),
            Ok(answer) => self.show_end(&answer),
            Err(failure @ (Failure::Closed | Failure::Said(_))) => Err(failure),
            Err(failure) => {
                note(failure.to_string());
                self.aside("The sitting could not be summed up now. It stays open, and is tried again later.")
            }
        }
    }

    fn show_end(&self, answer: &Value) -> Result<()> {
        let text = |field: &str| plain(&answer[field]);
        if text("summary").is_empty() {
            let detail = text("detail");
            return self.aside(&visible(if answer["finalized"] == true {
                "It was too short to sum up."
            } else if detail.is_empty() {
                "There was nothing to sum up."
            } else {
                &detail
            }));
        }
        if !text("summary").is_empty() {
            self.out.raw(wrapped(&text("summary"), width(), "  ").as_bytes())?;
        }
        for (title, fields) in [
            ("Themes", vec![text("themes")]),
            ("Mood", vec![text("mood_opened"), text("mood_closed")]),
            ("Still open", vec![text("open_loops")]),
            ("Settled", vec![text("resolved_threads")]),
        ] {
            let said: Vec<String> = fields.into_iter().filter(|field| !field.is_empty()).collect();
            if !said.is_empty() {
                let line = format!("{title}: {}", said.join(" → "));
                self.out.raw(self.paint.dim(&wrapped(&line, width(), "  ")).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// A text quoted as one word for a shell.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Whether a person really wants to delete one thing.
pub async fn is_sure(repl: &Repl, question: &str) -> Result<bool> {
    Ok(endings::is_yes(&repl.ask(question).await?))
}

/// Whether a person really wants to delete many things: they have to write this word.
pub async fn writes(repl: &Repl, question: &str, word: &str) -> Result<bool> {
    let typed: Typed = repl.ask(question).await?;
    Ok(endings::is_word(&typed, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_only_where_a_shell_would_split_it() {
        for (text, word) in [
            ("local-12ab", "local-12ab"),
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("my store", "'my store'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
