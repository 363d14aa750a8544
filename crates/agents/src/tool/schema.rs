//! Schemas of arguments: [`sederunt_core::json_schema`] with what providers require of a tool's schema.

use std::sync::Arc;

use sederunt_core::json::Json;
use sederunt_core::json_schema::JsonSchema;
use sederunt_core::limits::TOOL_SCHEMA_BYTES_MAX;
use serde_json::Value;

use super::BadTool;
use crate::limits;

/// A schema that is ready to be used.
#[derive(Debug)]
pub struct Schema(Arc<JsonSchema>);

impl Schema {
    /// Reads the schema of the tool of this name.
    pub fn parse(name: &str, schema: &Json) -> Result<Self, BadTool> {
        let bad = |what: String| BadTool::Schema { name: name.to_owned(), what };
        if schema.len() > TOOL_SCHEMA_BYTES_MAX {
            return Err(BadTool::SchemaTooLarge { name: name.to_owned(), limit: TOOL_SCHEMA_BYTES_MAX });
        }
        // Providers refuse a schema without `type: object`.
        if schema.value()["type"] != "object" {
            return Err(bad("its type must be `object`".to_owned()));
        }
        JsonSchema::compile(schema).map(Self).map_err(|fault| bad(fault.to_string()))
    }

    /// What is wrong with a value; empty if it fits. Says where, and never repeats the value.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        let (mut problems, more) = self.0.violations(value, limits::PROBLEMS_MAX);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(value: &Value) -> Result<Schema, BadTool> {
        Schema::parse("t", &Json::of(value).unwrap())
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused_when_it_is_read() {
        let cases = [
            json!([]),
            json!({}),
            json!({"type": "string"}),
            json!({"type": ["object", "null"]}),
            json!({"type": "object", "properties": 7}),
            json!({"type": "object", "required": "all"}),
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.org/other.json"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/missing"}}}),
            json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
            json!({"type": "object", "properties": {"a": {"pattern": "(?:a{1000}){1000}"}}}),
        ];
        for case in cases {
            assert!(
                matches!(schema(&case), Err(BadTool::Schema { .. })),
                "{case}: {:?}",
                schema(&case).err()
            );
        }
        let large = json!({"type": "object", "description": "x".repeat(TOOL_SCHEMA_BYTES_MAX)});
        assert!(matches!(schema(&large), Err(BadTool::SchemaTooLarge { .. })));
    }

    #[test]
    fn problems_say_where_and_not_what() {
        let schema = schema(&json!({
            "type": "object",
            "required": ["n"],
            "properties": {"n": {"type": "integer"}, "s": {"enum": ["a"]}},
            "additionalProperties": false,
        }))
        .unwrap();
        assert!(schema.problems(&json!({"n": 1, "s": "a"})).is_empty());
        let problems = schema.problems(&json!({"n": "secret words"}));
        assert_eq!(problems, ["/n: value is not of type \"integer\""]);
        assert_eq!(schema.problems(&json!({"s": "secret", "x": 1})).len(), 3);
    }

    #[test]
    fn only_the_first_problems_are_listed() {
        let schema = schema(&json!({"type": "object", "additionalProperties": {"type": "null"}})).unwrap();
        let many: serde_json::Map<String, Value> = (0..9).map(|n| (format!("f{n}"), json!(n))).collect();
        let problems = schema.problems(&Value::Object(many));
        assert_eq!(problems.len(), limits::PROBLEMS_MAX + 1);
        assert_eq!(problems.last().unwrap(), "and 4 more");
    }
}
