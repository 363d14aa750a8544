//! Whether a new lesson is one that is known already, and how the known one changes.

use super::{EffectCounts, Lesson, LessonBody, LessonGround, LessonSource, LessonState, Polarity, id_of};
use crate::ids::TenantId;
use crate::limits;
use crate::memory::words;

/// The word overlap (Jaccard) from which on two lessons are one.
const ALIKE: f32 = 0.6;

/// A lesson that was just drawn from a feedback.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonDraft {
    pub polarity: Polarity,
    pub body: LessonBody,
    pub source: LessonSource,
}

/// The outcome of merging a draft.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeOutcome {
    New(Box<Lesson>),
    /// A known lesson came up again.
    Again(Box<Lesson>),
    /// This feedback was counted for the lesson before.
    Counted(Box<Lesson>),
}

impl MergeOutcome {
    pub fn lesson(&self) -> &Lesson {
        match self {
            Self::New(lesson) | Self::Again(lesson) | Self::Counted(lesson) => lesson,
        }
    }
}

/// Merges a draft into the most similar of the lessons that a store found for its words, or makes a new lesson.
pub fn merge(tenant: &TenantId, draft: LessonDraft, known: &[Lesson]) -> MergeOutcome {
    let agent = draft.body.agent.as_deref();
    let id = id_of(tenant, draft.polarity, agent, &draft.body.text);
    let (words, negates) = (words::set(&draft.body.text), words::negates(&draft.body.text));
    let likeness = |lesson: &Lesson| {
        // The same words first made it, whatever a person has made of them since.
        match words::negates(&lesson.body.text) == negates {
            _ if lesson.id == id => 2.0,
            true => words::jaccard(&words, &lesson.words()),
            false => 0.0,
        }
    };
    let same_kind =
        |lesson: &&Lesson| lesson.polarity == draft.polarity && lesson.body.agent.as_deref() == agent;
    let best = known.iter().filter(same_kind).map(|lesson| (likeness(lesson), lesson));
    let best = best
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(a, x), (b, y)| a.total_cmp(b).then(y.id.cmp(&x.id)));
    match best {
        Some((_, lesson)) => again(lesson, draft),
        None => {
            let at = draft.source.at;
            let state = if draft.source.trusted { LessonState::Active } else { LessonState::Proposed };
            MergeOutcome::New(Box::new(Lesson {
                id,
                polarity: draft.polarity,
                state,
                occurrences: 1,
                created_at: at,
                updated_at: at,
                version: 0,
                effect: EffectCounts::default(),
                body: LessonBody { sources: vec![draft.source], ..draft.body },
            }))
        }
    }
}

fn again(lesson: &Lesson, draft: LessonDraft) -> MergeOutcome {
    let mut lesson = Box::new(lesson.clone());
    if lesson.body.sources.iter().any(|source| source.event == draft.source.event) {
        return MergeOutcome::Counted(lesson);
    }
    let source = draft.source;
    let counts = source.trusted || lesson.state == LessonState::Proposed;
    if counts {
        lesson.occurrences += 1;
        lesson.updated_at = lesson.updated_at.max(source.at);
        lesson.believe(LessonGround::CameUpAgain);
    }
    if source.trusted && lesson.state == LessonState::Proposed {
        lesson.state = LessonState::Active;
    }
    for ground in draft.body.grounds {
        lesson.believe(ground);
    }
    for tag in draft.body.tags {
        if !lesson.body.tags.contains(&tag) && lesson.body.tags.len() < limits::TAGS_MAX {
            lesson.body.tags.push(tag);
        }
    }
    lesson.body.action = lesson.body.action.take().or(draft.body.action);
    lesson.body.trigger = lesson.body.trigger.take().or(draft.body.trigger);
    lesson.body.sources.push(source);
    let surplus = lesson.body.sources.len().saturating_sub(limits::SOURCES_MAX);
    lesson.body.sources.drain(..surplus);
    MergeOutcome::Again(lesson)
}

#[cfg(test)]
mod tests {
    use super::super::LessonTouch;
    use super::super::tests::lesson;
    use super::*;
    use crate::time::Timestamp;

    fn draft(text: &str, event: &str, trusted: bool) -> LessonDraft {
        let source = LessonSource {
            event: event.to_owned(),
            feedback_session: "fbs_0".into(),
            at: Timestamp::from_micros(9),
            author: None,
            session: None,
            sequences: Vec::new(),
            trusted,
        };
        LessonDraft { polarity: Polarity::Negative, body: lesson(text).body, source }
    }

    fn merged(draft: LessonDraft, known: &[Lesson]) -> MergeOutcome {
        merge(&TenantId::stored("t"), draft, known)
    }

    #[test]
    fn alike_is_the_same_words_mostly_about_the_same_agent_and_thing() {
        let known = lesson("Do not edit the lock file by hand");
        let table = [
            ("Never edit the lock file by hand", true),
            ("Do not edit the license file or the readme by hand", false),
            ("Edit the lock file by hand", false),
            ("Answer in French", false),
        ];
        for (text, same) in table {
            let known = std::slice::from_ref(&known);
            assert_eq!(
                matches!(merged(draft(text, "fb_1", true), known), MergeOutcome::Again(_)),
                same,
                "{text}"
            );
        }
        let mut praise = draft("Do not edit the lock file by hand", "fb_1", true);
        praise.polarity = Polarity::Positive;
        assert!(matches!(merged(praise, std::slice::from_ref(&known)), MergeOutcome::New(_)));
        let mut elses = draft("Do not edit the lock file by hand", "fb_1", true);
        elses.body.agent = Some("a".into());
        assert!(matches!(merged(elses, &[known]), MergeOutcome::New(_)));
    }

    #[test]
    fn each_feedback_counts_once() {
        let text = "Do not edit the lock file";
        let MergeOutcome::New(one) = merged(draft(text, "fb_1", true), &[]) else { panic!("not new") };
        assert_eq!((one.occurrences, one.state), (1, LessonState::Active));
        let MergeOutcome::Again(two) = merged(draft(text, "fb_2", true), &[*one]) else {
            panic!("not alike")
        };
        assert_eq!((two.occurrences, two.body.sources.len()), (2, 2));
        assert!(two.body.grounds.contains(&LessonGround::CameUpAgain));
        assert!(
            matches!(merged(draft(text, "fb_2", true), &[*two]), MergeOutcome::Counted(same) if same.occurrences == 2)
        );
    }

    #[test]
    fn a_strangers_word_proposes_and_never_counts_for_what_members_said() {
        let text = "Do not edit the lock file";
        let MergeOutcome::New(proposed) = merged(draft(text, "fb_1", false), &[]) else { panic!("not new") };
        assert_eq!(proposed.state, LessonState::Proposed);
        let MergeOutcome::Again(more) = merged(draft(text, "fb_2", false), &[*proposed]) else {
            panic!("not alike")
        };
        assert_eq!((more.state, more.occurrences), (LessonState::Proposed, 2));
        let MergeOutcome::Again(active) = merged(draft(text, "fb_3", true), &[*more]) else {
            panic!("not alike")
        };
        assert_eq!((active.state, active.occurrences), (LessonState::Active, 3));
        let MergeOutcome::Again(same) = merged(draft(text, "fb_4", false), &[*active]) else {
            panic!("not alike")
        };
        assert_eq!((same.state, same.occurrences, same.body.sources.len()), (LessonState::Active, 3, 4));
    }

    #[test]
    fn what_a_person_reworded_or_retired_takes_in_what_first_made_it() {
        let text = "Do not edit the lock file";
        let mut known = lesson(text);
        known.body.text = "Run the package manager".into();
        known.body.edited = Some(LessonTouch { by: None, at: Timestamp::from_micros(1) });
        known.state = LessonState::Retired;
        let MergeOutcome::Again(same) = merged(draft(text, "fb_1", true), &[known]) else {
            panic!("not alike")
        };
        assert_eq!(
            (same.state, same.body.text.as_str(), same.occurrences),
            (LessonState::Retired, "Run the package manager", 2)
        );
    }

    #[test]
    fn only_the_newest_sources_are_kept() {
        let text = "Do not edit the lock file";
        let mut known = lesson(text);
        for n in 0..limits::SOURCES_MAX + 5 {
            known = merged(draft(text, &format!("fb_{n}"), true), &[known]).lesson().clone();
        }
        assert_eq!(known.occurrences, 1 + limits::SOURCES_MAX as u64 + 5);
        assert_eq!(known.body.sources.len(), limits::SOURCES_MAX);
        assert_eq!(known.body.sources[0].event, "fb_5");
    }
}
