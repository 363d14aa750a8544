//! What bridges ask of a database.

use crate::ids::{TenantId, UserId};
use crate::session::Session;
use crate::store::StoreFuture;
use crate::time::Timestamp;

/// The bridges of a person; `None` is the one person of an installation without authentication. A bridge is never
/// incognito.
pub trait BridgeStore {
    /// The running one. A unique index allows no second.
    fn running_bridge<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: Option<&'a UserId>,
    ) -> StoreFuture<'a, Option<Session>>;

    /// Those that have ended, before a time if one is named, oldest first.
    fn ended_bridges<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: Option<&'a UserId>,
        before: Option<Timestamp>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Session>>;
}
