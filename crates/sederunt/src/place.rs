//! Reads a store's address as people write it: a path, `sqlite:PATH`, `memory:` or `postgres://…`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sederunt_core::Error;

/// The store that an address names.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// SQLite databases in a directory.
    Directory(PathBuf),
    /// SQLite databases in memory, gone with their handle.
    Memory,
    /// A PostgreSQL database.
    Postgres(String),
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        let path = text.strip_prefix("sqlite:").unwrap_or(text);
        let path = if path.len() < text.len() { path.strip_prefix("//").unwrap_or(path) } else { path };
        if path.trim().is_empty() {
            return Err(Error::invalid("store", "is empty; name a directory or a `postgres://` address"));
        }
        if path.contains("://") {
            return Err(Error::invalid(
                "store",
                "is none of the known kinds: a directory, `sqlite:PATH`, `memory:`, `postgres://…`",
            ));
        }
        Ok(Self::Directory(path.into()))
    }
}

/// The address without its password, for people to see.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Memory => f.write_str("memory:"),
            Self::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}

fn without_password(url: &str) -> String {
    let (address, options) = url.split_once('?').map_or((url, None), |(a, o)| (a, Some(o)));
    let shown = match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) => {
            let user = rest.split(['@', ':']).next().unwrap_or_default();
            let masked = if rest[..rest.len() - host.len() - 1].contains(':') { ":***" } else { "" };
            format!("{scheme}://{user}{masked}@{host}")
        }
        _ => address.to_owned(),
    };
    let Some(options) = options else { return shown };
    let masked: Vec<String> = options
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((key, _)) if key.contains("password") => format!("{key}=***"),
            _ => pair.to_owned(),
        })
        .collect();
    format!("{shown}?{}", masked.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_store_is_read() {
        let directory = |path: &str| Place::Directory(path.into());
        for (text, place) in [
            ("./.store", directory("./.store")),
            ("/var/lib/sederunt", directory("/var/lib/sederunt")),
            ("sqlite:./.store", directory("./.store")),
            ("sqlite:///var/lib", directory("/var/lib")),
            ("memory:", Place::Memory),
            ("postgres://h/db", Place::Postgres("postgres://h/db".into())),
            ("postgresql://h/db", Place::Postgres("postgresql://h/db".into())),
        ] {
            assert_eq!(text.parse::<Place>().unwrap(), place, "{text}");
        }
        for text in ["", " ", "sqlite:", "mysql://h/db", "sqlite:mysql://x"] {
            assert_eq!(text.parse::<Place>().unwrap_err().code(), "invalid", "{text:?}");
        }
    }

    #[test]
    fn a_place_is_never_shown_with_its_password() {
        for (url, shown) in [
            ("postgres://ada:s3cret@db:5432/x", "postgres://ada:***@db:5432/x"),
            ("postgres://ada:s3c@ret@db/x?sslmode=require", "postgres://ada:***@db/x?sslmode=require"),
            ("postgres://ada@db/x", "postgres://ada@db/x"),
            (
                "postgres:///x?host=/run&user=ada&password=s3cret",
                "postgres:///x?host=/run&user=ada&password=***",
            ),
        ] {
            let place: Place = url.parse().unwrap();
            assert_eq!(place.to_string(), shown);
            assert!(!format!("{place:?}").contains("s3c"));
        }
    }
}
