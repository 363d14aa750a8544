//! What a turn is given of a memory, and what it says and writes about it. All pure; the engine loads.

use serde_json::Value;

use super::{StateFields, TurnRecords};
use crate::ids::UserId;
use crate::lesson::{Lesson, shown};
use crate::limits;
use crate::memory::control::PendingDeletion;
use crate::memory::owner::TurnSpeaker;
use crate::memory::recall::{self, RecallOccasion, RecalledMemories};
use crate::memory::{Fact, Memory, summary};
use crate::safety::Level;
use crate::store::Record;
use crate::time::Timestamp;

/// The answer to a command that was said to the memory.
#[derive(Debug)]
pub struct MemoryReply {
    pub text: String,
    /// The deletion that now waits for the person's yes.
    pub pending: Option<PendingDeletion>,
    /// What the command changes; committed with the turn.
    pub records: TurnRecords,
}

impl MemoryReply {
    pub(crate) fn refused(text: &str) -> Self {
        Self { text: text.to_owned(), pending: None, records: TurnRecords::default() }
    }
}

/// The deletion that waits for a yes, if the speaker is the person who was asked. Another person's yes does not count.
pub(crate) fn pending_deletion(state: &StateFields, speaker: &TurnSpeaker) -> Option<PendingDeletion> {
    let at = |key| state.at("memory_control", key);
    let asked = at("asked_by").and_then(Value::as_str);
    let speaks = speaker.user.as_ref().map(UserId::as_str);
    let pending = at("pending_action").filter(|_| asked == speaks)?;
    serde_json::from_value(pending.clone()).ok()
}

/// The memories and lessons that enter the prompt of a turn.
#[derive(Debug, Default)]
pub struct TurnRecall {
    picked: RecalledMemories,
    /// The person has a profile, which says whether the past may be brought up.
    has_profile: bool,
    now: Timestamp,
    /// How memories were searched.
    path: &'static str,
    /// Lessons from feedback about similar talk.
    pub lessons: Vec<Lesson>,
}

impl TurnRecall {
    /// Picks from the memories that were found. `similar` are the ids that embeddings found, most similar first;
    /// `None` if no embedding was available.
    pub(crate) fn pick(
        occasion: &RecallOccasion<'_>,
        memories: &[Memory],
        similar: Option<&[String]>,
        lessons: Vec<Lesson>,
    ) -> Self {
        Self {
            picked: recall::recall(occasion, memories, similar.unwrap_or_default()),
            has_profile: memories.iter().any(|memory| memory.profile().is_some()),
            now: occasion.now,
            path: if similar.is_some() { "hybrid" } else { "lexical" },
            lessons,
        }
    }

    /// The lines for the prompt.
    pub fn lines(&self) -> Vec<String> {
        self.picked.lines()
    }

    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.picked.memories().map(|memory| memory.id.as_str())
    }

    /// The facts, each in the person's own words.
    pub fn facts_as_told(&self) -> Vec<String> {
        self.picked.facts.iter().filter_map(Memory::fact).map(Fact::label).collect()
    }

    /// A sentence about the last sitting, for a model that cannot mention it itself. `None` if the person has
    /// switched recall off.
    pub fn opening(&self) -> Option<String> {
        if self.has_profile && !self.picked.may_bring_up {
            return None;
        }
        let arc = self.picked.catch_up.as_ref().and_then(Memory::arc)?;
        // A sitting with a crisis is not mentioned in passing.
        if arc.themes.is_empty() || arc.crisis_level_max >= Level::Serious.number() {
            return None;
        }
        Some(format!("Last time we talked about {}. ", summary::listed(&arc.themes)))
    }

    /// How the memories were found; `None` if there are none.
    pub fn path(&self) -> Option<&'static str> {
        (self.picked.memories().next().is_some()).then_some(self.path)
    }

    /// The ids for the event that says what entered the prompt, by kind.
    pub fn injected(&self) -> Vec<(&'static str, Vec<String>)> {
        let mut said = Vec::new();
        let ids: Vec<String> = self.ids().map(str::to_owned).collect();
        if !ids.is_empty() {
            said.push(("memory", ids));
        }
        if !self.picked.rules.is_empty() {
            said.push(("rules", self.picked.rules.iter().map(|rule| rule.id.clone()).collect()));
        }
        if !self.lessons.is_empty() {
            said.push((shown::INJECTED, self.lessons.iter().map(|lesson| lesson.id.clone()).collect()));
        }
        said
    }

    /// Notes that these were used: lessons each time, a memory at most once a day, because a turn should not cost a
    /// write for every memory that it reads.
    pub fn touched(&self) -> TurnRecords {
        let taught = (!self.lessons.is_empty()).then(|| shown::counted(&self.lessons));
        let remembered = self
            .picked
            .memories()
            .filter(|memory| memory.last_referenced_at.plus(limits::REFERENCED_GRAIN) <= self.now)
            .map(|memory| {
                Record::PutMemory(Box::new(Memory { last_referenced_at: self.now, ..memory.clone() }))
            });
        TurnRecords::of(remembered.chain(taught))
    }
}
