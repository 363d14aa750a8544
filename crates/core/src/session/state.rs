//! The state of a session: what a screen shows while work goes on, read from the row alone, so that it costs the same
//! however long the log is.

use super::{Claim, Session, Status};
use crate::ids::SessionId;
use crate::json::Json;
use crate::time::Timestamp;

/// The parts of a session that change while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionState {
    pub session: SessionId,
    pub status: Status,
    pub inactive: bool,
    pub version: u64,
    pub last_sequence: u64,
    pub last_at: Timestamp,
    pub message_count: u64,
    pub turn_count: u64,
    /// The sequence of the user message that has no answer yet.
    pub open_turn: Option<u64>,
    pub claim: Option<HeldClaim>,
    /// Outlives the claim: work that was told to stop is not claimed again.
    pub stop_requested: bool,
    pub error_message: Option<Box<str>>,
    pub end_reason: Option<Box<str>>,
    pub usage: Option<Json>,
    pub deadline_at: Option<Timestamp>,
}

/// The worker of a session as all its readers see it: without the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    pub worker: Box<str>,
    pub epoch: u64,
    pub lease_until: Timestamp,
    pub attempts: u32,
}

impl From<Session> for SessionState {
    fn from(session: Session) -> Self {
        let Session { id, head, details, .. } = session;
        let (epoch, attempts) = (head.epoch, head.attempts);
        Self {
            session: id,
            status: head.status,
            inactive: head.inactive,
            version: head.version,
            last_sequence: head.last_sequence,
            last_at: head.last_at,
            message_count: head.message_count,
            turn_count: head.turn_count,
            open_turn: head.turn.filter(|turn| !turn.answered).map(|turn| turn.sequence),
            claim: head.claim.map(|Claim { worker, lease_until, .. }| HeldClaim {
                worker,
                epoch,
                lease_until,
                attempts,
            }),
            stop_requested: head.stop_requested,
            error_message: details.error_message,
            end_reason: details.end_reason,
            usage: details.usage,
            deadline_at: head.deadline_at,
        }
    }
}
