//! Closes silent feedback sessions at each interval: one query for all of them, no timer for any.

use std::time::Duration;

use sederunt_agents::lesson_writer::LessonWriter;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics;

pub async fn run(lesson_writer: LessonWriter, every: Duration) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match lesson_writer.finalize_silent().await {
            Ok(taught) => {
                failed = false;
                metrics::kept("feedback", taught.finalized);
            }
            // A store that does not answer is reported once, not every time.
            Err(error) if !std::mem::replace(&mut failed, true) => {
                tracing::warn!(target: "sederunt::feedback", code = error.code(), %error, "the lesson writer could not close feedback sessions; they stay open, and it tries again");
            }
            Err(_) => {}
        }
    }
}
