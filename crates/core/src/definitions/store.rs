//! What definitions ask of a database.

use crate::definitions::{DefinitionDoc, DefinitionKind, DocQuery, DocTitle};
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
    /// The titles of the entities and tasks with these ids, as far as they exist, in any order: one query for all.
    fn doc_titles<'a>(
        &'a self,
        tenant: &'a TenantId,
        ids: &'a [(DefinitionKind, Box<str>)],
    ) -> StoreFuture<'a, Vec<DocTitle>>;
}
