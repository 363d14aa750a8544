//! Finding words: what a query looks like to the full-text index, and pages of hits.

use std::fmt::Write as _;

use rusqlite::{Connection, params};
use sederunt_core::ids::SessionId;
use sederunt_core::limits;
use sederunt_core::session::query::{Eyes, Page};
use sederunt_core::store::{Hit, SearchQuery};

use super::sessions;
use crate::snippet;
use crate::words::words_of;

/// All words, each as the beginning of one. They are letters and digits alone, so nothing in them can be an operator.
/// `None` if there is nothing to look for.
pub(super) fn matching(words: &[String]) -> Option<String> {
    let words = words.iter().map(|word| words_of(word)).collect::<String>();
    let words: Vec<String> = words.split_ascii_whitespace().map(|word| format!("\"{word}\" *")).collect();
    (!words.is_empty()).then(|| words.join(" AND "))
}

/// What a document is found by: whose it is, and its words.
pub(super) fn bag(tk: i64, sk: i64, text: &str) -> String {
    let mut bag = words_of(text);
    // Writing into a string does not fail.
    let _ = write!(bag, "§t{tk} §s{sk}");
    bag
}

pub(super) fn within_tenant(tk: i64, matching: &str) -> String {
    format!("\"§t{tk}\" AND {matching}")
}

/// A page of hits, newest first. It ends at the limit, or after so many hits that the caller may
/// not see that going on is the next call's work.
pub(super) fn find(db: &Connection, tk: i64, query: &SearchQuery) -> rusqlite::Result<Page<Hit, i64>> {
    let mut items = Vec::new();
    let Some(matching) = matching(&query.words) else { return Ok(Page { items, next: None }) };
    let mut statement = db.prepare_cached(
        "SELECT w.rowid, d.sk, d.seq, d.text, h.id, h.holder, h.claim_credential \
         FROM search.words w CROSS JOIN search.docs d ON d.doc = w.rowid \
         CROSS JOIN session_heads h ON h.sk = d.sk AND h.tk = ?2 \
         WHERE w.words MATCH ?1 AND w.rowid < ?3 ORDER BY w.rowid DESC",
    )?;
    let before = query.after.unwrap_or(i64::MAX);
    let mut rows = statement.query(params![within_tenant(tk, &matching), tk, before])?;
    let mut last = None;
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        if items.len() == query.limit.min(limits::PAGE_ROWS_MAX) || looked_at == limits::PAGE_SCAN_MAX {
            return Ok(Page { items, next: last });
        }
        looked_at += 1;
        last = Some(row.get(0)?);
        let id = row.get_ref(4)?.as_str()?;
        let seen = match &query.seen_by {
            None => true,
            Some(Eyes::Participant(user)) => {
                row.get_ref(5)?.as_str_or_null()? == Some(user.as_str())
                    || sessions::participates(db, row.get(1)?, user)?
            }
            Some(Eyes::Claims(credential)) => row.get_ref(6)?.as_str_or_null()? == Some(credential.as_str()),
            Some(Eyes::Prefix(prefix)) => !prefix.is_empty() && id.starts_with(prefix.as_str()),
        };
        if seen {
            items.push(Hit {
                session: SessionId::stored(id),
                sequence: Some(row.get::<_, i64>(2)?.cast_unsigned()).filter(|sequence| *sequence > 0),
                snippet: snippet(row.get_ref(3)?.as_str()?, &query.words),
            });
        }
    }
    Ok(Page { items, next: None })
}
