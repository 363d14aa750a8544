//! Whether a commit may block the calling Tokio thread, and how.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::{Handle, RuntimeFlavor};

/// How a caller blocks its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockMode {
    /// The runtime has one thread: its other tasks wait for the commit, as they do for every short read.
    Directly,
    /// The runtime has other threads: Tokio moves this thread's other tasks to them.
    InPlace,
}

impl BlockMode {
    /// `None` where the thread must not be blocked.
    pub(super) fn of_current_runtime() -> Option<Self> {
        match Handle::try_current().ok()?.runtime_flavor() {
            RuntimeFlavor::CurrentThread => Some(Self::Directly),
            RuntimeFlavor::MultiThread => Some(Self::InPlace),
            _ => None,
        }
    }

    /// Runs the work. Returns `false` if the runtime refused to block, which it does for tasks that are bound to one
    /// of several threads.
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
