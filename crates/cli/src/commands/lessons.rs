//! `lessons ls|search|show|accept|edit|retire|rules`.

use serde_json::{Value, json};

use super::CommandContext;
use super::feedback::fields;
use crate::api::{Missing, Request};
use crate::args::{LessonFilterArgs, LessonsCommand};
use crate::exit::Result;
use crate::output::{Column, column, plain, time, visible};

const COLUMNS: &[Column] = &[
    column("LESSON", |lesson| plain(&lesson["id"])),
    column("STATE", |lesson| plain(&lesson["state"])),
    column("CAME UP", |lesson| plain(&lesson["occurrences"])),
    column("SHOWN", |lesson| plain(&lesson["effect"]["shown"])),
    column("UPDATED", |lesson| time(&lesson["updated_at"])),
    column("TAGS", |lesson| plain(&lesson["tags"])),
    column("TEXT", |lesson| format!("{}: {}", thumb(lesson), plain(&lesson["text"]))),
];

const FIELDS: &[Column] = &[
    column("lesson", |lesson| plain(&lesson["id"])),
    column("state", |lesson| plain(&lesson["state"])),
    column("category", |lesson| plain(&lesson["category"])),
    column("agent", |lesson| plain(&lesson["agent_slug"])),
    column("tags", |lesson| plain(&lesson["tags"])),
    column("confidence", |lesson| hundredths(&lesson["confidence"])),
    column("grounds", |lesson| plain(&lesson["grounds"]).replace('_', " ")),
    column("came up", |lesson| plain(&lesson["occurrences"])),
    column("in", sources),
    column("shown", |lesson| plain(&lesson["effect"]["shown"])),
    column("last shown", |lesson| time(&lesson["effect"]["last_shown_at"])),
    column("thumbs since", |lesson| match lesson["effect"]["first_shown_at"] {
        Value::Null => String::new(),
        _ => {
            format!("{} up, {} down", lesson["effect"]["positive_since"], lesson["effect"]["negative_since"])
        }
    }),
    column("accepted", |lesson| touched(&lesson["accepted"])),
    column("edited", |lesson| touched(&lesson["edited"])),
    column("retired", |lesson| touched(&lesson["retired"])),
    column("created", |lesson| time(&lesson["created_at"])),
    column("updated", |lesson| time(&lesson["updated_at"])),
];

const RULES: &[Column] = &[
    column("LESSON", |rule| plain(&rule["lesson"]["id"])),
    column("WEIGHT", |rule| plain(&rule["weight"])),
    column("CONFIDENCE", |rule| hundredths(&rule["confidence"])),
    column("WHEN", |rule| plain(&rule["when"])),
    column("THEN", |rule| plain(&rule["then"])),
];

pub async fn run(context: &CommandContext, command: LessonsCommand) -> Result<()> {
    let changed = |id: &str, body: Value| Request::patch(&["lessons", id], body);
    let request = match command {
        LessonsCommand::Ls { filter, page } => {
            return list(context, None, filter, page.limit, page.cursor).await;
        }
        LessonsCommand::Search { words, filter, limit } => {
            return list(context, Some(words.join(" ")), filter, limit, None).await;
        }
        LessonsCommand::Rules { min } => {
            let rules = context
                .send(Missing::Refuse, Request::get(&["lessons", "rules"]).with("min_occurrences", Some(min)))
                .await?;
            if !context.out.is_json() && rules["items"].as_array().is_some_and(Vec::is_empty) {
                let times = match min {
                    1 => "once".to_owned(),
                    3 => "three times".to_owned(),
                    n => format!("{n} times"),
                };
                return context.out.line(format!("None yet: a rule is made when something came up {times}."));
            }
            return context.page(&rules, RULES);
        }
        LessonsCommand::Show { id } => Request::get(&["lessons", &id]),
        LessonsCommand::Accept { id } => changed(&id, json!({ "state": "active" })),
        LessonsCommand::Retire { id } => changed(&id, json!({ "state": "retired" })),
        LessonsCommand::Edit { id, text, tags } => {
            changed(&id, fields([("text", json!(text)), ("tags", json!(tags))]))
        }
    };
    let lesson = context.send(Missing::Refuse, request).await?;
    if !context.out.is_json() {
        context.out.line(visible(&line(&lesson)))?;
    }
    context.out.thing(&lesson, FIELDS)
}

async fn list(
    context: &CommandContext,
    words: Option<String>,
    filter: LessonFilterArgs,
    limit: u32,
    cursor: Option<String>,
) -> Result<()> {
    let list = |words: Vec<String>| (!words.is_empty()).then(|| words.join(","));
    let request = Request::get(&["lessons"])
        .with("q", words)
        .with("state", list(filter.states))
        .with("tags", list(filter.tags))
        .page(limit, cursor);
    context.page(&context.send(Missing::Refuse, request).await?, COLUMNS)
}

/// A lesson in one line.
pub fn line(lesson: &Value) -> String {
    format!("{}: {} ({})", thumb(lesson), plain(&lesson["text"]), plain(&lesson["id"]))
}

/// A share from 0 to 1 on the scale that lessons have.
fn hundredths(share: &Value) -> String {
    share.as_f64().map(|share| format!("{:.0} of 100", share * 100.0)).unwrap_or_default()
}

fn thumb(lesson: &Value) -> &'static str {
    if lesson["polarity"] == "positive" { "after a thumb up" } else { "after a thumb down" }
}

fn sources(lesson: &Value) -> String {
    let each = lesson["sources"].as_array().into_iter().flatten();
    each.map(|source| match source["session_id"].as_str() {
        Some(session) => format!("{} on {session}", plain(&source["feedback_event_id"])),
        None => plain(&source["feedback_event_id"]),
    })
    .collect::<Vec<_>>()
    .join(", ")
}

fn touched(touch: &Value) -> String {
    match touch["by"].as_str() {
        Some(by) => format!("{} by {by}", time(&touch["at"])),
        None => time(&touch["at"]),
    }
}
