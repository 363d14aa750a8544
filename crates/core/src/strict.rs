//! Reading a caller's JSON as a type: an object, no field that the type does not know, and a misfit
//! is named with its path. The text is canonical already (see [`crate::json`]).

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};

use crate::error::Error;

/// Reads canonical text as an object of this type, or names the field that does not fit.
pub fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    if let Ok(Object(value)) = serde_json::from_str::<Object<T>>(text) {
        return Ok(value);
    }
    // Only a refused body is read again, to learn where it went wrong.
    let mut from = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize::<_, Object<T>>(&mut from) {
        Ok(Object(value)) => Ok(value),
        Err(error) => Err(misfit(&error.path().to_string(), error.inner())),
    }
}

fn misfit(path: &str, error: &serde_json::Error) -> Error {
    let sentence = error.to_string();
    let message = sentence.rsplit_once(" at line ").map_or(sentence.as_str(), |(message, _)| message);
    let inside = |name: &str| if path == "." { name.to_owned() } else { format!("{path}.{name}") };
    let named = |prefix: &str| message.strip_prefix(prefix).and_then(|rest| rest.split('`').next());
    if let Some(name) = named("missing field `") {
        return Error::invalid(inside(name), "is required");
    }
    // The path of an unknown field ends in the field itself.
    if named("unknown field `").is_some() {
        return Error::invalid(path.to_owned(), "is not a field of this request");
    }
    if let Some(name) = named("duplicate field `") {
        return Error::invalid(inside(name), "stands twice, under two names");
    }
    let field = if path == "." { "body".to_owned() } else { path.to_owned() };
    Error::invalid(field, message.to_owned())
}

/// Takes an object and nothing else: by itself serde would take a list of the fields' values too.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_map(Fields(std::marker::PhantomData)).map(Self)
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
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner<'a> {
        n: Option<u32>,
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
            match read::<Outer<'_>>(text) {
                Err(Error::Invalid { field: named, message }) => {
                    assert_eq!(named, field, "{text}: {message}");
                    assert!(!message.contains("line"), "{message}");
                }
                other => panic!("{text}: {other:?}"),
            }
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
