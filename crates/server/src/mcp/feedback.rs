//! Tools about feedback: thumbs with words, feedback sessions, statistics. The outcome is a result with a `status`,
//! even where nothing could be added.

use sederunt_api::wire::feedback::{
    CaptureDone, CaptureRequest, FailureType, FeedbackAppended, FeedbackFinalized, FeedbackOpened,
    FeedbackStats, GuardrailChecks, HistoryMessage, Markdown, RubricScore, Signal, Speaker,
};
use sederunt_api::wire::{Count, Nothing};
use serde::Deserialize;
use utoipa::ToSchema;

use super::tool::{Draft, Effect, McpTool, page, renamed, shown};

pub fn tools() -> [McpTool; 6] {
    [
        capture_feedback(),
        open_feedback_session(),
        append_feedback_context(),
        finalize_feedback_session(),
        feedback_summary(),
        feedback_stats(),
    ]
}

/// A thumb, and what there is to say about it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Capture {
    #[schema(inline)]
    signal: Signal,
    /// Whether the plan was wrong (`decision`) or what was made of it (`execution`).
    #[schema(inline)]
    failure_type: Option<FailureType>,
    /// What it is about, in a sentence or two.
    #[schema(max_length = 4000)]
    context: Option<String>,
    /// An earlier feedback that this belongs to.
    #[schema(max_length = 200)]
    related_feedback_id: Option<String>,
    /// What went wrong.
    #[schema(max_length = 4000)]
    what_went_wrong: Option<String>,
    /// What to do instead next time. Lessons are best drawn from this.
    #[schema(max_length = 4000)]
    what_to_change: Option<String>,
    /// What worked and is worth repeating.
    #[schema(max_length = 4000)]
    what_worked: Option<String>,
    /// What was said before, oldest first, as a chat shows it.
    #[schema(inline)]
    chat_history: Option<Vec<ChatLine>>,
    /// Words to find it by, such as `git` or `testing`.
    #[schema(max_items = 10)]
    tags: Option<Vec<String>>,
    /// The skill or tool that was at work.
    #[schema(max_length = 50)]
    skill: Option<String>,
    /// What was said before, oldest first, as a model sees it.
    #[schema(inline)]
    conversation_window: Option<Vec<WindowMessage>>,
    /// Marks of a judge, from 1 to 5.
    #[schema(inline)]
    rubric_scores: Option<Vec<RubricScore>>,
    /// What machines said of the same work.
    #[schema(inline)]
    guardrails: Option<Checks>,
    /// The session that it is about, as `sederunt://sessions/{id}` names it: one that you may read. What was said in it
    /// before is then read from its log.
    #[schema(min_length = 1, max_length = 200)]
    session_id: Option<String>,
    /// The places in its log that it is about.
    #[schema(max_items = 50)]
    sequences: Option<Vec<Count>>,
}

/// A line of a chat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChatLine {
    /// Who said it; `assistant`, `agent`, `ai`, `model` and `bot` are the agent, all others people.
    author: Option<String>,
    #[schema(max_length = 8000)]
    text: String,
    /// Accepted, and not kept.
    #[expect(dead_code, reason = "taken from those who send it")]
    timestamp: Option<String>,
    /// Accepted, and not kept.
    #[expect(dead_code, reason = "taken from those who send it")]
    source: Option<String>,
}

/// A message as a model sees it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct WindowMessage {
    #[schema(inline)]
    role: Speaker,
    #[schema(max_length = 8000)]
    content: String,
    /// Accepted, and not kept.
    #[expect(dead_code, reason = "taken from those who send it")]
    timestamp: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Checks {
    tests_passed: Option<bool>,
    path_safety: Option<bool>,
    budget_compliant: Option<bool>,
}

/// The names that chat logs use for an agent.
const AGENTS: [&str; 5] = ["assistant", "agent", "ai", "model", "bot"];

impl From<ChatLine> for HistoryMessage {
    fn from(line: ChatLine) -> Self {
        let is_agent =
            line.author.is_some_and(|author| AGENTS.iter().any(|name| name.eq_ignore_ascii_case(&author)));
        let role = if is_agent { Speaker::Assistant } else { Speaker::User };
        Self { role, text: line.text, timestamp: None }
    }
}

impl From<WindowMessage> for HistoryMessage {
    fn from(message: WindowMessage) -> Self {
        Self { role: message.role, text: message.content, timestamp: None }
    }
}

impl From<Capture> for CaptureRequest {
    fn from(asked: Capture) -> Self {
        let chat = asked.chat_history.unwrap_or_default().into_iter().map(Into::into);
        let window = asked.conversation_window.unwrap_or_default().into_iter().map(Into::into);
        Self {
            signal: asked.signal,
            context: asked.context,
            what_went_wrong: asked.what_went_wrong,
            what_to_change: asked.what_to_change,
            what_worked: asked.what_worked,
            tags: asked.tags.unwrap_or_default(),
            skill: asked.skill,
            failure_type: asked.failure_type,
            related_feedback_id: asked.related_feedback_id,
            history: chat.chain(window).collect(),
            rubric_scores: asked.rubric_scores.unwrap_or_default(),
            guardrails: asked.guardrails.map(|checks| GuardrailChecks {
                tests_passed: checks.tests_passed,
                path_safety: checks.path_safety,
                budget_compliant: checks.budget_compliant,
            }),
            session_id: asked.session_id,
            sequences: asked.sequences.unwrap_or_default(),
        }
    }
}

fn capture_feedback() -> McpTool {
    Draft::new(
        "capture_feedback",
        "Give feedback",
        "Takes a thumb up or down with a few words about what an agent did. `accepted` opens a feedback session for \
         what else there is to say (`feedback_session`) and names lessons that are known about the same thing \
         (`suggestions`); `clarification_required` says what to ask the person (`prompt`); `blocked` means that the \
         words carry a secret, and nothing was kept.",
        Effect::Adds,
    )
    .gives::<CaptureDone>()
    .does(|asked, capture: Capture| {
        Box::pin(async move {
            let wish = CaptureRequest::from(capture).try_into()?;
            let captured = asked.engine().capture_feedback(asked.actor(), wish, asked.key).await;
            shown(CaptureDone::from(captured.map_err(|error| renamed(error, "history", "conversationWindow"))?))
        })
    })
    .also_called("capture_memory_feedback")
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Open {
    /// The feedback to add to, as `capture_feedback` named it.
    #[schema(max_length = 200)]
    feedback_event_id: String,
    #[schema(inline)]
    signal: Signal,
    /// What is known so far.
    #[schema(max_length = 4000)]
    initial_context: Option<String>,
}

fn open_feedback_session() -> McpTool {
    Draft::new(
        "open_feedback_session",
        "Open a feedback session",
        "Opens a feedback session on a feedback that was given before. Add to it with `append_feedback_context`; a \
         minute of silence finalizes it, as `finalize_feedback_session` does.",
        Effect::Adds,
    )
    .gives::<FeedbackOpened>()
    .does(|asked, Open { feedback_event_id: event, signal, initial_context }| {
        Box::pin(async move {
            let (engine, actor) = (asked.engine(), asked.actor());
            let opened = engine.open_feedback(actor, &event, signal.into(), initial_context, asked.key).await?;
            shown(FeedbackOpened::from(opened))
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AppendArguments {
    /// The feedback session: `fbs_…`.
    session_id: String,
    /// What there is to add. Cut after 1,000 characters, which the answer says.
    message: String,
    /// Who says it; a person without this.
    #[schema(inline)]
    role: Option<Speaker>,
}

fn append_feedback_context() -> McpTool {
    Draft::new(
        "append_feedback_context",
        "Add to a feedback session",
        "Adds a message to an open feedback session and puts its end off (`expires_at`). `status` is `appended`, or \
         says why not: `not_found`, `closed`, `full` (it holds 20), `invalid` or `blocked` (it carries a secret).",
        Effect::Adds,
    )
    .gives::<FeedbackAppended>()
    .does(|asked, AppendArguments { session_id: id, message, role }| {
        Box::pin(async move {
            let role = role.unwrap_or(Speaker::User).into();
            let added = asked.engine().append_feedback(asked.actor(), &id, role, &message, asked.key).await?;
            shown(FeedbackAppended::of(&id, added))
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Finalize {
    /// The feedback session: `fbs_…`.
    session_id: String,
}

fn finalize_feedback_session() -> McpTool {
    Draft::new(
        "finalize_feedback_session",
        "Finalize a feedback session",
        "Closes a feedback session and answers with what was said, what was complained about and the lesson that was \
         learned, which `recall` and agents know from then on. `status` is `finalized`, `already_finalized` or \
         `not_found`.",
        Effect::Settles,
    )
    .gives::<FeedbackFinalized>()
    .does(|asked, Finalize { session_id: id }| {
        Box::pin(async move {
            let done = asked.app.conversations()?.lesson_writer().finalize(asked.actor(), &id).await?;
            shown(FeedbackFinalized::of(&id, done))
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Summary {
    /// How many of the newest to show.
    #[schema(minimum = 1, maximum = 1000, default = 20)]
    recent: Option<u32>,
}

fn feedback_summary() -> McpTool {
    Draft::new(
        "feedback_summary",
        "Newest feedback",
        "Shows what the thumbs add up to and the newest of them, as a page of Markdown.",
        Effect::Reads,
    )
    .gives::<Markdown>()
    .does(|asked, Summary { recent }| {
        Box::pin(async move {
            let recent = recent.map_or(sederunt_core::feedback::stats::RECENT, |recent| recent as usize);
            let summary = asked.engine().feedback_summary(asked.actor(), recent).await;
            page(summary.map_err(|error| renamed(error, "limit", "recent"))?)
        })
    })
}

fn feedback_stats() -> McpTool {
    Draft::new(
        "feedback_stats",
        "Feedback in figures",
        "Counts thumbs: all, the last 7 and 30 days, the newest twenty and how they compare, by tag and by skill, with \
         advice on what goes badly.",
        Effect::Reads,
    )
    .gives::<FeedbackStats>()
    .does(|asked, Nothing {}| {
        Box::pin(async move { shown(FeedbackStats::from(asked.engine().feedback_stats(asked.actor()).await?)) })
    })
}
