//! Responses: who answers which view, with the form as it was at the opening.

use sederunt_core::error::Error;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::response::{RespondentHistory, ResponseQuery, ResponseRow, ResponseState, StoredResponse};
use sederunt_core::session::query::Page;
use sederunt_core::store::{ResponseStore, StoreFuture};
use sederunt_core::time::Timestamp;
use sederunt_core::view::Respondent;
use sederunt_core::view::respondent::RespondentKind;

use super::fault::Result;
use super::rows::Columns;
use super::sessions::session_sql_with;
use super::tx::{Context, Param, Scope, Tx, int};
use super::{PostgresStore, approvals, read};

/// Behind other columns, each after a comma. Read by [`row_of`].
const ROW: &str = ", r.view_id, r.respondent, r.respondent_kind, r.respondent_id, r.ordinal, r.is_anonymous, r.once, \
     r.state, r.saved_at, r.form";
const JOINED: &str = "JOIN responses r ON r.tk = h.tk AND r.sk = h.sk";

impl ResponseStore for PostgresStore {
    fn response<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<StoredResponse>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = session_sql_with(ROW, &format!("{JOINED} WHERE s.tk = $1 AND s.id = $2"));
            let found = stored(&self.context, tenant, tk, &sql, &[&tk, &id.as_str()]).await?;
            Ok(found.into_iter().next().map(|(_, response)| response))
        })
    }

    fn response_rows<'a>(
        &'a self,
        tenant: &'a TenantId,
        sessions: &'a [SessionId],
    ) -> StoreFuture<'a, Vec<ResponseRow>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
            let sql = format!(
                "SELECT s.id{ROW} FROM unnest($2::text[]) AS k (id) JOIN sessions s ON s.tk = $1 AND s.id = k.id
                 JOIN responses r ON r.tk = s.tk AND r.sk = s.sk"
            );
            let rows = self.context.read(Scope::Tenant(tk), &sql, &[&tk, &ids]).await?;
            let row = |row| {
                let mut columns = Columns::of(row);
                let session = SessionId::stored(columns.take::<&str>()?);
                row_of(&mut columns, session)
            };
            rows.iter().map(row).collect()
        })
    }

    fn respondent_history<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        respondent_name: &'a str,
    ) -> StoreFuture<'a, RespondentHistory> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(RespondentHistory::default()) };
            let params: [Param<'_>; 3] = [&tk, &view_id, &respondent_name];
            let of = "r.tk = $1 AND r.view_id = $2 AND r.respondent = $3";
            let sql = format!(
                "SELECT h.id{ROW}, (SELECT max(r.ordinal) FROM responses r WHERE {of}) FROM (SELECT 1) one
                 LEFT JOIN (SELECT * FROM responses r WHERE {of} AND r.state <> 'abandoned'
                     ORDER BY r.ordinal DESC LIMIT 1) r ON true
                 LEFT JOIN session_heads h ON h.tk = r.tk AND h.sk = r.sk"
            );
            let rows = self.context.read(Scope::Tenant(tk), &sql, &params).await?;
            let Some(row) = rows.first() else { return Ok(RespondentHistory::default()) };
            let last: Option<i64> = row.try_get(11)?;
            let mut columns = Columns::of(row);
            let standing = match columns.take::<Option<&str>>()? {
                Some(id) => Some(row_of(&mut columns, SessionId::stored(id))?),
                None => None,
            };
            Ok(RespondentHistory { last_ordinal: last.unwrap_or_default().cast_unsigned(), standing })
        })
    }

    fn silent_drafts<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        kept: usize,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionId>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql =
                "SELECT h.id FROM (SELECT tk, sk, saved_at FROM responses WHERE tk = $1 AND view_id = $2
                     AND state = 'open' AND is_anonymous ORDER BY saved_at DESC LIMIT $4 OFFSET $3) r
                 JOIN session_heads h ON h.tk = r.tk AND h.sk = r.sk ORDER BY r.saved_at";
            let (kept, limit) = (int(kept as u64), int(limit as u64));
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &view_id, &kept, &limit]).await?;
            rows.iter().map(|row| Ok(SessionId::stored(row.try_get::<_, &str>(0)?))).collect()
        })
    }

    fn responses<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ResponseQuery,
    ) -> StoreFuture<'a, Page<StoredResponse, i64>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Page::default()) };
            let (state, promoted) = query.filter.columns();
            let state_holds =
                state.map_or_else(String::new, |state| format!("AND r.state = '{}'", state.as_str()));
            let promoted_holds = match promoted {
                Some(promoted) => {
                    let not = if promoted { "" } else { "NOT " };
                    format!(
                        "AND {not}EXISTS (SELECT 1 FROM approvals a WHERE a.tk = r.tk AND a.sk = r.sk
                             AND a.kind = 'promotion' AND a.state = 'approved')"
                    )
                }
                None => String::new(),
            };
            // The page is chosen by the index alone; only then are the sessions of its rows read.
            let rest = format!(
                "JOIN (SELECT r.* FROM responses r WHERE r.tk = $1 AND r.view_id = $2 AND r.sk < $3 {state_holds}
                     {promoted_holds} ORDER BY r.sk DESC LIMIT $4) r ON r.tk = h.tk AND r.sk = h.sk
                 WHERE h.tk = $1 ORDER BY r.sk DESC"
            );
            let (before, limit) = (query.after.unwrap_or(i64::MAX), int(query.limit as u64 + 1));
            let sql = session_sql_with(ROW, &rest);
            let mut found =
                stored(&self.context, tenant, tk, &sql, &[&tk, &&*query.view_id, &before, &limit]).await?;
            let has_more = found.len() > query.limit;
            found.truncate(query.limit);
            let next = found.last().map(|(sk, _)| *sk).filter(|_| has_more);
            Ok(Page { items: found.into_iter().map(|(_, response)| response).collect(), next })
        })
    }
}

/// Whole responses with the numbers of their sessions.
async fn stored(
    context: &Context,
    tenant: &TenantId,
    tk: i32,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<(i64, StoredResponse)>> {
    let mut found = Vec::new();
    for row in &context.read(Scope::Tenant(tk), sql, params).await? {
        let mut columns = Columns::of(row);
        let session = columns.whole(tenant)?;
        let response = row_of(&mut columns, session.id)?;
        found.push((session.sk, StoredResponse { row: response, session: session.value, promotion: None }));
    }
    let submitted = found.iter().filter(|(_, response)| response.row.state == ResponseState::Submitted);
    let submitted: Vec<i64> = submitted.map(|(sk, _)| *sk).collect();
    if !submitted.is_empty() {
        for promotion in approvals::promotions_of(context, tk, &submitted).await? {
            let of = found.iter_mut().find(|(_, response)| response.row.session == promotion.session);
            if let Some((_, response)) = of {
                response.promotion = Some(promotion);
            }
        }
    }
    Ok(found)
}

fn row_of(columns: &mut Columns<'_>, session: SessionId) -> Result<ResponseRow> {
    let view_id = columns.take::<&str>()?.into();
    let respondent_name = columns.take()?;
    let respondent = Respondent { kind: columns.word(RespondentKind::parse)?, id: columns.take()? };
    let (ordinal, is_anonymous, once) = (columns.number()?, columns.take()?, columns.take()?);
    let (state, saved_at) = (columns.word(ResponseState::parse)?, columns.time()?);
    let form = Json::stored(columns.take::<&str>()?).read().map_err(Error::internal)?;
    Ok(ResponseRow {
        session,
        view_id,
        respondent,
        respondent_name,
        ordinal,
        is_anonymous,
        once,
        state,
        saved_at,
        form,
    })
}

/// Adds the response of a session that cannot be deleted meanwhile. Returns the rows written.
pub(super) async fn add(tx: &Tx, tk: i32, row: &ResponseRow, now: Timestamp) -> Result<u64> {
    let sql = "INSERT INTO responses (tk, sk, view_id, respondent, respondent_kind, respondent_id, ordinal, is_anonymous,
             once, state, saved_at, form)
         SELECT $1, h.sk, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 FROM sessions s
         JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk WHERE s.tk = $1 AND s.id = $2 FOR KEY SHARE OF h";
    let form = row.form_json()?;
    tx.execute(
        sql,
        &[
            &tk,
            &row.session.as_str(),
            &&*row.view_id,
            &row.respondent_name,
            &row.respondent.kind.as_str(),
            &row.respondent.id,
            &int(row.ordinal),
            &row.is_anonymous,
            &row.once,
            &row.state.as_str(),
            &now.as_micros(),
            &form.as_str(),
        ],
    )
    .await
}

pub(super) async fn set(
    tx: &Tx,
    tk: i32,
    session: &SessionId,
    state: ResponseState,
    now: Timestamp,
) -> Result<()> {
    let sql = "UPDATE responses SET state = $3, saved_at = $4
         WHERE tk = $1 AND sk = (SELECT s.sk FROM sessions s WHERE s.tk = $1 AND s.id = $2)";
    tx.execute(sql, &[&tk, &session.as_str(), &state.as_str(), &now.as_micros()]).await.map(drop)
}
