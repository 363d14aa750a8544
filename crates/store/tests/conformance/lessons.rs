//! Lessons: written under their version, found by words, listed, counted.

use sederunt_core::lesson::{
    EffectCounter, EffectCounts, Lesson, LessonCategory, LessonQuery, LessonSource, LessonState, Polarity,
};
use sederunt_core::store::{Record, Refusal};

use crate::builders::*;
use crate::record_builders::{lesson, taught};
use crate::stores::TestStore;

on_each_store! {
    a_lesson_is_kept_whole_and_written_under_its_version,
    words_find_lessons_best_first_and_what_is_there_now,
    a_search_is_narrowed_by_all_that_is_asked,
    lessons_are_listed_newest_first_in_pages_and_past_what_does_not_fit,
    what_came_up_often_is_listed_by_itself,
    what_a_lesson_has_done_is_counted_beside_its_version,
    thumbs_count_only_after_it_was_shown,
    of_two_who_learn_the_same_at_once_one_writes,
    lessons_of_two_tenants_never_meet,
    what_a_merged_user_taught_follows_them,
    nothing_in_words_is_an_operator_of_a_search;
    durable: lessons_outlive_the_process,
    a_copy_carries_lessons_and_goes_on_after_them,
}

impl TestStore {
    async fn teach(&self, lesson: Lesson, expects: Option<u64>) {
        self.record(Record::PutLesson { lesson: Box::new(lesson), expects }).await;
    }

    async fn known(&self, id: &str) -> Lesson {
        self.lesson(&self.tenant, id).await.unwrap().unwrap()
    }

    async fn learned(&self, query: LessonQuery) -> Vec<String> {
        let page = self.lessons(&self.tenant, query).await.unwrap();
        page.items.into_iter().map(|lesson| lesson.id).collect()
    }
}

fn all() -> LessonQuery {
    LessonQuery { limit: 100, ..LessonQuery::default() }
}

fn by(words: &str) -> LessonQuery {
    LessonQuery { words: vec![words.to_owned()], ..all() }
}

async fn a_lesson_is_kept_whole_and_written_under_its_version(store: &TestStore) {
    let first = lesson("l1", "Keep \"answers\" short \u{1f331}");
    store.teach(first.clone(), None).await;
    assert_eq!(store.known("l1").await, first);
    let second =
        Lesson { state: LessonState::Retired, occurrences: 4, polarity: Polarity::Positive, ..first.clone() };
    store.teach(second.clone(), Some(1)).await;
    assert_eq!(store.known("l1").await, Lesson { version: 2, ..second.clone() });
    for expects in [None, Some(1), Some(3)] {
        let record = Record::PutLesson { lesson: Box::new(first.clone()), expects };
        assert!(matches!(store.try_record(record).await, Err(Refusal::Stale)), "{expects:?}");
    }
    assert!(matches!(store.try_record(taught("l2", "x", Some(1))).await, Err(Refusal::Stale)));
    assert_eq!(store.known("l1").await, Lesson { version: 2, ..second });
    assert_eq!(store.lesson(&store.tenant, "l2").await.unwrap(), None);
}

async fn words_find_lessons_best_first_and_what_is_there_now(store: &TestStore) {
    store.teach(lesson("lock", "Do not edit the lock file"), None).await;
    store.teach(lesson("file", "Name a file by what it holds"), None).await;
    store.teach(lesson("tea", "Offer tea"), None).await;
    assert_eq!(store.learned(by("the LOCK file, please")).await, ["lock", "file"]);
    assert_eq!(store.learned(by("coffee")).await, [""; 0]);
    assert_eq!(store.learned(by("the of and")).await, [""; 0], "grammar finds nothing");
    assert_eq!(store.learned(by("tone")).await.len(), 3, "tags are words too");
    store.teach(lesson("lock", "Run the package manager"), Some(1)).await;
    assert_eq!(store.learned(by("lock")).await, [""; 0]);
    assert_eq!(store.learned(by("package")).await, ["lock"]);
    assert_eq!(store.learned(LessonQuery { limit: 2, ..by("tone") }).await.len(), 2);
}

async fn a_search_is_narrowed_by_all_that_is_asked(store: &TestStore) {
    let mut one = lesson("one", "green tea");
    one.body.tags = vec!["a".into(), "b".into()];
    one.body.agent = Some("writer".into());
    store.teach(one, None).await;
    store.teach(Lesson { state: LessonState::Proposed, ..lesson("two", "green tea") }, None).await;
    store
        .teach(
            Lesson {
                state: LessonState::Retired,
                polarity: Polarity::Positive,
                ..lesson("three", "green tea")
            },
            None,
        )
        .await;
    let table: [(LessonQuery, &[&str]); 8] = [
        (LessonQuery::default(), &["one", "three", "two"]),
        (LessonQuery { states: vec![LessonState::Active], ..Default::default() }, &["one"]),
        (
            LessonQuery { states: vec![LessonState::Proposed, LessonState::Retired], ..Default::default() },
            &["three", "two"],
        ),
        (LessonQuery { polarity: Some(Polarity::Positive), ..Default::default() }, &["three"]),
        (LessonQuery { category: Some(LessonCategory::Error), ..Default::default() }, &[]),
        (LessonQuery { tags: vec!["b".into(), "a".into()], ..Default::default() }, &["one"]),
        (LessonQuery { agent: Some(Some("writer".into())), ..Default::default() }, &["one", "three", "two"]),
        (LessonQuery { agent: Some(None), ..Default::default() }, &["three", "two"]),
    ];
    for (query, expected) in table {
        for words in [Vec::new(), vec!["tea".to_owned()]] {
            let query = LessonQuery { words, limit: 100, ..query.clone() };
            let mut found = store.learned(query.clone()).await;
            found.sort();
            assert_eq!(found, expected, "{query:?}");
        }
    }
}

async fn lessons_are_listed_newest_first_in_pages_and_past_what_does_not_fit(store: &TestStore) {
    let mut expected = Vec::new();
    for n in 0..12 {
        let id = format!("l{n:02}");
        let state = if n % 2 == 0 { LessonState::Active } else { LessonState::Proposed };
        let mut one = Lesson { state, ..lesson(&id, "tea") };
        if n % 3 == 0 {
            one.body.tags = vec!["rare".into()];
            expected.insert(0, id);
        }
        store.teach(one, None).await;
    }
    let rare = LessonQuery { tags: vec!["rare".into()], limit: 3, ..LessonQuery::default() };
    let first = store.lessons(&store.tenant, rare.clone()).await.unwrap();
    let ids = |items: &[Lesson]| items.iter().map(|lesson| lesson.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&first.items), expected[..3]);
    let rest = store.lessons(&store.tenant, LessonQuery { after: first.next, ..rare }).await.unwrap();
    assert_eq!((ids(&rest.items), rest.next), (expected[3..].to_vec(), None));
    assert_eq!(store.learned(all()).await.len(), 12);
}

async fn what_came_up_often_is_listed_by_itself(store: &TestStore) {
    for n in 1..5 {
        store.teach(Lesson { occurrences: n, ..lesson(&format!("l{n}"), "tea") }, None).await;
    }
    for (least, expected) in [(0, 4), (1, 4), (2, 3), (3, 2), (5, 0)] {
        let query = LessonQuery { occurrences_min: least, ..all() };
        assert_eq!(store.learned(query).await.len(), expected, "{least}");
    }
}

fn count(ids: &[&str], count: EffectCounter) -> Record {
    Record::CountLessons { ids: ids.iter().map(|&id| id.to_owned()).collect(), count }
}

async fn what_a_lesson_has_done_is_counted_beside_its_version(store: &TestStore) {
    for id in ["a", "b"] {
        store.teach(lesson(id, "tea"), None).await;
    }
    store.record(count(&["b", "a", "never"], EffectCounter::Shown)).await;
    let first = store.known("a").await;
    assert_eq!((first.effect.shown, first.version), (1, 1));
    assert_eq!(first.effect.first_shown_at, first.effect.last_shown_at);
    store.clock.advance(DAY);
    store.record(count(&["a"], EffectCounter::Shown)).await;
    store.record(count(&["a"], EffectCounter::Negative)).await;
    store.record(count(&["a"], EffectCounter::Positive)).await;
    let second = store.known("a").await.effect;
    assert_eq!((second.shown, second.negative_since, second.positive_since), (2, 1, 1));
    assert_eq!(second.first_shown_at, first.effect.first_shown_at);
    assert!(second.last_shown_at > second.first_shown_at);
    store.teach(lesson("a", "coffee"), Some(1)).await;
    assert_eq!(store.known("a").await.effect, second, "writing it leaves what it has done");
    assert_eq!(store.known("b").await.effect.shown, 1);
}

async fn thumbs_count_only_after_it_was_shown(store: &TestStore) {
    store.teach(lesson("a", "tea"), None).await;
    store.record(count(&["a"], EffectCounter::Negative)).await;
    store.record(count(&["a"], EffectCounter::Positive)).await;
    assert_eq!(store.known("a").await.effect, EffectCounts::default());
}

async fn of_two_who_learn_the_same_at_once_one_writes(store: &TestStore) {
    let done =
        store.at_once(8, |store, _| async move { store.try_record(taught("l1", "tea", None)).await }).await;
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
    assert!(done.iter().all(|done| matches!(done, Ok(_) | Err(Refusal::Stale))));
    assert_eq!(store.learned(by("tea")).await, ["l1"]);
}

async fn lessons_of_two_tenants_never_meet(store: &TestStore) {
    let other = store.tenant_named("other").await;
    store.teach(lesson("l1", "green tea"), None).await;
    other.teach(lesson("l1", "black tea"), None).await;
    other.teach(lesson("l2", "green tea"), None).await;
    assert_eq!(store.learned(by("tea")).await, ["l1"]);
    assert_eq!(store.learned(all()).await, ["l1"]);
    assert_eq!(store.known("l1").await.body.text, "green tea");
    store.record(count(&["l1", "l2"], EffectCounter::Shown)).await;
    assert_eq!(other.known("l2").await.effect.shown, 0);
}

async fn what_a_merged_user_taught_follows_them(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for name in ["ann", "ben"] {
        store.record(Record::AddUser(crate::people::a_user(name))).await;
    }
    let of = |id: &str, authors: [&str; 2]| {
        let mut one = lesson(id, "ask ann, author of the tests");
        let first = one.body.sources[0].clone();
        let sources = authors.map(|author| LessonSource { author: Some(author.to_owned()), ..first.clone() });
        one.body.sources = sources.to_vec();
        one
    };
    for (id, authors) in [("hers", ["ann", "eve"]), ("both", ["ben", "ann"]), ("eves", ["eve", "annie"])] {
        store.teach(of(id, authors), None).await;
        other.teach(of(id, authors), None).await;
    }
    store.record(Record::MergeUser { from: user("ann"), into: user("ben") }).await;
    for (id, authors, version) in
        [("hers", ["ben", "eve"], 2), ("both", ["ben", "ben"], 2), ("eves", ["eve", "annie"], 1)]
    {
        assert_eq!(store.known(id).await, Lesson { version, ..of(id, authors) });
    }
    assert_eq!(store.learned(by("author")).await.len(), 3, "words stay as they were filed");
    assert_eq!(other.known("hers").await, of("hers", ["ann", "eve"]));
    // A caller that loaded it before loads it again.
    let late = Record::PutLesson { lesson: Box::new(of("hers", ["ann", "eve"])), expects: Some(1) };
    assert!(matches!(store.try_record(late).await, Err(Refusal::Stale)));
}

async fn nothing_in_words_is_an_operator_of_a_search(store: &TestStore) {
    store.teach(lesson("l1", "green tea"), None).await;
    for words in ["\"", "tea OR", "NOT tea", "tea*", "(tea", "tea'; DROP TABLE lessons", "%", "a:b"] {
        let found = store.learned(by(words)).await;
        assert_eq!(found.is_empty(), !words.contains("tea"), "{words}");
    }
}

async fn lessons_outlive_the_process(store: &TestStore) {
    store.teach(lesson("l1", "green tea"), None).await;
    store.record(count(&["l1"], EffectCounter::Shown)).await;
    let before = store.known("l1").await;
    let after = store.reopened().await;
    assert_eq!(after.known("l1").await, before);
    assert_eq!(after.learned(by("tea")).await, ["l1"]);
}

async fn a_copy_carries_lessons_and_goes_on_after_them(store: &TestStore) {
    store.teach(lesson("l1", "green tea"), None).await;
    store.teach(Lesson { state: LessonState::Retired, ..lesson("l2", "black tea") }, None).await;
    store.record(count(&["l1"], EffectCounter::Shown)).await;
    let Some(copy) = store.copied().await else { return };
    for id in ["l1", "l2"] {
        assert_eq!(copy.known(id).await, store.known(id).await);
    }
    assert_eq!(copy.learned(by("tea")).await.len(), 2);
    copy.teach(lesson("l3", "mint tea"), None).await;
    assert_eq!(copy.learned(all()).await, ["l3", "l2", "l1"]);
    copy.teach(lesson("l1", "coffee"), Some(1)).await;
    assert_eq!(copy.learned(by("green")).await, [""; 0], "what was copied is filed as it was");
    copy.remove().await;
}
