//! The figures that people keep in view: the counts of their work queue, and the approvals that wait for them. All streams
//! of one person share a reading. A reading follows the hints of those streams, at most once a second, and is passed on
//! only if it differs from the one before.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::Engine;
use super::approvals::decidable;
use super::queue::{queue_at, queue_owner};
use crate::access::Actor;
use crate::approval::{ApprovalQuery, ApprovalState, AssigneeFilter};
use crate::error::{Error, Result};
use crate::ids::{TenantId, UserId};
use crate::limits;
use crate::store::TenantStore;
use crate::work::queue::{QueueCounts, midnight};

/// A reading.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Figures {
    Counts(QueueCounts),
    /// The ids of the newest pending approvals, newest first.
    Pending(Arc<[Box<str>]>),
}

/// What a reading is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FigureKey {
    Counts { tenant: TenantId, user: Option<UserId>, is_owner: bool, zone: Option<String> },
    Pending { tenant: TenantId, assigned_to: Option<UserId> },
}

impl FigureKey {
    async fn read(&self, store: &dyn TenantStore) -> Result<Figures> {
        match self {
            Self::Counts { tenant, user, is_owner, zone } => {
                let of = queue_at(store.now().await?, user.clone(), *is_owner, zone.as_deref())?;
                Ok(Figures::Counts(store.queue_counts(tenant, of).await?))
            }
            Self::Pending { tenant, assigned_to } => {
                let query = ApprovalQuery {
                    state: Some(ApprovalState::Pending),
                    assigned_to: assigned_to.clone().map(AssigneeFilter::To),
                    limit: limits::PAGE_ROWS_MAX,
                    ..ApprovalQuery::default()
                };
                Ok(Figures::Pending(store.approval_ids(tenant, query).await?.into()))
            }
        }
    }
}

/// The readings of all streams of this node.
#[derive(Debug)]
pub(super) struct FigureDesk {
    cells: Mutex<HashMap<FigureKey, Weak<FigureCell>>>,
    turns: Arc<Semaphore>,
    reads: Arc<AtomicU64>,
    pace: FigurePace,
}

/// The least and the longest time between two readings of the same figures.
#[derive(Clone, Copy, Debug)]
struct FigurePace {
    least: Duration,
    longest: Duration,
}

impl Default for FigureDesk {
    fn default() -> Self {
        Self {
            cells: Mutex::default(),
            turns: Arc::new(Semaphore::new(limits::FIGURE_READS_MAX)),
            reads: Arc::default(),
            pace: FigurePace { least: limits::FIGURES_INTERVAL, longest: limits::FIGURES_REFRESHED },
        }
    }
}

/// A reading that has readers. Its task ends with the last of them.
#[derive(Debug)]
struct FigureCell {
    marks: watch::Sender<u64>,
    newest: watch::Sender<Option<Figures>>,
}

impl FigureDesk {
    /// A reader of these figures; `read` reads them, and returns `None` when the store is closed.
    fn reader<R, F>(&self, runtime: &Handle, key: FigureKey, read: R) -> FigureReader
    where
        R: Fn(FigureKey) -> F + Send + Sync + 'static,
        F: Future<Output = Option<Result<Figures>>> + Send,
    {
        let mut cells = self.cells.lock();
        if let Some(cell) = cells.get(&key).and_then(Weak::upgrade) {
            return FigureReader::of(cell);
        }
        cells.retain(|_, cell| cell.strong_count() > 0);
        let cell = Arc::new(FigureCell { marks: watch::Sender::new(0), newest: watch::Sender::new(None) });
        cells.insert(key.clone(), Arc::downgrade(&cell));
        let (weak, mut marks) = (Arc::downgrade(&cell), cell.marks.subscribe());
        let (turns, reads, pace) = (self.turns.clone(), self.reads.clone(), self.pace);
        runtime.spawn(async move {
            loop {
                marks.borrow_and_update();
                {
                    let Ok(_turn) = turns.acquire().await else { return };
                    reads.fetch_add(1, Ordering::Relaxed);
                    // A store that does not answer is asked again later.
                    if let Ok(figures) = match read(key.clone()).await {
                        None => return,
                        Some(figures) => figures,
                    } {
                        let Some(cell) = weak.upgrade() else { return };
                        cell.newest.send_if_modified(|newest| {
                            let differs = newest.as_ref() != Some(&figures);
                            *newest = Some(figures);
                            differs
                        });
                    }
                }
                tokio::time::sleep(pace.least).await;
                tokio::select! {
                    marked = marks.changed() => if marked.is_err() { return },
                    () = tokio::time::sleep(pace.longest) => {}
                }
            }
        });
        FigureReader::of(cell)
    }
}

#[derive(Debug)]
struct FigureReader {
    cell: Arc<FigureCell>,
    newest: watch::Receiver<Option<Figures>>,
}

impl FigureReader {
    fn of(cell: Arc<FigureCell>) -> Self {
        let mut newest = cell.newest.subscribe();
        // What is known already is news to this reader.
        newest.mark_changed();
        Self { cell, newest }
    }

    /// The next reading that this reader has not had. Safe to drop while waiting.
    async fn next(&mut self) -> Figures {
        loop {
            if self.newest.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(figures) = self.newest.borrow_and_update().clone() {
                return figures;
            }
        }
    }
}

/// What a person's stream tells of figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FigureNews {
    Counts(QueueCounts),
    Approvals(ApprovalFigures),
}

/// How many approvals wait for a person, and what changed since this stream told it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFigures {
    /// [`limits::PAGE_ROWS_MAX`] stands for this many or more.
    pub pending: usize,
    pub added: Vec<Box<str>>,
    pub removed: Vec<Box<str>>,
}

impl ApprovalFigures {
    fn between(before: Option<&[Box<str>]>, now: &[Box<str>]) -> Self {
        let beyond = |of: &[Box<str>], known: &[Box<str>]| {
            let known: HashSet<&str> = known.iter().map(AsRef::as_ref).collect();
            of.iter().filter(|id| !known.contains(id.as_ref())).cloned().collect()
        };
        let (added, removed) =
            before.map_or_else(Default::default, |before| (beyond(now, before), beyond(before, now)));
        Self { pending: now.len(), added, removed }
    }
}

/// The figures of one stream: each once at its beginning, and then whenever they have changed.
#[derive(Debug)]
pub struct FigureFeed {
    counts: Option<FigureReader>,
    pending: Option<FigureReader>,
    told: Option<Arc<[Box<str>]>>,
}

impl FigureFeed {
    /// Has the figures read again: rows of sessions that this reader may see have changed.
    pub fn mark(&self) {
        for reader in self.counts.iter().chain(&self.pending) {
            reader.cell.marks.send_modify(|count| *count += 1);
        }
    }

    /// The next news; waits for it. Safe to drop while waiting.
    pub async fn next(&mut self) -> FigureNews {
        let figures = tokio::select! {
            figures = next_of(self.counts.as_mut()) => figures,
            figures = next_of(self.pending.as_mut()) => figures,
        };
        match figures {
            Figures::Counts(counts) => FigureNews::Counts(counts),
            Figures::Pending(now) => {
                let news = ApprovalFigures::between(self.told.as_deref(), &now);
                self.told = Some(now);
                FigureNews::Approvals(news)
            }
        }
    }
}

async fn next_of(reader: Option<&mut FigureReader>) -> Figures {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}

impl Engine {
    /// The figures of a person's work queue and approvals, as far as they are wanted. Callers who have no such lists get
    /// no figures. `zone` is the time zone of the person's midnight.
    pub fn figure_feed(
        &self,
        actor: &Actor,
        counts: bool,
        approvals: bool,
        zone: Option<&str>,
    ) -> Result<FigureFeed> {
        // Refuses a zone that does not exist now, while the caller can still be answered.
        midnight(crate::Timestamp::default(), zone)?;
        let runtime = Handle::try_current().map_err(Error::internal)?;
        let tenant = &actor.tenant;
        let of_queue = queue_owner(actor).ok().filter(|_| counts).map(|user| FigureKey::Counts {
            tenant: tenant.clone(),
            user,
            is_owner: actor.role == crate::access::Role::Owner,
            zone: zone.map(str::to_owned),
        });
        let of_inbox = decidable(actor, false).ok().filter(|_| approvals).map(|assigned| {
            let assigned_to =
                assigned.map(|(AssigneeFilter::To(user) | AssigneeFilter::ToOrNobody(user))| user);
            FigureKey::Pending { tenant: tenant.clone(), assigned_to }
        });
        let reader = |key: FigureKey| {
            // Held weakly: a stream must not keep a store open.
            let store = Arc::downgrade(&self.tenant);
            self.figures.reader(&runtime, key, move |key| {
                let store = store.clone();
                async move {
                    let store = store.upgrade()?;
                    Some(key.read(&*store).await)
                }
            })
        };
        Ok(FigureFeed { counts: of_queue.map(reader), pending: of_inbox.map(reader), told: None })
    }

    /// How often figures were read on this node.
    pub fn figure_reads(&self) -> u64 {
        self.figures.reads.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LEAST: Duration = Duration::from_millis(50);

    /// A list that readings are made of.
    type Pending = Arc<Mutex<Vec<Box<str>>>>;

    fn desk() -> FigureDesk {
        FigureDesk { pace: FigurePace { least: LEAST, longest: 10 * LEAST }, ..FigureDesk::default() }
    }

    fn feed(desk: &FigureDesk, user: &str, pending: &Pending) -> FigureFeed {
        let (pending, key) = (
            pending.clone(),
            FigureKey::Pending { tenant: TenantId::stored("t"), assigned_to: Some(UserId::stored(user)) },
        );
        let reader = desk.reader(&Handle::current(), key, move |_| {
            let now = pending.lock().clone();
            async move { Some(Ok(Figures::Pending(now.into()))) }
        });
        FigureFeed { counts: None, pending: Some(reader), told: None }
    }

    /// What the feed tells within this time.
    async fn told(feed: &mut FigureFeed, within: Duration) -> Option<ApprovalFigures> {
        match tokio::time::timeout(within, feed.next()).await {
            Ok(FigureNews::Approvals(news)) => Some(news),
            Ok(FigureNews::Counts(counts)) => panic!("{counts:?}"),
            Err(_) => None,
        }
    }

    /// Far longer than a reading takes.
    const PATIENCE: Duration = Duration::from_secs(10);

    fn news(pending: usize, added: &[&str], removed: &[&str]) -> Option<ApprovalFigures> {
        let boxed = |ids: &[&str]| ids.iter().map(|&id| id.into()).collect();
        Some(ApprovalFigures { pending, added: boxed(added), removed: boxed(removed) })
    }

    #[tokio::test]
    async fn a_thousand_readers_of_one_person_share_their_readings() {
        let (desk, pending) = (desk(), Pending::default());
        let begun = Instant::now();
        let mut feeds: Vec<_> = (0..1_000).map(|_| feed(&desk, "ann", &pending)).collect();
        for _ in 0..10 {
            for feed in &feeds {
                feed.mark();
            }
            tokio::time::sleep(LEAST).await;
        }
        let reads = desk.reads.load(Ordering::Relaxed);
        let most = begun.elapsed().as_millis() / LEAST.as_millis() + 1;
        assert!((2..=most).contains(&u128::from(reads)), "{reads} readings, {most} at most");
        for feed in &mut feeds {
            assert_eq!(told(feed, PATIENCE).await, news(0, &[], &[]));
        }
        assert_eq!(told(&mut feeds[0], 4 * LEAST).await, None, "nothing changed, so nothing is told");
    }

    #[tokio::test]
    async fn a_stream_is_told_what_changed_since_it_was_told_last() {
        let (desk, pending) = (desk(), Pending::default());
        pending.lock().push("a".into());
        let mut feed = feed(&desk, "ann", &pending);
        assert_eq!(told(&mut feed, PATIENCE).await, news(1, &[], &[]), "the first figures come unasked");
        *pending.lock() = vec!["b".into(), "a".into()];
        feed.mark();
        assert_eq!(told(&mut feed, PATIENCE).await, news(2, &["b"], &[]));
        *pending.lock() = vec!["c".into(), "b".into()];
        feed.mark();
        assert_eq!(told(&mut feed, PATIENCE).await, news(2, &["c"], &["a"]));
        pending.lock().clear();
        assert_eq!(told(&mut feed, PATIENCE).await, news(0, &[], &["c", "b"]), "also without a hint");
    }

    #[tokio::test]
    async fn a_reading_ends_with_its_last_reader() {
        let (desk, pending) = (desk(), Pending::default());
        drop((feed(&desk, "ann", &pending), feed(&desk, "ann", &pending)));
        tokio::time::sleep(30 * LEAST).await;
        let reads = desk.reads.load(Ordering::Relaxed);
        assert!(reads <= 1, "{reads}");
        drop(feed(&desk, "bob", &pending));
        assert_eq!(desk.cells.lock().len(), 1, "what has no reader is forgotten");
    }
}
