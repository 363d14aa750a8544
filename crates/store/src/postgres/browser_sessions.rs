//! Sign-ins from browsers.

use sederunt_core::access::Role;
use sederunt_core::ids::{CredentialId, TenantId, UserId};
use sederunt_core::people::{BrowserSession, FoundBrowserSession, SecretHash, SignInProof};
use sederunt_core::store::{BrowserSessionStore, StoreFuture};
use sederunt_core::time::Timestamp;

use super::fault::Result;
use super::people::by_hash;
use super::rows::Columns;
use super::tx::{Scope, Tx};
use super::{PostgresStore, read};

const SESSION: &str = "b.id, b.key_id, b.user_id, b.role, b.browser, b.created_at, b.seen_at, b.expires_at";

impl BrowserSessionStore for PostgresStore {
    fn browser_session_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundBrowserSession>> {
        read(async move {
            let sql = format!(
                "SELECT t.id, t.suspended, coalesce(u.suspended OR u.merged_into IS NOT NULL, false), u.role,
                     k.id IS NOT NULL AND k.revoked_at IS NULL, {SESSION}
                 FROM browser_sessions b JOIN tenants t ON t.tk = b.tk
                 LEFT JOIN users u ON u.tk = b.tk AND u.id = b.user_id
                 LEFT JOIN api_keys k ON k.tk = b.tk AND k.id = b.key_id WHERE b.hash = $1 AND t.id IS NOT NULL"
            );
            let Some(row) = by_hash(&self.context, "browser_sessions", hash, &sql).await? else {
                return Ok(None);
            };
            let mut columns = Columns::of(&row);
            let tenant = TenantId::stored(columns.take::<&str>()?);
            let (tenant_suspended, user_refused) = (columns.take()?, columns.take()?);
            let user_role = columns.take::<Option<&str>>()?.map(Role::parse).transpose()?;
            let has_key: bool = columns.take()?;
            let session = session_of(&mut columns, &tenant)?;
            let has_key = session.proof.key().map(|_| has_key);
            Ok(Some(FoundBrowserSession { session, tenant_suspended, user_refused, user_role, has_key }))
        })
    }

    fn browser_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: Option<&'a UserId>,
        key: Option<&'a CredentialId>,
    ) -> StoreFuture<'a, Vec<BrowserSession>> {
        read(async move {
            let (column, value) = match (user, key) {
                (Some(user), _) => ("user_id", user.as_str()),
                (None, Some(key)) => ("key_id", key.as_str()),
                (None, None) => return Ok(Vec::new()),
            };
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql = format!(
                "SELECT {SESSION} FROM browser_sessions b WHERE b.tk = $1 AND b.{column} = $2
                 ORDER BY b.created_at DESC, b.id DESC"
            );
            let rows = self.context.read(Scope::Tenant(tk), &sql, &[&tk, &value]).await?;
            rows.iter().map(|row| session_of(&mut Columns::of(row), tenant)).collect()
        })
    }
}

fn session_of(columns: &mut Columns<'_>, tenant: &TenantId) -> Result<BrowserSession> {
    Ok(BrowserSession {
        id: columns.take()?,
        tenant: tenant.clone(),
        proof: columns
            .take::<Option<&str>>()?
            .map_or(SignInProof::Token, |id| SignInProof::Key(CredentialId::stored(id))),
        user: columns.take::<Option<&str>>()?.map(UserId::stored),
        role: Role::parse(columns.take()?)?,
        browser: columns.take()?,
        created_at: columns.time()?,
        seen_at: columns.time()?,
        expires_at: columns.time()?,
    })
}

pub(super) async fn add(tx: &Tx, tk: i32, session: &BrowserSession, hash: SecretHash) -> Result<u64> {
    let sql = "INSERT INTO browser_sessions
             (tk, id, hash, key_id, user_id, role, browser, created_at, seen_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    tx.execute(
        sql,
        &[
            &tk,
            &session.id,
            &&hash.0[..],
            &session.proof.key().map(CredentialId::as_str),
            &session.user.as_ref().map(UserId::as_str),
            &session.role.as_str(),
            &session.browser,
            &session.created_at.as_micros(),
            &session.seen_at.as_micros(),
            &session.expires_at.as_micros(),
        ],
    )
    .await
}

pub(super) async fn touch(tx: &Tx, tk: i32, id: &str, now: Timestamp) -> Result<()> {
    let sql = "UPDATE browser_sessions SET seen_at = greatest(seen_at, $3) WHERE tk = $1 AND id = $2";
    tx.execute(sql, &[&tk, &id, &now.as_micros()]).await.map(drop)
}

pub(super) async fn remove(tx: &Tx, tk: i32, id: &str) -> Result<()> {
    tx.execute("DELETE FROM browser_sessions WHERE tk = $1 AND id = $2", &[&tk, &id]).await.map(drop)
}
