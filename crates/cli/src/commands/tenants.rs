//! `tenants ls|create|suspend|resume|delete`: the operator's own.

use serde_json::json;

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::TenantsCommand;
use crate::exit::{Failure, Result};
use crate::output::{Column, column, plain, time};

const COLUMNS: &[Column] = &[
    column("ID", |tenant| plain(&tenant["id"])),
    column("STATE", |tenant| if tenant["suspended"] == true { "suspended" } else { "active" }.into()),
    column("CREATED", |tenant| time(&tenant["created_at"])),
];

pub async fn run(context: &CommandContext, command: TenantsCommand) -> Result<()> {
    let suspended = |id: &str, suspended: bool| {
        (Missing::Refuse, Request::patch(&["tenants", id], json!({ "suspended": suspended })))
    };
    let (missing, request) = match command {
        TenantsCommand::Ls => {
            let list = context.send(Missing::Refuse, Request::get(&["tenants"])).await?;
            return context.out.list(list["items"].as_array().map_or(&[], Vec::as_slice), COLUMNS);
        }
        TenantsCommand::Create { id } => (Missing::Make, Request::post(&["tenants"], json!({ "id": id }))),
        TenantsCommand::Suspend { id } => suspended(&id, true),
        TenantsCommand::Resume { id } => suspended(&id, false),
        TenantsCommand::Delete { id, yes } => {
            if !yes {
                return Err(Failure::usage(format!("this deletes tenant `{id}` with everything in it"))
                    .hint("add --yes if that is what you want"));
            }
            context.send(Missing::Refuse, Request::delete(&["tenants", &id])).await?;
            return context.done(&id, "deleted");
        }
    };
    let tenant = context.send(missing, request).await?;
    context.out.thing(&tenant, COLUMNS)
}
