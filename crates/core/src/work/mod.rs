//! The work room: claims on pending sessions, their leases, and how a run settles.
//! Owns the shapes and the pure decisions ([`decide`]); refuses to know how a worker works.

pub mod decide;
pub mod elicitation;
pub mod graph;
pub mod milestone;
pub mod output;
pub mod queue;
pub mod queueing;
pub mod retry_chain;
pub mod run;
mod store;
pub mod trigger;
pub mod write_back;
pub mod write_grant;

use std::time::Duration;

use crate::error::{Error, Result};
use crate::ids::{CredentialId, TenantId, check_name};
use crate::json::Json;
use crate::limits;
use crate::session::{Session, SessionType};
use crate::time::Timestamp;
use crate::view::ViewAnswer;

pub use store::{ClaimStore, WorkQueueStore};

/// A worker asking for sessions to run.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub worker: String,
    pub session_types: Vec<SessionType>,
    pub agent_slugs: Vec<String>,
    pub limit: usize,
    pub lease: Duration,
    pub wait: Duration,
}

impl ClaimRequest {
    /// The types that it asks for. Naming none asks for what agents do: people answer forms, and only a worker that knows
    /// tools runs them.
    pub fn asked_types(&self) -> Vec<SessionType> {
        match self.session_types.is_empty() {
            true => vec![SessionType::Agent, SessionType::Mixed],
            false => self.session_types.clone(),
        }
    }

    pub fn check(&self) -> Result<()> {
        check_name("worker", &self.worker)?;
        check_lease(self.lease)?;
        if self.wait > limits::CLAIM_WAIT_MAX {
            return Err(Error::invalid(
                "wait_ms",
                format!("is more than {}", limits::CLAIM_WAIT_MAX.as_millis()),
            ));
        }
        if self.limit == 0 || self.limit > limits::CLAIM_BATCH_MAX {
            return Err(Error::invalid("limit", format!("must be 1 to {}", limits::CLAIM_BATCH_MAX)));
        }
        if self.agent_slugs.len() > limits::CLAIM_BATCH_MAX {
            return Err(Error::invalid(
                "agent_slugs",
                format!("names more than {}", limits::CLAIM_BATCH_MAX),
            ));
        }
        self.agent_slugs.iter().try_for_each(|slug| check_name("agent_slugs", slug))
    }
}

/// Whether a worker needs to be told more than the session itself.
pub fn needs_brief(session: &Session) -> bool {
    session.details.agent_slug.is_some() || !run::Run::of(session).is_silent()
}

/// A lease must be long enough to be renewed, and short enough to free a dead worker's sessions.
pub fn check_lease(lease: Duration) -> Result<()> {
    if (limits::LEASE_MIN..=limits::LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    Err(Error::invalid(
        "lease_ms",
        format!("must be {} to {}", limits::LEASE_MIN.as_millis(), limits::LEASE_MAX.as_millis()),
    ))
}

/// A checked claim request, as the store is asked to serve it.
#[derive(Clone, Debug)]
pub struct ClaimOrder {
    pub tenant: TenantId,
    pub credential: CredentialId,
    pub worker: Box<str>,
    /// Never empty.
    pub session_types: Vec<SessionType>,
    /// Empty: any agent.
    pub agent_slugs: Vec<String>,
    pub limit: usize,
    pub lease: Duration,
    pub key: Option<crate::store::IdemKey>,
}

/// A session that was claimed.
#[derive(Clone, Debug)]
pub struct ClaimedRun {
    pub session: Session,
    pub epoch: u64,
    pub lease_until: Timestamp,
    /// Handed out before, to a request with the same key.
    pub again: bool,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub lease_until: Timestamp,
    pub stop_requested: bool,
}

/// How a worker ends its run.
#[derive(Clone, Debug)]
pub enum Settle {
    Complete {
        result: Option<Json>,
        text: Option<String>,
        usage: Option<Json>,
    },
    Fail {
        error: String,
        retryable: bool,
        /// A code for programs; it becomes the session's `end_reason`.
        reason: Option<String>,
        usage: Option<Json>,
    },
    Yield {
        pause: Pause,
        usage: Option<Json>,
    },
}

impl Settle {
    /// The JSON Schema that the answer to this settlement's question must fit.
    pub fn question_schema(&self) -> Option<Json> {
        match self {
            Self::Yield {
                pause:
                    Pause::Human { question: Some(asked) }
                    | Pause::Elicitation { question: asked, .. }
                    | Pause::View { question: asked, .. },
                ..
            } => asked.fields().into_iter().find(|(key, _)| key == "schema").map(|(_, schema)| schema),
            _ => None,
        }
    }

    /// The settlement of a run that was asked to stop, with its usage.
    #[must_use]
    pub fn stopped(self) -> Self {
        let (Self::Complete { usage, .. } | Self::Fail { usage, .. } | Self::Yield { usage, .. }) = self;
        Self::Fail {
            error: "the session was asked to stop".to_owned(),
            retryable: false,
            reason: Some("stopped".to_owned()),
            usage,
        }
    }
}

/// What a run waits for when it yields.
#[derive(Clone, Debug)]
pub enum Pause {
    Tool {
        call: Option<Json>,
    },
    Human {
        question: Option<Json>,
    },
    /// A called server wants a person's input before it goes on with a call. `sealed` is what the worker needs to make
    /// the call again.
    Elicitation {
        question: Json,
        sealed: String,
    },
    /// A view that the session has published asks. If a respondent answered it before the run paused, the run goes on
    /// with that answer.
    View {
        question: Json,
        answer: Option<Box<ViewAnswer>>,
    },
    Idle,
}
