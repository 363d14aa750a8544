//! Two stores as one: sessions that must leave no trace live in the second one, in memory, and are gone with it.
//!
//! The second one is opened with the first session that wants it. Which store a command belongs to follows from the session that it names. Lists, searches and everything that is
//! not a session's are the durable store's: what is private is found by its id alone, in the process that holds it.

use std::sync::{Arc, OnceLock};

use dashmap::{DashMap, DashSet};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::private_budget::{PrivateUse, charges};
use super::{
    ApprovalListStore, ApprovalStore, AuditLine, AuditStore, Change, ClaimStore, CommitStore, Committed,
    CrisisStore, DeltaStore, DocStore, Due, EventStore, FailureQuery, FeedbackDue, FeedbackQuery,
    FeedbackStore, Hit, IdemKey, KeyStore, LessonStore, MemoryQuery, MemoryStore, On, PrivateLimits,
    RatingStore, Record, RecordsKept, RecordsOf, Refusal, Replay, SearchQuery, SearchStore, SessionListStore,
    SessionRowStore, ShareStore, Store, StoreFuture, SweepStore, TalkStore, TenantRowStore, UpkeepStore,
    UserStore, VectorQuery, VectorStore, Vectors, Vitals, WorkQueueStore, Write,
};
use crate::access::ActingUser;
use crate::approval::{Approval, ApprovalQuery};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventPage, EventQuery};
use crate::feedback::capture::FeedbackEvent;
use crate::feedback::session::FeedbackSession;
use crate::feedback::stats::Tally;
use crate::feedback::{Rating, RatingCounts};
use crate::ids::{Incarnation, SessionId, TenantId, UserId};
use crate::lesson::{Lesson, LessonQuery};
use crate::library::{self, Doc, DocQuery};
use crate::live;
use crate::memory::vector::Vector;
use crate::memory::{self, Memory, Owner};
use crate::people::{Audit, FoundKey, Identity, Key, SecretHash, Share, Tenant, User};
use crate::quota::UseByHolder;
use crate::safety::record::CrisisRecord;
use crate::session::query::{Page, SessionQuery};
use crate::session::{MemoryMode, Session};
use crate::talk::Talk;
use crate::time::Timestamp;
use crate::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use crate::work::{ClaimOrder, Claimed};

/// How the second store is opened.
pub type Open = Box<dyn Fn() -> Result<Arc<dyn Store>> + Send + Sync>;

/// The pair.
pub struct Apart {
    durable: Arc<dyn Store>,
    private: OnceLock<Arc<dyn Store>>,
    open: Mutex<Open>,
    sessions: DashMap<(TenantId, SessionId), Incarnation>,
    incarnations: DashSet<Incarnation>,
    tenants: DashSet<TenantId>,
    limits: PrivateLimits,
    used: Mutex<PrivateUse>,
}

impl std::fmt::Debug for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apart")
            .field("durable", &self.durable)
            .field("private", &self.private)
            .finish_non_exhaustive()
    }
}

impl Apart {
    pub fn new(durable: Arc<dyn Store>, open: Open, limits: PrivateLimits) -> Self {
        Self {
            durable,
            private: OnceLock::new(),
            open: Mutex::new(open),
            sessions: DashMap::new(),
            incarnations: DashSet::new(),
            tenants: DashSet::new(),
            limits,
            used: Mutex::default(),
        }
    }

    /// Private sessions that nobody has written to for so long that they are to be deleted.
    pub async fn idle(&self) -> Result<Vec<Due>> {
        if self.sessions.is_empty() {
            return Ok(Vec::new());
        }
        let since = self.durable.now().await?.minus(self.limits.idle_after);
        let silent = self.used.lock().silent_since(since);
        Ok(silent.into_iter().map(|(tenant, session)| Due { tenant, session }).collect())
    }

    /// The second store, opened now if it is not.
    fn opened(&self) -> Result<&Arc<dyn Store>> {
        let open = self.open.lock();
        if let Some(private) = self.private.get() {
            return Ok(private);
        }
        let private = open()?;
        Ok(self.private.get_or_init(|| private))
    }

    fn is_of_private(&self, tenant: &TenantId, id: &SessionId) -> bool {
        !self.sessions.is_empty() && self.sessions.contains_key(&(tenant.clone(), id.clone()))
    }

    fn of(&self, tenant: &TenantId, id: &SessionId) -> &Arc<dyn Store> {
        match self.private.get() {
            Some(private) if self.is_of_private(tenant, id) => private,
            _ => &self.durable,
        }
    }

    /// The second store, if anything of this tenant is there.
    fn private_of(&self, tenant: &TenantId) -> Option<&Arc<dyn Store>> {
        self.private.get().filter(|_| self.tenants.contains(tenant))
    }

    /// Whose memory this is lies where its session lies.
    fn of_owner(&self, tenant: &TenantId, owner: &Owner) -> &Arc<dyn Store> {
        match owner.session_id() {
            Some(id) => self.of(tenant, &id),
            None => &self.durable,
        }
    }

    /// Whether a change is about a private session.
    async fn is_private(&self, change: &Change) -> Result<bool> {
        for part in &change.parts {
            let private = match &part.on {
                On::New(new) => new.details.memory_mode == MemoryMode::Incognito,
                On::Session(id) => self.is_of_private(&change.tenant, id),
            };
            if private {
                return Ok(true);
            }
        }
        let Some(private) = self.private_of(&change.tenant).filter(|_| change.parts.is_empty()) else {
            return Ok(false);
        };
        for record in &change.records {
            let is_private = match record {
                Record::PutMemory(memory) => {
                    memory.owner.session_id().is_some_and(|id| self.is_of_private(&change.tenant, &id))
                }
                Record::DropMemories { owner } => {
                    owner.session_id().is_some_and(|id| self.is_of_private(&change.tenant, &id))
                }
                Record::DropMemory { id } => private.memory(&change.tenant, id).await?.is_some(),
                Record::AddShare { share, .. } => self.is_of_private(&change.tenant, &share.session),
                Record::RevokeShare { id, by } => private.share(&change.tenant, id, by).await?.is_some(),
                _ => false,
            };
            if is_private {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The private store knows a tenant as soon as something of it is kept there.
    async fn admit(&self, private: &Arc<dyn Store>, tenant: &TenantId) -> Result<()> {
        if self.tenants.contains(tenant) {
            return Ok(());
        }
        if private.tenant(tenant).await?.is_none() {
            let audit = Audit { actor: "engine".into(), action: "tenant.create", target: tenant.to_string() };
            match private.create_tenant(tenant, audit).await {
                Ok(_) | Err(Error::Conflict(Conflict::AlreadyExists)) => {}
                Err(error) => return Err(error),
            }
        }
        self.tenants.insert(tenant.clone());
        Ok(())
    }

    async fn commit_privately(&self, change: Change) -> Result<Committed, Refusal> {
        let private = self.opened()?;
        self.admit(private, &change.tenant).await?;
        let tenant = change.tenant.clone();
        let news: Vec<(SessionId, Incarnation)> = change
            .parts
            .iter()
            .filter_map(|part| match &part.on {
                On::New(new) => Some((new.id.clone(), new.head.incarnation)),
                On::Session(_) => None,
            })
            .collect();
        let gone: Vec<SessionId> = change
            .parts
            .iter()
            .filter(|part| part.writes.iter().any(|write| matches!(write, Write::Delete)))
            .filter_map(|part| match &part.on {
                On::Session(id) => Some(id.clone()),
                On::New(_) => None,
            })
            .collect();
        let charges = charges(&change);
        let now = self.durable.now().await?;
        self.used.lock().charge(&self.limits, &tenant, &charges, now)?;
        let done = match private.commit(change).await {
            Ok(done) if done.replay.is_none() => done,
            not_written => {
                self.used.lock().refund(&tenant, &charges);
                return not_written;
            }
        };
        for id in &gone {
            self.used.lock().release(&tenant, id);
        }
        for (id, incarnation) in news {
            self.incarnations.insert(incarnation);
            self.sessions.insert((tenant.clone(), id), incarnation);
        }
        for id in gone {
            if let Some((_, incarnation)) = self.sessions.remove(&(tenant.clone(), id)) {
                self.incarnations.remove(&incarnation);
            }
        }
        Ok(done)
    }
}

/// What the one store has, or else the other.
async fn either<'a, T>(
    first: BoxFuture<'a, Result<Option<T>>>,
    second: BoxFuture<'a, Result<Option<T>>>,
) -> Result<Option<T>> {
    match first.await? {
        None => second.await,
        found => Ok(found),
    }
}

/// What both have, one after the other.
async fn both<'a, T>(
    first: BoxFuture<'a, Result<Vec<T>>>,
    second: BoxFuture<'a, Result<Vec<T>>>,
) -> Result<Vec<T>> {
    let mut all = first.await?;
    all.extend(second.await?);
    Ok(all)
}

async fn sum(first: BoxFuture<'_, Result<u64>>, second: BoxFuture<'_, Result<u64>>) -> Result<u64> {
    Ok(first.await? + second.await?)
}

impl CommitStore for Apart {
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<Committed, Refusal>> {
        // What is private is rare: nothing is asked while there is none.
        let opens = change
            .parts
            .iter()
            .any(|part| matches!(&part.on, On::New(new) if new.details.memory_mode == MemoryMode::Incognito));
        if self.sessions.is_empty() && !opens {
            return self.durable.commit(change);
        }
        Box::pin(async move {
            if self.is_private(&change).await? {
                self.commit_privately(change).await
            } else {
                self.durable.commit(change).await
            }
        })
    }

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> StoreFuture<'a, Option<Replay>> {
        match self.private_of(tenant) {
            None => self.durable.recall(tenant, key),
            Some(private) => Box::pin(either(self.durable.recall(tenant, key), private.recall(tenant, key))),
        }
    }
}

impl SessionRowStore for Apart {
    fn session<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        self.of(tenant, id).session(tenant, id)
    }

    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Vec<UserId>> {
        self.of(tenant, id).departed(tenant, id)
    }
}

impl EventStore for Apart {
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        self.of(tenant, id).events(tenant, id, query)
    }

    fn sequence_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        external_id: &'a str,
    ) -> StoreFuture<'a, Option<u64>> {
        self.of(tenant, id).sequence_of(tenant, id, external_id)
    }
}

impl ApprovalStore for Apart {
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Approval>> {
        match self.private_of(tenant) {
            None => self.durable.approval(tenant, id),
            Some(private) => {
                Box::pin(either(self.durable.approval(tenant, id), private.approval(tenant, id)))
            }
        }
    }
}

impl TalkStore for Apart {
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<(Session, Talk)>> {
        self.of(tenant, id).talk(tenant, id)
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        let durable = self.durable.silent_sittings(active_before, limit);
        match self.private.get() {
            None => durable,
            Some(private) => Box::pin(both(durable, private.silent_sittings(active_before, limit))),
        }
    }

    fn waiting_turns(&self, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        match self.private.get() {
            None => self.durable.waiting_turns(limit),
            Some(private) => Box::pin(both(self.durable.waiting_turns(limit), private.waiting_turns(limit))),
        }
    }
}

impl MemoryStore for Apart {
    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> StoreFuture<'a, Page<Memory, i64>> {
        self.of_owner(tenant, &query.owner).memories(tenant, query)
    }

    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Memory>> {
        match self.private_of(tenant) {
            None => self.durable.memory(tenant, id),
            Some(private) => Box::pin(either(self.durable.memory(tenant, id), private.memory(tenant, id))),
        }
    }

    fn memories_at<'a>(&'a self, tenant: &'a TenantId, ids: &'a [String]) -> StoreFuture<'a, Vec<Memory>> {
        match self.private_of(tenant) {
            None => self.durable.memories_at(tenant, ids),
            Some(private) => {
                Box::pin(both(self.durable.memories_at(tenant, ids), private.memories_at(tenant, ids)))
            }
        }
    }

    fn count_memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        owner: &'a Owner,
        kind: memory::Kind,
    ) -> StoreFuture<'a, u64> {
        self.of_owner(tenant, owner).count_memories(tenant, owner, kind)
    }
}

impl VectorStore for Apart {
    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> StoreFuture<'a, Vectors> {
        self.of_owner(tenant, &query.owner).vectors(tenant, query)
    }

    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> StoreFuture<'a, ()> {
        let (private, durable): (Vec<_>, Vec<_>) = made.into_iter().partition(|(memory, _)| {
            memory.owner.session_id().is_some_and(|id| self.is_of_private(tenant, &id))
        });
        Box::pin(async move {
            if !durable.is_empty() {
                self.durable.keep_vectors(tenant, model, durable).await?;
            }
            match self.private.get() {
                Some(store) if !private.is_empty() => store.keep_vectors(tenant, model, private).await,
                _ => Ok(()),
            }
        })
    }

    fn unembedded<'a>(&'a self, model: &'a str, limit: usize) -> StoreFuture<'a, Vec<(TenantId, Memory)>> {
        match self.private.get() {
            None => self.durable.unembedded(model, limit),
            Some(private) => {
                Box::pin(both(self.durable.unembedded(model, limit), private.unembedded(model, limit)))
            }
        }
    }
}

impl ShareStore for Apart {
    fn share_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<Share>> {
        match self.private.get() {
            None => self.durable.share_by_hash(hash),
            Some(private) => Box::pin(either(self.durable.share_by_hash(hash), private.share_by_hash(hash))),
        }
    }

    fn share<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        by: &'a ActingUser,
    ) -> StoreFuture<'a, Option<Share>> {
        match self.private_of(tenant) {
            None => self.durable.share(tenant, id, by),
            Some(private) => {
                Box::pin(either(self.durable.share(tenant, id, by), private.share(tenant, id, by)))
            }
        }
    }
}

impl RatingStore for Apart {
    fn records_kept<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RecordsKept> {
        let Some(private) = self.private_of(tenant) else { return self.durable.records_kept(tenant, of) };
        Box::pin(async move {
            let (a, b) = (
                self.durable.records_kept(tenant, of.clone()).await?,
                private.records_kept(tenant, of).await?,
            );
            Ok(RecordsKept { ratings: a.ratings + b.ratings, crises: a.crises + b.crises })
        })
    }

    fn rating_counts<'a>(&'a self, tenant: &'a TenantId, of: RecordsOf) -> StoreFuture<'a, RatingCounts> {
        let Some(private) = self.private_of(tenant) else { return self.durable.rating_counts(tenant, of) };
        Box::pin(async move {
            let kept = self.durable.rating_counts(tenant, of.clone()).await?;
            Ok(kept + private.rating_counts(tenant, of).await?)
        })
    }

    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> StoreFuture<'a, Vec<Rating>> {
        match self.private_of(tenant) {
            None => self.durable.ratings(tenant, opaque),
            Some(private) => {
                Box::pin(both(self.durable.ratings(tenant, opaque), private.ratings(tenant, opaque)))
            }
        }
    }
}

impl SweepStore for Apart {
    fn due(&self, silent_since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Due>> {
        let durable = self.durable.due(silent_since, limit);
        match self.private.get() {
            None => durable,
            Some(private) => Box::pin(both(durable, private.due(silent_since, limit))),
        }
    }

    fn purge_keys(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        match self.private.get() {
            None => self.durable.purge_keys(before),
            Some(private) => Box::pin(sum(self.durable.purge_keys(before), private.purge_keys(before))),
        }
    }

    fn purge_ratings(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        match self.private.get() {
            None => self.durable.purge_ratings(before),
            Some(private) => Box::pin(sum(self.durable.purge_ratings(before), private.purge_ratings(before))),
        }
    }

    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> StoreFuture<'_, u64> {
        let durable = self.durable.purge_crises(before, now);
        match self.private.get() {
            None => durable,
            Some(private) => Box::pin(sum(durable, private.purge_crises(before, now))),
        }
    }

    fn purgeable(
        &self,
        ratings_before: Timestamp,
        crises_before: Timestamp,
        now: Timestamp,
    ) -> StoreFuture<'_, RecordsKept> {
        let durable = self.durable.purgeable(ratings_before, crises_before, now);
        let Some(private) = self.private.get() else { return durable };
        Box::pin(async move {
            let (a, b) = (durable.await?, private.purgeable(ratings_before, crises_before, now).await?);
            Ok(RecordsKept { ratings: a.ratings + b.ratings, crises: a.crises + b.crises })
        })
    }
}

impl DeltaStore for Apart {
    fn spread_delta(&self, tenant: &TenantId, delta: live::Delta) {
        if self.incarnations.is_empty() || !self.incarnations.contains(&delta.incarnation) {
            self.durable.spread_delta(tenant, delta);
        }
    }
}

impl SessionListStore for Apart {
    fn sessions<'a>(&'a self, tenant: &'a TenantId, query: SessionQuery) -> StoreFuture<'a, Page<Session>> {
        self.durable.sessions(tenant, query)
    }
}

impl SearchStore for Apart {
    fn search<'a>(&'a self, tenant: &'a TenantId, query: SearchQuery) -> StoreFuture<'a, Page<Hit, i64>> {
        self.durable.search(tenant, query)
    }
}

impl DocStore for Apart {
    fn doc<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: library::Kind,
        name: &'a str,
    ) -> StoreFuture<'a, Option<Doc>> {
        self.durable.doc(tenant, kind, name)
    }

    fn docs<'a>(&'a self, tenant: &'a TenantId, query: DocQuery) -> StoreFuture<'a, Page<Doc, i64>> {
        self.durable.docs(tenant, query)
    }
}

impl ApprovalListStore for Apart {
    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Page<Approval, i64>> {
        self.durable.approvals(tenant, query)
    }
}

impl CrisisStore for Apart {
    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<CrisisRecord>> {
        self.durable.crises(tenant, from, to, limit)
    }
}

impl FeedbackStore for Apart {
    fn feedback<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<FeedbackEvent>> {
        self.durable.feedback(tenant, id)
    }

    fn newest_feedback<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<FeedbackEvent>> {
        self.durable.newest_feedback(tenant, author, limit)
    }

    fn feedback_tally<'a>(
        &'a self,
        tenant: &'a TenantId,
        author: Option<&'a UserId>,
        now: Timestamp,
    ) -> StoreFuture<'a, Tally> {
        self.durable.feedback_tally(tenant, author, now)
    }

    fn failures<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FailureQuery,
    ) -> StoreFuture<'a, Page<FeedbackEvent, i64>> {
        self.durable.failures(tenant, query)
    }

    fn feedback_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> StoreFuture<'a, Option<FeedbackSession>> {
        self.durable.feedback_session(tenant, id)
    }

    fn feedback_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: FeedbackQuery,
    ) -> StoreFuture<'a, Page<FeedbackSession, i64>> {
        self.durable.feedback_sessions(tenant, query)
    }

    fn silent_feedback(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<FeedbackDue>> {
        self.durable.silent_feedback(now, limit)
    }
}

impl LessonStore for Apart {
    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Lesson>> {
        self.durable.lesson(tenant, id)
    }

    fn lessons<'a>(&'a self, tenant: &'a TenantId, query: LessonQuery) -> StoreFuture<'a, Page<Lesson, i64>> {
        self.durable.lessons(tenant, query)
    }
}

impl ClaimStore for Apart {
    fn claim(&self, order: ClaimOrder) -> StoreFuture<'_, Vec<Claimed>> {
        self.durable.claim(order)
    }
}

impl WorkQueueStore for Apart {
    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> StoreFuture<'a, QueueCounts> {
        self.durable.queue_counts(tenant, of)
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<QueueItem, i64>> {
        self.durable.queue(tenant, of, bucket, after, limit)
    }
}

impl KeyStore for Apart {
    fn key_by_hash(&self, hash: SecretHash) -> StoreFuture<'_, Option<FoundKey>> {
        self.durable.key_by_hash(hash)
    }

    fn keys<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, Vec<Key>> {
        self.durable.keys(tenant)
    }
}

impl UserStore for Apart {
    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> StoreFuture<'a, Option<User>> {
        self.durable.user(tenant, id)
    }

    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> StoreFuture<'a, Option<User>> {
        self.durable.user_by_identity(tenant, identity)
    }

    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<User>> {
        self.durable.users(tenant, after, limit)
    }
}

impl TenantRowStore for Apart {
    fn tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, Option<Tenant>> {
        self.durable.tenant(id)
    }

    fn tenants(&self) -> StoreFuture<'_, Vec<Tenant>> {
        self.durable.tenants()
    }

    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> StoreFuture<'a, Tenant> {
        self.durable.create_tenant(id, audit)
    }

    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> StoreFuture<'a, Tenant> {
        self.durable.suspend_tenant(id, suspended, audit)
    }

    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            if let Some(private) = self.private_of(id) {
                self.tenants.remove(id);
                self.used.lock().release_tenant(id);
                self.sessions.retain(|(tenant, _), _| tenant != id);
                private.delete_tenant(id).await?;
            }
            self.durable.delete_tenant(id).await
        })
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId) -> StoreFuture<'a, UseByHolder> {
        self.durable.usage(tenant)
    }
}

impl AuditStore for Apart {
    fn audit<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<i64>,
        limit: usize,
    ) -> StoreFuture<'a, Page<AuditLine, i64>> {
        self.durable.audit(tenant, after, limit)
    }
}

impl UpkeepStore for Apart {
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.durable.now()
    }

    fn installation_key(&self) -> StoreFuture<'_, [u8; 32]> {
        self.durable.installation_key()
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        self.durable.ready()
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        self.durable.vitals()
    }

    fn index_now(&self) -> StoreFuture<'_, ()> {
        self.durable.index_now()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(private) = self.private.get() {
                private.close().await;
            }
            self.durable.close().await;
        })
    }
}
