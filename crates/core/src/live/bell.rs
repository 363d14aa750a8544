//! Wakes listeners: a few at once, a crowd at most once in an interval.
//!
//! Each woken listener costs a write to its connection, so a fast log wakes many listeners in short intervals, for
//! several changes at once.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::limits;

#[derive(Debug)]
pub(super) struct Bell {
    wake: watch::Sender<u64>,
    crowd: Arc<Mutex<Crowd>>,
}

/// When the listeners were last woken as a crowd.
#[derive(Debug, Default)]
struct Crowd {
    told: Option<Instant>,
    /// A wake-up at the end of the interval is scheduled.
    planned: bool,
    /// The runtime to schedule it on: stores publish from their own threads.
    runtime: Option<Handle>,
}

impl Default for Bell {
    fn default() -> Self {
        Self { wake: watch::Sender::new(0), crowd: Arc::default() }
    }
}

impl Bell {
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        if let Ok(runtime) = Handle::try_current() {
            self.crowd.lock().runtime.get_or_insert(runtime);
        }
        self.wake.subscribe()
    }

    pub(super) fn listeners(&self) -> usize {
        self.wake.receiver_count()
    }

    /// Wakes the listeners; a crowd possibly at the end of the interval.
    pub(super) fn ring(&self) {
        if self.listeners() < limits::CROWD_READERS {
            return self.ring_now();
        }
        let mut crowd = self.crowd.lock();
        if crowd.planned {
            return;
        }
        let wait = crowd.told.and_then(|told| limits::CROWD_INTERVAL.checked_sub(told.elapsed()));
        if let (Some(wait), Some(runtime)) = (wait, crowd.runtime.clone()) {
            crowd.planned = true;
            // Only these two are moved into the task: it must not keep the channel alive, which is dropped with its
            // last reader.
            let (crowd, wake) = (self.crowd.clone(), self.wake.clone());
            runtime.spawn(async move {
                tokio::time::sleep(wait).await;
                {
                    let mut crowd = crowd.lock();
                    (crowd.told, crowd.planned) = (Some(Instant::now()), false);
                }
                wake.send_modify(|count| *count += 1);
            });
        } else {
            crowd.told = Some(Instant::now());
            drop(crowd);
            self.ring_now();
        }
    }

    pub(super) fn ring_now(&self) {
        self.wake.send_modify(|count| *count += 1);
    }
}
