//! How a sitting ends: by request, by silence, or discarded. All pure.

use serde_json::{Value, json};

use super::turn::{self, TurnPlan};
use super::{EndedSitting, Settings, Sitting, StateFields, Talk};
use crate::error::{Conflict, Result};
use crate::event::{Event, EventType, NewEvent};
use crate::json::Json;
use crate::memory::summary::Summary;
use crate::safety::{self, Level};
use crate::session::Session;
use crate::session::decide::SessionStep;
use crate::store::{Record, Update};
use crate::time::Timestamp;

/// Why a sitting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// A caller asked for it.
    Asked,
    /// No message for too long.
    Silence,
    /// The process went down.
    Shutdown,
    /// A caller wants nothing of it kept.
    Discarded,
    /// The next turn uses another memory, or a person joins who must not hear this one.
    MemoryOwnerChanged,
}

impl EndReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Silence => "silence",
            Self::Shutdown => "shutdown",
            Self::Discarded => "discarded",
            Self::MemoryOwnerChanged => "memory_owner_changed",
        }
    }
}

/// Whether the open sitting has been silent for too long.
pub fn has_expired(talk: &Talk, now: Timestamp, settings: &Settings) -> bool {
    talk.active_at().is_some_and(|active| active.plus(settings.idle_after) <= now)
}

/// State that does not outlive a sitting: guidance in progress, and a deletion that waits for a yes. The yes of a
/// later sitting may be another person's, or mean another memory.
pub(super) fn forgotten_between_sittings() -> StateFields {
    let gone = Value::Null;
    StateFields::default().with("exercise_state", gone.clone()).with("memory_control", gone)
}

/// The field `session_memory` of the state, from the summary of a stretch of talk.
pub fn session_memory(told: &Summary) -> Value {
    json!({
        "summary": told.summary,
        "active_concerns": told.themes,
        "open_loops": told.open_loops,
    })
}

/// The messages of a sitting that its summary and memories may use. Messages with a crisis level and the answers to them
/// are left out; each message is checked against the lexicon again, because spoken turns are recorded without noting
/// their sequence. If the sitting uses one person's memory, messages of others that wait for their own turn are left out
/// as well.
pub fn summarisable(open: &Sitting, said: Vec<Event>, safety: &safety::Settings) -> Vec<Event> {
    let person = open.owner.user_id();
    let is_theirs = |event: &Event| match (&person, event.author.as_deref()) {
        (Some(person), Some(author)) => author == person.as_str(),
        _ => true,
    };
    let is_grave = |event: &Event| {
        open.crisis_turns.contains(&event.sequence)
            || event.text().is_some_and(|text| safety::check(&text, safety, None).level > Level::Calm)
    };
    let said: Vec<Event> = said.into_iter().filter(is_theirs).collect();
    let grave: Vec<u64> = said
        .iter()
        .filter(|event| event.kind.as_str() == "user.message" && is_grave(event))
        .map(|event| event.sequence)
        .collect();
    let is_of_one = |event: &Event| {
        grave.contains(&event.sequence) || event.turn.is_some_and(|turn| grave.contains(&turn))
    };
    said.into_iter().filter(|event| !is_of_one(event)).collect()
}

/// Closes the open sitting, with the records made from it. `None` when there is none.
pub fn end(
    session: &Session,
    talk: &Talk,
    why: EndReason,
    arc: Option<&str>,
    summary: Option<&Summary>,
    records: Vec<Record>,
    now: Timestamp,
) -> Result<Option<TurnPlan>> {
    let Some(open) = &talk.sitting else { return Ok(None) };
    if turn::is_open(session, talk, now) {
        return Err(Conflict::SessionBusy.into());
    }
    let discarded = why == EndReason::Discarded;
    let mut change = forgotten_between_sittings();
    if let Some(told) = summary.filter(|_| !discarded) {
        change = change.with("session_memory", session_memory(told));
    } else if (discarded || open.buffer.emptied) && talk.looked_back_to >= talk.undecided_from() {
        // What looking back wrote of this sitting is not to be kept either.
        change = change.with("session_memory", Value::Null);
    }
    let mut after = talk.clone();
    after.sitting = None;
    after.ended = Some(EndedSitting {
        number: open.number,
        turns: open.turns,
        user: open.user.clone(),
        opened_by: open.opened_by.clone(),
        rated: open.rated,
        last: session.head.last_sequence,
        discarded,
    });
    after.state.touch(&change);
    let metadata = Json::of(&json!({
        "sitting": open.number,
        "reason": why.as_str(),
        "turn_count": open.turns,
        "arc_id": arc,
        "state": change,
    }))?;
    let event = NewEvent::engine(EventType::known("session.sitting_ended"), Some(metadata));
    let records = if discarded { Vec::new() } else { records };
    let step = SessionStep { events: vec![event], records, ..SessionStep::of(Update::default()) };
    Ok(Some(TurnPlan { step, talk: after }))
}
