//! Tool sessions on the wire: tools that people and agents fill in and run.

use sederunt_core::Timestamp;
use sederunt_core::engine::ToolHistory;
use sederunt_core::json::Json;
use sederunt_core::session::query::{ListCursor, Page};
use sederunt_core::session::{Status, StatusSet};
use sederunt_core::tool_session::{self, Invocation, StoredToolSession};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Raw, words};
use crate::query::params;

/// A tool that a person or an agent fills in and runs, once.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolSession {
    /// The id of its session.
    pub id: String,
    pub tool_slug: String,
    pub status: ToolSessionStatus,
    /// The values that were filled in so far. A secret is its name.
    #[schema(value_type = Object)]
    pub values: Raw,
    /// Grows with every change. Given back with a change of values, it refuses the change if the values have changed
    /// meanwhile.
    pub version: u64,
    /// Null until the tool is invoked.
    pub invocation: Option<ToolInvocation>,
    /// The sessions of its steps.
    pub steps: Vec<ToolSessionStep>,
    #[schema(value_type = Raw, required = true)]
    pub result: Option<Raw>,
    pub error: Option<ToolError>,
    /// The session whose values it began with.
    pub retry_of: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

words!(
    /// `cancelled`: it was cancelled, failed, or given up after a week of silence.
    ToolSessionStatus = OutwardToolStatus { Active, Completed, Cancelled }
);

/// The words of tools for the status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutwardToolStatus {
    Active,
    Completed,
    Cancelled,
}

impl OutwardToolStatus {
    fn of(word: &str) -> Self {
        match word {
            "active" => Self::Active,
            "completed" => Self::Completed,
            _ => Self::Cancelled,
        }
    }

    /// The stored statuses that a word means.
    fn stored(self) -> StatusSet {
        match self {
            Self::Active => StatusSet::ACTIVE,
            Self::Completed => Status::Completed.into(),
            Self::Cancelled => StatusSet::FAILING,
        }
    }
}

words!(
    /// `waiting`: a person is asked first.
    InvocationState = tool_session::InvocationState { Queued, Running, Waiting, Completed, Failed }
);

/// The one invocation of a tool session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolInvocation {
    /// The same at every attempt; HTTP tools get it as `Idempotency-Key`.
    pub id: String,
    pub state: InvocationState,
    /// How often a worker has taken it since a person was last asked.
    pub attempts: u32,
}

/// A step of a tool session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolSessionStep {
    pub key: String,
    pub session_id: String,
    pub status: ToolSessionStatus,
}

/// Why a tool session did not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolError {
    /// A code for programs.
    pub code: String,
    pub message: Option<String>,
}

impl From<StoredToolSession> for ToolSession {
    fn from(stored: StoredToolSession) -> Self {
        let status = OutwardToolStatus::of(stored.status());
        let invocation = Invocation::of(&stored.session).map(|invocation| ToolInvocation {
            id: invocation.id,
            state: invocation.state.into(),
            attempts: invocation.attempts,
        });
        let step = |step: tool_session::ToolSessionStep| ToolSessionStep {
            status: OutwardToolStatus::of(tool_session::outward(&step.session)).into(),
            session_id: step.session.id.to_string(),
            key: step.key,
        };
        let (head, details) = (stored.session.head, stored.session.details);
        let error = (status == OutwardToolStatus::Cancelled).then(|| ToolError {
            code: details.end_reason.as_deref().unwrap_or(head.status.as_str()).to_owned(),
            message: details.error_message.map(Into::into),
        });
        Self {
            id: stored.session.id.to_string(),
            tool_slug: stored.tool.definition.slug,
            status: status.into(),
            values: Raw(details.draft_values.unwrap_or_else(Json::empty_object)),
            version: head.version,
            invocation,
            steps: stored.steps.into_iter().map(step).collect(),
            result: details.result.map(Raw),
            error,
            retry_of: details.retry_of.map(|id| id.to_string()),
            created_at: details.created_at,
            updated_at: head.last_at,
        }
    }
}

/// A page of tool sessions, newest activity first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolSessionList {
    pub items: Vec<ToolSession>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<StoredToolSession>> for ToolSessionList {
    fn from(page: Page<StoredToolSession>) -> Self {
        let next_cursor = page.next.map(|next| next.to_string());
        Self { items: page.items.into_iter().map(Into::into).collect(), next_cursor }
    }
}

params! {
    /// Which sessions of a tool.
    pub struct ToolSessionsQuery {
        status: Option<ToolSessionStatus> = named_word(),
        /// Only the caller's own.
        mine: Option<bool> = flag(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<ListCursor> = list_cursor(),
    }
}

impl ToolSessionsQuery {
    pub fn filter(&self) -> ToolHistory {
        let statuses = self.status.map(|status| OutwardToolStatus::from(status).stored());
        ToolHistory { statuses, mine: self.mine == Some(true) }
    }
}

/// Starts a tool session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"values": {"city": "Oban"}}))]
pub struct StartTool {
    /// The first values.
    #[schema(value_type = Option<Object>)]
    pub values: Option<Raw>,
    /// A session of the same tool, whose values it begins with.
    #[schema(min_length = 1, max_length = 200)]
    pub rerun_of: Option<String>,
}

/// Values to save.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"values": {"city": "Oban"}}))]
pub struct FillTool {
    /// The values that change; `null` clears one.
    #[schema(value_type = Object)]
    pub values: Raw,
    /// The version that the values were made against; another one is 409 `stale_base`.
    pub version: Option<u64>,
}

/// Invokes a tool.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"values": {"city": "Oban"}}))]
pub struct InvokeTool {
    /// The values that change what was filled in; left out, that is what the tool is invoked with.
    #[schema(value_type = Option<Object>)]
    pub values: Option<Raw>,
}

/// What a worker needs to run a tool.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolBrief {
    pub slug: String,
    /// A secret is `{"secret": NAME}`.
    #[schema(value_type = Object)]
    pub values: Raw,
    /// The same at every attempt: a key under which the tool acts once.
    pub invocation_id: String,
    /// A person agrees to the values first: yield with the call, and carry out what `resume` holds.
    pub requires_confirmation: bool,
}
