//! Draws a lesson from feedback: by fixed rules, or by reading a model's answer about the same matter.
//!
//! The lesson is what the person says should change; failing that, what they forbid or expected; then what went
//! wrong; and only then the bare context. Where there is nothing to learn from there is no lesson, rather than an
//! empty one.

use serde::Deserialize;

use super::merge::LessonDraft;
use super::{Action, ActionFamily, LessonBody, LessonCategory, LessonGround, LessonSource, Polarity};
use crate::feedback::capture::{FeedbackEvent, FeedbackText, Speaker, says_something};
use crate::feedback::complaint::{Complaint, ComplaintKind};
use crate::feedback::secret;
use crate::feedback::session::FeedbackSession;
use crate::limits;
use crate::memory::{clip, words};

/// Everything that a lesson is drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonMaterial {
    pub event: FeedbackEvent,
    pub session: FeedbackSession,
    /// The messages before the feedback, oldest first.
    pub prior: Vec<SourceMessage>,
}

/// A message before the feedback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMessage {
    pub role: Speaker,
    pub text: String,
    /// Its sequence in the log, where there is one.
    pub sequence: Option<u64>,
}

const TRIGGER_CHARS_MAX: usize = 200;
const TARGET_CHARS_MAX: usize = 100;
/// Characters from which on a context is taken to say what happened.
const CONTEXT_CHARS_MIN: usize = 10;

impl LessonMaterial {
    pub fn complaints(&self) -> Vec<Complaint> {
        let words = &self.event.body.words;
        let fields = [&words.context, &words.what_went_wrong].into_iter().flatten();
        // The session's initial context usually repeats the thumb's own words: each is read once.
        let fields =
            fields.filter(|text| self.session.body.initial_context.as_deref() != Some(text.as_str()));
        let said = fields.flat_map(|text| crate::feedback::complaint::complaints(text, self.event.at));
        said.chain(self.session.complaints()).collect()
    }

    /// What the person said, in one text: the thumb's words, then what was added, each once.
    pub fn context(&self) -> String {
        let came_with = [&self.event.body.words.context, &self.session.body.initial_context];
        let came_with = came_with.into_iter().flatten().map(String::as_str);
        let mut said: Vec<&str> = Vec::new();
        for text in came_with.chain(self.session.said_by_user().map(|one| one.text.as_str())) {
            let text = text.trim();
            if !text.is_empty() && !said.contains(&text) && self.teaches(text) {
                said.push(text);
            }
        }
        said.join("\n")
    }

    /// The thumb's words, without those that teach nothing.
    fn words(&self) -> FeedbackText {
        let words = &self.event.body.words;
        let taught = |text: &Option<String>| text.clone().filter(|text| self.teaches(text));
        FeedbackText {
            context: taught(&words.context),
            what_went_wrong: taught(&words.what_went_wrong),
            what_to_change: taught(&words.what_to_change),
            what_worked: taught(&words.what_worked),
        }
    }

    /// The words of a vague thumb may say only that something was bad. Then they are no part of the lesson:
    /// what the person answered is.
    fn teaches(&self, text: &str) -> bool {
        !self.event.body.vague || says_something(text, 1)
    }

    /// The agent's last message before the feedback.
    fn trigger(&self) -> Option<&SourceMessage> {
        self.prior.iter().rev().find(|prior| prior.role == Speaker::Assistant)
    }

    /// The parts of a draft that do not depend on how the lesson was worded.
    fn draft(&self, text: &str, tags: Vec<String>, grounds: Vec<LessonGround>) -> LessonDraft {
        let polarity = Polarity::from(self.event.signal);
        let trigger = self.trigger();
        let sequences = match &self.event.body.sequences[..] {
            [] => self.prior.iter().rev().take(2).filter_map(|prior| prior.sequence).rev().collect(),
            given => given.to_vec(),
        };
        let body = &self.event.body;
        LessonDraft {
            polarity,
            body: LessonBody {
                text: clip(text, limits::LESSON_CHARS_MAX),
                category: category(polarity, &self.complaints()),
                trigger: trigger.map(|prior| clip(&prior.text, TRIGGER_CHARS_MAX)),
                action: trigger.and_then(|prior| action(&prior.text)),
                tags,
                agent: body.agent.clone(),
                grounds,
                sources: Vec::new(),
                accepted: None,
                edited: None,
                retired: None,
            },
            source: LessonSource {
                event: self.event.id.clone(),
                feedback_session: self.session.id.clone(),
                at: self.event.at,
                author: self.event.author.as_ref().map(ToString::to_string),
                session: self.event.session.as_ref().map(ToString::to_string),
                sequences,
                trusted: body.trusted,
            },
        }
    }

    fn grounds(&self) -> Vec<LessonGround> {
        let words = self.words();
        let told = words.what_to_change.is_some() || words.what_worked.is_some();
        let happened = words.what_went_wrong.is_some() || self.context().chars().count() > CONTEXT_CHARS_MIN;
        [
            (told, LessonGround::SaysWhatToChange),
            (happened, LessonGround::SaysWhatHappened),
            (!self.complaints().is_empty(), LessonGround::NamesAComplaint),
            (self.trigger().is_some_and(|prior| action(&prior.text).is_some()), LessonGround::KnowsTheAction),
            (self.prior.len() >= 2, LessonGround::KnowsTheTurns),
        ]
        .into_iter()
        .filter_map(|(holds, ground)| holds.then_some(ground))
        .collect()
    }

    /// The tags that were sent with the feedback, and the subjects that its words name.
    fn tags(&self) -> Vec<String> {
        let body = &self.event.body;
        let mut tags = body.tags.clone();
        tags.extend(body.skill.clone());
        let words = words::set(&[self.context(), body.words.texts()].join(" "));
        let about = SUBJECTS.iter().filter(|(_, marks)| marks.iter().any(|mark| words.contains(*mark)));
        tags.extend(about.map(|(tag, _)| (*tag).to_owned()));
        let mut seen = std::collections::HashSet::new();
        tags.retain(|tag| seen.insert(tag.clone()));
        if tags.is_empty() {
            tags.push("general".to_owned());
        }
        tags.truncate(limits::TAGS_MAX);
        tags
    }
}

/// The lesson of a matter by fixed rules.
pub fn infer(matter: &LessonMaterial) -> Option<LessonDraft> {
    let words = matter.words();
    let context = matter.context();
    let context = (!words::set(&context).is_empty()).then_some(context);
    let text = match Polarity::from(matter.event.signal) {
        Polarity::Negative => avoid(matter, &words, context.as_deref()),
        Polarity::Positive => repeat(matter, &words, context.as_deref()),
    }?;
    Some(matter.draft(&text, matter.tags(), matter.grounds()))
}

fn avoid(matter: &LessonMaterial, words: &FeedbackText, context: Option<&str>) -> Option<String> {
    if let Some(change) = &words.what_to_change {
        return Some(match &words.what_went_wrong {
            Some(wrong) => format!("{} (before: {})", ended(change), wrong.trim_end_matches('.')),
            None => change.clone(),
        });
    }
    let mut complaints = matter.complaints();
    complaints.sort_by_key(|complaint| complaint.kind);
    if let Some(said) = complaints.iter().find_map(wording) {
        return Some(said);
    }
    let act = matter.trigger().and_then(|prior| action(&prior.text));
    match (&words.what_went_wrong, context, act) {
        (Some(wrong), _, _) => Some(format!("Avoid this: {wrong}")),
        (None, Some(context), Some(act)) => {
            Some(format!("When you {} {}: {context}", act.family.as_str(), act.target))
        }
        (None, Some(context), _) => Some(format!("Avoid this: {context}")),
        (None, None, _) => None,
    }
}

fn repeat(matter: &LessonMaterial, words: &FeedbackText, context: Option<&str>) -> Option<String> {
    let act = matter.trigger().and_then(|prior| action(&prior.text));
    match (&words.what_worked, context, act) {
        (Some(worked), _, _) => Some(format!("Do this again: {worked}")),
        (None, Some(context), Some(act)) => {
            Some(format!("When you {} {}, do this again: {context}", act.family.as_str(), act.target))
        }
        (None, Some(context), None) => Some(format!("Do this again: {context}")),
        (None, None, _) => None,
    }
}

/// A complaint as an order; `None` where it does not say what to do.
fn wording(complaint: &Complaint) -> Option<String> {
    let detail = complaint.detail.as_str();
    // A detail that is only the phrase itself says nothing.
    if words::set(detail).is_empty() {
        return None;
    }
    let without_to = detail.strip_prefix("to ").unwrap_or(detail);
    match complaint.kind {
        ComplaintKind::Constraint => Some(format!("Do not {without_to}")),
        ComplaintKind::IgnoredInstruction => Some(format!("Remember what was asked: {without_to}")),
        ComplaintKind::MissedExpectation => Some(format!("This was expected: {without_to}")),
        ComplaintKind::Omission => Some(format!("Do not leave this out: {without_to}")),
        ComplaintKind::Damage => Some(format!("Do not break this: {without_to}")),
        ComplaintKind::Dishonesty => Some(format!("Be truthful {detail}")),
        ComplaintKind::Performance | ComplaintKind::Quality | ComplaintKind::GeneralFrustration => None,
    }
}

fn ended(sentence: &str) -> &str {
    sentence.trim_end_matches('.')
}

fn category(polarity: Polarity, complaints: &[Complaint]) -> LessonCategory {
    let prefers = |complaint: &Complaint| {
        matches!(complaint.kind, ComplaintKind::Constraint | ComplaintKind::IgnoredInstruction)
    };
    match polarity {
        Polarity::Positive => LessonCategory::Learning,
        Polarity::Negative if complaints.iter().any(prefers) => LessonCategory::Preference,
        Polarity::Negative => LessonCategory::Error,
    }
}

/// What an agent's message says that it did, and to what.
pub fn action(text: &str) -> Option<Action> {
    let mut at = 0;
    for word in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        at += word.len();
        let verb = word.trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let Some((family, _)) = VERBS.iter().find(|(_, verbs)| verbs.contains(&verb.as_str())) else {
            continue;
        };
        let rest = &text[at..];
        let clause =
            rest.find(['\n', ';', '!', '?']).or_else(|| rest.find(". ")).map_or(rest, |end| &rest[..end]);
        let target = clip(clause.trim_end_matches('.'), TARGET_CHARS_MAX);
        if !words::set(&target).is_empty() {
            return Some(Action { family: *family, target });
        }
    }
    None
}

const VERBS: &[(ActionFamily, &[&str])] = &[
    (ActionFamily::Edit, &["edited", "changed", "updated", "modified", "rewrote", "refactored", "renamed"]),
    (ActionFamily::Create, &["created", "added", "wrote", "generated", "implemented"]),
    (ActionFamily::Command, &["ran", "executed", "installed", "started"]),
    (ActionFamily::Fix, &["fixed", "repaired", "resolved", "corrected", "patched"]),
    (ActionFamily::Deploy, &["deployed", "published", "released", "pushed", "merged", "shipped"]),
    (ActionFamily::Delete, &["deleted", "removed", "dropped", "cleared"]),
];

/// Subjects of feedback, by the words that give them away.
const SUBJECTS: &[(&str, &[&str])] = &[
    ("testing", &["test", "tests", "testing", "coverage", "assertion"]),
    ("git", &["git", "commit", "commits", "branch", "merge", "rebase", "push"]),
    ("deployment", &["deploy", "deployed", "deployment", "release", "production"]),
    ("security", &["security", "secret", "password", "token", "credentials"]),
    ("performance", &["slow", "performance", "latency", "timeout"]),
    ("database", &["database", "sql", "migration", "query", "schema"]),
    ("api", &["api", "endpoint", "route", "request"]),
    ("frontend", &["css", "html", "layout", "button", "frontend"]),
    ("documentation", &["docs", "documentation", "readme", "comment", "comments"]),
    ("tone", &["tone", "polite", "rude", "verbose", "concise", "long", "short", "shorter"]),
    ("formatting", &["format", "formatting", "tabs", "spaces", "indentation", "lint"]),
];

/// The answer that a model is asked for.
#[derive(Deserialize)]
struct LessonAnswer {
    lesson: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
}

/// The lesson as a model worded it. `None` where its answer cannot be used: the caller falls back to the rules.
pub fn read(answer: &str, matter: &LessonMaterial) -> Option<LessonDraft> {
    let (from, to) = (answer.find('{')?, answer.rfind('}')?);
    let told: LessonAnswer = serde_json::from_str(answer.get(from..=to)?).ok()?;
    let text = told.lesson?.replace('\0', "");
    if words::set(&text).is_empty() || secret::found(&text).is_some() {
        return None;
    }
    let tags = crate::feedback::capture::tags(told.tags.into_iter().take(limits::TAGS_MAX).collect()).ok()?;
    let mut all = matter.tags();
    all.extend(tags.into_iter().filter(|tag| secret::found(tag).is_none()));
    all.retain(|tag| tag != "general" || matter.event.body.tags.contains(tag));
    let mut seen = std::collections::HashSet::new();
    all.retain(|tag| seen.insert(tag.clone()));
    all.truncate(limits::TAGS_MAX);
    Some(matter.draft(text.trim(), all, matter.grounds()))
}

impl FeedbackText {
    fn texts(&self) -> String {
        self.fields().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::capture::{EventBody, Guardrails, Signal};
    use crate::feedback::session::{Addition, FeedbackState, SessionBody};
    use crate::ids::SessionId;
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(7);

    fn matter(signal: Signal, words: FeedbackText, added: &[&str]) -> LessonMaterial {
        let said = |text: &&str| Addition { role: Speaker::User, text: (*text).to_owned(), at: NOW };
        LessonMaterial {
            session: FeedbackSession {
                id: "fbs_0".into(),
                event: "fb_0".into(),
                signal,
                state: FeedbackState::Open,
                opened_at: NOW,
                expires_at: NOW,
                author: None,
                version: 1,
                body: SessionBody {
                    initial_context: words.context.clone(),
                    messages: added.iter().map(said).collect(),
                    closed: None,
                },
            },
            event: FeedbackEvent {
                id: "fb_0".into(),
                at: NOW,
                signal,
                author: None,
                session: Some(SessionId::stored("s")),
                body: EventBody {
                    words,
                    tags: Vec::new(),
                    skill: None,
                    failure_type: None,
                    related: None,
                    history: Vec::new(),
                    rubric: Vec::new(),
                    guardrails: Guardrails::default(),
                    sequences: Vec::new(),
                    agent: None,
                    trusted: true,
                    vague: false,
                    failure: None,
                },
            },
            prior: Vec::new(),
        }
    }

    fn words(
        context: Option<&str>,
        wrong: Option<&str>,
        change: Option<&str>,
        worked: Option<&str>,
    ) -> FeedbackText {
        let own = |text: Option<&str>| text.map(str::to_owned);
        FeedbackText {
            context: own(context),
            what_went_wrong: own(wrong),
            what_to_change: own(change),
            what_worked: own(worked),
        }
    }

    #[test]
    fn what_should_change_comes_before_what_was_forbidden_and_that_before_what_went_wrong() {
        use Signal::{Down, Up};
        let table: [(Signal, FeedbackText, &[&str], Option<&str>); 11] = [
            (
                Down,
                words(
                    Some("you forgot the tests"),
                    Some("tests were red"),
                    Some("Run the tests first."),
                    None,
                ),
                &[],
                Some("Run the tests first (before: tests were red)"),
            ),
            (Down, words(None, None, Some("Run the tests first."), None), &[], Some("Run the tests first.")),
            (
                Down,
                words(Some("it was slow"), None, None, None),
                &["Don't touch the lock file"],
                Some("Do not touch the lock file"),
            ),
            (
                Down,
                words(Some("You forgot to commit"), None, None, None),
                &[],
                Some("Do not leave this out: commit"),
            ),
            (
                Down,
                words(Some("I told you to use tabs"), None, None, None),
                &[],
                Some("Remember what was asked: use tabs"),
            ),
            (
                Down,
                words(None, Some("the reply was in German"), None, None),
                &[],
                Some("Avoid this: the reply was in German"),
            ),
            (
                Down,
                words(Some("answers too long"), None, None, None),
                &[],
                Some("Avoid this: answers too long"),
            ),
            (Down, words(None, None, None, None), &[], None),
            (
                Up,
                words(None, None, None, Some("ran the tests first")),
                &[],
                Some("Do this again: ran the tests first"),
            ),
            (Up, words(Some("short answers"), None, None, None), &[], Some("Do this again: short answers")),
            (Up, words(None, None, None, None), &[], None),
        ];
        for (signal, words, added, expected) in table {
            let draft = infer(&matter(signal, words.clone(), added));
            assert_eq!(draft.as_ref().map(|draft| draft.body.text.as_str()), expected, "{words:?} {added:?}");
        }
    }

    #[test]
    fn after_a_clarification_the_lesson_is_worded_from_the_answer_and_not_from_the_vague_word() {
        use Signal::{Down, Up};
        let bad = || words(Some("bad"), None, None, None);
        // The thumb, its words, its session's initial context, what was added, and the expected lesson.
        type Case<'a> = (Signal, FeedbackText, Option<&'a str>, &'a [&'a str], Option<&'a str>);
        let table: [Case<'_>; 12] = [
            (Down, bad(), None, &["answers too long"], Some("Avoid this: answers too long")),
            (Down, bad(), Some("bad"), &["answers too long"], Some("Avoid this: answers too long")),
            (Down, bad(), Some("answers too long"), &[], Some("Avoid this: answers too long")),
            (
                Down,
                bad(),
                Some("that was wrong"),
                &["terrible", "answers too long", "and in German"],
                Some("Avoid this: answers too long\nand in German"),
            ),
            (
                Down,
                words(Some("\u{1f44e}"), None, None, None),
                None,
                &["answers too long"],
                Some("Avoid this: answers too long"),
            ),
            (
                Down,
                words(None, Some("wrong"), None, None),
                None,
                &["answers too long"],
                Some("Avoid this: answers too long"),
            ),
            (
                Down,
                words(None, None, Some("do better"), None),
                None,
                &["answers too long"],
                Some("Avoid this: answers too long"),
            ),
            (Down, bad(), None, &["Don't touch the lock file"], Some("Do not touch the lock file")),
            // A single word may say what the feedback is about.
            (
                Down,
                words(Some("tests"), None, None, None),
                None,
                &["none were run"],
                Some("Avoid this: tests\nnone were run"),
            ),
            (
                Up,
                words(Some("great"), None, None, Some("good")),
                None,
                &["short answers"],
                Some("Do this again: short answers"),
            ),
            (Down, bad(), Some("wrong"), &["useless!"], None),
            (Up, words(Some("great"), None, None, None), None, &[], None),
        ];
        for (signal, words, opened, added, expected) in table {
            let mut one = matter(signal, words.clone(), added);
            one.session.body.initial_context = opened.map(str::to_owned);
            one.event.body.vague = true;
            let draft = infer(&one);
            assert_eq!(draft.as_ref().map(|draft| draft.body.text.as_str()), expected, "{words:?} {added:?}");
        }
        let mut one = matter(Down, bad(), &["that was the old branch"]);
        one.event.body.vague = true;
        one.prior = vec![SourceMessage {
            role: Speaker::Assistant,
            text: "I pushed main.".into(),
            sequence: Some(5),
        }];
        assert_eq!(infer(&one).unwrap().body.text, "When you deploy main: that was the old branch");
    }

    #[test]
    fn the_turns_before_it_give_the_action_the_places_and_the_grounds() {
        let mut one = matter(Signal::Down, words(Some("that was the wrong branch"), None, None, None), &[]);
        one.prior = vec![
            SourceMessage { role: Speaker::User, text: "ship it".into(), sequence: Some(4) },
            SourceMessage {
                role: Speaker::Assistant,
                text: "Done. I pushed main to production.".into(),
                sequence: Some(5),
            },
        ];
        let draft = infer(&one).unwrap();
        let action = Action { family: ActionFamily::Deploy, target: "main to production".into() };
        assert_eq!(draft.body.text, "When you deploy main to production: that was the wrong branch");
        assert_eq!(draft.body.action, Some(action));
        assert_eq!(draft.source.sequences, [4, 5]);
        assert_eq!(draft.body.tags, ["git"]);
        assert_eq!(
            draft.body.grounds,
            [
                LessonGround::SaysWhatHappened,
                LessonGround::NamesAComplaint,
                LessonGround::KnowsTheAction,
                LessonGround::KnowsTheTurns
            ]
        );
        one.event.body.sequences = vec![2];
        assert_eq!(infer(&one).unwrap().source.sequences, [2]);
    }

    #[test]
    fn a_models_wording_is_taken_if_it_can_be_used() {
        let one = matter(Signal::Down, words(Some("answers too long"), None, None, None), &[]);
        let text = |answer: &str| read(answer, &one).map(|draft| (draft.body.text, draft.body.tags));
        let tags = |extra: &str| vec!["tone".to_owned(), extra.to_owned()];
        assert_eq!(
            text("Here: {\"lesson\": \"Keep answers short\", \"tags\": [\"Style\"]} ok"),
            Some(("Keep answers short".to_owned(), tags("style")))
        );
        let secret = "{\"lesson\": \"use password: hunter2hunter2\"}";
        for bad in ["", "no", "{}", "{\"lesson\": \" \"}", "{\"lesson\": 3}", "}{", secret] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_action_is_a_verb_with_something_to_do_it_to() {
        let table = [
            ("I edited src/main.rs and left.", Some((ActionFamily::Edit, "src/main.rs and left"))),
            ("Deleted the old table; sorry", Some((ActionFamily::Delete, "the old table"))),
            ("I ran it.", None),
            ("Hello there", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = action(text);
            assert_eq!(found.as_ref().map(|one| (one.family, one.target.as_str())), expected, "{text}");
        }
    }

    #[test]
    fn a_lesson_that_is_one_character_too_long_is_cut_and_marked() {
        let text = |chars: usize| {
            let long = "x".repeat(chars);
            let matter = matter(Signal::Down, words(None, None, Some(&long), None), &[]);
            matter.draft(&long, Vec::new(), Vec::new()).body.text
        };
        assert_eq!(text(limits::LESSON_CHARS_MAX), "x".repeat(limits::LESSON_CHARS_MAX));
        let cut = text(limits::LESSON_CHARS_MAX + 1);
        assert_eq!((cut.chars().count(), cut.chars().last()), (limits::LESSON_CHARS_MAX, Some('…')));
    }
}
