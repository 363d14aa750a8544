//! The crisis log on the wire: only how long it is kept.

use sederunt_core::engine::CrisisHold;
use sederunt_core::safety::codes::HoldReason;
use sederunt_core::{Error, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Count;

/// Which crises to hold, and until when.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"until": "2027-01-31", "thread_id": "web-1a2b3c4d", "reason": "legal_hold"}))]
pub struct HoldCrises {
    /// A day (inclusive) or a time.
    #[schema(min_length = 1)]
    pub until: String,
    /// Only records of this conversation. Left out: all of the tenant.
    #[schema(min_length = 1, max_length = 200)]
    pub thread_id: Option<String>,
    /// `legal_hold` (default), `incident_review`, `complaint` or `audit`.
    #[schema(pattern = "^(legal_hold|incident_review|complaint|audit)$")]
    pub reason: Option<String>,
}

/// How many crises are held now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HoldDone {
    pub held: Count,
}

impl TryFrom<HoldCrises> for CrisisHold {
    type Error = Error;

    fn try_from(asked: HoldCrises) -> Result<Self, Error> {
        let rule = "must be legal_hold, incident_review, complaint or audit";
        let reason = asked.reason.as_deref().unwrap_or(HoldReason::LegalHold.as_str());
        let thread = asked.thread_id.as_deref().map(SessionId::parse).transpose();
        Ok(Self {
            until: asked.until,
            thread: thread.map_err(|_| Error::invalid("thread_id", "is no id of a conversation"))?,
            reason: HoldReason::parse(reason).ok_or_else(|| Error::invalid("reason", rule))?,
        })
    }
}
