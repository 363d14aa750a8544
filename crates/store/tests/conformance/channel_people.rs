//! People who come through channels: guests, how an owner knows them, the rules of channels' keys, and link codes.

use std::time::Duration;

use sederunt_core::access::Role;
use sederunt_core::people::{Key, KnownBy, LinkCode, SecretHash, User};
use sederunt_core::store::{Change, Record, Refusal};
use sederunt_core::talk::route::{ChannelRules, ThreadRule, Who};

use crate::builders::*;
use crate::people::{a_key, a_user, identity};
use crate::stores::TestStore;

on_each_store! {
    an_account_is_a_guest_once_and_the_second_decision_is_stale,
    it_is_kept_how_an_owner_knows_a_person_and_when_a_stranger_was_told,
    the_rules_of_a_channel_are_kept_with_its_key,
    a_link_code_is_found_by_its_hash_replaced_by_the_next_and_used_once,
}

fn a_guest(name: &str, account: &str) -> Box<User> {
    let identities = vec![identity("telegram", account)];
    Box::new(User { role: Role::Guest, known_by: None, identities, ..a_user(name) })
}

async fn an_account_is_a_guest_once_and_the_second_decision_is_stale(store: &TestStore) {
    store.record(Record::AddGuest(a_guest("g1", "42"))).await;
    let again = Change::new(store.tenant.clone()).record(Record::AddGuest(a_guest("g2", "42")));
    let refused = store.commit(again).await.unwrap_err();
    assert!(matches!(refused, Refusal::Stale), "{refused:?}");
    let found = store.user_by_identity(&store.tenant, &identity("telegram", "42")).await.unwrap().unwrap();
    assert_eq!((found.id, found.role, found.known_by), (user("g1"), Role::Guest, None));
    assert!(store.user(&store.tenant, &user("g2")).await.unwrap().is_none());
}

async fn it_is_kept_how_an_owner_knows_a_person_and_when_a_stranger_was_told(store: &TestStore) {
    store.record(Record::AddUser(User { known_by: Some(KnownBy::Made), ..a_user("ann") })).await;
    store.record(Record::AddGuest(a_guest("gus", "7"))).await;
    let found = async |name: &str| store.user(&store.tenant, &user(name)).await.unwrap().unwrap();
    assert_eq!((found("ann").await.known_by, found("gus").await.told_at), (Some(KnownBy::Made), None));
    for known_by in KnownBy::ALL {
        store.record(Record::KnowUser { id: user("gus"), known_by }).await;
        assert_eq!(found("gus").await.known_by, Some(known_by));
    }
    let before = store.now().await.unwrap();
    store.record(Record::NoteStrangerTold { id: user("gus") }).await;
    assert!(found("gus").await.told_at.unwrap() >= before);
    store.record(Record::NoteStrangerTold { id: user("nobody") }).await;
    let unknown = Record::KnowUser { id: user("nobody"), known_by: KnownBy::Made };
    let refused = store.commit(Change::new(store.tenant.clone()).record(unknown)).await.unwrap_err();
    assert!(matches!(refused, Refusal::Rejected(error) if error.code() == "not_found"));
}

async fn the_rules_of_a_channel_are_kept_with_its_key(store: &TestStore) {
    for who in Who::ALL {
        for threads in ThreadRule::ALL {
            let name = format!("{}-{}", who.as_str(), threads.as_str());
            let rules = ChannelRules { who, threads };
            let hash = SecretHash::of(&format!("{} {name}", store.tenant));
            let key = Key { role: Role::Channel, prefix: Some("x:".into()), rules, ..a_key(store, &name) };
            store.record(Record::AddKey { key, hash }).await;
            assert_eq!(store.key_by_hash(hash).await.unwrap().unwrap().key.rules, rules);
        }
    }
}

async fn a_link_code_is_found_by_its_hash_replaced_by_the_next_and_used_once(store: &TestStore) {
    let now = store.now().await.unwrap();
    let code = |account: &str, life: u64| LinkCode {
        identity: identity("telegram", account),
        name: Some("Ann".into()),
        expires_at: now.plus(Duration::from_secs(life)),
    };
    let put = async |hash: &str, code: LinkCode| {
        store.record(Record::PutLinkCode { code: Box::new(code), hash: hash.into() }).await;
    };
    let found = async |hash: &str| store.link_code(&store.tenant, hash).await.unwrap();
    put("old", code("1", 0)).await;
    put("first", code("42", 600)).await;
    assert_eq!(found("old").await, None, "what has expired goes with the next code");
    assert_eq!(found("first").await, Some(code("42", 600)));
    put("second", code("42", 600)).await;
    assert_eq!((found("first").await, found("second").await), (None, Some(code("42", 600))));
    let using = || Change::new(store.tenant.clone()).record(Record::UseLinkCode { hash: "second".into() });
    let (a, b) = tokio::join!(store.commit(using()), store.commit(using()));
    assert_eq!(usize::from(a.is_ok()) + usize::from(b.is_ok()), 1, "{a:?} {b:?}");
    assert_eq!(found("second").await, None);
}
