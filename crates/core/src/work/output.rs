//! The output contract: what a run must produce, whether it did, and where its values go. Pure; the write-back itself
//! is part of the change that completes the session.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::check_name;
use crate::json::Json;
use crate::json_schema::{self, JsonSchema};
use crate::limits;

/// What a run must produce.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputContract {
    #[serde(rename = "type")]
    pub kind: OutputType,
    /// JSON Schema of the result.
    pub schema: Option<Json>,
    /// Which values of the result become which fields; left out, all of them by their own names.
    pub fields: Option<FieldMap>,
    /// The type of entities that are made.
    pub entity_type: Option<String>,
    /// The field of the session's entity that lists the entities made for it.
    pub relation: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputType {
    None,
    Text,
    /// A structured result that is passed on and written to no entity.
    Object,
    /// Fields of the session's entity, or of a new one.
    Entity,
    /// A list of entities.
    Entities,
    /// A new entity that the session's entity refers to.
    RelationEntity,
}

/// Names of values, or fields with the path of their value in the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a list of names, or an object of field: path")]
pub enum FieldMap {
    Names(Vec<String>),
    Paths(BTreeMap<String, String>),
}

impl OutputContract {
    pub fn check(&self, field: &'static str) -> Result<()> {
        let wants = |what: &str| Error::invalid(field, format!("this type needs `{what}`"));
        match self.kind {
            OutputType::Entities if self.entity_type.is_none() => return Err(wants("entity_type")),
            OutputType::RelationEntity if self.entity_type.is_none() => return Err(wants("entity_type")),
            OutputType::RelationEntity if self.relation.is_none() => return Err(wants("relation")),
            OutputType::None if self.schema.is_some() => {
                return Err(Error::invalid(
                    field,
                    "a result of the type `none` is not looked at, so it takes no `schema`; use `object` for a \
                     structured result without an entity",
                ));
            }
            OutputType::None | OutputType::Text | OutputType::Object if self.fields.is_some() => {
                return Err(Error::invalid(
                    field,
                    "`fields` say what is written to an entity; this type writes none",
                ));
            }
            OutputType::Text if self.schema.as_ref().is_some_and(|schema| !allows_text(schema)) => {
                return Err(Error::invalid(
                    field,
                    "no text can satisfy this `schema`; use the type `object` for a structured result",
                ));
            }
            OutputType::None
            | OutputType::Text
            | OutputType::Object
            | OutputType::Entity
            | OutputType::Entities
            | OutputType::RelationEntity => {}
        }
        for name in self.entity_type.iter().chain(&self.relation) {
            check_name(field, name)?;
        }
        match &self.fields {
            Some(FieldMap::Names(names)) => names.iter().try_for_each(|name| check_name(field, name))?,
            Some(FieldMap::Paths(paths)) => {
                paths.keys().chain(paths.values()).try_for_each(|name| {
                    // A JSON pointer has slashes.
                    check_name(field, &name.replace('/', "."))
                })?;
            }
            None => {}
        }
        self.schema.as_ref().map_or(Ok(()), |schema| json_schema::check("output.schema", schema))
    }

    /// The fields of an entity that the contract names: the mapped ones, or else those that its schema describes.
    pub fn entity_fields(&self) -> Vec<String> {
        match (&self.fields, &self.schema) {
            (Some(FieldMap::Names(names)), _) => names.clone(),
            (Some(FieldMap::Paths(paths)), _) => paths.keys().cloned().collect(),
            (None, Some(schema)) if self.kind == OutputType::Entity => {
                let properties = schema.fields().into_iter().find(|(key, _)| key == "properties");
                properties
                    .map(|(_, each)| each.fields().into_iter().map(|(name, _)| name).collect())
                    .unwrap_or_default()
            }
            (None, _) => Vec::new(),
        }
    }

    /// What is wrong with a result, in sentences for its worker. Empty: it fits.
    pub fn complaints(&self, result: Option<&Json>, text: Option<&str>) -> Vec<String> {
        if self.kind == OutputType::None {
            return Vec::new();
        }
        if self.kind == OutputType::Text {
            let said = text.map(str::to_owned).or_else(|| result.and_then(|json| json.read().ok()));
            return match (said, &self.schema) {
                (Some(text), schema) if !text.trim().is_empty() => match (schema, Json::of(&text)) {
                    (Some(schema), Ok(text)) => misfits(schema, &text),
                    _ => Vec::new(),
                },
                _ => vec!["a text is expected, and none was given".to_owned()],
            };
        }
        let Some(result) = result else { return vec!["a result is expected, and none was given".to_owned()] };
        let mut complaints = self.misshapen(result);
        if let Some(schema) = &self.schema {
            complaints.extend(misfits(schema, result));
        }
        if complaints.is_empty() {
            complaints = self.unmappable(result);
        }
        complaints.truncate(limits::COMPLAINTS_MAX);
        complaints
    }

    fn misshapen(&self, result: &Json) -> Vec<String> {
        match self.kind {
            OutputType::Object | OutputType::Entity | OutputType::RelationEntity if !result.is_object() => {
                vec!["the result must be an object".to_owned()]
            }
            OutputType::Entities => match items(result) {
                Some(items) if items.len() > limits::WRITTEN_ENTITIES_MAX => {
                    vec![format!("the result lists more than {}", limits::WRITTEN_ENTITIES_MAX)]
                }
                Some(items) if items.iter().all(Json::is_object) => Vec::new(),
                _ => vec!["the result must be a list of objects".to_owned()],
            },
            _ => Vec::new(),
        }
    }

    /// The values that `fields` names and the result does not have.
    fn unmappable(&self, result: &Json) -> Vec<String> {
        let listed = match self.kind {
            OutputType::Entities => items(result).unwrap_or_default(),
            _ => vec![result.clone()],
        };
        let missing = |item: &Json| -> Vec<String> {
            match &self.fields {
                None => Vec::new(),
                Some(FieldMap::Names(names)) => {
                    let fields = item.fields();
                    let absent = names.iter().filter(|name| !fields.iter().any(|(key, _)| key == *name));
                    absent.map(|name| format!("the value `{name}` is not in the result")).collect()
                }
                Some(FieldMap::Paths(paths)) => paths
                    .iter()
                    .filter(|(_, path)| at_path(item, path).is_none())
                    .map(|(field, path)| {
                        format!("the value `{path}`, which the field `{field}` takes, is not in the result")
                    })
                    .collect(),
            }
        };
        listed.iter().flat_map(missing).collect()
    }

    /// The values to be approved, as they would be written: fields of one entity, or of each.
    pub fn staged(&self, result: Option<&Json>, text: Option<&str>) -> Result<Json> {
        match (self.kind, result) {
            (OutputType::None, _)
            | (OutputType::Object | OutputType::Entity | OutputType::RelationEntity, None) => {
                Ok(Json::stored("null"))
            }
            (OutputType::Object, Some(result)) => Ok(result.clone()),
            (OutputType::Text, result) => {
                let said = text.map(str::to_owned).or_else(|| result.and_then(|json| json.read().ok()));
                let said: String =
                    said.unwrap_or_default().chars().take(limits::STAGED_TEXT_CHARS_MAX).collect();
                Json::of(&said)
            }
            (OutputType::Entity | OutputType::RelationEntity, Some(result)) => Ok(self.mapped(result)),
            (OutputType::Entities, result) => {
                let mapped: Vec<Json> = result
                    .and_then(items)
                    .unwrap_or_default()
                    .iter()
                    .map(|item| {
                        let mut fields = self.mapped(item).fields();
                        if let Some((_, id)) = item.fields().into_iter().find(|(key, _)| key == "id") {
                            fields.retain(|(key, _)| key != "id");
                            fields.insert(0, ("id".to_owned(), id));
                        }
                        Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)))
                    })
                    .collect();
                Json::of(&mapped)
            }
        }
    }

    /// The result with these edited values in place of the staged ones. An edit has to keep the whole contract, as
    /// the result had to before it was staged.
    pub fn edited(&self, result: Option<&Json>, values: &Json) -> Result<Json> {
        let edited = match (self.kind, result) {
            (OutputType::None | OutputType::Text, _) | (_, None) => values.clone(),
            (OutputType::Object | OutputType::Entity | OutputType::RelationEntity, Some(result)) => {
                self.unmapped(result, values)
            }
            (OutputType::Entities, Some(result)) => {
                let values: Vec<Json> = values.read().unwrap_or_default();
                let listed = items(result).unwrap_or_default();
                let edited: Vec<Json> =
                    listed.iter().zip(&values).map(|(item, values)| self.unmapped(item, values)).collect();
                let edited = Json::of(&edited)?;
                match &result.fields()[..] {
                    [(key, _)] if result.is_object() => Json::object([(key.as_str(), &edited)]),
                    _ => edited,
                }
            }
        };
        let mut complaints = self.complaints(Some(&edited), None);
        if complaints.is_empty() && self.fields.is_some() && self.staged(Some(&edited), None)? != *values {
            complaints.push(
                "several fields take the same value of the result, and the edit gives them different ones"
                    .to_owned(),
            );
        }
        if complaints.is_empty() { Ok(edited) } else { Err(Error::OutputInvalid { complaints }) }
    }

    /// The inverse of [`Self::mapped`]: a result, or one of its items, with these values in it.
    fn unmapped(&self, result: &Json, values: &Json) -> Json {
        values.fields().into_iter().fold(result.clone(), |result, (field, value)| {
            let path = match &self.fields {
                Some(FieldMap::Paths(paths)) => paths.get(&field).map(String::as_str),
                Some(FieldMap::Names(_)) | None => None,
            };
            match path {
                Some(path) => with_value(&result, &steps_of(path), value),
                None => with_value(&result, &[&field], value),
            }
        })
    }

    fn mapped(&self, result: &Json) -> Json {
        let fields: Vec<(String, Json)> = match &self.fields {
            None => result.fields(),
            Some(FieldMap::Names(names)) => {
                result.fields().into_iter().filter(|(key, _)| names.contains(key)).collect()
            }
            Some(FieldMap::Paths(paths)) => paths
                .iter()
                .filter_map(|(field, path)| Some((field.clone(), at_path(result, path)?)))
                .collect(),
        };
        Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)))
    }
}

/// Whether a text can satisfy a schema, as far as its top-level keywords say.
fn allows_text(schema: &Json) -> bool {
    let schema = schema.value();
    let is_text = |kind: &serde_json::Value| kind == "string";
    match schema.get("type") {
        Some(serde_json::Value::Array(kinds)) => kinds.iter().any(is_text),
        Some(kind) => is_text(kind),
        None => schema.get("properties").is_none() && schema.get("required").is_none(),
    }
}

/// The steps of the path `a.b` or `/a/b`.
fn steps_of(path: &str) -> Vec<&str> {
    let (path, separator) = path.strip_prefix('/').map_or((path, '.'), |rest| (rest, '/'));
    path.split(separator).collect()
}

/// The same JSON with another value at these steps. Where a step does not exist, nothing is changed.
fn with_value(json: &Json, steps: &[&str], value: Json) -> Json {
    let Some((step, rest)) = steps.split_first() else { return value };
    if json.is_array() {
        let mut items: Vec<Json> = json.read().unwrap_or_default();
        if let Some(item) = step.parse().ok().and_then(|at: usize| items.get_mut(at)) {
            *item = with_value(item, rest, value);
        }
        return Json::of(&items).unwrap_or_else(|_| json.clone());
    }
    let mut fields = json.fields();
    if let Some((_, field)) = fields.iter_mut().find(|(key, _)| key == step) {
        *field = with_value(field, rest, value);
    }
    Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)))
}

/// The value at a path.
fn at_path(json: &Json, path: &str) -> Option<Json> {
    steps_of(path).into_iter().try_fold(json.clone(), |json, name| {
        if json.is_array() {
            return json.read::<Vec<Json>>().ok()?.into_iter().nth(name.parse().ok()?);
        }
        json.fields().into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    })
}

/// A list, or an object whose only field is one.
fn items(result: &Json) -> Option<Vec<Json>> {
    if result.is_array() {
        return result.read().ok();
    }
    match &result.fields()[..] {
        [(_, list)] if list.is_array() => list.read().ok(),
        _ => None,
    }
}

/// How a value violates a schema.
pub fn misfits(schema: &Json, value: &Json) -> Vec<String> {
    match JsonSchema::compile(schema) {
        Ok(schema) => schema.violations(&value.value(), limits::COMPLAINTS_MAX).0,
        Err(fault) => vec![format!("the schema {fault}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn output(text: &str) -> OutputContract {
        crate::strict::read(json(text).as_str()).unwrap()
    }

    #[test]
    fn a_contract_that_could_not_be_kept_is_refused() {
        let table = [
            (r#"{"type":"entities"}"#, "entity_type"),
            (r#"{"type":"relation-entity","entity_type":"note"}"#, "relation"),
            (r#"{"type":"entity","schema":[1]}"#, "object"),
            (r#"{"type":"entity","schema":{"type":"nonsense"}}"#, "no JSON Schema"),
            (r#"{"type":"entity","schema":{"$ref":"http://127.0.0.1:1/x.json"}}"#, "no JSON Schema"),
            (r#"{"type":"entity","schema":{"pattern":"("}}"#, "no JSON Schema"),
            (r#"{"type":"entity","fields":[""]}"#, "empty"),
            (r#"{"type":"none","schema":{"required":["verdict"]}}"#, "use `object`"),
            (r#"{"type":"text","schema":{"type":"object"}}"#, "no text can satisfy"),
            (r#"{"type":"text","schema":{"required":["n"]}}"#, "no text can satisfy"),
            (r#"{"type":"object","fields":["a"]}"#, "writes none"),
        ];
        for (text, reason) in table {
            let refused = output(text).check("output").unwrap_err();
            assert!(refused.to_string().contains(reason), "{text}: {refused}");
        }
        let long =
            format!(r#"{{"type":"text","schema":{{"title":"{}"}}}}"#, "x".repeat(limits::SCHEMA_BYTES_MAX));
        assert_eq!(output(&long).check("output").unwrap_err().code(), "too_large");
        assert!(output(r#"{"type":"entity","fields":{"a":"/b/c"}}"#).check("output").is_ok());
    }

    #[test]
    fn a_schema_of_many_patterns_is_refused_by_its_name() {
        let patterns: Vec<String> =
            (0..1_300).map(|n| format!(r#""p{n}":{{"pattern":"^\\p{{L}}+{n:04}[a-z]*$"}}"#)).collect();
        let text = format!(
            r#"{{"type":"entity","schema":{{"type":"object","properties":{{{}}}}}}}"#,
            patterns.join(",")
        );
        assert!((50_000..limits::SCHEMA_BYTES_MAX).contains(&text.len()), "{}", text.len());
        let refused = output(&text).check("output").unwrap_err();
        assert!(refused.to_string().starts_with("`output.schema` is too complex"), "{refused}");
    }

    #[test]
    fn a_result_that_does_not_fit_is_told_why() {
        let schema = r#""schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;
        let names = r#"{"type":"entity","fields":["n","m"]}"#;
        let paths = r#"{"type":"entities","entity_type":"x","fields":{"headline":"nope"}}"#;
        let short = r#"{"type":"text","schema":{"type":"string","maxLength":2}}"#;
        let table: [(String, Option<&str>, Option<&str>, usize); 19] = [
            (names.into(), Some(r#"{"n":1,"m":null}"#), None, 0),
            (names.into(), Some(r#"{"n":1}"#), None, 1),
            (paths.into(), Some(r#"[{"nope":1},{"headline":2}]"#), None, 1),
            (format!(r#"{{"type":"object",{schema}}}"#), Some(r#"{"n":1}"#), None, 0),
            (format!(r#"{{"type":"object",{schema}}}"#), Some("[]"), None, 2),
            (short.into(), None, Some("hi"), 0),
            (short.into(), None, Some("hello"), 1),
            (r#"{"type":"none"}"#.into(), None, None, 0),
            (r#"{"type":"text"}"#.into(), None, Some("hi"), 0),
            (r#"{"type":"text"}"#.into(), Some(r#""hi""#), None, 0),
            (r#"{"type":"text"}"#.into(), None, Some(" "), 1),
            (format!(r#"{{"type":"entity",{schema}}}"#), Some(r#"{"n":1}"#), None, 0),
            (format!(r#"{{"type":"entity",{schema}}}"#), Some(r#"{"n":"x"}"#), None, 1),
            (format!(r#"{{"type":"entity",{schema}}}"#), Some(r#"[]"#), None, 2),
            (format!(r#"{{"type":"entity",{schema}}}"#), None, Some("n is 1"), 1),
            (r#"{"type":"entities","entity_type":"x"}"#.into(), Some(r#"[{"a":1},{}]"#), None, 0),
            (r#"{"type":"entities","entity_type":"x"}"#.into(), Some(r#"{"items":[{}]}"#), None, 0),
            (r#"{"type":"entities","entity_type":"x"}"#.into(), Some(r#"[1]"#), None, 1),
            (r#"{"type":"entities","entity_type":"x"}"#.into(), Some(r#"{}"#), None, 1),
        ];
        for (contract, result, text, complaints) in table {
            let found = output(&contract).complaints(result.map(json).as_ref(), text);
            assert_eq!(found.len(), complaints, "{contract} {result:?} {text:?}: {found:?}");
        }
    }

    #[test]
    fn an_edit_stands_in_the_result_where_its_value_came_from_and_keeps_the_contract() {
        let fields = r#""fields":{"x":"a.b","y":"/l/1"}"#;
        let table = [
            (r#"{"type":"entity"}"#, r#"{"b":1.50,"a":2}"#, r#"{"b":3,"a":2}"#, Ok(r#"{"b":3,"a":2}"#)),
            (r#"{"type":"entity","fields":["a"]}"#, r#"{"b":1,"a":2}"#, r#"{"a":3}"#, Ok(r#"{"b":1,"a":3}"#)),
            (
                &*format!(r#"{{"type":"entity",{fields}}}"#),
                r#"{"a":{"b":7,"c":8},"l":[1,2]}"#,
                r#"{"x":9,"y":4}"#,
                Ok(r#"{"a":{"b":9,"c":8},"l":[1,4]}"#),
            ),
            (
                r#"{"type":"entities","entity_type":"t","fields":["a"]}"#,
                r#"{"items":[{"a":1,"id":"e1"},{"b":0,"a":2}]}"#,
                r#"[{"id":"e1","a":5},{"a":6}]"#,
                Ok(r#"{"items":[{"a":5,"id":"e1"},{"b":0,"a":6}]}"#),
            ),
            (r#"{"type":"text"}"#, r#""long""#, r#""short""#, Ok(r#""short""#)),
            (r#"{"type":"text"}"#, r#""long""#, r#"" ""#, Err("a text is expected")),
            (
                r#"{"type":"entity","fields":{"x":"a","y":"a"}}"#,
                r#"{"a":1}"#,
                r#"{"x":1,"y":2}"#,
                Err("several fields take the same value"),
            ),
            (
                r#"{"type":"entity","schema":{"properties":{"a":{"type":"integer"}}}}"#,
                r#"{"a":1}"#,
                r#"{"a":"1"}"#,
                Err("/a"),
            ),
        ];
        for (contract, result, values, expected) in table {
            match (output(contract).edited(Some(&json(result)), &json(values)), expected) {
                (Ok(edited), Ok(expected)) => assert_eq!(edited.as_str(), expected, "{contract}"),
                (Err(Error::OutputInvalid { complaints }), Err(part)) => {
                    assert!(complaints[0].contains(part), "{contract}: {complaints:?}");
                }
                (other, _) => panic!("{contract}: {other:?}"),
            }
        }
    }

    #[test]
    fn values_are_staged_as_they_would_be_written() {
        let table = [
            (r#"{"type":"entity"}"#, r#"{"b":1.50,"a":[2]}"#, r#"{"b":1.50,"a":[2]}"#),
            (r#"{"type":"entity","fields":["a"]}"#, r#"{"b":1,"a":2}"#, r#"{"a":2}"#),
            (
                r#"{"type":"entity","fields":{"x":"a.b","y":"/l/1","z":"none"}}"#,
                r#"{"a":{"b":7},"l":[1,2]}"#,
                r#"{"x":7,"y":2}"#,
            ),
            (
                r#"{"type":"entities","entity_type":"t","fields":["a"]}"#,
                r#"[{"a":1,"b":2},{"b":3,"id":"e1"}]"#,
                r#"[{"a":1},{"id":"e1"}]"#,
            ),
        ];
        for (contract, result, staged) in table {
            assert_eq!(output(contract).staged(Some(&json(result)), None).unwrap().as_str(), staged);
        }
        let long = "é".repeat(limits::STAGED_TEXT_CHARS_MAX + 1);
        let staged = output(r#"{"type":"text"}"#).staged(None, Some(&long)).unwrap();
        assert_eq!(staged.read::<String>().unwrap().chars().count(), limits::STAGED_TEXT_CHARS_MAX);
    }
}
