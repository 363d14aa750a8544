//! `agents`, `entities`, `criteria` and `views`: each `ls|show|create|edit`; the status map of entities, the answers to
//! views.

use serde_json::{Value, json};

use super::{CommandContext, json_in, responses, shares, tasks};
use crate::api::{Missing, Request};
use crate::args::{AgentsCommand, CriteriaCommand, EntitiesCommand, PageArgs, ViewsCommand};
use crate::exit::Result;
use crate::output::{Column, column, plain, time};

const AGENTS: &[Column] = &[
    column("SLUG", |agent| plain(&agent["slug"])),
    column("MODEL", |agent| plain(&agent["model"])),
    column("TOOLS", tools),
    column("UPDATED", |agent| time(&agent["updated_at"])),
    column("NAME", |agent| plain(&agent["name"])),
];

const AGENT: &[Column] = &[
    column("slug", |agent| plain(&agent["slug"])),
    column("name", |agent| plain(&agent["name"])),
    column("model", |agent| plain(&agent["model"])),
    column("instructions", |agent| plain(&agent["instructions"])),
    column("tools", tools),
    column("limits", |agent| tasks::limits(&agent["limits"])),
    column("version", |agent| plain(&agent["version"])),
    column("created by", |agent| plain(&agent["created_by"])),
    column("created", |agent| time(&agent["created_at"])),
    column("updated", |agent| time(&agent["updated_at"])),
];

const ENTITIES: &[Column] = &[
    column("ID", |entity| plain(&entity["id"])),
    column("TYPE", |entity| plain(&entity["type_slug"])),
    column("UPDATED", |entity| time(&entity["updated_at"])),
    column("TITLE", |entity| plain(&entity["title"])),
];

const ENTITY: &[Column] = &[
    column("id", |entity| plain(&entity["id"])),
    column("type", |entity| plain(&entity["type_slug"])),
    column("title", |entity| plain(&entity["title"])),
    column("fields", |entity| plain(&entity["fields"])),
    column("version", |entity| plain(&entity["version"])),
    column("created by", |entity| plain(&entity["created_by"])),
    column("created", |entity| time(&entity["created_at"])),
    column("updated", |entity| time(&entity["updated_at"])),
];

const SETS: &[Column] = &[
    column("ID", |set| plain(&set["id"])),
    column("DIMENSIONS", dimensions),
    column("UPDATED", |set| time(&set["updated_at"])),
    column("NAME", |set| plain(&set["name"])),
];

const SET: &[Column] = &[
    column("id", |set| plain(&set["id"])),
    column("name", |set| plain(&set["name"])),
    column("dimensions", dimensions),
    column("version", |set| plain(&set["version"])),
    column("created by", |set| plain(&set["created_by"])),
    column("created", |set| time(&set["created_at"])),
    column("updated", |set| time(&set["updated_at"])),
];

const VIEWS: &[Column] = &[
    column("ID", |view| plain(&view["id"])),
    column("GATE", |view| plain(&view["publish_config"]["gate"])),
    column("SESSION", |view| plain(&view["session_id"])),
    column("UPDATED", |view| time(&view["updated_at"])),
    column("TITLE", |view| plain(&view["title"])),
];

const VIEW: &[Column] = &[
    column("id", |view| plain(&view["id"])),
    column("title", |view| plain(&view["title"])),
    column("description", |view| plain(&view["description"])),
    column("questions", questions),
    column("gate", |view| plain(&view["publish_config"]["gate"])),
    column("expires", |view| time(&view["publish_config"]["expires_at"])),
    column("session", |view| plain(&view["session_id"])),
    column("link", |view| plain(&view["url"])),
    column("version", |view| plain(&view["version"])),
    column("created by", |view| plain(&view["created_by"])),
    column("created", |view| time(&view["created_at"])),
    column("updated", |view| time(&view["updated_at"])),
];

const STATUS: &[Column] = &[
    column("OF", |row| plain(&row["of"])),
    column("NAME", |row| plain(&row["name"])),
    column("STATUS", |row| plain(&row["status"])),
];

const ANSWERS: &[Column] = &[
    column("SEQUENCE", |answer| plain(&answer["sequence"])),
    column("AT", |answer| time(&answer["at"])),
    column("WHO", |answer| {
        format!("{} {}", plain(&answer["respondent"]["kind"]), plain(&answer["respondent"]["id"]))
    }),
    column("VALUES", |answer| plain(&answer["values"])),
];

pub async fn agents(context: &CommandContext, command: AgentsCommand) -> Result<()> {
    match command {
        AgentsCommand::Ls(page) => list(context, Request::get(&["agents"]), page, AGENTS).await,
        AgentsCommand::Show { slug } => show(context, &["agents", &slug], AGENT).await,
        AgentsCommand::Create { file } => create(context, "agents", &file, AGENT).await,
        AgentsCommand::Edit { slug, file } => edit(context, &["agents", &slug], &file, AGENT).await,
    }
}

pub async fn entities(context: &CommandContext, command: EntitiesCommand) -> Result<()> {
    match command {
        EntitiesCommand::Ls { type_slug, page } => {
            list(context, Request::get(&["entities"]).with("type_slug", type_slug), page, ENTITIES).await
        }
        EntitiesCommand::Show { id } => show(context, &["entities", &id], ENTITY).await,
        EntitiesCommand::Create { file } => create(context, "entities", &file, ENTITY).await,
        EntitiesCommand::Edit { id, file } => edit(context, &["entities", &id], &file, ENTITY).await,
        EntitiesCommand::Status { id } => status(context, &id).await,
    }
}

pub async fn criteria(context: &CommandContext, command: CriteriaCommand) -> Result<()> {
    match command {
        CriteriaCommand::Ls(page) => list(context, Request::get(&["criteria-sets"]), page, SETS).await,
        CriteriaCommand::Show { id } => show(context, &["criteria-sets", &id], SET).await,
        CriteriaCommand::Create { file } => create(context, "criteria-sets", &file, SET).await,
        CriteriaCommand::Edit { id, file } => edit(context, &["criteria-sets", &id], &file, SET).await,
    }
}

pub async fn views(context: &CommandContext, command: ViewsCommand) -> Result<()> {
    match command {
        ViewsCommand::Ls(page) => list(context, Request::get(&["views"]), page, VIEWS).await,
        ViewsCommand::Show { id } => show(context, &["views", &id], VIEW).await,
        ViewsCommand::Create { file } => create(context, "views", &file, VIEW).await,
        ViewsCommand::Edit { id, file } => edit(context, &["views", &id], &file, VIEW).await,
        ViewsCommand::Share { id, user, expires } => {
            let body = json!({ "user_id": user, "expires_in": expires.map(|span| span.0.as_secs()) });
            let request = Request::post(&["views", &id, "share"], body);
            shares::show_made(context, &context.send(Missing::Refuse, request).await?)
        }
        ViewsCommand::Responses(wish) => responses::of_view(context, wish).await,
        ViewsCommand::Answers { id, page } => {
            list(context, Request::get(&["views", &id, "answers"]), page, ANSWERS).await
        }
    }
}

/// The status map of an entity as rows of one table.
async fn status(context: &CommandContext, id: &str) -> Result<()> {
    let map = context.send(Missing::Refuse, Request::get(&["entities", id, "status-map"])).await?;
    if context.out.is_json() {
        return context.out.value(&map);
    }
    let mut rows = Vec::new();
    for (of, each) in [("field", &map["by_field"]), ("block", &map["by_block"])] {
        let each = each.as_object().into_iter().flatten();
        rows.extend(each.map(|(name, status)| json!({ "of": of, "name": name, "status": status })));
    }
    context.out.list(&rows, STATUS)
}

async fn list(context: &CommandContext, request: Request, page: PageArgs, columns: &[Column]) -> Result<()> {
    let request = request.page(page.limit, page.cursor);
    context.page(&context.send(Missing::Refuse, request).await?, columns)
}

async fn show(context: &CommandContext, names: &[&str], fields: &[Column]) -> Result<()> {
    context.out.thing(&context.send(Missing::Refuse, Request::get(names)).await?, fields)
}

async fn create(context: &CommandContext, noun: &str, file: &str, fields: &[Column]) -> Result<()> {
    let request = Request::post(&[noun], &json_in(file)?);
    context.defined(&context.send(Missing::Make, request).await?, fields)
}

async fn edit(context: &CommandContext, names: &[&str], file: &str, fields: &[Column]) -> Result<()> {
    let request = Request::patch(names, &json_in(file)?);
    context.defined(&context.send(Missing::Refuse, request).await?, fields)
}

fn tools(agent: &Value) -> String {
    let each = agent["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| plain(if tool["type"] == "mcp" { &tool["server"] } else { &tool["name"] });
    each.map(name).collect::<Vec<_>>().join(", ")
}

fn questions(view: &Value) -> String {
    let each = view["questions"].as_array().into_iter().flatten();
    each.map(|question| plain(&question["key"])).collect::<Vec<_>>().join(", ")
}

fn dimensions(set: &Value) -> String {
    let each = set["dimensions"].as_array().into_iter().flatten();
    each.map(|dimension| plain(&dimension["slug"])).collect::<Vec<_>>().join(", ")
}
