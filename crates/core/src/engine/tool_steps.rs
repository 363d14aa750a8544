//! The sessions that the invocation of a tool starts: its steps, and the runs of its tasks. All of them are made with the
//! invocation; a step whose dependencies are not done waits as a draft and is started by [`super::consequences`].

use futures_util::future::BoxFuture;

use super::Engine;
use super::consequences::add;
use super::tasks::starting;
use super::tools::{join, new_part};
use crate::definitions::tool::ToolAction;
use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::ids::{SessionId, TenantId, UserId};
use crate::json::Json;
use crate::session::Session;
use crate::store::Change;
use crate::tool_session::decide::{NewToolSession, tool_of};
use crate::tool_session::steps::{self, StepStart, TASK_STEP, ToolTree};
use crate::tool_session::{Invoker, ToolRun};
use crate::work::queueing::{QueueCause, check_may_queue};
use crate::work::run::{Run, StepOf};

impl Engine {
    /// Adds the new sessions of a tool to a change, and returns the events about them for its own log. Without values the
    /// tool has not started, and its steps are drafts.
    pub(super) fn start_new_steps<'a>(
        &'a self,
        change: &'a mut Change,
        parent: &'a Session,
        values: Option<&'a Json>,
        tree: &'a ToolTree,
        by: &'a Invoker,
    ) -> BoxFuture<'a, Result<Vec<NewEvent>>> {
        Box::pin(async move {
            let mut told = Vec::new();
            if let (ToolAction::Task(action), Some(values)) = (&tree.definition.run, values) {
                told.push(self.start_task_of(change, parent, &action.task, values, by).await?);
            }
            let now = self.tenant.now().await?;
            let root = parent.details.root_id.clone().unwrap_or_else(|| parent.id.clone());
            for (n, (step, below)) in tree.definition.steps().iter().zip(&tree.steps).enumerate() {
                let needs = step.needs();
                let is_ready = needs.is_empty();
                let tool = ToolRun {
                    definition: below.definition.clone(),
                    invoked_by: Some(by.clone()),
                    step_input: Some(step.input.clone()),
                };
                let new = NewToolSession {
                    id: SessionId::drawn(&*self.ids),
                    holder: parent.head.holder.clone(),
                    source: parent.details.source.clone(),
                    tool,
                    values: None,
                    retry_of: None,
                    parent: Some((parent.id.clone(), root.clone())),
                    step: Some(StepOf {
                        key: step.key.clone(),
                        name: Some(below.definition.name.clone()),
                        depends_on: needs,
                    }),
                };
                let mut start = new.made(&*self.ids)?;
                let drafted = start.new.clone().made(parent.tenant.clone(), start.new.head.clone(), now);
                let mut inner = Change::new(parent.tenant.clone());
                let begun = match values.filter(|_| is_ready) {
                    Some(values) => {
                        self.prepare_values(&below.definition).await?;
                        let begun = steps::start(&drafted, values, &[]);
                        Some(begun.map_err(|error| error.within(&format!("run.steps[{n}]")))?)
                    }
                    None => None,
                };
                let child_values = begun.as_ref().map(|begun| &begun.values);
                let events = self.start_new_steps(&mut inner, &drafted, child_values, below, by).await?;
                if let Some(StepStart { mut step, .. }) = begun {
                    step.events.extend(events);
                    steps::begin_with(&mut start, step, now);
                    told.push(steps::step_started(&tree.definition.steps()[n].key, &drafted.id)?);
                }
                change.parts.push(new_part(start));
                join(change, inner);
            }
            Ok(told)
        })
    }

    /// Adds the start of a step that was waiting. On a refusal nothing was added.
    pub(super) fn start_waiting_step<'a>(
        &'a self,
        change: &'a mut Change,
        child: &'a Session,
        parent_values: &'a Json,
        results: &'a [(String, Json)],
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let tool = tool_of(child)?;
            self.prepare_values(&tool.definition).await?;
            let StepStart { mut step, values } = steps::start(child, parent_values, results)?;
            let mut inner = Change::new(child.tenant.clone());
            match (&tool.definition.run, &tool.invoked_by) {
                (ToolAction::Http(_) | ToolAction::Mcp(_), _) => {}
                (ToolAction::Task(action), Some(by)) => {
                    step.events.push(self.start_task_of(&mut inner, child, &action.task, &values, by).await?);
                }
                (ToolAction::Steps(_), _) => {
                    for below in self.children_of(child).await? {
                        let Some(place) = Run::of(&below).step.filter(|place| place.depends_on.is_empty())
                        else {
                            continue;
                        };
                        self.start_waiting_step(&mut inner, &below, &values, &[]).await?;
                        step.events.push(steps::step_started(&place.key, &below.id)?);
                    }
                }
                (ToolAction::Task(_), None) => return Err(Error::internal("a step that was not invoked")),
            }
            add(change, child, step)?;
            join(change, inner);
            Ok(())
        })
    }

    /// The person for whom an invocation goes on: who was merged into another meanwhile is that other.
    async fn invoker_now(&self, tenant: &TenantId, by: &Invoker) -> Result<Invoker> {
        let (mut now, mut before) = (by.clone(), Vec::new());
        while let Some(user) = now.user.as_deref().map(UserId::stored)
            // Two who were merged into each other are nobody.
            && !before.contains(&user)
            && let Some(into) = self.tenant.user(tenant, &user).await?.and_then(|row| row.merged_into)
        {
            now.user = Some(into.to_string());
            before.push(user);
        }
        Ok(now)
    }

    /// Adds a run of a task as the child of a tool session, and returns the event about it. The invoker must have the
    /// right to start the task.
    async fn start_task_of(
        &self,
        change: &mut Change,
        parent: &Session,
        task: &str,
        values: &Json,
        by: &Invoker,
    ) -> Result<NewEvent> {
        let actor = self.invoker_now(&parent.tenant, by).await?.actor(&parent.tenant);
        let task = self.task_named(&parent.tenant, task).await?;
        // A task that was assigned to somebody who was merged since names them as they were.
        check_may_queue(&by.actor(&parent.tenant), QueueCause::Task(&task))
            .or_else(|_| check_may_queue(&actor, QueueCause::Task(&task)))?;
        let now = self.tenant.now().await?;
        let mut starts = self.run_of_task(&actor, &task, Some(values.clone()), now).await?;
        let root = parent.details.root_id.clone().unwrap_or_else(|| parent.id.clone());
        for (n, start) in starts.sessions.iter_mut().enumerate() {
            let details = &mut start.new.details;
            details.root_id = Some(root.clone());
            if n == 0 {
                details.parent_id = Some(parent.id.clone());
                let mut run: Run = details.run.as_ref().and_then(|run| run.read().ok()).unwrap_or_default();
                run.step = Some(StepOf {
                    key: TASK_STEP.to_owned(),
                    name: details.title.as_deref().map(str::to_owned),
                    depends_on: Vec::new(),
                });
                details.run = Some(run.to_json()?);
            }
        }
        let (started, first) = starting(&actor, starts)?;
        join(change, started);
        steps::step_started(TASK_STEP, &first.id)
    }
}
