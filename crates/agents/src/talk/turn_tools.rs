//! An agent's tools inside a turn: calls are made one after the other under the turn's claim, and the first that
//! needs approval pauses the turn, where a person can be asked.

use std::sync::Arc;

use parking_lot::Mutex;
use sederunt_core::definitions::agent::Tool as Definition;
use sederunt_core::engine::RunningTurn;
use sederunt_core::event::{EventType, NewEvent};
use sederunt_core::json::Json;
use sederunt_core::talk::pause::{self, UnmadeCall};
use sederunt_core::{Error, limits as core_limits};
use serde_json::json;

use super::Conversations;
use super::pipeline::{ApprovalRequest, TurnFailure};
use super::run_turn::TurnListener;
use crate::context::transcript;
use crate::model::{Message, ModelReply, ToolCall, Usage};
use crate::steps::calls::{CallAnswer, CallOutcome, CallRunner, is_about};
use crate::steps::replay::{self, OpenCall};
use crate::steps::reply_events::reply_events;
use crate::steps::{ClaimContext, StepHalt, document_tool, event, worker};
use crate::tool::Toolbox;

/// The tools of one turn, and the claim under which they are called.
pub(super) struct TurnTools<'a> {
    pub toolbox: Toolbox,
    claim: ClaimContext,
    listener: &'a TurnListener<'a>,
}

impl<'a> TurnTools<'a> {
    pub(super) async fn of(
        conversations: &Conversations,
        listener: &'a TurnListener<'a>,
        tools: &[Definition],
    ) -> Result<Self, TurnFailure> {
        let begun = listener.begun;
        let toolbox = conversations.kit.toolbox_of(&conversations.engine, &begun.session, tools).await;
        let mut toolbox = toolbox.map_err(Error::unavailable)?;
        let claim = ClaimContext {
            engine: conversations.engine.clone(),
            actor: Arc::new(worker(begun.tenant().clone(), conversations.hold.credential.clone())),
            session: begun.session.id.clone(),
            life: begun.incarnation(),
            epoch: begun.epoch,
            turn: Some(begun.turn),
            in_flight: Mutex::default(),
        };
        document_tool::offer(&mut toolbox, tools, &claim).map_err(Error::unavailable)?;
        Ok(Self { toolbox, claim, listener })
    }

    /// Logs a reply with calls, after the texts before it. Returns the calls, to be carried out.
    pub(super) async fn note(
        &self,
        step: u64,
        reply: &ModelReply,
        before: Vec<String>,
    ) -> Result<Vec<OpenCall>, TurnFailure> {
        let mut events = Vec::new();
        for text in before {
            let content = Json::of(&json!([{"type": "text", "text": text}]))?;
            events.push(event("agent.message", Json::empty_object(), Some(content)));
        }
        events.extend(reply_events(step, reply)?);
        self.listener.uses_tools();
        let noted = self.claim.append(events).await?;
        self.listener.has_been_kept();
        Ok(OpenCall::of_reply(&reply.calls, &noted))
    }

    /// Handles the calls that the log leaves open. Calls of an earlier turn have an unknown outcome; this turn goes
    /// on where it paused.
    pub(super) async fn take_up(
        &self,
        open: Vec<OpenCall>,
        messages: &mut Vec<Message>,
    ) -> Result<Option<Box<ApprovalRequest>>, TurnFailure> {
        let (own, left): (Vec<OpenCall>, Vec<OpenCall>) =
            open.into_iter().partition(|open| open.turn == self.claim.turn);
        if !left.is_empty() {
            let unknown = left.iter().map(|open| CallAnswer::unknown().events(&open.call, open.begun));
            let unknown = unknown.collect::<Result<Vec<_>, _>>()?;
            self.claim.append(unknown.into_iter().flatten().collect()).await?;
        }
        if !own.is_empty() {
            self.listener.uses_tools();
        }
        self.carry_out(own, messages).await
    }

    /// Makes these calls. `Some`: a person must approve one of them first.
    pub(super) async fn carry_out(
        &self,
        open: Vec<OpenCall>,
        messages: &mut Vec<Message>,
    ) -> Result<Option<Box<ApprovalRequest>>, TurnFailure> {
        let begun = self.listener.begun;
        let calls = CallRunner { claim: &self.claim, tools: &self.toolbox };
        // A decision is about one call, also where a model has given two of them the same id.
        let mut decision = begun.resume.as_ref();
        for (place, one) in open.iter().enumerate() {
            self.listener.stage("respond", Some(one.call.name.clone()));
            let decided = decision.take_if(|resume| is_about(resume, &one.call));
            let came = match calls.take_up(one, decided).await? {
                CallOutcome::NeedsLeave { staged, summary } if pause::can_ask(&begun.session) => {
                    let unmade = open[place..].iter().map(|open| unmade(&open.call)).collect();
                    let (injected, usage) = (Vec::new(), Usage::default());
                    return Ok(Some(Box::new(ApprovalRequest { staged, summary, unmade, injected, usage })));
                }
                CallOutcome::NeedsLeave { .. } => {
                    calls.answer(&one.call, CallAnswer::denied(NO_APPROVER), false).await?
                }
                // A turn declines what a tool asks, so that none waits for input.
                CallOutcome::NeedsInput(_) => {
                    calls.answer(&one.call, CallAnswer::denied(NO_APPROVER), false).await?
                }
                came @ CallOutcome::Answered(_) => came,
            };
            if let CallOutcome::Answered(result) = came {
                messages.push(result);
            }
        }
        Ok(None)
    }
}

const NO_APPROVER: &str = "this conversation has no person who could approve it";

impl From<StepHalt> for TurnFailure {
    fn from(halt: StepHalt) -> Self {
        match halt {
            StepHalt::Refused(error) => Self::Engine(error),
            StepHalt::Stopped => Self::Stopped,
        }
    }
}

impl Conversations {
    /// Results for the calls that a turn which is cut short leaves without one.
    pub(super) async fn close_calls(&self, begun: &RunningTurn) -> Result<Vec<NewEvent>, Error> {
        let log = self.engine.done_before(&begun.session, None, core_limits::TURN_STEPS_READ_MAX).await?;
        let open = replay::read(&log).open.into_iter().filter(|open| open.turn == Some(begun.turn));
        let mut events = Vec::new();
        for open in open {
            let call = unmade(&open.call);
            if open.begun {
                let failed = json!({
                    "invocation_id": call.id, "tool_name": call.name, "outcome": "outcome_unknown",
                });
                let kind = EventType::known("tool.invocation_failed");
                events.push(NewEvent::engine(kind, Some(Json::of(&failed)?)));
                events.push(pause::result_of(&call, ("outcome_unknown", transcript::OUTCOME_UNKNOWN))?);
            } else {
                events.push(pause::result_of(&call, pause::CANCELLED)?);
            }
        }
        Ok(events)
    }
}

fn unmade(call: &ToolCall) -> UnmadeCall {
    UnmadeCall { id: call.id.clone(), name: call.name.clone() }
}
