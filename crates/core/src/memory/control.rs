//! Commands that a person gives to the memory in plain words, and the outcome of each. Deleting by talk takes a
//! confirming turn: one hit is asked about, several are listed first, and everything is counted first.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::owner::MemoryAct;
use super::{Memory, MemoryBody, clip};
use crate::limits;

/// A command to the memory, as read from a user's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Keep this at once; without text the last message is meant.
    RememberThis {
        text: Option<String>,
    },
    /// Keep nothing of this sitting.
    DontSave,
    WhatDoYouKnow,
    Forget(MemorySelector),
    /// Delete everything that is stored. The caller fills in the counts before the decision.
    ForgetEverything(MemoryCounts),
    RecallOn,
    RecallOff,
    /// This and the next two exist only while something is pending.
    Confirm,
    Cancel,
    Choose(usize),
}

impl Command {
    /// The kind of access that it needs. An answer to a question about a deletion is part of the deletion.
    pub const fn act(&self) -> MemoryAct {
        match self {
            Self::WhatDoYouKnow => MemoryAct::Read,
            Self::RememberThis { .. } => MemoryAct::Remember,
            Self::RecallOn | Self::RecallOff => MemoryAct::SwitchRecall,
            Self::DontSave
            | Self::Forget(_)
            | Self::ForgetEverything(_)
            | Self::Confirm
            | Self::Cancel
            | Self::Choose(_) => MemoryAct::Forget,
        }
    }
}

/// Which memory to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemorySelector {
    /// The n-th of the listed ones, from 1.
    Ordinal(usize),
    Query(String),
}

/// How much there is to forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCounts {
    pub facts: u64,
    pub arcs: u64,
    pub rules: u64,
    /// Candidates of this sitting that may be kept at its end.
    pub held: u64,
}

/// A memory as a person is shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetTarget {
    pub id: String,
    pub label: String,
}

/// A deletion that waits for the person's next message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum PendingDeletion {
    Delete { id: String, label: String },
    Options { targets: Vec<ForgetTarget> },
    DeleteEverything,
}

/// What to delete now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryDeletion {
    /// One memory, after its owner was checked once more.
    One(String),
    Everything,
}

/// What to say, what is pending now, and what to delete now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlOutcome {
    /// `None`: the turn goes on as talk.
    pub reply: Option<ControlReply>,
    pub pending: Option<PendingDeletion>,
    pub delete: Option<MemoryDeletion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlReply {
    Remembered,
    /// In an incognito session.
    RememberedUntilYouLeave,
    NothingToRemember,
    NotSaving,
    Known(Vec<String>),
    NothingKnown,
    NoMatch,
    NoSuchNumber {
        count: usize,
    },
    ConfirmDelete {
        label: String,
    },
    ChooseOne {
        labels: Vec<String>,
    },
    Deleted {
        label: String,
    },
    ConfirmDeleteEverything(MemoryCounts),
    DeletedEverything,
    Kept,
    RecallIsOn,
    RecallIsOff,
    /// The session keeps no memory at all.
    NoMemoryHere,
}

/// Decides on a command. `matches` are the hits of a query, or, for an ordinal and for "what do you know", the
/// owner's memories in the order in which they are listed. A message that does not answer what is pending cancels it:
/// a yes to something else never deletes anything.
pub fn decide(
    pending: Option<&PendingDeletion>,
    command: Option<&Command>,
    matches: &[ForgetTarget],
) -> ControlOutcome {
    let Some(command) = command else { return ControlOutcome::default() };
    match (command, pending) {
        (Command::Confirm, Some(PendingDeletion::Delete { id, label })) => ControlOutcome {
            reply: Some(ControlReply::Deleted { label: label.clone() }),
            pending: None,
            delete: Some(MemoryDeletion::One(id.clone())),
        },
        (Command::Confirm, Some(PendingDeletion::DeleteEverything)) => ControlOutcome {
            reply: Some(ControlReply::DeletedEverything),
            pending: None,
            delete: Some(MemoryDeletion::Everything),
        },
        (Command::Confirm, Some(PendingDeletion::Options { targets })) => choose(targets),
        (Command::Choose(n), Some(PendingDeletion::Options { targets })) => match nth(targets, *n) {
            Some(target) => ask(target),
            None => ControlOutcome {
                reply: Some(ControlReply::NoSuchNumber { count: targets.len() }),
                pending: pending.cloned(),
                delete: None,
            },
        },
        (Command::Cancel, Some(_)) => say(ControlReply::Kept),
        (Command::Confirm | Command::Cancel | Command::Choose(_), _) => ControlOutcome::default(),
        (Command::ForgetEverything(counts), _) if *counts == MemoryCounts::default() => {
            say(ControlReply::NothingKnown)
        }
        (Command::ForgetEverything(counts), _) => ControlOutcome {
            reply: Some(ControlReply::ConfirmDeleteEverything(*counts)),
            pending: Some(PendingDeletion::DeleteEverything),
            delete: None,
        },
        (Command::Forget(MemorySelector::Query(_)), _) => match matches {
            [] => say(ControlReply::NoMatch),
            [one] => ask(one),
            several => choose(&several[..several.len().min(limits::DELETE_OPTIONS_MAX)]),
        },
        (Command::Forget(MemorySelector::Ordinal(n)), _) => match nth(matches, *n) {
            Some(target) => ask(target),
            None => say(ControlReply::NoSuchNumber { count: matches.len().min(limits::KNOWN_LISTED_MAX) }),
        },
        (Command::RememberThis { text: Some(_) }, _) => say(ControlReply::Remembered),
        (Command::RememberThis { text: None }, _) => say(ControlReply::NothingToRemember),
        (Command::DontSave, _) => say(ControlReply::NotSaving),
        (Command::WhatDoYouKnow, _) if matches.is_empty() => say(ControlReply::NothingKnown),
        (Command::WhatDoYouKnow, _) => say(ControlReply::Known(labels(matches, limits::KNOWN_LISTED_MAX))),
        (Command::RecallOn, _) => say(ControlReply::RecallIsOn),
        (Command::RecallOff, _) => say(ControlReply::RecallIsOff),
    }
}

/// The outcome of a command in a session that keeps no memory.
pub fn without_memory(command: Option<&Command>) -> ControlOutcome {
    command.map_or_else(ControlOutcome::default, |_| say(ControlReply::NoMemoryHere))
}

fn say(reply: ControlReply) -> ControlOutcome {
    ControlOutcome { reply: Some(reply), ..ControlOutcome::default() }
}

fn ask(target: &ForgetTarget) -> ControlOutcome {
    ControlOutcome {
        reply: Some(ControlReply::ConfirmDelete { label: target.label.clone() }),
        pending: Some(PendingDeletion::Delete { id: target.id.clone(), label: target.label.clone() }),
        delete: None,
    }
}

fn choose(targets: &[ForgetTarget]) -> ControlOutcome {
    ControlOutcome {
        reply: Some(ControlReply::ChooseOne { labels: labels(targets, targets.len()) }),
        pending: Some(PendingDeletion::Options { targets: targets.to_vec() }),
        delete: None,
    }
}

fn labels(targets: &[ForgetTarget], max: usize) -> Vec<String> {
    targets.iter().take(max).map(|target| target.label.clone()).collect()
}

/// The n-th, from 1.
fn nth(targets: &[ForgetTarget], n: usize) -> Option<&ForgetTarget> {
    n.checked_sub(1).and_then(|place| targets.get(place))
}

impl ForgetTarget {
    /// A memory as it is listed and asked about. A profile is not deleted by talk.
    pub fn of(memory: &Memory) -> Option<Self> {
        let label = match &memory.body {
            MemoryBody::Fact(fact) => fact.label(),
            MemoryBody::Arc(arc) => clip(&arc.summary, limits::LABEL_CHARS_MAX),
            MemoryBody::Profile(_) => return None,
        };
        Some(Self { id: memory.id.clone(), label })
    }
}

impl ControlReply {
    /// The sentence that a person reads.
    pub fn text(&self) -> String {
        match self {
            Self::Remembered => "I will remember that.".into(),
            Self::RememberedUntilYouLeave => "I will remember that until you leave.".into(),
            Self::NothingToRemember => "What shall I remember? Say “remember that …”.".into(),
            Self::NotSaving => "Nothing from this conversation will be remembered.".into(),
            Self::Known(labels) => {
                format!(
                    "This is what I remember:\n{}\nSay “forget number …” to delete one.",
                    numbered(labels)
                )
            }
            Self::NothingKnown => "I remember nothing about you.".into(),
            Self::NoMatch => {
                "I found nothing like that. Ask “what do you know about me?” to see what I remember.".into()
            }
            Self::NoSuchNumber { count: 0 } => "There is nothing to choose from.".into(),
            Self::NoSuchNumber { count } => format!("There is no such number; choose 1 to {count}."),
            Self::ConfirmDelete { label } => format!("Delete “{label}”? Yes or no."),
            Self::ChooseOne { labels } => format!("Which one do you mean?\n{}", numbered(labels)),
            Self::Deleted { label } => format!("“{label}” is deleted."),
            Self::ConfirmDeleteEverything(counts) => {
                format!("Delete everything that I remember about you: {counts}? Yes or no.")
            }
            Self::DeletedEverything => "Everything that I remembered about you is deleted.".into(),
            Self::Kept => "Nothing was deleted.".into(),
            Self::RecallIsOn => "I may bring up what I remember.".into(),
            Self::RecallIsOff => "I will not bring up the past unless you ask.".into(),
            Self::NoMemoryHere => "This conversation keeps no memory.".into(),
        }
    }
}

impl fmt::Display for MemoryCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = [
            (self.facts, "fact", "facts"),
            (self.arcs, "earlier sitting", "earlier sittings"),
            (self.rules, "rule", "rules"),
            (self.held, "thing of this sitting", "things of this sitting"),
        ];
        let parts: Vec<String> = counted
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

fn numbered(labels: &[String]) -> String {
    let lines: Vec<_> = labels.iter().enumerate().map(|(n, label)| format!("{}. {label}", n + 1)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(n: usize) -> ForgetTarget {
        ForgetTarget { id: format!("id{n}"), label: format!("memory {n}") }
    }

    fn forget() -> Command {
        Command::Forget(MemorySelector::Query("tea".into()))
    }

    #[test]
    fn one_hit_is_deleted_in_two_turns() {
        let asked = decide(None, Some(&forget()), &[target(1)]);
        assert_eq!(asked.reply, Some(ControlReply::ConfirmDelete { label: "memory 1".into() }));
        assert_eq!(asked.delete, None);
        let done = decide(asked.pending.as_ref(), Some(&Command::Confirm), &[]);
        assert_eq!((done.delete, done.pending), (Some(MemoryDeletion::One("id1".into())), None));
    }

    #[test]
    fn several_hits_are_deleted_in_three_turns_and_at_most_five_are_offered() {
        let hits: Vec<_> = (1..=limits::DELETE_OPTIONS_MAX + 1).map(target).collect();
        let listed = decide(None, Some(&forget()), &hits);
        let Some(PendingDeletion::Options { targets }) = &listed.pending else { panic!("{listed:?}") };
        assert_eq!(targets.len(), limits::DELETE_OPTIONS_MAX);
        let missed = decide(listed.pending.as_ref(), Some(&Command::Choose(6)), &[]);
        assert_eq!(missed.reply, Some(ControlReply::NoSuchNumber { count: limits::DELETE_OPTIONS_MAX }));
        assert_eq!(missed.pending, listed.pending);
        let asked = decide(missed.pending.as_ref(), Some(&Command::Choose(2)), &[]);
        assert_eq!(
            asked.pending,
            Some(PendingDeletion::Delete { id: "id2".into(), label: "memory 2".into() })
        );
        assert_eq!(asked.delete, None);
        let done = decide(asked.pending.as_ref(), Some(&Command::Confirm), &[]);
        assert_eq!(done.delete, Some(MemoryDeletion::One("id2".into())));
    }

    #[test]
    fn everything_is_counted_asked_about_and_deleted_in_two_turns() {
        let counts = MemoryCounts { facts: 3, arcs: 1, rules: 0, held: 2 };
        let asked = decide(None, Some(&Command::ForgetEverything(counts)), &[]);
        assert_eq!((&asked.delete, &asked.pending), (&None, &Some(PendingDeletion::DeleteEverything)));
        assert_eq!(
            asked.reply.unwrap().text(),
            "Delete everything that I remember about you: 3 facts, 1 earlier sitting, 2 things of this sitting? \
             Yes or no."
        );
        let done = decide(asked.pending.as_ref(), Some(&Command::Confirm), &[]);
        assert_eq!((done.delete, done.pending), (Some(MemoryDeletion::Everything), None));
        let nothing = decide(None, Some(&Command::ForgetEverything(MemoryCounts::default())), &[]);
        assert_eq!((nothing.reply, nothing.pending), (Some(ControlReply::NothingKnown), None));
    }

    #[test]
    fn nothing_is_deleted_without_a_yes_to_that_very_question() {
        let delete = PendingDeletion::Delete { id: "id1".into(), label: "memory 1".into() };
        let options = PendingDeletion::Options { targets: vec![target(1), target(2)] };
        let commands = [
            None,
            Some(Command::Cancel),
            Some(Command::Choose(1)),
            Some(Command::DontSave),
            Some(Command::WhatDoYouKnow),
            Some(forget()),
            Some(Command::Forget(MemorySelector::Ordinal(1))),
            Some(Command::RememberThis { text: None }),
            Some(Command::RecallOn),
            Some(Command::ForgetEverything(MemoryCounts { facts: 1, ..MemoryCounts::default() })),
        ];
        for command in &commands {
            for pending in [None, Some(&delete), Some(&options), Some(&PendingDeletion::DeleteEverything)] {
                let outcome = decide(pending, command.as_ref(), &[target(3)]);
                assert_eq!(outcome.delete, None, "{pending:?} {command:?}");
            }
        }
        assert_eq!(
            decide(Some(&delete), None, &[]),
            ControlOutcome::default(),
            "an unanswered question lapses"
        );
        assert_eq!(decide(None, Some(&Command::Confirm), &[]), ControlOutcome::default());
        let again = decide(Some(&options), Some(&Command::Confirm), &[]);
        assert_eq!((again.delete, again.pending), (None, Some(options)), "a yes to a list asks again");
    }

    #[test]
    fn an_ordinal_counts_the_listing_from_one() {
        let listing = [target(1), target(2)];
        for (n, id) in [(0, None), (1, Some("id1")), (2, Some("id2")), (3, None)] {
            let outcome = decide(None, Some(&Command::Forget(MemorySelector::Ordinal(n))), &listing);
            let asked = match outcome.pending {
                Some(PendingDeletion::Delete { id, .. }) => Some(id),
                _ => None,
            };
            assert_eq!(asked.as_deref(), id, "{n}");
        }
    }

    #[test]
    fn what_is_known_is_listed_up_to_the_limit() {
        let all: Vec<_> = (1..=limits::KNOWN_LISTED_MAX + 1).map(target).collect();
        match decide(None, Some(&Command::WhatDoYouKnow), &all).reply {
            Some(ControlReply::Known(labels)) => assert_eq!(labels.len(), limits::KNOWN_LISTED_MAX),
            other => panic!("{other:?}"),
        }
        assert_eq!(decide(None, Some(&Command::WhatDoYouKnow), &[]).reply, Some(ControlReply::NothingKnown));
    }

    #[test]
    fn a_session_without_memory_says_so_and_only_to_commands() {
        assert_eq!(without_memory(Some(&Command::DontSave)).reply, Some(ControlReply::NoMemoryHere));
        assert_eq!(without_memory(None), ControlOutcome::default());
    }

    #[test]
    fn what_is_pending_is_read_back_as_it_was_written() {
        for pending in [
            PendingDeletion::Delete { id: "a".into(), label: "b".into() },
            PendingDeletion::Options { targets: vec![target(1)] },
            PendingDeletion::DeleteEverything,
        ] {
            let text = serde_json::to_string(&pending).unwrap();
            assert_eq!(serde_json::from_str::<PendingDeletion>(&text).unwrap(), pending);
        }
    }
}
