//! Every open connection, and which of them is closed when there are too many.
//!
//! A connection is busy while a request of it is answered or a stream is open on it; otherwise it waits for a
//! request's head, or is idle between two. When a new connection finds no room, those that have waited longest are
//! closed for it. Beyond that a few more are accepted that may only ask whether the server is healthy, so that a full
//! server is not taken for a dead one.
//!
//! The table is used when a connection opens or closes. A request changes two numbers of its own connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use sederunt_core::limits;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::proxies::TrustedProxies;

/// How many connections may be open, and how long one may take to send a request's head.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionCaps {
    pub max: usize,
    /// From one address; trusted proxies are not counted.
    pub per_address: Option<usize>,
    /// How long a client may take for the head of a request, from the first byte of it on, and for its first
    /// request from the beginning.
    pub head_max: Duration,
}

impl Default for ConnectionCaps {
    fn default() -> Self {
        Self::for_files(usize::MAX)
    }
}

impl ConnectionCaps {
    /// The caps for a process that may open this many files: the rest is for the store and for outgoing calls.
    pub fn for_files(files: usize) -> Self {
        let max = limits::CONNECTIONS_MAX.min(files / 4 * 3).max(1);
        Self { max, per_address: Some((max / 4).max(1)), head_max: limits::CONNECTION_HEAD_MAX }
    }
}

/// The time for a head is measured in this many ticks.
const HEAD_TICKS: u32 = 10;

/// The open connections of one listener.
#[derive(Debug)]
pub struct Connections {
    caps: ConnectionCaps,
    proxies: TrustedProxies,
    table: Mutex<Table>,
    /// Counted up by [`Connections::tick`]: the clock of everything here.
    now: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    opened: u64,
    open: HashMap<u64, Arc<Connection>>,
    per_address: HashMap<IpAddr, usize>,
}

impl Table {
    fn remove(&mut self, connection: &Connection) {
        if self.open.remove(&connection.number).is_none() {
            return;
        }
        if let Some(count) = self.per_address.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&connection.address);
            }
        }
    }

    /// Closes those that have waited longest, of one address or of all; returns how many.
    fn shed(&mut self, address: Option<IpAddr>, count: usize) -> usize {
        let mut waiting: Vec<(u64, u64)> = self
            .open
            .values()
            .filter(|connection| address.is_none_or(|address| connection.address == address))
            .filter_map(|connection| Some((connection.waits_since()?, connection.number)))
            .collect();
        waiting.sort_unstable();
        let mut closed = 0;
        for (_, number) in waiting {
            if closed == count {
                break;
            }
            if let Some(connection) = self.open.get(&number).filter(|connection| connection.close()).cloned()
            {
                self.remove(&connection);
                closed += 1;
            }
        }
        closed
    }
}

/// One connection's state: what it does, and since when.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    address: IpAddr,
    /// Accepted beyond the cap: may only ask whether the server is healthy.
    pub reserved: bool,
    /// [`BUSY`], [`CLOSED`], or the tick since which it waits: twice the tick, and one more for a head.
    state: AtomicU64,
    closed: Notify,
}

const BUSY: u64 = 0;
const CLOSED: u64 = u64::MAX;

fn idle(tick: u64) -> u64 {
    tick * 2
}

fn head(tick: u64) -> u64 {
    tick * 2 + 1
}

impl Connection {
    /// Since when it waits; `None` while it is busy or closed.
    fn waits_since(&self) -> Option<u64> {
        match self.state.load(Ordering::Relaxed) {
            BUSY | CLOSED => None,
            waiting => Some(waiting / 2),
        }
    }

    /// Closes it, unless a request has just begun on it.
    fn close(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let free = state != BUSY && state != CLOSED;
        let closed =
            free && self.state.compare_exchange(state, CLOSED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if closed {
            self.closed.notify_one();
        }
        closed
    }

    /// Waits until it is to be closed.
    pub async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Takes a request on, unless the connection is being closed.
    pub fn begin(&self) -> bool {
        let before = self.state.swap(BUSY, Ordering::AcqRel);
        if before == CLOSED {
            self.state.store(CLOSED, Ordering::Release);
        }
        before != CLOSED
    }

    /// Counts it as busy for good: its socket now belongs to the upgraded protocol.
    pub fn keep_busy(&self) {
        self.state.store(BUSY, Ordering::Release);
    }

    fn wait_from(&self, state: u64) {
        let _ = self.state.compare_exchange(BUSY, state, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl Connections {
    pub fn new(caps: ConnectionCaps, proxies: TrustedProxies) -> Self {
        Self { caps, proxies, table: Mutex::default(), now: AtomicU64::new(1) }
    }

    /// How often [`Connections::tick`] wants to be called.
    pub fn tick_every(&self) -> Duration {
        (self.caps.head_max / HEAD_TICKS).max(Duration::from_millis(1))
    }

    /// Counts a new connection, closing others for it if need be. `None` if there is still no room.
    pub fn open(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let address = address.to_canonical();
        let mut table = self.table.lock();
        if let Some(max) = self.caps.per_address.filter(|_| !self.proxies.trusts(address)) {
            let open = table.per_address.get(&address).copied().unwrap_or(0);
            if open >= max && table.shed(Some(address), open + 1 - max) == 0 {
                return None;
            }
        }
        let mut reserved = false;
        if table.open.len() >= self.caps.max {
            // A few more than this one needs, so that a flood does not search the table for each.
            let shed = table.shed(None, (self.caps.max / 100).max(1));
            reserved = shed == 0;
            if reserved && table.open.len() >= self.caps.max + limits::CONNECTIONS_RESERVED {
                return None;
            }
        }
        table.opened += 1;
        let connection = Arc::new(Connection {
            number: table.opened,
            address,
            reserved,
            state: AtomicU64::new(head(self.now.load(Ordering::Relaxed))),
            closed: Notify::new(),
        });
        *table.per_address.entry(address).or_default() += 1;
        table.open.insert(connection.number, connection.clone());
        Some(Slot { connections: self.clone(), connection })
    }

    /// Closes a few waiting connections when the process has no file descriptors left.
    pub fn make_room(&self) {
        let mut table = self.table.lock();
        let count = (table.open.len() / 100).max(1);
        table.shed(None, count);
    }

    /// Moves the clock, and closes connections whose head takes too long.
    pub fn tick(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        let mut table = self.table.lock();
        let late: Vec<Arc<Connection>> = table
            .open
            .values()
            .filter(|connection| {
                let state = connection.state.load(Ordering::Relaxed);
                state != BUSY && state != CLOSED && state % 2 == 1 && now - state / 2 > u64::from(HEAD_TICKS)
            })
            .cloned()
            .collect();
        for connection in late {
            if connection.close() {
                table.remove(&connection);
            }
        }
    }
}

/// The slot of one connection. It is released when the socket is closed.
#[derive(Debug)]
pub struct Slot {
    connections: Arc<Connections>,
    pub connection: Arc<Connection>,
}

impl Slot {
    /// The handle by which the connection is marked while it answers.
    pub fn marker(&self) -> Marker {
        Marker { connections: self.connections.clone(), connection: self.connection.clone() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.table.lock().remove(&self.connection);
    }
}

/// Marks what a connection is doing.
#[derive(Clone, Debug)]
pub struct Marker {
    connections: Arc<Connections>,
    pub connection: Arc<Connection>,
}

impl Marker {
    /// An answer's body, which keeps the connection busy until it is written.
    pub fn busy(&self, body: Body) -> BusyBody {
        BusyBody { body, marker: self.clone() }
    }
}

/// The body of an answer. With its end the connection is idle.
#[derive(Debug)]
pub struct BusyBody {
    body: Body,
    marker: Marker,
}

impl Drop for BusyBody {
    fn drop(&mut self) {
        let Marker { connections, connection } = &self.marker;
        connection.wait_from(idle(connections.now.load(Ordering::Relaxed)));
    }
}

impl hyper::body::Body for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The answer to a connection for which there is no room.
pub const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";

/// A socket that holds its connection's slot, and notices when the head of a request begins.
#[derive(Debug)]
pub struct Placed<T> {
    inner: T,
    slot: Slot,
}

impl<T> Placed<T> {
    pub fn new(inner: T, slot: Slot) -> Self {
        Self { inner, slot }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Placed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        let state = &self.slot.connection.state;
        let waiting = state.load(Ordering::Relaxed);
        if buf.filled().len() > before && waiting != BUSY && waiting != CLOSED && waiting.is_multiple_of(2) {
            let began = head(self.slot.connections.now.load(Ordering::Relaxed));
            let _ = state.compare_exchange(waiting, began, Ordering::AcqRel, Ordering::Relaxed);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Placed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn connections(max: usize, per_address: Option<usize>, proxies: &[&str]) -> Arc<Connections> {
        let caps = ConnectionCaps { max, per_address, ..ConnectionCaps::default() };
        let proxies = proxies.iter().map(|block| block.parse().unwrap()).collect();
        Arc::new(Connections::new(caps, TrustedProxies(proxies)))
    }

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_closed(slot: &Slot) -> bool {
        slot.connection.closed().now_or_never().is_some()
    }

    #[test]
    fn the_one_that_has_waited_longest_goes_first_and_no_busy_one() {
        let table = connections(3, None, &[]);
        let busy = table.open(from(1)).unwrap();
        assert!(busy.connection.begin());
        table.tick();
        let older = table.open(from(1)).unwrap();
        table.tick();
        let newer = table.open(from(1)).unwrap();
        let fourth = table.open(from(2)).unwrap();
        assert!(!fourth.connection.reserved);
        assert!(is_closed(&older) && !is_closed(&newer) && !is_closed(&busy));
        assert!(!older.connection.begin(), "a request that comes too late is not begun");
        assert!(fourth.connection.begin() && newer.connection.begin());
        let fifth = table.open(from(3)).unwrap();
        assert!(fifth.connection.reserved, "all are busy: it is told only whether the server is healthy");
        drop(newer.marker().busy(Body::empty()));
        let sixth = table.open(from(3)).unwrap();
        assert!(!sixth.connection.reserved && is_closed(&newer), "an answer's end makes it idle");
    }

    #[test]
    fn beyond_the_reserve_nothing_is_accepted() {
        let table = connections(1, None, &[]);
        let slots: Vec<_> = (0..=limits::CONNECTIONS_RESERVED)
            .map(|_| {
                let slot = table.open(from(1)).unwrap();
                slot.connection.begin();
                slot
            })
            .collect();
        assert!(table.open(from(2)).is_none());
        assert_eq!(
            slots.iter().filter(|slot| slot.connection.reserved).count(),
            limits::CONNECTIONS_RESERVED
        );
        drop(slots);
        assert!(!table.open(from(2)).unwrap().connection.reserved);
        let table = table.table.lock();
        assert!(table.open.is_empty() && table.per_address.is_empty(), "what is closed is forgotten");
    }

    #[test]
    fn one_address_has_its_own_cap_and_a_trusted_proxy_none() {
        let table = connections(100, Some(2), &["192.0.2.9"]);
        let busy = |last| {
            let slot = table.open(from(last));
            slot.inspect(|slot| assert!(slot.connection.begin()))
        };
        let _first = busy(1).unwrap();
        let idle = table.open(from(1)).unwrap();
        let _third = busy(1).unwrap();
        assert!(is_closed(&idle), "its own idle one goes first");
        assert!(busy(1).is_none());
        assert!(busy(2).is_some());
        let behind: Vec<_> = (0..5).map(|_| busy(9).unwrap()).collect();
        assert_eq!(behind.len(), 5);
    }

    #[test]
    fn a_head_that_does_not_come_is_given_up_and_an_idle_connection_is_kept() {
        let table = connections(10, None, &[]);
        let silent = table.open(from(1)).unwrap();
        let kept = table.open(from(1)).unwrap();
        assert!(kept.connection.begin());
        drop(kept.marker().busy(Body::empty()));
        for _ in 0..HEAD_TICKS {
            table.tick();
        }
        assert!(!is_closed(&silent));
        table.tick();
        assert!(is_closed(&silent) && !is_closed(&kept));
    }

    #[tokio::test]
    async fn the_time_of_a_head_begins_with_its_first_byte() {
        let table = connections(10, None, &[]);
        let slot = table.open(from(1)).unwrap();
        let connection = slot.connection.clone();
        assert!(connection.begin());
        drop(slot.marker().busy(Body::empty()));
        let mut placed = Placed::new(&b"GET"[..], slot);
        for _ in 0..100 {
            table.tick();
        }
        tokio::io::AsyncReadExt::read(&mut placed, &mut [0; 1]).await.unwrap();
        for _ in 0..HEAD_TICKS {
            table.tick();
        }
        assert!(connection.closed().now_or_never().is_none());
        table.tick();
        assert!(connection.closed().now_or_never().is_some());
    }

    #[test]
    fn the_caps_leave_files_for_everything_else() {
        for (files, max, per_address) in
            [(1024, 768, 192), (20_000, 15_000, 3750), (1_048_576, 65_536, 16_384)]
        {
            let caps = ConnectionCaps::for_files(files);
            assert_eq!((caps.max, caps.per_address), (max, Some(per_address)), "{files}");
        }
    }

    #[test]
    fn no_more_connections_are_taken_than_the_bound_however_many_files_may_be_open() {
        let enough = limits::CONNECTIONS_MAX.div_ceil(3) * 4;
        assert_eq!(ConnectionCaps::for_files(enough).max, limits::CONNECTIONS_MAX);
        assert_eq!(ConnectionCaps::for_files(usize::MAX).max, limits::CONNECTIONS_MAX);
        assert_eq!(ConnectionCaps::for_files(enough - 4).max, limits::CONNECTIONS_MAX - 1);
    }
}
