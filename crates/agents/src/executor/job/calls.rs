//! The calls that a model makes: carried out once, put before a person, or answered with why not.

use sederunt_core::Error;
use sederunt_core::approval;
use sederunt_core::json::Json;
use sederunt_core::work::run::Resume;
use sederunt_core::work::{Pause, Settle};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::past::Open;
use super::ends::with_usage;
use super::{Halt, Job, Step, Work, event};
use crate::context::transcript;
use crate::limits;
use crate::model::{Message, ToolCall, ToolSpec};
use crate::tool::{CallContext, Error as ToolError, Outcome};

impl Job {
    /// Deals with calls that the log leaves open: one that a person decided on is carried out or refused as decided,
    /// one that was begun has an unknown outcome, and any other is made now.
    pub(super) async fn close_open(&self, work: &mut Work, open: Vec<Open>) -> Step<()> {
        let resume = work.brief.run.resume.clone();
        for Open { call, begun } in open {
            match &resume {
                Some(resume) if decides(resume, &call) => self.resume(work, &call, resume).await?,
                _ if begun => {
                    let content = transcript::OUTCOME_UNKNOWN.to_owned();
                    self.answer(work, &call, content, true, Some("outcome_unknown")).await?;
                }
                _ => self.call(work, &call, false).await?,
            }
        }
        Ok(())
    }

    async fn resume(&self, work: &mut Work, call: &ToolCall, resume: &Resume) -> Step<()> {
        match resume.decision.as_str() {
            "approve" => {
                let args = resume.args.clone().unwrap_or_else(Json::empty_object);
                let staged = resume.tool_call.as_ref().map(|staged| approval::with_args(staged, &args));
                let agreed = staged
                    .map(|staged| approval::digest(approval::Kind::Tool, &self.id, &staged))
                    .filter(|sum| resume.digest.as_ref() == Some(sum));
                if agreed.is_none() {
                    let content = "refused: what was approved is not what would be called".to_owned();
                    return self.answer(work, call, content, true, Some("refused")).await;
                }
                self.call(work, &ToolCall { args, ..call.clone() }, true).await
            }
            "answer" => {
                let content = match &resume.reply {
                    Some(reply) => reply.read::<String>().unwrap_or_else(|_| reply.as_str().to_owned()),
                    None => String::new(),
                };
                self.answer(work, call, content, false, None).await
            }
            _ => {
                let reason = resume.reason.as_deref().unwrap_or("no reason was given");
                self.answer(work, call, format!("denied: {reason}"), true, Some("denied")).await
            }
        }
    }

    /// Makes a call, or parks the run until a person has said something about it.
    pub(super) async fn call(&self, work: &mut Work, call: &ToolCall, confirmed: bool) -> Step<()> {
        if let Some(question) = asks_a_person(work, call)? {
            let how = Settle::Yield { pause: Pause::Human { question: Some(question) }, usage: None };
            return Err(Halt::Settle(with_usage(how, work)));
        }
        let begun = Json::of(&json!({"invocation_id": call.id, "tool_name": call.name}))?;
        self.append(vec![event("tool.invocation_started", begun, None)]).await?;
        let context = CallContext {
            tenant_id: self.actor.tenant.clone(),
            session_id: self.id.clone(),
            idempotency_key: self.idempotency_key(call),
            confirmed,
        };
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            match work.tools.call(call, &context).await {
                // Nothing was reached, so nothing was done: the same call may be made again.
                Err(ToolError::Unreachable | ToolError::Unavailable { .. })
                    if tries < limits::TOOL_TRIES_MAX =>
                {
                    tokio::time::sleep(limits::TOOL_TRY_WAIT * tries).await;
                }
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(Outcome::Done { content, is_error, .. }) => {
                self.answer(work, call, content, is_error, None).await
            }
            Ok(Outcome::NeedsConfirmation { summary }) if !confirmed => {
                let staged = Json::object([
                    ("id", &Json::of(&call.id)?),
                    ("name", &Json::of(&call.name)?),
                    ("summary", &Json::of(&summary)?),
                    ("args", &call.args),
                ]);
                let how = Settle::Yield { pause: Pause::Tool { call: Some(staged) }, usage: None };
                Err(Halt::Settle(with_usage(how, work)))
            }
            Ok(Outcome::NeedsConfirmation { .. }) => {
                let content = "refused: the tool asks again for what was agreed to".to_owned();
                self.answer(work, call, content, true, Some("refused")).await
            }
            Err(error @ (ToolError::TimedOut { .. } | ToolError::CutShort)) => {
                self.answer(work, call, error.to_string(), true, Some("outcome_unknown")).await
            }
            Err(error) => self.answer(work, call, error.to_string(), true, Some(error.code())).await,
        }
    }

    /// The same for every attempt of a call with these arguments, on any worker.
    fn idempotency_key(&self, call: &ToolCall) -> String {
        let mut hash = Sha256::new();
        let life = self.claimed.session.head.incarnation.0;
        for part in [life.as_bytes().as_slice(), call.id.as_bytes(), call.args.as_str().as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex::encode(&hash.finalize()[..16])
    }

    /// Puts the result of a call into the log and the transcript.
    async fn answer(
        &self,
        work: &mut Work,
        call: &ToolCall,
        content: String,
        is_error: bool,
        outcome: Option<&str>,
    ) -> Step<()> {
        let mut fields = json!({"tool_call_id": call.id, "tool_name": call.name, "is_error": is_error});
        if let Some(outcome) = outcome {
            fields["outcome"] = outcome.into();
        }
        let text = Json::of(&json!([{"type": "text", "text": content.replace('\0', "\u{fffd}")}]))?;
        self.append(vec![event("agent.tool_result", Json::of(&fields)?, Some(text))]).await?;
        work.messages.push(Message::ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content,
            is_error,
        });
        Ok(())
    }
}

/// Whether a decision is about this call. An answer goes to the call that asked for it.
fn decides(resume: &Resume, call: &ToolCall) -> bool {
    match &resume.tool_call {
        Some(staged) => staged
            .fields()
            .iter()
            .any(|(key, id)| key == "id" && id.read::<String>().is_ok_and(|id| id == call.id)),
        None => call.name == REQUEST_INPUT,
    }
}

const REQUEST_INPUT: &str = "request_input";

/// A tool of Sederunt's own, as a model is told of it.
pub(super) fn builtin(name: &str) -> Option<ToolSpec> {
    (name == REQUEST_INPUT).then(|| ToolSpec {
        name: REQUEST_INPUT.to_owned(),
        description: "Asks a person a question and waits for the answer.".to_owned(),
        schema: Json::stored(
            r#"{"type":"object","required":["text"],"properties":{"text":{"type":"string","minLength":1},"schema":{"type":"object"}}}"#,
        ),
    })
}

/// The question that a call puts to a person, if it is such a call and the agent may make it.
fn asks_a_person(work: &Work, call: &ToolCall) -> Result<Option<Json>, Error> {
    if call.name != REQUEST_INPUT || !work.specs.iter().any(|spec| spec.name == REQUEST_INPUT) {
        return Ok(None);
    }
    let fields = call.args.fields();
    let asked = fields.iter().find(|(key, _)| key == "text").and_then(|(_, text)| text.read::<String>().ok());
    let text = asked
        .filter(|text| !text.trim().is_empty())
        .unwrap_or_else(|| "The agent asks for input.".to_owned());
    let mut question = vec![("text", Json::of(&text)?)];
    if let Some((_, schema)) = fields.iter().find(|(key, _)| key == "schema")
        && sederunt_core::work::output::check_schema("schema", schema).is_ok()
    {
        question.push(("schema", schema.clone()));
    }
    Ok(Some(Json::object(question.iter().map(|(key, value)| (*key, value)))))
}
