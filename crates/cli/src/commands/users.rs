//! `users ls|create|role|link|merge`.

use serde_json::{Value, json};

use super::CommandContext;
use crate::api::{ApiClient, Missing, Request};
use crate::args::UsersCommand;
use crate::exit::{Failure, Result};
use crate::output::{Column, column, note, plain, time, visible};

const COLUMNS: &[Column] = &[
    column("ID", |user| plain(&user["id"])),
    column("NAME", |user| plain(&user["name"])),
    column("ROLE", |user| plain(&user["role"])),
    column("STATE", state),
    column("IDENTITIES", identities),
    column("CREATED", |user| time(&user["created_at"])),
];

pub async fn run(context: &CommandContext, command: UsersCommand) -> Result<()> {
    let (missing, request) = match command {
        UsersCommand::Ls => return list(context).await,
        UsersCommand::Create { id, name, role } => {
            let body = json!({ "id": id, "name": name, "role": role });
            (Missing::Make, Request::post(&["users"], body))
        }
        UsersCommand::Role { id, role } => {
            (Missing::Refuse, Request::patch(&["users", &id], json!({ "role": role })))
        }
        UsersCommand::Link { id, code: Some(code), yes, .. } => return link(context, id, &code, yes).await,
        UsersCommand::Link { id, platform, external_id, .. } => {
            let body = json!({ "platform": platform, "external_id": external_id });
            (Missing::Refuse, Request::post(&["users", &id.unwrap_or_default(), "identities"], body))
        }
        UsersCommand::Merge { from, into } => {
            (Missing::Refuse, Request::post(&["users", &from, "merge"], json!({ "into": into })))
        }
    };
    let user = context.send(missing, request).await?;
    context.out.thing(&user, COLUMNS)
}

/// Shows the account that a code is for, asks, and links it.
async fn link(context: &CommandContext, id: Option<String>, code: &str, yes: bool) -> Result<()> {
    let look = Request::post(&["link-codes", "look"], json!({ "code": code }));
    let account = context.send(Missing::Refuse, look).await?;
    let part = |field: &str| visible(&plain(&account[field]));
    let whose =
        id.as_deref().map_or_else(|| "as a known guest".to_owned(), |id| format!("to {}", visible(id)));
    let question =
        format!("Link {} account {} ({}) {whose}?", part("platform"), part("external_id"), part("name"));
    if !yes && !confirmed(&question)? {
        return Ok(());
    }
    let wish = Request::post(&["link-codes", "use"], json!({ "code": code, "user_id": id }));
    let user = context.send(Missing::Refuse, wish).await?;
    context.out.thing(&user, COLUMNS)
}

/// Asks on the terminal. No answer is a no.
fn confirmed(question: &str) -> Result<bool> {
    note(format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::io("the answer cannot be read", &error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn list(context: &CommandContext) -> Result<()> {
    let api = context.api(Missing::Refuse).await?;
    let users = all(&api).await;
    api.close().await;
    context.out.list(&users?, COLUMNS)
}

async fn all(api: &ApiClient) -> Result<Vec<Value>> {
    let (mut users, mut after) = (Vec::new(), None);
    loop {
        let mut page = api.send(Request::get(&["users"]).with("cursor", after)).await?;
        if let Some(items) = page["items"].as_array_mut() {
            users.append(items);
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => after = Some(cursor.to_owned()),
            None => return Ok(users),
        }
    }
}

fn state(user: &Value) -> String {
    match (user["merged_into"].as_str(), user["suspended"] == true) {
        (Some(into), _) => format!("merged into {into}"),
        (None, true) => "suspended".into(),
        (None, false) => "active".into(),
    }
}

fn identities(user: &Value) -> String {
    let each = user["identities"].as_array().into_iter().flatten();
    each.map(|identity| format!("{}:{}", plain(&identity["platform"]), plain(&identity["external_id"])))
        .collect::<Vec<_>>()
        .join(", ")
}
