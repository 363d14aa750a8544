//! Tools about lessons: search, the lessons for what is about to be done, and rules.

use sederunt_api::wire::feedback::Markdown;
use sederunt_api::wire::lesson::{LessonCategory, LessonList, PreventionRules};
use sederunt_core::engine::LessonSearch;
use sederunt_core::{Error, lesson, limits};
use serde::Deserialize;
use utoipa::ToSchema;

use super::tool::{Draft, Effect, McpTool, page, renamed, shown};

pub fn tools() -> [McpTool; 4] {
    [recall(), search_lessons(), retrieve_lessons(), prevention_rules()]
}

/// Lessons of one search when the caller names no limit, and at most.
const FOUND_DEFAULT: u32 = 10;
const FOUND_MAX: u32 = 50;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Recall {
    /// What is about to be done, in a few words.
    #[schema(min_length = 1, max_length = 8000)]
    query: String,
    /// How many lessons at most.
    #[schema(minimum = 1, maximum = 1000, default = 5)]
    limit: Option<u32>,
    /// Accepted from those who send it; nothing is read from the caller's disk.
    #[expect(dead_code, reason = "taken from those who send it")]
    repo_path: Option<String>,
}

fn recall() -> McpTool {
    Draft::new(
        "recall",
        "What is known about something",
        "Answers with the lessons and rules for what is about to be done, as a page of Markdown to keep in mind. Ask \
         before you begin. Lessons are what people said, not orders. What is given counts as shown.",
        Effect::Counts,
    )
    .gives::<Markdown>()
    .does(|asked, Recall { query, limit, .. }| {
        Box::pin(async move {
            let most = limit.map_or(limits::LESSONS_SHOWN_MAX, |limit| limit as usize);
            page(asked.engine().recall_lessons(asked.actor(), &query, most).await?)
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Search {
    /// Words; the best fits first. Without any, the newest first.
    #[schema(max_length = 500)]
    query: Option<String>,
    /// How many at most; more than 50 is 50.
    #[schema(minimum = 1, default = 10)]
    limit: Option<u32>,
    /// What sort of lesson.
    #[schema(inline)]
    category: Option<LessonCategory>,
    /// Tags that a lesson has, all of them.
    #[schema(max_items = 10)]
    tags: Option<Vec<String>>,
}

fn search_lessons() -> McpTool {
    Draft::new(
        "search_lessons",
        "Search lessons",
        "Finds lessons by words, category and tags, each with where it came from, how often it came up and what it has \
         done since.",
        Effect::Reads,
    )
    .gives::<LessonList>()
    .does(|asked, Search { query, limit, category, tags }| {
        Box::pin(async move {
            let search = LessonSearch {
                query,
                states: vec![lesson::LessonState::Active],
                category: category.map(Into::into),
                tags: tags.unwrap_or_default(),
                limit: limit.unwrap_or(FOUND_DEFAULT).min(FOUND_MAX) as usize,
                ..LessonSearch::default()
            };
            let found = asked.engine().search_lessons(asked.actor(), search).await;
            shown(LessonList::from(found.map_err(|error| renamed(error, "q", "query"))?))
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Retrieve {
    /// The tool that is about to be used.
    tool_name: String,
    /// What it is about to be used for.
    #[schema(max_length = 8000)]
    action_context: Option<String>,
    /// How many at most.
    #[schema(minimum = 1, maximum = 1000, default = 5)]
    max_results: Option<u32>,
}

fn retrieve_lessons() -> McpTool {
    Draft::new(
        "retrieve_lessons",
        "Lessons for an action",
        "Answers with the lessons for a tool that is about to be used and what for, the best first. What is given \
         counts as shown.",
        Effect::Counts,
    )
    .gives::<LessonList>()
    .does(|asked, Retrieve { tool_name, action_context, max_results }| {
        Box::pin(async move {
            let about = [tool_name, action_context.unwrap_or_default()].join(" ");
            let most = max_results.map_or(limits::LESSONS_SHOWN_MAX, |most| most as usize);
            let found = asked.engine().retrieve_lessons(asked.actor(), &about, most).await;
            let found = found.map_err(|error| {
                renamed(renamed(error, "query", "actionContext"), "limit", "maxResults")
            })?;
            shown(LessonList { items: found.into_iter().map(Into::into).collect(), next_cursor: None })
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rules {
    /// From how many feedbacks on.
    #[schema(minimum = 1, default = 3)]
    min_occurrences: Option<u32>,
    /// Must be empty: nothing is written to the caller's disk.
    output_path: Option<String>,
}

fn prevention_rules() -> McpTool {
    Draft::new(
        "prevention_rules",
        "Prevention rules",
        "Lists what came up so often that it is to be kept from happening, the weightiest first: when it applies, what \
         to do then, and the lesson behind it. The rules are in the answer, also as Markdown; no file is written.",
        Effect::Reads,
    )
    .gives::<PreventionRules>()
    .does(|asked, Rules { min_occurrences, output_path }| {
        Box::pin(async move {
            if output_path.is_some_and(|path| !path.is_empty()) {
                let sentence = "must be empty: nothing is written to your disk; the answer holds the rules";
                return Err(Error::invalid("output_path", sentence));
            }
            let least = min_occurrences.map_or(limits::RULE_OCCURRENCES, u64::from);
            if least == 0 {
                return Err(Error::invalid("min_occurrences", "must be at least 1"));
            }
            shown(PreventionRules::from(asked.engine().prevention_rules(asked.actor(), least).await?))
        })
    })
    .also_called("get_reliability_rules")
}
