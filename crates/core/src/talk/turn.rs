//! What a message does to a conversation: it starts a turn, waits for one, or is only kept. All pure.

use std::time::Duration;

use serde_json::json;

use super::pause::{self, AbandonReason};
use super::sitting::{EndReason, forgotten_between_sittings};
use super::state::{self, StateFields};
use super::{Liveness, QueuedMessage, Settings, Sitting, Talk, Tier, TurnRecords, sitting};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventType, NewEvent};
use crate::ids::{CredentialId, UserId};
use crate::json::Json;
use crate::limits;
use crate::memory::Owner;
use crate::memory::candidate::Buffer;
use crate::memory::owner::{TurnSpeaker, memory_owner};
use crate::session::decide::{SessionStep, move_to};
use crate::session::status::Authority;
use crate::session::{Session, Status};
use crate::store::{ClaimChange, Update};
use crate::time::Timestamp;

/// What to do with a message that comes while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBusy {
    /// It waits for its turn.
    #[default]
    Queue,
    /// It is refused.
    Reject,
    /// The running turn stops, what it has said is kept, and this one is next.
    Interrupt,
    /// The running turn hears it at its next step.
    Steer,
}

impl OnBusy {
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "queue" => Ok(Self::Queue),
            "reject" => Ok(Self::Reject),
            "interrupt" => Ok(Self::Interrupt),
            "steer" => Ok(Self::Steer),
            _ => Err(Error::invalid("on_busy", "must be queue, reject, interrupt or steer")),
        }
    }
}

/// A message that wants an answer.
#[derive(Clone, Debug)]
pub struct IncomingMessage {
    pub event: NewEvent,
    pub on_busy: OnBusy,
    pub tier: Tier,
    pub speaker: TurnSpeaker,
}

/// The node that runs turns here, and its lease.
#[derive(Clone, Debug)]
pub struct TurnHost {
    pub worker: Box<str>,
    pub credential: CredentialId,
    pub lease: Duration,
}

impl TurnHost {
    /// The claim under which a turn runs.
    pub(super) fn take(&self) -> ClaimChange {
        ClaimChange::Take {
            worker: self.worker.clone(),
            credential: self.credential.clone(),
            lease: self.lease,
        }
    }
}

/// A step of a session, with its new talk row.
#[derive(Clone, Debug)]
pub struct TurnPlan {
    pub step: SessionStep,
    pub talk: Talk,
}

impl TurnPlan {
    /// The same step, with which the session becomes this user's.
    #[must_use]
    pub(crate) fn held_by(mut self, holder: Option<UserId>) -> Self {
        if let Some(holder) = holder {
            self.step.update.add_participant = Some(holder.clone());
            self.step.update.holder = Some(holder);
        }
        self
    }
}

/// What a message leads to.
#[derive(Debug)]
pub enum MessagePlan {
    /// Its turn runs now.
    Started(Box<TurnPlan>),
    /// It waits; the caller must see that the queue is worked off.
    Queued(Box<TurnPlan>),
    /// The open sitting must be ended first.
    EndFirst(EndFirst),
}

/// A sitting that must be ended before a turn can start, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndFirst {
    /// The number of the sitting: one that was opened since is not meant.
    pub sitting: u64,
    pub why: EndReason,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub struct TurnOutcome {
    pub kind: TurnOutcomeKind,
    /// The events of the turn, in order.
    pub events: Vec<NewEvent>,
    pub change: StateFields,
    pub buffer: Buffer,
    pub crisis: u8,
    pub records: TurnRecords,
    pub usage: Option<Json>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcomeKind {
    Answered,
    /// A caller asked it to stop; the reply so far is kept.
    Stopped,
    Failed,
}

impl TurnOutcomeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// The state of a conversation.
pub fn liveness(session: &Session, talk: &Talk, now: Timestamp, settings: &Settings) -> Liveness {
    if talk.interrupted || died(session, now) {
        Liveness::Interrupted
    } else if talk.sitting.is_none() {
        Liveness::Absent
    } else if sitting::has_expired(talk, now, settings) && !is_open(session, talk, now) {
        Liveness::Expired
    } else {
        Liveness::Active
    }
}

/// Whether a turn runs and its lease has not ended.
pub fn runs(session: &Session, now: Timestamp) -> bool {
    session.head.claim.as_ref().is_some_and(|claim| claim.lease_until > now)
}

/// Whether a turn is under way: it runs, or waits for a person's approval.
pub fn is_open(session: &Session, talk: &Talk, now: Timestamp) -> bool {
    talk.paused.is_some() || runs(session, now)
}

/// Whether a turn was begun and its lease has ended.
pub fn died(session: &Session, now: Timestamp) -> bool {
    session.head.status == Status::Running && session.head.claim.is_some() && !runs(session, now)
}

/// The open sitting, if no turn on this owner's memory can join it: it has expired, or uses another memory.
fn end_first(talk: &Talk, owner: &Owner, now: Timestamp, settings: &Settings) -> Option<EndFirst> {
    let open = talk.sitting.as_ref()?;
    let why = if sitting::has_expired(talk, now, settings) {
        EndReason::Silence
    } else if open.owner != *owner {
        EndReason::MemoryOwnerChanged
    } else {
        return None;
    };
    Some(EndFirst { sitting: open.number, why })
}

/// Whoever speaks in a conversation becomes a participant: an owner in another user's, and a person who comes through a
/// channel. All other speakers are participants already.
fn join(session: &Session, speaker: &TurnSpeaker, update: &mut Update) {
    if let Some(user) = &speaker.caller
        && session.head.holder.as_ref() != Some(user)
        && !session.participants.contains(user)
    {
        update.add_participant = Some(user.clone());
    }
}

/// Keeps what arrived without a turn. A turn that died before is closed first, so that it does not seem to be this
/// message's. `None`: nothing but the log changes.
/// `changes_talk` says that the row has changed already.
pub fn keep(
    session: &Session,
    talk: &Talk,
    speaker: &TurnSpeaker,
    events: Vec<NewEvent>,
    changes_talk: bool,
    now: Timestamp,
) -> Result<Option<TurnPlan>> {
    check_talk(session)?;
    let mut plan = match died(session, now) {
        true => interrupted(session, talk)?,
        false => TurnPlan { step: SessionStep::of(Update::default()), talk: talk.clone() },
    };
    plan.step.update.inactive = session.head.inactive.then_some(false);
    join(session, speaker, &mut plan.step.update);
    let changes = changes_talk
        || !plan.step.events.is_empty()
        || plan.step.update.inactive.is_some()
        || plan.step.update.add_participant.is_some();
    plan.step.events.extend(events);
    Ok(changes.then_some(plan))
}

/// Takes a message in.
pub fn begin(
    session: &Session,
    talk: &Talk,
    message: IncomingMessage,
    hold: &TurnHost,
    now: Timestamp,
    settings: &Settings,
) -> Result<MessagePlan> {
    check_talk(session)?;
    let head = &session.head;
    let waits = matches!(head.status, Status::WaitingHuman | Status::AwaitingTool);
    let busy = runs(session, now) || waits || (head.status == Status::Running && head.claim.is_none());
    if busy {
        if message.on_busy == OnBusy::Interrupt
            && let Some(plan) = pause::give_up(session, talk, AbandonReason::Stopped)?
        {
            return Ok(MessagePlan::Queued(Box::new(next_of_all(session, plan, message))));
        }
        return queued(session, talk, message).map(|plan| MessagePlan::Queued(Box::new(plan)));
    }
    let owner = memory_owner(session, &message.speaker);
    if let Some(first) = end_first(talk, &owner, now, settings) {
        return Ok(MessagePlan::EndFirst(first));
    }
    let (events, mut after) = closed_if_dead(session, talk, now)?;
    if !after.queue.is_empty() {
        let mut plan = queued(session, &after, IncomingMessage { on_busy: OnBusy::Queue, ..message })?;
        plan.step.events.splice(0..0, events);
        return Ok(MessagePlan::Queued(Box::new(plan)));
    }
    let opening = open_sitting(&mut after, &owner, &message.speaker)?;
    let mut step = start(session, hold)?;
    join(session, &message.speaker, &mut step.update);
    let moved = std::mem::take(&mut step.events);
    step.events = events.into_iter().chain(opening).chain([message.event]).chain(moved).collect();
    Ok(MessagePlan::Started(Box::new(TurnPlan { step, talk: after })))
}

/// Goes on with a turn that was decided on; else starts the turn of the first queued message, if nothing runs.
pub fn next(
    session: &Session,
    talk: &Talk,
    hold: &TurnHost,
    now: Timestamp,
    settings: &Settings,
) -> Result<Option<MessagePlan>> {
    if talk.paused.is_some() {
        return Ok(pause::go_on(session, talk, hold)?.map(|plan| MessagePlan::Started(Box::new(plan))));
    }
    let free = session.head.status == Status::Idle || died(session, now);
    let Some(queued) = talk.queue.first().filter(|_| free) else { return Ok(None) };
    let owner = memory_owner(session, &queued.speaker);
    if let Some(first) = end_first(talk, &owner, now, settings) {
        return Ok(Some(MessagePlan::EndFirst(first)));
    }
    let (events, mut after) = closed_if_dead(session, talk, now)?;
    let sequence = queued.sequence;
    after.queue.remove(0);
    let opening = open_sitting(&mut after, &owner, &queued.speaker)?;
    let mut step = start(session, hold)?;
    join(session, &queued.speaker, &mut step.update);
    step.update.turn = sequence;
    step.events.splice(0..0, events.into_iter().chain(opening));
    Ok(Some(MessagePlan::Started(Box::new(TurnPlan { step, talk: after }))))
}

/// Ends a turn, and with it the claim under which it ran.
pub fn finish(session: &Session, talk: &Talk, outcome: TurnOutcome) -> Result<TurnPlan> {
    let mut talk = talk.clone();
    let turn = session.head.turn.map(|turn| turn.sequence);
    let closing = close(&mut talk, turn, &outcome)?;
    let mut step = move_to(session, Status::Idle, Authority::ClaimHolder, reason_of(outcome.kind))?;
    let moved = std::mem::take(&mut step.events);
    step.events = outcome.events.into_iter().chain([closing]).chain(moved).collect();
    step.records = outcome.records.into_records();
    step.update.usage = outcome.usage;
    Ok(TurnPlan { step, talk })
}

/// Records a whole turn that took place elsewhere, in spoken words.
pub fn record(
    session: &Session,
    talk: &Talk,
    asked: IncomingMessage,
    outcome: TurnOutcome,
    now: Timestamp,
    settings: &Settings,
) -> Result<MessagePlan> {
    check_talk(session)?;
    if session.head.status != Status::Idle && !died(session, now) {
        return Err(Conflict::SessionBusy.into());
    }
    let owner = memory_owner(session, &asked.speaker);
    if let Some(first) = end_first(talk, &owner, now, settings) {
        return Ok(MessagePlan::EndFirst(first));
    }
    let (dead, mut after) = closed_if_dead(session, talk, now)?;
    let opening = open_sitting(&mut after, &owner, &asked.speaker)?;
    if let Some(open) = &mut after.sitting {
        open.buffer.hold(outcome.buffer.candidates.iter().cloned());
    }
    let buffer = after.sitting.as_ref().map_or_else(Buffer::default, |open| open.buffer.clone());
    let outcome = TurnOutcome { buffer, ..outcome };
    let closing = close(&mut after, None, &outcome)?;
    let mut update = match dead.is_empty() {
        true => Update::default(),
        false => interrupted(session, talk)?.step.update,
    };
    update.inactive = session.head.inactive.then_some(false);
    join(session, &asked.speaker, &mut update);
    let events = dead.into_iter().chain(opening).chain([asked.event]).chain(outcome.events).chain([closing]);
    let step = SessionStep {
        events: events.collect(),
        records: outcome.records.into_records(),
        ..SessionStep::of(update)
    };
    Ok(MessagePlan::Started(Box::new(TurnPlan { step, talk: after })))
}

/// Applies a turn's change to the row, and builds the event that closes the turn.
fn close(talk: &mut Talk, turn: Option<u64>, outcome: &TurnOutcome) -> Result<NewEvent> {
    outcome.change.check()?;
    if let Some(open) = &mut talk.sitting {
        open.turns += u64::from(outcome.kind == TurnOutcomeKind::Answered);
        open.crisis_max = open.crisis_max.max(outcome.crisis);
        if outcome.crisis > 0 {
            let spare = (open.crisis_turns.len() + 1).saturating_sub(limits::CRISIS_TURNS_NOTED_MAX);
            open.crisis_turns.drain(..spare);
            open.crisis_turns.extend(turn);
        }
        open.buffer.clone_from(&outcome.buffer);
    }
    let change = outcome.change.clone().with("session_progress", json!({"turn_count": talk.turns + 1}));
    talk.state.apply(&change);
    talk.turns += 1;
    let whole = talk.turns.is_multiple_of(state::WHOLE_EVERY);
    let said = state::StateNote { state: if whole { talk.state.clone() } else { change }, whole };
    closing(turn, &std::mem::take(&mut talk.took), outcome.kind.as_str(), Some(&said))
}

fn check_talk(session: &Session) -> Result<()> {
    if session.head.is_talk {
        return Ok(());
    }
    Err(Error::invalid("session_id", "is no conversation: append events to it instead"))
}

const fn reason_of(kind: TurnOutcomeKind) -> Option<&'static str> {
    match kind {
        TurnOutcomeKind::Answered => None,
        TurnOutcomeKind::Stopped => Some("stopped"),
        TurnOutcomeKind::Failed => Some("failed"),
    }
}

/// Closes a dead turn in the log; the conversation is free again.
pub fn interrupted(session: &Session, talk: &Talk) -> Result<TurnPlan> {
    let mut step = move_to(session, Status::Idle, Authority::Engine, Some("interrupted"))?;
    let turn = session.head.turn.map(|turn| turn.sequence);
    step.events.insert(0, closing(turn, &talk.took, "interrupted", None)?);
    let mut talk = Talk { interrupted: true, took: Vec::new(), ..talk.clone() };
    // The log then holds a turn that changed nothing, so no field describes the turn before it any more.
    talk.state.apply(&StateFields::default());
    Ok(TurnPlan { step, talk })
}

/// The events to write before a new turn, when the last one died.
fn closed_if_dead(session: &Session, talk: &Talk, now: Timestamp) -> Result<(Vec<NewEvent>, Talk)> {
    let (events, after) = match died(session, now) {
        true => {
            let plan = interrupted(session, talk)?;
            (plan.step.events, plan.talk)
        }
        false => (Vec::new(), talk.clone()),
    };
    Ok((events, Talk { interrupted: false, ..after }))
}

/// The claim under which the turn runs, and the status change.
fn start(session: &Session, hold: &TurnHost) -> Result<SessionStep> {
    let mut idle = session.clone();
    if idle.head.status == Status::Running {
        idle.head.status = Status::Idle;
        idle.head.claim = None;
    }
    let mut step = move_to(&idle, Status::Running, Authority::Engine, None)?;
    step.update = Update {
        claim: Some(hold.take()),
        stop_requested: session.head.stop_requested.then_some(false),
        inactive: session.head.inactive.then_some(false),
        ..step.update
    };
    Ok(step)
}

fn queued(session: &Session, talk: &Talk, message: IncomingMessage) -> Result<TurnPlan> {
    if message.on_busy == OnBusy::Reject || talk.queue.len() >= limits::TURN_QUEUE_MAX {
        return Err(Conflict::SessionBusy.into());
    }
    let mut talk = talk.clone();
    // The model of a running turn has seen the memory of its speaker, and its tools have the speaker's rights: only
    // messages on the same memory steer it, and in a group none does.
    let owner = memory_owner(session, &message.speaker);
    let hears = !session.head.is_group && talk.sitting.as_ref().is_none_or(|open| open.owner == owner);
    let waiting = QueuedMessage {
        sequence: None,
        steers: message.on_busy == OnBusy::Steer && hears,
        tier: message.tier,
        speaker: message.speaker,
    };
    let interrupts = message.on_busy == OnBusy::Interrupt && session.head.claim.is_some();
    let place = if interrupts { 0 } else { talk.queue.len() };
    talk.queue.insert(place, waiting);
    let update = Update {
        stop_requested: interrupts.then_some(true),
        inactive: session.head.inactive.then_some(false),
        ..Update::default()
    };
    Ok(TurnPlan { step: SessionStep { events: vec![message.event], ..SessionStep::of(update) }, talk })
}

/// Puts a message first in the queue, in place of the turn that was given up for it.
fn next_of_all(session: &Session, mut plan: TurnPlan, message: IncomingMessage) -> TurnPlan {
    plan.step.events.push(message.event);
    plan.step.update.inactive = session.head.inactive.then_some(false);
    let IncomingMessage { tier, speaker, .. } = message;
    plan.talk.queue.insert(0, QueuedMessage { sequence: None, steers: false, tier, speaker });
    plan
}

/// The first turn opens a sitting.
fn open_sitting(talk: &mut Talk, owner: &Owner, speaker: &TurnSpeaker) -> Result<Option<NewEvent>> {
    if talk.sitting.is_some() {
        return Ok(None);
    }
    talk.sittings += 1;
    talk.sitting = Some(Sitting {
        number: talk.sittings,
        opened_at: None,
        active_at: None,
        first: None,
        turns: 0,
        owner: owner.clone(),
        user: owner.user_id().map(|user| user.to_string()),
        opened_by: speaker.user.as_ref().map(ToString::to_string),
        crisis_max: 0,
        crisis_turns: Vec::new(),
        rated: false,
        buffer: Buffer::default(),
    });
    let between = std::mem::take(&mut talk.found_between);
    if let Some(open) = &mut talk.sitting {
        open.buffer.hold(between);
    }
    let change = forgotten_between_sittings();
    talk.state.touch(&change);
    let metadata = Json::of(&json!({"sitting": talk.sittings, "state": change}))?;
    Ok(Some(NewEvent::engine(EventType::known("session.sitting_started"), Some(metadata))))
}

/// The event that closes a turn and says what it changed, and which messages it took up beside its own.
pub(super) fn closing(
    turn: Option<u64>,
    took: &[u64],
    outcome: &str,
    said: Option<&state::StateNote>,
) -> Result<NewEvent> {
    let mut metadata = json!({"turn": turn, "outcome": outcome});
    if !took.is_empty() {
        metadata["took"] = json!(took);
    }
    if let Some(said) = said
        && let serde_json::Value::Object(said) = serde_json::to_value(said).map_err(Error::internal)?
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.extend(said);
    }
    Ok(NewEvent::engine(EventType::known("session.turn"), Some(Json::of(&metadata)?)))
}

#[cfg(test)]
pub(super) mod tests;
