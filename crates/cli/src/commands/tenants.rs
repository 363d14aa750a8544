//! `tenants ls|create|suspend|resume|delete`: the operator's own.

use super::Scene;
use crate::args::Tenants;
use crate::exit::{Failure, Result};
use crate::output::{Column, column, plain, time};
use crate::reach::{Ask, Missing};

const COLUMNS: &[Column] = &[
    column("ID", |tenant| plain(&tenant["id"])),
    column("STATE", |tenant| if tenant["suspended"] == true { "suspended" } else { "active" }.into()),
    column("CREATED", |tenant| time(&tenant["created_at"])),
];

pub async fn run(scene: &Scene, command: Tenants) -> Result<()> {
    let ask = match command {
        Tenants::Ls => {
            let list = scene.ask(Missing::Refuse, Ask::Tenants).await?;
            return scene.out.list(list["items"].as_array().map_or(&[], Vec::as_slice), COLUMNS);
        }
        Tenants::Create { id } => Ask::CreateTenant { id },
        Tenants::Suspend { id } => Ask::SuspendTenant { id, suspended: true },
        Tenants::Resume { id } => Ask::SuspendTenant { id, suspended: false },
        Tenants::Delete { id, yes } => {
            if !yes {
                return Err(Failure::usage(format!("this deletes tenant `{id}` with everything in it"))
                    .hint("add --yes if that is what you want"));
            }
            scene.ask(Missing::Refuse, Ask::DeleteTenant { id: id.clone() }).await?;
            return scene.done(&id, "deleted");
        }
    };
    let missing = if matches!(ask, Ask::CreateTenant { .. }) { Missing::Make } else { Missing::Refuse };
    let tenant = scene.ask(missing, ask).await?;
    scene.out.thing(&tenant, COLUMNS)
}
