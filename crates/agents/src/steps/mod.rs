//! The steps of an agent under a claim, in a task or in a turn of talk: the model's replies and tool calls, as the
//! log holds them.
//!
//! This room owns how a reply becomes events ([`reply_events`]), how a call is made once, refused, or put before a
//! person ([`calls`]), and how a worker that takes over reads all of that back ([`replay`]). It refuses to know what
//! the steps are for and how they end: that belongs to the executor and to conversations.

pub(crate) mod calls;
pub(crate) mod document_tool;
pub(crate) mod held_questions;
pub(crate) mod replay;
pub(crate) mod reply_events;

use std::sync::Arc;

use parking_lot::Mutex;
use sederunt_core::Error;
use sederunt_core::access::{Actor, Role};
use sederunt_core::engine::{Append, DraftEvent, Engine};
use sederunt_core::event::Event;
use sederunt_core::ids::{CredentialId, Incarnation, SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::session::SourceKind;

use crate::model::ToolCall;

/// A claimed session: everything is written under the epoch of the claim.
#[derive(Debug)]
pub(crate) struct ClaimContext {
    pub engine: Engine,
    pub actor: Arc<Actor>,
    pub session: SessionId,
    pub life: Incarnation,
    pub epoch: u64,
    /// The turn that the steps belong to; `None` for a task.
    pub turn: Option<u64>,
    /// The call in flight: if the work is cut short, its outcome is logged as unknown.
    pub in_flight: Mutex<Option<ToolCall>>,
}

/// Why there is no next step.
#[derive(Debug)]
pub(crate) enum StepHalt {
    /// The engine refused an append or another command.
    Refused(Error),
    /// A caller asked it to stop.
    Stopped,
}

impl From<Error> for StepHalt {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl ClaimContext {
    /// Appends events, and returns them as the log holds them.
    pub(crate) async fn append(&self, events: Vec<DraftEvent>) -> Result<Vec<Arc<Event>>, StepHalt> {
        let wish = Append { events, expected_sequence: None, epoch: Some(self.epoch) };
        let done = self.engine.append(&self.actor, &self.session, wish, None).await?;
        if done.stop_requested { Err(StepHalt::Stopped) } else { Ok(done.events) }
    }
}

/// The actor that works in a tenant under claims of this credential.
pub(crate) fn worker(tenant: TenantId, credential: CredentialId) -> Actor {
    Actor {
        tenant,
        credential,
        role: Role::Worker,
        user: None,
        prefix: None,
        shared: None,
        view: None,
        link: None,
        surface: SourceKind::Api,
        rules: sederunt_core::talk::route::ChannelRules::default(),
    }
}

pub(crate) fn event(kind: &str, metadata: Json, content: Option<Json>) -> DraftEvent {
    DraftEvent { kind: kind.to_owned(), metadata: Some(metadata), content, ..DraftEvent::default() }
}
