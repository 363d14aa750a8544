//! Captures feedback: checks a thumb with its words before it is kept, and builds the event.
//!
//! Owns the shape of a feedback event and the judgement of what a caller sends. Feedback without anything to learn
//! from is kept as a thumb, and the caller is asked for details. Feedback that holds a secret is refused, and nothing
//! of it is kept. For a thumb up that its own checks contradict, the caller is asked too. What is added later:
//! [`super::session`].

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::{Label, secret};
use crate::access::{Actor, Role};
use crate::error::{Error, Result};
use crate::ids::{SessionId, UserId, check_text};
use crate::limits;
use crate::memory::{clip, words};
use crate::safety::codes::codes;
use crate::time::Timestamp;

codes!(Signal { Up = "up", Down = "down" });
codes!(
    /// Whether the plan was wrong, or what was made of it.
    FailureType { Decision = "decision", Execution = "execution" }
);
codes!(
    /// Who said a message that feedback is about, or adds to it.
    Speaker { User = "user", Assistant = "assistant" }
);

/// Feedback as a caller sends it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Capture {
    pub signal: Option<Signal>,
    pub words: FeedbackText,
    pub tags: Vec<String>,
    pub skill: Option<String>,
    pub failure_type: Option<FailureType>,
    /// The id of an earlier event that this belongs to.
    pub related: Option<String>,
    /// The messages before it, oldest first, where no session holds them.
    pub history: Vec<PrecedingMessage>,
    pub rubric: Vec<Score>,
    pub guardrails: Guardrails,
    pub session: Option<SessionId>,
    pub sequences: Vec<u64>,
}

impl Capture {
    /// The comment beside a rating of a conversation, as feedback of its own that does not know the rating. A blank
    /// comment is none; a skipped rating takes no comment.
    pub fn beside(label: Label, comment: String, session: SessionId) -> Result<Option<Self>> {
        check_text("comment", &comment, limits::FEEDBACK_TEXT_CHARS_MAX)?;
        if comment.trim().is_empty() {
            return Ok(None);
        }
        let signal = match label {
            Label::Positive => Signal::Up,
            Label::Negative => Signal::Down,
            Label::Skip => {
                return Err(Error::invalid("comment", "goes with positive or negative, and not with skip"));
            }
        };
        let words = FeedbackText { context: Some(comment), ..FeedbackText::default() };
        Ok(Some(Self { signal: Some(signal), words, session: Some(session), ..Self::default() }))
    }
}

/// The words of a feedback.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackText {
    pub context: Option<String>,
    pub what_went_wrong: Option<String>,
    pub what_to_change: Option<String>,
    pub what_worked: Option<String>,
}

/// A message before the feedback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrecedingMessage {
    pub role: Speaker,
    pub text: String,
}

/// A judge's mark for one criterion, from 1 to 5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub criterion: String,
    pub score: f64,
    pub evidence: Option<String>,
    pub judge: Option<String>,
}

/// The findings of machine checks on the same work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guardrails {
    pub tests_passed: Option<bool>,
    pub path_safety: Option<bool>,
    pub budget_compliant: Option<bool>,
}

/// Feedback as it is stored. It never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedbackEvent {
    pub id: String,
    pub at: Timestamp,
    pub signal: Signal,
    pub author: Option<UserId>,
    /// The id of the session that it is about.
    pub session: Option<SessionId>,
    pub body: EventBody,
}

impl FeedbackEvent {
    /// The names that statistics count it by: (kind of name, name).
    pub fn counted_by(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let tags = self.body.tags.iter().map(|tag| ("tag", tag.as_str()));
        tags.chain(self.body.skill.as_deref().map(|skill| ("skill", skill)))
    }
}

/// The part of an event that a store keeps as one text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventBody {
    pub words: FeedbackText,
    pub tags: Vec<String>,
    pub skill: Option<String>,
    pub failure_type: Option<FailureType>,
    pub related: Option<String>,
    pub history: Vec<PrecedingMessage>,
    pub rubric: Vec<Score>,
    pub guardrails: Guardrails,
    pub sequences: Vec<u64>,
    /// The agent whose work it is about.
    pub agent: Option<String>,
    /// Its author's role is trusted, so it makes lessons; other feedback makes proposals.
    pub trusted: bool,
    /// A thumb without words to learn from.
    pub vague: bool,
    /// Set for the system's own record of a failed run: it has no author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The judgement of a capture, before anything is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum CaptureJudgement {
    Accepted(Box<EventBody>),
    /// Stored as a thumb; the caller is asked for details.
    Vague(Box<EventBody>, Clarification),
    Blocked(secret::SecretKind),
}

/// What the caller is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clarification {
    pub prompt: String,
    pub example: &'static str,
    pub missing_fields: Vec<&'static str>,
}

/// Judges feedback. `agent` is the agent whose work it is about.
pub fn judge(actor: &Actor, wish: Capture, agent: Option<String>) -> Result<(Signal, CaptureJudgement)> {
    let signal = wish.signal.ok_or_else(|| Error::invalid("signal", "must be up or down"))?;
    check(&wish)?;
    if let Some(kind) = all_texts(&wish).find_map(secret::found) {
        return Ok((signal, CaptureJudgement::Blocked(kind)));
    }
    let clarification = unclear(signal, &wish);
    let history = wish.history.len().saturating_sub(limits::FEEDBACK_HISTORY_KEPT);
    let body = Box::new(EventBody {
        words: wish.words.trimmed(),
        tags: tags(wish.tags)?,
        skill: wish.skill.map(|skill| skill.trim().to_lowercase()).filter(|skill| !skill.is_empty()),
        failure_type: wish.failure_type,
        related: wish.related,
        history: wish.history.into_iter().skip(history).map(PrecedingMessage::clipped).collect(),
        rubric: wish.rubric,
        guardrails: wish.guardrails,
        sequences: wish.sequences,
        agent,
        trusted: matches!(actor.role, Role::Owner | Role::Member),
        vague: clarification.is_some(),
        failure: None,
    });
    Ok((
        signal,
        clarification.map_or_else(
            || CaptureJudgement::Accepted(body.clone()),
            |asked| CaptureJudgement::Vague(body.clone(), asked),
        ),
    ))
}

fn check(wish: &Capture) -> Result<()> {
    for (field, text) in wish.words.fields() {
        check_text(field, text, limits::FEEDBACK_TEXT_CHARS_MAX)?;
    }
    if let Some(skill) = &wish.skill {
        check_text("skill", skill, limits::TAG_CHARS_MAX)?;
    }
    if let Some(related) = &wish.related {
        check_text("related_feedback_id", related, limits::NAME_CHARS_MAX)?;
    }
    if wish.history.len() > limits::FEEDBACK_HISTORY_MAX {
        return Err(Error::invalid(
            "history",
            format!("has more than {} messages", limits::FEEDBACK_HISTORY_MAX),
        ));
    }
    if wish.rubric.len() > limits::RUBRIC_MAX {
        return Err(Error::invalid("rubric_scores", format!("there are more than {}", limits::RUBRIC_MAX)));
    }
    if wish.sequences.len() > limits::SOURCE_SEQUENCES_MAX {
        return Err(Error::invalid(
            "sequences",
            format!("there are more than {}", limits::SOURCE_SEQUENCES_MAX),
        ));
    }
    if !wish.sequences.is_empty() && wish.session.is_none() {
        return Err(Error::invalid("sequences", "are places in the log of a session; name it too"));
    }
    for said in &wish.history {
        check_text("history", &said.text, limits::EXTRACT_CHARS_MAX)?;
    }
    for score in &wish.rubric {
        check_text("rubric_scores", &score.criterion, limits::NAME_CHARS_MAX)?;
        for text in [&score.evidence, &score.judge].into_iter().flatten() {
            check_text("rubric_scores", text, limits::FEEDBACK_TEXT_CHARS_MAX)?;
        }
        let (worst, best) = (*limits::RUBRIC_SCORES.start(), *limits::RUBRIC_SCORES.end());
        if !(f64::from(worst)..=f64::from(best)).contains(&score.score) {
            return Err(Error::invalid("rubric_scores", format!("a score is from {worst} to {best}")));
        }
    }
    Ok(())
}

/// Tags as they are kept: in lower case, each once.
pub fn tags(given: Vec<String>) -> Result<Vec<String>> {
    let mut kept: Vec<String> = Vec::new();
    for tag in given {
        let tag = tag.trim().to_lowercase();
        check_text("tags", &tag, limits::TAG_CHARS_MAX)?;
        if !tag.is_empty() && !kept.contains(&tag) {
            kept.push(tag);
        }
    }
    if kept.len() > limits::TAGS_MAX {
        return Err(Error::invalid("tags", format!("there are more than {}", limits::TAGS_MAX)));
    }
    Ok(kept)
}

fn all_texts(wish: &Capture) -> impl Iterator<Item = &str> {
    let rubric = wish.rubric.iter().flat_map(|score| {
        [Some(score.criterion.as_str()), score.evidence.as_deref(), score.judge.as_deref()]
            .into_iter()
            .flatten()
    });
    wish.words
        .fields()
        .map(|(_, text)| text)
        .chain(wish.tags.iter().map(String::as_str))
        .chain(wish.skill.as_deref())
        .chain(wish.related.as_deref())
        .chain(wish.history.iter().map(|said| said.text.as_str()))
        .chain(rubric)
}

/// What the caller is to be asked, if anything.
fn unclear(signal: Signal, wish: &Capture) -> Option<Clarification> {
    if signal == Signal::Up
        && let Some(failed) = contradiction(wish)
    {
        return Some(Clarification {
            prompt: format!("This is a thumb up, but {failed}. What worked in spite of that?"),
            example: "The plan was right and can be repeated; only one flaky test failed, for another reason.",
            missing_fields: vec!["what_worked"],
        });
    }
    let says = |text: &Option<String>, least| text.as_deref().is_some_and(|text| says_something(text, least));
    let words = &wish.words;
    if says(&words.context, 2)
        || says(&words.what_went_wrong, 1)
        || says(&words.what_to_change, 1)
        || says(&words.what_worked, 1)
        || wish.history.iter().any(|said| said.role == Speaker::User && says_something(&said.text, 2))
    {
        return None;
    }
    Some(match signal {
        Signal::Down => Clarification {
            prompt: "What went wrong, and what should be done instead?".to_owned(),
            example: "It edited the lock file by hand. Run the package manager instead.",
            missing_fields: vec!["what_went_wrong", "what_to_change"],
        },
        Signal::Up => Clarification {
            prompt: "What worked, so that it can be done again?".to_owned(),
            example: "It ran the tests before it said that it was done.",
            missing_fields: vec!["what_worked"],
        },
    })
}

/// The mark below which a criterion has failed.
const SCORE_PASSES: f64 = 3.0;

fn contradiction(wish: &Capture) -> Option<String> {
    let rails = wish.guardrails;
    let failed = [
        (rails.tests_passed, "tests failed"),
        (rails.path_safety, "it left the paths that it may touch"),
        (rails.budget_compliant, "it went over its budget"),
    ];
    let rail = failed.into_iter().find(|(held, _)| *held == Some(false)).map(|(_, says)| says.to_owned());
    let score = || wish.rubric.iter().find(|score| score.score < SCORE_PASSES);
    let explained = wish.words.what_worked.as_deref().is_some_and(|text| says_something(text, 1));
    rail.or_else(|| {
        score().map(|score| format!("`{}` was marked {}", clip(&score.criterion, 60), score.score))
    })
    .filter(|_| !explained)
}

/// Whether a text says more than that something was good or bad.
pub(crate) fn says_something(text: &str, words_min: usize) -> bool {
    let folded: String = words::meaningful(text).join(" ");
    words::set(text).len() >= words_min && !STOCK.contains(&folded.as_str())
}

/// Phrases that say no more than good or bad, by their meaningful words.
const STOCK: &[&str] = &[
    "worked", "works", "lgtm", "looks good", "good", "good job", "great", "great job", "nice", "nice work",
    "perfect", "excellent", "awesome", "amazing", "correct", "right", "fine", "helpful", "wrong", "bad",
    "failed", "fail", "broken", "terrible", "awful", "useless", "helpful all", "incorrect", "work",
    "working", "stupid", "better", "worse", "thumbs", "thumb", "approved", "rejected", "love", "hate", "fix",
    "try", "try again", "do better", "gut", "super", "schlecht", "falsch", "bien", "mal", "parfait",
    "mauvais", "bueno", "malo",
];

impl FeedbackText {
    /// Each text with the name of its field.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("context", &self.context),
            ("what_went_wrong", &self.what_went_wrong),
            ("what_to_change", &self.what_to_change),
            ("what_worked", &self.what_worked),
        ]
        .into_iter()
        .filter_map(|(field, text)| Some((field, text.as_deref()?)))
    }

    fn trimmed(self) -> Self {
        let trim =
            |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        Self {
            context: trim(self.context),
            what_went_wrong: trim(self.what_went_wrong),
            what_to_change: trim(self.what_to_change),
            what_worked: trim(self.what_worked),
        }
    }
}

impl PrecedingMessage {
    fn clipped(self) -> Self {
        Self { text: clip(&self.text, limits::FEEDBACK_MESSAGE_CHARS_MAX), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SourceKind;

    fn judged(wish: Capture) -> CaptureJudgement {
        judge(&Actor::local(SourceKind::Api), wish, None).unwrap().1
    }

    fn down(context: &str) -> Capture {
        Capture {
            signal: Some(Signal::Down),
            words: FeedbackText { context: Some(context.to_owned()), ..FeedbackText::default() },
            ..Capture::default()
        }
    }

    #[test]
    fn what_says_only_good_or_bad_is_asked_back_about() {
        for vague in [
            "", "wrong", "Wrong!", "it worked", "LGTM", "that was bad", "\u{1f44e}", "try again",
            "do better", "not helpful at all",
        ] {
            assert!(matches!(judged(down(vague)), CaptureJudgement::Vague(body, _) if body.vague), "{vague}");
        }
        for clear in
            ["it edited the lock file", "answers are too long", "Antworten sind zu lang", "回答が長すぎる"]
        {
            assert!(
                matches!(judged(down(clear)), CaptureJudgement::Accepted(body) if !body.vague),
                "{clear}"
            );
        }
        let change = FeedbackText { what_to_change: Some("shorter".to_owned()), ..FeedbackText::default() };
        assert!(matches!(judged(Capture { words: change, ..down("wrong") }), CaptureJudgement::Accepted(_)));
        let said =
            vec![PrecedingMessage { role: Speaker::User, text: "please run the tests first".to_owned() }];
        assert!(matches!(judged(Capture { history: said, ..down("") }), CaptureJudgement::Accepted(_)));
    }

    #[test]
    fn a_thumb_up_that_its_checks_contradict_is_asked_back_about() {
        let up = |words: FeedbackText| Capture {
            signal: Some(Signal::Up),
            words,
            ..down("it wrote the report well")
        };
        let worked =
            |text: &str| FeedbackText { what_worked: Some(text.to_owned()), ..FeedbackText::default() };
        let failed = Guardrails { tests_passed: Some(false), ..Guardrails::default() };
        let context =
            FeedbackText { context: Some("it wrote the report well".to_owned()), ..FeedbackText::default() };
        assert!(matches!(judged(up(context.clone())), CaptureJudgement::Accepted(_)));
        assert!(matches!(
            judged(Capture { guardrails: failed, ..up(context.clone()) }),
            CaptureJudgement::Vague(..)
        ));
        assert!(matches!(
            judged(Capture { guardrails: failed, ..up(worked("the plan")) }),
            CaptureJudgement::Accepted(_)
        ));
        let low = vec![Score { criterion: "style".into(), score: 2.0, evidence: None, judge: None }];
        assert!(matches!(judged(Capture { rubric: low, ..up(context) }), CaptureJudgement::Vague(..)));
    }

    #[test]
    fn a_comment_beside_a_rating_is_a_feedback_of_its_own() {
        let beside = |label, comment: &str| Capture::beside(label, comment.into(), SessionId::stored("s"));
        for (label, signal) in [(Label::Positive, Signal::Up), (Label::Negative, Signal::Down)] {
            let wish = beside(label, "answers are too long").unwrap().unwrap();
            let words =
                FeedbackText { context: Some("answers are too long".into()), ..FeedbackText::default() };
            let session = Some(SessionId::stored("s"));
            assert_eq!(wish, Capture { signal: Some(signal), words, session, ..Capture::default() });
        }
        assert!(beside(Label::Skip, "answers are too long").is_err());
        assert!(beside(Label::Positive, &"x".repeat(limits::FEEDBACK_TEXT_CHARS_MAX + 1)).is_err());
        for label in Label::ALL {
            assert_eq!(beside(*label, " ").unwrap(), None);
        }
    }

    #[test]
    fn a_secret_anywhere_blocks_all_of_it() {
        let secret = "password: hunter2hunter2";
        let said = vec![PrecedingMessage { role: Speaker::User, text: secret.to_owned() }];
        let blocked = [
            down(secret),
            Capture { tags: vec![secret.to_owned()], ..down("it edited the lock file") },
            Capture { history: said, ..down("it edited the lock file") },
        ];
        for wish in blocked {
            assert_eq!(judged(wish), CaptureJudgement::Blocked(secret::SecretKind::Credential));
        }
    }

    #[test]
    fn what_is_too_much_or_out_of_range_is_refused() {
        let score = |score| vec![Score { criterion: "c".into(), score, evidence: None, judge: None }];
        let wishes = [
            Capture { signal: None, ..down("it edited the lock file") },
            down(&"x ".repeat(limits::FEEDBACK_TEXT_CHARS_MAX)),
            down("a\0b"),
            Capture { rubric: score(0.9), ..down("x y") },
            Capture { rubric: score(f64::NAN), ..down("x y") },
            Capture { tags: (0..=limits::TAGS_MAX).map(|n| n.to_string()).collect(), ..down("x y") },
            Capture { tags: vec!["t".repeat(limits::TAG_CHARS_MAX + 1)], ..down("x y") },
        ];
        for wish in wishes {
            assert!(judge(&Actor::local(SourceKind::Api), wish.clone(), None).is_err(), "{wish:?}");
        }
        assert_eq!(tags(vec![" A ".into(), "a".into(), String::new()]).unwrap(), ["a"]);
    }
}
