//! One turn: sends the message, shows the reply as it comes. Ctrl-C stops the reply, not the chat.

use std::time::Instant;

use serde_json::Value;

use super::client::TurnFrame;
use super::commands::Verbosity;
use super::confirm;
use super::render::{Flow, Waiting, width};
use super::repl::{Repl, forget_interrupts, interrupted, patiently};
use crate::exit::{Exit, Failure, Result};
use crate::output::{note, plain, visible};

/// In front of every line of a crisis response.
const CRISIS_MARGIN: &str = "┃ ";
/// From this level on the reply is the crisis response.
const CRISIS_LEVEL: u64 = 2;

/// A reply, as far as it came.
struct Reply {
    response: Option<Value>,
    stopped: bool,
}

impl Repl {
    /// Sends a message and shows the reply.
    pub async fn say(&mut self, message: &str) -> Result<()> {
        if self.is_terminal() { self.converse(message).await } else { self.reply_once(message).await }
    }

    async fn converse(&mut self, message: &str) -> Result<()> {
        let since = Instant::now();
        let mut waiting = Waiting::start(self.verbosity != Verbosity::Quiet, "sending");
        let mut flow = Flow::new(width(), "");
        let reply = self.listen(message, &mut waiting, &mut flow).await;
        waiting.stop();
        let Ok(Reply { response, stopped }) = reply else {
            self.out.raw(flow.finish().as_bytes())?;
            return reply.map(drop);
        };
        let response = response.unwrap_or_default();
        let asks = confirm::asks(&response);
        if !flow.has_begun() && !asks {
            let text = plain(&response["response_text"]);
            self.out.raw(flow.push(&text).as_bytes())?;
        }
        self.out.raw(flow.finish().as_bytes())?;
        if stopped {
            self.aside("(stopped)")?;
        }
        self.remark(&response, since)?;
        if asks {
            self.confirm(response).await?;
        }
        self.out.line("")
    }

    /// Listens until the turn is over or stopped.
    async fn listen(&mut self, message: &str, waiting: &mut Waiting, flow: &mut Flow) -> Result<Reply> {
        let say = self.talk.say(&self.thread, message, self.tier);
        let mut turn = patiently(&mut self.interrupts, say).await?;
        let mut stopped = false;
        loop {
            let heard = tokio::select! {
                heard = turn.next() => heard?,
                _ = self.interrupts.recv() => {
                    if std::mem::replace(&mut stopped, true) {
                        return Ok(Reply { response: None, stopped });
                    }
                    waiting.stage("stopping");
                    // If the turn cannot be stopped any more, the reply is shown to its end.
                    if let Err(failure) = patiently(&mut self.interrupts, self.talk.stop(&self.thread)).await {
                        note(failure.to_string());
                    }
                    continue;
                }
            };
            match heard {
                TurnFrame::Stage { stage, detail } => {
                    if stage == "route" && detail.as_deref() == Some("crisis") && !flow.has_begun() {
                        *flow = Flow::new(width(), CRISIS_MARGIN);
                    }
                    waiting.stage(&stage);
                }
                TurnFrame::Chunk(text) => {
                    waiting.stop();
                    self.out.raw(flow.push(&text).as_bytes())?;
                }
                TurnFrame::Done(response) => {
                    if is_crisis(&response) && !flow.has_begun() {
                        *flow = Flow::new(width(), CRISIS_MARGIN);
                    }
                    let stopped = response["stopped"] == true;
                    return Ok(Reply { response: Some(response), stopped });
                }
                TurnFrame::Failed { .. } if stopped => return Ok(Reply { response: None, stopped }),
                TurnFrame::Failed { code, message } => return Err(failure(&code, message)),
            }
        }
    }

    /// Shows details about a reply.
    fn remark(&self, response: &Value, since: Instant) -> Result<()> {
        let suggests_end = response["session_action"] == "suggest_end_session";
        if suggests_end && !is_crisis(response) && self.verbosity != Verbosity::Quiet {
            self.aside("If this is where you want to stop: /end closes the sitting.")?;
        }
        if self.verbosity == Verbosity::Full {
            let kinds = ["response_type", "response_style", "therapeutic_approach"];
            let mut about: Vec<String> = kinds
                .iter()
                .map(|kind| visible(&plain(&response[*kind])))
                .filter(|kind| !kind.is_empty())
                .collect();
            about.push(format!("{:.1} s", since.elapsed().as_secs_f64()));
            self.aside(&about.join(" · "))?;
        }
        if self.traces { self.aside(&traced(&response["diagnostics"])) } else { Ok(()) }
    }

    /// The reply for a program: whole, and as JSON if asked for.
    async fn reply_once(&mut self, message: &str) -> Result<()> {
        forget_interrupts(&mut self.interrupts).await;
        let mut turn = self.talk.say(&self.thread, message, self.tier).await?;
        let mut response = loop {
            let heard = tokio::select! {
                heard = turn.next() => heard?,
                _ = self.interrupts.recv() => {
                    self.talk.stop(&self.thread).await?;
                    return Err(interrupted());
                }
            };
            match heard {
                TurnFrame::Done(response) => break response,
                TurnFrame::Failed { code, message } => return Err(failure(&code, message)),
                TurnFrame::Stage { .. } | TurnFrame::Chunk(_) => {}
            }
        };
        if !self.out.is_json() {
            if confirm::asks(&response) {
                note(confirm::advice(&response));
            }
            return self.out.line(plain(&response["response_text"]));
        }
        if response.is_object() {
            response["thread_id"] = self.thread.as_str().into();
        }
        self.out.value(&response)
    }
}

fn is_crisis(response: &Value) -> bool {
    response["crisis"]["level"].as_u64().is_some_and(|level| level >= CRISIS_LEVEL)
}

/// How long each stage took, and other diagnostics.
fn traced(diagnostics: &Value) -> String {
    match diagnostics["stages_us"].as_object() {
        Some(stages) => {
            let millis = |value: &Value| value.as_f64().unwrap_or_default() / 1000.0;
            let stages: Vec<String> =
                stages.iter().map(|(stage, took)| format!("{stage} {:.1} ms", millis(took))).collect();
            visible(&stages.join(" · "))
        }
        None => visible(&diagnostics.to_string()),
    }
}

fn failure(code: &str, message: String) -> Failure {
    let exit = match code {
        "unavailable" | "rate_limited" | "closed" => Exit::Unavailable,
        "invalid" | "bad_json" | "too_large" => Exit::Usage,
        "not_found" => Exit::NotFound,
        "internal" => Exit::Error,
        _ => Exit::Refused,
    };
    Failure::new(exit, code, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trace_names_the_stages() {
        assert_eq!(
            traced(&json!({"stages_us": {"safety": 120, "recall": 2500}})),
            "safety 0.1 ms · recall 2.5 ms"
        );
        assert_eq!(traced(&json!({"other": 1})), r#"{"other":1}"#);
    }

    #[test]
    fn a_failed_turn_ends_a_program_as_the_same_refusal_does_elsewhere() {
        for (code, exit) in [
            ("unavailable", Exit::Unavailable),
            ("closed", Exit::Unavailable),
            ("invalid", Exit::Usage),
            ("not_found", Exit::NotFound),
            ("session_busy", Exit::Refused),
            ("denied", Exit::Refused),
            ("internal", Exit::Error),
        ] {
            assert_eq!(failure(code, String::new()).exit(), exit, "{code}");
        }
    }
}
