//! Search: words, what each caller sees, newest first; a caller's text is never a query language.

use sederunt_core::session::query::Visibility;
use sederunt_core::session::{DescriptionSource, Status};
use sederunt_core::store::{HitSession, SearchQuery, Update};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    words_are_found_in_titles_descriptions_and_messages,
    all_words_must_be_found_in_any_order_and_case_and_without_accents,
    the_beginning_of_a_word_is_enough,
    words_of_one_moment_are_told_apart_by_their_messages,
    long_and_many_messages_of_one_moment_are_all_found,
    only_what_was_said_is_found,
    hits_come_newest_first,
    hits_come_page_by_page_without_a_repeat,
    a_changed_title_is_found_under_its_new_words_only,
    a_deleted_session_is_not_found,
    eyes_see_no_further_than_they_may,
    a_query_is_words_and_never_syntax,
    a_hit_shows_the_words_in_their_place,
    a_hit_shows_its_session_as_it_is_now,
}

fn at(name: &str, sequence: u64) -> (String, u64) {
    (name.to_owned(), sequence)
}

async fn words_are_found_in_titles_descriptions_and_messages(store: &TestStore) {
    store.create(a_session("titled", |new| new.details.title = Some("The quick aardvark".into()))).await;
    store
        .create(a_session("described", |new| {
            new.head.described = true;
            new.details.description = Some("About a badger".into());
            new.details.description_source = Some(DescriptionSource::User);
        }))
        .await;
    store.open("said").await;
    store.append("said", vec![message("nothing"), message("a camel walks by"), message("nothing")]).await;
    store.append("said", vec![saying("agent.message", "the dromedary answers")]).await;

    for (word, session, sequence) in [
        ("aardvark", "titled", None),
        ("badger", "described", None),
        ("camel", "said", Some(2)),
        ("dromedary", "said", Some(4)),
    ] {
        assert_eq!(store.found(words(&[word])).await, [(session.to_owned(), sequence)], "{word}");
    }
    assert!(store.found(words(&["elephant"])).await.is_empty());
}

async fn all_words_must_be_found_in_any_order_and_case_and_without_accents(store: &TestStore) {
    store.open("s").await;
    store
        .append(
            "s",
            vec![message("Alpha beta gamma"), message("alpha delta"), message("Grüße an Ünal, 2026-11")],
        )
        .await;
    // words → sequences
    let cases: &[(&[&str], &[u64])] = &[
        (&["alpha"], &[2, 1]),
        (&["ALPHA"], &[2, 1]),
        (&["gamma", "alpha"], &[1]),
        (&["beta", "delta"], &[]),
        (&["alpha", "alpha"], &[2, 1]),
        (&["grüße"], &[3]),
        (&["ünal"], &[3]),
        (&["GRUße", "unal"], &[3]),
        (&["2026"], &[3]),
    ];
    for (query, expected) in cases {
        let found: Vec<_> = store.found_said(words(query)).await.into_iter().map(|(_, at)| at).collect();
        assert_eq!(found, *expected, "{query:?}");
    }
}

async fn the_beginning_of_a_word_is_enough(store: &TestStore) {
    store.open("s").await;
    store.append("s", vec![message("one banana and two cherries")]).await;
    for (query, hits) in [("ban", 1), ("banana", 1), ("cherr", 1), ("anana", 0), ("bananas", 0)] {
        assert_eq!(store.found_said(words(&[query])).await.len(), hits, "{query}");
    }
    assert_eq!(store.found_said(words(&["che", "ban"])).await.len(), 1);
}

async fn words_of_one_moment_are_told_apart_by_their_messages(store: &TestStore) {
    store.open("s").await;
    let said = vec![
        message("alpha beta"),
        saying("external.event", "beta delta"),
        message("beta gamma"),
        saying("agent.message", ""),
        saying("agent.message", "alphabet gamma"),
    ];
    store.append("s", said).await;
    let cases: &[(&[&str], &[u64])] = &[
        (&["beta"], &[3, 1]),
        (&["alpha"], &[5, 1]),
        (&["alpha", "gamma"], &[5]),
        (&["gam", "alp", "alph"], &[5]),
        (&["alpha", "beta", "gamma"], &[]),
        (&["delta"], &[]),
    ];
    for (query, expected) in cases {
        let found: Vec<_> = store.found_said(words(query)).await.into_iter().map(|(_, at)| at).collect();
        assert_eq!(found, *expected, "{query:?}");
    }
}

async fn long_and_many_messages_of_one_moment_are_all_found(store: &TestStore) {
    const COUNT: u64 = 150;
    store.create(a_session("s", |new| new.head.described = true)).await;
    let said = |n| match n % 50 {
        7 => message(&format!("{} tapir m{n}", "hay ".repeat(9_000))),
        _ => message(&format!("tapir m{n}")),
    };
    store.append("s", (1..=COUNT).map(said).collect()).await;
    let whole: Vec<_> = (1..=COUNT).rev().map(|n| at("s", n)).collect();
    assert_eq!(store.found_said(SearchQuery { limit: 1_000, ..words(&["tapir"]) }).await, whole);
    for n in [1, 7, 64, 65, 57, 107, COUNT] {
        let query = SearchQuery { limit: 1_000, ..words(&["tapir", &format!("m{n}")]) };
        assert_eq!(store.found_said(query).await.last(), Some(&at("s", n)), "{n}");
    }
}

async fn only_what_was_said_is_found(store: &TestStore) {
    store.create(a_session("s", |new| new.details.metadata = json("{\"secret\":\"walrus\"}"))).await;
    let mut noted = message("a plain text");
    noted.metadata = Some(json("{\"note\":\"walrus\"}"));
    noted.content =
        Some(json(r#"[{"type":"data-x","value":"walrus"},{"type":"text","text":"a plain text"}]"#));
    store.append("s", vec![noted]).await;
    assert!(store.found(words(&["walrus"])).await.is_empty());
    assert!(store.found(words(&["type"])).await.is_empty(), "the keys of the content are not text");
    assert!(store.found_said(words(&["plain"])).await.contains(&at("s", 1)));
}

async fn hits_come_newest_first(store: &TestStore) {
    for name in ["one", "two", "three"] {
        store.create(a_session(name, |new| new.head.described = true)).await;
    }
    for (n, name) in ["two", "one", "three", "one", "two", "one"].into_iter().enumerate() {
        store.append(name, vec![message(&format!("tapir {n}"))]).await;
        store.clock.advance(2 * LEASE);
    }
    let expected = [at("one", 3), at("two", 2), at("one", 2), at("three", 1), at("one", 1), at("two", 1)];
    assert_eq!(store.found_said(words(&["tapir"])).await, expected);
}

async fn hits_come_page_by_page_without_a_repeat(store: &TestStore) {
    for name in ["one", "two"] {
        store.create(a_session(name, |new| new.head.described = true)).await;
        store.append(name, (0..15).map(|n| message(&format!("tapir {n}"))).collect()).await;
    }
    let whole = store.found(words(&["tapir"])).await;
    assert_eq!(whole.len(), 30);
    for limit in [1, 7, 30, 31] {
        let mut query = SearchQuery { limit, ..words(&["tapir"]) };
        let mut seen = Vec::new();
        loop {
            let page = store.search(&store.tenant, query.clone()).await.unwrap();
            assert!(page.items.len() <= limit);
            seen.extend(page.items.into_iter().map(|hit| (hit.session.as_str().to_owned(), hit.sequence)));
            let Some(next) = page.next else { break };
            query.after = Some(next);
            assert!(seen.len() <= 30, "the pages do not end");
        }
        assert_eq!(seen, whole, "{limit}");
    }
}

async fn a_changed_title_is_found_under_its_new_words_only(store: &TestStore) {
    store.create(a_session("s", |new| new.details.title = Some("aardvark".into()))).await;
    assert_eq!(store.found(words(&["aardvark"])).await, [("s".to_owned(), None)]);
    store.update("s", Update { title: Some(Some("badger".into())), ..Update::default() }).await;
    assert!(store.found(words(&["aardvark"])).await.is_empty());
    assert_eq!(store.found(words(&["badger"])).await, [("s".to_owned(), None)]);
    store.update("s", Update { title: Some(None), ..Update::default() }).await;
    assert!(store.found(words(&["badger"])).await.is_empty());
}

async fn a_deleted_session_is_not_found(store: &TestStore) {
    for name in ["gone", "kept"] {
        store
            .create(a_session(name, |new| {
                new.details.title = Some("zebra".into());
                new.head.described = true;
            }))
            .await;
        store.append(name, vec![message("a zebra")]).await;
    }
    assert_eq!(store.found(words(&["zebra"])).await.len(), 4);
    store.delete("gone").await;
    // At once, before the indexer runs: deleted text must not be shown.
    let hits = store.search(&store.tenant, words(&["zebra"])).await.unwrap().items;
    assert!(hits.len() == 2 && hits.iter().all(|hit| hit.session == id("kept")), "{hits:?}");
    assert_eq!(store.found(words(&["zebra"])).await.len(), 2);
}

async fn eyes_see_no_further_than_they_may(store: &TestStore) {
    let zebra = |name: &str, adjust: fn(&mut sederunt_core::store::NewSession)| {
        let mut new = a_session(name, |new| new.head.described = true);
        adjust(&mut new);
        new
    };
    store.create(zebra("held", |new| new.head.holder = Some(user("ann")))).await;
    store.create(zebra("shared", |new| new.participants = vec![user("ann"), user("bob")])).await;
    store.create(zebra("tg_:other", |_| {})).await;
    store.create(zebra("tg_1", |new| new.head.status = Status::Pending)).await;
    store.create(zebra("tgx1", |_| {})).await;
    store.claim_one("tg_1", "key").await;
    for name in ["held", "shared", "tg_:other", "tg_1", "tgx1"] {
        store.append(name, vec![message("a zebra")]).await;
    }
    store.index_now().await.unwrap();
    let cases: Vec<(Option<Visibility>, &[&str])> = vec![
        (None, &["held", "shared", "tg_1", "tg_:other", "tgx1"]),
        (Some(Visibility::Participant(user("ann"))), &["held", "shared"]),
        (Some(Visibility::Participant(user("bob"))), &["shared"]),
        (Some(Visibility::Participant(user("eve"))), &[]),
        (Some(Visibility::Claims(credential("key"))), &["tg_1"]),
        (Some(Visibility::Claims(credential("other"))), &[]),
        (Some(Visibility::Prefix("tg_".into())), &["tg_1", "tg_:other"]),
        (Some(Visibility::Prefix("%".into())), &[]),
    ];
    for (seen_by, expected) in cases {
        let found = store.found(SearchQuery { seen_by: seen_by.clone(), ..words(&["zebra"]) }).await;
        let mut sessions: Vec<_> = found.iter().map(|(session, _)| session.as_str()).collect();
        sessions.sort_unstable();
        assert_eq!(sessions, expected, "{seen_by:?}");
    }
    store.update("shared", Update { participants: Some(vec![user("ann")]), ..Update::default() }).await;
    let bob = SearchQuery { seen_by: Some(Visibility::Participant(user("bob"))), ..words(&["zebra"]) };
    assert!(store.search(&store.tenant, bob).await.unwrap().items.is_empty(), "bob was taken off at once");
}

async fn a_query_is_words_and_never_syntax(store: &TestStore) {
    store.create(a_session("s", |new| new.head.described = true)).await;
    store.append("s", vec![message("banana cherry"), message("durian"), message("it's rock and roll")]).await;
    store.index_now().await.unwrap();
    // Each would match, fail or match everything if it were read as syntax.
    let none: &[&[&str]] = &[
        &["banana", "OR", "durian"],
        &["banana", "NOT", "durian"],
        &["banana", "AND", "cherry"],
        &["NEAR(banana", "cherry)"],
        &["banana", "|", "durian", "x"],
        &["rowid:1"],
        &["text:banana"],
        &["^cherry", "durian"],
    ];
    for query in none {
        let hits = store.search(&store.tenant, words(query)).await.unwrap().items;
        assert!(hits.is_empty(), "{query:?}: {hits:?}");
    }
    let any: &[&[&str]] = &[
        &["\""],
        &["'"],
        &["*"],
        &["ban*"],
        &["\"banana"],
        &["banana\""],
        &["("],
        &[")"],
        &["{a b}"],
        &["-"],
        &["--"],
        &["!banana"],
        &["banana:*"],
        &["&"],
        &["|"],
        &["<->"],
        &["\\"],
        &["%"],
        &["_"],
        &[";DROP TABLE sessions"],
        &["+"],
        &["^"],
        &["a:b:c"],
        &["😀"],
        &["\u{301}"],
        &["it's"],
        &["$1"],
        &["?1"],
        &["NEAR"],
        &["\u{fffd}"],
        &["  "],
        &["ban ana"],
    ];
    for query in any {
        let outcome = store.search(&store.tenant, words(query)).await;
        let hits = outcome.unwrap_or_else(|error| panic!("{query:?}: {error:?}")).items;
        assert!(hits.len() < 3, "{query:?} matches everything");
    }
    if let Err(error) = store.search(&store.tenant, words(&["ban\0ana"])).await {
        assert_eq!(error.code(), "invalid", "NUL is no fault of the store");
    }
    let long = "x".repeat(sederunt_core::limits::QUERY_CHARS_MAX);
    assert!(store.search(&store.tenant, words(&[&long])).await.unwrap().items.is_empty());
    let many = vec!["banana"; 100];
    assert_eq!(store.search(&store.tenant, words(&many)).await.unwrap().items.len(), 1);
    assert_eq!(store.found_said(words(&["banana", "cherry"])).await, [at("s", 1)]);
}

async fn a_hit_shows_the_words_in_their_place(store: &TestStore) {
    store.open("s").await;
    let long = format!("{} the needle <b>stands</b> here {}", "hay ".repeat(500), "hay ".repeat(500));
    store.append("s", vec![message("first"), message(&long)]).await;
    store.index_now().await.unwrap();
    let hits = store.search(&store.tenant, words(&["needle"])).await.unwrap().items;
    assert_eq!(hits.len(), 1);
    assert!(hits[0].snippet.to_lowercase().contains("needle"), "{}", hits[0].snippet);
    assert!(hits[0].snippet.len() < 1000, "{}", hits[0].snippet.len());
}

async fn a_hit_shows_its_session_as_it_is_now(store: &TestStore) {
    store.create(a_session("titled", |new| new.details.title = Some("The quick aardvark".into()))).await;
    store.open("said").await;
    store.append("said", vec![message("an aardvark"), message("nothing")]).await;
    assert_eq!(store.found(words(&["aardvark"])).await.len(), 2);
    let hits = store.search(&store.tenant, words(&["aardvark"])).await.unwrap().items;
    for hit in hits {
        let row = store.get(hit.session.as_str()).await;
        let HitSession { title, session_type, status, last_at } = hit.about;
        assert_eq!((title, session_type), (row.details.title, row.head.session_type));
        assert_eq!((status, last_at), (row.head.status, row.head.last_at));
    }
}
