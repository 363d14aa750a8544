//! What definitions ask of a database.

use crate::definitions::{DefinitionDoc, DefinitionKind, DocQuery};
use crate::ids::TenantId;
use crate::session::query::Page;
use crate::store::StoreFuture;

/// What people define: documents by their name and in lists.
pub trait DocStore {
    /// A document by its id, or else by its slug.
    fn doc<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: DefinitionKind,
        name: &'a str,
    ) -> StoreFuture<'a, Option<DefinitionDoc>>;
    fn docs<'a>(&'a self, tenant: &'a TenantId, query: DocQuery)
    -> StoreFuture<'a, Page<DefinitionDoc, i64>>;
}
