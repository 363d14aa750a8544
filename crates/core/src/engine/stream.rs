//! Live streams: a log from any point on, without gap, duplicate or reorder; and the hints that
//! keep lists fresh. Both are pulled by their surface, so a slow reader holds no memory here.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Engine;
use super::log::SHARED_TYPES;
use crate::access::{self, Actor, Role, Verb};
use crate::error::{Conflict, Error, Result};
use crate::event::EventQuery;
use crate::ids::{Incarnation, SessionId};
use crate::limits;
use crate::live::hints::Batch;
use crate::live::reply::Shown;
use crate::live::{Delta, Frame, HintReader, Next, Reader};

/// What a log stream says next.
#[derive(Debug)]
pub enum StreamItem {
    /// Events after everything said so far, in order.
    Frames(Vec<Arc<Frame>>),
    /// Rows were removed: the log goes on at this sequence.
    Gap { first: u64 },
    /// The backlog is through; from here on it is live.
    Ready,
    /// More of a reply that is still being written.
    Reply(Shown),
    /// The session is gone.
    Ended,
}

/// A reader of one log.
#[derive(Debug)]
pub struct LogStream {
    engine: Engine,
    actor: Arc<Actor>,
    id: SessionId,
    incarnation: Incarnation,
    reader: Reader,
    ready: bool,
    /// What was read already and comes before anything else.
    queued: VecDeque<StreamItem>,
}

impl Engine {
    /// Follows a log from after a sequence; `None` starts at the beginning.
    pub async fn stream(&self, actor: Arc<Actor>, id: &SessionId, after: Option<u64>) -> Result<LogStream> {
        let session = self.load(&actor, Verb::Read, id).await?;
        let incarnation = session.head.incarnation;
        let after = after.unwrap_or(0);
        if after > session.head.last_sequence {
            let message = format!("is beyond the end of the log ({})", session.head.last_sequence);
            return Err(Error::invalid("after", message));
        }
        let reader = self.hub.listen(incarnation, after);
        Ok(LogStream {
            engine: self.clone(),
            actor,
            id: session.id,
            incarnation,
            reader,
            ready: false,
            queued: VecDeque::new(),
        })
    }

    /// Follows hints about the sessions that the caller may see.
    pub fn hints(&self, actor: Arc<Actor>, cursor: Option<&str>) -> Result<HintStream> {
        if actor.role == Role::Share {
            return Err(Error::denied("a share link opens one session, not lists"));
        }
        let reader = self.hub.hints(&actor.tenant, cursor);
        Ok(HintStream { engine: self.clone(), actor, reader })
    }

    /// Adds text to the unfinished reply of a claimed session. Transient: readers see it, no log
    /// keeps it.
    pub async fn delta(&self, actor: &Actor, id: &SessionId, epoch: u64, text: &str) -> Result<()> {
        access::check_general(actor, Verb::Work)?;
        if text.len() > limits::DELTA_TEXT_BYTES_MAX {
            return Err(Error::TooLarge { what: "text", limit: limits::DELTA_TEXT_BYTES_MAX });
        }
        let session = self.store.session(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
        if !session.head.holds(&actor.credential, epoch, self.store.now().await?) {
            return Err(Conflict::Fenced.into());
        }
        let incarnation = session.head.incarnation;
        let offset = self.hub.reply_len(incarnation, epoch);
        let delta = Delta { incarnation, epoch, offset, text: text.into() };
        self.hub.delta(&delta);
        self.store.spread_delta(&actor.tenant, delta);
        Ok(())
    }
}

impl LogStream {
    /// The next thing to send; waits for it. Safe to drop while waiting: nothing is lost.
    pub async fn next(&mut self) -> Result<StreamItem> {
        loop {
            if let Some(item) = self.queued.pop_front() {
                return Ok(item);
            }
            match self.reader.look() {
                Next::Frames(frames) => {
                    let frames = self.shown(frames);
                    if !frames.is_empty() {
                        return Ok(StreamItem::Frames(frames));
                    }
                }
                Next::ReadStore => self.read_store().await?,
                Next::Reply(shown) => return Ok(StreamItem::Reply(shown)),
                Next::Deleted => return Ok(StreamItem::Ended),
                Next::Wait if !self.ready => {
                    self.ready = true;
                    return Ok(StreamItem::Ready);
                }
                Next::Wait => self.reader.wait().await,
            }
        }
    }

    /// The sequence that a client should resume after.
    pub fn cursor(&self) -> u64 {
        self.reader.cursor()
    }

    /// Whether the caller may still read this: asked now and then while a stream is open.
    pub async fn recheck(&self) -> Result<()> {
        let session = self.engine.load(&self.actor, Verb::Read, &self.id).await?;
        if session.head.incarnation != self.incarnation {
            return Err(Error::NotFound);
        }
        Ok(())
    }

    async fn read_store(&mut self) -> Result<()> {
        let cursor = self.reader.cursor();
        let query = EventQuery { after: cursor, limit: limits::PAGE_ROWS_MAX, ..EventQuery::default() };
        let page = match self.engine.store.events(&self.actor.tenant, &self.id, query).await {
            Err(Error::NotFound) => {
                self.queued.push_back(StreamItem::Ended);
                return Ok(());
            }
            page => page?,
        };
        self.reader.read_to(page.next_after.max(cursor), !page.has_more);
        let (mut expected, mut run) = (cursor + 1, Vec::with_capacity(page.events.len()));
        for event in page.events {
            let first = event.sequence;
            if first > expected {
                self.queue(std::mem::take(&mut run));
                self.queued.push_back(StreamItem::Gap { first });
            }
            expected = first + 1;
            run.push(Frame::new(Arc::new(event)));
        }
        self.queue(run);
        Ok(())
    }

    fn queue(&mut self, frames: Vec<Arc<Frame>>) {
        let frames = self.shown(frames);
        if !frames.is_empty() {
            self.queued.push_back(StreamItem::Frames(frames));
        }
    }

    fn shown(&self, mut frames: Vec<Arc<Frame>>) -> Vec<Arc<Frame>> {
        if self.actor.role == Role::Share {
            frames.retain(|frame| SHARED_TYPES.contains(&frame.event.kind.as_str()));
        }
        frames
    }
}

/// A reader of a tenant's hints.
#[derive(Debug)]
pub struct HintStream {
    engine: Engine,
    actor: Arc<Actor>,
    reader: HintReader,
}

impl HintStream {
    /// The next batch that holds anything for this caller; waits for it.
    pub async fn next(&mut self) -> Result<Batch> {
        loop {
            match self.reader.take() {
                Some(Batch::Hints(mut hints, cursor)) => {
                    if self.actor.role != Role::Owner {
                        let mut visible = Vec::with_capacity(hints.len());
                        for hint in hints {
                            if !hint.deleted && self.may_see(&hint.session).await? {
                                visible.push(hint);
                            }
                        }
                        hints = visible;
                    }
                    if !hints.is_empty() {
                        return Ok(Batch::Hints(hints, cursor));
                    }
                }
                Some(reset @ Batch::Reset(_)) => return Ok(reset),
                None => self.reader.wait().await,
            }
        }
    }

    async fn may_see(&self, id: &SessionId) -> Result<bool> {
        match self.engine.load(&self.actor, Verb::Read, id).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound | Error::Denied(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
