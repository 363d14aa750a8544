//! Tools: forms that people and agents fill in and run. A tool says what it needs as a JSON Schema, and what running it
//! does: a request to a server, a tool of an MCP server, a task, or steps that are tools themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::{check_request, check_tool_name, host_of, post, secrets_in, tagged};
use super::{Definition, DefinitionKind};
use crate::error::{Error, Result};
use crate::ids::{check_name, check_text};
use crate::json::Json;
use crate::json_schema;
use crate::limits;
use crate::work::graph::find_circle;
use crate::work::output::OutputContract;

/// A tool that people and agents run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    pub slug: String,
    pub name: String,
    pub description: Option<String>,
    /// JSON Schema of the values: an object.
    pub input_schema: Json,
    pub run: ToolAction,
    /// The result that it must produce.
    pub output: Option<OutputContract>,
    /// A person agrees to the values before it acts.
    #[serde(default)]
    pub requires_confirmation: bool,
    pub timeout_ms: Option<u64>,
}

/// What running a tool does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolAction {
    Http(HttpAction),
    Mcp(McpAction),
    Task(TaskAction),
    Steps(StepsAction),
}

/// A request to a server, with the values as its JSON body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpAction {
    pub url: String,
    #[serde(default = "post")]
    pub method: String,
    /// `secret:NAME` is replaced by a secret of the server's configuration.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A tool of an MCP server that the server's configuration declares under this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpAction {
    pub server: String,
    pub tool: String,
}

/// A run of a task, with the values as its input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskAction {
    /// The task: its id or slug.
    pub task: String,
}

/// Invocations of other tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsAction {
    pub steps: Vec<ToolStep>,
}

/// One step: an invocation of another tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolStep {
    pub key: String,
    /// The slug of the tool.
    pub tool: String,
    /// The values of the step. `{"$from": "/values/x"}` anywhere in it is replaced by a value of this tool, and
    /// `{"$from": "/steps/KEY/result/y"}` by a part of another step's result.
    pub input: Json,
    #[serde(default)]
    pub depends_on: Vec<String>,
}

impl<'de> Deserialize<'de> for ToolAction {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error;
        let (kind, rest) = tagged(from)?;
        match kind.as_str() {
            r#""http""# => rest.read().map(Self::Http),
            r#""mcp""# => rest.read().map(Self::Mcp),
            r#""task""# => rest.read().map(Self::Task),
            r#""steps""# => rest.read().map(Self::Steps),
            other => {
                return Err(D::Error::custom(format!(
                    "unknown type of run {other}; use http, mcp, task or steps"
                )));
            }
        }
        .map_err(D::Error::custom)
    }
}

/// Where a `$from` points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource<'a> {
    /// A value of the tool, and a JSON pointer into it.
    Values(&'a str),
    /// The result of a step, and a JSON pointer into it.
    Result { step: String, pointer: &'a str },
}

impl<'a> ValueSource<'a> {
    /// Reads the text of a `$from`.
    pub fn parse(text: &'a str) -> Option<Self> {
        if let Some(pointer) = text.strip_prefix("/values").filter(|rest| rest.starts_with('/')) {
            return Some(Self::Values(pointer));
        }
        let (key, rest) = text.strip_prefix("/steps/")?.split_once('/')?;
        let pointer = rest.strip_prefix("result").filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(Self::Result { step: unescaped(key), pointer })
    }

    /// The text of the `$from` that a value is; `None` for any other value.
    pub fn text_in(value: &Value) -> Option<&str> {
        match value.as_object() {
            Some(fields) if fields.len() == 1 => fields.get("$from")?.as_str(),
            _ => None,
        }
    }
}

/// A token of a JSON pointer as the name that it means.
fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

impl ToolStep {
    /// The steps that must have completed before this one starts: those that it names, and those whose results it uses.
    pub fn needs(&self) -> Vec<String> {
        let mut needs: BTreeSet<String> = self.depends_on.iter().cloned().collect();
        for_each_source(&self.input.value(), &mut |text| {
            if let Some(ValueSource::Result { step, .. }) = ValueSource::parse(text) {
                needs.insert(step);
            }
        });
        needs.into_iter().collect()
    }
}

/// Calls back with the text of every `$from` in a value.
fn for_each_source(value: &Value, found: &mut impl FnMut(&str)) {
    if let Some(text) = ValueSource::text_in(value) {
        return found(text);
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| for_each_source(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| for_each_source(field, found)),
        _ => {}
    }
}

impl ToolDefinition {
    /// How long an invocation may take, and how long an agent waits for it.
    pub fn timeout(&self) -> Duration {
        self.timeout_ms.map_or(limits::TOOL_TIMEOUT_DEFAULT, Duration::from_millis)
    }

    pub fn steps(&self) -> &[ToolStep] {
        match &self.run {
            ToolAction::Steps(action) => &action.steps,
            ToolAction::Http(_) | ToolAction::Mcp(_) | ToolAction::Task(_) => &[],
        }
    }

    /// The properties that take the name of a secret instead of a value.
    pub fn secret_fields(&self) -> Vec<String> {
        let schema = self.input_schema.value();
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties.filter(|(_, property)| is_write_only(property)).map(|(name, _)| name.clone()).collect()
    }

    /// Where the secrets among the values are sent, as the operator names it: the host of an address, or the name of an
    /// MCP server.
    pub fn secrets_go_to(&self) -> Option<String> {
        match &self.run {
            ToolAction::Http(action) => host_of(&action.url),
            ToolAction::Mcp(action) => Some(action.server.clone()),
            ToolAction::Task(_) | ToolAction::Steps(_) => None,
        }
    }

    /// The secrets that its headers name.
    pub fn header_secrets(&self) -> Vec<&str> {
        match &self.run {
            ToolAction::Http(action) => action.headers.values().flat_map(|value| secrets_in(value)).collect(),
            ToolAction::Mcp(_) | ToolAction::Task(_) | ToolAction::Steps(_) => Vec::new(),
        }
    }

    fn check_schema(&self) -> Result<()> {
        let refused = |rule: String| Err(Error::invalid("input_schema", rule));
        if self.input_schema.len() > limits::TOOL_SCHEMA_BYTES_MAX {
            return refused(format!("is larger than {} bytes", limits::TOOL_SCHEMA_BYTES_MAX));
        }
        let schema = self.input_schema.value();
        if schema["type"] != "object" {
            return refused("must be the JSON Schema of an object: `\"type\": \"object\"`".to_owned());
        }
        json_schema::check("input_schema", &self.input_schema)?;
        let secrets = self.secret_fields().len();
        if count_write_only(&schema) > secrets {
            return refused(
                "has `writeOnly` inside a property; only a whole property can be a secret".to_owned(),
            );
        }
        if secrets > 0 && matches!(self.run, ToolAction::Task(_)) {
            return refused("has `writeOnly`, and the input of a task holds no secrets".to_owned());
        }
        Ok(())
    }

    fn check_steps(&self, steps: &[ToolStep]) -> Result<()> {
        if steps.is_empty() || steps.len() > limits::STEPS_MAX {
            return Err(Error::invalid("run.steps", format!("must be 1 to {} steps", limits::STEPS_MAX)));
        }
        let schema = self.input_schema.value();
        for (n, step) in steps.iter().enumerate() {
            let place = |field: &str| format!("run.steps[{n}].{field}");
            check_name("run.steps.key", &step.key)?;
            check_tool_name("run.steps.tool", &step.tool)?;
            if steps[..n].iter().any(|other| other.key == step.key) {
                return Err(Error::invalid(place("key"), format!("names `{}` twice", step.key)));
            }
            if !step.input.is_object() {
                return Err(Error::invalid(place("input"), "must be an object"));
            }
            let is_step = |key: &String| steps.iter().any(|other| other.key == *key);
            if let Some(unknown) = step.depends_on.iter().find(|key| !is_step(key)) {
                return Err(Error::invalid(
                    place("depends_on"),
                    format!("names `{unknown}`, which is no step"),
                ));
            }
            let mut nowhere = None;
            for_each_source(&step.input.value(), &mut |text| {
                let leads = match ValueSource::parse(text) {
                    Some(ValueSource::Values(pointer)) => is_value(&schema, pointer),
                    Some(ValueSource::Result { step: key, .. }) => is_step(&key),
                    None => false,
                };
                if !leads {
                    nowhere.get_or_insert_with(|| text.to_owned());
                }
            });
            if let Some(text) = nowhere {
                let rule = format!(
                    "has a `$from` that leads nowhere: `{text}`; write `/values/FIELD` or `/steps/KEY/result/…`"
                );
                return Err(Error::invalid(place("input"), rule));
            }
        }
        let needs: Vec<(String, Vec<String>)> =
            steps.iter().map(|step| (step.key.clone(), step.needs())).collect();
        match find_circle(&needs) {
            None => Ok(()),
            Some(keys) => {
                let rule = format!("goes round in a circle: {}", keys.join(" → "));
                Err(Error::invalid("run.steps.depends_on", rule))
            }
        }
    }
}

/// Whether a pointer into the values begins with a property of their schema. A schema that names no properties takes
/// any.
fn is_value(schema: &Value, pointer: &str) -> bool {
    let name = unescaped(pointer.trim_start_matches('/').split('/').next().unwrap_or_default());
    schema["properties"].as_object().is_none_or(|known| known.contains_key(&name)) && !name.is_empty()
}

fn is_write_only(property: &Value) -> bool {
    property["writeOnly"] == true
}

fn count_write_only(value: &Value) -> usize {
    let within = match value {
        Value::Array(items) => items.iter().map(count_write_only).sum(),
        Value::Object(fields) => fields.values().map(count_write_only).sum(),
        _ => 0,
    };
    within + usize::from(value.is_object() && is_write_only(value))
}

impl Definition for ToolDefinition {
    const KIND: DefinitionKind = DefinitionKind::Tool;

    fn check(&self) -> Result<()> {
        check_tool_name("slug", &self.slug)?;
        check_text("name", &self.name, limits::NAME_CHARS_MAX)?;
        if self.name.trim().is_empty() {
            return Err(Error::invalid("name", "must not be empty"));
        }
        if let Some(text) = &self.description {
            check_text("description", text, limits::DESCRIPTION_CHARS_MAX)?;
        }
        if self.timeout_ms.is_some_and(|ms| ms == 0 || Duration::from_millis(ms) > limits::TOOL_TIMEOUT_MAX) {
            let most = limits::TOOL_TIMEOUT_MAX.as_millis();
            return Err(Error::invalid("timeout_ms", format!("must be 1 to {most}")));
        }
        self.check_schema()?;
        if let Some(output) = &self.output {
            output.check("output")?;
            if output.kind.writes_entities() {
                let rule = "must be `none`, `text` or `object`; let the tool run a task to write entities";
                return Err(Error::invalid("output.type", rule));
            }
        }
        match &self.run {
            ToolAction::Http(HttpAction { url, method, headers }) => {
                check_request("run", url, method, headers)
            }
            ToolAction::Mcp(McpAction { server, tool }) => {
                check_name("run.server", server)?;
                check_name("run.tool", tool)
            }
            ToolAction::Task(TaskAction { task }) => check_name("run.task", task),
            ToolAction::Steps(StepsAction { steps }) => self.check_steps(steps),
        }
    }

    fn own_id(&self) -> Option<&str> {
        Some(&self.slug)
    }

    fn slug(&self) -> Option<&str> {
        None
    }

    fn loosens(&self, before: &Self) -> bool {
        before.requires_confirmation && !self.requires_confirmation
    }

    fn schemas(&self) -> Vec<&Json> {
        let output = self.output.iter().filter_map(|output| output.schema.as_ref());
        std::iter::once(&self.input_schema).chain(output).collect()
    }

    fn facets(&self) -> Vec<(&'static str, Box<str>)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::read;

    fn tool(more: &str) -> Result<ToolDefinition> {
        let text = format!(r#"{{"slug":"t","name":"T",{more}}}"#);
        let tool = read::<ToolDefinition>(&Json::parse(text.as_bytes())?)?.1;
        tool.check().map(|()| tool)
    }

    const FORM: &str = r#""input_schema":{"type":"object","properties":{"x":{"type":"string"}}}"#;
    const HTTP: &str = r#""run":{"type":"http","url":"https://example.org/"}"#;

    fn steps(steps: &str) -> Result<ToolDefinition> {
        tool(&format!(r#"{FORM},"run":{{"type":"steps","steps":[{steps}]}}"#))
    }

    #[test]
    fn what_could_not_work_is_refused_with_its_place() {
        let with = |more: &str| tool(&format!("{FORM},{HTTP},{more}"));
        let schema = |schema: &str| tool(&format!(r#""input_schema":{schema},{HTTP}"#));
        let run = |run: &str| tool(&format!(r#"{FORM},"run":{run}"#));
        let secret = r#"{"type":"object","properties":{"k":{"type":"string","writeOnly":true}}}"#;
        let table: [(Result<ToolDefinition>, &str); 24] = [
            (
                schema(r#"{"type":"object","properties":{"a":{"$ref":"https://example.org/s.json"}}}"#),
                "input_schema",
            ),
            (schema(r#"{"type":"string"}"#), "input_schema"),
            (schema("true"), "input_schema"),
            (schema(r#"{"type":"object","properties":5}"#), "input_schema"),
            (
                schema(r#"{"type":"object","properties":{"a":{"properties":{"k":{"writeOnly":true}}}}}"#),
                "input_schema",
            ),
            (tool(&format!(r#""input_schema":{secret},"run":{{"type":"task","task":"t"}}"#)), "input_schema"),
            (with(r#""timeout_ms":0"#), "timeout_ms"),
            (with(r#""timeout_ms":600001"#), "timeout_ms"),
            (with(r#""output":{"type":"entity"}"#), "output.type"),
            (with(r#""output":{"type":"object","schema":{"$ref":"https://example.org/"}}"#), "output.schema"),
            (with(r#""colour":"red""#), "colour"),
            (run(r#"{"type":"http","url":"ftp://example.org/"}"#), "run.url"),
            (run(r#"{"type":"http","url":"https://example.org/","method":"TRACE"}"#), "run.method"),
            (run(r#"{"type":"http","url":"https://example.org/","headers":{"a b":"x"}}"#), "run.headers"),
            (run(r#"{"type":"mcp","server":"","tool":"t"}"#), "run.server"),
            (run(r#"{"type":"task","task":"a/b"}"#), "run.task"),
            (steps(""), "run.steps"),
            (
                steps(r#"{"key":"a","tool":"t","input":{}},{"key":"a","tool":"t","input":{}}"#),
                "run.steps[1].key",
            ),
            (steps(r#"{"key":"a","tool":"t","input":[]}"#), "run.steps[0].input"),
            (steps(r#"{"key":"a","tool":"t","input":{},"depends_on":["z"]}"#), "run.steps[0].depends_on"),
            (
                steps(r#"{"key":"a","tool":"t","input":{"x":{"$from":"/values/nothing"}}}"#),
                "run.steps[0].input",
            ),
            (
                steps(r#"{"key":"a","tool":"t","input":{"x":[{"$from":"/steps/z/result"}]}}"#),
                "run.steps[0].input",
            ),
            (steps(r#"{"key":"a","tool":"t","input":{"x":{"$from":"/elsewhere"}}}"#), "run.steps[0].input"),
            (
                steps(
                    r#"{"key":"a","tool":"t","input":{},"depends_on":["b"]},
                       {"key":"b","tool":"t","input":{"x":{"$from":"/steps/a/result/y"}}}"#,
                ),
                "run.steps.depends_on",
            ),
        ];
        for (outcome, field) in table {
            match outcome {
                Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field),
                other => panic!("{field}: {other:?}"),
            }
        }
        let unknown = run(r#"{"type":"shell","command":"x"}"#).unwrap_err().to_string();
        assert!(unknown.contains("http, mcp, task or steps"), "{unknown}");
    }

    #[test]
    fn a_tool_is_kept_with_every_field() {
        let whole = format!(
            r#""description":"D",{FORM},"run":{{"type":"http","url":"https://example.org/","method":"PUT",
                "headers":{{"X":"secret:k"}}}},"output":{{"type":"object"}},"requires_confirmation":true,
                "timeout_ms":600000"#
        );
        let whole = tool(&whole).unwrap();
        assert_eq!(Json::of(&whole).unwrap().read::<ToolDefinition>().unwrap(), whole);
        assert_eq!(whole.timeout(), limits::TOOL_TIMEOUT_MAX);
        let plain = tool(&format!("{FORM},{HTTP}")).unwrap();
        assert_eq!(plain.timeout(), limits::TOOL_TIMEOUT_DEFAULT);
        assert!(matches!(&plain.run, ToolAction::Http(http) if http.method == "POST"));
        assert!(plain.loosens(&whole) && !whole.loosens(&plain));
        assert_eq!(whole.header_secrets(), ["k"]);
    }

    #[test]
    fn a_step_needs_what_it_names_and_what_it_uses() {
        let tool = steps(
            r#"{"key":"a","tool":"t","input":{"x":{"$from":"/values/x"}}},{"key":"b","tool":"t","input":{}},
               {"key":"c","tool":"t","input":{"x":{"y":[{"$from":"/steps/a/result/0"}]}},"depends_on":["b"]}"#,
        )
        .unwrap();
        let needs: Vec<Vec<String>> = tool.steps().iter().map(ToolStep::needs).collect();
        assert_eq!(needs, [vec![], vec![], vec!["a".to_owned(), "b".to_owned()]]);
    }

    #[test]
    fn steps_schemas_and_times_are_refused_one_past_their_bounds() {
        let of = |count: usize| {
            let each = (0..count).map(|n| format!(r#"{{"key":"k{n}","tool":"t","input":{{}}}}"#));
            steps(&each.collect::<Vec<_>>().join(","))
        };
        assert!(of(limits::STEPS_MAX).is_ok() && of(limits::STEPS_MAX + 1).is_err());
        let schema = |bytes: usize| {
            let empty = r#"{"type":"object","description":""}"#;
            let text = empty.replace("\"\"", &format!("\"{}\"", "x".repeat(bytes - empty.len())));
            tool(&format!(r#""input_schema":{text},{HTTP}"#))
        };
        assert!(schema(limits::TOOL_SCHEMA_BYTES_MAX).is_ok());
        assert_eq!(schema(limits::TOOL_SCHEMA_BYTES_MAX + 1).unwrap_err().code(), "invalid");
        let time = |ms: u128| tool(&format!(r#"{FORM},{HTTP},"timeout_ms":{ms}"#));
        assert!(time(limits::TOOL_TIMEOUT_MAX.as_millis()).is_ok());
        assert!(time(limits::TOOL_TIMEOUT_MAX.as_millis() + 1).is_err());
    }
}
