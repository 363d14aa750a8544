//! Commands on tasks: starting one, reading its progress, and the sessions of an entity.

use std::collections::HashMap;

use futures_util::future::try_join;
use smallvec::smallvec;
use uuid::Uuid;

use super::Engine;
use super::sessions::check_limit;
use crate::access::{Actor, Role};
use crate::definitions::criteria::Dimension;
use crate::definitions::{CriteriaSet, DefinitionKind, Entity, StoredDefinition, Task};
use crate::error::{Error, Result};
use crate::event::{Event, EventQuery};
use crate::ids::{SessionId, TenantId, UserId};
use crate::json::Json;
use crate::limits;
use crate::response::ResponseRow;
use crate::session::block::{SessionBlock, TaskStatusMap, block_of, build_task_status_map};
use crate::session::query::{ListCursor, Page, SessionQuery, TypeFilter};
use crate::session::{Session, SessionType, Status};
use crate::store::{Change, ChangePart, Guard, IdemKey, KeyNote, NewSession, PartTarget, Record, Write};
use crate::time::Timestamp;
use crate::work::milestone::Milestone;
use crate::work::queueing::{QueueCause, check_may_queue};
use crate::work::run::Run;
use crate::work::trigger::{self, RunOrder, RunStart};
use crate::work::write_grant::{self, WriteGrant};

/// The progress of a task.
#[derive(Clone, Debug)]
pub struct TaskStanding {
    pub task: StoredDefinition<Task>,
    pub session: Option<Session>,
    pub duration_ms: Option<i64>,
    /// The newest events of that session, oldest first.
    pub events: Vec<Event>,
}

/// A session about an entity, with what a list shows beside it.
#[derive(Clone, Debug)]
pub struct EntitySession {
    pub session: Session,
    pub task: Option<StoredDefinition<Task>>,
    pub duration_ms: Option<i64>,
    pub child_count: usize,
}

/// Events that [`TaskStanding`] shows.
const RECENT_EVENTS: usize = 10;

impl Engine {
    /// Starts a task.
    pub async fn trigger(
        &self,
        actor: &Actor,
        name: &str,
        input: Option<Json>,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        let (task, now) = try_join(self.definition::<Task>(actor, name), self.tenant.now()).await?;
        check_may_queue(actor, QueueCause::Task(&task))?;
        if input.as_ref().is_some_and(|input| input.len() > limits::EVENT_BYTES_MAX) {
            return Err(Error::TooLarge { what: "input", limit: limits::EVENT_BYTES_MAX });
        }
        let starts = self.run_of_task(actor, &task, input, now).await?;
        self.start(actor, starts, key).await
    }

    /// The sessions of a run of a task that this caller may start.
    pub(super) async fn run_of_task(
        &self,
        actor: &Actor,
        task: &StoredDefinition<Task>,
        input: Option<Json>,
        now: Timestamp,
    ) -> Result<RunStart> {
        let (criteria, outside) =
            try_join(self.criteria_of(actor, &task.value), self.agents_outside(actor, &task.value)).await?;
        let writes = self.right_to_write(actor, task, input.as_ref()).await?;
        let mut starts =
            trigger::trigger(&RunOrder { actor, task, input, criteria, writes, now, ids: &*self.ids })?;
        for start in &mut starts.sessions {
            let agent = start.new.details.agent_slug.as_deref();
            start.new.head.is_external = agent.is_some_and(|agent| outside.iter().any(|one| one == agent));
        }
        Ok(starts)
    }

    /// The grant of a run that this caller starts now. Refuses a task that writes entities which the caller may not
    /// have written.
    pub(super) async fn right_to_write(
        &self,
        actor: &Actor,
        task: &StoredDefinition<Task>,
        input: Option<&Json>,
    ) -> Result<Option<WriteGrant>> {
        let asks_maker = actor.role != Role::Owner
            && task.value.writes.is_none()
            && WriteGrant::needed_by(&task.value).is_some();
        let made_by_owner = asks_maker && self.is_made_by_owner(&actor.tenant, task).await?;
        write_grant::frozen(actor, &task.value, made_by_owner, input)
    }

    /// Whether the maker of a task is an owner now. Only owners define without a user; a user has the role of its
    /// row, or of its keys without a row.
    pub(super) async fn is_made_by_owner(
        &self,
        tenant: &TenantId,
        task: &StoredDefinition<Task>,
    ) -> Result<bool> {
        match &task.created_by {
            Some(maker) => self.is_owner_now(tenant, maker).await,
            None => Ok(true),
        }
    }

    /// Whether a user is an owner now, by the user's row, or by a live owner's key where there is no row.
    pub(super) async fn is_owner_now(&self, tenant: &TenantId, maker: &UserId) -> Result<bool> {
        if let Some(user) = self.tenant.user(tenant, maker).await? {
            return Ok(user.role == Role::Owner && !user.suspended && user.merged_into.is_none());
        }
        let (keys, now) = try_join(self.tenant.keys(tenant), self.tenant.now()).await?;
        Ok(keys.iter().any(|key| {
            key.user.as_ref() == Some(maker)
                && key.role == Role::Owner
                && key.revoked_at.is_none()
                && key.expires_at.is_none_or(|end| end > now)
        }))
    }

    /// The task that a session runs, as the task is now, if it still exists.
    pub(super) async fn task_of(&self, session: &Session) -> Result<Option<StoredDefinition<Task>>> {
        let Some(id) = &session.details.task_id else { return Ok(None) };
        let doc = self.tenant.doc(&session.tenant, DefinitionKind::Task, id).await?;
        doc.filter(|doc| doc.id == *id).as_ref().map(StoredDefinition::of).transpose()
    }

    /// Makes the sessions of a run in one commit. Returns the one that represents the run.
    async fn start(&self, actor: &Actor, starts: RunStart, key: Option<IdemKey>) -> Result<Session> {
        let (change, first) = starting(actor, starts)?;
        let drawn = Uuid::parse_str(first.id.as_str()).map_err(Error::internal)?;
        let key = key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key });
        let done = self.commit(change.keyed(key)).await?;
        if let (None, Some(made)) = (&done.replay, done.parts.first()) {
            return Ok(first.made(actor.tenant.clone(), made.head.clone(), done.at));
        }
        let id = done.replay.as_ref().and_then(|replay| replay.note).map_or(drawn, |note| note.0);
        self.session_after(actor, &SessionId::stored(id.to_string()), &done).await
    }

    /// The agents of a task whose model runs outside Sederunt.
    async fn agents_outside(&self, actor: &Actor, task: &Task) -> Result<Vec<String>> {
        let of_steps = task.steps.iter().filter_map(|step| step.agent_slug.clone());
        let mut slugs: Vec<String> = task.agent_slug.iter().cloned().chain(of_steps).collect();
        slugs.sort_unstable();
        slugs.dedup();
        let mut outside = Vec::new();
        for slug in slugs {
            if self.runs_outside(&actor.tenant, &slug).await? {
                outside.push(slug);
            }
        }
        Ok(outside)
    }

    async fn criteria_of(&self, actor: &Actor, task: &Task) -> Result<Vec<Dimension>> {
        let Some(id) = task.criteria_set_ids.first() else { return Ok(Vec::new()) };
        let doc =
            self.tenant.doc(&actor.tenant, DefinitionKind::CriteriaSet, id).await?.ok_or_else(|| {
                Error::invalid("criteria_set_ids", format!("there is no criteria set `{id}`"))
            })?;
        Ok(StoredDefinition::<CriteriaSet>::of(&doc)?.value.dimensions)
    }

    /// The progress of a task's newest run.
    pub async fn task_standing(&self, actor: &Actor, name: &str) -> Result<TaskStanding> {
        let task: StoredDefinition<Task> = self.definition(actor, name).await?;
        let query = SessionQuery {
            task_id: Some(task.id.to_string()),
            parents_only: true,
            without_bridges: true,
            inactive: Some(false),
            ..SessionQuery::of(TypeFilter::All, 1)
        };
        let session = self.sessions(actor, query).await?.items.into_iter().next();
        let (mut events, mut duration_ms) = (Vec::new(), None);
        if let Some(session) = &session {
            let newest = EventQuery { newest_first: true, limit: RECENT_EVENTS, ..EventQuery::default() };
            events = self.sessions.events(&actor.tenant, &session.id, newest).await?.events;
            events.reverse();
            duration_ms = duration_of(session, self.tenant.now().await?);
        }
        Ok(TaskStanding { task, session, duration_ms, events })
    }

    /// The sessions about an entity, newest first.
    pub async fn entity_sessions(
        &self,
        actor: &Actor,
        entity_id: &str,
        parents_only: bool,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Page<EntitySession>> {
        check_limit(limit)?;
        let entity: StoredDefinition<Entity> = self.definition(actor, entity_id).await?;
        let query = SessionQuery {
            entity_id: Some(entity.id.to_string()),
            parents_only,
            inactive: Some(false),
            after,
            ..SessionQuery::of(TypeFilter::All, limit)
        };
        let page = self.sessions(actor, query).await?;
        let now = self.tenant.now().await?;
        let mut tasks: Vec<StoredDefinition<Task>> = Vec::new();
        let mut items = Vec::with_capacity(page.items.len());
        for session in page.items {
            let mut task = None;
            if let Some(id) = &session.details.task_id {
                task = tasks.iter().find(|task| task.id == *id).cloned();
                if task.is_none()
                    && let Some(doc) = self.tenant.doc(&actor.tenant, DefinitionKind::Task, id).await?
                {
                    task = Some(StoredDefinition::of(&doc)?);
                    tasks.extend(task.clone());
                }
            }
            // Children have no children of their own.
            let child_count = match session.details.parent_id {
                Some(_) => 0,
                None => self.children_of(&session).await?.len(),
            };
            let duration_ms = duration_of(&session, now);
            items.push(EntitySession { session, task, duration_ms, child_count });
        }
        Ok(Page { items, next: page.next })
    }

    /// The status of each field and each block of an entity, by the newest of its sessions that works on it. Sessions in
    /// which a person notes what they look at do not count. The store is read a fixed number of times.
    pub async fn entity_status_map(&self, actor: &Actor, entity_id: &str) -> Result<TaskStatusMap> {
        let entity: StoredDefinition<Entity> = self.definition(actor, entity_id).await?;
        let query = SessionQuery {
            entity_id: Some(entity.id.to_string()),
            inactive: Some(false),
            ..SessionQuery::of(TypeFilter::All, limits::STATUS_MAP_SESSIONS_MAX)
        };
        let mut sessions = self.sessions(actor, query).await?.items;
        sessions.retain(|session| !session.head.is_bridge);
        let is_response = |session: &&Session| session.head.session_type == SessionType::Response;
        let responses: Vec<SessionId> =
            sessions.iter().filter(is_response).map(|session| session.id.clone()).collect();
        let rows = match responses.is_empty() {
            true => Vec::new(),
            false => self.sessions.response_rows(&actor.tenant, &responses).await?,
        };
        let of_contract =
            |session: &Session| Some((session.id.to_string(), Run::of(session).output?.entity_fields()));
        let of_form = |row: ResponseRow| {
            (row.session.to_string(), row.form.response.fields.into_values().collect::<Vec<_>>())
        };
        let fields: HashMap<String, Vec<String>> =
            sessions.iter().filter_map(of_contract).chain(rows.into_iter().map(of_form)).collect();
        let blocks: Vec<Option<String>> =
            sessions.iter().map(|session| block_of(&session.details.metadata)).collect();
        let newest_first: Vec<SessionBlock<'_>> = sessions
            .iter()
            .zip(&blocks)
            .map(|(session, block)| SessionBlock {
                session_id: session.id.as_str(),
                block_id: block.as_deref(),
                status: session.head.status,
            })
            .collect();
        Ok(build_task_status_map(&newest_first, Some(&fields)))
    }
}

/// How long a session ran, or has been running.
pub fn duration_of(session: &Session, now: crate::Timestamp) -> Option<i64> {
    let from = session.details.started_at?;
    let to = session.details.completed_at.or((session.head.status == Status::Running).then_some(now))?;
    Some((to.as_micros() - from.as_micros()) / 1000)
}

/// The change that makes the sessions of a run, and the session that represents it.
pub(super) fn starting(actor: &Actor, starts: RunStart) -> Result<(Change, NewSession)> {
    let mut change = Change::new(actor.tenant.clone());
    let mut first = None;
    for start in starts.sessions {
        first.get_or_insert_with(|| start.new.clone());
        change.milestones.extend(Milestone::begun(&actor.tenant, &start.new));
        change.parts.push(ChangePart {
            on: PartTarget::New(Box::new(start.new)),
            guard: Guard::default(),
            writes: smallvec![Write::Append(start.events)],
        });
    }
    change.records.extend(starts.approvals.into_iter().map(|asked| Record::AddApproval(Box::new(asked))));
    let first = first.ok_or_else(|| Error::internal("a run of nothing"))?;
    Ok((change, first))
}
