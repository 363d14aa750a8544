//! `documents ls|show|patch|apply`.

use sederunt::{Error, Json};
use serde_json::{Value, json};

use super::{CommandContext, json_in};
use crate::api::{Missing, Request};
use crate::args::{DocumentArgs, DocumentsCommand};
use crate::exit::Result;
use crate::output::{Column, column, plain};

const DOCUMENTS: &[Column] = &[
    column("DOCUMENT", |one| name_of(&one["document"])),
    column("SEQUENCE", |one| plain(&one["sequence"])),
    column("OPENED", |one| plain(&one["opened_sequence"])),
];

const PATCHED: &[Column] = &[
    column("sequence", |done| plain(&done["sequence"])),
    column("rebased", |done| plain(&done["rebased"])),
    column("inverse", |done| done.get("inverse").map(Value::to_string).unwrap_or_default()),
];

const APPLIED: &[Column] = &[
    column("fields", |done| plain(&done["fields"])),
    column("version", |done| plain(&done["version"])),
    column("approval", |done| plain(&done["approval_id"])),
];

pub async fn run(context: &CommandContext, command: DocumentsCommand) -> Result<()> {
    match command {
        DocumentsCommand::Ls { session } => {
            let all =
                context.send(Missing::Refuse, Request::get(&["sessions", &session, "documents"])).await?;
            if context.out.is_json() {
                return context.out.value(&all);
            }
            let items = all["documents"].clone();
            context.page(&json!({ "items": items, "next_cursor": null }), DOCUMENTS)
        }
        DocumentsCommand::Show { document, at } => {
            let request = path(&document, &[], Request::get)?.with("at_sequence", at);
            let found = context.send(Missing::Refuse, request).await?;
            if context.out.is_json() {
                return context.out.value(&found);
            }
            let value = serde_json::to_string_pretty(&found["value"]).map_err(Error::internal)?;
            context.out.line(&value)
        }
        DocumentsCommand::Patch { document, file, base, inverse, open } => {
            let ops = json_in(&file)?;
            if open {
                let all = Request::get(&["sessions", &document.session, "documents"]);
                let all = context.send(Missing::Refuse, all).await?;
                let listed = all["documents"].as_array().map(Vec::as_slice).unwrap_or_default();
                if !listed.iter().any(|one| name_of(&one["document"]) == document.document) {
                    let request = path(&document, &[], |names| Request::put(names, json!({})))?;
                    context.send(Missing::Refuse, request).await?;
                }
            }
            let base = match base {
                Some(base) => json!(base),
                None => {
                    let request = path(&document, &[], Request::get)?;
                    context.send(Missing::Refuse, request).await?["sequence"].clone()
                }
            };
            let base = Json::of(&base)?;
            let body = Json::object([("base_sequence", &base), ("ops", &ops)]);
            let request = path(&document, &["patch"], |names| Request::post(names, &body))?
                .with("inverse", inverse.then_some(true));
            context.out.thing(&context.send(Missing::Refuse, request).await?, PATCHED)
        }
        DocumentsCommand::Apply { document } => {
            let found = context.send(Missing::Refuse, path(&document, &[], Request::get)?).await?;
            let body = json!({ "base_sequence": found["sequence"] });
            let request = path(&document, &["apply"], |names| Request::post(names, body))?;
            context.out.thing(&context.send(Missing::Refuse, request).await?, APPLIED)
        }
    }
}

fn name_of(document: &Value) -> String {
    format!("{}/{}", plain(&document["kind"]), plain(&document["id"]))
}

/// A request about a document.
fn path(wanted: &DocumentArgs, more: &[&str], request: impl FnOnce(&[&str]) -> Request) -> Result<Request> {
    let named = wanted.document.split_once('/');
    let (kind, id) =
        named.ok_or_else(|| Error::invalid("document", "must be KIND/ID, such as scratch/notes"))?;
    let mut names = vec!["sessions", &wanted.session, "documents", kind, id];
    names.extend(more);
    Ok(request(&names))
}
