//! `safety hold`: keeps crisis records from the purge until a date.

use serde_json::json;

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::SafetyCommand;
use crate::exit::Result;

pub async fn run(context: &CommandContext, command: SafetyCommand) -> Result<()> {
    let SafetyCommand::Hold { until, thread, reason } = command;
    let body = json!({ "until": until, "thread_id": thread, "reason": reason });
    let done = context.send(Missing::Refuse, Request::post(&["crises", "hold"], body)).await?;
    if context.out.is_json() {
        return context.out.value(&done);
    }
    context.out.line(format!("{} crises are held until {until}", done["held"]))
}
