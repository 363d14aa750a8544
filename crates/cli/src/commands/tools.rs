//! `tools ls|show|create|edit`, and their sessions: `tools run`, `history`, `session`, `cancel`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{CommandContext, json_in};
use crate::api::{Missing, Request};
use crate::args::{RunToolArgs, ToolsCommand};
use crate::exit::{Failure, Result};
use crate::output::{Column, column, plain, time};

const TOOLS: &[Column] = &[
    column("SLUG", |tool| plain(&tool["slug"])),
    column("RUN", |tool| plain(&tool["run"]["type"])),
    column("UPDATED", |tool| time(&tool["updated_at"])),
    column("NAME", |tool| plain(&tool["name"])),
];

const TOOL: &[Column] = &[
    column("slug", |tool| plain(&tool["slug"])),
    column("name", |tool| plain(&tool["name"])),
    column("description", |tool| plain(&tool["description"])),
    column("values", fields),
    column("run", |tool| plain(&tool["run"])),
    column("output", |tool| plain(&tool["output"])),
    column("asks first", |tool| plain(&tool["requires_confirmation"])),
    column("timeout ms", |tool| plain(&tool["timeout_ms"])),
    column("version", |tool| plain(&tool["version"])),
    column("created by", |tool| plain(&tool["created_by"])),
    column("created", |tool| time(&tool["created_at"])),
    column("updated", |tool| time(&tool["updated_at"])),
];

const SESSIONS: &[Column] = &[
    column("ID", |session| plain(&session["id"])),
    column("STATUS", |session| plain(&session["status"])),
    column("INVOCATION", |session| plain(&session["invocation"]["state"])),
    column("UPDATED", |session| time(&session["updated_at"])),
    column("VALUES", |session| plain(&session["values"])),
];

const SESSION: &[Column] = &[
    column("id", |session| plain(&session["id"])),
    column("tool", |session| plain(&session["tool_slug"])),
    column("status", |session| plain(&session["status"])),
    column("values", |session| plain(&session["values"])),
    column("invocation", |session| plain(&session["invocation"]["id"])),
    column("state", |session| plain(&session["invocation"]["state"])),
    column("steps", steps),
    column("result", |session| plain(&session["result"])),
    column("error", |session| plain(&session["error"]["message"])),
    column("code", |session| plain(&session["error"]["code"])),
    column("rerun of", |session| plain(&session["retry_of"])),
    column("created", |session| time(&session["created_at"])),
    column("updated", |session| time(&session["updated_at"])),
];

/// How often `--wait` looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub async fn run(context: &CommandContext, command: ToolsCommand) -> Result<()> {
    let (missing, request) = match command {
        ToolsCommand::Ls(page) => {
            let request = Request::get(&["tools"]).page(page.limit, page.cursor);
            return context.page(&context.send(Missing::Refuse, request).await?, TOOLS);
        }
        ToolsCommand::Run(wish) => return run_tool(context, wish).await,
        ToolsCommand::History { slug, status, mine, page } => {
            let request = Request::get(&["tools", &slug, "sessions"])
                .with("status", status)
                .with("mine", mine.then_some(true))
                .page(page.limit, page.cursor);
            return context.page(&context.send(Missing::Refuse, request).await?, SESSIONS);
        }
        ToolsCommand::Session { id } => {
            let request = Request::get(&["tool-sessions", &id]);
            return context.out.thing(&context.send(Missing::Refuse, request).await?, SESSION);
        }
        ToolsCommand::Cancel { id } => {
            let request = Request::post(&["tool-sessions", &id, "cancel"], json!({}));
            return context.out.thing(&context.send(Missing::Refuse, request).await?, SESSION);
        }
        ToolsCommand::Show { slug } => (Missing::Refuse, Request::get(&["tools", &slug])),
        ToolsCommand::Create { file } => (Missing::Make, Request::post(&["tools"], &json_in(&file)?)),
        ToolsCommand::Edit { slug, file } => {
            (Missing::Refuse, Request::patch(&["tools", &slug], &json_in(&file)?))
        }
    };
    context.defined(&context.send(missing, request).await?, TOOL)
}

/// Starts a tool session with these values, invokes it, and waits for its end if asked to.
async fn run_tool(context: &CommandContext, wish: RunToolArgs) -> Result<()> {
    let RunToolArgs { slug, values, rerun_of, wait } = wish;
    let tool = context.send(Missing::Refuse, Request::get(&["tools", &slug])).await?;
    let mut given = Map::new();
    for pair in &values {
        let (key, text) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("`{pair}` is no value: write key=value")))?;
        given.insert(key.to_owned(), value_of(&tool["input_schema"]["properties"][key], text));
    }
    let start = json!({ "values": given, "rerun_of": rerun_of });
    let request = Request::post(&["tools", &slug, "sessions"], start);
    let started = context.send(Missing::Refuse, request).await?;
    let id = plain(&started["id"]);
    let request = Request::post(&["tool-sessions", &id, "invoke"], json!({}));
    let mut session = context.send(Missing::Refuse, request).await?;
    while wait && session["status"] == "active" {
        tokio::time::sleep(LOOK_EVERY).await;
        session = context.send(Missing::Refuse, Request::get(&["tool-sessions", &id])).await?;
    }
    context.out.thing(&session, SESSION)
}

/// A value as its property takes it: text stays text, a secret is named, and any other is read as JSON if it is JSON.
fn value_of(property: &Value, text: &str) -> Value {
    if property["writeOnly"] == true {
        return json!({ "secret": text });
    }
    match property["type"] == "string" {
        true => json!(text),
        false => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
    }
}

fn fields(tool: &Value) -> String {
    let each = tool["input_schema"]["properties"].as_object().into_iter().flatten();
    each.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn steps(session: &Value) -> String {
    let each = session["steps"].as_array().into_iter().flatten();
    each.map(|step| format!("{} {}", plain(&step["key"]), plain(&step["status"])))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_its_property_takes_it() {
        for (property, text, value) in [
            (json!({"type": "string"}), "5", json!("5")),
            (json!({"type": "integer"}), "5", json!(5)),
            (json!({"type": "array"}), "[1]", json!([1])),
            (json!({"type": "integer"}), "five", json!("five")),
            (json!({"type": "string", "writeOnly": true}), "crm", json!({"secret": "crm"})),
            (Value::Null, "true", json!(true)),
        ] {
            assert_eq!(value_of(&property, text), value, "{property} {text}");
        }
    }
}
