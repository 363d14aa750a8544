//! Coalesces concurrent requests: what arrives while a batch is in flight joins the next batch, so callers share a
//! transaction.
//!
//! As a rule one batch is in flight. The next one waits for the callers that the last one answered, as long as that
//! pays. A second batch starts beside it only if the first takes long, because it may wait for a lock that the others
//! do not need.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::patience::Patience;
use tokio::sync::{Notify, mpsc};

/// How long the next batch waits for one in flight: longer than a batch takes that waits for no lock.
const BATCH_WAIT_MAX: Duration = Duration::from_millis(5);
/// How often other tasks that are ready to run go first, so that their requests join the batch.
const YIELDS: usize = 3;

/// Collects requests until it is closed.
#[derive(Debug)]
pub(in crate::postgres) struct Coalescer<T> {
    put: Mutex<Option<mpsc::UnboundedSender<T>>>,
    queue: tokio::sync::Mutex<CoalescerQueue<T>>,
    /// Requests of one batch.
    most: usize,
    /// How long a batch waits for the callers that the last one answered: they are about to come back.
    linger: Duration,
    waiting: AtomicUsize,
    under_way: AtomicUsize,
    expected: AtomicUsize,
    done: Notify,
}

#[derive(Debug)]
struct CoalescerQueue<T> {
    put: mpsc::UnboundedReceiver<T>,
    patience: Patience,
}

impl<T> Coalescer<T> {
    pub(in crate::postgres) fn new(most: usize, linger: Duration) -> Self {
        let (put, queue) = mpsc::unbounded_channel();
        let queue = CoalescerQueue { put: queue, patience: Patience::default() };
        Self {
            put: Mutex::new(Some(put)),
            queue: tokio::sync::Mutex::new(queue),
            most,
            linger,
            waiting: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            expected: AtomicUsize::new(0),
            done: Notify::new(),
        }
    }

    /// Queues a request. Returns `false` once this is closed.
    pub(in crate::postgres) fn put(&self, one: T) -> bool {
        let put = self.put.lock();
        let Some(put) = put.as_ref() else { return false };
        // Counted first, because a driver may take it before the next line.
        self.waiting.fetch_add(1, Ordering::AcqRel);
        put.send(one).is_ok()
    }

    /// Refuses further requests; queued ones are still handed out.
    pub(in crate::postgres) fn close(&self) {
        self.put.lock().take();
    }

    /// The next batch; `None` once this is closed and empty. A driver that takes a batch calls [`Self::finished`]
    /// after it.
    pub(in crate::postgres) async fn next(&self) -> Option<Vec<T>> {
        let mut queue = self.queue.lock().await;
        let CoalescerQueue { put, patience } = &mut *queue;
        let mut batch = Vec::new();
        if put.recv_many(&mut batch, self.most).await == 0 {
            return None;
        }
        let _ = tokio::time::timeout(BATCH_WAIT_MAX, self.idle()).await;
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
        self.fill(&mut batch, put);
        let expected = self.expected.load(Ordering::Acquire).min(self.most);
        if batch.len() < expected && !self.linger.is_zero() && patience.waits() {
            let gathered = async {
                while batch.len() < expected {
                    let room = self.most - batch.len();
                    if put.recv_many(&mut batch, room).await == 0 {
                        return;
                    }
                }
            };
            patience.learn(tokio::time::timeout(self.linger, gathered).await.is_ok());
            self.fill(&mut batch, put);
        }
        self.waiting.fetch_sub(batch.len(), Ordering::AcqRel);
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Some(batch)
    }

    /// Fills the batch with queued requests.
    fn fill(&self, batch: &mut Vec<T>, put: &mut mpsc::UnboundedReceiver<T>) {
        while batch.len() < self.most
            && let Ok(one) = put.try_recv()
        {
            batch.push(one);
        }
    }

    /// The number of queued requests.
    pub(in crate::postgres) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Notes that a batch is done, and how many requests may come soon: the callers that it answered, and those that
    /// were queued then.
    pub(in crate::postgres) fn finished(&self, expected: usize) {
        self.expected.store(expected, Ordering::Release);
        self.under_way.fetch_sub(1, Ordering::AcqRel);
        self.done.notify_one();
    }

    async fn idle(&self) {
        while self.under_way.load(Ordering::Acquire) > 0 {
            self.done.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;

    const LINGER: Duration = Duration::from_millis(1);

    fn with(count: usize) -> Arc<Coalescer<usize>> {
        let coalescer = Arc::new(Coalescer::new(4, LINGER));
        (0..count).for_each(|one| assert!(coalescer.put(one)));
        coalescer
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_does_not_wait_where_no_caller_is_expected() {
        let coalescer = with(2);
        let start = Instant::now();
        assert_eq!(coalescer.next().await, Some(vec![0, 1]));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_waits_for_answered_callers_and_not_for_long() {
        let coalescer = with(3);
        assert_eq!(coalescer.next().await, Some(vec![0, 1, 2]));
        coalescer.finished(3);
        coalescer.put(3);
        let start = Instant::now();
        assert_eq!(coalescer.next().await, Some(vec![3]));
        assert_eq!(start.elapsed(), LINGER);
        coalescer.finished(1);
        coalescer.put(4);
        assert_eq!(coalescer.next().await, Some(vec![4]));
        assert_eq!(start.elapsed(), LINGER, "from then on fewer are expected");
        for one in 5..8 {
            coalescer.finished(2);
            coalescer.put(one);
            assert_eq!(coalescer.next().await, Some(vec![one]));
        }
        assert_eq!(start.elapsed(), 2 * LINGER, "and a wait that was in vain is not repeated at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_in_flight_is_waited_for_unless_it_takes_long() {
        let coalescer = with(1);
        assert_eq!(coalescer.next().await, Some(vec![0]));
        coalescer.put(1);
        let start = Instant::now();
        let next = tokio::spawn({
            let coalescer = coalescer.clone();
            async move { coalescer.next().await }
        });
        tokio::task::yield_now().await;
        coalescer.put(2);
        coalescer.finished(1 + coalescer.waiting());
        assert_eq!(next.await.unwrap(), Some(vec![1, 2]));
        assert_eq!(start.elapsed(), LINGER, "for the one that was answered");
        coalescer.put(3);
        assert_eq!(coalescer.next().await, Some(vec![3]));
        assert_eq!(start.elapsed(), LINGER + BATCH_WAIT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_before_the_close_are_handed_out_and_later_ones_refused() {
        let coalescer = with(5);
        coalescer.close();
        assert!(!coalescer.put(5));
        assert_eq!(coalescer.next().await.map(|batch| batch.len()), Some(4));
        coalescer.finished(4);
        assert_eq!(coalescer.next().await, Some(vec![4]));
        coalescer.finished(1);
        assert_eq!(coalescer.next().await, None);
    }
}
