//! What sessions ask of a database.

use crate::ids::{SessionId, TenantId, UserId};
use crate::session::Session;
use crate::session::query::{Page, SessionQuery};
use crate::store::StoreFuture;

/// The rows of one session.
pub trait SessionRowStore {
    fn session<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Option<Session>>;
    /// The people who have left a session by themselves and have not come back.
    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Vec<UserId>>;
}

/// Lists of sessions; an incognito session is in none.
pub trait SessionListStore {
    fn sessions<'a>(&'a self, tenant: &'a TenantId, query: SessionQuery) -> StoreFuture<'a, Page<Session>>;
}
