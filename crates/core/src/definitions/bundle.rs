//! All definitions of a tenant in one document, to move them between installations.

use serde::{Deserialize, Serialize};

use super::{
    Agent, CriteriaSet, Definition, DefinitionDoc, Entity, StoredDefinition, Task, ToolDefinition, View,
};
use crate::access::Actor;
use crate::error::{Error, Result};
use crate::ids::{UserId, check_name};
use crate::json::Json;
use crate::time::Timestamp;

/// Every definition with every field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Json")]
pub struct Bundle {
    pub version: u32,
    pub agents: Vec<Agent>,
    pub criteria_sets: Vec<NamedDefinition<CriteriaSet>>,
    pub entities: Vec<NamedDefinition<Entity>>,
    pub tasks: Vec<NamedDefinition<Task>>,
    pub tools: Vec<ToolDefinition>,
    /// Views that no session has published: a published one belongs to its session.
    pub views: Vec<NamedDefinition<View>>,
}

/// The bundle format that this version writes.
pub const VERSION: u32 = 1;

/// A definition under its id.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedDefinition<T> {
    pub id: String,
    #[serde(flatten)]
    pub value: T,
}

impl Bundle {
    pub fn len(&self) -> usize {
        self.agents.len()
            + self.criteria_sets.len()
            + self.entities.len()
            + self.tasks.len()
            + self.tools.len()
            + self.views.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses a bundle of another version, and names that occur twice.
    pub fn check(&self) -> Result<()> {
        if self.version != VERSION {
            return Err(Error::invalid("version", format!("this server reads version {VERSION}")));
        }
        let agents: Vec<&str> = self.agents.iter().map(|agent| agent.slug.as_str()).collect();
        let slugs: Vec<&str> = self.tasks.iter().map(|task| task.value.slug.as_str()).collect();
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.slug.as_str()).collect();
        once("agents", &agents)?;
        once("tools", &tools)?;
        once("tasks", &slugs)?;
        once("tasks", &ids(&self.tasks))?;
        once("entities", &ids(&self.entities))?;
        once("criteria_sets", &ids(&self.criteria_sets))?;
        once("views", &ids(&self.views))
    }

    /// The bundle as this caller may import it.
    pub fn authorized(mut self, actor: &Actor) -> Result<Self> {
        for task in &mut self.tasks {
            task.value = task.value.clone().authorized(actor, None)?;
        }
        Ok(self)
    }

    /// The documents to store; new ones are recorded as made by this user.
    pub fn docs(&self, made_by: Option<&UserId>) -> Result<Vec<DefinitionDoc>> {
        let mut docs = Vec::with_capacity(self.len());
        for agent in &self.agents {
            docs.push(doc(&agent.slug, agent, made_by)?);
        }
        for set in &self.criteria_sets {
            docs.push(doc(&set.id, &set.value, made_by)?);
        }
        for entity in &self.entities {
            docs.push(doc(&entity.id, &entity.value, made_by)?);
        }
        for task in &self.tasks {
            docs.push(doc(&task.id, &task.value, made_by)?);
        }
        for tool in &self.tools {
            docs.push(doc(&tool.slug, tool, made_by)?);
        }
        for view in &self.views {
            docs.push(doc(&view.id, &view.value, made_by)?);
        }
        Ok(docs)
    }
}

fn ids<T>(named: &[NamedDefinition<T>]) -> Vec<&str> {
    named.iter().map(|one| one.id.as_str()).collect()
}

fn once(field: &'static str, names: &[&str]) -> Result<()> {
    for (n, name) in names.iter().enumerate() {
        if names[..n].contains(name) {
            return Err(Error::invalid(field, format!("names `{name}` twice")));
        }
    }
    Ok(())
}

fn doc<T: Definition>(id: &str, value: &T, made_by: Option<&UserId>) -> Result<DefinitionDoc> {
    check_name("id", id)?;
    StoredDefinition {
        id: id.into(),
        value: value.clone(),
        version: 0,
        created_by: made_by.cloned(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
    .to_doc()
}
