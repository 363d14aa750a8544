//! What a sitting leaves in the memory when it ends: its arc, and the candidates that were said often enough. Pure; the
//! engine loads the memories to compare with.

use super::promote::{self, Promotion, ReviewedTurn};
use super::summary::{SittingFacts, Summary};
use super::{Memory, MemoryBody, derived_id};
use crate::event::Event;
use crate::session::Session;
use crate::talk::Sitting;
use crate::time::Timestamp;

/// The messages of a sitting from which its memories are made, and their summary.
#[derive(Clone, Copy, Debug)]
pub struct SittingContent<'a> {
    pub said: &'a [Event],
    /// `None`: too short to summarise.
    pub summary: Option<&'a Summary>,
}

/// The user's messages, by their sequence.
pub(crate) fn user_messages(said: &[Event]) -> Vec<(u64, String)> {
    said.iter()
        .filter(|event| event.kind.as_str() == "user.message")
        .filter_map(|event| Some((event.sequence, event.text()?)))
        .collect()
}

/// The same messages as evidence for candidates.
pub(crate) fn evidence_turns(messages: &[(u64, String)]) -> Vec<ReviewedTurn<'_>> {
    messages.iter().map(|(sequence, text)| ReviewedTurn { sequence: *sequence, text }).collect()
}

/// The arc of a sitting. Its id follows from the sitting, so that a second attempt writes the same memory.
pub(crate) fn arc_of(
    session: &Session,
    open: &Sitting,
    summary: Summary,
    messages: &[(u64, String)],
    promoted: &Promotion,
    now: Timestamp,
) -> Memory {
    let incarnation = session.head.incarnation.0.to_string();
    let frame = SittingFacts {
        session: session.id.to_string(),
        started_at: open.opened_at.unwrap_or(now),
        ended_at: open.active_at.unwrap_or(now),
        turn_count: u32::try_from(open.turns).unwrap_or(u32::MAX),
        approach: open.buffer.main_approach().map(str::to_owned),
        crisis_level_max: open.crisis_max,
        mentioned: promote::unkept(&open.buffer, promoted),
        sequences: messages.iter().map(|(sequence, _)| *sequence).collect(),
    };
    Memory {
        id: derived_id(&["arc", &incarnation, &open.number.to_string()]),
        owner: open.owner.clone(),
        body: MemoryBody::Arc(summary.into_arc(frame)),
        created_at: now,
        last_referenced_at: now,
        dormant_at: None,
    }
}
