//! Background tasks of a server: those of every process with an open store, and the upkeep of counters and metrics.

use std::time::Duration;

use sederunt_agents::background::{Background, Pass, Periods, every};
use sederunt_agents::talk::Conversations;

use crate::config::ServerConfig;
use crate::http::{App, FORGET_EVERY, audit_refused};
use crate::metrics;

/// Recorded times pile up until they are folded into their buckets.
const FOLD_EVERY: Duration = Duration::from_secs(5);

/// Starts them all.
pub fn start(app: &App, conversations: &Conversations, config: &ServerConfig) -> Background {
    let periods = Periods { sweep: config.sweep_every, conversations: config.keep_every };
    let mut background = Background::start(conversations, periods, count);
    keep_up(&mut background, app, config);
    background
}

/// Starts what only the routes need.
pub fn keep_up(background: &mut Background, app: &App, config: &ServerConfig) {
    let of_callers = app.clone();
    background.add(every("the removal of quiet callers' counters", FORGET_EVERY, move || {
        of_callers.counters.forget_quiet();
        std::future::ready(Ok(()))
    }));
    let of_audit = app.clone();
    background.add(every("the audit of refused credentials", FORGET_EVERY, move || {
        let app = of_audit.clone();
        async move {
            audit_refused(&app).await;
            Ok(())
        }
    }));
    if let Some(figures) = config.metrics.clone() {
        background.add(every("the upkeep of metrics", FOLD_EVERY, move || {
            figures.run_upkeep();
            std::future::ready(Ok(()))
        }));
    }
}

/// Counts what a pass did.
fn count(pass: Pass) {
    match pass {
        Pass::Swept(swept) => {
            metrics::swept("lease_lost", swept.leases_lost);
            metrics::swept("overdue", swept.overdue);
            metrics::swept("hidden", swept.hidden);
            metrics::swept("promotion_expired", swept.promotions_expired);
        }
        Pass::Conversations(kept) => {
            metrics::kept("ended", kept.ended);
            metrics::kept("failed", kept.failed);
            metrics::kept("resumed", kept.resumed);
        }
        Pass::Lessons(taught) => metrics::kept("feedback", taught.finalized),
    }
}
