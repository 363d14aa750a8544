//! The pulse of a claim: renews the lease while a run works, and says when it has to end.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::Error;
use sederunt_core::access::Actor;
use sederunt_core::engine::Engine;
use sederunt_core::work::Claimed;
use tokio::time::{Instant, interval_at};

use crate::limits;

/// Why a run has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Somebody asked the session to stop.
    Stopped,
    /// The claim is not ours any more: nothing that we write would be taken.
    Lost,
}

/// Beats until the run has to end. A stop changes the session's row, so it is heard as soon as the row's change is: at once
/// where it was asked for in this process, by the wake channel of the store where another node took it, and at the
/// latest with the next beat. A store that cannot be reached is asked again: the lease itself decides.
pub(super) async fn beat(engine: &Engine, actor: &Arc<Actor>, claimed: &Claimed, lease: Duration) -> End {
    let (id, epoch) = (&claimed.session.id, claimed.epoch);
    let mut row = engine.hub().watch_row(claimed.session.head.incarnation);
    let begun = Instant::now();
    let mut beats = interval_at(begun + lease / 3, lease / 3);
    let first_look = tokio::time::sleep_until(begun + limits::STOP_LOOK_AFTER);
    tokio::pin!(first_look);
    let mut looked = false;
    loop {
        let stop = tokio::select! {
            () = row.changed() => engine.look_at_claim(claimed).await,
            () = &mut first_look, if !looked => {
                looked = true;
                engine.look_at_claim(claimed).await
            }
            _ = beats.tick() => {
                engine.heartbeat(actor, id, epoch, Some(lease)).await.map(|beat| beat.stop_requested)
            }
        };
        match stop {
            Ok(true) => return End::Stopped,
            Ok(false) | Err(Error::Unavailable(_) | Error::RateLimited(_)) => {}
            Err(_) => return End::Lost,
        }
    }
}
