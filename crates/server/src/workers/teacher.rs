//! Closes silent feedback sessions at each interval: one query for all of them, no timer for any.

use std::time::Duration;

use sederunt_agents::teacher::Teacher;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics;

pub async fn run(teacher: Teacher, every: Duration) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match teacher.finalize_silent().await {
            Ok(taught) => {
                failed = false;
                metrics::kept("feedback", taught.finalized);
            }
            // A store that does not answer is reported once, not every time.
            Err(error) if !std::mem::replace(&mut failed, true) => {
                tracing::warn!(target: "sederunt::feedback", code = error.code(), %error, "the teacher could not close feedback sessions; they stay open, and it tries again");
            }
            Err(_) => {}
        }
    }
}
