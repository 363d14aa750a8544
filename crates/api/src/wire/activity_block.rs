//! The recent-activity block on the wire.

use sederunt_core::limits;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::query::params;

/// What the caller works on and did last.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActivityBlock {
    /// Null: the caller works on nothing.
    pub block: Option<String>,
}

params! {
    /// How much of it.
    pub struct ActivityBlockQuery {
        /// The most events, the latest ones.
        limit: usize = PageLimit::at_most(limits::ACTIVITY_LINES_MAX, limits::ACTIVITY_LINES_DEFAULT),
    }
}
