//! `users ls|create|role|link|merge`.

use serde_json::Value;

use super::Scene;
use crate::args::Users;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};
use crate::reach::{Ask, Missing, Reach};

const COLUMNS: &[Column] = &[
    column("ID", |user| plain(&user["id"])),
    column("NAME", |user| plain(&user["name"])),
    column("ROLE", |user| plain(&user["role"])),
    column("STATE", state),
    column("IDENTITIES", identities),
    column("CREATED", |user| time(&user["created_at"])),
];

pub async fn run(scene: &Scene, command: Users) -> Result<()> {
    let (missing, ask) = match command {
        Users::Ls => return list(scene).await,
        Users::Create { id, name, role } => (Missing::Make, Ask::CreateUser { id, name, role }),
        Users::Role { id, role } => (Missing::Refuse, Ask::SetRole { id, role }),
        Users::Link { id, platform, external_id } => {
            (Missing::Refuse, Ask::Link { id, platform, external_id })
        }
        Users::Merge { from, into } => (Missing::Refuse, Ask::Merge { from, into }),
    };
    let user = scene.ask(missing, ask).await?;
    scene.out.thing(&user, COLUMNS)
}

async fn list(scene: &Scene) -> Result<()> {
    let reach = Reach::find(&scene.config, &scene.global, Missing::Refuse).await?;
    let users = all(&reach).await;
    reach.close().await;
    scene.out.list(&users?, COLUMNS)
}

async fn all(reach: &Reach) -> Result<Vec<Value>> {
    let (mut users, mut after) = (Vec::new(), None);
    loop {
        let mut page = reach.ask(Ask::Users { after }).await?;
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
