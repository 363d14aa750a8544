//! The seam on PostgreSQL: many stateless nodes over one database.
//!
//! Plain appends go through `lanes` in batches, other small changes through `groups`, and claims for the same work meet
//! in `takers`; every other change is a transaction of its own (`commit`). Small reads meet in `looks`.
//! Row-level security is forced, and no role that this store takes may bypass it: see `migrations/V1__log.sql`.
//! Nodes tell each other by `spread` what has happened; rows are always read from the tables.

mod approvals;
mod batch;
mod claim;
mod commit;
mod connect;
pub mod copy;
mod crises;
mod events;
mod fault;
mod feedback;
mod fresh;
mod gather;
mod groups;
mod index;
pub mod inspect;
mod keys;
mod known;
mod lanes;
mod lessons;
mod library;
mod list;
pub mod login;
mod looks;
mod memories;
mod migrate;
mod ordinary;
mod people;
mod pieces;
mod queue;
mod ratings;
mod records;
mod rows;
mod seal;
mod search;
mod sessions;
mod spread;
mod sweep;
mod takers;
mod talk;
mod tenants;
#[cfg(test)]
mod tests;
mod tsvector;
mod tx;
mod vectors;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sederunt_core::access::ActingUser;
use sederunt_core::approval::{Approval, ApprovalQuery};
use sederunt_core::clock::SystemClock;
use sederunt_core::event::{EventPage, EventQuery};
use sederunt_core::feedback::capture::FeedbackEvent;
use sederunt_core::feedback::session::FeedbackSession;
use sederunt_core::feedback::stats::Tally;
use sederunt_core::feedback::{Rating, RatingCounts};
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::lesson::{Lesson, LessonQuery};
use sederunt_core::library::{Doc, DocQuery, Kind};
use sederunt_core::live::{Delta, Hub};
use sederunt_core::memory::vector::Vector;
use sederunt_core::memory::{self, Memory, Owner};
use sederunt_core::people::{Audit, FoundKey, Identity, Key, SecretHash, Share, Tenant, User};
use sederunt_core::quota::UseByHolder;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::session::Session;
use sederunt_core::session::query::{Page, SessionQuery};
use sederunt_core::store::{
    ApprovalListStore, ApprovalStore, AuditLine, AuditStore, Change, ClaimStore, CommitStore, Committed,
    CrisisStore, DeltaStore, DocStore, Due, EventStore, FailureQuery, FeedbackDue, FeedbackQuery,
    FeedbackStore, Hit, IdemKey, KeyStore, LessonStore, MemoryQuery, MemoryStore, RatingStore, RecordsKept,
    RecordsOf, Refusal, Replay, SearchQuery, SearchStore, SessionListStore, SessionRowStore, ShareStore,
    StoreFuture, SweepStore, TalkStore, TenantRowStore, UpkeepStore, UserStore, VectorQuery, VectorStore,
    Vectors, Vitals, WorkQueueStore, Write,
};
use sederunt_core::talk::Talk;
use sederunt_core::time::Timestamp;
use sederunt_core::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use sederunt_core::work::{ClaimOrder, Claimed};
use sederunt_core::{Error, Result};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use batch::Job;
use connect::{Address, Role};
use fault::Fault;
use groups::Groups;
use known::KnownHeads;
use lanes::{LANES, Lanes};
use looks::Looks;
use takers::Takers;
use tx::Base;

/// Connections for commands and reads, when nobody says.
const POOL_SIZE_DEFAULT: usize = 16;
/// Connections for sweeps, polls and notifications.
const SCAN_SIZE: usize = 3;
/// How long opening waits until this node hears the others.
const LISTEN_MAX: Duration = Duration::from_secs(5);
/// How long closing waits for tasks that should have ended.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Where the database is, and what goes with it.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub url: String,
    /// Everything lives in this schema, so that several stores can share a database.
    pub schema: String,
    /// Only its offset counts, added to the time of the database.
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
    /// Whether to make the schema or bring it forward, as the login in the URL.
    pub migrate: bool,
    pub pool_size: usize,
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>, hub: Arc<Hub>) -> Self {
        Self {
            url: url.into(),
            schema: "sederunt".into(),
            clock: Arc::default(),
            hub,
            migrate: true,
            pool_size: POOL_SIZE_DEFAULT,
        }
    }
}

/// Makes the schema or brings it forward as a login that owns it and does not serve. The version that it has then.
pub async fn migrate(url: &str, schema: &str) -> Result<u32> {
    migrate::bring_up(&Address::parse(url, schema)?, migrate::Login::Owns).await?;
    Ok(migrate::VERSION)
}

/// A store on PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    base: Arc<Base>,
    lanes: Arc<Lanes>,
    groups: Groups,
    looks: Looks,
    takers: Arc<Takers>,
    closing: watch::Sender<bool>,
    lane_tasks: Mutex<Vec<JoinHandle<()>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    pub async fn open(options: PostgresOptions) -> Result<Arc<Self>> {
        let address = Address::parse(&options.url, &options.schema)?;
        if options.migrate {
            migrate::bring_up_if_older(&address).await?;
        } else {
            migrate::check(&address).await?;
        }
        login::check(&address).await?;
        let scan = address.pool(Role::Scan, SCAN_SIZE)?;
        let secret = spread::secret(&scan, &address.schema).await?;
        let base = Arc::new(Base {
            schema: address.schema.clone(),
            app: address.pool(Role::App, options.pool_size.max(2))?,
            scan,
            append: address.pool(Role::Append, LANES)?,
            clock: options.clock,
            hub: options.hub,
            outbox: spread::Outbox::new(secret)?,
            dirty: index::Dirty::default(),
            fresh: fresh::Fresh::default(),
            tenants: Base::cache(),
            common: Base::common(),
            reading: Mutex::default(),
            known: KnownHeads::default(),
        });
        let (lanes, mut lane_tasks) = Lanes::start(&base);
        let (groups, drivers) = Groups::start(&base);
        lane_tasks.extend(drivers);
        let (looks, drivers) = Looks::start(&base);
        lane_tasks.extend(drivers);
        let (closing, seen) = watch::channel(false);
        let (listens, mut listening) = mpsc::channel(1);
        let tasks = vec![
            tokio::spawn(spread::listen(base.clone(), address, listens, seen.clone())),
            tokio::spawn(spread::tell(base.clone(), seen.clone())),
            tokio::spawn(spread::poll(base.clone(), seen.clone())),
            tokio::spawn(index::follow(base.clone(), seen)),
            tokio::spawn(finish_removals(base.clone())),
        ];
        let store = Self {
            base,
            lanes,
            groups,
            looks,
            takers: Arc::default(),
            closing,
            lane_tasks: Mutex::new(lane_tasks),
            tasks: Mutex::new(tasks),
        };
        match tokio::time::timeout(LISTEN_MAX, listening.recv()).await {
            Ok(Some(())) => Ok(Arc::new(store)),
            _ => Err(Error::unavailable("the database cannot be listened to")),
        }
    }

    /// Plain appends are batched, but for what the role of the batches is not given: what a browser records
    /// about a person, and anything of a share link.
    fn is_batched(change: &Change) -> bool {
        let shared = change.parts.iter().any(|part| {
            part.guard.append.as_ref().is_some_and(|rule| rule.actor.role == sederunt_core::Role::Share)
        });
        let human = change.parts.iter().flat_map(|part| &part.writes).any(|write| match write {
            Write::Append(events) => events.iter().any(|event| event.kind.as_str().starts_with("human.")),
            Write::Update(_) | Write::Talk(_) | Write::Delete => false,
        });
        change.is_plain_append() && !shared && !human
    }

    async fn append(&self, tk: i32, change: Change) -> Result<Committed, Refusal> {
        let (done, answer) = oneshot::channel();
        let Change { tenant, parts, key, .. } = change;
        let Some(part) = parts.into_iter().next() else { return Err(lost()) };
        let sederunt_core::store::On::Session(session) = part.on else { return Err(lost()) };
        let Some(Write::Append(events)) = part.writes.into_iter().next() else { return Err(lost()) };
        self.lanes.put(Job { tk, tenant, session, guard: part.guard, events, key, done })?;
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the store has closed").into()))
    }

    /// In a task of its own: a caller that goes away cannot stop a change halfway between commit and publication.
    async fn apply(&self, tk: i32, change: Change) -> Result<Committed, Refusal> {
        let base = self.base.clone();
        let task = tokio::spawn(async move { commit::apply(&base, tk, &change).await });
        task.await.unwrap_or_else(|error| Err(Error::internal(error).into()))
    }
}

fn lost() -> Refusal {
    Error::internal("a batched change that is no plain append").into()
}

async fn finish_removals(base: Arc<Base>) {
    if let Err(fault) = tenants::sweep(&base).await {
        tracing::warn!(?fault, "rows of deleted tenants could not be removed; the next start tries again");
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.lanes.close();
        self.closing.send_replace(true);
    }
}

/// Turns the faults of a read into the product's errors.
fn read<'a, T: 'a>(work: impl Future<Output = Result<T, Fault>> + Send + 'a) -> BoxFuture<'a, Result<T>> {
    work.map(|outcome| outcome.map_err(Error::from)).boxed()
}

impl CommitStore for PostgresStore {
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<Committed, Refusal>> {
        async move {
            let tk = self.base.tk(&change.tenant).await.map_err(Error::from)?;
            let tk = tk.ok_or(Refusal::Rejected(Error::NotFound))?;
            if Self::is_batched(&change) {
                self.append(tk, change).await
            } else if Groups::take(&change) {
                self.groups.apply(tk, change).await
            } else {
                self.apply(tk, change).await
            }
        }
        .boxed()
    }

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> StoreFuture<'a, Option<Replay>> {
        read(keys::recall(&self.base, tenant, key))
    }
}

impl SessionRowStore for PostgresStore {
    fn session<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        self.looks.session(tenant, id).boxed()
    }

    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Vec<UserId>> {
        read(sessions::departed(&self.base, tenant, id))
    }
}

impl EventStore for PostgresStore {
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        read(events::events(&self.base, tenant, id, query))
    }

    fn sequence_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        external_id: &'a str,
    ) -> StoreFuture<'a, Option<u64>> {
        read(events::sequence_named(&self.base, tenant, id, external_id))
    }
}

impl ApprovalStore for PostgresStore {
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Approval>> {
        read(approvals::approval(&self.base, tenant, id))
    }
}

impl TalkStore for PostgresStore {
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<(Session, Talk)>> {
        read(talk::talk(&self.base, tenant, id))
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        read(talk::silent(&self.base, active_before, limit))
    }

    fn waiting_turns(&self, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        read(talk::waiting(&self.base, limit))
    }
}

impl MemoryStore for PostgresStore {
    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> StoreFuture<'a, Page<Memory, i64>> {
        read(memories::memories(&self.base, tenant, query))
    }

    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Memory>> {
        read(memories::memory(&self.base, tenant, id))
    }

    fn memories_at<'a>(&'a self, tenant: &'a TenantId, ids: &'a [String]) -> StoreFuture<'a, Vec<Memory>> {
        read(memories::at(&self.base, tenant, ids))
    }

    fn count_memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        owner: &'a Owner,
        kind: memory::Kind,
    ) -> StoreFuture<'a, u64> {
        read(memories::count(&self.base, tenant, owner, kind))
    }
}

impl VectorStore for PostgresStore {
    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> StoreFuture<'a, Vectors> {
        read(vectors::vectors(&self.base, tenant, query))
    }

    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> StoreFuture<'a, ()> {
        read(vectors::keep(&self.base, tenant, model, made))
    }

    fn unembedded<'a>(&'a self, model: &'a str, limit: usize) -> StoreFuture<'a, Vec<(TenantId, Memory)>> {
        read(vectors::missing(&self.base, model, limit))
    }
}

impl ShareStore for PostgresStore {
    fn share_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<Share>> {
        read(people::share_by_hash(&self.base, hash))
    }

    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        by: &'a ActingUser,
    ) -> StoreFuture<'a, Option<Share>> {
        read(people::share(&self.base, tenant, id, by))
    }
}

impl RatingStore for PostgresStore {
    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RecordsKept> {
        read(ratings::kept(&self.base, tenant, of))
    }

    fn rating_counts<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RatingCounts> {
        read(ratings::counts(&self.base, tenant, of))
    }

    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> StoreFuture<'a, Vec<Rating>> {
        read(ratings::ratings(&self.base, tenant, opaque))
    }
}

impl SweepStore for PostgresStore {
    fn due(&self, silent_since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        read(sweep::due(&self.base, silent_since, limit))
    }

    fn purge_keys(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        read(sweep::purge_keys(&self.base, before))
    }

    fn purge_ratings(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        read(ratings::purge(&self.base, before))
    }

    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> StoreFuture<'_, u64> {
        read(crises::purge(&self.base, before, now))
    }

    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, RecordsKept> {
        read(async move {
            let ratings = ratings::purgeable(&self.base, ratings_before).await?;
            let crises = crises::purgeable(&self.base, crises_before, now).await?;
            Ok(RecordsKept { ratings, crises })
        })
    }
}

impl DeltaStore for PostgresStore {
    fn spread_delta(&self, tenant: &TenantId, delta: Delta) {
        self.base.outbox.put_delta(tenant, delta);
    }
}

impl SessionListStore for PostgresStore {
    fn sessions<'a>(&'a self, tenant: &'a TenantId, query: SessionQuery) -> StoreFuture<'a, Page<Session>> {
        read(list::sessions(&self.base, tenant, query))
    }
}

impl SearchStore for PostgresStore {
    fn search<'a>(&'a self, tenant: &'a TenantId, query: SearchQuery) -> StoreFuture<'a, Page<Hit, i64>> {
        read(search::search(&self.base, tenant, query))
    }
}

impl DocStore for PostgresStore {
    fn doc<'a>(&'a self, tenant: &'a TenantId, kind: Kind, name: &'a str) -> StoreFuture<'a, Option<Doc>> {
        self.looks.doc(tenant, kind, name).boxed()
    }

    fn docs<'a>(&'a self, tenant: &'a TenantId, query: DocQuery) -> StoreFuture<'a, Page<Doc, i64>> {
        read(library::docs(&self.base, tenant, query))
    }
}

impl ApprovalListStore for PostgresStore {
    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Page<Approval, i64>> {
        read(approvals::approvals(&self.base, tenant, query))
    }
}

impl CrisisStore for PostgresStore {
    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<CrisisRecord>> {
        read(crises::crises(&self.base, tenant, from, to, limit))
    }
}

impl FeedbackStore for PostgresStore {
    fn feedback<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<FeedbackEvent>> {
        read(feedback::event(&self.base, tenant, id))
    }

    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<FeedbackEvent>> {
        read(feedback::newest(&self.base, tenant, author, limit))
    }

    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> StoreFuture<'a, Tally> {
        read(feedback::tally(&self.base, tenant, author, now))
    }

    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> StoreFuture<'a, Page<FeedbackEvent, i64>> {
        read(feedback::failures(&self.base, tenant, query))
    }

    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> StoreFuture<'a, Option<FeedbackSession>> {
        read(feedback::session(&self.base, tenant, id))
    }

    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> StoreFuture<'a, Page<FeedbackSession, i64>> {
        read(feedback::sessions(&self.base, tenant, query))
    }

    fn silent_feedback(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<FeedbackDue>> {
        read(feedback::silent(&self.base, now, limit))
    }
}

impl LessonStore for PostgresStore {
    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Lesson>> {
        read(lessons::lesson(&self.base, tenant, id))
    }

    fn lessons<'a>(&'a self, tenant: &'a TenantId, query: LessonQuery) -> StoreFuture<'a, Page<Lesson, i64>> {
        read(lessons::lessons(&self.base, tenant, query))
    }
}

impl ClaimStore for PostgresStore {
    fn claim(&self, order: ClaimOrder) -> StoreFuture<'_, Vec<Claimed>> {
        self.takers.claim(&self.base, order).boxed()
    }
}

impl WorkQueueStore for PostgresStore {
    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> StoreFuture<'a, QueueCounts> {
        read(async move { queue::counts(&self.base, tenant, &of).await })
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<QueueItem, i64>> {
        read(async move { queue::page(&self.base, tenant, &of, bucket, after, limit).await })
    }
}

impl KeyStore for PostgresStore {
    fn key_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundKey>> {
        read(people::key_by_hash(&self.base, hash))
    }

    fn keys<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, Vec<Key>> {
        read(people::keys(&self.base, tenant))
    }
}

impl UserStore for PostgresStore {
    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> StoreFuture<'a, Option<User>> {
        read(people::user(&self.base, tenant, id))
    }

    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> StoreFuture<'a, Option<User>> {
        read(people::user_by_identity(&self.base, tenant, identity))
    }

    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<User>> {
        read(people::users(&self.base, tenant, after, limit))
    }
}

impl TenantRowStore for PostgresStore {
    fn tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, Option<Tenant>> {
        read(tenants::tenant(&self.base, id))
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        read(tenants::tenants(&self.base))
    }

    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> StoreFuture<'a, Tenant> {
        read(tenants::create(&self.base, id, audit))
    }

    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> StoreFuture<'a, Tenant> {
        read(tenants::suspend(&self.base, id, suspended, audit))
    }

    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, ()> {
        read(tenants::delete(&self.base, id))
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, UseByHolder> {
        read(sessions::usage(&self.base, tenant))
    }
}

impl AuditStore for PostgresStore {
    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<AuditLine, i64>> {
        read(people::audit(&self.base, tenant, after, limit))
    }
}

impl UpkeepStore for PostgresStore {
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.looks.now().boxed()
    }

    fn installation_key(&self) -> StoreFuture<'_, [u8; 32]> {
        read(talk::installation_key(&self.base))
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        read(sweep::ready(&self.base))
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        read(sweep::vitals(&self.base))
    }

    fn index_now(&self) -> StoreFuture<'_, ()> {
        read(index::catch_up(&self.base))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.lanes.close();
            self.groups.close();
            self.looks.close();
            let lane_tasks = std::mem::take(&mut *self.lane_tasks.lock());
            end(lane_tasks).await;
            self.closing.send_replace(true);
            let tasks = std::mem::take(&mut *self.tasks.lock());
            end(tasks).await;
            for pool in [&self.base.app, &self.base.scan, &self.base.append] {
                pool.close();
            }
        }
        .boxed()
    }
}

async fn end(tasks: Vec<JoinHandle<()>>) {
    for mut task in tasks {
        if tokio::time::timeout(CLOSE_MAX, &mut task).await.is_err() {
            task.abort();
        }
    }
}
