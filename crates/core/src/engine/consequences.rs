//! What the end of one session does to related ones: a child's end starts its siblings or ends its parent, a parent's
//! end cancels its children. All of it goes into the change that ends the session, under guards on all that was read,
//! so that no end is committed without its consequences.

use futures_util::future::BoxFuture;

use super::tools::join;
use super::{Engine, step_part};
use crate::approval::decide::ask;
use crate::definitions::task::OnChildFailure;
use crate::error::{Error, Result};
use crate::event::{EventType, NewEvent};
use crate::feedback::failure;
use crate::ids::{IdSource, SessionId};
use crate::json::Json;
use crate::limits;
use crate::memory::clip;
use crate::response::ResponseState;
use crate::session::decide::{SessionStep, move_to};
use crate::session::query::{SessionQuery, TypeFilter};
use crate::session::status::Authority;
use crate::session::{Session, SessionType, Status};
use crate::store::{Change, Record, Update};
use crate::time::Timestamp;
use crate::tool_session::{self, steps};
use crate::work::graph::{self, GraphChild, GraphEffects};
use crate::work::milestone::Milestone;
use crate::work::run::Run;
use crate::work::trigger::human_step;

impl Engine {
    /// The change that carries out a step, with everything that follows from it.
    pub(super) async fn change_for(&self, session: &Session, mut step: SessionStep) -> Result<Change> {
        let mut change = Change::new(session.tenant.clone());
        let Some(to) = step.update.status.filter(|to| to.is_terminal()) else {
            add(&mut change, session, step)?;
            return Ok(change);
        };
        let mut below = Change::new(session.tenant.clone());
        let told = self.call_off_children(&mut below, session, to).await?;
        step.events.splice(0..0, told);
        let result = step.update.result.clone();
        let ended = as_ended(session, &step.update);
        add(&mut change, session, step)?;
        join(&mut change, below);
        if let Some(parent) = &session.details.parent_id {
            self.follow(&mut change, &ended, parent, to, result).await?;
        }
        Ok(change)
    }

    /// Cancels what a session that ends leaves unfinished: its steps, and the tools that its agent called unless it waited
    /// for all of them. Returns the events about it for the session's own log.
    async fn call_off_children(
        &self,
        change: &mut Change,
        ended: &Session,
        to: Status,
    ) -> Result<Vec<NewEvent>> {
        let has_steps = Run::of(ended).on_child_failure.is_some();
        let may_have_called =
            matches!(ended.head.session_type, SessionType::Agent | SessionType::Mixed) && to.is_failing();
        let mut told = StepEvents::of(ended);
        if !has_steps && !may_have_called {
            return Ok(told.events);
        }
        for mut child in self.children_of(ended).await? {
            if has_steps || tool_session::is_of_tool(&child) {
                self.call_off(change, &mut child, &mut told).await?;
            }
        }
        Ok(told.events)
    }

    /// Cancels the tools that a turn of talk called and which nobody waits for any more.
    pub(super) async fn call_off_calls(&self, change: &mut Change, session: &Session) -> Result<()> {
        for mut child in self.children_of(session).await? {
            if tool_session::is_of_tool(&child) {
                self.call_off(change, &mut child, &mut StepEvents::of(session)).await?;
            }
        }
        Ok(())
    }

    /// Cancels a child that is not needed any more; the worker of a task is asked to stop.
    async fn call_off(&self, change: &mut Change, child: &mut Session, told: &mut StepEvents) -> Result<()> {
        match called_off(child)? {
            Some(step) => self.end_child(change, child, step, told).await,
            None => Ok(()),
        }
    }

    /// Adds a step of a child that mostly ends it, with the end of everything below it, and says so in its parent's log.
    fn end_child<'a>(
        &'a self,
        change: &'a mut Change,
        child: &'a mut Session,
        mut step: SessionStep,
        told: &'a mut StepEvents,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(to) = step.update.status.filter(|to| to.is_terminal()) else {
                return add(change, child, step);
            };
            let mut below = Change::new(child.tenant.clone());
            let events = self.call_off_children(&mut below, child, to).await?;
            step.events.splice(0..0, events);
            add(change, child, step)?;
            join(change, below);
            child.head.status = to;
            told.ended(child)
        })
    }

    /// What a child's end does to its siblings and its parent, and what the parent's end does in turn.
    fn follow<'a>(
        &'a self,
        change: &'a mut Change,
        child: &'a Session,
        parent: &'a SessionId,
        to: Status,
        result: Option<Json>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(parent) = self.sessions.session(&child.tenant, parent).await? else { return Ok(()) };
            let Some(policy) = Run::of(&parent).on_child_failure else { return Ok(()) };
            if Run::of(child).step.is_none() {
                return Ok(());
            }
            let mut told = StepEvents::of(&parent);
            if parent.head.status != Status::Running {
                // The parent ended before its child, which was asked to stop then.
                told.ended(child)?;
                let step = SessionStep { events: told.events, ..SessionStep::of(Update::default()) };
                return if step.events.is_empty() { Ok(()) } else { add(change, &parent, step) };
            }
            let mut family = self.children_of(&parent).await?;
            for member in family.iter_mut().filter(|member| member.id == child.id) {
                member.head.status = to;
                if result.is_some() {
                    member.details.result.clone_from(&result);
                }
            }
            let runs: Vec<Run> = family.iter().map(Run::of).collect();
            told.ended(child)?;
            let (started, effects) =
                self.started_steps(&parent, &mut family, &runs, policy, &mut told).await?;
            join(change, started);
            for n in effects.call_off {
                self.call_off(change, &mut family[n], &mut told).await?;
            }
            // Always written: of two children that end at once, the second must see the first.
            let mut step = match effects.parent {
                Some(end) => ended(&parent, end, &told.blamed(child), &family, &runs)?,
                None => SessionStep::of(Update::default()),
            };
            step.events.splice(0..0, told.events);
            let (end, result) = (step.update.status, step.update.result.clone());
            let now_ended = as_ended(&parent, &step.update);
            add(change, &parent, step)?;
            if let (Some(end), Some(above)) = (end, &parent.details.parent_id) {
                self.follow(change, &now_ended, above, end, result).await?;
            }
            Ok(())
        })
    }

    /// Starts the steps whose dependencies are done. A step of a tool that cannot be started is given up, and that has
    /// consequences of its own.
    async fn started_steps(
        &self,
        parent: &Session,
        family: &mut [Session],
        runs: &[Run],
        policy: OnChildFailure,
        told: &mut StepEvents,
    ) -> Result<(Change, GraphEffects)> {
        let now = self.tenant.now().await?;
        let mut given_up = Change::new(parent.tenant.clone());
        loop {
            let places: Vec<GraphChild<'_>> = family
                .iter()
                .zip(runs)
                .map(|(session, run)| GraphChild {
                    key: run.step.as_ref().map_or("", |step| &step.key),
                    depends_on: run.step.as_ref().map_or(&[], |step| &step.depends_on),
                    status: session.head.status,
                })
                .collect();
            let effects = graph::follows(&places, policy);
            let mut change = given_up.clone();
            let mut events = Vec::new();
            let mut broken = None;
            for n in &effects.start {
                let child = &family[*n];
                if child.head.session_type != SessionType::Tool {
                    add(&mut change, child, started(child, runs[*n].clone(), now, &*self.ids)?)?;
                    continue;
                }
                let values = parent.details.draft_values.clone().unwrap_or_else(Json::empty_object);
                let results: Vec<(String, Json)> = family
                    .iter()
                    .zip(runs)
                    .filter_map(|(done, run)| {
                        Some((run.step.as_ref()?.key.clone(), done.details.result.clone()?))
                    })
                    .collect();
                match self.start_waiting_step(&mut change, child, &values, &results).await {
                    Ok(()) => events.push(*n),
                    Err(error @ (Error::Internal(_) | Error::Unavailable(_))) => return Err(error),
                    Err(error) => {
                        broken = Some((*n, error.to_string()));
                        break;
                    }
                }
            }
            let Some((n, why)) = broken else {
                events.into_iter().try_for_each(|n| told.started(&family[n]))?;
                return Ok((change, effects));
            };
            let step = steps::give_up(&family[n], &why)?;
            self.end_child(&mut given_up, &mut family[n], step, told).await?;
            told.gave_up = Some((family[n].clone(), why));
        }
    }

    pub(super) async fn children_of(&self, parent: &Session) -> Result<Vec<Session>> {
        let query = SessionQuery {
            parent_id: Some(parent.id.clone()),
            inactive: Some(false),
            ..SessionQuery::of(TypeFilter::All, limits::PAGE_ROWS_MAX)
        };
        let mut children = self.tenant.sessions(&parent.tenant, query).await?.items;
        children.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(children)
    }
}

/// A session with the status and the error that an update gives it.
fn as_ended(session: &Session, update: &Update) -> Session {
    let mut ended = session.clone();
    ended.head.status = update.status.unwrap_or(ended.head.status);
    if let Some(message) = &update.error_message {
        ended.details.error_message = Some(message.clone());
    }
    ended
}

/// The events about its steps in the log of a tool session.
struct StepEvents {
    is_tool: bool,
    events: Vec<NewEvent>,
    /// The step that could not be started, and why.
    gave_up: Option<(Session, String)>,
}

impl StepEvents {
    fn of(parent: &Session) -> Self {
        let is_tool = parent.head.session_type == SessionType::Tool;
        Self { is_tool, events: Vec::new(), gave_up: None }
    }

    fn started(&mut self, child: &Session) -> Result<()> {
        if let Some(step) = Run::of(child).step.filter(|_| self.is_tool) {
            self.events.push(steps::step_started(&step.key, &child.id)?);
        }
        Ok(())
    }

    fn ended(&mut self, child: &Session) -> Result<()> {
        if let Some(step) = Run::of(child).step.filter(|_| self.is_tool) {
            self.events.push(steps::step_ended(&step.key, child)?);
        }
        Ok(())
    }

    /// The child that a failed parent names.
    fn blamed(&self, ended: &Session) -> Session {
        let (mut blamed, why) = match &self.gave_up {
            Some((child, why)) => (child.clone(), Some(why.as_str().into())),
            None => (ended.clone(), ended.details.error_message.clone()),
        };
        blamed.details.error_message = why;
        blamed
    }
}

/// Adds a step of a session to a change, with the failure record if it fails, and its milestone if it ends.
pub(super) fn add(change: &mut Change, session: &Session, mut step: SessionStep) -> Result<()> {
    let failure = failure::leave(session, &mut step)?;
    tool_session::decide::close(session, &mut step)?;
    change.milestones.extend(Milestone::ended(session, &step.update));
    change.records.append(&mut step.records);
    change.records.extend(ended_response(session, &step.update));
    change.records.extend(failure.map(|left| Record::AddFeedback(Box::new(left))));
    change.parts.push(step_part(session, step));
    Ok(())
}

/// The record that follows the end of a response, whatever ends it.
fn ended_response(session: &Session, update: &Update) -> Option<Record> {
    let state = match update.status? {
        _ if session.head.session_type != SessionType::Response => return None,
        Status::Completed => ResponseState::Submitted,
        to if to.is_terminal() => ResponseState::Abandoned,
        _ => return None,
    };
    Some(Record::SetResponse { session: session.id.clone(), state })
}

/// Starts a step whose dependencies are done: queued for its agent, or put into its person's inbox.
fn started(child: &Session, mut run: Run, now: Timestamp, ids: &dyn IdSource) -> Result<SessionStep> {
    if child.details.agent_slug.is_some() {
        return move_to(child, Status::Pending, Authority::Trigger, Some("released"));
    }
    let mut step = move_to(child, Status::WaitingHuman, Authority::HumanStep, Some("released"))?;
    let title = child.details.title.as_deref().unwrap_or(child.id.as_str());
    let question = human_step(title, &run, child.details.input.as_ref())?;
    let (approval, event) = ask(&child.id, child.details.task_id.as_deref(), &mut run, question, now, ids)?;
    step.events.push(event);
    step.records.push(Record::AddApproval(Box::new(approval)));
    step.update.run = Some(run.to_json()?);
    Ok(step)
}

/// Cancels a child that is not needed any more. A run of an agent is told to stop; a tool is fenced off at once, as its
/// own cancelling does. `None`: it has ended.
fn called_off(child: &Session) -> Result<Option<SessionStep>> {
    let by = match child.head.status {
        status if status.is_terminal() => return Ok(None),
        Status::Running if child.head.claim.is_some() && child.head.session_type != SessionType::Tool => {
            let update = Update { stop_requested: Some(true), ..Update::default() };
            return Ok((!child.head.stop_requested).then(|| SessionStep::of(update)));
        }
        Status::Pending => Authority::Owner,
        _ => Authority::OwnerOrHolder,
    };
    let mut step = move_to(child, Status::Abandoned, by, Some("called_off"))?;
    step.update.end_reason = Some("called_off".into());
    Ok(Some(step))
}

/// Ends the parent: its result is that of the steps that no other step depends on.
fn ended(
    parent: &Session,
    end: Status,
    last: &Session,
    family: &[Session],
    runs: &[Run],
) -> Result<SessionStep> {
    let reason = (end == Status::Failed).then_some("child_failed");
    let mut step = move_to(parent, end, Authority::Engine, reason)?;
    if end == Status::Failed {
        let key = Run::of(last).step.map(|step| step.key).unwrap_or_default();
        let why =
            last.details.error_message.as_deref().filter(|_| parent.head.session_type == SessionType::Tool);
        let message = match why {
            Some(why) => format!("the step `{key}` did not complete: {why}"),
            None => format!("the step `{key}` did not complete"),
        };
        step.update.error_message = Some(clip(&message, limits::SENTENCE_CHARS_MAX).into());
        step.update.end_reason = Some("child_failed".into());
        return Ok(step);
    }
    let depended_on: Vec<&String> =
        runs.iter().filter_map(|run| run.step.as_ref()).flat_map(|step| &step.depends_on).collect();
    let results: Vec<(&str, &Json)> = family
        .iter()
        .zip(runs)
        .filter_map(|(child, run)| Some((run.step.as_ref()?, child.details.result.as_ref()?)))
        .filter(|(step, _)| !depended_on.contains(&&step.key))
        .map(|(step, result)| (step.key.as_str(), result))
        .collect();
    let result = match &results[..] {
        [] => None,
        [(_, only)] => Some((*only).clone()),
        many => Some(Json::object(many.iter().copied())),
    };
    let result = result.filter(|result| result.len() <= limits::EVENT_BYTES_MAX);
    let complaints = match (&Run::of(parent).tool, Run::of(parent).output) {
        (Some(_), Some(contract)) => contract.complaints(result.as_ref(), None),
        _ => Vec::new(),
    };
    if !complaints.is_empty() {
        let mut step = move_to(parent, Status::Failed, Authority::Engine, Some("output_invalid"))?;
        step.update.error_message = Some(clip(&complaints.join("; "), limits::SENTENCE_CHARS_MAX).into());
        step.update.end_reason = Some("output_invalid".into());
        return Ok(step);
    }
    step.update.result = result;
    step.events.push(NewEvent::engine(EventType::known("session.completed"), None));
    Ok(step)
}
