//! Feedback on the work of agents: thumbs with words, their counts, and the feedback sessions that add messages to
//! them.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::feedback::capture::{EventBody, FeedbackEvent, Signal};
use sederunt_core::feedback::session::{FeedbackSession, FeedbackState, SessionBody};
use sederunt_core::feedback::stats::{Failures, Tally, ThumbTotals};
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::session::query::Page;
use sederunt_core::store::{
    FailureQuery, FeedbackDue, FeedbackQuery, FeedbackStore, StoreFuture, next_version,
};
use sederunt_core::{Timestamp, limits};

use super::SqliteStore;
use super::fault::{unknown_word, unreadable, unwritable};
use super::heads::text;

const EVENT: &str = "SELECT e.id, e.at, e.signal, e.author, e.session_id, e.body, e.n FROM feedback_events e";
const SESSION: &str = "SELECT f.n, f.id, f.event_id, f.signal, f.state, f.opened_at, f.expires_at, f.author, f.version, \
     f.body FROM feedback_sessions f";
pub(super) const SILENT: &str = "SELECT t.id, f.id FROM feedback_sessions f INDEXED BY feedback_sessions_open \
     JOIN tenants t ON t.tk = f.tk WHERE f.state = 'open' AND f.expires_at <= ?1 AND t.id IS NOT NULL \
     ORDER BY f.expires_at LIMIT ?2";

fn signal(row: &Row<'_>, at: usize) -> rusqlite::Result<Signal> {
    let word = row.get_ref(at)?.as_str()?;
    Signal::parse(word).ok_or_else(|| unknown_word(word))
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<FeedbackEvent> {
    Ok(FeedbackEvent {
        id: row.get(0)?,
        at: Timestamp::from_micros(row.get(1)?),
        signal: signal(row, 2)?,
        author: text(row, 3)?.map(UserId::stored),
        session: text(row, 4)?.map(SessionId::stored),
        body: serde_json::from_str::<EventBody>(row.get_ref(5)?.as_str()?).map_err(unreadable)?,
    })
}

fn read_session(row: &Row<'_>) -> rusqlite::Result<(i64, FeedbackSession)> {
    let state = row.get_ref(4)?.as_str()?;
    let session = FeedbackSession {
        id: row.get(1)?,
        event: row.get(2)?,
        signal: signal(row, 3)?,
        state: FeedbackState::parse(state).ok_or_else(|| unknown_word(state))?,
        opened_at: Timestamp::from_micros(row.get(5)?),
        expires_at: Timestamp::from_micros(row.get(6)?),
        author: text(row, 7)?.map(UserId::stored),
        version: row.get::<_, i64>(8)?.cast_unsigned(),
        body: serde_json::from_str::<SessionBody>(row.get_ref(9)?.as_str()?).map_err(unreadable)?,
    };
    Ok((row.get(0)?, session))
}

impl FeedbackStore for SqliteStore {
    fn feedback<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<FeedbackEvent>> {
        self.read_inline(move |db| {
            db.prepare_cached(&format!(
                "{EVENT} JOIN tenants t ON t.tk = e.tk WHERE t.id = ?1 AND e.id = ?2"
            ))?
            .query_row([tenant.as_str(), id], read_event)
            .optional()
        })
        .boxed()
    }

    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<FeedbackEvent>> {
        let author = author.cloned();
        self.read_tenant(tenant, move |db, tk| newest(db, tk, author.as_ref(), limit)).boxed()
    }

    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> StoreFuture<'a, Tally> {
        let author = author.cloned();
        self.read_tenant(tenant, move |db, tk| tally(db, tk, author.as_ref(), now)).boxed()
    }

    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> StoreFuture<'a, Page<FeedbackEvent, i64>> {
        self.read_tenant(tenant, move |db, tk| failures(db, tk, &query)).boxed()
    }

    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> StoreFuture<'a, Option<FeedbackSession>> {
        self.read_inline(move |db| session(db, tenant, id)).boxed()
    }

    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> StoreFuture<'a, Page<FeedbackSession, i64>> {
        self.read_tenant(tenant, move |db, tk| sessions(db, tk, &query)).boxed()
    }

    fn silent_feedback(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<FeedbackDue>> {
        self.read_inline(move |db| {
            db.prepare_cached(SILENT)?
                .query_map(params![now.as_micros(), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                    Ok(FeedbackDue { tenant: TenantId::stored(row.get_ref(0)?.as_str()?), id: row.get(1)? })
                })?
                .collect()
        })
        .boxed()
    }
}

fn newest(
    db: &Connection,
    tk: i64,
    author: Option<&UserId>,
    limit: usize,
) -> rusqlite::Result<Vec<FeedbackEvent>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    match author {
        Some(author) => db
            .prepare_cached(&format!("{EVENT} WHERE e.tk = ?1 AND e.author = ?2 ORDER BY e.n DESC LIMIT ?3"))?
            .query_map(params![tk, author.as_str(), limit], read_event)?
            .collect(),
        None => db
            .prepare_cached(&format!(
                "{EVENT} WHERE e.tk = ?1 AND e.code IS NULL ORDER BY e.at DESC, e.n DESC LIMIT ?2"
            ))?
            .query_map(params![tk, limit], read_event)?
            .collect(),
    }
}

fn tally(db: &Connection, tk: i64, author: Option<&UserId>, now: Timestamp) -> rusqlite::Result<Tally> {
    let author = author.map(UserId::as_str);
    let since = |days: u64| now.minus(std::time::Duration::from_secs(days * 24 * 3600)).as_micros();
    let mut tally = Tally::default();
    let mut statement = db.prepare_cached(
        "SELECT signal, count(*), coalesce(sum(at >= ?3), 0), coalesce(sum(at >= ?4), 0) FROM feedback_events \
         WHERE tk = ?1 AND code IS NULL AND (?2 IS NULL OR author = ?2) GROUP BY signal",
    )?;
    let mut rows = statement.query(params![tk, author, since(30), since(7)])?;
    while let Some(row) = rows.next()? {
        let signal = signal(row, 0)?;
        let windows = [&mut tally.lifetime, &mut tally.days_30, &mut tally.days_7];
        for (at, window) in windows.into_iter().enumerate() {
            let counted = row.get::<_, i64>(at + 1)?.cast_unsigned();
            match signal {
                Signal::Up => window.up = counted,
                Signal::Down => window.down = counted,
            }
        }
    }
    tally.tags = names(db, tk, author, "tag")?;
    tally.skills = names(db, tk, author, "skill")?;
    if author.is_none() {
        tally.failures = failed(db, tk, since(30), since(7))?;
    }
    Ok(tally)
}

fn failed(db: &Connection, tk: i64, days_30: i64, days_7: i64) -> rusqlite::Result<Failures> {
    let mut failures = Failures::default();
    let mut statement = db.prepare_cached(
        "SELECT code, count(*), sum(at >= ?2), sum(at >= ?3) FROM feedback_events WHERE tk = ?1 AND code IS NOT NULL \
         GROUP BY code ORDER BY count(*) DESC, code",
    )?;
    let mut rows = statement.query(params![tk, days_30, days_7])?;
    while let Some(row) = rows.next()? {
        let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
        failures.lifetime += count(1)?;
        failures.days_30 += count(2)?;
        failures.days_7 += count(3)?;
        if failures.codes.len() < limits::TALLY_NAMES_MAX {
            failures.codes.push((row.get(0)?, count(1)?));
        }
    }
    Ok(failures)
}

/// Records of failed runs, newest first.
fn failures(db: &Connection, tk: i64, query: &FailureQuery) -> rusqlite::Result<Page<FeedbackEvent, i64>> {
    let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let which = match (&query.task_id, &query.session) {
        (None, None) => "?2 IS NULL AND ?3 IS NULL",
        (Some(_), None) => "e.task_id = ?2 AND ?3 IS NULL",
        (None, Some(_)) => "?2 IS NULL AND e.session_id = ?3",
        (Some(_), Some(_)) => "e.task_id = ?2 AND e.session_id = ?3",
    };
    let found: Vec<(i64, FeedbackEvent)> = db
        .prepare_cached(&format!(
            "{EVENT} WHERE e.tk = ?1 AND e.code IS NOT NULL AND {which} AND e.n < ?4 ORDER BY e.n DESC LIMIT ?5"
        ))?
        .query_map(
            params![
                tk,
                query.task_id,
                query.session.as_ref().map(SessionId::as_str),
                query.after.unwrap_or(i64::MAX),
                one_more
            ],
            |row| Ok((row.get(6)?, read_event(row)?)),
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Page::cut(found, query.limit))
}

fn names(
    db: &Connection,
    tk: i64,
    author: Option<&str>,
    kind: &str,
) -> rusqlite::Result<Vec<(String, ThumbTotals)>> {
    let most = i64::try_from(limits::TALLY_NAMES_MAX).unwrap_or(i64::MAX);
    db.prepare_cached(
        "SELECT name, sum(signal = 'up'), sum(signal = 'down') FROM feedback_names \
         WHERE tk = ?1 AND kind = ?2 AND (?3 IS NULL OR author = ?3) GROUP BY name ORDER BY count(*) DESC, name LIMIT ?4",
    )?
    .query_map(params![tk, kind, author, most], |row| {
        let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
        Ok((row.get(0)?, ThumbTotals { up: count(1)?, down: count(2)? }))
    })?
    .collect()
}

pub(super) fn session(
    db: &Connection,
    tenant: &TenantId,
    id: &str,
) -> rusqlite::Result<Option<FeedbackSession>> {
    db.prepare_cached(&format!("{SESSION} JOIN tenants t ON t.tk = f.tk WHERE t.id = ?1 AND f.id = ?2"))?
        .query_row([tenant.as_str(), id], |row| read_session(row).map(|(_, session)| session))
        .optional()
}

pub(super) fn sessions(
    db: &Connection,
    tk: i64,
    query: &FeedbackQuery,
) -> rusqlite::Result<Page<FeedbackSession, i64>> {
    let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let sql = match (&query.author, query.state) {
        (None, Some(_)) => "f.tk = ?1 AND ?2 IS NULL AND f.state = ?3",
        (None, None) => "f.tk = ?1 AND ?2 IS NULL AND ?3 IS NULL",
        (Some(_), _) => "f.tk = ?1 AND f.author = ?2 AND (?3 IS NULL OR f.state = ?3)",
    };
    let found: Vec<(i64, FeedbackSession)> = db
        .prepare_cached(&format!("{SESSION} WHERE {sql} AND f.n < ?4 ORDER BY f.n DESC LIMIT ?5"))?
        .query_map(
            params![
                tk,
                query.author.as_ref().map(UserId::as_str),
                query.state.map(FeedbackState::as_str),
                query.after.unwrap_or(i64::MAX),
                one_more
            ],
            read_session,
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Page::cut(found, query.limit))
}

pub(super) fn add(db: &Connection, tk: i64, event: &FeedbackEvent) -> rusqlite::Result<()> {
    let author = event.author.as_ref().map(UserId::as_str);
    db.prepare_cached(
        "INSERT INTO feedback_events (tk, id, at, signal, author, session_id, body, code, task_id) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        tk,
        event.id,
        event.at.as_micros(),
        event.signal.as_str(),
        author,
        event.session.as_ref().map(SessionId::as_str),
        serde_json::to_string(&event.body).map_err(unwritable)?,
        event.body.failure.as_ref().map(|failure| &failure.code),
        event.body.failure.as_ref().map(|failure| &failure.task_id),
    ])?;
    let n = db.last_insert_rowid();
    let mut name = db.prepare_cached(
        "INSERT INTO feedback_names (tk, kind, name, n, signal, author) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (kind, named) in event.counted_by() {
        name.execute(params![tk, kind, named, n, event.signal.as_str(), author])?;
    }
    Ok(())
}

pub(super) fn put_session(
    db: &Connection,
    tk: i64,
    session: &FeedbackSession,
    expects: Option<u64>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO feedback_sessions (tk, id, event_id, signal, state, opened_at, expires_at, author, version, body) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (tk, id) DO UPDATE SET state = excluded.state, \
         expires_at = excluded.expires_at, version = excluded.version, body = excluded.body",
    )?
    .execute(params![
        tk,
        session.id,
        session.event,
        session.signal.as_str(),
        session.state.as_str(),
        session.opened_at.as_micros(),
        session.expires_at.as_micros(),
        session.author.as_ref().map(UserId::as_str),
        next_version(expects).cast_signed(),
        serde_json::to_string(&session.body).map_err(unwritable)?,
    ])
    .map(drop)
}

/// Hands the feedback of one user over to another. The version moves, so a caller that draws a lesson from it loads
/// it again.
pub(super) fn merge(db: &Connection, tk: i64, from: &UserId, into: &UserId) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE feedback_sessions SET version = version + 1 WHERE tk = ?1 AND state = 'open' \
         AND event_id IN (SELECT id FROM feedback_events WHERE tk = ?1 AND author = ?2)",
    )?
    .execute(params![tk, from.as_str()])?;
    for table in ["feedback_events", "feedback_names", "feedback_sessions"] {
        db.prepare_cached(&format!("UPDATE {table} SET author = ?3 WHERE tk = ?1 AND author = ?2"))?
            .execute(params![tk, from.as_str(), into.as_str()])?;
    }
    Ok(())
}
