//! Replies that are still being written: transient text without a sequence, dropped when the finished message is in
//! the log. A reader that joins late is given the text so far. What may yet become a marker of silence is held back on
//! every node, so no reader sees it, whoever writes the reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;

use crate::ids::Incarnation;
use crate::limits;
use crate::store::Notice;
use crate::talk::silence::HeldText;

/// A piece of an unfinished reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    pub incarnation: Incarnation,
    pub epoch: u64,
    /// Where in the reply this piece starts, in bytes.
    pub offset: usize,
    pub text: Arc<str>,
}

/// What a reader is shown: text, and where in the reply it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyPiece {
    pub offset: usize,
    pub text: String,
}

/// How much of the current reply a reader has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyPosition {
    reply: u64,
    upto: usize,
}

/// Whether a commit ends the unfinished reply of its session: its message, or the end of its run, is in the log.
pub fn ends_reply(notice: &Notice) -> bool {
    notice.deleted
        || notice.events.iter().any(|e| matches!(e.kind.as_str(), "agent.message" | "session.status_change"))
}

/// Sessions with an unfinished reply at once; beyond it the deltas of further ones are dropped,
/// since the finished message arrives anyway.
const REPLIES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Replies {
    open: DashMap<Incarnation, LiveReply>,
    /// Kept beside the map so that an append without any open reply costs one load.
    count: AtomicUsize,
    drawn: std::sync::atomic::AtomicU64,
}

#[derive(Debug)]
struct LiveReply {
    id: u64,
    epoch: u64,
    start: usize,
    /// Bytes of the reply so far, with what is held back.
    len: usize,
    /// What readers are shown.
    text: String,
    held: HeldText,
}

impl Replies {
    pub(super) fn add(&self, delta: &Delta) {
        if self.count.load(Ordering::Relaxed) >= REPLIES_MAX && !self.open.contains_key(&delta.incarnation) {
            return;
        }
        let mut reply = self.open.entry(delta.incarnation).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.fresh(delta)
        });
        if reply.epoch != delta.epoch || reply.start + reply.len != delta.offset {
            *reply = self.fresh(delta);
        }
        if reply.len + delta.text.len() <= limits::DELTA_TEXT_BYTES_MAX {
            reply.len += delta.text.len();
            let shown = reply.held.push(&delta.text);
            reply.text.push_str(&shown);
        }
    }

    fn fresh(&self, delta: &Delta) -> LiveReply {
        let id = 1 + self.drawn.fetch_add(1, Ordering::Relaxed);
        LiveReply {
            id,
            epoch: delta.epoch,
            start: delta.offset,
            len: 0,
            text: String::new(),
            held: HeldText::default(),
        }
    }

    pub(super) fn len(&self, incarnation: Incarnation, epoch: u64) -> usize {
        self.open
            .get(&incarnation)
            .filter(|reply| reply.epoch == epoch)
            .map_or(0, |reply| reply.start + reply.len)
    }

    /// Drops the reply once its message, or the end of its run, is in the log.
    pub(super) fn settle(&self, notice: &Notice) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        if ends_reply(notice) {
            self.drop_reply(notice.incarnation);
        }
    }

    pub(super) fn drop_reply(&self, incarnation: Incarnation) {
        if self.count.load(Ordering::Relaxed) > 0 && self.open.remove(&incarnation).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn knows(&self, incarnation: Incarnation) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.open.contains_key(&incarnation)
    }

    pub(super) fn since(&self, incarnation: Incarnation, seen: &mut ReplyPosition) -> Option<ReplyPiece> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let reply = self.open.get(&incarnation)?;
        if seen.reply != reply.id {
            *seen = ReplyPosition { reply: reply.id, upto: 0 };
        }
        let text = reply.text.get(seen.upto..).filter(|text| !text.is_empty())?;
        let shown = ReplyPiece { offset: reply.start + seen.upto, text: text.to_owned() };
        seen.upto = reply.text.len();
        Some(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reader_gets_the_text_so_far_and_then_only_what_is_new() {
        let replies = Replies::default();
        let incarnation = Incarnation::drawn(&crate::ids::RandomIds);
        let delta = |offset, text: &str| Delta { incarnation, epoch: 1, offset, text: text.into() };
        replies.add(&delta(0, "Hel"));
        replies.add(&delta(3, "lo"));
        let mut late = ReplyPosition::default();
        assert_eq!(replies.since(incarnation, &mut late).unwrap().text, "Hello");
        assert_eq!(replies.since(incarnation, &mut late), None);
        replies.add(&delta(5, "!"));
        assert_eq!(replies.since(incarnation, &mut late), Some(ReplyPiece { offset: 5, text: "!".into() }));
    }

    #[test]
    fn no_reader_sees_a_marker_of_silence_in_a_reply_that_comes_in_pieces() {
        let replies = Replies::default();
        let incarnation = Incarnation::drawn(&crate::ids::RandomIds);
        let (mut seen, mut shown, mut offset) = (ReplyPosition::default(), Vec::new(), 0);
        for text in ["<NO", "_REPLY", ">", "Yes", " <", "NO_WAY", "<EMPTY_RESP"] {
            replies.add(&Delta { incarnation, epoch: 1, offset, text: text.into() });
            offset += text.len();
            assert_eq!(replies.len(incarnation, 1), offset, "the next piece joins on");
            shown.extend(replies.since(incarnation, &mut seen).map(|piece| (piece.offset, piece.text)));
        }
        let pieces = [(0, "Yes"), (3, " "), (4, "<NO_WAY")];
        assert_eq!(shown, pieces.map(|(offset, text)| (offset, text.to_owned())));
        assert_eq!(replies.since(incarnation, &mut ReplyPosition::default()).unwrap().text, "Yes <NO_WAY");
    }

    #[test]
    fn another_run_starts_the_reply_anew() {
        let replies = Replies::default();
        let incarnation = Incarnation::drawn(&crate::ids::RandomIds);
        replies.add(&Delta { incarnation, epoch: 1, offset: 0, text: "old".into() });
        let mut seen = ReplyPosition::default();
        replies.since(incarnation, &mut seen);
        replies.add(&Delta { incarnation, epoch: 2, offset: 0, text: "new".into() });
        assert_eq!(replies.since(incarnation, &mut seen), Some(ReplyPiece { offset: 0, text: "new".into() }));
    }
}
