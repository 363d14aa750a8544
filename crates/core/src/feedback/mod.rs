//! The feedback room: what people thought of a sitting, and what they say about an agent's work.
//!
//! Two things that are never joined. A [`Rating`] is a label at the end of a sitting and never holds user text: the
//! client supplies label, source and modality, the server fills in the rest. A feedback event ([`capture`]) is a
//! thumb with words; a feedback session ([`session`]) gathers what is added to it, and becomes a lesson (see
//! [`crate::lesson`]). A failed run writes an event of the system's own ([`failure`]), which is kept apart from both.

pub mod capture;
pub mod complaint;
pub mod failure;
pub mod secret;
pub mod session;
pub mod stats;
mod store;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::UserId;
use crate::safety::codes::codes;
use crate::safety::opaque::OpaqueId;
use crate::time::Timestamp;

pub use store::{FeedbackStore, RatingStore};

/// The version of the export format of [`Rating`].
pub const RATING_SCHEMA_VERSION: u32 = 1;

/// One answer to "was this helpful?", at the end of a sitting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rating {
    pub id: uuid::Uuid,
    pub session_id_opaque: OpaqueId,
    #[serde(with = "user_id_or_null")]
    pub user_id_or_null: Option<UserId>,
    pub recorded_at: Timestamp,
    pub label: Label,
    pub turn_count_at_end: u64,
    pub source: RatingSource,
    #[serde(default)]
    pub modality: Modality,
    pub schema_version: u32,
}

/// How many ratings there are of each label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RatingCounts {
    pub positive: u64,
    pub negative: u64,
    pub skip: u64,
}

impl RatingCounts {
    pub fn total(self) -> u64 {
        self.positive + self.negative + self.skip
    }

    pub fn add(&mut self, label: Label, many: u64) {
        match label {
            Label::Positive => self.positive += many,
            Label::Negative => self.negative += many,
            Label::Skip => self.skip += many,
        }
    }

    pub fn of(ratings: &[Rating]) -> Self {
        let mut counts = Self::default();
        ratings.iter().for_each(|rating| counts.add(rating.label, 1));
        counts
    }
}

impl std::ops::Add for RatingCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            positive: self.positive + other.positive,
            negative: self.negative + other.negative,
            skip: self.skip + other.skip,
        }
    }
}

/// A rating as a client sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatingRequest {
    pub label: Label,
    pub source: RatingSource,
    pub modality: Modality,
}

codes!(
    Label { Positive = "positive", Negative = "negative", Skip = "skip" }
);
codes!(
    /// The surface on which the sitting was ended.
    RatingSource {
        CliEnd = "cli_end",
        CliExit = "cli_exit",
        ApiEnd = "api_end",
        WebEnd = "web_end",
        VoiceEnd = "voice_end",
    }
);
codes!(Modality { Text = "text", Voice = "voice" });

#[expect(clippy::derivable_impls, reason = "the words are declared by a macro that knows no default")]
impl Default for Modality {
    fn default() -> Self {
        Self::Text
    }
}

/// The first instant that a purge keeps: records older than `kept` are removed, by whole days in UTC; the day of the
/// cutoff itself stays.
pub fn retention_cutoff(now: Timestamp, kept: Duration) -> Timestamp {
    const DAY_MICROS: i64 = 86_400_000_000;
    let cut = now.minus(kept).as_micros();
    Timestamp::from_micros(cut - cut.rem_euclid(DAY_MICROS))
}

mod user_id_or_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::ids::UserId;

    pub fn serialize<S: Serializer>(id: &Option<UserId>, to: S) -> Result<S::Ok, S::Error> {
        id.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<UserId>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(UserId::stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_is_exported_under_its_field_names_and_read_back() {
        let rating = Rating {
            id: uuid::Uuid::from_u128(7),
            session_id_opaque: OpaqueId::stored("00ff"),
            user_id_or_null: None,
            recorded_at: Timestamp::parse("2026-11-16T08:00:00.000001Z").unwrap(),
            label: Label::Positive,
            turn_count_at_end: 4,
            source: RatingSource::CliEnd,
            modality: Modality::Text,
            schema_version: RATING_SCHEMA_VERSION,
        };
        let text = serde_json::to_string(&rating).unwrap();
        assert_eq!(
            text,
            r#"{"id":"00000000-0000-0000-0000-000000000007","session_id_opaque":"00ff","user_id_or_null":null,"recorded_at":"2026-11-16T08:00:00.000001Z","label":"positive","turn_count_at_end":4,"source":"cli_end","modality":"text","schema_version":1}"#
        );
        assert_eq!(serde_json::from_str::<Rating>(&text).unwrap(), rating);
        let older = text.replace(r#""modality":"text","#, "").replace("null,\"rec", "\"u\",\"rec");
        let older = serde_json::from_str::<Rating>(&older).unwrap();
        assert_eq!((older.modality, older.user_id_or_null), (Modality::Text, Some(UserId::stored("u"))));
        assert!(serde_json::from_str::<Rating>(&text.replacen('{', r#"{"text":"hi","#, 1)).is_err());
    }

    #[test]
    fn every_word_is_read_back_and_no_other() {
        for label in Label::ALL {
            assert_eq!(Label::parse(label.as_str()), Some(*label));
        }
        for source in RatingSource::ALL {
            assert_eq!(RatingSource::parse(source.as_str()), Some(*source));
            assert_eq!(serde_json::to_string(source).unwrap(), format!("{:?}", source.as_str()));
        }
        for (text, label) in
            [("positive", Some(Label::Positive)), ("Positive", None), ("", None), ("y", None)]
        {
            assert_eq!(Label::parse(text), label, "{text}");
        }
        assert_eq!(Modality::parse("voice"), Some(Modality::Voice));
    }

    #[test]
    fn the_day_of_the_cutoff_stays() {
        let days = |n: u64| Duration::from_secs(n * 86_400);
        let table = [
            ("2026-11-16T08:00:00Z", 180, "2026-05-20T00:00:00.000000Z"),
            ("2026-11-16T00:00:00Z", 1, "2026-11-15T00:00:00.000000Z"),
            ("2026-11-16T23:59:59.999999Z", 1, "2026-11-15T00:00:00.000000Z"),
            ("1970-01-02T12:00:00Z", 3, "1969-12-30T00:00:00.000000Z"),
        ];
        for (now, kept, cutoff) in table {
            let now = Timestamp::parse(now).unwrap();
            assert_eq!(retention_cutoff(now, days(kept)).to_string(), cutoff);
        }
    }
}
