//! The store on SQLite: one writer thread with group commit, a pool of readers, and a full-text
//! index in a file of its own that follows a moment behind.
//!
//! Start with `apply` (what a change does), `writer` (how it is committed) and `migrations/`.

mod annex;
mod apply;
mod approvals;
mod backup;
mod checkpointer;
mod claims;
mod crises;
mod errands;
mod events;
mod fault;
mod feedback;
mod heads;
mod here;
mod idempotency;
mod indexer;
pub mod inspect;
mod lessons;
mod library;
mod list;
mod logs;
mod memories;
mod migrate;
mod numbers;
mod open;
mod outbox;
mod people;
mod queue;
mod ratings;
mod reach;
mod readers;
mod records;
mod search;
mod sessions;
mod start;
mod sweep;
mod talk;
mod tenants;
mod vectors;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sederunt_core::access::ActingUser;
use sederunt_core::approval::{Approval, ApprovalQuery};
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_core::event::{EventPage, EventQuery};
use sederunt_core::feedback::capture::FeedbackEvent;
use sederunt_core::feedback::session::FeedbackSession;
use sederunt_core::feedback::stats::Tally;
use sederunt_core::feedback::{Rating, RatingCounts};
use sederunt_core::lesson::{Lesson, LessonQuery};
use sederunt_core::library::{Doc, DocQuery, Kind};
use sederunt_core::live::Delta;
use sederunt_core::memory::vector::Vector;
use sederunt_core::memory::{self, Memory, Owner};
use sederunt_core::people::{Audit, FoundKey, Identity, Key, SecretHash, Share, Tenant, User};
use sederunt_core::quota::UseByHolder;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::session::query::{Page, SessionQuery};
use sederunt_core::store::{
    ApprovalListStore, ApprovalStore, AuditLine, AuditStore, Change, ClaimStore, CommitStore, Committed,
    CrisisStore, DeltaStore, DocStore, Due, EventStore, FailureQuery, FeedbackDue, FeedbackQuery,
    FeedbackStore, Hit, IdemKey, KeyStore, LessonStore, MemoryQuery, MemoryStore, RatingStore, RecordsKept,
    RecordsOf, Refusal, Replay, SearchQuery, SearchStore, SessionListStore, SessionRowStore, ShareStore,
    StoreFuture, SweepStore, TalkStore, TenantRowStore, UpkeepStore, UserStore, VectorQuery, VectorStore,
    Vectors, Vitals, WorkQueueStore,
};
use sederunt_core::talk::Talk;
use sederunt_core::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use sederunt_core::work::{ClaimOrder, Claimed};
use sederunt_core::{Error, Result, Session, SessionId, TenantId, Timestamp, UserId, limits};

use annex::Annex;
use errands::Errand;
use fault::report;
use idempotency::{Finding, Unfiled};
use indexer::Dirty;
pub use open::Place;
use open::{Files, Side};
use readers::{Readers, in_one_look};
pub use start::SqliteOptions;
pub(crate) use start::settle;
use writer::Writer;

/// Sederunt's store in a directory, or in memory.
#[derive(Debug)]
pub struct SqliteStore {
    files: Arc<Files>,
    clock: Arc<SystemClock>,
    readers: Arc<Readers>,
    writer: Arc<Writer>,
    dirty: Arc<Dirty>,
    annex: Arc<Annex>,
    unfiled: Arc<Unfiled>,
    indexer: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.dirty.close();
    }
}

impl CommitStore for SqliteStore {
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<Committed, Refusal>> {
        let leaves_errands = change.records.iter().any(Errand::comes_of);
        if !leaves_errands {
            return self.writer.ask(move |ledger| apply::commit(ledger, &change)).boxed();
        }
        async move {
            self.check_held(&change).await?;
            let done = self.writer.ask(move |ledger| apply::commit(ledger, &change)).await;
            let (annex, writer) = (self.annex.clone(), self.writer.clone());
            tokio::task::spawn_blocking(move || annex.keep_up(&writer));
            done
        }
        .boxed()
    }

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> StoreFuture<'a, Option<Replay>> {
        self.readers
            .near(move |db| {
                let Some(tk) = tenants::key_of(db, tenant).map_err(report)? else { return Ok(None) };
                let mut finding = Finding::of(db).map_err(report)?;
                match finding.find(&self.unfiled, tk, &key).map_err(report)? {
                    Some(used) if used.body != key.body => Err(Error::IdempotencyMismatch),
                    used => Ok(used.map(|used| used.replay)),
                }
            })
            .boxed()
    }
}

impl SessionRowStore for SqliteStore {
    fn session<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        self.at_hand(|db| sessions::by_id(db, tenant, id)).boxed()
    }

    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Vec<UserId>> {
        self.near(move |db| sessions::departed(db, tenant, id)).boxed()
    }
}

impl EventStore for SqliteStore {
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        let read = |db: &rusqlite::Connection, tenant: &TenantId, id: &SessionId, query: &EventQuery| {
            let page = in_one_look(db, |db| match tenants::key_of(db, tenant)? {
                Some(tk) => events::page(db, tk, id, query),
                None => Ok(None),
            });
            page.map_err(report)?.ok_or(Error::NotFound)
        };
        if query.types.is_empty() && query.limit <= limits::PAGE_ROWS_DEFAULT {
            return async move { self.readers.near(|db| read(db, tenant, id, &query)).await }.boxed();
        }
        let (tenant, id) = (tenant.clone(), id.clone());
        self.readers.far(move |db| read(db, &tenant, &id, &query)).boxed()
    }

    fn sequence_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        external_id: &'a str,
    ) -> StoreFuture<'a, Option<u64>> {
        self.near(move |db| events::sequence_named(db, tenant, id, external_id)).boxed()
    }
}

impl ApprovalStore for SqliteStore {
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Approval>> {
        self.near(move |db| approvals::approval(db, tenant, id)).boxed()
    }
}

impl TalkStore for SqliteStore {
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<(Session, Talk)>> {
        self.at_hand(move |db| in_one_look(db, |db| talk::by_id(db, tenant, id))).boxed()
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        self.far(move |db| talk::silent(db, active_before, limit)).boxed()
    }

    fn waiting_turns(&self, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        self.far(move |db| talk::waiting(db, limit)).boxed()
    }
}

impl MemoryStore for SqliteStore {
    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> StoreFuture<'a, Page<Memory, i64>> {
        self.beside(tenant, move |db, tk| memories::memories(db, tk, &query)).boxed()
    }

    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Memory>> {
        async move {
            self.carried_over().await?;
            self.near(move |db| memories::memory(db, tenant, id)).await
        }
        .boxed()
    }

    fn memories_at<'a>(&'a self, tenant: &'a TenantId, ids: &'a [String]) -> StoreFuture<'a, Vec<Memory>> {
        async move {
            self.carried_over().await?;
            self.near(move |db| memories::at(db, tenant, ids)).await
        }
        .boxed()
    }

    fn count_memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        owner: &'a Owner,
        kind: memory::Kind,
    ) -> StoreFuture<'a, u64> {
        let owner = owner.clone();
        self.beside(tenant, move |db, tk| memories::count(db, tk, &owner, kind)).boxed()
    }
}

impl VectorStore for SqliteStore {
    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> StoreFuture<'a, Vectors> {
        self.beside(tenant, move |db, tk| vectors::vectors(db, tk, &query)).boxed()
    }

    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> StoreFuture<'a, ()> {
        async move {
            self.carried_over().await?;
            let Some(tk) = self.near(|db| tenants::key_of(db, tenant)).await? else { return Ok(()) };
            let (annex, model) = (self.annex.clone(), model.to_owned());
            let now = self.clock.now();
            let keep = move || annex.write(Side::Memory, |db| vectors::keep(db, tk, &model, &made, now));
            tokio::task::spawn_blocking(keep).await.map_err(Error::internal)?
        }
        .boxed()
    }

    fn unembedded<'a>(&'a self, model: &'a str, limit: usize) -> StoreFuture<'a, Vec<(TenantId, Memory)>> {
        let model = model.to_owned();
        async move {
            self.carried_over().await?;
            self.far(move |db| vectors::missing(db, &model, limit)).await
        }
        .boxed()
    }
}

impl ShareStore for SqliteStore {
    fn share_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<Share>> {
        self.near(move |db| people::share_by_hash(db, hash)).boxed()
    }

    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        _: &'a ActingUser,
    ) -> StoreFuture<'a, Option<Share>> {
        self.near(move |db| people::share(db, tenant, id)).boxed()
    }
}

impl RatingStore for SqliteStore {
    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RecordsKept> {
        self.beside(tenant, move |db, tk| {
            Ok(RecordsKept { ratings: ratings::count(db, tk, &of)?, crises: crises::count(db, tk, &of)? })
        })
        .boxed()
    }

    fn rating_counts<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RatingCounts> {
        self.beside(tenant, move |db, tk| ratings::counts(db, tk, &of)).boxed()
    }

    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> StoreFuture<'a, Vec<Rating>> {
        let opaque = opaque.to_owned();
        self.beside(tenant, move |db, tk| ratings::ratings(db, tk, &opaque)).boxed()
    }
}

impl SweepStore for SqliteStore {
    fn due(&self, silent_since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        let now = self.clock.now();
        self.far(move |db| sweep::due(db, now, silent_since, limit)).boxed()
    }

    fn purge_keys(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        async move {
            let mut gone = 0;
            loop {
                let some: Result<u64> =
                    self.writer.ask(move |ledger| Ok(idempotency::purge_some(ledger.db, before)?)).await;
                match some? {
                    0 => return Ok(gone),
                    some => gone += some,
                }
            }
        }
        .boxed()
    }

    fn purge_ratings(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        self.purge(Side::Feedback, move |db| ratings::purge(db, before)).boxed()
    }

    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> StoreFuture<'_, u64> {
        self.purge(Side::Crisis, move |db| crises::purge(db, before, now)).boxed()
    }

    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, RecordsKept> {
        async move {
            self.carried_over().await?;
            self.near(|db| {
                Ok(RecordsKept {
                    ratings: ratings::purgeable(db, ratings_before)?,
                    crises: crises::purgeable(db, crises_before, now)?,
                })
            })
            .await
        }
        .boxed()
    }
}

impl DeltaStore for SqliteStore {
    /// One process, one hub: there is nobody else to tell.
    fn spread_delta(&self, _: &TenantId, _: Delta) {}
}

impl SessionListStore for SqliteStore {
    fn sessions<'a>(&'a self, tenant: &'a TenantId, query: SessionQuery) -> StoreFuture<'a, Page<Session>> {
        let named = tenant.clone();
        self.within(tenant, move |db, tk| list::page(db, &named, tk, &query)).boxed()
    }
}

impl SearchStore for SqliteStore {
    fn search<'a>(&'a self, tenant: &'a TenantId, query: SearchQuery) -> StoreFuture<'a, Page<Hit, i64>> {
        self.within(tenant, move |db, tk| search::find(db, tk, &query)).boxed()
    }
}

impl DocStore for SqliteStore {
    fn doc<'a>(&'a self, tenant: &'a TenantId, kind: Kind, name: &'a str) -> StoreFuture<'a, Option<Doc>> {
        self.near(move |db| library::doc(db, tenant, kind, name)).boxed()
    }

    fn docs<'a>(&'a self, tenant: &'a TenantId, query: DocQuery) -> StoreFuture<'a, Page<Doc, i64>> {
        self.within(tenant, move |db, tk| library::docs(db, tk, &query)).boxed()
    }
}

impl ApprovalListStore for SqliteStore {
    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Page<Approval, i64>> {
        self.within(tenant, move |db, tk| approvals::approvals(db, tk, &query)).boxed()
    }
}

impl CrisisStore for SqliteStore {
    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<CrisisRecord>> {
        self.beside(tenant, move |db, tk| crises::crises(db, tk, from, to, limit)).boxed()
    }
}

impl FeedbackStore for SqliteStore {
    fn feedback<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<FeedbackEvent>> {
        self.near(move |db| feedback::event(db, tenant, id)).boxed()
    }

    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<FeedbackEvent>> {
        let author = author.cloned();
        self.within(tenant, move |db, tk| feedback::newest(db, tk, author.as_ref(), limit)).boxed()
    }

    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> StoreFuture<'a, Tally> {
        let author = author.cloned();
        self.within(tenant, move |db, tk| feedback::tally(db, tk, author.as_ref(), now)).boxed()
    }

    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> StoreFuture<'a, Page<FeedbackEvent, i64>> {
        self.within(tenant, move |db, tk| feedback::failures(db, tk, &query)).boxed()
    }

    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> StoreFuture<'a, Option<FeedbackSession>> {
        self.near(move |db| feedback::session(db, tenant, id)).boxed()
    }

    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> StoreFuture<'a, Page<FeedbackSession, i64>> {
        self.within(tenant, move |db, tk| feedback::sessions(db, tk, &query)).boxed()
    }

    fn silent_feedback(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<FeedbackDue>> {
        self.near(move |db| feedback::silent(db, now, limit)).boxed()
    }
}

impl LessonStore for SqliteStore {
    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Lesson>> {
        self.near(move |db| lessons::lesson(db, tenant, id)).boxed()
    }

    fn lessons<'a>(&'a self, tenant: &'a TenantId, query: LessonQuery) -> StoreFuture<'a, Page<Lesson, i64>> {
        self.within(tenant, move |db, tk| lessons::lessons(db, tk, &query)).boxed()
    }
}

impl ClaimStore for SqliteStore {
    fn claim(&self, order: ClaimOrder) -> StoreFuture<'_, Vec<Claimed>> {
        async move {
            let order = Arc::new(order);
            let asked = order.clone();
            let out: Result<_> = self.writer.ask(move |ledger| claims::claim(ledger, &asked)).await;
            let (out, now) = (out?, self.clock.now());
            self.near(|db| claims::handed(db, &order, &out, now)).await
        }
        .boxed()
    }
}

impl WorkQueueStore for SqliteStore {
    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> StoreFuture<'a, QueueCounts> {
        self.within(tenant, move |db, tk| queue::counts(db, tk, &of)).boxed()
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<QueueItem, i64>> {
        self.within(tenant, move |db, tk| queue::page(db, tk, &of, bucket, after, limit)).boxed()
    }
}

impl KeyStore for SqliteStore {
    fn key_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundKey>> {
        self.near(move |db| people::key_by_hash(db, hash)).boxed()
    }

    fn keys<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, Vec<Key>> {
        let tenant = tenant.clone();
        self.far(move |db| people::keys(db, &tenant)).boxed()
    }
}

impl UserStore for SqliteStore {
    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> StoreFuture<'a, Option<User>> {
        self.near(move |db| people::user(db, tenant, id)).boxed()
    }

    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> StoreFuture<'a, Option<User>> {
        self.near(move |db| people::user_by_identity(db, tenant, identity)).boxed()
    }

    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<User>> {
        let (tenant, after) = (tenant.clone(), after.map(str::to_owned));
        self.far(move |db| people::users(db, &tenant, after.as_deref(), limit)).boxed()
    }
}

impl TenantRowStore for SqliteStore {
    fn tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, Option<Tenant>> {
        self.near(move |db| tenants::find(db, id)).boxed()
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        self.far(tenants::all).boxed()
    }

    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> StoreFuture<'a, Tenant> {
        let id = id.clone();
        self.writer.ask(move |ledger| tenants::create(ledger, &id, &audit)).boxed()
    }

    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> StoreFuture<'a, Tenant> {
        let id = id.clone();
        self.writer.ask(move |ledger| tenants::suspend(ledger, &id, suspended, &audit)).boxed()
    }

    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, ()> {
        async move {
            let named = id.clone();
            let tk = self.writer.ask(move |ledger| tenants::unname(ledger, &named)).await?;
            loop {
                let was = id.clone();
                if self.writer.ask(move |ledger| tenants::remove_step(ledger, tk, &was)).await? {
                    return self.carried_over().await;
                }
            }
        }
        .boxed()
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, UseByHolder> {
        let tenant = tenant.clone();
        self.far(move |db| sessions::usage(db, &tenant)).boxed()
    }
}

impl AuditStore for SqliteStore {
    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<AuditLine, i64>> {
        let tenant = tenant.clone();
        self.far(move |db| people::audit(db, &tenant, after, limit)).boxed()
    }
}

impl UpkeepStore for SqliteStore {
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        async { Ok(self.clock.now()) }.boxed()
    }

    fn installation_key(&self) -> StoreFuture<'_, [u8; 32]> {
        self.near(talk::installation_key).boxed()
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        self.near(|db| db.prepare_cached("SELECT 1 FROM tenants LIMIT 1")?.exists([]).map(drop)).boxed()
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        self.far(sweep::vitals).boxed()
    }

    fn index_now(&self) -> StoreFuture<'_, ()> {
        self.dirty.drained().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.carried_over().await {
                tracing::warn!(%error, "committed records could not be copied to their own files; the next start does it");
            }
            self.writer.close().await;
            self.dirty.close();
            let indexer = self.indexer.lock().take();
            if let Some(indexer) = indexer {
                let _ = tokio::task::spawn_blocking(move || indexer.join()).await;
            }
            self.readers.close();
            self.annex.close();
            self.files.unlock();
        }
        .boxed()
    }
}
