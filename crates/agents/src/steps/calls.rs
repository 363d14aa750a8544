//! The calls that a model makes: carried out once, put before a person, or answered with why not.

use sederunt_core::Error;
use sederunt_core::approval;
use sederunt_core::engine::DraftEvent;
use sederunt_core::json::Json;
use sederunt_core::work::run::Resume;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::past::Open;
use super::{Halt, Hand, event};
use crate::context::transcript;
use crate::limits;
use crate::model::{Message, ToolCall};
use crate::tool::{CallContext, Error as ToolError, Outcome, Toolbox};

/// Who makes the calls, and with what.
pub(crate) struct Calls<'a> {
    pub hand: &'a Hand,
    pub tools: &'a Toolbox,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Came {
    /// It has a result, which is in the log.
    Answered(Message),
    /// Somebody has to agree first. The call as it is put before a person, and what it is about.
    NeedsLeave { staged: Json, summary: String },
}

/// The result of a call, in words.
pub(crate) struct Answer<'a> {
    pub content: String,
    pub is_error: bool,
    /// Why it is no usual one.
    pub outcome: Option<&'a str>,
}

impl<'a> Answer<'a> {
    pub(crate) fn error(content: impl Into<String>, outcome: &'a str) -> Self {
        Self { content: content.into(), is_error: true, outcome: Some(outcome) }
    }

    /// Of a call that was begun by somebody who is gone.
    pub(crate) fn unknown() -> Self {
        Self::error(transcript::OUTCOME_UNKNOWN, "outcome_unknown")
    }

    /// Of a call that a person did not want.
    pub(crate) fn denied(reason: &str) -> Self {
        Self::error(format!("denied: {reason}"), "denied")
    }

    /// As it stands in the log.
    pub(crate) fn event(&self, call: &ToolCall) -> Result<DraftEvent, Error> {
        let mut fields = json!({"tool_call_id": call.id, "tool_name": call.name, "is_error": self.is_error});
        if let Some(outcome) = self.outcome {
            fields["outcome"] = outcome.into();
        }
        let text = Json::of(&json!([{"type": "text", "text": self.content.replace('\0', "\u{fffd}")}]))?;
        Ok(event("agent.tool_result", Json::of(&fields)?, Some(text)))
    }

    /// As a model is told.
    pub(crate) fn message(self, call: &ToolCall) -> Message {
        Message::ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: self.content,
            is_error: self.is_error,
        }
    }
}

impl Calls<'_> {
    /// Deals with a call that the log leaves open: as a person decided; else one that was begun has an unknown outcome,
    /// and any other is made now.
    pub(crate) async fn take_up(&self, open: &Open, decided: Option<&Resume>) -> Result<Came, Halt> {
        match decided {
            Some(resume) => self.as_decided(open, resume).await,
            None if open.begun => self.answer(&open.call, Answer::unknown()).await,
            None => self.make(open, false).await,
        }
    }

    /// Makes a call, unless a person has to be asked first. Whoever comes after a crash knows that it was begun.
    pub(crate) async fn make(&self, open: &Open, confirmed: bool) -> Result<Came, Halt> {
        let call = &open.call;
        let begun = Json::of(&json!({"invocation_id": call.id, "tool_name": call.name}))?;
        self.hand.append(vec![event("tool.invocation_started", begun, None)]).await?;
        let context = CallContext {
            tenant_id: self.hand.actor.tenant.clone(),
            session_id: self.hand.session.clone(),
            idempotency_key: self.idempotency_key(open),
            confirmed,
        };
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            match self.tools.call(call, &context).await {
                // Nothing was reached, so nothing was done: the same call may be made again.
                Err(ToolError::Unreachable | ToolError::Unavailable { .. })
                    if tries < limits::TOOL_TRIES_MAX =>
                {
                    tokio::time::sleep(limits::TOOL_TRY_WAIT * tries).await;
                }
                outcome => break outcome,
            }
        };
        let answer = match outcome {
            Ok(Outcome::Done { content, is_error, .. }) => Answer { content, is_error, outcome: None },
            Ok(Outcome::NeedsConfirmation { summary }) if !confirmed => {
                let staged = Json::object([
                    ("id", &Json::of(&call.id)?),
                    ("name", &Json::of(&call.name)?),
                    ("summary", &Json::of(&summary)?),
                    ("args", &call.args),
                ]);
                return Ok(Came::NeedsLeave { staged, summary });
            }
            Ok(Outcome::NeedsConfirmation { .. }) => {
                Answer::error("refused: the tool asks again for what was agreed to", "refused")
            }
            Err(error @ (ToolError::TimedOut { .. } | ToolError::CutShort)) => {
                Answer::error(error.to_string(), "outcome_unknown")
            }
            Err(error) => Answer::error(error.to_string(), error.code()),
        };
        self.answer(call, answer).await
    }

    /// Does with a call what a person decided about it, and nothing else: what is called is what was agreed to.
    async fn as_decided(&self, open: &Open, resume: &Resume) -> Result<Came, Halt> {
        let call = &open.call;
        match resume.decision.as_str() {
            "approve" => {
                let args = resume.args.clone().unwrap_or_else(Json::empty_object);
                let staged = resume.tool_call.as_ref().map(|staged| approval::with_args(staged, &args));
                let agreed = staged
                    .map(|staged| approval::digest(approval::Kind::Tool, &self.hand.session, &staged))
                    .filter(|sum| resume.digest.as_ref() == Some(sum));
                if agreed.is_none() {
                    let refused = "refused: what was approved is not what would be called";
                    return self.answer(call, Answer::error(refused, "refused")).await;
                }
                self.make(&Open { call: ToolCall { args, ..call.clone() }, ..open.clone() }, true).await
            }
            "answer" => {
                let content = match &resume.reply {
                    Some(reply) => reply.read::<String>().unwrap_or_else(|_| reply.as_str().to_owned()),
                    None => String::new(),
                };
                self.answer(call, Answer { content, is_error: false, outcome: None }).await
            }
            _ => {
                let reason = resume.reason.as_deref().unwrap_or("no reason was given");
                self.answer(call, Answer::denied(reason)).await
            }
        }
    }

    /// Puts the result of a call into the log.
    pub(crate) async fn answer(&self, call: &ToolCall, answer: Answer<'_>) -> Result<Came, Halt> {
        self.hand.append(vec![answer.event(call)?]).await?;
        Ok(Came::Answered(answer.message(call)))
    }

    /// The same for every attempt of a call with these arguments, on any worker. A call is known by its place in the
    /// log: models count their calls anew in every turn, and may count two as one.
    pub(crate) fn idempotency_key(&self, open: &Open) -> String {
        let mut hash = Sha256::new();
        let life = self.hand.life.0.as_bytes().as_slice();
        for part in [life, &open.sequence.to_le_bytes(), open.call.args.as_str().as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex::encode(&hash.finalize()[..16])
    }
}

/// Whether a decision is about this call.
pub(crate) fn is_about(resume: &Resume, call: &ToolCall) -> bool {
    resume.tool_call.as_ref().is_some_and(|staged| {
        staged
            .fields()
            .iter()
            .any(|(key, id)| key == "id" && id.read::<String>().is_ok_and(|id| id == call.id))
    })
}
