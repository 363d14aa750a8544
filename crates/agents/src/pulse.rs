//! The pulse of a claim, of a run or of a turn: says when the lease is to be renewed and when the session's row is to be
//! looked at, and so when the work has to end.
//!
//! A stop changes the session's row, so it is heard as soon as the row's change is: at once where it was asked for in
//! this process, by the wake channel of the store where another node took it. What came between the claim and the first
//! watch of the row is seen by one look soon after. The renewals of the lease are a last resort, and nothing waits for
//! them.

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
pub(crate) enum End {
    /// Somebody asked the session to stop.
    Stopped,
    /// The claim is not ours any more: nothing that we write would be taken.
    Lost,
}

impl End {
    /// What follows from a look at the row or a renewal of the lease: whether a stop was requested. A store that cannot
    /// be reached is asked again: the lease itself decides.
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
    /// The row has changed, or was not looked at yet.
    Look,
    /// A third of the lease is over.
    Renew,
}

pub(crate) struct Pulse {
    row: RowWatch,
    first_look: Pin<Box<Sleep>>,
    looked: bool,
    renewals: Interval,
}

impl Pulse {
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
