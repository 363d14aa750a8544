//! A type's name can be searched: it means one type in its crate.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Ordinary ideas that a module may have of its own.
const SHARED_IDEAS: &[&str] = &["Error", "Rejection", "Settings"];

#[test]
fn every_type_name_is_unique_in_its_crate() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut duplicates = String::new();
    for name in entries(&crates).iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned)) {
        let source = crates.join(&name).join("src");
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in rust_files(&source) {
            let text = fs::read_to_string(&file).unwrap();
            for (line, defined) in type_names(&text) {
                let place = format!("{}:{line}", file.strip_prefix(&source).unwrap().display());
                found.entry(defined).or_default().push(place);
            }
        }
        assert!(!found.is_empty(), "no type was found in {}", source.display());
        for (defined, places) in found.iter().filter(|(_, places)| places.len() > 1) {
            duplicates.push_str(&format!("\n{name}: {defined} in {}", places.join(", ")));
        }
    }
    assert!(duplicates.is_empty(), "type names that are defined more than once in their crate:{duplicates}");
}

#[test]
fn definitions_are_told_from_associated_types() {
    let text = r#"
pub struct One;
pub(super) enum Two<T> { A(T) }
impl Iterator for One {
    type Item = u8;
}
impl<T> Stream for Two<T>
where
    T: Send,
{
    type Item = T;
}
trait Three {
    type Error;
}
mod tests {
    type Row<'a> = &'a str;
    fn case() {
        struct Four;
    }
}
pub type Error = One;
codes!(Five { A = "a" });
codes!(
    /// A word.
    Six { B = "b" }
);
"#;
    let names: Vec<String> = type_names(text).map(|(_, name)| name).collect();
    assert_eq!(names, ["One", "Two", "Three", "Row", "Four", "Five", "Six"]);
}

/// The types that a file defines, with their lines. The macro `codes!` defines an enum, too.
fn type_names(text: &str) -> impl Iterator<Item = (usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut in_codes = false;
    (0..lines.len()).filter_map(move |n| {
        let mut line = lines[n].trim_start();
        if let Some(rest) = line.strip_prefix("codes!(") {
            (in_codes, line) = (true, rest);
        }
        if in_codes && line.starts_with(char::is_uppercase) {
            in_codes = false;
            return line.split_once(" {").map(|(name, _)| (n + 1, name.to_owned()));
        }
        let rest = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or(rest, |(_, rest)| rest),
            None => rest,
        });
        let (keyword, rest) = rest.trim_start().split_once(' ')?;
        if !["struct", "enum", "trait", "type"].contains(&keyword) {
            return None;
        }
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let is_none = name.is_empty()
            || SHARED_IDEAS.contains(&name.as_str())
            || (keyword == "type" && is_associated(&lines, n));
        (!is_none).then_some((n + 1, name))
    })
}

/// Whether a line belongs to an `impl` or a trait. The code is formatted, so its indentation tells.
fn is_associated(lines: &[&str], n: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outer = lines[..n].iter().rev().find(|line| {
        let text = line.trim_start();
        indent(line) < indent(lines[n]) && !text.is_empty() && text != "{" && text != "where"
    });
    outer.is_some_and(|line| line.split(['<', ' ']).any(|word| word == "impl" || word == "trait"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in entries(folder) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}
