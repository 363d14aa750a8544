//! Tools about work: the progress of a task, and retrying a failed run.

use sederunt_api::wire::session::Session;
use sederunt_api::wire::task::TaskStanding;
use sederunt_core::{Error, SessionId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::tool::{Draft, Effect, McpTool, shown};

pub fn tools() -> [McpTool; 2] {
    [get_task_status(), retry_session()]
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskNamed {
    /// The task's id or slug.
    task_id: String,
}

fn get_task_status() -> McpTool {
    Draft::new(
        "getTaskStatus",
        "The status of a task",
        "Returns the newest run of a task: its session and status, how long it took or has been running, what \
         went wrong, and its newest events, oldest first. `session` is null before the first run.",
        Effect::Reads,
    )
    .gives::<TaskStanding>()
    .does(|asked, TaskNamed { task_id }| {
        Box::pin(async move {
            shown(TaskStanding::from(asked.engine().task_standing(asked.actor(), &task_id).await?))
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SessionNamed {
    /// The session's id.
    session_id: String,
}

fn retry_session() -> McpTool {
    Draft::new(
        "retrySession",
        "Run a failed session again",
        "Makes a new session that does the work of one that failed, expired or was abandoned, and answers with it; \
         its `retry_of` names the old one. A step of a larger run starts that run anew and keeps what was finished.",
        Effect::Adds,
    )
    .gives::<Session>()
    .does(|asked, SessionNamed { session_id }| {
        Box::pin(async move {
            let id = SessionId::parse(&session_id).map_err(|_| Error::NotFound)?;
            shown(Session::from(asked.engine().retry(asked.actor(), &id, asked.key).await?))
        })
    })
}
