//! Builders of records: memories, ratings, crises, feedback, lessons, and the talk of a session. The crate's own
//! tests use them too.
#![allow(dead_code, reason = "shared by tests that each need some of it")]

use sederunt_core::Timestamp;
use sederunt_core::feedback::capture::{EventBody, FeedbackEvent, FeedbackText, Guardrails, Signal, Speaker};
use sederunt_core::feedback::failure::Failure;
use sederunt_core::feedback::session::{Addition, FeedbackSession, FeedbackState, SessionBody};
use sederunt_core::feedback::{Label, Modality, RATING_SCHEMA_VERSION, Rating, RatingSource};
use sederunt_core::ids::{SessionId, UserId};
use sederunt_core::lesson::{self, EffectCounts, Lesson, LessonSource, Polarity};
use sederunt_core::memory::owner::TurnSpeaker;
use sederunt_core::memory::{Category, Fact, Memory, MemoryBody, Owner, SELF, StoryArc};
use sederunt_core::safety::opaque::OpaqueId;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::safety::{ClassifierPath, Crisis, Level, ReasonCode};
use sederunt_core::store::Record;
use sederunt_core::talk::{QueuedMessage, Sitting, Talk, Tier};

pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub fn owner(name: &str) -> Owner {
    Owner::user(&UserId::stored(name))
}

/// A fact about what an owner likes.
pub fn fact(id: &str, of: &str, object: &str) -> Memory {
    Memory {
        id: id.to_owned(),
        owner: owner(of),
        body: MemoryBody::Fact(Fact {
            subject: SELF.to_owned(),
            predicate: "likes".to_owned(),
            object: object.to_owned(),
            quote: String::new(),
            category: Category::Preference,
            confidence: 0.75,
            sources: Vec::new(),
            support: 1,
            superseded_by: None,
        }),
        created_at: at("2026-11-16T08:00:00.000001Z"),
        last_referenced_at: at("2026-11-16T08:00:00.000002Z"),
        dormant_at: None,
    }
}

/// The arc of a sitting.
pub fn arc(id: &str, of: &str, summary: &str, on: &str) -> Memory {
    let body = StoryArc {
        session: "s".to_owned(),
        started_at: at(on),
        ended_at: at(on),
        turn_count: 2,
        themes: vec!["garden".to_owned()],
        summary: summary.to_owned(),
        mood_opened: "calm".to_owned(),
        mood_closed: "calm".to_owned(),
        open_loops: Vec::new(),
        resolved_threads: Vec::new(),
        approach: None,
        crisis_level_max: 0,
        mentioned: Vec::new(),
        sources: Vec::new(),
    };
    Memory { body: MemoryBody::Arc(body), created_at: at(on), last_referenced_at: at(on), ..fact(id, of, "") }
}

pub fn rating(n: u128, opaque: &str, on: &str) -> Rating {
    Rating {
        id: uuid::Uuid::from_u128(n),
        session_id_opaque: OpaqueId::stored(opaque),
        user_id_or_null: Some(UserId::stored("ann")),
        recorded_at: at(on),
        label: Label::Positive,
        turn_count_at_end: 3,
        source: RatingSource::ApiEnd,
        modality: Modality::Voice,
        schema_version: RATING_SCHEMA_VERSION,
    }
}

pub fn crisis(n: u128, opaque: &str, on: &str) -> CrisisRecord {
    let found = Crisis {
        level: Level::Acute,
        confidence: 0.9,
        reason_code: ReasonCode::ActiveIdeation,
        flags: Vec::new(),
        override_kind: None,
        classifier_path: ClassifierPath::LexiconAfterFailure,
    };
    CrisisRecord::begin(uuid::Uuid::from_u128(n), OpaqueId::stored(opaque), None, at(on), &found)
}

/// A sitting that has just been opened: nothing of it has landed yet.
pub fn sitting() -> Sitting {
    Sitting {
        number: 1,
        opened_at: None,
        active_at: None,
        first: None,
        turns: 0,
        owner: owner("ann"),
        user: None,
        opened_by: None,
        crisis_max: 0,
        crisis_turns: Vec::new(),
        rated: false,
        buffer: Default::default(),
    }
}

/// A talk with an open sitting.
pub fn seated() -> Talk {
    Talk { sitting: Some(sitting()), sittings: 1, ..Talk::default() }
}

/// A message that has not landed yet.
pub fn queued() -> QueuedMessage {
    QueuedMessage { sequence: None, steers: false, tier: Tier::Quality, speaker: TurnSpeaker::default() }
}

/// A thumb down with words.
pub fn feedback(id: &str) -> FeedbackEvent {
    FeedbackEvent {
        id: id.to_owned(),
        at: at("2026-11-16T08:00:00.000001Z"),
        signal: Signal::Down,
        author: Some(UserId::stored("ann")),
        session: None,
        body: EventBody {
            words: FeedbackText {
                context: Some("too \"long\" \u{1f331}".to_owned()),
                ..FeedbackText::default()
            },
            tags: vec!["tone".to_owned()],
            skill: Some("writing".to_owned()),
            failure_type: None,
            related: None,
            history: Vec::new(),
            rubric: Vec::new(),
            guardrails: Guardrails::default(),
            sequences: vec![1, 2],
            agent: Some("writer".to_owned()),
            trusted: true,
            vague: false,
            failure: None,
        },
    }
}

/// The failure record of a run, before its sequence is set.
pub fn failed(id: &str, session: &str, task: &str, code: &str) -> FeedbackEvent {
    let failure = Failure {
        code: code.to_owned(),
        task_id: task.to_owned(),
        task_slug: Some("report".to_owned()),
        step: None,
    };
    let plain = feedback(id);
    FeedbackEvent {
        at: Timestamp::from_micros(0),
        author: None,
        session: Some(SessionId::stored(session)),
        body: EventBody {
            tags: Vec::new(),
            skill: None,
            sequences: Vec::new(),
            trusted: false,
            failure: Some(failure),
            ..plain.body
        },
        ..plain
    }
}

pub fn thumb(id: &str) -> Record {
    Record::AddFeedback(Box::new(feedback(id)))
}

/// An open feedback session with one message.
pub fn feedback_session(id: &str, event: &str) -> FeedbackSession {
    let said =
        Addition { role: Speaker::User, text: "far too long".to_owned(), at: at("2026-11-16T08:00:01Z") };
    FeedbackSession {
        id: id.to_owned(),
        event: event.to_owned(),
        signal: Signal::Down,
        state: FeedbackState::Open,
        opened_at: at("2026-11-16T08:00:00Z"),
        expires_at: at("2026-11-16T08:01:01Z"),
        author: Some(UserId::stored("ann")),
        version: 1,
        body: SessionBody {
            initial_context: Some("too long".to_owned()),
            messages: vec![said],
            closed: None,
        },
    }
}

pub fn adding(id: &str, event: &str, expects: Option<u64>) -> Record {
    Record::PutFeedbackSession { session: Box::new(feedback_session(id, event)), expects }
}

pub fn lesson(id: &str, text: &str) -> Lesson {
    Lesson {
        id: id.to_owned(),
        polarity: Polarity::Negative,
        state: lesson::LessonState::Active,
        occurrences: 1,
        created_at: at("2026-11-16T08:00:00Z"),
        updated_at: at("2026-11-16T08:00:00Z"),
        version: 1,
        effect: EffectCounts::default(),
        body: lesson::LessonBody {
            text: text.to_owned(),
            category: lesson::LessonCategory::Preference,
            trigger: Some("I wrote \"it\"".to_owned()),
            action: None,
            tags: vec!["tone".to_owned()],
            agent: None,
            grounds: vec![lesson::LessonGround::SaysWhatHappened],
            sources: vec![LessonSource {
                event: "fb_1".to_owned(),
                feedback_session: "fbs_1".to_owned(),
                at: at("2026-11-16T08:00:00Z"),
                author: Some("ann".to_owned()),
                session: Some("s".to_owned()),
                sequences: vec![1, 2],
                trusted: true,
            }],
            accepted: None,
            edited: None,
            retired: None,
        },
    }
}

pub fn taught(id: &str, text: &str, expects: Option<u64>) -> Record {
    Record::PutLesson { lesson: Box::new(lesson(id, text)), expects }
}
