//! Events appended by this node and not yet indexed; they save the indexer a read. It is a shortcut: if events of a
//! session are missing here, the indexer reads the session's log.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use sederunt_core::event::Event;

/// Bytes that are kept at most. More than this comes between two rounds of the indexer only when it is behind anyway.
const BYTES_MAX: usize = 8 << 20;

/// Events of a session that follow each other without a gap.
type EventRun = VecDeque<Arc<Event>>;

#[derive(Debug, Default)]
pub(super) struct UnindexedEvents(Mutex<EventRuns>);

#[derive(Debug, Default)]
struct EventRuns {
    of_session: HashMap<(i32, i64), EventRun>,
    bytes: usize,
}

impl UnindexedEvents {
    /// Keeps committed events. An event that is no message is kept only behind messages, so that the next message
    /// follows without a gap, and at the beginning of a session.
    pub(super) fn put<'a>(&self, events: impl IntoIterator<Item = ((i32, i64), &'a Arc<Event>)>) {
        let mut runs = self.0.lock();
        for (session, event) in events {
            runs.put(session, event);
        }
    }

    /// Takes the events of a session from one sequence to another, if all of them are here.
    pub(super) fn take(&self, session: (i32, i64), low: i64, high: i64) -> Option<Vec<Arc<Event>>> {
        let mut runs = self.0.lock();
        let mut run = runs.take_out(session)?;
        run.drain(..run.partition_point(|event| sequence(event) < low));
        let later = run.split_off(run.partition_point(|event| sequence(event) <= high));
        for event in &later {
            runs.put(session, event);
        }
        let whole = run.front().map(sequence) == Some(low) && run.back().map(sequence) == Some(high);
        whole.then(|| run.into())
    }

    /// Drops the events of sessions that another node has indexed.
    pub(super) fn forget(&self, tk: i32, sks: impl IntoIterator<Item = i64>) {
        let mut runs = self.0.lock();
        for sk in sks {
            runs.take_out((tk, sk));
        }
    }
}

impl EventRuns {
    fn put(&mut self, session: (i32, i64), event: &Arc<Event>) {
        let last = self.of_session.get(&session).and_then(EventRun::back);
        let follows = last.is_some_and(|last| last.sequence + 1 == event.sequence);
        if last.is_some() && !follows {
            self.take_out(session);
        }
        let bytes = bytes(event);
        if self.bytes + bytes > BYTES_MAX {
            self.take_out(session);
        } else if follows || event.kind.is_message() || event.sequence == 1 {
            self.bytes += bytes;
            self.of_session.entry(session).or_default().push_back(event.clone());
        }
    }

    fn take_out(&mut self, session: (i32, i64)) -> Option<EventRun> {
        let run = self.of_session.remove(&session)?;
        self.bytes -= run.iter().map(bytes).sum::<usize>();
        Some(run)
    }
}

fn bytes(event: &Arc<Event>) -> usize {
    size_of::<Event>() + event.bytes()
}

fn sequence(event: &Arc<Event>) -> i64 {
    event.sequence.cast_signed()
}

#[cfg(test)]
mod tests {
    use sederunt_core::event::EventType;
    use sederunt_core::ids::SessionId;
    use sederunt_core::json::Json;
    use sederunt_core::time::Timestamp;

    use super::*;

    const SESSION: (i32, i64) = (1, 7);

    fn event(sequence: u64, kind: &str, content: &str) -> Arc<Event> {
        Arc::new(Event {
            session_id: SessionId::stored("s"),
            sequence,
            kind: EventType::stored(kind),
            content: Some(Json::stored(content)),
            metadata: None,
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            at: Timestamp::default(),
        })
    }

    fn said(unindexed: &UnindexedEvents, sequences: impl IntoIterator<Item = u64>) {
        for sequence in sequences {
            unindexed.put([(SESSION, &event(sequence, "user.message", "[]"))]);
        }
    }

    fn taken(unindexed: &UnindexedEvents, low: i64, high: i64) -> Option<Vec<u64>> {
        Some(unindexed.take(SESSION, low, high)?.iter().map(|event| event.sequence).collect())
    }

    #[test]
    fn what_follows_each_other_is_taken_whole_or_not_at_all() {
        for (put, low, high, expected) in [
            (vec![1, 2, 3], 1, 3, Some(vec![1, 2, 3])),
            (vec![1, 2, 3], 2, 3, Some(vec![2, 3])),
            (vec![1, 2, 3], 1, 2, Some(vec![1, 2])),
            (vec![2, 3], 1, 3, None),
            (vec![1, 2], 1, 3, None),
            (vec![1, 3], 1, 3, None),
            (vec![1, 3, 4], 3, 4, Some(vec![3, 4])),
            (vec![3, 4, 3], 3, 4, None),
            (vec![5, 6], 1, 4, None),
            (vec![], 1, 1, None),
        ] {
            let unindexed = UnindexedEvents::default();
            said(&unindexed, put.clone());
            assert_eq!(taken(&unindexed, low, high), expected, "{put:?} from {low} to {high}");
        }
    }

    #[test]
    fn what_came_later_stays_for_the_next_turn() {
        let unindexed = UnindexedEvents::default();
        said(&unindexed, 1..=5);
        assert_eq!(taken(&unindexed, 1, 3), Some(vec![1, 2, 3]));
        said(&unindexed, 6..=6);
        assert_eq!(taken(&unindexed, 4, 6), Some(vec![4, 5, 6]));
        assert_eq!(taken(&unindexed, 4, 6), None);
    }

    #[test]
    fn what_is_no_message_is_kept_at_the_beginning_and_behind_messages_alone() {
        let unindexed = UnindexedEvents::default();
        let think = |sequence| unindexed.put([(SESSION, &event(sequence, "agent.thinking", "{}"))]);
        think(1);
        think(2);
        assert_eq!(taken(&unindexed, 1, 2), Some(vec![1, 2]));
        think(3);
        assert_eq!(taken(&unindexed, 3, 3), None);
        said(&unindexed, 4..=4);
        think(5);
        said(&unindexed, 6..=6);
        assert_eq!(taken(&unindexed, 4, 6), Some(vec![4, 5, 6]));
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for_and_room_comes_back() {
        let long = "x".repeat(BYTES_MAX / 4);
        let unindexed = UnindexedEvents::default();
        for sequence in 1..=8 {
            unindexed.put([(SESSION, &event(sequence, "user.message", &long))]);
            assert!(unindexed.0.lock().bytes <= BYTES_MAX);
        }
        assert_eq!(taken(&unindexed, 1, 8), None);
        said(&unindexed, 9..=9);
        unindexed.forget(1, [7]);
        assert_eq!(unindexed.0.lock().bytes, 0);
        said(&unindexed, 10..=10);
        assert_eq!(taken(&unindexed, 10, 10), Some(vec![10]));
        assert_eq!(unindexed.0.lock().bytes, 0);
    }
}
