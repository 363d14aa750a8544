//! What a store publishes to the hub: every commit, in order, before it is acknowledged.

use std::time::Duration;

use sederunt_core::event::EventQuery;
use sederunt_core::live::hints::HintBatch;
use sederunt_core::live::{Hint, HintReader, LogReader, ReaderStep};
use sederunt_core::session::Status;
use sederunt_core::store::{Guard, Update, Write};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    a_reader_sees_every_sequence_once_from_every_appender,
    decisions_and_appends_at_once_are_seen_in_order,
    an_acknowledged_event_is_already_with_the_reader,
    a_refused_or_repeated_append_is_not_announced,
    a_deletion_ends_the_readers_of_that_life,
    hints_name_what_changed_in_their_tenant,
    pending_work_wakes_those_who_wait_for_it,
}

/// No wait in these tests needs longer than this unless something is lost.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

async fn reader(store: &TestStore, name: &str, cursor: u64) -> LogReader {
    store.hub.listen(store.get(name).await.head.incarnation, cursor)
}

/// Follows a log as a stream does, until `upto`. Gives the sequences in the order of their arrival,
/// and how often the store had to be read.
pub async fn follow(store: &TestStore, name: &str, mut reader: LogReader, upto: u64) -> (Vec<u64>, usize) {
    let (mut seen, mut reads) = (Vec::new(), 0);
    while reader.cursor() < upto {
        match reader.look() {
            ReaderStep::Frames(frames) => seen.extend(frames.iter().map(|frame| frame.event.sequence)),
            ReaderStep::ReadStore => {
                reads += 1;
                let query = EventQuery { after: reader.cursor(), limit: 1000, ..EventQuery::default() };
                let page = store.events(&store.tenant, &id(name), query).await.unwrap();
                seen.extend(sequences(&page.events));
                reader.read_to(seen.last().copied().unwrap_or(0), !page.has_more);
            }
            ReaderStep::Wait | ReaderStep::Reply(_) => reader.wait().await,
            ReaderStep::Deleted => panic!("{name} was deleted"),
        }
    }
    (seen, reads)
}

async fn a_reader_sees_every_sequence_once_from_every_appender(store: &TestStore) {
    const SESSIONS: usize = 8;
    const EVENTS: u64 = 8 * 12;
    let mut readers = tokio::task::JoinSet::new();
    let ready = std::sync::Arc::new(tokio::sync::Barrier::new(SESSIONS + 1));
    for n in 0..SESSIONS {
        let name = format!("s{n}");
        store.open(&name).await;
        let mut reader = reader(store, &name, 0).await;
        let (store, ready) = (store.clone(), ready.clone());
        readers.spawn(async move {
            // Caught up before the first append, so that everything must come through the ring.
            assert!(matches!(reader.look(), ReaderStep::ReadStore));
            reader.read_to(0, true);
            ready.wait().await;
            let (seen, reads) = in_time("the last event", follow(&store, &name, reader, EVENTS)).await;
            (name, seen, reads)
        });
    }
    ready.wait().await;
    store
        .at_once(64, |store, n| async move {
            for round in 0..8 {
                let name = format!("s{}", (n + round) % SESSIONS);
                store.append(&name, messages(1 + (n + round / 4) % 2)).await;
            }
        })
        .await;
    let (mut total, mut rereads) = (0, 0);
    while let Some(done) = readers.join_next().await {
        let (name, seen, reads) = done.unwrap();
        let last = store.get(&name).await.head.last_sequence;
        assert_eq!(last, EVENTS, "{name}");
        assert_eq!(seen, (1..=last).collect::<Vec<_>>(), "{name}");
        total += seen.len();
        rereads += reads;
    }
    assert_eq!(total, SESSIONS * usize::try_from(EVENTS).unwrap());
    // A node that polls for commits of others may see its own commit before it is published.
    let excused = if store.has_nodes() { SESSIONS } else { 0 };
    assert!(
        rereads <= excused,
        "published out of order: readers met holes and read the store {rereads} times"
    );
}

async fn decisions_and_appends_at_once_are_seen_in_order(store: &TestStore) {
    const EVENTS: u64 = 24 * 6;
    store.open("s").await;
    let reader = reader(store, "s", 0).await;
    let (node, upto) = (store.clone(), EVENTS);
    let seen =
        tokio::spawn(async move { in_time("the last event", follow(&node, "s", reader, upto)).await.0 });
    store
        .at_once(24, |store, n| async move {
            for _ in 0..6 {
                let mut part = appending("s", messages(1));
                if n % 3 == 0 {
                    part.writes.push(Write::Update(Box::default()));
                }
                store.write(part).await;
            }
        })
        .await;
    assert_eq!(seen.await.unwrap(), (1..=EVENTS).collect::<Vec<_>>());
    let head = store.get("s").await.head;
    assert_eq!((head.last_sequence, head.version), (EVENTS, 1 + 8 * 6));
}

async fn an_acknowledged_event_is_already_with_the_reader(store: &TestStore) {
    store.open("s").await;
    store.append("s", messages(2)).await;
    let mut reader = reader(store, "s", 2).await;
    assert!(matches!(reader.look(), ReaderStep::ReadStore));
    reader.read_to(2, true);
    assert!(matches!(reader.look(), ReaderStep::Wait));
    for sequence in 3..=6 {
        store.append("s", messages(1)).await;
        let ReaderStep::Frames(frames) = reader.look() else {
            panic!("an acknowledged event was not published")
        };
        assert_eq!(frames.iter().map(|frame| frame.event.sequence).collect::<Vec<_>>(), [sequence]);
        assert_eq!(*frames[0].event, store.log("s").await[usize::try_from(sequence).unwrap() - 1]);
    }
    store.create(work("work")).await;
    let mut reader = store.hub.listen(store.get("work").await.head.incarnation, 0);
    reader.read_to(0, true);
    let claim = store.claim_one("work", "key").await;
    if claim.session.head.last_sequence > 0 {
        assert!(matches!(reader.look(), ReaderStep::Frames(_)), "a claim's events are published too");
    }
}

async fn a_refused_or_repeated_append_is_not_announced(store: &TestStore) {
    store.open("s").await;
    store.commit(store.change(appending("s", vec![external("x")])).keyed(Some(key(1, 1)))).await.unwrap();
    let mut reader = reader(store, "s", 1).await;
    reader.read_to(1, true);
    let stale = Guard { version: Some(99), ..Guard::default() };
    assert_eq!(verdict(&store.append_under("s", stale, messages(1)).await), "stale");
    store.append("s", vec![external("x")]).await;
    let again = store.change(appending("s", vec![external("x")])).keyed(Some(key(1, 1)));
    assert!(store.commit(again).await.unwrap().replay.is_some());
    assert!(matches!(reader.look(), ReaderStep::Wait));
    store.append("s", messages(1)).await;
    assert!(matches!(reader.look(), ReaderStep::Frames(frames) if frames.len() == 1));
}

async fn a_deletion_ends_the_readers_of_that_life(store: &TestStore) {
    store.open("s").await;
    let mut former = reader(store, "s", 0).await;
    former.read_to(0, true);
    store.delete("s").await;
    store.open("s").await;
    let mut fresh = reader(store, "s", 0).await;
    fresh.read_to(0, true);
    store.append("s", messages(1)).await;
    assert!(matches!(former.look(), ReaderStep::Deleted));
    assert!(matches!(fresh.look(), ReaderStep::Frames(frames) if frames.len() == 1));
}

async fn next_hints(reader: &mut HintReader) -> Vec<Hint> {
    in_time("a hint", async {
        loop {
            match reader.take() {
                Some(HintBatch::Hints(hints, _)) => return hints,
                Some(HintBatch::Reset(_)) => panic!("nothing was lost"),
                None => reader.wait().await,
            }
        }
    })
    .await
}

async fn hints_name_what_changed_in_their_tenant(store: &TestStore) {
    let other = store.tenant_named("other").await;
    let mut hints = store.hub.hints(&store.tenant, None);
    other.open("theirs").await;
    store.open("s").await;
    let made = next_hints(&mut hints).await;
    assert_eq!(made.len(), 1);
    assert!(made[0].session == id("s") && made[0].row_changed && !made[0].deleted, "{made:?}");

    store.append("s", messages(2)).await;
    let grown = next_hints(&mut hints).await;
    assert_eq!((grown[0].last_sequence, grown[0].status), (2, Status::Idle));

    store.update("s", Update { status: Some(Status::Running), ..Update::default() }).await;
    let moved = next_hints(&mut hints).await;
    assert!(moved[0].row_changed && moved[0].status == Status::Running, "{moved:?}");

    store.delete("s").await;
    let gone = next_hints(&mut hints).await;
    assert!(gone[0].deleted && gone[0].tenant == store.tenant, "{gone:?}");
}

async fn pending_work_wakes_those_who_wait_for_it(store: &TestStore) {
    store.open("s").await;
    let mut work_here = store.hub.work(&store.tenant);
    store.append("s", messages(1)).await;
    assert!(!work_here.has_changed().unwrap(), "talk is no work");
    store.create(work("new")).await;
    in_time("new work", work_here.changed()).await.unwrap();
    work_here.borrow_and_update();
    store.update("s", Update { status: Some(Status::Pending), ..Update::default() }).await;
    in_time("work that became pending", work_here.changed()).await.unwrap();
}
