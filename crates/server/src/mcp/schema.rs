//! JSON Schemas of tools' arguments and results, from the same descriptions as the OpenAPI document.

use rmcp::model::JsonObject;
use sederunt_api::wire::error::Envelope;
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

const THERE: &str = "#/components/schemas/";
const HERE: &str = "#/$defs/";

/// The schema of a tool's arguments, with everything that it refers to inside.
pub fn of_arguments<T: ToSchema>() -> JsonObject {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let mut schema = whole(json!(T::schema()), parts);
    // Some clients need it even where there are no arguments.
    schema.entry("properties").or_insert_with(|| json!({}));
    schema
}

/// The schema of a tool's answer: its result, or a refusal. Some clients check both against it.
pub fn of_answer<T: ToSchema>() -> JsonObject {
    let mut parts = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut parts);
    parts.push((Envelope::name().into_owned(), Envelope::schema()));
    Envelope::schemas(&mut parts);
    let reference = |name: &str| json!({ "$ref": format!("{THERE}{name}") });
    let either = [reference(&T::name()), reference(&Envelope::name())];
    whole(json!({ "type": "object", "anyOf": either }), parts)
}

fn whole(mut schema: Value, parts: Vec<(String, RefOr<Schema>)>) -> JsonObject {
    let parts: JsonObject = parts.into_iter().map(|(name, part)| (name, json!(part))).collect();
    if !parts.is_empty() {
        schema["$defs"] = Value::Object(parts);
    }
    move_references(&mut schema);
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}

/// Points references to the new place of the parts.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get_mut("$ref")
                && let Some(name) = to.strip_prefix(THERE)
            {
                *to = format!("{HERE}{name}");
            }
            fields.values_mut().for_each(move_references);
        }
        Value::Array(items) => items.iter_mut().for_each(move_references),
        _ => {}
    }
}
