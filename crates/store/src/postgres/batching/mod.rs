//! Requests of one node that share a transaction: small changes, point reads and claims. `coalesce` collects the
//! first two into batches; `claims` keeps its own queues.

pub(super) mod changes;
pub(super) mod claims;
mod coalesce;
pub(super) mod point_reads;
