//! Approvals: what waits for a person, and what was decided.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::Timestamp;
use sederunt_core::approval::{Approval, ApprovalBody, ApprovalQuery, ApprovalState};
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::response::ResponseState;
use sederunt_core::session::query::Page;
use sederunt_core::store::{ApprovalListStore, ApprovalStore, StoreFuture};

use super::SqliteStore;
use super::fault::unknown_word;
use super::filtered_list::page_numbers;
use super::heads::text;
use super::people::instant;
use crate::filtered_list::FilteredList;

const APPROVALS: &str = "SELECT a.n, a.id, a.kind, h.id, a.task_id, a.state, a.assigned_to, a.expires_at, \
     a.created_at, a.decided_by, a.decided_at, a.body FROM approvals a JOIN session_heads h ON h.sk = a.sk";

impl ApprovalStore for SqliteStore {
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Approval>> {
        self.read_inline(move |db| {
            db.prepare_cached(&format!(
                "{APPROVALS} JOIN tenants t ON t.tk = a.tk WHERE t.id = ?1 AND a.id = ?2"
            ))?
            .query_row([tenant.as_str(), id], read)
            .optional()
        })
        .boxed()
    }
}

impl ApprovalListStore for SqliteStore {
    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Page<Approval, i64>> {
        self.read_tenant(tenant, move |db, tk| approvals(db, tk, &query)).boxed()
    }

    fn approval_ids<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Vec<Box<str>>> {
        self.read_tenant(tenant, move |db, tk| {
            let list = FilteredList::approvals(&query, "session_heads");
            let mut id = db.prepare_cached("SELECT id FROM approvals WHERE n = ?1")?;
            let mut found = Vec::new();
            for n in page_numbers(db, tk, &list)? {
                found.push((n, id.query_row([n], |row| row.get(0))?));
            }
            Ok(list.page(found).items)
        })
        .boxed()
    }
}

pub(super) fn approvals(
    db: &Connection,
    tk: i64,
    query: &ApprovalQuery,
) -> rusqlite::Result<Page<Approval, i64>> {
    let list = FilteredList::approvals(query, "session_heads");
    let mut by_number = db.prepare_cached(&format!("{APPROVALS} WHERE a.n = ?1"))?;
    let mut found = Vec::new();
    for n in page_numbers(db, tk, &list)? {
        found.push((n, by_number.query_row([n], read)?));
    }
    Ok(list.page(found))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let state = row.get_ref(5)?.as_str()?;
    let state = ApprovalState::parse(state).ok_or_else(|| unknown_word(state))?;
    let (id, task_id, decided_by) = (row.get(1)?, row.get(4)?, row.get(9)?);
    let session = SessionId::stored(row.get_ref(3)?.as_str()?);
    let assigned_to = text(row, 6)?.map(UserId::stored);
    let created_at = Timestamp::from_micros(row.get(8)?);
    let (expires_at, decided_at) = (instant(row, 7)?, instant(row, 10)?);
    Ok(Approval::of_row(text(row, 2)?, row.get_ref(11)?.as_str()?, |kind, body| Approval {
        id,
        kind,
        session,
        task_id,
        state,
        assigned_to,
        expires_at,
        created_at,
        decided_by,
        decided_at,
        body,
    }))
}

/// The newest promotion of a session that is a response in this state. Only a submitted one has any.
pub(super) fn promotion_of(
    db: &Connection,
    sk: i64,
    response: ResponseState,
) -> rusqlite::Result<Option<Approval>> {
    if response != ResponseState::Submitted {
        return Ok(None);
    }
    db.prepare_cached(&format!(
        "{APPROVALS} WHERE a.sk = ?1 AND a.kind = 'promotion' ORDER BY a.n DESC LIMIT 1"
    ))?
    .query_row([sk], read)
    .optional()
}

pub(super) fn state(db: &Connection, tk: i64, id: &str) -> rusqlite::Result<Option<ApprovalState>> {
    let stored: Option<String> = db
        .prepare_cached("SELECT state FROM approvals WHERE tk = ?1 AND id = ?2")?
        .query_row(params![tk, id], |row| row.get(0))
        .optional()?;
    stored.map(|word| ApprovalState::parse(&word).ok_or_else(|| unknown_word(&word))).transpose()
}

pub(super) fn add(db: &Connection, tk: i64, approval: &Approval, now: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO approvals (tk, id, sk, kind, state, task_id, assigned_to, expires_at, created_at, decided_by, \
         decided_at, body) SELECT ?1, ?2, sk, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM session_heads \
         WHERE tk = ?1 AND id = ?3",
    )?
    .execute(params![
        tk,
        approval.id,
        approval.session.as_str(),
        approval.kind.as_str(),
        approval.state.as_str(),
        approval.task_id,
        approval.assigned_to.as_ref().map(UserId::as_str),
        approval.expires_at.map(Timestamp::as_micros),
        now.as_micros(),
        approval.decided_by,
        approval.decided_at.map(Timestamp::as_micros),
        text_of(&approval.body)?,
    ])
    .map(drop)
}

pub(super) fn close(
    db: &Connection,
    tk: i64,
    id: &str,
    state: ApprovalState,
    decided_by: Option<&str>,
    body: Option<&ApprovalBody>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE approvals SET state = ?3, decided_by = ?4, decided_at = ?5, body = coalesce(?6, body) WHERE tk = ?1 AND id = ?2",
    )?
    .execute(params![tk, id, state.as_str(), decided_by, now.as_micros(), body.map(text_of).transpose()?])
    .map(drop)
}

fn text_of(body: &ApprovalBody) -> rusqlite::Result<String> {
    serde_json::to_string(body).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
