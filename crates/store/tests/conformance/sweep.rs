//! What the sweeper gets: lapsed leases, passed deadlines, silent sessions; of all tenants.

use sederunt_core::limits;
use sederunt_core::session::{Status, StatusSet};
use sederunt_core::store::{ClaimChange, Update};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    a_lapsed_lease_is_due_until_it_is_renewed_or_released,
    a_passed_deadline_is_due_until_it_is_moved,
    silence_is_due_until_the_session_speaks_or_is_hidden,
    the_sweeper_sees_all_tenants,
    no_more_are_due_than_were_asked_for,
}

/// The due sessions of this test's tenant when only what lies before the beginning counts as silence.
async fn due(store: &TestStore) -> Vec<String> {
    let long_ago = sederunt_core::Timestamp::from_micros(0);
    let due = store.due(long_ago, 100).await.unwrap();
    due.into_iter()
        .filter(|due| due.tenant == store.tenant)
        .map(|due| due.session.as_str().to_owned())
        .collect()
}

async fn silent(store: &TestStore) -> Vec<String> {
    let since = store.now().await.unwrap().minus(limits::INACTIVE_AFTER);
    let due = store.due(since, 100).await.unwrap();
    let mut names: Vec<_> = due.into_iter().map(|due| due.session.as_str().to_owned()).collect();
    names.sort_unstable();
    names
}

async fn a_lapsed_lease_is_due_until_it_is_renewed_or_released(store: &TestStore) {
    store.create(work("s")).await;
    store.claim_one("s", "key").await;
    store.open("unclaimed").await;
    assert_eq!(due(store).await, [""; 0]);
    store.clock.advance(LEASE);
    assert_eq!(due(store).await, ["s"]);
    store.update("s", Update { claim: Some(ClaimChange::Renew(LEASE)), ..Update::default() }).await;
    assert_eq!(due(store).await, [""; 0]);
    store.clock.advance(LEASE);
    assert_eq!(due(store).await, ["s"]);
    let requeue =
        Update { status: Some(Status::Pending), claim: Some(ClaimChange::Release), ..Update::default() };
    store.update("s", requeue).await;
    assert_eq!(due(store).await, [""; 0]);
}

async fn a_passed_deadline_is_due_until_it_is_moved(store: &TestStore) {
    store.open("s").await;
    store.open("without").await;
    store.update("s", Update { deadline: Some(Some(DAY)), ..Update::default() }).await;
    assert_eq!(due(store).await, [""; 0]);
    store.clock.advance(DAY);
    assert_eq!(due(store).await, ["s"]);
    store.update("s", Update { deadline: Some(Some(LEASE)), ..Update::default() }).await;
    assert_eq!(due(store).await, [""; 0]);
    store.clock.advance(LEASE);
    assert_eq!(due(store).await, ["s"]);
    store.update("s", Update { deadline: Some(None), ..Update::default() }).await;
    assert_eq!(due(store).await, [""; 0]);
}

async fn silence_is_due_until_the_session_speaks_or_is_hidden(store: &TestStore) {
    store.open("silent").await;
    store.open("speaking").await;
    store.open("hidden").await;
    store.update("hidden", Update { inactive: Some(true), ..Update::default() }).await;
    for status in StatusSet::LIVE.iter() {
        store.create(a_session(status.as_str(), |new| new.head.status = status)).await;
    }
    store.create(a_session("ended", |new| new.head.status = Status::Completed)).await;
    assert_eq!(silent(store).await, [""; 0]);
    store.clock.advance(limits::INACTIVE_AFTER + DAY);
    store.append("speaking", messages(1)).await;
    assert_eq!(silent(store).await, ["ended", "silent"]);
    for name in ["silent", "ended"] {
        store.update(name, Update { inactive: Some(true), ..Update::default() }).await;
    }
    assert_eq!(silent(store).await, [""; 0]);
}

async fn the_sweeper_sees_all_tenants(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for tenant in [store, &other] {
        tenant.create(work("s")).await;
        tenant.claim_one("s", "key").await;
    }
    store.clock.advance(LEASE);
    let long_ago = sederunt_core::Timestamp::from_micros(0);
    let mut tenants: Vec<_> =
        store.due(long_ago, 100).await.unwrap().into_iter().map(|due| due.tenant).collect();
    tenants.sort();
    assert_eq!(tenants, [store.tenant.clone(), other.tenant]);
}

async fn no_more_are_due_than_were_asked_for(store: &TestStore) {
    for n in 0..5 {
        store.open(&format!("s{n}")).await;
        store.update(&format!("s{n}"), Update { deadline: Some(Some(LEASE)), ..Update::default() }).await;
    }
    store.clock.advance(LEASE);
    let long_ago = sederunt_core::Timestamp::from_micros(0);
    for (limit, expected) in [(1, 1), (3, 3), (5, 5), (9, 5)] {
        assert_eq!(store.due(long_ago, limit).await.unwrap().len(), expected);
    }
}
