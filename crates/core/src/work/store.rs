//! What work ask of a database.

use crate::ids::TenantId;
use crate::session::query::Page;
use crate::store::StoreFuture;
use crate::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use crate::work::{ClaimOrder, ClaimedRun};

/// Work that is handed out.
pub trait ClaimStore {
    /// Hands out pending sessions: one winner each, highest priority first, then oldest.
    fn claim(&self, order: ClaimOrder) -> StoreFuture<'_, Vec<ClaimedRun>>;
}

/// What waits for somebody, in buckets.
pub trait WorkQueueStore {
    /// How many lines each bucket of somebody's work queue has: one round trip.
    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> StoreFuture<'a, QueueCounts>;
    /// A page of one bucket, newest first by the number of its rows.
    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<QueueItem, i64>>;
}
