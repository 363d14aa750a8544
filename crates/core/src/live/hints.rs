//! Hints about a tenant's sessions: what changed, never what it says. At least once; a cursor that
//! this process cannot honour is answered by a reset, and the client reads its lists again.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::ids::{SessionId, TenantId, random_hex};
use crate::limits;
use crate::session::Status;
use crate::store::Notice;

/// Something about this session changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub tenant: TenantId,
    pub session: SessionId,
    pub status: Status,
    pub last_sequence: u64,
    pub row_changed: bool,
    pub deleted: bool,
}

impl Hint {
    pub fn of(notice: &Notice) -> Self {
        Self {
            tenant: notice.tenant.clone(),
            session: notice.session.clone(),
            status: notice.status,
            last_sequence: notice.last_sequence,
            row_changed: notice.row_changed,
            deleted: notice.deleted,
        }
    }
}

#[derive(Debug)]
pub(super) struct Channel {
    /// Names this ring, so that a cursor of another process is known to be foreign.
    name: String,
    ring: Mutex<Ring>,
    wake: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Number of the last hint.
    last: u64,
    /// Numbers up to here cannot be resumed from.
    lost: u64,
    hints: VecDeque<Hint>,
}

impl Default for Channel {
    fn default() -> Self {
        Self { name: random_hex::<6>(), ring: Mutex::default(), wake: watch::Sender::new(0) }
    }
}

impl Channel {
    pub(super) fn publish(&self, hint: Hint) {
        {
            let mut ring = self.ring.lock();
            ring.last += 1;
            ring.hints.push_back(hint);
            if ring.hints.len() > limits::HINT_RING_MAX {
                ring.hints.pop_front();
            }
        }
        self.wake.send_modify(|count| *count += 1);
    }

    pub(super) fn reset(&self) {
        {
            let mut ring = self.ring.lock();
            ring.last += 1;
            ring.lost = ring.last;
            ring.hints.clear();
        }
        self.wake.send_modify(|count| *count += 1);
    }
}

/// What a hint stream sends next.
#[derive(Debug, PartialEq, Eq)]
pub enum Batch {
    /// Changed sessions, each named once with its newest state, and the cursor behind them.
    Hints(Vec<Hint>, String),
    /// Something was missed: read the lists again, then go on from this cursor.
    Reset(String),
}

/// One listener of a tenant's hints.
#[derive(Debug)]
pub struct HintReader {
    channel: Arc<Channel>,
    wake: watch::Receiver<u64>,
    cursor: u64,
    reset: bool,
}

impl HintReader {
    pub(super) fn new(channel: Arc<Channel>, cursor: Option<&str>) -> Self {
        let wake = channel.wake.subscribe();
        let last = channel.ring.lock().last;
        let resumed = cursor.map(|text| {
            text.split_once('.')
                .filter(|(name, _)| *name == channel.name)
                .and_then(|(_, number)| number.parse().ok())
                .filter(|number: &u64| *number <= last)
        });
        let (cursor, reset) = match resumed {
            None => (last, false),
            Some(Some(number)) => (number, false),
            Some(None) => (last, true),
        };
        Self { channel, wake, cursor, reset }
    }

    /// The hints after the cursor, if any.
    pub fn take(&mut self) -> Option<Batch> {
        self.wake.borrow_and_update();
        let ring = self.channel.ring.lock();
        let name = |number: u64| format!("{}.{number}", self.channel.name);
        let first = ring.last - ring.hints.len() as u64;
        if self.reset || self.cursor < ring.lost || self.cursor < first {
            self.reset = false;
            self.cursor = ring.last;
            return Some(Batch::Reset(name(ring.last)));
        }
        if self.cursor == ring.last {
            return None;
        }
        let skip = usize::try_from(self.cursor - first).unwrap_or(usize::MAX);
        let mut named = HashSet::new();
        let mut hints: Vec<Hint> =
            ring.hints.iter().skip(skip).rev().filter(|hint| named.insert(&hint.session)).cloned().collect();
        hints.reverse();
        self.cursor = ring.last;
        Some(Batch::Hints(hints, name(ring.last)))
    }

    /// Waits until there may be a hint.
    pub async fn wait(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(session: &str, last_sequence: u64) -> Hint {
        Hint {
            tenant: TenantId::stored("t"),
            session: SessionId::stored(session),
            status: Status::Idle,
            last_sequence,
            row_changed: false,
            deleted: false,
        }
    }

    #[test]
    fn hints_are_folded_to_the_newest_of_each_session() {
        let channel = Arc::new(Channel::default());
        let mut reader = HintReader::new(channel.clone(), None);
        for n in 1..=3 {
            channel.publish(hint("a", n));
        }
        channel.publish(hint("b", 1));
        let Some(Batch::Hints(hints, cursor)) = reader.take() else { panic!() };
        assert_eq!(hints, [hint("a", 3), hint("b", 1)]);
        channel.publish(hint("c", 1));
        let mut resumed = HintReader::new(channel, Some(&cursor));
        assert!(matches!(resumed.take(), Some(Batch::Hints(hints, _)) if hints == [hint("c", 1)]));
    }

    #[test]
    fn a_foreign_or_overrun_cursor_is_reset() {
        let channel = Arc::new(Channel::default());
        assert!(matches!(HintReader::new(channel.clone(), Some("other.1")).take(), Some(Batch::Reset(_))));
        let mut slow = HintReader::new(channel.clone(), None);
        for n in 0..=limits::HINT_RING_MAX as u64 {
            channel.publish(hint("a", n));
        }
        assert!(matches!(slow.take(), Some(Batch::Reset(_))));
        assert_eq!(slow.take(), None);
    }
}
