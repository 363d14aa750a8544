//! The approval room: what waits for a person. One record for four kinds: a tool call, an output to write back, a
//! response to promote, a question. Owns the record, how old and unreadable rows are read, the digest of what was
//! staged, and the gate. What a decision does to its session is in [`decide`], and what it does to an entity that a
//! response is promoted to in [`promotion`].

pub mod decide;
pub mod promotion;
pub mod safety_gate;
mod store;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::Digest as _;

use crate::definitions::task::OnExpiry;
use crate::ids::{SessionId, UserId};
use crate::json::Json;
use crate::time::Timestamp;

pub use promotion::PromotionTarget;
pub use store::{ApprovalListStore, ApprovalStore};

/// One question to a person: pending, decided, expired or cancelled.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    pub id: Box<str>,
    pub kind: ApprovalKind,
    pub session: SessionId,
    pub task_id: Option<Box<str>>,
    pub state: ApprovalState,
    pub assigned_to: Option<UserId>,
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub decided_by: Option<Box<str>>,
    pub decided_at: Option<Timestamp>,
    pub body: ApprovalBody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalKind {
    Tool,
    Output,
    Promotion,
    Question,
    /// A row that this version cannot read: shown, never carried out.
    Broken,
}

impl ApprovalKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Output => "output",
            Self::Promotion => "promotion",
            Self::Question => "question",
            Self::Broken => "broken",
        }
    }

    /// Reads a stored kind; rows from before kinds existed are about a tool.
    pub fn read(text: Option<&str>) -> Self {
        match text {
            None | Some("tool") => Self::Tool,
            Some("output") => Self::Output,
            Some("promotion") => Self::Promotion,
            Some("question") => Self::Question,
            Some(_) => Self::Broken,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    Pending,
    Approved,
    Denied,
    Expired,
    /// Its session went on without it.
    Cancelled,
}

impl ApprovalState {
    pub const ALL: [Self; 5] = [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What is decided on, and what was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApprovalBody {
    /// A tool call `{id, name, args}`, values to write, or a question `{text, schema?}`. `null` is a value: that of a
    /// run without an output.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub staged: Option<Json>,
    pub score: Option<f64>,
    #[serde(default)]
    pub flags: Vec<String>,
    /// Digest of what may be carried out; an edit sets a new one.
    #[serde(default)]
    pub digest: String,
    #[serde(default)]
    pub on_expiry: OnExpiry,
    pub edited: Option<Json>,
    pub reason: Option<String>,
    /// JSON Schema of a call's arguments, as the tool had it when the call was parked: an edit is checked against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Json>,
    /// What the tool of a call does, as it was described when the call was parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_description: Option<String>,
    /// Where the staged fields of a promotion are written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionTarget>,
    /// Set on a question that a called server asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationForm>,
}

/// How the call of a server that asks for input waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationForm {
    /// The run has ended; the call is made again with the input.
    Parked,
    /// The call and its run go on, and the server waits.
    Held,
}

/// What a field holds, also where that is `null`.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

impl Approval {
    /// The view by which a question is asked.
    pub fn view_id(&self) -> Option<String> {
        self.body.staged.as_ref().and_then(asked_by)
    }

    /// Builds an approval from a stored row. An unreadable row becomes [`ApprovalKind::Broken`] and stays visible.
    pub fn of_row(
        kind: Option<&str>,
        body: &str,
        rest: impl FnOnce(ApprovalKind, ApprovalBody) -> Self,
    ) -> Self {
        match serde_json::from_str::<ApprovalBody>(body) {
            Ok(body) => {
                let kind = ApprovalKind::read(kind);
                let has_target = kind != ApprovalKind::Promotion || body.promotion.is_some();
                let readable = kind != ApprovalKind::Broken && body.staged.is_some() && has_target;
                rest(if readable { kind } else { ApprovalKind::Broken }, body)
            }
            Err(_) => rest(ApprovalKind::Broken, ApprovalBody::default()),
        }
    }
}

/// The digest of something to be carried out for a session.
pub fn digest(kind: ApprovalKind, session: &SessionId, staged: &Json) -> String {
    let mut hash = sha2::Sha256::new();
    for part in [kind.as_str(), session.as_str(), staged.as_str()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The view that a question names.
pub fn asked_by(question: &Json) -> Option<String> {
    let (_, id) = question.fields().into_iter().find(|(key, _)| key == "view_id")?;
    id.read().ok()
}

/// A call as it is staged, and what its worker said of the tool.
#[derive(Debug)]
pub struct StagedCall {
    pub call: Json,
    /// JSON Schema of the arguments, if the worker gave one as `input_schema`.
    pub input_schema: Option<Json>,
    /// What the tool does, if the worker said so as `tool_description`.
    pub description: Option<Json>,
}

impl StagedCall {
    pub fn of(asked: &Json) -> Self {
        let mut rest = asked.fields();
        let mut take = |name: &str| {
            let at = rest.iter().position(|(key, _)| key == name)?;
            Some(rest.remove(at).1)
        };
        let (input_schema, description) = (take("input_schema"), take("tool_description"));
        let call = match (&input_schema, &description) {
            (None, None) => asked.clone(),
            _ => Json::object(rest.iter().map(|(key, value)| (key.as_str(), value))),
        };
        Self { call, input_schema, description }
    }
}

/// The id of a staged call.
pub fn call_id(call: &Json) -> Option<String> {
    call.fields().into_iter().find(|(key, _)| key == "id").and_then(|(_, id)| id.read().ok())
}

/// A staged call with these arguments: what may be carried out after an approval.
pub fn with_args(call: &Json, args: &Json) -> Json {
    let mut fields = call.fields();
    fields.retain(|(key, _)| key != "args");
    fields.push(("args".to_owned(), args.clone()));
    Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)))
}

/// Filters of a list of approvals; all given ones must hold. Newest first.
#[derive(Clone, Debug, Default)]
pub struct ApprovalQuery {
    pub state: Option<ApprovalState>,
    pub session: Option<SessionId>,
    pub task_id: Option<String>,
    pub assigned_to: Option<AssigneeFilter>,
    pub after: Option<i64>,
    pub limit: usize,
}

/// Whose approvals to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssigneeFilter {
    To(UserId),
    /// This person's, and those without an assignee.
    ToOrNobody(UserId),
}
