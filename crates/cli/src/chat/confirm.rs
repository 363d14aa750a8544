//! A reply that waits for approval: shows the call; the person approves it, changes it or denies it, and the turn
//! goes on.

use serde_json::Value;

use super::client::Word;
use super::endings::{self, Leave, Read, Typed};
use super::render::{Waiting, width, wrapped};
use super::repl::{Repl, forget_interrupts, patiently};
use crate::commands::sessions::shown_texts;
use crate::exit::Result;
use crate::output::{note, plain, visible};

/// Whether a reply waits for a person's approval.
pub fn asks(response: &Value) -> bool {
    response["response_type"] == "confirmation"
}

/// What to do about it later, for a person who was not asked or did not answer.
pub fn advice(response: &Value) -> String {
    let id = visible(&plain(&response["approval_id"]));
    format!("This waits for a decision: sederunt approve {id}, or sederunt deny {id}.")
}

impl Repl {
    /// Asks until nothing waits any more, or until the person gives no answer.
    pub async fn confirm(&mut self, mut asked: Value) -> Result<()> {
        while asks(&asked) {
            let id = plain(&asked["approval_id"]);
            let approval = patiently(&mut self.interrupts, self.talk.approval(&id)).await?;
            self.show(&approval)?;
            let Some(word) = self.word_on(&approval).await? else {
                return self.aside(&advice(&asked));
            };
            patiently(&mut self.interrupts, self.talk.decide(&id, &approval["digest"], word)).await?;
            asked = self.hear_rest(asked["sequence"].as_u64().unwrap_or(0)).await?;
        }
        Ok(())
    }

    fn show(&self, approval: &Value) -> Result<()> {
        let staged = &approval["staged"];
        let call = format!("{} {}", plain(&staged["name"]), staged["args"]);
        for text in [plain(&staged["summary"]), call] {
            self.out.raw(wrapped(&text, width(), "  ").as_bytes())?;
        }
        Ok(())
    }

    /// The person's decision; `None` without one.
    async fn word_on(&self, approval: &Value) -> Result<Option<Word>> {
        let mut question = "Do it? [y/n, e to change it] ";
        for _ in 0..2 {
            match endings::leave(&self.ask(question).await?) {
                Read::As(None) => return Ok(None),
                Read::As(Some(Leave::Agree)) => return Ok(Some(Word::Approve(None))),
                Read::As(Some(Leave::Refuse)) => return Ok(Some(Word::Deny)),
                Read::As(Some(Leave::Change)) => return self.changed(&approval["staged"]["args"]).await,
                Read::Unclear => question = "y does it, n refuses it, e changes it, Enter leaves it [y/n/e] ",
            }
        }
        Ok(None)
    }

    /// The arguments as the person changes them; omitted ones stay.
    async fn changed(&self, args: &Value) -> Result<Option<Word>> {
        let question = format!("What changes, as JSON? [such as {}] ", visible(&args.to_string()));
        for _ in 0..2 {
            let Typed::Line(line) = self.ask(&question).await? else { return Ok(None) };
            match serde_json::from_str::<Value>(&line) {
                Ok(edit) if edit.is_object() => return Ok(Some(Word::Approve(Some(edit)))),
                _ => note("that is no JSON object"),
            }
        }
        Ok(None)
    }

    /// Shows the rest of the turn as it comes into the log. Returns the next approval that it waits for, if any.
    async fn hear_rest(&mut self, after: u64) -> Result<Value> {
        forget_interrupts(&mut self.interrupts).await;
        let mut waiting = Waiting::start(true, "going on");
        let mut stream = self.talk.follow(&self.thread, after).await?;
        loop {
            let event = tokio::select! {
                event = stream.next() => event?,
                _ = self.interrupts.recv() => {
                    waiting.stage("stopping");
                    self.talk.stop(&self.thread).await?;
                    continue;
                }
            };
            let Some(event) = event else { return Ok(Value::Null) };
            let Ok(event) = serde_json::from_str::<Value>(&event.data) else { continue };
            let metadata = &event["metadata"];
            match event["type"].as_str().unwrap_or_default() {
                "agent.message" => {
                    waiting.stop();
                    self.out.raw(wrapped(&shown_texts(&event).join("\n"), width(), "").as_bytes())?;
                }
                "session.error" => note(visible(&plain(&metadata["message"]))),
                "session.waiting_approval" => {
                    return Ok(serde_json::json!({
                        "response_type": "confirmation",
                        "approval_id": metadata["approval_id"],
                        "sequence": event["sequence"],
                    }));
                }
                "session.turn" => return Ok(Value::Null),
                _ => {}
            }
        }
    }
}
