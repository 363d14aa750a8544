//! Every refusal the product knows: a stable code, a sentence that a user may read, and nothing
//! written. Surfaces translate these with one exhaustive match each.

use std::borrow::Cow;
use std::time::Duration;

use crate::session::Status;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing, or not the caller's to see: the two are told apart nowhere.
    #[error("there is no such thing, or it is not yours to see")]
    NotFound,
    #[error("{field}: {message}")]
    Invalid { field: Cow<'static, str>, message: String },
    /// The text is not JSON at all.
    #[error("the body is not valid JSON: {0}")]
    BadJson(String),
    #[error("{0}")]
    Conflict(#[from] Conflict),
    #[error("{0}")]
    Denied(Cow<'static, str>),
    #[error("authenticate with `Authorization: Bearer …`: {0}")]
    Unauthenticated(&'static str),
    #[error("{what} is larger than {limit}")]
    TooLarge { what: &'static str, limit: usize },
    /// A worker's result does not keep its contract.
    #[error("the result does not fit its contract: {}", .complaints.join("; "))]
    OutputInvalid { complaints: Vec<String> },
    /// An edit chose what must never be written.
    #[error("`{option}` in `{dimension}` must not be written")]
    HardBlocked { dimension: String, option: String },
    #[error("the idempotency key was used before with another body; use a new key")]
    IdempotencyMismatch,
    #[error("too many requests; wait {} ms", .0.as_millis())]
    RateLimited(Duration),
    /// The store, or whoever else must be asked, cannot answer now; nothing was written, and trying
    /// again is right.
    #[error("what this needs cannot be reached now; try again")]
    Unavailable(#[source] Cause),
    #[error("something went wrong on our side")]
    Internal(#[source] Cause),
}

/// What lies under an error: for the log, never for the caller.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The state of things does not allow it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("a session cannot go from `{from}` to `{to}` this way")]
    InvalidTransition { from: Status, to: Status },
    #[error("the log has moved on: its last sequence is {last_sequence}")]
    SequenceMismatch { last_sequence: u64 },
    #[error("the claim is no longer yours; stop working on this session and claim again")]
    Fenced,
    #[error("the session is busy; try again")]
    SessionBusy,
    #[error("the session is running or waits for a decision; stop it first")]
    SessionRunning,
    #[error("the session is closed; only `external.event` may still be appended")]
    SessionClosed,
    #[error("group sessions are kept")]
    GroupSession,
    #[error("the session exists with another `{field}`")]
    TypeMismatch { field: &'static str },
    #[error("the change was made against an old version; read it again")]
    StaleBase,
    #[error("that name is taken")]
    AlreadyExists,
    #[error("{decided_by} has decided otherwise: {decision}")]
    AlreadyDecided { decision: &'static str, decided_by: String },
    #[error("the task is {status}; only active tasks are started")]
    TaskNotActive { status: &'static str },
    #[error("several decisions wait; name one of them by its id")]
    SeveralPending,
    #[error("the view takes no answers any more")]
    ViewClosed,
    #[error("as many answers as can be kept wait to be read; try again later")]
    ViewFull,
    #[error("you have answered this view before, and otherwise")]
    AlreadyAnswered,
    #[error("no sitting of this session has ended yet, or none that can be rated")]
    NothingEnded,
}

impl Conflict {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidTransition { .. } => "invalid_transition",
            Self::SequenceMismatch { .. } => "sequence_mismatch",
            Self::Fenced => "fenced",
            Self::SessionBusy => "session_busy",
            Self::SessionRunning => "session_running",
            Self::SessionClosed => "session_closed",
            Self::GroupSession => "group_session",
            Self::TypeMismatch { .. } => "type_mismatch",
            Self::StaleBase => "stale_base",
            Self::AlreadyExists => "already_exists",
            Self::AlreadyDecided { .. } => "already_decided",
            Self::TaskNotActive { .. } => "task_not_active",
            Self::SeveralPending => "several_pending",
            Self::ViewClosed => "view_closed",
            Self::ViewFull => "view_full",
            Self::AlreadyAnswered => "already_answered",
            Self::NothingEnded => "nothing_ended",
        }
    }
}

impl Error {
    pub fn invalid(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }

    pub fn denied(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Denied(message.into())
    }

    pub fn internal(cause: impl Into<Cause>) -> Self {
        Self::Internal(cause.into())
    }

    pub fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }

    /// The stable name of this refusal at every edge.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Invalid { .. } => "invalid",
            Self::BadJson(_) => "bad_json",
            Self::Conflict(conflict) => conflict.code(),
            Self::Denied(_) => "denied",
            Self::Unauthenticated(_) => "unauthenticated",
            Self::TooLarge { .. } => "too_large",
            Self::OutputInvalid { .. } => "output_invalid",
            Self::HardBlocked { .. } => "hard_blocked",
            Self::IdempotencyMismatch => "idempotency_mismatch",
            Self::RateLimited(_) => "rate_limited",
            Self::Unavailable(_) => "unavailable",
            Self::Internal(_) => "internal",
        }
    }
}
