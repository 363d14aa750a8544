//! Where plain appends wait for their batch.
//!
//! Few callers share one lane, so that their appends meet in one commit; many are spread over all lanes by
//! session. A session stays in its lane while anything of it is under way, so its appends keep their order.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sederunt_core::error::Error;
use sederunt_core::ids::SessionId;
use sederunt_core::limits;
use sederunt_core::store::Refusal;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::batch::{self, Job};
use super::tx::Base;

/// Batches that may be on their way at once.
pub(super) const LANES: usize = 4;
/// Up to so many callers one lane is faster than several.
const ONE_LANE_MAX: usize = 64;
/// The longest wait for further appends: a fraction of a commit, so that it costs less than it saves.
const LINGER_MAX: Duration = Duration::from_micros(500);
/// Bytes of one batch, beyond which it is sent as it is.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Lanes {
    state: Mutex<State>,
    wake: [Notify; LANES],
}

#[derive(Debug, Default)]
struct State {
    queues: [VecDeque<Job>; LANES],
    /// The lane of every session with something under way, and how much that is.
    sessions: HashMap<(i32, SessionId), (usize, usize)>,
    under_way: usize,
    closed: bool,
}

impl Lanes {
    pub(super) fn start(base: &Arc<Base>) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let lanes = Arc::new(Self { state: Mutex::default(), wake: Default::default() });
        let tasks = (0..LANES).map(|lane| tokio::spawn(drive(base.clone(), lanes.clone(), lane))).collect();
        (lanes, tasks)
    }

    /// Queues an append, or says why it is not taken.
    pub(super) fn put(&self, job: Job) -> Result<(), Refusal> {
        let lane = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::unavailable("the store is closing").into());
            }
            if state.under_way >= limits::WRITE_QUEUE_MAX {
                return Err(Error::unavailable("the queue of writes is full").into());
            }
            let spread = state.under_way >= ONE_LANE_MAX;
            let at = (job.tk, job.session.clone());
            let fresh = if spread { lane_of(&at) } else { 0 };
            let (lane, count) = state.sessions.entry(at).or_insert((fresh, 0));
            *count += 1;
            let lane = *lane;
            state.under_way += 1;
            state.queues[lane].push_back(job);
            lane
        };
        self.wake[lane].notify_one();
        Ok(())
    }

    /// Takes no more; what is queued is still committed.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        for wake in &self.wake {
            wake.notify_one();
        }
    }

    fn waiting(&self, lane: usize) -> usize {
        self.state.lock().queues[lane].len()
    }

    /// Waits for work. `None` when there will be none any more.
    async fn take(&self, lane: usize, last: &Last) -> Option<Vec<Job>> {
        loop {
            let woken = self.wake[lane].notified();
            {
                let state = self.state.lock();
                if !state.queues[lane].is_empty() {
                    break;
                }
                if state.closed {
                    return None;
                }
            }
            woken.await;
        }
        self.linger(lane, last).await;
        let mut state = self.state.lock();
        let queue = &mut state.queues[lane];
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

    /// Callers that were answered by the last commit are about to come back: wait for as many as came last time,
    /// but never for long. A timer is too coarse for that.
    async fn linger(&self, lane: usize, last: &Last) {
        let until = Instant::now() + (last.took / 4).min(LINGER_MAX);
        while self.waiting(lane) < last.size && Instant::now() < until {
            tokio::task::yield_now().await;
        }
    }

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

#[derive(Default)]
struct Last {
    size: usize,
    took: Duration,
}

async fn drive(base: Arc<Base>, lanes: Arc<Lanes>, lane: usize) {
    let mut last = Last::default();
    while let Some(jobs) = lanes.take(lane, &last).await {
        let sessions: Vec<_> = jobs.iter().map(|job| (job.tk, job.session.clone())).collect();
        last.size = jobs.len();
        last.took = batch::run(&base, jobs).await;
        lanes.finish(sessions);
    }
}

fn lane_of(at: &(i32, SessionId)) -> usize {
    let mut hasher = DefaultHasher::new();
    at.hash(&mut hasher);
    usize::try_from(hasher.finish() % LANES as u64).unwrap_or(0)
}
