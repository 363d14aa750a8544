//! Tasks, agents, tools, entities, criteria sets, views and bundles on the wire.
//!
//! Requests and answers carry core's own definitions; `shapes` says why, and describes them in the API document.

mod shapes;

use std::borrow::Cow;

use sederunt_core::definitions::{self, StoredDefinition};
use sederunt_core::engine::DefinitionFilters;
use sederunt_core::session::query::Page;
use sederunt_core::{Timestamp, limits};
use serde::Serialize;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

pub use shapes::{
    Agent, AgentLimits, AgentList, ApprovalTerms, Bundle, Choice, CriteriaSet, CriteriaSetList, Dimension,
    Entity, EntityList, FieldMap, Gate, OnChildFailure, OnExpiry, Output, OutputType, PromotionMode,
    PublishConfig, Question, QuestionOption, QuestionType, ResponseConfig, RunLimits, Step, Task, TaskList,
    TaskStatus, Tool, ToolActionType, ToolDefinition, ToolDefinitionList, ToolRun, ToolStep, ToolType, View,
    ViewList, WriteGrant,
};

use crate::query::params;

/// A definition with what the store knows of it.
#[derive(Clone, Debug, Serialize)]
pub struct DefinitionAnswer<T> {
    pub id: String,
    #[serde(flatten)]
    pub value: T,
    pub version: u64,
    pub created_by: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Only in the answer to what defined or changed it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl<T> DefinitionAnswer<T> {
    /// What was just defined or changed, with what this server says against it.
    pub fn warned(defined: StoredDefinition<T>, warnings: Vec<String>) -> Self {
        Self { warnings, ..defined.into() }
    }
}

impl<T> From<StoredDefinition<T>> for DefinitionAnswer<T> {
    fn from(defined: StoredDefinition<T>) -> Self {
        Self {
            id: defined.id.into(),
            value: defined.value,
            version: defined.version,
            created_by: defined.created_by.map(|user| user.to_string()),
            created_at: defined.created_at,
            updated_at: defined.updated_at,
            warnings: Vec::new(),
        }
    }
}

/// A page of definitions, newest first.
#[derive(Clone, Debug, Serialize)]
pub struct DefinitionPage<T> {
    pub items: Vec<DefinitionAnswer<T>>,
    pub next_cursor: Option<String>,
}

impl<T> From<Page<StoredDefinition<T>, i64>> for DefinitionPage<T> {
    fn from(page: Page<StoredDefinition<T>, i64>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// The outcome of an import.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Imported {
    /// How many definitions the bundle held.
    pub imported: usize,
    /// The parts that this server cannot run with its present configuration.
    pub warnings: Vec<String>,
}

/// Fields that the server alone writes.
const SERVERS_OWN: [&str; 6] = ["version", "created_by", "created_at", "updated_at", "url", "warnings"];

/// The shapes of requests follow from those of answers: a new thing may leave out what has a default,
/// a change may leave out everything, and no request has the fields that the server writes.
macro_rules! requests {
    ($($new:ident, $patch:ident of $answer:ident needs $needs:expr, has $id:expr;)+) => {$(
        #[derive(Debug)]
        pub struct $new;

        impl PartialSchema for $new {
            fn schema() -> RefOr<Schema> {
                request($answer::schema(), $id, &$needs)
            }
        }

        impl ToSchema for $new {
            fn name() -> Cow<'static, str> {
                stringify!($new).into()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                $answer::schemas(schemas);
            }
        }

        #[derive(Debug)]
        pub struct $patch;

        impl PartialSchema for $patch {
            fn schema() -> RefOr<Schema> {
                change(request($answer::schema(), &[], &[]), &$needs)
            }
        }

        impl ToSchema for $patch {
            fn name() -> Cow<'static, str> {
                stringify!($patch).into()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                $answer::schemas(schemas);
            }
        }
    )+};
}
requests! {
    NewTask, PatchTask of Task needs ["slug", "name"], has &["id", "criteria_set_id"];
    NewAgent, PatchAgent of Agent needs ["slug", "name"], has &[];
    NewEntity, PatchEntity of Entity needs ["type_slug"], has &["id"];
    NewCriteriaSet, PatchCriteriaSet of CriteriaSet needs ["name"], has &["id"];
    NewToolDefinition, PatchToolDefinition of ToolDefinition needs ["slug", "name", "input_schema", "run"], has &[];
    NewView, PatchView of View needs ["title", "questions"], has &["id", "epoch"];
}

fn request(answer: RefOr<Schema>, names: &[&str], needs: &[&str]) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = answer else { return answer };
    for own in SERVERS_OWN.iter().chain(&["id"]) {
        object.properties.remove(*own);
    }
    for name in names {
        let schema = match *name {
            "epoch" => ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)),
            _ => ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(200)),
        };
        object.properties.insert((*name).to_owned(), schema.into());
    }
    object.required = needs.iter().map(|name| (*name).to_owned()).collect();
    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    RefOr::T(Schema::Object(object))
}

/// In a change nothing is needed, and the example leaves out what cannot be changed.
fn change(schema: RefOr<Schema>, needs: &[&str]) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = schema else { return schema };
    object.description = Some("What to change; what is left out stays, `null` clears.".to_owned());
    if let Some(serde_json::Value::Object(example)) = &mut object.example {
        example.retain(|name, _| needs.last() == Some(&name.as_str()));
    }
    RefOr::T(Schema::Object(object))
}

params! {
    /// Filters of a list of tasks.
    pub struct TasksQuery {
        status: Option<TaskStatus> = word(),
        agent_slug: Option<String> = text(),
        assigned_to: Option<String> = text(),
        created_by: Option<String> = text(),
        entity_id | "entityId": Option<String> = text(),
        /// Words that must all be found in the name, the id or the slug; the beginning of a word is enough.
        q: Option<String> = text().chars_max(limits::QUERY_CHARS_MAX),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

impl From<TasksQuery> for DefinitionListQuery {
    fn from(query: TasksQuery) -> Self {
        let status =
            query.status.map(|status| definitions::task::TaskStatus::from(status).as_str().to_owned());
        let given = [
            ("status", status),
            ("agent_slug", query.agent_slug),
            (definitions::ASSIGNED_TO, query.assigned_to),
            (definitions::MADE_BY, query.created_by),
            ("entity_id", query.entity_id),
        ];
        let facets = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let filters = DefinitionFilters { facets, text: words(query.q) };
        Self { filters, after: query.after, limit: query.limit }
    }
}

params! {
    /// Filters of a list of entities.
    pub struct EntitiesQuery {
        type_slug | "entity_type" | "entityType": Option<String> = text(),
        /// Words that must all be found in the title or the id; the beginning of a word is enough.
        q: Option<String> = text().chars_max(limits::QUERY_CHARS_MAX),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

impl From<EntitiesQuery> for DefinitionListQuery {
    fn from(query: EntitiesQuery) -> Self {
        let facets = query.type_slug.map(|slug| ("type_slug", slug)).into_iter().collect();
        let filters = DefinitionFilters { facets, text: words(query.q) };
        Self { filters, after: query.after, limit: query.limit }
    }
}

params! {
    /// A page of a list that is counted through.
    pub struct DefinitionsQuery {
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

impl From<DefinitionsQuery> for DefinitionListQuery {
    fn from(query: DefinitionsQuery) -> Self {
        Self { filters: DefinitionFilters::default(), after: query.after, limit: query.limit }
    }
}

/// What is asked for, if it says anything.
fn words(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

/// Which definitions, and which page of them.
#[derive(Debug)]
pub struct DefinitionListQuery {
    pub filters: DefinitionFilters,
    pub after: Option<i64>,
    pub limit: usize,
}

#[cfg(test)]
mod tests {
    use sederunt_core::definitions::Definition;
    use sederunt_core::json::Json;
    use serde_json::Value;

    use super::*;

    const FULL: &str = r#"{
        "tasks": [{"id": "t", "slug": "t", "name": "T", "status": "paused", "description": "d", "agent_slug": "a",
            "assigned_to": "u", "entity_id": "e", "input": {"k": 1},
            "steps": [{"key": "s", "name": "n", "agent_slug": "a", "assigned_to": null, "input": 1, "depends_on": [],
                "output": {"type": "text"}}],
            "output": {"type": "entity", "schema": {}, "fields": ["a"], "entity_type": "x", "relation": "r"},
            "writes": {"types": ["x"], "ids": ["e"]}, "requires_approval": true, "criteria_set_ids": ["c"],
            "approval": {"expires_in_s": 60, "on_expiry": "deny"},
            "limits": {"steps": 1, "tokens": 1, "cost_micros": 1, "wall_ms": 1},
            "on_child_failure": "continue", "priority": 1}],
        "agents": [{"slug": "a", "name": "A", "instructions": "i", "model": "m",
            "tools": [{"type": "http", "name": "t", "url": "https://x", "schema": {}},
                {"type": "mcp", "server": "s"}, {"type": "builtin", "name": "request_input"},
                {"type": "tool", "slug": "t"}],
            "limits": {"steps": 1, "tokens": 1, "cost_micros": 1, "wall_ms": 1, "concurrency": 1,
                "context_tokens": 1}, "activity": true}],
        "entities": [{"id": "e", "type_slug": "x", "title": "t", "fields": {"k": 1}}],
        "criteria_sets": [{"id": "c", "name": "C", "dimensions": [{"slug": "d", "name": "n", "type": "select",
            "options": [{"value": "v", "label": "l", "score": 1, "flag": true}],
            "option_styles": {"v": {"hard_block": true}}}]}],
        "tools": [{"slug": "t", "name": "T", "description": "d", "input_schema": {"type": "object"},
            "run": {"type": "http", "url": "https://x", "headers": {"X": "y"}}, "output": {"type": "text"},
            "requires_confirmation": true, "timeout_ms": 5},
            {"slug": "u", "name": "U", "input_schema": {"type": "object"}, "run": {"type": "mcp", "server": "s", "tool": "t"}},
            {"slug": "w", "name": "W", "input_schema": {"type": "object"}, "run": {"type": "task", "task": "t"}},
            {"slug": "x", "name": "X", "input_schema": {"type": "object"},
             "run": {"type": "steps", "steps": [{"key": "k", "tool": "t", "input": {}, "depends_on": []}]}}],
        "views": [{"id": "v", "title": "T", "description": "d", "questions": [{"key": "k", "label": "l", "type": "choice",
            "required": true, "help": "h", "options": [{"value": "v", "label": "l"}]},
                {"key": "s", "label": "l", "type": "scale", "min": 0, "max": 10, "labels": {"0": "l"}}],
            "publish_config": {"gate": "none", "expires_at": "2030-01-01T00:00:00Z"},
            "response": {"entity_type": "x", "fields": {"k": "f"}, "criteria_set_id": "c", "promote": "approval",
                "assigned_to": "u", "once": false, "embed_origins": ["https://example.org"]}}]
    }"#;

    fn names(value: &Value) -> Vec<String> {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    }

    fn documented<S: PartialSchema>() -> Vec<String> {
        names(&serde_json::to_value(S::schema()).unwrap()["properties"])
    }

    fn kept<T: Definition>(value: T) -> Value {
        let kept = DefinitionAnswer {
            id: "x".into(),
            value,
            version: 1,
            created_by: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            warnings: Vec::new(),
        };
        serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap()
    }

    #[test]
    fn what_is_documented_is_what_is_written() {
        let bundle = definitions::Bundle::read(&Json::parse(FULL.as_bytes()).unwrap()).unwrap();
        let task = kept(bundle.tasks[0].value.clone());
        let agent = kept(bundle.agents[0].clone());
        let set = kept(bundle.criteria_sets[0].value.clone());
        let dimension = &set["dimensions"][0];
        let view = kept(bundle.views[0].value.clone());
        let (choice, scale) = (&view["questions"][0], &view["questions"][1]);
        let with = |thing: &Value, more: &str| {
            let mut names = names(thing);
            names.push(more.to_owned());
            names.sort();
            names
        };
        let tool = kept(bundle.tools[0].clone());
        let steps = kept(bundle.tools[3].clone());
        let table: [(&str, Vec<String>, Vec<String>); 20] = [
            ("tool", names(&tool), documented::<ToolDefinition>()),
            ("tool step", names(&steps["run"]["steps"][0]), documented::<ToolStep>()),
            ("task", with(&task, "warnings"), documented::<Task>()),
            ("step", names(&task["steps"][0]), documented::<Step>()),
            ("output", names(&task["output"]), documented::<Output>()),
            ("writes", names(&task["writes"]), documented::<WriteGrant>()),
            ("approval", names(&task["approval"]), documented::<ApprovalTerms>()),
            ("limits", names(&task["limits"]), documented::<RunLimits>()),
            ("agent", with(&agent, "warnings"), documented::<Agent>()),
            ("agent limits", names(&agent["limits"]), documented::<AgentLimits>()),
            ("entity", names(&kept(bundle.entities[0].value.clone())), documented::<Entity>()),
            ("criteria set", names(&set), documented::<CriteriaSet>()),
            ("dimension", names(dimension), documented::<Dimension>()),
            ("option", names(&dimension["options"][0]), documented::<Choice>()),
            ("view", with(&view, "url"), documented::<View>()),
            ("gate", names(&view["publish_config"]), documented::<PublishConfig>()),
            ("question", with(choice, "labels"), documented::<Question>()),
            ("scale", names(scale), documented::<Question>()),
            ("choice", names(&choice["options"][0]), documented::<QuestionOption>()),
            ("response", names(&view["response"]), documented::<ResponseConfig>()),
        ];
        for (what, written, documented) in table {
            assert_eq!(written, documented, "{what}");
        }
        let tools = agent["tools"].as_array().unwrap();
        let mut of_tools: Vec<String> = tools.iter().flat_map(names).collect();
        of_tools.sort();
        of_tools.dedup();
        assert_eq!(of_tools, documented::<Tool>());
        let runs = bundle.tools.iter().map(|tool| kept(tool.clone()));
        let mut of_runs: Vec<String> = runs.flat_map(|tool| names(&tool["run"])).collect();
        of_runs.sort();
        of_runs.dedup();
        assert_eq!(of_runs, documented::<ToolRun>());
        let whole = serde_json::from_str(Json::of(&bundle).unwrap().as_str()).unwrap();
        assert_eq!(names(&whole), documented::<Bundle>());
    }

    #[test]
    fn nobody_writes_what_is_the_servers_own() {
        for own in SERVERS_OWN {
            assert!(!documented::<NewTask>().contains(&own.to_owned()), "{own}");
            assert!(!documented::<PatchTask>().contains(&own.to_owned()), "{own}");
        }
        assert!(documented::<NewTask>().contains(&"id".to_owned()));
        assert!(!documented::<NewAgent>().contains(&"id".to_owned()));
    }
}
