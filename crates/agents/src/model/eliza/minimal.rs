//! A small JSON value that satisfies a simple schema: objects with their required fields, arrays with as many
//! items as they must have, and the plain types within their bounds. Patterns are not invented.

use serde_json::{Map, Number, Value, json};

/// Schemas nest, and may refer to themselves; below this depth every value is `null`.
const DEPTH_MAX: usize = 32;

/// The value. Strings contain `words` where the schema allows it.
pub fn value(schema: &Value, words: &str) -> Value {
    Maker { root: schema, words }.make(schema, 0)
}

struct Maker<'a> {
    root: &'a Value,
    words: &'a str,
}

impl Maker<'_> {
    fn make(&self, schema: &Value, depth: usize) -> Value {
        if depth > DEPTH_MAX {
            return Value::Null;
        }
        if let Some(at) = schema["$ref"].as_str().and_then(|at| at.strip_prefix('#')) {
            return self.root.pointer(at).map_or(Value::Null, |found| self.make(found, depth + 1));
        }
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(first) = schema["enum"].as_array().and_then(|choices| choices.first()) {
            return first.clone();
        }
        for either in ["anyOf", "oneOf"] {
            if let Some(first) = schema[either].as_array().and_then(|choices| choices.first()) {
                return self.make(first, depth + 1);
            }
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "number" | "integer" => number(schema),
            "boolean" => Value::Bool(false),
            "null" => Value::Null,
            _ => self.string(schema),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let fields = required.map(|name| {
            let of_any_kind = Value::Bool(true);
            let field = schema["properties"].get(name).unwrap_or(&of_any_kind);
            (name.to_owned(), self.make(field, depth + 1))
        });
        Value::Object(fields.collect::<Map<_, _>>())
    }

    fn array(&self, schema: &Value, depth: usize) -> Value {
        // A schema that demands more items is not simple.
        let count = schema["minItems"].as_u64().unwrap_or(0).min(100) as usize;
        let prefix = schema["prefixItems"].as_array();
        let item = |at: usize| {
            let of_any_kind = Value::Bool(true);
            let first = prefix.and_then(|prefix| prefix.get(at));
            self.make(first.or(schema.get("items")).unwrap_or(&of_any_kind), depth + 1)
        };
        Value::Array((0..count).map(item).collect())
    }

    fn string(&self, schema: &Value) -> Value {
        let text = match schema["format"].as_str() {
            Some("date") => "2000-01-01",
            Some("time") => "00:00:00Z",
            Some("date-time") => "2000-01-01T00:00:00Z",
            Some("email") => "nobody@example.org",
            Some("uri") => "https://example.org/",
            Some("uuid") => "00000000-0000-4000-8000-000000000000",
            _ => return json!(self.fitting(schema)),
        };
        json!(text)
    }

    fn fitting(&self, schema: &Value) -> String {
        let bound = |name: &str| schema[name].as_u64().and_then(|bound| usize::try_from(bound).ok());
        let most = bound("maxLength").unwrap_or(usize::MAX);
        let mut text: String = self.words.chars().take(most).collect();
        let lacking = bound("minLength").unwrap_or(0).min(10_000).saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_n('.', lacking));
        text
    }
}

/// The type, said or implied; the first of several.
fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or("string"),
        _ if schema.get("properties").is_some() || schema.get("required").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "string",
    }
}

fn number(schema: &Value) -> Value {
    let is_whole = kind(schema) == "integer";
    let bound = |name: &str| schema[name].as_f64();
    let step = bound("multipleOf").filter(|step| *step > 0.0).or(is_whole.then_some(1.0));
    let above = bound("exclusiveMinimum").map(|low| low + step.unwrap_or(1.0));
    let below = bound("exclusiveMaximum").map(|high| high - step.unwrap_or(1.0));
    let mut number = 0.0_f64;
    number = bound("maximum").into_iter().chain(below).fold(number, f64::min);
    number = bound("minimum").into_iter().chain(above).fold(number, f64::max);
    if let Some(step) = step {
        number = (number / step).ceil() * step;
    }
    let whole = number as i64;
    if whole as f64 == number {
        whole.into()
    } else {
        Number::from_f64(number).map_or(Value::Null, Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn simple_schemas_get_what_they_ask_for() {
        let cases = [
            (json!({"type": "string"}), json!("words")),
            (json!({"type": "string", "maxLength": 2}), json!("wo")),
            (json!({"type": "string", "minLength": 7}), json!("words..")),
            (json!({"type": "integer", "minimum": 3}), json!(3)),
            (json!({"type": "integer", "exclusiveMinimum": 3}), json!(4)),
            (json!({"type": "integer", "minimum": 3.2, "multipleOf": 5}), json!(5)),
            (json!({"type": "number", "maximum": -1.5}), json!(-1.5)),
            (json!({"type": ["null", "string"]}), json!(null)),
            (json!({"enum": ["low", "high"]}), json!("low")),
            (json!({"const": 7}), json!(7)),
            (json!({"type": "array", "items": {"type": "boolean"}, "minItems": 2}), json!([false, false])),
            (json!({"type": "array"}), json!([])),
            (json!({"anyOf": [{"type": "null"}, {"type": "string"}]}), json!(null)),
            (json!({"required": ["a"], "properties": {"a": {"type": "integer"}, "b": {}}}), json!({"a": 0})),
            (json!({"$ref": "#/$defs/x", "$defs": {"x": {"type": "boolean"}}}), json!(false)),
            (json!({"type": "object", "required": ["free"]}), json!({"free": "words"})),
            (json!({"type": "string", "format": "date"}), json!("2000-01-01")),
            (json!(true), json!("words")),
        ];
        for (schema, expected) in cases {
            let made = value(&schema, "words");
            assert_eq!(made, expected, "{schema}");
            assert!(jsonschema::is_valid(&schema, &made), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_names_itself_comes_to_an_end() {
        let endless = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
        assert!(value(&endless, "").to_string().len() < 10_000);
    }

    fn simple_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (0_u64..5, 5_u64..50)
                .prop_map(|(a, b)| json!({"type": "string", "minLength": a, "maxLength": b})),
            (-50_i64..50, 0_i64..50)
                .prop_map(|(a, b)| json!({"type": "integer", "minimum": a, "maximum": a + b})),
            (-50_i64..50).prop_map(|a| json!({"type": "number", "exclusiveMinimum": a})),
            (-50_i64..50).prop_map(|a| json!({"type": "number", "maximum": a})),
            Just(json!({"type": "boolean"})),
            Just(json!({"type": "null"})),
            prop::collection::vec("[a-z]{1,5}", 1..4).prop_map(|choices| json!({"enum": choices})),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                (inner.clone(), 0_u64..3)
                    .prop_map(|(item, n)| json!({"type": "array", "items": item, "minItems": n})),
                prop::collection::btree_map("[a-z]{1,3}", inner, 0..4).prop_map(|fields| {
                    let required: Vec<&String> = fields.keys().collect();
                    json!({"type": "object", "required": required, "properties": fields,
                        "additionalProperties": false})
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_made_satisfies_its_schema(schema in simple_schema(), words in "[a-z ]{0,60}") {
            let made = value(&schema, &words);
            prop_assert!(jsonschema::is_valid(&schema, &made), "{} for {}", made, schema);
        }
    }
}
