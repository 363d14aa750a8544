//! Ratings and crises, which hold no word of the conversation: how they are stored, and for how long.

use std::time::Duration;

use sederunt_core::Timestamp;
use sederunt_core::feedback::{Label, Rating, RatingCounts, retention_cutoff};
use sederunt_core::safety::codes::HoldReason;
use sederunt_core::safety::opaque::OpaqueId;
use sederunt_core::safety::record::CrisisRecord;
use sederunt_core::store::{Record, RecordsKept, RecordsOf};

use crate::builders::*;
use crate::record_builders::{at, crisis, rating};
use crate::stores::TestStore;

on_each_store! {
    ratings_are_listed_by_session_in_the_order_of_their_coming,
    a_record_whose_id_is_there_stays_as_it_was,
    records_are_counted_by_tenant_and_by_session,
    ratings_are_counted_by_label_for_a_tenant_a_user_and_a_session,
    records_are_counted_by_the_user_that_they_name,
    crises_are_listed_by_time,
    a_purge_takes_whole_days_and_leaves_the_day_itself,
    a_held_crisis_outlives_the_purge_until_its_day,
    a_hold_is_never_shortened_and_needs_a_crisis,
    records_of_two_tenants_are_purged_together_and_never_meet,
    a_deleted_session_leaves_its_records;
    durable: records_outlive_the_process,
    a_copy_carries_ratings_and_crises_and_goes_on_after_them,
}

const ON: &str = "2026-11-16T08:00:00.000001Z";

impl TestStore {
    async fn rate(&self, rating: Rating) {
        self.record(Record::AddRating(Box::new(rating))).await;
    }

    async fn note(&self, crisis: CrisisRecord) {
        self.record(Record::AddCrisis(Box::new(crisis))).await;
    }

    async fn hold(&self, n: u128, until: Timestamp, reason: HoldReason) -> &'static str {
        let id = uuid::Uuid::from_u128(n).to_string().into();
        let change = sederunt_core::store::Change::new(self.tenant.clone());
        verdict(&self.commit(change.record(Record::HoldCrisis { id, until, reason })).await)
    }

    async fn rated(&self, opaque: &str) -> Vec<u128> {
        let ratings = self.store.ratings(&self.tenant, opaque).await.unwrap();
        ratings.iter().map(|rating| rating.id.as_u128()).collect()
    }

    async fn noted(&self) -> Vec<u128> {
        let all = (Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX));
        let crises = self.store.crises(&self.tenant, all.0, all.1, 100).await.unwrap();
        crises.iter().map(|crisis| crisis.id.as_u128()).collect()
    }

    async fn kept(&self, opaque: Option<&str>) -> (u64, u64) {
        let of = opaque.map_or(RecordsOf::Tenant, |opaque| RecordsOf::Session(OpaqueId::stored(opaque)));
        self.kept_of(of).await
    }

    async fn kept_of(&self, of: RecordsOf) -> (u64, u64) {
        let RecordsKept { ratings, crises } = self.records_kept(&self.tenant, of).await.unwrap();
        (ratings, crises)
    }
}

async fn ratings_are_listed_by_session_in_the_order_of_their_coming(store: &TestStore) {
    let later = Rating { label: Label::Skip, user_id_or_null: None, ..rating(2, "a", ON) };
    store.rate(later.clone()).await;
    store.rate(rating(1, "a", "2026-01-01T00:00:00Z")).await;
    store.rate(rating(3, "b", ON)).await;
    let listed = store.ratings(&store.tenant, "a").await.unwrap();
    assert_eq!(listed, [later, rating(1, "a", "2026-01-01T00:00:00Z")]);
    assert_eq!(store.rated("b").await, [3]);
    assert!(store.rated("c").await.is_empty());
}

async fn ratings_are_counted_by_label_for_a_tenant_a_user_and_a_session(store: &TestStore) {
    let given = [
        (1, "a", Label::Positive, Some("ann")),
        (2, "a", Label::Negative, None),
        (3, "b", Label::Positive, Some("ann")),
        (4, "b", Label::Skip, Some("bob")),
    ];
    for (n, opaque, label, by) in given {
        store.rate(Rating { label, user_id_or_null: by.map(user), ..rating(n, opaque, ON) }).await;
    }
    let counts = |positive, negative, skip| RatingCounts { positive, negative, skip };
    for (of, expected) in [
        (RecordsOf::Tenant, counts(2, 1, 1)),
        (RecordsOf::Session(OpaqueId::stored("a")), counts(1, 1, 0)),
        (RecordsOf::Session(OpaqueId::stored("c")), counts(0, 0, 0)),
        (RecordsOf::User(user("ann")), counts(2, 0, 0)),
        (RecordsOf::User(user("cyd")), counts(0, 0, 0)),
    ] {
        let counted = store.rating_counts(&store.tenant, of.clone()).await.unwrap();
        assert_eq!(counted, expected, "{of:?}");
    }
}

async fn a_record_whose_id_is_there_stays_as_it_was(store: &TestStore) {
    store.rate(rating(1, "a", ON)).await;
    store.rate(Rating { label: Label::Negative, ..rating(1, "a", ON) }).await;
    assert_eq!(store.ratings(&store.tenant, "a").await.unwrap(), [rating(1, "a", ON)]);
    store.note(crisis(1, "a", ON)).await;
    store.note(CrisisRecord { resource_count: 7, ..crisis(1, "a", ON) }).await;
    let all = store.crises(&store.tenant, at(ON), at("2027-01-01T00:00:00Z"), 10).await.unwrap();
    assert_eq!(all, [crisis(1, "a", ON)]);
}

async fn records_are_counted_by_tenant_and_by_session(store: &TestStore) {
    assert_eq!(store.kept(None).await, (0, 0));
    for n in 1..=3 {
        store.rate(rating(n, if n == 1 { "a" } else { "b" }, ON)).await;
        store.note(crisis(n, "b", ON)).await;
    }
    assert_eq!(store.kept(None).await, (3, 3));
    assert_eq!(store.kept(Some("a")).await, (1, 0));
    assert_eq!(store.kept(Some("b")).await, (2, 3));
    assert_eq!(store.kept(Some("c")).await, (0, 0));
}

async fn records_are_counted_by_the_user_that_they_name(store: &TestStore) {
    for (n, name) in [(1, Some("bob")), (2, Some("ann")), (3, Some("ann")), (4, None)] {
        store.rate(Rating { user_id_or_null: name.map(user), ..rating(n, "a", ON) }).await;
        if n != 2 {
            store.note(CrisisRecord { user_id_or_null: name.map(user), ..crisis(n, "a", ON) }).await;
        }
    }
    for (name, counts) in [("ann", (2, 1)), ("bob", (1, 1)), ("nobody-at-all", (0, 0))] {
        assert_eq!(store.kept_of(RecordsOf::User(user(name))).await, counts, "{name}");
    }
}

async fn crises_are_listed_by_time(store: &TestStore) {
    for (n, on) in [(1, "2026-11-03T00:00:00Z"), (2, "2026-11-01T00:00:00Z"), (3, "2026-11-02T00:00:00Z")] {
        store.note(crisis(n, "a", on)).await;
    }
    assert_eq!(store.noted().await, [2, 3, 1]);
    let between = async |from: &str, to: &str, limit| {
        let crises = store.crises(&store.tenant, at(from), at(to), limit).await.unwrap();
        crises.iter().map(|crisis| crisis.id.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(between("2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z", 10).await, [2, 3]);
    assert_eq!(between("2026-11-01T00:00:00.000001Z", "2026-11-03T00:00:00.000001Z", 10).await, [3, 1]);
    assert_eq!(between("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", 1).await, [2]);
}

async fn a_purge_takes_whole_days_and_leaves_the_day_itself(store: &TestStore) {
    let days = [
        (1, "2026-05-19T00:00:00Z"),
        (2, "2026-05-19T23:59:59.999999Z"),
        (3, "2026-05-20T00:00:00Z"),
        (4, "2026-05-20T23:00:00Z"),
        (5, "2026-11-16T00:00:00Z"),
    ];
    for (n, on) in days {
        store.rate(rating(n, "a", on)).await;
        store.note(crisis(n, "a", on)).await;
    }
    let now = at("2026-11-16T08:00:00Z");
    let cutoff = retention_cutoff(now, 180 * DAY);
    // Any instant of the day says the same.
    for before in [cutoff, cutoff.plus(Duration::from_secs(3_600))] {
        let found = store.purgeable(before, before, now).await.unwrap();
        let expected = if before == cutoff { (2, 2) } else { (0, 0) };
        assert_eq!((found.ratings, found.crises), expected, "a preview counts what the purge takes");
        let gone =
            (store.purge_ratings(before).await.unwrap(), store.purge_crises(before, now).await.unwrap());
        assert_eq!(gone, if before == cutoff { (2, 2) } else { (0, 0) });
        assert_eq!(store.rated("a").await, [3, 4, 5]);
        assert_eq!(store.noted().await, [3, 4, 5]);
    }
    assert_eq!(store.purge_ratings(cutoff.plus(DAY)).await.unwrap(), 2);
    assert_eq!((store.rated("a").await, store.noted().await), (vec![5], vec![3, 4, 5]), "each its own");
    assert_eq!(store.kept(None).await, (1, 3));
    store.rate(rating(1, "a", ON)).await;
    assert_eq!(store.rated("a").await, [5, 1]);
}

async fn a_held_crisis_outlives_the_purge_until_its_day(store: &TestStore) {
    let now = at("2026-11-16T08:00:00Z");
    for n in [1, 2] {
        store.note(crisis(n, "a", "2026-01-01T00:00:00Z")).await;
    }
    let until = now.plus(10 * DAY);
    assert_eq!(store.hold(1, until, HoldReason::LegalHold).await, "ok");
    assert_eq!(store.purgeable(now, now, now).await.unwrap().crises, 1, "what is held is not counted");
    assert_eq!(store.purge_crises(now, now).await.unwrap(), 1);
    assert_eq!(store.noted().await, [1]);
    let all = store.crises(&store.tenant, Timestamp::from_micros(0), now, 10).await.unwrap();
    let mut expected = crisis(1, "a", "2026-01-01T00:00:00Z");
    expected.extend(until, HoldReason::LegalHold);
    assert_eq!(all, [expected]);
    let before_its_day = until.minus(Duration::from_micros(1));
    assert_eq!(store.purge_crises(before_its_day, before_its_day).await.unwrap(), 0);
    assert_eq!(store.purge_crises(until, until).await.unwrap(), 1);
    assert_eq!(store.noted().await, [0u128; 0]);
}

async fn a_hold_is_never_shortened_and_needs_a_crisis(store: &TestStore) {
    let now = at("2026-11-16T08:00:00Z");
    store.note(crisis(1, "a", "2026-01-01T00:00:00Z")).await;
    assert_eq!(store.hold(2, now, HoldReason::Audit).await, "not_found");
    let other = store.tenant_named("other").await;
    assert_eq!(other.hold(1, now, HoldReason::Audit).await, "not_found");
    assert_eq!(store.hold(1, now.plus(10 * DAY), HoldReason::LegalHold).await, "ok");
    assert_eq!(store.hold(1, now.plus(DAY), HoldReason::Audit).await, "ok");
    let held = store.crises(&store.tenant, Timestamp::from_micros(0), now, 10).await.unwrap().remove(0);
    assert_eq!(held.retention_extended_until, Some(now.plus(10 * DAY)));
    assert_eq!(held.retention_extended_reason_code, Some(HoldReason::LegalHold));
    assert_eq!(store.purge_crises(now, now.plus(5 * DAY)).await.unwrap(), 0);
}

async fn records_of_two_tenants_are_purged_together_and_never_meet(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for tenant in [store, &other] {
        tenant.rate(rating(1, "a", "2026-01-01T00:00:00Z")).await;
        tenant.rate(rating(2, "a", ON)).await;
        tenant.note(crisis(1, "a", "2026-01-01T00:00:00Z")).await;
    }
    other.rate(rating(3, "a", ON)).await;
    assert_eq!((store.rated("a").await, other.rated("a").await), (vec![1, 2], vec![1, 2, 3]));
    assert_eq!(store.kept(Some("a")).await, (2, 1));
    let before = at("2026-06-01T00:00:00Z");
    assert_eq!(store.purge_ratings(before).await.unwrap(), 2);
    assert_eq!(store.purge_crises(before, before).await.unwrap(), 2);
    assert_eq!((store.rated("a").await, other.rated("a").await), (vec![2], vec![2, 3]));
    store.delete_tenant(&other.tenant).await.unwrap();
    assert_eq!(store.rated("a").await, [2]);
    assert_eq!(other.kept(None).await, (0, 0));
}

async fn a_deleted_session_leaves_its_records(store: &TestStore) {
    store.open("s").await;
    store.rate(rating(1, "a", ON)).await;
    store.note(crisis(1, "a", ON)).await;
    store.delete("s").await;
    assert_eq!(store.kept(Some("a")).await, (1, 1));
}

async fn records_outlive_the_process(store: &TestStore) {
    store.rate(rating(1, "a", ON)).await;
    store.note(crisis(1, "a", ON)).await;
    let after = store.reopened().await;
    assert_eq!((after.rated("a").await, after.noted().await), (vec![1], vec![1]));
    after.close().await;
}

async fn a_copy_carries_ratings_and_crises_and_goes_on_after_them(store: &TestStore) {
    store.rate(rating(2, "a", ON)).await;
    store.rate(rating(1, "a", ON)).await;
    store.note(crisis(1, "a", "2026-01-01T00:00:00Z")).await;
    store.hold(1, at("2027-01-01T00:00:00Z"), HoldReason::Complaint).await;
    let Some(copy) = store.copied().await else { return };
    let ratings = async |store: &TestStore| store.ratings(&store.tenant, "a").await.unwrap();
    assert_eq!(ratings(&copy).await, ratings(store).await);
    let all = async |store: &TestStore| {
        store.crises(&store.tenant, at("2026-01-01T00:00:00Z"), at(ON), 10).await.unwrap()
    };
    assert_eq!(all(&copy).await, all(store).await);
    let later = at("2026-12-01T00:00:00Z");
    assert_eq!(copy.purge_crises(later, later).await.unwrap(), 0, "it is held there too");
    copy.rate(rating(3, "a", ON)).await;
    assert_eq!(copy.rated("a").await, [2, 1, 3]);
    copy.remove().await;
}
