//! The pulse of a claim: renews the lease while a run works, and says when it has to end.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::Error;
use sederunt_core::access::Actor;
use sederunt_core::engine::Engine;
use sederunt_core::ids::SessionId;

/// Why a run has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Somebody asked the session to stop.
    Stopped,
    /// The claim is not ours any more: nothing that we write would be taken.
    Lost,
}

/// Beats until the run has to end. A store that cannot be reached is asked again: the lease itself decides.
pub(super) async fn beat(
    engine: &Engine,
    actor: &Arc<Actor>,
    id: &SessionId,
    epoch: u64,
    lease: Duration,
) -> End {
    loop {
        tokio::time::sleep(lease / 3).await;
        match engine.heartbeat(actor, id, epoch, Some(lease)).await {
            Ok(beat) if beat.stop_requested => return End::Stopped,
            Ok(_) => {}
            Err(Error::Unavailable(_) | Error::RateLimited(_)) => {}
            Err(_) => return End::Lost,
        }
    }
}
