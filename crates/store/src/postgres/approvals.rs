//! Approvals: what waits for a person, and what was decided.

use sederunt_core::approval::{Approval, ApprovalBody, ApprovalQuery, ApprovalState};
use sederunt_core::error::Error;
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::session::query::Page;
use sederunt_core::store::{ApprovalListStore, ApprovalStore, StoreFuture};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{Context, Scope, Tx};
use super::{PostgresStore, definitions, read};
use crate::filtered_list::FilteredList;

const APPROVAL: &str = "a.n, a.id, a.kind, h.id, a.task_id, a.state, a.assigned_to, a.expires_at, a.created_at, \
     a.decided_by, a.decided_at, a.body";

fn approval_of(row: &Row) -> Result<(i64, Approval)> {
    let mut columns = Columns::of(row);
    let n = columns.take()?;
    let id = columns.take::<&str>()?.into();
    let kind: Option<&str> = columns.take()?;
    let session = SessionId::stored(columns.take::<&str>()?);
    let (task_id, state) = (columns.text()?, columns.word(ApprovalState::parse)?);
    let (assigned_to, expires_at, created_at) = (columns.user()?, columns.time_if()?, columns.time()?);
    let (decided_by, decided_at) = (columns.text()?, columns.time_if()?);
    let approval = Approval::of_row(kind, columns.take()?, |kind, body| Approval {
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
    });
    Ok((n, approval))
}

impl ApprovalStore for PostgresStore {
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Approval>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = format!(
                "SELECT {APPROVAL} FROM approvals a JOIN session_heads h ON h.tk = a.tk AND h.sk = a.sk
             WHERE a.tk = $1 AND a.id = $2"
            );
            let rows = self.context.read(Scope::Tenant(tk), &sql, &[&tk, &id]).await?;
            rows.first().map(|row| approval_of(row).map(|(_, approval)| approval)).transpose()
        })
    }
}

impl ApprovalListStore for PostgresStore {
    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Page<Approval, i64>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Page::default()) };
            let list = FilteredList::approvals(&query, "sessions");
            let read = |numbers: &str| {
                format!(
                    "SELECT {APPROVAL} FROM ({numbers}) p CROSS JOIN approvals a CROSS JOIN session_heads h
                 WHERE a.tk = $1 AND a.n = p.n AND h.tk = $1 AND h.sk = a.sk ORDER BY p.n DESC"
                )
            };
            let rows = definitions::rows(&self.context, tk, &list, read).await?;
            Ok(list.page(rows.iter().map(approval_of).collect::<Result<_>>()?))
        })
    }

    fn approval_ids<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Vec<Box<str>>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let list = FilteredList::approvals(&query, "sessions");
            let read = |numbers: &str| {
                format!(
                    "SELECT a.n, a.id FROM ({numbers}) p CROSS JOIN approvals a
                     WHERE a.tk = $1 AND a.n = p.n ORDER BY p.n DESC"
                )
            };
            let rows = definitions::rows(&self.context, tk, &list, read).await?;
            let id = |row: &Row| Ok((row.try_get(0)?, row.try_get::<_, &str>(1)?.into()));
            Ok(list.page(rows.iter().map(id).collect::<Result<_>>()?).items)
        })
    }
}

/// The newest promotion of each of these sessions that has any.
pub(super) async fn promotions_of(context: &Context, tk: i32, sessions: &[i64]) -> Result<Vec<Approval>> {
    let sql = format!(
        "SELECT DISTINCT ON (a.sk) {APPROVAL} FROM approvals a JOIN session_heads h ON h.tk = a.tk AND h.sk = a.sk
         WHERE a.tk = $1 AND a.sk = ANY ($2) AND a.kind = 'promotion' ORDER BY a.sk, a.n DESC"
    );
    let rows = context.read(Scope::Tenant(tk), &sql, &[&tk, &sessions]).await?;
    rows.iter().map(|row| approval_of(row).map(|(_, approval)| approval)).collect()
}

/// Adds an approval to a session that cannot be deleted meanwhile. Returns the rows written.
pub(super) async fn add(tx: &Tx, tk: i32, approval: &Approval, now: Timestamp) -> Result<u64> {
    let sql = "INSERT INTO approvals (tk, id, sk, kind, state, task_id, assigned_to, expires_at, created_at, decided_by,
             decided_at, body)
         SELECT $1, $2, h.sk, $4, $5, $6, $7, $8, $9, $10, $11, $12 FROM sessions s
         JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk WHERE s.tk = $1 AND s.id = $3 FOR KEY SHARE OF h";
    tx.execute(
        sql,
        &[
            &tk,
            &&*approval.id,
            &approval.session.as_str(),
            &approval.kind.as_str(),
            &approval.state.as_str(),
            &approval.task_id.as_deref(),
            &approval.assigned_to.as_ref().map(UserId::as_str),
            &approval.expires_at.map(Timestamp::as_micros),
            &now.as_micros(),
            &approval.decided_by.as_deref(),
            &approval.decided_at.map(Timestamp::as_micros),
            &text_of(&approval.body)?,
        ],
    )
    .await
}

/// Closes an approval if it is still pending. A transaction that waited for the row sees the first decision.
pub(super) async fn close(
    tx: &Tx,
    tk: i32,
    id: &str,
    state: ApprovalState,
    decided_by: Option<&str>,
    body: Option<&ApprovalBody>,
    now: Timestamp,
) -> Result<bool> {
    let sql = "UPDATE approvals SET state = $3, decided_by = $4, decided_at = $5, body = coalesce($6, body)
         WHERE tk = $1 AND id = $2 AND state = 'pending'";
    let body = body.map(text_of).transpose()?;
    let closed = tx.execute(sql, &[&tk, &id, &state.as_str(), &decided_by, &now.as_micros(), &body]).await?;
    Ok(closed > 0)
}

pub(super) async fn merge(tx: &Tx, tk: i32, from: &str, into: &str) -> Result<()> {
    let sql = "UPDATE approvals SET assigned_to = $3 WHERE tk = $1 AND assigned_to = $2";
    tx.execute(sql, &[&tk, &from, &into]).await.map(drop)
}

fn text_of(body: &ApprovalBody) -> Result<String> {
    Ok(serde_json::to_string(body).map_err(Error::internal)?)
}
