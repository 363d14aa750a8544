//! Starting a task: the sessions that one run of it needs, with the contract frozen into them. Pure.

use serde_json::json;

use super::output::OutputContract;
use super::run::{Run, StepOf};
use super::write_grant::WriteGrant;
use crate::access::Actor;
use crate::activity::BridgePerson;
use crate::approval::decide::{ApprovalQuestion, ask};
use crate::approval::safety_gate::GateVerdict;
use crate::approval::{self, Approval};
use crate::definitions::criteria::Dimension;
use crate::definitions::task::{TaskStatus, TaskStep};
use crate::definitions::{StoredDefinition, Task};
use crate::error::{Conflict, Result};
use crate::event::NewEvent;
use crate::ids::{IdSource, Incarnation, SessionId, UserId};
use crate::json::Json;
use crate::session::decide::{created_event, retry};
use crate::session::{Details, Head, Session, SessionSource, SessionType, Status};
use crate::store::NewSession;
use crate::time::Timestamp;

/// A session to be created, with the first events of its log.
#[derive(Debug)]
pub struct SessionStart {
    pub new: NewSession,
    pub events: Vec<NewEvent>,
}

/// Everything that one run begins with; the session that represents the run comes first.
#[derive(Debug, Default)]
pub struct RunStart {
    pub sessions: Vec<SessionStart>,
    pub approvals: Vec<Approval>,
}

/// What a run is made from.
#[derive(Debug)]
pub struct RunOrder<'a> {
    pub actor: &'a Actor,
    pub task: &'a StoredDefinition<Task>,
    pub input: Option<Json>,
    /// The dimensions of the task's first criteria set.
    pub criteria: Vec<Dimension>,
    /// The entities that the run may write.
    pub writes: Option<WriteGrant>,
    pub now: Timestamp,
    pub ids: &'a dyn IdSource,
}

/// Starts a task: one session, or a parent with a child for each step.
pub fn trigger(order: &RunOrder<'_>) -> Result<RunStart> {
    let task = &order.task.value;
    if task.status != TaskStatus::Active {
        return Err(Conflict::TaskNotActive { status: task.status.as_str() }.into());
    }
    let input = overlaid(task.input.as_ref(), order.input.as_ref());
    let mut starts = RunStart::default();
    if task.steps.is_empty() {
        let run = contract(order, task.output.clone(), true);
        let doer = Doer { agent: task.agent_slug.as_deref(), person: task.assigned_to.as_deref() };
        let new = session(order, SessionId::drawn(order.ids), doer, input);
        begin(&mut starts, new, run, doer.starts_as(), &task.name, order.now, order.ids)?;
        return Ok(starts);
    }
    let parent_id = SessionId::drawn(order.ids);
    let parent = session(order, parent_id.clone(), Doer { agent: None, person: None }, input.clone());
    let mut run = contract(order, None, false);
    run.on_child_failure = Some(task.on_child_failure);
    begin(&mut starts, parent, run, Status::Running, &task.name, order.now, order.ids)?;
    for step in &task.steps {
        let (new, run) = child(order, step, &parent_id, input.as_ref());
        let doer = Doer { agent: step.agent_slug.as_deref(), person: step.assigned_to.as_deref() };
        let status = if step.depends_on.is_empty() { doer.starts_as() } else { Status::Draft };
        begin(
            &mut starts,
            new,
            run,
            status,
            step.name.as_deref().unwrap_or(&step.key),
            order.now,
            order.ids,
        )?;
    }
    Ok(starts)
}

/// Whether a session is the parent of a graph of steps.
pub fn is_graph(session: &Session) -> bool {
    Run::of(session).on_child_failure.is_some()
}

/// A new run of a graph in which a step failed: completed steps are taken over, the rest is done again.
pub fn again(
    actor: &Actor,
    failed: &Session,
    parent: &Session,
    children: &[Session],
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<RunStart> {
    if !parent.head.status.is_terminal() {
        let refused = Conflict::InvalidTransition { from: parent.head.status, to: Status::Pending };
        return Err(refused.into());
    }
    let mut starts = RunStart::default();
    // Both refuse a session that has not failed.
    let mut fresh = retry(actor, failed, ids)?;
    if failed.id != parent.id {
        fresh = of_former(actor, parent, ids);
    }
    let parent_id = fresh.id.clone();
    let title = |session: &Session| session.details.title.as_deref().unwrap_or_default().to_owned();
    begin(&mut starts, fresh, Run::of(parent).afresh(actor), Status::Running, &title(parent), now, ids)?;
    let done = |key: &String| {
        children.iter().any(|child| {
            child.head.status == Status::Completed && Run::of(child).step.is_some_and(|step| step.key == *key)
        })
    };
    for child in children {
        let run = Run::of(child).afresh(actor);
        let Some(step) = run.step.clone() else { continue };
        let mut new = of_former(actor, child, ids);
        new.details.parent_id = Some(parent_id.clone());
        new.details.root_id = Some(parent_id.clone());
        let status = if child.head.status == Status::Completed {
            new.details.result.clone_from(&child.details.result);
            new.details.started_at = child.details.started_at;
            new.details.completed_at = child.details.completed_at;
            Status::Completed
        } else if step.depends_on.iter().all(done) {
            if child.details.agent_slug.is_some() { Status::Pending } else { Status::WaitingHuman }
        } else {
            Status::Draft
        };
        begin(&mut starts, new, run, status, &title(child), now, ids)?;
    }
    Ok(starts)
}

/// A session like another, without any progress.
fn of_former(actor: &Actor, former: &Session, ids: &dyn IdSource) -> NewSession {
    let mut head = Head::blank(
        Incarnation::drawn(ids),
        former.head.session_type,
        Status::Draft,
        former.head.holder.clone(),
    );
    head.is_external = former.head.is_external;
    head.priority = former.head.priority;
    let old = &former.details;
    NewSession {
        id: SessionId::drawn(ids),
        head,
        details: Details {
            task_id: old.task_id.clone(),
            agent_slug: old.agent_slug.clone(),
            entity_id: old.entity_id.clone(),
            retry_of: Some(former.id.clone()),
            input: old.input.clone(),
            metadata: old.metadata.clone(),
            memory_mode: old.memory_mode,
            ..Details::blank(SessionSource::direct(actor.surface, false))
        },
        participants: former.participants.clone(),
        fork_of: None,
    }
}

/// Who does the work.
#[derive(Clone, Copy)]
struct Doer<'a> {
    agent: Option<&'a str>,
    person: Option<&'a str>,
}

impl Doer<'_> {
    /// Work for an agent is queued; a person's waits for the person.
    const fn starts_as(self) -> Status {
        if self.agent.is_none() && self.person.is_some() { Status::WaitingHuman } else { Status::Pending }
    }
}

fn contract(order: &RunOrder<'_>, output: Option<OutputContract>, judged: bool) -> Run {
    let task = &order.task.value;
    Run {
        task_slug: Some(task.slug.clone()),
        description: task.description.clone(),
        triggered_by: BridgePerson::of(order.actor),
        writes: order
            .writes
            .clone()
            .filter(|_| output.as_ref().is_some_and(|output| output.kind.writes_entities())),
        output,
        requires_approval: judged && task.requires_approval,
        criteria: if judged { order.criteria.clone() } else { Vec::new() },
        assigned_to: task
            .assigned_to
            .clone()
            .or_else(|| order.task.created_by.as_ref().map(ToString::to_string)),
        approval: task.approval,
        limits: task.limits,
        ..Run::default()
    }
}

fn child(
    order: &RunOrder<'_>,
    step: &TaskStep,
    parent: &SessionId,
    input: Option<&Json>,
) -> (NewSession, Run) {
    let task = &order.task.value;
    let doer = Doer { agent: step.agent_slug.as_deref(), person: step.assigned_to.as_deref() };
    let mut new = session(order, SessionId::drawn(order.ids), doer, overlaid(input, step.input.as_ref()));
    new.details.parent_id = Some(parent.clone());
    new.details.root_id = Some(parent.clone());
    // The task's own contract is kept by the steps that nothing follows.
    let last = !task.steps.iter().any(|other| other.depends_on.contains(&step.key));
    let output = step.output.clone().or_else(|| task.output.clone().filter(|_| last));
    let mut run = contract(order, output, last);
    run.step =
        Some(StepOf { key: step.key.clone(), name: step.name.clone(), depends_on: step.depends_on.clone() });
    if let Some(person) = &step.assigned_to {
        run.assigned_to = Some(person.clone());
    }
    (new, run)
}

fn session(order: &RunOrder<'_>, id: SessionId, doer: Doer<'_>, input: Option<Json>) -> NewSession {
    let task = &order.task.value;
    let actor = order.actor;
    let mut head =
        Head::blank(Incarnation::drawn(order.ids), SessionType::Agent, Status::Draft, actor.user.clone());
    head.priority = task.priority;
    let mut participants: Vec<UserId> = [doer.person, task.assigned_to.as_deref()]
        .into_iter()
        .flatten()
        .map(UserId::stored)
        .chain(actor.user.clone())
        .chain(order.task.created_by.clone())
        .collect();
    participants.sort_unstable();
    participants.dedup();
    NewSession {
        id,
        head,
        details: Details {
            task_id: Some(order.task.id.clone()),
            agent_slug: doer.agent.map(Into::into),
            entity_id: task.entity_id.as_deref().map(Into::into),
            input,
            ..Details::blank(SessionSource::direct(actor.surface, false))
        },
        participants,
        fork_of: None,
    }
}

/// Adds a session to the starts, with its status, its first event and, if a person does it, the entry in that
/// person's inbox.
fn begin(
    starts: &mut RunStart,
    mut new: NewSession,
    mut run: Run,
    status: Status,
    title: &str,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<()> {
    new.head.status = status;
    new.details.title = Some(title.into());
    if status == Status::Running {
        new.details.started_at = Some(now);
    }
    let mut events = vec![created_event(&new)?];
    if status == Status::WaitingHuman {
        let question = human_step(title, &run, new.details.input.as_ref())?;
        let (approval, event) = ask(&new.id, new.details.task_id.as_deref(), &mut run, question, now, ids)?;
        starts.approvals.push(approval);
        events.push(event);
    }
    new.details.run = Some(run.to_json()?);
    starts.sessions.push(SessionStart { new, events });
    Ok(())
}

/// What the person who does a step is asked.
pub fn human_step(title: &str, run: &Run, input: Option<&Json>) -> Result<ApprovalQuestion> {
    let mut staged = json!({"text": title, "step": run.step.as_ref().map(|step| &step.key)});
    if let Some(description) = &run.description {
        staged["description"] = description.as_str().into();
    }
    if let Some(input) = input {
        staged["input"] = input.value();
    }
    if let Some(denial) = run.denials.last() {
        staged["denied"] = json!({"by": denial.by, "reason": denial.reason});
    }
    if let Some(schema) = run.output.as_ref().and_then(|output| output.schema.as_ref()) {
        staged["schema"] = schema.value();
    }
    Ok(ApprovalQuestion {
        kind: approval::ApprovalKind::Question,
        staged: Json::of(&staged)?,
        verdict: GateVerdict::default(),
    })
}

/// Fields of one object over those of another; anything else replaces.
fn overlaid(under: Option<&Json>, over: Option<&Json>) -> Option<Json> {
    match (under, over) {
        (Some(under), Some(over)) if under.is_object() && over.is_object() => {
            let mut fields = under.fields();
            for (key, value) in over.fields() {
                fields.retain(|(kept, _)| *kept != key);
                fields.push((key, value));
            }
            Some(Json::object(fields.iter().map(|(key, value)| (key.as_str(), value))))
        }
        (under, over) => over.or(under).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Actor;
    use crate::ids::CountedIds;
    use crate::session::SourceKind;

    #[test]
    fn the_same_order_with_the_same_ids_starts_the_same_run() {
        let steps = r#"[{"key":"a","agent_slug":"x"},{"key":"b","assigned_to":"ann"}]"#;
        let value = Json::parse(format!(r#"{{"slug":"t","name":"T","steps":{steps}}}"#).as_bytes()).unwrap();
        let task = StoredDefinition {
            id: "t".into(),
            value: value.read::<Task>().unwrap(),
            version: 1,
            created_by: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        let actor = Actor::local(SourceKind::Api);
        let started = || {
            let (input, now) = (None, Timestamp::default());
            let ids = &CountedIds::default();
            trigger(&RunOrder {
                actor: &actor,
                task: &task,
                input,
                criteria: Vec::new(),
                writes: None,
                now,
                ids,
            })
            .unwrap()
        };
        assert_eq!(format!("{:?}", started()), format!("{:?}", started()));
        assert_eq!((started().sessions.len(), started().approvals.len()), (3, 1));
    }
}
