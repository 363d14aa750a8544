//! Feedback on the wire: thumbs with words, feedback sessions, statistics.

use sederunt_core::engine::{CaptureOutcome, FeedbackEnding, FeedbackOpening};
use sederunt_core::feedback::RatingCounts;
use sederunt_core::feedback::capture::{self, Capture, FeedbackText, Guardrails, PrecedingMessage, Score};
use sederunt_core::feedback::complaint;
use sederunt_core::feedback::session::{self, AdditionOutcome};
use sederunt_core::feedback::stats::{self, ThumbTotals};
use sederunt_core::lesson::merge::MergeOutcome;
use sederunt_core::session::query::Page;
use sederunt_core::{Error, SessionId, Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lesson::Lesson;
use super::{Count, words};
use crate::query::params;

words!(
    /// A thumb.
    Signal = capture::Signal { Up, Down } in "snake_case"
);
words!(
    /// Who says something.
    Speaker = capture::Speaker { User, Assistant } in "snake_case"
);
words!(
    /// Whether the plan was wrong, or what was made of it.
    FailureType = capture::FailureType { Decision, Execution } in "snake_case"
);
words!(
    /// Whether a feedback session takes more.
    FeedbackState = session::State { Open, Finalized } in "snake_case"
);

/// A thumb, and what there is to say about it.
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
    /// An earlier feedback that this belongs to.
    #[serde(alias = "relatedFeedbackId")]
    #[schema(max_length = 200)]
    pub related_feedback_id: Option<String>,
    /// What was said before, oldest first, where no session has it.
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
    /// The places in its log.
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

/// What machines said of the same work.
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

/// What came of a thumb: `accepted`, `clarification_required` (kept as a thumb, and asked back about) or `blocked` (it
/// carries a secret; nothing was kept). Beside a rating also `refused`: it could not be taken, the rating stands.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CaptureDone {
    #[schema(pattern = "^(accepted|clarification_required|blocked|refused)$")]
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_event_id: Option<String>,
    /// Opened with it, for what else there is to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_session: Option<FeedbackOpened>,
    /// What is known about the same thing already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Lesson>,
    /// What to ask the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_fields: Vec<String>,
    /// What kind of secret it carries, or why it was refused.
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

/// A feedback session to be opened.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"feedback_event_id": "fb_0123456789ab", "signal": "down"}))]
pub struct OpenFeedback {
    #[serde(alias = "feedbackEventId")]
    #[schema(min_length = 1, max_length = 200)]
    pub feedback_event_id: String,
    /// That of the feedback event.
    pub signal: Signal,
    #[serde(alias = "initialContext")]
    #[schema(max_length = 4000)]
    pub initial_context: Option<String>,
}

/// A feedback session that was opened; `blocked` if what it was to be opened with carries a secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackOpened {
    #[schema(pattern = "^(open|finalized|blocked)$")]
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    pub message: String,
}

impl From<session::FeedbackSession> for FeedbackOpened {
    fn from(opened: session::FeedbackSession) -> Self {
        let seconds = opened.expires_at.as_micros().saturating_sub(opened.opened_at.as_micros()) / 1_000_000;
        Self {
            status: opened.state.as_str().to_owned(),
            session_id: Some(opened.id),
            expires_at: Some(opened.expires_at),
            message: format!("Add more with append_feedback_context; it closes after {seconds} s of silence"),
        }
    }
}

impl From<FeedbackOpening> for FeedbackOpened {
    fn from(opened: FeedbackOpening) -> Self {
        match opened {
            FeedbackOpening::Open(session) => (*session).into(),
            FeedbackOpening::Blocked(kind) => Self {
                status: "blocked".to_owned(),
                session_id: None,
                expires_at: None,
                message: blocked(kind),
            },
        }
    }
}

fn blocked(kind: sederunt_core::feedback::secret::Kind) -> String {
    format!("it carries a secret ({}): leave that out; nothing was kept", kind.as_str())
}

/// A message for a feedback session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"message": "and it did not run the tests"}))]
pub struct AppendFeedback {
    /// Cut after 1,000 characters, which the answer says.
    pub message: String,
    pub role: Option<Speaker>,
}

/// What came of a message: `appended`, or why not: `not_found`, `closed`, `full`, `invalid`, `blocked`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackAppended {
    #[schema(pattern = "^(appended|not_found|closed|full|invalid|blocked)$")]
    pub status: String,
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_count: Option<Count>,
    /// When silence finalizes it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The end of the message was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl FeedbackAppended {
    pub fn of(id: &str, added: AdditionOutcome) -> Self {
        let refused = |status: &str, message: String| Self {
            status: status.to_owned(),
            session_id: id.to_owned(),
            message_count: None,
            expires_at: None,
            truncated: None,
            message: Some(message),
        };
        match added {
            AdditionOutcome::Appended { session, truncated } => Self {
                status: "appended".to_owned(),
                session_id: session.id,
                message_count: Some(Count(session.body.messages.len() as u64)),
                expires_at: Some(session.expires_at),
                truncated: Some(truncated),
                message: None,
            },
            AdditionOutcome::NotFound => refused("not_found", "there is no such feedback session".to_owned()),
            AdditionOutcome::Closed { at } => refused("closed", format!("it was finalized at {at}")),
            AdditionOutcome::Full => {
                refused("full", format!("it holds {} messages already", limits::FEEDBACK_MESSAGES_MAX))
            }
            AdditionOutcome::Invalid { message } => refused("invalid", message.to_owned()),
            AdditionOutcome::Blocked(kind) => refused("blocked", blocked(kind)),
        }
    }
}

/// Something that somebody complained about.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Complaint {
    /// `constraint`, `ignored-instruction`, `missed-expectation`, `omission`, `damage`, `dishonesty`, `performance`,
    /// `quality` or `general-frustration`.
    #[serde(rename = "type")]
    pub kind: String,
    pub detail: String,
    pub source: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<complaint::Complaint> for Complaint {
    fn from(one: complaint::Complaint) -> Self {
        Self { kind: one.kind.as_str().to_owned(), detail: one.detail, source: one.source, at: one.at }
    }
}

/// A message that was added.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackMessage {
    pub role: Speaker,
    pub text: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A feedback session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackSession {
    pub session_id: String,
    pub feedback_event_id: String,
    pub signal: Signal,
    pub status: FeedbackState,
    pub initial_context: Option<String>,
    /// What the person said, all of it.
    pub enriched_context: String,
    pub messages: Vec<FeedbackMessage>,
    pub message_count: Count,
    pub complaints: Vec<Complaint>,
    #[schema(value_type = String, format = DateTime)]
    pub opened_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finalized_at: Option<Timestamp>,
    /// `asked` or `silence`.
    pub reason: Option<String>,
    /// The lesson that came of it.
    pub lesson_id: Option<String>,
}

impl From<session::FeedbackSession> for FeedbackSession {
    fn from(one: session::FeedbackSession) -> Self {
        let enriched_context = one.enriched_context();
        let complaints = match &one.body.closed {
            Some(closed) => closed.complaints.clone(),
            None => one.complaints(),
        };
        let closed = one.body.closed;
        let message = |said: session::Addition| FeedbackMessage {
            role: said.role.into(),
            text: said.text,
            at: said.at,
        };
        Self {
            session_id: one.id,
            feedback_event_id: one.event,
            signal: one.signal.into(),
            status: one.state.into(),
            initial_context: one.body.initial_context,
            enriched_context,
            message_count: Count(one.body.messages.len() as u64),
            messages: one.body.messages.into_iter().map(message).collect(),
            complaints: complaints.into_iter().map(Into::into).collect(),
            opened_at: one.opened_at,
            expires_at: one.expires_at,
            finalized_at: closed.as_ref().map(|closed| closed.at),
            reason: closed.as_ref().map(|closed| closed.reason.as_str().to_owned()),
            lesson_id: closed.and_then(|closed| closed.lesson),
        }
    }
}

/// A page of feedback sessions, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackSessionList {
    pub items: Vec<FeedbackSession>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<session::FeedbackSession, i64>> for FeedbackSessionList {
    fn from(page: Page<session::FeedbackSession, i64>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// What came of closing a feedback session: `finalized`, `already_finalized` or `not_found`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackFinalized {
    #[schema(pattern = "^(finalized|already_finalized|not_found)$")]
    pub status: String,
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<FeedbackSession>,
    /// How long it was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_up_count: Option<Count>,
    /// What was learned; nothing where there was nothing to learn from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lesson: Option<Lesson>,
    /// Whether the lesson is `new`, came up `again`, or had `counted` this feedback before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
}

impl FeedbackFinalized {
    pub fn of(id: &str, done: FeedbackEnding) -> Self {
        let of = |status: &str, session: Option<session::FeedbackSession>| {
            let closed_at = session.as_ref().and_then(|one| one.body.closed.as_ref()).map(|closed| closed.at);
            let open_for =
                session.as_ref().zip(closed_at).map(|(one, at)| at.as_micros() - one.opened_at.as_micros());
            Self {
                status: status.to_owned(),
                session_id: id.to_owned(),
                duration_ms: open_for.map(|micros| Count(u64::try_from(micros / 1_000).unwrap_or(0))),
                follow_up_count: session.as_ref().map(|one| Count(one.body.messages.len() as u64)),
                session: session.map(Into::into),
                lesson: None,
                learned: None,
            }
        };
        match done {
            FeedbackEnding::Finalized { session, merged, .. } => {
                let learned = merged.as_ref().map(|merged| match merged {
                    MergeOutcome::New(_) => "new",
                    MergeOutcome::Again(_) => "again",
                    MergeOutcome::Counted(_) => "counted",
                });
                Self {
                    lesson: merged.map(|merged| merged.lesson().clone().into()),
                    learned: learned.map(str::to_owned),
                    ..of("finalized", Some(*session))
                }
            }
            FeedbackEnding::Already(session) => of("already_finalized", Some(*session)),
            FeedbackEnding::NotFound => of("not_found", None),
        }
    }
}

params! {
    /// Which feedback sessions.
    pub struct FeedbackSessionsQuery {
        state: Option<FeedbackState> = named_word(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

/// Thumbs of one kind of thing.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ThumbCounts {
    pub total: Count,
    pub up: Count,
    pub down: Count,
    /// The part that is up, to three places; null of none.
    pub approval_rate: Option<f64>,
}

impl From<ThumbTotals> for ThumbCounts {
    fn from(counts: ThumbTotals) -> Self {
        Self {
            total: Count(counts.total()),
            up: Count(counts.up),
            down: Count(counts.down),
            approval_rate: counts.rate(),
        }
    }
}

/// Thumbs under one name.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedCounts {
    pub name: String,
    #[serde(flatten)]
    pub counts: ThumbCounts,
}

/// Something that goes badly, and what to do about it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Recommendation {
    /// `tag` or `skill`.
    pub about: String,
    pub name: String,
    pub counts: ThumbCounts,
    pub advice: String,
}

/// Runs of tasks that failed: nobody's opinion, and in no rate.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FailureCounts {
    pub total: Count,
    pub last_7_days: Count,
    pub last_30_days: Count,
    /// The commonest first.
    pub codes: Vec<CodeCount>,
}

/// Failures of one kind.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CodeCount {
    pub code: String,
    pub total: Count,
}

impl From<stats::Failures> for FailureCounts {
    fn from(failures: stats::Failures) -> Self {
        let code = |(code, total)| CodeCount { code, total: Count(total) };
        Self {
            total: Count(failures.lifetime),
            last_7_days: Count(failures.days_7),
            last_30_days: Count(failures.days_30),
            codes: failures.codes.into_iter().map(code).collect(),
        }
    }
}

/// What a run of a task left when it failed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub feedback_event_id: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `lease_lost`, `denied`, `hard_blocked`, `output_invalid`, `child_failed`, the limit that was reached, or what the
    /// worker called it.
    pub code: String,
    /// As the session shows it; null where it carries a secret.
    pub message: Option<String>,
    pub task_id: String,
    pub task_slug: Option<String>,
    /// The step, of a task that has steps.
    pub step: Option<String>,
    pub agent_slug: Option<String>,
    pub session_id: Option<String>,
    /// Where its log says why.
    pub sequence: Option<Count>,
}

/// A page of failures, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FailureList {
    pub items: Vec<Failure>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<capture::FeedbackEvent, i64>> for FailureList {
    fn from(page: Page<capture::FeedbackEvent, i64>) -> Self {
        let failure = |event: capture::FeedbackEvent| {
            let body = event.body;
            body.failure.map(|failure| Failure {
                feedback_event_id: event.id,
                at: event.at,
                code: failure.code,
                message: body.words.what_went_wrong,
                task_id: failure.task_id,
                task_slug: failure.task_slug,
                step: failure.step,
                agent_slug: body.agent,
                session_id: event.session.map(|id| id.to_string()),
                sequence: body.sequences.first().copied().map(Count),
            })
        };
        Self {
            items: page.items.into_iter().filter_map(failure).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

params! {
    /// Which failures.
    pub struct FailuresQuery {
        /// Those of one task, by its id or slug.
        task as "task_id" | "taskId": Option<String> = text(),
        /// That of one session.
        session as "session_id" | "sessionId": Option<SessionId> =
            text().parsed("is no id of a session", session_id),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

/// What the thumbs add up to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackStats {
    #[serde(flatten)]
    pub lifetime: ThumbCounts,
    pub last_7_days: ThumbCounts,
    pub last_30_days: ThumbCounts,
    /// The newest twenty.
    pub recent: ThumbCounts,
    /// How the newest compare with all: `improving`, `declining`, `stable` or `unknown`.
    pub trend: String,
    pub tags: Vec<NamedCounts>,
    pub skills: Vec<NamedCounts>,
    pub recommendations: Vec<Recommendation>,
    /// Runs that failed; for owners and workers, none otherwise.
    pub failures: FailureCounts,
    /// Sittings that were rated: of the tenant for owners and workers, the caller's own otherwise.
    pub ratings: LabelCounts,
}

/// Ratings of sittings by their labels.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabelCounts {
    pub positive: Count,
    pub negative: Count,
    pub skip: Count,
    pub total: Count,
}

impl From<RatingCounts> for LabelCounts {
    fn from(counts: RatingCounts) -> Self {
        Self {
            positive: Count(counts.positive),
            negative: Count(counts.negative),
            skip: Count(counts.skip),
            total: Count(counts.total()),
        }
    }
}

impl From<stats::Stats> for FeedbackStats {
    fn from(stats: stats::Stats) -> Self {
        let named = |list: Vec<(String, ThumbTotals)>| {
            list.into_iter().map(|(name, counts)| NamedCounts { name, counts: counts.into() }).collect()
        };
        Self {
            lifetime: stats.tally.lifetime.into(),
            last_7_days: stats.tally.days_7.into(),
            last_30_days: stats.tally.days_30.into(),
            recent: stats.recent.into(),
            trend: stats.trend.as_str().to_owned(),
            tags: named(stats.tally.tags),
            skills: named(stats.tally.skills),
            failures: stats.tally.failures.into(),
            ratings: stats.ratings.into(),
            recommendations: stats
                .recommendations
                .into_iter()
                .map(|one| Recommendation {
                    about: one.about.to_owned(),
                    name: one.name,
                    counts: one.counts.into(),
                    advice: one.advice,
                })
                .collect(),
        }
    }
}

/// A page for people.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Markdown {
    pub markdown: String,
}

params! {
    /// How many of the newest thumbs.
    pub struct SummaryQuery {
        recent: u64 = number().min(1).max(limits::PAGE_ROWS_MAX).or(stats::RECENT as u64),
    }
}
