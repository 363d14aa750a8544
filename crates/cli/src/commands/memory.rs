//! `memory status`: counts of memories, ratings by label and crisis records.

use serde_json::Value;

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::MemoryCommand;
use crate::exit::Result;
use crate::output::{Column, column, plain};

/// How much is remembered, for people; `chat` shows the same.
pub const STATUS: &[Column] = &[
    column("facts", |status| plain(&status["facts"])),
    column("arcs", |status| plain(&status["arcs"])),
    column("rules", |status| plain(&status["rules"])),
    column("recall", |status| on_off(&status["recall_enabled"])),
    column("ratings", ratings),
    column("crisis records", |status| plain(&status["crisis_log_count"])),
];

pub async fn run(context: &CommandContext, command: MemoryCommand) -> Result<()> {
    let MemoryCommand::Status { thread, user_id: user } = command;
    let request = Request::get(&["memory", "status"]).with("thread_id", thread).with("user_id", user);
    let status = context.send(Missing::Refuse, request).await?;
    context.out.thing(&status, STATUS)
}

pub fn on_off(value: &Value) -> String {
    match value.as_bool() {
        Some(true) => "on".to_owned(),
        Some(false) => "off".to_owned(),
        None => String::new(),
    }
}

/// All of them, and each label that was given.
fn ratings(status: &Value) -> String {
    let was_given = |label: &&str| status["ratings"][label].as_u64().unwrap_or_default() > 0;
    let given = ["positive", "negative", "skip"].into_iter().filter(was_given);
    let each: Vec<String> =
        given.map(|label| format!("{} {label}", plain(&status["ratings"][label]))).collect();
    let all = plain(&status["session_feedback_count"]);
    if each.is_empty() { all } else { format!("{all} ({})", each.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratings_are_shown_by_label() {
        for (positive, negative, skip, shown) in
            [(3, 2, 1, "6 (3 positive, 2 negative, 1 skip)"), (0, 2, 0, "2 (2 negative)"), (0, 0, 0, "0")]
        {
            let labels = json!({"positive": positive, "negative": negative, "skip": skip});
            let status = json!({"session_feedback_count": positive + negative + skip, "ratings": labels});
            assert_eq!(ratings(&status), shown);
        }
    }
}
