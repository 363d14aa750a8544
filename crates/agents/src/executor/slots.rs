//! Concurrency slots. A run frees its slot while its result is committed, so the next claim overlaps. When runs take
//! hardly any time, work is claimed before a slot is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A run that held its slot for no longer was quick: claiming others takes about as long.
const QUICK: Duration = Duration::from_millis(10);
/// After this many quick runs in a row for every slot, the next ones are expected to be quick.
const ROUNDS: usize = 4;
/// How many runs are claimed at once for every slot while runs are quick: they share the cost of the claim.
const AHEAD: usize = 2;

/// All slots of a worker.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    free: Arc<Semaphore>,
    /// Permits of runs that are being settled and hold no slot: no more than there are slots.
    ending: Arc<Semaphore>,
    size: usize,
    /// How many more quick runs it takes until runs are expected to be quick.
    unproven: Arc<AtomicUsize>,
}

impl Slots {
    pub(super) fn new(size: usize) -> Self {
        let [free, ending] = [(); 2].map(|()| Arc::new(Semaphore::new(size)));
        Self { free, ending, size, unproven: Arc::new(AtomicUsize::new(size * ROUNDS)) }
    }

    /// Reserves slots for the runs to claim next, as soon as one is free. While runs are quick, it does not wait for
    /// that.
    pub(super) async fn reserve(&self) -> Reservation {
        let mut held = Vec::new();
        if self.unproven.load(Ordering::Relaxed) == 0 {
            return Reservation { slots: self.clone(), count: self.size * AHEAD, held };
        }
        held.extend(self.acquire().await);
        let free = std::iter::from_fn(|| self.free.clone().try_acquire_owned().ok());
        held.extend(free.map(|one| self.taken(one)));
        Reservation { slots: self.clone(), count: held.len(), held }
    }

    /// A slot, as soon as one is free; `None` when the worker has shut down.
    async fn acquire(&self) -> Option<Slot> {
        Some(self.taken(self.free.clone().acquire_owned().await.ok()?))
    }

    fn taken(&self, held: OwnedSemaphorePermit) -> Slot {
        Slot { slots: self.clone(), held: Mutex::new((held, Instant::now())) }
    }

    /// Notes how long a run held its slot.
    fn learn(&self, since: Instant) {
        if since.elapsed() > QUICK {
            self.unproven.store(self.size * ROUNDS, Ordering::Relaxed);
        } else {
            let one_less = |unproven: usize| unproven.checked_sub(1);
            let _ = self.unproven.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
    }
}

/// A reservation for `count` runs: with slots that are held for them, or that will be free when they start.
#[derive(Debug)]
pub(super) struct Reservation {
    slots: Slots,
    count: usize,
    held: Vec<Slot>,
}

impl Reservation {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A slot for one of them.
    pub(super) async fn next(&mut self) -> Option<Slot> {
        match self.held.pop() {
            Some(slot) => {
                slot.begin();
                Some(slot)
            }
            None => self.slots.acquire().await,
        }
    }
}

/// A slot, held until it is dropped, and since when.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    held: Mutex<(OwnedSemaphorePermit, Instant)>,
}

impl Slot {
    /// The run begins: until now the slot was only reserved.
    fn begin(&self) {
        self.held.lock().1 = Instant::now();
    }

    /// Frees the slot while the result is committed, so that another run may begin. If too many runs are being
    /// settled already, the slot is kept.
    pub(super) fn leave(&self) {
        let mut held = self.held.lock();
        if self.is_in(&held.0) {
            self.slots.learn(held.1);
            if let Ok(ending) = self.slots.ending.clone().try_acquire_owned() {
                held.0 = ending;
            }
        }
    }

    /// Takes a slot again: the run goes on after all.
    pub(super) async fn come_back(&self) {
        let has_one = self.is_in(&self.held.lock().0);
        if !has_one && let Ok(free) = self.slots.free.clone().acquire_owned().await {
            *self.held.lock() = (free, Instant::now());
        }
    }

    fn is_in(&self, held: &OwnedSemaphorePermit) -> bool {
        Arc::ptr_eq(held.semaphore(), &self.slots.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many slots as are free within a second, up to `most`.
    async fn free_slots(slots: &Slots, most: usize) -> Vec<Slot> {
        let mut found = Vec::new();
        while found.len() < most
            && let Ok(Some(slot)) = tokio::time::timeout(Duration::from_secs(1), slots.acquire()).await
        {
            found.push(slot);
        }
        found
    }

    async fn reservable(slots: &Slots) -> usize {
        tokio::time::timeout(Duration::from_secs(1), slots.reserve()).await.map_or(0, |some| some.count())
    }

    /// This many runs, each of this length.
    async fn runs(slots: &Slots, count: usize, length: Duration) {
        for _ in 0..count {
            let slot = slots.acquire().await.unwrap();
            tokio::time::advance(length).await;
            slot.leave();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_are_fetched_as_have_a_place() {
        let slots = Slots::new(3);
        assert_eq!(reservable(&slots).await, 3);
        let mut taken = free_slots(&slots, 3).await;
        assert_eq!(reservable(&slots).await, 0);
        drop(taken.pop());
        let mut held = slots.reserve().await;
        assert_eq!(
            (held.count(), free_slots(&slots, 1).await.len()),
            (1, 0),
            "it is held for who was fetched"
        );
        taken.extend(held.next().await);
        assert_eq!((taken.len(), free_slots(&slots, 1).await.len()), (3, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn how_long_others_were_fetched_says_nothing_of_a_run() {
        let slots = Slots::new(1);
        for _ in 0..ROUNDS {
            let mut held = slots.reserve().await;
            tokio::time::advance(2 * QUICK).await;
            held.next().await.unwrap().leave();
        }
        let _taken = free_slots(&slots, 1).await;
        assert_eq!(reservable(&slots).await, AHEAD);
    }

    #[tokio::test(start_paused = true)]
    async fn quick_runs_are_fetched_before_there_is_a_place_until_one_was_slow() {
        let slots = Slots::new(2);
        runs(&slots, 2 * ROUNDS - 1, QUICK).await;
        let taken = free_slots(&slots, 2).await;
        assert_eq!(reservable(&slots).await, 0, "not all of them are proven");
        drop(taken);
        runs(&slots, 1, QUICK).await;
        let taken = free_slots(&slots, 2).await;
        assert_eq!(reservable(&slots).await, 2 * AHEAD);
        drop(taken);
        runs(&slots, 1, QUICK + Duration::from_millis(1)).await;
        let _taken = free_slots(&slots, 2).await;
        assert_eq!(reservable(&slots).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_ends_makes_room_for_another() {
        let slots = Slots::new(1);
        let mut first = free_slots(&slots, 1).await;
        first[0].leave();
        let second = free_slots(&slots, 1).await;
        assert_eq!(second.len(), 1);
        second[0].leave();
        assert_eq!(free_slots(&slots, 1).await.len(), 0, "one ends already: the second keeps its place");
        first.clear();
        second[0].leave();
        assert_eq!(free_slots(&slots, 1).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_has_more_to_do_comes_back_when_there_is_room() {
        let slots = Slots::new(1);
        let first = free_slots(&slots, 1).await;
        first[0].leave();
        let second = free_slots(&slots, 1).await;
        let come_back = || tokio::time::timeout(Duration::from_secs(1), first[0].come_back());
        assert!(come_back().await.is_err(), "another one works");
        drop(second);
        assert!(come_back().await.is_ok());
        assert!(come_back().await.is_ok(), "who is there is there");
        assert_eq!(free_slots(&slots, 1).await.len(), 0);
        drop(first);
        assert_eq!(free_slots(&slots, 1).await.len(), 1);
    }
}
