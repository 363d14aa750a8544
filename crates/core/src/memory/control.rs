//! Commands that a person gives to the memory in plain words, and what each leads to. Deleting by
//! talk takes a confirming turn: one hit is asked about, several are listed first.

use serde::{Deserialize, Serialize};

/// What a user's message asks of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To be kept at once; without text the last thing said is meant.
    RememberThis {
        text: Option<String>,
    },
    /// Nothing of this sitting is to be kept.
    DontSave,
    WhatDoYouKnow,
    Forget(Which),
    RecallOn,
    RecallOff,
    /// These three exist only while something is pending.
    Confirm,
    Cancel,
    Choose(usize),
}

/// Which memory is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The n-th of what was listed, from 1.
    Ordinal(usize),
    Query(String),
}

/// A memory as a person is shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub id: String,
    pub label: String,
}

/// A deletion that waits for the person's next turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Pending {
    Delete { id: String, label: String },
    Options { targets: Vec<Target> },
}

/// What to say, what waits now, and what to delete now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Nothing: the turn goes on as talk.
    pub reply: Option<Reply>,
    pub pending: Option<Pending>,
    /// To be deleted after its owner was checked once more.
    pub delete: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Remembered,
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
    Kept,
    RecallIsOn,
    RecallIsOff,
    /// The session keeps no memory at all.
    NoMemoryHere,
}
