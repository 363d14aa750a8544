//! Text search: questions to the index (see [`super::index`]).

use sederunt_core::event::payload::text_of;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::limits;
use sederunt_core::session::query::Page;
use sederunt_core::store::{Hit, SearchQuery};

use super::fault::Result;
use super::list::Seen;
use super::tx::{Base, Scope, count, int};
use crate::{snippet, words};

/// What is searched at a time, when not everything found may be seen.
const WINDOW: i64 = 200;
/// Documents that are looked at one by one before the index of words is asked.
const NEWEST: i64 = 2_000;

/// The words of a question, as the index knows them.
fn words_of(text: &str) -> Vec<String> {
    words::words_of(text).split_ascii_whitespace().map(str::to_owned).collect()
}

/// Stands in every document of a tenant, so that the index itself keeps tenants apart. No text has such a word.
pub(super) fn tenant_word(tk: i32) -> String {
    format!("§{tk}")
}

/// All words must be there, each at least as the beginning of one. Words are letters and digits alone, so nothing
/// in them can be an operator.
fn query_of(tk: i32, words: &[String]) -> String {
    let mut query = format!("'{}'", tenant_word(tk));
    for word in words {
        query.push_str(&format!(" & '{word}':*"));
    }
    query
}

/// Sessions with all these words in one place, newest first; `None` if there is no word to look for.
pub(super) async fn sessions_with(base: &Base, tk: i32, text: &str) -> Result<Option<Vec<i64>>> {
    let words = words_of(text);
    if words.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT DISTINCT sk FROM (SELECT sk FROM search_docs WHERE tk = $1 AND tsv @@ $2::text::tsquery
         ORDER BY n DESC LIMIT $3) newest";
    let scan = int(limits::PAGE_SCAN_MAX as u64);
    let rows = base.read(Scope::Words, sql, &[&tk, &query_of(tk, &words), &scan]).await?;
    Ok(Some(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?))
}

pub(super) async fn search(base: &Base, tenant: &TenantId, query: SearchQuery) -> Result<Page<Hit, i64>> {
    let mut page = Page { items: Vec::new(), next: None };
    let words: Vec<String> = query.words.iter().flat_map(|word| words_of(word)).collect();
    let Some(tk) = base.tk(tenant).await?.filter(|_| !words.is_empty()) else { return Ok(page) };
    let limit = query.limit.clamp(1, limits::PAGE_ROWS_MAX);
    let seen = Seen::of(query.seen_by.as_ref());
    let mut before = query.after.unwrap_or(i64::MAX);
    let mut looked = 0;
    while looked < limits::PAGE_SCAN_MAX {
        let window = WINDOW.max(int(limit as u64) + 1);
        let found = numbers(base, tk, &query_of(tk, &words), before, window).await?;
        for (n, hit) in hits(base, tk, &found, &seen, &words).await? {
            if page.items.len() == limit {
                page.next = Some(before);
                return Ok(page);
            }
            before = n;
            page.items.push(hit);
        }
        let Some(last) = found.last().filter(|_| found.len() as i64 == window) else { return Ok(page) };
        before = *last;
        looked += found.len();
    }
    page.next = Some(before);
    Ok(page)
}

/// Numbers of documents with these words, newest first. Nobody knows beforehand how common words are: the newest
/// documents show it, and only where they do not hold enough of them is the index of words worth its price.
async fn numbers(base: &Base, tk: i32, query: &str, before: i64, window: i64) -> Result<Vec<i64>> {
    let newest = format!(
        "SELECT n FROM (SELECT n, tsv FROM search_docs WHERE tk = $1 AND n < $3 ORDER BY n DESC LIMIT {NEWEST}) d
         WHERE tsv @@ $2::text::tsquery ORDER BY n DESC LIMIT $4"
    );
    // Ordered by an expression, so that the order is no reason to look through everything.
    let all = "SELECT n FROM search_docs WHERE tk = $1 AND tsv @@ $2::text::tsquery AND n < $3 ORDER BY n + 0 DESC LIMIT $4";
    let mut rows = base.read(Scope::Words, &newest, &[&tk, &query, &before, &window]).await?;
    if (rows.len() as i64) < window {
        rows = base.read(Scope::Words, all, &[&tk, &query, &before, &window]).await?;
    }
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// What the documents stand for, as far as it may be seen.
async fn hits(base: &Base, tk: i32, found: &[i64], seen: &Seen, words: &[String]) -> Result<Vec<(i64, Hit)>> {
    // A subquery and no `coalesce`: the wall around the tenants lets only plain comparisons reach the index of events.
    let sql = "SELECT d.n, d.seq, h.id, s.title, s.description,
             (SELECT e.content FROM events e WHERE e.tk = d.tk AND e.seq = d.seq
                 AND e.log = CASE WHEN r.log IS NULL THEN d.sk ELSE r.log END)
         FROM search_docs d JOIN session_heads h ON h.tk = d.tk AND h.sk = d.sk
         JOIN sessions s ON s.tk = d.tk AND s.sk = d.sk
         LEFT JOIN LATERAL (SELECT r.log FROM session_ranges r WHERE r.tk = d.tk AND r.sk = d.sk
             AND d.seq BETWEEN r.from_seq AND r.to_seq) r ON true
         WHERE d.tk = $1 AND d.n = ANY ($2)
             AND ($3::text IS NULL OR h.holder = $3 OR EXISTS (SELECT 1 FROM participants p
                 WHERE p.tk = h.tk AND p.sk = h.sk AND p.user_id = $3))
             AND ($4::text IS NULL OR h.claim_credential = $4)
             AND ($5::text IS NULL OR (h.id >= $5 AND h.id < $6))
         ORDER BY d.n DESC";
    let (from, to) = seen.prefix.clone().unzip();
    let rows =
        base.read(Scope::Tenant(tk), sql, &[&tk, &found, &seen.user, &seen.credential, &from, &to]).await?;
    let mut hits = Vec::with_capacity(rows.len());
    for row in &rows {
        let seq: i64 = row.try_get(1)?;
        let text = if seq == 0 {
            let texts: [Option<&str>; 2] = [row.try_get(3)?, row.try_get(4)?];
            texts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        } else {
            let content: Option<&str> = row.try_get(5)?;
            content.and_then(|content| text_of(&Json::stored(content))).unwrap_or_default()
        };
        let hit = Hit {
            session: SessionId::stored(row.try_get::<_, &str>(2)?),
            sequence: (seq > 0).then(|| count(seq)),
            snippet: snippet(&text, words),
        };
        hits.push((row.try_get(0)?, hit));
    }
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_question_is_an_operator() {
        assert_eq!(query_of(7, &words_of("a' | b:*")), "'§7' & 'a':* & 'b':*");
    }
}
