//! `config show`.

use serde_json::json;

use super::Scene;
use crate::config::Shown;
use crate::exit::Result;
use crate::output::{Column, column, plain};

const COLUMNS: &[Column] = &[
    column("SETTING", |row| plain(&row["name"])),
    column("VALUE", |row| plain(&row["value"])),
    column("FROM", |row| plain(&row["from"])),
    column("WHAT IT IS", |row| plain(&row["about"])),
];

pub fn show(scene: &Scene) -> Result<()> {
    let rows: Vec<_> = scene
        .shown
        .iter()
        .map(|Shown { name, value, from, about }| {
            json!({ "name": name, "value": value, "from": from, "about": about })
        })
        .collect();
    scene.out.list(&rows, COLUMNS)
}
