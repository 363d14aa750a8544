//! Reads TOML files as a type. A misfit is named with its file and its setting, in plain words: the person who writes a
//! file does not know the types that it is read into.

use figment::Figment;
use figment::error::{Actual, Kind};
use figment::providers::{Format, Toml};
use serde::de::DeserializeOwned;

use crate::exit::{Failure, Result};

/// Reads a text as the file of this name.
pub fn read_as<T: DeserializeOwned>(text: &str, place: &str) -> Result<T> {
    Figment::from(Toml::string(text)).extract().map_err(|errors| misfit(errors, place))
}

/// The first of these errors, as a sentence about a place.
pub fn misfit(errors: figment::Error, place: &str) -> Failure {
    let Some(error) = errors.into_iter().next() else {
        return Failure::usage(format!("{place} cannot be used"));
    };
    let mut path = error.path;
    let said = match error.kind {
        Kind::Message(message) => match toml_fault(&message) {
            Some(fault) => return Failure::usage(format!("{place} is no TOML: {fault}")),
            None if message.contains("did not match any variant") => {
                " has none of the forms that are allowed there".to_owned()
            }
            None => format!(": {message}"),
        },
        Kind::InvalidType(given, wanted) | Kind::InvalidValue(given, wanted) => {
            format!(" must be {}, not {}", plain_type(&wanted), plain_value(&given))
        }
        Kind::UnknownVariant(given, known) => format!(" must be {}, not `{given}`", listed(known, "or")),
        Kind::UnknownField(name, known) => {
            if path.last() != Some(&name) {
                path.push(name);
            }
            format!(" is unknown; known are {}", listed(known, "and"))
        }
        Kind::MissingField(name) => {
            path.push(name.into_owned());
            " is required".to_owned()
        }
        other => format!(": {other}"),
    };
    if path.is_empty() {
        return Failure::usage(format!("{place}{said}"));
    }
    Failure::usage(format!("`{}` in {place}{said}", path.join(".")))
}

/// What a TOML parser says, on one line and without the drawing.
fn toml_fault(message: &str) -> Option<String> {
    let (at, rest) = message.strip_prefix("TOML parse error at ")?.split_once('\n')?;
    let is_drawn = |line: &&str| {
        line.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace()).starts_with('|')
    };
    let said: Vec<&str> = rest.lines().filter(|line| !is_drawn(line) && !line.trim().is_empty()).collect();
    Some(format!("{at}: {}", said.join(", ")))
}

fn plain_type(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "bool" | "a boolean" => "true or false",
        "a string" | "a borrowed string" | "path string" => "text",
        "a sequence" => "a list",
        "a map" => "a table",
        wanted if wanted.starts_with("struct ") => "a table",
        wanted => wanted,
    }
}

fn plain_value(given: &Actual) -> String {
    match given {
        Actual::Str(text) => format!("`{text}`"),
        Actual::Bool(flag) => format!("`{flag}`"),
        Actual::Unsigned(number) => format!("`{number}`"),
        Actual::Signed(number) => format!("`{number}`"),
        Actual::Float(number) => format!("`{number}`"),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// "`a`", "`a` or `b`", "`a`, `b` or `c`".
fn listed(names: &[&str], word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only what cannot be read is looked at")]
    struct Shop {
        name: String,
        desks: Option<u32>,
        open: Option<bool>,
        kind: Option<Trade>,
        owner: Option<Owner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Trade {
        Books,
        Tools,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only what cannot be read is looked at")]
    enum Owner {
        Name(String),
        Names(Vec<String>),
    }

    #[test]
    fn what_does_not_fit_is_told_without_the_words_of_a_parser() {
        for (text, said) in [
            ("[shop\n", "shop.toml is no TOML: line 1, column 6: invalid table header, expected `.`, `]`"),
            ("desks = 1", "`name` in shop.toml is required"),
            (
                "name = \"x\"\ndesks = \"many\"",
                "`desks` in shop.toml must be a whole number, 0 or more, not `many`",
            ),
            ("name = \"x\"\nopen = 5", "`open` in shop.toml must be true or false, not `5`"),
            ("name = [1]", "`name` in shop.toml must be text, not a list"),
            ("name = \"x\"\nkind = \"fish\"", "`kind` in shop.toml must be `books` or `tools`, not `fish`"),
            (
                "name = \"x\"\nchairs = 5",
                "`chairs` in shop.toml is unknown; known are `name`, `desks`, `open`, `kind` and `owner`",
            ),
            ("name = \"x\"\nowner = 5", "`owner` in shop.toml has none of the forms that are allowed there"),
        ] {
            let refused = read_as::<Shop>(text, "shop.toml").unwrap_err();
            assert_eq!(refused.sentence(), said, "{text}");
        }
    }
}
