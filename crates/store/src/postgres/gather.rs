//! How questions and changes that wait for the database meet: whatever comes while others are on their way goes along
//! with the next ones, so that many callers share what a transaction costs.
//!
//! One lot is on its way as a rule. Another one begins beside it only when it takes long, for it may wait for a lock
//! that is none of the others' business.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

/// How long a lot that is on its way is waited for: longer than one takes that waits for nobody.
const PATIENCE: Duration = Duration::from_millis(5);

/// Takes what callers put until it is closed.
#[derive(Debug)]
pub(super) struct Gather<T> {
    put: Mutex<Option<mpsc::UnboundedSender<T>>>,
    queue: tokio::sync::Mutex<mpsc::UnboundedReceiver<T>>,
    /// The most that one lot takes.
    most: usize,
    /// How long those are waited for whom the last lot has answered: they are about to come back.
    linger: Duration,
    waiting: AtomicUsize,
    under_way: AtomicUsize,
    expected: AtomicUsize,
    done: Notify,
}

impl<T> Gather<T> {
    pub(super) fn new(most: usize, linger: Duration) -> Self {
        let (put, queue) = mpsc::unbounded_channel();
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
    pub(super) fn put(&self, one: T) -> bool {
        let put = self.put.lock();
        let Some(put) = put.as_ref() else { return false };
        // Counted first: it may be taken before this goes on.
        self.waiting.fetch_add(1, Ordering::AcqRel);
        put.send(one).is_ok()
    }

    /// Takes no more; what is queued is still handed out.
    pub(super) fn close(&self) {
        self.put.lock().take();
    }

    /// The next lot, or nothing when there will be none any more. Whoever takes one says when it is [`Self::finished`].
    pub(super) async fn next(&self) -> Option<Vec<T>> {
        let mut queue = self.queue.lock().await;
        let mut lot = Vec::new();
        if queue.recv_many(&mut lot, self.most).await == 0 {
            return None;
        }
        let _ = tokio::time::timeout(PATIENCE, self.idle()).await;
        let expected = self.expected.load(Ordering::Acquire).min(self.most);
        if lot.len() < expected && !self.linger.is_zero() {
            let gathered = async {
                while lot.len() < expected {
                    let room = self.most - lot.len();
                    if queue.recv_many(&mut lot, room).await == 0 {
                        return;
                    }
                }
            };
            let _ = tokio::time::timeout(self.linger, gathered).await;
        }
        while lot.len() < self.most
            && let Ok(one) = queue.try_recv()
        {
            lot.push(one);
        }
        self.waiting.fetch_sub(lot.len(), Ordering::AcqRel);
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Some(lot)
    }

    /// Takes note that a lot of so many is done.
    pub(super) fn finished(&self, answered: usize) {
        self.expected.store(answered + self.waiting.load(Ordering::Acquire), Ordering::Release);
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
        gather.finished(1);
        assert_eq!(next.await.unwrap(), Some(vec![1, 2]));
        assert_eq!(start.elapsed(), Duration::ZERO);
        gather.put(3);
        assert_eq!(gather.next().await, Some(vec![3]));
        assert_eq!(start.elapsed(), PATIENCE + LINGER);
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
