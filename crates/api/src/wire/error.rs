//! The envelope of every refusal.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Every refusal looks like this. Nothing was written.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"error": {"code": "not_found",
    "message": "there is no such thing, or it is not yours to see", "request_id": "5f0e9a2c7b11-2a"}}))]
pub struct Envelope {
    pub error: Refusal,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// Stable: programs may decide by it.
    #[schema(pattern = "^[a-z_]+$", example = "invalid")]
    pub code: String,
    /// A sentence for people, saying what to do.
    pub message: String,
    /// The field, parameter or header that does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub field: Option<String>,
    /// Details for programs, by code: `sequence_mismatch` has `last_sequence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    pub details: Option<Value>,
    pub request_id: String,
}
