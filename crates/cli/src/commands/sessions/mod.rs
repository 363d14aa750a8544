//! `sessions ls|show|present|tail|export|stop|retry|answer|done|rm`.

mod export;
mod tail;

use std::borrow::Cow;

use sederunt::Json;
use sederunt_core::talk::silence;
use serde_json::{Value, json};

use super::{CommandContext, json_of, object};
use crate::api::{ApiClient, Missing, Request};
use crate::args::{ListSessionsArgs, SessionsCommand};
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const COLUMNS: &[Column] = &[
    column("ID", |session| plain(&session["id"])),
    column("TYPE", |session| plain(&session["session_type"])),
    column("STATUS", status),
    column("EVENTS", |session| plain(&session["last_sequence"])),
    column("ACTIVE", |session| time(&session["last_activity_at"])),
    column("TITLE", title),
];

pub(super) const FIELDS: &[Column] = &[
    column("id", |session| plain(&session["id"])),
    column("tenant", |session| plain(&session["tenant_id"])),
    column("type", |session| plain(&session["session_type"])),
    column("status", status),
    column("title", |session| plain(&session["title"])),
    column("description", |session| plain(&session["description"])),
    column("source", |session| plain(&session["source"]["kind"])),
    column("holder", |session| plain(&session["user_id"])),
    column("participants", |session| plain(&session["participants"])),
    column("task", |session| plain(&session["task_id"])),
    column("agent", |session| plain(&session["agent_slug"])),
    column("entity", |session| plain(&session["entity_id"])),
    column("parent", |session| plain(&session["parent_id"])),
    column("retry of", |session| plain(&session["retry_of"])),
    column("claim", claim),
    column("events", |session| plain(&session["last_sequence"])),
    column("messages", |session| plain(&session["message_count"])),
    column("turns", |session| plain(&session["turn_count"])),
    column("last message", |session| plain(&session["last_message_preview"])),
    column("input", |session| plain(&session["input"])),
    column("result", |session| plain(&session["result"])),
    column("usage", |session| plain(&session["usage"])),
    column("error", |session| plain(&session["error_message"])),
    column("ended", |session| plain(&session["end_reason"])),
    column("metadata", |session| plain(&session["metadata"])),
    column("created", |session| time(&session["created_at"])),
    column("started", |session| time(&session["started_at"])),
    column("completed", |session| time(&session["completed_at"])),
    column("last activity", |session| time(&session["last_activity_at"])),
    column("deadline", |session| time(&session["deadline_at"])),
];

pub async fn run(context: &CommandContext, command: SessionsCommand) -> Result<()> {
    match command {
        SessionsCommand::Ls(wish) => list(context, wish).await,
        SessionsCommand::Show { id } => shown(context, Request::get(&["sessions", &id])).await,
        SessionsCommand::Present { id } => present(context, &id).await,
        SessionsCommand::Tail { id, after, no_follow } => tail::run(context, &id, after, !no_follow).await,
        SessionsCommand::Export { id, format, all, output } => {
            export::run(context, &id, format, all, output.as_deref()).await
        }
        SessionsCommand::Stop { id } => {
            shown(context, Request::post(&["sessions", &id, "stop"], json!({}))).await
        }
        SessionsCommand::Retry { id } => {
            shown(context, Request::post(&["sessions", &id, "retry"], json!({}))).await
        }
        SessionsCommand::Answer { id, text, value } => {
            let reply = match (value, text) {
                (Some(value), _) => json_of("--value", &value)?,
                (None, text) => Json::of(&text.unwrap_or_default())?,
            };
            let body = object([("reply", Some(reply))]);
            shown(context, Request::post(&["sessions", &id, "elicitation-reply"], &body)).await
        }
        SessionsCommand::Done { id, result, text } => {
            let result = result.map(|text| json_of("--result", &text)).transpose()?;
            let body = object([("result", result), ("text", text.map(|text| Json::of(&text)).transpose()?)]);
            shown(context, Request::post(&["sessions", &id, "human-complete"], &body)).await
        }
        SessionsCommand::Rm { ids, force } => remove(context, &ids, force).await,
    }
}

/// Sends a request that answers with a session, and shows it.
async fn shown(context: &CommandContext, request: Request) -> Result<()> {
    context.out.thing(&context.send(Missing::Refuse, request).await?, FIELDS)
}

const PEOPLE: &[Column] = &[
    column("USER", |person| plain(&person["user_id"])),
    column("SINCE", |person| time(&person["since"])),
    column("STATE", |person| plain(&person["state"])),
];

async fn present(context: &CommandContext, id: &str) -> Result<()> {
    let answer = context.send(Missing::Refuse, Request::get(&["sessions", id, "presence"])).await?;
    if context.out.is_json() {
        return context.out.value(&answer);
    }
    context.out.list(answer["present"].as_array().map_or(&[], Vec::as_slice), PEOPLE)
}

async fn list(context: &CommandContext, wish: ListSessionsArgs) -> Result<()> {
    let request = Request::get(&["sessions"])
        .with("session_type", wish.session_type)
        .with("status", wish.status)
        .with("group", wish.group)
        .with("task_id", wish.task)
        .with("agent_slug", wish.agent)
        .with("entity_id", wish.entity)
        .with("user_id", wish.user)
        .with("q", wish.search)
        .with("inactive", wish.all.then_some(false))
        .with("parents_only", wish.parents_only.then_some(true))
        .page(wish.limit, wish.cursor);
    let metadata = wish.metadata.into_iter();
    let request =
        metadata.fold(request, |request, (key, value)| request.with(format!("metadata.{key}"), Some(value)));
    context.page(&context.send(Missing::Refuse, request).await?, COLUMNS)
}

/// The whole id of a session that may be named by the beginning of it, and whether it is closed.
async fn named(api: &ApiClient, id: &str) -> Result<(String, bool)> {
    let session = api.send(Request::get(&["sessions", id])).await?;
    let is_closed = session["status"].as_str().is_some_and(is_terminal);
    Ok((plain(&session["id"]), is_closed))
}

fn is_terminal(status: &str) -> bool {
    sederunt::Status::parse(status).is_some_and(sederunt::Status::is_terminal)
}

/// Deletes one after the other; the first refusal ends it.
async fn remove(context: &CommandContext, ids: &[String], force: bool) -> Result<()> {
    let api = context.api(Missing::Refuse).await?;
    let removed = async {
        for id in ids {
            let (id, _) = named(&api, id).await?;
            api.send(Request::delete(&["sessions", &id]).with("force", force.then_some(true))).await?;
            context.done(&id, "deleted")?;
        }
        Ok(())
    };
    let done = removed.await;
    api.close().await;
    done
}

fn status(session: &Value) -> String {
    let hidden = if session["inactive"] == true { " (hidden)" } else { "" };
    format!("{}{hidden}", plain(&session["status"]))
}

fn title(session: &Value) -> String {
    let named = ["title", "description", "last_message_preview"].iter().map(|field| plain(&session[field]));
    named.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

fn claim(session: &Value) -> String {
    let claim = &session["claim"];
    if claim.is_null() {
        return String::new();
    }
    let part = |field: &str| plain(&claim[field]);
    format!(
        "{}, epoch {}, attempt {}, until {}",
        part("worker"),
        part("epoch"),
        part("attempts"),
        time(&claim["lease_until"])
    )
}

/// The texts of an event as people are shown them: what an agent says, without the markers of silence.
pub(crate) fn shown_texts(event: &Value) -> Vec<Cow<'_, str>> {
    let parts = event["content"].as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part["text"].as_str());
    match event["type"] == "agent.message" {
        true => texts.map(silence::shown_text).filter(|text| !text.is_empty()).collect(),
        false => texts.map(Cow::Borrowed).collect(),
    }
}

/// An event as one line for people.
fn line_of(event: &Value) -> String {
    let text = shown_texts(event);
    let said = if !text.is_empty() {
        text.join(" ")
    } else if event["metadata"].is_object() {
        event["metadata"].to_string()
    } else {
        String::new()
    };
    let author = event["author"].as_str().map(|author| format!("{author}: ")).unwrap_or_default();
    let kind = plain(&event["type"]);
    let line =
        format!("{:>6}  {}  {kind:<22}  {author}{said}", plain(&event["sequence"]), time(&event["at"]));
    crate::output::visible(line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_says_who_said_what() {
        let event = json!({
            "sequence": 7, "type": "user.message", "author": "ada", "at": "2026-11-15T22:19:00.000000Z",
            "content": [{"type": "text", "text": "two\nlines"}], "metadata": null,
        });
        assert_eq!(line_of(&event), "     7  2026-11-15 22:19:00  user.message            ada: two lines");
        let moved = json!({
            "sequence": 8, "type": "session.status_change", "author": null,
            "at": "2026-11-15T22:19:00.000000Z", "content": null, "metadata": {"from": "idle", "to": "running"},
        });
        assert!(line_of(&moved).ends_with(r#"session.status_change   {"from":"idle","to":"running"}"#));
    }

    #[test]
    fn a_session_without_a_title_is_known_by_what_was_said() {
        assert_eq!(
            title(&json!({"title": null, "description": null, "last_message_preview": "Hello"})),
            "Hello"
        );
        assert_eq!(status(&json!({"status": "idle", "inactive": true})), "idle (hidden)");
    }
}
