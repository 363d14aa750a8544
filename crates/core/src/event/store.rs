//! What logs ask of a database.

use crate::event::{EventPage, EventQuery};
use crate::ids::{SessionId, TenantId};
use crate::session::query::Page;
use crate::store::{SearchHit, SearchQuery, StoreFuture};

/// The log of one session.
pub trait EventStore {
    /// A page of a log. `incarnation` of the session that was authorised: another life is `NotFound`.
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage>;
    /// The sequence under which a session's log has this external id.
    fn sequence_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        external_id: &'a str,
    ) -> StoreFuture<'a, Option<u64>>;
}

/// Searches in what was said; nothing of an incognito session is found.
pub trait SearchStore {
    /// Text hits, newest first.
    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SearchQuery,
    ) -> StoreFuture<'a, Page<SearchHit, i64>>;
}
