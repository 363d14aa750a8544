//! `tasks ls|show|create|edit|trigger|status|pause|resume`.

use serde_json::Value;
use serde_json::json;

use super::{CommandContext, json_in, json_of, object, sessions};
use crate::api::{Missing, Request};
use crate::args::{ListTasksArgs, TasksCommand};
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const COLUMNS: &[Column] = &[
    column("SLUG", |task| plain(&task["slug"])),
    column("STATUS", |task| plain(&task["status"])),
    column("AGENT", |task| plain(&task["agent_slug"])),
    column("ASSIGNED TO", |task| plain(&task["assigned_to"])),
    column("STEPS", steps),
    column("APPROVAL", |task| if task["requires_approval"] == true { "yes".into() } else { String::new() }),
    column("UPDATED", |task| time(&task["updated_at"])),
    column("NAME", |task| plain(&task["name"])),
];

const FIELDS: &[Column] = &[
    column("id", |task| plain(&task["id"])),
    column("slug", |task| plain(&task["slug"])),
    column("name", |task| plain(&task["name"])),
    column("status", |task| plain(&task["status"])),
    column("description", |task| plain(&task["description"])),
    column("agent", |task| plain(&task["agent_slug"])),
    column("assigned to", |task| plain(&task["assigned_to"])),
    column("entity", |task| plain(&task["entity_id"])),
    column("input", |task| plain(&task["input"])),
    column("steps", steps),
    column("output", |task| plain(&task["output"])),
    column(
        "needs approval",
        |task| if task["requires_approval"] == true { "yes".into() } else { String::new() },
    ),
    column("criteria sets", |task| plain(&task["criteria_set_ids"])),
    column("approval", |task| plain(&task["approval"])),
    column("limits", |task| limits(&task["limits"])),
    column("on child failure", |task| plain(&task["on_child_failure"])),
    column("priority", |task| plain(&task["priority"])),
    column("version", |task| plain(&task["version"])),
    column("created by", |task| plain(&task["created_by"])),
    column("created", |task| time(&task["created_at"])),
    column("updated", |task| time(&task["updated_at"])),
];

const STANDING: &[Column] = &[
    column("task", |standing| plain(&standing["task_slug"])),
    column("task is", |standing| plain(&standing["task_status"])),
    column("session", |standing| plain(&standing["session"]["id"])),
    column("status", |standing| plain(&standing["status"])),
    column("took", |standing| {
        standing["duration_ms"].as_u64().map(|ms| format!("{ms} ms")).unwrap_or_default()
    }),
    column("error", |standing| plain(&standing["error_message"])),
    column("result", |standing| plain(&standing["session"]["result"])),
    column("last event", |standing| {
        let last = standing["events"].as_array().and_then(|events| events.last());
        last.map(|event| format!("{} {}", time(&event["at"]), plain(&event["type"]))).unwrap_or_default()
    }),
];

pub async fn run(context: &CommandContext, command: TasksCommand) -> Result<()> {
    let change = |task: &str, status: &str| Request::patch(&["tasks", task], json!({ "status": status }));
    let (missing, request) = match command {
        TasksCommand::Ls(wish) => return list(context, wish).await,
        TasksCommand::Trigger { task, input } => {
            let input = input.map(|text| json_of("--input", &text)).transpose()?;
            let request = Request::post(&["tasks", &task, "trigger"], &object([("input", input)]));
            let session = context.send(Missing::Refuse, request).await?;
            return context.out.thing(&session, sessions::FIELDS);
        }
        TasksCommand::Status { task } => {
            let standing = context.send(Missing::Refuse, Request::get(&["tasks", &task, "status"])).await?;
            return context.out.thing(&standing, STANDING);
        }
        TasksCommand::Show { task } => (Missing::Refuse, Request::get(&["tasks", &task])),
        TasksCommand::Create { file } => (Missing::Make, Request::post(&["tasks"], &json_in(&file)?)),
        TasksCommand::Edit { task, file } => {
            (Missing::Refuse, Request::patch(&["tasks", &task], &json_in(&file)?))
        }
        TasksCommand::Pause { task } => (Missing::Refuse, change(&task, "paused")),
        TasksCommand::Resume { task } => (Missing::Refuse, change(&task, "active")),
    };
    let task = context.send(missing, request).await?;
    context.defined(&task, FIELDS)
}

async fn list(context: &CommandContext, wish: ListTasksArgs) -> Result<()> {
    let request = Request::get(&["tasks"])
        .with("status", wish.status)
        .with("agent_slug", wish.agent)
        .with("assigned_to", wish.assigned_to)
        .with("entity_id", wish.entity)
        .page(wish.page.limit, wish.page.cursor);
    context.page(&context.send(Missing::Refuse, request).await?, COLUMNS)
}

fn steps(task: &Value) -> String {
    let each = task["steps"].as_array().into_iter().flatten();
    each.map(|step| plain(&step["key"])).collect::<Vec<_>>().join(", ")
}

/// Only the limits that are set.
pub fn limits(limits: &Value) -> String {
    let each = limits.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    each.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
