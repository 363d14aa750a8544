//! The sweeper: frees lost leases, ends what is overdue, hides what fell silent, again and again.

use std::time::Duration;

use sederunt_core::engine::Engine;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics;

pub async fn run(engine: Engine, every: Duration) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match engine.sweep().await {
            Ok(swept) => {
                failed = false;
                metrics::swept("lease_lost", swept.leases_lost);
                metrics::swept("overdue", swept.overdue);
                metrics::swept("hidden", swept.hidden);
            }
            // A store that is away is reported once, not every second.
            Err(error) if !std::mem::replace(&mut failed, true) => {
                tracing::error!(target: "sederunt::sweeper", code = error.code(), %error, "a sweep failed");
            }
            Err(_) => {}
        }
    }
}
