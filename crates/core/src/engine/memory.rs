//! What is remembered of somebody, as its owner may look at it: lists, deletion by id, the recall toggle. In talk,
//! deleting takes a confirming turn instead; see [`crate::memory::control`].

use super::Engine;
use std::time::Duration;

use super::talk::owner_of;
use crate::access::{Actor, Role, Verb};
use crate::error::{Error, Result};
use crate::feedback::retention_cutoff;
use crate::ids::{SessionId, UserId};
use crate::limits;
use crate::memory::{Body, Kind, Memory, Owner, Profile, profile_id, recall, words};
use crate::session::query::Page;
use crate::store::{Change, MemoryQuery, Record};

/// How much is remembered of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    pub facts: u64,
    pub arcs: u64,
    pub rules: usize,
    pub recall_enabled: bool,
    /// Of the conversation, or of the tenant where none is named.
    pub session_feedback_count: u64,
    pub crisis_log_count: u64,
}

/// How many records were forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    pub ratings: u64,
    pub crises: u64,
}

impl Engine {
    /// Whose memory a caller means. A conversation decides by its own rules; without one it is the caller's own, or
    /// a named user's where the caller has none itself.
    pub async fn memory_owner(
        &self,
        actor: &Actor,
        thread: Option<&SessionId>,
        user: Option<&str>,
    ) -> Result<Owner> {
        if !matches!(actor.role, Role::Owner | Role::Member | Role::Guest) {
            return Err(Error::denied("only people have memories"));
        }
        if let Some(id) = thread {
            return match self.store.session(&actor.tenant, id).await? {
                Some(session) => {
                    crate::access::check(actor, Verb::Read, &session)?;
                    owner_of(actor, &session, user).map(|(owner, _)| owner)
                }
                // A conversation that has not begun has nothing; its user may have.
                None => match (user, &actor.user) {
                    (None, None) => Ok(Owner::session(id)),
                    _ => own(actor, user),
                },
            };
        }
        own(actor, user)
    }

    /// A page of what is remembered, newest first.
    pub async fn memories(
        &self,
        actor: &Actor,
        owner: &Owner,
        kind: Kind,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<Memory, i64>> {
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
        self.store.memories(&actor.tenant, query).await
    }

    /// What the caller's own memory holds about some words, best first; a caller without a user has none.
    pub async fn search_memories(&self, actor: &Actor, text: &str) -> Result<Vec<Memory>> {
        let words: Vec<String> = words::set(text).into_iter().collect();
        let Some(user) = actor.user.as_ref().filter(|_| !words.is_empty()) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for kind in [Kind::Fact, Kind::Arc] {
            let query = MemoryQuery {
                owner: Owner::user(user),
                kind: Some(kind),
                words: words.clone(),
                since: None,
                dormant: false,
                after: None,
                limit: limits::FOUND_MEMORIES_MAX,
            };
            let hits = self.store.memories(&actor.tenant, query).await?.items;
            found.extend(recall::rank(text, &hits).into_iter().cloned());
        }
        Ok(found)
    }

    /// The standing rules of an owner.
    pub async fn profile(&self, actor: &Actor, owner: &Owner) -> Result<Profile> {
        let found = self.store.memory(&actor.tenant, &profile_id(owner)).await?;
        Ok(found.and_then(|memory| memory.profile().cloned()).unwrap_or_default())
    }

    /// Forgets a fact or an arc by its id.
    pub async fn forget(&self, actor: &Actor, owner: &Owner, kind: Kind, id: &str) -> Result<()> {
        let found = self.store.memory(&actor.tenant, id).await?;
        if !found.is_some_and(|memory| memory.owner == *owner && memory.kind() == kind) {
            return Err(Error::NotFound);
        }
        self.commit(Change::new(actor.tenant.clone()).record(Record::DropMemory { id: id.into() }))
            .await
            .map(drop)
    }

    /// Forgets a rule by its id.
    pub async fn forget_rule(&self, actor: &Actor, owner: &Owner, id: &str) -> Result<()> {
        let mut gone = false;
        self.change_profile(actor, owner, |profile| gone = profile.remove(id)).await?;
        if gone { Ok(()) } else { Err(Error::NotFound) }
    }

    /// Lets the past be brought up unasked, or not. The rules apply either way.
    pub async fn set_recall(&self, actor: &Actor, owner: &Owner, enabled: bool) -> Result<()> {
        self.change_profile(actor, owner, |profile| profile.recall_enabled = enabled).await
    }

    async fn change_profile(
        &self,
        actor: &Actor,
        owner: &Owner,
        change: impl FnOnce(&mut Profile),
    ) -> Result<()> {
        let now = self.store.now().await?;
        let found = self.store.memory(&actor.tenant, &profile_id(owner)).await?;
        let mut memory = found.unwrap_or_else(|| Memory {
            id: profile_id(owner),
            owner: owner.clone(),
            body: Body::Profile(Profile::default()),
            created_at: now,
            last_referenced_at: now,
            dormant_at: None,
        });
        if let Body::Profile(profile) = &mut memory.body {
            change(profile);
        }
        let change = Change::new(actor.tenant.clone()).record(Record::PutMemory(Box::new(memory)));
        self.commit(change).await.map(drop)
    }

    /// Forgets ratings and crises, of all tenants, that are older than this; by default than they are kept. A hold
    /// keeps a crisis.
    pub async fn purge_records(&self, ratings: Option<Duration>, crises: Option<Duration>) -> Result<Purged> {
        let now = self.store.now().await?;
        let cut = |kept: Option<Duration>, default| retention_cutoff(now, kept.unwrap_or(default));
        Ok(Purged {
            ratings: self.store.purge_ratings(cut(ratings, limits::RATINGS_KEPT)).await?,
            crises: self.store.purge_crises(cut(crises, limits::CRISIS_KEPT), now).await?,
        })
    }

    /// How many records [`Engine::purge_records`] with the same spans would forget now.
    pub async fn purgeable_records(
        &self,
        ratings: Option<Duration>,
        crises: Option<Duration>,
    ) -> Result<Purged> {
        let now = self.store.now().await?;
        let cut = |kept: Option<Duration>, default| retention_cutoff(now, kept.unwrap_or(default));
        let (ratings, crises) = (cut(ratings, limits::RATINGS_KEPT), cut(crises, limits::CRISIS_KEPT));
        let found = self.store.purgeable(ratings, crises, now).await?;
        Ok(Purged { ratings: found.ratings, crises: found.crises })
    }

    /// How much is remembered, and how many records there are beside it.
    pub async fn memory_status(
        &self,
        actor: &Actor,
        owner: &Owner,
        thread: Option<&SessionId>,
    ) -> Result<MemoryStatus> {
        let count = async |kind| self.store.count_memories(&actor.tenant, owner, kind).await;
        let profile = self.profile(actor, owner).await?;
        let opaque = match thread {
            Some(id) => Some(self.opaque().await?.of(&actor.tenant, id.as_str())),
            None => None,
        };
        let kept = self
            .store
            .records_kept(&actor.tenant, opaque.as_ref().map(crate::safety::opaque::OpaqueId::as_str))
            .await?;
        Ok(MemoryStatus {
            facts: count(Kind::Fact).await?,
            arcs: count(Kind::Arc).await?,
            rules: profile.rules.len(),
            recall_enabled: profile.recall_enabled,
            session_feedback_count: kept.ratings,
            crisis_log_count: kept.crises,
        })
    }
}

fn own(actor: &Actor, named: Option<&str>) -> Result<Owner> {
    match (named, &actor.user) {
        (Some(named), None) if actor.role == Role::Owner => Ok(Owner::user(&UserId::parse(named)?)),
        (Some(named), Some(user)) if named != user.as_str() => {
            Err(Error::denied("this credential does not speak for another user; leave `user_id` out"))
        }
        (_, Some(user)) => Ok(Owner::user(user)),
        (_, None) => {
            Err(Error::invalid("thread_id", "name a conversation (`thread_id`) or a user (`user_id`)"))
        }
    }
}
