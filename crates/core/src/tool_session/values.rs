//! The values of a tool: checked against its schema while they are filled in and as a whole, and made of other values for
//! a step. Pure.

use serde_json::{Map, Value, json};

use crate::definitions::ToolDefinition;
use crate::definitions::tool::ValueSource;
use crate::error::{Error, Result};
use crate::ids::check_name;
use crate::json::Json;
use crate::json_schema::JsonSchema;
use crate::limits;

/// Keywords of a schema that ask whether all values are there: a form that is being filled in may lack some.
const ASKS_FOR_MORE: [&str; 11] = [
    "required", "minProperties", "dependentRequired", "dependentSchemas", "dependencies", "allOf", "anyOf",
    "oneOf", "not", "if", "unevaluatedProperties",
];

/// The schemas of a tool's values, as they are checked: complete, and while they are filled in.
#[derive(Clone, Debug)]
pub struct ValueSchemas {
    pub whole: Json,
    pub draft: Json,
}

impl ValueSchemas {
    /// In both, a property for a secret takes the name of one.
    pub fn of(tool: &ToolDefinition) -> Result<Self> {
        let mut whole = tool.input_schema.value();
        for name in tool.secret_fields() {
            whole["properties"][name] = json!({
                "type": "object", "properties": {"secret": {"type": "string", "minLength": 1}},
                "required": ["secret"], "additionalProperties": false,
            });
        }
        let mut draft = whole.clone();
        if let Some(fields) = draft.as_object_mut() {
            ASKS_FOR_MORE.iter().for_each(|keyword| drop(fields.remove(*keyword)));
        }
        Ok(Self { whole: Json::of(&whole)?, draft: Json::of(&draft)? })
    }
}

/// Checks values that are being filled in: names, types and sizes. `null` clears a value and is not looked at.
pub fn check_draft(tool: &ToolDefinition, values: &Json) -> Result<()> {
    check_fields(tool, values)?;
    let given = values.fields();
    let given = given.iter().filter(|(_, value)| value.as_str() != "null");
    let given = Json::object(given.map(|(key, value)| (key.as_str(), value)));
    check_by(&ValueSchemas::of(tool)?.draft, &given)
}

/// Checks values as a whole.
pub fn check_whole(tool: &ToolDefinition, values: &Json) -> Result<()> {
    check_fields(tool, values)?;
    check_by(&ValueSchemas::of(tool)?.whole, values)
}

/// Refuses values that are no object or too large, and secrets that are given by their value.
fn check_fields(tool: &ToolDefinition, values: &Json) -> Result<()> {
    if !values.is_object() {
        return Err(Error::invalid("values", "must be an object"));
    }
    if values.len() > limits::TOOL_VALUES_BYTES_MAX {
        return Err(Error::invalid(
            "values",
            format!("must be at most {} bytes", limits::TOOL_VALUES_BYTES_MAX),
        ));
    }
    let secrets = tool.secret_fields();
    for (key, value) in values.fields() {
        let place = format!("values.{key}");
        check_name("values", &key.replace('/', "."))?;
        if value.len() > limits::TOOL_FIELD_BYTES_MAX {
            let rule = format!("must be at most {} bytes", limits::TOOL_FIELD_BYTES_MAX);
            return Err(Error::invalid(place, rule));
        }
        if secrets.contains(&key) && value.as_str() != "null" && secret_name(&value).is_none() {
            // The sentence never repeats what was given.
            let rule = "must name a secret of the server's configuration: `{\"secret\": \"NAME\"}`";
            return Err(Error::invalid(place, rule));
        }
    }
    Ok(())
}

fn check_by(schema: &Json, values: &Json) -> Result<()> {
    let compiled =
        JsonSchema::compile(schema).map_err(|fault| Error::invalid("input_schema", fault.to_string()))?;
    let complaints = compiled.placed_violations(&values.value(), limits::COMPLAINTS_MAX);
    let Some((pointer, _)) = complaints.first() else { return Ok(()) };
    let field = format!("values{}", pointer.replace('/', "."));
    let complaints = complaints
        .into_iter()
        .map(|(pointer, sentence)| format!("values{}: {sentence}", pointer.replace('/', ".")))
        .collect();
    Err(Error::ValuesInvalid { field, complaints })
}

/// The secret that a value names.
pub fn secret_name(value: &Json) -> Option<String> {
    let fields = value.fields();
    match &fields[..] {
        [(key, name)] if key == "secret" => name.read().ok().filter(|name: &String| !name.is_empty()),
        _ => None,
    }
}

/// The secrets that the values name.
pub fn secrets_named(tool: &ToolDefinition, values: &Json) -> Vec<(String, String)> {
    let fields = tool.secret_fields();
    let values = values.fields().into_iter().filter(|(key, _)| fields.contains(key));
    values.filter_map(|(key, value)| Some((key, secret_name(&value)?))).collect()
}

/// The values of a step: every `$from` in its input replaced by what it points to.
pub fn resolved(input: &Json, values: &Json, results: &[(String, Json)]) -> Result<Json> {
    let values = values.value();
    let results: Map<String, Value> =
        results.iter().map(|(key, result)| (key.clone(), result.value())).collect();
    Json::of(&filled(input.value(), &values, &results)?)
}

fn filled(value: Value, values: &Value, results: &Map<String, Value>) -> Result<Value> {
    if let Some(text) = ValueSource::text_in(&value) {
        let found = match ValueSource::parse(text) {
            Some(ValueSource::Values(pointer)) => values.pointer(pointer),
            Some(ValueSource::Result { step, pointer }) => {
                results.get(&step).and_then(|result| result.pointer(pointer))
            }
            None => None,
        };
        return found.cloned().ok_or_else(|| {
            Error::invalid("$from", format!("there is nothing at `{text}`, which a step takes a value from"))
        });
    }
    Ok(match value {
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| filled(item, values, results)).collect::<Result<_>>()?)
        }
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(key, field)| Ok((key, filled(field, values, results)?)))
                .collect::<Result<_>>()?,
        ),
        plain => plain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn tool() -> ToolDefinition {
        json(
            r#"{"slug":"t","name":"T","run":{"type":"http","url":"https://example.org/"},"input_schema":{
                "type":"object","required":["a","k"],"additionalProperties":false,"properties":{"a":{"type":"string"},
                "n":{"type":"integer"},"o":{"type":"object","properties":{"p":{"type":"integer"}}},
                "k":{"type":"string","writeOnly":true}}}}"#,
        )
        .read()
        .unwrap()
    }

    fn field(outcome: Result<()>) -> String {
        match outcome {
            Ok(()) => "ok".to_owned(),
            Err(Error::Invalid { field, .. }) => field.into_owned(),
            Err(Error::ValuesInvalid { field, .. }) => field,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_checked_while_they_are_filled_in_and_as_a_whole() {
        for (values, draft, whole) in [
            (r#"{}"#, "ok", "values"),
            (r#"{"a":"x"}"#, "ok", "values"),
            (r#"{"a":"x","k":{"secret":"crm"}}"#, "ok", "ok"),
            (r#"{"a":5,"k":{"secret":"crm"}}"#, "values.a", "values.a"),
            (r#"{"a":"x","k":{"secret":"crm"},"o":{"p":"x"}}"#, "values.o.p", "values.o.p"),
            (r#"{"k":{"secret":"crm"}}"#, "ok", "values.a"),
            (r#"{"z":1}"#, "values.z", "values"),
            (r#"{"a":null,"k":{"secret":"crm"}}"#, "ok", "values.a"),
            (r#"{"k":"s3cret"}"#, "values.k", "values.k"),
            (r#"{"k":{"secret":5}}"#, "values.k", "values.k"),
            (r#"{"k":{"secret":"a","more":1}}"#, "values.k", "values.k"),
            (r#"[]"#, "values", "values"),
        ] {
            let values = json(values);
            assert_eq!(field(check_draft(&tool(), &values)), draft, "{values:?}");
            let complained = field(check_whole(&tool(), &values));
            assert!(complained.starts_with(whole), "{values:?}: {complained}");
        }
        let shown = check_whole(&tool(), &json(r#"{"k":"s3cret"}"#)).unwrap_err().to_string();
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn values_one_past_their_bounds_are_refused() {
        let text = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 2));
        assert_eq!(field(check_draft(&tool(), &json(&text(limits::TOOL_FIELD_BYTES_MAX)))), "ok");
        assert_eq!(field(check_draft(&tool(), &json(&text(limits::TOOL_FIELD_BYTES_MAX + 1)))), "values.a");
        let any = ToolDefinition { input_schema: json(r#"{"type":"object"}"#), ..tool() };
        let many = |bytes: usize| {
            let mut fields: Vec<String> =
                (0..6).map(|n| format!(r#""k{n}":"{}""#, "x".repeat(10_000))).collect();
            let rest = bytes - (fields.join(",").len() + r#"{,"z":""}"#.len());
            fields.push(format!(r#""z":"{}""#, "x".repeat(rest)));
            json(&format!("{{{}}}", fields.join(",")))
        };
        assert_eq!(many(limits::TOOL_VALUES_BYTES_MAX).len(), limits::TOOL_VALUES_BYTES_MAX);
        assert_eq!(field(check_draft(&any, &many(limits::TOOL_VALUES_BYTES_MAX))), "ok");
        assert_eq!(field(check_draft(&any, &many(limits::TOOL_VALUES_BYTES_MAX + 1))), "values");
    }

    #[test]
    fn at_most_ten_complaints_are_listed() {
        let properties: Vec<String> = (0..12).map(|n| format!(r#""f{n}":{{"type":"integer"}}"#)).collect();
        let schema = format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","));
        let tool = ToolDefinition { input_schema: json(&schema), ..tool() };
        let values: Vec<String> = (0..12).map(|n| format!(r#""f{n}":"x""#)).collect();
        match check_whole(&tool, &json(&format!("{{{}}}", values.join(",")))) {
            Err(Error::ValuesInvalid { field, complaints }) => {
                assert_eq!((field.as_str(), complaints.len()), ("values.f0", limits::COMPLAINTS_MAX));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_step_takes_its_values_from_the_form_and_from_other_steps() {
        let input = json(
            r#"{"a":{"$from":"/values/x"},"b":[{"$from":"/steps/s/result/y/0"}],"c":5,"d":{"$from":1}}"#,
        );
        let (values, results) = (json(r#"{"x":"1"}"#), [("s".to_owned(), json(r#"{"y":[true]}"#))]);
        let made = resolved(&input, &values, &results).unwrap();
        assert_eq!(made.value(), json!({"a": "1", "b": [true], "c": 5, "d": {"$from": 1}}));
        for nowhere in [r#"{"a":{"$from":"/values/z"}}"#, r#"{"a":{"$from":"/steps/s/result/z"}}"#] {
            assert_eq!(field(resolved(&json(nowhere), &values, &results).map(drop)), "$from");
        }
    }
}
