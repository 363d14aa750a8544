//! Responses on the wire: answers that are saved before they are submitted.

use sederunt_core::Timestamp;
use sederunt_core::approval::promotion::{self, PromotionStanding};
use sederunt_core::json::Json;
use sederunt_core::response::{ResponseFilter, StoredResponse};
use sederunt_core::session::outward::{StoredColumns, Vocabulary};
use sederunt_core::session::query::Page;
use sederunt_core::session::{Session, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::view::Respondent;
use super::{Raw, words};
use crate::query::params;

/// An answer to a view that is a session of its own.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Response {
    /// The id of its session.
    pub id: String,
    pub view_id: String,
    pub status: ResponseStatus,
    /// The values that were saved so far; once it is submitted, those that were submitted.
    #[schema(value_type = Object)]
    pub values: Raw,
    /// Grows with every change. Given back with a save, it refuses the save if somebody else has saved meanwhile.
    pub version: u64,
    pub entity_id: Option<String>,
    pub respondent: Respondent,
    /// The respondent is no member: known by a link and a cookie alone.
    pub is_anonymous: bool,
    /// The mean of the scores of the chosen options, by the view's criteria.
    pub score: Option<f64>,
    pub flags: Vec<String>,
    pub promotion: Option<ResponsePromotion>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub submitted_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub promoted_at: Option<Timestamp>,
}

words!(
    /// `draft` may still be saved; `promoted` was submitted and then written to its entity.
    ResponseStatus = OutwardStatus { Draft, Submitted, Promoted, Abandoned }
);

/// The words of [`Vocabulary::Response`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutwardStatus {
    Draft,
    Submitted,
    Promoted,
    Abandoned,
}

impl OutwardStatus {
    fn of(session: &Session, promoted: bool) -> Self {
        let stored = StoredColumns { status: session.head.status, inactive: false, promoted };
        match Vocabulary::Response.outward(stored) {
            "draft" => Self::Draft,
            "submitted" => Self::Submitted,
            "promoted" => Self::Promoted,
            _ => Self::Abandoned,
        }
    }
}

impl From<ResponseStatus> for ResponseFilter {
    fn from(status: ResponseStatus) -> Self {
        match status {
            ResponseStatus::Draft => Self::Draft,
            ResponseStatus::Submitted => Self::Submitted,
            ResponseStatus::Promoted => Self::Promoted,
            ResponseStatus::Abandoned => Self::Abandoned,
        }
    }
}

/// Whether a submitted response is written to its entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponsePromotion {
    /// Null if it was blocked: then nobody is asked.
    pub approval_id: Option<String>,
    pub state: PromotionState,
    /// Why it was denied or blocked.
    pub reason: Option<String>,
    /// The dimension and the option of the criteria that blocked it.
    pub dimension: Option<String>,
    pub option: Option<String>,
}

words!(
    /// `blocked`: an option was chosen that is never written.
    PromotionState = promotion::PromotionState { Pending, Approved, Denied, Expired, Blocked }
);

impl From<PromotionStanding> for ResponsePromotion {
    fn from(standing: PromotionStanding) -> Self {
        let (dimension, option) = standing.block.map(|block| (block.dimension, block.option)).unzip();
        Self {
            approval_id: standing.approval_id.map(Into::into),
            state: standing.state.into(),
            reason: standing.reason,
            dimension,
            option,
        }
    }
}

/// What a submitted session keeps as its result.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SubmittedResult {
    values: Option<Json>,
    score: Option<f64>,
    flags: Vec<String>,
}

impl From<StoredResponse> for Response {
    fn from(StoredResponse { row, session, promotion }: StoredResponse) -> Self {
        let is_submitted = session.head.status == Status::Completed;
        let details = session.details.clone();
        let result: SubmittedResult = match &details.result {
            Some(result) if is_submitted => result.read().unwrap_or_default(),
            _ => SubmittedResult::default(),
        };
        let promoted_at = promotion::promoted_at(promotion.as_ref());
        let asked = promotion::standing(promotion.as_ref(), details.result.as_ref());
        let values = result.values.or(details.draft_values).unwrap_or_else(Json::empty_object);
        Self {
            id: session.id.to_string(),
            view_id: row.view_id.into(),
            status: OutwardStatus::of(&session, promoted_at.is_some()).into(),
            values: Raw(values),
            version: session.head.version,
            entity_id: details.entity_id.map(Into::into),
            respondent: Respondent { kind: row.respondent.kind.as_str(), id: row.respondent.id },
            is_anonymous: row.is_anonymous,
            score: result.score,
            flags: result.flags,
            promotion: asked.map(Into::into),
            created_at: details.created_at,
            updated_at: session.head.last_at,
            submitted_at: details.completed_at.filter(|_| is_submitted),
            promoted_at,
        }
    }
}

/// A page of responses, newest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ResponseList {
    pub items: Vec<Response>,
    /// Pass it as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

impl From<Page<StoredResponse, i64>> for ResponseList {
    fn from(page: Page<StoredResponse, i64>) -> Self {
        let next_cursor = page.next.map(|next| next.to_string());
        Self { items: page.items.into_iter().map(Into::into).collect(), next_cursor }
    }
}

params! {
    /// Which responses to a view.
    pub struct ResponsesQuery {
        status: Option<ResponseStatus> = named_word(),
        limit: usize = page_limit(),
        /// A `next_cursor` of this list.
        after as "cursor": Option<i64> = row_cursor(),
    }
}

/// Opens a response.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({}))]
pub struct OpenResponse {
    /// The entity that it is about. Members name one; a link does not.
    #[schema(min_length = 1, max_length = 200)]
    pub entity_id: Option<String>,
}

/// Values to save.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"values": {"colour": "green"}}))]
pub struct SaveResponse {
    /// The values that change, by the keys of their questions; `null` clears one.
    #[schema(value_type = Object)]
    pub values: Raw,
    /// The version that the values were made against; another one is 409 `stale_base`.
    pub version: Option<u64>,
}

/// Submits a response.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"values": {"colour": "green"}}))]
pub struct SubmitResponse {
    /// The values that change what was saved; left out, what was saved is submitted.
    #[schema(value_type = Option<Object>)]
    pub values: Option<Raw>,
}

/// A response that was submitted.
#[derive(Debug, Serialize, ToSchema)]
pub struct SubmittedResponse {
    #[serde(flatten)]
    pub response: Response,
    /// The same was submitted before.
    pub repeated: bool,
}

/// Asks whether a submitted response may be written to its entity.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"assigned_to": "ada"}))]
pub struct PromoteResponse {
    /// The user who decides; left out, the one whom the form names, or else an owner.
    #[serde(alias = "assignedTo")]
    #[schema(min_length = 1, max_length = 200)]
    pub assigned_to: Option<String>,
}
