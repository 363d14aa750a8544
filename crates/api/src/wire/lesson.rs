//! Lessons on the wire: their text, their sources, their effect.

use sederunt_core::engine::{LessonPatch, LessonSearch};
use sederunt_core::ids::check_text;
use sederunt_core::lesson::{self, rule};
use sederunt_core::session::query::Page;
use sederunt_core::{Error, Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Confidence, Count, words};
use crate::limits::TAG_FILTER_CHARS_MAX;
use crate::query::params;

words!(
    /// Whether to avoid it or to repeat it.
    Polarity = lesson::Polarity { Negative, Positive } in "snake_case"
);
words!(
    /// Whether agents are shown it.
    LessonState = lesson::LessonState { Proposed, Active, Retired } in "snake_case"
);
words!(
    /// What sort of lesson it is.
    LessonCategory = lesson::LessonCategory { Error, Learning, Preference } in "snake_case"
);

/// The agent's action that the feedback was about.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LessonAction {
    /// `edit`, `create`, `command`, `fix`, `deploy` or `delete`.
    pub family: String,
    pub target: String,
}

/// Feedback that taught the lesson. Only callers who may read the session or gave the feedback see it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LessonSource {
    pub feedback_event_id: String,
    pub feedback_session_id: String,
    pub session_id: Option<String>,
    pub sequences: Vec<Count>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A person's action on a lesson, and its time.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Touched {
    pub by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<lesson::LessonTouch> for Touched {
    fn from(touch: lesson::LessonTouch) -> Self {
        Self { by: touch.by, at: touch.at }
    }
}

/// The effect of a lesson.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LessonEffect {
    /// How often it was shown to an agent.
    pub shown: Count,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub first_shown_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_shown_at: Option<Timestamp>,
    /// Thumbs down since it was first shown, on work for which it was shown or in which it came up again.
    pub negative_since: Count,
    pub positive_since: Count,
}

/// A lesson that was drawn from feedback.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Lesson {
    pub id: String,
    pub text: String,
    pub polarity: Polarity,
    pub state: LessonState,
    pub category: LessonCategory,
    /// The agent's words or action that the feedback was about.
    pub trigger: Option<String>,
    pub action: Option<LessonAction>,
    pub tags: Vec<String>,
    /// The agent that is shown the lesson; null: every agent.
    pub agent_slug: Option<String>,
    pub confidence: Confidence,
    /// The reasons for its confidence.
    pub grounds: Vec<String>,
    /// How often it came up, each feedback counted once.
    pub occurrences: Count,
    pub sources: Vec<LessonSource>,
    pub effect: LessonEffect,
    pub accepted: Option<Touched>,
    pub edited: Option<Touched>,
    pub retired: Option<Touched>,
    pub version: Count,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

impl From<lesson::Lesson> for Lesson {
    fn from(one: lesson::Lesson) -> Self {
        let confidence = one.confidence().into();
        let (body, effect) = (one.body, one.effect);
        let source = |source: lesson::LessonSource| LessonSource {
            feedback_event_id: source.event,
            feedback_session_id: source.feedback_session,
            session_id: source.session,
            sequences: source.sequences.into_iter().map(Count).collect(),
            at: source.at,
        };
        Self {
            id: one.id,
            text: body.text,
            polarity: one.polarity.into(),
            state: one.state.into(),
            category: body.category.into(),
            trigger: body.trigger,
            action: body.action.map(|action| LessonAction {
                family: action.family.as_str().to_owned(),
                target: action.target,
            }),
            tags: body.tags,
            agent_slug: body.agent,
            confidence,
            grounds: body.grounds.into_iter().map(|ground| ground.as_str().to_owned()).collect(),
            occurrences: Count(one.occurrences),
            sources: body.sources.into_iter().map(source).collect(),
            effect: LessonEffect {
                shown: Count(effect.shown),
                first_shown_at: effect.first_shown_at,
                last_shown_at: effect.last_shown_at,
                negative_since: Count(effect.negative_since),
                positive_since: Count(effect.positive_since),
            },
            accepted: body.accepted.map(Into::into),
            edited: body.edited.map(Into::into),
            retired: body.retired.map(Into::into),
            version: Count(one.version),
            created_at: one.created_at,
            updated_at: one.updated_at,
        }
    }
}

/// A page of lessons.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LessonList {
    pub items: Vec<Lesson>,
    /// Pass it as `cursor` for the next page; null at the end, and where words were asked for.
    pub next_cursor: Option<String>,
}

impl From<Page<lesson::Lesson, i64>> for LessonList {
    fn from(page: Page<lesson::Lesson, i64>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

params! {
    /// Which lessons.
    pub struct LessonsQuery {
        /// Words to rank by, best match first. Without words: newest first.
        q: Option<String> = text().chars_max(limits::QUERY_CHARS_MAX),
        /// One state, or several separated by commas.
        state: Vec<String> =
            text().pattern("^(proposed|active|retired)(,(proposed|active|retired))*$").list(),
        polarity: Option<Polarity> = named_word(),
        category: Option<LessonCategory> = named_word(),
        /// Tags separated by commas; a lesson must have all of them.
        tags: Vec<String> = text().chars_max(TAG_FILTER_CHARS_MAX).list(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

impl TryFrom<LessonsQuery> for LessonSearch {
    type Error = Error;

    fn try_from(query: LessonsQuery) -> Result<Self, Error> {
        let states =
            query.state.iter().map(|word| lesson::LessonState::parse(word)).collect::<Option<Vec<_>>>();
        Ok(Self {
            query: query.q,
            states: states.ok_or_else(|| Error::invalid("state", "must be proposed, active or retired"))?,
            polarity: query.polarity.map(Into::into),
            category: query.category.map(Into::into),
            tags: query.tags,
            after: query.after,
            limit: query.limit,
        })
    }
}

params! {
    /// What the caller is about to do.
    pub struct AboutQuery {
        /// What the caller is about to do, in a few words.
        q: String = text().chars_min(1).chars_max(limits::QUERY_CHARS_MAX).required(),
        limit: u64 = number().min(1).max(limits::PAGE_ROWS_MAX).or(limits::LESSONS_SHOWN_MAX as u64),
    }
}

impl AboutQuery {
    /// The words, and how many lessons.
    pub fn checked(self) -> Result<(String, usize), Error> {
        if self.q.is_empty() {
            return Err(Error::invalid("q", "is required"));
        }
        // A query string has to stay short; longer texts go through MCP.
        check_text("q", &self.q, limits::QUERY_CHARS_MAX)?;
        Ok((self.q, usize::try_from(self.limit).unwrap_or(usize::MAX)))
    }
}

/// A person's change of a lesson.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"state": "active", "text": "Run the package manager instead of editing its files"}))]
pub struct PatchLesson {
    /// `active` accepts it, `retired` takes it out of use.
    pub state: Option<LessonState>,
    #[schema(min_length = 1, max_length = 500)]
    pub text: Option<String>,
    #[schema(max_items = 10)]
    pub tags: Option<Vec<String>>,
}

impl From<PatchLesson> for LessonPatch {
    fn from(asked: PatchLesson) -> Self {
        Self { state: asked.state.map(Into::into), text: asked.text, tags: asked.tags }
    }
}

/// A rule from a lesson that came up often.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreventionRule {
    /// When it applies.
    pub when: String,
    /// What to do then.
    pub then: String,
    /// At most 0.95.
    pub confidence: Confidence,
    /// How often the lesson came up; older occurrences count less.
    pub weight: f64,
    pub lesson: Lesson,
}

impl From<rule::LessonRule> for PreventionRule {
    fn from(rule: rule::LessonRule) -> Self {
        Self {
            when: rule.when,
            then: rule.then,
            confidence: rule.confidence.into(),
            weight: (rule.weight * 1000.0).round() / 1000.0,
            lesson: rule.lesson.into(),
        }
    }
}

/// Rules by weight, and the same as Markdown.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreventionRules {
    pub items: Vec<PreventionRule>,
    pub markdown: String,
}

impl From<Vec<rule::LessonRule>> for PreventionRules {
    fn from(rules: Vec<rule::LessonRule>) -> Self {
        Self { markdown: rule::page(&rules), items: rules.into_iter().map(Into::into).collect() }
    }
}

params! {
    /// From how many feedbacks on.
    pub struct RulesQuery {
        min_occurrences | "minOccurrences": u64 = number().min(1).or(limits::RULE_OCCURRENCES),
    }
}

impl RulesQuery {
    pub fn checked(self) -> Result<u64, Error> {
        match self.min_occurrences {
            0 => Err(Error::invalid("min_occurrences", "must be at least 1")),
            least => Ok(least),
        }
    }
}
