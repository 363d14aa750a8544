//! The safety room: whether what a person says calls for help before it calls for an answer. Owns
//! the levels, the check and its lexicon, what is then said, and the record of it. It refuses to
//! carry a word of what was said: a check answers in codes.

pub mod codes;
pub mod opaque;
pub mod record;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use codes::{ClassifierPath, Flag, OverrideKind, ReasonCode};

/// How grave it is: 1 is asked about gently, from 2 on the crisis response speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Level {
    #[default]
    Calm,
    Concern,
    Serious,
    Acute,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Calm, Self::Concern, Self::Serious, Self::Acute];

    pub const fn number(self) -> u8 {
        self as u8
    }

    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the crisis response takes the turn.
    pub fn is_crisis(self) -> bool {
        self >= Self::Serious
    }
}

impl From<Level> for u8 {
    fn from(level: Level) -> Self {
        level.number()
    }
}

impl TryFrom<u8> for Level {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        Self::of(number).ok_or("a level is 0 to 3")
    }
}

/// What the check found: codes only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crisis {
    pub level: Level,
    pub confidence: f32,
    pub reason_code: ReasonCode,
    pub flags: Vec<Flag>,
    pub override_kind: Option<OverrideKind>,
    pub classifier_path: ClassifierPath,
}

/// What an installation adds to the check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Saying one of these is asking for help.
    pub safe_words: Vec<String>,
    /// Phrases that set a level themselves. At 0: words that mean nothing here and are passed over.
    pub phrases: BTreeMap<Level, Vec<String>>,
    /// Phrases beside the built-in lexicon, weighed as its own are.
    pub lexicon: Vec<ExtraPhrase>,
    /// A country as two letters; which places to name.
    pub region: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraPhrase {
    pub text: String,
    pub level: Level,
    pub reason_code: Option<ReasonCode>,
}

/// What a configured model made of the message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Classification {
    Made {
        level: Level,
        confidence: f32,
        reason_code: ReasonCode,
    },
    /// It did not answer, or not in its form.
    Failed,
}
