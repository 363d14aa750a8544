//! Streams of server-sent events. One task per connection pulls from the engine and writes one chunk at a time: a
//! slow reader holds at most one page of events, which is charged to the stream's budget until it is written, and the
//! connection cuts a reader that takes too little.
//!
//! While a stream is open its reader's credential is checked again every few seconds, and its session too unless the
//! reader is an owner, who sees everything in the tenant anyway.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::{HeaderValue, header};
use sederunt_api::wire::search::{ApprovalFigures, Hint, Topics};
use sederunt_api::wire::work_queue::QueueCounts;
use sederunt_core::access::{EventView, ReadExtent, Role};
use sederunt_core::engine::{FigureFeed, FigureNews, HintStream, LogStream, StreamItem};
use sederunt_core::live::EventFrame;
use sederunt_core::live::hints::HintBatch;
use sederunt_core::{Error, limits};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::auth::Caller;
use super::encode;
use super::lease::Leased;
use super::{App, Phase};
use crate::metrics::OpenStream;

/// Frames are joined up to about this size, so that a long backlog is not in memory twice.
const CHUNK_BYTES: usize = 64 * 1024;

const READY: Bytes = Bytes::from_static(b"event: ready\ndata: {}\n\n");
const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");
const GOING_AWAY: Bytes = Bytes::from_static(b": the server is going away; come back with your cursor\n\n");
const REVOKED: Bytes = Bytes::from_static(b": your access has ended\n\n");
const GONE: Bytes = Bytes::from_static(b": the session is gone\n\n");

/// Answers with a stream.
pub fn response(stream: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A log from its cursor on.
pub fn log(app: App, caller: Caller, mut log: LogStream) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let ReadExtent { events: view, people, .. } = ReadExtent::of(caller.actor.role);
    async_stream::stream! {
        let _open = OpenStream::new("log");
        let mut phase = app.phase.clone();
        let mut pulse = Pulse::new(&caller, app.heartbeat);
        loop {
            let item = tokio::select! {
                biased;
                () = leaving(&mut phase) => {
                    yield Ok(GOING_AWAY);
                    return;
                }
                beat = pulse.next() => {
                    if beat.look_again && ended(look_again(&app, &caller, &log).await) {
                        yield Ok(REVOKED);
                        return;
                    }
                    if beat.heartbeat {
                        yield Ok(HEARTBEAT);
                    }
                    continue;
                }
                item = log.next() => item,
            };
            match item {
                Ok(StreamItem::Frames(frames)) => {
                    for chunk in chunks(frames, view) {
                        yield Ok(chunk);
                    }
                }
                Ok(StreamItem::Reply(shown)) => yield Ok(encode::delta(&shown)),
                Ok(StreamItem::Presence(list)) => yield Ok(encode::presence(&list, people)),
                Ok(StreamItem::Ready) => yield Ok(READY),
                Ok(StreamItem::Gap { first }) => yield Ok(encode::gap(first)),
                Ok(StreamItem::Ended) => {
                    yield Ok(GONE);
                    return;
                }
                // The store does not answer: the client reconnects with its cursor.
                Err(error) => {
                    tracing::warn!(target: "sederunt::http", code = error.code(), "a stream broke off because its log could not be read; its client reconnects where it was");
                    return;
                }
            }
        }
    }
}

/// Hints about a tenant's sessions.
pub fn hints(
    app: App,
    caller: Caller,
    mut hints: HintStream,
    mut figures: FigureFeed,
    topics: Topics,
    lease: Leased,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    async_stream::stream! {
        let _open = (OpenStream::new("hints"), lease);
        let mut phase = app.phase.clone();
        let mut pulse = Pulse::new(&caller, app.heartbeat);
        yield Ok(READY);
        loop {
            tokio::select! {
                biased;
                () = leaving(&mut phase) => {
                    yield Ok(GOING_AWAY);
                    return;
                }
                beat = pulse.next() => {
                    if beat.look_again && ended(app.auth.still_holds(&caller).await) {
                        yield Ok(REVOKED);
                        return;
                    }
                    if beat.heartbeat {
                        yield Ok(HEARTBEAT);
                    }
                }
                news = figures.next() => yield Ok(figure_chunk(news)),
                batch = hints.next() => {
                    if moves_figures(&batch) {
                        figures.mark();
                    }
                    let chunk = hint_chunk(&batch, topics);
                    if !chunk.is_empty() {
                        yield Ok(chunk);
                    }
                }
            }
        }
    }
}

async fn look_again(app: &App, caller: &Caller, log: &LogStream) -> Result<(), Error> {
    app.auth.still_holds(caller).await?;
    if caller.actor.role == Role::Owner { Ok(()) } else { log.recheck().await }
}

/// Waits until the server stops serving.
async fn leaving(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase > Phase::Serving).await;
}

/// Whether a recheck says that access has ended. A store that cannot answer ends nothing.
fn ended(looked: Result<(), Error>) -> bool {
    !matches!(looked, Ok(()) | Err(Error::Unavailable(_) | Error::Internal(_)))
}

/// The frames as chunks: one, unless they are very many. A frame that others read too was encoded
/// once for all of them; one that was read for this stream alone is written straight into its chunk.
fn chunks(frames: Vec<Arc<EventFrame>>, view: EventView) -> impl Iterator<Item = Bytes> {
    let mut frames = frames.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = frames.next()?;
        if frames.peek().is_none() {
            return Some(wire(&first, view));
        }
        let mut chunk = BytesMut::from(&wire(&first, view)[..]);
        while chunk.len() < CHUNK_BYTES
            && let Some(frame) = frames.next()
        {
            chunk.extend_from_slice(&wire(&frame, view));
        }
        Some(chunk.freeze())
    })
}

fn wire(frame: &Arc<EventFrame>, view: EventView) -> Bytes {
    if view == EventView::Full && Arc::strong_count(frame) > 1 {
        frame.wire(|event| encode::frame(event, view))
    } else {
        encode::frame(&frame.event, view)
    }
}

/// Whether counts or approvals may be others after these hints.
fn moves_figures(batch: &HintBatch) -> bool {
    match batch {
        HintBatch::Reset(_) => true,
        HintBatch::Hints(hints, _) => hints.iter().any(|hint| hint.row_changed || hint.deleted),
    }
}

fn hint_chunk(batch: &HintBatch, topics: Topics) -> Bytes {
    match batch {
        HintBatch::Reset(cursor) => format!("id: {cursor}\nevent: reset\ndata: {{}}\n\n").into(),
        HintBatch::Hints(hints, cursor) if topics.sessions => {
            let sessions: Vec<Hint> = hints.iter().map(Hint::from).collect();
            let data = serde_json::json!({ "sessions": sessions });
            format!("id: {cursor}\nevent: sessions\ndata: {data}\n\n").into()
        }
        HintBatch::Hints(..) => Bytes::new(),
    }
}

/// Figures have no id: a reader that comes back is told them anew.
fn figure_chunk(news: FigureNews) -> Bytes {
    match news {
        FigureNews::Counts(counts) => {
            let data = serde_json::json!(QueueCounts::from(counts));
            format!("event: counts\ndata: {data}\n\n").into()
        }
        FigureNews::Approvals(figures) => {
            let data = serde_json::json!(ApprovalFigures::from(figures));
            format!("event: approvals\ndata: {data}\n\n").into()
        }
    }
}

/// When to check access again and when to send a heartbeat.
struct Pulse {
    ticks: tokio::time::Interval,
    revocable: bool,
    heartbeat: Duration,
    next_heartbeat: Instant,
}

struct Beat {
    look_again: bool,
    heartbeat: bool,
}

impl Pulse {
    fn new(caller: &Caller, heartbeat: Duration) -> Self {
        let revocable = caller.can_be_revoked();
        let every = if revocable { limits::STREAM_RECHECK.min(heartbeat) } else { heartbeat };
        Self { revocable, ..Self::every(every, heartbeat) }
    }

    fn every(every: Duration, heartbeat: Duration) -> Self {
        // One instant for both: the tick at which a heartbeat is due must not fall short of it.
        let now = Instant::now();
        let mut ticks = interval_at(now + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, revocable: false, heartbeat, next_heartbeat: now + heartbeat }
    }

    async fn next(&mut self) -> Beat {
        let now = self.ticks.tick().await;
        let heartbeat = now >= self.next_heartbeat;
        if heartbeat {
            self.next_heartbeat = now + self.heartbeat;
        }
        Beat { look_again: self.revocable, heartbeat }
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::event::EventType;
    use sederunt_core::live::Hint as CoreHint;
    use sederunt_core::session::Status;
    use sederunt_core::{Event, SessionId, TenantId, Timestamp};

    use super::*;

    fn frame(sequence: u64) -> Arc<EventFrame> {
        EventFrame::new(Arc::new(Event {
            session_id: SessionId::stored("s"),
            sequence,
            kind: EventType::known("user.message"),
            content: Some(sederunt_core::json::Json::stored(format!("[{:?}]", "x".repeat(1000)))),
            metadata: None,
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            at: Timestamp::from_micros(0),
        }))
    }

    #[test]
    fn frames_above_the_cursor_are_one_chunk() {
        let frames: Vec<_> = (1..=50).map(frame).collect();
        let expected: Vec<u8> =
            frames.iter().flat_map(|frame| encode::frame(&frame.event, EventView::Full).to_vec()).collect();
        let sent: Vec<Bytes> = chunks(frames.clone(), EventView::Full).collect();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0], expected);
        let many: Vec<_> = (1..=1000).map(frame).collect();
        assert!(chunks(many, EventView::Full).all(|chunk| chunk.len() < CHUNK_BYTES + 2000));
    }

    #[test]
    fn a_frame_that_others_read_is_encoded_once() {
        let shared = frame(1);
        let first = wire(&shared.clone(), EventView::Full);
        let second = wire(&shared.clone(), EventView::Full);
        assert_eq!(first.as_ptr(), second.as_ptr());
        let narrowed = wire(&shared.clone(), EventView::Shared);
        assert_ne!(first.as_ptr(), narrowed.as_ptr());
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_shows_a_sign_of_life_every_fifteen_seconds() {
        let began = Instant::now();
        let mut pulse = Pulse::new(&Caller::local(), limits::STREAM_HEARTBEAT);
        for beat in 1..=3 {
            assert!(pulse.next().await.heartbeat);
            assert_eq!(began.elapsed(), Duration::from_secs(15 * beat));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn looking_again_in_between_does_not_put_off_the_sign_of_life() {
        let began = Instant::now();
        let mut pulse =
            Pulse { revocable: true, ..Pulse::every(limits::STREAM_RECHECK, limits::STREAM_HEARTBEAT) };
        let mut signs = Vec::new();
        while signs.len() < 3 {
            let beat = pulse.next().await;
            assert!(beat.look_again);
            signs.extend(beat.heartbeat.then(|| began.elapsed().as_secs()));
        }
        assert_eq!(signs, [15, 30, 45]);
    }

    #[test]
    fn hints_name_their_topic_and_cursor() {
        let hint = |row_changed| CoreHint {
            is_activity: false,
            tenant: TenantId::stored("t"),
            session: SessionId::stored("s"),
            status: Status::Idle,
            last_sequence: 3,
            row_changed,
            deleted: false,
        };
        let all = Topics { sessions: true, approvals: true, counts: true };
        let text = |batch: &HintBatch, topics| String::from_utf8(hint_chunk(batch, topics).to_vec()).unwrap();
        let log_grew = HintBatch::Hints(vec![hint(false)], "a.1".into());
        assert_eq!(
            text(&log_grew, all),
            "id: a.1\nevent: sessions\ndata: {\"sessions\":[{\"id\":\"s\",\"status\":\"idle\",\
             \"last_sequence\":3,\"row_changed\":false,\"deleted\":false}]}\n\n"
        );
        let moved = HintBatch::Hints(vec![hint(true)], "a.2".into());
        assert!(moves_figures(&moved) && !moves_figures(&log_grew));
        let only_counts = Topics { sessions: false, approvals: false, counts: true };
        assert_eq!(text(&log_grew, only_counts), "");
        assert_eq!(text(&HintBatch::Reset("a.3".into()), only_counts), "id: a.3\nevent: reset\ndata: {}\n\n");
    }
}
