//! The library room: what people define before anything runs. Tasks, agents, tools, entities, criteria sets and views are
//! documents: checked when they are written, kept as canonical JSON, found by id or slug and listed by a few facets.
//! Owns their shapes and checks; the commands are in [`crate::engine`]. Refuses to know what a run does with them
//! (see [`crate::work`]).

pub mod agent;
pub mod bundle;
pub mod criteria;
pub mod entity;
pub mod models;
mod read;
mod store;
pub mod task;
pub mod tool;

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use agent::Agent;
pub use bundle::Bundle;
pub use criteria::CriteriaSet;
pub use entity::Entity;
pub use models::{ModelCheck, ModelUse, UsedModel};
pub use read::read;
pub use store::DocStore;
pub use task::Task;
pub use tool::ToolDefinition;

pub use crate::view::View;

use crate::access::{Actor, Right, Role, Verb, right};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::json::Json;
use crate::limits;
use crate::time::Timestamp;
use crate::view::SESSION_FACET;

/// What a document defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DefinitionKind {
    Task,
    Agent,
    Entity,
    CriteriaSet,
    View,
    Tool,
}

impl DefinitionKind {
    pub const ALL: [Self; 6] =
        [Self::Task, Self::Agent, Self::Entity, Self::CriteriaSet, Self::View, Self::Tool];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Agent => "agent",
            Self::Entity => "entity",
            Self::CriteriaSet => "criteria_set",
            Self::View => "view",
            Self::Tool => "tool",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The audit actions of definitions of this kind.
    pub const fn audit_actions(self) -> AuditActions {
        let (created, changed, loosened) = match self {
            Self::Task => ("task.create", "task.change", "task.loosen_approval"),
            Self::Agent => ("agent.create", "agent.change", "agent.loosen_confirmation"),
            Self::Entity => ("entity.create", "entity.change", "entity.change"),
            Self::CriteriaSet => ("criteria_set.create", "criteria_set.change", "criteria_set.loosen"),
            Self::View => ("view.create", "view.change", "view.change"),
            Self::Tool => ("tool.create", "tool.change", "tool.loosen_confirmation"),
        };
        AuditActions { created, changed, loosened }
    }
}

/// The action names of audit lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditActions {
    pub created: &'static str,
    pub changed: &'static str,
    /// Changed so that people are asked less often before the agent acts.
    pub loosened: &'static str,
}

/// A document as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionDoc {
    pub kind: DefinitionKind,
    pub id: Box<str>,
    /// Unique within its kind, where it has one.
    pub slug: Option<Box<str>>,
    /// The canonical text of the definition.
    pub body: Json,
    /// What lists filter by: (name, value).
    pub facets: Vec<(&'static str, Box<str>)>,
    /// Counts changes, from 1.
    pub version: u64,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The name that people know a document by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocTitle {
    pub kind: DefinitionKind,
    pub id: Box<str>,
    /// The title of an entity or the name of a task, where it has one.
    pub title: Option<Box<str>>,
    /// The type of an entity.
    pub type_slug: Option<Box<str>>,
}

impl DocTitle {
    /// What a document's body says.
    pub fn of(kind: DefinitionKind, id: &str, body: &str) -> Self {
        #[derive(Default, Deserialize)]
        struct TitleFields<'a> {
            #[serde(borrow, default)]
            title: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            name: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            type_slug: Option<Cow<'a, str>>,
        }
        let TitleFields { title, name, type_slug } = serde_json::from_str(body).unwrap_or_default();
        let title = if kind == DefinitionKind::Task { name } else { title };
        Self { kind, id: id.into(), title: title.map(Into::into), type_slug: type_slug.map(Into::into) }
    }

    pub fn is_of(&self, kind: DefinitionKind, id: &str) -> bool {
        self.kind == kind && *self.id == *id
    }
}

/// Filters of a list of documents; all given ones must hold. Newest first.
#[derive(Clone, Debug)]
pub struct DocQuery {
    pub kind: DefinitionKind,
    pub facets: Vec<(&'static str, String)>,
    /// Words that must all be found in the title, id or slug, as prefixes. A page ends after so many rows without them that
    /// the next call continues.
    pub text: Option<String>,
    /// Only what this user made or is assigned to.
    pub of_user: Option<UserId>,
    /// The number of the previous page's last row.
    pub after: Option<i64>,
    pub limit: usize,
}

/// Facets that say whose a document is.
pub const MADE_BY: &str = "created_by";
pub const ASSIGNED_TO: &str = "assigned_to";

/// Every facet that a definition has.
const FACETS: [&str; 9] = [
    MADE_BY,
    ASSIGNED_TO,
    agent::CONCURRENCY,
    "status",
    "agent_slug",
    "entity_id",
    "type_slug",
    entity::EMAIL,
    SESSION_FACET,
];

/// A stored facet's name; `None` if this version does not know it.
pub fn facet(name: &str) -> Option<&'static str> {
    FACETS.into_iter().find(|known| *known == name)
}

/// A type that people define.
pub trait Definition: Clone + std::fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    const KIND: DefinitionKind;

    /// Refuses a definition that could not work.
    fn check(&self) -> Result<()>;
    /// Refuses a change from `before` to this.
    fn check_change(&self, _before: &Self) -> Result<()> {
        Ok(())
    }
    /// The definition as this caller may make it, or change it from what it was before; refuses what goes beyond the
    /// caller's rights.
    fn authorized(self, _actor: &Actor, _before: Option<&Self>) -> Result<Self> {
        Ok(self)
    }
    /// The id that the definition's own text names, if any.
    fn own_id(&self) -> Option<&str>;
    fn slug(&self) -> Option<&str>;
    fn facets(&self) -> Vec<(&'static str, Box<str>)>;
    /// Whether people are asked less before the agent acts than `before` asked them.
    fn loosens(&self, _before: &Self) -> bool {
        false
    }
    /// The JSON Schemas that it holds: they are compiled before it is checked.
    fn schemas(&self) -> Vec<&Json> {
        Vec::new()
    }
    /// What it will ask of models.
    fn model_uses(&self) -> Vec<ModelUse<'_>> {
        Vec::new()
    }
}

/// A definition as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDefinition<T> {
    pub id: Box<str>,
    pub value: T,
    pub version: u64,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl<T: Definition> StoredDefinition<T> {
    pub fn of(doc: &DefinitionDoc) -> Result<Self> {
        Ok(Self {
            id: doc.id.clone(),
            value: doc.body.read().map_err(Error::internal)?,
            version: doc.version,
            created_by: doc.created_by.clone(),
            created_at: doc.created_at,
            updated_at: doc.updated_at,
        })
    }

    /// The document to store. The store sets the times.
    pub fn to_doc(&self) -> Result<DefinitionDoc> {
        self.value.check()?;
        let body = Json::of(&self.value)?;
        if body.len() > limits::DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge { what: T::KIND.as_str(), limit: limits::DOCUMENT_BYTES_MAX });
        }
        let mut facets = self.value.facets();
        facets.extend(self.created_by.as_ref().map(|user| (MADE_BY, user.as_str().into())));
        Ok(DefinitionDoc {
            kind: T::KIND,
            id: self.id.clone(),
            slug: self.value.slug().map(Into::into),
            body,
            facets,
            version: self.version,
            created_by: self.created_by.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

/// What a definition becomes under a caller's patch: given fields replace, `null` clears.
pub fn patched<T: Definition>(current: &T, patch: &Json) -> Result<T> {
    if !patch.is_object() {
        return Err(Error::invalid("body", "must be an object"));
    }
    let mut fields = Json::of(current)?.fields();
    for (key, value) in read::renamed(T::KIND, patch.fields())? {
        fields.retain(|(kept, _)| *kept != key);
        if value.as_str() != "null" {
            fields.push((key, value));
        }
    }
    let changed: T = read::read_fields(fields)?;
    if changed.own_id() != current.own_id() {
        return Err(Error::invalid("slug", "names the thing and cannot be changed"));
    }
    changed.check_change(current)?;
    Ok(changed)
}

/// Refuses a caller that may not write documents of this kind: owners may write all, members their own tasks.
pub fn check_configures(actor: &Actor, kind: DefinitionKind) -> Result<()> {
    match right(actor.role, Verb::Configure) {
        Right::All => Ok(()),
        Right::OwnOrAssigned if kind == DefinitionKind::Task && actor.user.is_some() => Ok(()),
        _ => Err(Error::denied("only an owner may change this")),
    }
}

/// Whose documents a caller may read: `None` is all of them.
pub fn reader(actor: &Actor, kind: DefinitionKind) -> Result<Option<UserId>> {
    match actor.role {
        Role::Owner | Role::Worker => Ok(None),
        Role::Member if matches!(kind, DefinitionKind::Task | DefinitionKind::View) => {
            Ok(Some(actor.user.clone().ok_or_else(|| Error::denied("this credential names no user"))?))
        }
        Role::Member => Ok(None),
        Role::Guest | Role::Channel | Role::Share => Err(Error::denied("your role may not read this")),
    }
}

/// Whether a reader may see a document.
pub fn shows(doc: &DefinitionDoc, reader: Option<&UserId>) -> bool {
    reader.is_none_or(|user| {
        doc.facets
            .iter()
            .any(|(key, value)| (*key == MADE_BY || *key == ASSIGNED_TO) && **value == *user.as_str())
    })
}
