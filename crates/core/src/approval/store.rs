//! What approvals ask of a database.

use crate::approval::{Approval, ApprovalQuery};
use crate::ids::TenantId;
use crate::session::query::Page;
use crate::store::StoreFuture;

/// One approval, which lies where its session lies.
pub trait ApprovalStore {
    fn approval<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Approval>>;
}

/// Lists of approvals; those of incognito sessions are in none.
pub trait ApprovalListStore {
    fn approvals<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Page<Approval, i64>>;
    /// The ids of the first page of such a list, without the rows.
    fn approval_ids<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ApprovalQuery,
    ) -> StoreFuture<'a, Vec<Box<str>>>;
}
