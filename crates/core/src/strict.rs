//! Reads a caller's JSON as a type: it must be an object without unknown fields, and a misfit is named with its
//! path. The text is canonical already (see [`crate::json`]).

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::error::Error;

mod plain;

pub use plain::shortened;

/// The message for a field that a body holds under two of its names.
pub const GIVEN_TWICE: &str = "is given twice: use either the snake_case or the camelCase name";

/// Reads canonical text as an object of this type, or names the field that does not fit.
pub fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    if let Ok(Object(value)) = serde_json::from_str::<Object<T>>(text) {
        return Ok(value);
    }
    // Only a refused body is read again, to learn where it went wrong.
    let mut from = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize::<_, Object<T>>(&mut from) {
        Ok(Object(value)) => Ok(value),
        Err(error) => Err(misfit::<T>(text, error.path(), &error.inner().to_string())),
    }
}

fn misfit<'de, T: Deserialize<'de>>(text: &str, path: &Path, sentence: &str) -> Error {
    let message = sentence.rsplit_once(" at line ").map_or(sentence, |(message, _)| message);
    let at = path.to_string();
    let at = if at == "." { "" } else { at.as_str() };
    let inside = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let named = |prefix: &str| message.strip_prefix(prefix).and_then(|rest| rest.split('`').next());
    if let Some(name) = named("missing field `") {
        return Error::invalid(inside(name), "is required");
    }
    if message.starts_with("unknown field `")
        && let Some((name, known)) = plain::unknown_name(message)
    {
        // The path ends in the unknown field itself, unless the object was read from a copy.
        let ends = matches!(path.iter().next_back(), Some(Segment::Map { key }) if key == name);
        let field = if ends { at.to_owned() } else { inside(name) };
        let advice = plain::alike(name, &known).map(|known| format!("; did you mean `{known}`?"));
        return Error::invalid(
            field,
            format!("is not a field of this request{}", advice.unwrap_or_default()),
        );
    }
    if let Some(name) = named("duplicate field `") {
        return Error::invalid(inside(name), GIVEN_TWICE);
    }
    let field = if at.is_empty() { "body".to_owned() } else { at.to_owned() };
    let names = (message == "expected value").then(|| names_at::<T>(path)).flatten();
    let message = match names {
        Some(names) => {
            let given = value_at(text, path).map(|given| format!(", not {}", plain::shown(&given)));
            format!("must be {names}{}", given.unwrap_or_default())
        }
        None => plain::predicate(message),
    };
    Error::invalid(field, message)
}

/// The names that are allowed at a place where something other than a name was given. Serde lists
/// them only for a name that it does not know, so it is asked with such a name and nothing else.
fn names_at<'de, T: Deserialize<'de>>(path: &Path) -> Option<String> {
    const UNKNOWN: &str = "\u{1}";
    let mut body = Value::from(UNKNOWN);
    let segments: Vec<&Segment> = path.iter().collect();
    for segment in segments.into_iter().rev() {
        body = match segment {
            Segment::Seq { .. } => Value::from(vec![body]),
            Segment::Map { key } => Value::from_iter([(key.clone(), body)]),
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    let error = T::deserialize(body).err()?.to_string();
    let (given, names) = plain::unknown_name(&error)?;
    (given == UNKNOWN).then(|| plain::one_of(&names))
}

fn value_at(text: &str, path: &Path) -> Option<Value> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    for segment in path.iter() {
        value = match segment {
            Segment::Seq { index } => value.get_mut(*index)?.take(),
            Segment::Map { key } => value.get_mut(key)?.take(),
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    Some(value)
}

/// Takes an object and nothing else: by itself serde would take a list of the fields' values too.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_map(ObjectVisitor(std::marker::PhantomData)).map(Self)
    }
}

/// Tells a field that was given as `null` from one that was not given.
pub fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer<'a> {
        name: String,
        #[serde(alias = "taskId")]
        task_id: Option<String>,
        #[serde(borrow, default)]
        inner: Vec<Object<Inner<'a>>>,
        #[serde(default, deserialize_with = "given")]
        title: Option<Option<String>>,
        #[expect(dead_code, reason = "read and not used")]
        mood: Option<Mood>,
        #[serde(default)]
        #[expect(dead_code, reason = "read and not used")]
        fields: FieldNames,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mood {
        Calm,
        Cross,
        VerySad,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(untagged, expecting = "must be a list of names, or an object of names")]
    enum FieldNames {
        #[default]
        None,
        Names(#[expect(dead_code, reason = "read and not used")] Vec<String>),
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner<'a> {
        n: Option<u32>,
        #[expect(dead_code, reason = "read and not used")]
        mood: Option<Mood>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
    }

    #[test]
    fn a_misfit_is_named_with_its_path() {
        let table = [
            (r#"{}"#, "name"),
            (r#"[]"#, "body"),
            (r#"["x"]"#, "body"),
            (r#"5"#, "body"),
            (r#"{"name":"x","y":1}"#, "y"),
            (r#"{"name":5}"#, "name"),
            (r#"{"name":null}"#, "name"),
            (r#"{"name":"x","task_id":"a","taskId":"b"}"#, "task_id"),
            (r#"{"name":"x","inner":[{"n":1},{"n":"2"}]}"#, "inner[1].n"),
            (r#"{"name":"x","inner":[{"n":-1}]}"#, "inner[0].n"),
            (r#"{"name":"x","inner":[{"m":1}]}"#, "inner[0].m"),
            (r#"{"name":"x","inner":[[1]]}"#, "inner[0]"),
            (r#"{"name":"x","inner":{}}"#, "inner"),
        ];
        for (text, field) in table {
            assert_plain(text);
            match read::<Outer<'_>>(text) {
                Err(Error::Invalid { field: named, message }) => {
                    assert_eq!(named, field, "{text}: {message}");
                    assert!(!message.contains("line"), "{message}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    fn assert_plain(text: &str) {
        let said = read::<Outer<'_>>(text).unwrap_err().to_string();
        for word in ["variant", "untagged", "invalid type", "expected", "struct", "enum", "u32"] {
            assert!(!said.contains(word), "{text}: {said}");
        }
    }

    #[test]
    fn a_misfit_is_told_in_plain_words() {
        let table = [
            (r#"[]"#, "the body must be an object, not a list"),
            (r#"5"#, "the body must be an object, not `5`"),
            (r#"{}"#, "`name` is required"),
            (r#"{"name":5}"#, "`name` must be text, not `5`"),
            (r#"{"name":"x","mood":"banana"}"#, "`mood` must be calm, cross or very_sad, not `banana`"),
            (r#"{"name":"x","mood":5}"#, "`mood` must be calm, cross or very_sad, not `5`"),
            (r#"{"name":"x","mood":[]}"#, "`mood` must be calm, cross or very_sad, not a list"),
            (
                r#"{"name":"x","inner":[{"raw":1},{"mood":true}]}"#,
                "`inner[1].mood` must be calm, cross or very_sad, not `true`",
            ),
            (r#"{"name":"x","fields":5}"#, "`fields` must be a list of names, or an object of names"),
            (
                r#"{"name":"x","task-id":"t"}"#,
                "`task-id` is not a field of this request; did you mean `taskId`?",
            ),
            (r#"{"name":"x","y":1}"#, "`y` is not a field of this request"),
            (
                r#"{"name":"x","task_id":"a","taskId":"b"}"#,
                "`task_id` is given twice: use either the snake_case or the camelCase name",
            ),
            (
                r#"{"name":"x","inner":[{"n":-1}]}"#,
                "`inner[0].n` must be a whole number from 0 to 4294967295, not `-1`",
            ),
        ];
        for (text, said) in table {
            assert_eq!(read::<Outer<'_>>(text).unwrap_err().to_string(), said, "{text}");
            assert_plain(text);
        }
    }

    #[test]
    fn aliases_borrowed_text_and_nulls_are_read() {
        let outer: Outer<'_> =
            read(r#"{"name":"x","taskId":"t","inner":[{"raw":{"a":[1.50]}}],"title":null}"#).unwrap();
        assert_eq!((outer.name.as_str(), outer.task_id.as_deref()), ("x", Some("t")));
        assert_eq!(outer.inner[0].0.raw.unwrap().get(), r#"{"a":[1.50]}"#);
        assert_eq!(outer.inner[0].0.n, None);
        assert_eq!(outer.title, Some(None));
        assert_eq!(read::<Outer<'_>>(r#"{"name":"x"}"#).unwrap().title, None);
    }
}
