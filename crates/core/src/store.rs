//! The seam: what the product asks of a database, and nothing more.
//!
//! A [`Change`] is applied whole or refused whole. Its parts name one session each, with the
//! [`Guard`] under which it was decided. [`Guard::check`] is pure and lives in this room, so that no store
//! can judge differently. Stores hold SQL and row mapping; every rule stands above them.

mod change;
mod guard;
pub mod private;
mod private_budget;
mod query;
mod record;

use futures_util::future::BoxFuture;

pub use change::{
    Change, ClaimChange, Committed, Fork, IdemKey, NewSession, Note, Notice, On, Part, PartDone, Refusal,
    Replay, Update, Write,
};
pub use guard::{AppendRule, Fence, Guard};
pub use private_budget::PrivateLimits;
pub use query::{
    AuditLine, Due, FailureQuery, FeedbackDue, FeedbackQuery, Hit, MemoryQuery, NumberedVector, RecordsKept,
    RecordsOf, SearchQuery, VectorQuery, Vectors, Vitals,
};
pub use record::Record;

use crate::access::ActingUser;
use crate::approval::{Approval, ApprovalQuery};
use crate::error::Result;
use crate::event::{EventPage, EventQuery};
use crate::feedback::capture::FeedbackEvent;
use crate::feedback::session::FeedbackSession;
use crate::feedback::stats::Tally;
use crate::feedback::{Rating, RatingCounts};
use crate::ids::{SessionId, TenantId, UserId};
use crate::lesson::{Lesson, LessonQuery};
use crate::library::{self, Doc, DocQuery};
use crate::live;
use crate::memory::vector::Vector;
use crate::memory::{self, Memory, Owner};
use crate::people::{Audit, FoundKey, Identity, Key, SecretHash, Share, Tenant, User};
use crate::quota::UseByHolder;
use crate::safety::record::CrisisRecord;
use crate::session::Session;
use crate::session::query::{Page, SessionQuery};
use crate::talk::Talk;
use crate::time::Timestamp;
use crate::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use crate::work::{ClaimOrder, Claimed};

/// A database behind the engine. Used as `dyn`; every future is bounded by the store's own limits.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// The one clock of leases, deadlines and event times.
    fn now(&self) -> BoxFuture<'_, Result<Timestamp>>;
    /// Applies a change whole, durably, or refuses it whole.
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<Committed, Refusal>>;
    /// What a key's first use did, if it was used: for a command that can no longer be decided.
    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> BoxFuture<'a, Result<Option<Replay>>>;
    /// Hands out pending sessions: one winner each, highest priority first, then oldest.
    fn claim(&self, order: ClaimOrder) -> BoxFuture<'_, Result<Vec<Claimed>>>;

    fn session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Session>>>;
    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SessionQuery,
    ) -> BoxFuture<'a, Result<Page<Session>>>;
    /// A page of a log. `incarnation` of the session that was authorised: another life is `NotFound`.
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> BoxFuture<'a, Result<EventPage>>;
    /// The sequence under which a session's log has this external id.
    fn sequence_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        external_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<u64>>>;
    /// Text hits, newest first.
    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SearchQuery,
    ) -> BoxFuture<'a, Result<Page<Hit, i64>>>;

    /// A document by its id, or else by its slug.
    fn doc<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: library::Kind,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Doc>>>;
    fn docs<'a>(&'a self, tenant: &'a TenantId, query: DocQuery) -> BoxFuture<'a, Result<Page<Doc, i64>>>;
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Approval>>>;
    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> BoxFuture<'a, Result<Page<Approval, i64>>>;

    /// A session with what it has beside its row; a session without any has a blank one.
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<(Session, Talk)>>>;
    /// Open sittings of all tenants that were last active before this, the longest silent first.
    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>>;
    /// Sessions of all tenants that are idle, or run and are nobody's, with a message whose turn is next.
    fn waiting_turns(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>>;

    /// What is remembered of somebody, newest first; everything acknowledged before the call is seen.
    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> BoxFuture<'a, Result<Page<Memory, i64>>>;
    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Memory>>>;
    /// Those of these memories that are there, in any order.
    fn memories_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Memory>>>;
    /// How many memories of a kind an owner has that are brought up.
    fn count_memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        owner: &'a Owner,
        kind: memory::Kind,
    ) -> BoxFuture<'a, Result<u64>>;
    /// What a model made of an owner's memories that are brought up, oldest first.
    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> BoxFuture<'a, Result<Vectors>>;
    /// Keeps what a model made of memories, `None` where it refused to. Memories that have changed since are left out;
    /// a vector goes with its memory.
    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> BoxFuture<'a, Result<()>>;
    /// Facts and arcs of all tenants that are brought up and that this model has not looked at.
    fn unembedded<'a>(
        &'a self,
        model: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, Memory)>>>;
    /// How many ratings and crises are kept.
    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> BoxFuture<'a, Result<RecordsKept>>;
    /// How many ratings are kept, by their labels.
    fn rating_counts<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: RecordsOf,
    ) -> BoxFuture<'a, Result<RatingCounts>>;
    /// The ratings of a session, oldest first.
    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> BoxFuture<'a, Result<Vec<Rating>>>;
    /// Crises detected from `from` to before `to`, oldest first.
    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<CrisisRecord>>>;
    /// Forgets ratings of all tenants recorded before the day of `before` (UTC), bytes and all. Returns how many.
    fn purge_ratings(&self, before: Timestamp) -> BoxFuture<'_, Result<u64>>;
    /// Forgets crises of all tenants detected before the day of `before`, except those that are held.
    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> BoxFuture<'_, Result<u64>>;
    /// How many records the two purges with the same bounds would forget.
    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<RecordsKept>>;
    /// A secret of this installation, made with it: ids that must not be guessed are keyed with it.
    fn installation_key(&self) -> BoxFuture<'_, Result<[u8; 32]>>;

    fn feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<FeedbackEvent>>>;
    /// The newest thumbs of a tenant, or of one user. Failures are none.
    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FeedbackEvent>>>;
    /// Counts the thumbs of a tenant, with its failures, or those of one user.
    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Tally>>;
    /// What failed runs have left, newest first.
    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> BoxFuture<'a, Result<Page<FeedbackEvent, i64>>>;
    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<FeedbackSession>>>;
    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> BoxFuture<'a, Result<Page<FeedbackSession, i64>>>;
    /// Open feedback sessions of all tenants whose time was over by then, the longest silent first.
    fn silent_feedback(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<FeedbackDue>>>;
    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Lesson>>>;
    fn lessons<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: LessonQuery,
    ) -> BoxFuture<'a, Result<Page<Lesson, i64>>>;

    /// How many lines each bucket of somebody's work queue has: one round trip.
    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> BoxFuture<'a, Result<QueueCounts>>;
    /// A page of one bucket, newest first by the number of its rows.
    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<QueueItem, i64>>>;

    /// The people who have left a session by themselves and have not come back.
    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> BoxFuture<'a, Result<Vec<UserId>>>;

    /// Finds a key by the hash of its secret, in any tenant.
    fn key_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<FoundKey>>>;
    fn keys<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<Key>>>;
    /// Finds a share link by the hash of its token, in any tenant.
    fn share_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<Share>>>;
    /// A share link by its id. A store that keeps users apart by itself shows it to whoever made it, to the session's holder
    /// and to owners; whether the caller may know of it is for the engine to say.
    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        by: &'a ActingUser,
    ) -> BoxFuture<'a, Result<Option<Share>>>;
    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> BoxFuture<'a, Result<Option<User>>>;
    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<Option<User>>>;
    /// Users in the order of their ids, after `after`.
    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<User>>>;
    fn tenant<'a>(&'a self, id: &'a TenantId) -> BoxFuture<'a, Result<Option<Tenant>>>;
    fn tenants(&self) -> BoxFuture<'_, Result<Vec<Tenant>>>;
    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> BoxFuture<'a, Result<Tenant>>;
    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> BoxFuture<'a, Result<Tenant>>;
    /// Removes a tenant with everything in it.
    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> BoxFuture<'a, Result<()>>;
    /// What a tenant uses of its quotas, by the holders of its sessions.
    fn usage<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<UseByHolder>>;
    /// A page of the audit trail of a tenant, newest first.
    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<AuditLine, i64>>>;

    /// Sessions of all tenants that the sweeper should look at: lease lapsed, deadline passed, or
    /// not live, not yet hidden, and silent since before `silent_since`.
    fn due(&self, silent_since: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>>;
    /// Forgets idempotency keys older than this. Returns how many.
    fn purge_keys(&self, before: Timestamp) -> BoxFuture<'_, Result<u64>>;
    /// Tells the other nodes of deltas in a tenant; a store with one node has nothing to do.
    fn spread_delta(&self, tenant: &TenantId, delta: live::Delta);
    /// Answers when the store can read; `Unavailable` otherwise.
    fn ready(&self) -> BoxFuture<'_, Result<()>>;
    /// Figures for `doctor` and `/metrics`.
    fn vitals(&self) -> BoxFuture<'_, Result<Vitals>>;
    /// Brings the search index up to everything that was acknowledged before this call.
    fn index_now(&self) -> BoxFuture<'_, Result<()>>;
    /// Finishes what is queued and lets go of files and connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}
