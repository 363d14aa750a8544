//! `shares ls|create|revoke`, and the links that `views share` makes.

use serde_json::{Value, json};

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::SharesCommand;
use crate::exit::Result;
use crate::output::{Column, column, note, plain, time};

const SHARES: &[Column] = &[
    column("ID", |share| plain(&share["id"])),
    column("SESSION", |share| plain(&share["session_id"])),
    column("VIEW", |share| plain(&share["view_id"])),
    column("ACCESS", |share| plain(&share["access"])),
    column("CREATED BY", |share| plain(&share["created_by"])),
    column("CREATED", |share| time(&share["created_at"])),
    column("EXPIRES", |share| time(&share["expires_at"])),
    column("REVOKED", |share| time(&share["revoked_at"])),
];

const MADE: &[Column] = &[
    column("url", |share| plain(&share["url"])),
    column("token", |share| plain(&share["token"])),
    column("id", |share| plain(&share["id"])),
    column("user", |share| plain(&share["user_id"])),
    column("expires", |share| time(&share["expires_at"])),
];

pub async fn run(context: &CommandContext, command: SharesCommand) -> Result<()> {
    match command {
        SharesCommand::Ls { session, view, page } => {
            let request = Request::get(&["shares"]).with("session_id", session).with("view_id", view);
            let request = request.page(page.limit, page.cursor);
            context.page(&context.send(Missing::Refuse, request).await?, SHARES)
        }
        SharesCommand::Create { session, access, expires } => {
            let body = json!({ "access": access, "expires_in": expires.0.as_secs() });
            let request = Request::post(&["sessions", &session, "share"], body);
            show_made(context, &context.send(Missing::Refuse, request).await?)
        }
        SharesCommand::Revoke { id } => {
            context.send(Missing::Refuse, Request::delete(&["shares", &id])).await?;
            context.done(&id, "revoked")
        }
    }
}

/// Shows a link that was made, with its token.
pub fn show_made(context: &CommandContext, made: &Value) -> Result<()> {
    context.out.thing(made, MADE)?;
    if !context.out.is_json() {
        note("Keep the link now: its token is not shown again.");
    }
    Ok(())
}
