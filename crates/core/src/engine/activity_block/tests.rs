use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;

use super::*;
use crate::definitions::{DefinitionDoc, DocQuery, DocTitle};
use crate::event::{Event, EventPage, EventType};
use crate::json::Json;
use crate::session::decide::tests::session_in;
use crate::session::query::Page;
use crate::session::{Session, Status};
use crate::store::StoreFuture;

/// A store with one bridge that counts what is read of it.
struct CountingStore {
    bridge: Option<Session>,
    events: Vec<Event>,
    reads: AtomicUsize,
}

impl CountingStore {
    /// A bridge in which a person visited this many entities, each after a navigation to it.
    fn with_visits(count: u64) -> Self {
        let mut bridge = session_in(Status::Running);
        (bridge.head.is_bridge, bridge.details.title) = (true, Some("Plan".into()));
        let event = |sequence: u64| {
            let visit = sequence.div_ceil(2);
            let (kind, metadata) = match sequence % 2 {
                1 => ("human.navigate", format!(r#"{{"pathname":"/entities/{visit}"}}"#)),
                _ => (
                    "human.entity_view",
                    format!(r#"{{"entity_id":"{visit}","entity_type":"x","pathname":"/entities/{visit}"}}"#),
                ),
            };
            Event {
                session_id: bridge.id.clone(),
                sequence,
                kind: EventType::known(kind),
                content: None,
                metadata: Some(Json::stored(metadata)),
                subthread_id: None,
                external_event_id: None,
                turn: None,
                author: None,
                at: Timestamp::from_micros(0),
            }
        };
        let events = (1..=count * 2).map(event).collect();
        Self { bridge: Some(bridge), events, reads: AtomicUsize::new(0) }
    }

    fn answer<'a, T: Send + 'a>(&self, value: T) -> StoreFuture<'a, T> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        async move { Ok(value) }.boxed()
    }

    /// The block, and how many reads it took.
    async fn block(&self, limit: usize) -> (Option<RecentActivity>, usize) {
        self.reads.store(0, Ordering::Relaxed);
        let now = async { Ok(Timestamp::from_micros(0)) };
        let block = read_block(self, self, now, None, &TenantId::stored("t"), limit).await.unwrap();
        (block, self.reads.load(Ordering::Relaxed))
    }
}

impl BridgeStore for CountingStore {
    fn running_bridge<'a>(
        &'a self,
        _: &'a TenantId,
        _: Option<&'a UserId>,
    ) -> StoreFuture<'a, Option<Session>> {
        self.answer(self.bridge.clone())
    }

    fn ended_bridges<'a>(
        &'a self,
        _: &'a TenantId,
        _: Option<&'a UserId>,
        _: Option<Timestamp>,
        _: usize,
    ) -> StoreFuture<'a, Vec<Session>> {
        self.answer(Vec::new())
    }
}

impl EventStore for CountingStore {
    fn events<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        assert!(query.newest_first && query.before.is_none(), "the newest events are read");
        let events: Vec<Event> = self.events.iter().rev().take(query.limit).cloned().collect();
        self.answer(EventPage { events, last_sequence: 0, is_bridge: true, has_more: false, next_after: 0 })
    }

    fn sequence_of<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SessionId,
        _: &'a str,
    ) -> StoreFuture<'a, Option<u64>> {
        self.answer(None)
    }
}

impl DocStore for CountingStore {
    fn doc<'a>(
        &'a self,
        _: &'a TenantId,
        _: DefinitionKind,
        _: &'a str,
    ) -> StoreFuture<'a, Option<DefinitionDoc>> {
        self.answer(None)
    }

    fn docs<'a>(&'a self, _: &'a TenantId, _: DocQuery) -> StoreFuture<'a, Page<DefinitionDoc, i64>> {
        self.answer(Page::default())
    }

    fn doc_titles<'a>(
        &'a self,
        _: &'a TenantId,
        ids: &'a [(DefinitionKind, Box<str>)],
    ) -> StoreFuture<'a, Vec<DocTitle>> {
        let title = |(kind, id): &(DefinitionKind, Box<str>)| DocTitle {
            kind: *kind,
            id: id.clone(),
            title: Some(format!("Thing {id}").into()),
            type_slug: Some("things".into()),
        };
        self.answer(ids.iter().map(title).collect())
    }
}

#[tokio::test]
async fn a_block_takes_at_most_three_reads_whatever_its_limit() {
    for (visits, limit) in [(0, 20), (1, 1), (20, 20), (1_000, 1), (1_000, 100)] {
        let (activity, reads) = CountingStore::with_visits(visits).block(limit).await;
        let block = activity.unwrap().block;
        assert!(reads <= 3, "{reads} reads for {visits} visits and a limit of {limit}");
        let lines = block.lines().filter(|line| line.starts_with("- ")).count();
        assert_eq!(lines, limit.min(usize::try_from(visits).unwrap()), "{block}");
        if visits > 0 {
            assert!(block.contains(&format!("viewed **Thing {visits}** (things)\n</recent-")), "{block}");
        }
    }
}

#[tokio::test]
async fn without_a_running_bridge_there_is_no_block() {
    let mut store = CountingStore::with_visits(1);
    if let Some(bridge) = &mut store.bridge {
        bridge.head.deadline_at = Some(Timestamp::from_micros(0));
    }
    assert_eq!(store.block(20).await, (None, 1), "its time is over");
    store.bridge = None;
    assert_eq!(store.block(20).await, (None, 1));
}
