//! Responses: who answers which view, with the form as it was at the opening.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::response::{RespondentHistory, ResponseQuery, ResponseRow, ResponseState, StoredResponse};
use sederunt_core::session::query::Page;
use sederunt_core::store::{ResponseStore, StoreFuture};
use sederunt_core::view::Respondent;
use sederunt_core::view::respondent::RespondentKind;

use super::fault::unknown_word;
use super::sessions::{self, ByKey};
use super::{SqliteStore, approvals, tenants};

const ROW: &str = "SELECT r.view_id, r.respondent, r.respondent_kind, r.respondent_id, r.ordinal, r.is_anonymous, r.once, \
     r.state, r.saved_at, r.form, h.id FROM responses r JOIN session_heads h ON h.sk = r.sk";

impl ResponseStore for SqliteStore {
    fn response<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<StoredResponse>> {
        self.read_on_writer(move |db| {
            let Some((sk, session)) = sessions::keyed_by_id(db, tenant, id)? else { return Ok(None) };
            let row =
                db.prepare_cached(&format!("{ROW} WHERE r.sk = ?1"))?.query_row([sk], read).optional()?;
            let Some(row) = row else { return Ok(None) };
            let promotion = approvals::promotion_of(db, sk, row.state)?;
            Ok(Some(StoredResponse { row, session, promotion }))
        })
        .boxed()
    }

    fn response_rows<'a>(
        &'a self,
        tenant: &'a TenantId,
        sessions: &'a [SessionId],
    ) -> StoreFuture<'a, Vec<ResponseRow>> {
        let sessions = sessions.to_vec();
        self.read_tenant(tenant, move |db, tk| {
            let mut by_id = db.prepare_cached(&format!("{ROW} WHERE h.tk = ?1 AND h.id = ?2"))?;
            let mut rows = Vec::new();
            for session in &sessions {
                rows.extend(by_id.query_row(params![tk, session.as_str()], read).optional()?);
            }
            Ok(rows)
        })
        .boxed()
    }

    fn respondent_history<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        respondent_name: &'a str,
    ) -> StoreFuture<'a, RespondentHistory> {
        self.read_on_writer(move |db| {
            let Some(tk) = tenants::key_of(db, tenant)? else { return Ok(RespondentHistory::default()) };
            let who = params![tk, view_id, respondent_name];
            let last: Option<i64> = db
                .prepare_cached(
                    "SELECT max(ordinal) FROM responses WHERE tk = ?1 AND view_id = ?2 AND respondent = ?3",
                )?
                .query_row(who, |row| row.get(0))?;
            let standing = db
                .prepare_cached(&format!(
                    "{ROW} WHERE r.tk = ?1 AND r.view_id = ?2 AND r.respondent = ?3 AND r.state <> 'abandoned' \
                     ORDER BY r.ordinal DESC LIMIT 1"
                ))?
                .query_row(who, read)
                .optional()?;
            Ok(RespondentHistory { last_ordinal: last.unwrap_or_default().cast_unsigned(), standing })
        })
        .boxed()
    }

    fn silent_drafts<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        kept: usize,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionId>> {
        self.read_on_writer(move |db| {
            let Some(tk) = tenants::key_of(db, tenant)? else { return Ok(Vec::new()) };
            let size = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            let mut silent: Vec<SessionId> = db
                .prepare_cached(
                    "SELECT h.id FROM (SELECT sk, saved_at FROM responses INDEXED BY responses_drafts \
                     WHERE tk = ?1 AND view_id = ?2 AND state = 'open' AND is_anonymous \
                     ORDER BY saved_at DESC LIMIT ?4 OFFSET ?3) r JOIN session_heads h ON h.sk = r.sk \
                     ORDER BY r.saved_at DESC",
                )?
                .query_map(params![tk, view_id, size(kept), size(limit)], |row| {
                    Ok(SessionId::stored(row.get_ref(0)?.as_str()?))
                })?
                .collect::<rusqlite::Result<_>>()?;
            silent.reverse();
            Ok(silent)
        })
        .boxed()
    }

    fn responses<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ResponseQuery,
    ) -> StoreFuture<'a, Page<StoredResponse, i64>> {
        let named = tenant.clone();
        self.read_tenant(tenant, move |db, tk| list(db, &named, tk, &query)).boxed()
    }
}

fn list(
    db: &Connection,
    tenant: &TenantId,
    tk: i64,
    query: &ResponseQuery,
) -> rusqlite::Result<Page<StoredResponse, i64>> {
    let (state, promoted) = query.filter.columns();
    let state_holds = if state.is_some() { "AND r.state = ?5" } else { "AND ?5 IS NULL" };
    let promoted_holds = match promoted {
        Some(promoted) => {
            let not = if promoted { "" } else { "NOT " };
            format!(
                "AND {not}EXISTS (SELECT 1 FROM approvals a WHERE a.sk = r.sk AND a.kind = 'promotion' \
                 AND a.state = 'approved')"
            )
        }
        None => String::new(),
    };
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let sql = format!(
        "SELECT r.sk FROM responses r WHERE r.tk = ?1 AND r.view_id = ?2 AND r.sk < ?3 {state_holds} {promoted_holds} \
         ORDER BY r.sk DESC LIMIT ?4"
    );
    let before = query.after.unwrap_or(i64::MAX);
    let mut found: Vec<i64> = db
        .prepare_cached(&sql)?
        .query_map(params![tk, query.view_id, before, limit, state.map(ResponseState::as_str)], |row| {
            row.get(0)
        })?
        .collect::<rusqlite::Result<_>>()?;
    let has_more = found.len() > query.limit;
    found.truncate(query.limit);
    let mut by_key = ByKey::of(db)?;
    let mut by_number = db.prepare_cached(&format!("{ROW} WHERE r.sk = ?1"))?;
    let mut items = Vec::with_capacity(found.len());
    for sk in &found {
        let row = by_number.query_row([sk], read)?;
        if let Some(session) = by_key.get(tenant, *sk)? {
            let promotion = approvals::promotion_of(db, *sk, row.state)?;
            items.push(StoredResponse { row, session, promotion });
        }
    }
    Ok(Page { items, next: found.last().copied().filter(|_| has_more) })
}

fn read(row: &Row<'_>) -> rusqlite::Result<ResponseRow> {
    let kind = row.get_ref(2)?.as_str()?;
    let state = row.get_ref(7)?.as_str()?;
    let form = Json::stored(row.get_ref(9)?.as_str()?);
    Ok(ResponseRow {
        session: SessionId::stored(row.get_ref(10)?.as_str()?),
        view_id: row.get(0)?,
        respondent_name: row.get(1)?,
        respondent: Respondent {
            kind: RespondentKind::parse(kind).ok_or_else(|| unknown_word(kind))?,
            id: row.get(3)?,
        },
        ordinal: row.get::<_, i64>(4)?.cast_unsigned(),
        is_anonymous: row.get(5)?,
        once: row.get(6)?,
        state: ResponseState::parse(state).ok_or_else(|| unknown_word(state))?,
        saved_at: Timestamp::from_micros(row.get(8)?),
        form: form.read().map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(9, rusqlite::types::Type::Text, error.into())
        })?,
    })
}

pub(super) fn is_standing(
    db: &Connection,
    tk: i64,
    view_id: &str,
    respondent_name: &str,
) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM responses WHERE tk = ?1 AND view_id = ?2 AND respondent = ?3 \
         AND (state = 'open' OR (once AND state = 'submitted'))",
    )?
    .exists(params![tk, view_id, respondent_name])
}

pub(super) fn add(db: &Connection, tk: i64, row: &ResponseRow, now: Timestamp) -> rusqlite::Result<()> {
    let form = row.form_json().map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    db.prepare_cached(
        "INSERT INTO responses (sk, tk, view_id, respondent, respondent_kind, respondent_id, ordinal, is_anonymous, \
         once, state, saved_at, form) SELECT sk, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM session_heads \
         WHERE tk = ?1 AND id = ?2",
    )?
    .execute(params![
        tk,
        row.session.as_str(),
        row.view_id,
        row.respondent_name,
        row.respondent.kind.as_str(),
        row.respondent.id,
        row.ordinal.cast_signed(),
        row.is_anonymous,
        row.once,
        row.state.as_str(),
        now.as_micros(),
        form.as_str(),
    ])
    .map(drop)
}

pub(super) fn set(
    db: &Connection,
    tk: i64,
    session: &SessionId,
    state: ResponseState,
    now: Timestamp,
) -> rusqlite::Result<()> {
    // The column of most indexes is written only where it changes.
    db.prepare_cached(
        "UPDATE responses SET saved_at = ?4 WHERE state = ?3 \
         AND sk = (SELECT sk FROM session_heads WHERE tk = ?1 AND id = ?2)",
    )?
    .execute(params![tk, session.as_str(), state.as_str(), now.as_micros()])?;
    db.prepare_cached(
        "UPDATE responses SET state = ?3, saved_at = ?4 WHERE state <> ?3 \
         AND sk = (SELECT sk FROM session_heads WHERE tk = ?1 AND id = ?2)",
    )?
    .execute(params![tk, session.as_str(), state.as_str(), now.as_micros()])
    .map(drop)
}
