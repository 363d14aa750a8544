//! Handles a request's body that no handler read to its end.
//!
//! A refusal often comes before the body was read: an unknown path, a missing credential, a caller over its rate.
//! hyper then closes the connection without notice, and the next request that the client sends on it fails. So a
//! small rest is read and dropped before the answer goes out, and the connection is kept; with a larger or slower one
//! the answer says `Connection: close`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use sederunt_core::limits;

/// A request's body on its way to a handler. If it is dropped before its end, the rest is kept for [`UnreadBody`].
#[derive(Debug)]
pub struct RequestBody {
    incoming: Option<Incoming>,
    begun: bool,
    unread: UnreadBody,
}

/// Holds the body that a handler of this connection did not read. Requests of one connection come one after another,
/// so there is at most one.
#[derive(Clone, Debug, Default)]
pub struct UnreadBody(Arc<Mutex<Option<Rest>>>);

#[derive(Debug)]
struct Rest {
    incoming: Incoming,
    /// The handler has read from it, so a client that waits for `100 Continue` was told to send it.
    begun: bool,
}

impl UnreadBody {
    /// Wraps a body that hyper received.
    pub fn watch(&self, incoming: Incoming) -> RequestBody {
        RequestBody { incoming: Some(incoming), begun: false, unread: self.clone() }
    }

    /// Reads and drops what the handler left, if that is little. Otherwise the answer says `Connection: close`.
    pub async fn settle(&self, expects_continue: bool, response: &mut Response) {
        let Some(Rest { mut incoming, begun }) = self.0.lock().take() else { return };
        // Reading now would ask the client to send a body that the server does not want.
        let waits = expects_continue && !begun;
        if !waits {
            let drained = drain(&mut incoming, limits::UNREAD_BODY_DRAINED_BYTES_MAX);
            if matches!(tokio::time::timeout(limits::UNREAD_BODY_DRAINED_FOR, drained).await, Ok(true)) {
                return;
            }
            // A client that is still writing would see a reset connection instead of the answer.
            tokio::spawn(async move {
                let lingered = drain(&mut incoming, limits::UNREAD_BODY_LINGER_BYTES_MAX);
                let _ = tokio::time::timeout(limits::UNREAD_BODY_LINGER_FOR, lingered).await;
            });
        }
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Reads a body and drops it; returns whether its end came within `bytes_max`.
async fn drain(incoming: &mut Incoming, bytes_max: usize) -> bool {
    let mut left = bytes_max as u64;
    while !incoming.is_end_stream() {
        if incoming.size_hint().lower() > left {
            return false;
        }
        match incoming.frame().await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => {
                let read = frame.data_ref().map_or(0, Bytes::len) as u64;
                match left.checked_sub(read) {
                    Some(rest) => left = rest,
                    None => return false,
                }
            }
        }
    }
    true
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.begun = true;
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(incoming).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take().filter(|incoming| !incoming.is_end_stream()) {
            *self.unread.0.lock() = Some(Rest { incoming, begun: self.begun });
        }
    }
}
