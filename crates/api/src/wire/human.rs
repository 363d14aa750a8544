//! The human bridge on the wire: what a person says they are working on.

use sederunt_core::definitions::{self, StoredDefinition};
use sederunt_core::engine::StartedBridge as CoreStarted;
use sederunt_core::{Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::definitions::{DefinitionAnswer, Task};
use super::session::Session;
use crate::query::params;

/// The task that the caller works on from now on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"task_id": "portfolio-review"}))]
pub struct StartWork {
    /// The task's id or slug.
    #[serde(alias = "taskId")]
    #[schema(required = true, nullable = false, min_length = 1, max_length = 200)]
    pub task_id: Option<String>,
}

/// The bridge to complete.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"session_id": "019a9b3e-0000-7000-8000-000000000000"}))]
pub struct StopWork {
    #[serde(alias = "sessionId")]
    #[schema(required = true, nullable = false, min_length = 1, max_length = 200)]
    pub session_id: Option<String>,
}

/// What a person works on.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkingOn {
    pub session: Session,
    #[schema(value_type = Task)]
    pub task: DefinitionAnswer<definitions::Task>,
}

impl From<CoreStarted> for WorkingOn {
    fn from(started: CoreStarted) -> Self {
        Self { session: started.session.into(), task: started.task.into() }
    }
}

/// What the caller works on now.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActiveWork {
    /// Null: the caller has started nothing.
    pub session: Option<Session>,
    /// Left out where the task was deleted or may no longer be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Task>, nullable = false)]
    pub task: Option<DefinitionAnswer<definitions::Task>>,
}

impl From<Option<(sederunt_core::Session, Option<StoredDefinition<definitions::Task>>)>> for ActiveWork {
    fn from(active: Option<(sederunt_core::Session, Option<StoredDefinition<definitions::Task>>)>) -> Self {
        match active {
            None => Self { session: None, task: None },
            Some((session, task)) => Self { session: Some(session.into()), task: task.map(Into::into) },
        }
    }
}

/// How many bridges were deleted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct Forgotten {
    pub deleted: usize,
}

params! {
    /// Which bridges are forgotten.
    pub struct ForgetQuery {
        /// Only those that ended before this time; left out, all of them and the running one too.
        before: Option<Timestamp> = text()
            .chars_max(limits::TIME_BYTES_MAX)
            .example("2026-01-31T09:30:00Z")
            .parsed("must be a time such as 2026-01-31T09:30:00Z", Timestamp::parse),
    }
}
