//! Counters and histograms, with the names that dashboards use.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::MatchedPath;
use http::{Method, StatusCode};
use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use parking_lot::RwLock;
use sederunt_core::Timestamp;
use sederunt_core::session::Status;
use sederunt_core::work::milestone::{Milestone, MilestoneKind};

const REQUESTS: &str = "sederunt_http_requests_total";
const SECONDS: &str = "sederunt_http_request_seconds";
const STREAMS: &str = "sederunt_streams_open";
const LOGS: &str = "sederunt_logs_listened_to";
const READERS: &str = "sederunt_log_readers";
const SWEPT: &str = "sederunt_swept_total";
const KEPT: &str = "sederunt_talk_kept_total";

const RUNS_STARTED: &str = "sederunt_task_sessions_started_total";
const RUNS_COMPLETED: &str = "sederunt_task_sessions_completed_total";
const RUNS_FAILED: &str = "sederunt_task_sessions_failed_total";
const RUN_SECONDS: &str = "sederunt_task_session_seconds";

const BUCKETS_S: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
/// Runs take from an instant to days, where people are asked.
const RUN_BUCKETS_S: [f64; 12] =
    [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0];

/// A recorder that knows the buckets of this server. The embedder installs it and passes the handle.
pub fn recorder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(SECONDS.into()), &BUCKETS_S)?
        .set_buckets_for_metric(Matcher::Full(RUN_SECONDS.into()), &RUN_BUCKETS_S)
}

/// Metric handles, looked up once and then only updated.
#[derive(Default)]
pub struct Measures {
    routes: RwLock<HashMap<Box<str>, Vec<Outcome>>>,
}

/// One way in which requests to a route end.
struct Outcome {
    method: Method,
    status: StatusCode,
    count: Counter,
    seconds: Histogram,
}

impl Outcome {
    fn new(method: Method, route: &str, status: StatusCode) -> Self {
        let (verb, route) = (method.to_string(), route.to_owned());
        let status_text = status.as_str().to_owned();
        let count =
            counter!(REQUESTS, "method" => verb.clone(), "route" => route.clone(), "status" => status_text);
        let seconds = histogram!(SECONDS, "method" => verb, "route" => route);
        Self { method, status, count, seconds }
    }

    fn record(&self, took: Duration) {
        self.count.increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

impl std::fmt::Debug for Measures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Measures")
    }
}

/// The label of a path without a route.
pub const NO_ROUTE: &str = "none";

/// The template of a route, or [`NO_ROUTE`]: a path may hold anything.
pub fn route_name(route: Option<&MatchedPath>) -> &str {
    route.map_or(NO_ROUTE, MatchedPath::as_str)
}

impl Measures {
    pub fn new() -> Self {
        describe_counter!(REQUESTS, "Requests answered, by route and status");
        describe_histogram!(SECONDS, "Time until the head of the answer, by route");
        describe_gauge!(STREAMS, "Streams that are open, by kind");
        describe_gauge!(LOGS, "Logs with at least one stream reader");
        describe_gauge!(READERS, "Readers of those logs");
        describe_counter!(SWEPT, "Sessions settled by the sweeper, by reason");
        describe_counter!(
            KEPT,
            "Sittings and waiting messages dealt with by sweeps of conversations, by outcome"
        );
        describe_counter!(RUNS_STARTED, "Runs of tasks that were started, and steps of them");
        describe_counter!(RUNS_COMPLETED, "Runs of tasks that completed, and steps of them");
        describe_counter!(
            RUNS_FAILED,
            "Runs of tasks that failed, expired or were abandoned, and steps of them"
        );
        describe_histogram!(RUN_SECONDS, "Time from the start of a run or step to its end, by how it ended");
        Self::default()
    }

    /// Counts an answer. Unknown methods share one label, since a caller may invent them.
    pub fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let method = if is_known(method) { method.clone() } else { Method::TRACE };
        let same = |outcome: &&Outcome| outcome.method == method && outcome.status == status;
        if let Some(outcome) = self.routes.read().get(route).and_then(|outcomes| outcomes.iter().find(same)) {
            outcome.record(took);
            return;
        }
        let outcome = Outcome::new(method, route, status);
        outcome.record(took);
        self.routes.write().entry(route.into()).or_default().push(outcome);
    }
}

fn is_known(method: &Method) -> bool {
    [Method::GET, Method::POST, Method::PATCH, Method::DELETE, Method::PUT, Method::HEAD, Method::OPTIONS]
        .contains(method)
}

/// Counts a stream while it is open.
pub struct OpenStream(Gauge);

impl std::fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenStream")
    }
}

impl OpenStream {
    pub fn new(kind: &'static str) -> Self {
        let gauge = gauge!(STREAMS, "kind" => kind);
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Sets the gauges that are read when metrics are scraped.
#[expect(clippy::cast_precision_loss, reason = "gauges are floating point; counts stay far below 2^52")]
pub fn audience(logs: usize, readers: usize) {
    gauge!(LOGS).set(logs as f64);
    gauge!(READERS).set(readers as f64);
}

/// Counts what a sweep settled.
pub fn swept(reason: &'static str, sessions: usize) {
    if sessions > 0 {
        counter!(SWEPT, "reason" => reason).increment(sessions as u64);
    }
}

/// Counts a milestone. Names of tasks and agents are no labels: their number is unbounded.
pub fn milestone(milestone: &Milestone, at: Timestamp) {
    let kind = if milestone.is_step { "step" } else { "run" };
    match milestone.what {
        MilestoneKind::Started => counter!(RUNS_STARTED, "kind" => kind).increment(1),
        MilestoneKind::Ended { status: Status::Completed, .. } => {
            counter!(RUNS_COMPLETED, "kind" => kind).increment(1)
        }
        MilestoneKind::Ended { status, .. } => {
            counter!(RUNS_FAILED, "kind" => kind, "status" => status.as_str()).increment(1);
        }
    }
    if let (MilestoneKind::Ended { status, .. }, Some(took)) = (milestone.what, milestone.took(at)) {
        histogram!(RUN_SECONDS, "kind" => kind, "status" => status.as_str()).record(took.as_secs_f64());
    }
}

pub fn kept(outcome: &'static str, count: usize) {
    if count > 0 {
        counter!(KEPT, "outcome" => outcome).increment(count as u64);
    }
}
