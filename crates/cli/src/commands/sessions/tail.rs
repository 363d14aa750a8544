//! `sessions tail`: a log from any point on, live.

use std::time::Duration;

use serde_json::Value;

use super::super::CommandContext;
use super::{is_terminal, line_of, named};
use crate::api::{ApiClient, Missing, Request};
use crate::exit::Result;
use crate::output::note;

/// The pause before a broken stream is opened again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

pub async fn run(context: &CommandContext, id: &str, after: u64, follow: bool) -> Result<()> {
    let api = context.api(Missing::Refuse).await?;
    let done = follow_log(context, &api, id, after, follow).await;
    api.close().await;
    done
}

async fn follow_log(
    context: &CommandContext,
    api: &ApiClient,
    id: &str,
    mut after: u64,
    mut follow: bool,
) -> Result<()> {
    let (id, is_closed) = named(api, id).await?;
    // A closed session gets no more events.
    follow &= !is_closed;
    loop {
        let mut is_ready = false;
        let request = Request::get(&["sessions", &id, "stream"]).with("after", Some(after));
        let mut stream = api.client().await?.stream(&request.path(), None).await?;
        // A stream that breaks off is opened again at its cursor; if the server is gone, that fails.
        while let Ok(Some(message)) = stream.next().await {
            match message.event.as_str() {
                "message" => {
                    let printed = print(context, &message.data)?;
                    after = printed.sequence.max(after);
                    follow &= !printed.closes;
                }
                "gap" => note(format!("some events were removed: {}", message.data)),
                "ready" if !follow => return Ok(()),
                "ready" => is_ready = true,
                _ => {}
            }
            // The session was closed just now: the events of its end are read once more, to the end.
            if is_ready && !follow {
                break;
            }
        }
        if follow {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// An event that was printed.
struct Printed {
    sequence: u64,
    /// It closes the session.
    closes: bool,
}

/// Prints an event, and says which one it was.
fn print(context: &CommandContext, event: &str) -> Result<Printed> {
    let value: Value = serde_json::from_str(event).map_err(sederunt::Error::internal)?;
    if context.out.is_json() {
        context.out.line(event)?;
    } else {
        context.out.line(line_of(&value))?;
    }
    Ok(Printed {
        sequence: value["sequence"].as_u64().unwrap_or(0),
        closes: value["type"] == "session.status_change"
            && value["metadata"]["to"].as_str().is_some_and(is_terminal),
    })
}
