//! What feedback ask of a database.

use crate::feedback::capture::FeedbackEvent;
use crate::feedback::session::FeedbackSession;
use crate::feedback::stats::Tally;
use crate::feedback::{Rating, RatingCounts};
use crate::ids::{TenantId, UserId};
use crate::session::query::Page;
use crate::store::{FailureQuery, FeedbackDue, FeedbackQuery, RecordsKept, RecordsOf, StoreFuture};
use crate::time::Timestamp;

/// Ratings of sittings, and how much is kept of them and of crises.
pub trait RatingStore {
    /// How many ratings and crises are kept.
    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RecordsKept>;
    /// How many ratings are kept, by their labels.
    fn rating_counts<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RatingCounts>;
    /// The ratings of a session, oldest first.
    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> StoreFuture<'a, Vec<Rating>>;
}

/// Feedback events, failures among them, and feedback sessions.
pub trait FeedbackStore {
    fn feedback<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<FeedbackEvent>>;
    /// The newest thumbs of a tenant, or of one user. Failures are none.
    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<FeedbackEvent>>;
    /// Counts the thumbs of a tenant, with its failures, or those of one user.
    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> StoreFuture<'a, Tally>;
    /// What failed runs have left, newest first.
    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> StoreFuture<'a, Page<FeedbackEvent, i64>>;
    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> StoreFuture<'a, Option<FeedbackSession>>;
    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> StoreFuture<'a, Page<FeedbackSession, i64>>;
    /// Open feedback sessions of all tenants whose time was over by then, the longest silent first.
    fn silent_feedback(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<FeedbackDue>>;
}
