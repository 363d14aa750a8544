//! The talk room: turns, sittings and the state that a conversation carries.
//!
//! Owns the row that a talk session has beside its own ([`Talk`]), the reducers ([`state`]) and the pure decisions:
//! what a message in company does ([`route`]), what any message does ([`turn`]), how a turn waits for a person's approval ([`pause`]), and how a sitting opens and
//! ends ([`sitting`]), what a turn is given of a memory ([`turn_memory`]), how
//! speakers are told apart ([`speaker_name`]), and what of a reply is not shown ([`silence`]). Refuses to know what is said: models,
//! recall and safety are above and beside it.
//!
//! A turn holds its session by a claim like any worker's, with an epoch and a lease, so a process that dies in the
//! middle of one loses the right to end it, and another node goes on.

pub mod exercise;
pub mod pause;
mod records;
pub mod route;
pub mod silence;
pub mod sitting;
pub mod speaker_name;
pub mod state;
mod store;
pub mod turn;
pub mod turn_memory;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::event::AppendOutcome;
use crate::ids::UserId;
use crate::limits;
use crate::memory::Owner;
use crate::memory::candidate::{Buffer, Candidate};
use crate::memory::owner::TurnSpeaker;
use crate::time::Timestamp;

use route::ThreadRule;

pub use records::TurnRecords;
pub use state::StateFields;
pub use store::TalkStore;

/// The row of a talk session beside its own: bounded, so a turn costs the same however many came before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Talk {
    /// The open sitting.
    pub sitting: Option<Sitting>,
    /// Sittings so far; also the number of the newest.
    #[serde(default)]
    pub sittings: u64,
    /// The sitting that ended last.
    pub ended: Option<EndedSitting>,
    /// Messages that wait for a turn, in the order in which they get one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<QueuedMessage>,
    /// The turn that waits for a person's approval, or was decided on and waits for a node to go on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<pause::PausedTurn>,
    /// The last turn died, and no message has come since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    #[serde(default, skip_serializing_if = "StateFields::is_empty")]
    pub state: StateFields,
    /// Turns that have changed the state.
    #[serde(default)]
    pub turns: u64,
    /// Messages that the running turn has taken up beside its own, because they steered it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took: Vec<u64>,
    /// Candidates that looking back found while no sitting was open: the next sitting begins with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found_between: Vec<Candidate>,
    /// The newest threads of a group whose first message is known, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<TalkThread>,
    /// The last message that looking back has read.
    #[serde(default)]
    pub looked_back_to: u64,
}

impl Talk {
    /// The first message about which no ended sitting has decided what is kept of it.
    pub fn undecided_from(&self) -> u64 {
        match (&self.sitting, &self.ended) {
            (Some(open), _) => open.first.unwrap_or(0),
            (None, Some(ended)) => ended.last + 1,
            (None, None) => 0,
        }
    }
}

/// A thread of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalkThread {
    pub id: String,
    /// Its first message was said to the agent.
    pub is_followed: bool,
}

/// One stretch of talk, from its first turn to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    pub number: u64,
    /// Set by the store, as `active_at` and `first` are: see [`Talk::land`].
    pub opened_at: Option<Timestamp>,
    pub active_at: Option<Timestamp>,
    /// The sequence of the event that opened it.
    pub first: Option<u64>,
    /// Turns that were answered in it.
    pub turns: u64,
    /// Whose memory it reads and feeds.
    pub owner: Owner,
    /// The user that ratings name.
    pub user: Option<String>,
    /// The user whose message opened it: they may end and rate it, even if it uses another memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_by: Option<String>,
    /// The highest crisis level in it.
    #[serde(default)]
    pub crisis_max: u8,
    /// The messages with any crisis level: nothing is quoted from them and no theme is drawn from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crisis_turns: Vec<u64>,
    #[serde(default)]
    pub rated: bool,
    #[serde(default)]
    pub buffer: Buffer,
}

/// A sitting that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedSitting {
    pub number: u64,
    pub turns: u64,
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_by: Option<String>,
    pub rated: bool,
    /// The last sequence of the log when it ended.
    #[serde(default)]
    pub last: u64,
    /// Discarded: nothing is made of it later, and it cannot be rated.
    pub discarded: bool,
}

/// A message that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedMessage {
    /// Set by the store when the message lands.
    pub sequence: Option<u64>,
    /// The running turn may take it up at its next step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steers: bool,
    #[serde(default, skip_serializing_if = "Tier::is_fast")]
    pub tier: Tier,
    /// Who said it. Whose memory its turn uses is decided when the turn starts.
    #[serde(default)]
    pub speaker: TurnSpeaker,
}

/// Which model answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    #[default]
    Fast,
    Quality,
}

impl Tier {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Quality => "quality",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        [Self::Fast, Self::Quality]
            .into_iter()
            .find(|tier| tier.as_str() == text)
            .ok_or_else(|| Error::invalid("response_model_tier", "must be fast or quality"))
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    const fn is_fast(&self) -> bool {
        matches!(self, Self::Fast)
    }
}

/// Times that an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Silence after which a sitting has expired.
    pub idle_after: Duration,
    /// How long a turn may go without a sign of life before it counts as dead.
    pub lease: Duration,
    /// How long a turn waits for a person to approve a tool call.
    pub confirm_within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle_after: limits::SITTING_IDLE_AFTER,
            lease: limits::LEASE_DEFAULT,
            confirm_within: limits::CONFIRM_WITHIN,
        }
    }
}

/// The state of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// No sitting is open.
    Absent,
    Active,
    /// Silent for too long, and not ended yet.
    Expired,
    /// The last turn died.
    Interrupted,
}

impl Liveness {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Talk {
    /// Fills in what only the committing store knows: sequences and the time. Both stores call this, after the events
    /// of the same change have got their numbers.
    pub fn land(&mut self, appended: &[AppendOutcome], now: Timestamp) {
        let first = |kind: &str| {
            appended.iter().find_map(|slot| match slot {
                AppendOutcome::New(event) if event.kind.as_str() == kind => Some(event.sequence),
                _ => None,
            })
        };
        if let Some(sitting) = &mut self.sitting {
            sitting.opened_at.get_or_insert(now);
            sitting.active_at = Some(now);
            if sitting.first.is_none() {
                sitting.first = first("session.sitting_started");
            }
        }
        if let Some(queued) = self.queue.iter_mut().find(|queued| queued.sequence.is_none()) {
            queued.sequence = first("user.message");
        }
    }

    /// Makes one user's part of this row another's, because both were merged: the open sitting uses their memory from
    /// now on and ratings name them, and unanswered messages are theirs. Returns whether anything changed.
    pub fn hand_over(&mut self, from: &UserId, into: &UserId) -> bool {
        let mut handed = false;
        if let Some(open) = self.sitting.as_mut().filter(|open| open.owner == Owner::user(from)) {
            open.owner = Owner::user(into);
            open.user = Some(into.to_string());
            handed = true;
        }
        let queued = self.queue.iter_mut().map(|queued| &mut queued.speaker);
        let paused = self.paused.iter_mut().map(|paused| &mut paused.speaker);
        for speaker in queued.chain(paused) {
            for user in [&mut speaker.caller, &mut speaker.user].into_iter().flatten() {
                if user == from {
                    *user = into.clone();
                    handed = true;
                }
            }
        }
        handed
    }

    /// Decides whether a message in a thread is said to the agent, where the channel follows threads. The first message
    /// of a thread decides for those after it. Returns whether the row has changed.
    pub fn is_said_to_agent(
        &mut self,
        rule: ThreadRule,
        thread: Option<&str>,
        is_directed: &mut bool,
    ) -> bool {
        let (ThreadRule::Follow, Some(thread)) = (rule, thread) else { return false };
        if let Some(known) = self.threads.iter().find(|known| known.id == thread) {
            *is_directed |= known.is_followed;
            return false;
        }
        let spare = (self.threads.len() + 1).saturating_sub(limits::TALK_THREADS_MAX);
        self.threads.drain(..spare);
        self.threads.push(TalkThread { id: thread.to_owned(), is_followed: *is_directed });
        true
    }

    /// When the open sitting was last active.
    pub fn active_at(&self) -> Option<Timestamp> {
        self.sitting.as_ref().and_then(|sitting| sitting.active_at)
    }

    /// The message whose turn is next: that of a decided turn, or the first in the queue.
    pub fn waiting(&self) -> Option<u64> {
        match &self.paused {
            Some(paused) if paused.decided => Some(paused.turn),
            _ => self.queue.first().and_then(|queued| queued.sequence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_said_to_the_agent_if_its_first_message_was_and_it_is_still_noted() {
        let mut talk = Talk::default();
        let mut say = |rule, thread: Option<&str>, mut is_directed| {
            let noted = talk.is_said_to_agent(rule, thread, &mut is_directed);
            (noted, is_directed)
        };
        let (mention, follow) = (ThreadRule::Mention, ThreadRule::Follow);
        assert_eq!(say(mention, Some("a"), true), (false, true), "nothing is followed");
        assert_eq!(say(follow, None, false), (false, false), "there is no thread");
        assert_eq!(say(follow, Some("a"), true), (true, true));
        assert_eq!(say(follow, Some("b"), false), (true, false));
        for _ in 0..2 {
            assert_eq!(say(follow, Some("a"), false), (false, true));
            assert_eq!(say(follow, Some("b"), true), (false, true));
            assert_eq!(say(follow, Some("b"), false), (false, false), "its first message decides");
        }
        for n in 2..limits::TALK_THREADS_MAX {
            assert_eq!(say(follow, Some(&format!("t{n}")), false), (true, false));
        }
        assert_eq!(say(follow, Some("a"), false), (false, true), "all of them fit");
        assert_eq!(say(follow, Some("one more"), false), (true, false));
        assert_eq!(say(follow, Some("a"), false), (true, false), "the oldest made room, and begins anew");
        assert_eq!(talk.threads.len(), limits::TALK_THREADS_MAX);
    }
}
