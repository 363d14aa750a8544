//! The steps of a tool that is made of other tools: the tree of tools that one invocation runs, and the start of a step
//! whose dependencies are done. Pure.

use serde_json::json;

use super::decide::{is_composed, started, tool_of};
use super::{outward, values};
use crate::definitions::ToolDefinition;
use crate::definitions::tool::ToolAction;
use crate::error::{Error, Result};
use crate::event::{EventType, NewEvent};
use crate::ids::SessionId;
use crate::json::Json;
use crate::limits;
use crate::session::Session;
use crate::session::Status;
use crate::session::decide::{SessionStep, move_to};
use crate::session::status::Authority;
use crate::store::NewSession;
use crate::time::Timestamp;
use crate::work::trigger::SessionStart;

/// The key of the one step of a tool that runs a task.
pub const TASK_STEP: &str = "task";

/// A tool with the tools of its steps, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolTree {
    pub definition: ToolDefinition,
    pub steps: Vec<ToolTree>,
}

impl ToolTree {
    /// How many sessions its steps make.
    pub fn session_count(&self) -> usize {
        self.steps.iter().map(|step| 1 + step.session_count()).sum()
    }

    /// The tasks that an invocation of it runs.
    pub fn tasks(&self) -> Vec<&str> {
        let own = match &self.definition.run {
            ToolAction::Task(action) => Some(action.task.as_str()),
            ToolAction::Http(_) | ToolAction::Mcp(_) | ToolAction::Steps(_) => None,
        };
        own.into_iter().chain(self.steps.iter().flat_map(Self::tasks)).collect()
    }

    /// Refuses a tree that makes too many sessions.
    pub fn check(&self) -> Result<()> {
        if self.session_count() > limits::TOOL_TREE_SESSIONS_MAX {
            let most = limits::TOOL_TREE_SESSIONS_MAX;
            return Err(Error::invalid(
                "run.steps",
                format!("must be at most {most} with those of nested tools"),
            ));
        }
        Ok(())
    }
}

/// A step that starts, and the values that it starts with.
#[derive(Debug)]
pub struct StepStart {
    pub step: SessionStep,
    pub values: Json,
}

/// Starts a step: its values are made of those of its parent and of the results of other steps.
pub fn start(child: &Session, parent_values: &Json, results: &[(String, Json)]) -> Result<StepStart> {
    let tool = tool_of(child)?;
    let input = tool.step_input.clone().unwrap_or_else(Json::empty_object);
    let values = values::resolved(&input, parent_values, results)?;
    values::check_whole(&tool.definition, &values)?;
    let mut step = if is_composed(&tool.definition) {
        let mut step = move_to(child, Status::Running, Authority::Engine, Some("released"))?;
        step.events.push(started(&child.head)?);
        step
    } else {
        move_to(child, Status::Pending, Authority::Submit, Some("released"))?
    };
    step.update.draft_values = Some(Some(values.clone()));
    Ok(StepStart { step, values })
}

/// Gives up a step that cannot be started, and says why.
pub fn give_up(child: &Session, why: &str) -> Result<SessionStep> {
    let mut step = move_to(child, Status::Abandoned, Authority::OwnerOrHolder, Some("not_started"))?;
    step.update.end_reason = Some("not_started".into());
    step.update.error_message = Some(why.chars().take(limits::SENTENCE_CHARS_MAX).collect::<String>().into());
    Ok(step)
}

/// Lets a session that is being made begin with this step.
pub fn begin_with(start: &mut SessionStart, step: SessionStep, now: Timestamp) {
    let NewSession { head, details, .. } = &mut start.new;
    let SessionStep { update, events, .. } = step;
    if let Some(status) = update.status {
        head.status = status;
    }
    if update.started {
        details.started_at = Some(now);
    }
    if let Some(values) = update.draft_values {
        details.draft_values = values;
    }
    if let Some(run) = update.run {
        details.run = Some(run);
    }
    start.events.extend(events);
}

/// The event in the parent's log that a step has started.
pub fn step_started(key: &str, child: &SessionId) -> Result<NewEvent> {
    let metadata = Json::of(&json!({"step": key, "child_session_id": child.as_str()}))?;
    Ok(NewEvent::engine(EventType::known("tool.composition_step.started"), Some(metadata)))
}

/// The event in the parent's log that a step has ended. `child` has the status that it ended with.
pub fn step_ended(key: &str, child: &Session) -> Result<NewEvent> {
    let fields = json!({"step": key, "child_session_id": child.id.as_str(), "status": outward(child)});
    let kind = EventType::known("tool.composition_step.completed");
    Ok(NewEvent::engine(kind, Some(Json::of(&fields)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_too_many_sessions_is_refused() {
        let text =
            r#"{"slug":"t","name":"T","input_schema":{"type":"object"},"run":{"type":"task","task":"x"}}"#;
        let definition: ToolDefinition = Json::stored(text).read().unwrap();
        let leaf = ToolTree { definition: definition.clone(), steps: Vec::new() };
        let tree =
            |count: usize| ToolTree { definition: definition.clone(), steps: vec![leaf.clone(); count] };
        assert!(tree(limits::TOOL_TREE_SESSIONS_MAX).check().is_ok());
        assert!(tree(limits::TOOL_TREE_SESSIONS_MAX + 1).check().is_err());
        let nested = ToolTree { definition: definition.clone(), steps: vec![tree(2), leaf.clone()] };
        assert_eq!((nested.session_count(), nested.tasks().len()), (4, 5));
    }
}
