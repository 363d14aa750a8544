//! Approvals and answers on the wire.

use sederunt_core::approval::decide::{self, Decision as CoreDecision};
use sederunt_core::approval::{self as core, ApprovalQuery, ApprovalState as CoreState};
use sederunt_core::definitions::criteria::Dimension as CoreDimension;
use sederunt_core::definitions::task::OnExpiry as CoreOnExpiry;
use sederunt_core::engine::ApprovalContext as CoreContext;
use sederunt_core::session::query::Page;
use sederunt_core::work::output::OutputContract;
use sederunt_core::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::definitions::{Dimension, Output};
use super::session::{SessionType, Status};
use super::{Raw, words};
use crate::query::params;

words!(
    /// The kind of thing that waits. `broken` cannot be read, and is never carried out.
    ApprovalKind = core::ApprovalKind { Tool, Output, Promotion, Question, Broken }
);
words!(
    /// The state of an approval. `cancelled`: its session went on without a decision.
    ApprovalState = CoreState { Pending, Approved, Denied, Expired, Cancelled }
);
words!(
    /// A person's decision.
    Decision = CoreDecision { Approve, Deny }
);
words!(
    /// What happens when no one decides in time.
    OnSilence = CoreOnExpiry { Expire, Deny }
);

/// Something that waits for a person's decision, or waited for one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    pub id: String,
    pub kind: ApprovalKind,
    pub session_id: String,
    pub task_id: Option<String>,
    pub state: ApprovalState,
    /// A tool call `{id, name, args}`, values to write, or a question `{text, schema?}`.
    #[schema(value_type = Raw, required = false)]
    pub staged: Option<Raw>,
    /// JSON Schema of the arguments of a staged tool call: `modified_args` are checked against it.
    #[schema(value_type = Raw, required = false)]
    pub input_schema: Option<Raw>,
    /// The mean of the chosen options' scores.
    pub score: Option<f64>,
    pub flags: Vec<String>,
    /// The hash of what may be carried out; an edit gets a new one.
    pub digest: String,
    pub assigned_to: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    pub on_expiry: OnSilence,
    pub decided_by: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub decided_at: Option<Timestamp>,
    pub decision: Option<Decision>,
    /// Where a promotion writes to; null for other kinds.
    pub promotion: Option<PromotionTarget>,
    /// The edited values that were carried out, or the answer to a question.
    #[schema(value_type = Raw, required = false)]
    pub edited: Option<Raw>,
    pub reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<core::Approval> for Approval {
    fn from(approval: core::Approval) -> Self {
        let core::Approval { id, kind, session, task_id, state, assigned_to, expires_at, created_at, .. } =
            approval;
        let body = approval.body;
        Self {
            id: id.into(),
            kind: kind.into(),
            session_id: session.to_string(),
            task_id: task_id.map(Into::into),
            state: state.into(),
            staged: body.staged.map(Raw),
            input_schema: body.input_schema.map(Raw),
            score: body.score,
            flags: body.flags,
            digest: body.digest,
            assigned_to: assigned_to.map(|user| user.to_string()),
            expires_at,
            on_expiry: body.on_expiry.into(),
            decided_by: approval.decided_by.map(Into::into),
            decided_at: approval.decided_at,
            decision: match state {
                CoreState::Approved => Some(Decision::Approve),
                CoreState::Denied => Some(Decision::Deny),
                CoreState::Pending | CoreState::Expired | CoreState::Cancelled => None,
            },
            promotion: body.promotion.map(Into::into),
            edited: body.edited.map(Raw),
            reason: body.reason,
            created_at,
        }
    }
}

params! {
    /// What else to read.
    pub struct ExpandQuery {
        /// `context`: also what a person needs to decide.
        expand: Option<ApprovalExpansion> = word(),
    }
}

/// What an approval is shown with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalExpansion {
    Context,
}

/// An approval, with its context where that was asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalAnswer {
    #[serde(flatten)]
    pub approval: Approval,
    /// Only with `expand=context`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub context: Option<ApprovalContext>,
}

/// What stands around an approval, as far as the caller may see it; the rest is null.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalContext {
    pub session: Option<ContextSession>,
    pub task: Option<ContextTask>,
    /// As it is now: the entity that is written to or, if nothing is written, that the session is about.
    pub entity: Option<ContextEntity>,
    /// The output contract, as it was when the run was started.
    #[schema(value_type = Option<Output>)]
    pub contract: Option<OutputContract>,
    /// The dimensions by which what is staged is judged, and an edit of it.
    #[schema(value_type = Vec<Dimension>)]
    pub criteria: Vec<CoreDimension>,
    /// Of an output.
    pub attempt: Option<OutputAttempt>,
    /// Of a tool call.
    pub tool: Option<CalledTool>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ContextSession {
    pub id: String,
    pub title: Option<String>,
    pub session_type: SessionType,
    pub status: Status,
    pub agent_slug: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ContextTask {
    pub id: String,
    pub slug: String,
    pub name: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ContextEntity {
    pub id: String,
    pub type_slug: String,
    pub title: Option<String>,
    #[schema(value_type = Object)]
    pub fields: Raw,
    pub version: u64,
}

/// Which output of a run waits. After the last one is denied, the run fails.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct OutputAttempt {
    pub number: usize,
    pub limit: usize,
}

/// The tool of a call, as it was described when the call was made.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CalledTool {
    pub name: Option<String>,
    pub description: Option<String>,
    #[schema(value_type = Raw, required = false)]
    pub input_schema: Option<Raw>,
}

impl CalledTool {
    fn of(approval: &core::Approval) -> Option<Self> {
        let staged = approval.body.staged.as_ref().filter(|_| approval.kind == core::ApprovalKind::Tool)?;
        let name = staged.fields().into_iter().find(|(key, _)| key == "name");
        Some(Self {
            name: name.and_then(|(_, name)| name.read().ok()),
            description: approval.body.tool_description.clone(),
            input_schema: approval.body.input_schema.clone().map(Raw),
        })
    }
}

impl From<core::Approval> for ApprovalAnswer {
    fn from(approval: core::Approval) -> Self {
        Self { approval: approval.into(), context: None }
    }
}

impl From<(core::Approval, CoreContext)> for ApprovalAnswer {
    fn from((approval, context): (core::Approval, CoreContext)) -> Self {
        let CoreContext { session, task, entity, contract, criteria, attempt } = context;
        let context = ApprovalContext {
            session: session.map(|session| ContextSession {
                id: session.id.to_string(),
                title: session.details.title.map(Into::into),
                session_type: session.head.session_type.into(),
                status: session.head.status.into(),
                agent_slug: session.details.agent_slug.map(Into::into),
            }),
            task: task.map(|task| ContextTask {
                id: task.id.into(),
                slug: task.value.slug,
                name: task.value.name,
            }),
            entity: entity.map(|entity| ContextEntity {
                id: entity.id.into(),
                type_slug: entity.value.type_slug,
                title: entity.value.title,
                fields: Raw(entity.value.fields),
                version: entity.version,
            }),
            contract,
            criteria,
            attempt: attempt.map(|attempt| OutputAttempt { number: attempt.number, limit: attempt.limit }),
            tool: CalledTool::of(&approval),
        };
        Self { approval: approval.into(), context: Some(context) }
    }
}

/// The entity that a promotion writes to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PromotionTarget {
    /// The entity's id; of a new entity, the id that it will have.
    pub entity_id: String,
    pub entity_type: String,
    /// Whether an approval makes the entity.
    pub is_new: bool,
    /// The version of the entity when the fields were staged; 0 for a new one.
    pub version: u64,
    /// The staged fields as the entity had them then. If one of them has changed since, an approval is 409 `stale_base`.
    pub base: Raw,
}

impl From<core::PromotionTarget> for PromotionTarget {
    fn from(target: core::PromotionTarget) -> Self {
        let core::PromotionTarget { entity_id, entity_type, is_new, version, base, .. } = target;
        Self { entity_id, entity_type, is_new, version, base: Raw(base) }
    }
}

/// A page of approvals, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApprovalList {
    pub items: Vec<Approval>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<core::Approval, i64>> for ApprovalList {
    fn from(page: Page<core::Approval, i64>) -> Self {
        Self {
            items: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

params! {
    /// Filters of a list of approvals; all that are given must hold.
    pub struct ApprovalsQuery {
        state: Option<ApprovalState> = word(),
        /// `true`: an owner sees only approvals that are assigned to it or to no one.
        mine: bool = switch(),
        session_id | "sessionId": Option<SessionId> = name().parsed("is no id of a session", session_id),
        task_id | "taskId": Option<String> = text(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

impl From<ApprovalsQuery> for ApprovalQuery {
    fn from(query: ApprovalsQuery) -> Self {
        Self {
            state: query.state.map(Into::into),
            session: query.session_id,
            task_id: query.task_id,
            assigned_to: None,
            after: query.after,
            limit: query.limit,
        }
    }
}

/// A decision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decision": "approve"}))]
pub struct Decide {
    pub decision: Decision,
    /// Arguments that replace the staged ones. Only for a tool call.
    #[serde(alias = "modifiedArgs")]
    #[schema(value_type = Raw, required = false)]
    pub modified_args: Option<Raw>,
    /// Values that replace the staged ones. Only for an output or a promotion.
    #[serde(alias = "modifiedOutput")]
    #[schema(value_type = Raw, required = false)]
    pub modified_output: Option<Raw>,
    #[schema(max_length = 2000)]
    pub reason: Option<String>,
    /// The digest of what the caller saw; if something else is staged now, it is 409 `stale_base`.
    pub digest: Option<String>,
}

impl From<Decide> for decide::DecisionRequest {
    fn from(wish: Decide) -> Self {
        Self {
            decision: wish.decision.into(),
            modified_args: wish.modified_args.map(|raw| raw.0),
            modified_output: wish.modified_output.map(|raw| raw.0),
            reason: wish.reason,
            digest: wish.digest,
        }
    }
}

/// A person's step that is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"result": {"checked": true}}))]
pub struct HumanComplete {
    /// It must keep the step's output contract.
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
    pub text: Option<String>,
}

/// The answer to a question that a run asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reply": "Yes, before Friday."}))]
pub struct ElicitationReply {
    /// It must fit the question's schema, if it has one. Left out by `decline` and `cancel`.
    #[schema(value_type = Raw, required = false)]
    pub reply: Option<Raw>,
    /// `accept` unless given. What a called MCP server asks may also be turned down.
    pub action: Option<ElicitationAction>,
}

/// What a person does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationAction {
    Accept,
    Decline,
    Cancel,
}
