//! The ten statuses, every allowed move between them, and who may make it: the one place.

use std::fmt;

use crate::error::{Conflict, Error, Result};
use crate::strict::shortened;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Draft,
    Pending,
    Running,
    WaitingHuman,
    AwaitingTool,
    Idle,
    Completed,
    Failed,
    Expired,
    Abandoned,
}

use Status::{
    Abandoned, AwaitingTool, Completed, Draft, Expired, Failed, Idle, Pending, Running, WaitingHuman,
};

/// Who makes a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    /// Starting a draft: a task's trigger, or the release of a step in a graph.
    Trigger,
    /// The engine: the first input into a draft, a turn, or a queued turn, the end of a graph of steps.
    Engine,
    /// A step that a person must do.
    HumanStep,
    /// A worker taking the session.
    Claim,
    /// The worker that holds the claim.
    ClaimHolder,
    /// A submitted form or tool run. Only tool sessions are queued, and cancelled while they are queued, by it.
    Submit,
    /// An answer to a question or a decision on an approval.
    Decision,
    /// The owner, or the holder of the session.
    OwnerOrHolder,
    /// The owner alone.
    Owner,
    /// The holder of an external session.
    ExternalHolder,
    /// The sweeper: deadlines passed, leases lost.
    Sweeper,
}

use Authority as By;

/// Every allowed move with the authorities that may make it. No other move is made.
pub const MOVES: &[(Status, Status, &[Authority])] = &[
    (Draft, Pending, &[By::Trigger, By::Submit]),
    (Draft, Running, &[By::Engine]),
    (Draft, WaitingHuman, &[By::HumanStep]),
    (Draft, Abandoned, &[By::OwnerOrHolder, By::Sweeper]),
    (Draft, Expired, &[By::Sweeper, By::Owner]),
    (Pending, Running, &[By::Claim]),
    (Pending, Failed, &[By::Sweeper, By::Engine]),
    (Pending, Abandoned, &[By::Owner, By::Submit]),
    (Pending, Expired, &[By::Sweeper, By::Owner]),
    (Running, Completed, &[By::ClaimHolder, By::Submit, By::Decision, By::Engine]),
    (Running, Failed, &[By::ClaimHolder, By::Submit, By::Decision, By::Sweeper, By::Engine]),
    (Running, WaitingHuman, &[By::ClaimHolder, By::Engine]),
    (Running, AwaitingTool, &[By::ClaimHolder, By::Engine]),
    (Running, Idle, &[By::ClaimHolder, By::Engine, By::ExternalHolder]),
    (Running, Pending, &[By::Sweeper, By::ClaimHolder, By::Submit]),
    (Running, Expired, &[By::Sweeper, By::Owner]),
    (Running, Abandoned, &[By::OwnerOrHolder, By::ClaimHolder, By::Sweeper]),
    (WaitingHuman, Pending, &[By::Decision]),
    (WaitingHuman, Running, &[By::Decision]),
    (WaitingHuman, Completed, &[By::Decision]),
    (WaitingHuman, Failed, &[By::Decision]),
    (WaitingHuman, Idle, &[By::Sweeper, By::Engine]),
    (WaitingHuman, Expired, &[By::Sweeper, By::Owner]),
    (WaitingHuman, Abandoned, &[By::OwnerOrHolder]),
    (AwaitingTool, Pending, &[By::Decision]),
    (AwaitingTool, Running, &[By::Decision]),
    (AwaitingTool, Failed, &[By::Decision]),
    (AwaitingTool, Idle, &[By::Sweeper, By::Engine]),
    (AwaitingTool, Expired, &[By::Sweeper, By::Owner]),
    (AwaitingTool, Abandoned, &[By::OwnerOrHolder]),
    (Idle, Running, &[By::Engine, By::Claim, By::ExternalHolder]),
    (Idle, Pending, &[By::Engine]),
    (Idle, Completed, &[By::Submit, By::Engine]),
    (Idle, Failed, &[By::Engine]),
    (Idle, Expired, &[By::Sweeper, By::Owner]),
    (Idle, Abandoned, &[By::OwnerOrHolder]),
];

impl Status {
    pub const ALL: [Self; 10] =
        [Draft, Pending, Running, WaitingHuman, AwaitingTool, Idle, Completed, Failed, Expired, Abandoned];

    pub const fn as_str(self) -> &'static str {
        match self {
            Draft => "draft",
            Pending => "pending",
            Running => "running",
            WaitingHuman => "waiting_human",
            AwaitingTool => "awaiting_tool",
            Idle => "idle",
            Completed => "completed",
            Failed => "failed",
            Expired => "expired",
            Abandoned => "abandoned",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, Completed | Failed | Expired | Abandoned)
    }

    pub const fn is_live(self) -> bool {
        matches!(self, Pending | Running | WaitingHuman | AwaitingTool)
    }

    /// Waits for a worker or is being run by one.
    pub const fn is_in_work(self) -> bool {
        matches!(self, Pending | Running)
    }

    pub const fn is_failing(self) -> bool {
        matches!(self, Failed | Expired | Abandoned)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a text names a status: the guard that clients use too.
pub fn is_valid_session_status(text: &str) -> bool {
    Status::parse(text).is_some()
}

/// Refuses every move that the table does not give to this authority. Talk sessions never become pending or terminal,
/// under any authority.
pub fn check_move(from: Status, to: Status, by: Authority, is_talk: bool) -> Result<()> {
    let listed = MOVES.iter().any(|(f, t, hands)| *f == from && *t == to && hands.contains(&by));
    if !listed || (is_talk && (to == Pending || to.is_terminal())) {
        return Err(Error::Conflict(Conflict::InvalidTransition { from, to }));
    }
    Ok(())
}

/// A named set of statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSet(u16);

impl StatusSet {
    pub const fn of(statuses: &[Status]) -> Self {
        let mut bits = 0;
        let mut n = 0;
        while n < statuses.len() {
            bits |= 1 << statuses[n] as u16;
            n += 1;
        }
        Self(bits)
    }

    pub const ACTIVE: Self = Self::of(&[Draft, Pending, Running, WaitingHuman, AwaitingTool, Idle]);
    pub const LIVE: Self = Self::of(&[Pending, Running, WaitingHuman, AwaitingTool]);
    pub const FAILING: Self = Self::of(&[Failed, Expired, Abandoned]);
    pub const TERMINAL: Self = Self::of(&[Completed, Failed, Expired, Abandoned]);

    pub const fn contains(self, status: Status) -> bool {
        self.0 & (1 << status as u16) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(move |status| self.contains(*status))
    }

    /// Those that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Reads one status, or several with commas in between.
    pub fn parse(text: &str) -> Result<Self> {
        let mut all = Self(0);
        for word in text.split(',') {
            let status = Status::parse(word.trim()).ok_or_else(|| unknown_status(word))?;
            all.0 |= Self::of(&[status]).0;
        }
        Ok(all)
    }

    /// The groups that lists filter by.
    pub fn group(name: &str) -> Option<Self> {
        match name {
            "active" => Some(Self::ACTIVE),
            "live" => Some(Self::LIVE),
            "failing" => Some(Self::FAILING),
            "terminal" => Some(Self::TERMINAL),
            _ => None,
        }
    }
}

impl From<Status> for StatusSet {
    fn from(status: Status) -> Self {
        Self::of(&[status])
    }
}

fn unknown_status(word: &str) -> Error {
    let known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    let rule = format!(
        "names `{}`, which is no status: write {}, or several with commas in between",
        shortened(word.trim()),
        known.join(", ")
    );
    Error::invalid("status", rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_statuses_are_read_and_an_unknown_one_is_named() {
        assert_eq!(StatusSet::parse("idle").unwrap(), Idle.into());
        assert_eq!(StatusSet::parse("running, idle,idle").unwrap(), StatusSet::of(&[Idle, Running]));
        for (text, named) in [("idle,banana", "`banana`"), ("", "``"), ("idle,", "``"), ("IDLE", "`IDLE`")] {
            let refused = StatusSet::parse(text).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`status` names {named}")), "{refused}");
            assert!(refused.contains("awaiting_tool"), "{refused}");
        }
        assert_eq!(StatusSet::LIVE.and(StatusSet::TERMINAL).iter().count(), 0);
    }

    #[test]
    fn nothing_leaves_a_terminal_status() {
        assert!(MOVES.iter().all(|(from, _, _)| !from.is_terminal()));
    }

    #[test]
    fn every_pair_outside_the_table_is_refused_for_every_hand() {
        let hands = [
            By::Trigger,
            By::Engine,
            By::HumanStep,
            By::Claim,
            By::ClaimHolder,
            By::Submit,
            By::Decision,
            By::OwnerOrHolder,
            By::Owner,
            By::ExternalHolder,
            By::Sweeper,
        ];
        let mut allowed = 0;
        for from in Status::ALL {
            for to in Status::ALL {
                for by in hands {
                    let listed = MOVES.iter().any(|(f, t, h)| (*f, *t) == (from, to) && h.contains(&by));
                    assert_eq!(check_move(from, to, by, false).is_ok(), listed, "{from} to {to} by {by:?}");
                    allowed += usize::from(listed);
                }
            }
        }
        assert!(allowed > 50);
    }

    #[test]
    fn only_a_claim_makes_pending_work_run() {
        let (_, _, hands) = MOVES.iter().find(|(f, t, _)| (*f, *t) == (Pending, Running)).unwrap();
        assert_eq!(*hands, &[By::Claim]);
    }

    #[test]
    fn talk_never_becomes_pending_or_terminal() {
        for (from, to, hands) in MOVES {
            if *to == Pending || to.is_terminal() {
                for by in *hands {
                    assert!(check_move(*from, *to, *by, true).is_err(), "{from} to {to}");
                }
            }
        }
    }

    #[test]
    fn groups_are_those_of_the_glossary() {
        for status in Status::ALL {
            assert_eq!(StatusSet::ACTIVE.contains(status), !status.is_terminal());
            assert_eq!(StatusSet::LIVE.contains(status), status.is_live());
            assert_eq!(StatusSet::FAILING.contains(status), status.is_failing());
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        assert!(!is_valid_session_status("Running") && is_valid_session_status("running"));
    }
}
