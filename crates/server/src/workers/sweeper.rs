//! The sweeper: at each interval frees lost leases, ends overdue sessions, hides silent ones. Conversations that
//! waited for that are resumed at once.

use std::time::Duration;

use sederunt_agents::talk::Conversations;
use sederunt_core::Result;
use sederunt_core::engine::SweepCounts;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics;

pub async fn run(conversations: Conversations, every: Duration) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match sweep(&conversations).await {
            Ok(swept) => {
                failed = false;
                metrics::swept("lease_lost", swept.leases_lost);
                metrics::swept("overdue", swept.overdue);
                metrics::swept("hidden", swept.hidden);
            }
            // A store that does not answer is reported once, not every second.
            Err(error) if !std::mem::replace(&mut failed, true) => {
                tracing::error!(target: "sederunt::sweeper", code = error.code(), %error, "the sweeper could not reach the store; lost leases wait for its next pass");
            }
            Err(_) => {}
        }
    }
}

async fn sweep(conversations: &Conversations) -> Result<SweepCounts> {
    let swept = conversations.engine().sweep().await?;
    if swept.leases_lost + swept.overdue > 0 {
        conversations.resume().await?;
    }
    Ok(swept)
}
