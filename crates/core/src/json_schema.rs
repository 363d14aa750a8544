//! The one place where JSON Schemas of users, agents and tools are compiled.
//!
//! A schema is untrusted input, so it is bounded before it is compiled: its size, the subschemas that it applies
//! with every reference followed, its patterns, and how often it applies itself to the same value. A schema never
//! reads another document, and its patterns run on an engine that does not backtrack. Compiled schemas are kept in
//! a bounded cache; [`prepare`] fills the cache on a blocking thread, so that the pure decisions find them there.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use moka::sync::Cache;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits;

/// A compiled schema.
#[derive(Debug)]
pub struct JsonSchema {
    validator: Validator,
    /// How often the schema applies itself to one value; 1 for nearly all schemas.
    self_applications: usize,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    #[error("is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("is no JSON Schema: {0}")]
    Unusable(Arc<str>),
    #[error("is too complex: {0}")]
    TooComplex(Arc<str>),
}

impl JsonSchema {
    /// Compiles a schema, or takes it from the cache.
    pub fn compile(schema: &Json) -> Result<Arc<Self>, SchemaFault> {
        if schema.len() > limits::SCHEMA_BYTES_MAX {
            return Err(SchemaFault::TooLarge { limit: limits::SCHEMA_BYTES_MAX });
        }
        CACHE.get_with(digest(schema), || build(schema)).schema
    }

    /// What a value violates, a sentence each: it says where, and never repeats the value. Empty: it fits. At most
    /// `most` sentences, and how many there are beyond.
    pub fn violations(&self, value: &Value, most: usize) -> (Vec<String>, usize) {
        if !self.is_affordable(value) {
            let sentence =
                "the value is nested too deeply for a schema that refers to itself in several places";
            return (vec![sentence.to_owned()], 0);
        }
        let mut errors = self.validator.iter_errors(value);
        let sentences =
            errors.by_ref().take(most).map(|error| placed(&error, &error.masked().to_string())).collect();
        (sentences, errors.count())
    }

    /// What a value violates, each with the JSON pointer to its place; like [`Self::violations`].
    pub fn placed_violations(&self, value: &Value, most: usize) -> Vec<(String, String)> {
        if !self.is_affordable(value) {
            let (sentences, _) = self.violations(value, most);
            return sentences.into_iter().map(|sentence| (String::new(), sentence)).collect();
        }
        let errors = self.validator.iter_errors(value).take(most);
        let place = |error: &ValidationError<'_>| {
            let at = error.instance_path().to_string();
            // What is missing, or should not be there, is the place.
            let name = match error.kind() {
                ValidationErrorKind::Required { property } => property.as_str().map(str::to_owned),
                ValidationErrorKind::AdditionalProperties { unexpected } => unexpected.first().cloned(),
                _ => None,
            };
            name.map_or_else(|| at.clone(), |name| format!("{at}/{name}"))
        };
        errors.map(|error| (place(&error), clipped(&error.masked().to_string()))).collect()
    }

    /// A schema that applies itself `n` times to each value does `n` to the power of the depth for a leaf.
    fn is_affordable(&self, value: &Value) -> bool {
        if self.self_applications <= 1 {
            return true;
        }
        let (depth, values) = extent(value);
        u32::try_from(depth)
            .ok()
            .and_then(|depth| self.self_applications.checked_pow(depth))
            .and_then(|per_leaf| per_leaf.checked_mul(values))
            .is_some_and(|steps| steps <= limits::SCHEMA_STEPS_MAX)
    }
}

/// A sentence about a value, after its path.
fn placed(error: &ValidationError<'_>, sentence: &str) -> String {
    let place = error.instance_path().to_string();
    let sentence = clipped(sentence);
    if place.is_empty() { sentence } else { format!("{place}: {sentence}") }
}

fn clipped(sentence: &str) -> String {
    sentence.chars().take(300).collect()
}

/// Refuses a schema that cannot be used; the refusal names the field.
pub fn check(field: &'static str, schema: &Json) -> Result<()> {
    match JsonSchema::compile(schema) {
        Ok(_) => Ok(()),
        Err(SchemaFault::TooLarge { limit }) => Err(Error::TooLarge { what: "schema", limit }),
        Err(fault) => Err(Error::invalid(field, fault.to_string())),
    }
}

/// Compiles schemas on a blocking thread and leaves them in the cache. An unusable schema is reported by the
/// caller that later compiles it.
pub async fn prepare(schemas: impl IntoIterator<Item = &Json>) {
    let missing: Vec<Json> = schemas
        .into_iter()
        .filter(|schema| schema.len() <= limits::SCHEMA_BYTES_MAX && !CACHE.contains_key(&digest(schema)))
        .cloned()
        .collect();
    if missing.is_empty() {
        return;
    }
    // Compiling does not panic on any input that is known; if it did, the caller compiles again and reports it.
    let _ =
        tokio::task::spawn_blocking(move || missing.iter().for_each(|one| drop(JsonSchema::compile(one))))
            .await;
}

/// What the cache keeps: a schema that cannot be used is remembered as well.
#[derive(Clone)]
struct CachedSchema {
    schema: Result<Arc<JsonSchema>, SchemaFault>,
    /// An upper bound of the memory that it takes.
    bytes: u32,
}

static CACHE: LazyLock<Cache<[u8; 32], CachedSchema>> = LazyLock::new(|| {
    Cache::builder()
        .max_capacity(limits::SCHEMA_CACHE_BYTES_MAX)
        .weigher(|_: &[u8; 32], compiled: &CachedSchema| compiled.bytes)
        .build()
});

fn digest(schema: &Json) -> [u8; 32] {
    Sha256::digest(schema.as_str().as_bytes()).into()
}

fn build(schema: &Json) -> CachedSchema {
    let value = schema.value();
    let mut bytes = 1_024;
    let built = Survey::of(&value).and_then(|(cost, self_applications)| {
        // A compiled pattern, and the table that it fills while it runs.
        let patterns = cost.patterns.saturating_mul(2 * limits::SCHEMA_PATTERN_MEMORY_MAX);
        let nodes = cost.subschemas.saturating_mul(512).saturating_add(schema.len() * 4);
        bytes = u32::try_from(patterns.saturating_add(nodes)).unwrap_or(u32::MAX);
        let patterns = PatternOptions::regex()
            .size_limit(limits::SCHEMA_PATTERN_MEMORY_MAX)
            .dfa_size_limit(limits::SCHEMA_PATTERN_MEMORY_MAX);
        let validator =
            jsonschema::options().offline().with_pattern_options(patterns).build(&value).map_err(
                |error| {
                    let sentence = match error.kind() {
                        ValidationErrorKind::AnyOf { .. } => {
                            "it has none of the forms that are allowed there".into()
                        }
                        _ => error.masked().to_string(),
                    };
                    SchemaFault::Unusable(placed(&error, &sentence).into())
                },
            )?;
        Ok(Arc::new(JsonSchema { validator, self_applications }))
    });
    CachedSchema { schema: built, bytes }
}

/// What a schema costs, with every reference followed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    subschemas: usize,
    patterns: usize,
    pattern_bytes: usize,
}

impl Cost {
    fn add(&mut self, other: Self) -> Result<(), SchemaFault> {
        self.subschemas = self.subschemas.saturating_add(other.subschemas);
        self.patterns = self.patterns.saturating_add(other.patterns);
        self.pattern_bytes = self.pattern_bytes.saturating_add(other.pattern_bytes);
        let over = |what: &str, limit: usize| Err(too_complex(format!("{what}, at most {limit}")));
        if self.subschemas > limits::SCHEMA_NODES_MAX {
            return over("it applies too many subschemas, references followed", limits::SCHEMA_NODES_MAX);
        }
        if self.patterns > limits::SCHEMA_PATTERNS_MAX {
            return over("it has too many patterns", limits::SCHEMA_PATTERNS_MAX);
        }
        if self.pattern_bytes > limits::SCHEMA_PATTERN_BYTES_MAX {
            return over("its patterns have too many bytes together", limits::SCHEMA_PATTERN_BYTES_MAX);
        }
        Ok(())
    }

    fn pattern(pattern: &str) -> Self {
        Self { subschemas: 0, patterns: 1, pattern_bytes: pattern.len() }
    }
}

fn too_complex(reason: impl Into<String>) -> SchemaFault {
    SchemaFault::TooComplex(reason.into().into())
}

/// From a value to the part of it that a subschema is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaTarget<'a> {
    Property(&'a str),
    AnyProperty,
    Item(usize),
    AnyItem,
}

impl SchemaTarget<'_> {
    /// Whether both can be the same part of one value.
    fn meets(self, other: SchemaTarget<'_>) -> bool {
        match (self, other) {
            (SchemaTarget::Property(one), SchemaTarget::Property(other)) => one == other,
            (SchemaTarget::Item(one), SchemaTarget::Item(other)) => one == other,
            (
                SchemaTarget::Property(_) | SchemaTarget::AnyProperty,
                SchemaTarget::Property(_) | SchemaTarget::AnyProperty,
            )
            | (
                SchemaTarget::Item(_) | SchemaTarget::AnyItem,
                SchemaTarget::Item(_) | SchemaTarget::AnyItem,
            ) => true,
            _ => false,
        }
    }
}

/// A walk through a schema before it is compiled.
struct Survey<'a> {
    root: &'a Value,
    costs: HashMap<*const Value, Cost>,
    /// Definitions that are being walked through, outermost first.
    open: Vec<*const Value>,
    /// Definitions that refer to themselves, directly or through others.
    recursive: Vec<&'a Value>,
    depth: usize,
    steps: usize,
}

impl<'a> Survey<'a> {
    /// What a schema costs, and how often it applies itself to one value.
    fn of(root: &'a Value) -> Result<(Cost, usize), SchemaFault> {
        if !(root.is_object() || root.is_boolean()) {
            return Err(SchemaFault::Unusable("a JSON Schema is an object".into()));
        }
        let mut survey =
            Self { root, costs: HashMap::new(), open: vec![root], recursive: Vec::new(), depth: 0, steps: 0 };
        let cost = survey.cost(root)?;
        let mut self_applications = 1;
        for definition in survey.recursive.clone() {
            let mut ways = Vec::new();
            survey.open = vec![definition];
            survey.ways_back(definition, definition, &mut Vec::new(), &mut ways)?;
            for way in &ways {
                if way.is_empty() {
                    return Err(too_complex("a definition refers to itself for the same value"));
                }
                let meeting = ways.iter().filter(|other| way.iter().zip(*other).all(|(a, b)| a.meets(*b)));
                self_applications = self_applications.max(meeting.count());
            }
        }
        Ok((cost, self_applications))
    }

    fn cost(&mut self, schema: &'a Value) -> Result<Cost, SchemaFault> {
        let mut cost = Cost { subschemas: 1, ..Cost::default() };
        let Some(fields) = schema.as_object() else { return Ok(cost) };
        self.deeper()?;
        if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
            cost.add(Cost::pattern(pattern))?;
        }
        for pattern in fields.get("patternProperties").and_then(Value::as_object).into_iter().flatten() {
            cost.add(Cost::pattern(pattern.0))?;
        }
        for (_, sub) in subschemas(schema) {
            cost.add(self.cost(sub)?)?;
        }
        // Definitions count where they are referred to; an unused one still counts as one subschema.
        for name in ["$defs", "definitions"] {
            for (_, definition) in fields.get(name).and_then(Value::as_object).into_iter().flatten() {
                self.definition_cost(definition)?;
                cost.add(Cost { subschemas: 1, ..Cost::default() })?;
            }
        }
        if let Some(target) = self.target(schema)? {
            cost.add(self.definition_cost(target)?)?;
        }
        self.depth -= 1;
        Ok(cost)
    }

    fn definition_cost(&mut self, definition: &'a Value) -> Result<Cost, SchemaFault> {
        let place: *const Value = definition;
        if let Some(cost) = self.costs.get(&place) {
            return Ok(*cost);
        }
        if self.open.contains(&place) {
            if !self.recursive.iter().any(|known| std::ptr::eq(*known, definition)) {
                self.recursive.push(definition);
            }
            return Ok(Cost::default());
        }
        self.open.push(place);
        let cost = self.cost(definition)?;
        self.open.pop();
        self.costs.insert(place, cost);
        Ok(cost)
    }

    /// Every way from a schema back to `home`, by the parts of the value that lie on it.
    fn ways_back(
        &mut self,
        home: &'a Value,
        schema: &'a Value,
        way: &mut Vec<SchemaTarget<'a>>,
        found: &mut Vec<Vec<SchemaTarget<'a>>>,
    ) -> Result<(), SchemaFault> {
        self.steps += 1;
        if self.steps > limits::SCHEMA_NODES_MAX * 4 {
            return Err(too_complex("its definitions refer to each other in too many ways"));
        }
        self.deeper()?;
        for (part, sub) in subschemas(schema) {
            way.extend(part);
            self.ways_back(home, sub, way, found)?;
            way.truncate(way.len() - usize::from(part.is_some()));
        }
        if let Some(target) = self.target(schema)? {
            let place: *const Value = target;
            if std::ptr::eq(target, home) {
                found.push(way.clone());
            } else if !self.open.contains(&place) {
                self.open.push(place);
                self.ways_back(home, target, way, found)?;
                self.open.pop();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), SchemaFault> {
        self.depth += 1;
        if self.depth > limits::SCHEMA_DEPTH_MAX {
            let limit = limits::SCHEMA_DEPTH_MAX;
            return Err(too_complex(format!(
                "subschemas and references are nested too deeply, at most {limit}"
            )));
        }
        Ok(())
    }

    /// What a schema refers to. Only references within the document that can be followed here are taken.
    fn target(&self, schema: &'a Value) -> Result<Option<&'a Value>, SchemaFault> {
        let Some(fields) = schema.as_object() else { return Ok(None) };
        let unusable = |reason: &str| Err(SchemaFault::Unusable(reason.into()));
        if fields.contains_key("$dynamicRef") || fields.contains_key("$recursiveRef") {
            return unusable("use `$ref` instead of a dynamic reference");
        }
        if fields.get("$id").is_some_and(Value::is_string) && !std::ptr::eq(schema, self.root) {
            return unusable("only the outermost schema may have an `$id`");
        }
        let Some(reference) = fields.get("$ref").and_then(Value::as_str) else { return Ok(None) };
        let target = match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(&percent_decoded(pointer)),
            Some(_) => return unusable("refer to definitions by their place, as in `#/$defs/name`"),
            None => return unusable("a reference must stay within the schema, as in `#/$defs/name`"),
        };
        target.map_or_else(|| unusable("a reference leads nowhere"), |target| Ok(Some(target)))
    }
}

/// The schemas directly within a schema that are applied with it, each with the part of the value that it is for.
fn subschemas(schema: &Value) -> Vec<(Option<SchemaTarget<'_>>, &Value)> {
    let mut found = Vec::new();
    let Some(fields) = schema.as_object() else { return found };
    for (name, value) in fields {
        let one = |part| vec![(part, value)];
        let each = |part: fn(&str) -> Option<SchemaTarget<'_>>| -> Vec<_> {
            value.as_object().into_iter().flatten().map(|(key, sub)| (part(key), sub)).collect()
        };
        found.extend(match (name.as_str(), value) {
            ("not" | "if" | "then" | "else", _) => one(None),
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => list.iter().map(|sub| (None, sub)).collect(),
            ("dependentSchemas" | "dependencies", _) => each(|_| None),
            ("properties", _) => each(|key| Some(SchemaTarget::Property(key))),
            ("patternProperties", _) => each(|_| Some(SchemaTarget::AnyProperty)),
            ("additionalProperties" | "unevaluatedProperties" | "propertyNames", _) => {
                one(Some(SchemaTarget::AnyProperty))
            }
            ("prefixItems" | "items", Value::Array(list)) => {
                list.iter().enumerate().map(|(at, sub)| (Some(SchemaTarget::Item(at)), sub)).collect()
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => {
                one(Some(SchemaTarget::AnyItem))
            }
            _ => Vec::new(),
        });
    }
    found
}

/// A pointer in a reference is a fragment of a URI.
fn percent_decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How deep a value is nested, and how many values it holds.
fn extent(value: &Value) -> (usize, usize) {
    let within: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => return (0, 1),
    };
    let (mut depth, mut values) = (0, 1);
    for one in within {
        let (deep, many) = extent(one);
        depth = depth.max(deep + 1);
        values += many;
    }
    (depth, values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(value: &Value) -> Result<Arc<JsonSchema>, SchemaFault> {
        JsonSchema::compile(&Json::of(value).unwrap())
    }

    fn patterns(many: usize, each: &str) -> Value {
        let properties: serde_json::Map<String, Value> =
            (0..many).map(|n| (format!("p{n}"), json!({"pattern": each}))).collect();
        json!({"type": "object", "properties": properties})
    }

    /// `d0` applies `d1` twice, which applies `d2` twice, and so on.
    fn doubling(levels: usize) -> Value {
        let mut definitions = serde_json::Map::new();
        for n in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            definitions.insert(format!("d{n}"), json!({"allOf": [next.clone(), next]}));
        }
        definitions.insert(format!("d{levels}"), json!({"type": "object"}));
        json!({"$defs": definitions, "$ref": "#/$defs/d0"})
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!({"type": "integer"}), |inner, _| json!({"items": inner}))
    }

    #[test]
    fn a_schema_is_refused_one_past_each_bound() {
        let most = limits::SCHEMA_PATTERNS_MAX;
        let bytes = limits::SCHEMA_PATTERN_BYTES_MAX;
        let names = |many: usize| -> Value {
            let properties: serde_json::Map<String, Value> =
                (0..many).map(|n| (format!("p{n}"), json!(true))).collect();
            json!({"properties": properties})
        };
        let table = [
            (patterns(most, "a"), patterns(most + 1, "a"), "too many patterns"),
            (patterns(4, &"a".repeat(bytes / 4)), patterns(4, &"a".repeat(bytes / 4 + 1)), "too many bytes"),
            (names(limits::SCHEMA_NODES_MAX - 1), names(limits::SCHEMA_NODES_MAX), "too many subschemas"),
            (nested(limits::SCHEMA_DEPTH_MAX - 1), nested(limits::SCHEMA_DEPTH_MAX), "nested too deeply"),
            (doubling(6), doubling(20), "too many subschemas"),
        ];
        for (fits, exceeds, reason) in table {
            assert!(schema(&fits).is_ok(), "{reason}: {:?}", schema(&fits).err());
            let fault = schema(&exceeds).unwrap_err();
            assert!(
                matches!(&fault, SchemaFault::TooComplex(said) if said.contains(reason)),
                "{reason}: {fault}"
            );
        }
        let long = Json::of(&json!({"title": "x".repeat(limits::SCHEMA_BYTES_MAX)})).unwrap();
        assert!(matches!(JsonSchema::compile(&long), Err(SchemaFault::TooLarge { .. })));
        assert_eq!(check("output.schema", &long).unwrap_err().code(), "too_large");
    }

    #[test]
    fn a_schema_that_is_none_is_told_where() {
        let refused = schema(&json!({"properties": {"a": {"type": "nonsense"}}})).unwrap_err().to_string();
        let said = "is no JSON Schema: /properties/a/type: it has none of the forms that are allowed there";
        assert_eq!(refused, said);
    }

    #[test]
    fn a_schema_that_reaches_for_something_or_is_none_is_refused() {
        let table = [
            json!([1]),
            json!("x"),
            json!({"type": "nonsense"}),
            json!({"properties": 7}),
            json!({"$ref": "http://127.0.0.1:1/x.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"$ref": "#/missing"}),
            json!({"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}}),
            json!({"$dynamicRef": "#x"}),
            json!({"properties": {"a": {"$id": "https://example.org/a", "$ref": "#/b", "b": true}}}),
            json!({"pattern": "("}),
            json!({"pattern": "(?:a{1000}){1000}"}),
        ];
        for case in table {
            let refused = schema(&case).unwrap_err();
            assert!(matches!(refused, SchemaFault::Unusable(_)), "{case}: {refused}");
        }
    }

    #[test]
    fn a_schema_may_refer_to_itself_where_that_leads_deeper() {
        for endless in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
        ] {
            assert!(matches!(schema(&endless), Err(SchemaFault::TooComplex(_))), "{endless}");
        }
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        assert_eq!(schema(&tree).unwrap().self_applications, 1);
        let any = json!({"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}},
            {"additionalProperties": {"$ref": "#"}}]});
        assert_eq!(schema(&any).unwrap().self_applications, 1);
        let spaced = json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "integer"}}});
        assert_eq!(schema(&spaced).unwrap().violations(&json!("x"), 5).0.len(), 1);
    }

    #[test]
    fn a_schema_that_applies_itself_twice_takes_shallow_values_only() {
        let twice = schema(&json!({"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]})).unwrap();
        assert_eq!(twice.self_applications, 2);
        let deep = |levels: usize| (0..levels).fold(json!([]), |inner, _| json!([inner]));
        assert!(twice.violations(&deep(8), 5).0.is_empty());
        let (said, _) = twice.violations(&deep(60), 5);
        assert!(said[0].contains("nested too deeply"), "{said:?}");
    }

    #[test]
    fn a_schema_is_compiled_once() {
        let value = json!({"type": "object", "title": "compiled once"});
        let (first, again) = (schema(&value).unwrap(), schema(&value).unwrap());
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[tokio::test]
    async fn what_was_prepared_is_found_by_the_decision() {
        let json = Json::of(&json!({"type": "object", "title": "prepared elsewhere"})).unwrap();
        assert!(!CACHE.contains_key(&digest(&json)));
        prepare([&json]).await;
        assert!(CACHE.contains_key(&digest(&json)));
    }

    #[test]
    fn compiled_schemas_take_no_more_memory_than_the_bound() {
        let heavy = |n: usize| patterns(limits::SCHEMA_PATTERNS_MAX, &format!("a{n}"));
        let one = u64::from(build(&Json::of(&heavy(0)).unwrap()).bytes);
        let fit = usize::try_from(limits::SCHEMA_CACHE_BYTES_MAX / one).unwrap();
        for n in 0..=fit {
            schema(&heavy(n)).unwrap();
        }
        CACHE.run_pending_tasks();
        assert!(CACHE.weighted_size() > limits::SCHEMA_CACHE_BYTES_MAX - one, "{}", CACHE.weighted_size());
        assert!(CACHE.weighted_size() <= limits::SCHEMA_CACHE_BYTES_MAX, "{}", CACHE.weighted_size());
    }
}
