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
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut() {
        let (near, _far) = duplex(4);
        let mut patient = Patient::new(near, Duration::from_secs(20));
        let began = tokio::time::Instant::now();
        let error = patient.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_only_slow_is_served() {
        let (near, mut far) = duplex(4);
        let mut patient = Patient::new(near, Duration::from_secs(20));
        let reader = tokio::spawn(async move {
            let mut taken = Vec::new();
            while taken.len() < 12 {
                tokio::time::sleep(Duration::from_secs(19)).await;
                let mut chunk = [0; 4];
                let n = far.read(&mut chunk).await.unwrap();
                taken.extend_from_slice(&chunk[..n]);
            }
            taken
        });
        patient.write_all(b"twelve bytes").await.unwrap();
        assert_eq!(reader.await.unwrap(), b"twelve bytes");
    }
}
