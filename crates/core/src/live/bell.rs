//! Wakes listeners: a few at once, a crowd at most once in an interval.
//!
//! Each woken listener costs a write to its connection, so something that moves fast tells many of them in
//! short intervals, of several changes at once.

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

/// When many listeners were told last.
#[derive(Debug, Default)]
struct Crowd {
    told: Option<Instant>,
    /// They will be told at the end of the interval.
    planned: bool,
    /// Where waiting can be done: stores publish from threads of their own.
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

    /// Wakes the listeners, a crowd perhaps a little later.
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
            // Without the channel, which goes when nobody but the hub and a leaving reader holds it.
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
