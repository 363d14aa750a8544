//! `claims ls|take`.

use serde_json::Value;

use super::Scene;
use crate::args::Claims;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};
use crate::reach::{Ask, Missing, Reach, SessionFilter};

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

pub async fn run(scene: &Scene, command: Claims) -> Result<()> {
    match command {
        Claims::Ls => {
            let reach = Reach::find(&scene.config, &scene.global, Missing::Refuse).await?;
            let claimed = claimed(&reach).await;
            reach.close().await;
            scene.out.list(&claimed?, COLUMNS)
        }
        Claims::Take(wish) => {
            let ask = Ask::Claim {
                worker: wish.worker,
                session_types: wish.session_types,
                agent_slugs: wish.agent_slugs,
                limit: wish.limit,
                lease: wish.lease.map(|span| span.0),
                wait: wish.wait.0,
            };
            let taken = scene.ask(Missing::Refuse, ask).await?;
            scene.out.list(taken["claims"].as_array().map_or(&[], Vec::as_slice), TAKEN)
        }
    }
}

/// Every session that somebody holds: only running ones can be held.
async fn claimed(reach: &Reach) -> Result<Vec<Value>> {
    let mut filter =
        SessionFilter { status: Some("running".into()), all: true, limit: 1000, ..SessionFilter::default() };
    let mut found = Vec::new();
    loop {
        let mut page = reach.ask(Ask::Sessions(filter.clone())).await?;
        if let Some(items) = page["items"].as_array_mut() {
            found.extend(items.drain(..).filter(|session| !session["claim"].is_null()));
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => filter.cursor = Some(cursor.to_owned()),
            None => return Ok(found),
        }
    }
}
