//! Commands on definitions: tasks, agents, entities, criteria sets, views; and all of them as a bundle.

use uuid::Uuid;

use super::people::audit;
use super::sessions::check_limit;
use super::{CommandOutcome, Decided, Engine};
use crate::access::{self, Actor, Role, Verb};
use crate::definitions::bundle::NamedDefinition;
use crate::definitions::{
    self, Agent, Bundle, CriteriaSet, Definition, DefinitionDoc, DefinitionKind, DocQuery, Entity, ModelUse,
    StoredDefinition, Task, ToolDefinition, UsedModel, View, check_configures, patched, reader, shows,
};
use crate::error::{Error, Result};
use crate::ids::{check_name, check_text};
use crate::json::Json;
use crate::json_schema;
use crate::limits;
use crate::session::decide::EXTERNAL_AGENT;
use crate::session::query::Page;
use crate::store::{Change, IdemKey, KeyNote, Record};
use crate::time::Timestamp;
use crate::view::SESSION_FACET;

/// Filters of a list of definitions; all given ones must hold.
#[derive(Clone, Debug, Default)]
pub struct DefinitionFilters {
    /// (name, value)
    pub facets: Vec<(&'static str, String)>,
    /// Words in the title, id or slug.
    pub text: Option<String>,
}

/// Agents that exist without a definition.
pub const BUILT_IN_AGENTS: [&str; 2] = ["eliza", EXTERNAL_AGENT];

impl Engine {
    /// Creates a definition. `id` names it where its own text does not.
    pub async fn define<T: Definition>(
        &self,
        actor: &Actor,
        id: Option<&str>,
        wish: T,
        key: Option<IdemKey>,
    ) -> Result<StoredDefinition<T>> {
        check_configures(actor, T::KIND)?;
        let wish = wish.authorized(actor, None)?;
        let drawn = self.ids.ordered();
        let id: Box<str> = match (wish.own_id(), id) {
            (Some(slug), _) => {
                check_name("slug", slug)?;
                slug.into()
            }
            (None, Some(id)) => {
                check_name("id", id)?;
                id.into()
            }
            (None, None) => drawn.to_string().into(),
        };
        let made = StoredDefinition {
            id,
            value: wish,
            version: 0,
            created_by: actor.user.clone(),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        json_schema::prepare(made.value.schemas()).await;
        let doc = made.to_doc()?;
        self.check_references(actor, &doc).await?;
        if self.tenant.doc(&actor.tenant, T::KIND, &made.id).await?.is_some() && key.is_none() {
            return Err(crate::Conflict::AlreadyExists.into());
        }
        let key = key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key });
        let change = Change::new(actor.tenant.clone())
            .record(Record::PutDoc { doc: Box::new(doc), expects: None })
            .audited(audit(actor, T::KIND.audit_actions().created, &made.id))
            .keyed(key);
        let replay = match self.try_commit(change).await {
            Ok(done) => done.replay,
            Err(crate::store::Refusal::Stale) => return Err(crate::Conflict::AlreadyExists.into()),
            Err(crate::store::Refusal::Rejected(error)) => return Err(error),
        };
        let name = match (replay.and_then(|replay| replay.note), made.value.own_id()) {
            (Some(note), None) if made.id.parse::<Uuid>().is_ok_and(|id| id == drawn) => {
                note.0.to_string().into()
            }
            _ => made.id,
        };
        self.definition(actor, &name).await
    }

    /// One definition, by its id or slug.
    pub async fn definition<T: Definition>(&self, actor: &Actor, name: &str) -> Result<StoredDefinition<T>> {
        StoredDefinition::of(&self.readable_definition(actor, T::KIND, name).await?)
    }

    /// A definition that the caller may read, as it is stored.
    pub(super) async fn readable_definition(
        &self,
        actor: &Actor,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<DefinitionDoc> {
        let reader = reader(actor, kind)?;
        let doc = self.tenant.doc(&actor.tenant, kind, name).await?.ok_or(Error::NotFound)?;
        if shows(&doc, reader.as_ref()) { Ok(doc) } else { Err(Error::NotFound) }
    }

    /// A page of definitions, newest first.
    pub async fn definitions<T: Definition>(
        &self,
        actor: &Actor,
        asked: DefinitionFilters,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<StoredDefinition<T>, i64>> {
        check_limit(limit)?;
        let DefinitionFilters { facets, text } = asked;
        if let Some(text) = &text {
            check_text("q", text, limits::QUERY_CHARS_MAX)?;
        }
        let of_user = reader(actor, T::KIND)?;
        let query = DocQuery { kind: T::KIND, facets, text, of_user, after, limit };
        let page = self.tenant.docs(&actor.tenant, query).await?;
        let items = page.items.iter().map(StoredDefinition::of).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Changes a definition: given fields replace, `null` clears.
    pub async fn redefine<T: Definition>(
        &self,
        actor: &Actor,
        name: &str,
        patch: &Json,
        key: Option<IdemKey>,
    ) -> Result<StoredDefinition<T>> {
        check_configures(actor, T::KIND)?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let doc = self.readable_definition(actor, T::KIND, name).await?;
                    let mut defined: StoredDefinition<T> = StoredDefinition::of(&doc)?;
                    let before = doc;
                    let was = defined.value.clone();
                    defined.value = patched(&was, patch)?.authorized(actor, Some(&was))?;
                    json_schema::prepare(defined.value.schemas()).await;
                    let after = defined.to_doc()?;
                    check_may_change(actor, &before, &after)?;
                    if after.body == before.body {
                        return Ok(Decided::Nothing(defined));
                    }
                    self.check_references(actor, &after).await?;
                    let actions = T::KIND.audit_actions();
                    let action = if defined.value.loosens(&was) { actions.loosened } else { actions.changed };
                    let line = audit(actor, action, &before.id);
                    let record = Record::PutDoc { doc: Box::new(after), expects: Some(before.version) };
                    let change = Change::new(actor.tenant.clone()).record(record).audited(line).keyed(key);
                    Ok(Decided::change(change))
                })
            })
            .await?;
        match done {
            CommandOutcome::Nothing(defined) => Ok(defined),
            CommandOutcome::Done(..) => {
                // A task may be active again, or an agent may have a higher limit.
                self.hub.wake_workers(&actor.tenant);
                self.definition(actor, name).await
            }
        }
    }

    /// What this server will refuse to run of a definition as long as its configuration stays as it is, in sentences.
    pub async fn warnings<T: Definition>(&self, actor: &Actor, value: &T) -> Result<Vec<String>> {
        let Some(models) = self.models.get() else { return Ok(Vec::new()) };
        let name = value.own_id().or_else(|| value.slug()).unwrap_or_default();
        let mut warnings = Vec::new();
        for ModelUse { model, limits } in value.model_uses() {
            let refusals = match model {
                UsedModel::Named(model) => models.refusals(model, &limits),
                UsedModel::OfAgent(slug) if BUILT_IN_AGENTS.contains(&slug) => {
                    models.refusals(Some(slug), &limits)
                }
                UsedModel::OfAgent(slug) => {
                    let Some(doc) = self.tenant.doc(&actor.tenant, DefinitionKind::Agent, slug).await? else {
                        continue;
                    };
                    let agent: Agent = doc.body.read().map_err(Error::internal)?;
                    models.refusals(agent.model.as_deref(), &limits.and(agent.limits.of_a_run()))
                }
            };
            let subject = match model {
                UsedModel::OfAgent(agent) => format!("{} `{name}`, agent `{agent}`", T::KIND.as_str()),
                UsedModel::Named(_) => format!("{} `{name}`", T::KIND.as_str()),
            };
            warnings.extend(refusals.into_iter().map(|refusal| format!("{subject}: {refusal}")));
        }
        Ok(warnings)
    }

    /// The warnings of everything in a bundle.
    pub async fn bundle_warnings(&self, actor: &Actor, bundle: &Bundle) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for agent in &bundle.agents {
            warnings.extend(self.warnings(actor, agent).await?);
        }
        for task in &bundle.tasks {
            warnings.extend(self.warnings(actor, &task.value).await?);
        }
        Ok(warnings)
    }

    /// Every definition of the tenant.
    pub async fn bundle(&self, actor: &Actor) -> Result<Bundle> {
        access::check_general(actor, Verb::Administer)?;
        let bundle = Bundle {
            version: definitions::bundle::VERSION,
            agents: self.all::<Agent>(actor).await?.into_iter().map(|agent| agent.value).collect(),
            criteria_sets: named(self.all::<CriteriaSet>(actor).await?),
            entities: named(self.all::<Entity>(actor).await?),
            tasks: named(self.all::<Task>(actor).await?),
            tools: self.all::<ToolDefinition>(actor).await?.into_iter().map(|tool| tool.value).collect(),
            views: named(
                self.all::<View>(actor)
                    .await?
                    .into_iter()
                    .filter(|view| view.value.session_id.is_none())
                    .collect(),
            ),
        };
        self.note(actor, "bundle.export", actor.tenant.as_str()).await?;
        Ok(bundle)
    }

    async fn all<T: Definition>(&self, actor: &Actor) -> Result<Vec<StoredDefinition<T>>> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page =
                self.definitions(actor, DefinitionFilters::default(), after, limits::PAGE_ROWS_MAX).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        all.reverse();
        Ok(all)
    }

    /// Imports a bundle, whole or not at all: a definition replaces the one with the same id.
    pub async fn import(&self, actor: &Actor, bundle: Bundle, key: Option<IdemKey>) -> Result<usize> {
        access::check_general(actor, Verb::Administer)?;
        bundle.check()?;
        let bundle = bundle.authorized(actor)?;
        let of_tasks = bundle.tasks.iter().flat_map(|task| task.value.schemas());
        let of_tools = bundle.tools.iter().flat_map(Definition::schemas);
        let of_agents = bundle.agents.iter().flat_map(Definition::schemas);
        json_schema::prepare(of_tasks.chain(of_agents).chain(of_tools)).await;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let line = audit(actor, "bundle.import", actor.tenant.as_str());
                    let mut change = Change::new(actor.tenant.clone()).keyed(key).audited(line);
                    for doc in bundle.docs(actor.user.as_ref())? {
                        self.take_in(actor, doc, &mut change).await?;
                    }
                    self.check_bundle_references(actor, &bundle).await?;
                    Ok(Decided::<()>::change(change))
                })
            })
            .await?;
        match done {
            CommandOutcome::Nothing(()) | CommandOutcome::Done(..) => Ok(bundle.len()),
        }
    }

    async fn take_in(&self, actor: &Actor, mut doc: DefinitionDoc, change: &mut Change) -> Result<()> {
        let before = self.tenant.doc(&actor.tenant, doc.kind, &doc.id).await?.filter(|old| old.id == doc.id);
        if let Some(before) = &before {
            if before.facets.iter().any(|(key, _)| *key == SESSION_FACET) {
                return Err(Error::invalid(
                    "views",
                    format!("`{}` is published; it belongs to its session", doc.id),
                ));
            }
            doc.created_by.clone_from(&before.created_by);
            doc.facets.retain(|(key, _)| *key != definitions::MADE_BY);
            doc.facets
                .extend(before.created_by.as_ref().map(|user| (definitions::MADE_BY, user.as_str().into())));
            if doc.body == before.body {
                return Ok(());
            }
        }
        let expects = before.map(|before| before.version);
        change.records.push(Record::PutDoc { doc: Box::new(doc), expects });
        Ok(())
    }

    /// Refuses a task or a view that names agents, criteria sets or other definitions that do not exist.
    async fn check_references(&self, actor: &Actor, doc: &DefinitionDoc) -> Result<()> {
        if doc.kind == DefinitionKind::Agent {
            let agent: Agent = doc.body.read().map_err(Error::internal)?;
            self.check_secrets(actor, &agent)?;
            return self.check_tools_of_agent(actor, &agent, &[]).await;
        }
        if doc.kind == DefinitionKind::Tool {
            let tool: ToolDefinition = doc.body.read().map_err(Error::internal)?;
            return self.check_tool_references(actor, &tool, std::slice::from_ref(&tool), &[]).await;
        }
        if doc.kind == DefinitionKind::View {
            let view: View = doc.body.read().map_err(Error::internal)?;
            return match view.response.and_then(|response| response.criteria_set_id) {
                Some(set) => {
                    self.named_by("response.criteria_set_id", actor, DefinitionKind::CriteriaSet, &set).await
                }
                None => Ok(()),
            };
        }
        if doc.kind != DefinitionKind::Task {
            return Ok(());
        }
        let task: Task = doc.body.read().map_err(Error::internal)?;
        for agent in task.agents().filter(|slug| !BUILT_IN_AGENTS.contains(slug)) {
            self.named_by("agent_slug", actor, DefinitionKind::Agent, agent).await?;
        }
        if let Some(entity) = &task.entity_id {
            self.named_by("entity_id", actor, DefinitionKind::Entity, entity).await?;
        }
        for set in &task.criteria_set_ids {
            self.named_by("criteria_set_ids", actor, DefinitionKind::CriteriaSet, set).await?;
        }
        Ok(())
    }

    pub(super) fn check_secrets(&self, actor: &Actor, agent: &Agent) -> Result<()> {
        self.secret_hosts.get().map_or(Ok(()), |hosts| hosts.check(&actor.tenant, agent))
    }

    pub(super) async fn named_by(
        &self,
        field: &'static str,
        actor: &Actor,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<()> {
        match self.tenant.doc(&actor.tenant, kind, name).await? {
            Some(_) => Ok(()),
            None => Err(Error::invalid(field, format!("there is no {} `{name}`", kind.as_str()))),
        }
    }

    async fn check_bundle_references(&self, actor: &Actor, bundle: &Bundle) -> Result<()> {
        for agent in &bundle.agents {
            self.check_secrets(actor, agent)?;
            self.check_tools_of_agent(actor, agent, &bundle.tools).await?;
        }
        for tool in &bundle.tools {
            self.check_tool_references(actor, tool, &bundle.tools, &bundle.tasks).await?;
        }
        for view in &bundle.views {
            let set = view.value.response.as_ref().and_then(|response| response.criteria_set_id.as_ref());
            if let Some(set) = set
                && !bundle.criteria_sets.iter().any(|known| known.id == *set)
            {
                let field = "views.response.criteria_set_id";
                self.named_by(field, actor, DefinitionKind::CriteriaSet, set).await?;
            }
        }
        for task in &bundle.tasks {
            for agent in task.value.agents().filter(|slug| !BUILT_IN_AGENTS.contains(slug)) {
                if !bundle.agents.iter().any(|known| known.slug == agent) {
                    self.named_by("tasks.agent_slug", actor, DefinitionKind::Agent, agent).await?;
                }
            }
            for set in &task.value.criteria_set_ids {
                if !bundle.criteria_sets.iter().any(|known| known.id == *set) {
                    self.named_by("tasks.criteria_set_ids", actor, DefinitionKind::CriteriaSet, set).await?;
                }
            }
            if let Some(entity) = &task.value.entity_id
                && !bundle.entities.iter().any(|known| known.id == *entity)
            {
                self.named_by("tasks.entity_id", actor, DefinitionKind::Entity, entity).await?;
            }
        }
        Ok(())
    }
}

fn named<T>(defined: Vec<StoredDefinition<T>>) -> Vec<NamedDefinition<T>> {
    defined.into_iter().map(|one| NamedDefinition { id: one.id.into(), value: one.value }).collect()
}

/// A member changes only its own definitions, and never demands less of a task than an owner did.
fn check_may_change(actor: &Actor, before: &DefinitionDoc, after: &DefinitionDoc) -> Result<()> {
    if actor.role == Role::Owner {
        return Ok(());
    }
    if before.created_by.is_none() || before.created_by != actor.user {
        return Err(Error::denied("only an owner, or who made it, changes this"));
    }
    if before.kind != DefinitionKind::Task {
        return Ok(());
    }
    let (before, after): (Task, Task) =
        (before.body.read().map_err(Error::internal)?, after.body.read().map_err(Error::internal)?);
    if after.loosens(&before) {
        return Err(Error::denied("only an owner loosens a task's contract or approval"));
    }
    Ok(())
}
