//! What wakes the readers of one log.
//!
//! A few readers are woken by whoever publishes. Waking a crowd costs far more than the commit that
//! it announces, so a crowd has a crier: a task that wakes all of them in one wave, and again only
//! when nearly all have looked. While a wave goes round, events gather for the next. When many have,
//! the crier also waits a moment longer, because what a wave costs hardly depends on what it carries.
//! The first event after a silence is cried at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::limits;

#[derive(Debug, Default)]
pub(super) struct Bell {
    square: Arc<Square>,
    /// Hired when the readers became a crowd; stays as long as the bell.
    crier: OnceLock<Crier>,
}

/// Where the readers wait and the crier cries.
#[derive(Debug)]
struct Square {
    wake: watch::Sender<u64>,
    /// Events since the last wave.
    news: AtomicUsize,
    told: Notify,
    /// Readers that the wave has still to reach before it counts as gone round.
    unreached: AtomicUsize,
    gone_round: Notify,
}

#[derive(Debug)]
struct Crier(AbortHandle);

impl Default for Square {
    fn default() -> Self {
        Self {
            wake: watch::Sender::new(0),
            news: AtomicUsize::new(0),
            told: Notify::new(),
            unreached: AtomicUsize::new(0),
            gone_round: Notify::new(),
        }
    }
}

impl Bell {
    /// Wakes every reader, now or with the next wave.
    pub(super) fn ring(&self, events: usize) {
        match self.crier.get() {
            // A crier goes with the runtime that it was hired in.
            Some(Crier(task)) if !task.is_finished() => {
                self.square.news.fetch_add(events, Ordering::Relaxed);
                self.square.told.notify_one();
            }
            _ => self.square.wake(),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let receiver = self.square.wake.subscribe();
        if self.readers() > limits::CROWD_READERS
            && self.crier.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            self.crier.get_or_init(|| Crier(runtime.spawn(cry(self.square.clone())).abort_handle()));
        }
        receiver
    }

    /// Notes that a reader was woken.
    pub(super) fn reached(&self) {
        if self.crier.get().is_some() {
            let one_less = |left: usize| left.checked_sub(1);
            let left = self.square.unreached.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            if left == Ok(1) {
                self.square.gone_round.notify_one();
            }
        }
    }

    pub(super) fn readers(&self) -> usize {
        self.square.wake.receiver_count()
    }
}

impl Square {
    fn wake(&self) {
        self.wake.send_modify(|count| *count += 1);
    }
}

impl Drop for Crier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn cry(square: Arc<Square>) {
    loop {
        square.told.notified().await;
        let events = square.news.swap(0, Ordering::Relaxed);
        let readers = square.wake.receiver_count();
        // A few may be busy with a slow connection: nobody waits for those.
        square.unreached.store(readers - readers / 8, Ordering::Relaxed);
        square.wake();
        let _ = timeout(limits::CROWD_WAVE_MAX, square.gone_round.notified()).await;
        if events > limits::CROWD_EVENTS {
            sleep(pause(readers)).await;
        }
    }
}

/// How much longer a busy crowd of this size is left alone.
fn pause(readers: usize) -> Duration {
    let readers = u32::try_from(readers).unwrap_or(u32::MAX);
    limits::CROWD_PAUSE_PER_READER.saturating_mul(readers).min(limits::CROWD_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// A bell with as many readers.
    fn crowd(readers: usize) -> (Bell, Vec<watch::Receiver<u64>>) {
        let bell = Bell::default();
        let readers = (0..readers).map(|_| bell.subscribe()).collect();
        (bell, readers)
    }

    /// Waits until all were woken, and has as many of them say so.
    async fn woken(bell: &Bell, readers: &mut [watch::Receiver<u64>], reached: usize) {
        for reader in readers {
            reader.changed().await.unwrap();
        }
        (0..reached).for_each(|_| bell.reached());
    }

    #[test]
    fn a_few_readers_are_woken_by_whoever_rings() {
        let (bell, readers) = crowd(limits::CROWD_READERS);
        bell.ring(1);
        assert!(readers.iter().all(|reader| reader.has_changed().unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_is_woken_at_once_after_a_silence() {
        let (bell, mut readers) = crowd(limits::CROWD_READERS + 1);
        let began = Instant::now();
        for _ in 0..3 {
            bell.ring(1);
            woken(&bell, &mut readers, limits::CROWD_READERS + 1).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_wave_starts_when_nearly_all_were_reached() {
        let (bell, mut readers) = crowd(80);
        bell.ring(1);
        woken(&bell, &mut readers, 69).await;
        bell.ring(1);
        tokio::task::yield_now().await;
        assert!(!readers[0].has_changed().unwrap(), "one too few");
        bell.reached();
        woken(&bell, &mut readers, 0).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_wave_that_does_not_go_round_is_not_waited_for() {
        let (bell, mut readers) = crowd(80);
        let began = Instant::now();
        bell.ring(1);
        woken(&bell, &mut readers, 0).await;
        bell.ring(1);
        woken(&bell, &mut readers, 0).await;
        assert_eq!(began.elapsed(), limits::CROWD_WAVE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_crowd_is_left_alone_for_a_moment() {
        let rows = [(limits::CROWD_EVENTS, Duration::ZERO), (limits::CROWD_EVENTS + 1, pause(1_000))];
        for (events, paused) in rows {
            let (bell, mut readers) = crowd(1_000);
            let began = Instant::now();
            bell.ring(events);
            woken(&bell, &mut readers, 1_000).await;
            bell.ring(1);
            woken(&bell, &mut readers, 1_000).await;
            assert_eq!(began.elapsed(), paused, "{events} events");
        }
        assert_eq!(pause(1_000), Duration::from_millis(2));
        assert_eq!(pause(1_000_000), limits::CROWD_PAUSE_MAX);
    }

    #[test]
    fn a_crowd_that_lost_its_crier_is_woken_all_the_same() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (bell, readers) = runtime.block_on(async { crowd(100) });
        assert!(bell.crier.get().is_some());
        drop(runtime);
        bell.ring(1);
        assert!(readers.iter().all(|reader| reader.has_changed().unwrap()));
    }
}
