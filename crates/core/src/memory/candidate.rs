//! Candidates for the memory: found in a turn, held while the sitting lasts, decided on at its end. Nothing here is a
//! memory yet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Category;
use crate::limits;

/// One finding in one user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub what: CandidateContent,
    /// The sentence that it was read from.
    pub quote: String,
    pub confidence: f32,
    /// The user message that said it.
    pub sequence: u64,
    pub hold: KeepCondition,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateContent {
    Fact {
        subject: String,
        predicate: String,
        object: String,
        #[serde(default)]
        category: Category,
    },
    /// How the person wants to be talked to.
    Rule { text: String },
}

impl CandidateContent {
    /// The text by which candidates are compared.
    pub fn text(&self) -> String {
        match self {
            Self::Fact { subject, predicate, object, .. } => {
                format!("{subject} {} {object}", predicate.replace('_', " "))
            }
            Self::Rule { text } => text.clone(),
        }
    }
}

/// The condition under which it is kept at the end of the sitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepCondition {
    AtEnd,
    /// A passing low must not become a trait: it has to be said again.
    NeedsRepetition,
}

/// The candidates of an open sitting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Buffer {
    pub candidates: Vec<Candidate>,
    /// How often each approach was used; the most frequent one becomes the arc's.
    pub approach_counts: BTreeMap<String, u32>,
    /// The person asked not to be remembered in this sitting: nothing is held from then on.
    pub emptied: bool,
}

impl Buffer {
    /// Holds what a turn found. A full buffer keeps the newest.
    pub fn hold(&mut self, found: impl IntoIterator<Item = Candidate>) {
        if self.emptied {
            return;
        }
        self.candidates.extend(found);
        let spare = self.candidates.len().saturating_sub(limits::CANDIDATES_MAX);
        self.candidates.drain(..spare);
    }

    /// Counts the approach of a turn; names beyond the limit are not counted apart.
    pub fn count_approach(&mut self, approach: &str) {
        if let Some(count) = self.approach_counts.get_mut(approach) {
            *count = count.saturating_add(1);
        } else if self.approach_counts.len() < limits::APPROACHES_MAX {
            self.approach_counts.insert(approach.to_owned(), 1);
        }
    }

    pub fn main_approach(&self) -> Option<&str> {
        self.approach_counts.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name.as_str())
    }

    /// Forgets what is held, and holds nothing more in this sitting.
    pub fn empty(&mut self) {
        self.candidates.clear();
        self.emptied = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(sequence: u64) -> Candidate {
        Candidate {
            what: CandidateContent::Rule { text: "answer briefly".into() },
            quote: "Please always answer briefly.".into(),
            confidence: 0.8,
            sequence,
            hold: KeepCondition::AtEnd,
        }
    }

    #[test]
    fn a_full_buffer_keeps_the_newest() {
        let mut buffer = Buffer::default();
        buffer.hold((0..=limits::CANDIDATES_MAX as u64).map(candidate));
        assert_eq!(buffer.candidates.len(), limits::CANDIDATES_MAX);
        assert_eq!(buffer.candidates[0].sequence, 1);
    }

    #[test]
    fn an_emptied_buffer_holds_nothing_more() {
        let mut buffer = Buffer::default();
        buffer.hold([candidate(1)]);
        buffer.empty();
        buffer.hold([candidate(2)]);
        assert!(buffer.candidates.is_empty());
        let text = serde_json::to_string(&buffer).unwrap();
        assert!(serde_json::from_str::<Buffer>(&text).unwrap().emptied);
    }

    #[test]
    fn the_approach_taken_most_often_is_the_main_one() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.main_approach(), None);
        for approach in ["listening", "planning", "planning"] {
            buffer.count_approach(approach);
        }
        assert_eq!(buffer.main_approach(), Some("planning"));
        for n in 0..=limits::APPROACHES_MAX {
            buffer.count_approach(&n.to_string());
        }
        assert_eq!(buffer.approach_counts.len(), limits::APPROACHES_MAX);
    }

    #[test]
    fn a_buffer_is_read_back_as_it_was_written() {
        let mut buffer = Buffer::default();
        buffer.hold([candidate(7)]);
        buffer.count_approach("listening");
        let text = serde_json::to_string(&buffer).unwrap();
        assert_eq!(serde_json::from_str::<Buffer>(&text).unwrap(), buffer);
        assert_eq!(serde_json::from_str::<Buffer>("{}").unwrap(), Buffer::default());
    }
}
