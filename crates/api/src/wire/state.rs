//! The state of a session on the wire.

use sederunt_core::Timestamp;
use sederunt_core::session as core;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Raw;
use super::session::{Claim, Status};

/// The state of a session, without its content.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionState {
    pub session_id: String,
    pub status: Status,
    /// Hidden from lists unless asked for.
    pub inactive: bool,
    /// Counts changes of the row, not of the log.
    pub version: u64,
    pub last_sequence: u64,
    #[schema(value_type = String, format = DateTime)]
    pub last_activity_at: Timestamp,
    pub message_count: u64,
    /// Completed turns.
    pub turn_count: u64,
    /// The sequence of the user's message that has no answer yet.
    pub open_turn: Option<u64>,
    /// The worker that runs it, if one does.
    pub claim: Option<Claim>,
    /// A stop was requested; the worker may not know it yet.
    pub stop_requested: bool,
    pub error_message: Option<String>,
    pub end_reason: Option<String>,
    #[schema(value_type = Raw, required = false)]
    pub usage: Option<Raw>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline_at: Option<Timestamp>,
}

impl From<core::SessionState> for SessionState {
    fn from(state: core::SessionState) -> Self {
        Self {
            session_id: state.session.to_string(),
            status: state.status.into(),
            inactive: state.inactive,
            version: state.version,
            last_sequence: state.last_sequence,
            last_activity_at: state.last_at,
            message_count: state.message_count,
            turn_count: state.turn_count,
            open_turn: state.open_turn,
            claim: state.claim.map(|claim| Claim {
                worker: claim.worker.into(),
                epoch: claim.epoch,
                lease_until: claim.lease_until,
                attempts: claim.attempts,
            }),
            stop_requested: state.stop_requested,
            error_message: state.error_message.map(String::from),
            end_reason: state.end_reason.map(String::from),
            usage: state.usage.map(Raw),
            deadline_at: state.deadline_at,
        }
    }
}

/// The part of a session's state that a share link shows.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedState {
    pub session_id: String,
    pub status: Status,
    pub last_sequence: u64,
}

impl From<core::SessionState> for SharedState {
    fn from(state: core::SessionState) -> Self {
        Self {
            session_id: state.session.to_string(),
            status: state.status.into(),
            last_sequence: state.last_sequence,
        }
    }
}

/// The state of a session, as far as the caller may see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum StateView {
    Full(Box<SessionState>),
    Shared(SharedState),
}
