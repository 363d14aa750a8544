//! `tenants ls|create|suspend|resume|delete`: the operator's own.

use serde_json::json;

use super::Scene;
use crate::api::{Missing, Request};
use crate::args::Tenants;
use crate::exit::{Failure, Result};
use crate::output::{Column, column, plain, time};

const COLUMNS: &[Column] = &[
    column("ID", |tenant| plain(&tenant["id"])),
    column("STATE", |tenant| if tenant["suspended"] == true { "suspended" } else { "active" }.into()),
    column("CREATED", |tenant| time(&tenant["created_at"])),
];

pub async fn run(scene: &Scene, command: Tenants) -> Result<()> {
    let suspended = |id: &str, suspended: bool| {
        (Missing::Refuse, Request::patch(&["tenants", id], json!({ "suspended": suspended })))
    };
    let (missing, request) = match command {
        Tenants::Ls => {
            let list = scene.send(Missing::Refuse, Request::get(&["tenants"])).await?;
            return scene.out.list(list["items"].as_array().map_or(&[], Vec::as_slice), COLUMNS);
        }
        Tenants::Create { id } => (Missing::Make, Request::post(&["tenants"], json!({ "id": id }))),
        Tenants::Suspend { id } => suspended(&id, true),
        Tenants::Resume { id } => suspended(&id, false),
        Tenants::Delete { id, yes } => {
            if !yes {
                return Err(Failure::usage(format!("this deletes tenant `{id}` with everything in it"))
                    .hint("add --yes if that is what you want"));
            }
            scene.send(Missing::Refuse, Request::delete(&["tenants", &id])).await?;
            return scene.done(&id, "deleted");
        }
    };
    let tenant = scene.send(missing, request).await?;
    scene.out.thing(&tenant, COLUMNS)
}
