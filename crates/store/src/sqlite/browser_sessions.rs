//! Sign-ins from browsers.

use futures_util::FutureExt;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::{CredentialId, TenantId, UserId};
use sederunt_core::people::{BrowserSession, FoundBrowserSession, SecretHash, SignInProof};
use sederunt_core::store::{BrowserSessionStore, StoreFuture};

use super::SqliteStore;
use super::heads::text;
use super::people::role;

const SESSIONS: &str = "SELECT b.id, t.id, b.key_id, b.user_id, b.role, b.browser, b.created_at, b.seen_at, b.expires_at, \
     t.suspended, coalesce(u.suspended OR u.merged_into IS NOT NULL, 0), u.role, k.id IS NOT NULL AND k.revoked_at IS NULL \
     FROM browser_sessions b JOIN tenants t ON t.tk = b.tk LEFT JOIN users u ON u.tk = b.tk AND u.id = b.user_id \
     LEFT JOIN keys k ON k.tk = b.tk AND k.id = b.key_id";

impl BrowserSessionStore for SqliteStore {
    fn browser_session_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundBrowserSession>> {
        self.read_inline(move |db| {
            db.prepare_cached(&format!("{SESSIONS} WHERE b.hash = ?1 AND t.id IS NOT NULL"))?
                .query_row([hash.0], |row| {
                    let session = read(row)?;
                    Ok(FoundBrowserSession {
                        tenant_suspended: row.get(9)?,
                        user_refused: row.get(10)?,
                        user_role: if text(row, 11)?.is_some() { Some(role(row, 11)?) } else { None },
                        has_key: session.proof.key().map(|_| row.get(12)).transpose()?,
                        session,
                    })
                })
                .optional()
        })
        .boxed()
    }

    fn browser_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: Option<&'a UserId>,
        key: Option<&'a CredentialId>,
    ) -> StoreFuture<'a, Vec<BrowserSession>> {
        let (column, value) = match (user, key) {
            (Some(user), _) => ("user_id", user.to_string()),
            (None, Some(key)) => ("key_id", key.to_string()),
            (None, None) => return std::future::ready(Ok(Vec::new())).boxed(),
        };
        let tenant = tenant.clone();
        self.read_pooled(move |db| {
            db.prepare_cached(&format!(
                "{SESSIONS} WHERE t.id = ?1 AND b.{column} = ?2 ORDER BY b.created_at DESC, b.id DESC"
            ))?
            .query_map([tenant.as_str(), &value], read)?
            .collect()
        })
        .boxed()
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<BrowserSession> {
    Ok(BrowserSession {
        id: row.get(0)?,
        tenant: TenantId::stored(row.get_ref(1)?.as_str()?),
        proof: text(row, 2)?.map_or(SignInProof::Token, |id| SignInProof::Key(CredentialId::stored(id))),
        user: text(row, 3)?.map(UserId::stored),
        role: role(row, 4)?,
        browser: row.get(5)?,
        created_at: Timestamp::from_micros(row.get(6)?),
        seen_at: Timestamp::from_micros(row.get(7)?),
        expires_at: Timestamp::from_micros(row.get(8)?),
    })
}

pub(super) fn add(
    db: &Connection,
    tk: i64,
    session: &BrowserSession,
    hash: SecretHash,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO browser_sessions (tk, id, hash, key_id, user_id, role, browser, created_at, seen_at, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        tk,
        session.id,
        hash.0,
        session.proof.key().map(CredentialId::as_str),
        session.user.as_ref().map(UserId::as_str),
        session.role.as_str(),
        session.browser,
        session.created_at.as_micros(),
        session.seen_at.as_micros(),
        session.expires_at.as_micros(),
    ])
    .map(drop)
}

pub(super) fn touch(db: &Connection, tk: i64, id: &str, now: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE browser_sessions SET seen_at = max(seen_at, ?3) WHERE tk = ?1 AND id = ?2")?
        .execute(params![tk, id, now.as_micros()])
        .map(drop)
}

pub(super) fn remove(db: &Connection, tk: i64, id: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM browser_sessions WHERE tk = ?1 AND id = ?2")?
        .execute(params![tk, id])
        .map(drop)
}
