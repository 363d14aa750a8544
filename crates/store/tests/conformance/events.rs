//! Reading a log: which events a page holds, in which order, and where it ends.

use sederunt_core::Event;
use sederunt_core::event::{AppendOutcome, EventPage, EventQuery, NewEvent};
use sederunt_core::json::Json;
use sederunt_core::limits;

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    events_read_back_as_they_were_given,
    a_page_is_cut_by_range_types_order_and_limit,
    paging_forward_sees_every_event_once,
    paging_backward_sees_every_event_once,
    a_filtered_walk_finds_every_match_in_both_directions,
    an_empty_log_is_an_empty_page,
    a_page_ends_at_the_row_limit,
    a_page_ends_at_the_byte_limit,
    a_filtered_page_stops_looking_and_says_where_to_go_on,
    the_largest_event_comes_back_whole,
}

async fn page(store: &TestStore, name: &str, query: EventQuery) -> EventPage {
    store.events(&store.tenant, &id(name), query).await.unwrap()
}

async fn events_read_back_as_they_were_given(store: &TestStore) {
    store.open("s").await;
    let full = NewEvent {
        content: Some(json(r#"[{"type":"text","text":"a\n\"b\" 😀"},{"type":"data-x","n":1.50}]"#)),
        metadata: Some(json(r#"{"z":1e2,"a":[null,true]}"#)),
        subthread_id: Some("sub/thread".into()),
        external_event_id: Some("ext 'id' é".into()),
        author: Some("ann".into()),
        ..event("user.message")
    };
    let custom = NewEvent { metadata: Some(json("{}")), ..event("billing.charged") };
    let bare = event("external.event");
    let done = store.append("s", vec![full.clone(), custom.clone(), bare.clone()]).await;
    let log = store.log("s").await;
    for ((given, read), appended) in [full, custom, bare].into_iter().zip(&log).zip(&done.appended) {
        let AppendOutcome::New(answered) = appended else { panic!("a new event was taken for a repeat") };
        assert_eq!(**answered, *read, "the answer and the log say the same");
        assert_eq!(read.session_id, id("s"));
        let read = read.clone();
        assert_eq!(
            NewEvent {
                kind: read.kind,
                content: read.content,
                metadata: read.metadata,
                subthread_id: read.subthread_id,
                external_event_id: read.external_event_id,
                author: read.author,
            },
            given
        );
    }
    assert_eq!(sequences(&log), [1, 2, 3]);
}

/// Ten events: odd ones `user.message`, even ones `a.b`, the tenth `c.d`.
async fn ten(store: &TestStore) {
    store.open("s").await;
    let events = (1..=10).map(|n| match n {
        10 => event("c.d"),
        n if n % 2 == 0 => event("a.b"),
        _ => message("odd"),
    });
    store.append("s", events.collect()).await;
}

async fn a_page_is_cut_by_range_types_order_and_limit(store: &TestStore) {
    ten(store).await;
    // after, before, types, newest first, limit → sequences, more to come
    type Case = (u64, Option<u64>, &'static [&'static str], bool, usize, &'static [u64], bool);
    let cases: &[Case] = &[
        (0, None, &[], false, 100, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], false),
        (0, None, &[], false, 10, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], false),
        (0, None, &[], false, 9, &[1, 2, 3, 4, 5, 6, 7, 8, 9], true),
        (0, None, &[], true, 3, &[10, 9, 8], true),
        (0, None, &[], true, 10, &[10, 9, 8, 7, 6, 5, 4, 3, 2, 1], false),
        (3, None, &[], false, 2, &[4, 5], true),
        (8, None, &[], false, 2, &[9, 10], false),
        (10, None, &[], false, 5, &[], false),
        (99, None, &[], false, 5, &[], false),
        (0, Some(4), &[], false, 9, &[1, 2, 3], false),
        (0, Some(4), &[], true, 9, &[3, 2, 1], false),
        (0, Some(4), &[], true, 2, &[3, 2], true),
        (0, Some(1), &[], true, 2, &[], false),
        (2, Some(6), &[], false, 9, &[3, 4, 5], false),
        (2, Some(6), &[], true, 2, &[5, 4], true),
        (2, Some(6), &[], true, 3, &[5, 4, 3], false),
        (5, Some(5), &[], false, 3, &[], false),
        (0, None, &["a.b"], false, 9, &[2, 4, 6, 8], false),
        (0, None, &["a.b"], true, 9, &[8, 6, 4, 2], false),
        (0, None, &["a.b"], false, 2, &[2, 4], true),
        (4, Some(9), &["a.b"], false, 9, &[6, 8], false),
        (4, None, &["a.b", "c.d"], false, 9, &[6, 8, 10], false),
        (0, None, &["c.d"], true, 1, &[10], false),
        (0, None, &["no.such"], false, 9, &[], false),
        (0, None, &["%", "a_b", "a.b' OR '1'='1"], false, 9, &[], false),
    ];
    for &(after, before, types, newest_first, limit, expected, more) in cases {
        let types: Vec<String> = types.iter().map(|&kind| kind.into()).collect();
        let query = EventQuery { after, before, types, newest_first, limit, ..EventQuery::default() };
        let page = page(store, "s", query.clone()).await;
        assert_eq!(sequences(&page.events), expected, "{query:?}");
        assert_eq!(page.last_sequence, 10, "{query:?}");
        if more && types_are_absent(&query) {
            assert_eq!(Some(page.next_after), expected.last().copied(), "{query:?}");
        }
        // A filtered page may have stopped before it knew that nothing else matches.
        if types_are_absent(&query) {
            assert_eq!(page.has_more, more, "{query:?}");
        } else {
            assert!(page.has_more || !more, "{query:?}");
        }
    }
}

fn types_are_absent(query: &EventQuery) -> bool {
    query.types.is_empty()
}

/// Follows a log to its end as a client does; fails if a page does not move on.
async fn walk(store: &TestStore, name: &str, mut query: EventQuery) -> (Vec<Event>, usize) {
    let (mut seen, mut pages) = (Vec::new(), 0);
    loop {
        let page = page(store, name, query.clone()).await;
        assert!(page.events.len() <= query.limit);
        seen.extend(page.events);
        pages += 1;
        if !page.has_more {
            return (seen, pages);
        }
        if query.newest_first {
            assert!(query.before.is_none_or(|before| page.next_after < before), "{query:?}");
            query.before = Some(page.next_after);
        } else {
            assert!(page.next_after > query.after, "{query:?}");
            query.after = page.next_after;
        }
    }
}

async fn paging_forward_sees_every_event_once(store: &TestStore) {
    store.open("s").await;
    store.append("s", messages(53)).await;
    for limit in [1, 7, 52, 53, 54] {
        let (seen, _) = walk(store, "s", EventQuery { limit, ..EventQuery::default() }).await;
        assert_eq!(sequences(&seen), (1..=53).collect::<Vec<_>>(), "{limit}");
    }
}

async fn paging_backward_sees_every_event_once(store: &TestStore) {
    store.open("s").await;
    store.append("s", messages(53)).await;
    for limit in [1, 7, 52, 53, 54] {
        let query = EventQuery { limit, newest_first: true, ..EventQuery::default() };
        let (seen, _) = walk(store, "s", query).await;
        assert_eq!(sequences(&seen), (1..=53).rev().collect::<Vec<_>>(), "{limit}");
    }
}

async fn a_filtered_walk_finds_every_match_in_both_directions(store: &TestStore) {
    ten(store).await;
    let types = vec!["a.b".to_owned(), "c.d".to_owned()];
    for limit in 1..=6 {
        let query = EventQuery { types: types.clone(), limit, ..EventQuery::default() };
        let (seen, _) = walk(store, "s", query.clone()).await;
        assert_eq!(sequences(&seen), [2, 4, 6, 8, 10]);
        let (seen, _) = walk(store, "s", EventQuery { newest_first: true, ..query }).await;
        assert_eq!(sequences(&seen), [10, 8, 6, 4, 2]);
    }
}

async fn an_empty_log_is_an_empty_page(store: &TestStore) {
    store.open("s").await;
    for newest_first in [false, true] {
        let page = page(store, "s", EventQuery { newest_first, ..EventQuery::default() }).await;
        assert!(page.events.is_empty() && !page.has_more);
        assert_eq!(page.last_sequence, 0);
        assert!(newest_first || page.next_after == 0, "the first event to come is not skipped");
    }
}

async fn a_page_ends_at_the_row_limit(store: &TestStore) {
    store.open("s").await;
    for _ in 0..3 {
        store.append("s", messages(400)).await;
    }
    let first = page(store, "s", EventQuery { limit: limits::PAGE_ROWS_MAX, ..EventQuery::default() }).await;
    assert_eq!(first.events.len(), limits::PAGE_ROWS_MAX);
    assert!(first.has_more);
    assert_eq!((first.next_after, first.last_sequence), (limits::PAGE_ROWS_MAX as u64, 1200));
}

async fn a_page_ends_at_the_byte_limit(store: &TestStore) {
    store.open("s").await;
    let large = "x".repeat(200 * 1024);
    for _ in 0..3 {
        store.append("s", (0..10).map(|_| saying("bulk.data", &large)).collect()).await;
    }
    for newest_first in [false, true] {
        let query = EventQuery { newest_first, ..EventQuery::default() };
        let first = page(store, "s", query.clone()).await;
        let bytes: usize = first.events.iter().map(Event::bytes).sum();
        assert!(bytes <= limits::PAGE_BYTES_MAX, "{bytes}");
        assert!(first.events.len() >= 15 && first.has_more, "{}", first.events.len());
        let (seen, pages) = walk(store, "s", query).await;
        assert_eq!(pages, 2);
        let mut sequences = sequences(&seen);
        sequences.sort_unstable();
        assert_eq!(sequences, (1..=30).collect::<Vec<_>>());
    }
    for (bytes_max, events) in [(1, 1), (limits::STREAM_PAGE_BYTES_MAX, 1), (3 * large.len(), 2)] {
        let page = page(store, "s", EventQuery { bytes_max, ..EventQuery::default() }).await;
        assert_eq!((page.events.len(), page.has_more), (events, true), "{bytes_max}");
        assert_eq!(page.next_after, events as u64, "{bytes_max}");
    }
}

async fn a_filtered_page_stops_looking_and_says_where_to_go_on(store: &TestStore) {
    store.open("s").await;
    let rows = limits::PAGE_SCAN_MAX as u64 + 1_000;
    store.append("s", vec![event("rare.first")]).await;
    for _ in 0..(rows - 2) / limits::BATCH_EVENTS_MAX as u64 {
        store.append("s", vec![event("common.event"); limits::BATCH_EVENTS_MAX]).await;
    }
    store.append("s", vec![event("rare.last")]).await;
    let last = store.get("s").await.head.last_sequence;
    assert!(last > limits::PAGE_SCAN_MAX as u64);

    for (rare, newest_first, expected) in [("rare.last", false, last), ("rare.first", true, 1)] {
        let query = EventQuery { types: vec![rare.into()], newest_first, ..EventQuery::default() };
        let first = page(store, "s", query.clone()).await;
        assert!(first.events.is_empty() && first.has_more, "a page looks at a bounded number of rows");
        let looked_at = if newest_first { last - first.next_after + 1 } else { first.next_after };
        assert!(looked_at <= limits::PAGE_SCAN_MAX as u64 + 1, "{looked_at}");
        let (seen, pages) = walk(store, "s", query).await;
        assert_eq!(sequences(&seen), [expected]);
        assert!(pages <= 3, "{pages}");
    }
}

async fn the_largest_event_comes_back_whole(store: &TestStore) {
    store.open("s").await;
    let frame = r#"[{"type":"text","text":""}]"#.len();
    let text = "é".repeat((limits::EVENT_BYTES_MAX - frame) / 2);
    store.append("s", vec![message(&text)]).await;
    let log = store.log("s").await;
    assert!(log[0].content.as_ref().map_or(0, Json::len) >= limits::EVENT_BYTES_MAX - 1);
    assert_eq!(log[0].text(), Some(text));
}
