//! A session's row in its two halves: the [`Head`], hot and narrow, which every append reads and
//! writes, and the [`Details`], which change with decisions.

use std::time::Duration;

use super::{DescriptionSource, MemoryMode, SessionSource, SessionType, Status};
use crate::error::{Error, Result};
use crate::ids::{CredentialId, Incarnation, SessionId, TenantId, UserId};
use crate::json::Json;
use crate::limits;
use crate::time::Timestamp;
use crate::tool_session;

/// The whole row.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub tenant: TenantId,
    pub id: SessionId,
    pub head: Head,
    pub details: Details,
    pub participants: Vec<UserId>,
}

/// What the guards of a write need to know, and what an append changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub incarnation: Incarnation,
    pub session_type: SessionType,
    pub is_talk: bool,
    pub is_bridge: bool,
    pub is_external: bool,
    pub is_group: bool,
    pub holder: Option<UserId>,
    pub status: Status,
    pub inactive: bool,
    /// Counts decisions, not appends: concurrent appenders never conflict.
    pub version: u64,
    pub last_sequence: u64,
    pub last_at: Timestamp,
    pub message_count: u64,
    /// Bytes of its own events, without those that the engine writes about the session.
    pub bytes: u64,
    /// Completed turns.
    pub turn_count: u64,
    /// The user message that the next reply answers.
    pub turn: Option<Turn>,
    pub preview: Option<Box<str>>,
    pub described: bool,
    pub claim: Option<Claim>,
    /// The last epoch handed out; the next claim gets one more.
    pub epoch: u64,
    pub attempts: u32,
    pub stop_requested: bool,
    pub priority: i32,
    pub deadline_at: Option<Timestamp>,
}

/// The turn that is open or was answered last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub sequence: u64,
    pub answered: bool,
}

/// A worker's exclusive, leased right to run a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub worker: Box<str>,
    pub credential: CredentialId,
    pub lease_until: Timestamp,
}

/// The wide half.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    pub source: SessionSource,
    pub metadata: Json,
    pub task_id: Option<Box<str>>,
    pub agent_slug: Option<Box<str>>,
    pub entity_id: Option<Box<str>>,
    pub parent_id: Option<SessionId>,
    pub root_id: Option<SessionId>,
    pub retry_of: Option<SessionId>,
    pub title: Option<Box<str>>,
    pub description: Option<Box<str>>,
    pub description_source: Option<DescriptionSource>,
    pub working_memory: Option<Json>,
    pub input: Option<Json>,
    pub draft_values: Option<Json>,
    /// The run of its task that the session carries: see [`crate::work::run`].
    pub run: Option<Json>,
    pub result: Option<Json>,
    pub usage: Option<Json>,
    pub error_message: Option<Box<str>>,
    pub end_reason: Option<Box<str>>,
    pub memory_mode: MemoryMode,
    pub is_anonymous: bool,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

impl Head {
    /// The head of a session that has just begun.
    pub fn blank(
        incarnation: Incarnation,
        session_type: SessionType,
        status: Status,
        holder: Option<UserId>,
    ) -> Self {
        Self {
            incarnation,
            session_type,
            is_talk: false,
            is_bridge: false,
            is_external: false,
            is_group: false,
            holder,
            status,
            inactive: false,
            version: 1,
            last_sequence: 0,
            last_at: Timestamp::default(),
            message_count: 0,
            bytes: 0,
            turn_count: 0,
            turn: None,
            preview: None,
            described: false,
            claim: None,
            epoch: 0,
            attempts: 0,
            stop_requested: false,
            priority: 0,
            deadline_at: None,
        }
    }

    /// The deadline of a session in this status, counted from now. Sessions with a claim have their lease instead.
    /// [`Session::deadline_in`] knows those that are invoked.
    pub fn deadline_in(&self, status: Status) -> Option<Duration> {
        match status {
            Status::Draft | Status::Running if self.session_type == SessionType::Response => {
                Some(limits::RESPONSE_DEADLINE)
            }
            Status::Draft | Status::Running if self.session_type == SessionType::Tool => {
                Some(limits::TOOL_SESSION_DEADLINE)
            }
            Status::Running if self.is_bridge => Some(limits::BRIDGE_DEADLINE),
            Status::Pending | Status::WaitingHuman | Status::AwaitingTool => Some(limits::WAITING_DEADLINE),
            _ => None,
        }
    }

    /// Whether each event extends the deadline: a response or a tool session is abandoned only by silence. A tool session
    /// that was invoked has no deadline of its own.
    pub fn deadline_follows_activity(&self) -> bool {
        matches!(self.session_type, SessionType::Response | SessionType::Tool)
            && self.claim.is_none()
            && self.deadline_at.is_some()
            && matches!(self.status, Status::Draft | Status::Running)
    }

    /// The status that a passed deadline leads to.
    pub fn when_overdue(&self) -> Option<Status> {
        match self.status {
            Status::WaitingHuman | Status::AwaitingTool if self.is_talk => Some(Status::Idle),
            Status::Pending | Status::WaitingHuman | Status::AwaitingTool => Some(Status::Expired),
            Status::Draft | Status::Running
                if matches!(self.session_type, SessionType::Response | SessionType::Tool) =>
            {
                Some(Status::Abandoned)
            }
            Status::Running if self.is_bridge => Some(Status::Abandoned),
            _ => None,
        }
    }

    /// Whether this credential holds the claim with this epoch, and its lease has not lapsed.
    pub fn holds(&self, credential: &CredentialId, epoch: u64, now: Timestamp) -> bool {
        self.epoch == epoch
            && self
                .claim
                .as_ref()
                .is_some_and(|claim| claim.credential == *credential && claim.lease_until > now)
    }
}

impl Session {
    /// The deadline of this session in this status, counted from now. What was invoked is not abandoned by silence: its
    /// steps, leases and questions have deadlines, and their end ends it.
    pub fn deadline_in(&self, status: Status) -> Option<Duration> {
        deadline_of(&self.head, &self.details, status)
    }
}

/// See [`Session::deadline_in`].
pub(crate) fn deadline_of(head: &Head, details: &Details, status: Status) -> Option<Duration> {
    let waits_for_values = matches!(status, Status::Draft | Status::Running);
    match waits_for_values && tool_session::is_invoked(head, details) {
        true => None,
        false => head.deadline_in(status),
    }
}

impl Details {
    /// Details that say nothing but where the session comes from.
    pub fn blank(source: SessionSource) -> Self {
        Self {
            source,
            metadata: Json::empty_object(),
            task_id: None,
            agent_slug: None,
            entity_id: None,
            parent_id: None,
            root_id: None,
            retry_of: None,
            title: None,
            description: None,
            description_source: None,
            working_memory: None,
            input: None,
            draft_values: None,
            run: None,
            result: None,
            usage: None,
            error_message: None,
            end_reason: None,
            memory_mode: MemoryMode::Local,
            is_anonymous: false,
            created_at: Timestamp::default(),
            started_at: None,
            completed_at: None,
        }
    }
}

/// The metadata that can be filtered on: scalars, as text, within the limits.
pub fn filterable(metadata: &Json) -> Vec<(String, String)> {
    let serde_json::Value::Object(fields) = metadata.value() else { return Vec::new() };
    fields
        .into_iter()
        .filter_map(|(key, value)| {
            let text = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Bool(flag) => flag.to_string(),
                serde_json::Value::Number(number) => number.to_string(),
                _ => return None,
            };
            (text.chars().nth(limits::METADATA_FILTER_CHARS_MAX).is_none()
                && key.chars().nth(limits::NAME_CHARS_MAX).is_none())
            .then_some((key, text))
        })
        .take(limits::METADATA_FILTER_KEYS_MAX)
        .collect()
}

/// Checks metadata from a caller: an object, and small.
pub fn check_metadata(metadata: &Json) -> Result<()> {
    if !metadata.is_object() {
        return Err(Error::invalid("metadata", "must be an object"));
    }
    if metadata.len() > limits::METADATA_BYTES_MAX {
        return Err(Error::TooLarge { what: "metadata", limit: limits::METADATA_BYTES_MAX });
    }
    Ok(())
}
