//! Background tasks of a server: the sweeper, the keeper of conversations, the teacher, and the upkeep of keys,
//! counters and metrics.

mod keeper;
mod sweeper;
mod teacher;
mod upkeep;

use sederunt_agents::talk::Talker;
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::http::App;

/// The workers of one server.
#[derive(Debug)]
pub struct Workers(Vec<JoinHandle<()>>);

/// Starts them all.
pub fn start(app: &App, talker: &Talker, config: &ServerConfig) -> Workers {
    Workers(vec![
        tokio::spawn(sweeper::run(talker.clone(), config.sweep_every)),
        tokio::spawn(keeper::run(talker.clone(), config.keep_every)),
        tokio::spawn(teacher::run(talker.teacher(), config.sweep_every)),
        tokio::spawn(upkeep::forget_records(app.engine.clone())),
        tokio::spawn(upkeep::forget_keys(app.engine.clone())),
        tokio::spawn(upkeep::forget_quiet_callers(app.clone())),
        tokio::spawn(upkeep::audit_refused_credentials(app.clone())),
        tokio::spawn(upkeep::fold_figures(config.metrics.clone())),
    ])
}

impl Workers {
    /// Stops them. Each of their steps is one commit, so they can be stopped at any point.
    pub async fn stop(self) {
        for worker in &self.0 {
            worker.abort();
        }
        for worker in self.0 {
            let _ = worker.await;
        }
    }
}
