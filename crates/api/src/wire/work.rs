//! Claims and settlements on the wire.

use std::collections::BTreeMap;
use std::time::Duration;

use sederunt_core::definitions;
use sederunt_core::definitions::task::RunLimits as CoreLimits;
use sederunt_core::engine;
use sederunt_core::session::SessionType as CoreType;
use sederunt_core::work::output::OutputContract;
use sederunt_core::work::{self as core, Pause, Settle, run};
use sederunt_core::{Error, Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::definitions::{Agent, DefinitionAnswer, Entity, Output, RunLimits};
use super::session::{Session, SessionType};
use super::tool::ToolBrief;
use super::view::Answer;
use super::{Count, Raw};

/// A worker's request for sessions to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"worker": "worker-1", "limit": 1, "wait_ms": 30000}))]
pub struct ClaimRequest {
    /// A name for people to recognise.
    #[schema(min_length = 1, max_length = 200)]
    pub worker: String,
    /// Left out or empty: `agent` and `mixed`.
    #[schema(max_items = 100)]
    pub session_types: Option<Vec<SessionType>>,
    /// Left out or empty: any.
    #[schema(max_items = 100)]
    pub agent_slugs: Option<Vec<String>>,
    #[schema(minimum = 1, maximum = 100, default = 1)]
    pub limit: Option<u32>,
    /// How long the claim holds without a heartbeat.
    #[schema(minimum = 100, maximum = 600_000, default = 30_000)]
    pub lease_ms: Option<u64>,
    /// How long to wait for work.
    #[schema(minimum = 0, maximum = 60_000, default = 0)]
    pub wait_ms: Option<u64>,
}

impl ClaimRequest {
    pub fn into_core(self, lease: Duration) -> core::ClaimRequest {
        core::ClaimRequest {
            worker: self.worker,
            session_types: self.session_types.unwrap_or_default().into_iter().map(CoreType::from).collect(),
            agent_slugs: self.agent_slugs.unwrap_or_default(),
            limit: self
                .limit
                .map_or(1, |limit| usize::try_from(limit).unwrap_or(limits::CLAIM_BATCH_MAX + 1)),
            lease: self.lease_ms.map_or(lease, Duration::from_millis),
            wait: Duration::from_millis(self.wait_ms.unwrap_or(0)),
        }
    }
}

/// The claimed sessions; empty if there was no work.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Claims {
    pub claims: Vec<Claimed>,
}

/// A claimed session. Every further call of the worker carries the epoch.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Claimed {
    pub session: Session,
    pub epoch: u64,
    #[schema(value_type = String, format = DateTime)]
    pub lease_until: Timestamp,
    /// The person's decision or answer since the last run paused; null if there is none.
    pub resume: Option<Resume>,
    /// The frozen task, agent and entity that a worker needs to begin; null for a session without task and agent.
    pub brief: Option<Brief>,
    /// Answers to the session's views since its last run, oldest first, at most ten. They are sent again with every
    /// claim until a run that had them has settled.
    pub pending_answers: Vec<Answer>,
}

/// A person's decision or answer, for the run that waited for it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Resume {
    pub approval_id: String,
    /// `approve`, `deny` or `answer`.
    pub decision: String,
    /// The call that was paused, as it was made.
    #[schema(value_type = Raw, required = false)]
    pub tool_call: Option<Raw>,
    /// The arguments to use, edited or not.
    #[schema(value_type = Raw, required = false)]
    pub args: Option<Raw>,
    /// The digest of the call with these arguments; the worker must carry out nothing else.
    pub digest: Option<String>,
    #[schema(value_type = Raw, required = false)]
    pub reply: Option<Raw>,
    /// The view that asked; `reply` has the answer and its respondent.
    pub view_id: Option<String>,
    pub reason: Option<String>,
}

impl From<run::Resume> for Resume {
    fn from(resume: run::Resume) -> Self {
        Self {
            approval_id: resume.approval_id,
            decision: resume.decision,
            tool_call: resume.tool_call.map(Raw),
            args: resume.args.map(Raw),
            digest: resume.digest,
            reply: resume.reply.map(Raw),
            view_id: resume.view_id,
            reason: resume.reason,
        }
    }
}

/// The frozen task, agent and entity that a worker needs to begin.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Brief {
    pub task_slug: Option<String>,
    pub description: Option<String>,
    /// The output contract of the run.
    #[schema(value_type = Option<Output>)]
    pub output: Option<OutputContract>,
    #[schema(value_type = RunLimits)]
    pub limits: CoreLimits,
    /// Outputs of this session that were denied, oldest first.
    pub denials: Vec<Denial>,
    /// Results of the steps that this one depends on, by their keys.
    #[schema(value_type = Object)]
    pub results: BTreeMap<String, Raw>,
    #[schema(value_type = Option<Agent>)]
    pub agent: Option<DefinitionAnswer<definitions::Agent>>,
    #[schema(value_type = Option<Entity>)]
    pub entity: Option<DefinitionAnswer<definitions::Entity>>,
    /// Of a tool session: the tool and its values.
    pub tool: Option<ToolBrief>,
}

/// An output that a person denied.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Denial {
    pub by: String,
    pub reason: Option<String>,
}

impl From<engine::Brief> for Brief {
    fn from(brief: engine::Brief) -> Self {
        let run = brief.run;
        Self {
            task_slug: run.task_slug,
            description: run.description,
            output: run.output,
            limits: run.limits,
            denials: run
                .denials
                .into_iter()
                .map(|denial| Denial { by: denial.by, reason: denial.reason })
                .collect(),
            results: brief.results.into_iter().map(|(key, result)| (key, Raw(result))).collect(),
            agent: brief.agent.map(Into::into),
            entity: brief.entity.map(Into::into),
            tool: brief.tool.map(|tool| ToolBrief {
                slug: tool.definition.slug,
                values: Raw(tool.values),
                invocation_id: tool.invocation_id,
                requires_confirmation: tool.definition.requires_confirmation,
            }),
        }
    }
}

/// A sign of life.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    #[schema(value_type = Count)]
    pub epoch: Count,
    /// The lease from now on; left out, the server's default.
    #[schema(minimum = 100, maximum = 600_000)]
    pub lease_ms: Option<u64>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Heartbeat {
    #[schema(value_type = String, format = DateTime)]
    pub lease_until: Timestamp,
    /// Stop working and settle.
    pub stop_requested: bool,
}

impl From<core::Heartbeat> for Heartbeat {
    fn from(beat: core::Heartbeat) -> Self {
        Self { lease_until: beat.lease_until, stop_requested: beat.stop_requested }
    }
}

/// The completion of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    #[schema(value_type = Count)]
    pub epoch: Count,
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
    /// A last message of the agent.
    pub text: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub usage: Option<Raw>,
}

impl Complete {
    pub fn into_core(self) -> (u64, Settle) {
        let how = Settle::Complete {
            result: self.result.map(|raw| raw.0),
            text: self.text,
            usage: self.usage.map(|raw| raw.0),
        };
        (self.epoch.0, how)
    }
}

/// The failure of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    #[schema(value_type = Count)]
    pub epoch: Count,
    #[schema(max_length = 2000)]
    pub error: String,
    /// Whether another run may succeed: the session is queued again while it has attempts left.
    pub retryable: Option<bool>,
    /// A word for programs: it becomes the session's `end_reason`.
    #[schema(min_length = 1, max_length = 200)]
    pub reason: Option<String>,
    /// What the run used up; numbers are added to those of earlier runs.
    #[schema(value_type = Option<Object>)]
    pub usage: Option<Raw>,
}

impl Fail {
    pub fn into_core(self) -> (u64, Settle) {
        let how = Settle::Fail {
            error: self.error,
            retryable: self.retryable.unwrap_or(false),
            reason: self.reason,
            usage: self.usage.map(|raw| raw.0),
        };
        (self.epoch.0, how)
    }
}

/// A pause of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Yield {
    #[schema(value_type = Count)]
    pub epoch: Count,
    pub kind: YieldKind,
    /// The call that waits, with `kind: tool`: `{id, name, args}`.
    #[schema(value_type = Option<Object>)]
    pub tool_call: Option<Raw>,
    /// The question, with `kind: human`: `{text, schema?}`, or `{view_id, text?}` to wait for an answer to a view
    /// that the session has published.
    #[schema(value_type = Option<Object>)]
    pub question: Option<Raw>,
    /// What the run used up so far.
    #[schema(value_type = Option<Object>)]
    pub usage: Option<Raw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum YieldKind {
    Tool,
    Human,
    Idle,
}

impl Yield {
    pub fn into_core(self) -> Result<(u64, Settle), Error> {
        let misplaced = |field: &'static str, kind: &str| {
            Error::invalid(field, format!("goes with `kind: {kind}` alone"))
        };
        if self.tool_call.is_some() && self.kind != YieldKind::Tool {
            return Err(misplaced("tool_call", "tool"));
        }
        if self.question.is_some() && self.kind != YieldKind::Human {
            return Err(misplaced("question", "human"));
        }
        let pause = match self.kind {
            YieldKind::Tool => Pause::Tool { call: self.tool_call.map(|raw| raw.0) },
            YieldKind::Human => Pause::Human { question: self.question.map(|raw| raw.0) },
            YieldKind::Idle => Pause::Idle,
        };
        Ok((self.epoch.0, Settle::Yield { pause, usage: self.usage.map(|raw| raw.0) }))
    }
}

/// A piece of an unfinished reply.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    #[schema(value_type = Count)]
    pub epoch: Count,
    /// At most 256 KiB.
    pub text: String,
}
