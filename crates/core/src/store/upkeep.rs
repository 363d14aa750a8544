//! What looks after a store asks of it.

use futures_util::future::BoxFuture;

use crate::store::{DueApproval, DueSession, RecordsKept, StoreFuture, Vitals};
use crate::time::Timestamp;

/// What the sweeper asks for and purges, in all tenants.
pub trait SweepStore {
    /// Sessions of all tenants that the sweeper should look at: lease lapsed, deadline passed, or
    /// not live, not yet hidden, and silent since before `silent_since`.
    fn due(&self, silent_since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>>;
    /// Pending promotions of all tenants whose time to be decided has passed, the longest overdue first.
    fn due_promotions(&self, limit: usize) -> StoreFuture<'_, Vec<DueApproval>>;
    /// Forgets idempotency keys older than this. Returns how many.
    fn purge_keys(&self, before: Timestamp) -> StoreFuture<'_, u64>;
    /// Forgets ratings of all tenants recorded before the day of `before` (UTC), bytes and all. Returns how many.
    fn purge_ratings(&self, before: Timestamp) -> StoreFuture<'_, u64>;
    /// Forgets crises of all tenants detected before the day of `before`, except those that are held.
    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> StoreFuture<'_, u64>;
    /// How many records the two purges with the same bounds would forget.
    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, RecordsKept>;
}

/// The store as a whole: its clock, its key, its health and its end.
pub trait UpkeepStore {
    /// The one clock of leases, deadlines and event times.
    fn now(&self) -> StoreFuture<'_, Timestamp>;
    /// A secret of this installation, made with it: ids that must not be guessed are keyed with it.
    fn installation_key(&self) -> StoreFuture<'_, [u8; 32]>;
    /// Answers when the store can read; `Unavailable` otherwise.
    fn ready(&self) -> StoreFuture<'_, ()>;
    /// Figures for `doctor` and `/metrics`.
    fn vitals(&self) -> StoreFuture<'_, Vitals>;
    /// Brings the search index up to everything that was acknowledged before this call.
    fn index_now(&self) -> StoreFuture<'_, ()>;
    /// Finishes what is queued and lets go of files and connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}
