//! The seam: what the product asks of a database, and nothing more.
//!
//! A [`Change`] is applied whole or refused whole. Its parts name one session each, with the
//! [`Guard`] under which it was decided. [`Guard::check`] is pure and lives here, so that no store
//! can judge differently. Stores hold SQL and row mapping; every rule stands above them.

pub mod private;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use smallvec::SmallVec;

use crate::access::{Role, within_prefix};
use crate::approval::{self, Approval, ApprovalQuery};
use crate::error::{Conflict, Error, Result};
use crate::event::{Appended, Event, EventPage, EventQuery, Kinds, NewEvent};
use crate::feedback::Rating;
use crate::ids::{CredentialId, Incarnation, SessionId, TenantId, UserId};
use crate::json::Json;
use crate::library::{self, Doc, DocQuery};
use crate::memory::vector::Vector;
use crate::memory::{self, Memory, Owner};
use crate::people::{Audit, FoundKey, Identity, Key, SecretHash, Share, Tenant, User};
use crate::safety::codes::HoldReason;
use crate::safety::record::CrisisRecord;
use crate::session::query::{Page, SessionQuery};
use crate::session::row::Turn;
use crate::session::{Claim, DescriptionSource, Details, Head, Session, Status};
use crate::talk::Talk;
use crate::time::Timestamp;
use crate::work::queue::{Bucket, QueueCounts, QueueItem, QueueOf};
use crate::work::{ClaimOrder, Claimed};
use crate::{Actor, live};

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
    /// Ratings and crises that are kept of a tenant, or of one session by its opaque id.
    fn records_kept<'a>(
        &'a self,
        tenant: &'a TenantId,
        opaque: Option<&'a str>,
    ) -> BoxFuture<'a, Result<RecordsKept>>;
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
    /// A secret of this installation, made with it: ids that must not be guessed are keyed with it.
    fn installation_key(&self) -> BoxFuture<'_, Result<[u8; 32]>>;

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

    /// Finds a key by the hash of its secret, in any tenant.
    fn key_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<FoundKey>>>;
    fn keys<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<Key>>>;
    /// Finds a share link by the hash of its token, in any tenant.
    fn share_by_hash(&self, hash: SecretHash) -> BoxFuture<'_, Result<Option<Share>>>;
    fn share<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> BoxFuture<'a, Result<Option<Share>>>;
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
    /// The audit trail of a tenant, newest first.
    fn audit<'a>(&'a self, tenant: &'a TenantId, limit: usize) -> BoxFuture<'a, Result<Vec<AuditLine>>>;

    /// Sessions of all tenants that the sweeper should look at: lease lapsed, deadline passed, or
    /// not live, not yet hidden, and silent since before `silent_since`.
    fn due(&self, silent_since: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>>;
    /// Forgets idempotency keys older than this. Returns how many.
    fn purge_keys(&self, before: Timestamp) -> BoxFuture<'_, Result<u64>>;
    /// Tells the other nodes of deltas; a store with one node has nothing to do.
    fn spread_delta(&self, delta: live::Delta);
    /// Answers when the store can read; `Unavailable` otherwise.
    fn ready(&self) -> BoxFuture<'_, Result<()>>;
    /// Figures for `doctor` and `/metrics`.
    fn vitals(&self) -> BoxFuture<'_, Result<Vitals>>;
    /// Brings the search index up to everything that was acknowledged before this call.
    fn index_now(&self) -> BoxFuture<'_, Result<()>>;
    /// Finishes what is queued and lets go of files and connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// One command's writes.
#[derive(Clone, Debug)]
pub struct Change {
    pub tenant: TenantId,
    pub parts: SmallVec<[Part; 1]>,
    pub records: Vec<Record>,
    pub audit: Option<Audit>,
    pub key: Option<IdemKey>,
}

impl Change {
    pub fn new(tenant: TenantId) -> Self {
        Self { tenant, parts: SmallVec::new(), records: Vec::new(), audit: None, key: None }
    }

    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    #[must_use]
    pub fn record(mut self, record: Record) -> Self {
        self.records.push(record);
        self
    }

    #[must_use]
    pub fn audited(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    #[must_use]
    pub fn keyed(mut self, key: Option<IdemKey>) -> Self {
        self.key = key;
        self
    }

    /// Whether this is one plain append, which stores may batch with others.
    pub fn is_plain_append(&self) -> bool {
        self.records.is_empty()
            && self.audit.is_none()
            && matches!(&self.parts[..], [Part { on: On::Session(_), writes, .. }]
                if matches!(&writes[..], [Write::Append(_)]))
    }
}

/// What a change does to one session.
#[derive(Clone, Debug)]
pub struct Part {
    pub on: On,
    pub guard: Guard,
    pub writes: SmallVec<[Write; 2]>,
}

#[derive(Clone, Debug)]
pub enum On {
    Session(SessionId),
    New(Box<NewSession>),
}

/// A session to be made. Refused with `Stale` if the id is taken meanwhile.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub id: SessionId,
    /// Times in it are set by [`NewSession::stamp`]; `last_sequence` is 0 unless it is a fork.
    pub head: Head,
    pub details: Details,
    pub participants: Vec<UserId>,
    pub fork_of: Option<Fork>,
}

impl NewSession {
    /// Sets the times of a session that is being made now. Both stores call this.
    pub fn stamp(&mut self, now: Timestamp) {
        self.head.last_at = now;
        self.head.deadline_at = self.head.deadline_in(self.head.status).map(|after| now.plus(after));
        self.details.created_at = now;
    }

    /// The session that this has become, with the head that its first events have left it.
    pub fn made(mut self, tenant: TenantId, head: Head, at: Timestamp) -> Session {
        self.stamp(at);
        let Self { id, details, participants, .. } = self;
        Session { tenant, id, head, details, participants }
    }
}

/// The shared beginning of a fork: by reference, never copied.
#[derive(Clone, Debug)]
pub struct Fork {
    pub session: SessionId,
    pub incarnation: Incarnation,
    pub at_sequence: u64,
}

#[derive(Clone, Debug)]
pub enum Write {
    Append(Vec<NewEvent>),
    Update(Box<Update>),
    /// What a talk session has beside its row, written whole; [`Talk::land`] first, with the events of this part.
    Talk(Box<Talk>),
    /// Removes the session with its log.
    Delete,
}

/// A change of a session's row. `None` leaves a field as it is. Any update advances the version,
/// except one that only renews a lease.
#[derive(Clone, Debug, Default)]
pub struct Update {
    pub status: Option<Status>,
    pub claim: Option<ClaimChange>,
    pub stop_requested: Option<bool>,
    /// Counts runs anew, after a human touched the session.
    pub attempts: Option<u32>,
    pub inactive: Option<bool>,
    /// Opens the turn of this message, which is in the log already.
    pub turn: Option<u64>,
    pub title: Option<Option<Box<str>>>,
    pub description: Option<(Option<Box<str>>, Option<DescriptionSource>)>,
    pub metadata: Option<Json>,
    pub participants: Option<Vec<UserId>>,
    pub add_participant: Option<UserId>,
    pub holder: Option<UserId>,
    pub run: Option<Json>,
    pub result: Option<Json>,
    pub usage: Option<Json>,
    pub error_message: Option<Box<str>>,
    pub end_reason: Option<Box<str>>,
    /// Stamps `started_at`, unless it has a time already.
    pub started: bool,
    /// Stamps `completed_at`.
    pub completed: bool,
    /// Set from the time of the commit; `Some(None)` clears it.
    pub deadline: Option<Option<Duration>>,
}

impl Update {
    /// Whether decisions taken on the old row must be taken anew.
    pub fn advances_version(&self) -> bool {
        !matches!(self, Self { claim: Some(ClaimChange::Renew(_)), status: None, .. })
    }

    /// Applies the hot half to a head. Both stores call this; the wide half is theirs to write.
    pub fn apply(&self, head: &mut Head, now: Timestamp) {
        if self.advances_version() {
            head.version += 1;
        }
        if let Some(status) = self.status {
            head.status = status;
        }
        match &self.claim {
            Some(ClaimChange::Release) => head.claim = None,
            Some(ClaimChange::Renew(lease)) => {
                if let Some(claim) = &mut head.claim {
                    claim.lease_until = now.plus(*lease);
                }
            }
            Some(ClaimChange::Take { worker, credential, lease }) => {
                head.epoch += 1;
                head.claim = Some(Claim {
                    worker: worker.clone(),
                    credential: credential.clone(),
                    lease_until: now.plus(*lease),
                });
            }
            None => {}
        }
        if let Some(sequence) = self.turn {
            head.turn = Some(Turn { sequence, answered: false });
        }
        if let Some(stop) = self.stop_requested {
            head.stop_requested = stop;
        }
        if let Some(attempts) = self.attempts {
            head.attempts = attempts;
        }
        if let Some(inactive) = self.inactive {
            head.inactive = inactive;
        }
        if let Some((_, source)) = &self.description {
            head.described = source.is_some();
        }
        if let Some(holder) = &self.holder {
            head.holder = Some(holder.clone());
        }
        if let Some(deadline) = self.deadline {
            head.deadline_at = deadline.map(|after| now.plus(after));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    Release,
    Renew(Duration),
    /// Holds the session under a new epoch: a turn of talk, which nobody has to queue for.
    Take {
        worker: Box<str>,
        credential: CredentialId,
        lease: Duration,
    },
}

/// The conditions under which a part was decided. `None` and `false` ask nothing.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// The life of the session that was looked at.
    pub incarnation: Option<Incarnation>,
    /// The row that was looked at; another one means: decide again.
    pub version: Option<u64>,
    /// The log that the caller has seen to its end.
    pub sequence: Option<u64>,
    /// The claim under which the caller works.
    pub fence: Option<Fence>,
    /// Who appends what.
    pub append: Option<AppendRule>,
    /// The lease must have lapsed: a heartbeat that came in between saves the claim.
    pub lapsed: bool,
    /// The deadline must have passed.
    pub overdue: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub credential: CredentialId,
    pub epoch: u64,
}

/// Who appends what, for the check that happens under the lock.
#[derive(Clone, Debug)]
pub struct AppendRule {
    pub actor: Arc<Actor>,
    pub kinds: Kinds,
    pub epoch: Option<u64>,
}

impl Guard {
    /// The guard of a decision that was taken on this row.
    pub fn seen(session: &Session) -> Self {
        Self {
            incarnation: Some(session.head.incarnation),
            version: Some(session.head.version),
            ..Self::default()
        }
    }

    /// The user whose participation the store must look up before [`Guard::check`]; `None` when
    /// the head alone decides.
    pub fn asks_participant<'a>(&'a self, head: &Head) -> Option<&'a UserId> {
        let actor = &self.append.as_ref()?.actor;
        match actor.role {
            Role::Member | Role::Guest => {
                actor.user.as_ref().filter(|user| head.holder.as_ref() != Some(user))
            }
            Role::Owner | Role::Worker | Role::Channel | Role::Share => None,
        }
    }

    /// Judges a head. `participates` answers what [`Guard::asks_participant`] asked.
    pub fn check(
        &self,
        id: &SessionId,
        head: &Head,
        participates: bool,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if self.incarnation.is_some_and(|seen| seen != head.incarnation) {
            return Err(Refusal::Stale);
        }
        if let Some(rule) = &self.append {
            rule.check(id, head, participates, now)?;
        }
        if let Some(fence) = &self.fence
            && !head.holds(&fence.credential, fence.epoch, now)
        {
            return Err(Conflict::Fenced.into());
        }
        if self.sequence.is_some_and(|seen| seen != head.last_sequence) {
            return Err(Conflict::SequenceMismatch { last_sequence: head.last_sequence }.into());
        }
        if self.version.is_some_and(|seen| seen != head.version) {
            return Err(Refusal::Stale);
        }
        if self.lapsed && head.claim.as_ref().is_none_or(|claim| claim.lease_until > now) {
            return Err(Refusal::Stale);
        }
        if self.overdue && head.deadline_at.is_none_or(|deadline| deadline > now) {
            return Err(Refusal::Stale);
        }
        Ok(())
    }
}

impl AppendRule {
    fn check(&self, id: &SessionId, head: &Head, participates: bool, now: Timestamp) -> Result<(), Refusal> {
        let actor = &*self.actor;
        let holds = actor.user.is_some() && head.holder == actor.user;
        let has_claim = self.epoch.is_some_and(|epoch| head.holds(&actor.credential, epoch, now));
        let writes_as_participant = match actor.role {
            Role::Owner => true,
            Role::Member | Role::Guest => holds || participates,
            Role::Channel => within_prefix(actor, id),
            Role::Worker | Role::Share => false,
        };
        if !writes_as_participant && !has_claim {
            // A worker that presents an epoch once had, or guesses, a claim: it is told to stop.
            return Err(match actor.role {
                Role::Worker if self.epoch.is_some() => Conflict::Fenced.into(),
                Role::Share if actor.shared.as_ref().is_some_and(|(shared, _)| shared == id) => {
                    Error::denied("a share link does not append events").into()
                }
                Role::Worker if head.claim.as_ref().is_some_and(|c| c.credential == actor.credential) => {
                    Conflict::Fenced.into()
                }
                _ => Error::NotFound.into(),
            });
        }
        if self.kinds.engine {
            return Err(Error::denied("events of this type are written by the engine alone").into());
        }
        if self.kinds.open_only && head.status.is_terminal() {
            return Err(Conflict::SessionClosed.into());
        }
        if self.epoch.is_some() && !has_claim {
            return Err(Conflict::Fenced.into());
        }
        if self.kinds.worker && !has_claim {
            let owns_external =
                head.is_external && head.claim.is_none() && (holds || actor.role == Role::Owner);
            if head.claim.is_some() {
                return Err(Conflict::Fenced.into());
            }
            if !owns_external {
                return Err(Error::denied("agent and tool events need a claim and its epoch").into());
            }
        }
        if self.kinds.bridge && !(head.is_bridge && head.status == Status::Running && holds) {
            return Err(Error::denied("human events are for the holder of a running human session").into());
        }
        if self.kinds.participant && !writes_as_participant {
            return Err(Error::denied("a worker does not speak as a user").into());
        }
        Ok(())
    }
}

/// Rows beside sessions.
#[derive(Clone, Debug)]
pub enum Record {
    /// Writes a document; its times are set by the store. `expects` is the version that was looked
    /// at: another one, or one where none was, is `Stale`. A taken slug is `AlreadyExists`.
    PutDoc {
        doc: Box<Doc>,
        expects: Option<u64>,
    },
    /// Its session must exist, or be made by the same change.
    AddApproval(Box<Approval>),
    /// Closes a pending approval; one that is not pending any more is `Stale`.
    CloseApproval {
        id: Box<str>,
        state: approval::State,
        decided_by: Option<Box<str>>,
        /// `None` leaves what was staged as it is.
        body: Option<Box<approval::Body>>,
    },
    /// Writes a memory whole, new or not: the last word stands.
    PutMemory(Box<Memory>),
    /// One that is not there is no error.
    DropMemory {
        id: Box<str>,
    },
    /// Forgets everything of an owner.
    DropMemories {
        owner: Owner,
    },
    /// Hands facts and arcs of one owner to another. A profile is one per owner, and stays.
    MoveMemories {
        from: Owner,
        into: Owner,
    },
    /// Kept apart from what was said, and with no word of it. One whose id is there already stays as it is.
    AddRating(Box<Rating>),
    /// As a rating is.
    AddCrisis(Box<CrisisRecord>),
    /// Keeps a crisis from being purged until then at least; one that is not there is `NotFound`.
    HoldCrisis {
        id: Box<str>,
        until: Timestamp,
        reason: HoldReason,
    },
    AddKey {
        key: Key,
        hash: SecretHash,
    },
    RevokeKey {
        id: CredentialId,
    },
    AddShare {
        share: Share,
        hash: SecretHash,
    },
    RevokeShare {
        id: String,
    },
    AddUser(User),
    UpdateUser {
        id: UserId,
        role: Option<Role>,
        name: Option<String>,
        suspended: Option<bool>,
    },
    /// Refused with `AlreadyExists` if another user has it.
    AddIdentity {
        user: UserId,
        identity: Identity,
    },
    /// Moves identities, participations and held sessions of one user to another, and suspends the
    /// first.
    MergeUser {
        from: UserId,
        into: UserId,
    },
}

/// An idempotency key, hashed with its scope: tenant, credential, method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdemKey {
    pub scope: [u8; 16],
    pub body: [u8; 16],
    /// A reference by which the first answer is rebuilt, when a sequence range is not enough.
    pub note: Option<Note>,
}

/// A short reference kept with an idempotency key: an id that was drawn for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note(pub uuid::Uuid);

/// What a commit did, or what the first commit under the same key did.
#[derive(Clone, Debug)]
pub struct Committed {
    pub at: Timestamp,
    pub parts: SmallVec<[PartDone; 1]>,
    /// Set when the key was there already: nothing was written now.
    pub replay: Option<Replay>,
}

/// The first effect of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The sequences of the first append, in the order of its batch.
    pub sequences: Vec<u64>,
    pub note: Option<Note>,
}

#[derive(Clone, Debug)]
pub struct PartDone {
    pub head: Head,
    pub appended: Vec<Appended>,
}

/// Why a change was not applied. Nothing of it was.
#[derive(Debug)]
pub enum Refusal {
    /// The row has moved on since the decision: load and decide again.
    Stale,
    Rejected(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Rejected(error)
    }
}

impl From<Conflict> for Refusal {
    fn from(conflict: Conflict) -> Self {
        Self::Rejected(conflict.into())
    }
}

/// A session that the sweeper should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub tenant: TenantId,
    pub session: SessionId,
}

/// Which memories to read.
#[derive(Clone, Debug)]
pub struct MemoryQuery {
    pub owner: Owner,
    pub kind: Option<memory::Kind>,
    /// Any of these, best match first, instead of newest first; then `after` is not used.
    pub words: Vec<String>,
    /// Created at or after this.
    pub since: Option<Timestamp>,
    /// Also what another memory has taken the place of.
    pub dormant: bool,
    pub after: Option<i64>,
    pub limit: usize,
}

/// Which vectors to read.
#[derive(Clone, Debug)]
pub struct VectorQuery {
    pub owner: Owner,
    /// Which model made them; those of two cannot be compared.
    pub model: String,
    /// Made after the one of this number.
    pub after: i64,
    /// The newest so many.
    pub limit: usize,
}

/// The vectors of an owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vectors {
    /// How many there are in all.
    pub kept: u64,
    pub items: Vec<NumberedVector>,
}

/// The vector of a memory. Numbers grow with every vector of an owner; two made at once may share one.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedVector {
    pub number: i64,
    pub memory: String,
    pub vector: Vector,
}

/// How many records there are beside what was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordsKept {
    pub ratings: u64,
    pub crises: u64,
}

/// Words to find, and in whose eyes.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// Words; all must be found. Never empty.
    pub words: Vec<String>,
    pub seen_by: Option<crate::session::query::Eyes>,
    pub after: Option<i64>,
    pub limit: usize,
}

/// Something that the words were found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    pub session: SessionId,
    /// The event, or `None` for the title or description.
    pub sequence: Option<u64>,
    pub snippet: String,
}

/// One stored line of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub target: String,
}

/// How the store is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    pub kind: &'static str,
    pub server_version: String,
    pub schema_version: u32,
    pub sessions: u64,
    pub events: u64,
    pub bytes: u64,
}

/// What stores tell the living part of the process after a commit, in commit order.
#[derive(Clone, Debug)]
pub struct Notice {
    pub tenant: TenantId,
    pub session: SessionId,
    pub incarnation: Incarnation,
    pub last_sequence: u64,
    pub events: Vec<Arc<Event>>,
    pub status: Status,
    /// The session's row changed, not only its log.
    pub row_changed: bool,
    pub deleted: bool,
}
