//! `audit`: the audit trail of a tenant, newest first.

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::AuditArgs;
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const COLUMNS: &[Column] = &[
    column("AT", |line| time(&line["at"])),
    column("WHO", |line| plain(&line["actor"])),
    column("WHAT", |line| plain(&line["action"])),
    column("ON", |line| plain(&line["target"])),
];

pub async fn run(context: &CommandContext, AuditArgs { limit, cursor }: AuditArgs) -> Result<()> {
    let page = context.send(Missing::Refuse, Request::get(&["audit"]).page(limit, cursor)).await?;
    context.page(&page, COLUMNS)
}
