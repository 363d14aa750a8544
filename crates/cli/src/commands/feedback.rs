//! `feedback give|open|add|finalize|show|ls|failures|stats|summary`.
//!
//! The API reports a refused addition as a status, not as an error; here it ends the command as a refusal does
//! elsewhere, so that a script does not take it for success.

use serde_json::{Map, Value, json};

use super::{CommandContext, lessons};
use crate::api::{Missing, Request};
use crate::args::{FeedbackCommand, GiveFeedbackArgs};
use crate::exit::{Exit, Failure, Result};
use crate::output::{Column, column, note, plain, time, visible};

const COLUMNS: &[Column] = &[
    column("SESSION", |session| plain(&session["session_id"])),
    column("SIGNAL", |session| plain(&session["signal"])),
    column("STATUS", |session| plain(&session["status"])),
    column("MESSAGES", |session| plain(&session["message_count"])),
    column("OPENED", |session| time(&session["opened_at"])),
    column("LESSON", |session| plain(&session["lesson_id"])),
    column("CONTEXT", |session| plain(&session["initial_context"])),
];

const FIELDS: &[Column] = &[
    column("session", |session| plain(&session["session_id"])),
    column("feedback", |session| plain(&session["feedback_event_id"])),
    column("signal", |session| plain(&session["signal"])),
    column("status", |session| plain(&session["status"])),
    column("opened", |session| time(&session["opened_at"])),
    column("open until", |session| match session["finalized_at"] {
        Value::Null => time(&session["expires_at"]),
        _ => String::new(),
    }),
    column("finalized", |session| time(&session["finalized_at"])),
    column("because of", |session| plain(&session["reason"])),
    column("lesson", |session| plain(&session["lesson_id"])),
];

const STATS: &[Column] = &[
    column("in all", counts),
    column("30 days", |stats| counts(&stats["last_30_days"])),
    column("7 days", |stats| counts(&stats["last_7_days"])),
    column("newest", |stats| counts(&stats["recent"])),
    column("trend", |stats| plain(&stats["trend"])),
    column("by tag", |stats| named(&stats["tags"])),
    column("by skill", |stats| named(&stats["skills"])),
    column("failed runs", |stats| failed(&stats["failures"])),
    column("rated sittings", |stats| rated(&stats["ratings"])),
];

const RATINGS: &[Column] = &[
    column("WHEN", |rating| time(&rating["recorded_at"])),
    column("LABEL", |rating| plain(&rating["label"])),
    column("TURNS", |rating| plain(&rating["turn_count_at_end"])),
    column("SOURCE", |rating| plain(&rating["source"])),
    column("BY", |rating| plain(&rating["modality"])),
];

const FAILURES: &[Column] = &[
    column("WHEN", |failure| time(&failure["at"])),
    column("CODE", |failure| plain(&failure["code"])),
    column("TASK", |failure| match &failure["task_slug"] {
        Value::Null => plain(&failure["task_id"]),
        slug => plain(slug),
    }),
    column("STEP", |failure| plain(&failure["step"])),
    column("AGENT", |failure| plain(&failure["agent_slug"])),
    column("SESSION", |failure| plain(&failure["session_id"])),
    column("AT", |failure| plain(&failure["sequence"])),
    column("MESSAGE", |failure| plain(&failure["message"])),
];

pub async fn run(context: &CommandContext, command: FeedbackCommand) -> Result<()> {
    match command {
        FeedbackCommand::Give(wish) => give(context, wish).await,
        FeedbackCommand::Open { event, signal, context: words } => {
            let body = fields([
                ("feedback_event_id", json!(event)),
                ("signal", json!(signal)),
                ("initial_context", json!(words)),
            ]);
            let opened = ask(context, Request::post(&["feedback", "sessions"], body)).await?;
            answered(context, &opened, |opened| opened_as(context, opened))
        }
        FeedbackCommand::Add { session, message, role } => {
            let body = json!({ "message": message, "role": role });
            let added =
                ask(context, Request::post(&["feedback", "sessions", &session, "append"], body)).await?;
            answered(context, &added, |added| {
                let cut = if added["truncated"] == true { ", its end cut off" } else { "" };
                let until = time(&added["expires_at"]);
                context.out.line(format!("added message {}{cut}; open until {until}", added["message_count"]))
            })
        }
        FeedbackCommand::Finalize { session } => {
            let done =
                ask(context, Request::post(&["feedback", "sessions", &session, "finalize"], json!({})))
                    .await?;
            answered(context, &done, |done| finalized(context, done))
        }
        FeedbackCommand::Show { session } => {
            let session = ask(context, Request::get(&["feedback", "sessions", &session])).await?;
            answered(context, &session, |session| show(context, session))
        }
        FeedbackCommand::Ls { open, page } => {
            let request = Request::get(&["feedback", "sessions"]).with("state", open.then_some("open"));
            context.page(&ask(context, request.page(page.limit, page.cursor)).await?, COLUMNS)
        }
        FeedbackCommand::Failures { task, session, page } => {
            let request =
                Request::get(&["feedback", "failures"]).with("task_id", task).with("session_id", session);
            context.page(&ask(context, request.page(page.limit, page.cursor)).await?, FAILURES)
        }
        FeedbackCommand::Stats => {
            let stats = ask(context, Request::get(&["feedback", "stats"])).await?;
            context.out.thing(&stats, STATS)?;
            if context.out.is_json() {
                return Ok(());
            }
            let advice = stats["recommendations"].as_array().into_iter().flatten();
            advice.map(|one| plain(&one["advice"])).try_for_each(|line| context.out.line(visible(&line)))
        }
        FeedbackCommand::Ratings { thread } => {
            let page = ask(context, Request::get(&["threads", &thread, "ratings"])).await?;
            if context.out.is_json() {
                return context.out.value(&page);
            }
            context.out.list(page["items"].as_array().map_or(&[], Vec::as_slice), RATINGS)?;
            context.out.line(rated(&page["counts"]))
        }
        FeedbackCommand::Summary { recent } => {
            let page =
                ask(context, Request::get(&["feedback", "summary"]).with("recent", Some(recent))).await?;
            if context.out.is_json() {
                return context.out.value(&page);
            }
            plain(&page["markdown"]).lines().try_for_each(|line| context.out.line(visible(line)))
        }
    }
}

/// The ratings by label.
fn rated(counts: &Value) -> String {
    let of = |label: &str| plain(&counts[label]);
    format!("{} positive, {} negative, {} skipped", of("positive"), of("negative"), of("skip"))
}

async fn ask(context: &CommandContext, request: Request) -> Result<Value> {
    context.send(Missing::Refuse, request).await
}

async fn give(context: &CommandContext, wish: GiveFeedbackArgs) -> Result<()> {
    let words = (!wish.words.is_empty()).then(|| wish.words.join(" "));
    let body = fields([
        ("signal", json!(wish.signal)),
        ("context", json!(words)),
        ("what_went_wrong", json!(wish.wrong)),
        ("what_to_change", json!(wish.change)),
        ("what_worked", json!(wish.worked)),
        ("tags", json!(wish.tags)),
        ("skill", json!(wish.skill)),
        ("session_id", json!(wish.session)),
        ("sequences", json!(wish.sequences)),
    ]);
    let given = context.send(Missing::Make, Request::post(&["feedback"], body)).await?;
    answered(context, &given, |given| {
        let event = plain(&given["feedback_event_id"]);
        context.out.line(format!("kept as {event}"))?;
        if given["status"] == "clarification_required" {
            context.out.line(visible(&plain(&given["prompt"])))?;
            context.out.line(format!("For example: {}", visible(&plain(&given["example"]))))?;
            note(format!("Say it with `sederunt feedback open {event} {} TEXT`", wish.signal));
            return Ok(());
        }
        for known in given["suggestions"].as_array().into_iter().flatten() {
            context.out.line(format!("known already: {}", visible(&lessons::line(known))))?;
        }
        opened_as(context, &given["feedback_session"])
    })
}

fn opened_as(context: &CommandContext, opened: &Value) -> Result<()> {
    let session = plain(&opened["session_id"]);
    context.out.line(format!("{session} is open until {}", time(&opened["expires_at"])))?;
    note(format!(
        "Add to it with `sederunt feedback add {session} TEXT`; `feedback finalize` draws the lesson now"
    ));
    Ok(())
}

fn finalized(context: &CommandContext, done: &Value) -> Result<()> {
    let session = &done["session"];
    let lesson = &done["lesson"];
    context.out.line(match (done["status"].as_str(), done["learned"].as_str()) {
        (Some("already_finalized"), _) => format!("was finalized at {}", time(&session["finalized_at"])),
        (_, Some(learned)) => format!("{learned}: {}", visible(&lessons::line(lesson))),
        _ => "there was nothing to learn from".to_owned(),
    })?;
    show(context, session)
}

fn show(context: &CommandContext, session: &Value) -> Result<()> {
    context.out.thing(session, FIELDS)?;
    let initial = plain(&session["initial_context"]);
    if !initial.is_empty() {
        context.out.line(format!("first: {}", visible(&initial)))?;
    }
    for said in session["messages"].as_array().into_iter().flatten() {
        context.out.line(format!("{}: {}", plain(&said["role"]), visible(&plain(&said["text"]))))?;
    }
    for complaint in session["complaints"].as_array().into_iter().flatten() {
        let (kind, detail) = (plain(&complaint["type"]), plain(&complaint["detail"]));
        context.out.line(format!("complaint ({kind}): {}", visible(&detail)))?;
    }
    Ok(())
}

/// Shows an accepted answer; a refused one ends the command.
fn answered(context: &CommandContext, answer: &Value, show: impl FnOnce(&Value) -> Result<()>) -> Result<()> {
    if context.out.is_json() {
        context.out.value(answer)?;
    }
    match refusal(answer) {
        Some(failure) => Err(failure),
        None if context.out.is_json() => Ok(()),
        None => show(answer),
    }
}

/// The refusal in an answer, if there is one.
pub fn refusal(answer: &Value) -> Option<Failure> {
    let status = answer["status"].as_str()?;
    let exit = match status {
        "blocked" | "invalid" => Exit::Usage,
        "not_found" => Exit::NotFound,
        "closed" | "full" => Exit::Refused,
        _ => return None,
    };
    let sentence = match (answer["message"].as_str(), answer["reason"].as_str()) {
        (Some(message), _) => message.to_owned(),
        (None, Some(kind)) => format!("it carries a secret ({kind}): leave that out; nothing was kept"),
        (None, None) => "there is no such feedback session".to_owned(),
    };
    Some(Failure::new(exit, status, sentence))
}

/// A body of the fields that are not empty.
pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let says = |value: &Value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty());
    let given = fields.into_iter().filter(|(_, value)| says(value));
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn counts(counts: &Value) -> String {
    match counts["approval_rate"].as_f64() {
        Some(rate) => format!("{} up, {} down ({:.0} % up)", counts["up"], counts["down"], rate * 100.0),
        None => "none".to_owned(),
    }
}

fn failed(failures: &Value) -> String {
    if failures["total"] == 0 {
        return "none".to_owned();
    }
    let codes = failures["codes"].as_array().into_iter().flatten();
    let codes: Vec<_> = codes.map(|one| format!("{} {}", plain(&one["code"]), one["total"])).collect();
    let (all, month, week) = (&failures["total"], &failures["last_30_days"], &failures["last_7_days"]);
    format!("{all}, {month} in 30 days, {week} in 7 days ({})", codes.join(", "))
}

fn named(list: &Value) -> String {
    let each = list.as_array().into_iter().flatten();
    each.map(|one| format!("{} +{} -{}", plain(&one["name"]), one["up"], one["down"]))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_done_ends_as_the_same_refusal_does_elsewhere() {
        for (answer, exit) in [
            (json!({"status": "accepted"}), None),
            (json!({"status": "clarification_required"}), None),
            (json!({"status": "open"}), None),
            (json!({"status": "appended"}), None),
            (json!({"status": "finalized"}), None),
            (json!({"status": "already_finalized"}), None),
            (json!({"status": "blocked", "reason": "credential"}), Some(Exit::Usage)),
            (json!({"status": "invalid", "message": "say something"}), Some(Exit::Usage)),
            (json!({"status": "not_found"}), Some(Exit::NotFound)),
            (json!({"status": "closed", "message": "it was finalized"}), Some(Exit::Refused)),
            (json!({"status": "full", "message": "it holds 20 messages"}), Some(Exit::Refused)),
        ] {
            let refused = refusal(&answer);
            assert_eq!(refused.as_ref().map(Failure::exit), exit, "{answer}");
            let says = refused.is_none_or(|failure| !failure.sentence().is_empty());
            assert!(says, "{answer}");
        }
    }

    #[test]
    fn a_body_holds_what_was_said_and_nothing_else() {
        let body = fields([
            ("signal", json!("up")),
            ("context", json!(null)),
            ("tags", json!([])),
            ("skill", json!("git")),
        ]);
        assert_eq!(body, json!({"signal": "up", "skill": "git"}));
    }
}
