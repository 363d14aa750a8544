//! Background tasks of a server: the sweeper, the sweep of conversations, the lesson writer, and the upkeep of keys,
//! counters and metrics.

mod conversations;
mod lesson_writer;
mod sweeper;
mod upkeep;

use sederunt_agents::talk::Conversations;
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::http::App;

/// The workers of one server.
#[derive(Debug)]
pub struct Workers(Vec<JoinHandle<()>>);

/// Starts them all.
pub fn start(app: &App, conversations: &Conversations, config: &ServerConfig) -> Workers {
    Workers(vec![
        tokio::spawn(sweeper::run(conversations.clone(), config.sweep_every)),
        tokio::spawn(conversations::run(conversations.clone(), config.keep_every)),
        tokio::spawn(lesson_writer::run(conversations.lesson_writer(), config.sweep_every)),
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
