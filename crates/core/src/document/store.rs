//! What documents ask of a database.

use super::{DocumentKey, DocumentSummary, PatchRange, StoredDocument, StoredPatch};
use crate::ids::{SessionId, TenantId};
use crate::store::StoreFuture;

/// Documents, which lie where their sessions lie. Patches are found by their document, whatever else is in the log.
pub trait DocumentStore {
    /// The documents of a session, by their names.
    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
    ) -> StoreFuture<'a, Vec<DocumentSummary>>;

    /// A document: its snapshot and the patches since. A reader that has the value of the patch `seen` gets the patches
    /// after that one, and no snapshot unless it is newer.
    fn document<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        seen: Option<u64>,
    ) -> StoreFuture<'a, Option<StoredDocument>>;

    /// Patches of a document, oldest first, the opening included. Those that a fork shares with others count too.
    fn document_patches<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        within: PatchRange,
    ) -> StoreFuture<'a, Vec<StoredPatch>>;
}
