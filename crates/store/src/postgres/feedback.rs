//! Feedback on the work of agents: thumbs with words, their counts, and the feedback sessions that add messages to
//! them.

use sederunt_core::error::Error;
use sederunt_core::feedback::capture::{FeedbackEvent, Signal};
use sederunt_core::feedback::session::{FeedbackSession, FeedbackState};
use sederunt_core::feedback::stats::{Failures, Tally, ThumbTotals};
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::limits;
use sederunt_core::session::query::Page;
use sederunt_core::store::{FailureQuery, FeedbackDue, FeedbackQuery, FeedbackStore, StoreFuture};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{Context, Scope, Tx, count, int};
use super::{PostgresStore, read};

const EVENT: &str = "e.id, e.at, e.signal, e.author, e.session_id, e.body, e.n";
const SESSION: &str =
    "f.n, f.id, f.event_id, f.signal, f.state, f.opened_at, f.expires_at, f.author, f.version, f.body";

fn event_of(row: &Row) -> Result<FeedbackEvent> {
    let mut columns = Columns::of(row);
    Ok(FeedbackEvent {
        id: columns.take()?,
        at: columns.time()?,
        signal: columns.word(Signal::parse)?,
        author: columns.user()?,
        session: columns.take::<Option<&str>>()?.map(SessionId::stored),
        body: serde_json::from_str(columns.take()?).map_err(Error::internal)?,
    })
}

fn session_of(row: &Row) -> Result<(i64, FeedbackSession)> {
    let mut columns = Columns::of(row);
    let n = columns.take()?;
    let session = FeedbackSession {
        id: columns.take()?,
        event: columns.take()?,
        signal: columns.word(Signal::parse)?,
        state: columns.word(FeedbackState::parse)?,
        opened_at: columns.time()?,
        expires_at: columns.time()?,
        author: columns.user()?,
        version: columns.number()?,
        body: serde_json::from_str(columns.take()?).map_err(Error::internal)?,
    };
    Ok((n, session))
}

impl FeedbackStore for PostgresStore {
    fn feedback<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<FeedbackEvent>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = format!("SELECT {EVENT} FROM feedback_events e WHERE e.tk = $1 AND e.id = $2");
            self.context.read(Scope::Tenant(tk), &sql, &[&tk, &id]).await?.first().map(event_of).transpose()
        })
    }

    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<FeedbackEvent>> {
        read(newest(&self.context, tenant, author, limit))
    }

    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> StoreFuture<'a, Tally> {
        read(tally(&self.context, tenant, author, now))
    }

    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> StoreFuture<'a, Page<FeedbackEvent, i64>> {
        read(failures(&self.context, tenant, query))
    }

    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> StoreFuture<'a, Option<FeedbackSession>> {
        read(session(&self.context, tenant, id))
    }

    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> StoreFuture<'a, Page<FeedbackSession, i64>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Page::default()) };
            let which = match (&query.author, query.state) {
                (None, Some(_)) => "f.tk = $1 AND $2::text IS NULL AND f.state = $3",
                (None, None) => "f.tk = $1 AND $2::text IS NULL AND $3::text IS NULL",
                (Some(_), _) => "f.tk = $1 AND f.author = $2 AND ($3::text IS NULL OR f.state = $3)",
            };
            let sql = format!(
                "SELECT {SESSION} FROM feedback_sessions f WHERE {which} AND f.n < $4 ORDER BY f.n DESC LIMIT $5"
            );
            let (author, state) =
                (query.author.as_ref().map(UserId::as_str), query.state.map(FeedbackState::as_str));
            let (before, one_more) =
                (query.after.unwrap_or(i64::MAX), int(query.limit as u64).saturating_add(1));
            let rows = self
                .context
                .read(Scope::Tenant(tk), &sql, &[&tk, &author, &state, &before, &one_more])
                .await?;
            let found: Vec<(i64, FeedbackSession)> = rows.iter().map(session_of).collect::<Result<_>>()?;
            Ok(Page::cut(found, query.limit))
        })
    }

    fn silent_feedback(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<FeedbackDue>> {
        read(async move {
            // The limit is in the text: the planner takes one in a parameter for a tenth of all rows.
            let sql = format!(
                "SELECT t.id, f.id FROM (SELECT tk, id, expires_at FROM feedback_sessions
                 WHERE state = 'open' AND expires_at <= $1 ORDER BY expires_at LIMIT {}) f
             JOIN tenants t ON t.tk = f.tk WHERE t.id IS NOT NULL ORDER BY f.expires_at",
                int(limit as u64)
            );
            let rows = self.context.read(Scope::All, &sql, &[&now.as_micros()]).await?;
            rows.iter()
                .map(|row| {
                    Ok(FeedbackDue {
                        tenant: TenantId::stored(row.try_get::<_, &str>(0)?),
                        id: row.try_get(1)?,
                    })
                })
                .collect()
        })
    }
}

async fn newest(
    context: &Context,
    tenant: &TenantId,
    author: Option<&UserId>,
    limit: usize,
) -> Result<Vec<FeedbackEvent>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Vec::new()) };
    let limit = int(limit as u64);
    let rows = match author.map(UserId::as_str) {
        Some(author) => {
            let sql = format!(
                "SELECT {EVENT} FROM feedback_events e WHERE e.tk = $1 AND e.author = $2 ORDER BY e.n DESC LIMIT $3"
            );
            context.read(Scope::Tenant(tk), &sql, &[&tk, &author, &limit]).await?
        }
        None => {
            let sql = format!(
                "SELECT {EVENT} FROM feedback_events e WHERE e.tk = $1 AND e.code IS NULL
                 ORDER BY e.at DESC, e.n DESC LIMIT $2"
            );
            context.read(Scope::Tenant(tk), &sql, &[&tk, &limit]).await?
        }
    };
    rows.iter().map(event_of).collect()
}

async fn tally(
    context: &Context,
    tenant: &TenantId,
    author: Option<&UserId>,
    now: Timestamp,
) -> Result<Tally> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Tally::default()) };
    let author = author.map(UserId::as_str);
    let since = |days: u64| now.minus(std::time::Duration::from_secs(days * 24 * 3600)).as_micros();
    let mut tally = Tally::default();
    let sql = "SELECT signal, count(*), count(*) FILTER (WHERE at >= $3), count(*) FILTER (WHERE at >= $4)
         FROM feedback_events WHERE tk = $1 AND code IS NULL AND ($2::text IS NULL OR author = $2) GROUP BY signal";
    for row in context.read(Scope::Tenant(tk), sql, &[&tk, &author, &since(30), &since(7)]).await? {
        let mut columns = Columns::of(&row);
        let signal = columns.word(Signal::parse)?;
        for window in [&mut tally.lifetime, &mut tally.days_30, &mut tally.days_7] {
            let counted = columns.number()?;
            match signal {
                Signal::Up => window.up = counted,
                Signal::Down => window.down = counted,
            }
        }
    }
    tally.tags = names(context, tk, author, "tag").await?;
    tally.skills = names(context, tk, author, "skill").await?;
    if author.is_none() {
        tally.failures = failed(context, tk, since(30), since(7)).await?;
    }
    Ok(tally)
}

async fn failed(context: &Context, tk: i32, days_30: i64, days_7: i64) -> Result<Failures> {
    let sql = "SELECT code, count(*), count(*) FILTER (WHERE at >= $2), count(*) FILTER (WHERE at >= $3)
         FROM feedback_events WHERE tk = $1 AND code IS NOT NULL GROUP BY code ORDER BY count(*) DESC, code";
    let mut failures = Failures::default();
    for row in context.read(Scope::Tenant(tk), sql, &[&tk, &days_30, &days_7]).await? {
        let mut columns = Columns::of(&row);
        let (code, all) = (columns.take()?, columns.number()?);
        failures.lifetime += all;
        failures.days_30 += columns.number()?;
        failures.days_7 += columns.number()?;
        if failures.codes.len() < limits::TALLY_NAMES_MAX {
            failures.codes.push((code, all));
        }
    }
    Ok(failures)
}

/// Records of failed runs, newest first.
async fn failures(
    context: &Context,
    tenant: &TenantId,
    query: FailureQuery,
) -> Result<Page<FeedbackEvent, i64>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Page::default()) };
    let which = match (&query.task_id, &query.session) {
        (None, None) => "$2::text IS NULL AND $3::text IS NULL",
        (Some(_), None) => "e.task_id = $2 AND $3::text IS NULL",
        (None, Some(_)) => "$2::text IS NULL AND e.session_id = $3",
        (Some(_), Some(_)) => "e.task_id = $2 AND e.session_id = $3",
    };
    let sql = format!(
        "SELECT {EVENT} FROM feedback_events e
         WHERE e.tk = $1 AND e.code IS NOT NULL AND {which} AND e.n < $4 ORDER BY e.n DESC LIMIT $5"
    );
    let session = query.session.as_ref().map(SessionId::as_str);
    let (before, one_more) = (query.after.unwrap_or(i64::MAX), int(query.limit as u64).saturating_add(1));
    let rows =
        context.read(Scope::Tenant(tk), &sql, &[&tk, &query.task_id, &session, &before, &one_more]).await?;
    let found: Vec<(i64, FeedbackEvent)> =
        rows.iter().map(|row| Ok((row.try_get(6)?, event_of(row)?))).collect::<Result<_>>()?;
    Ok(Page::cut(found, query.limit))
}

async fn names(
    context: &Context,
    tk: i32,
    author: Option<&str>,
    kind: &str,
) -> Result<Vec<(String, ThumbTotals)>> {
    let sql = "SELECT name, count(*) FILTER (WHERE signal = 'up'), count(*) FILTER (WHERE signal = 'down')
         FROM feedback_names WHERE tk = $1 AND kind = $2 AND ($3::text IS NULL OR author = $3)
         GROUP BY name ORDER BY count(*) DESC, name LIMIT $4";
    let most = int(limits::TALLY_NAMES_MAX as u64);
    let rows = context.read(Scope::Tenant(tk), sql, &[&tk, &kind, &author, &most]).await?;
    rows.iter()
        .map(|row| {
            let counts = ThumbTotals { up: count(row.try_get(1)?), down: count(row.try_get(2)?) };
            Ok((row.try_get(0)?, counts))
        })
        .collect()
}

pub(super) async fn session(
    context: &Context,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<FeedbackSession>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(None) };
    let sql = format!("SELECT {SESSION} FROM feedback_sessions f WHERE f.tk = $1 AND f.id = $2");
    let rows = context.read(Scope::Tenant(tk), &sql, &[&tk, &id]).await?;
    rows.first().map(|row| session_of(row).map(|(_, session)| session)).transpose()
}

pub(super) async fn add(tx: &Tx, tk: i32, event: &FeedbackEvent) -> Result<()> {
    let sql = "INSERT INTO feedback_events (tk, id, at, signal, author, session_id, body, code, task_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING n";
    let (author, signal) = (event.author.as_ref().map(UserId::as_str), event.signal.as_str());
    let body = serde_json::to_string(&event.body).map_err(Error::internal)?;
    let session = event.session.as_ref().map(SessionId::as_str);
    let (code, task) = event.body.failure.as_ref().map(|failure| (&failure.code, &failure.task_id)).unzip();
    let row: &[super::tx::Param<'_>] =
        &[&tk, &event.id, &event.at.as_micros(), &signal, &author, &session, &body, &code, &task];
    let rows = tx.query(sql, row).await?;
    let row = rows.first().ok_or_else(|| Error::internal("a feedback was not written"))?;
    let n: i64 = row.try_get(0)?;
    let (kinds, names): (Vec<&str>, Vec<&str>) = event.counted_by().unzip();
    if !names.is_empty() {
        let sql = "INSERT INTO feedback_names (tk, kind, name, n, signal, author)
             SELECT $1, u.kind, u.name, $4, $5, $6 FROM unnest($2::text[], $3::text[]) AS u (kind, name)";
        tx.execute(sql, &[&tk, &kinds, &names, &n, &signal, &author]).await?;
    }
    Ok(())
}

/// Writes a feedback session if it has the expected version. A transaction that waited for the row sees the first
/// write.
pub(super) async fn put_session(
    tx: &Tx,
    tk: i32,
    session: &FeedbackSession,
    expects: Option<u64>,
) -> Result<bool> {
    let body = serde_json::to_string(&session.body).map_err(Error::internal)?;
    let (state, expires_at) = (session.state.as_str(), session.expires_at.as_micros());
    let written = match expects.map(int) {
        Some(version) => {
            let sql =
                "UPDATE feedback_sessions SET state = $3, expires_at = $4, body = $5, version = version + 1
                 WHERE tk = $1 AND id = $2 AND version = $6";
            tx.execute(sql, &[&tk, &session.id, &state, &expires_at, &body, &version]).await?
        }
        None => {
            let sql = "INSERT INTO feedback_sessions (tk, id, event_id, signal, state, opened_at, expires_at, author,
                     version, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9) ON CONFLICT DO NOTHING";
            let author = session.author.as_ref().map(UserId::as_str);
            let (signal, opened_at) = (session.signal.as_str(), session.opened_at.as_micros());
            let row: &[super::tx::Param<'_>] =
                &[&tk, &session.id, &session.event, &signal, &state, &opened_at, &expires_at, &author, &body];
            tx.execute(sql, row).await?
        }
    };
    Ok(written > 0)
}

/// Hands the feedback of one user over to another. The version moves, so a caller that draws a lesson from it loads
/// it again.
pub(super) async fn merge(tx: &Tx, tk: i32, from: &str, into: &str) -> Result<()> {
    let sql = "UPDATE feedback_sessions SET version = version + 1 WHERE tk = $1 AND state = 'open'
         AND event_id IN (SELECT id FROM feedback_events WHERE tk = $1 AND author = $2)";
    tx.execute(sql, &[&tk, &from]).await?;
    for table in ["feedback_events", "feedback_names", "feedback_sessions"] {
        let sql = format!("UPDATE {table} SET author = $3 WHERE tk = $1 AND author = $2");
        tx.execute(&sql, &[&tk, &from, &into]).await?;
    }
    Ok(())
}
