//! `doctor`: checks an installation, and says what to do about each problem. It changes nothing.

mod directory;
mod postgres;
pub mod schema;

use sederunt::Place;
use sederunt_core::safety::codes::ResourceLookupStatus;
use sederunt_core::safety::response::resources;
use serde_json::{Value, json};

use crate::commands::CommandContext;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Column, column, plain};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Ok,
    Warn,
    Fail,
}

/// One check and its result.
#[derive(Clone, Debug)]
pub struct Finding {
    pub what: &'static str,
    pub level: Level,
    pub says: String,
    pub advice: &'static str,
}

impl Finding {
    pub fn ok(what: &'static str, says: impl Into<String>) -> Self {
        Self { what, level: Level::Ok, says: says.into(), advice: "" }
    }

    pub fn warn(what: &'static str, says: impl Into<String>, advice: &'static str) -> Self {
        Self { what, level: Level::Warn, says: says.into(), advice }
    }

    pub fn fail(what: &'static str, says: impl Into<String>, advice: &'static str) -> Self {
        Self { what, level: Level::Fail, says: says.into(), advice }
    }

    fn shown(&self) -> Value {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        json!({ "level": level, "what": self.what, "says": self.says, "advice": self.advice })
    }
}

const COLUMNS: &[Column] = &[
    column("", |finding| plain(&finding["level"])),
    column("CHECK", |finding| plain(&finding["what"])),
    column("FOUND", |finding| plain(&finding["says"])),
    column("WHAT TO DO", |finding| plain(&finding["advice"])),
];

pub async fn run(context: &CommandContext) -> Result<()> {
    let config = &context.config;
    let known = schema::known().await?;
    let mut findings = match &config.store.0 {
        Place::Memory => {
            vec![Finding::warn("store", "in memory: gone at exit", "name a directory with --store")]
        }
        Place::Directory(path) => directory::look(path, known).await,
        Place::Postgres(url) => postgres::look(url, &config.postgres.schema, known).await,
    };
    findings.push(region_finding(crate::agents::safety_settings(config)?.region.as_deref()));
    let rows: Vec<Value> = findings.iter().map(Finding::shown).collect();
    context.out.list(&rows, COLUMNS)?;
    if findings.iter().any(|finding| finding.level == Level::Fail) {
        return Err(Failure::Said(Exit::Error));
    }
    Ok(())
}

/// Whether the crisis response has a configured region.
fn region_finding(region: Option<&str>) -> Finding {
    match region.map(|region| (region, resources(Some(region)).status)) {
        Some((region, ResourceLookupStatus::Found)) => Finding::ok("crisis region", region),
        Some((region, _)) => Finding::warn(
            "crisis region",
            format!("no help lines are known for `{region}`: the crisis response names a directory alone"),
            "name a listed country in the file of `safety_file`",
        ),
        None => Finding::warn(
            "crisis region",
            "not set: the crisis response names no number to call",
            "set `region` (two letters, such as \"DE\") in the file of `safety_file`",
        ),
    }
}

/// Compares the schema of a store with the one that this binary writes.
pub fn schema_finding(found: u32, known: u32) -> Finding {
    let says = format!("{found}, this version writes {known}");
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Finding::ok("schema", format!("{found}")),
        std::cmp::Ordering::Less => {
            Finding::warn("schema", says, "run `sederunt migrate`, or start the server")
        }
        std::cmp::Ordering::Greater => Finding::fail("schema", says, "run a newer sederunt"),
    }
}
