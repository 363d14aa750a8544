//! `audit`: the audit trail of a tenant, newest first.

use super::Scene;
use crate::api::{Missing, Request};
use crate::args::Audit;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const COLUMNS: &[Column] = &[
    column("AT", |line| time(&line["at"])),
    column("WHO", |line| plain(&line["actor"])),
    column("WHAT", |line| plain(&line["action"])),
    column("ON", |line| plain(&line["target"])),
];

pub async fn run(scene: &Scene, Audit { limit, cursor }: Audit) -> Result<()> {
    let page = scene.send(Missing::Refuse, Request::get(&["audit"]).page(limit, cursor)).await?;
    scene.page(&page, COLUMNS)
}
