//! What people and tenants ask of a database.

use crate::access::ActingUser;
use crate::event::{EventPage, EventQuery};
use crate::ids::{CredentialId, SessionId, TenantId, UserId};
use crate::people::{
    Audit, BrowserSession, FoundBrowserSession, FoundKey, Identity, Key, LinkCode, LinkReach, SecretHash,
    Share, ShareCursor, ShareListQuery, SharedSession, Tenant, User,
};
use crate::quota::UseByHolder;
use crate::session::query::Page;
use crate::store::{AuditLine, StoreFuture};

/// Share links, which lie where their session lies.
pub trait ShareStore {
    /// Finds a share link by the hash of its token, in any tenant.
    fn share_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<Share>>;
    /// A share link by its id. A store that keeps users apart by itself shows it to whoever made it, to the session's holder
    /// and to owners; whether the caller may know of it is for the engine to say.
    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        by: &'a ActingUser,
    ) -> StoreFuture<'a, Option<Share>>;
    /// What a share link shows of the session that it opens, by the hash of its token; `None` for any other session, and
    /// for a link that is revoked or expired. A store with roles reads it as the role of links, which sees nothing else.
    fn shared_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<SharedSession>>;
    /// A page of what was said in that session, read in the same way: messages, with their content alone.
    fn shared_events<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage>;
    /// How far a link to a view alone reaches: to this view, and to this anonymous response of the respondent who answers
    /// the view under this name. Read in the same way.
    fn link_reach<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        view_id: &'a str,
        respondent_name: &'a str,
        response: Option<&'a SessionId>,
    ) -> StoreFuture<'a, LinkReach>;
    /// A page of share links. Those of an incognito session are listed only where the query names the session.
    fn shares<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ShareListQuery,
    ) -> StoreFuture<'a, Page<Share, ShareCursor>>;
}

/// API keys.
pub trait KeyStore {
    /// Finds a key by the hash of its secret, in any tenant.
    fn key_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundKey>>;
    fn keys<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, Vec<Key>>;
}

/// Sign-ins from browsers.
pub trait BrowserSessionStore {
    /// Finds a browser session by the hash of its cookie, in any tenant.
    fn browser_session_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundBrowserSession>>;
    /// The browser sessions of a user or, for a key that names no user, those that were made with the key; the newest
    /// first.
    fn browser_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: Option<&'a UserId>,
        key: Option<&'a CredentialId>,
    ) -> StoreFuture<'a, Vec<BrowserSession>>;
}

/// Users and their channel identities.
pub trait UserStore {
    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> StoreFuture<'a, Option<User>>;
    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> StoreFuture<'a, Option<User>>;
    /// The code of this hash by which an account can be linked.
    fn link_code<'a>(&'a self, tenant: &'a TenantId, hash: &'a str) -> StoreFuture<'a, Option<LinkCode>>;
    /// Users in the order of their ids, after `after`.
    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<User>>;
}

/// Tenants themselves, and what they use.
pub trait TenantRowStore {
    fn tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, Option<Tenant>>;
    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>>;
    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> StoreFuture<'a, Tenant>;
    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> StoreFuture<'a, Tenant>;
    /// Removes a tenant with everything in it.
    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, ()>;
    /// What a tenant uses of its quotas, by the holders of its sessions.
    fn usage<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, UseByHolder>;
}

/// The audit trail.
pub trait AuditStore {
    /// A page of the audit trail of a tenant, newest first.
    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<AuditLine, i64>>;
}
