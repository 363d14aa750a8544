//! Where the rows of a session lie: sessions that must leave no trace live in a second store, in memory, and are gone
//! with it.
//!
//! The second store is opened with the first session that wants it. Which of the two a command belongs to follows from
//! the session that it names. Only the session half of the seam is routed: what belongs to a tenant, and every list and
//! search, is asked of the durable store without coming through here, so an incognito session is found by its id alone,
//! in the process that holds it.
//!
//! What an incognito session needs of the tenant half, it has of its own. The second store is a whole store: its clock
//! says when a session was last written to, and a tenant is known there as soon as one of its sessions is. A tenant that
//! is removed is removed in both ([`IncognitoRouter::forget_tenant`]), and both are closed
//! ([`IncognitoRouter::close`]): the engine says so to each. Sums over a tenant or over everything are added up here.

use std::sync::{Arc, OnceLock};

use dashmap::{DashMap, DashSet};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::private_budget::{PrivateUse, charges};
use super::{
    ApprovalStore, Change, CommitResult, CommitStore, DeltaStore, DocumentStore, DueApproval, DueSession,
    EventStore, Home, IdemKey, MemoryQuery, MemoryStore, PartTarget, PresenceStore, PrivateLimits,
    RatingStore, RecordsKept, RecordsOf, Refusal, Replay, ResponseStore, SessionRowStore, SessionStore,
    ShareStore, Store, StoreFuture, SweepStore, TalkStore, VectorQuery, VectorStore, Vectors, Write,
};
use crate::access::ActingUser;
use crate::approval::Approval;
use crate::document::{DocumentKey, DocumentSummary, PatchRange, StoredDocument, StoredPatch};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventPage, EventQuery};
use crate::feedback::{Rating, RatingCounts};
use crate::ids::{Incarnation, SessionId, TenantId, UserId};
use crate::live;
use crate::memory::vector::Vector;
use crate::memory::{self, Memory, Owner};
use crate::people::{Audit, LinkReach, SecretHash, Share, ShareCursor, ShareListQuery, SharedSession};
use crate::presence::PresenceChange;
use crate::response::{RespondentHistory, ResponseQuery, ResponseRow, StoredResponse};
use crate::session::query::Page;
use crate::session::{MemoryMode, Session};
use crate::talk::Talk;
use crate::time::Timestamp;

/// How the second store is opened.
pub type PrivateStoreOpener = Box<dyn Fn() -> Result<Arc<dyn Store>> + Send + Sync>;

/// The session half of two stores as one.
pub struct IncognitoRouter {
    durable: Arc<dyn SessionStore>,
    private: OnceLock<Arc<dyn Store>>,
    open: Mutex<PrivateStoreOpener>,
    sessions: DashMap<(TenantId, SessionId), Incarnation>,
    incarnations: DashSet<Incarnation>,
    tenants: DashSet<TenantId>,
    limits: PrivateLimits,
    used: Mutex<PrivateUse>,
}

impl std::fmt::Debug for IncognitoRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IncognitoRouter")
            .field("durable", &self.durable)
            .field("private", &self.private)
            .finish_non_exhaustive()
    }
}

impl IncognitoRouter {
    pub fn new(durable: Arc<dyn SessionStore>, open: PrivateStoreOpener, limits: PrivateLimits) -> Self {
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
    pub async fn idle(&self) -> Result<Vec<DueSession>> {
        let Some(private) = self.private.get().filter(|_| !self.sessions.is_empty()) else {
            return Ok(Vec::new());
        };
        let since = private.now().await?.minus(self.limits.idle_after);
        let silent = self.used.lock().silent_since(since);
        Ok(silent.into_iter().map(|(tenant, session)| DueSession { tenant, session }).collect())
    }

    /// Forgets everything of a tenant that is being removed.
    pub async fn forget_tenant(&self, id: &TenantId) -> Result<()> {
        let Some(private) = self.private_of(id) else { return Ok(()) };
        self.tenants.remove(id);
        self.used.lock().release_tenant(id);
        self.sessions.retain(|(tenant, _), incarnation| {
            if tenant == id {
                self.incarnations.remove(incarnation);
            }
            tenant != id
        });
        private.delete_tenant(id).await
    }

    /// Lets go of the second store; the durable one is closed by its owner.
    pub async fn close(&self) {
        if let Some(private) = self.private.get() {
            private.close().await;
        }
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

    /// Whether this is an incognito session.
    pub fn is_of_private(&self, tenant: &TenantId, id: &SessionId) -> bool {
        !self.sessions.is_empty() && self.sessions.contains_key(&(tenant.clone(), id.clone()))
    }

    fn of(&self, tenant: &TenantId, id: &SessionId) -> &dyn SessionStore {
        match self.private.get() {
            Some(private) if self.is_of_private(tenant, id) => &**private,
            _ => &*self.durable,
        }
    }

    /// The second store, if anything of this tenant is there.
    fn private_of(&self, tenant: &TenantId) -> Option<&Arc<dyn Store>> {
        self.private.get().filter(|_| self.tenants.contains(tenant))
    }

    /// Whose memory this is lies where its session lies.
    fn of_owner(&self, tenant: &TenantId, owner: &Owner) -> &dyn SessionStore {
        match owner.session_id() {
            Some(id) => self.of(tenant, &id),
            None => &*self.durable,
        }
    }

    /// Whether a change is about a private session.
    async fn is_private(&self, change: &Change) -> Result<bool> {
        for part in &change.parts {
            let private = match &part.on {
                PartTarget::New(new) => new.details.memory_mode == MemoryMode::Incognito,
                PartTarget::Session(id) => self.is_of_private(&change.tenant, id),
            };
            if private {
                return Ok(true);
            }
        }
        let Some(private) = self.private_of(&change.tenant).filter(|_| change.parts.is_empty()) else {
            return Ok(false);
        };
        for record in &change.records {
            if self.holds(private, &change.tenant, record.home()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether what lies there lies in the private store.
    async fn holds(&self, private: &Arc<dyn Store>, tenant: &TenantId, home: Home<'_>) -> Result<bool> {
        Ok(match home {
            Home::Session(id) => self.is_of_private(tenant, id),
            Home::Owner(owner) => owner.session_id().is_some_and(|id| self.is_of_private(tenant, &id)),
            Home::Approval(id) => private.approval(tenant, id).await?.is_some(),
            Home::Memory(id) => private.memory(tenant, id).await?.is_some(),
            Home::Share(id, by) => private.share(tenant, id, by).await?.is_some(),
            Home::Tenant => false,
        })
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

    async fn commit_privately(&self, change: Change) -> Result<CommitResult, Refusal> {
        let private = self.opened()?;
        self.admit(private, &change.tenant).await?;
        let tenant = change.tenant.clone();
        let news: Vec<(SessionId, Incarnation)> = change
            .parts
            .iter()
            .filter_map(|part| match &part.on {
                PartTarget::New(new) => Some((new.id.clone(), new.head.incarnation)),
                PartTarget::Session(_) => None,
            })
            .collect();
        let gone: Vec<SessionId> = change
            .parts
            .iter()
            .filter(|part| part.writes.iter().any(|write| matches!(write, Write::Delete)))
            .filter_map(|part| match &part.on {
                PartTarget::Session(id) => Some(id.clone()),
                PartTarget::New(_) => None,
            })
            .collect();
        let charges = charges(&change);
        let now = private.now().await?;
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

impl CommitStore for IncognitoRouter {
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<CommitResult, Refusal>> {
        // What is private is rare: nothing is asked while there is none.
        let opens = change
            .parts
            .iter()
            .any(|part| matches!(&part.on, PartTarget::New(new) if new.details.memory_mode == MemoryMode::Incognito));
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

impl SessionRowStore for IncognitoRouter {
    fn session<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        self.of(tenant, id).session(tenant, id)
    }

    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Vec<UserId>> {
        self.of(tenant, id).departed(tenant, id)
    }
}

impl EventStore for IncognitoRouter {
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

impl ApprovalStore for IncognitoRouter {
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Approval>> {
        match self.private_of(tenant) {
            None => self.durable.approval(tenant, id),
            Some(private) => {
                Box::pin(either(self.durable.approval(tenant, id), private.approval(tenant, id)))
            }
        }
    }
}

impl ResponseStore for IncognitoRouter {
    fn response<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<StoredResponse>> {
        self.of(tenant, id).response(tenant, id)
    }

    fn response_rows<'a>(
        &'a self,
        tenant: &'a TenantId,
        sessions: &'a [SessionId],
    ) -> StoreFuture<'a, Vec<ResponseRow>> {
        self.durable.response_rows(tenant, sessions)
    }

    // No view opens an incognito session, so what is found by view is durable.
    fn respondent_history<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        respondent_name: &'a str,
    ) -> StoreFuture<'a, RespondentHistory> {
        self.durable.respondent_history(tenant, view_id, respondent_name)
    }

    fn silent_drafts<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        kept: usize,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionId>> {
        self.durable.silent_drafts(tenant, view_id, kept, limit)
    }

    fn responses<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ResponseQuery,
    ) -> StoreFuture<'a, Page<StoredResponse, i64>> {
        self.durable.responses(tenant, query)
    }
}

impl DocumentStore for IncognitoRouter {
    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
    ) -> StoreFuture<'a, Vec<DocumentSummary>> {
        self.of(tenant, session).documents(tenant, session)
    }

    fn document<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        seen: Option<u64>,
    ) -> StoreFuture<'a, Option<StoredDocument>> {
        self.of(tenant, session).document(tenant, session, key, seen)
    }

    fn document_patches<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        within: PatchRange,
    ) -> StoreFuture<'a, Vec<StoredPatch>> {
        self.of(tenant, session).document_patches(tenant, session, key, within)
    }
}

impl TalkStore for IncognitoRouter {
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<(Session, Talk)>> {
        self.of(tenant, id).talk(tenant, id)
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        let durable = self.durable.silent_sittings(active_before, limit);
        match self.private.get() {
            None => durable,
            Some(private) => Box::pin(both(durable, private.silent_sittings(active_before, limit))),
        }
    }

    fn waiting_turns(&self, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        match self.private.get() {
            None => self.durable.waiting_turns(limit),
            Some(private) => Box::pin(both(self.durable.waiting_turns(limit), private.waiting_turns(limit))),
        }
    }
}

impl MemoryStore for IncognitoRouter {
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
        kind: memory::MemoryKind,
    ) -> StoreFuture<'a, u64> {
        self.of_owner(tenant, owner).count_memories(tenant, owner, kind)
    }
}

impl VectorStore for IncognitoRouter {
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

impl ShareStore for IncognitoRouter {
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

    fn shared_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<SharedSession>> {
        self.of(tenant, id).shared_session(tenant, hash, id)
    }

    fn shared_events<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        self.of(tenant, id).shared_events(tenant, hash, id, query)
    }

    fn link_reach<'a>(
        &'a self,
        tenant: &'a TenantId,
        hash: SecretHash,
        view_id: &'a str,
        respondent_name: &'a str,
        response: Option<&'a SessionId>,
    ) -> StoreFuture<'a, LinkReach> {
        self.durable.link_reach(tenant, hash, view_id, respondent_name, response)
    }

    fn shares<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ShareListQuery,
    ) -> StoreFuture<'a, Page<Share, ShareCursor>> {
        match &query.session {
            Some(session) => self.of(tenant, session).shares(tenant, query),
            None => self.durable.shares(tenant, query),
        }
    }
}

impl RatingStore for IncognitoRouter {
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

impl SweepStore for IncognitoRouter {
    fn due(&self, silent_since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        let durable = self.durable.due(silent_since, limit);
        match self.private.get() {
            None => durable,
            Some(private) => Box::pin(both(durable, private.due(silent_since, limit))),
        }
    }

    fn due_promotions(&self, limit: usize) -> StoreFuture<'_, Vec<DueApproval>> {
        // No response is incognito.
        self.durable.due_promotions(limit)
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

impl DeltaStore for IncognitoRouter {
    fn spread_delta(&self, tenant: &TenantId, delta: live::Delta) {
        if self.incarnations.is_empty() || !self.incarnations.contains(&delta.incarnation) {
            self.durable.spread_delta(tenant, delta);
        }
    }
}

impl PresenceStore for IncognitoRouter {
    fn spread_presence(&self, change: PresenceChange) {
        self.durable.spread_presence(change);
    }
}
