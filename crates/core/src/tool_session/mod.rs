//! The tool room: what happens when a person or an agent fills in a tool and runs it. A tool session is a session of type
//! `tool`. Its values are the session's draft values; its run ([`ToolRun`], a part of [`crate::work::run::Run`]) holds the
//! tool as it was when the session was started. Owns starting, filling, invoking and cancelling ([`decide`]), the values
//! ([`values`]) and the steps of tools that are made of tools ([`steps`]). Refuses to know how a tool is called: a worker
//! does that under a claim.

pub mod decide;
pub mod steps;
pub mod values;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::access::{Actor, Role};
use crate::definitions::ToolDefinition;
use crate::ids::{CredentialId, TenantId, UserId};
use crate::json::Json;
use crate::session::outward::{StoredColumns, Vocabulary};
use crate::session::{Details, Head, Session, SessionType, SourceKind, Status};
use crate::work::run::Run;

/// The metadata key that names the tool of a session; only the engine writes it.
pub const TOOL_SLUG: &str = "tool_slug";

/// The tool of a session, as it was when the session was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    pub definition: ToolDefinition,
    /// Set by the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invoked_by: Option<Invoker>,
    /// What the values of a step are made of when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_input: Option<Json>,
}

/// The person for whom a tool was invoked. The steps of the invocation are started with this person's rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoker {
    pub user: Option<String>,
    pub is_owner: bool,
}

impl Invoker {
    pub fn of(actor: &Actor) -> Self {
        Self { user: actor.user.as_ref().map(ToString::to_string), is_owner: actor.role == Role::Owner }
    }

    /// The caller as whom later steps are started.
    pub fn actor(&self, tenant: &TenantId) -> Actor {
        Actor {
            tenant: tenant.clone(),
            credential: CredentialId::stored("invoker"),
            role: if self.is_owner { Role::Owner } else { Role::Member },
            user: self.user.as_deref().map(UserId::stored),
            ..Actor::local(SourceKind::Api)
        }
    }
}

/// Where an invocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvocationState {
    Queued,
    Running,
    Waiting,
    Completed,
    Failed,
}

/// The one invocation of a tool session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    pub id: String,
    pub state: InvocationState,
    pub attempts: u32,
}

/// The id of the invocation of the session with this head: the same for every attempt, on every node, and known before
/// the claim that starts it.
pub fn invocation_id(head: &Head) -> String {
    let sum = Sha256::digest([b"invocation".as_slice(), head.incarnation.0.as_bytes().as_slice()].concat());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sum[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

impl Invocation {
    /// The invocation of a session; `None` before it was invoked.
    pub fn of(session: &Session) -> Option<Self> {
        let head = &session.head;
        Run::of(session).tool?.invoked_by?;
        let state = match head.status {
            Status::Draft | Status::Pending => InvocationState::Queued,
            Status::Running | Status::Idle => InvocationState::Running,
            Status::WaitingHuman | Status::AwaitingTool => InvocationState::Waiting,
            Status::Completed => InvocationState::Completed,
            Status::Failed | Status::Expired | Status::Abandoned => InvocationState::Failed,
        };
        Some(Self { id: invocation_id(head), state, attempts: head.attempts })
    }
}

/// A step of a tool session.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSessionStep {
    pub key: String,
    pub session: Session,
}

/// A tool session with everything that is shown of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToolSession {
    pub session: Session,
    pub tool: ToolRun,
    pub steps: Vec<ToolSessionStep>,
}

impl StoredToolSession {
    /// The status in the words of tools.
    pub fn status(&self) -> &'static str {
        outward(&self.session)
    }
}

/// Whether a session was started with a tool.
pub fn is_of_tool(session: &Session) -> bool {
    session.head.session_type == SessionType::Tool && Run::of(session).tool.is_some()
}

/// Whether a session is invoked, or belongs to an invocation as a step of it.
pub fn is_invoked(head: &Head, details: &Details) -> bool {
    let run = details.run.as_ref().filter(|_| head.session_type == SessionType::Tool);
    let run = run.and_then(|run| run.read::<Run>().ok());
    run.and_then(|run| run.tool).is_some_and(|tool| tool.invoked_by.is_some())
}

/// The status of a session in the words of tools.
pub fn outward(session: &Session) -> &'static str {
    let Head { status, inactive, .. } = session.head;
    Vocabulary::Tool.outward(StoredColumns { status, inactive, promoted: false })
}
