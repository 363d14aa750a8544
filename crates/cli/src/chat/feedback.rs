//! `/feedback`: a thumb with words about this conversation, and further messages while its feedback session is open.
//!
//! It is unrelated to the rating at the end: that is a label without words, this is words to learn from.

use serde_json::Value;

use super::commands::{FeedbackRequest, Signal};
use super::endings::Typed;
use super::repl::{Repl, patiently};
use crate::commands::feedback::refusal;
use crate::commands::lessons;
use crate::exit::{Exit, Failure, Result};
use crate::output::{note, plain, visible};

impl Repl {
    pub async fn feedback(&mut self, command: FeedbackRequest) -> Result<()> {
        if self.talk.is_incognito() {
            let sentence = "feedback becomes a lesson that is kept, and nothing of this conversation is kept";
            return Err(Failure::new(Exit::Refused, "incognito", sentence));
        }
        match command {
            FeedbackRequest::Give(signal, words) => self.give_feedback(signal, words.as_deref()).await,
            FeedbackRequest::More(words) => self.add_feedback(&words).await,
        }
    }

    async fn give_feedback(&mut self, signal: Signal, words: Option<&str>) -> Result<()> {
        match patiently(&mut self.interrupts, self.talk.session(&self.thread)).await {
            Err(failure) if failure.exit() == Exit::NotFound => {
                return Err(Failure::usage("nothing was said in this conversation yet"));
            }
            found => found?,
        };
        let sending = self.talk.give_feedback(&self.thread, signal, words);
        let given = patiently(&mut self.interrupts, sending).await?;
        self.heard(&given)?;
        if given["status"] == "clarification_required" {
            return self.clarify(signal, &given).await;
        }
        for known in given["suggestions"].as_array().into_iter().flatten() {
            self.aside(&format!("Known already: {}", visible(&lessons::line(known))))?;
        }
        self.fresh(&given["feedback_session"])
    }

    /// Asks once for the missing words. Without an answer nothing more is sent; the thumb is kept.
    async fn clarify(&mut self, signal: Signal, given: &Value) -> Result<()> {
        let prompt = visible(&plain(&given["prompt"]));
        if !self.is_terminal() {
            note(prompt);
            return Ok(());
        }
        self.aside(&format!("For example: {}", visible(&plain(&given["example"]))))?;
        let words = match self.ask(&format!("{prompt} [Enter for no answer] ")).await? {
            Typed::Line(line) if !line.trim().is_empty() => line.trim().to_owned(),
            _ => return self.aside("The thumb is kept without words."),
        };
        let event = plain(&given["feedback_event_id"]);
        let opened = patiently(&mut self.interrupts, self.talk.open_feedback(&event, signal, &words)).await?;
        self.heard(&opened)?;
        self.fresh(&opened)
    }

    async fn add_feedback(&mut self, words: &str) -> Result<()> {
        let Some(session) = self.feedback.clone() else {
            return Err(Failure::usage("there is no feedback to add to")
                .hint("give it first with /feedback up|down WORDS"));
        };
        let added = patiently(&mut self.interrupts, self.talk.add_feedback(&session, words)).await?;
        if matches!(added["status"].as_str(), Some("closed" | "full" | "not_found")) {
            self.feedback = None;
        }
        self.heard(&added)?;
        let cut = if added["truncated"] == true { ", its end cut off" } else { "" };
        self.aside(&format!("Added{cut}."))
    }

    /// Prints an answer for a program, and fails if the server refused.
    fn heard(&self, answer: &Value) -> Result<()> {
        if self.out.is_json() {
            self.out.value(answer)?;
        }
        refusal(answer).map_or(Ok(()), Err)
    }

    /// Further messages go to this feedback session.
    fn fresh(&mut self, opened: &Value) -> Result<()> {
        self.feedback = Some(plain(&opened["session_id"]));
        self.aside("Thank you. If there is more to say, add it within a minute: /feedback more WORDS")
    }
}
