//! Live streams: a log from any point on, without gap, duplicate or reorder; and the hints that keep lists fresh. The
//! surface pulls both, so a slow reader holds no memory here.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;

use super::Engine;
use super::work::without_a_claim;
use crate::access::{self, Actor, Audience, EventView, ReadExtent, ReadScope, Verb};
use crate::error::{Conflict, Error, Result};
use crate::event::{Event, EventQuery};
use crate::ids::{Incarnation, SessionId};
use crate::limits;
use crate::live::budget::{HeldBytes, StreamLease};
use crate::live::hints::HintBatch;
use crate::live::reply::ReplyPiece;
use crate::live::{Delta, EventFrame, Hint, HintReader, LogReader, ReaderStep, ScopedHintReader};
use crate::presence::board::PresenceStep;
use crate::presence::{PresenceList, PresenceReader};
use crate::store::SessionStore;

/// What a log stream returns next.
#[derive(Debug)]
pub enum StreamItem {
    /// Events after all earlier ones, in order.
    Frames(Vec<Arc<EventFrame>>),
    /// Rows were removed: the log continues at this sequence.
    Gap { first: u64 },
    /// The backlog has been sent; from here on the stream is live.
    Ready,
    /// More of a reply that is still being written.
    Reply(ReplyPiece),
    /// Who is present, first and after every change; only where the stream was asked for it.
    Presence(Arc<PresenceList>),
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
    reader: LogReader,
    ready: bool,
    presence: Option<PresenceReader>,
    /// Items that were read already and come first.
    queued: VecDeque<StreamItem>,
    lease: Option<StreamLease>,
    /// The bytes of the item that was handed out last.
    held: Option<HeldBytes>,
}

impl Engine {
    /// Follows a log from after a sequence; `None` starts at the beginning.
    pub async fn stream(&self, actor: Arc<Actor>, id: &SessionId, after: Option<u64>) -> Result<LogStream> {
        let session = self.load_log(&actor, id).await?;
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
            presence: None,
            queued: VecDeque::new(),
            lease: None,
            held: None,
        })
    }

    /// Follows hints about the sessions that the caller may see.
    pub fn hints(&self, actor: &Actor, cursor: Option<&str>) -> Result<HintStream> {
        access::check_lists(actor)?;
        let reader = match access::read_scope(actor) {
            ReadScope::Everything => {
                HintSource::All(self.hub.hints(&actor.tenant, cursor), self.log_reader(actor))
            }
            scope => {
                let runtime = Handle::try_current().map_err(Error::internal)?;
                let (reader, router) = self.hub.scoped_hints(&actor.tenant, scope, cursor);
                if let Some(router) = router {
                    // Held weakly: a hint listener must not keep a store open.
                    let (store, tenant) = (Arc::downgrade(&self.sessions), actor.tenant.clone());
                    runtime.spawn(router.run(async move |id: &SessionId| match store.upgrade() {
                        Some(store) => Ok(store.session(&tenant, id).await?.as_ref().map(Audience::of)),
                        None => Ok(None),
                    }));
                }
                HintSource::Scoped(reader)
            }
        };
        Ok(HintStream(reader))
    }

    /// What decides which hints of people's activity a reader of the whole tenant gets; `None`: all of them.
    fn log_reader(&self, actor: &Actor) -> Option<ActivityReader> {
        (!self.activity.owners_read)
            .then(|| ActivityReader { store: Arc::downgrade(&self.sessions), actor: actor.clone() })
    }

    /// Adds text to the unfinished reply of a claimed session. Transient: readers see it, no log
    /// keeps it.
    pub async fn delta(&self, actor: &Actor, id: &SessionId, epoch: u64, text: &str) -> Result<()> {
        access::check_general(actor, Verb::Work)?;
        if text.len() > limits::DELTA_TEXT_BYTES_MAX {
            return Err(Error::TooLarge { what: "text", limit: limits::DELTA_TEXT_BYTES_MAX });
        }
        let found = self.sessions.session(&actor.tenant, id).await?;
        let session = found.ok_or_else(|| without_a_claim(actor, Error::NotFound))?;
        if !session.head.holds(&actor.credential, epoch, self.tenant.now().await?) {
            return Err(Conflict::Fenced.into());
        }
        let incarnation = session.head.incarnation;
        let offset = self.hub.reply_len(incarnation, epoch);
        let delta = Delta { incarnation, epoch, offset, text: text.into() };
        self.hub.delta(&delta);
        self.sessions.spread_delta(&actor.tenant, delta);
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
            // A reader that asks for more has written what it was given.
            self.held = None;
            // Looked at before the log, since a busy log always has something to send.
            let presence = match &mut self.presence {
                Some(reader) => reader.look(tokio::time::Instant::now()),
                None => PresenceStep::Nothing,
            };
            if let PresenceStep::Show(list) = presence {
                self.charge(list.bytes());
                return Ok(StreamItem::Presence(list));
            }
            match self.reader.look() {
                ReaderStep::Frames(frames) => {
                    let frames = self.shown(frames);
                    let bytes: usize = frames.iter().map(|frame| frame.event.bytes()).sum();
                    self.charge(bytes);
                    if !frames.is_empty() {
                        return Ok(StreamItem::Frames(frames));
                    }
                }
                ReaderStep::ReadStore => self.read_store().await?,
                ReaderStep::Reply(shown) => return Ok(StreamItem::Reply(shown)),
                ReaderStep::Deleted => return Ok(StreamItem::Ended),
                ReaderStep::Wait if !self.ready => {
                    self.ready = true;
                    return Ok(StreamItem::Ready);
                }
                ReaderStep::Wait => match presence {
                    PresenceStep::Later(at) => {
                        tokio::select! {
                            () = self.reader.wait() => {}
                            () = tokio::time::sleep_until(at) => {}
                        }
                    }
                    PresenceStep::Show(_) | PresenceStep::Nothing => self.reader.wait().await,
                },
            }
        }
    }

    /// Charges what is in memory for all readers anyway, if it is large.
    fn charge(&mut self, bytes: usize) {
        if bytes > limits::STREAM_BYTES_UNCHARGED {
            self.held = self.lease.as_ref().map(|lease| lease.hold_now(bytes));
        }
    }

    /// Shows who is present as well: at once, and after every change.
    pub async fn with_presence(self) -> Result<Self> {
        let reader = self.engine.presence_reader(self.incarnation).await?;
        Ok(Self { presence: Some(reader), ..self })
    }

    /// Charges what this stream reads to a budget, until its next item is requested.
    #[must_use]
    pub fn charged_to(self, lease: StreamLease) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// The sequence that a client should resume after.
    pub fn cursor(&self) -> u64 {
        self.reader.cursor()
    }

    /// Whether the caller may still read this; checked at intervals while a stream is open.
    pub async fn recheck(&self) -> Result<()> {
        let session = self.engine.load_log(&self.actor, &self.id).await?;
        if session.head.incarnation != self.incarnation {
            return Err(Error::NotFound);
        }
        Ok(())
    }

    async fn read_store(&mut self) -> Result<()> {
        let cursor = self.reader.cursor();
        let query = EventQuery {
            after: cursor,
            limit: limits::PAGE_ROWS_MAX,
            bytes_max: limits::STREAM_PAGE_BYTES_MAX,
            ..EventQuery::default()
        };
        let mut held = match &self.lease {
            None => None,
            Some(lease) => Some(lease.hold(limits::STREAM_PAGE_BYTES_MAX).await),
        };
        let page = match self.engine.log_page(&self.actor, &self.id, query).await {
            Err(Error::NotFound) => {
                self.queued.push_back(StreamItem::Ended);
                return Ok(());
            }
            page => page?,
        };
        if let Some(held) = &mut held {
            held.shrink_to(page.events.iter().map(Event::bytes).sum());
        }
        self.held = held;
        self.reader.read_to(page.next_after.max(cursor), !page.has_more);
        let (mut expected, mut run) = (cursor + 1, Vec::with_capacity(page.events.len()));
        for event in page.events {
            let first = event.sequence;
            // A link is not sent the events between two messages, which is no gap in the log.
            if first > expected && self.actor.link.is_none() {
                self.queue(std::mem::take(&mut run));
                self.queued.push_back(StreamItem::Gap { first });
            }
            expected = first + 1;
            run.push(EventFrame::new(Arc::new(event)));
        }
        self.queue(run);
        Ok(())
    }

    fn queue(&mut self, frames: Vec<Arc<EventFrame>>) {
        let frames = self.shown(frames);
        if !frames.is_empty() {
            self.queued.push_back(StreamItem::Frames(frames));
        }
    }

    fn shown(&self, mut frames: Vec<Arc<EventFrame>>) -> Vec<Arc<EventFrame>> {
        let view = ReadExtent::of(self.actor.role).events;
        if view != EventView::Full {
            frames.retain(|frame| view.shows(&frame.event));
        }
        frames
    }
}

/// A reader of those of a tenant's hints that its caller may see.
#[derive(Debug)]
pub struct HintStream(HintSource);

#[derive(Debug)]
enum HintSource {
    All(HintReader, Option<ActivityReader>),
    Scoped(ScopedHintReader),
}

/// Leaves out hints of what others record in their bridges.
#[derive(Debug)]
struct ActivityReader {
    /// Held weakly: a hint listener must not keep a store open.
    store: Weak<dyn SessionStore>,
    actor: Actor,
}

impl ActivityReader {
    async fn shown(&self, hints: Vec<Hint>) -> Vec<Hint> {
        let mut shown: Vec<Hint> = Vec::with_capacity(hints.len());
        for hint in hints {
            if !hint.is_activity {
                shown.push(hint);
            } else if self.may_read(&hint).await {
                shown.retain(|other| other.session != hint.session);
                shown.push(hint);
            }
        }
        shown
    }

    async fn may_read(&self, hint: &Hint) -> bool {
        let Some(store) = self.store.upgrade() else { return false };
        let found = store.session(&hint.tenant, &hint.session).await;
        found.ok().flatten().is_some_and(|session| access::check_log(&self.actor, &session, false).is_ok())
    }
}

impl HintStream {
    /// The next batch that holds anything for this caller; waits for it.
    pub async fn next(&mut self) -> HintBatch {
        loop {
            let batch = match &mut self.0 {
                HintSource::All(reader, _) => reader.take(),
                HintSource::Scoped(reader) => reader.take(),
            };
            match (batch, &mut self.0) {
                (Some(HintBatch::Hints(hints, cursor)), HintSource::All(_, Some(by))) => {
                    let shown = by.shown(hints).await;
                    if !shown.is_empty() {
                        return HintBatch::Hints(shown, cursor);
                    }
                }
                (Some(batch), _) => return batch,
                (None, HintSource::All(reader, _)) => reader.wait().await,
                (None, HintSource::Scoped(reader)) => reader.wait().await,
            }
        }
    }
}
