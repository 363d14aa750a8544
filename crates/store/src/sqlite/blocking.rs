//! Whether a commit may block the calling Tokio thread, and how.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::{Handle, RuntimeFlavor};

/// How a thread of the runtime is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockMode {
    /// It is the only one: whatever else it runs waits for the commit, as it does for every short read.
    Directly,
    /// There are others: they are told to run what this one would have run.
    InPlace,
}

impl BlockMode {
    /// `None` where a thread must not be kept at all.
    pub(super) fn of_current_runtime() -> Option<Self> {
        match Handle::try_current().ok()?.runtime_flavor() {
            RuntimeFlavor::CurrentThread => Some(Self::Directly),
            RuntimeFlavor::MultiThread => Some(Self::InPlace),
            _ => None,
        }
    }

    /// Does the work; answers `false` if the runtime refused: of many threads, some tasks are bound to one.
    pub(super) fn block<T>(self, work: impl FnOnce() -> T) -> bool {
        match self {
            Self::Directly => {
                work();
                true
            }
            Self::InPlace => catch_unwind(AssertUnwindSafe(|| tokio::task::block_in_place(work))).is_ok(),
        }
    }
}
