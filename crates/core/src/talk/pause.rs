//! A turn that waits for a person to approve a tool call: how it pauses, goes on, or is given up. All pure.
//!
//! No node holds a paused turn. It stays open in the log until a node goes on with it and closes it, or until it is
//! given up: the time to decide has passed, or a person wants something else. Every call of it that was not made gets
//! a result that says so, in the commit that gives it up.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::turn::{self, TurnHost, TurnPlan};
use super::{Settings, Talk, Tier};
use crate::approval::decide::{ApprovalQuestion, ask};
use crate::approval::safety_gate::GateVerdict;
use crate::approval::{ApprovalKind, ApprovalState};
use crate::error::Result;
use crate::event::{EventType, NewEvent};
use crate::ids::IdSource;
use crate::json::Json;
use crate::memory::owner::TurnSpeaker;
use crate::session::decide::{SessionStep, move_to};
use crate::session::status::Authority;
use crate::session::{Session, SourceKind, Status};
use crate::store::{Record, Update};
use crate::time::Timestamp;
use crate::work::decide::check_asked;
use crate::work::run::Run;

/// A paused turn, beside its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedTurn {
    /// The sequence of the message that is answered.
    pub turn: u64,
    #[serde(default, skip_serializing_if = "Tier::is_fast")]
    pub tier: Tier,
    /// The call that needs approval, then those that wait behind it.
    pub calls: Vec<UnmadeCall>,
    /// Who said the message. Whose memory the turn uses is decided again when it goes on.
    #[serde(default)]
    pub speaker: TurnSpeaker,
    /// The approval is decided: any node may go on with the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decided: bool,
}

/// A tool call that was requested and not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmadeCall {
    pub id: String,
    pub name: String,
}

/// What a turn needs approval for.
#[derive(Clone, Debug)]
pub struct TurnApproval {
    /// The call: `{id, name, summary?, args}`.
    pub call: Json,
    /// That call, then those that wait behind it.
    pub unmade: Vec<UnmadeCall>,
    /// The text for the person who is asked.
    pub summary: String,
    pub tier: Tier,
    pub speaker: TurnSpeaker,
    /// The events of the turn so far, in order.
    pub events: Vec<NewEvent>,
    pub usage: Option<Json>,
}

/// Why a paused turn is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonReason {
    /// The decision did not come in time.
    TimedOut,
    /// A person stopped the turn, or sent another message.
    Stopped,
}

impl AbandonReason {
    /// How the turn ended, as the log says it.
    const fn outcome(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Stopped => "stopped",
        }
    }

    const fn state(self) -> ApprovalState {
        match self {
            Self::TimedOut => ApprovalState::Expired,
            Self::Stopped => ApprovalState::Cancelled,
        }
    }

    /// The result of the call that needed approval.
    const fn result(self) -> (&'static str, &'static str) {
        match self {
            Self::TimedOut => ("timed_out", "timed_out: nobody agreed to this call in time; it was not made"),
            Self::Stopped => CANCELLED,
        }
    }
}

/// The result of a call that was given up.
pub const CANCELLED: (&str, &str) = ("cancelled", "cancelled: this call was not made");

/// Whether a person can be asked. Where none can, nothing is approved.
pub fn can_ask(session: &Session) -> bool {
    match session.details.source.kind {
        SourceKind::Schedule => false,
        SourceKind::Channel => session.head.holder.is_some(),
        SourceKind::Cli
        | SourceKind::Api
        | SourceKind::Web
        | SourceKind::Task
        | SourceKind::HumanSessionBridge => true,
    }
}

/// Pauses a turn to ask. No node holds the session while it waits.
pub fn pause(
    session: &Session,
    talk: &Talk,
    asking: TurnApproval,
    now: Timestamp,
    settings: &Settings,
    ids: &dyn IdSource,
) -> Result<TurnPlan> {
    check_asked(ApprovalKind::Tool, &asking.call)?;
    let mut run = Run::of(session);
    run.assigned_to = session.head.holder.as_ref().map(ToString::to_string);
    let mut step = move_to(session, Status::AwaitingTool, Authority::ClaimHolder, Some("confirmation"))?;
    let question =
        ApprovalQuestion { kind: ApprovalKind::Tool, staged: asking.call, verdict: GateVerdict::default() };
    let (mut approval, mut event) = ask(&session.id, None, &mut run, question, now, ids)?;
    approval.expires_at = Some(now.plus(settings.confirm_within));
    event.content = Some(text(&asking.summary)?);
    let moved = std::mem::take(&mut step.events);
    step.events = asking.events.into_iter().chain(moved).chain([event]).collect();
    step.records.push(Record::AddApproval(Box::new(approval)));
    step.update.deadline = Some(Some(settings.confirm_within));
    step.update.usage = asking.usage;
    step.update.run = Some(run.to_json()?);
    let turn = session.head.turn.map_or(0, |turn| turn.sequence);
    let TurnApproval { tier, speaker, unmade, .. } = asking;
    let paused = PausedTurn { turn, tier, calls: unmade, speaker, decided: false };
    Ok(TurnPlan { step, talk: Talk { paused: Some(paused), ..talk.clone() } })
}

/// The talk row after its approval was decided.
pub fn decided(talk: &Talk) -> Talk {
    let mut after = talk.clone();
    if let Some(paused) = &mut after.paused {
        paused.decided = true;
    }
    after
}

/// The paused turn goes on under a new claim. The decision is handed out once. `None`: it still waits.
pub(super) fn go_on(session: &Session, talk: &Talk, hold: &TurnHost) -> Result<Option<TurnPlan>> {
    let free = session.head.status == Status::Running && session.head.claim.is_none();
    if !free || !talk.paused.as_ref().is_some_and(|paused| paused.decided) {
        return Ok(None);
    }
    let run = Run { resume: None, ..Run::of(session) };
    let update = Update { claim: Some(hold.take()), run: Some(run.to_json()?), ..Update::default() };
    Ok(Some(TurnPlan { step: SessionStep::of(update), talk: Talk { paused: None, ..talk.clone() } }))
}

/// Gives up the paused turn: none of its calls is made. `None`: nothing is paused.
pub fn give_up(session: &Session, talk: &Talk, why: AbandonReason) -> Result<Option<TurnPlan>> {
    let Some(paused) = &talk.paused else { return Ok(None) };
    let by = if why == AbandonReason::TimedOut { Authority::Sweeper } else { Authority::Engine };
    let mut step = move_to(session, Status::Idle, by, Some(why.outcome()))?;
    for record in &mut step.records {
        if let Record::CloseApproval { state, .. } = record {
            *state = why.state();
        }
    }
    let run = Run { approval_id: None, resume: None, ..Run::of(session) };
    step.update.run = Some(run.to_json()?);
    let mut events = Vec::with_capacity(paused.calls.len() + 2);
    for (place, call) in paused.calls.iter().enumerate() {
        events.push(result_of(call, if place == 0 { why.result() } else { CANCELLED })?);
    }
    events.push(turn::closing(Some(paused.turn), &talk.took, why.outcome(), None)?);
    step.events.splice(0..0, events);
    Ok(Some(TurnPlan { step, talk: Talk { paused: None, took: Vec::new(), ..talk.clone() } }))
}

/// The result of a call that was not made: an outcome, and the text for the model.
pub fn result_of(call: &UnmadeCall, (outcome, why): (&str, &str)) -> Result<NewEvent> {
    let metadata =
        json!({"tool_call_id": call.id, "tool_name": call.name, "is_error": true, "outcome": outcome});
    let event = NewEvent::engine(EventType::known("agent.tool_result"), Some(Json::of(&metadata)?));
    Ok(NewEvent { content: Some(text(why)?), ..event })
}

fn text(text: &str) -> Result<Json> {
    Json::of(&json!([{"type": "text", "text": text}]))
}

#[cfg(test)]
mod tests;
