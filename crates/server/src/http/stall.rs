//! A connection whose reader takes nothing, or next to nothing, is cut, so that it cannot hold memory for ever.
//!
//! Only the time in which writes wait for the reader counts: a quiet stream is not slow. A reader is cut when it
//! takes nothing for [`DrainRule::stall_max`], and when over [`DrainRule::window`] of waiting it took less than
//! [`DrainRule::bytes_per_second_min`]. The timer exists only while a write waits: an idle connection costs nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How fast a reader must be.
#[derive(Clone, Copy, Debug)]
pub struct DrainRule {
    /// How long a reader may take nothing at all.
    pub stall_max: Duration,
    /// How much waiting is judged together.
    pub window: Duration,
    /// The average rate that a reader must reach in it.
    pub bytes_per_second_min: usize,
}

impl DrainRule {
    /// Whether a reader that took `taken` bytes while writes waited this long is too slow.
    fn is_too_slow(&self, waited: Duration, taken: usize) -> bool {
        let due = self.bytes_per_second_min as u128 * waited.as_millis() / 1000;
        waited >= self.window && (taken as u128) < due
    }
}

#[derive(Debug)]
pub struct Patient<T> {
    inner: T,
    rule: DrainRule,
    blocked: Option<Blocked>,
    /// How long writes have waited in this window, and how many bytes the reader took in it.
    waited: Duration,
    taken: usize,
}

/// A write that waits for the reader.
#[derive(Debug)]
struct Blocked {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<T> Patient<T> {
    pub fn new(inner: T, rule: DrainRule) -> Self {
        Self { inner, rule, blocked: None, waited: Duration::ZERO, taken: 0 }
    }

    /// Passes on a finished write, and times one that waits.
    fn judge(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = written else {
            let left = self.rule.window.saturating_sub(self.waited);
            let patience = self.rule.stall_max.min(left);
            let blocked = self
                .blocked
                .get_or_insert_with(|| Blocked { since: Instant::now(), timer: Box::pin(sleep(patience)) });
            ready!(blocked.timer.as_mut().poll(cx));
            let waited = blocked.since.elapsed();
            if waited < self.rule.stall_max && !self.rule.is_too_slow(self.waited + waited, self.taken) {
                // The window is over and the reader took enough in it: the next one begins.
                (self.waited, self.taken) = (Duration::ZERO, 0);
                let patience = self.rule.stall_max.min(self.rule.window);
                let mut timer = Box::pin(sleep(patience));
                let again = timer.as_mut().poll(cx);
                self.blocked = Some(Blocked { since: Instant::now(), timer });
                if again.is_pending() {
                    return Poll::Pending;
                }
            }
            return Poll::Ready(Err(too_slow()));
        };
        if let Some(blocked) = self.blocked.take() {
            self.waited += blocked.since.elapsed();
            self.taken += *written.as_ref().unwrap_or(&0);
            if self.rule.is_too_slow(self.waited, self.taken) {
                return Poll::Ready(Err(too_slow()));
            }
            if self.waited >= self.rule.window {
                (self.waited, self.taken) = (Duration::ZERO, 0);
            }
        } else if self.waited > Duration::ZERO {
            // Written without waiting: it counts in the reader's favour.
            self.taken += *written.as_ref().unwrap_or(&0);
        }
        Poll::Ready(written)
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the reader takes too little")
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.judge(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.judge(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use sederunt_core::limits;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const RULE: DrainRule = DrainRule {
        stall_max: Duration::from_secs(20),
        window: Duration::from_secs(30),
        bytes_per_second_min: 1024,
    };

    #[test]
    fn the_rate_is_judged_over_a_window_of_waiting() {
        let table = [
            (29_999, 0, false),
            (30_000, 30 * 1024 - 1, true),
            (30_000, 30 * 1024, false),
            (60_000, 30 * 1024, true),
        ];
        for (waited_ms, taken, slow) in table {
            let waited = Duration::from_millis(waited_ms);
            assert_eq!(RULE.is_too_slow(waited, taken), slow, "{waited_ms} {taken}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut() {
        let (near, _far) = duplex(4);
        let mut patient = Patient::new(near, RULE);
        let began = Instant::now();
        let error = patient.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 20);
    }

    /// Writes without end to a reader that takes this many bytes in each interval; returns how long it lasts.
    async fn written_to(
        mut far: DuplexStream,
        near: DuplexStream,
        bytes: usize,
        every_s: u64,
    ) -> Option<u64> {
        let mut patient = Patient::new(near, RULE);
        let began = Instant::now();
        let reader = async move {
            let mut taken = vec![0; bytes];
            loop {
                tokio::time::sleep(Duration::from_secs(every_s)).await;
                if far.read_exact(&mut taken).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let writer = async {
            loop {
                if patient.write_all(&[0; 1024]).await.is_err() {
                    return began.elapsed().as_secs();
                }
            }
        };
        tokio::select! {
            lasted = writer => Some(lasted),
            () = reader => None,
            () = tokio::time::sleep(Duration::from_secs(600)) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_a_little_now_and_then_is_cut() {
        let (near, far) = duplex(4096);
        let lasted = written_to(far, near, 2048, 8).await.unwrap();
        assert!((30..=48).contains(&lasted), "{lasted}");
        let (near, far) = duplex(4096);
        let lasted = written_to(far, near, 1, 1).await.unwrap();
        assert!((30..=40).contains(&lasted), "{lasted}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_that_keeps_up_is_served() {
        let (near, far) = duplex(4096);
        assert_eq!(written_to(far, near, 2048, 1).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_is_not_slow() {
        let (near, mut far) = duplex(4);
        let mut patient = Patient::new(near, RULE);
        for _ in 0..50 {
            assert_eq!(patient.write(b"full").await.unwrap(), 4);
            assert!(patient.write(b"more").now_or_never().is_none());
            far.read_exact(&mut [0; 4]).await.unwrap();
            assert_eq!(patient.write(b"more").await.unwrap(), 4);
            assert!(patient.blocked.is_none(), "the time of a write that went on is not kept");
            far.read_exact(&mut [0; 4]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    }

    #[test]
    fn a_reader_one_byte_below_the_default_rate_is_too_slow_after_the_default_window() {
        let times = crate::config::StreamTimes::default();
        let rule = DrainRule {
            stall_max: times.stall_max,
            window: times.drain_window,
            bytes_per_second_min: times.drain_bytes_per_second_min,
        };
        let window = limits::STREAM_DRAIN_WINDOW;
        let due = limits::STREAM_DRAIN_BYTES_PER_SECOND_MIN * usize::try_from(window.as_secs()).unwrap();
        assert!(!rule.is_too_slow(window, due));
        assert!(rule.is_too_slow(window, due - 1));
        assert!(!rule.is_too_slow(window - Duration::from_millis(1), 0), "nobody is judged before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut_at_the_default_time() {
        let (near, _far) = duplex(4);
        let rule = DrainRule { stall_max: crate::config::StreamTimes::default().stall_max, ..RULE };
        let began = Instant::now();
        assert!(Patient::new(near, rule).write_all(b"more than fits").await.is_err());
        assert_eq!(began.elapsed().as_secs(), limits::STREAM_STALL_MAX.as_secs());
    }
}
