//! Sederunt's stores: the traits of [`sederunt_core::store::Store`] on SQLite and on PostgreSQL.
//!
//! This crate owns SQL and row mapping and decides nothing about the product: every rule is in `sederunt_core`. The
//! files beside `sqlite` and `postgres` hold what must not differ between the two.

mod filtered_list;
mod message_groups;
pub mod postgres;
mod postings;
pub mod sqlite;
mod title_search;
mod words;
mod work_queue;

use std::time::Duration;

use sederunt_core::Timestamp;
use sederunt_core::feedback::retention_cutoff;

/// The day of an instant in UTC, as `2026-11-16`.
fn day(at: Timestamp) -> String {
    let mut text = at.to_string();
    text.truncate(text.find('T').unwrap_or(text.len()));
    text
}

/// The first instant of a day in UTC.
fn day_start(at: Timestamp) -> Timestamp {
    retention_cutoff(at, Duration::ZERO)
}

/// The part of a text around the first of these words, on one line, as search hits show it.
pub fn snippet(text: &str, words: &[String]) -> String {
    const BEFORE: usize = 40;
    const CHARS: usize = 160;
    let line: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let lower: Vec<char> = line.iter().map(|c| c.to_lowercase().next().unwrap_or(*c)).collect();
    let found = words
        .iter()
        .filter_map(|word| {
            let word: Vec<char> = word.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect();
            (!word.is_empty()).then(|| lower.windows(word.len()).position(|window| window == word)).flatten()
        })
        .min()
        .unwrap_or(0);
    let from = found.saturating_sub(BEFORE);
    let to = (from + CHARS).min(line.len());
    let mut piece = String::new();
    if from > 0 {
        piece.push('…');
    }
    piece.extend(&line[from..to]);
    if to < line.len() {
        piece.push('…');
    }
    piece
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#[path = "../tests/conformance/record_builders.rs"]
mod record_builders;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_first_hit_with_what_stands_around_it() {
        let long = format!("{} needle {}", "hay ".repeat(50), "straw ".repeat(50));
        let words = ["NEEDLE".to_owned()];
        let shown = snippet(&long, &words);
        assert!(shown.contains("needle") && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(snippet("a\n needle", &words), "a needle");
        assert_eq!(snippet("nothing of it", &words), "nothing of it");
        assert_eq!(snippet("", &words), "");
    }
}
