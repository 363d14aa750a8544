//! What crises ask of a database.

use crate::ids::TenantId;
use crate::safety::record::CrisisRecord;
use crate::store::StoreFuture;
use crate::time::Timestamp;

/// Records of crises, for those who are responsible for safety.
pub trait CrisisStore {
    /// Crises detected from `from` to before `to`, oldest first.
    fn crises<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<CrisisRecord>>;
}
