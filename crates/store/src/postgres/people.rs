//! Reads people: keys, share links, users and their identities, the audit trail.

use sederunt_core::access::{ActingUser, Role, ShareAccess};
use sederunt_core::error::Error;
use sederunt_core::event::{EventPage, EventQuery};
use sederunt_core::ids::{CredentialId, Incarnation, SessionId, TenantId, UserId};
use sederunt_core::json::Json;
use sederunt_core::people::{
    FoundKey, Identity, Key, KnownBy, LinkCode, LinkReach, SecretHash, Share, ShareCursor, ShareListQuery,
    SharedSession, User,
};
use sederunt_core::session::Status;
use sederunt_core::session::query::Page;
use sederunt_core::store::{AuditLine, AuditStore, KeyStore, ShareStore, StoreFuture, UserStore};
use sederunt_core::talk::route::{ChannelRules, ThreadRule, Who};
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{Context, Param, Scope, int, within};
use super::{PostgresStore, events, read};

const KEY: &str =
    "k.id, k.user_id, k.role, k.prefix, k.act_as, k.created_at, k.expires_at, k.revoked_at, k.who, k.threads";
const SHARE: &str = "s.id, s.session_id, s.access, s.created_by, s.created_at, s.expires_at, s.revoked_at, t.suspended, s.view_id, s.user_id";
const USER: &str = "u.id, u.name, u.role, u.suspended, u.merged_into, u.created_at, u.known_by, u.told_at,
     ARRAY(SELECT i.platform FROM identities i WHERE i.tk = u.tk AND i.user_id = u.id
           ORDER BY i.platform, i.external_id),
     ARRAY(SELECT i.external_id FROM identities i WHERE i.tk = u.tk AND i.user_id = u.id
           ORDER BY i.platform, i.external_id)";

/// A credential is found before its tenant is known: the policy on its hash admits the row, and the row names the
/// tenant.
pub(super) async fn by_hash(
    context: &Context,
    table: &str,
    hash: SecretHash,
    sql: &str,
) -> Result<Option<Row>> {
    within(async {
        let client = context.app.get().await?;
        let hex = hex::encode(hash.0);
        let begin = format!("BEGIN READ ONLY; SELECT set_config('app.hash', '{hex}', true)");
        let lend = format!("SELECT set_config('app.tk', tk::text, true) FROM {table} WHERE hash = $1");
        let lend = client.prepare_cached(&lend).await?;
        let read = client.prepare_cached(sql).await?;
        let bytes = &hash.0[..];
        let (begun, lent, rows, ended) = futures_util::future::join4(
            client.batch_execute(&begin),
            client.query(&lend, &[&bytes]),
            client.query(&read, &[&bytes]),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        lent?;
        ended?;
        Ok(rows?.into_iter().next())
    })
    .await
}

impl ShareStore for PostgresStore {
    fn share_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<Share>> {
        read(async move {
            let sql = format!(
                "SELECT t.id, {SHARE} FROM shares s JOIN tenants t ON t.tk = s.tk WHERE s.hash = $1 AND t.id IS NOT NULL"
            );
            let Some(row) = by_hash(&self.context, "shares", hash, &sql).await? else { return Ok(None) };
            let mut columns = Columns::of(&row);
            let tenant = TenantId::stored(columns.take::<&str>()?);
            share_of(&mut columns, &tenant).map(Some)
        })
    }

    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        by: &'a ActingUser,
    ) -> StoreFuture<'a, Option<Share>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = format!(
                "SELECT {SHARE} FROM shares s JOIN tenants t ON t.tk = s.tk WHERE s.tk = $1 AND s.id = $2"
            );
            let rows = self.context.read(Scope::TenantAs(tk, by), &sql, &[&tk, &id]).await?;
            rows.first().map(|row| share_of(&mut Columns::of(row), tenant)).transpose()
        })
    }

    fn shared_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<SharedSession>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = "SELECT h.incarnation, h.status, h.last_sequence, s.title, s.result
                 FROM sessions s JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk WHERE s.tk = $1 AND s.id = $2";
            let rows = self.context.read(Scope::Link(hash, ""), sql, &[&tk, &id.as_str()]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let mut columns = Columns::of(row);
            Ok(Some(SharedSession {
                id: id.clone(),
                incarnation: Incarnation(columns.take()?),
                status: columns.word(Status::parse)?,
                last_sequence: columns.number()?,
                title: columns.text()?,
                result: columns.take::<Option<&str>>()?.map(Json::stored),
            }))
        })
    }

    fn shared_events<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        read(events::shared_events(&self.context, tenant, hash, id, query))
    }

    fn link_reach<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        view_id: &'a str,
        respondent_name: &'a str,
        response: Option<&'a SessionId>,
    ) -> StoreFuture<'a, LinkReach> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(LinkReach::Nothing) };
            let sql =
                "SELECT EXISTS (SELECT 1 FROM sessions s JOIN responses r ON r.tk = s.tk AND r.sk = s.sk
                     WHERE s.tk = $1 AND s.id = $3)
                 FROM shares l WHERE l.tk = $1 AND l.view_id = $2 AND l.sk IS NULL";
            let params: [Param<'_>; 3] = [&tk, &view_id, &response.map(SessionId::as_str)];
            let rows = self.context.read(Scope::Link(hash, respondent_name), sql, &params).await?;
            let found = rows.first().map(|row| row.try_get(0)).transpose()?;
            Ok(LinkReach::of(found))
        })
    }

    fn shares<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ShareListQuery,
    ) -> StoreFuture<'a, Page<Share, ShareCursor>> {
        read(shares(&self.context, tenant, query))
    }
}

/// Which of the links the acting user may see is for the policy on the table to say.
async fn shares(
    context: &Context,
    tenant: &TenantId,
    query: ShareListQuery,
) -> Result<Page<Share, ShareCursor>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Page::default()) };
    let (before, id) =
        query.after.as_ref().map_or((i64::MAX, ""), |after| (after.created_at.as_micros(), &after.id));
    let one_more = int(query.limit as u64).saturating_add(1);
    let mut params: Vec<Param<'_>> = vec![&tk, &before, &id, &one_more];
    let mut sql = format!(
        "SELECT {SHARE} FROM shares s JOIN tenants t ON t.tk = s.tk WHERE s.tk = $1 AND (s.created_at, s.id) < ($2, $3)"
    );
    let session = query.session.as_ref().map(SessionId::as_str);
    if session.is_some() {
        params.push(&session);
        sql.push_str(&format!(
            " AND s.sk = (SELECT sk FROM sessions WHERE tk = $1 AND id = ${})",
            params.len()
        ));
    }
    if query.view.is_some() {
        params.push(&query.view);
        sql.push_str(&format!(" AND s.view_id = ${}", params.len()));
    }
    sql.push_str(" ORDER BY s.created_at DESC, s.id DESC LIMIT $4");
    let rows = context.read(Scope::TenantAs(tk, &query.by), &sql, &params).await?;
    let of_page = rows.iter().take(query.limit);
    let items: Vec<Share> =
        of_page.map(|row| share_of(&mut Columns::of(row), tenant)).collect::<Result<_>>()?;
    let next = items.last().filter(|_| rows.len() > query.limit).map(Share::cursor);
    Ok(Page { items, next })
}

impl KeyStore for PostgresStore {
    fn key_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundKey>> {
        read(async move {
            let sql = format!(
            "SELECT t.id, t.suspended, coalesce(u.suspended OR u.merged_into IS NOT NULL, false), u.role, {KEY}
             FROM api_keys k JOIN tenants t ON t.tk = k.tk
             LEFT JOIN users u ON u.tk = k.tk AND u.id = k.user_id WHERE k.hash = $1 AND t.id IS NOT NULL"
        );
            let Some(row) = by_hash(&self.context, "api_keys", hash, &sql).await? else { return Ok(None) };
            let mut columns = Columns::of(&row);
            let tenant = TenantId::stored(columns.take::<&str>()?);
            let (tenant_suspended, user_refused) = (columns.take()?, columns.take()?);
            let user_role = columns.take::<Option<&str>>()?.map(Role::parse).transpose()?;
            let key = key_of(&mut columns, &tenant)?;
            Ok(Some(FoundKey { key, tenant_suspended, user_refused, user_role }))
        })
    }

    fn keys<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, Vec<Key>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql = format!("SELECT {KEY} FROM api_keys k WHERE k.tk = $1 ORDER BY k.created_at, k.id");
            let rows = self.context.read(Scope::Tenant(tk), &sql, &[&tk]).await?;
            rows.iter().map(|row| key_of(&mut Columns::of(row), tenant)).collect()
        })
    }
}

impl UserStore for PostgresStore {
    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> StoreFuture<'a, Option<User>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = format!("SELECT {USER} FROM users u WHERE u.tk = $1 AND u.id = $2");
            self.context
                .read(Scope::Tenant(tk), &sql, &[&tk, &id.as_str()])
                .await?
                .first()
                .map(user_of)
                .transpose()
        })
    }

    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> StoreFuture<'a, Option<User>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = format!(
                "SELECT {USER} FROM identities n JOIN users u ON u.tk = n.tk AND u.id = n.user_id
             WHERE n.tk = $1 AND n.platform = $2 AND n.external_id = $3"
            );
            let rows = self
                .context
                .read(Scope::Tenant(tk), &sql, &[&tk, &identity.platform, &identity.external_id])
                .await?;
            rows.first().map(user_of).transpose()
        })
    }

    fn link_code<'a>(&'a self, tenant: &'a TenantId, hash: &'a str) -> StoreFuture<'a, Option<LinkCode>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql =
                "SELECT platform, external_id, name, expires_at FROM link_codes WHERE tk = $1 AND hash = $2";
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &hash]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let mut columns = Columns::of(row);
            Ok(Some(LinkCode {
                identity: Identity { platform: columns.take()?, external_id: columns.take()? },
                name: columns.take()?,
                expires_at: columns.time()?,
            }))
        })
    }

    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<User>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql =
                format!("SELECT {USER} FROM users u WHERE u.tk = $1 AND u.id > $2 ORDER BY u.id LIMIT $3");
            let rows = self
                .context
                .read(Scope::Tenant(tk), &sql, &[&tk, &after.unwrap_or_default(), &int(limit as u64)])
                .await?;
            rows.iter().map(user_of).collect()
        })
    }
}

impl AuditStore for PostgresStore {
    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<AuditLine, i64>> {
        read(audit(&self.context, tenant, after, limit))
    }
}

fn key_of(columns: &mut Columns<'_>, tenant: &TenantId) -> Result<Key> {
    Ok(Key {
        id: CredentialId::stored(columns.take::<&str>()?),
        tenant: tenant.clone(),
        user: columns.user()?,
        role: Role::parse(columns.take()?)?,
        prefix: columns.take()?,
        act_as: columns.take()?,
        created_at: columns.time()?,
        expires_at: columns.time_if()?,
        revoked_at: columns.time_if()?,
        rules: ChannelRules {
            who: columns.take::<Option<&str>>()?.map(Who::parse).transpose()?.unwrap_or_default(),
            threads: columns.take::<Option<&str>>()?.map(ThreadRule::parse).transpose()?.unwrap_or_default(),
        },
    })
}

fn share_of(columns: &mut Columns<'_>, tenant: &TenantId) -> Result<Share> {
    Ok(Share {
        id: columns.take()?,
        tenant: tenant.clone(),
        session: columns.take::<Option<&str>>()?.map(SessionId::stored),
        access: ShareAccess::parse(columns.take()?)?,
        created_by: columns.user()?,
        created_at: columns.time()?,
        expires_at: columns.time()?,
        revoked_at: columns.time_if()?,
        tenant_suspended: columns.take()?,
        view: columns.take()?,
        user: columns.user()?,
    })
}

fn user_of(row: &Row) -> Result<User> {
    let mut columns = Columns::of(row);
    Ok(User {
        id: UserId::stored(columns.take::<&str>()?),
        name: columns.take()?,
        role: Role::parse(columns.take()?)?,
        suspended: columns.take()?,
        merged_into: columns.user()?,
        created_at: columns.time()?,
        known_by: columns
            .take::<Option<&str>>()?
            .map(|word| {
                KnownBy::parse(word).ok_or_else(|| Error::internal(format!("a user is known by `{word}`")))
            })
            .transpose()?,
        told_at: columns.time_if()?,
        identities: columns
            .take::<Vec<String>>()?
            .into_iter()
            .zip(columns.take::<Vec<String>>()?)
            .map(|(platform, external_id)| Identity { platform, external_id })
            .collect(),
    })
}

async fn audit(
    context: &Context,
    tenant: &TenantId,
    after: Option<i64>,
    limit: usize,
) -> Result<Page<AuditLine, i64>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Page::default()) };
    let sql =
        "SELECT n, at, actor, action, target FROM audit WHERE tk = $1 AND n < $2 ORDER BY n DESC LIMIT $3";
    let (before, one_more) = (after.unwrap_or(i64::MAX), int(limit as u64).saturating_add(1));
    let rows = context.read(Scope::Tenant(tk), sql, &[&tk, &before, &one_more]).await?;
    let (mut items, mut last) = (Vec::with_capacity(rows.len()), None);
    for row in rows.iter().take(limit) {
        let mut columns = Columns::of(row);
        last = Some(columns.take::<i64>()?);
        items.push(AuditLine {
            at: columns.time()?,
            actor: columns.take()?,
            action: columns.take()?,
            target: columns.take()?,
        });
    }
    Ok(Page { items, next: last.filter(|_| rows.len() > limit) })
}
