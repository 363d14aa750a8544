//! `claims ls|take`.

use serde_json::{Value, json};

use super::CommandContext;
use crate::api::{ApiClient, Missing, Request};
use crate::args::ClaimsCommand;
use crate::config::Span;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const COLUMNS: &[Column] = &[
    column("SESSION", |session| plain(&session["id"])),
    column("TYPE", |session| plain(&session["session_type"])),
    column("AGENT", |session| plain(&session["agent_slug"])),
    column("WORKER", |session| plain(&session["claim"]["worker"])),
    column("EPOCH", |session| plain(&session["claim"]["epoch"])),
    column("ATTEMPTS", |session| plain(&session["claim"]["attempts"])),
    column("LEASE UNTIL", |session| time(&session["claim"]["lease_until"])),
    column("TITLE", |session| plain(&session["title"])),
];

const TAKEN: &[Column] = &[
    column("SESSION", |claim| plain(&claim["session"]["id"])),
    column("TYPE", |claim| plain(&claim["session"]["session_type"])),
    column("AGENT", |claim| plain(&claim["session"]["agent_slug"])),
    column("EPOCH", |claim| plain(&claim["epoch"])),
    column("LEASE UNTIL", |claim| time(&claim["lease_until"])),
    column("TITLE", |claim| plain(&claim["session"]["title"])),
];

pub async fn run(context: &CommandContext, command: ClaimsCommand) -> Result<()> {
    match command {
        ClaimsCommand::Ls => {
            let api = context.api(Missing::Refuse).await?;
            let claimed = claimed(&api).await;
            api.close().await;
            context.out.list(&claimed?, COLUMNS)
        }
        ClaimsCommand::Take(wish) => {
            let mut body = json!({
                "worker": wish.worker,
                "session_types": wish.session_types,
                "agent_slugs": wish.agent_slugs,
                "limit": wish.limit,
                "wait_ms": millis(wish.wait),
            });
            if let Some(lease) = wish.lease {
                body["lease_ms"] = millis(lease).into();
            }
            let taken = context.send(Missing::Refuse, Request::post(&["claims"], body)).await?;
            context.out.list(taken["claims"].as_array().map_or(&[], Vec::as_slice), TAKEN)
        }
    }
}

/// Every claimed session: only running ones have a claim.
async fn claimed(api: &ApiClient) -> Result<Vec<Value>> {
    let running = Request::get(&["sessions"]).with("status", Some("running")).with("inactive", Some(false));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let mut page = api.send(running.clone().page(1000, after)).await?;
        if let Some(items) = page["items"].as_array_mut() {
            found.extend(items.drain(..).filter(|session| !session["claim"].is_null()));
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => after = Some(cursor.to_owned()),
            None => return Ok(found),
        }
    }
}

fn millis(Span(span): Span) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
