//! What talk ask of a database.

use crate::ids::{SessionId, TenantId};
use crate::session::Session;
use crate::store::{DueSession, StoreFuture};
use crate::talk::Talk;
use crate::time::Timestamp;

/// What talk sessions have beside their rows.
pub trait TalkStore {
    /// A session with what it has beside its row; a session without any has a blank one.
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<(Session, Talk)>>;
    /// Open sittings of all tenants that were last active before this, the longest silent first.
    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>>;
    /// Sessions of all tenants that are idle, or run and are nobody's, with a message whose turn is next.
    fn waiting_turns(&self, limit: usize) -> StoreFuture<'_, Vec<DueSession>>;
}
