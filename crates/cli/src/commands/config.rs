//! `config show`.

use serde_json::json;

use super::CommandContext;
use crate::config::Shown;
use crate::exit::Result;
use crate::output::{Column, column, plain};

const COLUMNS: &[Column] = &[
    column("SETTING", |row| plain(&row["name"])),
    column("VALUE", |row| plain(&row["value"])),
    column("FROM", |row| plain(&row["from"])),
    column("WHAT IT IS", |row| plain(&row["about"])),
];

pub fn show(context: &CommandContext) -> Result<()> {
    let rows: Vec<_> = context
        .shown
        .iter()
        .map(|Shown { name, value, from, about }| {
            json!({ "name": name, "value": value, "from": from, "about": about })
        })
        .collect();
    context.out.list(&rows, COLUMNS)
}
