//! What a command asks of a store, and what it is told: one change, whole or not at all.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::{Guard, Record};
use crate::error::{Conflict, Error};
use crate::event::{AppendOutcome, Event, NewEvent};
use crate::ids::{CredentialId, Incarnation, SessionId, TenantId, UserId};
use crate::json::Json;
use crate::people::Audit;
use crate::session::row::{Turn, deadline_of};
use crate::session::{Claim, DescriptionSource, Details, Head, Session, Status};
use crate::talk::Talk;
use crate::time::Timestamp;
use crate::work::milestone::Milestone;

/// One command's writes.
#[derive(Clone, Debug)]
pub struct Change {
    pub tenant: TenantId,
    pub parts: SmallVec<[ChangePart; 1]>,
    pub records: Vec<Record>,
    pub audit: Option<Audit>,
    pub key: Option<IdemKey>,
    /// What is told once it is committed; nothing that a store writes.
    pub milestones: Vec<Milestone>,
}

impl Change {
    pub fn new(tenant: TenantId) -> Self {
        Self {
            tenant,
            parts: SmallVec::new(),
            records: Vec::new(),
            audit: None,
            key: None,
            milestones: Vec::new(),
        }
    }

    #[must_use]
    pub fn part(mut self, part: ChangePart) -> Self {
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

    /// A record as it is kept, now that this was done.
    pub fn landed<'r>(&self, record: &'r Record, done: &[PartResult], now: Timestamp) -> Cow<'r, Record> {
        let appended = || done.iter().flat_map(|part| &part.appended);
        match record {
            Record::AddFeedback(event) => {
                let mut event = event.clone();
                event.land(self, done, now);
                Cow::Owned(Record::AddFeedback(event))
            }
            Record::AddDelivery(delivery) => {
                let mut delivery = delivery.clone();
                delivery.land(appended(), now);
                Cow::Owned(Record::AddDelivery(delivery))
            }
            Record::OpenDocument(document) => {
                let mut document = document.clone();
                document.land(appended());
                Cow::Owned(Record::OpenDocument(document))
            }
            Record::SnapshotDocument(document) => {
                let mut document = document.clone();
                document.land(appended());
                Cow::Owned(Record::SnapshotDocument(document))
            }
            other => Cow::Borrowed(other),
        }
    }

    /// Whether this is one plain append, which stores may batch with others.
    pub fn is_plain_append(&self) -> bool {
        self.records.is_empty()
            && self.audit.is_none()
            && matches!(&self.parts[..], [ChangePart { on: PartTarget::Session(_), writes, .. }]
                if matches!(&writes[..], [Write::Append(_)]))
    }
}

/// What a change does to one session.
#[derive(Clone, Debug)]
pub struct ChangePart {
    pub on: PartTarget,
    pub guard: Guard,
    pub writes: SmallVec<[Write; 2]>,
}

#[derive(Clone, Debug)]
pub enum PartTarget {
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
        let lasts = deadline_of(&self.head, &self.details, self.head.status);
        self.head.deadline_at = lasts.map(|after| now.plus(after));
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
    /// The task that a human bridge moves to.
    pub task_id: Option<Box<str>>,
    pub title: Option<Option<Box<str>>>,
    pub description: Option<(Option<Box<str>>, Option<DescriptionSource>)>,
    pub metadata: Option<Json>,
    pub participants: Option<Vec<UserId>>,
    /// Adds somebody. Whoever is added, this way or by `participants`, counts no longer as having left.
    pub add_participant: Option<UserId>,
    /// Takes somebody off the participants and keeps that they left by themselves.
    pub leaves: Option<UserId>,
    pub holder: Option<UserId>,
    pub run: Option<Json>,
    /// `Some(None)` empties them.
    pub draft_values: Option<Option<Json>>,
    pub result: Option<Json>,
    pub usage: Option<Json>,
    /// An empty one takes away what was there.
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

/// An idempotency key, hashed with its scope: tenant, credential, acting user or respondent, method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdemKey {
    pub scope: [u8; 16],
    pub body: [u8; 16],
    /// A reference by which the first answer is rebuilt, when a sequence range is not enough.
    pub note: Option<KeyNote>,
}

impl IdemKey {
    /// The key of a command: `scope` names everything that the caller's key belongs to, and the key itself. A repeat
    /// with another body is refused.
    pub fn scoped(scope: &[&[u8]], body: impl AsRef<[u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in scope {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let half = |hash: [u8; 32]| {
            let mut half = [0; 16];
            half.copy_from_slice(&hash[..16]);
            half
        };
        Self { scope: half(hash.finalize().into()), body: half(Sha256::digest(body).into()), note: None }
    }
}

/// A short reference kept with an idempotency key: an id that was drawn for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNote(pub uuid::Uuid);

/// What a commit did, or what the first commit under the same key did.
#[derive(Clone, Debug)]
pub struct CommitResult {
    pub at: Timestamp,
    pub parts: SmallVec<[PartResult; 1]>,
    /// Set when the key was there already: nothing was written now.
    pub replay: Option<Replay>,
}

/// The first effect of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The sequences of the first append, in the order of its batch.
    pub sequences: Vec<u64>,
    pub note: Option<KeyNote>,
}

#[derive(Clone, Debug)]
pub struct PartResult {
    pub head: Head,
    pub appended: Vec<AppendOutcome>,
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

impl Notice {
    /// Whether there is a message among its events.
    pub fn speaks(&self) -> bool {
        self.events.iter().any(|event| event.kind.is_message())
    }
}
