//! Two stores as one: sessions that must leave no trace live in the second one, in memory, and are gone with it.
//!
//! Which store a command belongs to follows from the session that it names. Lists, searches and everything that is
//! not a session's are the durable store's: what is private is found by its id alone, in the process that holds it.

use std::sync::Arc;

use dashmap::{DashMap, DashSet};
use futures_util::future::BoxFuture;

use super::{
    AuditLine, Change, Committed, Due, Hit, IdemKey, MemoryQuery, On, Record, RecordsKept, Refusal, Replay,
    SearchQuery, Store, Vitals, Write,
};
use crate::approval::{Approval, ApprovalQuery};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventPage, EventQuery};
use crate::feedback::Rating;
use crate::ids::{Incarnation, SessionId, TenantId, UserId};
use crate::library::{self, Doc, DocQuery};
use crate::live;
use crate::memory::{Memory, Owner};
use crate::people::{Audit, FoundKey, Identity, Key, SecretHash, Share, Tenant, User};
use crate::safety::record::CrisisRecord;
use crate::session::query::{Page, SessionQuery};
use crate::session::{MemoryMode, Session};
use crate::talk::Talk;
use crate::time::Timestamp;
use crate::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use crate::work::{ClaimOrder, Claimed};

/// The pair.
#[derive(Debug)]
pub struct Apart {
    durable: Arc<dyn Store>,
    private: Arc<dyn Store>,
    sessions: DashMap<(TenantId, SessionId), Incarnation>,
    incarnations: DashSet<Incarnation>,
    tenants: DashSet<TenantId>,
}

impl Apart {
    pub fn new(durable: Arc<dyn Store>, private: Arc<dyn Store>) -> Self {
        Self {
            durable,
            private,
            sessions: DashMap::new(),
            incarnations: DashSet::new(),
            tenants: DashSet::new(),
        }
    }

    fn of(&self, tenant: &TenantId, id: &SessionId) -> &Arc<dyn Store> {
        if !self.sessions.is_empty() && self.sessions.contains_key(&(tenant.clone(), id.clone())) {
            &self.private
        } else {
            &self.durable
        }
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
                On::Session(id) => Arc::ptr_eq(self.of(&change.tenant, id), &self.private),
            };
            if private {
                return Ok(true);
            }
        }
        if !change.parts.is_empty() || self.sessions.is_empty() {
            return Ok(false);
        }
        for record in &change.records {
            let private = match record {
                Record::PutMemory(memory) => {
                    Arc::ptr_eq(self.of_owner(&change.tenant, &memory.owner), &self.private)
                }
                Record::DropMemory { id } => self.private.memory(&change.tenant, id).await?.is_some(),
                Record::AddShare { share, .. } => {
                    Arc::ptr_eq(self.of(&change.tenant, &share.session), &self.private)
                }
                Record::RevokeShare { id } => self.private.share(&change.tenant, id).await?.is_some(),
                _ => false,
            };
            if private {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The private store knows a tenant as soon as something of it is kept there.
    async fn admit(&self, tenant: &TenantId) -> Result<()> {
        if self.tenants.contains(tenant) {
            return Ok(());
        }
        if self.private.tenant(tenant).await?.is_none() {
            let audit = Audit { actor: "engine".into(), action: "tenant.create", target: tenant.to_string() };
            match self.private.create_tenant(tenant, audit).await {
                Ok(_) | Err(Error::Conflict(Conflict::AlreadyExists)) => {}
                Err(error) => return Err(error),
            }
        }
        self.tenants.insert(tenant.clone());
        Ok(())
    }

    async fn commit_privately(&self, change: Change) -> Result<Committed, Refusal> {
        self.admit(&change.tenant).await?;
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
        let done = self.private.commit(change).await?;
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

impl Store for Apart {
    fn now(&self) -> BoxFuture<'_, Result<Timestamp>> {
        self.durable.now()
    }

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

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> BoxFuture<'a, Result<Option<Replay>>> {
        if !self.tenants.contains(tenant) {
            return self.durable.recall(tenant, key);
        }
        Box::pin(either(self.durable.recall(tenant, key), self.private.recall(tenant, key)))
    }

    fn claim(&self, order: ClaimOrder) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        self.durable.claim(order)
    }

    fn session<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Session>>> {
        self.of(tenant, id).session(tenant, id)
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SessionQuery,
    ) -> BoxFuture<'a, Result<Page<Session>>> {
        self.durable.sessions(tenant, query)
    }

    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> BoxFuture<'a, Result<EventPage>> {
        self.of(tenant, id).events(tenant, id, query)
    }

    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: SearchQuery,
    ) -> BoxFuture<'a, Result<Page<Hit, i64>>> {
        self.durable.search(tenant, query)
    }

    fn doc<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: library::Kind,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Doc>>> {
        self.durable.doc(tenant, kind, name)
    }

    fn docs<'a>(&'a self, tenant: &'a TenantId, query: DocQuery) -> BoxFuture<'a, Result<Page<Doc, i64>>> {
        self.durable.docs(tenant, query)
    }

    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Approval>>> {
        if !self.tenants.contains(tenant) {
            return self.durable.approval(tenant, id);
        }
        Box::pin(either(self.durable.approval(tenant, id), self.private.approval(tenant, id)))
    }

    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> BoxFuture<'a, Result<Page<Approval, i64>>> {
        self.durable.approvals(tenant, query)
    }

    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<(Session, Talk)>>> {
        self.of(tenant, id).talk(tenant, id)
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>> {
        Box::pin(both(
            self.durable.silent_sittings(active_before, limit),
            self.private.silent_sittings(active_before, limit),
        ))
    }

    fn waiting_turns(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>> {
        Box::pin(both(self.durable.waiting_turns(limit), self.private.waiting_turns(limit)))
    }

    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> BoxFuture<'a, Result<Page<Memory, i64>>> {
        self.of_owner(tenant, &query.owner).memories(tenant, query)
    }

    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Memory>>> {
        if !self.tenants.contains(tenant) {
            return self.durable.memory(tenant, id);
        }
        Box::pin(either(self.durable.memory(tenant, id), self.private.memory(tenant, id)))
    }

    fn records_kept<'a>(
        &'a self,
        tenant: &'a TenantId,
        opaque: Option<&'a str>,
    ) -> BoxFuture<'a, Result<RecordsKept>> {
        if !self.tenants.contains(tenant) {
            return self.durable.records_kept(tenant, opaque);
        }
        Box::pin(async move {
            let (a, b) = (
                self.durable.records_kept(tenant, opaque).await?,
                self.private.records_kept(tenant, opaque).await?,
            );
            Ok(RecordsKept { ratings: a.ratings + b.ratings, crises: a.crises + b.crises })
        })
    }

    fn ratings<'a>(&'a self, tenant: &'a TenantId, opaque: &'a str) -> BoxFuture<'a, Result<Vec<Rating>>> {
        if !self.tenants.contains(tenant) {
            return self.durable.ratings(tenant, opaque);
        }
        Box::pin(both(self.durable.ratings(tenant, opaque), self.private.ratings(tenant, opaque)))
    }

    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<CrisisRecord>>> {
        self.durable.crises(tenant, from, to, limit)
    }

    fn purge_ratings(&self, before: Timestamp) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            Ok(self.durable.purge_ratings(before).await? + self.private.purge_ratings(before).await?)
        })
    }

    fn purge_crises(&self, before: Timestamp, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            Ok(self.durable.purge_crises(before, now).await? + self.private.purge_crises(before, now).await?)
        })
    }

    fn installation_key(&self) -> BoxFuture<'_, Result<[u8; 32]>> {
        self.durable.installation_key()
    }

    fn queue_counts<'a>(&'a self, tenant: &'a TenantId, of: QueueOf) -> BoxFuture<'a, Result<QueueCounts>> {
        self.durable.queue_counts(tenant, of)
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a TenantId,
        of: QueueOf,
        bucket: Bucket,
        after: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<QueueItem, i64>>> {
        self.durable.queue(tenant, of, bucket, after, limit)
    }

    fn key_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<FoundKey>>> {
        self.durable.key_by_hash(hash)
    }

    fn keys<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<Key>>> {
        self.durable.keys(tenant)
    }

    fn share_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<Share>>> {
        if self.sessions.is_empty() {
            return self.durable.share_by_hash(hash);
        }
        Box::pin(either(self.durable.share_by_hash(hash), self.private.share_by_hash(hash)))
    }

    fn share<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Share>>> {
        if !self.tenants.contains(tenant) {
            return self.durable.share(tenant, id);
        }
        Box::pin(either(self.durable.share(tenant, id), self.private.share(tenant, id)))
    }

    fn user<'a>(&'a self, tenant: &'a TenantId, id: &'a UserId) -> BoxFuture<'a, Result<Option<User>>> {
        self.durable.user(tenant, id)
    }

    fn user_by_identity<'a>(
        &'a self,
        tenant: &'a TenantId,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<Option<User>>> {
        self.durable.user_by_identity(tenant, identity)
    }

    fn users<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<User>>> {
        self.durable.users(tenant, after, limit)
    }

    fn tenant<'a>(&'a self, id: &'a TenantId) -> BoxFuture<'a, Result<Option<Tenant>>> {
        self.durable.tenant(id)
    }

    fn tenants(&self) -> BoxFuture<'_, Result<Vec<Tenant>>> {
        self.durable.tenants()
    }

    fn create_tenant<'a>(&'a self, id: &'a TenantId, audit: Audit) -> BoxFuture<'a, Result<Tenant>> {
        self.durable.create_tenant(id, audit)
    }

    fn suspend_tenant<'a>(
        &'a self,
        id: &'a TenantId,
        suspended: bool,
        audit: Audit,
    ) -> BoxFuture<'a, Result<Tenant>> {
        self.durable.suspend_tenant(id, suspended, audit)
    }

    fn delete_tenant<'a>(&'a self, id: &'a TenantId) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if self.tenants.remove(id).is_some() {
                self.sessions.retain(|(tenant, _), _| tenant != id);
                self.private.delete_tenant(id).await?;
            }
            self.durable.delete_tenant(id).await
        })
    }

    fn audit<'a>(&'a self, tenant: &'a TenantId, limit: usize) -> BoxFuture<'a, Result<Vec<AuditLine>>> {
        self.durable.audit(tenant, limit)
    }

    fn due(&self, silent_since: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>> {
        Box::pin(both(self.durable.due(silent_since, limit), self.private.due(silent_since, limit)))
    }

    fn purge_keys(&self, before: Timestamp) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            Ok(self.durable.purge_keys(before).await? + self.private.purge_keys(before).await?)
        })
    }

    fn spread_delta(&self, delta: live::Delta) {
        if self.incarnations.is_empty() || !self.incarnations.contains(&delta.incarnation) {
            self.durable.spread_delta(delta);
        }
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.durable.ready()
    }

    fn vitals(&self) -> BoxFuture<'_, Result<Vitals>> {
        self.durable.vitals()
    }

    fn index_now(&self) -> BoxFuture<'_, Result<()>> {
        self.durable.index_now()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.private.close().await;
            self.durable.close().await;
        })
    }
}
