//! Forks: a shared beginning by reference, a log of one's own after it, and deletion on either side.

use sederunt_core::event::{AppendOutcome, EventQuery};
use sederunt_core::ids::RandomIds;
use sederunt_core::store::{Fork, Guard, NewSession};
use sederunt_core::{Event, Incarnation};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    a_fork_begins_with_what_was_said_before_it,
    a_fork_and_its_original_go_their_own_ways,
    a_fork_is_read_page_by_page_across_its_border,
    a_fork_of_a_fork_reads_all_its_beginnings,
    an_external_id_of_the_beginning_is_a_repeat_in_the_fork,
    words_are_found_on_both_sides_of_a_forks_border,
    a_fork_outlives_its_original,
    an_original_outlives_its_fork,
    a_fork_of_a_former_life_is_refused;
    durable: with_the_last_of_them_the_beginning_goes_too,
}

/// A fork of a session at a sequence, as the engine would open it.
async fn a_fork(store: &TestStore, name: &str, of: &str, at_sequence: u64) -> NewSession {
    let original = store.get(of).await;
    a_session(name, |new| {
        new.head.last_sequence = at_sequence;
        new.head.message_count = at_sequence;
        new.head.described = true;
        let incarnation = original.head.incarnation;
        new.fork_of = Some(Fork { session: id(of), incarnation, at_sequence });
    })
}

async fn fork(store: &TestStore, name: &str, of: &str, at_sequence: u64) {
    let new = a_fork(store, name, of, at_sequence).await;
    let done = store.create(new).await;
    assert_eq!(done.head.last_sequence, at_sequence);
}

async fn say(store: &TestStore, name: &str, texts: &[&str]) {
    store.append(name, texts.iter().map(|text| message(text)).collect()).await;
}

fn texts(log: &[Event]) -> Vec<String> {
    log.iter().filter_map(Event::text).collect()
}

async fn a_fork_begins_with_what_was_said_before_it(store: &TestStore) {
    store.open("original").await;
    say(store, "original", &["a", "b", "c", "d"]).await;
    fork(store, "fork", "original", 2).await;
    let (original, log) = (store.log("original").await, store.log("fork").await);
    assert_eq!(texts(&log), ["a", "b"]);
    for (read, first) in log.iter().zip(&original) {
        assert_eq!(*read, Event { session_id: id("fork"), ..first.clone() });
    }
    let head = store.get("fork").await.head;
    assert_eq!((head.last_sequence, head.message_count), (2, 2));

    fork(store, "empty", "original", 0).await;
    assert!(store.log("empty").await.is_empty());
    say(store, "empty", &["own"]).await;
    assert_eq!(sequences(&store.log("empty").await), [1]);
}

async fn a_fork_and_its_original_go_their_own_ways(store: &TestStore) {
    store.open("original").await;
    say(store, "original", &["a", "b", "c"]).await;
    fork(store, "fork", "original", 2).await;
    say(store, "original", &["d"]).await;
    say(store, "fork", &["x", "y"]).await;
    say(store, "original", &["e"]).await;
    assert_eq!(texts(&store.log("original").await), ["a", "b", "c", "d", "e"]);
    assert_eq!(texts(&store.log("fork").await), ["a", "b", "x", "y"]);
    assert_eq!(sequences(&store.log("fork").await), [1, 2, 3, 4]);
    let turns: Vec<_> = store.log("fork").await.iter().map(|event| event.turn).collect();
    assert_eq!(turns, [Some(1), Some(2), Some(3), Some(4)]);
}

async fn a_fork_is_read_page_by_page_across_its_border(store: &TestStore) {
    store.open("original").await;
    store.append("original", (0..10).map(|_| event("in.prefix")).collect()).await;
    fork(store, "fork", "original", 6).await;
    store.append("fork", (0..6).map(|_| event("own.event")).collect()).await;
    // after, before, types, newest first, limit → sequences
    type Case = (u64, Option<u64>, &'static [&'static str], bool, usize, &'static [u64]);
    let cases: &[Case] = &[
        (0, None, &[], false, 100, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        (4, None, &[], false, 4, &[5, 6, 7, 8]),
        (6, None, &[], false, 2, &[7, 8]),
        (0, Some(7), &[], true, 3, &[6, 5, 4]),
        (0, Some(9), &[], true, 4, &[8, 7, 6, 5]),
        (0, None, &["in.prefix"], false, 100, &[1, 2, 3, 4, 5, 6]),
        (0, None, &["own.event"], true, 100, &[12, 11, 10, 9, 8, 7]),
        (5, Some(9), &[], false, 100, &[6, 7, 8]),
    ];
    for &(after, before, types, newest_first, limit, expected) in cases {
        let types = types.iter().map(|&kind| kind.into()).collect();
        let query = EventQuery { after, before, types, newest_first, limit, ..EventQuery::default() };
        let page = store.events(&store.tenant, &id("fork"), query.clone()).await.unwrap();
        assert_eq!(sequences(&page.events), expected, "{query:?}");
        assert_eq!(page.last_sequence, 12);
    }
    for (newest_first, limit) in [(false, 1), (false, 5), (false, 6), (true, 1), (true, 5), (true, 6)] {
        let mut query = EventQuery { newest_first, limit, ..EventQuery::default() };
        let mut seen = Vec::new();
        loop {
            let page = store.events(&store.tenant, &id("fork"), query.clone()).await.unwrap();
            seen.extend(sequences(&page.events));
            if !page.has_more {
                break;
            }
            assert!(seen.len() < 12, "{query:?} does not end");
            match newest_first {
                true => query.before = Some(page.next_after),
                false => query.after = page.next_after,
            }
        }
        let mut expected: Vec<u64> = (1..=12).collect();
        if newest_first {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
}

async fn a_fork_of_a_fork_reads_all_its_beginnings(store: &TestStore) {
    store.open("a").await;
    say(store, "a", &["1", "2", "3"]).await;
    fork(store, "b", "a", 2).await;
    say(store, "b", &["b3", "b4"]).await;
    fork(store, "c", "b", 3).await;
    say(store, "c", &["c4"]).await;
    fork(store, "d", "c", 1).await;
    say(store, "d", &["d2"]).await;
    for (name, expected) in [
        ("a", &["1", "2", "3"][..]),
        ("b", &["1", "2", "b3", "b4"]),
        ("c", &["1", "2", "b3", "c4"]),
        ("d", &["1", "d2"]),
    ] {
        assert_eq!(texts(&store.log(name).await), expected, "{name}");
    }
    for gone in ["a", "b"] {
        store.delete(gone).await;
    }
    assert_eq!(texts(&store.log("c").await), ["1", "2", "b3", "c4"]);
    assert_eq!(texts(&store.log("d").await), ["1", "d2"]);
}

async fn an_external_id_of_the_beginning_is_a_repeat_in_the_fork(store: &TestStore) {
    store.open("original").await;
    store.append("original", vec![external("before"), event("external.event"), external("after")]).await;
    fork(store, "fork", "original", 2).await;
    let done = store.append("fork", vec![external("before"), external("after"), external("before")]).await;
    assert!(matches!(done.appended[0], AppendOutcome::Repeat(1)), "{:?}", done.appended);
    assert!(matches!(done.appended[1], AppendOutcome::New(_)), "{:?}", done.appended);
    assert!(matches!(done.appended[2], AppendOutcome::Repeat(1)), "{:?}", done.appended);
    assert_eq!(sequences(&store.log("fork").await), [1, 2, 3]);
    assert_eq!(appended(&store.append("original", vec![external("after")]).await), [3]);
}

async fn words_are_found_on_both_sides_of_a_forks_border(store: &TestStore) {
    store.open("original").await;
    say(store, "original", &["lynx one", "lynx two", "lynx three"]).await;
    fork(store, "fork", "original", 2).await;
    say(store, "fork", &["lynx four", "lynx five"]).await;
    let found = |word: &'static str| async move {
        let mut found = store.found_said(words(&["lynx", word])).await;
        found.sort_unstable();
        found
    };
    let at = |name: &str, sequence: u64| (name.to_owned(), sequence);
    assert_eq!(found("one").await, [at("fork", 1), at("original", 1)]);
    assert_eq!(found("two").await, [at("fork", 2), at("original", 2)]);
    assert_eq!(found("three").await, [at("original", 3)]);
    assert_eq!(found("four").await, [at("fork", 3)]);
    assert_eq!(found("five").await, [at("fork", 4)]);
    assert_eq!(found("lynx").await.len(), 7);
}

async fn a_fork_outlives_its_original(store: &TestStore) {
    store.open("original").await;
    say(store, "original", &["a", "b", "c"]).await;
    fork(store, "fork", "original", 2).await;
    say(store, "fork", &["x"]).await;
    let before = store.state("fork").await;
    store.delete("original").await;
    assert_eq!(store.state("fork").await, before);
    say(store, "fork", &["y"]).await;
    assert_eq!(texts(&store.log("fork").await), ["a", "b", "x", "y"]);

    store.open("original").await;
    say(store, "original", &["another life"]).await;
    assert_eq!(texts(&store.log("original").await), ["another life"]);
    assert_eq!(texts(&store.log("fork").await), ["a", "b", "x", "y"]);
}

async fn an_original_outlives_its_fork(store: &TestStore) {
    store.open("original").await;
    say(store, "original", &["a", "b", "c"]).await;
    fork(store, "fork", "original", 2).await;
    say(store, "fork", &["x"]).await;
    let before = store.state("original").await;
    store.delete("fork").await;
    assert_eq!(store.state("original").await, before);
    assert!(store.find("fork").await.is_none());
}

async fn with_the_last_of_them_the_beginning_goes_too(store: &TestStore) {
    let family = ["original", "fork", "grandchild"];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        store.open("original").await;
        say(store, "original", &["a", "b", "c"]).await;
        fork(store, "fork", "original", 2).await;
        store.append("fork", vec![external("x"), message("y")]).await;
        fork(store, "grandchild", "fork", 3).await;
        say(store, "grandchild", &["z"]).await;
        for n in order {
            store.delete(family[n]).await;
            let page = store.events(&store.tenant, &id(family[n]), EventQuery::default()).await;
            assert_eq!(page.unwrap_err().code(), "not_found");
        }
        let kept = store.rows_kept().await;
        assert!(kept.values().all(|&rows| rows == 0), "{order:?}: nobody refers to {kept:?}");
    }
    store.open("original").await;
    say(store, "original", &["a", "b", "c"]).await;
    fork(store, "fork", "original", 2).await;
    store.delete("original").await;
    assert_eq!(store.rows_kept().await["events"], 2, "only what the fork shows is kept");
}

async fn a_fork_of_a_former_life_is_refused(store: &TestStore) {
    store.open("original").await;
    say(store, "original", &["a", "b"]).await;
    let stale = a_fork(store, "fork", "original", 2).await;
    store.delete("original").await;
    store.open("original").await;
    say(store, "original", &["not", "yours"]).await;
    let mut unknown = stale.clone();
    unknown.fork_of.as_mut().unwrap().incarnation = Incarnation::drawn(&RandomIds);
    for new in [stale, unknown] {
        let outcome = store.commit(store.change(creating(new))).await;
        assert!(["stale", "not_found"].contains(&verdict(&outcome)), "{outcome:?}");
    }
    assert!(store.find("fork").await.is_none());
    assert_eq!(verdict(&store.append_under("fork", Guard::default(), messages(1)).await), "not_found");
}
