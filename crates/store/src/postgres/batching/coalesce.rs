//! Coalesces concurrent requests: what arrives while a batch is in flight joins the next batch, so callers share a
//! transaction.
//!
//! One lot is on its way as a rule, and those whom the last one has answered are waited for as long as that pays.
//! Another one begins beside it only when it takes long, for it may wait for a lock
//! that is none of the others' business.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::patience::Patience;
use tokio::sync::{Notify, mpsc};

/// How long a lot that is on its way is waited for: longer than one takes that waits for nobody.
const LOT_MAX: Duration = Duration::from_millis(5);
/// How often those go first who are ready to run: whatever they put goes along.
const ROUNDS: usize = 3;

/// Takes what callers put until it is closed.
#[derive(Debug)]
pub(in crate::postgres) struct Gather<T> {
    put: Mutex<Option<mpsc::UnboundedSender<T>>>,
    queue: tokio::sync::Mutex<Queue<T>>,
    /// The most that one lot takes.
    most: usize,
    /// How long those are waited for whom the last lot has answered: they are about to come back.
    linger: Duration,
    waiting: AtomicUsize,
    under_way: AtomicUsize,
    expected: AtomicUsize,
    done: Notify,
}

#[derive(Debug)]
struct Queue<T> {
    put: mpsc::UnboundedReceiver<T>,
    patience: Patience,
}

impl<T> Gather<T> {
    pub(in crate::postgres) fn new(most: usize, linger: Duration) -> Self {
        let (put, queue) = mpsc::unbounded_channel();
        let queue = Queue { put: queue, patience: Patience::default() };
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

    /// Whether it was taken: it is not once this is closed.
    pub(in crate::postgres) fn put(&self, one: T) -> bool {
        let put = self.put.lock();
        let Some(put) = put.as_ref() else { return false };
        // Counted first: it may be taken before this goes on.
        self.waiting.fetch_add(1, Ordering::AcqRel);
        put.send(one).is_ok()
    }

    /// Takes no more; what is queued is still handed out.
    pub(in crate::postgres) fn close(&self) {
        self.put.lock().take();
    }

    /// The next lot, or nothing when there will be none any more. Whoever takes one says when it is [`Self::finished`].
    pub(in crate::postgres) async fn next(&self) -> Option<Vec<T>> {
        let mut queue = self.queue.lock().await;
        let Queue { put, patience } = &mut *queue;
        let mut lot = Vec::new();
        if put.recv_many(&mut lot, self.most).await == 0 {
            return None;
        }
        let _ = tokio::time::timeout(LOT_MAX, self.idle()).await;
        for _ in 0..ROUNDS {
            tokio::task::yield_now().await;
        }
        self.fill(&mut lot, put);
        let expected = self.expected.load(Ordering::Acquire).min(self.most);
        if lot.len() < expected && !self.linger.is_zero() && patience.waits() {
            let gathered = async {
                while lot.len() < expected {
                    let room = self.most - lot.len();
                    if put.recv_many(&mut lot, room).await == 0 {
                        return;
                    }
                }
            };
            patience.learn(tokio::time::timeout(self.linger, gathered).await.is_ok());
            self.fill(&mut lot, put);
        }
        self.waiting.fetch_sub(lot.len(), Ordering::AcqRel);
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Some(lot)
    }

    /// Adds whatever is there.
    fn fill(&self, lot: &mut Vec<T>, put: &mut mpsc::UnboundedReceiver<T>) {
        while lot.len() < self.most
            && let Ok(one) = put.try_recv()
        {
            lot.push(one);
        }
    }

    /// How many wait by now.
    pub(in crate::postgres) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Takes note that a lot is done, and how many may come soon: those whom it has answered, and those who waited then.
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

    fn with(count: usize) -> Arc<Gather<usize>> {
        let gather = Arc::new(Gather::new(4, LINGER));
        (0..count).for_each(|one| assert!(gather.put(one)));
        gather
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_where_nobody_is_expected() {
        let gather = with(2);
        let start = Instant::now();
        assert_eq!(gather.next().await, Some(vec![0, 1]));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_were_answered_are_waited_for_and_not_for_long() {
        let gather = with(3);
        assert_eq!(gather.next().await, Some(vec![0, 1, 2]));
        gather.finished(3);
        gather.put(3);
        let start = Instant::now();
        assert_eq!(gather.next().await, Some(vec![3]));
        assert_eq!(start.elapsed(), LINGER);
        gather.finished(1);
        gather.put(4);
        assert_eq!(gather.next().await, Some(vec![4]));
        assert_eq!(start.elapsed(), LINGER, "from then on fewer are expected");
        for one in 5..8 {
            gather.finished(2);
            gather.put(one);
            assert_eq!(gather.next().await, Some(vec![one]));
        }
        assert_eq!(start.elapsed(), 2 * LINGER, "and a wait that was in vain is not repeated at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lot_that_is_on_its_way_is_waited_for_unless_it_takes_long() {
        let gather = with(1);
        assert_eq!(gather.next().await, Some(vec![0]));
        gather.put(1);
        let start = Instant::now();
        let next = tokio::spawn({
            let gather = gather.clone();
            async move { gather.next().await }
        });
        tokio::task::yield_now().await;
        gather.put(2);
        gather.finished(1 + gather.waiting());
        assert_eq!(next.await.unwrap(), Some(vec![1, 2]));
        assert_eq!(start.elapsed(), LINGER, "for the one that was answered");
        gather.put(3);
        assert_eq!(gather.next().await, Some(vec![3]));
        assert_eq!(start.elapsed(), LINGER + LOT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_put_before_the_end_is_handed_out_and_nothing_is_put_after() {
        let gather = with(5);
        gather.close();
        assert!(!gather.put(5));
        assert_eq!(gather.next().await.map(|lot| lot.len()), Some(4));
        gather.finished(4);
        assert_eq!(gather.next().await, Some(vec![4]));
        gather.finished(1);
        assert_eq!(gather.next().await, None);
    }
}
