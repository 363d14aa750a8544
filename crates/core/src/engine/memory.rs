//! A memory as its owner may see and change it: lists, deletion by id, the recall switch. Every method takes the
//! [`MemoryScope`] for which the caller's right was checked. In talk, deleting takes a confirming turn instead; see
//! [`crate::memory::control`].

use super::Engine;
use std::time::Duration;

use crate::access::{Actor, Role, Verb};
use crate::error::{Error, Result};
use crate::feedback::{RatingCounts, retention_cutoff};
use crate::ids::{SessionId, TenantId, UserId};
use crate::limits;
use crate::memory::owner::{MemoryAct, TurnSpeaker, check_memory_act, memory_owner};
use crate::memory::{Memory, MemoryBody, MemoryKind, Owner, Profile, profile_id, recall, words};
use crate::session::query::Page;
use crate::store::{Change, MemoryQuery, Record, RecordsOf};
use crate::time::Timestamp;

/// How much is remembered of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    pub facts: u64,
    pub arcs: u64,
    pub rules: usize,
    pub recall_enabled: bool,
    /// Ratings of the conversation; where none is named, of the person, or of the tenant if an owner asks.
    pub ratings: RatingCounts,
    pub crises: u64,
}

/// The memory that a caller may access, for one kind of access, and which ratings and crisis records are counted beside
/// it. Only [`Engine::memory_scope`] makes one, after it has checked the caller's right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryScope {
    tenant: TenantId,
    act: MemoryAct,
    /// None for an owner of the tenant who is no user and names nobody.
    owner: Option<Owner>,
    records: CountedRecords,
}

impl MemoryScope {
    /// Whose memory is meant.
    pub fn owner(&self) -> Result<&Owner> {
        self.owner.as_ref().ok_or_else(nobody_named)
    }

    /// The same, for a method that needs this kind of access.
    fn owner_for(&self, act: MemoryAct) -> Result<&Owner> {
        if self.act != act {
            return Err(Error::internal(
                "the caller's right to this memory was checked for another kind of access",
            ));
        }
        self.owner()
    }
}

fn nobody_named() -> Error {
    Error::invalid("thread_id", "name a conversation (`thread_id`) or a user (`user_id`)")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CountedRecords {
    Session(SessionId),
    User(UserId),
    Tenant,
    None,
}

/// How many records were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeCounts {
    pub ratings: u64,
    pub crises: u64,
}

/// Records from before these days are forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct PurgeCutoffs {
    pub ratings: Timestamp,
    pub crises: Timestamp,
    now: Timestamp,
}

impl Engine {
    /// The memory that a caller means, if it may do this with it. A conversation decides by its own rules; one that
    /// the caller cannot see is answered as one that does not exist. Without a conversation it is the caller's own
    /// memory, or a named user's where the caller may name one.
    pub async fn memory_scope(
        &self,
        actor: &Actor,
        thread: Option<&SessionId>,
        user: Option<&str>,
        act: MemoryAct,
    ) -> Result<MemoryScope> {
        if !matches!(actor.role, Role::Owner | Role::Member | Role::Guest) {
            return Err(Error::denied("only people have memories"));
        }
        let speaker = TurnSpeaker::of(actor, user)?;
        let scope = |owner, records| MemoryScope { tenant: actor.tenant.clone(), act, owner, records };
        let session = match thread {
            Some(id) => self.sessions.session(&actor.tenant, id).await?,
            None => None,
        };
        let session = session.filter(|session| crate::access::check(actor, Verb::Read, session).is_ok());
        if let Some(session) = session {
            check_memory_act(&session, &speaker, act)?;
            let owner = memory_owner(&session, &speaker);
            return Ok(scope(Some(owner), CountedRecords::Session(session.id)));
        }
        match (speaker.user, thread) {
            // A conversation without a session has no memory yet; its user may have one.
            (Some(person), Some(_)) => Ok(scope(Some(Owner::user(&person)), CountedRecords::None)),
            (None, Some(id)) => Ok(scope(Some(Owner::session(id)), CountedRecords::None)),
            (Some(person), None) => {
                let records = match user {
                    None if actor.role == Role::Owner => CountedRecords::Tenant,
                    _ => CountedRecords::User(person.clone()),
                };
                Ok(scope(Some(Owner::user(&person)), records))
            }
            (None, None) if actor.role == Role::Owner => Ok(scope(None, CountedRecords::Tenant)),
            (None, None) => Err(nobody_named()),
        }
    }

    /// A page of memories, newest first.
    pub async fn memories(
        &self,
        scope: &MemoryScope,
        kind: MemoryKind,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<Memory, i64>> {
        let owner = scope.owner_for(MemoryAct::Read)?;
        super::sessions::check_limit(limit)?;
        let query = MemoryQuery {
            owner: owner.clone(),
            kind: Some(kind),
            words: Vec::new(),
            since: None,
            dormant: false,
            after,
            limit,
        };
        self.sessions.memories(&scope.tenant, query).await
    }

    /// Memories of the caller that match some words, best first; a caller without a user has none.
    pub async fn search_memories(&self, actor: &Actor, text: &str) -> Result<Vec<Memory>> {
        let words: Vec<String> = words::set(text).into_iter().collect();
        let Some(user) = actor.user.as_ref().filter(|_| !words.is_empty()) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for kind in [MemoryKind::Fact, MemoryKind::Arc] {
            let query = MemoryQuery {
                owner: Owner::user(user),
                kind: Some(kind),
                words: words.clone(),
                since: None,
                dormant: false,
                after: None,
                limit: limits::FOUND_MEMORIES_MAX,
            };
            let hits = self.sessions.memories(&actor.tenant, query).await?.items;
            found.extend(recall::rank(text, &hits).into_iter().cloned());
        }
        Ok(found)
    }

    /// The standing rules of an owner.
    pub async fn profile(&self, scope: &MemoryScope) -> Result<Profile> {
        let owner = scope.owner_for(MemoryAct::Read)?;
        let found = self.sessions.memory(&scope.tenant, &profile_id(owner)).await?;
        Ok(found.and_then(|memory| memory.profile().cloned()).unwrap_or_default())
    }

    /// Forgets a fact or an arc by its id.
    pub async fn forget(&self, scope: &MemoryScope, kind: MemoryKind, id: &str) -> Result<()> {
        let owner = scope.owner_for(MemoryAct::Forget)?;
        let found = self.sessions.memory(&scope.tenant, id).await?;
        if !found.is_some_and(|memory| memory.owner == *owner && memory.kind() == kind) {
            return Err(Error::NotFound);
        }
        self.commit(Change::new(scope.tenant.clone()).record(Record::DropMemory { id: id.into() }))
            .await
            .map(drop)
    }

    /// Forgets a rule by its id.
    pub async fn forget_rule(&self, scope: &MemoryScope, id: &str) -> Result<()> {
        let mut gone = false;
        self.change_profile(scope, MemoryAct::Forget, |profile| gone = profile.remove(id)).await?;
        if gone { Ok(()) } else { Err(Error::NotFound) }
    }

    /// Switches whether the agent may bring up the past unasked. The rules apply either way.
    pub async fn set_recall(&self, scope: &MemoryScope, enabled: bool) -> Result<()> {
        self.change_profile(scope, MemoryAct::SwitchRecall, |profile| profile.recall_enabled = enabled).await
    }

    async fn change_profile(
        &self,
        scope: &MemoryScope,
        act: MemoryAct,
        change: impl FnOnce(&mut Profile),
    ) -> Result<()> {
        let owner = scope.owner_for(act)?;
        let now = self.tenant.now().await?;
        let found = self.sessions.memory(&scope.tenant, &profile_id(owner)).await?;
        let mut memory = found.unwrap_or_else(|| Memory {
            id: profile_id(owner),
            owner: owner.clone(),
            body: MemoryBody::Profile(Profile::default()),
            created_at: now,
            last_referenced_at: now,
            dormant_at: None,
        });
        if let MemoryBody::Profile(profile) = &mut memory.body {
            change(profile);
        }
        let change = Change::new(scope.tenant.clone()).record(Record::PutMemory(Box::new(memory)));
        self.commit(change).await.map(drop)
    }

    /// Removes ratings and crisis records of all tenants that are older than these spans, by default their retention.
    /// A held crisis record stays.
    pub async fn purge_records(
        &self,
        ratings: Option<Duration>,
        crises: Option<Duration>,
    ) -> Result<PurgeCounts> {
        self.purge_before(self.purge_cutoffs(ratings, crises).await?).await
    }

    /// The days before which a purge deletes records, for these retention periods or the default ones.
    pub(super) async fn purge_cutoffs(
        &self,
        ratings: Option<Duration>,
        crises: Option<Duration>,
    ) -> Result<PurgeCutoffs> {
        let now = self.tenant.now().await?;
        let cut = |kept: Option<Duration>, default| retention_cutoff(now, kept.unwrap_or(default));
        let (ratings, crises) = (cut(ratings, limits::RATINGS_KEPT), cut(crises, limits::CRISIS_KEPT));
        Ok(PurgeCutoffs { ratings, crises, now })
    }

    pub(super) async fn purge_before(&self, cut: PurgeCutoffs) -> Result<PurgeCounts> {
        Ok(PurgeCounts {
            ratings: self.sessions.purge_ratings(cut.ratings).await?,
            crises: self.sessions.purge_crises(cut.crises, cut.now).await?,
        })
    }

    /// How many records [`Engine::purge_records`] with the same spans would remove now.
    pub async fn purgeable_records(
        &self,
        ratings: Option<Duration>,
        crises: Option<Duration>,
    ) -> Result<PurgeCounts> {
        let cut = self.purge_cutoffs(ratings, crises).await?;
        let found = self.sessions.purgeable(cut.ratings, cut.crises, cut.now).await?;
        Ok(PurgeCounts { ratings: found.ratings, crises: found.crises })
    }

    /// How many memories there are, and how many records beside them.
    pub async fn memory_status(&self, scope: &MemoryScope) -> Result<MemoryStatus> {
        let (facts, arcs, profile) = match &scope.owner {
            Some(owner) => (
                self.sessions.count_memories(&scope.tenant, owner, MemoryKind::Fact).await?,
                self.sessions.count_memories(&scope.tenant, owner, MemoryKind::Arc).await?,
                self.profile(scope).await?,
            ),
            None => (0, 0, Profile::default()),
        };
        let counted = match &scope.records {
            CountedRecords::Session(id) => {
                Some(RecordsOf::Session(self.opaque().await?.of(&scope.tenant, id.as_str())))
            }
            CountedRecords::User(user) => Some(RecordsOf::User(user.clone())),
            CountedRecords::Tenant => Some(RecordsOf::Tenant),
            CountedRecords::None => None,
        };
        let (ratings, crises) = match counted {
            Some(of) => self.count_records(&scope.tenant, of).await.unwrap_or_else(|error| {
                tracing::warn!(target: "sederunt::memory", %error, "the store could not count ratings and crisis records; the answer shows none");
                Default::default()
            }),
            None => Default::default(),
        };
        Ok(MemoryStatus {
            facts,
            arcs,
            rules: profile.rules.len(),
            recall_enabled: profile.recall_enabled,
            ratings,
            crises,
        })
    }

    async fn count_records(&self, tenant: &TenantId, of: RecordsOf) -> Result<(RatingCounts, u64)> {
        let ratings = self.sessions.rating_counts(tenant, of.clone()).await?;
        Ok((ratings, self.sessions.records_kept(tenant, of).await?.crises))
    }
}
