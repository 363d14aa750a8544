//! Removes what is past its retention, and folds metrics.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use sederunt_core::engine::Engine;
use tokio::time::interval;

use crate::http::{App, FORGET_EVERY, audit_refused};

/// Idempotency keys are kept for a day; an hour more does no harm.
const FORGET_KEYS_EVERY: Duration = Duration::from_secs(3600);
/// Ratings and crisis records expire by whole days.
const FORGET_RECORDS_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Recorded times pile up until they are folded into their buckets.
const FOLD_EVERY: Duration = Duration::from_secs(5);

pub async fn forget_keys(engine: Engine) {
    let mut ticks = interval(FORGET_KEYS_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = engine.purge_idempotency_keys().await {
            tracing::warn!(target: "sederunt::upkeep", code = error.code(), %error, "the upkeep could not delete old idempotency keys; it tries again later");
        }
    }
}

/// Removes ratings and crisis records past their retention. Nothing that writes them ever removes any.
pub async fn forget_records(engine: Engine) {
    let mut ticks = interval(FORGET_RECORDS_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = engine.purge_records(None, None).await {
            tracing::warn!(target: "sederunt::upkeep", code = error.code(), %error, "the upkeep could not delete old ratings and crisis records; it tries again later");
        }
    }
}

pub async fn forget_quiet_callers(app: App) {
    let mut ticks = interval(FORGET_EVERY);
    loop {
        ticks.tick().await;
        app.counters.forget_quiet();
    }
}

/// Writes audit lines about refused credentials every minute.
pub async fn audit_refused_credentials(app: App) {
    let mut ticks = interval(FORGET_EVERY);
    loop {
        ticks.tick().await;
        audit_refused(&app).await;
    }
}

pub async fn fold_figures(figures: Option<PrometheusHandle>) {
    let Some(figures) = figures else { return };
    let mut ticks = interval(FOLD_EVERY);
    loop {
        ticks.tick().await;
        figures.run_upkeep();
    }
}
