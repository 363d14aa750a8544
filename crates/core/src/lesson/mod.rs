//! The lesson room: what feedback has taught. A lesson says what to avoid or to repeat, where it comes from and how
//! often it came up; similar ones are merged ([`merge`]); one that comes up often enough is a rule ([`rule`]).
//!
//! Owns the lesson, how it is inferred without a model ([`infer`]), how it fades, and how it is worded for an agent
//! ([`shown`]). A lesson is never authority: its text was typed by a person and is handed on as untrusted data.

pub mod infer;
pub mod merge;
pub mod rule;
pub mod shown;
mod store;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::confidence::Confidence;
use crate::feedback::capture::Signal;
use crate::ids::{SessionId, TenantId, UserId};
use crate::memory::words::{self, WordSet};
use crate::safety::codes::codes;
use crate::time::Timestamp;

pub use store::LessonStore;

codes!(
    /// Whether to avoid it or to repeat it.
    Polarity { Negative = "negative", Positive = "positive" }
);
codes!(
    LessonState {
        /// Waits for a member to accept it: its author's role is not trusted.
        Proposed = "proposed",
        Active = "active",
        /// No longer given to agents; kept, so that the same feedback does not make it anew.
        Retired = "retired",
    }
);
codes!(
    /// What sort of lesson it is.
    LessonCategory { Error = "error", Learning = "learning", Preference = "preference" }
);
codes!(
    /// Kinds of action that an agent had taken.
    ActionFamily {
        Edit = "edit",
        Create = "create",
        Command = "command",
        Fix = "fix",
        Deploy = "deploy",
        Delete = "delete",
    }
);
codes!(
    /// Why a lesson is believed.
    LessonGround {
        SaysWhatToChange = "says_what_to_change",
        SaysWhatHappened = "says_what_happened",
        NamesAComplaint = "names_a_complaint",
        KnowsTheAction = "knows_the_action",
        KnowsTheTurns = "knows_the_turns",
        CameUpAgain = "came_up_again",
        AcceptedByAPerson = "accepted_by_a_person",
    }
);

impl From<Signal> for Polarity {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Up => Self::Positive,
            Signal::Down => Self::Negative,
        }
    }
}

/// A lesson as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// `lesson_` and twelve hexadecimal digits, derived from its first wording.
    pub id: String,
    pub polarity: Polarity,
    pub state: LessonState,
    /// How often it came up, each feedback event counted once.
    pub occurrences: u64,
    pub created_at: Timestamp,
    /// When it last came up, or was changed by a person.
    pub updated_at: Timestamp,
    /// Counts changes, from 1.
    pub version: u64,
    pub effect: EffectCounts,
    pub body: LessonBody,
}

/// The part of a lesson that a store keeps as one text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LessonBody {
    pub text: String,
    pub category: LessonCategory,
    /// The agent's message that the feedback was about.
    pub trigger: Option<String>,
    pub action: Option<Action>,
    pub tags: Vec<String>,
    /// The agent that it is for; all agents without one.
    pub agent: Option<String>,
    pub grounds: Vec<LessonGround>,
    /// The newest sources.
    pub sources: Vec<LessonSource>,
    pub accepted: Option<LessonTouch>,
    pub edited: Option<LessonTouch>,
    pub retired: Option<LessonTouch>,
}

impl LessonBody {
    /// Makes one user's sources another's, because both were merged. Returns whether there were any.
    pub fn hand_over(&mut self, from: &UserId, into: &UserId) -> bool {
        let theirs = |source: &&mut LessonSource| source.author.as_deref() == Some(from.as_str());
        let mut any = false;
        for source in self.sources.iter_mut().filter(theirs) {
            source.author = Some(into.to_string());
            any = true;
        }
        any
    }

    /// The text that every stored body with a source by this user contains; stores search for it.
    pub fn mark_of(author: &UserId) -> String {
        format!("\"author\":{}", serde_json::Value::from(author.as_str()))
    }
}

/// What an agent had been doing, and to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    pub family: ActionFamily,
    pub target: String,
}

/// One feedback in which a lesson came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonSource {
    pub event: String,
    pub feedback_session: String,
    pub at: Timestamp,
    pub author: Option<String>,
    /// The session that the feedback is about, and the sequences in its log.
    pub session: Option<String>,
    pub sequences: Vec<u64>,
    pub trusted: bool,
}

/// Who did it, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonTouch {
    pub by: Option<String>,
    pub at: Timestamp,
}

/// How often a lesson was shown, and the thumbs since. Counted beside the row, so that showing it changes no version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectCounts {
    pub shown: u64,
    pub first_shown_at: Option<Timestamp>,
    pub last_shown_at: Option<Timestamp>,
    /// Thumbs since it was first shown, on work that it was shown for or in which it came up again.
    pub negative_since: u64,
    pub positive_since: u64,
}

/// Which counter to raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectCounter {
    Shown,
    Negative,
    Positive,
}

/// Time in which half of a lesson's weight is gone.
const HALF_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// The weight below which it is not given to agents any more: one occurrence, two months ago.
const FADED: f64 = 0.25;

impl Lesson {
    /// The words by which it is compared with others.
    pub fn words(&self) -> WordSet {
        words::set(&self.body.text)
    }

    /// The text that a search reads: its wording and its subjects.
    pub fn text(&self) -> String {
        let body = &self.body;
        let target = body.action.as_ref().map_or("", |action| &action.target);
        [&body.text, body.trigger.as_deref().unwrap_or(""), target, &body.tags.join(" ")].join(" ")
    }

    /// Its weight now: its occurrences, halved with every half-life. What a person accepted does not fade.
    pub fn weight(&self, now: Timestamp) -> f64 {
        let count = self.occurrences.max(1) as f64;
        if self.body.accepted.is_some() {
            return count;
        }
        let age = now.as_micros().saturating_sub(self.updated_at.as_micros()).max(0) as f64;
        count * 0.5f64.powf(age / HALF_LIFE.as_micros() as f64)
    }

    /// Whether agents are still given it.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.state == LessonState::Active && self.weight(now) >= FADED
    }

    /// Whether it is for an agent of this name, or for all agents.
    pub fn is_for(&self, agent: Option<&str>) -> bool {
        self.body.agent.is_none() || self.body.agent.as_deref() == agent
    }

    /// By the number of grounds for it.
    pub fn confidence(&self) -> Confidence {
        let grounds = &self.body.grounds;
        if grounds.contains(&LessonGround::AcceptedByAPerson) {
            return Confidence::SURE;
        }
        let known = LessonGround::ALL.len() - 1;
        Confidence::new(grounds.len() as f64 / known as f64)
    }

    /// Whether this user wrote one of its sources.
    pub fn comes_from(&self, user: &UserId) -> bool {
        self.body.sources.iter().any(|source| source.author.as_deref() == Some(user.as_str()))
    }

    /// The sessions that it came up in.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.body.sources.iter().filter_map(|source| source.session.as_deref().map(SessionId::stored))
    }

    /// Adds a ground, once.
    pub fn believe(&mut self, ground: LessonGround) {
        if !self.body.grounds.contains(&ground) {
            self.body.grounds.push(ground);
        }
    }
}

/// The id of a lesson, derived from its words and its agent, so that two nodes that learn the same thing at once make
/// one lesson.
pub fn id_of(tenant: &TenantId, polarity: Polarity, agent: Option<&str>, text: &str) -> String {
    let mut hash = Sha256::new();
    for part in [tenant.as_str(), polarity.as_str(), agent.unwrap_or("")] {
        hash.update(part);
        hash.update([0]);
    }
    // "Do" and "do not" are two lessons, though neither word means anything by itself.
    hash.update([u8::from(words::negates(text))]);
    for word in words::set(text) {
        hash.update(word);
        hash.update([0]);
    }
    let digits: String = hash.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("lesson_{digits}")
}

/// Filters of a list of lessons; all given ones must hold. With words the best first, newest first otherwise.
#[derive(Clone, Debug, Default)]
pub struct LessonQuery {
    pub words: Vec<String>,
    /// Any of these; all states if empty.
    pub states: Vec<LessonState>,
    pub polarity: Option<Polarity>,
    pub category: Option<LessonCategory>,
    /// All of these.
    pub tags: Vec<String>,
    /// Those that an agent of this name, or one without a name, is given.
    pub agent: Option<Option<String>>,
    pub occurrences_min: u64,
    /// The number of the previous page's last row; not used with words.
    pub after: Option<i64>,
    pub limit: usize,
}

impl LessonQuery {
    /// Whether a lesson matches. Stores filter by words, state and occurrences first, as far as their indexes go.
    pub fn admits(&self, lesson: &Lesson) -> bool {
        (self.states.is_empty() || self.states.contains(&lesson.state))
            && self.polarity.is_none_or(|polarity| polarity == lesson.polarity)
            && self.category.is_none_or(|category| category == lesson.body.category)
            && self.tags.iter().all(|tag| lesson.body.tags.contains(tag))
            && self.agent.as_ref().is_none_or(|agent| lesson.is_for(agent.as_deref()))
            && lesson.occurrences >= self.occurrences_min
    }

    /// The states that are asked for.
    pub fn states(&self) -> &[LessonState] {
        if self.states.is_empty() { LessonState::ALL } else { &self.states }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn lesson(text: &str) -> Lesson {
        Lesson {
            id: id_of(&TenantId::stored("t"), Polarity::Negative, None, text),
            polarity: Polarity::Negative,
            state: LessonState::Active,
            occurrences: 1,
            created_at: Timestamp::from_micros(0),
            updated_at: Timestamp::from_micros(0),
            version: 1,
            effect: EffectCounts::default(),
            body: LessonBody {
                text: text.to_owned(),
                category: LessonCategory::Error,
                trigger: None,
                action: None,
                tags: vec!["git".into()],
                agent: None,
                grounds: Vec::new(),
                sources: Vec::new(),
                accepted: None,
                edited: None,
                retired: None,
            },
        }
    }

    /// A lesson that came up once in feedback of each of these people.
    pub(crate) fn said_by(text: &str, authors: &[Option<&str>]) -> Lesson {
        let mut lesson = lesson(text);
        lesson.body.sources = authors
            .iter()
            .enumerate()
            .map(|(n, author)| LessonSource {
                event: format!("fb_{n}"),
                feedback_session: "fbs_0".into(),
                at: Timestamp::from_micros(0),
                author: author.map(Into::into),
                session: None,
                sequences: Vec::new(),
                trusted: true,
            })
            .collect();
        lesson.occurrences = authors.len() as u64;
        lesson
    }

    fn days(days: u64) -> Timestamp {
        Timestamp::from_micros(0).plus(Duration::from_secs(days * 24 * 3600))
    }

    #[test]
    fn a_lesson_fades_unless_a_person_accepted_it() {
        let mut one = lesson("Do not edit the lock file");
        for (day, weight, live) in [(0, 1.0, true), (30, 0.5, true), (60, 0.25, true), (61, 0.2443, false)] {
            assert!((one.weight(days(day)) - weight).abs() < 0.001, "{day}");
            assert_eq!(one.is_live(days(day)), live, "{day}");
        }
        one.occurrences = 4;
        assert!(one.is_live(days(120)) && !one.is_live(days(121)));
        one.body.accepted = Some(LessonTouch { by: None, at: days(0) });
        assert!(one.is_live(days(4_000)));
        one.state = LessonState::Retired;
        assert!(!one.is_live(days(0)));
    }

    #[test]
    fn the_id_is_that_of_the_words_and_of_whom_they_are_for() {
        let id =
            |tenant: &str, polarity, agent, text| id_of(&TenantId::stored(tenant), polarity, agent, text);
        let one = id("t", Polarity::Negative, None, "Do not edit the lock file.");
        assert_eq!(one.len(), "lesson_".len() + 12);
        assert_eq!(one, id("t", Polarity::Negative, None, "the LOCK file: edit not!"));
        assert_ne!(one, id("t", Polarity::Negative, None, "Edit the lock file."));
        for other in [
            id("u", Polarity::Negative, None, "Do not edit the lock file."),
            id("t", Polarity::Positive, None, "Do not edit the lock file."),
            id("t", Polarity::Negative, Some("a"), "Do not edit the lock file."),
            id("t", Polarity::Negative, None, "Do not edit the license file."),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_query_admits_what_fits_all_of_it() {
        let mut one = lesson("x");
        one.body.agent = Some("a".into());
        let query = LessonQuery::default;
        let table = [
            (query(), true),
            (LessonQuery { states: vec![LessonState::Active, LessonState::Proposed], ..query() }, true),
            (LessonQuery { states: vec![LessonState::Retired], ..query() }, false),
            (LessonQuery { polarity: Some(Polarity::Positive), ..query() }, false),
            (LessonQuery { category: Some(LessonCategory::Learning), ..query() }, false),
            (LessonQuery { tags: vec!["git".into()], ..query() }, true),
            (LessonQuery { tags: vec!["git".into(), "css".into()], ..query() }, false),
            (LessonQuery { agent: Some(Some("a".into())), ..query() }, true),
            (LessonQuery { agent: Some(Some("b".into())), ..query() }, false),
            (LessonQuery { agent: Some(None), ..query() }, false),
            (LessonQuery { occurrences_min: 2, ..query() }, false),
        ];
        for (query, fits) in table {
            assert_eq!(query.admits(&one), fits, "{query:?}");
        }
    }

    #[test]
    fn what_a_merged_user_said_is_found_and_handed_over() {
        let source = |author: Option<&str>| LessonSource {
            event: "fb_0".into(),
            feedback_session: "fbs_0".into(),
            at: days(0),
            author: author.map(str::to_owned),
            session: None,
            sequences: Vec::new(),
            trusted: true,
        };
        let mut body = lesson("ask ann").body;
        body.sources = vec![source(Some("an\"n")), source(None), source(Some("ben")), source(Some("an\"n"))];
        let (ann, ben, eve) = (UserId::stored("an\"n"), UserId::stored("ben"), UserId::stored("eve"));
        let text = |body: &LessonBody| serde_json::to_string(body).unwrap();
        assert!(
            text(&body).contains(&LessonBody::mark_of(&ann))
                && !text(&body).contains(&LessonBody::mark_of(&eve))
        );
        assert!(!body.hand_over(&eve, &ben));
        assert!(body.hand_over(&ann, &ben) && !body.hand_over(&ann, &ben));
        let authors: Vec<_> = body.sources.iter().map(|source| source.author.as_deref()).collect();
        assert_eq!(authors, [Some("ben"), None, Some("ben"), Some("ben")]);
        assert!(!text(&body).contains(&LessonBody::mark_of(&ann)));
    }

    #[test]
    fn confidence_grows_with_its_grounds_and_is_whole_once_a_person_agreed() {
        let mut one = lesson("x");
        assert_eq!(one.confidence(), Confidence::default());
        one.believe(LessonGround::SaysWhatToChange);
        one.believe(LessonGround::SaysWhatToChange);
        assert_eq!((one.confidence(), one.body.grounds.len()), (Confidence::new(0.17), 1));
        for ground in &LessonGround::ALL[1..6] {
            one.believe(*ground);
        }
        assert_eq!(one.confidence(), Confidence::SURE);
        let mut two = lesson("y");
        two.believe(LessonGround::AcceptedByAPerson);
        assert_eq!(two.confidence(), Confidence::SURE);
    }
}
