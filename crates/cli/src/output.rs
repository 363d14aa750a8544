//! Output on stdout for people and programs: lines, tables, JSON.
//!
//! Everything goes through [`Out`], which expects that a reader may leave at any time: a closed pipe ends the command
//! quietly.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::exit::{Failure, Result};

/// The way to stdout.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    json: bool,
    width: Option<usize>,
}

impl Out {
    pub fn new(json: bool) -> Self {
        let width = io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
        Self { json, width }
    }

    /// Whether a program reads: then only JSON is written.
    pub fn is_json(&self) -> bool {
        self.json
    }

    pub fn line(&self, text: impl AsRef<str>) -> Result<()> {
        let mut text = text.as_ref().to_owned();
        text.push('\n');
        self.raw(text.as_bytes())
    }

    /// One JSON value: on several lines for people, on one line in a pipe.
    pub fn value(&self, value: &Value) -> Result<()> {
        match self.width {
            Some(_) => self.line(format!("{value:#}")),
            None => self.line(value.to_string()),
        }
    }

    /// A list: a table for people, an array for programs.
    pub fn list(&self, rows: &[Value], columns: &[Column]) -> Result<()> {
        if self.json {
            return self.value(&Value::Array(rows.to_vec()));
        }
        let mut cells = vec![columns.iter().map(|column| column.title.to_owned()).collect::<Vec<_>>()];
        cells.extend(rows.iter().map(|row| columns.iter().map(|column| (column.cell)(row)).collect()));
        self.raw(table(&cells, self.width).as_bytes())
    }

    /// One thing: its fields under each other for people, an object for programs.
    pub fn thing(&self, thing: &Value, fields: &[Column]) -> Result<()> {
        if self.json {
            return self.value(thing);
        }
        let cells: Vec<Vec<String>> = fields
            .iter()
            .map(|field| vec![field.title.to_owned(), (field.cell)(thing)])
            .filter(|pair| !pair[1].is_empty())
            .collect();
        self.raw(table(&cells, self.width).as_bytes())
    }

    pub fn raw(&self, bytes: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::io("cannot write", &error),
        })
    }
}

/// Writes to stderr: advice and progress, which no program reads. A closed stderr is no failure.
pub fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// One column of a list, or one field of a thing.
#[derive(Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    pub cell: fn(&Value) -> String,
}

/// A column by its title and how a row fills it.
pub const fn column(title: &'static str, cell: fn(&Value) -> String) -> Column {
    Column { title, cell }
}

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.title)
    }
}

/// A value for people: text without quotes, nothing for null.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A time to the second: more helps no one in a table.
pub fn time(value: &Value) -> String {
    value.as_str().map(|text| text.get(..19).unwrap_or(text).replace('T', " ")).unwrap_or_default()
}

const GAP: &str = "  ";
/// A narrowed column keeps at least this width.
const COLUMN_MIN: usize = 8;

/// Rows of cells as aligned lines. With a width, the widest columns are cut until the lines fit.
pub fn table(rows: &[Vec<String>], width: Option<usize>) -> String {
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns)
        .map(|at| {
            cells
                .iter()
                .filter_map(|row| row.get(at))
                .map(|c| console::measure_text_width(c))
                .max()
                .unwrap_or(0)
        })
        .collect();
    if let Some(width) = width {
        let room = width.saturating_sub(GAP.len() * columns.saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            let Some(widest) = widths.iter_mut().max() else { break };
            if *widest <= COLUMN_MIN {
                break;
            }
            *widest -= 1;
        }
    }
    let mut out = String::new();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let shown = console::truncate_str(cell, *width, "…");
            let pad = width.saturating_sub(console::measure_text_width(&shown));
            line.push_str(&shown);
            line.extend(std::iter::repeat_n(' ', pad));
            line.push_str(GAP);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Text that stays on its line and cannot control the terminal: titles and messages are others' words.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn columns_stand_under_each_other_whatever_the_script() {
        let shown = table(&rows(&[&["ID", "TITLE"], &["a", "short"], &["längere", "日本語"]]), None);
        assert_eq!(shown, "ID       TITLE\na        short\nlängere  日本語\n");
    }

    #[test]
    fn the_widest_column_gives_way_until_the_line_fits() {
        let long = "x".repeat(50);
        let shown = table(&rows(&[&["id", &long, "end"]]), Some(30));
        assert_eq!(shown.trim_end().chars().count(), 30);
        assert!(shown.starts_with("id  xxx") && shown.contains('…') && shown.trim_end().ends_with("end"));
        assert!(table(&rows(&[&[&long]]), None).contains(&long), "a pipe gets everything");
    }

    #[test]
    fn a_column_that_is_already_narrow_is_left_alone() {
        let shown = table(&rows(&[&["12345678", "12345678"]]), Some(4));
        assert_eq!(shown, "12345678  12345678\n");
    }

    #[test]
    fn no_cell_breaks_the_line_or_steers_the_terminal() {
        assert_eq!(table(&rows(&[&["a\nb\u{1b}[31m\u{9b}", "c"]]), None), "a b [31m   c\n");
    }

    #[test]
    fn values_read_as_people_write_them() {
        assert_eq!(plain(&json!(null)), "");
        assert_eq!(plain(&json!(["a", "b"])), "a, b");
        assert_eq!(plain(&json!({"a": 1})), r#"{"a":1}"#);
        assert_eq!(time(&json!("2026-11-15T22:19:00.123456Z")), "2026-11-15 22:19:00");
        assert_eq!(time(&json!(null)), "");
    }
}
