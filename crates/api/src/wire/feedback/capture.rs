//! Feedback that a caller sends: a thumb, and what there is to say about it.

use sederunt_core::engine::CaptureOutcome;
use sederunt_core::feedback::capture::{Capture, FeedbackText, Guardrails, PrecedingMessage, Score};
use sederunt_core::{Error, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::FeedbackOpened;
use super::{FailureType, Signal, Speaker};
use crate::wire::Count;
use crate::wire::lesson::Lesson;

/// A thumb up or down, with words about an agent's work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "signal": "down", "context": "It edited the lock file by hand",
    "what_to_change": "Run the package manager instead", "tags": ["git"]
}))]
pub struct CaptureRequest {
    pub signal: Signal,
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    #[serde(alias = "whatWentWrong")]
    #[schema(max_length = 4000)]
    pub what_went_wrong: Option<String>,
    #[serde(alias = "whatToChange")]
    #[schema(max_length = 4000)]
    pub what_to_change: Option<String>,
    #[serde(alias = "whatWorked")]
    #[schema(max_length = 4000)]
    pub what_worked: Option<String>,
    #[serde(default)]
    #[schema(max_items = 10)]
    pub tags: Vec<String>,
    #[schema(max_length = 50)]
    pub skill: Option<String>,
    #[serde(alias = "failureType")]
    pub failure_type: Option<FailureType>,
    /// An earlier feedback event about the same thing.
    #[serde(alias = "relatedFeedbackId")]
    #[schema(max_length = 200)]
    pub related_feedback_id: Option<String>,
    /// The messages before it, oldest first, if no session has them.
    #[serde(default, alias = "conversationWindow")]
    #[schema(max_items = 100)]
    pub history: Vec<HistoryMessage>,
    #[serde(default, alias = "rubricScores")]
    #[schema(max_items = 20)]
    pub rubric_scores: Vec<RubricScore>,
    pub guardrails: Option<GuardrailChecks>,
    /// The session that it is about.
    #[serde(alias = "sessionId")]
    #[schema(min_length = 1, max_length = 200)]
    pub session_id: Option<String>,
    /// The sequences of the events that it is about.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub sequences: Vec<Count>,
}

/// A message of a conversation that feedback is about.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryMessage {
    pub role: Speaker,
    #[serde(alias = "content")]
    #[schema(max_length = 8000)]
    pub text: String,
    /// Accepted, and not kept.
    pub timestamp: Option<String>,
}

/// A judge's mark for one criterion.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RubricScore {
    #[schema(max_length = 200)]
    pub criterion: String,
    #[schema(minimum = 1, maximum = 5)]
    pub score: f64,
    #[schema(max_length = 4000)]
    pub evidence: Option<String>,
    #[schema(max_length = 4000)]
    pub judge: Option<String>,
}

/// Results of automatic checks of the same work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardrailChecks {
    #[serde(alias = "testsPassed")]
    pub tests_passed: Option<bool>,
    #[serde(alias = "pathSafety")]
    pub path_safety: Option<bool>,
    #[serde(alias = "budgetCompliant")]
    pub budget_compliant: Option<bool>,
}

impl TryFrom<CaptureRequest> for Capture {
    type Error = Error;

    fn try_from(asked: CaptureRequest) -> Result<Self, Error> {
        let session = asked.session_id.as_deref().map(SessionId::parse).transpose();
        let guardrails = asked.guardrails.map_or_else(Guardrails::default, |checks| Guardrails {
            tests_passed: checks.tests_passed,
            path_safety: checks.path_safety,
            budget_compliant: checks.budget_compliant,
        });
        let score = |one: RubricScore| Score {
            criterion: one.criterion,
            score: one.score,
            evidence: one.evidence,
            judge: one.judge,
        };
        Ok(Self {
            signal: Some(asked.signal.into()),
            words: FeedbackText {
                context: asked.context,
                what_went_wrong: asked.what_went_wrong,
                what_to_change: asked.what_to_change,
                what_worked: asked.what_worked,
            },
            tags: asked.tags,
            skill: asked.skill,
            failure_type: asked.failure_type.map(Into::into),
            related: asked.related_feedback_id,
            history: asked
                .history
                .into_iter()
                .map(|one| PrecedingMessage { role: one.role.into(), text: one.text })
                .collect(),
            rubric: asked.rubric_scores.into_iter().map(score).collect(),
            guardrails,
            session: session.map_err(|_| Error::invalid("session_id", "is no id of a session"))?,
            sequences: asked.sequences.into_iter().map(|count| count.0).collect(),
        })
    }
}

/// The outcome of feedback: `accepted`, `clarification_required` (the thumb is stored, and `prompt` asks for more) or
/// `blocked` (it contains a secret; nothing is stored). As the follow-up of a rating also `refused`: the comment was
/// not stored, the rating was.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CaptureDone {
    #[schema(pattern = "^(accepted|clarification_required|blocked|refused)$")]
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_event_id: Option<String>,
    /// The feedback session that was opened for further messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_session: Option<FeedbackOpened>,
    /// Existing lessons about the same thing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Lesson>,
    /// The question for the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_fields: Vec<String>,
    /// The kind of secret that it contains, or why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CaptureDone {
    /// The answer for feedback that was sent with another request and refused.
    pub fn refused(why: String) -> Self {
        Self { reason: Some(why), ..Self::of("refused") }
    }

    fn of(status: &str) -> Self {
        Self {
            status: status.to_owned(),
            feedback_event_id: None,
            feedback_session: None,
            suggestions: Vec::new(),
            prompt: None,
            example: None,
            missing_fields: Vec::new(),
            reason: None,
        }
    }
}

impl From<CaptureOutcome> for CaptureDone {
    fn from(captured: CaptureOutcome) -> Self {
        match captured {
            CaptureOutcome::Accepted { event, session, suggestions } => Self {
                feedback_event_id: Some(event.id),
                feedback_session: Some((*session).into()),
                suggestions: suggestions.into_iter().map(Into::into).collect(),
                ..Self::of("accepted")
            },
            CaptureOutcome::ClarificationRequired { event, asked } => Self {
                feedback_event_id: Some(event),
                prompt: Some(asked.prompt),
                example: Some(asked.example.to_owned()),
                missing_fields: asked.missing_fields.into_iter().map(str::to_owned).collect(),
                ..Self::of("clarification_required")
            },
            CaptureOutcome::Blocked(kind) => {
                Self { reason: Some(kind.as_str().to_owned()), ..Self::of("blocked") }
            }
        }
    }
}
