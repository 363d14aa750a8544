//! One invocation of a tool, from its claim to its settlement: an HTTP request or a call of an MCP server's tool. The
//! engine writes the start and the end of the invocation; this worker makes the call, under the same key at every attempt,
//! and settles. Tasks and steps need no worker.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::Actor;
use sederunt_core::approval;
use sederunt_core::engine::{Engine, InvokedTool};
use sederunt_core::json::Json;
use sederunt_core::tool_session::values::{self, ValueSchemas};
use sederunt_core::work::run::Resume;
use sederunt_core::work::{ClaimedRun, Pause, Settle};
use sederunt_core::{Error, limits as core_limits};
use serde_json::json;

use super::kit::Kit;
use crate::heartbeat::{Beat, ClaimEnd, Heartbeat};
use crate::limits;
use crate::steps::held_questions::HeldQuestions;
use crate::tool::elicitation::{AfterAnswer, InputAnswer, ParkedCall};
use crate::tool::{CallContext, Error as ToolError, Outcome, ToolCall};

/// An invocation that is being carried out.
pub(super) struct ToolJob {
    pub engine: Engine,
    pub kit: Arc<Kit>,
    pub actor: Arc<Actor>,
    pub claimed: ClaimedRun,
    pub lease: Duration,
}

impl ToolJob {
    /// Works and settles. An error means that this worker may not settle the session, or cannot now.
    pub(super) async fn run(&self) -> Result<(), Error> {
        let life = self.claimed.session.head.incarnation;
        let heartbeat = Heartbeat::new(self.engine.hub(), life, self.lease);
        let how = tokio::select! {
            end = self.watch(heartbeat) => match end {
                ClaimEnd::Lost => return Ok(()),
                ClaimEnd::Stopped => fail("stopped", "the session was asked to stop"),
            },
            how = self.work() => how?,
        };
        match self.settle(how).await {
            // The same result would not fit the second time either.
            Err(Error::OutputInvalid { complaints }) => {
                self.settle(fail("output_invalid", &complaints.join("; "))).await
            }
            done => done,
        }
    }

    async fn settle(&self, how: Settle) -> Result<(), Error> {
        let session = &self.claimed.session.id;
        self.engine.settle(&self.actor, session, self.claimed.epoch, how, None).await.map(drop)
    }

    /// Renews the lease until the invocation has to end.
    async fn watch(&self, mut heartbeat: Heartbeat) -> ClaimEnd {
        let ClaimedRun { session, epoch, .. } = &self.claimed;
        loop {
            let stop_requested = match heartbeat.beat().await {
                Beat::Look => self.engine.look_at_claim(&self.claimed).await,
                Beat::Renew => {
                    let beat =
                        self.engine.heartbeat(&self.actor, &session.id, *epoch, Some(self.lease)).await;
                    beat.map(|beat| beat.stop_requested)
                }
            };
            if let Some(end) = ClaimEnd::of(stop_requested) {
                return end;
            }
        }
    }

    async fn work(&self) -> Result<Settle, Error> {
        let brief = self.engine.brief(&self.claimed, None).await?;
        let Some(invoked) = brief.tool else {
            return Ok(fail("tool_unfit", "this session was not started with a tool"));
        };
        let mut input = None;
        let (values, confirmed) = match &brief.run.resume {
            None => (invoked.values.clone(), false),
            Some(Resume { elicitation: Some(sealed), .. }) => {
                let opened = self.engine.open_call(&self.claimed.session, sealed).await?;
                let parked = opened.read::<ParkedCall>().map_err(Error::internal)?;
                let answer = brief.run.resume.as_ref().map_or(InputAnswer::Decline, InputAnswer::of);
                match parked.answered(&answer) {
                    AfterAnswer::Ask(next) => return self.park(&next).await,
                    AfterAnswer::Call(parked, given) => {
                        input = Some(given);
                        (parked.args, parked.confirmed)
                    }
                }
            }
            Some(resume) => match self.agreed(&invoked, resume) {
                Ok(values) => (values, true),
                Err(how) => return Ok(how),
            },
        };
        if invoked.definition.requires_confirmation && !confirmed {
            return self.ask(&invoked, format!("Run `{}`?", invoked.definition.name));
        }
        let tenant = &self.actor.tenant;
        let (args, sent) = match self.kit.with_secrets(tenant, &invoked.definition, &values) {
            Ok(filled) => filled,
            Err(why) => return Ok(fail("secret_refused", &why)),
        };
        let toolbox = match self.kit.invoked_tool(tenant, &invoked.definition).await {
            Ok(toolbox) => toolbox.hiding(sent),
            Err(unfit) => return Ok(fail("tool_unfit", &unfit.to_string())),
        };
        let Some(spec) = toolbox.specs().into_iter().next() else {
            return Ok(fail("tool_unfit", "the MCP server has no such tool"));
        };
        let call = ToolCall { id: invoked.invocation_id.clone(), name: spec.name, args };
        let context = CallContext {
            tenant_id: tenant.clone(),
            session_id: self.claimed.session.id.clone(),
            idempotency_key: invoked.invocation_id.clone(),
            confirmed,
            input,
            asker: Some(Arc::new(HeldQuestions {
                engine: self.engine.clone(),
                actor: Arc::clone(&self.actor),
                session: self.claimed.session.id.clone(),
                epoch: self.claimed.epoch,
            })),
        };
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            match toolbox.call(&call, &context).await {
                Err(ToolError::Unreachable | ToolError::Unavailable { .. })
                    if tries < limits::TOOL_TRIES_MAX =>
                {
                    tokio::time::sleep(limits::TOOL_TRY_WAIT * tries).await;
                }
                outcome => break outcome,
            }
        };
        Ok(match outcome {
            Ok(Outcome::Done { cut: true, .. }) => {
                let limit = limits::RESULT_BYTES_MAX;
                fail("result_too_large", &format!("the result is larger than {limit} bytes"))
            }
            Ok(Outcome::Done { content, is_error: true, .. }) => fail("tool_failed", &content),
            Ok(Outcome::Done { content, .. }) => completed(&content)?,
            Ok(Outcome::NeedsConfirmation { summary }) if !confirmed => {
                return self.ask(&invoked, summary);
            }
            Ok(Outcome::NeedsInput(asked)) => {
                // The values are kept as they were filled in: without secrets.
                let call = ToolCall { args: values, ..call };
                return self.park(&ParkedCall::new(&call, 0, confirmed, *asked)).await;
            }
            Ok(Outcome::NeedsConfirmation { .. }) => {
                fail("tool_failed", "the tool asks again for what was agreed to")
            }
            Err(error) => fail(error.code(), &error.to_string()),
        })
    }

    /// Puts what the tool asks before a person.
    async fn park(&self, parked: &ParkedCall) -> Result<Settle, Error> {
        let question = parked.question()?;
        let sealed = self.engine.seal_call(&self.claimed.session, &Json::of(parked)?).await?;
        Ok(Settle::Yield { pause: Pause::Elicitation { question, sealed }, usage: None })
    }

    /// Puts the values before a person.
    fn ask(&self, invoked: &InvokedTool, summary: String) -> Result<Settle, Error> {
        let (id, name) = (Json::of(&invoked.invocation_id)?, Json::of(&invoked.definition.slug)?);
        let (summary, schema) = (Json::of(&summary)?, ValueSchemas::of(&invoked.definition)?.whole);
        let description = invoked.definition.description.as_ref().map(Json::of).transpose()?;
        let mut fields = vec![
            ("id", &id),
            ("name", &name),
            ("summary", &summary),
            ("args", &invoked.values),
            ("input_schema", &schema),
        ];
        fields.extend(description.as_ref().map(|description| ("tool_description", description)));
        let call = Json::object(fields);
        Ok(Settle::Yield { pause: Pause::Tool { call: Some(call) }, usage: None })
    }

    /// The values that a person agreed to, and nothing else.
    fn agreed(&self, invoked: &InvokedTool, resume: &Resume) -> Result<Json, Settle> {
        if resume.decision != "approve" {
            return Err(fail("denied", "a person did not agree to this invocation"));
        }
        let args = resume.args.clone().unwrap_or_else(Json::empty_object);
        let staged = resume.tool_call.as_ref().map(|staged| approval::with_args(staged, &args));
        let sum = staged
            .map(|staged| approval::digest(approval::ApprovalKind::Tool, &self.claimed.session.id, &staged));
        if sum.is_none() || sum != resume.digest {
            return Err(fail("refused", "what was approved is not what would be called"));
        }
        match values::check_whole(&invoked.definition, &args) {
            Ok(()) => Ok(args),
            Err(misfit) => Err(fail("bad_arguments", &misfit.to_string())),
        }
    }
}

/// A result that is JSON is kept as it is, and any other as a text.
fn completed(content: &str) -> Result<Settle, Error> {
    let result = match Json::parse(content.as_bytes()) {
        Ok(result) => result,
        Err(_) => Json::of(&json!(content.replace('\0', "\u{fffd}")))?,
    };
    if result.len() > core_limits::EVENT_BYTES_MAX {
        let limit = core_limits::EVENT_BYTES_MAX;
        return Ok(fail("result_too_large", &format!("the result is larger than {limit} bytes")));
    }
    Ok(Settle::Complete { result: Some(result), text: None, usage: None })
}

fn fail(reason: &str, error: &str) -> Settle {
    let error: String =
        error.replace('\0', "\u{fffd}").chars().take(core_limits::SENTENCE_CHARS_MAX).collect();
    Settle::Fail { error, retryable: false, reason: Some(reason.to_owned()), usage: None }
}
