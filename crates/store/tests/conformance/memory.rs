//! Memories: stored whole, listed, found by words, deleted.

use sederunt_core::TenantId;
use sederunt_core::Timestamp;
use sederunt_core::memory::{Memory, MemoryBody, MemoryKind, Owner, Profile, ProfileRule};
use sederunt_core::store::{MemoryQuery, Record};

use crate::builders::*;
use crate::record_builders::{arc, at, fact, owner};
use crate::stores::TestStore;

on_each_store! {
    a_memory_is_kept_whole_and_read_by_its_id,
    a_memory_that_is_put_again_is_replaced_where_it_stands,
    a_dropped_memory_is_gone_and_one_that_is_not_there_is_no_error,
    memories_are_listed_newest_first_and_in_pages,
    memories_are_narrowed_by_owner_kind_and_time,
    what_is_dormant_is_shown_only_when_asked_for,
    words_find_any_of_them_best_first,
    words_find_what_is_there_now_and_not_what_was,
    words_are_asked_of_one_owner_and_kind,
    a_word_that_is_everywhere_hides_no_other,
    nothing_in_words_is_an_operator,
    memories_of_two_tenants_never_meet,
    a_change_takes_its_memories_along_in_their_order,
    everything_of_an_owner_is_forgotten_at_once,
    what_is_handed_over_is_found_under_its_new_owner,
    whatever_was_acknowledged_is_seen;
    durable: memories_outlive_the_process,
    a_copy_carries_memories_and_goes_on_after_them,
}

impl TestStore {
    async fn remember(&self, memory: Memory) {
        self.record(Record::PutMemory(Box::new(memory))).await;
    }

    async fn forget(&self, id: &str) {
        self.record(Record::DropMemory { id: id.into() }).await;
    }

    async fn recalled(&self, query: MemoryQuery) -> Vec<String> {
        let page = self.memories(&self.tenant, query).await.unwrap();
        page.items.into_iter().map(|memory| memory.id).collect()
    }

    async fn named_memory(&self, id: &str) -> Option<Memory> {
        self.memory(&self.tenant, id).await.unwrap()
    }
}

fn of(name: &str) -> MemoryQuery {
    MemoryQuery {
        owner: owner(name),
        kind: None,
        words: Vec::new(),
        since: None,
        dormant: false,
        after: None,
        limit: 100,
    }
}

fn by(words: &[&str]) -> MemoryQuery {
    MemoryQuery { words: words.iter().map(|&word| word.to_owned()).collect(), ..of("ann") }
}

fn profile(of: &str, rule: &str) -> Memory {
    let rule = ProfileRule {
        id: "r".to_owned(),
        text: rule.to_owned(),
        confidence: 0.5,
        quotes: vec!["\"quoted\"".to_owned()],
        sources: Vec::new(),
    };
    let body = Profile { rules: vec![rule], archived_rules: Vec::new(), recall_enabled: true };
    Memory { body: MemoryBody::Profile(body), ..fact("profile", of, "") }
}

async fn a_memory_is_kept_whole_and_read_by_its_id(store: &TestStore) {
    let dormant =
        Memory { dormant_at: Some(at("2026-11-17T00:00:00Z")), ..fact("d", "ann", "grün — \u{1f331}") };
    for memory in [
        fact("f", "ann", "tea"),
        arc("a", "ann", "about \"it\"", "2026-11-16T08:00:00Z"),
        profile("ann", "be brief"),
        dormant,
    ] {
        store.remember(memory.clone()).await;
        assert_eq!(store.named_memory(&memory.id).await, Some(memory));
    }
    assert_eq!(store.named_memory("none").await, None);
}

async fn a_memory_that_is_put_again_is_replaced_where_it_stands(store: &TestStore) {
    for name in ["one", "two"] {
        store.remember(fact(name, "ann", "tea")).await;
    }
    let newer = Memory { last_referenced_at: at("2026-12-01T00:00:00Z"), ..fact("one", "ann", "coffee") };
    store.remember(newer.clone()).await;
    assert_eq!(store.named_memory("one").await, Some(newer.clone()));
    assert_eq!(store.recalled(of("ann")).await, ["two", "one"]);
    // Handed to another owner, with its postings.
    store.remember(Memory { owner: owner("ben"), ..newer }).await;
    assert_eq!(store.recalled(of("ann")).await, ["two"]);
    assert_eq!(store.recalled(by(&["coffee"])).await, [""; 0]);
    assert_eq!(store.recalled(MemoryQuery { owner: owner("ben"), ..by(&["coffee"]) }).await, ["one"]);
}

async fn a_dropped_memory_is_gone_and_one_that_is_not_there_is_no_error(store: &TestStore) {
    for name in ["one", "two"] {
        store.remember(fact(name, "ann", "tea")).await;
    }
    store.forget("one").await;
    store.forget("one").await;
    store.forget("never").await;
    assert_eq!(store.named_memory("one").await, None);
    assert_eq!(store.recalled(of("ann")).await, ["two"]);
    assert_eq!(store.recalled(by(&["tea"])).await, ["two"]);
    store.remember(fact("one", "ann", "tea")).await;
    assert_eq!(store.recalled(of("ann")).await, ["one", "two"], "it comes back as a new one");
}

async fn memories_are_listed_newest_first_and_in_pages(store: &TestStore) {
    let mut expected = Vec::new();
    for n in 0..7 {
        let name = format!("m{n}");
        // Kinds alternate, so that a page is made of several of them.
        store
            .remember(if n % 2 == 0 {
                fact(&name, "ann", "tea")
            } else {
                arc(&name, "ann", "tea", "2026-11-16T08:00:00Z")
            })
            .await;
        expected.insert(0, name);
    }
    store.remember(fact("other", "ben", "tea")).await;
    let (mut listed, mut after, mut sizes) = (Vec::new(), None, Vec::new());
    loop {
        let page = store.memories(&store.tenant, MemoryQuery { after, limit: 3, ..of("ann") }).await.unwrap();
        sizes.push(page.items.len());
        listed.extend(page.items.into_iter().map(|memory| memory.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, expected);
    assert_eq!(sizes, [3, 3, 1]);
    let whole = store.memories(&store.tenant, MemoryQuery { limit: 7, ..of("ann") }).await.unwrap();
    assert_eq!((whole.items.len(), whole.next), (7, None));
}

async fn memories_are_narrowed_by_owner_kind_and_time(store: &TestStore) {
    store.remember(fact("fact", "ann", "tea")).await;
    store.remember(arc("old", "ann", "the garden", "2026-10-01T00:00:00Z")).await;
    store.remember(arc("new", "ann", "the garden", "2026-11-10T00:00:00Z")).await;
    store.remember(profile("ann", "be brief")).await;
    let session = Owner::session(&id("ann"));
    store.remember(Memory { owner: session.clone(), ..fact("of a session", "ann", "tea") }).await;
    let of_kind = |kind| MemoryQuery { kind: Some(kind), ..of("ann") };
    assert_eq!(store.recalled(of_kind(MemoryKind::Fact)).await, ["fact"]);
    assert_eq!(store.recalled(of_kind(MemoryKind::Arc)).await, ["new", "old"]);
    assert_eq!(store.recalled(of_kind(MemoryKind::Profile)).await, ["profile"]);
    assert_eq!(store.recalled(of("ann")).await, ["profile", "new", "old", "fact"]);
    assert_eq!(store.recalled(MemoryQuery { owner: session, ..of("ann") }).await, ["of a session"]);
    for (since, found) in [
        ("2026-11-10T00:00:00Z", &["new"][..]),
        ("2026-11-10T00:00:00.000001Z", &[]),
        ("2026-10-01T00:00:00Z", &["new", "old"]),
    ] {
        let query = MemoryQuery { since: Some(at(since)), ..of_kind(MemoryKind::Arc) };
        assert_eq!(store.recalled(query.clone()).await, found, "{since}");
        let mut words = store.recalled(MemoryQuery { words: vec!["garden".to_owned()], ..query }).await;
        words.sort_unstable();
        assert_eq!(words, found, "{since}, by words");
    }
}

async fn what_is_dormant_is_shown_only_when_asked_for(store: &TestStore) {
    store.remember(fact("old", "ann", "tea")).await;
    store.remember(fact("new", "ann", "tea")).await;
    store.remember(Memory { dormant_at: Some(Timestamp::from_micros(1)), ..fact("old", "ann", "tea") }).await;
    assert_eq!(store.recalled(of("ann")).await, ["new"]);
    assert_eq!(store.recalled(by(&["tea"])).await, ["new"]);
    assert_eq!(store.recalled(MemoryQuery { dormant: true, ..of("ann") }).await, ["new", "old"]);
    assert_eq!(store.recalled(MemoryQuery { dormant: true, ..by(&["tea"]) }).await, ["new", "old"]);
    store.remember(fact("old", "ann", "tea")).await;
    assert_eq!(store.recalled(by(&["tea"])).await, ["new", "old"], "it has woken up");
}

async fn words_find_any_of_them_best_first(store: &TestStore) {
    for (name, object) in [
        ("both", "green tea from Kyoto"),
        ("tea", "black tea"),
        ("kyoto", "old Kyoto"),
        ("neither", "coffee"),
        ("more tea", "tea with milk"),
    ] {
        store.remember(fact(name, "ann", object)).await;
    }
    assert_eq!(store.recalled(by(&["tea", "kyoto"])).await[0], "both");
    let mut all = store.recalled(by(&["TEA", "Kyōto", "never"])).await;
    all.sort_unstable();
    assert_eq!(all, ["both", "kyoto", "more tea", "tea"]);
    assert_eq!(store.recalled(by(&["coffee", "never"])).await, ["neither"]);
    assert_eq!(store.recalled(by(&["kyoto", "tea"])).await[..2], ["both", "kyoto"], "rare words count more");
    assert_eq!(store.recalled(MemoryQuery { limit: 1, ..by(&["tea", "kyoto"]) }).await, ["both"]);
    assert_eq!(store.recalled(by(&["kyo"])).await, [""; 0], "whole words");
    store.remember(fact("東", "ann", "東京の庭")).await;
    assert_eq!(store.recalled(by(&["庭"])).await, ["東"]);
}

async fn words_find_what_is_there_now_and_not_what_was(store: &TestStore) {
    store.remember(fact("m", "ann", "green tea")).await;
    store.remember(fact("m", "ann", "green paint")).await;
    assert_eq!(store.recalled(by(&["tea"])).await, [""; 0]);
    assert_eq!(store.recalled(by(&["paint"])).await, ["m"]);
    assert_eq!(store.recalled(by(&["green"])).await, ["m"], "once, and still");
    store.forget("m").await;
    assert_eq!(store.recalled(by(&["green", "paint"])).await, [""; 0]);
}

async fn words_are_asked_of_one_owner_and_kind(store: &TestStore) {
    store.remember(fact("fact", "ann", "the garden")).await;
    store.remember(arc("arc", "ann", "the garden", "2026-11-10T00:00:00Z")).await;
    store.remember(fact("ben's", "ben", "the garden")).await;
    let garden = by(&["garden"]);
    let mut both = store.recalled(garden.clone()).await;
    both.sort_unstable();
    assert_eq!(both, ["arc", "fact"]);
    assert_eq!(
        store.recalled(MemoryQuery { kind: Some(MemoryKind::Fact), ..garden.clone() }).await,
        ["fact"]
    );
    assert_eq!(store.recalled(MemoryQuery { kind: Some(MemoryKind::Arc), ..garden.clone() }).await, ["arc"]);
    assert_eq!(store.recalled(MemoryQuery { owner: owner("ben"), ..garden.clone() }).await, ["ben's"]);
    assert_eq!(store.recalled(MemoryQuery { owner: owner("nobody"), ..garden }).await, [""; 0]);
}

async fn a_word_that_is_everywhere_hides_no_other(store: &TestStore) {
    const MANY: usize = 600;
    let mut change = sederunt_core::store::Change::new(store.tenant.clone());
    change.records.push(Record::PutMemory(Box::new(fact("rare", "ann", "a heron by the river"))));
    for n in 0..MANY {
        change.records.push(Record::PutMemory(Box::new(fact(
            &format!("m{n}"),
            "ann",
            &format!("thing {n}"),
        ))));
    }
    store.commit(change).await.unwrap();
    // The first was put before all others, and every one of them has the words `user likes`.
    let found = store.recalled(MemoryQuery { limit: 3, ..by(&["user", "likes", "heron"]) }).await;
    assert_eq!(found, ["rare"]);
    let newest = store.recalled(MemoryQuery { limit: 3, ..by(&["user"]) }).await;
    assert_eq!(newest, [format!("m{}", MANY - 1), format!("m{}", MANY - 2), format!("m{}", MANY - 3)]);
}

async fn nothing_in_words_is_an_operator(store: &TestStore) {
    store.remember(fact("m", "ann", "o'clock AND \"tea\" OR near:5* NOT -this")).await;
    for words in [&["\""][..], &["*"], &["' OR 1=1 --"], &["near:5"], &["-this"], &["a\0b"], &["% _"], &[""]]
    {
        let found = store.recalled(by(words)).await;
        let asked: String = words.concat();
        let expected = ["near:5", "-this", "' OR 1=1 --"].contains(&asked.as_str());
        assert_eq!(found.len(), usize::from(expected), "{words:?}");
    }
}

async fn memories_of_two_tenants_never_meet(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for (tenant, object) in [(store, "green tea"), (&other, "black tea")] {
        tenant.remember(fact("m", "ann", object)).await;
    }
    assert_eq!(other.recalled(by(&["green"])).await, [""; 0]);
    assert_eq!(store.recalled(by(&["tea"])).await, ["m"]);
    assert_eq!(store.recalled(of("ann")).await, ["m"]);
    other.forget("m").await;
    assert_eq!(store.named_memory("m").await, Some(fact("m", "ann", "green tea")));
    let nowhere = TenantId::stored("nowhere");
    assert!(store.memories(&nowhere, of("ann")).await.unwrap().items.is_empty());
    assert_eq!(store.memory(&nowhere, "m").await.unwrap(), None);
    store.delete_tenant(&other.tenant).await.unwrap();
    assert_eq!(store.recalled(by(&["tea"])).await, ["m"]);
}

async fn a_change_takes_its_memories_along_in_their_order(store: &TestStore) {
    let records = [
        Record::PutMemory(Box::new(fact("first", "ann", "tea"))),
        Record::PutMemory(Box::new(fact("second", "ann", "tea"))),
        Record::PutMemory(Box::new(fact("second", "ann", "coffee"))),
        Record::DropMemory { id: "first".into() },
        Record::DropMemory { id: "third".into() },
        Record::PutMemory(Box::new(fact("third", "ann", "tea"))),
    ];
    let mut change = store.change(creating(a_session("s", |_| {})));
    change.records.extend(records);
    store.commit(change).await.unwrap();
    assert_eq!(store.recalled(of("ann")).await, ["third", "second"]);
    assert_eq!(store.recalled(by(&["tea"])).await, ["third"]);
    // A change that is refused takes nothing along.
    let mut twice = store.change(creating(a_session("s", |_| {})));
    twice.records.push(Record::DropMemory { id: "third".into() });
    assert_eq!(verdict(&store.commit(twice).await), "stale");
    assert_eq!(store.recalled(of("ann")).await, ["third", "second"]);
}

async fn whatever_was_acknowledged_is_seen(store: &TestStore) {
    let seen = store
        .at_once(16, |store, n| async move {
            let mut missed = 0;
            for round in 0..5 {
                let name = format!("m{n}-{round}");
                store.remember(fact(&name, "ann", &format!("word{n}x{round}"))).await;
                let query = by(&[&format!("word{n}x{round}")]);
                missed += usize::from(store.recalled(query).await != [name.clone()]);
                missed += usize::from(store.named_memory(&name).await.is_none());
            }
            missed
        })
        .await;
    assert_eq!(seen, [0; 16]);
    assert_eq!(store.recalled(of("ann")).await.len(), 80);
}

async fn memories_outlive_the_process(store: &TestStore) {
    store.remember(fact("m", "ann", "tea")).await;
    store.forget("gone").await;
    let after = store.reopened().await;
    assert_eq!(after.recalled(by(&["tea"])).await, ["m"]);
    assert_eq!(after.named_memory("m").await, Some(fact("m", "ann", "tea")));
    after.close().await;
}

async fn a_copy_carries_memories_and_goes_on_after_them(store: &TestStore) {
    store.remember(fact("a", "ann", "green tea")).await;
    store.remember(arc("b", "ann", "the garden", "2026-11-10T00:00:00Z")).await;
    store.remember(Memory { dormant_at: Some(Timestamp::from_micros(1)), ..fact("d", "ann", "tea") }).await;
    let other = store.tenant_named("other").await;
    other.remember(profile("ann", "be brief")).await;
    let Some(copy) = store.copied().await else { return };
    for query in [of("ann"), by(&["tea", "garden"]), MemoryQuery { dormant: true, ..by(&["tea"]) }] {
        assert_eq!(copy.recalled(query.clone()).await, store.recalled(query).await);
    }
    let theirs = copy.tenant_named("other").await;
    assert_eq!(theirs.named_memory("profile").await, Some(profile("ann", "be brief")));
    copy.remember(fact("c", "ann", "tea")).await;
    assert_eq!(copy.recalled(of("ann")).await, ["c", "b", "a"]);
    copy.remember(fact("a", "ann", "coffee")).await;
    assert_eq!(copy.recalled(by(&["green"])).await, [""; 0], "what was copied is filed as it was");
    copy.remove().await;
}

/// Facts, one of them dormant, an arc and a profile.
async fn filled(store: &TestStore, name: &str) {
    let id = |what: &str| format!("{what} of {name}");
    store.remember(fact(&id("tea"), name, "tea")).await;
    let dormant_at = Some(Timestamp::from_micros(1));
    store.remember(Memory { dormant_at, ..fact(&id("milk"), name, "milk") }).await;
    store.remember(arc(&id("arc"), name, "the garden", "2026-11-10T00:00:00Z")).await;
    store.remember(Memory { id: id("profile"), ..profile(name, "be brief") }).await;
}

async fn everything_of_an_owner_is_forgotten_at_once(store: &TestStore) {
    filled(store, "ann").await;
    filled(store, "ben").await;
    store.record(Record::DropMemories { owner: owner("ann") }).await;
    assert_eq!(store.recalled(MemoryQuery { dormant: true, ..of("ann") }).await, [""; 0]);
    for id in ["tea of ann", "milk of ann", "profile of ann"] {
        assert_eq!(store.named_memory(id).await, None, "{id}");
    }
    assert_eq!(store.recalled(MemoryQuery { dormant: true, ..of("ben") }).await.len(), 4);
    store.remember(fact("new", "ann", "tea")).await;
    assert_eq!(store.recalled(MemoryQuery { dormant: true, ..by(&["tea", "garden"]) }).await, ["new"]);
}

async fn what_is_handed_over_is_found_under_its_new_owner(store: &TestStore) {
    filled(store, "ann").await;
    filled(store, "ben").await;
    for _ in 0..2 {
        store.record(Record::MoveMemories { from: owner("ben"), into: owner("ann") }).await;
        let all = MemoryQuery { dormant: true, ..of("ann") };
        let mut found = store.recalled(all).await;
        found.sort();
        let both = ["arc of ann", "arc of ben", "milk of ann", "milk of ben", "profile of ann"];
        assert_eq!(found, [&both[..], &["tea of ann", "tea of ben"]].concat());
        assert_eq!(store.recalled(of("ben")).await, ["profile of ben"], "a profile is one per owner");
        let mut tea = store.recalled(by(&["tea"])).await;
        tea.sort();
        assert_eq!(tea, ["tea of ann", "tea of ben"]);
    }
    store.remember(fact("tea of ben", "ann", "coffee")).await;
    assert_eq!(store.recalled(by(&["tea"])).await, ["tea of ann"], "it is filed where it says it is");
}
