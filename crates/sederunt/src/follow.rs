//! A log as a stream of its events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::unfold;
use sederunt_core::access::Actor;
use sederunt_core::engine::{LogStream, StreamItem};
use sederunt_core::error::Result;
use sederunt_core::event::Event;
use sederunt_core::ids::SessionId;

use crate::Sederunt;

/// The events of one log, each once and in order: those that are there, and then each new one as it is committed.
///
/// It ends when the session is deleted. An error is no end: the next poll goes on after the last event that was
/// delivered. Where events were removed, it goes on at the first one that is left; sequences show the gap.
pub struct EventStream(Pin<Box<dyn Stream<Item = Result<Arc<Event>>> + Send>>);

impl EventStream {
    fn of(log: LogStream) -> Self {
        Self(Box::pin(unfold((log, VecDeque::new()), |(mut log, mut read)| async move {
            loop {
                if let Some(event) = read.pop_front() {
                    return Some((Ok(event), (log, read)));
                }
                match log.next().await {
                    Ok(StreamItem::Frames(frames)) => {
                        read.extend(frames.into_iter().map(|frame| frame.event.clone()));
                    }
                    Ok(
                        StreamItem::Ready
                        | StreamItem::Gap { .. }
                        | StreamItem::Reply(_)
                        | StreamItem::Presence(_),
                    ) => {}
                    Ok(StreamItem::Ended) => return None,
                    Err(error) => return Some((Err(error), (log, read))),
                }
            }
        })))
    }
}

impl Stream for EventStream {
    type Item = Result<Arc<Event>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventStream")
    }
}

impl Sederunt {
    /// Follows a log from after a sequence; 0 is its beginning. A reader that was interrupted passes the sequence of the
    /// last event that it has seen. [`Engine::stream`](crate::Engine::stream) also shows replies while they are written.
    pub async fn follow(&self, me: &Arc<Actor>, session: &SessionId, after: u64) -> Result<EventStream> {
        Ok(EventStream::of(self.engine.stream(me.clone(), session, Some(after)).await?))
    }
}
