//! `audit`: the audit trail of a tenant, newest first.

use super::Scene;
use crate::args::Audit;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};
use crate::reach::{Ask, Missing};

const COLUMNS: &[Column] = &[
    column("AT", |line| time(&line["at"])),
    column("WHO", |line| plain(&line["actor"])),
    column("WHAT", |line| plain(&line["action"])),
    column("ON", |line| plain(&line["target"])),
];

pub async fn run(scene: &Scene, Audit { limit, cursor }: Audit) -> Result<()> {
    let page = scene.ask(Missing::Refuse, Ask::Audit { limit, cursor }).await?;
    scene.page(&page, COLUMNS)
}
