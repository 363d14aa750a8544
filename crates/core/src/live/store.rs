//! What live streams ask of a database.

use crate::ids::TenantId;
use crate::live::Delta;

/// Pieces of unfinished replies, for the other nodes.
pub trait DeltaStore {
    /// Tells the other nodes of deltas in a tenant; a store with one node has nothing to do.
    fn spread_delta(&self, tenant: &TenantId, delta: Delta);
}
