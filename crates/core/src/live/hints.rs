//! Hints about a tenant's sessions: that a session changed, never its content. Delivered at least once; a cursor that
//! this process cannot honour is answered by a reset, and the client reads its lists again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::bell::Bell;
use crate::access::{Audience, ReadScope};
use crate::error::Result;
use crate::event::Writer;
use crate::ids::{SessionId, TenantId, random_hex};
use crate::limits;
use crate::session::Status;
use crate::store::Notice;

/// A session that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub tenant: TenantId,
    pub session: SessionId,
    pub status: Status,
    pub last_sequence: u64,
    pub row_changed: bool,
    pub deleted: bool,
    /// Only a person's own activity was added to the log: a hint for those who may read it.
    pub is_activity: bool,
}

impl Hint {
    pub fn of(notice: &Notice) -> Self {
        Self {
            tenant: notice.tenant.clone(),
            session: notice.session.clone(),
            status: notice.status,
            last_sequence: notice.last_sequence,
            row_changed: notice.row_changed,
            deleted: notice.deleted,
            is_activity: !notice.row_changed
                && !notice.deleted
                && notice.events.iter().any(|event| event.kind.writer() == Writer::BridgeHolder),
        }
    }
}

#[derive(Debug)]
pub(super) struct HintChannel {
    /// Names this ring, so that a cursor of another process is recognised.
    name: String,
    ring: Mutex<HintRing>,
    bell: Bell,
    routes: Mutex<Routes>,
}

#[derive(Debug, Default)]
struct HintRing {
    /// Number of the newest hint.
    last: u64,
    /// Hints up to this number are gone: a cursor before it gets a reset.
    lost: u64,
    hints: VecDeque<Hint>,
}

impl Default for HintChannel {
    fn default() -> Self {
        Self {
            name: random_hex::<6>(),
            ring: Mutex::default(),
            bell: Bell::default(),
            routes: Mutex::default(),
        }
    }
}

impl HintChannel {
    pub(super) fn publish(&self, hint: Hint) {
        {
            let mut ring = self.ring.lock();
            ring.last += 1;
            ring.hints.push_back(hint);
            if ring.hints.len() > limits::HINT_RING_MAX {
                ring.hints.pop_front();
            }
        }
        self.bell.ring();
    }

    pub(super) fn reset(&self) {
        {
            let mut ring = self.ring.lock();
            ring.last += 1;
            ring.lost = ring.last;
            ring.hints.clear();
        }
        self.bell.ring_now();
    }

    fn cursor(&self, number: u64) -> String {
        format!("{}.{number}", self.name)
    }

    /// The number to continue from, and whether the reader missed something.
    fn resume(&self, cursor: Option<&str>, last: u64) -> (u64, bool) {
        let Some(text) = cursor else { return (last, false) };
        let known = text
            .split_once('.')
            .filter(|(name, _)| *name == self.name)
            .and_then(|(_, number)| number.parse().ok())
            .filter(|number: &u64| *number <= last);
        known.map_or((last, true), |number| (number, false))
    }
}

/// What a hint stream sends next.
#[derive(Debug, PartialEq, Eq)]
pub enum HintBatch {
    /// Changed sessions, each once with its newest state, and the cursor after them. A reader of a whole tenant gets
    /// hints of a person's activity apart from the others of the session, so that one can be left out.
    Hints(Vec<Hint>, String),
    /// Hints were missed: read the lists again, then continue from this cursor.
    Reset(String),
}

/// One reader of all hints of a tenant.
#[derive(Debug)]
pub struct HintReader {
    channel: Arc<HintChannel>,
    wake: watch::Receiver<u64>,
    cursor: u64,
    reset: bool,
}

impl HintReader {
    pub(super) fn new(channel: Arc<HintChannel>, cursor: Option<&str>) -> Self {
        let wake = channel.bell.listen();
        let last = channel.ring.lock().last;
        let (cursor, reset) = channel.resume(cursor, last);
        Self { channel, wake, cursor, reset }
    }

    /// The hints after the cursor, if any.
    pub fn take(&mut self) -> Option<HintBatch> {
        self.wake.borrow_and_update();
        let ring = self.channel.ring.lock();
        let name = |number| self.channel.cursor(number);
        let first = ring.last - ring.hints.len() as u64;
        if self.reset || self.cursor < ring.lost || self.cursor < first {
            self.reset = false;
            self.cursor = ring.last;
            return Some(HintBatch::Reset(name(ring.last)));
        }
        if self.cursor == ring.last {
            return None;
        }
        let skip = usize::try_from(self.cursor - first).unwrap_or(usize::MAX);
        let mut named = HashSet::new();
        let mut hints: Vec<Hint> = ring
            .hints
            .iter()
            .skip(skip)
            .rev()
            .filter(|hint| named.insert((&hint.session, hint.is_activity)))
            .cloned()
            .collect();
        hints.reverse();
        self.cursor = ring.last;
        Some(HintBatch::Hints(hints, name(ring.last)))
    }

    /// Waits until there may be a new hint.
    pub async fn wait(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Hints for readers who may not see the whole tenant: one ring for each scope with a reader.
///
/// Readers of a scope are woken only for sessions in it, so a commit costs the same however many readers may not see
/// them. The router looks up who may see a session, once for all readers.
#[derive(Debug, Default)]
struct Routes {
    rings: HashMap<ReadScope, ScopeRing>,
    /// Hints up to this number have been routed.
    routed: u64,
    /// A router is at work.
    running: bool,
}

#[derive(Debug)]
struct ScopeRing {
    hints: VecDeque<(u64, Hint)>,
    /// The ring holds every routed hint of the scope after this number.
    complete_after: u64,
    wake: watch::Sender<u64>,
    /// Since when the scope has had no reader.
    left: Option<Instant>,
}

impl ScopeRing {
    fn new(complete_after: u64) -> Self {
        Self { hints: VecDeque::new(), complete_after, wake: watch::Sender::new(0), left: None }
    }

    fn push(&mut self, number: u64, hint: Hint) {
        self.hints.push_back((number, hint));
        if self.hints.len() > limits::HINT_RING_MAX
            && let Some((lost, _)) = self.hints.pop_front()
        {
            self.complete_after = lost;
        }
    }
}

impl Routes {
    /// Makes every reader start anew from a reset.
    fn reset(&mut self, last: u64) {
        self.routed = last;
        for ring in self.rings.values_mut() {
            ring.hints.clear();
            ring.complete_after = last;
            ring.wake.send_modify(|count| *count += 1);
        }
    }

    /// Drops scopes that have had no reader for a while; returns whether any are left.
    fn forget_left(&mut self, now: Instant) -> bool {
        self.rings.retain(|_, ring| {
            if ring.wake.receiver_count() > 0 {
                ring.left = None;
                return true;
            }
            let left = *ring.left.get_or_insert(now);
            now.saturating_duration_since(left) < limits::HINT_SCOPE_LINGERS
        });
        !self.rings.is_empty()
    }
}

/// Sorts a tenant's hints into the scopes that have readers.
#[derive(Debug)]
pub struct HintRouter {
    channel: Weak<HintChannel>,
    wake: watch::Receiver<u64>,
    audiences: HashMap<SessionId, (Audience, Instant)>,
}

impl HintRouter {
    /// Routes until no scope has a reader, or the hub is gone. `look_up` returns who may see a session.
    pub async fn run(mut self, look_up: impl AsyncFn(&SessionId) -> Result<Option<Audience>>) {
        while self.pass(&look_up).await {
            // Hints that arrive meanwhile are routed together.
            tokio::time::sleep(limits::CROWD_INTERVAL).await;
            tokio::select! {
                changed = self.wake.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(limits::HINT_SCOPE_LINGERS) => {}
            }
        }
    }

    /// Routes the new hints; returns whether to go on.
    async fn pass(&mut self, look_up: &impl AsyncFn(&SessionId) -> Result<Option<Audience>>) -> bool {
        self.wake.borrow_and_update();
        let Some(channel) = self.channel.upgrade() else { return false };
        let now = Instant::now();
        {
            let mut routes = channel.routes.lock();
            if !routes.forget_left(now) {
                routes.running = false;
                return false;
            }
        }
        let routed = channel.routes.lock().routed;
        let news = {
            let ring = channel.ring.lock();
            let first = ring.last - ring.hints.len() as u64;
            if routed < ring.lost || routed < first {
                Err(ring.last)
            } else {
                let skip = usize::try_from(routed - first).unwrap_or(usize::MAX);
                Ok((routed + 1..).zip(ring.hints.iter().skip(skip).cloned()).collect::<Vec<_>>())
            }
        };
        let news = match news {
            Ok(news) => news,
            Err(last) => {
                self.audiences.clear();
                channel.routes.lock().reset(last);
                return true;
            }
        };
        for (_, hint) in &news {
            if hint.row_changed || hint.deleted {
                self.audiences.remove(&hint.session);
            }
        }
        if self.audiences.len() + news.len() > limits::HINT_AUDIENCES_MAX {
            self.audiences.clear();
        }
        for (_, hint) in news.iter().filter(|(_, hint)| !hint.deleted) {
            let known = self.audiences.get(&hint.session);
            if known.is_some_and(|(_, since)| now.duration_since(*since) < limits::HINT_AUDIENCE_KEPT) {
                continue;
            }
            match look_up(&hint.session).await {
                Ok(audience) => {
                    self.audiences.insert(hint.session.clone(), (audience.unwrap_or_default(), now));
                }
                // The store did not answer: readers get a reset and read their lists again.
                Err(_) => {
                    let last = channel.ring.lock().last;
                    channel.routes.lock().reset(last);
                    return true;
                }
            }
        }
        let mut routes = channel.routes.lock();
        let prefixes: Vec<Box<str>> = routes
            .rings
            .keys()
            .filter_map(|scope| match scope {
                ReadScope::Prefix(prefix) => Some(prefix.clone()),
                _ => None,
            })
            .collect();
        let mut moved: HashSet<ReadScope> = HashSet::new();
        for (number, hint) in news {
            routes.routed = number;
            let Some((audience, _)) = self.audiences.get(&hint.session).filter(|_| !hint.deleted) else {
                continue;
            };
            let scopes: HashSet<ReadScope> = audience.scopes(&hint.session, prefixes.iter()).collect();
            for scope in scopes {
                if let Some(ring) = routes.rings.get_mut(&scope) {
                    ring.push(number, hint.clone());
                    moved.insert(scope);
                }
            }
        }
        for ring in moved.iter().filter_map(|scope| routes.rings.get(scope)) {
            ring.wake.send_modify(|count| *count += 1);
        }
        true
    }
}

/// One reader of the hints in a scope.
#[derive(Debug)]
pub struct ScopedHintReader {
    channel: Arc<HintChannel>,
    scope: ReadScope,
    wake: watch::Receiver<u64>,
    cursor: u64,
    reset: bool,
}

impl ScopedHintReader {
    pub(super) fn new(
        channel: Arc<HintChannel>,
        scope: ReadScope,
        cursor: Option<&str>,
    ) -> (Self, Option<HintRouter>) {
        let mut routes = channel.routes.lock();
        let last = channel.ring.lock().last;
        let router = (!routes.running).then(|| {
            *routes = Routes { routed: last, running: true, ..Routes::default() };
            let wake = channel.bell.listen();
            HintRouter { channel: Arc::downgrade(&channel), wake, audiences: HashMap::new() }
        });
        let routed = routes.routed;
        let ring = routes.rings.entry(scope.clone()).or_insert_with(|| ScopeRing::new(routed));
        let wake = ring.wake.subscribe();
        drop(routes);
        let (cursor, reset) = channel.resume(cursor, last);
        (Self { channel, scope, wake, cursor, reset }, router)
    }

    /// The hints after the cursor, if any.
    pub fn take(&mut self) -> Option<HintBatch> {
        self.wake.borrow_and_update();
        let routes = self.channel.routes.lock();
        let ring = routes.rings.get(&self.scope)?;
        if self.reset || self.cursor < ring.complete_after {
            self.reset = false;
            self.cursor = self.cursor.max(routes.routed);
            return Some(HintBatch::Reset(self.channel.cursor(self.cursor)));
        }
        let mut named = HashSet::new();
        let news = ring.hints.iter().rev().take_while(|(number, _)| *number > self.cursor);
        let newest_of_each = news.filter(|(_, hint)| named.insert(&hint.session));
        let mut hints: Vec<Hint> = newest_of_each.map(|(_, hint)| hint.clone()).collect();
        hints.reverse();
        self.cursor = ring.hints.back().map_or(self.cursor, |(number, _)| self.cursor.max(*number));
        (!hints.is_empty()).then(|| HintBatch::Hints(hints, self.channel.cursor(self.cursor)))
    }

    /// Waits until there may be a new hint.
    pub async fn wait(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::UserId;

    fn hint(session: &str, last_sequence: u64) -> Hint {
        Hint {
            tenant: TenantId::stored("t"),
            session: SessionId::stored(session),
            status: Status::Idle,
            last_sequence,
            row_changed: false,
            deleted: false,
            is_activity: false,
        }
    }

    #[test]
    fn hints_are_folded_to_the_newest_of_each_session() {
        let channel = Arc::new(HintChannel::default());
        let mut reader = HintReader::new(channel.clone(), None);
        for n in 1..=3 {
            channel.publish(hint("a", n));
        }
        channel.publish(hint("b", 1));
        let Some(HintBatch::Hints(hints, cursor)) = reader.take() else { panic!() };
        assert_eq!(hints, [hint("a", 3), hint("b", 1)]);
        channel.publish(hint("c", 1));
        let mut resumed = HintReader::new(channel, Some(&cursor));
        assert!(matches!(resumed.take(), Some(HintBatch::Hints(hints, _)) if hints == [hint("c", 1)]));
    }

    #[test]
    fn a_foreign_or_overrun_cursor_is_reset() {
        let channel = Arc::new(HintChannel::default());
        assert!(matches!(
            HintReader::new(channel.clone(), Some("other.1")).take(),
            Some(HintBatch::Reset(_))
        ));
        let mut slow = HintReader::new(channel.clone(), None);
        for n in 0..=limits::HINT_RING_MAX as u64 {
            channel.publish(hint("a", n));
        }
        assert!(matches!(slow.take(), Some(HintBatch::Reset(_))));
        assert_eq!(slow.take(), None);
    }

    /// Routes once. The look-up counts its calls; sessions are either `mine` or another user's.
    async fn pass(router: &mut HintRouter, asked: &std::cell::Cell<usize>) -> bool {
        let look_up = async |id: &SessionId| {
            asked.set(asked.get() + 1);
            let mut session = crate::session::decide::tests::session_in(Status::Idle);
            session.head.holder = Some(UserId::stored(if id.as_str() == "mine" { "me" } else { "other" }));
            Ok(Some(Audience::of(&session)))
        };
        router.pass(&look_up).await
    }

    fn me() -> ReadScope {
        ReadScope::User(UserId::stored("me"))
    }

    #[tokio::test]
    async fn hints_that_nobody_may_see_wake_nobody_and_are_looked_up_once() {
        let channel = Arc::new(HintChannel::default());
        let (mut mine, router) = ScopedHintReader::new(channel.clone(), me(), None);
        let mut router = router.unwrap();
        let crowd: Vec<_> = (0..1000)
            .map(|n| ReadScope::User(UserId::stored(format!("guest{n}"))))
            .map(|scope| ScopedHintReader::new(channel.clone(), scope, None).0)
            .collect();
        let asked = std::cell::Cell::new(0);
        for n in 1..=500 {
            channel.publish(hint("theirs", n));
            assert!(pass(&mut router, &asked).await);
        }
        assert_eq!(asked.get(), 1, "500 hints about one session cost one look-up, whoever listens");
        assert!(crowd.iter().all(|reader| !reader.wake.has_changed().unwrap()));
        assert_eq!(mine.take(), None);
        channel.publish(hint("mine", 1));
        pass(&mut router, &asked).await;
        assert!(mine.wake.has_changed().unwrap());
        assert!(matches!(mine.take(), Some(HintBatch::Hints(hints, _)) if hints == [hint("mine", 1)]));
        assert_eq!(asked.get(), 2);
        let moved = Hint { row_changed: true, ..hint("mine", 2) };
        channel.publish(moved.clone());
        pass(&mut router, &asked).await;
        assert_eq!(asked.get(), 3, "a row that changed may have another audience");
        assert!(matches!(mine.take(), Some(HintBatch::Hints(hints, _)) if hints == [moved]));
    }

    #[tokio::test]
    async fn a_scope_resumes_from_its_cursor_or_is_reset() {
        let channel = Arc::new(HintChannel::default());
        let asked = std::cell::Cell::new(0);
        let (mut first, router) = ScopedHintReader::new(channel.clone(), me(), None);
        let mut router = router.unwrap();
        channel.publish(hint("mine", 1));
        pass(&mut router, &asked).await;
        let Some(HintBatch::Hints(_, cursor)) = first.take() else { panic!() };
        drop(first);
        for n in 2..=3 {
            channel.publish(hint("mine", n));
            channel.publish(hint("theirs", n));
        }
        assert!(pass(&mut router, &asked).await, "who left a moment ago may come back");
        let (mut resumed, again) = ScopedHintReader::new(channel.clone(), me(), Some(&cursor));
        assert!(again.is_none(), "there is one router");
        assert!(matches!(resumed.take(), Some(HintBatch::Hints(hints, _)) if hints == [hint("mine", 3)]));
        assert_eq!(resumed.take(), None);

        let late = ReadScope::User(UserId::stored("late"));
        let (mut late, _) = ScopedHintReader::new(channel.clone(), late, Some(&cursor));
        assert!(matches!(late.take(), Some(HintBatch::Reset(_))), "nothing was collected for it");
        assert_eq!(late.take(), None);
        channel.reset();
        pass(&mut router, &asked).await;
        assert!(matches!(resumed.take(), Some(HintBatch::Reset(_))));
        for n in 0..=limits::HINT_RING_MAX as u64 {
            channel.publish(hint("theirs", n));
        }
        pass(&mut router, &asked).await;
        assert!(matches!(resumed.take(), Some(HintBatch::Reset(_))), "the router was overrun");
    }

    #[tokio::test]
    async fn the_router_ends_when_nobody_has_listened_for_a_while() {
        let channel = Arc::new(HintChannel::default());
        let asked = std::cell::Cell::new(0);
        let (reader, router) = ScopedHintReader::new(channel.clone(), me(), None);
        let mut router = router.unwrap();
        drop(reader);
        assert!(pass(&mut router, &asked).await);
        let long_ago = Instant::now().checked_sub(limits::HINT_SCOPE_LINGERS).unwrap();
        channel.routes.lock().rings.get_mut(&me()).unwrap().left = Some(long_ago);
        assert!(!pass(&mut router, &asked).await);
        assert!(
            ScopedHintReader::new(channel, me(), None).1.is_some(),
            "and the next listener starts another"
        );
    }

    #[tokio::test]
    async fn no_more_audiences_are_remembered_than_the_bound_and_none_for_longer_than_its_time() {
        let channel = Arc::new(HintChannel::default());
        let (_reader, router) = ScopedHintReader::new(channel.clone(), me(), None);
        let mut router = router.unwrap();
        let asked = std::cell::Cell::new(0);
        let mut seen = 0;
        while seen <= limits::HINT_AUDIENCES_MAX {
            let next = (limits::HINT_AUDIENCES_MAX - seen).clamp(1, limits::HINT_RING_MAX);
            for n in seen..seen + next {
                channel.publish(hint(&format!("s{n}"), 1));
            }
            seen += next;
            assert!(pass(&mut router, &asked).await);
            if seen == limits::HINT_AUDIENCES_MAX {
                assert_eq!(router.audiences.len(), seen, "as many as the bound are remembered");
            }
            assert!(
                router.audiences.len() <= limits::HINT_AUDIENCES_MAX,
                "{} after {seen}",
                router.audiences.len()
            );
        }
        assert_eq!((router.audiences.len(), asked.get()), (1, seen), "one more makes room");
        let known = router.audiences.values_mut().next().unwrap();
        known.1 = Instant::now().checked_sub(limits::HINT_AUDIENCE_KEPT).unwrap();
        channel.publish(hint(&format!("s{}", seen - 1), 2));
        pass(&mut router, &asked).await;
        assert_eq!(asked.get(), seen + 1, "an old audience is asked for again");
    }
}
