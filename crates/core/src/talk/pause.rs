//! A turn that waits until somebody agrees to a tool call: how it pauses, how it goes on, how it is given up. All
//! pure.
//!
//! A paused turn is held by nobody. It stays open in the log until whoever goes on with it closes it, or until it is
//! given up: in time nobody answered, or somebody wants something else. Every call of it that was not made gets a
//! result that says so, in the commit that gives it up.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::turn::{self, Hold, Plan};
use super::{Settings, Talk, Tier};
use crate::approval::decide::{Question, ask};
use crate::approval::gate::Verdict;
use crate::approval::{Kind, State};
use crate::error::Result;
use crate::event::{EventType, NewEvent};
use crate::json::Json;
use crate::memory::owner::TurnSpeaker;
use crate::session::decide::{Step, move_to};
use crate::session::status::Authority;
use crate::session::{Session, SourceKind, Status};
use crate::store::{Record, Update};
use crate::time::Timestamp;
use crate::work::decide::check_asked;
use crate::work::run::Run;

/// What is known of a paused turn beside its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The sequence of the message that is answered.
    pub turn: u64,
    #[serde(default, skip_serializing_if = "Tier::is_fast")]
    pub tier: Tier,
    /// The call that somebody is asked about, then those that wait behind it.
    pub calls: Vec<Unmade>,
    /// Who said what is answered: whose memory the turn uses is judged again when it goes on.
    #[serde(default)]
    pub speaker: TurnSpeaker,
    /// Somebody has decided: whoever is free goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decided: bool,
}

/// A call that was asked for and not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmade {
    pub id: String,
    pub name: String,
}

/// What a turn wants leave for.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The call: `{id, name, summary?, args}`.
    pub call: Json,
    /// That call, then those that wait behind it.
    pub unmade: Vec<Unmade>,
    /// What a person reads who is asked.
    pub summary: String,
    pub tier: Tier,
    pub speaker: TurnSpeaker,
    /// What is kept of the turn so far, in order.
    pub events: Vec<NewEvent>,
    pub usage: Option<Json>,
}

/// Why nobody waits for a decision any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// Nobody decided in time.
    TimedOut,
    /// Somebody stopped the turn, or said something else.
    Stopped,
}

impl GivenUp {
    /// How the turn ended, as the log says it.
    const fn outcome(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Stopped => "stopped",
        }
    }

    const fn state(self) -> State {
        match self {
            Self::TimedOut => State::Expired,
            Self::Stopped => State::Cancelled,
        }
    }

    /// The result of the call that was asked about.
    const fn result(self) -> (&'static str, &'static str) {
        match self {
            Self::TimedOut => ("timed_out", "timed_out: nobody agreed to this call in time; it was not made"),
            Self::Stopped => CANCELLED,
        }
    }
}

/// The result of a call that nobody waits for any more.
pub const CANCELLED: (&str, &str) = ("cancelled", "cancelled: this call was not made");

/// Whether anybody is there who could agree to something. Where nobody is, nothing is agreed to.
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

/// A turn stops to ask. Nobody holds the session while it waits.
pub fn pause(
    session: &Session,
    talk: &Talk,
    asking: Asking,
    now: Timestamp,
    settings: &Settings,
) -> Result<Plan> {
    check_asked(Kind::Tool, &asking.call)?;
    let mut run = Run::of(session);
    run.assigned_to = session.head.holder.as_ref().map(ToString::to_string);
    let mut step = move_to(session, Status::AwaitingTool, Authority::ClaimHolder, Some("confirmation"))?;
    let question = Question { kind: Kind::Tool, staged: asking.call, verdict: Verdict::default() };
    let (mut approval, mut event) = ask(&session.id, None, &mut run, question, now)?;
    approval.expires_at = Some(now.plus(settings.confirm_within));
    event.content = Some(text(&asking.summary)?);
    let moved = std::mem::take(&mut step.events);
    step.events = asking.events.into_iter().chain(moved).chain([event]).collect();
    step.records.push(Record::AddApproval(Box::new(approval)));
    step.update.deadline = Some(Some(settings.confirm_within));
    step.update.usage = asking.usage;
    step.update.run = Some(run.to_json()?);
    let turn = session.head.turn.map_or(0, |turn| turn.sequence);
    let Asking { tier, speaker, unmade, .. } = asking;
    let paused = Paused { turn, tier, calls: unmade, speaker, decided: false };
    Ok(Plan { step, talk: Talk { paused: Some(paused), ..talk.clone() } })
}

/// The row beside a session whose question was decided.
pub fn decided(talk: &Talk) -> Talk {
    let mut after = talk.clone();
    if let Some(paused) = &mut after.paused {
        paused.decided = true;
    }
    after
}

/// The paused turn goes on under a new claim. What was decided is handed out once. `None`: it still waits.
pub(super) fn go_on(session: &Session, talk: &Talk, hold: &Hold) -> Result<Option<Plan>> {
    let free = session.head.status == Status::Running && session.head.claim.is_none();
    if !free || !talk.paused.as_ref().is_some_and(|paused| paused.decided) {
        return Ok(None);
    }
    let run = Run { resume: None, ..Run::of(session) };
    let update = Update { claim: Some(hold.take()), run: Some(run.to_json()?), ..Update::default() };
    Ok(Some(Plan { step: Step::of(update), talk: Talk { paused: None, ..talk.clone() } }))
}

/// The paused turn is over, and none of what it asked for is done. `None`: nothing is paused.
pub fn give_up(session: &Session, talk: &Talk, why: GivenUp) -> Result<Option<Plan>> {
    let Some(paused) = &talk.paused else { return Ok(None) };
    let by = if why == GivenUp::TimedOut { Authority::Sweeper } else { Authority::Engine };
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
    Ok(Some(Plan { step, talk: Talk { paused: None, took: Vec::new(), ..talk.clone() } }))
}

/// The result of a call that has none of its own: an outcome, and what a model is told of it.
pub fn result_of(call: &Unmade, (outcome, why): (&str, &str)) -> Result<NewEvent> {
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
