//! Full-text search: how documents and queries are written for FTS5, and pages of hits.

use std::collections::HashSet;
use std::fmt::Write as _;

use foldhash::fast::RandomState;
use futures_util::FutureExt as _;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::TenantId;
use sederunt_core::limits;
use sederunt_core::session::query::{Page, Visibility};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::store::{HitSession, SearchHit, SearchQuery, SearchStore, StoreFuture};

use super::fault::unknown_word;
use super::{SqliteStore, sessions};
use crate::message_groups::{HitPage, MessageGroup};
use crate::words::{SearchTerms, each_word};

/// The query for all words, each as a prefix. Words are letters and digits only, so none of them can be an operator.
pub(super) fn matching(terms: &SearchTerms) -> String {
    let words: Vec<String> = terms.words().iter().map(|word| format!("\"{word}\" *")).collect();
    words.join(" AND ")
}

/// The text that is indexed for a document: the words of its texts, each once, and its tenant and session.
pub(super) fn indexed_words<'t>(tk: i64, sk: i64, texts: impl Iterator<Item = &'t str>) -> String {
    let mut bag = String::new();
    let mut known: HashSet<String, RandomState> = HashSet::default();
    for text in texts {
        each_word(text, |word| {
            if !known.contains(word) {
                known.insert(word.to_owned());
                bag.push_str(word);
                bag.push(' ');
            }
        });
    }
    // Writing into a string does not fail.
    let _ = write!(bag, "§t{tk} §s{sk}");
    bag
}

/// The texts of a document in one string, and where to cut it.
pub(super) fn concatenated(group: &MessageGroup) -> (String, String) {
    let (mut cuts, mut texts) = (String::new(), String::new());
    for said in &group.texts {
        let _ = write!(cuts, "{}:{} ", said.seq - group.first, said.text.len());
        texts.push_str(&said.text);
    }
    (cuts, texts)
}

/// The texts of a document, each with its position. Damaged cuts give none.
pub(super) fn cut<'t>(cuts: &'t str, text: &'t str) -> impl DoubleEndedIterator<Item = (i64, &'t str)> {
    let mut at = 0;
    let mut pieces = Vec::new();
    for one in cuts.split_ascii_whitespace() {
        let piece = one.split_once(':').and_then(|(place, bytes)| {
            let end = at + bytes.parse::<usize>().ok()?;
            let piece = (place.parse().ok()?, text.get(at..end)?);
            at = end;
            Some(piece)
        });
        pieces.extend(piece);
    }
    pieces.into_iter()
}

/// Adds the SQL function that says whether all words are in one text of a document.
pub(super) fn add_functions(db: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    db.create_scalar_function("said_at_once", 3, flags, |context| {
        let terms = context.get_or_create_aux(2, |value| {
            let words: Vec<String> = value.as_str()?.split_ascii_whitespace().map(str::to_owned).collect();
            Ok::<_, rusqlite::types::FromSqlError>(SearchTerms::of(&words))
        })?;
        let (cuts, text) = (context.get_raw(0).as_str()?, context.get_raw(1).as_str()?);
        // A single word is in one of them, or the index would not have found the document.
        let at_once = |terms: &SearchTerms| {
            terms.words().len() == 1 || cut(cuts, text).any(|(_, text)| terms.match_text(text))
        };
        Ok((*terms).as_ref().is_some_and(at_once))
    })
}

pub(super) fn within_tenant(tk: i64, matching: &str) -> String {
    format!("\"§t{tk}\" AND {matching}")
}

impl SearchStore for SqliteStore {
    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SearchQuery,
    ) -> StoreFuture<'a, Page<SearchHit, i64>> {
        self.read_tenant(tenant, move |db, tk| find(db, tk, &query)).boxed()
    }
}

/// A page of hits, newest first. It ends at the limit, or after so many documents that the caller may not see that
/// the next call continues.
fn find(db: &Connection, tk: i64, query: &SearchQuery) -> rusqlite::Result<Page<SearchHit, i64>> {
    let Some(terms) = SearchTerms::of(&query.words) else { return Ok(Page::default()) };
    let mut page = HitPage::new(&terms, query);
    let mut statement = db.prepare_cached(
        "SELECT w.rowid, d.sk, d.seq, d.cuts, d.text, h.id, h.holder, h.claim_credential \
         FROM search.words w CROSS JOIN search.docs d ON d.doc = w.rowid \
         CROSS JOIN session_heads h ON h.sk = d.sk AND h.tk = ?2 \
         WHERE w.words MATCH ?1 AND w.rowid < ?3 ORDER BY w.rowid DESC",
    )?;
    let mut rows = statement.query(params![within_tenant(tk, &matching(&terms)), tk, page.last()])?;
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        if looked_at == limits::PAGE_SCAN_MAX {
            return Ok(page.into_page());
        }
        looked_at += 1;
        let (document, first): (i64, i64) = (row.get(0)?, row.get(2)?);
        let id = row.get_ref(5)?.as_str()?;
        let seen = match &query.seen_by {
            None => true,
            Some(Visibility::Participant(user)) => {
                row.get_ref(6)?.as_str_or_null()? == Some(user.as_str())
                    || sessions::participates(db, row.get(1)?, user)?
            }
            Some(Visibility::Claims(credential)) => {
                row.get_ref(7)?.as_str_or_null()? == Some(credential.as_str())
            }
            Some(Visibility::Prefix(prefix)) => !prefix.is_empty() && id.starts_with(prefix.as_str()),
        };
        let (sk, cuts, text) = (row.get(1)?, row.get_ref(3)?.as_str()?, row.get_ref(4)?.as_str()?);
        for (place, text) in cut(cuts, text).rev().filter(|_| seen) {
            if !page.offer((document, place), id, (first + place, text), || shown_of(db, sk))? {
                return Ok(page.into_page());
            }
        }
        page.document_done(document);
    }
    Ok(page.into_last_page())
}

/// What a hit shows of its session.
fn shown_of(db: &Connection, sk: i64) -> rusqlite::Result<HitSession> {
    db.prepare_cached(
        "SELECT d.title, h.session_type, h.status, l.last_at FROM session_heads h \
         JOIN session_details d ON d.sk = h.sk JOIN session_tails l ON l.sk = h.sk WHERE h.sk = ?1",
    )?
    .query_row([sk], |row| {
        let (kind, status) = (row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
        Ok(HitSession {
            title: row.get(0)?,
            session_type: SessionType::parse(kind).map_err(|_| unknown_word(kind))?,
            status: Status::parse(status).ok_or_else(|| unknown_word(status))?,
            last_at: Timestamp::from_micros(row.get(3)?),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_groups::IndexText;

    fn group(texts: &[(i64, &str)]) -> MessageGroup {
        let mut said =
            texts.iter().map(|(seq, text)| IndexText { seq: *seq, at: 5, text: (*text).to_owned() });
        let mut group = MessageGroup::of(said.next().unwrap());
        assert!(said.all(|said| group.add(said).is_none()));
        group
    }

    #[test]
    fn texts_that_are_laid_out_are_cut_as_they_were() {
        for texts in [vec![(0, "a title")], vec![(7, "Grüße\0"), (9, ""), (10, "1:2 3:4"), (70, "x")]] {
            let (cuts, text) = concatenated(&group(&texts));
            let first = texts[0].0;
            let again: Vec<_> = cut(&cuts, &text).map(|(place, text)| (first + place, text)).collect();
            assert_eq!(again, texts);
        }
        assert_eq!(cut("0:9 x 1:1 :", "ab").collect::<Vec<_>>(), [(1, "a")], "what is damaged is left out");
    }

    #[test]
    fn a_bag_holds_every_word_once() {
        assert_eq!(indexed_words(1, 2, ["b a, B!", "", "c a"].into_iter()), "b a c §t1 §s2");
        assert_eq!(indexed_words(1, 2, [].into_iter()), "§t1 §s2");
    }
}
