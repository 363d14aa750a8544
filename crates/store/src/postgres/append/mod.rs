//! Plain appends: queued per session, committed in batches.

pub(super) mod batch;
pub(super) mod head_cache;
mod optimistic;
pub(super) mod queue;
