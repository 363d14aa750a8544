//! What the end of one session does to related ones: a child's end starts its siblings or ends its parent, a parent's
//! end cancels its children. All of it goes into the change that ends the session, under guards on all that was read,
//! so that no end is committed without its consequences.

use super::{Engine, step_part};
use crate::approval::decide::ask;
use crate::error::Result;
use crate::event::{EventType, NewEvent};
use crate::feedback::failure;
use crate::ids::{IdSource, SessionId};
use crate::json::Json;
use crate::limits;
use crate::response::ResponseState;
use crate::session::decide::{SessionStep, move_to};
use crate::session::query::{SessionQuery, TypeFilter};
use crate::session::status::Authority;
use crate::session::{Session, SessionType, Status};
use crate::store::{Change, Record, Update};
use crate::time::Timestamp;
use crate::work::graph::{self, GraphChild};
use crate::work::milestone::Milestone;
use crate::work::run::Run;
use crate::work::trigger::human_step;

impl Engine {
    /// The change that carries out a step, with everything that follows from it.
    pub(super) async fn change_for(&self, session: &Session, step: SessionStep) -> Result<Change> {
        let mut change = Change::new(session.tenant.clone());
        let ends = step.update.status.filter(|to| to.is_terminal());
        let result = step.update.result.clone();
        add(&mut change, session, step)?;
        let Some(to) = ends else { return Ok(change) };
        if let Some(parent) = &session.details.parent_id {
            self.follow(&mut change, session, parent, to, result).await?;
        } else if Run::of(session).on_child_failure.is_some() {
            for child in self.children_of(session).await? {
                if let Some(step) = called_off(&child)? {
                    add(&mut change, &child, step)?;
                }
            }
        }
        Ok(change)
    }

    /// What a child's end does to its siblings and its parent.
    async fn follow(
        &self,
        change: &mut Change,
        child: &Session,
        parent: &SessionId,
        to: Status,
        result: Option<Json>,
    ) -> Result<()> {
        let Some(parent) = self.sessions.session(&child.tenant, parent).await? else { return Ok(()) };
        let Some(policy) = Run::of(&parent).on_child_failure else { return Ok(()) };
        if parent.head.status != Status::Running || Run::of(child).step.is_none() {
            return Ok(());
        }
        let mut family = self.children_of(&parent).await?;
        for member in family.iter_mut().filter(|member| member.id == child.id) {
            member.head.status = to;
            if result.is_some() {
                member.details.result.clone_from(&result);
            }
        }
        let runs: Vec<Run> = family.iter().map(Run::of).collect();
        let places: Vec<GraphChild<'_>> = family
            .iter()
            .zip(&runs)
            .map(|(session, run)| GraphChild {
                key: run.step.as_ref().map_or("", |step| &step.key),
                depends_on: run.step.as_ref().map_or(&[], |step| &step.depends_on),
                status: session.head.status,
            })
            .collect();
        let follows = graph::follows(&places, policy);
        let now = self.tenant.now().await?;
        for n in follows.start {
            let step = started(&family[n], runs[n].clone(), now, &*self.ids)?;
            add(change, &family[n], step)?;
        }
        for n in follows.call_off {
            if let Some(step) = called_off(&family[n])? {
                add(change, &family[n], step)?;
            }
        }
        // Always written: of two children that end at once, the second must see the first.
        let step = match follows.parent {
            Some(end) => ended(&parent, end, child, &family, &runs)?,
            None => SessionStep::of(Update::default()),
        };
        add(change, &parent, step)?;
        Ok(())
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

/// Adds a step of a session to a change, with the failure record if it fails, and its milestone if it ends.
fn add(change: &mut Change, session: &Session, mut step: SessionStep) -> Result<()> {
    let failure = failure::leave(session, &mut step)?;
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

/// Cancels a child that is not needed any more; a running one is told to stop. `None`: it has ended.
fn called_off(child: &Session) -> Result<Option<SessionStep>> {
    let by = match child.head.status {
        status if status.is_terminal() => return Ok(None),
        Status::Running if child.head.claim.is_some() => {
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
        step.update.error_message = Some(format!("the step `{key}` did not complete").into());
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
    step.update.result = result.filter(|result| result.len() <= limits::EVENT_BYTES_MAX);
    step.events.push(NewEvent::engine(EventType::known("session.completed"), None));
    Ok(step)
}
