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
    /// Readers that wait: the others are busy, perhaps with a slow connection, and look by themselves.
    waiting: AtomicUsize,
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
            waiting: AtomicUsize::new(0),
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

    /// Waits as a reader until somebody rings.
    pub(super) async fn wait(&self, wake: &mut watch::Receiver<u64>) {
        let _waiting = Waiting::on(&self.square);
        if wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.square.reached();
    }

    pub(super) fn readers(&self) -> usize {
        self.square.wake.receiver_count()
    }
}

impl Square {
    fn wake(&self) {
        self.wake.send_modify(|count| *count += 1);
    }

    fn reached(&self) {
        let one_less = |left: usize| left.checked_sub(1);
        if self.unreached.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) == Ok(1) {
            self.gone_round.notify_one();
        }
    }
}

/// Counts a reader among those who wait, for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn on(square: &'a Square) -> Self {
        square.waiting.fetch_add(1, Ordering::Relaxed);
        Self(&square.waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
        let waiting = square.waiting.load(Ordering::Relaxed);
        square.unreached.store(waiting - waiting / 8, Ordering::Relaxed);
        square.wake();
        if waiting > 0 {
            let _ = timeout(limits::CROWD_WAVE_MAX, square.gone_round.notified()).await;
        }
        if events > limits::CROWD_EVENTS {
            sleep(pause(square.wake.receiver_count())).await;
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
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use tokio::task::yield_now;
    use tokio::time::Instant;

    use super::*;

    type Waits<'a> = Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>;

    fn crowd(readers: usize) -> (Bell, Vec<watch::Receiver<u64>>) {
        let bell = Bell::default();
        let readers = (0..readers).map(|_| bell.subscribe()).collect();
        (bell, readers)
    }

    fn waits<'a>(bell: &'a Bell, readers: &'a mut [watch::Receiver<u64>]) -> Waits<'a> {
        readers
            .iter_mut()
            .map(|reader| -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(bell.wait(reader)) })
            .collect()
    }

    /// Lets readers look whether they were woken, and counts those that were.
    async fn look(waits: &mut [Pin<Box<dyn Future<Output = ()> + '_>>]) -> usize {
        let mut woken = 0;
        for wait in waits {
            // Every task may do only so much at a time.
            yield_now().await;
            woken += usize::from(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        woken
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
            let mut waits = waits(&bell, &mut readers);
            assert_eq!(look(&mut waits).await, 0);
            bell.ring(1);
            yield_now().await;
            assert_eq!(look(&mut waits).await, limits::CROWD_READERS + 1);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_wave_starts_when_nearly_all_who_waited_were_reached() {
        let (bell, mut readers) = crowd(80);
        let mut busy = bell.subscribe();
        let mut waits = waits(&bell, &mut readers);
        look(&mut waits).await;
        bell.ring(1);
        busy.changed().await.unwrap();
        bell.ring(1);
        assert_eq!(look(&mut waits[..69]).await, 69);
        yield_now().await;
        assert!(!busy.has_changed().unwrap(), "one too few");
        assert_eq!(look(&mut waits[69..70]).await, 1);
        let began = Instant::now();
        busy.changed().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wave_that_does_not_go_round_is_not_waited_for() {
        for (waiting, waited) in [(0, Duration::ZERO), (80, limits::CROWD_WAVE_MAX)] {
            let (bell, mut readers) = crowd(80);
            let mut busy = bell.subscribe();
            let mut waits = waits(&bell, &mut readers);
            look(&mut waits[..waiting]).await;
            let began = Instant::now();
            for _ in 0..2 {
                bell.ring(1);
                busy.changed().await.unwrap();
            }
            assert_eq!(began.elapsed(), waited, "{waiting} readers wait");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_crowd_is_left_alone_for_a_moment() {
        let rows = [(limits::CROWD_EVENTS, Duration::ZERO), (limits::CROWD_EVENTS + 1, pause(1_000))];
        for (events, paused) in rows {
            let (bell, mut readers) = crowd(1_000);
            let began = Instant::now();
            bell.ring(events);
            readers[0].changed().await.unwrap();
            bell.ring(1);
            readers[0].changed().await.unwrap();
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
