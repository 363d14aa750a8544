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
    AuditLine, Change, Committed, Due, FailureQuery, FeedbackDue, FeedbackQuery, Hit, IdemKey, MemoryQuery,
    RecordsKept, RecordsOf, Refusal, Replay, SearchQuery, Store, VectorQuery, Vectors, Vitals,
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
use reach::no_page;
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

impl Store for SqliteStore {
    fn now(&self) -> BoxFuture<'_, Result<Timestamp>> {
        async { Ok(self.clock.now()) }.boxed()
    }

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

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> BoxFuture<'a, Result<Option<Replay>>> {
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

    fn claim(&self, order: ClaimOrder) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        async move {
            let order = Arc::new(order);
            let asked = order.clone();
            let out: Result<_> = self.writer.ask(move |ledger| claims::claim(ledger, &asked)).await;
            let (out, now) = (out?, self.clock.now());
            self.near(|db| claims::handed(db, &order, &out, now)).await
        }
        .boxed()
    }

    fn session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Session>>> {
        self.at_hand(|db| sessions::by_id(db, tenant, id)).boxed()
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SessionQuery,
    ) -> BoxFuture<'a, Result<Page<Session>>> {
        let tenant = tenant.clone();
        self.readers
            .far(move |db| {
                let page = db.unchecked_transaction().map_err(report)?;
                let Some(tk) = tenants::key_of(&page, &tenant).map_err(report)? else { return Ok(no_page()) };
                list::page(&page, &tenant, tk, &query).map_err(report)
            })
            .boxed()
    }

    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> BoxFuture<'a, Result<EventPage>> {
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
    ) -> BoxFuture<'a, Result<Option<u64>>> {
        async move {
            self.readers.near(|db| events::sequence_named(db, tenant, id, external_id).map_err(report)).await
        }
        .boxed()
    }

    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SearchQuery,
    ) -> BoxFuture<'a, Result<Page<Hit, i64>>> {
        let tenant = tenant.clone();
        self.readers
            .far(move |db| {
                let page = db.unchecked_transaction().map_err(report)?;
                let Some(tk) = tenants::key_of(&page, &tenant).map_err(report)? else { return Ok(no_page()) };
                search::find(&page, tk, &query).map_err(report)
            })
            .boxed()
    }

    fn doc<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: Kind,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Doc>>> {
        self.near(move |db| library::doc(db, tenant, kind, name)).boxed()
    }

    fn docs<'a>(&'a self, tenant: &'a TenantId, query: DocQuery) -> BoxFuture<'a, Result<Page<Doc, i64>>> {
        let tenant = tenant.clone();
        self.readers
            .far(move |db| {
                let page = db.unchecked_transaction().map_err(report)?;
                let Some(tk) = tenants::key_of(&page, &tenant).map_err(report)? else { return Ok(no_page()) };
                library::docs(&page, tk, &query).map_err(report)
            })
            .boxed()
    }

    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Approval>>> {
        self.near(move |db| approvals::approval(db, tenant, id)).boxed()
    }

    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> BoxFuture<'a, Result<Page<Approval, i64>>> {
        let tenant = tenant.clone();
        self.readers
            .far(move |db| {
                let page = db.unchecked_transaction().map_err(report)?;
                let Some(tk) = tenants::key_of(&page, &tenant).map_err(report)? else { return Ok(no_page()) };
                approvals::approvals(&page, tk, &query).map_err(report)
            })
            .boxed()
    }

    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<(Session, Talk)>>> {
        self.at_hand(move |db| in_one_look(db, |db| talk::by_id(db, tenant, id))).boxed()
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>> {
        self.readers.far(move |db| talk::silent(db, active_before, limit).map_err(report)).boxed()
    }

    fn waiting_turns(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>> {
        self.readers.far(move |db| talk::waiting(db, limit).map_err(report)).boxed()
    }

    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> BoxFuture<'a, Result<Page<Memory, i64>>> {
        async move {
            let page =
                self.beside(tenant, move |db, tk| memories::memories(db, tk, &query).map(Some)).await?;
            Ok(page.unwrap_or(no_page()))
        }
        .boxed()
    }

    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Memory>>> {
        async move {
            self.carried_over().await?;
            self.near(move |db| memories::memory(db, tenant, id)).await
        }
        .boxed()
    }

    fn memories_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Memory>>> {
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
    ) -> BoxFuture<'a, Result<u64>> {
        let owner = owner.clone();
        self.beside(tenant, move |db, tk| memories::count(db, tk, &owner, kind)).boxed()
    }

    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> BoxFuture<'a, Result<Vectors>> {
        self.beside(tenant, move |db, tk| vectors::vectors(db, tk, &query)).boxed()
    }

    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> BoxFuture<'a, Result<()>> {
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

    fn unembedded<'a>(
        &'a self,
        model: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, Memory)>>> {
        let model = model.to_owned();
        async move {
            self.carried_over().await?;
            self.readers.far(move |db| vectors::missing(db, &model, limit).map_err(report)).await
        }
        .boxed()
    }

    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> BoxFuture<'a, Result<RecordsKept>> {
        self.beside(tenant, move |db, tk| {
            Ok(RecordsKept { ratings: ratings::count(db, tk, &of)?, crises: crises::count(db, tk, &of)? })
        })
        .boxed()
    }

    fn rating_counts<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: RecordsOf,
    ) -> BoxFuture<'a, Result<RatingCounts>> {
        self.beside(tenant, move |db, tk| ratings::counts(db, tk, &of)).boxed()
    }

    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> BoxFuture<'a, Result<Vec<Rating>>> {
        let opaque = opaque.to_owned();
        self.beside(tenant, move |db, tk| ratings::ratings(db, tk, &opaque)).boxed()
    }

    fn feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<FeedbackEvent>>> {
        self.near(move |db| feedback::event(db, tenant, id)).boxed()
    }

    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FeedbackEvent>>> {
        let author = author.cloned();
        self.within(tenant, move |db, tk| feedback::newest(db, tk, author.as_ref(), limit)).boxed()
    }

    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Tally>> {
        let author = author.cloned();
        self.within(tenant, move |db, tk| feedback::tally(db, tk, author.as_ref(), now)).boxed()
    }

    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<FeedbackSession>>> {
        self.near(move |db| feedback::session(db, tenant, id)).boxed()
    }

    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> BoxFuture<'a, Result<Page<FeedbackEvent, i64>>> {
        async move {
            let page =
                self.within(tenant, move |db, tk| feedback::failures(db, tk, &query).map(Some)).await?;
            Ok(page.unwrap_or(no_page()))
        }
        .boxed()
    }

    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> BoxFuture<'a, Result<Page<FeedbackSession, i64>>> {
        async move {
            let page =
                self.within(tenant, move |db, tk| feedback::sessions(db, tk, &query).map(Some)).await?;
            Ok(page.unwrap_or(no_page()))
        }
        .boxed()
    }

    fn silent_feedback(&self, now: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<FeedbackDue>>> {
        self.near(move |db| feedback::silent(db, now, limit)).boxed()
    }

    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Lesson>>> {
        self.near(move |db| lessons::lesson(db, tenant, id)).boxed()
    }

    fn lessons<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: LessonQuery,
    ) -> BoxFuture<'a, Result<Page<Lesson, i64>>> {
        async move {
            let page = self.within(tenant, move |db, tk| lessons::lessons(db, tk, &query).map(Some)).await?;
            Ok(page.unwrap_or(no_page()))
        }
        .boxed()
    }

    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<CrisisRecord>>> {
        self.beside(tenant, move |db, tk| crises::crises(db, tk, from, to, limit)).boxed()
    }

    fn purge_ratings(&self, before: Timestamp) -> BoxFuture<'_, Result<u64>> {
        self.purge(Side::Feedback, move |db| ratings::purge(db, before)).boxed()
    }

    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        self.purge(Side::Crisis, move |db| crises::purge(db, before, now)).boxed()
    }

    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<RecordsKept>> {
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

    fn installation_key(&self) -> BoxFuture<'_, Result<[u8; 32]>> {
        self.near(talk::installation_key).boxed()
    }

    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> BoxFuture<'a, Result<QueueCounts>> {
        let tenant = tenant.clone();
        self.readers
            .far(move |db| {
                let page = db.unchecked_transaction().map_err(report)?;
                let Some(tk) = tenants::key_of(&page, &tenant).map_err(report)? else {
                    return Ok(QueueCounts::default());
                };
                queue::counts(&page, tk, &of).map_err(report)
            })
            .boxed()
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<QueueItem, i64>>> {
        let tenant = tenant.clone();
        self.readers
            .far(move |db| {
                let page = db.unchecked_transaction().map_err(report)?;
                let Some(tk) = tenants::key_of(&page, &tenant).map_err(report)? else { return Ok(no_page()) };
                queue::page(&page, tk, &of, bucket, after, limit).map_err(report)
            })
            .boxed()
    }

    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> BoxFuture<'a, Result<Vec<UserId>>> {
        self.near(move |db| sessions::departed(db, tenant, id)).boxed()
    }

    fn key_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<FoundKey>>> {
        self.near(move |db| people::key_by_hash(db, hash)).boxed()
    }

    fn keys<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<Key>>> {
        let tenant = tenant.clone();
        self.readers.far(move |db| people::keys(db, &tenant).map_err(report)).boxed()
    }

    fn share_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<Share>>> {
        self.near(move |db| people::share_by_hash(db, hash)).boxed()
    }

    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        _: &'a ActingUser,
    ) -> BoxFuture<'a, Result<Option<Share>>> {
        self.near(move |db| people::share(db, tenant, id)).boxed()
    }

    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> BoxFuture<'a, Result<Option<User>>> {
        self.near(move |db| people::user(db, tenant, id)).boxed()
    }

    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<Option<User>>> {
        self.near(move |db| people::user_by_identity(db, tenant, identity)).boxed()
    }

    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<User>>> {
        let (tenant, after) = (tenant.clone(), after.map(str::to_owned));
        self.readers
            .far(move |db| people::users(db, &tenant, after.as_deref(), limit).map_err(report))
            .boxed()
    }

    fn tenant<'a>(&'a self, id: &'a TenantId) -> BoxFuture<'a, Result<Option<Tenant>>> {
        self.near(move |db| tenants::find(db, id)).boxed()
    }

    fn tenants(&self) -> BoxFuture<'_, Result<Vec<Tenant>>> {
        self.readers.far(|db| tenants::all(db).map_err(report)).boxed()
    }

    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> BoxFuture<'a, Result<Tenant>> {
        let id = id.clone();
        self.writer.ask(move |ledger| tenants::create(ledger, &id, &audit)).boxed()
    }

    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> BoxFuture<'a, Result<Tenant>> {
        let id = id.clone();
        self.writer.ask(move |ledger| tenants::suspend(ledger, &id, suspended, &audit)).boxed()
    }

    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> BoxFuture<'a, Result<()>> {
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

    fn usage<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<UseByHolder>> {
        let tenant = tenant.clone();
        self.readers.far(move |db| sessions::usage(db, &tenant).map_err(report)).boxed()
    }

    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<AuditLine, i64>>> {
        let tenant = tenant.clone();
        self.readers.far(move |db| people::audit(db, &tenant, after, limit).map_err(report)).boxed()
    }

    fn due(&self, silent_since: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>> {
        let now = self.clock.now();
        self.readers.far(move |db| sweep::due(db, now, silent_since, limit).map_err(report)).boxed()
    }

    fn purge_keys(&self, before: Timestamp) -> BoxFuture<'_, Result<u64>> {
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

    /// One process, one hub: there is nobody else to tell.
    fn spread_delta(&self, _: &TenantId, _: Delta) {}

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.near(|db| db.prepare_cached("SELECT 1 FROM tenants LIMIT 1")?.exists([]).map(drop)).boxed()
    }

    fn vitals(&self) -> BoxFuture<'_, Result<Vitals>> {
        self.readers.far(|db| sweep::vitals(db).map_err(report)).boxed()
    }

    fn index_now(&self) -> BoxFuture<'_, Result<()>> {
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
