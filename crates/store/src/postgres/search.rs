//! Text search: queries on the index that `indexer` fills.

use sederunt_core::event::payload::shown_text_of;
use sederunt_core::ids::TenantId;
use sederunt_core::json::Json;
use sederunt_core::limits;
use sederunt_core::session::query::Page;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::store::{HitSession, SearchHit, SearchQuery, SearchStore, StoreFuture};
use sederunt_core::{Error, Timestamp};
use tokio_postgres::Row;

use super::fault::Result;
use super::list::VisibleTo;
use super::tx::{Context, Scope, int};
use super::{PostgresStore, read};
use crate::message_groups::HitPage;
use crate::words::SearchTerms;

/// Documents that are read at a time, when the caller may not see all of them.
const WINDOW: i64 = 200;
/// Documents that are checked one by one before the index of words is used.
const NEWEST: i64 = 2_000;

/// A word in every document of a tenant, so that the index itself separates tenants. No text contains such a word.
pub(super) fn tenant_word(tk: i32) -> String {
    format!("§{tk}")
}

/// The query for all words, each as a prefix, and all of them in the same message. Words are letters and digits only,
/// so none of them can be an operator.
fn query_of(tk: i32, terms: &SearchTerms) -> String {
    let words: Vec<String> = terms.words().iter().map(|word| format!("'{word}':*")).collect();
    format!("'{}' & ({})", tenant_word(tk), words.join(" <0> "))
}

/// Sessions with all these words in one text, newest first; `None` if there is no word to search for.
pub(super) async fn sessions_with(context: &Context, tk: i32, text: &str) -> Result<Option<Vec<i64>>> {
    let Some(terms) = SearchTerms::of(&[text.to_owned()]) else { return Ok(None) };
    let sql = "SELECT DISTINCT sk FROM (SELECT sk FROM search_docs WHERE tk = $1 AND tsv @@ $2::text::tsquery
         ORDER BY n DESC LIMIT $3) newest";
    let scan = int(limits::PAGE_SCAN_MAX as u64);
    let rows = context.read(Scope::Words, sql, &[&tk, &query_of(tk, &terms), &scan]).await?;
    Ok(Some(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?))
}

impl SearchStore for PostgresStore {
    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SearchQuery,
    ) -> StoreFuture<'a, Page<SearchHit, i64>> {
        read(search(&self.context, tenant, query))
    }
}

pub(super) async fn search(
    context: &Context,
    tenant: &TenantId,
    query: SearchQuery,
) -> Result<Page<SearchHit, i64>> {
    let terms = SearchTerms::of(&query.words);
    let (Some(tk), Some(terms)) = (context.tk(tenant).await?, terms) else {
        return Ok(Page::default());
    };
    let seen = VisibleTo::of(query.seen_by.as_ref());
    let words = query_of(tk, &terms);
    let mut page = HitPage::new(&terms, &query);
    let mut looked = 0;
    while looked < limits::PAGE_SCAN_MAX {
        let window = WINDOW.max(int(page.room() as u64) + 1);
        let found = numbers(context, tk, &words, page.last(), window).await?;
        let mut left = &found[..];
        while !left.is_empty() {
            let (portion, rest) = left.split_at(left.len().min(page.room() + 1));
            if !take_hits(context, tk, portion, &seen, &mut page).await? {
                return Ok(page.into_page());
            }
            left = rest;
        }
        if (found.len() as i64) < window {
            return Ok(page.into_last_page());
        }
        looked += found.len();
    }
    Ok(page.into_page())
}

/// Numbers of documents with these words, newest first. How common words are is not known beforehand: the newest
/// documents show it, and the index of words is used only if they do not hold enough hits.
async fn numbers(context: &Context, tk: i32, query: &str, before: i64, window: i64) -> Result<Vec<i64>> {
    let newest = format!(
        "SELECT n FROM (SELECT n, tsv FROM search_docs WHERE tk = $1 AND n < $3 ORDER BY n DESC LIMIT {NEWEST}) d
         WHERE tsv @@ $2::text::tsquery ORDER BY n DESC LIMIT $4"
    );
    // Ordered by an expression, so that the planner does not walk all documents for the order.
    let all = "SELECT n FROM search_docs WHERE tk = $1 AND tsv @@ $2::text::tsquery AND n < $3 ORDER BY n + 0 DESC LIMIT $4";
    let mut rows = context.read(Scope::Words, &newest, &[&tk, &query, &before, &window]).await?;
    if (rows.len() as i64) < window {
        rows = context.read(Scope::Words, all, &[&tk, &query, &before, &window]).await?;
    }
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Adds the texts of these documents to the page, as far as the caller may see them. `false` if the page is full
/// before the end.
async fn take_hits(
    context: &Context,
    tk: i32,
    found: &[i64],
    seen: &VisibleTo,
    page: &mut HitPage<'_>,
) -> Result<bool> {
    // No `coalesce`: row-level security lets only plain comparisons reach the index of events.
    let sql = "SELECT d.n, d.seq, h.id, s.title, s.description, e.seq, e.content,
             h.session_type, h.status, h.last_at, e.type
         FROM search_docs d JOIN session_heads h ON h.tk = d.tk AND h.sk = d.sk
         JOIN sessions s ON s.tk = d.tk AND s.sk = d.sk
         LEFT JOIN LATERAL (SELECT r.log FROM session_ranges r WHERE r.tk = d.tk AND r.sk = d.sk
             AND d.seq BETWEEN r.from_seq AND r.to_seq) r ON true
         LEFT JOIN LATERAL (SELECT e.seq, e.content, e.type FROM events e WHERE e.tk = d.tk
             AND e.log = CASE WHEN r.log IS NULL THEN d.sk ELSE r.log END
             AND e.seq BETWEEN d.seq AND d.upto AND e.type IN ('user.message', 'agent.message')) e ON d.seq > 0
         WHERE d.tk = $1 AND d.n = ANY ($2)
             AND ($3::text IS NULL OR h.holder = $3 OR EXISTS (SELECT 1 FROM participants p
                 WHERE p.tk = h.tk AND p.sk = h.sk AND p.user_id = $3))
             AND ($4::text IS NULL OR h.claim_credential = $4)
             AND ($5::text IS NULL OR (h.id >= $5 AND h.id < $6))
         ORDER BY d.n DESC, e.seq DESC";
    let (from, to) = seen.prefix.clone().unzip();
    let rows = context
        .read(Scope::Tenant(tk), sql, &[&tk, &found, &seen.user, &seen.credential, &from, &to])
        .await?;
    for row in &rows {
        let (document, first): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let (seq, text) = if first == 0 {
            let texts: [Option<&str>; 2] = [row.try_get(3)?, row.try_get(4)?];
            (0, texts.into_iter().flatten().collect::<Vec<_>>().join(" "))
        } else {
            let (seq, content): (Option<i64>, Option<&str>) = (row.try_get(5)?, row.try_get(6)?);
            let kind: Option<&str> = row.try_get(10)?;
            let said = kind.zip(content);
            let text = said.and_then(|(kind, content)| shown_text_of(kind, &Json::stored(content)));
            (seq.unwrap_or(first), text.unwrap_or_default())
        };
        let offered = page.offer((document, seq - first), row.try_get(2)?, (seq, &text), || shown_of(row))?;
        if !offered {
            return Ok(false);
        }
    }
    if let Some(last) = found.last() {
        page.document_done(*last);
    }
    Ok(true)
}

/// What a hit shows of its session.
fn shown_of(row: &Row) -> Result<HitSession> {
    Ok(HitSession {
        title: row.try_get::<_, Option<&str>>(3)?.map(Into::into),
        session_type: SessionType::parse(row.try_get(7)?)?,
        status: Status::parse(row.try_get(8)?)
            .ok_or_else(|| Error::internal("a status that means nothing"))?,
        last_at: Timestamp::from_micros(row.try_get(9)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_question_is_an_operator() {
        let terms = SearchTerms::of(&["b:* | a'".to_owned(), "c".to_owned()]).unwrap();
        assert_eq!(query_of(7, &terms), "'§7' & ('a':* <0> 'b':* <0> 'c':*)");
    }
}
