//! Lessons: their rows, the words that they are found by, and their counters.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::lesson::{
    EffectCounter, EffectCounts, Lesson, LessonBody, LessonQuery, LessonState, Polarity,
};
use sederunt_core::session::query::Page;
use sederunt_core::store::{LessonStore, StoreFuture, next_version};
use sederunt_core::{Timestamp, limits};

use super::fault::{unknown_word, unreadable, unwritable};
use super::people::instant;
use super::{SqliteStore, memories};
use crate::postings::{self, Postings};

/// The columns that [`read`] reads; a macro, so that statements stay constants.
macro_rules! columns {
    () => {
        "l.n, l.id, l.polarity, l.state, l.occurrences, l.created_at, l.updated_at, l.version, l.shown, \
         l.first_shown_at, l.last_shown_at, l.negative_since, l.positive_since, l.body"
    };
}

pub(super) const NEWEST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM lessons l INDEXED BY lessons_by_state WHERE l.tk = ?1 AND l.state = ?2 AND l.n < ?3 \
     ORDER BY l.n DESC LIMIT ?4"
);
pub(super) const OFTEN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM lessons l INDEXED BY lessons_often WHERE l.tk = ?1 AND l.state = ?2 AND l.n < ?3 AND l.occurrences >= 2 \
     ORDER BY l.n DESC LIMIT ?4"
);
pub(super) const UNDER_WORD: &str =
    "SELECT n, times, length FROM lesson_words WHERE drawer = ?1 AND word = ?2 ORDER BY n DESC LIMIT ?3";

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Lesson)> {
    let (polarity, state) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
    let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let lesson = Lesson {
        id: row.get(1)?,
        polarity: Polarity::parse(polarity).ok_or_else(|| unknown_word(polarity))?,
        state: LessonState::parse(state).ok_or_else(|| unknown_word(state))?,
        occurrences: number(4)?,
        created_at: Timestamp::from_micros(row.get(5)?),
        updated_at: Timestamp::from_micros(row.get(6)?),
        version: number(7)?,
        effect: EffectCounts {
            shown: number(8)?,
            first_shown_at: instant(row, 9)?,
            last_shown_at: instant(row, 10)?,
            negative_since: number(11)?,
            positive_since: number(12)?,
        },
        body: serde_json::from_str::<LessonBody>(row.get_ref(13)?.as_str()?).map_err(unreadable)?,
    };
    Ok((row.get(0)?, lesson))
}

impl LessonStore for SqliteStore {
    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Lesson>> {
        self.read_inline(move |db| {
            db.prepare_cached(concat!(
                "SELECT ",
                columns!(),
                " FROM tenants t JOIN lessons l ON l.tk = t.tk WHERE t.id = ?1 AND l.id = ?2"
            ))?
            .query_row([tenant.as_str(), id], |row| read(row).map(|(_, lesson)| lesson))
            .optional()
        })
        .boxed()
    }

    fn lessons<'a>(&'a self, tenant: &'a TenantId, query: LessonQuery) -> StoreFuture<'a, Page<Lesson, i64>> {
        self.read_tenant(tenant, move |db, tk| lessons(db, tk, &query)).boxed()
    }
}

pub(super) fn lessons(db: &Connection, tk: i64, query: &LessonQuery) -> rusqlite::Result<Page<Lesson, i64>> {
    if query.words.is_empty() { newest(db, tk, query) } else { matching(db, tk, query) }
}

/// A page, newest first. Each state has its own order in the index, so the states are merged here. Rows that do not
/// match are skipped, up to a bound.
fn newest(db: &Connection, tk: i64, query: &LessonQuery) -> rusqlite::Result<Page<Lesson, i64>> {
    let mut statement = db.prepare_cached(if query.occurrences_min >= 2 { OFTEN } else { NEWEST })?;
    let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut found: Vec<(i64, Lesson)> = Vec::new();
    let mut before = query.after.unwrap_or(i64::MAX);
    for _ in 0..limits::PAGE_SCAN_MAX.div_ceil(query.limit.max(1)) {
        let mut seen: Vec<(i64, Lesson)> = Vec::new();
        for state in query.states() {
            for row in statement.query_map(params![tk, state.as_str(), before, one_more], read)? {
                seen.push(row?);
            }
        }
        seen.sort_unstable_by_key(|(n, _)| std::cmp::Reverse(*n));
        let last = seen.len() <= query.limit;
        seen.truncate(query.limit + 1);
        before = seen.last().map_or(before, |(n, _)| *n);
        found.extend(seen.into_iter().filter(|(_, lesson)| query.admits(lesson)));
        if last || found.len() > query.limit {
            break;
        }
    }
    Ok(Page::cut(found, query.limit))
}

/// The lessons that match the words best.
fn matching(db: &Connection, tk: i64, query: &LessonQuery) -> rusqlite::Result<Page<Lesson, i64>> {
    let (words, buckets) = (postings::lesson_query_words(query), postings::lesson_buckets(tk, query));
    let found = memories::hits_of_words(db, UNDER_WORD, &words, &buckets)?;
    let mut by_number =
        db.prepare_cached(concat!("SELECT ", columns!(), " FROM lessons l WHERE l.n = ?1 AND l.tk = ?2"))?;
    let mut items = Vec::new();
    for n in postings::rank(&found) {
        if items.len() == query.limit {
            break;
        }
        let row = by_number.query_row(params![n, tk], read).optional()?;
        items.extend(row.map(|(_, lesson)| lesson).filter(|lesson| query.admits(lesson)));
    }
    Ok(Page { items, next: None })
}

/// Writes a lesson. Its postings are written again only if its words changed.
pub(super) fn put(db: &Connection, tk: i64, lesson: &Lesson, expects: Option<u64>) -> rusqlite::Result<()> {
    let postings = Postings::of_lesson(tk, lesson);
    let line = postings.line();
    let before: Option<(i64, i64, String)> = db
        .prepare_cached("SELECT n, drawer, words FROM lessons WHERE tk = ?1 AND id = ?2")?
        .query_row(params![tk, lesson.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let n: i64 = db
        .prepare_cached(
            "INSERT INTO lessons (tk, id, polarity, state, occurrences, created_at, updated_at, version, body, drawer, \
             words) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (tk, id) DO UPDATE SET \
             polarity = excluded.polarity, state = excluded.state, occurrences = excluded.occurrences, \
             updated_at = excluded.updated_at, version = excluded.version, body = excluded.body, \
             drawer = excluded.drawer, words = excluded.words RETURNING n",
        )?
        .query_row(
            params![
                tk,
                lesson.id,
                lesson.polarity.as_str(),
                lesson.state.as_str(),
                lesson.occurrences.cast_signed(),
                lesson.created_at.as_micros(),
                lesson.updated_at.as_micros(),
                next_version(expects).cast_signed(),
                serde_json::to_string(&lesson.body).map_err(unwritable)?,
                postings.bucket,
                line,
            ],
            |row| row.get(0),
        )?;
    if let Some((n, bucket, words)) = before {
        if bucket == postings.bucket && words == line {
            return Ok(());
        }
        let mut take =
            db.prepare_cached("DELETE FROM lesson_words WHERE drawer = ?1 AND word = ?2 AND n = ?3")?;
        for word in words.split_ascii_whitespace() {
            take.execute(params![bucket, word, n])?;
        }
    }
    let mut file = db.prepare_cached(
        "INSERT INTO lesson_words (drawer, word, n, times, length) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (word, times) in &postings.words {
        file.execute(params![postings.bucket, word, n, times, postings.length])?;
    }
    Ok(())
}

/// Adds to the counters of lessons.
pub(super) fn count(
    db: &Connection,
    tk: i64,
    ids: &[String],
    count: EffectCounter,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let sql = match count {
        EffectCounter::Shown => {
            "UPDATE lessons SET shown = shown + 1, first_shown_at = coalesce(first_shown_at, ?3), last_shown_at = ?3 \
             WHERE tk = ?1 AND id = ?2"
        }
        EffectCounter::Negative => {
            "UPDATE lessons SET negative_since = negative_since + 1 \
             WHERE tk = ?1 AND id = ?2 AND first_shown_at <= ?3"
        }
        EffectCounter::Positive => {
            "UPDATE lessons SET positive_since = positive_since + 1 \
             WHERE tk = ?1 AND id = ?2 AND first_shown_at <= ?3"
        }
    };
    let mut statement = db.prepare_cached(sql)?;
    ids.iter().try_for_each(|id| statement.execute(params![tk, id, now.as_micros()]).map(drop))
}

/// Hands the lessons of one user over to another. The version moves, so a caller that is writing one of them loads it
/// again.
pub(super) fn merge(db: &Connection, tk: i64, from: &UserId, into: &UserId) -> rusqlite::Result<()> {
    let theirs: Vec<(i64, String)> = db
        .prepare_cached("SELECT n, body FROM lessons WHERE tk = ?1 AND instr(body, ?2) > 0")?
        .query_map(params![tk, LessonBody::mark_of(from)], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut write = db.prepare_cached("UPDATE lessons SET body = ?2, version = version + 1 WHERE n = ?1")?;
    for (n, text) in theirs {
        let mut body = serde_json::from_str::<LessonBody>(&text).map_err(unreadable)?;
        if body.hand_over(from, into) {
            write.execute(params![n, serde_json::to_string(&body).map_err(unwritable)?])?;
        }
    }
    Ok(())
}
