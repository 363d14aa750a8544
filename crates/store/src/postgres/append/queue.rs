//! The queues of plain appends, each with a task that commits its batches.
//!
//! Few callers share one queue, so that their appends share a commit; many callers are spread over all queues by
//! session. A session stays in its queue while one of its appends is pending, so its appends keep their order. The
//! tasks do not spin: the database and the callers may run on the same cores.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use sederunt_core::error::Error;
use sederunt_core::ids::SessionId;
use sederunt_core::limits;
use sederunt_core::store::Refusal;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{AppendJob, batch};
use crate::postgres::tx::Context;

/// Queues, and so batches that may be in flight at once.
pub(in crate::postgres) const QUEUES: usize = 4;
/// With fewer callers per queue than this, fewer queues are faster.
const PER_QUEUE_MAX: usize = 64;
/// A batch is closed when it has this many bytes.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug)]
pub(in crate::postgres) struct AppendQueues {
    state: Mutex<AppendQueueState>,
    wake: [Notify; QUEUES],
}

#[derive(Debug, Default)]
struct AppendQueueState {
    queues: [VecDeque<AppendJob>; QUEUES],
    /// The queue of every session with pending appends, and how many they are.
    sessions: HashMap<(i32, SessionId), (usize, usize)>,
    under_way: usize,
    closed: bool,
}

impl AppendQueueState {
    /// The number of queues for the callers of this moment.
    fn queues_in_use(&self) -> usize {
        (self.under_way / PER_QUEUE_MAX).clamp(1, QUEUES)
    }
}

impl AppendQueues {
    pub(in crate::postgres) fn start(context: &Arc<Context>) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let queues = Arc::new(Self { state: Mutex::default(), wake: Default::default() });
        let tasks =
            (0..QUEUES).map(|queue| tokio::spawn(drive(context.clone(), queues.clone(), queue))).collect();
        (queues, tasks)
    }

    /// Queues an append, or refuses it.
    pub(in crate::postgres) fn put(&self, job: AppendJob) -> Result<(), Refusal> {
        let queue = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::unavailable("the store is closing").into());
            }
            if state.under_way >= limits::WRITE_QUEUE_MAX {
                return Err(Error::unavailable("the queue of writes is full").into());
            }
            let at = (job.tk, job.session.clone());
            let fresh = queue_of(&at, state.queues_in_use());
            let (queue, count) = state.sessions.entry(at).or_insert((fresh, 0));
            *count += 1;
            let queue = *queue;
            state.under_way += 1;
            state.queues[queue].push_back(job);
            (state.queues[queue].len() == 1).then_some(queue)
        };
        if let Some(queue) = queue {
            self.wake[queue].notify_one();
        }
        Ok(())
    }

    /// Refuses further appends; queued ones are still committed.
    pub(in crate::postgres) fn close(&self) {
        self.state.lock().closed = true;
        for wake in &self.wake {
            wake.notify_one();
        }
    }

    /// Waits for the next batch; `None` once the queues are closed and empty. It does not wait for more appends:
    /// those that come while a batch is in flight join the next one.
    async fn take(&self, queue: usize) -> Option<Vec<AppendJob>> {
        loop {
            {
                let state = self.state.lock();
                if !state.queues[queue].is_empty() {
                    break;
                }
                if state.closed {
                    return None;
                }
            }
            self.wake[queue].notified().await;
        }
        let mut state = self.state.lock();
        let queue = &mut state.queues[queue];
        let mut bytes = 0;
        let mut upto = 0;
        for job in queue.iter().take(limits::GROUP_MAX) {
            bytes += job.bytes();
            if upto > 0 && bytes > BATCH_BYTES_MAX {
                break;
            }
            upto += 1;
        }
        Some(queue.drain(..upto).collect())
    }

    /// Notes that these appends are done.
    fn finish(&self, sessions: Vec<(i32, SessionId)>) {
        let mut state = self.state.lock();
        state.under_way -= sessions.len();
        for at in sessions {
            if let std::collections::hash_map::Entry::Occupied(mut entry) = state.sessions.entry(at) {
                entry.get_mut().1 -= 1;
                if entry.get().1 == 0 {
                    entry.remove();
                }
            }
        }
    }
}

async fn drive(context: Arc<Context>, queues: Arc<AppendQueues>, queue: usize) {
    while let Some(jobs) = queues.take(queue).await {
        let sessions: Vec<_> = jobs.iter().map(|job| (job.tk, job.session.clone())).collect();
        let answers = batch::run(&context, &jobs).await;
        queues.finish(sessions);
        for (job, answer) in jobs.into_iter().zip(answers) {
            // The caller may have stopped waiting; the append stands.
            let _ = job.done.send(answer);
        }
    }
}

fn queue_of(at: &(i32, SessionId), queues: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    at.hash(&mut hasher);
    usize::try_from(hasher.finish() % queues as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sederunt_core::ids::TenantId;
    use sederunt_core::store::{Guard, Write};
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    fn job(n: usize) -> AppendJob {
        let (done, _) = oneshot::channel();
        AppendJob {
            tk: 1,
            tenant: TenantId::stored("t"),
            session: SessionId::stored(format!("s{n}")),
            guard: Guard::default(),
            write: Write::Append(Vec::new()),
            key: None,
            done,
        }
    }

    fn put(queues: &AppendQueues, count: usize) {
        for n in 0..count {
            queues.put(job(n)).unwrap();
        }
    }

    fn queues() -> Arc<AppendQueues> {
        Arc::new(AppendQueues { state: Mutex::default(), wake: Default::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_takes_what_is_there_and_waits_only_for_the_first() {
        let queues = queues();
        put(&queues, 3);
        let start = Instant::now();
        assert_eq!(queues.take(0).await.map(|jobs| jobs.len()), Some(3));
        assert_eq!(start.elapsed(), Duration::ZERO);
        let take = tokio::spawn({
            let queues = queues.clone();
            async move { queues.take(0).await.map(|jobs| jobs.len()) }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!take.is_finished());
        put(&queues, 2);
        assert_eq!(take.await.unwrap(), Some(2));
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_gives_what_it_has_and_then_ends() {
        let queues = queues();
        put(&queues, 2);
        queues.close();
        let start = Instant::now();
        assert_eq!(queues.take(0).await.map(|jobs| jobs.len()), Some(2));
        assert!(queues.take(0).await.is_none());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn one_append_past_the_queue_is_refused_and_one_batch_takes_no_more_than_a_group() {
        let queues = queues();
        put(&queues, limits::WRITE_QUEUE_MAX);
        match queues.put(job(0)) {
            Err(Refusal::Rejected(error)) => assert_eq!(error.code(), "unavailable"),
            other => panic!("{other:?}"),
        }
        let batch = queues.take(0).await.unwrap();
        assert_eq!(batch.len(), limits::GROUP_MAX);
        assert!(queues.put(job(0)).is_err(), "a batch on its way still counts");
        queues.finish(batch.into_iter().map(|job| (job.tk, job.session)).collect());
        put(&queues, limits::GROUP_MAX);
        assert!(queues.put(job(0)).is_err());
    }
}
