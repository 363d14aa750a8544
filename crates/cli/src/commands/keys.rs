//! `keys create|ls|revoke`.

use serde_json::json;

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::KeysCommand;
use crate::exit::Result;
use crate::output::{Column, column, note, plain, time};

const COLUMNS: &[Column] = &[
    column("ID", |key| plain(&key["id"])),
    column("ROLE", |key| plain(&key["role"])),
    column("USER", |key| plain(&key["user"])),
    column("PREFIX", |key| plain(&key["prefix"])),
    column("ACTS FOR OTHERS", |key| if key["act_as"] == true { "yes".into() } else { String::new() }),
    column("CREATED", |key| time(&key["created_at"])),
    column("EXPIRES", |key| time(&key["expires_at"])),
    column("REVOKED", |key| time(&key["revoked_at"])),
];

const MADE: &[Column] = &[
    column("key", |key| plain(&key["key"])),
    column("id", |key| plain(&key["id"])),
    column("tenant", |key| plain(&key["tenant"])),
    column("user", |key| plain(&key["user"])),
    column("role", |key| plain(&key["role"])),
    column("prefix", |key| plain(&key["prefix"])),
    column("expires", |key| time(&key["expires_at"])),
];

pub async fn run(context: &CommandContext, command: KeysCommand) -> Result<()> {
    match command {
        KeysCommand::Create(wish) => {
            let body = json!({
                "user": wish.user,
                "role": wish.role,
                "prefix": wish.prefix,
                "who": wish.who,
                "threads": wish.threads,
                "act_as": wish.act_as,
                "expires_in": wish.expires.map(|span| span.0.as_secs()),
            });
            let made = context.send(Missing::Make, Request::post(&["keys"], body)).await?;
            context.out.thing(&made, MADE)?;
            if !context.out.is_json() {
                note("Keep the key now: it is not shown again.");
            }
            if made["user_exists"] == false {
                let (user, tenant) = (plain(&made["user"]), plain(&made["tenant"]));
                note(format!(
                    "There is no user `{user}` in tenant `{tenant}` yet; the key acts under that name. If it is misspelt, \
                     revoke the key: sederunt keys revoke {}",
                    plain(&made["id"])
                ));
            }
            Ok(())
        }
        KeysCommand::Ls => {
            let list = context.send(Missing::Refuse, Request::get(&["keys"])).await?;
            context.out.list(list["items"].as_array().map_or(&[], Vec::as_slice), COLUMNS)
        }
        KeysCommand::Revoke { id } => {
            context.send(Missing::Refuse, Request::delete(&["keys", &id])).await?;
            context.done(&id, "revoked")
        }
    }
}
