//! How a log grows: from a head, new events and the time to numbered events and the next head.
//! Both stores take this one step, so a sequence, a turn or a preview cannot differ between them.

use std::sync::Arc;

use super::{AppendOutcome, Event, NewEvent, payload};
use crate::ids::SessionId;
use crate::limits;
use crate::session::row::Turn;
use crate::session::{Head, Status};
use crate::time::Timestamp;

/// Numbers the events onto the head. `first_of` finds the sequence of an external id that the log
/// already has; a repeat inside the batch counts too.
pub fn advance(
    session: &SessionId,
    head: &mut Head,
    events: Vec<NewEvent>,
    now: Timestamp,
    mut first_of: impl FnMut(&str) -> Option<u64>,
) -> (Vec<AppendOutcome>, ColdColumns) {
    let mut cold = ColdColumns::default();
    let mut done: Vec<AppendOutcome> = Vec::with_capacity(events.len());
    let at = now.max(head.last_at);
    let preview = |event: &Event| {
        payload::preview_of(event.kind.as_str(), event.content.as_ref()?, limits::PREVIEW_CHARS)
    };
    for event in events {
        if let Some(external) = event.external_event_id.as_deref() {
            let in_batch = done.iter().find_map(|slot| match slot {
                AppendOutcome::New(earlier) if earlier.external_event_id.as_deref() == Some(external) => {
                    Some(earlier.sequence)
                }
                _ => None,
            });
            if let Some(first) = in_batch.or_else(|| first_of(external)) {
                done.push(AppendOutcome::Repeat(first));
                continue;
            }
        }
        let sequence = head.last_sequence + 1;
        head.last_sequence = sequence;
        let turn = turn_of(head, &event, sequence, now);
        let event = Event {
            session_id: session.clone(),
            sequence,
            kind: event.kind,
            content: event.content,
            metadata: event.metadata,
            subthread_id: event.subthread_id,
            external_event_id: event.external_event_id,
            turn,
            author: event.author,
            at,
        };
        if !event.kind.is_of_session() {
            head.bytes += event.bytes() as u64;
        }
        if event.kind.is_message() {
            head.message_count += 1;
            if !head.described {
                cold.description = preview(&event);
                head.described = cold.description.is_some();
            }
        }
        done.push(AppendOutcome::New(Arc::new(event)));
    }
    // Lists show the last message with text; earlier ones of the batch are not read.
    let newest = done.iter().rev().find_map(|slot| match slot {
        AppendOutcome::New(event) if event.kind.is_message() => preview(event),
        _ => None,
    });
    if newest.is_some() {
        head.preview = newest;
    }
    if done.iter().any(|slot| matches!(slot, AppendOutcome::New(_))) {
        if at.minute() != head.last_at.minute() {
            cold.minute = Some(at.minute());
        }
        head.last_at = at;
        if head.deadline_follows_activity() {
            head.deadline_at = Some(now.plus(limits::RESPONSE_DEADLINE));
            cold.deadline_changed = true;
        }
    }
    (done, cold)
}

/// What an append changed beyond the hot columns; rare, so stores write it separately.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ColdColumns {
    /// The minute of activity changed: lists are ordered by it.
    pub minute: Option<i64>,
    /// The first text of a session without a description.
    pub description: Option<Box<str>>,
    pub deadline_changed: bool,
}

/// Whether a turn of talk is under way: it runs, waits for a person, or was decided on and waits for a node to go on
/// with it. A turn whose lease has ended is not under way.
fn in_turn(head: &Head, now: Timestamp) -> bool {
    head.is_talk
        && match (head.status, &head.claim) {
            (Status::AwaitingTool | Status::WaitingHuman, _) => true,
            (Status::Running, None) => !head.is_external,
            (_, Some(claim)) => claim.lease_until > now,
            (_, None) => false,
        }
}

fn turn_of(head: &mut Head, event: &NewEvent, sequence: u64, now: Timestamp) -> Option<u64> {
    match event.kind.as_str() {
        "user.message" => {
            // A message that arrives during a turn of talk gets a turn of its own later.
            if head.turn.is_some() && in_turn(head, now) {
                return Some(sequence);
            }
            head.turn = Some(Turn { sequence, answered: false });
            Some(sequence)
        }
        "agent.message" => {
            let turn = head.turn.as_mut()?;
            if !turn.answered {
                turn.answered = true;
                head.turn_count += 1;
            }
            Some(turn.sequence)
        }
        _ => head.turn.map(|turn| turn.sequence),
    }
}
