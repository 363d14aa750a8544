//! The background work of a process that has a store open: the sweeper, the sweep of conversations, the lesson
//! writer, and the removal of what is past its retention. A server and an embedding program start the same work here.
//!
//! Every pass is made of single commits that are guarded like any other, so any number of processes may run this on
//! one store, and it can be stopped at any point. Everything is spawned by plain functions of this crate, so that it
//! is compiled here and not again in each crate that starts it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sederunt_core::Error;
use sederunt_core::engine::{Engine, SweepCounts};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::executor::Executor;
use crate::lesson_writer::LessonSweep;
use crate::talk::Conversations;
use crate::talk::sweep::ConversationSweep;

/// Idempotency keys are kept for a day; an hour more does no harm.
const PURGE_KEYS_EVERY: Duration = Duration::from_secs(3600);
/// Ratings and crisis records expire by whole days.
const PURGE_RECORDS_EVERY: Duration = Duration::from_secs(24 * 3600);

/// How often the parts of the background work run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Lost leases, overdue sessions, silent feedback sessions.
    pub sweep: Duration,
    /// Silent sittings, conversations that wait for a node.
    pub conversations: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self { sweep: Duration::from_secs(1), conversations: Duration::from_secs(30) }
    }
}

/// What one pass of a part did.
#[derive(Clone, Copy, Debug)]
pub enum Pass {
    Swept(SweepCounts),
    Conversations(ConversationSweep),
    Lessons(LessonSweep),
}

/// Hears what every successful pass did, to count it.
pub type Report = fn(Pass);

/// Background work while it runs. Dropping it stops the work.
#[derive(Debug, Default)]
pub struct Background(Vec<JoinHandle<()>>);

impl Background {
    /// Starts all parts on the current Tokio runtime.
    pub fn start(conversations: &Conversations, periods: Periods, report: Report) -> Self {
        let mut this = Self::default();
        let talk = conversations.clone();
        this.add(every("the sweeper", periods.sweep, move || {
            let talk = talk.clone();
            async move {
                let swept = talk.engine().sweep().await?;
                // Conversations that waited for a lost lease go on at once.
                if swept.leases_lost + swept.overdue > 0 {
                    talk.resume().await?;
                }
                report(Pass::Swept(swept));
                Ok(())
            }
        }));
        let talk = conversations.clone();
        this.add(every("the sweep of conversations", periods.conversations, move || {
            let talk = talk.clone();
            async move {
                report(Pass::Conversations(talk.sweep().await?));
                Ok(())
            }
        }));
        let writer = conversations.lesson_writer();
        this.add(every("the lesson writer", periods.sweep, move || {
            let writer = writer.clone();
            async move {
                report(Pass::Lessons(writer.finalize_silent().await?));
                Ok(())
            }
        }));
        this.purge(conversations.engine());
        this
    }

    /// Removes what is past its retention. Nothing that writes keys, ratings or crisis records ever removes any.
    fn purge(&mut self, engine: &Engine) {
        let of_keys = engine.clone();
        self.add(every("the removal of old idempotency keys", PURGE_KEYS_EVERY, move || {
            let engine = of_keys.clone();
            async move { engine.purge_idempotency_keys().await.map(drop) }
        }));
        let of_records = engine.clone();
        self.add(every("the removal of old ratings and crisis records", PURGE_RECORDS_EVERY, move || {
            let engine = of_records.clone();
            async move { engine.purge_records(None, None).await.map(drop) }
        }));
    }

    /// Starts a further part.
    pub fn add(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.push(tokio::spawn(work));
    }

    /// Stops all parts and waits until they hold nothing of the store any more.
    pub async fn stop(mut self) {
        self.abort();
        for part in std::mem::take(&mut self.0) {
            let _ = part.await;
        }
    }

    fn abort(&self) {
        for part in &self.0 {
            part.abort();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Does `work` at once and then at each interval, until it is dropped. Several failures in a row are logged once: the
/// first names its cause, and the next pass tries again.
pub async fn every<W, F>(name: &'static str, period: Duration, mut work: W)
where
    W: FnMut() -> F + Send,
    F: Future<Output = Result<(), Error>> + Send,
{
    let period = period.max(Duration::from_millis(1));
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match work().await {
            Ok(()) => failed = false,
            Err(error) if !std::mem::replace(&mut failed, true) => {
                tracing::warn!(
                    target: "sederunt::background", code = error.code(), %error,
                    "{name} failed; nothing is lost, and it tries again every {}", Seconds(period)
                );
            }
            Err(_) => {}
        }
    }
}

/// A period as people say it.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}

/// An executor while it runs.
#[derive(Debug)]
pub struct RunningExecutor {
    leave: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl RunningExecutor {
    pub fn start(executor: Executor) -> Self {
        let (leave, leaving) = watch::channel(false);
        let executor = Arc::new(executor);
        Self { leave, serving: tokio::spawn(async move { executor.serve(leaving).await }) }
    }

    /// Lets it finish its runs within `patience`; what is left then goes on from its log when the lease has ended.
    pub async fn stop(mut self, patience: Duration) {
        let _ = self.leave.send(true);
        if tokio::time::timeout(patience, &mut self.serving).await.is_err() {
            tracing::warn!(
                target: "sederunt::work",
                "the time for shutting down is over; runs that are still under way go on from their logs, at the next start \
                 or on another node"
            );
            self.serving.abort();
            let _ = (&mut self.serving).await;
        }
    }
}

impl Drop for RunningExecutor {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_fails_is_tried_again_at_the_next_interval() {
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = tries.clone();
        let mut background = Background::default();
        background.add(every("the test", Duration::from_secs(10), move || {
            let nth = counted.fetch_add(1, Ordering::Relaxed);
            async move { if nth < 2 { Err(Error::internal("not yet")) } else { Ok(()) } }
        }));
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(tries.load(Ordering::Relaxed), 4, "at once, and after 10, 20 and 30 s");
        background.stop().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(tries.load(Ordering::Relaxed), 4, "a stopped part does nothing more");
    }
}
