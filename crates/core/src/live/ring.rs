//! The ring of one log: the newest frames and a high-water mark. A reader is only a cursor.
//!
//! The ring takes only the event after its last one. On a hole (another node's event that this
//! process has not seen) it empties and raises the mark, and readers go to the store. So a frame
//! that is lost here is never lost to a reader.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::bell::Bell;
use super::{Hub, reply};
use crate::event::Event;
use crate::ids::Incarnation;
use crate::limits;

/// An event on its way to readers, encoded once for all of them.
#[derive(Debug)]
pub struct EventFrame {
    pub event: Arc<Event>,
    wire: OnceLock<Bytes>,
}

impl EventFrame {
    pub fn new(event: Arc<Event>) -> Arc<Self> {
        Arc::new(Self { event, wire: OnceLock::new() })
    }

    /// The encoded form; the first reader that needs it encodes it.
    pub fn wire(&self, encode: impl FnOnce(&Event) -> Bytes) -> Bytes {
        self.wire.get_or_init(|| encode(&self.event)).clone()
    }
}

/// One log that has listeners.
#[derive(Debug)]
pub struct LogChannel {
    ring: Mutex<EventRing>,
    bell: Bell,
}

#[derive(Debug, Default)]
struct EventRing {
    /// The sequence before the first frame.
    base: u64,
    /// The highest sequence known to exist.
    mark: u64,
    frames: VecDeque<Arc<EventFrame>>,
    bytes: usize,
    /// Nothing has been published here yet: the mark says nothing.
    fresh: bool,
    /// Notifications may have been lost since a reader last looked at the store.
    doubts: u64,
    deleted: bool,
}

impl Default for LogChannel {
    fn default() -> Self {
        Self { ring: Mutex::new(EventRing { fresh: true, ..EventRing::default() }), bell: Bell::default() }
    }
}

impl LogChannel {
    pub(super) fn publish(&self, events: &[Arc<Event>], last_sequence: u64) {
        {
            let mut ring = self.ring.lock();
            for event in events {
                ring.push(event);
            }
            ring.raise(last_sequence);
        }
        self.tell();
    }

    pub(super) fn raise(&self, last_sequence: u64) {
        self.ring.lock().raise(last_sequence);
        self.tell();
    }

    /// Wakes the readers.
    pub(super) fn tell(&self) {
        self.bell.ring();
    }

    pub(super) fn doubt(&self) {
        self.ring.lock().doubts += 1;
        self.bell.ring_now();
    }

    pub(super) fn delete(&self) {
        self.ring.lock().deleted = true;
        self.bell.ring_now();
    }

    pub(super) fn mark(&self) -> u64 {
        self.ring.lock().mark
    }

    pub(super) fn readers(&self) -> usize {
        self.bell.listeners()
    }
}

impl EventRing {
    fn push(&mut self, event: &Arc<Event>) {
        if self.fresh {
            self.fresh = false;
            self.base = event.sequence - 1;
            self.mark = self.base;
        }
        if event.sequence <= self.mark {
            return;
        }
        if event.sequence > self.mark + 1 {
            self.clear(event.sequence - 1);
        }
        self.mark = event.sequence;
        self.bytes += event.bytes();
        self.frames.push_back(EventFrame::new(event.clone()));
        while self.frames.len() > limits::RING_FRAMES_MAX
            || (self.bytes > limits::RING_BYTES_MAX && self.frames.len() > 1)
        {
            if let Some(old) = self.frames.pop_front() {
                self.bytes -= old.event.bytes();
                self.base = old.event.sequence;
            }
        }
    }

    fn raise(&mut self, last_sequence: u64) {
        if self.fresh || last_sequence > self.mark {
            self.fresh = false;
            self.clear(last_sequence);
        }
    }

    fn clear(&mut self, upto: u64) {
        self.frames.clear();
        self.bytes = 0;
        self.base = upto;
        self.mark = upto;
    }
}

/// As many frames as a reader may hold at once, and at least one.
fn page<'a>(frames: impl Iterator<Item = &'a Arc<EventFrame>>) -> Vec<Arc<EventFrame>> {
    let mut bytes = 0;
    let fits = |frame: &&Arc<EventFrame>| {
        let first = bytes == 0;
        bytes += frame.event.bytes().max(1);
        first || bytes <= limits::STREAM_PAGE_BYTES_MAX
    };
    frames.take_while(fits).cloned().collect()
}

/// What a reader should do next.
#[derive(Debug)]
pub enum ReaderStep {
    /// The events after the cursor, in order, without a gap.
    Frames(Vec<Arc<EventFrame>>),
    /// The ring does not reach back to the cursor: read the store.
    ReadStore,
    /// More of the unfinished reply.
    Reply(reply::ReplyPiece),
    /// Nothing new: wait.
    Wait,
    /// The session is gone.
    Deleted,
}

/// One listener of one log.
#[derive(Debug)]
pub struct LogReader {
    hub: Arc<Hub>,
    incarnation: Incarnation,
    channel: Option<Arc<LogChannel>>,
    wake: watch::Receiver<u64>,
    cursor: u64,
    doubts_seen: u64,
    /// The store has been read to its end once: from here the ring can be trusted.
    caught_up: bool,
    reply_seen: reply::ReplyPosition,
}

impl LogReader {
    pub(super) fn new(
        hub: Arc<Hub>,
        incarnation: Incarnation,
        channel: Arc<LogChannel>,
        cursor: u64,
    ) -> Self {
        let wake = channel.bell.listen();
        let doubts_seen = channel.ring.lock().doubts;
        Self {
            hub,
            incarnation,
            channel: Some(channel),
            wake,
            cursor,
            doubts_seen,
            caught_up: false,
            reply_seen: reply::ReplyPosition::default(),
        }
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The next step of the reader; moves the cursor past the frames that it returns.
    pub fn look(&mut self) -> ReaderStep {
        self.wake.borrow_and_update();
        let Some(channel) = &self.channel else { return ReaderStep::Deleted };
        {
            let ring = channel.ring.lock();
            if ring.deleted {
                return ReaderStep::Deleted;
            }
            if !self.caught_up || ring.doubts > self.doubts_seen {
                self.doubts_seen = ring.doubts;
                return ReaderStep::ReadStore;
            }
            if !ring.fresh && self.cursor < ring.mark {
                if self.cursor < ring.base {
                    return ReaderStep::ReadStore;
                }
                let skip = usize::try_from(self.cursor - ring.base).unwrap_or(usize::MAX);
                let frames = page(ring.frames.iter().skip(skip));
                self.cursor = frames.last().map_or(ring.mark, |frame| frame.event.sequence);
                return ReaderStep::Frames(frames);
            }
        }
        self.hub
            .reply_since(self.incarnation, &mut self.reply_seen)
            .map_or(ReaderStep::Wait, ReaderStep::Reply)
    }

    /// Reports what was read from the store: the new cursor, and whether the store was read to its end.
    pub fn read_to(&mut self, cursor: u64, at_end: bool) {
        self.cursor = self.cursor.max(cursor);
        self.caught_up |= at_end;
    }

    /// Waits until there may be something new.
    pub async fn wait(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.hub.unlisten(self.incarnation, &channel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;
    use crate::ids::SessionId;
    use crate::time::Timestamp;

    fn event(sequence: u64) -> Arc<Event> {
        Arc::new(Event {
            session_id: SessionId::stored("s"),
            sequence,
            kind: EventType::known("external.event"),
            content: None,
            metadata: None,
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            at: Timestamp::from_micros(0),
        })
    }

    fn caught_up(hub: &Arc<Hub>, at: u64) -> LogReader {
        let mut reader = hub.listen(Incarnation(uuid::Uuid::nil()), at);
        assert!(matches!(reader.look(), ReaderStep::ReadStore));
        reader.read_to(at, true);
        reader
    }

    fn publish(hub: &Hub, sequences: std::ops::RangeInclusive<u64>) {
        let events: Vec<_> = sequences.clone().map(event).collect();
        hub.logs.get(&Incarnation(uuid::Uuid::nil())).unwrap().publish(&events, *sequences.end());
    }

    fn sequences(next: ReaderStep) -> Vec<u64> {
        match next {
            ReaderStep::Frames(frames) => frames.iter().map(|frame| frame.event.sequence).collect(),
            other => panic!("expected frames, got {other:?}"),
        }
    }

    #[test]
    fn frames_above_the_cursor_are_handed_out_once() {
        let hub = Arc::new(Hub::default());
        let mut reader = caught_up(&hub, 3);
        publish(&hub, 4..=5);
        publish(&hub, 6..=6);
        assert_eq!(sequences(reader.look()), [4, 5, 6]);
        assert!(matches!(reader.look(), ReaderStep::Wait));
    }

    #[test]
    fn a_hole_sends_readers_to_the_store() {
        let hub = Arc::new(Hub::default());
        let mut reader = caught_up(&hub, 3);
        publish(&hub, 4..=4);
        publish(&hub, 6..=6);
        assert!(matches!(reader.look(), ReaderStep::ReadStore));
        reader.read_to(6, true);
        publish(&hub, 5..=5);
        assert!(matches!(reader.look(), ReaderStep::Wait), "a late event below the mark is not sent again");
        publish(&hub, 7..=7);
        assert_eq!(sequences(reader.look()), [7]);
    }

    #[test]
    fn a_reader_behind_the_ring_reads_the_store() {
        let hub = Arc::new(Hub::default());
        let mut reader = caught_up(&hub, 0);
        publish(&hub, 1..=limits::RING_FRAMES_MAX as u64 + 1);
        assert!(matches!(reader.look(), ReaderStep::ReadStore));
        reader.read_to(1, false);
        assert_eq!(sequences(reader.look()).len(), limits::RING_FRAMES_MAX);
    }

    #[test]
    fn a_raised_mark_or_a_doubt_sends_readers_to_the_store() {
        let hub = Arc::new(Hub::default());
        let mut reader = caught_up(&hub, 2);
        hub.logs.get(&Incarnation(uuid::Uuid::nil())).unwrap().raise(9);
        assert!(matches!(reader.look(), ReaderStep::ReadStore));
        reader.read_to(9, true);
        assert!(matches!(reader.look(), ReaderStep::Wait));
        hub.wake_all();
        assert!(matches!(reader.look(), ReaderStep::ReadStore));
    }

    #[tokio::test]
    async fn a_crowd_is_told_at_once_and_then_in_intervals() {
        let hub = Arc::new(Hub::default());
        let mut readers: Vec<_> = (0..limits::CROWD_READERS).map(|_| caught_up(&hub, 0)).collect();
        let first = &mut readers[0];
        first.look();
        let start = std::time::Instant::now();
        publish(&hub, 1..=1);
        assert!(first.wake.has_changed().unwrap(), "who has heard nothing for long is told at once");
        assert_eq!(sequences(first.look()), [1]);
        for next in 2..=4 {
            publish(&hub, next..=next);
        }
        if start.elapsed() < limits::CROWD_INTERVAL {
            assert!(!first.wake.has_changed().unwrap());
        }
        first.wait().await;
        assert_eq!(sequences(first.look()), [2, 3, 4]);
        readers.truncate(1);
        publish(&hub, 5..=5);
        assert!(readers[0].wake.has_changed().unwrap(), "one alone never waits");
    }

    #[test]
    fn a_reader_is_handed_one_page_at_a_time() {
        let hub = Arc::new(Hub::default());
        let mut reader = caught_up(&hub, 0);
        let large = |sequence: u64| {
            let text = "x".repeat(limits::STREAM_PAGE_BYTES_MAX / 2 - 1000);
            let content = Some(crate::json::Json::stored(format!("[{text:?}]")));
            Arc::new(Event { content, ..Event::clone(&event(sequence)) })
        };
        let events: Vec<_> = (1..=5).map(large).collect();
        hub.logs.get(&Incarnation(uuid::Uuid::nil())).unwrap().publish(&events, 5);
        assert_eq!(sequences(reader.look()), [1, 2]);
        assert_eq!(sequences(reader.look()), [3, 4]);
        assert_eq!(sequences(reader.look()), [5]);
        assert!(matches!(reader.look(), ReaderStep::Wait));
    }

    #[test]
    fn the_channel_goes_with_its_last_reader() {
        let hub = Arc::new(Hub::default());
        let first = caught_up(&hub, 0);
        let second = caught_up(&hub, 0);
        drop(first);
        assert_eq!(hub.audience(), (1, 1));
        drop(second);
        assert_eq!(hub.audience(), (0, 0));
    }

    #[test]
    fn the_ring_holds_no_more_than_its_bytes_and_always_the_newest_frame() {
        let of = |sequence: u64, bytes: usize| {
            let content = Some(crate::json::Json::stored(format!("[{:?}]", "x".repeat(bytes - 4))));
            Arc::new(Event { content, ..Event::clone(&event(sequence)) })
        };
        let half = limits::RING_BYTES_MAX / 2;
        let held = |frames: [usize; 3]| {
            let mut ring = EventRing { fresh: true, ..EventRing::default() };
            for (sequence, bytes) in (1..).zip(frames) {
                ring.push(&of(sequence, bytes));
            }
            (ring.frames.len(), ring.bytes)
        };
        assert_eq!(held([4, half - 4, half]), (3, limits::RING_BYTES_MAX));
        assert_eq!(held([4, half - 4, half + 1]), (2, limits::RING_BYTES_MAX - 3));
        assert_eq!(held([4, 4, limits::RING_BYTES_MAX + 1]), (1, limits::RING_BYTES_MAX + 1));
    }
}
