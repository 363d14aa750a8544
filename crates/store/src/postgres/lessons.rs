//! Lessons: their rows, the words that they are found by, and their counters.

use sederunt_core::error::Error;
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::lesson::{
    EffectCounter, EffectCounts, Lesson, LessonBody, LessonQuery, LessonState, Polarity,
};
use sederunt_core::limits;
use sederunt_core::session::query::Page;
use sederunt_core::store::{LessonStore, StoreFuture};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{Context, Scope, Tx, int};
use super::writes::{Writes, cells};
use super::{PostgresStore, memories, read};
use crate::postings::{self, Postings};

const LESSON: &str = "l.n, l.id, l.polarity, l.state, l.occurrences, l.created_at, l.updated_at, l.version, l.shown, \
     l.first_shown_at, l.last_shown_at, l.negative_since, l.positive_since, l.body";
/// Best matches that are read at a time, until enough of them pass the filters.
const MATCHES_READ: usize = 64;

fn lesson_of(row: &Row) -> Result<(i64, Lesson)> {
    let mut columns = Columns::of(row);
    let n = columns.take()?;
    let lesson = Lesson {
        id: columns.take()?,
        polarity: columns.word(Polarity::parse)?,
        state: columns.word(LessonState::parse)?,
        occurrences: columns.number()?,
        created_at: columns.time()?,
        updated_at: columns.time()?,
        version: columns.number()?,
        effect: EffectCounts {
            shown: columns.number()?,
            first_shown_at: columns.time_if()?,
            last_shown_at: columns.time_if()?,
            negative_since: columns.number()?,
            positive_since: columns.number()?,
        },
        body: serde_json::from_str(columns.take()?).map_err(Error::internal)?,
    };
    Ok((n, lesson))
}

impl LessonStore for PostgresStore {
    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Lesson>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = format!("SELECT {LESSON} FROM lessons l WHERE l.tk = $1 AND l.id = $2");
            let rows = self.context.read(Scope::Tenant(tk), &sql, &[&tk, &id]).await?;
            rows.first().map(|row| lesson_of(row).map(|(_, lesson)| lesson)).transpose()
        })
    }

    fn lessons<'a>(&'a self, tenant: &'a TenantId, query: LessonQuery) -> StoreFuture<'a, Page<Lesson, i64>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Page::default()) };
            if query.words.is_empty() {
                newest(&self.context, tk, &query).await
            } else {
                matching(&self.context, tk, &query).await
            }
        })
    }
}

/// A page, newest first. Each state has its own order in the index, so the states are merged. Rows that do not match
/// are skipped, up to a bound.
async fn newest(context: &Context, tk: i32, query: &LessonQuery) -> Result<Page<Lesson, i64>> {
    let often = if query.occurrences_min >= 2 { "AND l.occurrences >= 2" } else { "" };
    let sql = format!(
        "SELECT {LESSON} FROM unnest($2::text[]) AS s (state) CROSS JOIN LATERAL (
             SELECT * FROM lessons l WHERE l.tk = $1 AND l.state = s.state AND l.n < $3 {often}
             ORDER BY l.n DESC LIMIT $4) l
         ORDER BY l.n DESC LIMIT $4"
    );
    let states: Vec<&str> = query.states().iter().map(|state| state.as_str()).collect();
    let one_more = int(query.limit as u64).saturating_add(1);
    let mut found: Vec<(i64, Lesson)> = Vec::new();
    let mut before = query.after.unwrap_or(i64::MAX);
    for _ in 0..limits::PAGE_SCAN_MAX.div_ceil(query.limit.max(1)) {
        let rows = context.read(Scope::Tenant(tk), &sql, &[&tk, &states, &before, &one_more]).await?;
        let seen: Vec<(i64, Lesson)> = rows.iter().map(lesson_of).collect::<Result<_>>()?;
        let last = seen.len() <= query.limit;
        before = seen.last().map_or(before, |(n, _)| *n);
        found.extend(seen.into_iter().filter(|(_, lesson)| query.admits(lesson)));
        if last || found.len() > query.limit {
            break;
        }
    }
    Ok(Page::cut(found, query.limit))
}

/// The lessons that match the words best.
async fn matching(context: &Context, tk: i32, query: &LessonQuery) -> Result<Page<Lesson, i64>> {
    let (words, buckets) = (postings::lesson_query_words(query), postings::lesson_buckets(tk.into(), query));
    let found = memories::hits_of_words(context, tk, "lesson_words", &words, &buckets).await?;
    let sql = format!(
        "SELECT {LESSON} FROM unnest($2::bigint[]) WITH ORDINALITY AS r (n, at)
         JOIN lessons l ON l.tk = $1 AND l.n = r.n ORDER BY r.at"
    );
    let mut items: Vec<Lesson> = Vec::new();
    for some in postings::rank(&found).chunks(MATCHES_READ.max(query.limit)) {
        let rows = context.read(Scope::Tenant(tk), &sql, &[&tk, &some]).await?;
        for row in &rows {
            let (_, lesson) = lesson_of(row)?;
            if items.len() < query.limit && query.admits(&lesson) {
                items.push(lesson);
            }
        }
        if items.len() == query.limit {
            break;
        }
    }
    Ok(Page { items, next: None })
}

const TAKE_OUT: &str = "DELETE FROM lesson_words WHERE tk = $1 AND drawer = $2 AND word = ANY (string_to_array($3, ' ')) AND n = $4";

/// Writes a lesson if it has the expected version. Its postings are written again only if its words changed.
pub(super) async fn put(tx: &Tx, tk: i32, lesson: &Lesson, expects: Option<u64>) -> Result<bool> {
    let postings = Postings::of_lesson(tk.into(), lesson);
    let line = postings.line();
    let body = serde_json::to_string(&lesson.body).map_err(Error::internal)?;
    let (polarity, state, occurrences) =
        (lesson.polarity.as_str(), lesson.state.as_str(), int(lesson.occurrences));
    let updated_at = lesson.updated_at.as_micros();
    // The row keeps its old bucket and words until those postings are deleted; another transaction that writes the
    // row waits for this one.
    let rows = match expects.map(int) {
        Some(version) => {
            let sql =
                "UPDATE lessons SET polarity = $3, state = $4, occurrences = $5, updated_at = $6, body = $7,
                     version = version + 1
                 WHERE tk = $1 AND id = $2 AND version = $8 RETURNING n, drawer, words";
            tx.query(sql, &[&tk, &lesson.id, &polarity, &state, &occurrences, &updated_at, &body, &version])
                .await?
        }
        None => {
            let sql = "INSERT INTO lessons (tk, id, polarity, state, occurrences, updated_at, body, created_at, version,
                     drawer, words) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, 0, '')
                 ON CONFLICT DO NOTHING RETURNING n, drawer, words";
            let created_at = lesson.created_at.as_micros();
            tx.query(
                sql,
                &[&tk, &lesson.id, &polarity, &state, &occurrences, &updated_at, &body, &created_at],
            )
            .await?
        }
    };
    let Some(row) = rows.first() else { return Ok(false) };
    let (n, bucket, words): (i64, i64, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if bucket == postings.bucket && words == line {
        return Ok(true);
    }
    let mut writes = Writes::default();
    writes.add_after(TAKE_OUT, cells![tk, bucket, words, n]);
    let (texts, times): (Vec<&str>, Vec<i64>) =
        postings.words.iter().map(|(word, times)| (word.as_str(), *times)).unzip();
    writes.add_after(
        "INSERT INTO lesson_words (tk, drawer, word, n, times, length)
         SELECT $1, $2, w.word, $3, w.times, $6 FROM unnest($4::text[], $5::bigint[]) AS w (word, times)",
        cells![tk, postings.bucket, n, texts, times, postings.length],
    );
    writes.add_after(
        "UPDATE lessons SET drawer = $3, words = $4 WHERE tk = $1 AND n = $2",
        cells![tk, n, postings.bucket, line],
    );
    writes.run(tx.client()?).await?;
    Ok(true)
}

/// Adds to the counters of lessons, and locks them in one order.
pub(super) async fn count(
    tx: &Tx,
    tk: i32,
    ids: &[String],
    count: EffectCounter,
    now: Timestamp,
) -> Result<()> {
    let set = match count {
        EffectCounter::Shown => {
            "shown = shown + 1, first_shown_at = coalesce(first_shown_at, $3), last_shown_at = $3 WHERE true"
        }
        EffectCounter::Negative => "negative_since = negative_since + 1 WHERE first_shown_at <= $3",
        EffectCounter::Positive => "positive_since = positive_since + 1 WHERE first_shown_at <= $3",
    };
    let sql = format!(
        "UPDATE lessons SET {set} AND (tk, n) IN
             (SELECT tk, n FROM lessons WHERE tk = $1 AND id = ANY ($2) ORDER BY n FOR NO KEY UPDATE)"
    );
    tx.execute(&sql, &[&tk, &ids, &now.as_micros()]).await.map(drop)
}

/// Hands the lessons of one user over to another. The version moves, so a caller that is writing one of them loads it
/// again.
pub(super) async fn merge(tx: &Tx, tk: i32, from: &UserId, into: &UserId) -> Result<()> {
    // Locked in the order in which counters lock them.
    let sql =
        "SELECT n, body FROM lessons WHERE tk = $1 AND position($2 IN body) > 0 ORDER BY n FOR NO KEY UPDATE";
    for row in tx.query(sql, &[&tk, &LessonBody::mark_of(from)]).await? {
        let n: i64 = row.try_get(0)?;
        let mut body: LessonBody = serde_json::from_str(row.try_get(1)?).map_err(Error::internal)?;
        if body.hand_over(from, into) {
            let text = serde_json::to_string(&body).map_err(Error::internal)?;
            let sql = "UPDATE lessons SET body = $3, version = version + 1 WHERE tk = $1 AND n = $2";
            tx.execute(sql, &[&tk, &n, &text]).await?;
        }
    }
    Ok(())
}
