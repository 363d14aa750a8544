//! What must still hold under the lock for a change to be made. Both stores ask it, neither knows better.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Refusal;
use crate::Actor;
use crate::access::{Role, within_prefix};
use crate::activity::bridge::is_overdue;
use crate::document::{self, DocumentKey};
use crate::error::{Conflict, Error, Result};
use crate::event::Kinds;
use crate::ids::{CredentialId, Incarnation, SessionId, UserId};
use crate::session::{Head, Session, SessionType, Status};
use crate::time::Timestamp;

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
    /// The further writers of a change that gathers the patches of several callers.
    pub also: Vec<AppendRule>,
    /// The documents that the change patches.
    pub documents: SmallVec<[DocumentGuard; 1]>,
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

/// A document, and the newest patch of it that the change was judged on. If there is a newer one, the change is judged
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentGuard {
    pub key: DocumentKey,
    pub newest: u64,
}

/// What a store has found for a guard beside the head.
#[derive(Clone, Debug, Default)]
pub struct GuardRows {
    /// Those of [`Guard::asks_participants`] who take part in the session.
    pub participants: SmallVec<[UserId; 1]>,
    /// The newest patch of each document that the guard names, if the document is there.
    pub documents: SmallVec<[(DocumentKey, u64); 1]>,
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

    /// The users whose participation the store must look up before [`Guard::check`]: none when the head alone decides.
    pub fn asks_participants<'a>(&'a self, head: &'a Head) -> impl Iterator<Item = &'a UserId> {
        self.rules().filter_map(|rule| match rule.actor.role {
            Role::Member | Role::Guest => {
                rule.actor.user.as_ref().filter(|user| head.holder.as_ref() != Some(user))
            }
            Role::Owner | Role::Worker | Role::Channel | Role::Share => None,
        })
    }

    /// Everybody who appends.
    pub fn rules(&self) -> impl Iterator<Item = &AppendRule> {
        self.append.iter().chain(&self.also)
    }

    /// Judges a head. `rows` holds what the store has found for this guard.
    pub fn check(
        &self,
        id: &SessionId,
        head: &Head,
        rows: &GuardRows,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if self.incarnation.is_some_and(|seen| seen != head.incarnation) {
            return Err(Refusal::Stale);
        }
        for rule in self.rules() {
            let participates = rule.actor.user.as_ref().is_some_and(|user| rows.participants.contains(user));
            rule.check(id, head, participates, now)?;
        }
        if self.documents.is_empty() && self.rules().any(|rule| rule.kinds.patch) {
            return Err(Error::internal("a patch that nobody has judged").into());
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
        for document in &self.documents {
            let found = rows.documents.iter().find(|(key, _)| *key == document.key);
            if found.is_none_or(|(_, newest)| *newest != document.newest) {
                return Err(Refusal::Stale);
            }
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
                    Conflict::EpochMissing.into()
                }
                _ => Error::NotFound.into(),
            });
        }
        if let Some(kind) = self.kinds.engine {
            return Err(Error::denied(format!("`{kind}` is written by Sederunt alone")).into());
        }
        if self.kinds.patch {
            document::check_head(head)?;
        }
        if head.is_bridge {
            return self.check_bridge(head, now);
        }
        // An old epoch has one answer, whether the session is closed or somebody else's by now.
        if self.epoch.is_some() && !has_claim {
            return Err(Conflict::Fenced.into());
        }
        if let Some(kind) = self.kinds.tool.filter(|_| head.session_type == SessionType::Tool) {
            return Err(
                Error::denied(format!("in a tool session `{kind}` is written by Sederunt alone")).into()
            );
        }
        if self.kinds.open_only && head.status.is_terminal() {
            return Err(Conflict::SessionClosed.into());
        }
        if self.kinds.worker && !has_claim {
            let owns_external =
                head.is_external && head.claim.is_none() && (holds || actor.role == Role::Owner);
            if head.claim.is_some() {
                return Err(Conflict::EpochMissing.into());
            }
            if !owns_external {
                return Err(Error::denied("agent and tool events need a claim and its epoch").into());
            }
        }
        if self.kinds.bridge {
            return Err(Error::denied("human events are for the holder of a running human session").into());
        }
        if self.kinds.participant && !writes_as_participant {
            return Err(Error::denied("a worker does not speak as a user").into());
        }
        Ok(())
    }

    /// A human bridge takes its holder's own activity, while it runs, and nothing else from anybody.
    fn check_bridge(&self, head: &Head, now: Timestamp) -> Result<(), Refusal> {
        if self.kinds.beside_bridge {
            return Err(Error::denied("a human session takes `human.*` events alone").into());
        }
        if !self.actor.holds_bridge(head) {
            return Err(Error::denied("human events are for the holder of a running human session").into());
        }
        if self.epoch.is_some() {
            return Err(Conflict::Fenced.into());
        }
        if head.status != Status::Running || is_overdue(head, now) {
            return Err(Conflict::SessionClosed.into());
        }
        Ok(())
    }
}
