//! What presence asks of a database.

use super::PresenceChange;

/// Tells other nodes who is present. Nothing is stored.
pub trait PresenceStore {
    /// Tells the other nodes of a change; a store with one node has nothing to do.
    fn spread_presence(&self, change: PresenceChange);
}
