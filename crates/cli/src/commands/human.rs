//! `human start|active|block|stop|forget`.

use serde_json::{Value, json};

use super::{CommandContext, sessions};
use crate::api::{Missing, Request};
use crate::args::HumanCommand;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const FIELDS: &[Column] = &[
    column("working on", |work| plain(&work["session"]["title"])),
    column("task", |work| plain(&work["task"]["slug"])),
    column("session", |work| plain(&work["session"]["id"])),
    column("started", |work| time(&work["session"]["started_at"])),
    column("events", |work| plain(&work["session"]["last_sequence"])),
    column("ends", |work| time(&work["session"]["deadline_at"])),
];

const NOTHING: &str = "You are working on nothing.";

pub async fn run(context: &CommandContext, command: HumanCommand) -> Result<()> {
    match command {
        HumanCommand::Start { task } => {
            let request = Request::post(&["sessions", "human", "start"], json!({ "task_id": task }));
            context.out.thing(&context.send(Missing::Refuse, request).await?, FIELDS)
        }
        HumanCommand::Active => {
            let work = active(context).await?;
            if work["session"].is_null() && !context.out.is_json() {
                return context.out.line(NOTHING);
            }
            context.out.thing(&work, FIELDS)
        }
        HumanCommand::Block { limit } => {
            let request = Request::get(&["activity-block"]).with("limit", Some(limit.to_string()));
            let answer = context.send(Missing::Refuse, request).await?;
            match answer["block"].as_str() {
                _ if context.out.is_json() => context.out.value(&answer),
                Some(block) => context.out.line(block),
                None => context.out.line(NOTHING),
            }
        }
        HumanCommand::Stop { session } => {
            let session = match session {
                Some(session) => session,
                None => match active(context).await?["session"]["id"].as_str() {
                    Some(running) => running.to_owned(),
                    None if context.out.is_json() => return context.out.value(&json!({ "session": null })),
                    None => return context.out.line(NOTHING),
                },
            };
            let request = Request::post(&["sessions", "human", "stop"], json!({ "session_id": session }));
            context.out.thing(&context.send(Missing::Refuse, request).await?, sessions::FIELDS)
        }
        HumanCommand::Forget { before } => {
            let request = Request::delete(&["sessions", "human"]).with("before", before);
            let done = context.send(Missing::Refuse, request).await?;
            if context.out.is_json() {
                return context.out.value(&done);
            }
            context.out.line(match done["deleted"].as_u64() {
                Some(1) => "deleted 1 session".to_owned(),
                _ => format!("deleted {} sessions", done["deleted"]),
            })
        }
    }
}

async fn active(context: &CommandContext) -> Result<Value> {
    context.send(Missing::Refuse, Request::get(&["sessions", "human", "active"])).await
}
