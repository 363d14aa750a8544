//! What lessons ask of a database.

use crate::ids::TenantId;
use crate::lesson::{Lesson, LessonQuery};
use crate::session::query::Page;
use crate::store::StoreFuture;

/// What feedback has taught.
pub trait LessonStore {
    fn lesson<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Lesson>>;
    fn lessons<'a>(&'a self, tenant: &'a TenantId, query: LessonQuery) -> StoreFuture<'a, Page<Lesson, i64>>;
}
