//! Feedback on the work of agents: stored, counted, changed under its version, found when its session is silent.

use std::time::Duration;

use sederunt_core::event::NewEvent;
use sederunt_core::feedback::capture::{FeedbackEvent, Signal};
use sederunt_core::feedback::session::{ClosingReason, FeedbackClosure, FeedbackSession, FeedbackState};
use sederunt_core::feedback::stats::{Failures, ThumbTotals};
use sederunt_core::store::{Change, FailureQuery, FeedbackQuery, Record, Refusal};
use sederunt_core::{Timestamp, UserId};

use crate::builders::*;
use crate::record_builders::{adding, at, failed, feedback, feedback_session, thumb};
use crate::stores::TestStore;

on_each_store! {
    a_thumb_is_kept_whole_and_once,
    thumbs_are_counted_by_window_tag_and_skill,
    a_session_is_written_under_the_version_that_was_looked_at,
    of_many_who_add_at_once_each_version_has_one,
    sessions_are_listed_newest_first_by_state_and_author,
    what_fell_silent_is_found_the_longest_silent_first_and_nothing_else,
    a_refused_change_leaves_neither_thumb_nor_session,
    feedback_of_two_tenants_never_meets,
    a_failure_lands_with_its_session_and_says_where_and_when,
    failures_are_counted_and_listed_by_themselves,
    a_refused_change_leaves_no_failure,
    feedback_follows_a_merged_user,
    a_removed_tenant_leaves_no_feedback;
    durable: feedback_outlives_the_process,
    a_copy_carries_feedback_and_goes_on_after_it,
}

impl TestStore {
    pub async fn thumbs(&self, author: Option<&str>) -> Vec<String> {
        let author = author.map(UserId::stored);
        let newest = self.newest_feedback(&self.tenant, author.as_ref(), 100).await.unwrap();
        newest.into_iter().map(|event| event.id).collect()
    }

    pub async fn added_to(&self, id: &str) -> Option<FeedbackSession> {
        self.feedback_session(&self.tenant, id).await.unwrap()
    }

    async fn sessions_of(&self, query: FeedbackQuery) -> (Vec<String>, Option<i64>) {
        let page = self.feedback_sessions(&self.tenant, query).await.unwrap();
        (page.items.into_iter().map(|session| session.id).collect(), page.next)
    }
}

fn put(session: FeedbackSession, expects: Option<u64>) -> Record {
    Record::PutFeedbackSession { session: Box::new(session), expects }
}

fn closed(session: &FeedbackSession) -> FeedbackSession {
    let over = FeedbackClosure {
        at: session.expires_at,
        reason: ClosingReason::Silence,
        complaints: Vec::new(),
        lesson: None,
    };
    session.closed(over)
}

const ALL: FeedbackQuery = FeedbackQuery { state: None, author: None, after: None, limit: 100 };

async fn a_thumb_is_kept_whole_and_once(store: &TestStore) {
    store.record(thumb("fb_1")).await;
    let kept = store.feedback(&store.tenant, "fb_1").await.unwrap();
    assert_eq!(kept, Some(feedback("fb_1")));
    assert_eq!(store.feedback(&store.tenant, "fb_2").await.unwrap(), None);
    let again = store.try_record(thumb("fb_1")).await.unwrap_err();
    assert!(matches!(again, Refusal::Rejected(error) if error.code() == "already_exists"));
    assert_eq!(store.thumbs(None).await, ["fb_1"]);
}

async fn thumbs_are_counted_by_window_tag_and_skill(store: &TestStore) {
    let now = at("2026-11-16T08:00:00Z");
    let days_ago = |days: u64| now.minus(Duration::from_secs(days * 24 * 3600));
    let given =
        [(0, Signal::Up, "ann"), (7, Signal::Down, "ann"), (8, Signal::Up, "ben"), (31, Signal::Down, "ben")];
    for (n, (days, signal, author)) in given.into_iter().enumerate() {
        let mut event = FeedbackEvent {
            at: days_ago(days),
            signal,
            author: Some(UserId::stored(author)),
            ..feedback(&format!("fb_{n}"))
        };
        if n == 0 {
            event.body.tags = vec!["tone".into(), "git".into()];
            event.body.skill = None;
        }
        store.record(Record::AddFeedback(Box::new(event))).await;
    }
    let counts = |up, down| ThumbTotals { up, down };
    let all = store.feedback_tally(&store.tenant, None, now).await.unwrap();
    assert_eq!((all.lifetime, all.days_30, all.days_7), (counts(2, 2), counts(2, 1), counts(1, 1)));
    assert_eq!(all.tags, [("tone".to_owned(), counts(2, 2)), ("git".to_owned(), counts(1, 0))]);
    assert_eq!(all.skills, [("writing".to_owned(), counts(1, 2))]);
    let ann = store.feedback_tally(&store.tenant, Some(&user("ann")), now).await.unwrap();
    assert_eq!((ann.lifetime, ann.skills), (counts(1, 1), vec![("writing".to_owned(), counts(0, 1))]));
    assert_eq!(store.thumbs(None).await, ["fb_0", "fb_1", "fb_2", "fb_3"], "by when they were given");
    assert_eq!(store.thumbs(Some("ben")).await, ["fb_3", "fb_2"]);
}

async fn a_session_is_written_under_the_version_that_was_looked_at(store: &TestStore) {
    store.record(adding("fbs_1", "fb_1", None)).await;
    assert_eq!(store.added_to("fbs_1").await, Some(feedback_session("fbs_1", "fb_1")));
    let mut longer = feedback_session("fbs_1", "fb_1");
    longer.body.messages.push(longer.body.messages[0].clone());
    longer.expires_at = at("2026-11-16T08:02:00Z");
    store.record(put(longer.clone(), Some(1))).await;
    let now = FeedbackSession { version: 2, ..longer.clone() };
    assert_eq!(store.added_to("fbs_1").await, Some(now.clone()));
    for stale in [put(longer.clone(), Some(1)), put(longer.clone(), None), put(longer, Some(3))] {
        assert!(matches!(store.try_record(stale).await, Err(Refusal::Stale)));
    }
    assert!(matches!(store.try_record(adding("fbs_2", "fb_1", Some(1))).await, Err(Refusal::Stale)));
    assert_eq!(store.added_to("fbs_1").await, Some(now));
    assert_eq!(store.added_to("fbs_2").await, None);
}

async fn of_many_who_add_at_once_each_version_has_one(store: &TestStore) {
    store.record(adding("fbs_1", "fb_1", None)).await;
    let done = store
        .at_once(
            16,
            |store, _| async move { store.try_record(adding("fbs_1", "fb_1", Some(1))).await.is_ok() },
        )
        .await;
    let won = done.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
    assert_eq!(store.added_to("fbs_1").await.unwrap().version, 2);
}

async fn sessions_are_listed_newest_first_by_state_and_author(store: &TestStore) {
    for (n, author) in ["ann", "ben", "ann", "ann"].into_iter().enumerate() {
        let id = format!("fbs_{n}");
        let session = FeedbackSession { author: Some(user(author)), ..feedback_session(&id, "fb_1") };
        store.record(put(session.clone(), None)).await;
        if n == 2 {
            store.record(put(closed(&session), Some(1))).await;
        }
    }
    let open = Some(FeedbackState::Open);
    let of = |author: &str| FeedbackQuery { author: Some(user(author)), ..ALL };
    assert_eq!(store.sessions_of(ALL).await.0, ["fbs_3", "fbs_2", "fbs_1", "fbs_0"]);
    assert_eq!(store.sessions_of(FeedbackQuery { state: open, ..ALL }).await.0, ["fbs_3", "fbs_1", "fbs_0"]);
    assert_eq!(store.sessions_of(of("ann")).await.0, ["fbs_3", "fbs_2", "fbs_0"]);
    assert_eq!(store.sessions_of(FeedbackQuery { state: open, ..of("ann") }).await.0, ["fbs_3", "fbs_0"]);
    let (first, next) = store.sessions_of(FeedbackQuery { limit: 3, ..ALL }).await;
    assert_eq!(first.len(), 3);
    let (rest, end) = store.sessions_of(FeedbackQuery { after: next, limit: 3, ..ALL }).await;
    assert_eq!((rest, end), (vec!["fbs_0".to_owned()], None));
}

async fn what_fell_silent_is_found_the_longest_silent_first_and_nothing_else(store: &TestStore) {
    let other = store.tenant_named("other").await;
    let over_at = |id: &str, second: u32| FeedbackSession {
        expires_at: at(&format!("2026-11-16T08:00:{second:02}Z")),
        ..feedback_session(id, "fb_1")
    };
    store.record(put(over_at("fbs_late", 30), None)).await;
    store.record(put(over_at("fbs_first", 10), None)).await;
    other.record(put(over_at("fbs_other", 20), None)).await;
    store.record(put(over_at("fbs_ahead", 31), None)).await;
    store.record(put(over_at("fbs_done", 5), None)).await;
    store.record(put(closed(&over_at("fbs_done", 5)), Some(1))).await;
    let silent = async |limit| {
        let due = store.silent_feedback(at("2026-11-16T08:00:30Z"), limit).await.unwrap();
        due.into_iter().map(|due| (due.tenant, due.id)).collect::<Vec<_>>()
    };
    let named = |store: &TestStore, id: &str| (store.tenant.clone(), id.to_owned());
    let expected = [named(store, "fbs_first"), named(&other, "fbs_other"), named(store, "fbs_late")];
    assert_eq!(silent(10).await, expected);
    assert_eq!(silent(2).await, expected[..2]);
}

async fn a_refused_change_leaves_neither_thumb_nor_session(store: &TestStore) {
    store.record(adding("fbs_1", "fb_0", None)).await;
    let change =
        Change::new(store.tenant.clone()).record(thumb("fb_1")).record(adding("fbs_1", "fb_1", None));
    assert!(matches!(store.commit(change).await, Err(Refusal::Stale)));
    assert_eq!(store.thumbs(None).await, [""; 0]);
    let tally = store.feedback_tally(&store.tenant, None, Timestamp::from_micros(0)).await.unwrap();
    assert_eq!((tally.lifetime.total(), tally.tags.len()), (0, 0));
}

/// A change that appends to a session and records a failure.
fn failing(store: &TestStore, event: FeedbackEvent, events: Vec<NewEvent>) -> Change {
    let part = appending(event.session.as_ref().unwrap().as_str(), events);
    store.change(part).record(Record::AddFeedback(Box::new(event)))
}

impl TestStore {
    /// Lets a session fail.
    async fn fails(&self, id: &str, session: &str, task: &str, code: &str) {
        self.commit(failing(self, failed(id, session, task, code), vec![event("session.error")]))
            .await
            .unwrap();
    }

    async fn failed_of(&self, query: FailureQuery) -> (Vec<String>, Option<i64>) {
        let page = self.failures(&self.tenant, query).await.unwrap();
        (page.items.into_iter().map(|event| event.id).collect(), page.next)
    }
}

fn any_failure() -> FailureQuery {
    FailureQuery { limit: 100, ..FailureQuery::default() }
}

async fn a_failure_lands_with_its_session_and_says_where_and_when(store: &TestStore) {
    for name in ["s", "other"] {
        store.create(work(name)).await;
    }
    store.append("s", vec![event("session.error"), message("hello")]).await;
    let mut change = failing(
        store,
        failed("fb_1", "s", "t", "denied"),
        vec![message("a"), event("session.error"), message("b")],
    );
    // Other parts of the same change append too.
    change.parts.insert(0, appending("other", vec![event("session.error")]));
    let done = store.commit(change).await.unwrap();
    let log = store.log("s").await;
    let said = log.iter().rfind(|event| event.kind.as_str() == "session.error").unwrap().sequence;
    let kept = store.feedback(&store.tenant, "fb_1").await.unwrap().unwrap();
    assert_eq!((&kept.body.sequences[..], kept.at), (&[said][..], done.at));
    let mut expected = failed("fb_1", "s", "t", "denied");
    expected.at = done.at;
    expected.body.sequences = vec![said];
    assert_eq!(kept, expected);
}

async fn failures_are_counted_and_listed_by_themselves(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for name in ["a", "b", "c"] {
        store.create(work(name)).await;
    }
    other.create(work("a")).await;
    store.record(thumb("fb_0")).await;
    store.fails("fb_1", "a", "t1", "denied").await;
    store.fails("fb_2", "b", "t1", "lease_lost").await;
    store.fails("fb_3", "c", "t2", "denied").await;
    other.fails("fb_9", "a", "t1", "denied").await;
    assert_eq!(store.thumbs(None).await, ["fb_0"], "nobody's opinion");
    let now = store.now().await.unwrap();
    let tally = store.feedback_tally(&store.tenant, None, now).await.unwrap();
    assert_eq!(tally.lifetime, ThumbTotals { up: 0, down: 1 });
    let codes = vec![("denied".to_owned(), 2), ("lease_lost".to_owned(), 1)];
    assert_eq!(tally.failures, Failures { lifetime: 3, days_7: 3, days_30: 3, codes });
    let days = |days: u64| now.plus(Duration::from_secs(days * 24 * 3600));
    for (later, in_30, in_7) in [(days(8), 3, 0), (days(31), 0, 0)] {
        let tally = store.feedback_tally(&store.tenant, None, later).await.unwrap();
        assert_eq!(
            (tally.failures.lifetime, tally.failures.days_30, tally.failures.days_7),
            (3, in_30, in_7)
        );
    }
    let mine = store.feedback_tally(&store.tenant, Some(&user("ann")), now).await.unwrap();
    assert_eq!((mine.lifetime.total(), mine.failures), (1, Failures::default()));
    let of_task = FailureQuery { task_id: Some("t1".to_owned()), ..any_failure() };
    let of_session = FailureQuery { session: Some(id("c")), ..any_failure() };
    let of_both = FailureQuery { session: Some(id("c")), ..of_task.clone() };
    assert_eq!(store.failed_of(of_task).await.0, ["fb_2", "fb_1"]);
    assert_eq!(store.failed_of(of_session).await.0, ["fb_3"]);
    assert_eq!(store.failed_of(of_both).await.0, [""; 0]);
    let (first, next) = store.failed_of(FailureQuery { limit: 2, ..any_failure() }).await;
    assert_eq!(first, ["fb_3", "fb_2"]);
    let rest = FailureQuery { after: next, limit: 2, ..any_failure() };
    assert_eq!(store.failed_of(rest).await, (vec!["fb_1".to_owned()], None));
    assert_eq!(other.failed_of(any_failure()).await.0, ["fb_9"]);
}

async fn a_refused_change_leaves_no_failure(store: &TestStore) {
    store.create(work("s")).await;
    store.fails("fb_1", "s", "t", "denied").await;
    let before = store.state("s").await;
    let again = failing(store, failed("fb_1", "s", "t", "denied"), vec![event("session.error")]);
    let refused = store.commit(again).await.unwrap_err();
    assert!(matches!(refused, Refusal::Rejected(error) if error.code() == "already_exists"));
    let mut moved = failing(store, failed("fb_2", "s", "t", "denied"), vec![event("session.error")]);
    moved.parts[0].guard.version = Some(99);
    assert!(matches!(store.commit(moved).await, Err(Refusal::Stale)));
    assert_eq!(store.failed_of(any_failure()).await.0, ["fb_1"]);
    assert_eq!(store.state("s").await, before, "a failure is told once");
}

async fn feedback_of_two_tenants_never_meets(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for side in [store, &other] {
        side.record(thumb("fb_1")).await;
        side.record(adding("fbs_1", "fb_1", None)).await;
    }
    other.record(adding("fbs_2", "fb_1", None)).await;
    assert_eq!(store.sessions_of(ALL).await.0, ["fbs_1"]);
    assert_eq!(store.added_to("fbs_2").await, None);
    assert_eq!(store.thumbs(None).await.len(), 1);
    store.record(put(closed(&feedback_session("fbs_1", "fb_1")), Some(1))).await;
    assert!(other.added_to("fbs_1").await.unwrap().is_open());
}

async fn feedback_follows_a_merged_user(store: &TestStore) {
    for name in ["ann", "ben"] {
        store.record(Record::AddUser(crate::people::a_user(name))).await;
    }
    store.record(thumb("fb_1")).await;
    store.record(adding("fbs_1", "fb_1", None)).await;
    store.record(Record::MergeUser { from: user("ann"), into: user("ben") }).await;
    assert_eq!((store.thumbs(Some("ann")).await.len(), store.thumbs(Some("ben")).await.len()), (0, 1));
    let of_ben = FeedbackQuery { author: Some(user("ben")), ..ALL };
    assert_eq!(store.sessions_of(of_ben).await.0, ["fbs_1"]);
    let tally =
        store.feedback_tally(&store.tenant, Some(&user("ben")), Timestamp::from_micros(0)).await.unwrap();
    assert_eq!((tally.lifetime.total(), tally.skills.len()), (1, 1));
    // A caller that draws a lesson from her feedback loads it again, and finds that it is his.
    let late = put(closed(&feedback_session("fbs_1", "fb_1")), Some(1));
    assert!(matches!(store.try_record(late).await, Err(Refusal::Stale)));
    assert_eq!(store.added_to("fbs_1").await.unwrap().version, 2);
    assert_eq!(store.feedback(&store.tenant, "fb_1").await.unwrap().unwrap().author, Some(user("ben")));
}

async fn a_removed_tenant_leaves_no_feedback(store: &TestStore) {
    let other = store.tenant_named("other").await;
    other.record(thumb("fb_1")).await;
    other.record(adding("fbs_1", "fb_1", None)).await;
    other.record(crate::record_builders::taught("lesson_1", "Keep answers short", None)).await;
    store.delete_tenant(&other.tenant).await.unwrap();
    let again = store.tenant_named("other").await;
    assert_eq!(again.thumbs(None).await, [""; 0]);
    assert_eq!(again.added_to("fbs_1").await, None);
    assert_eq!(again.lesson(&again.tenant, "lesson_1").await.unwrap(), None);
    let silent = store.silent_feedback(at("2030-01-01T00:00:00Z"), 10).await.unwrap();
    assert_eq!(silent, []);
}

async fn feedback_outlives_the_process(store: &TestStore) {
    store.record(thumb("fb_1")).await;
    store.record(adding("fbs_1", "fb_1", None)).await;
    let after = store.reopened().await;
    assert_eq!(after.feedback(&after.tenant, "fb_1").await.unwrap(), Some(feedback("fb_1")));
    assert_eq!(after.added_to("fbs_1").await, Some(feedback_session("fbs_1", "fb_1")));
    assert_eq!(after.silent_feedback(at("2030-01-01T00:00:00Z"), 10).await.unwrap().len(), 1);
}

async fn a_copy_carries_feedback_and_goes_on_after_it(store: &TestStore) {
    store.record(thumb("fb_1")).await;
    store.record(adding("fbs_1", "fb_1", None)).await;
    store.create(work("s")).await;
    store.fails("fb_f", "s", "t", "denied").await;
    let Some(copy) = store.copied().await else { return };
    assert_eq!(copy.feedback(&copy.tenant, "fb_1").await.unwrap(), Some(feedback("fb_1")));
    let of_task = FailureQuery { task_id: Some("t".to_owned()), ..any_failure() };
    assert_eq!(copy.failed_of(of_task).await.0, ["fb_f"]);
    assert_eq!(copy.thumbs(None).await, ["fb_1"]);
    copy.record(thumb("fb_2")).await;
    copy.record(adding("fbs_2", "fb_2", None)).await;
    assert_eq!(copy.sessions_of(ALL).await.0, ["fbs_2", "fbs_1"]);
    copy.remove().await;
}
