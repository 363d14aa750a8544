//! `mcp`: the tools and resources of a server on stdin and stdout. Only a pipe: [`bridge`] speaks the protocol, and
//! this room finds the server that it speaks to.
//!
//! The server may belong to another process that ends before this one. Then the next request finds or starts another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sederunt_server::bridge::{self, Boxed, DialError, Line, Lines, Lost};
use tokio::sync::Mutex;

use crate::args::ConnectArgs;
use crate::commands::CommandContext;
use crate::exit::{Exit, Failure, Result};
use crate::host::{Host, ServerNeed, SittingsLast};
use crate::serve::{Signals, start_log};

/// How long to look for another server before a request is given up.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub async fn run(context: CommandContext, connect_args: ConnectArgs) -> Result<()> {
    start_log(context.config.log, "warn");
    let mut signals = Signals::new()?;
    let way = Pipe::find(&context, &connect_args).await?;
    let first = way.line.clone();
    let pipe = Arc::new(Pipe { context, connect_args, way: Mutex::new(Some(way)) });
    let not_mcp = |what| Failure::usage(format!("what came in is not MCP: {what}"));
    let done = tokio::select! {
        done = bridge::serve_stdio(&first, pipe.clone()) => done.map_err(not_mcp),
        () = signals.next() => Ok(()),
    };
    drop(first);
    pipe.close().await;
    done
}

/// The connection to a server, which may change.
struct Pipe {
    context: CommandContext,
    connect_args: ConnectArgs,
    way: Mutex<Option<Way>>,
}

/// A server, and the connection to it.
struct Way {
    host: Host,
    line: Line,
}

impl Pipe {
    /// Finds a server and connects to it. A server that is shutting down is skipped.
    async fn find(context: &CommandContext, connect_args: &ConnectArgs) -> Result<Way> {
        // Another server may replace one that shuts down, unless this one was named.
        let patience = if context.global.server.is_some() { Duration::ZERO } else { PATIENCE };
        let since = Instant::now();
        loop {
            let host = match Host::find(
                context,
                ServerNeed { connect_args, incognito: false, lasts: SittingsLast::Beyond },
            )
            .await
            {
                // Another process may have opened the store and not serve yet.
                Err(failure) if failure.exit() != Exit::Usage && since.elapsed() < patience => {
                    tokio::time::sleep(LOOK_EVERY).await;
                    continue;
                }
                found => found?,
            };
            match dial(&host).await {
                Ok(line) => return Ok(Way { host, line }),
                Err(failure) => {
                    host.close().await;
                    if failure.exit() != Exit::Unavailable || since.elapsed() >= patience {
                        return Err(failure);
                    }
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    async fn line_or_another(&self, broken: Option<&Line>) -> Result<Line> {
        let mut way = self.way.lock().await;
        if let Some(Way { line, .. }) = &*way
            && !broken.is_some_and(|broken| broken.is(line))
        {
            return Ok(line.clone());
        }
        let found = match way.take() {
            // Our own server has not ended: only the connection to it has.
            Some(ours) if ours.host.is_ours() => {
                let ours = way.insert(ours);
                ours.line = dial(&ours.host).await?;
                return Ok(ours.line.clone());
            }
            _ => Self::find(&self.context, &self.connect_args).await?,
        };
        let line = found.line.clone();
        *way = Some(found);
        Ok(line)
    }

    async fn close(&self) {
        if let Some(Way { host, line }) = self.way.lock().await.take() {
            drop(line);
            host.close().await;
        }
    }
}

impl Lines for Pipe {
    fn line<'a>(&'a self, broken: Option<&'a Line>) -> Boxed<'a, Result<Line, Lost>> {
        let lost = |failure: Failure| Lost {
            code: failure.code().to_owned(),
            sentence: failure.sentence().to_owned(),
        };
        Box::pin(async move { self.line_or_another(broken).await.map_err(lost) })
    }
}

async fn dial(host: &Host) -> Result<Line> {
    bridge::dial(&host.client).await.map_err(|error| match error {
        DialError::Refused(refused) => refused.into(),
        DialError::NotMcp(_) => Failure::unavailable(error.to_string()),
    })
}
