//! Keys, share links, users and their identities, the audit trail.

use sederunt_core::access::{Role, ShareAccess};
use sederunt_core::error::{Conflict, Error};
use sederunt_core::ids::{CredentialId, SessionId, TenantId, UserId};
use sederunt_core::people::{FoundKey, Identity, Key, SecretHash, Share, User};
use sederunt_core::store::{AuditLine, Record};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::{Fault, Result};
use super::rows::Columns;
use super::tx::{Base, Scope, Tx, int, within};

const KEY: &str = "k.id, k.user_id, k.role, k.prefix, k.act_as, k.created_at, k.expires_at, k.revoked_at";
const SHARE: &str =
    "s.id, s.session_id, s.access, s.created_by, s.created_at, s.expires_at, s.revoked_at, t.suspended";
const USER: &str = "u.id, u.name, u.role, u.suspended, u.merged_into, u.created_at,
     ARRAY(SELECT i.platform FROM identities i WHERE i.tk = u.tk AND i.user_id = u.id
           ORDER BY i.platform, i.external_id),
     ARRAY(SELECT i.external_id FROM identities i WHERE i.tk = u.tk AND i.user_id = u.id
           ORDER BY i.platform, i.external_id)";

/// Applies one record of a change.
pub(super) async fn record(tx: &Tx, tk: i32, record: &Record, now: Timestamp) -> Result<()> {
    let touched = match record {
        Record::AddKey { key, hash } => {
            let sql = "INSERT INTO api_keys (tk, id, hash, user_id, role, prefix, act_as, created_at, expires_at, revoked_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
            tx.execute(
                sql,
                &[
                    &tk,
                    &key.id.as_str(),
                    &&hash.0[..],
                    &key.user.as_ref().map(UserId::as_str),
                    &key.role.as_str(),
                    &key.prefix,
                    &key.act_as,
                    &key.created_at.as_micros(),
                    &key.expires_at.map(Timestamp::as_micros),
                    &key.revoked_at.map(Timestamp::as_micros),
                ],
            )
            .await?
        }
        Record::RevokeKey { id } => {
            let sql = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &now.as_micros()]).await?
        }
        Record::AddShare { share, hash } => {
            // Bound to this life of the session: the link of a deleted one opens nothing.
            let sql = "INSERT INTO shares (tk, id, hash, sk, session_id, access, created_by, created_at, expires_at, revoked_at)
                 SELECT $1, $2, $3, h.sk, h.id, $5, $6, $7, $8, $9 FROM session_heads h WHERE h.tk = $1 AND h.id = $4";
            tx.execute(
                sql,
                &[
                    &tk,
                    &share.id,
                    &&hash.0[..],
                    &share.session.as_str(),
                    &share.access.as_str(),
                    &share.created_by.as_ref().map(UserId::as_str),
                    &share.created_at.as_micros(),
                    &share.expires_at.as_micros(),
                    &share.revoked_at.map(Timestamp::as_micros),
                ],
            )
            .await?
        }
        Record::RevokeShare { id } => {
            let sql = "UPDATE shares SET revoked_at = coalesce(revoked_at, $3) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, id, &now.as_micros()]).await?
        }
        Record::AddUser(user) => add_user(tx, tk, user).await?,
        Record::UpdateUser { id, role, name, suspended } => {
            let sql = "UPDATE users SET role = coalesce($3, role), name = coalesce($4, name),
                 suspended = coalesce($5, suspended) WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id.as_str(), &role.map(Role::as_str), name, suspended]).await?
        }
        Record::AddIdentity { user, identity } => add_identity(tx, tk, user, identity).await?,
        Record::MergeUser { from, into } => merge_user(tx, tk, from, into).await?,
    };
    if touched == 0 {
        return Err(Error::NotFound.into());
    }
    Ok(())
}

async fn add_user(tx: &Tx, tk: i32, user: &User) -> Result<u64> {
    let sql = "INSERT INTO users (tk, id, name, role, suspended, merged_into, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let merged = user.merged_into.as_ref().map(UserId::as_str);
    let (id, role) = (user.id.as_str(), user.role.as_str());
    let added = tx
        .execute(sql, &[&tk, &id, &user.name, &role, &user.suspended, &merged, &user.created_at.as_micros()])
        .await?;
    for identity in &user.identities {
        add_identity(tx, tk, &user.id, identity).await?;
    }
    Ok(added)
}

async fn add_identity(tx: &Tx, tk: i32, user: &UserId, identity: &Identity) -> Result<u64> {
    let known = tx
        .query("SELECT 1 FROM users WHERE tk = $1 AND id = $2 FOR KEY SHARE", &[&tk, &user.as_str()])
        .await?;
    if known.is_empty() {
        return Ok(0);
    }
    let sql = "INSERT INTO identities (tk, platform, external_id, user_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let params = (&identity.platform, &identity.external_id, user.as_str());
    let added = tx.execute(sql, &[&tk, params.0, params.1, &params.2]).await?;
    if added == 0 {
        let sql =
            "SELECT 1 FROM identities WHERE tk = $1 AND platform = $2 AND external_id = $3 AND user_id = $4";
        if tx.query(sql, &[&tk, params.0, params.1, &params.2]).await?.is_empty() {
            return Err(Fault::Core(Conflict::AlreadyExists.into()));
        }
    }
    Ok(1)
}

async fn merge_user(tx: &Tx, tk: i32, from: &UserId, into: &UserId) -> Result<u64> {
    let (from, into) = (from.as_str(), into.as_str());
    let sql = "SELECT id FROM users WHERE tk = $1 AND id = ANY ($2) ORDER BY id FOR NO KEY UPDATE";
    if tx.query(sql, &[&tk, &vec![from, into]]).await?.len() < 2 {
        return Ok(0);
    }
    for sql in [
        "UPDATE identities SET user_id = $3 WHERE tk = $1 AND user_id = $2",
        "INSERT INTO participants (tk, sk, user_id) SELECT tk, sk, $3 FROM participants WHERE tk = $1 AND user_id = $2
         ON CONFLICT DO NOTHING",
        // Locked in the order in which everyone locks heads.
        "UPDATE session_heads SET holder = $3, version = version + 1 WHERE (tk, sk) IN
             (SELECT tk, sk FROM session_heads WHERE tk = $1 AND holder = $2 ORDER BY tk, sk FOR NO KEY UPDATE)",
    ] {
        tx.execute(sql, &[&tk, &from, &into]).await?;
    }
    tx.execute("DELETE FROM participants WHERE tk = $1 AND user_id = $2", &[&tk, &from]).await?;
    tx.execute(
        "UPDATE users SET suspended = true, merged_into = $3 WHERE tk = $1 AND id = $2",
        &[&tk, &from, &into],
    )
    .await
}

/// A credential is found before its tenant is known: by the policy on its hash, which then lends the tenant.
async fn by_hash(base: &Base, table: &str, hash: SecretHash, sql: &str) -> Result<Option<Row>> {
    within(async {
        let client = base.app.get().await?;
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

pub(super) async fn key_by_hash(base: &Base, hash: SecretHash) -> Result<Option<FoundKey>> {
    let sql = format!(
        "SELECT t.id, t.suspended, coalesce(u.suspended, false), {KEY} FROM api_keys k JOIN tenants t ON t.tk = k.tk
         LEFT JOIN users u ON u.tk = k.tk AND u.id = k.user_id WHERE k.hash = $1 AND t.id IS NOT NULL"
    );
    let Some(row) = by_hash(base, "api_keys", hash, &sql).await? else { return Ok(None) };
    let mut columns = Columns::of(&row);
    let tenant = TenantId::stored(columns.take::<&str>()?);
    let (tenant_suspended, user_suspended) = (columns.take()?, columns.take()?);
    Ok(Some(FoundKey { key: key_of(&mut columns, &tenant)?, tenant_suspended, user_suspended }))
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
    })
}

pub(super) async fn keys(base: &Base, tenant: &TenantId) -> Result<Vec<Key>> {
    let Some(tk) = base.tk(tenant).await? else { return Ok(Vec::new()) };
    let sql = format!("SELECT {KEY} FROM api_keys k WHERE k.tk = $1 ORDER BY k.created_at, k.id");
    let rows = base.read(Scope::Tenant(tk), &sql, &[&tk]).await?;
    rows.iter().map(|row| key_of(&mut Columns::of(row), tenant)).collect()
}

pub(super) async fn share_by_hash(base: &Base, hash: SecretHash) -> Result<Option<Share>> {
    let sql = format!(
        "SELECT t.id, {SHARE} FROM shares s JOIN tenants t ON t.tk = s.tk WHERE s.hash = $1 AND t.id IS NOT NULL"
    );
    let Some(row) = by_hash(base, "shares", hash, &sql).await? else { return Ok(None) };
    let mut columns = Columns::of(&row);
    let tenant = TenantId::stored(columns.take::<&str>()?);
    share_of(&mut columns, &tenant).map(Some)
}

fn share_of(columns: &mut Columns<'_>, tenant: &TenantId) -> Result<Share> {
    Ok(Share {
        id: columns.take()?,
        tenant: tenant.clone(),
        session: SessionId::stored(columns.take::<&str>()?),
        access: ShareAccess::parse(columns.take()?)?,
        created_by: columns.user()?,
        created_at: columns.time()?,
        expires_at: columns.time()?,
        revoked_at: columns.time_if()?,
        tenant_suspended: columns.take()?,
    })
}

pub(super) async fn share(base: &Base, tenant: &TenantId, id: &str) -> Result<Option<Share>> {
    let Some(tk) = base.tk(tenant).await? else { return Ok(None) };
    let sql =
        format!("SELECT {SHARE} FROM shares s JOIN tenants t ON t.tk = s.tk WHERE s.tk = $1 AND s.id = $2");
    let rows = base.read(Scope::Tenant(tk), &sql, &[&tk, &id]).await?;
    rows.first().map(|row| share_of(&mut Columns::of(row), tenant)).transpose()
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
        identities: columns
            .take::<Vec<String>>()?
            .into_iter()
            .zip(columns.take::<Vec<String>>()?)
            .map(|(platform, external_id)| Identity { platform, external_id })
            .collect(),
    })
}

pub(super) async fn user(base: &Base, tenant: &TenantId, id: &UserId) -> Result<Option<User>> {
    let Some(tk) = base.tk(tenant).await? else { return Ok(None) };
    let sql = format!("SELECT {USER} FROM users u WHERE u.tk = $1 AND u.id = $2");
    base.read(Scope::Tenant(tk), &sql, &[&tk, &id.as_str()]).await?.first().map(user_of).transpose()
}

pub(super) async fn user_by_identity(
    base: &Base,
    tenant: &TenantId,
    identity: &Identity,
) -> Result<Option<User>> {
    let Some(tk) = base.tk(tenant).await? else { return Ok(None) };
    let sql = format!(
        "SELECT {USER} FROM identities n JOIN users u ON u.tk = n.tk AND u.id = n.user_id
         WHERE n.tk = $1 AND n.platform = $2 AND n.external_id = $3"
    );
    let rows = base.read(Scope::Tenant(tk), &sql, &[&tk, &identity.platform, &identity.external_id]).await?;
    rows.first().map(user_of).transpose()
}

pub(super) async fn users(
    base: &Base,
    tenant: &TenantId,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<User>> {
    let Some(tk) = base.tk(tenant).await? else { return Ok(Vec::new()) };
    let sql = format!("SELECT {USER} FROM users u WHERE u.tk = $1 AND u.id > $2 ORDER BY u.id LIMIT $3");
    let rows =
        base.read(Scope::Tenant(tk), &sql, &[&tk, &after.unwrap_or_default(), &int(limit as u64)]).await?;
    rows.iter().map(user_of).collect()
}

pub(super) async fn audit(base: &Base, tenant: &TenantId, limit: usize) -> Result<Vec<AuditLine>> {
    let Some(tk) = base.tk(tenant).await? else { return Ok(Vec::new()) };
    let sql = "SELECT at, actor, action, target FROM audit WHERE tk = $1 ORDER BY n DESC LIMIT $2";
    let rows = base.read(Scope::Tenant(tk), sql, &[&tk, &int(limit as u64)]).await?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            Ok(AuditLine {
                at: columns.time()?,
                actor: columns.take()?,
                action: columns.take()?,
                target: columns.take()?,
            })
        })
        .collect()
}
