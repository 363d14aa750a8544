//! Places among the runs of a worker. A run has one while it works; it gives it up while what came of it is being
//! written, so that the next one is fetched meanwhile.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::patience::Patience;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a place that is free is left so while the others may become free too: runs that begin together and take no
/// time end together, and one claim fills all of their places.
const LINGER: Duration = Duration::from_millis(1);

/// All places of a worker.
#[derive(Clone, Debug)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    /// For runs that end, without a place: no more than there are places.
    ending: Arc<Semaphore>,
    size: usize,
}

impl Room {
    pub(super) fn new(size: usize) -> Self {
        let [free, ending] = [(); 2].map(|()| Arc::new(Semaphore::new(size)));
        Self { free, ending, size }
    }

    /// The places that are free, as soon as one is; none when there will be none any more.
    pub(super) async fn places(&self, patience: &mut Patience) -> Vec<Place> {
        let Ok(first) = self.free.clone().acquire_owned().await else { return Vec::new() };
        let others = self.size.saturating_sub(1);
        let mut places = vec![self.place(first)];
        if self.free.available_permits() < others && patience.waits() {
            let all = self.free.clone().acquire_many_owned(u32::try_from(others).unwrap_or(u32::MAX));
            let freed = tokio::time::timeout(LINGER, all).await;
            patience.learn(freed.is_ok());
            if let Ok(Ok(mut freed)) = freed {
                places.extend(std::iter::from_fn(|| freed.split(1)).map(|one| self.place(one)));
            }
        }
        places.extend(
            std::iter::from_fn(|| self.free.clone().try_acquire_owned().ok()).map(|one| self.place(one)),
        );
        places
    }

    fn place(&self, held: OwnedSemaphorePermit) -> Place {
        Place { room: self.clone(), held: Mutex::new(held) }
    }
}

/// A place, held until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Room,
    held: Mutex<OwnedSemaphorePermit>,
}

impl Place {
    /// The work is done, and what came of it is about to be written: another run may begin. Where too many end already,
    /// none does before this one has.
    pub(super) fn leave(&self) {
        if let Ok(ending) = self.room.ending.clone().try_acquire_owned() {
            *self.held.lock() = ending;
        }
    }

    /// There is more to do after all.
    pub(super) async fn come_back(&self) {
        let has_one = Arc::ptr_eq(self.held.lock().semaphore(), &self.room.free);
        if !has_one && let Ok(free) = self.room.free.clone().acquire_owned().await {
            *self.held.lock() = free;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// What is free within a second.
    async fn places(room: &Room) -> Vec<Place> {
        let mut patience = Patience::default();
        let taken = room.places(&mut patience);
        tokio::time::timeout(Duration::from_secs(1), taken).await.unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn all_places_that_are_free_are_taken_at_once() {
        let room = Room::new(3);
        let start = Instant::now();
        let taken = places(&room).await;
        assert_eq!((taken.len(), start.elapsed()), (3, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn places_that_become_free_together_are_taken_together() {
        let room = Room::new(3);
        let mut taken = places(&room).await;
        let start = Instant::now();
        drop(taken.pop());
        let (all, ()) = tokio::join!(places(&room), async { taken.clear() });
        assert_eq!((all.len(), start.elapsed()), (3, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn the_others_are_not_waited_for_long_and_not_in_vain_twice() {
        let room = Room::new(3);
        let mut patience = Patience::default();
        let mut taken = places(&room).await;
        let start = Instant::now();
        for waited in [LINGER, LINGER] {
            drop(taken.pop());
            taken.extend(room.places(&mut patience).await);
            assert_eq!((taken.len(), start.elapsed()), (3, waited));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_ends_makes_room_for_another() {
        let room = Room::new(1);
        let mut first = places(&room).await;
        first[0].leave();
        let second = places(&room).await;
        assert_eq!(second.len(), 1);
        second[0].leave();
        assert_eq!(places(&room).await.len(), 0, "one ends already: the second keeps its place");
        first.clear();
        second[0].leave();
        assert_eq!(places(&room).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_has_more_to_do_comes_back_when_there_is_room() {
        let room = Room::new(1);
        let first = places(&room).await;
        first[0].leave();
        let second = places(&room).await;
        let come_back = || tokio::time::timeout(Duration::from_secs(1), first[0].come_back());
        assert!(come_back().await.is_err(), "another one works");
        drop(second);
        assert!(come_back().await.is_ok());
        assert!(come_back().await.is_ok(), "who is there is there");
        assert_eq!(places(&room).await.len(), 0);
        drop(first);
        assert_eq!(places(&room).await.len(), 1);
    }
}
