//! Where time comes from. Rules never read the system clock themselves, so every one of them can
//! be tested without sleeping.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use crate::time::Timestamp;

/// The time that a store stamps and compares with.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// The machine's clock, shifted by an offset that tests may move.
#[derive(Debug, Default)]
pub struct SystemClock {
    offset_micros: AtomicI64,
}

impl SystemClock {
    /// Moves this clock forward for everyone who holds it.
    pub fn advance(&self, by: std::time::Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.offset_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// The offset alone, for stores whose clock is a database's.
    pub fn offset_micros(&self) -> i64 {
        self.offset_micros.load(Ordering::SeqCst)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(micros + self.offset_micros.load(Ordering::Relaxed))
    }
}
