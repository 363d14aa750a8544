//! Plain appends. A caller's append waits in one of four queues (`queue`) and is committed in a batch (`batch`).
//! Appends to sessions whose heads are cached (`head_cache`) are written by one statement without a lock
//! (`optimistic`); the others lock their heads first. Both judge a batch in the same way (`judged_batch`), under the
//! role that can append and do nothing else.

pub(super) mod batch;
pub(super) mod head_cache;
mod judged_batch;
mod optimistic;
pub(super) mod queue;

use sederunt_core::access::Role;
use sederunt_core::event::NewEvent;
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::store::{CommitResult, Guard, IdemKey, Refusal, Write};
use tokio::sync::oneshot;

/// A plain append in a queue, and where its caller waits.
#[derive(Debug)]
pub(super) struct AppendJob {
    pub(super) tk: i32,
    pub(super) tenant: TenantId,
    pub(super) session: SessionId,
    pub(super) guard: Guard,
    /// Always [`Write::Append`].
    pub(super) write: Write,
    pub(super) key: Option<IdemKey>,
    pub(super) done: oneshot::Sender<CommitAnswer>,
}

pub(super) type CommitAnswer = Result<CommitResult, Refusal>;

impl AppendJob {
    pub(super) fn bytes(&self) -> usize {
        self.events().iter().map(NewEvent::bytes).sum()
    }

    fn events(&self) -> &[NewEvent] {
        match &self.write {
            Write::Append(events) => events,
            Write::Update(_) | Write::Talk(_) | Write::Delete => &[],
        }
    }

    /// The users whose participation the guard may ask for once the head is known.
    fn possible_participants(&self) -> impl Iterator<Item = &UserId> {
        let actors = self.guard.rules().map(|rule| &rule.actor);
        actors
            .filter(|actor| matches!(actor.role, Role::Member | Role::Guest))
            .filter_map(|actor| actor.user.as_ref())
    }
}
