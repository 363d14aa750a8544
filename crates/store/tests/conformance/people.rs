//! People: users and their identities, keys, share links, and the trail of administration.

use std::time::Duration;

use sederunt_core::access::{ActingUser, ShareAccess};
use sederunt_core::definitions::{DefinitionDoc, DefinitionKind};
use sederunt_core::event::EventQuery;
use sederunt_core::people::{
    Audit, Identity, Key, SecretHash, Share, ShareCursor, ShareListQuery, SharedSession, User,
};
use sederunt_core::store::{Change, CommitResult, Record, Refusal, Update};
use sederunt_core::{Role, Timestamp};

use crate::builders::*;
use crate::definitions::a_doc;
use crate::stores::TestStore;

on_each_store! {
    a_user_reads_back_with_its_identities,
    users_are_listed_in_the_order_of_their_ids,
    a_user_is_changed_field_by_field,
    a_name_or_identity_that_is_taken_is_refused,
    an_unknown_user_takes_no_identity,
    a_merged_user_hands_over_identities_and_participations,
    a_key_is_found_by_its_hash_alone,
    a_user_who_leaves_a_session_is_remembered_until_they_are_back,
    a_key_shows_what_its_use_depends_on,
    a_share_link_is_found_by_its_hash_until_its_session_goes,
    a_link_to_a_view_alone_is_found_until_its_view_goes,
    a_link_reads_what_was_said_in_its_session_and_nothing_else,
    share_links_are_listed_newest_first_to_those_who_may_see_them,
    a_suspended_tenant_shows_in_its_share_links,
    the_audit_trail_is_newest_first,
}

pub fn a_user(name: &str) -> User {
    User {
        id: user(name),
        name: None,
        role: Role::Member,
        suspended: false,
        merged_into: None,
        known_by: None,
        told_at: None,
        created_at: Timestamp::default(),
        identities: Vec::new(),
    }
}

pub fn identity(platform: &str, external_id: &str) -> Identity {
    Identity { platform: platform.into(), external_id: external_id.into() }
}

pub fn a_key(store: &TestStore, name: &str) -> Key {
    Key {
        id: credential(name),
        tenant: store.tenant.clone(),
        user: None,
        role: Role::Worker,
        prefix: None,
        rules: Default::default(),
        act_as: false,
        created_at: Timestamp::default(),
        expires_at: None,
        revoked_at: None,
    }
}

pub fn a_share(store: &TestStore, name: &str, session: &str, expires_at: Timestamp) -> Share {
    Share {
        id: name.into(),
        tenant: store.tenant.clone(),
        session: Some(id(session)),
        access: ShareAccess::Submit,
        view: Some("a view's 'name'".into()),
        user: Some(sederunt_core::UserId::stored("ann")),
        created_by: Some(user("ann")),
        created_at: Timestamp::default(),
        expires_at,
        revoked_at: None,
        tenant_suspended: false,
    }
}

/// A link to a view that belongs to no session.
pub fn a_view_link(store: &TestStore, name: &str, view: &str, expires_at: Timestamp) -> Share {
    Share { session: None, view: Some(view.into()), user: None, ..a_share(store, name, "", expires_at) }
}

impl TestStore {
    pub async fn try_record(&self, record: Record) -> Result<CommitResult, Refusal> {
        self.commit(Change::new(self.tenant.clone()).record(record)).await
    }

    pub async fn record(&self, record: Record) {
        let outcome = self.try_record(record.clone()).await;
        assert_eq!(verdict(&outcome), "ok", "{record:?}: {outcome:?}");
    }

    pub async fn person(&self, name: &str) -> User {
        self.user(&self.tenant, &user(name)).await.unwrap().unwrap_or_else(|| panic!("there is no {name}"))
    }
}

async fn a_user_reads_back_with_its_identities(store: &TestStore) {
    let mut given = a_user("ann");
    given.name = Some("Ann 'A' Ünal".into());
    given.role = Role::Owner;
    given.identities = vec![identity("slack", "U1"), identity("telegram", "42")];
    store.record(Record::AddUser(given.clone())).await;
    store.record(Record::AddIdentity { user: user("ann"), identity: identity("discord", "7") }).await;
    given.identities.push(identity("discord", "7"));
    given.identities.sort();
    for found in [
        store.person("ann").await,
        store.user_by_identity(&store.tenant, &identity("telegram", "42")).await.unwrap().unwrap(),
        store.user_by_identity(&store.tenant, &identity("discord", "7")).await.unwrap().unwrap(),
        store.users(&store.tenant, None, 10).await.unwrap().remove(0),
    ] {
        let mut found = found;
        found.identities.sort();
        found.created_at = given.created_at;
        assert_eq!(found, given);
    }
    for unknown in [identity("telegram", "7"), identity("slack", "u1"), identity("discord", "42")] {
        assert_eq!(store.user_by_identity(&store.tenant, &unknown).await.unwrap(), None, "{unknown:?}");
    }
    assert_eq!(store.user(&store.tenant, &user("Ann")).await.unwrap(), None);
}

async fn users_are_listed_in_the_order_of_their_ids(store: &TestStore) {
    let mut ids = ["b", "a", "Z", "é", "a b", "ab", "B", "10", "9", "ä", "_", "z"];
    for name in ids {
        store.record(Record::AddUser(a_user(name))).await;
    }
    ids.sort_unstable();
    for limit in [1, 5, 12, 13] {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let page = store.users(&store.tenant, seen.last().map(String::as_str), limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            seen.extend(page.iter().map(|user| user.id.as_str().to_owned()));
        }
        assert_eq!(seen, ids, "{limit}");
    }
}

async fn a_user_is_changed_field_by_field(store: &TestStore) {
    store.record(Record::AddUser(a_user("ann"))).await;
    let mut expected = store.person("ann").await;
    let unchanged = || (None, None, None);
    type Case = ((Option<Role>, Option<String>, Option<bool>), fn(&mut User));
    let cases: Vec<Case> = vec![
        (unchanged(), |_| {}),
        ((Some(Role::Guest), None, None), |user| user.role = Role::Guest),
        ((None, Some("Ann".into()), None), |user| user.name = Some("Ann".into())),
        ((None, None, Some(true)), |user| user.suspended = true),
        ((None, None, Some(false)), |user| user.suspended = false),
        ((Some(Role::Owner), Some("A".into()), Some(true)), |user| {
            user.role = Role::Owner;
            user.name = Some("A".into());
            user.suspended = true;
        }),
    ];
    for ((role, name, suspended), change) in cases {
        change(&mut expected);
        store.record(Record::UpdateUser { id: user("ann"), role, name, suspended }).await;
        assert_eq!(store.person("ann").await, expected);
    }
}

async fn a_name_or_identity_that_is_taken_is_refused(store: &TestStore) {
    store.record(Record::AddUser(User { identities: vec![identity("slack", "U1")], ..a_user("ann") })).await;
    store.record(Record::AddUser(a_user("bob"))).await;
    let before = (store.person("ann").await, store.person("bob").await);
    let taken = [
        Record::AddUser(a_user("ann")),
        Record::AddUser(User { identities: vec![identity("slack", "U1")], ..a_user("cy") }),
        Record::AddIdentity { user: user("bob"), identity: identity("slack", "U1") },
    ];
    for record in taken {
        assert_eq!(verdict(&store.try_record(record.clone()).await), "already_exists", "{record:?}");
    }
    assert_eq!((store.person("ann").await, store.person("bob").await), before);
    assert_eq!(store.user(&store.tenant, &user("cy")).await.unwrap(), None);
    store.record(Record::AddIdentity { user: user("ann"), identity: identity("slack", "U1") }).await;
    assert_eq!(store.person("ann").await, before.0, "one's own identity is no conflict");

    // A refused record takes the rest of its change with it.
    store.open("s").await;
    let change = store
        .change(appending("s", messages(1)))
        .record(Record::AddIdentity { user: user("bob"), identity: identity("slack", "U1") });
    assert_eq!(verdict(&store.commit(change).await), "already_exists");
    assert!(store.log("s").await.is_empty());
    assert_eq!(store.get("s").await.head.last_sequence, 0);
    store.append("s", messages(1)).await;
    assert_eq!(sequences(&store.log("s").await), [1]);
}

async fn an_unknown_user_takes_no_identity(store: &TestStore) {
    store.record(Record::AddUser(a_user("known"))).await;
    let unknown = [
        Record::MergeUser { from: user("none"), into: user("known") },
        Record::MergeUser { from: user("known"), into: user("none") },
        Record::AddIdentity { user: user("none"), identity: identity("slack", "U1") },
        Record::UpdateUser { id: user("none"), role: Some(Role::Owner), name: None, suspended: None },
    ];
    for record in unknown {
        assert_eq!(verdict(&store.try_record(record.clone()).await), "not_found", "{record:?}");
    }
    assert_eq!(store.user_by_identity(&store.tenant, &identity("slack", "U1")).await.unwrap(), None);
    assert!(!store.person("known").await.suspended);
}

async fn a_merged_user_hands_over_identities_and_participations(store: &TestStore) {
    store.record(Record::AddUser(User { identities: vec![identity("slack", "U1")], ..a_user("old") })).await;
    store
        .record(Record::AddUser(User { identities: vec![identity("telegram", "1")], ..a_user("new") }))
        .await;
    store.record(Record::AddUser(a_user("other"))).await;
    let people = |names: &[&str]| names.iter().map(|&name| user(name)).collect::<Vec<_>>();
    for (name, participants) in
        [("old alone", people(&["old"])), ("both", people(&["new", "old"])), ("other", people(&["other"]))]
    {
        store.create(a_session(name, |new| new.participants = participants)).await;
    }
    store.record(Record::MergeUser { from: user("old"), into: user("new") }).await;

    let (old, new) = (store.person("old").await, store.person("new").await);
    assert!(old.suspended && old.merged_into == Some(user("new")) && old.identities.is_empty());
    assert!(!new.suspended && new.merged_into.is_none());
    assert_eq!(new.identities.len(), 2);
    let found = store.user_by_identity(&store.tenant, &identity("slack", "U1")).await.unwrap();
    assert_eq!(found.unwrap().id, user("new"));
    for (name, participants) in [("old alone", ["new"]), ("both", ["new"]), ("other", ["other"])] {
        assert_eq!(store.get(name).await.participants, people(&participants), "{name}");
    }
}

async fn a_user_who_leaves_a_session_is_remembered_until_they_are_back(store: &TestStore) {
    let people = |names: &[&str]| names.iter().map(|&name| user(name)).collect::<Vec<_>>();
    for name in ["old", "new"] {
        store.record(Record::AddUser(a_user(name))).await;
    }
    let takes_part = people(&["ann", "bob", "old"]);
    store.create(a_session("s", |new| new.participants = takes_part.clone())).await;
    store.create(a_session("other", |new| new.participants = takes_part.clone())).await;
    let departed =
        async |id: &str| store.departed(&store.tenant, &sederunt_core::SessionId::stored(id)).await.unwrap();
    let update = async |update: Update| {
        store.commit(store.change(updating("s", update))).await.unwrap();
    };
    for name in ["bob", "old"] {
        update(Update { leaves: Some(user(name)), ..Update::default() }).await;
    }
    assert_eq!(store.get("s").await.participants, people(&["ann"]));
    assert_eq!(departed("s").await, people(&["bob", "old"]));
    assert!(departed("other").await.is_empty() && departed("missing").await.is_empty());
    assert_eq!(store.get("other").await.participants, takes_part);
    // A user that is added, alone or in a list, has come back.
    update(Update { add_participant: Some(user("bob")), ..Update::default() }).await;
    assert_eq!(departed("s").await, people(&["old"]));
    update(Update { leaves: Some(user("bob")), ..Update::default() }).await;
    update(Update { participants: Some(people(&["ann", "bob"])), ..Update::default() }).await;
    assert_eq!(departed("s").await, people(&["old"]));
    // A merged user's departures follow them; those of a deleted session go with it.
    store.record(Record::MergeUser { from: user("old"), into: user("new") }).await;
    assert_eq!(departed("s").await, people(&["new"]));
    store.delete("s").await;
    store.open("s").await;
    assert!(departed("s").await.is_empty());
}

async fn a_key_is_found_by_its_hash_alone(store: &TestStore) {
    let now = store.now().await.unwrap();
    store.record(Record::AddUser(a_user("ann"))).await;
    let plain = a_key(store, "plain");
    let full = Key {
        user: Some(user("ann")),
        role: Role::Channel,
        prefix: Some("telegram:".into()),
        act_as: true,
        expires_at: Some(now.plus(DAY)),
        ..a_key(store, "full")
    };
    for key in [&plain, &full] {
        let hash = SecretHash::of(key.id.as_str());
        store.record(Record::AddKey { key: key.clone(), hash }).await;
    }
    for given in [&plain, &full] {
        let mut found = store.key_by_hash(SecretHash::of(given.id.as_str())).await.unwrap().unwrap();
        assert!(found.is_valid(now));
        assert!(!found.tenant_suspended && !found.user_refused);
        assert_eq!(found.user_role, given.user.as_ref().map(|_| Role::Member));
        assert_eq!(found.role(), given.role, "a user's row lowers no key of a worker or a channel");
        found.key.created_at = given.created_at;
        assert_eq!(found.key, *given);
    }
    assert_eq!(store.key_by_hash(SecretHash::of("other")).await.unwrap(), None);
    let mut listed: Vec<_> = store.keys(&store.tenant).await.unwrap().into_iter().map(|key| key.id).collect();
    listed.sort();
    assert_eq!(listed, [credential("full"), credential("plain")]);
}

async fn a_key_shows_what_its_use_depends_on(store: &TestStore) {
    let expires_at = Some(store.now().await.unwrap().plus(DAY));
    store.record(Record::AddUser(a_user("ann"))).await;
    let key = Key { user: Some(user("ann")), role: Role::Owner, expires_at, ..a_key(store, "key") };
    let hash = SecretHash::of("secret");
    store.record(Record::AddKey { key, hash }).await;
    let valid = async || {
        let found = store.key_by_hash(hash).await.unwrap().unwrap();
        found.is_valid(store.now().await.unwrap())
    };
    let suspend_user = |suspended| Record::UpdateUser {
        id: user("ann"),
        role: None,
        name: None,
        suspended: Some(suspended),
    };
    let audit = || Audit { actor: "operator".into(), action: "tenant.suspend", target: "acme".into() };

    assert!(valid().await);
    store.record(suspend_user(true)).await;
    assert!(!valid().await, "its user is suspended");
    store.record(suspend_user(false)).await;
    assert!(valid().await);
    let demotion =
        Record::UpdateUser { id: user("ann"), role: Some(Role::Guest), name: None, suspended: None };
    store.record(demotion).await;
    let demoted = store.key_by_hash(hash).await.unwrap().unwrap();
    assert_eq!((demoted.key.role, demoted.role()), (Role::Owner, Role::Guest), "its user was demoted");
    store.suspend_tenant(&store.tenant, true, audit()).await.unwrap();
    assert!(!valid().await, "its tenant is suspended");
    store.suspend_tenant(&store.tenant, false, audit()).await.unwrap();
    assert!(valid().await);
    store.clock.advance(DAY);
    assert!(!valid().await, "it has expired");

    let merged = Key { user: Some(user("old")), ..a_key(store, "merged") };
    store.record(Record::AddUser(a_user("old"))).await;
    store.record(Record::AddKey { key: merged, hash: SecretHash::of("merged") }).await;
    store.record(Record::MergeUser { from: user("old"), into: user("ann") }).await;
    let unsuspend = Record::UpdateUser { id: user("old"), role: None, name: None, suspended: Some(false) };
    store.record(unsuspend).await;
    let found = store.key_by_hash(SecretHash::of("merged")).await.unwrap().unwrap();
    assert!(!found.is_valid(store.now().await.unwrap()), "its user was merged into another");

    let hash = SecretHash::of("another");
    store.record(Record::AddKey { key: a_key(store, "another"), hash }).await;
    store.record(Record::RevokeKey { id: credential("another") }).await;
    let found = store.key_by_hash(hash).await.unwrap().unwrap();
    let now = store.now().await.unwrap();
    assert!(found.key.revoked_at.is_some_and(|at| at <= now));
    assert!(!found.is_valid(now), "it was revoked");
    assert!(store.keys(&store.tenant).await.unwrap().iter().any(|key| key.revoked_at.is_some()));
}

async fn a_share_link_is_found_by_its_hash_until_its_session_goes(store: &TestStore) {
    store.open("s").await;
    let now = store.now().await.unwrap();
    let given = a_share(store, "link", "s", now.plus(DAY));
    let hash = SecretHash::of("token");
    store.record(Record::AddShare { share: given.clone(), hash }).await;
    for found in [
        store.share_by_hash(hash).await.unwrap().unwrap(),
        store.share(&store.tenant, "link", &ActingUser::Owner).await.unwrap().unwrap(),
    ] {
        assert!(found.is_valid(now) && !found.is_valid(now.plus(DAY)));
        assert_eq!(Share { created_at: given.created_at, ..found }, given);
    }
    assert_eq!(store.share_by_hash(SecretHash::of("other")).await.unwrap(), None);
    assert_eq!(store.share(&store.tenant, "other", &ActingUser::Owner).await.unwrap(), None);

    let hash_of_second = SecretHash::of("second");
    let second = a_share(store, "second", "s", now.plus(DAY));
    store.record(Record::AddShare { share: second, hash: hash_of_second }).await;
    store.record(Record::RevokeShare { id: "link".into(), by: ActingUser::Owner }).await;
    let opens = async |hash| {
        let found = store.share_by_hash(hash).await.unwrap();
        found.is_some_and(|share| share.is_valid(now))
    };
    assert!(!opens(hash).await, "it was revoked");
    assert!(opens(hash_of_second).await);
    store.delete("s").await;
    store.open("s").await;
    assert!(!opens(hash_of_second).await, "it was made for a session that is gone");
}

async fn a_link_to_a_view_alone_is_found_until_its_view_goes(store: &TestStore) {
    let view = "a view's 'name'";
    let now = store.now().await.unwrap();
    let hash = SecretHash::of("token");
    let given = a_view_link(store, "link", view, now.plus(DAY));
    let refused = store.try_record(Record::AddShare { share: given.clone(), hash }).await;
    assert_eq!(verdict(&refused), "not_found", "there is no such view");
    store.open("s").await;
    for name in [view, "another"] {
        store.put(a_doc(DefinitionKind::View, name)).await;
    }
    store.record(Record::AddShare { share: given.clone(), hash }).await;
    let (of_another, of_session) = (SecretHash::of("another"), SecretHash::of("session"));
    let share = a_view_link(store, "another", "another", now.plus(DAY));
    store.record(Record::AddShare { share, hash: of_another }).await;
    let share = Share { view: Some(view.into()), ..a_share(store, "published", "s", now.plus(DAY)) };
    store.record(Record::AddShare { share, hash: of_session }).await;
    for found in [
        store.share_by_hash(hash).await.unwrap().unwrap(),
        store.share(&store.tenant, "link", &ActingUser::Owner).await.unwrap().unwrap(),
        store.share(&store.tenant, "link", &ActingUser::User(user("ann"))).await.unwrap().unwrap(),
    ] {
        assert!(found.is_valid(now) && !found.is_valid(now.plus(DAY)));
        assert_eq!(Share { created_at: given.created_at, ..found }, given);
    }
    store.record(Record::RevokeShare { id: "link".into(), by: ActingUser::User(user("ann")) }).await;
    assert!(!store.share_by_hash(hash).await.unwrap().unwrap().is_valid(now), "it was revoked");

    store.record(Record::DropDoc { kind: DefinitionKind::View, id: view.into() }).await;
    assert_eq!(store.share_by_hash(hash).await.unwrap(), None, "it was made for a view that is gone");
    assert!(store.share_by_hash(of_another).await.unwrap().is_some());
    assert!(store.share_by_hash(of_session).await.unwrap().is_some(), "it goes with its session");
    store.delete("s").await;
    assert_eq!(store.share_by_hash(of_session).await.unwrap(), None);
    assert!(store.share_by_hash(of_another).await.unwrap().is_some());
}

async fn a_link_reads_what_was_said_in_its_session_and_nothing_else(store: &TestStore) {
    store.create(a_session("s", |new| new.details.title = Some("Minutes".into()))).await;
    store.open("other").await;
    let mut said = message("hello");
    said.metadata = Some(json(r#"{"ip":"10.0.0.1"}"#));
    said.external_event_id = Some("e".into());
    let mut thought = message("hidden");
    thought.kind = sederunt_core::event::EventType::parse("agent.thinking").unwrap();
    store.append("s", vec![said, thought, message("again")]).await;
    let now = store.now().await.unwrap();
    let link =
        |name: &str, expires_at| Share { view: None, user: None, ..a_share(store, name, "s", expires_at) };
    let past = Timestamp::from_micros(1);
    store.put(a_doc(DefinitionKind::View, "form")).await;
    for share in [
        link("link", now.plus(DAY)),
        link("expired", past),
        link("revoked", now.plus(DAY)),
        a_share(store, "published", "s", now.plus(DAY)),
        a_view_link(store, "alone", "form", now.plus(DAY)),
    ] {
        let hash = SecretHash::of(&share.id);
        store.record(Record::AddShare { share, hash }).await;
    }
    store.record(Record::RevokeShare { id: "revoked".into(), by: ActingUser::Owner }).await;
    let tenant = &store.tenant;
    let hash = SecretHash::of("link");
    let shown = store.shared_session(tenant, hash, &id("s")).await.unwrap().unwrap();
    let whole = store.get("s").await;
    assert_eq!(shown, SharedSession::of(whole.clone()));
    assert_eq!((shown.title.as_deref(), shown.last_sequence), (Some("Minutes"), 3));
    for (newest_first, sequences) in [(false, [1, 3]), (true, [3, 1])] {
        let query = EventQuery { newest_first, ..EventQuery::default() };
        let page = store.shared_events(tenant, hash, &id("s"), query).await.unwrap();
        assert_eq!(page.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), sequences);
        assert_eq!((page.last_sequence, page.has_more), (3, false));
        for event in &page.events {
            assert_eq!((&event.metadata, &event.author, &event.external_event_id), (&None, &None, &None));
            assert!(event.content.is_some() && event.turn.is_none());
        }
    }
    let first = EventQuery { limit: 1, ..EventQuery::default() };
    let page = store.shared_events(tenant, hash, &id("s"), first).await.unwrap();
    assert_eq!((page.events.len(), page.next_after, page.has_more), (1, 1, true));
    for (token, session) in [
        ("link", "other"),
        ("link", "none"),
        ("expired", "s"),
        ("revoked", "s"),
        ("published", "s"),
        ("alone", "s"),
        ("unknown", "s"),
    ] {
        let (hash, session) = (SecretHash::of(token), id(session));
        assert_eq!(store.shared_session(tenant, hash, &session).await.unwrap(), None, "{token} {session}");
        let refused = store.shared_events(tenant, hash, &session, EventQuery::default()).await.unwrap_err();
        assert_eq!(refused.code(), "not_found", "{token} {session}");
    }
    let other = store.tenant_named("other").await;
    other.open("s").await;
    assert_eq!(other.shared_session(&other.tenant, hash, &id("s")).await.unwrap(), None);
}

async fn share_links_are_listed_newest_first_to_those_who_may_see_them(store: &TestStore) {
    let now = store.now().await.unwrap();
    let held = |name: &str, holder: &str| {
        let holder = Some(user(holder));
        a_session(name, move |new| new.head.holder = holder)
    };
    store.create(held("of ann", "ann")).await;
    store.create(held("of bob", "bob")).await;
    store.put(DefinitionDoc { created_by: Some(user("cid")), ..a_doc(DefinitionKind::View, "form") }).await;
    let share = |name: &str, session: &str, by: Option<&str>, minute: u64| Share {
        view: None,
        user: None,
        created_by: by.map(user),
        created_at: now.plus(Duration::from_secs(60 * minute)),
        ..a_share(store, name, session, now.plus(DAY))
    };
    let links = [
        share("b", "of ann", Some("bob"), 1),
        // Of one moment: the id decides.
        share("d", "of bob", Some("bob"), 2),
        share("c", "of bob", None, 2),
        Share { session: None, view: Some("form".into()), ..share("e", "", Some("ann"), 3) },
        // The link of a published view belongs to its session, also where the view's maker is another user.
        Share { view: Some("form".into()), ..share("a", "of ann", None, 4) },
    ];
    for share in &links {
        store.record(Record::AddShare { share: share.clone(), hash: SecretHash::of(&share.id) }).await;
    }
    store.record(Record::RevokeShare { id: "d".into(), by: ActingUser::Owner }).await;
    let query = |by: ActingUser| ShareListQuery { session: None, view: None, by, after: None, limit: 10 };
    let named = |name: &str| ActingUser::User(user(name));
    let of_bob = Some(id("of bob"));
    let view = Some("form".to_owned());
    for (asked, ids) in [
        (query(ActingUser::Owner), "a e d c b"),
        (query(named("ann")), "a e b"),
        (query(named("bob")), "d c b"),
        (query(named("cid")), "e"),
        (query(named("eve")), ""),
        (query(ActingUser::Nobody), ""),
        (ShareListQuery { session: of_bob.clone(), ..query(ActingUser::Owner) }, "d c"),
        (ShareListQuery { session: of_bob.clone(), ..query(named("ann")) }, ""),
        (ShareListQuery { session: Some(id("nothing")), ..query(ActingUser::Owner) }, ""),
        (ShareListQuery { view: view.clone(), ..query(ActingUser::Owner) }, "a e"),
        (ShareListQuery { view: view.clone(), ..query(named("cid")) }, "e"),
        (ShareListQuery { view, session: of_bob, ..query(ActingUser::Owner) }, ""),
    ] {
        let page = store.shares(&store.tenant, asked.clone()).await.unwrap();
        let found: Vec<&str> = page.items.iter().map(|share| share.id.as_str()).collect();
        assert_eq!((found.join(" ").as_str(), &page.next), (ids, &None), "{asked:?}");
    }
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = store
            .shares(&store.tenant, ShareListQuery { after, limit: 2, ..query(ActingUser::Owner) })
            .await
            .unwrap();
        assert!(page.items.len() <= 2);
        paged.extend(page.items);
        match page.next {
            Some(next) => after = ShareCursor::parse(&next.to_string()),
            None => break,
        }
    }
    let ids: Vec<&str> = paged.iter().map(|share| share.id.as_str()).collect();
    assert_eq!(ids, ["a", "e", "d", "c", "b"], "pages neither repeat nor skip a link");
    assert!(paged[2].revoked_at.is_some());
    for (found, given) in [(&paged[0], &links[4]), (&paged[1], &links[3]), (&paged[4], &links[0])] {
        assert_eq!(found, given);
    }
    let other = store.tenant_named("other").await;
    assert!(other.shares(&other.tenant, query(ActingUser::Owner)).await.unwrap().items.is_empty());
}

async fn a_suspended_tenant_shows_in_its_share_links(store: &TestStore) {
    store.open("s").await;
    let now = store.now().await.unwrap();
    let hash = SecretHash::of("token");
    store.record(Record::AddShare { share: a_share(store, "link", "s", now.plus(DAY)), hash }).await;
    let audit = || Audit { actor: "operator".into(), action: "tenant.suspend", target: "acme".into() };
    for suspended in [true, false] {
        store.suspend_tenant(&store.tenant, suspended, audit()).await.unwrap();
        assert_eq!(store.share_by_hash(hash).await.unwrap().unwrap().tenant_suspended, suspended);
    }
}

async fn the_audit_trail_is_newest_first(store: &TestStore) {
    store.open("s").await;
    let earlier = store.audit(&store.tenant, None, 100).await.unwrap().items;
    for n in 0..4 {
        let audit = Audit { actor: "ann".into(), action: "session.touched", target: format!("{n} 'é'") };
        let change = match n {
            0 => Change::new(store.tenant.clone()),
            1 => Change::new(store.tenant.clone()).record(Record::AddUser(a_user("bob"))),
            2 => store.change(appending("s", messages(1))),
            _ => store.change(updating("s", Update::default())),
        };
        store.commit(change.audited(audit)).await.unwrap();
        store.clock.advance(LEASE);
    }
    let page = store.audit(&store.tenant, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    let trail = page.items;
    let targets: Vec<_> = trail.iter().take(4).map(|line| line.target.as_str()).collect();
    assert_eq!(targets, ["3 'é'", "2 'é'", "1 'é'", "0 'é'"]);
    assert_eq!(trail.len(), earlier.len() + 4);
    assert_eq!((trail[0].actor.as_str(), trail[0].action.as_str()), ("ann", "session.touched"));
    assert!(trail.windows(2).all(|pair| pair[0].at >= pair[1].at));
    assert!(trail[0].at >= trail[3].at.plus(3 * LEASE));
    let (mut paged, mut after) = (Vec::new(), None);
    while paged.len() <= trail.len() {
        let page = store.audit(&store.tenant, after, 2).await.unwrap();
        paged.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(paged, trail, "pages neither repeat nor skip a line");
}
