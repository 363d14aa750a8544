//! Tasks: what is to be done, by which agent or person, in which steps, and the output that is expected.

use serde::{Deserialize, Serialize};

use super::{ASSIGNED_TO, Definition, DefinitionKind, ModelUse, UsedModel};
use crate::access::Actor;
use crate::error::{Error, Result};
use crate::ids::{check_name, check_text};
use crate::json::Json;
use crate::limits;
use crate::work::graph;
use crate::work::output::OutputContract;
use crate::work::write_grant::{self, WriteGrant};

/// Work that can be triggered any number of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub slug: String,
    pub name: String,
    #[serde(default)]
    pub status: TaskStatus,
    pub description: Option<String>,
    pub agent_slug: Option<String>,
    pub assigned_to: Option<String>,
    pub entity_id: Option<String>,
    pub input: Option<Json>,
    #[serde(default)]
    pub steps: Vec<TaskStep>,
    pub output: Option<OutputContract>,
    /// The entities that it may write; only owners set it. Tasks from before grants existed have none.
    pub writes: Option<WriteGrant>,
    #[serde(default)]
    pub requires_approval: bool,
    /// The first of them judges what is staged.
    #[serde(default)]
    pub criteria_set_ids: Vec<String>,
    pub approval: Option<ApprovalTerms>,
    #[serde(default)]
    pub limits: RunLimits,
    #[serde(default)]
    pub on_child_failure: OnChildFailure,
    #[serde(default)]
    pub priority: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    #[default]
    Active,
    Paused,
    Done,
    Archived,
}

impl TaskStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Archived => "archived",
        }
    }
}

/// One step of a task: an agent's, or a person's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskStep {
    pub key: String,
    pub name: Option<String>,
    pub agent_slug: Option<String>,
    pub assigned_to: Option<String>,
    pub input: Option<Json>,
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// The output that this step must produce; a person's step is checked by it too.
    pub output: Option<OutputContract>,
}

/// What a failed, expired or abandoned child means for its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnChildFailure {
    #[default]
    FailParent,
    Continue,
}

/// How long an approval waits, and what its expiry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalTerms {
    pub expires_in_s: u64,
    #[serde(default)]
    pub on_expiry: OnExpiry,
}

/// Expiry never approves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// The session ends as expired.
    #[default]
    Expire,
    /// As if a person had denied it.
    Deny,
}

/// What one run may use up. `None` is no limit beyond the server's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub cost_micros: Option<u64>,
    pub wall_ms: Option<u64>,
}

impl RunLimits {
    /// The tighter of both limits, field by field.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let tighter = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            steps: tighter(self.steps, other.steps),
            tokens: tighter(self.tokens, other.tokens),
            cost_micros: tighter(self.cost_micros, other.cost_micros),
            wall_ms: tighter(self.wall_ms, other.wall_ms),
        }
    }
}

impl Definition for Task {
    const KIND: DefinitionKind = DefinitionKind::Task;

    fn model_uses(&self) -> Vec<ModelUse<'_>> {
        let mut agents: Vec<&str> = self.agents().collect();
        agents.sort_unstable();
        agents.dedup();
        let limits = self.limits;
        agents.into_iter().map(|slug| ModelUse { model: UsedModel::OfAgent(slug), limits }).collect()
    }

    fn check(&self) -> Result<()> {
        check_name("slug", &self.slug)?;
        check_text("name", &self.name, limits::NAME_CHARS_MAX)?;
        if self.name.trim().is_empty() {
            return Err(Error::invalid("name", "must not be empty"));
        }
        if let Some(text) = &self.description {
            check_text("description", text, limits::DESCRIPTION_CHARS_MAX)?;
        }
        check_doer("agent_slug", self.agent_slug.as_deref())?;
        check_doer("assigned_to", self.assigned_to.as_deref())?;
        check_doer("entity_id", self.entity_id.as_deref())?;
        if !limits::PRIORITY_RANGE.contains(&self.priority) {
            return Err(Error::invalid("priority", "must be -1000 to 1000"));
        }
        if self.approval.is_some_and(|terms| !limits::APPROVAL_EXPIRY_S.contains(&terms.expires_in_s)) {
            let range = limits::APPROVAL_EXPIRY_S;
            let rule = format!("must be {} to {}", range.start(), range.end());
            return Err(Error::invalid("approval.expires_in_s", rule));
        }
        if self.criteria_set_ids.len() > limits::CRITERIA_SETS_MAX {
            return Err(Error::invalid(
                "criteria_set_ids",
                format!("names more than {}", limits::CRITERIA_SETS_MAX),
            ));
        }
        self.criteria_set_ids.iter().try_for_each(|id| check_name("criteria_set_ids", id))?;
        if let Some(output) = &self.output {
            output.check("output")?;
        }
        if let Some(granted) = &self.writes {
            granted.check()?;
            if let Some(what) = WriteGrant::needed_by(self).and_then(|needed| granted.lacks(&needed)) {
                return Err(Error::invalid(
                    "writes",
                    format!("must name {what}, because the task writes it"),
                ));
            }
        }
        graph::check(&self.steps)
    }

    fn authorized(self, actor: &Actor, before: Option<&Self>) -> Result<Self> {
        write_grant::authorized(self, actor, before)
    }

    fn own_id(&self) -> Option<&str> {
        None
    }

    fn slug(&self) -> Option<&str> {
        Some(&self.slug)
    }

    fn loosens(&self, before: &Self) -> bool {
        let asked_by_criteria = |set: &String| !self.criteria_set_ids.contains(set);
        (before.requires_approval && !self.requires_approval)
            || before.criteria_set_ids.iter().any(asked_by_criteria)
    }

    fn schemas(&self) -> Vec<&Json> {
        self.output.iter().filter_map(|output| output.schema.as_ref()).collect()
    }

    fn facets(&self) -> Vec<(&'static str, Box<str>)> {
        let mut facets = vec![("status", self.status.as_str().into())];
        for (key, value) in [(ASSIGNED_TO, &self.assigned_to), ("entity_id", &self.entity_id)] {
            facets.extend(value.as_deref().map(|value| (key, value.into())));
        }
        let mut agents: Vec<&str> = self.agents().collect();
        agents.sort_unstable();
        agents.dedup();
        facets.extend(agents.into_iter().map(|agent| ("agent_slug", agent.into())));
        facets
    }
}

impl Task {
    /// The agents that a run of this task needs.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.agent_slug
            .as_deref()
            .into_iter()
            .chain(self.steps.iter().filter_map(|step| step.agent_slug.as_deref()))
    }

    /// Whether this version demands less of an output than `before` did: only owners may make such a change.
    pub fn loosens(&self, before: &Self) -> bool {
        let weaker =
            |now: Option<&OutputContract>, then: Option<&OutputContract>| then.is_some() && now != then;
        (before.requires_approval && !self.requires_approval)
            || (!before.criteria_set_ids.is_empty() && self.criteria_set_ids != before.criteria_set_ids)
            || weaker(self.output.as_ref(), before.output.as_ref())
            || (before.approval.is_some() && self.approval != before.approval)
            || (before.limits != RunLimits::default() && self.limits != before.limits)
            || before.steps.iter().any(|old| {
                old.output.is_some()
                    && !self.steps.iter().any(|new| new.key == old.key && new.output == old.output)
            })
    }
}

pub(super) fn check_doer(field: &'static str, name: Option<&str>) -> Result<()> {
    name.map_or(Ok(()), |name| check_name(field, name))
}
