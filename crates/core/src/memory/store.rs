//! What memories ask of a database.

use crate::ids::TenantId;
use crate::memory::vector::Vector;
use crate::memory::{Memory, MemoryKind, Owner};
use crate::session::query::Page;
use crate::store::{MemoryQuery, StoreFuture, VectorQuery, Vectors};

/// What is remembered of an owner; what a session owns lies where that session lies.
pub trait MemoryStore {
    /// What is remembered of somebody, newest first; everything acknowledged before the call is seen.
    fn memories<'a>(&'a self, tenant: &'a TenantId, query: MemoryQuery)
    -> StoreFuture<'a, Page<Memory, i64>>;
    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Memory>>;
    /// Those of these memories that are there, in any order.
    fn memories_at<'a>(&'a self, tenant: &'a TenantId, ids: &'a [String]) -> StoreFuture<'a, Vec<Memory>>;
    /// How many memories of a kind an owner has that are brought up.
    fn count_memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        owner: &'a Owner,
        kind: MemoryKind,
    ) -> StoreFuture<'a, u64>;
}

/// What embedding models made of memories; a vector lies where its memory lies.
pub trait VectorStore {
    /// What a model made of an owner's memories that are brought up, oldest first.
    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> StoreFuture<'a, Vectors>;
    /// Keeps what a model made of memories, `None` where it refused to. Memories that have changed since are left out;
    /// a vector goes with its memory.
    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> StoreFuture<'a, ()>;
    /// Facts and arcs of all tenants that are brought up and that this model has not looked at.
    fn unembedded<'a>(&'a self, model: &'a str, limit: usize) -> StoreFuture<'a, Vec<(TenantId, Memory)>>;
}
