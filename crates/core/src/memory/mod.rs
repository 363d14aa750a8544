//! The memory room: what is kept of the talk with a person beyond the transcript. Three kinds: a *fact* (subject,
//! predicate, object), an *arc* (what one sitting was about) and one *profile* of standing rules per owner. Owns the
//! types and every decision about them, all of them pure. It refuses to keep anything without the sequences it came
//! from, and to know a store or a model.
//!
//! Embeddings, which an outside model computes, are compared in [`vector`].
//!
//! Whose memory a turn uses, and who may give commands to it, is one rule in [`owner`].
//!
//! A turn goes through [`command`] and [`control`] (is this said to the memory?), [`recall`] (what belongs in the
//! prompt?) and [`extract`] (what might be worth keeping?); candidates wait in a [`candidate::Buffer`] until the
//! sitting ends, when [`promote`], [`reconcile`] and [`summary`] decide on them and [`harvest`] makes the sitting's arc.

pub mod candidate;
pub mod command;
pub mod control;
pub mod extract;
mod forms;
pub mod harvest;
pub mod owner;
pub mod phrase;
mod profile;
pub mod promote;
pub mod recall;
pub mod reconcile;
mod store;
pub mod summary;
mod themes;
pub mod vector;
pub mod words;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::error::{Error, Result};
use crate::ids::{SessionId, UserId};
use crate::json::Json;
use crate::limits;
use crate::time::Timestamp;

pub use profile::{Profile, ProfileRule, profile_id};
pub use store::{MemoryStore, VectorStore};

/// Whose memory it is: a person's, or that of a session without a known user. The tag keeps a user and a session of
/// the same name apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Owner(Arc<str>);

impl Owner {
    pub fn user(id: &UserId) -> Self {
        Self(format!("user:{id}").into())
    }

    pub fn session(id: &SessionId) -> Self {
        Self(format!("session:{id}").into())
    }

    /// Wraps text that a store wrote.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The user whose memory it is, if it is a user's.
    pub fn user_id(&self) -> Option<UserId> {
        self.0.strip_prefix("user:").map(UserId::stored)
    }

    /// The session whose memory it is, if it is a session's.
    pub fn session_id(&self) -> Option<SessionId> {
        self.0.strip_prefix("session:").map(SessionId::stored)
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(from).map(Self::stored)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    Fact,
    Arc,
    Profile,
}

impl MemoryKind {
    pub const ALL: [Self; 3] = [Self::Fact, Self::Arc, Self::Profile];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Arc => "arc",
            Self::Profile => "profile",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One stored memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    pub id: String,
    pub owner: Owner,
    pub body: MemoryBody,
    pub created_at: Timestamp,
    pub last_referenced_at: Timestamp,
    /// Since when it is no longer recalled: a newer memory took its place.
    pub dormant_at: Option<Timestamp>,
}

impl Memory {
    pub fn kind(&self) -> MemoryKind {
        self.body.kind()
    }

    pub fn is_active(&self) -> bool {
        self.dormant_at.is_none()
    }

    /// Its whole content as one text.
    pub fn text(&self) -> String {
        self.body.text()
    }

    /// The words of it that a search index holds, separated by spaces: the same on every store, independent of the
    /// database's own tokenizer. Queries use [`words::set`].
    pub fn terms(&self) -> String {
        words::meaningful(&self.text()).join(" ")
    }

    pub fn fact(&self) -> Option<&Fact> {
        match &self.body {
            MemoryBody::Fact(fact) => Some(fact),
            MemoryBody::Arc(_) | MemoryBody::Profile(_) => None,
        }
    }

    pub fn arc(&self) -> Option<&StoryArc> {
        match &self.body {
            MemoryBody::Arc(arc) => Some(arc),
            MemoryBody::Fact(_) | MemoryBody::Profile(_) => None,
        }
    }

    pub fn profile(&self) -> Option<&Profile> {
        match &self.body {
            MemoryBody::Profile(profile) => Some(profile),
            MemoryBody::Fact(_) | MemoryBody::Arc(_) => None,
        }
    }
}

/// What is remembered, by its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MemoryBody {
    Fact(Fact),
    Arc(StoryArc),
    Profile(Profile),
}

impl MemoryBody {
    pub const fn kind(&self) -> MemoryKind {
        match self {
            Self::Fact(_) => MemoryKind::Fact,
            Self::Arc(_) => MemoryKind::Arc,
            Self::Profile(_) => MemoryKind::Profile,
        }
    }

    pub fn json(&self) -> Result<Json> {
        Json::of(self)
    }

    /// Reads what [`MemoryBody::json`] wrote.
    pub fn stored(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(Error::internal)
    }

    pub fn text(&self) -> String {
        match self {
            Self::Fact(fact) => format!("{} {}", fact.sentence(), fact.quote),
            Self::Arc(arc) => {
                let lists = [&arc.themes, &arc.open_loops, &arc.resolved_threads];
                let mut text = arc.summary.clone();
                for line in lists.into_iter().flatten() {
                    text.push('\n');
                    text.push_str(line);
                }
                text
            }
            Self::Profile(profile) => {
                profile.rules.iter().map(|rule| rule.text.as_str()).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// Where a memory came from: every one names the events that it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySource {
    pub session: String,
    pub sequences: Vec<u64>,
}

impl MemorySource {
    /// Adds sequences of one session to a list of sources, each once and in order. Beyond the limits
    /// the oldest go: provenance shows where to look, it is no second log.
    pub fn add(sources: &mut Vec<Self>, session: &str, sequences: impl IntoIterator<Item = u64>) {
        let at = sources.iter().position(|source| source.session == session).unwrap_or_else(|| {
            sources.push(Self { session: session.to_owned(), sequences: Vec::new() });
            sources.len() - 1
        });
        let known = &mut sources[at].sequences;
        known.extend(sequences);
        known.sort_unstable();
        known.dedup();
        known.drain(..known.len().saturating_sub(limits::SOURCE_SEQUENCES_MAX));
        sources.drain(..sources.len().saturating_sub(limits::SOURCES_MAX));
    }
}

/// What a fact is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    Identity,
    Place,
    Work,
    Relation,
    Preference,
    Health,
    Possession,
    /// What a person believes about themselves.
    Belief,
    #[default]
    #[serde(other)]
    Other,
}

/// The subject of facts about the person who talks.
pub const SELF: &str = "user";

/// Something that holds beyond the sitting in which it was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub subject: String,
    /// A snake_case word, such as `lives_in`; which ones hold only one object, [`reconcile`] knows.
    pub predicate: String,
    pub object: String,
    /// The sentence that it was read from.
    pub quote: String,
    #[serde(default)]
    pub category: Category,
    pub confidence: f32,
    pub sources: Vec<MemorySource>,
    /// How often it was said again.
    #[serde(default)]
    pub support: u32,
    pub superseded_by: Option<String>,
}

impl Fact {
    /// Subject, predicate and object as one line.
    pub fn sentence(&self) -> String {
        format!("{} {} {}", self.subject, self.predicate.replace('_', " "), self.object)
    }

    /// The line that a person is shown.
    pub fn label(&self) -> String {
        let words = if self.quote.is_empty() { self.sentence() } else { self.quote.clone() };
        clip(&words, limits::LABEL_CHARS_MAX)
    }
}

/// What one sitting was about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoryArc {
    pub session: String,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub turn_count: u32,
    pub themes: Vec<String>,
    pub summary: String,
    pub mood_opened: String,
    pub mood_closed: String,
    #[serde(default)]
    pub open_loops: Vec<String>,
    #[serde(default)]
    pub resolved_threads: Vec<String>,
    pub approach: Option<String>,
    /// Computed from the turns, never taken from a model.
    #[serde(default)]
    pub crisis_level_max: u8,
    /// Sentences of the sitting that were not kept as facts; repeated in a later sitting, they are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentioned: Vec<String>,
    pub sources: Vec<MemorySource>,
}

/// An id derived from its parts, so that a promotion that is carried out twice writes the same row twice.
pub fn derived_id(parts: &[&str]) -> String {
    let mut hash = sha2::Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// The first characters of a text, cut at a word where that costs little, with an ellipsis.
pub(crate) fn clip(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    if text.chars().nth(chars_max).is_none() {
        return text.to_owned();
    }
    let head: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    let kept = match head.rfind(char::is_whitespace) {
        Some(at) if at * 2 > head.len() => &head[..at],
        _ => &head,
    };
    format!("{}…", kept.trim_end())
}

/// A model's answer without the code fence around it, if there is one.
pub fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    inside.strip_prefix("json").unwrap_or(inside).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Vec<MemorySource> {
        vec![MemorySource { session: "s".into(), sequences: vec![3] }]
    }

    fn rule(n: usize) -> ProfileRule {
        ProfileRule {
            id: n.to_string(),
            text: format!("rule {n}"),
            confidence: 0.5,
            quotes: vec![],
            sources: source(),
        }
    }

    #[test]
    fn a_user_and_a_session_of_one_name_own_different_memories() {
        let user = Owner::user(&UserId::stored("a"));
        let session = Owner::session(&SessionId::stored("a"));
        assert_ne!(user, session);
        assert_ne!(profile_id(&user), profile_id(&session));
        assert_eq!(profile_id(&user), profile_id(&Owner::stored("user:a")));
        assert!(uuid::Uuid::parse_str(&profile_id(&user)).is_ok());
    }

    #[test]
    fn the_parts_of_an_id_do_not_run_together() {
        assert_ne!(derived_id(&["ab", "c"]), derived_id(&["a", "bc"]));
    }

    #[test]
    fn every_body_is_read_back_as_it_was_written() {
        let fact = Fact {
            subject: SELF.into(),
            predicate: "lives_in".into(),
            object: "Graz".into(),
            quote: "I live in Graz.".into(),
            category: Category::Place,
            confidence: 0.9,
            sources: source(),
            support: 2,
            superseded_by: None,
        };
        let arc = StoryArc {
            session: "s".into(),
            started_at: Timestamp::from_micros(1),
            ended_at: Timestamp::from_micros(2),
            turn_count: 3,
            themes: vec!["work".into()],
            summary: "Talked about work.".into(),
            mood_opened: "tense".into(),
            mood_closed: "calm".into(),
            open_loops: vec!["call the landlord".into()],
            resolved_threads: vec![],
            approach: None,
            crisis_level_max: 1,
            mentioned: Vec::new(),
            sources: source(),
        };
        let profile = Profile { rules: vec![rule(1)], archived_rules: vec![], recall_enabled: true };
        for body in [MemoryBody::Fact(fact), MemoryBody::Arc(arc), MemoryBody::Profile(profile)] {
            let json = body.json().unwrap();
            assert_eq!(MemoryBody::stored(json.as_str()).unwrap(), body);
            assert!(json.as_str().contains(&format!("\"kind\":\"{}\"", body.kind().as_str())));
            assert_eq!(MemoryKind::parse(body.kind().as_str()), Some(body.kind()));
            assert!(!body.text().is_empty());
        }
    }

    #[test]
    fn an_index_holds_the_words_that_a_query_has() {
        let mut memory = Memory {
            id: "m".into(),
            owner: Owner::stored("user:a"),
            body: MemoryBody::Profile(Profile { rules: vec![rule(1)], ..Profile::default() }),
            created_at: Timestamp::default(),
            last_referenced_at: Timestamp::default(),
            dormant_at: None,
        };
        let MemoryBody::Profile(profile) = &mut memory.body else { panic!("{memory:?}") };
        profile.rules[0].text = "Antworte über 東京 in Köln".into();
        assert_eq!(memory.terms(), "antworte uber 東 京 koln");
    }

    #[test]
    fn an_unknown_category_reads_as_other_and_recall_is_off_unless_asked_for() {
        let fact = r#"{"kind":"fact","subject":"user","predicate":"p","object":"o","quote":"q",
            "category":"astrology","confidence":1,"sources":[],"superseded_by":null}"#;
        assert!(
            matches!(MemoryBody::stored(fact).unwrap(), MemoryBody::Fact(fact) if fact.category == Category::Other)
        );
        assert!(
            matches!(MemoryBody::stored(r#"{"kind":"profile"}"#).unwrap(), MemoryBody::Profile(p) if !p.recall_enabled)
        );
    }

    #[test]
    fn sources_name_each_sequence_once() {
        let mut sources = source();
        MemorySource::add(&mut sources, "s", [5, 3, 4]);
        MemorySource::add(&mut sources, "t", [1]);
        assert_eq!(sources[0].sequences, [3, 4, 5]);
        assert_eq!(sources[1], MemorySource { session: "t".into(), sequences: vec![1] });
        MemorySource::add(&mut sources, "t", 0..=limits::SOURCE_SEQUENCES_MAX as u64);
        assert_eq!(sources[1].sequences.len(), limits::SOURCE_SEQUENCES_MAX);
        for n in 0..limits::SOURCES_MAX {
            MemorySource::add(&mut sources, &format!("u{n}"), [1]);
        }
        assert_eq!((sources.len(), sources[0].session.as_str()), (limits::SOURCES_MAX, "u0"));
    }

    #[test]
    fn long_text_is_cut_at_a_word() {
        assert_eq!(clip("short", 5), "short");
        assert_eq!(clip("one two three four", 12), "one two…");
        assert_eq!(clip(&"x".repeat(9), 4), "xxx…");
    }
}
