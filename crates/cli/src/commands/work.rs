//! `work [counts|ls]`: the caller's queue. Alone it counts.

use serde_json::Value;

use super::{CommandContext, inbox};
use crate::api::{Missing, Request};
use crate::args::WorkCommand;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const COUNTS: &[Column] = &[
    column("needs me", |counts| plain(&counts["needs_me"])),
    column("running", |counts| plain(&counts["running"])),
    column("delegatable", |counts| plain(&counts["delegatable"])),
    column("failed", |counts| plain(&counts["failed"])),
    column("done today", |counts| plain(&counts["done_today"])),
];

const COLUMNS: &[Column] = &[
    column("KIND", |line| plain(&line["kind"])),
    column("ID", |line| plain(&subject(line)["id"])),
    column("STATUS", |line| {
        plain(&subject(line)[if line["kind"] == "approval" { "state" } else { "status" }])
    }),
    column("CHANGED", |line| {
        time(if line["task"].is_null() {
            &line["session"]["last_activity_at"]
        } else {
            &line["task"]["updated_at"]
        })
    }),
    column("WHAT", what),
];

pub async fn run(context: &CommandContext, command: Option<WorkCommand>) -> Result<()> {
    match command.unwrap_or(WorkCommand::Counts { tz: None }) {
        WorkCommand::Counts { tz } => {
            let counts = context
                .send(Missing::Refuse, Request::get(&["today", "work-queue-counts"]).with("tz", tz))
                .await?;
            context.out.thing(&counts, COUNTS)
        }
        WorkCommand::Ls { bucket, tz, page } => {
            let request = Request::get(&["today", &bucket]).with("tz", tz).page(page.limit, page.cursor);
            context.page(&context.send(Missing::Refuse, request).await?, COLUMNS)
        }
    }
}

/// The subject of a line.
fn subject(line: &Value) -> &Value {
    &line[line["kind"].as_str().unwrap_or("session")]
}

fn what(line: &Value) -> String {
    match line["kind"].as_str() {
        Some("approval") => {
            format!("{}: {}", plain(&line["session"]["title"]), inbox::what(&line["approval"]))
        }
        Some("task") => plain(&line["task"]["name"]),
        _ => plain(&line["session"]["title"]),
    }
}
