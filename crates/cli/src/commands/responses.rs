//! `responses ls|show|promote`, and the responses to a view as a table or as CSV.

use sederunt::Json;
use serde_json::{Value, json};

use super::CommandContext;
use crate::api::{Missing, Request};
use crate::args::{PageArgs, ResponsesCommand, ViewResponsesArgs};
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const RESPONSES: &[Column] = &[
    column("ID", |response| plain(&response["id"])),
    column("STATUS", |response| plain(&response["status"])),
    column("WHO", respondent),
    column("SCORE", |response| plain(&response["score"])),
    column("UPDATED", |response| time(&response["updated_at"])),
    column("VALUES", |response| plain(&response["values"])),
];

const RESPONSE: &[Column] = &[
    column("id", |response| plain(&response["id"])),
    column("view", |response| plain(&response["view_id"])),
    column("status", |response| plain(&response["status"])),
    column("who", respondent),
    column("entity", |response| plain(&response["entity_id"])),
    column("values", |response| plain(&response["values"])),
    column("score", |response| plain(&response["score"])),
    column("flags", |response| plain(&response["flags"])),
    column("promotion", |response| plain(&response["promotion"]["state"])),
    column("approval", |response| plain(&response["promotion"]["approval_id"])),
    column("reason", |response| plain(&response["promotion"]["reason"])),
    column("version", |response| plain(&response["version"])),
    column("created", |response| time(&response["created_at"])),
    column("updated", |response| time(&response["updated_at"])),
    column("submitted", |response| time(&response["submitted_at"])),
    column("promoted", |response| time(&response["promoted_at"])),
];

/// The columns of a CSV file before those of the answers.
const CSV: &[Column] = &[
    column("id", |response| plain(&response["id"])),
    column("status", |response| plain(&response["status"])),
    column("respondent_kind", |response| plain(&response["respondent"]["kind"])),
    column("respondent_id", |response| plain(&response["respondent"]["id"])),
    column("entity_id", |response| plain(&response["entity_id"])),
    column("score", |response| plain(&response["score"])),
    column("flags", |response| plain(&response["flags"])),
    column("created_at", |response| plain(&response["created_at"])),
    column("submitted_at", |response| plain(&response["submitted_at"])),
    column("promoted_at", |response| plain(&response["promoted_at"])),
];

/// The rows of one request while all responses are read.
const ROWS_READ: u32 = 100;

pub async fn run(context: &CommandContext, command: ResponsesCommand) -> Result<()> {
    match command {
        ResponsesCommand::Ls { view, status, page } => list(context, &view, status, page).await,
        ResponsesCommand::Show { id } => {
            let request = Request::get(&["responses", &id]);
            context.out.thing(&context.send(Missing::Refuse, request).await?, RESPONSE)
        }
        ResponsesCommand::Promote { id, assigned_to } => {
            let body = Json::of(&json!({ "assigned_to": assigned_to }))?;
            let request = Request::post(&["responses", &id, "promote"], &body);
            context.out.thing(&context.send(Missing::Refuse, request).await?, RESPONSE)
        }
    }
}

/// The responses to a view.
pub async fn of_view(context: &CommandContext, wish: ViewResponsesArgs) -> Result<()> {
    let ViewResponsesArgs { id, status, csv, page } = wish;
    if !csv {
        return list(context, &id, status, page).await;
    }
    let view = context.send(Missing::Refuse, Request::get(&["views", &id])).await?;
    let mut rows = Vec::new();
    let mut cursor = None;
    loop {
        let request = asked(&id, status.clone()).page(ROWS_READ, cursor);
        let page = context.send(Missing::Refuse, request).await?;
        rows.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    context.out.raw(csv_of(&view, &rows).as_bytes())
}

async fn list(context: &CommandContext, view: &str, status: Option<String>, page: PageArgs) -> Result<()> {
    let request = asked(view, status).page(page.limit, page.cursor);
    context.page(&context.send(Missing::Refuse, request).await?, RESPONSES)
}

fn asked(view: &str, status: Option<String>) -> Request {
    Request::get(&["views", view, "responses"]).with("status", status)
}

fn respondent(response: &Value) -> String {
    format!("{} {}", plain(&response["respondent"]["kind"]), plain(&response["respondent"]["id"]))
}

/// One line for each response, with a column for each question of the view, and for each other question that a response
/// was opened with.
fn csv_of(view: &Value, responses: &[Value]) -> String {
    let mut keys: Vec<String> =
        view["questions"].as_array().into_iter().flatten().map(|question| plain(&question["key"])).collect();
    for values in responses.iter().filter_map(|response| response["values"].as_object()) {
        for key in values.keys() {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    let titles = CSV.iter().map(|column| column.title.to_owned()).chain(keys.iter().cloned());
    let rows = responses.iter().map(|response| {
        let answers = keys.iter().map(|key| plain(&response["values"][key]));
        line(CSV.iter().map(|column| (column.cell)(response)).chain(answers))
    });
    std::iter::once(line(titles)).chain(rows).collect()
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| quoted(&cell)).collect::<Vec<_>>().join(",") + "\r\n"
}

/// A cell of a CSV file. Spreadsheets calculate cells that begin with one of these characters, so what a stranger wrote
/// gets an apostrophe before it.
fn quoted(cell: &str) -> String {
    let guard = if cell.starts_with(['=', '+', '-', '@', '\t']) { "'" } else { "" };
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{guard}{}\"", cell.replace('"', "\"\""))
    } else {
        format!("{guard}{cell}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_a_spreadsheet_would_calculate_gets_an_apostrophe() {
        for (cell, written) in [
            ("plain", "plain"),
            ("", ""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@sum", "'@sum"),
            ("\tx", "'\tx"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=cmd|\"x\",y", "\"'=cmd|\"\"x\"\",y\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            assert_eq!(quoted(cell), written);
        }
    }

    #[test]
    fn every_question_has_a_column() {
        let view = json!({"questions": [{"key": "a"}, {"key": "b"}]});
        let responses =
            [json!({"id": "r", "status": "submitted", "respondent": {"kind": "user", "id": "ada"},
            "values": {"b": ["x", "y"], "old": true}})];
        let text = csv_of(&view, &responses);
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert!(lines[0].ends_with("promoted_at,a,b,old"), "{text}");
        assert!(
            lines[1].starts_with("r,submitted,user,ada,") && lines[1].ends_with(",\"x, y\",true"),
            "{text}"
        );
    }
}
