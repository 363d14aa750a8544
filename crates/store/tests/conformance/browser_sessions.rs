//! Sign-ins from browsers: found by the hash of the cookie, with what their use depends on.

use sederunt_core::people::{BrowserSession, SecretHash, SignInProof};
use sederunt_core::store::{Change, Record, Refusal};
use sederunt_core::{Role, Timestamp};

use crate::builders::*;
use crate::people::{a_key, a_user};
use crate::stores::TestStore;

on_each_store! {
    a_browser_session_is_found_by_its_hash_alone,
    a_browser_session_shows_what_its_use_depends_on,
    browser_sessions_are_listed_by_user_or_else_by_key,
    a_used_browser_session_is_seen_later_and_never_earlier,
}

fn a_browser_session(
    store: &TestStore,
    id: &str,
    user_name: Option<&str>,
    proof: SignInProof,
) -> BrowserSession {
    BrowserSession {
        id: id.into(),
        tenant: store.tenant.clone(),
        proof,
        user: user_name.map(user),
        role: Role::Member,
        browser: Some("A browser".into()),
        created_at: Timestamp::from_micros(5),
        seen_at: Timestamp::from_micros(5),
        expires_at: Timestamp::from_micros(9),
    }
}

fn hash(name: &str) -> SecretHash {
    SecretHash::of(name)
}

async fn add(store: &TestStore, session: &BrowserSession) {
    store.record(Record::AddBrowserSession { session: session.clone(), hash: hash(&session.id) }).await;
}

async fn a_browser_session_is_found_by_its_hash_alone(store: &TestStore) {
    let made = a_browser_session(store, "b", Some("ann"), SignInProof::Token);
    add(store, &made).await;
    let found = store.browser_session_by_hash(hash("b")).await.unwrap().unwrap();
    assert_eq!((&found.session, found.has_key), (&made, None));
    assert_eq!(store.browser_session_by_hash(hash("c")).await.unwrap(), None);
    let again = Record::AddBrowserSession { session: made, hash: hash("other") };
    let refused = store.commit(Change::new(store.tenant.clone()).record(again)).await.unwrap_err();
    assert!(matches!(refused, Refusal::Rejected(error) if error.code() == "already_exists"));
    store.record(Record::DropBrowserSession { id: "b".into() }).await;
    assert_eq!(store.browser_session_by_hash(hash("b")).await.unwrap(), None);
    store.record(Record::DropBrowserSession { id: "b".into() }).await;
}

async fn a_browser_session_shows_what_its_use_depends_on(store: &TestStore) {
    let key = a_key(store, "k");
    store.record(Record::AddKey { key: key.clone(), hash: hash("key") }).await;
    store.record(Record::AddUser(a_user("ann"))).await;
    add(store, &a_browser_session(store, "b", Some("ann"), SignInProof::Key(key.id.clone()))).await;
    add(store, &a_browser_session(store, "lost", None, SignInProof::Key(credential("never made")))).await;
    let found = async |name: &str| store.browser_session_by_hash(hash(name)).await.unwrap().unwrap();
    let good = found("b").await;
    assert_eq!((good.has_key, good.user_role, good.user_refused), (Some(true), Some(Role::Member), false));
    assert_eq!(found("lost").await.has_key, Some(false));
    store.record(Record::RevokeKey { id: key.id }).await;
    let suspended = Some(true);
    store
        .record(Record::UpdateUser { id: user("ann"), role: Some(Role::Guest), name: None, suspended })
        .await;
    let refused = found("b").await;
    assert_eq!(
        (refused.has_key, refused.user_role, refused.user_refused),
        (Some(false), Some(Role::Guest), true)
    );
}

async fn browser_sessions_are_listed_by_user_or_else_by_key(store: &TestStore) {
    let proof = || SignInProof::Key(credential("k"));
    for (id, user_name) in [("a1", Some("ann")), ("a2", Some("ann")), ("b1", Some("bob")), ("n1", None)] {
        add(store, &a_browser_session(store, id, user_name, proof())).await;
    }
    let listed = async |user_name: Option<&str>, key: Option<&str>| -> Vec<String> {
        let (user_id, key) = (user_name.map(user), key.map(credential));
        let own = store.browser_sessions(&store.tenant, user_id.as_ref(), key.as_ref()).await.unwrap();
        own.into_iter().map(|session| session.id).collect()
    };
    assert_eq!(listed(Some("ann"), None).await, ["a2", "a1"]);
    assert_eq!(listed(None, Some("k")).await, ["n1", "b1", "a2", "a1"]);
    assert_eq!(listed(None, Some("other")).await, Vec::<String>::new());
    assert_eq!(listed(None, None).await, Vec::<String>::new());
}

async fn a_used_browser_session_is_seen_later_and_never_earlier(store: &TestStore) {
    let made = a_browser_session(store, "b", None, SignInProof::Token);
    add(store, &made).await;
    let seen = async || store.browser_session_by_hash(hash("b")).await.unwrap().unwrap().session.seen_at;
    store.record(Record::TouchBrowserSession { id: "b".into() }).await;
    let once = seen().await;
    assert!(once > made.seen_at);
    let ahead = BrowserSession {
        id: "ahead".into(),
        seen_at: once.plus(std::time::Duration::from_secs(3600)),
        ..made
    };
    add(store, &ahead).await;
    store.record(Record::TouchBrowserSession { id: "ahead".into() }).await;
    let kept = store.browser_session_by_hash(hash("ahead")).await.unwrap().unwrap();
    assert_eq!(kept.session.seen_at, ahead.seen_at);
    store.record(Record::TouchBrowserSession { id: "missing".into() }).await;
}
