//! `inbox`, `approve` and `deny`: a person's approvals.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sederunt::{Json, Timestamp};
use serde_json::{Value, json};

use super::{CommandContext, json_of, object};
use crate::api::{ApiClient, Missing, Request};
use crate::args::{ApproveArgs, DenyArgs, InboxArgs, InboxCommand};
use crate::exit::Result;
use crate::output::{Column, column, plain, time, visible};

const COLUMNS: &[Column] = &[
    column("ID", |approval| plain(&approval["id"])),
    column("KIND", |approval| plain(&approval["kind"])),
    column("STATE", |approval| plain(&approval["state"])),
    column("WHAT", what),
    column("TASK", task),
    column("ASSIGNED TO", |approval| plain(&approval["assigned_to"])),
    column("AGE", |approval| age(&approval["created_at"])),
    column("EXPIRES", |approval| time(&approval["expires_at"])),
];

const FIELDS: &[Column] = &[
    column("id", |approval| plain(&approval["id"])),
    column("kind", |approval| plain(&approval["kind"])),
    column("state", |approval| plain(&approval["state"])),
    column("session", |approval| plain(&approval["session_id"])),
    column("task", task),
    column("entity", entity),
    column("assigned to", |approval| plain(&approval["assigned_to"])),
    column("score", |approval| plain(&approval["score"])),
    column("flags", |approval| plain(&approval["flags"])),
    column("digest", |approval| plain(&approval["digest"])),
    column("created", |approval| time(&approval["created_at"])),
    column("expires", |approval| time(&approval["expires_at"])),
    column("decided by", |approval| plain(&approval["decided_by"])),
    column("decided", |approval| time(&approval["decided_at"])),
    column("reason", |approval| plain(&approval["reason"])),
];

pub async fn run(context: &CommandContext, wish: InboxArgs) -> Result<()> {
    if let Some(InboxCommand::Show { id }) = wish.one {
        let approval = context.send(Missing::Refuse, Request::get(&["approvals", &id])).await?;
        return show(context, &approval);
    }
    let request = Request::get(&["approvals"]).with("state", (!wish.all).then_some("pending"));
    let api = context.api(Missing::Refuse).await?;
    let page = with_slugs(context, &api, request.page(wish.page.limit, wish.page.cursor)).await;
    api.close().await;
    context.page(&page?, COLUMNS)
}

/// Lists approvals, with the slug of each task beside its id for people to read.
async fn with_slugs(context: &CommandContext, api: &ApiClient, request: Request) -> Result<Value> {
    let mut page = api.send(request).await?;
    if context.out.is_json() {
        return Ok(page);
    }
    let mut slugs: BTreeMap<String, String> = BTreeMap::new();
    for approval in page["items"].as_array_mut().into_iter().flatten() {
        let Some(id) = approval["task_id"].as_str().map(str::to_owned) else { continue };
        if !slugs.contains_key(&id) {
            // If the task is gone or the caller may not see it, its id is shown.
            let found = api.send(Request::get(&["tasks", &id])).await;
            slugs.insert(id.clone(), found.map_or_else(|_| id.clone(), |task| plain(&task["slug"])));
        }
        approval["task_slug"] = slugs[&id].as_str().into();
    }
    Ok(page)
}

/// The slug of its task, or the id where the slug is not known.
fn task(approval: &Value) -> String {
    let slug = plain(&approval["task_slug"]);
    if slug.is_empty() { plain(&approval["task_id"]) } else { slug }
}

pub async fn approve(context: &CommandContext, wish: ApproveArgs) -> Result<()> {
    let body = object([
        ("decision", Some(Json::of(&"approve")?)),
        ("modified_args", wish.args.map(|text| json_of("--args", &text)).transpose()?),
        ("modified_output", wish.output.map(|text| json_of("--output", &text)).transpose()?),
        ("reason", wish.reason.map(|text| Json::of(&text)).transpose()?),
        ("digest", wish.digest.map(|text| Json::of(&text)).transpose()?),
    ]);
    decide(context, &wish.id, &body).await
}

pub async fn deny(context: &CommandContext, wish: DenyArgs) -> Result<()> {
    let body = Json::of(&json!({ "decision": "deny", "reason": wish.reason, "digest": wish.digest }))?;
    decide(context, &wish.id, &body).await
}

async fn decide(context: &CommandContext, id: &str, body: &Json) -> Result<()> {
    let approval = context.send(Missing::Refuse, Request::post(&["approvals", id, "decide"], body)).await?;
    show(context, &approval)
}

/// One approval in full; the staged value takes several lines.
fn show(context: &CommandContext, approval: &Value) -> Result<()> {
    context.out.thing(approval, FIELDS)?;
    if context.out.is_json() {
        return Ok(());
    }
    for field in ["staged", "edited"] {
        if !approval[field].is_null() {
            context.out.line(format!("{field}:"))?;
            for line in format!("{:#}", approval[field]).lines() {
                context.out.line(format!("  {}", visible(line)))?;
            }
        }
    }
    Ok(())
}

/// Its subject, in a few words.
pub fn what(approval: &Value) -> String {
    let staged = &approval["staged"];
    match approval["kind"].as_str() {
        Some("tool") => plain(&staged["name"]),
        Some("question") => plain(&staged["text"]),
        Some("promotion") => {
            let fields: Vec<_> =
                staged.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            let target = &approval["promotion"];
            let article = if target["is_new"] == true { "new " } else { "" };
            format!("{} → {article}{}", fields.join(", "), plain(&target["entity_type"]))
        }
        _ => match staged {
            Value::Object(fields) => fields.keys().cloned().collect::<Vec<_>>().join(", "),
            Value::Array(items) => format!("{} entities", items.len()),
            other => plain(other),
        },
    }
}

/// The entity that a promotion writes to.
fn entity(approval: &Value) -> String {
    let target = &approval["promotion"];
    let (id, kind) = (plain(&target["entity_id"]), plain(&target["entity_type"]));
    match target["is_new"].as_bool() {
        Some(true) => format!("new {kind} {id}"),
        Some(false) => format!("{kind} {id}"),
        None => String::new(),
    }
}

/// The age of something, in its largest unit.
fn age(at: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let then = at.as_str().and_then(Timestamp::parse).map_or(0, Timestamp::as_micros);
    since(now.saturating_sub(Duration::from_micros(u64::try_from(then).unwrap_or(0))))
}

fn since(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        for (seconds, told) in [(0, "0s"), (59, "59s"), (60, "1m"), (7_199, "1h"), (200_000, "2d")] {
            assert_eq!(since(Duration::from_secs(seconds)), told);
        }
    }

    #[test]
    fn what_waits_is_told_in_a_few_words() {
        for (approval, told) in [
            (json!({"kind": "tool", "staged": {"name": "send_mail", "args": {}}}), "send_mail"),
            (json!({"kind": "question", "staged": {"text": "Which one?"}}), "Which one?"),
            (json!({"kind": "output", "staged": {"rain": true, "wind": 4}}), "rain, wind"),
            (json!({"kind": "output", "staged": [{}, {}]}), "2 entities"),
            (json!({"kind": "output", "staged": "a text"}), "a text"),
            (
                json!({"kind": "promotion", "staged": {"name": "Acme", "size": 9},
                    "promotion": {"entity_type": "company", "is_new": true}}),
                "name, size → new company",
            ),
            (
                json!({"kind": "promotion", "staged": {"size": 9},
                    "promotion": {"entity_type": "company", "is_new": false}}),
                "size → company",
            ),
            (json!({"kind": "broken", "staged": null}), ""),
        ] {
            assert_eq!(what(&approval), told);
        }
    }
}
