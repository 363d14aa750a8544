//! The tool calls of a model: carried out once, put before a person, or answered with a refusal.

use sederunt_core::Error;
use sederunt_core::approval;
use sederunt_core::engine::DraftEvent;
use sederunt_core::json::Json;
use sederunt_core::work::run::Resume;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::held_questions::HeldQuestions;
use super::replay::OpenCall;
use super::{ClaimContext, StepHalt, event};
use crate::context::transcript;
use crate::limits;
use crate::model::{Message, ToolCall};
use crate::tool::elicitation::{AfterAnswer, CallInput, InputAnswer, ParkedCall};
use crate::tool::{CallContext, Error as ToolError, Outcome, Toolbox};

/// The claim under which calls are made, and the tools.
pub(crate) struct CallRunner<'a> {
    pub claim: &'a ClaimContext,
    pub tools: &'a Toolbox,
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// It has a result, which is in the log.
    Answered(Message),
    /// A person must approve it first: the call as it is shown to a person, and a summary.
    NeedsLeave { staged: Json, summary: String },
    /// The tool needs a person's input first: the call, to be made again with it.
    NeedsInput(Box<ParkedCall>),
}

/// The result of a call, as text.
pub(crate) struct CallAnswer<'a> {
    pub content: String,
    pub is_error: bool,
    /// A code, if the call did not simply succeed.
    pub outcome: Option<&'a str>,
}

impl<'a> CallAnswer<'a> {
    pub(crate) fn error(content: impl Into<String>, outcome: &'a str) -> Self {
        Self { content: content.into(), is_error: true, outcome: Some(outcome) }
    }

    /// For a call that was begun by a worker that has since died.
    pub(crate) fn unknown() -> Self {
        Self::error(transcript::OUTCOME_UNKNOWN, "outcome_unknown")
    }

    /// For a call that was not approved. A reviewer's own words do not belong here: a result is data, and the
    /// reviewer's reason is an instruction, which `replay` reads from the log.
    pub(crate) fn denied(why: &str) -> Self {
        Self::error(format!("denied: {why}"), "denied")
    }

    /// The events of it: the end of the invocation, if it was begun, and the result.
    pub(crate) fn events(&self, call: &ToolCall, was_begun: bool) -> Result<Vec<DraftEvent>, Error> {
        let mut events = Vec::with_capacity(2);
        if was_begun {
            events.push(event(self.closing(), invocation(call, self.outcome)?, None));
        }
        events.push(self.event(call)?);
        Ok(events)
    }

    /// The type of the event that ends an invocation with this answer.
    const fn closing(&self) -> &'static str {
        if self.is_error { "tool.invocation_failed" } else { "tool.invocation_completed" }
    }

    fn event(&self, call: &ToolCall) -> Result<DraftEvent, Error> {
        let mut fields = json!({"tool_call_id": call.id, "tool_name": call.name, "is_error": self.is_error});
        if let Some(outcome) = self.outcome {
            fields["outcome"] = outcome.into();
        }
        let text = Json::of(&json!([{"type": "text", "text": self.content.replace('\0', "\u{fffd}")}]))?;
        Ok(event("agent.tool_result", Json::of(&fields)?, Some(text)))
    }

    /// The message to the model.
    pub(crate) fn message(self, call: &ToolCall) -> Message {
        Message::ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: self.content,
            is_error: self.is_error,
        }
    }
}

impl CallRunner<'_> {
    /// Handles a call that the log leaves open: as a person decided; else one that was begun has an unknown outcome, unless
    /// the tool finds what it began; and any other is made now.
    pub(crate) async fn take_up(
        &self,
        open: &OpenCall,
        decided: Option<&Resume>,
    ) -> Result<CallOutcome, StepHalt> {
        match decided {
            Some(resume) => self.as_decided(open, resume).await,
            None if open.begun && self.tools.finds_again(&open.call) => {
                self.is_under_way(&open.call);
                self.call(open, false, None).await
            }
            None if open.begun => self.answer(&open.call, CallAnswer::unknown(), true).await,
            None => self.make(open, false, None).await,
        }
    }

    /// Goes on with a call that waited for a person's input.
    pub(crate) async fn go_on(
        &self,
        open: &OpenCall,
        parked: ParkedCall,
        answer: &InputAnswer,
    ) -> Result<CallOutcome, StepHalt> {
        match parked.answered(answer) {
            AfterAnswer::Ask(next) => Ok(CallOutcome::NeedsInput(Box::new(next))),
            AfterAnswer::Call(parked, input) => {
                let call = ToolCall { args: parked.args, ..open.call.clone() };
                self.make(&OpenCall { call, ..open.clone() }, parked.confirmed, Some(input)).await
            }
        }
    }

    /// Makes a call, unless a person has to be asked first. A worker that takes over after a crash sees that it was
    /// begun.
    pub(crate) async fn make(
        &self,
        open: &OpenCall,
        confirmed: bool,
        input: Option<CallInput>,
    ) -> Result<CallOutcome, StepHalt> {
        let call = &open.call;
        if let Some(flaw) = &open.flaw {
            return self.answer(call, CallAnswer::error(flaw.clone(), "bad_arguments"), false).await;
        }
        // Nothing is begun before a person has approved it.
        if let Some(summary) = self.tools.asks_first(call).filter(|_| !confirmed) {
            return self.ask_leave(call, summary);
        }
        self.is_under_way(call);
        self.claim.append(vec![event("tool.invocation_started", invocation(call, None)?, None)]).await?;
        self.call(open, confirmed, input).await
    }

    /// Notes the call that gets a result if the run ends meanwhile.
    fn is_under_way(&self, call: &ToolCall) {
        *self.claim.in_flight.lock() = Some(call.clone());
    }

    /// Calls the tool of an invocation that the log says was begun.
    async fn call(
        &self,
        open: &OpenCall,
        confirmed: bool,
        input: Option<CallInput>,
    ) -> Result<CallOutcome, StepHalt> {
        let call = &open.call;
        let mut context = CallContext {
            tenant_id: self.claim.actor.tenant.clone(),
            session_id: self.claim.session.clone(),
            idempotency_key: self.idempotency_key(open),
            confirmed,
            input,
            asker: HeldQuestions::of(self.claim),
        };
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            match self.tools.call(call, &context).await {
                // The tool was not reached, so it has not acted: the same call may be made again.
                Err(ToolError::Unreachable | ToolError::Unavailable { .. })
                    if tries < limits::TOOL_TRIES_MAX =>
                {
                    tokio::time::sleep(limits::TOOL_TRY_WAIT * tries).await;
                }
                // A conversation does not wait for forms: the tool hears so, and may do without.
                Ok(Outcome::NeedsInput(asked)) if self.claim.turn.is_some() => {
                    context.input = Some(asked.declined());
                }
                outcome => break outcome,
            }
        };
        let answer = match outcome {
            Ok(Outcome::Done { content, is_error, .. }) => CallAnswer { content, is_error, outcome: None },
            Ok(Outcome::NeedsConfirmation { summary }) if !confirmed => {
                // The tool was called and only asked: this invocation is over, and the approved call is another one.
                let asked = invocation(call, Some("needs_confirmation"))?;
                self.claim.append(vec![event("tool.invocation_completed", asked, None)]).await?;
                self.claim.in_flight.lock().take();
                return self.ask_leave(call, summary);
            }
            Ok(Outcome::NeedsInput(asked)) => {
                // This invocation is over; the one with the input is another one.
                let ended = invocation(call, Some("needs_input"))?;
                self.claim.append(vec![event("tool.invocation_completed", ended, None)]).await?;
                self.claim.in_flight.lock().take();
                return Ok(CallOutcome::NeedsInput(Box::new(ParkedCall::new(
                    call, open.sequence, confirmed, *asked,
                ))));
            }
            Ok(Outcome::NeedsConfirmation { .. }) => {
                CallAnswer::error("refused: the tool asks again for what was agreed to", "refused")
            }
            Err(error @ (ToolError::TimedOut { .. } | ToolError::CutShort)) => {
                CallAnswer::error(error.to_string(), "outcome_unknown")
            }
            Err(error) => CallAnswer::error(error.to_string(), error.code()),
        };
        self.answer(call, answer, true).await
    }

    /// The call as it is shown to a person.
    fn ask_leave(&self, call: &ToolCall, summary: String) -> Result<CallOutcome, StepHalt> {
        let (id, name, about) = (Json::of(&call.id)?, Json::of(&call.name)?, Json::of(&summary)?);
        let spec = self.tools.spec(&call.name);
        let description = spec.map(|spec| Json::of(&spec.description)).transpose()?;
        let mut fields = vec![("id", &id), ("name", &name), ("summary", &about), ("args", &call.args)];
        // The decision may be made on a node that does not know the tool, so what it is stands with the call.
        fields.extend(spec.map(|spec| ("input_schema", &spec.schema)));
        fields.extend(description.as_ref().map(|description| ("tool_description", description)));
        let staged = Json::object(fields);
        Ok(CallOutcome::NeedsLeave { staged, summary })
    }

    /// Carries out a person's decision on a call, and nothing else: only the approved call is made.
    async fn as_decided(&self, open: &OpenCall, resume: &Resume) -> Result<CallOutcome, StepHalt> {
        let call = &open.call;
        match resume.decision.as_str() {
            "approve" => {
                let args = resume.args.clone().unwrap_or_else(Json::empty_object);
                let staged = resume.tool_call.as_ref().map(|staged| approval::with_args(staged, &args));
                let agreed = staged
                    .map(|staged| {
                        approval::digest(approval::ApprovalKind::Tool, &self.claim.session, &staged)
                    })
                    .filter(|sum| resume.digest.as_ref() == Some(sum));
                if agreed.is_none() {
                    let refused = "refused: what was approved is not what would be called";
                    return self.answer(call, CallAnswer::error(refused, "refused"), false).await;
                }
                let open = OpenCall { call: ToolCall { args, ..call.clone() }, ..open.clone() };
                self.make(&open, true, None).await
            }
            "answer" => {
                let content = match &resume.reply {
                    Some(reply) => reply.read::<String>().unwrap_or_else(|_| reply.as_str().to_owned()),
                    None => String::new(),
                };
                self.answer(call, CallAnswer { content, is_error: false, outcome: None }, false).await
            }
            _ => {
                let denied = CallAnswer::denied("nobody agreed to this call, so it was not made");
                self.answer(call, denied, false).await
            }
        }
    }

    /// Logs the result of a call, and the end of its invocation if it was begun.
    pub(crate) async fn answer(
        &self,
        call: &ToolCall,
        answer: CallAnswer<'_>,
        was_begun: bool,
    ) -> Result<CallOutcome, StepHalt> {
        self.claim.in_flight.lock().take();
        self.claim.append(answer.events(call, was_begun)?).await?;
        Ok(CallOutcome::Answered(answer.message(call)))
    }

    /// The same for every attempt of a call with these arguments, on any worker. The key names the call's sequence in
    /// the log: models restart their call ids in every turn, and may use one twice.
    pub(crate) fn idempotency_key(&self, open: &OpenCall) -> String {
        let mut hash = Sha256::new();
        let life = self.claim.life.0.as_bytes().as_slice();
        for part in [life, &open.sequence.to_le_bytes(), open.call.args.as_str().as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex::encode(&hash.finalize()[..16])
    }
}

/// The metadata of an invocation's event: its call, and its outcome if that has a name.
fn invocation(call: &ToolCall, outcome: Option<&str>) -> Result<Json, Error> {
    let mut fields = json!({"invocation_id": call.id, "tool_name": call.name});
    if let Some(outcome) = outcome {
        fields["outcome"] = outcome.into();
    }
    Json::of(&fields)
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
