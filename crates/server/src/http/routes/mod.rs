//! The routes: each translates a request into one call of the engine, and its outcome into an
//! answer. One file per noun.

pub mod agents;
pub mod approvals;
pub mod bundle;
pub mod chat;
pub mod criteria;
pub mod entities;
pub mod events;
pub mod keys;
pub mod memory;
pub mod messages;
pub mod meta;
pub mod search;
pub mod sessions;
pub mod shares;
pub mod streams;
pub mod tasks;
pub mod tenants;
pub mod threads;
pub mod today;
pub mod users;
pub mod voice;
pub mod work;

use utoipa::IntoResponses;

use super::wire::error::Envelope;

/// For the document: the state of things does not allow it.
#[derive(IntoResponses)]
#[response(
    status = 409,
    description = "The state of things does not allow it: `invalid_transition`, `sequence_mismatch` \
        (`details.last_sequence`), `fenced`, `session_busy`, `session_running`, `session_closed`, `group_session`, \
        `type_mismatch`, `stale_base`, `already_exists`, `already_decided` (`details.decision`, `details.decided_by`), \
        `task_not_active` (`details.status`), `several_pending` or `nothing_ended`"
)]
#[expect(dead_code, reason = "stands in the document only")]
pub struct Conflict(Envelope);
