//! Rewords what serde says about a value, so that a caller of the API understands it. Callers never read serde's own
//! sentences: they name Rust's types ("untagged enum", "struct", "u32").

use serde_json::Value;

/// How much of a refused value is repeated to the caller.
const SHOWN_CHARS_MAX: usize = 60;

/// Serde's sentence about a value, as a predicate: "must be text, not `5`". A sentence that is not serde's was
/// written by this product and is returned as it is.
pub fn predicate(message: &str) -> String {
    if let Some((given, names)) = unknown_name(message) {
        return format!("must be {}, not `{}`", one_of(&names), shortened(given));
    }
    if let Some(rest) =
        message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))
        && let Some((given, expected)) = rest.rsplit_once(", expected ")
    {
        return match value(given) {
            Some(given) => format!("{}, not {given}", wanted(expected)),
            None => wanted(expected),
        };
    }
    if let Some(rest) = message.strip_prefix("invalid length ")
        && let Some((length, expected)) = rest.split_once(", expected ")
    {
        return format!("{}, not {length} of them", wanted(expected));
    }
    if message.contains("did not match any variant") {
        return "has none of the shapes that are allowed here".to_owned();
    }
    match message {
        "number out of range" => "is a number that is too large to keep".to_owned(),
        "expected value" => "has the wrong type".to_owned(),
        "recursion limit exceeded" => "is nested too deeply".to_owned(),
        other => other.to_owned(),
    }
}

/// The name that serde did not know, and the names that it knows.
pub fn unknown_name(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest =
        message.strip_prefix("unknown variant `").or_else(|| message.strip_prefix("unknown field `"))?;
    let (given, expected) =
        rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no "))?;
    Some((given, expected.split('`').skip(1).step_by(2).collect()))
}

/// The name among the known ones that differs from this one only in case, `_` and `-`.
pub fn alike<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = |name: &str| -> String {
        name.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
    };
    let given = folded(given);
    known.iter().find(|name| folded(name) == given).copied()
}

/// "a", "a or b", "a, b or c".
pub fn one_of(names: &[&str]) -> String {
    match names {
        [] => "left out".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// A value of the wrong type, as it is repeated to the caller.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("`{}`", shortened(text)),
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
    }
}

/// What serde expected, beginning with "must".
fn wanted(expected: &str) -> String {
    if expected.starts_with("must ") {
        return expected.to_owned();
    }
    let what = match expected {
        "a string" | "string" | "str" | "a borrowed string" | "a character" => "text",
        "a boolean" => "true or false",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" | "null" => "null",
        "any valid JSON value" => "a JSON value",
        _ if expected.starts_with("a nonzero ") => "a whole number, 1 or more",
        _ if expected.starts_with("struct ") || expected.contains("tagged enum") => "an object",
        _ if expected.starts_with("tuple ") || expected.starts_with("an array of length") => "a list",
        _ if expected.contains("identifier") => "a name",
        _ if expected.starts_with("enum ") => "one of the names that are allowed here",
        other => other,
    };
    format!("must be {what}")
}

/// The value as serde described it, unless it has only Rust's words for it.
fn value(given: &str) -> Option<String> {
    for kind in ["integer ", "floating point ", "boolean ", "character "] {
        if let Some(value) = given.strip_prefix(kind) {
            return Some(value.to_owned());
        }
    }
    if let Some(text) = given.strip_prefix("string ") {
        let text = serde_json::from_str::<String>(text).unwrap_or_else(|_| text.trim_matches('"').to_owned());
        return Some(format!("`{}`", shortened(&text)));
    }
    match given {
        "null" | "unit value" => Some("null".to_owned()),
        "sequence" => Some("a list".to_owned()),
        "map" => Some("an object".to_owned()),
        _ => None,
    }
}

/// The beginning of what a caller wrote, for a sentence that names it.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_says_becomes_a_plain_sentence() {
        let table = [
            ("unknown variant `banana`, expected one of `a`, `b`, `c`", "must be a, b or c, not `banana`"),
            ("unknown variant `x`, expected `a` or `b`", "must be a or b, not `x`"),
            ("unknown variant `x`, expected `a`", "must be a, not `x`"),
            ("unknown variant `a`, expected b`, expected `c`", "must be c, not `a`, expected b`"),
            (
                "invalid type: string \"5\", expected u32",
                "must be a whole number from 0 to 4294967295, not `5`",
            ),
            ("invalid value: integer `-1`, expected u64", "must be a whole number, 0 or more, not `-1`"),
            ("invalid type: integer `5`, expected a string", "must be text, not `5`"),
            ("invalid type: floating point `1.5`, expected i64", "must be a whole number, not `1.5`"),
            ("invalid type: null, expected a string", "must be text, not null"),
            ("invalid type: sequence, expected an object", "must be an object, not a list"),
            ("invalid type: map, expected a sequence", "must be a list, not an object"),
            ("invalid type: map, expected struct Output", "must be an object, not an object"),
            ("invalid type: newtype struct, expected a boolean", "must be true or false"),
            ("invalid type: string \"a\\\"b\", expected f64", "must be a number, not `a\"b`"),
            (
                "invalid type: string \"x\", expected internally tagged enum Condition",
                "must be an object, not `x`",
            ),
            ("invalid length 3, expected a tuple of size 2", "must be a tuple of size 2, not 3 of them"),
            (
                "data did not match any variant of untagged enum FieldMap",
                "has none of the shapes that are allowed here",
            ),
            ("number out of range", "is a number that is too large to keep"),
            ("must be a list of names, or an object", "must be a list of names, or an object"),
            ("must be at most 5", "must be at most 5"),
        ];
        for (said, plain) in table {
            assert_eq!(predicate(said), plain, "{said}");
        }
    }

    #[test]
    fn a_long_value_is_cut_where_it_is_repeated() {
        let said = format!("unknown variant `{}`, expected `a`", "é".repeat(500));
        assert_eq!(predicate(&said), format!("must be a, not `{}…`", "é".repeat(SHOWN_CHARS_MAX)));
    }

    #[test]
    fn a_name_in_another_case_is_recognised() {
        assert_eq!(alike("session_id", &["taskId", "sessionId"]), Some("sessionId"));
        assert_eq!(alike("SessionID", &["session_id"]), Some("session_id"));
        assert_eq!(alike("session", &["session_id"]), None);
    }
}
