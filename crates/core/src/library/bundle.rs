//! All definitions of a tenant in one document, to carry from one place to another.

use serde::{Deserialize, Serialize};

use super::{Agent, CriteriaSet, Entity, Task};

/// Every definition with every field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    #[serde(default = "version")]
    pub version: u32,
    #[serde(default)]
    pub agents: Vec<Agent>,
    #[serde(default)]
    pub criteria_sets: Vec<Named<CriteriaSet>>,
    #[serde(default)]
    pub entities: Vec<Named<Entity>>,
    #[serde(default)]
    pub tasks: Vec<Named<Task>>,
}

const VERSION: u32 = 1;

const fn version() -> u32 {
    VERSION
}

/// A definition under its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named<T> {
    pub id: String,
    #[serde(flatten)]
    pub value: T,
}
