//! A connection whose reader has stopped reading is cut, so that it cannot hold memory for ever.
//!
//! The timer exists only while a write is blocked: an idle connection costs nothing, and progress
//! by a single byte starts the time anew.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

#[derive(Debug)]
pub struct Patient<T> {
    inner: T,
    patience: Duration,
    blocked: Option<Pin<Box<Sleep>>>,
}

impl<T> Patient<T> {
    pub fn new(inner: T, patience: Duration) -> Self {
        Self { inner, patience, blocked: None }
    }

    /// Passes on what a write came to, and keeps the time of writes that come to nothing.
    fn judge<R>(&mut self, written: Poll<io::Result<R>>, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        let patience = self.patience;
        let timer = self.blocked.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader takes nothing")))
    }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_cut() {
        let (near, _far) = duplex(4);
        let mut patient = Patient::new(near, Duration::from_millis(20));
        let error = patient.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn progress_starts_the_time_anew() {
        let (near, mut far) = duplex(4);
        let mut patient = Patient::new(near, Duration::from_secs(3600));
        assert_eq!(patient.write(b"full").await.unwrap(), 4);
        assert!(patient.write(b"more").now_or_never().is_none());
        assert!(patient.blocked.is_some(), "the time of a blocked write is kept");
        far.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(patient.write(b"more").await.unwrap(), 4);
        assert!(patient.blocked.is_none(), "and forgotten when it goes on");
    }
}
