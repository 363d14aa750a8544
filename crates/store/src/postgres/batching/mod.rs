//! Requests of one node that share a transaction: small changes, point reads and claims.

pub(super) mod changes;
pub(super) mod claims;
mod coalesce;
pub(super) mod point_reads;
