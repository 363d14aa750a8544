//! Sweeps conversations: at each interval ends silent sittings and resumes waiting messages.

use std::time::Duration;

use sederunt_agents::talk::Conversations;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics;

pub async fn run(conversations: Conversations, every: Duration) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match conversations.sweep().await {
            Ok(kept) => {
                failed = false;
                metrics::kept("ended", kept.ended);
                metrics::kept("failed", kept.failed);
                metrics::kept("resumed", kept.resumed);
            }
            // A store that does not answer is reported once, not every time.
            Err(error) if !std::mem::replace(&mut failed, true) => {
                tracing::warn!(target: "sederunt::talk", code = error.code(), %error, "conversations could not be swept; nothing is lost, and the next sweep tries again");
            }
            Err(_) => {}
        }
    }
}
