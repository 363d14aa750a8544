//! Commands on tool sessions: starting one, filling it in, invoking and cancelling it, showing it; and the calls that
//! agents make.

use smallvec::smallvec;
use uuid::Uuid;

use super::{CommandOutcome, Decided, Engine};
use crate::access::{Actor, Role};
use crate::definitions::bundle::NamedDefinition;
use crate::definitions::tool::ToolAction;
use crate::definitions::{Agent, DefinitionKind, StoredDefinition, Task, ToolDefinition, agent};
use crate::error::{Error, Result};
use crate::ids::{SessionId, TenantId};
use crate::json::Json;
use crate::json_schema;
use crate::limits;
use crate::session::query::{ListCursor, Page, SessionQuery, TypeFilter};
use crate::session::{Session, SessionSource, SessionType, StatusSet};
use crate::store::{Change, ChangePart, Guard, IdemKey, KeyNote, PartTarget, Write};
use crate::tool_session::decide::{self, InvokeStep, NewToolSession};
use crate::tool_session::steps::{self, ToolTree};
use crate::tool_session::values::{self, ValueSchemas};
use crate::tool_session::{Invoker, StoredToolSession, TOOL_SLUG, ToolRun, ToolSessionStep};
use crate::work::queueing::{QueueCause, check_may_queue};
use crate::work::run::Run;
use crate::work::trigger::SessionStart;

/// What a caller wants to start.
#[derive(Clone, Debug, Default)]
pub struct ToolStart {
    pub values: Option<Json>,
    /// The tool session whose values it begins with.
    pub rerun_of: Option<SessionId>,
}

/// Filters of a tool's run history.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolHistory {
    pub statuses: Option<StatusSet>,
    /// Only the caller's own.
    pub mine: bool,
}

impl Engine {
    /// Starts a tool session: a draft of the tool as it is now.
    pub async fn start_tool(
        &self,
        actor: &Actor,
        slug: &str,
        wish: ToolStart,
        key: Option<IdemKey>,
    ) -> Result<StoredToolSession> {
        decide::check_runs_tools(actor)?;
        let tool: StoredDefinition<ToolDefinition> = self.definition(actor, slug).await?;
        let former = match &wish.rerun_of {
            Some(id) => Some(self.shown_tool_session(actor, id).await?),
            None => None,
        };
        if former.as_ref().is_some_and(|former| former.tool.definition.slug != tool.value.slug) {
            return Err(Error::invalid("rerun_of", "is a session of another tool"));
        }
        let before = former.as_ref().and_then(|former| former.session.details.draft_values.clone());
        let (whole, _) = crate::response::decide::merged(before.as_ref(), wish.values.as_ref());
        self.prepare_values(&tool.value).await?;
        for given in wish.values.iter().chain([&whole]) {
            values::check_draft(&tool.value, given)?;
        }
        self.check_secrets_sent(&actor.tenant, &tool.value, &whole)?;
        let drawn = self.ids.ordered();
        let new = NewToolSession {
            id: SessionId::stored(drawn.to_string()),
            holder: actor.user.clone(),
            source: SessionSource::direct(actor.surface, true),
            tool: ToolRun { definition: tool.value, invoked_by: None, step_input: None },
            values: Some(whole),
            retry_of: former.map(|former| former.session.id),
            parent: None,
            step: None,
        };
        let key = key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key });
        let change = Change::new(actor.tenant.clone()).part(new_part(new.made(&*self.ids)?)).keyed(key);
        let done = self.commit(change).await?;
        let id = done.replay.as_ref().and_then(|replay| replay.note).map_or(drawn, |note| note.0);
        self.shown_tool_session(actor, &SessionId::stored(id.to_string())).await
    }

    /// A tool session, for its holder and owners.
    pub async fn tool_session(&self, actor: &Actor, id: &SessionId) -> Result<StoredToolSession> {
        decide::check_runs_tools(actor)?;
        self.shown_tool_session(actor, id).await
    }

    /// The sessions of a tool, newest activity first: all of them for owners, their own for members.
    pub async fn tool_sessions(
        &self,
        actor: &Actor,
        slug: &str,
        filter: ToolHistory,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Page<StoredToolSession>> {
        decide::check_runs_tools(actor)?;
        super::sessions::check_limit(limit)?;
        let tool: StoredDefinition<ToolDefinition> = self.definition(actor, slug).await?;
        let only_own = filter.mine || actor.role != Role::Owner;
        let query = SessionQuery {
            status: filter.statuses,
            user_id: actor.user.clone().filter(|_| only_own),
            metadata: vec![(TOOL_SLUG.to_owned(), tool.value.slug)],
            inactive: Some(false),
            after,
            ..SessionQuery::of(TypeFilter::Only(SessionType::Tool), limit)
        };
        let page = self.tenant.sessions(&actor.tenant, query).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for session in page.items {
            items.push(self.with_steps(session).await?);
        }
        Ok(Page { items, next: page.next })
    }

    /// Saves values into the caller's own tool session.
    pub async fn fill_tool(
        &self,
        actor: &Actor,
        id: &SessionId,
        values: &Json,
        version: Option<u64>,
    ) -> Result<StoredToolSession> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let target = self.own_tool_session(actor, id).await?;
                    self.prepare_values(&target.tool.definition).await?;
                    let Some(step) = decide::fill(&target.session, values, version)? else {
                        return Ok(Decided::Nothing(Box::new(target)));
                    };
                    self.check_secrets_sent(&actor.tenant, &target.tool.definition, values)?;
                    Ok(Decided::change(self.change_for(&target.session, step).await?))
                })
            })
            .await?;
        match done {
            CommandOutcome::Nothing(kept) => Ok(*kept),
            CommandOutcome::Done(..) => self.shown_tool_session(actor, id).await,
        }
    }

    /// Invokes the caller's own tool session with these values over those that were filled in.
    pub async fn invoke_tool(
        &self,
        actor: &Actor,
        id: &SessionId,
        values: Option<&Json>,
        key: Option<IdemKey>,
    ) -> Result<StoredToolSession> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let target = self.own_tool_session(actor, id).await?;
                    let (step, parts) = self.invocation(&target.session, values, Invoker::of(actor)).await?;
                    let mut change = self.change_for(&target.session, step).await?;
                    join(&mut change, parts);
                    Ok(Decided::<()>::change(change.keyed(key)))
                })
            })
            .await;
        self.or_replayed(actor, key, done).await?;
        self.shown_tool_session(actor, id).await
    }

    /// Cancels the caller's own tool session, at once.
    pub async fn cancel_tool(
        &self,
        actor: &Actor,
        id: &SessionId,
        key: Option<IdemKey>,
    ) -> Result<StoredToolSession> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let target = self.own_tool_session(actor, id).await?;
                    let step = decide::cancel(&target.session, "cancelled")?;
                    Ok(Decided::<()>::change(self.change_for(&target.session, step).await?.keyed(key)))
                })
            })
            .await;
        self.or_replayed(actor, key, done).await?;
        self.shown_tool_session(actor, id).await
    }

    /// Starts the child of a session whose agent calls a tool, invoked with these arguments: one commit. The same call
    /// again finds the same child.
    pub async fn call_tool(
        &self,
        caller: &Session,
        slug: &str,
        args: &Json,
        call_key: &str,
    ) -> Result<Session> {
        let tenant = &caller.tenant;
        if caller.details.memory_mode == crate::session::MemoryMode::Incognito {
            return Err(Error::denied("an incognito conversation runs no tool that keeps a session"));
        }
        let id = child_id(caller, call_key);
        if let Some(made) = self.sessions.session(tenant, &id).await? {
            return Ok(made);
        }
        let definition = self.tool_named(tenant, slug).await?;
        let by = self.invoker_of(caller).await?;
        let root = caller.details.root_id.clone().unwrap_or_else(|| caller.id.clone());
        let new = NewToolSession {
            id: id.clone(),
            holder: caller.head.holder.clone(),
            source: SessionSource::direct(crate::session::SourceKind::Api, false),
            tool: ToolRun { definition, invoked_by: None, step_input: None },
            values: None,
            retry_of: None,
            parent: Some((caller.id.clone(), root)),
            step: None,
        };
        let now = self.tenant.now().await?;
        let mut start = new.made(&*self.ids)?;
        let drafted = start.new.clone().made(tenant.clone(), start.new.head.clone(), now);
        let (step, parts) = self.invocation(&drafted, Some(args), by).await?;
        steps::begin_with(&mut start, step, now);
        let mut change = Change::new(tenant.clone()).part(new_part(start));
        join(&mut change, parts);
        match self.try_commit(change).await {
            Ok(_) | Err(crate::store::Refusal::Stale) => {
                self.sessions.session(tenant, &id).await?.ok_or(Error::NotFound)
            }
            Err(crate::store::Refusal::Rejected(error)) => Err(error),
        }
    }

    /// A tool of a tenant, for an agent that calls it.
    pub async fn tool_named(&self, tenant: &TenantId, slug: &str) -> Result<ToolDefinition> {
        let doc = self.tenant.doc(tenant, DefinitionKind::Tool, slug).await?.ok_or(Error::NotFound)?;
        StoredDefinition::of(&doc).map(|tool| tool.value)
    }

    /// A session that an agent's call has started, as it is now.
    pub async fn called_session(&self, child: &Session) -> Result<Session> {
        self.sessions.session(&child.tenant, &child.id).await?.ok_or(Error::NotFound)
    }

    /// Cancels the child that an agent's call has started, unless it has ended.
    pub async fn cancel_call(&self, child: &Session, reason: &str) -> Result<()> {
        self.decide_and_commit(|| {
            Box::pin(async {
                let session = self.called_session(child).await?;
                if session.head.status.is_terminal() {
                    return Ok(Decided::Nothing(()));
                }
                let step = decide::cancel(&session, reason)?;
                Ok(Decided::change(self.change_for(&session, step).await?))
            })
        })
        .await
        .map(drop)
    }

    /// The person for whom an agent calls a tool: the holder of its session, with the rights that this person has now. A
    /// session without a holder was started without a user, which only owners do.
    async fn invoker_of(&self, caller: &Session) -> Result<Invoker> {
        let Some(holder) = &caller.head.holder else {
            return Ok(Invoker { user: None, is_owner: true });
        };
        let is_owner = self.is_owner_now(&caller.tenant, holder).await?;
        Ok(Invoker { user: Some(holder.to_string()), is_owner })
    }

    /// The step that invokes a tool session, and everything that it starts. Refuses before anything is written.
    async fn invocation(
        &self,
        session: &Session,
        given: Option<&Json>,
        by: Invoker,
    ) -> Result<(crate::session::decide::SessionStep, Change)> {
        self.prepare_values(&decide::tool_of(session)?.definition).await?;
        let InvokeStep { mut step, tool, values } = decide::invoke(session, given, by.clone())?;
        self.check_secrets_sent(&session.tenant, &tool.definition, &values)?;
        let mut parts = Change::new(session.tenant.clone());
        let tree = self.tool_tree(&session.tenant, &tool.definition, &[]).await?;
        self.check_task_rights(&session.tenant, &tree, &by).await?;
        let events = self.start_new_steps(&mut parts, session, Some(&values), &tree, &by).await?;
        step.events.extend(events);
        Ok((step, parts))
    }

    /// Refuses an invocation of tasks that the invoker may not start.
    async fn check_task_rights(&self, tenant: &TenantId, tree: &ToolTree, by: &Invoker) -> Result<()> {
        let actor = by.actor(tenant);
        for name in tree.tasks() {
            check_may_queue(&actor, QueueCause::Task(&self.task_named(tenant, name).await?))?;
        }
        Ok(())
    }

    pub(super) async fn task_named(&self, tenant: &TenantId, name: &str) -> Result<StoredDefinition<Task>> {
        let doc = self.tenant.doc(tenant, DefinitionKind::Task, name).await?;
        let doc = doc.ok_or_else(|| Error::invalid("run.task", format!("there is no task `{name}`")))?;
        StoredDefinition::of(&doc)
    }

    /// A tool with the tools of its steps. `given` are tools that count instead of those that are stored.
    pub(super) async fn tool_tree(
        &self,
        tenant: &TenantId,
        tool: &ToolDefinition,
        given: &[ToolDefinition],
    ) -> Result<ToolTree> {
        let tree = self.nested_tree(tenant, tool, given, &mut vec![tool.slug.clone()]).await?;
        tree.check()?;
        Ok(tree)
    }

    /// `path` are the tools around this one, and itself.
    fn nested_tree<'a>(
        &'a self,
        tenant: &'a TenantId,
        tool: &'a ToolDefinition,
        given: &'a [ToolDefinition],
        path: &'a mut Vec<String>,
    ) -> futures_util::future::BoxFuture<'a, Result<ToolTree>> {
        Box::pin(async move {
            let mut tree = ToolTree { definition: tool.clone(), steps: Vec::new() };
            if !tool.steps().is_empty() && path.len() > limits::TOOL_NESTING_MAX {
                let rule = format!(
                    "nested too deeply: {}; at most {} tools with steps inside each other",
                    path.join(" → "),
                    limits::TOOL_NESTING_MAX
                );
                return Err(Error::invalid("run.steps", rule));
            }
            for (n, step) in tool.steps().iter().enumerate() {
                if path.contains(&step.tool) {
                    let rule = format!("goes round in a circle: {} → {}", path.join(" → "), step.tool);
                    return Err(Error::invalid(format!("run.steps[{n}].tool"), rule));
                }
                let stored = match given.iter().find(|known| known.slug == step.tool) {
                    Some(known) => known.clone(),
                    None => {
                        let doc = self.tenant.doc(tenant, DefinitionKind::Tool, &step.tool).await?;
                        let doc = doc.ok_or_else(|| {
                            let rule = format!("there is no tool `{}`", step.tool);
                            Error::invalid(format!("run.steps[{n}].tool"), rule)
                        })?;
                        StoredDefinition::<ToolDefinition>::of(&doc)?.value
                    }
                };
                path.push(step.tool.clone());
                tree.steps.push(self.nested_tree(tenant, &stored, given, path).await?);
                path.pop();
                // Refused while it is built, so that a small definition cannot ask for a large tree.
                tree.check()?;
            }
            Ok(tree)
        })
    }

    /// Refuses a tool that names tools, tasks or hosts for secrets that do not exist. `tools` and `tasks` are defined with
    /// it.
    pub(super) async fn check_tool_references(
        &self,
        actor: &Actor,
        tool: &ToolDefinition,
        tools: &[ToolDefinition],
        tasks: &[NamedDefinition<Task>],
    ) -> Result<()> {
        self.tool_tree(&actor.tenant, tool, tools).await?;
        if let ToolAction::Task(action) = &tool.run
            && !tasks.iter().any(|task| task.id == action.task || task.value.slug == action.task)
        {
            self.named_by("run.task", actor, DefinitionKind::Task, &action.task).await?;
        }
        let (host, secrets) = (tool.secrets_go_to(), tool.header_secrets());
        self.secret_hosts.get().map_or(Ok(()), |known| {
            known.check_sent(&actor.tenant, "run.headers", host.as_deref(), secrets.into_iter())
        })
    }

    /// Refuses an agent that names a tool that does not exist.
    pub(super) async fn check_tools_of_agent(
        &self,
        actor: &Actor,
        agent: &Agent,
        tools: &[ToolDefinition],
    ) -> Result<()> {
        for tool in &agent.tools {
            if let agent::Tool::Tool(named) = tool
                && !tools.iter().any(|known| known.slug == named.slug)
            {
                self.named_by("tools.slug", actor, DefinitionKind::Tool, &named.slug).await?;
            }
        }
        Ok(())
    }

    /// Refuses values that name a secret which the operator has not declared for the tenant, or not for this tool's
    /// server. Where nothing is declared here, the run says that it is missing.
    fn check_secrets_sent(&self, tenant: &TenantId, tool: &ToolDefinition, values: &Json) -> Result<()> {
        let Some(known) = self.secret_hosts.get() else { return Ok(()) };
        for (field, secret) in values::secrets_named(tool, values) {
            let place = format!("values.{field}");
            if !known.has(tenant, &secret) {
                return Err(Error::invalid(
                    place,
                    format!("names the secret `{secret}`, which is not declared"),
                ));
            }
            if let Some(host) = tool.secrets_go_to() {
                known.check_sent(tenant, &place, Some(&host), std::iter::once(secret.as_str()))?;
            }
        }
        Ok(())
    }

    pub(super) async fn prepare_values(&self, tool: &ToolDefinition) -> Result<()> {
        let ValueSchemas { whole, draft } = ValueSchemas::of(tool)?;
        json_schema::prepare([&whole, &draft]).await;
        Ok(())
    }

    async fn shown_tool_session(&self, actor: &Actor, id: &SessionId) -> Result<StoredToolSession> {
        let session = self.sessions.session(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
        decide::check_shown(actor, &session)?;
        self.with_steps(session).await
    }

    /// A tool session that the caller fills, invokes and cancels.
    async fn own_tool_session(&self, actor: &Actor, id: &SessionId) -> Result<StoredToolSession> {
        decide::check_runs_tools(actor)?;
        let target = self.shown_tool_session(actor, id).await?;
        match decide::is_own(actor, &target.session) {
            true => Ok(target),
            false => Err(Error::denied("only the person who started a tool session fills and runs it")),
        }
    }

    async fn with_steps(&self, session: Session) -> Result<StoredToolSession> {
        let tool = decide::tool_of(&session)?;
        let mut steps = Vec::new();
        if decide::is_composed(&tool.definition) && tool.invoked_by.is_some() {
            for child in self.children_of(&session).await? {
                if let Some(step) = Run::of(&child).step {
                    steps.push(ToolSessionStep { key: step.key, session: child });
                }
            }
        }
        // In the order in which the tool names them.
        let place = |key: &str| tool.definition.steps().iter().position(|step| step.key == key);
        steps.sort_by_key(|step| place(&step.key));
        Ok(StoredToolSession { session, tool, steps })
    }
}

/// The id of the session that a call starts: the same for every worker that makes the call.
fn child_id(caller: &Session, call_key: &str) -> SessionId {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in [b"tool call".as_slice(), caller.head.incarnation.0.as_bytes(), call_key.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    SessionId::stored(Uuid::from_u128(u128::from_be_bytes(bytes)).to_string())
}

/// The part that makes a session.
pub(super) fn new_part(start: SessionStart) -> ChangePart {
    ChangePart {
        on: PartTarget::New(Box::new(start.new)),
        guard: Guard::default(),
        writes: smallvec![Write::Append(start.events)],
    }
}

/// Adds what another change writes.
pub(super) fn join(change: &mut Change, other: Change) {
    change.parts.extend(other.parts);
    change.records.extend(other.records);
    change.milestones.extend(other.milestones);
}
