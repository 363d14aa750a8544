//! The heartbeat of a claim, for a run or a turn: says when to renew the lease and when to read the session's row,
//! and so when the work has to end.
//!
//! A stop changes the session's row, so the worker hears of it with the row's change: at once where it was asked for
//! in this process, through the store's notifications where another node took it. A stop that came between the claim
//! and the first watch of the row is found by one read soon after. The renewals of the lease are a last resort, and
//! no stop waits for them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sederunt_core::Error;
use sederunt_core::ids::Incarnation;
use sederunt_core::live::{Hub, RowWatch};
use tokio::time::{Instant, Interval, Sleep, interval_at, sleep_until};

use crate::limits;

/// Why a run or a turn has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimEnd {
    /// A caller asked the session to stop.
    Stopped,
    /// Another worker may hold the claim: nothing that this one writes would be accepted.
    Lost,
}

impl ClaimEnd {
    /// The end that a read of the row or a renewal of the lease leads to: a requested stop, or a lost claim. A store
    /// that cannot be reached is asked again: the lease itself decides.
    pub(crate) fn of(stop_requested: Result<bool, Error>) -> Option<Self> {
        match stop_requested {
            Ok(true) => Some(Self::Stopped),
            Ok(false) | Err(Error::Unavailable(_) | Error::RateLimited(_)) => None,
            Err(_) => Some(Self::Lost),
        }
    }
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The row has changed, or was not read yet.
    Look,
    /// A third of the lease is over.
    Renew,
}

pub(crate) struct Heartbeat {
    row: RowWatch,
    first_look: Pin<Box<Sleep>>,
    looked: bool,
    renewals: Interval,
}

impl Heartbeat {
    /// Watches the row from now on.
    pub(crate) fn new(hub: &Arc<Hub>, life: Incarnation, lease: Duration) -> Self {
        let begun = Instant::now();
        Self {
            row: hub.watch_row(life),
            first_look: Box::pin(sleep_until(begun + limits::STOP_LOOK_AFTER)),
            looked: false,
            renewals: interval_at(begun + lease / 3, lease / 3),
        }
    }

    /// Waits for what is due next. Safe to drop while waiting.
    pub(crate) async fn beat(&mut self) -> Beat {
        tokio::select! {
            () = self.row.changed() => Beat::Look,
            () = &mut self.first_look, if !self.looked => {
                self.looked = true;
                Beat::Look
            }
            _ = self.renewals.tick() => Beat::Renew,
        }
    }
}
