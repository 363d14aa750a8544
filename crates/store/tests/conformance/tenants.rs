//! Tenants: their separation, and what a removal deletes.

use sederunt_core::access::ActingUser;
use sederunt_core::approval::ApprovalQuery;
use sederunt_core::definitions::{DefinitionKind, DocQuery};
use sederunt_core::event::{AppendOutcome, EventQuery};
use sederunt_core::people::{Audit, SecretHash, User};
use sederunt_core::session::query::SessionQuery;
use sederunt_core::store::{Guard, Record, RecordsKept, RecordsOf, Update, Write};
use sederunt_core::{Result, TenantId};

use crate::approvals::an_approval;
use crate::builders::*;
use crate::definitions::a_doc;
use crate::live::in_time;
use crate::people::{a_key, a_share, a_user, a_view_link, identity};
use crate::record_builders;
use crate::stores::TestStore;

on_each_store! {
    a_tenant_is_made_once_and_listed,
    a_tenant_is_suspended_and_comes_back,
    making_and_suspending_a_tenant_leaves_a_trail,
    the_same_names_in_two_tenants_never_meet,
    a_claim_takes_nothing_from_another_tenant,
    people_of_one_tenant_are_unknown_in_another,
    a_deleted_tenant_takes_everything_with_it,
    a_tenant_made_again_meets_nothing_of_its_past;
    durable: a_deleted_tenant_leaves_no_row_behind,
}

fn audit(action: &'static str) -> Audit {
    Audit { actor: "operator".into(), action, target: "tenant".into() }
}

async fn a_tenant_is_made_once_and_listed(store: &TestStore) {
    let beta = TenantId::stored("beta");
    assert_eq!(store.tenant(&beta).await.unwrap(), None);
    let made = store.create_tenant(&beta, audit("tenant.create")).await.unwrap();
    assert!(made.id == beta && !made.suspended);
    assert_eq!(store.tenant(&beta).await.unwrap(), Some(made.clone()));
    let twice = store.create_tenant(&beta, audit("tenant.create")).await;
    assert_eq!(twice.unwrap_err().code(), "already_exists");
    let listed = store.tenants().await.unwrap();
    assert_eq!(listed.iter().filter(|tenant| **tenant == made).count(), 1);
    assert!(listed.iter().any(|tenant| tenant.id == store.tenant));
}

async fn a_tenant_is_suspended_and_comes_back(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for suspended in [true, true, false, false] {
        let answer = store.suspend_tenant(&store.tenant, suspended, audit("tenant.suspend")).await.unwrap();
        assert_eq!(answer.suspended, suspended);
        assert_eq!(store.tenant(&store.tenant).await.unwrap(), Some(answer));
        assert!(!store.tenant(&other.tenant).await.unwrap().unwrap().suspended);
    }
    let missing = store.suspend_tenant(&TenantId::stored("none"), true, audit("tenant.suspend")).await;
    assert_eq!(missing.unwrap_err().code(), "not_found");
}

async fn making_and_suspending_a_tenant_leaves_a_trail(store: &TestStore) {
    let beta = TenantId::stored("beta");
    store.create_tenant(&beta, audit("tenant.create")).await.unwrap();
    store.clock.advance(LEASE);
    store.suspend_tenant(&beta, true, audit("tenant.suspend")).await.unwrap();
    let trail = store.audit(&beta, None, 10).await.unwrap().items;
    let actions: Vec<_> = trail.iter().map(|line| line.action.as_str()).collect();
    assert_eq!(actions, ["tenant.suspend", "tenant.create"]);
}

async fn the_same_names_in_two_tenants_never_meet(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for (tenant, word) in [(store, "mine"), (&other, "theirs")] {
        let mut part = creating(a_session("s", |new| {
            new.details.title = Some(word.into());
            new.details.metadata = json("{\"k\":\"v\"}");
            new.participants = vec![user(word)];
        }));
        let mut said = message(&format!("{word} banana"));
        said.external_event_id = Some("x".into());
        part.writes.push(Write::Append(vec![said.clone()]));
        let made = tenant.commit(tenant.change(part).keyed(Some(key(1, 1)))).await.unwrap();
        assert!(made.replay.is_none(), "a key of one tenant is none in another");
        assert!(matches!(made.parts[0].appended[0], AppendOutcome::New(_)));
        let appended = tenant.commit(tenant.change(appending("s", messages(1))).keyed(Some(key(2, 1)))).await;
        assert!(appended.unwrap().replay.is_none());
        tenant.update("s", Update { add_participant: Some(user("both")), ..Update::default() }).await;
    }
    other.append("s", messages(3)).await;
    let theirs = other.state("s").await;
    for (tenant, word, length) in [(store, "mine", 2), (&other, "theirs", 5)] {
        let (session, log) = tenant.state("s").await;
        assert_eq!(session.tenant, tenant.tenant);
        assert_eq!(session.details.title.as_deref(), Some(word));
        assert!(session.participants.contains(&user(word)) && session.participants.len() == 2);
        assert_eq!(sequences(&log), (1..=length).collect::<Vec<_>>());
        assert_eq!(log[0].text(), Some(format!("{word} banana")));
        for query in [
            everything(),
            SessionQuery { metadata: vec![("k".into(), "v".into())], ..everything() },
            SessionQuery { text: Some("banana".into()), ..everything() },
        ] {
            tenant.index_now().await.unwrap();
            let page = tenant.sessions(&tenant.tenant, query.clone()).await.unwrap();
            assert_eq!(page.items.len(), 1, "{query:?}");
            assert_eq!(page.items[0].tenant, tenant.tenant);
        }
        assert_eq!(tenant.found_said(words(&["banana"])).await, [("s".to_owned(), 1)]);
        let not_theirs = if word == "mine" { "theirs" } else { "mine" };
        assert!(tenant.found(words(&[not_theirs])).await.is_empty());
    }
    let foreign = Guard { incarnation: Some(theirs.0.head.incarnation), ..Guard::default() };
    assert_eq!(verdict(&store.append_under("s", foreign, messages(1)).await), "stale");
    store.delete("s").await;
    assert_eq!(other.state("s").await, theirs, "a deletion stays behind the wall");
}

async fn a_claim_takes_nothing_from_another_tenant(store: &TestStore) {
    let other = store.tenant_named("other").await;
    other.create(work("s")).await;
    assert!(store.claim(store.order("key", 10)).await.unwrap().is_empty());
    assert_eq!(other.claim_one("s", "key").await.session.tenant, other.tenant);
}

async fn people_of_one_tenant_are_unknown_in_another(store: &TestStore) {
    let other = store.tenant_named("other").await;
    let now = store.now().await.unwrap();
    for tenant in [store, &other] {
        let secret = |what: &str| SecretHash::of(&format!("{what} of {}", tenant.tenant));
        tenant
            .record(Record::AddUser(User { identities: vec![identity("slack", "U1")], ..a_user("ann") }))
            .await;
        tenant.record(Record::AddKey { key: a_key(tenant, "key"), hash: secret("key") }).await;
        tenant.open("s").await;
        let share = a_share(tenant, "link", "s", now.plus(DAY));
        tenant.record(Record::AddShare { share, hash: secret("link") }).await;
    }
    store
        .record(Record::UpdateUser {
            id: user("ann"),
            role: None,
            name: Some("A".into()),
            suspended: Some(true),
        })
        .await;
    store.record(Record::RevokeKey { id: credential("key") }).await;
    store.record(Record::RevokeShare { id: "link".into(), by: ActingUser::Owner }).await;

    assert!(!other.person("ann").await.suspended);
    let found = other.user_by_identity(&other.tenant, &identity("slack", "U1")).await.unwrap().unwrap();
    assert_eq!(found.name, None);
    let key = other.key_by_hash(SecretHash::of("key of other")).await.unwrap().unwrap();
    assert!(key.key.tenant == other.tenant && key.is_valid(now));
    let share = other.share_by_hash(SecretHash::of("link of other")).await.unwrap().unwrap();
    assert!(share.tenant == other.tenant && share.is_valid(now));
    for tenant in [store, &other] {
        assert_eq!(tenant.keys(&tenant.tenant).await.unwrap().len(), 1);
        assert_eq!(tenant.users(&tenant.tenant, None, 10).await.unwrap().len(), 1);
        let share = tenant.share(&tenant.tenant, "link", &ActingUser::Owner).await.unwrap().unwrap();
        assert_eq!(share.tenant, tenant.tenant);
    }
    other.record(Record::AddUser(a_user("only here"))).await;
    assert_eq!(store.user(&store.tenant, &user("only here")).await.unwrap(), None);
    let audits = |lines: Vec<sederunt_core::store::AuditLine>| lines.len();
    let before = audits(store.audit(&store.tenant, None, 100).await.unwrap().items);
    let noted = other.change(appending("s", messages(1))).audited(audit("other.only"));
    other.commit(noted).await.unwrap();
    assert_eq!(audits(store.audit(&store.tenant, None, 100).await.unwrap().items), before);
}

async fn fill(store: &TestStore) {
    let now = store.now().await.unwrap();
    store.create(a_session("s", |new| new.details.title = Some("aardvark".into()))).await;
    store.commit(store.change(appending("s", vec![message("zebra")])).keyed(Some(key(1, 1)))).await.unwrap();
    store.create(work("work")).await;
    store.record(Record::AddUser(User { identities: vec![identity("slack", "U1")], ..a_user("ann") })).await;
    store.record(Record::AddKey { key: a_key(store, "key"), hash: SecretHash::of("key") }).await;
    let share = a_share(store, "link", "s", now.plus(DAY));
    store.record(Record::AddShare { share, hash: SecretHash::of("link") }).await;
    store.record(Record::PutDoc { doc: Box::new(a_doc(DefinitionKind::View, "view")), expects: None }).await;
    let share = a_view_link(store, "view link", "view", now.plus(DAY));
    store.record(Record::AddShare { share, hash: SecretHash::of("view link") }).await;
    store.record(Record::PutDoc { doc: Box::new(a_doc(DefinitionKind::Task, "doc")), expects: None }).await;
    store.record(Record::AddApproval(Box::new(an_approval("asked", "s")))).await;
    store.write(on("s", Guard::default(), Write::Talk(Box::new(record_builders::seated())))).await;
    store.record(Record::PutMemory(Box::new(record_builders::fact("m", "ann", "zebra")))).await;
    store.record(Record::AddRating(Box::new(record_builders::rating(1, "a", "2026-01-01T00:00:00Z")))).await;
    store.record(Record::AddCrisis(Box::new(record_builders::crisis(1, "a", "2026-01-01T00:00:00Z")))).await;
    store.index_now().await.unwrap();
}

/// Checks that nothing of what [`fill`] made is there. A removed tenant may be refused as missing.
async fn is_empty(store: &TestStore) {
    fn none<T>(answer: Result<Vec<T>>) -> bool {
        match answer {
            Ok(items) => items.is_empty(),
            Err(error) => error.code() == "not_found",
        }
    }
    let tenant = &store.tenant;
    store.index_now().await.unwrap();
    assert!(none(store.session(tenant, &id("s")).await.map(Vec::from_iter)));
    let page = store.events(tenant, &id("s"), EventQuery::default()).await;
    assert_eq!(page.unwrap_err().code(), "not_found");
    assert!(none(store.sessions(tenant, everything()).await.map(|page| page.items)));
    assert!(none(store.search(tenant, words(&["zebra"])).await.map(|page| page.items)));
    assert!(none(store.search(tenant, words(&["aardvark"])).await.map(|page| page.items)));
    assert!(none(store.claim(store.order("key", 10)).await));
    assert!(none(store.keys(tenant).await));
    assert!(none(store.users(tenant, None, 10).await));
    let known = store.user_by_identity(tenant, &identity("slack", "U1")).await;
    assert!(none(known.map(Vec::from_iter)));
    assert!(none(store.share(tenant, "link", &ActingUser::Owner).await.map(Vec::from_iter)));
    assert!(none(store.doc(tenant, DefinitionKind::Task, "doc").await.map(Vec::from_iter)));
    let all = DocQuery {
        kind: DefinitionKind::Task,
        facets: Vec::new(),
        text: None,
        of_user: None,
        after: None,
        limit: 10,
    };
    assert!(none(store.docs(tenant, all).await.map(|page| page.items)));
    assert!(none(store.approval(tenant, "asked").await.map(Vec::from_iter)));
    let all = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
    assert!(none(store.approvals(tenant, all).await.map(|page| page.items)));
    assert!(none(store.talk(tenant, &id("s")).await.map(Vec::from_iter)));
    assert!(none(store.memory(tenant, "m").await.map(Vec::from_iter)));
    assert_eq!(store.records_kept(tenant, RecordsOf::Tenant).await.unwrap(), RecordsKept::default());
    assert!(none(store.recall(tenant, key(1, 1)).await.map(Vec::from_iter)));
    assert_eq!(store.key_by_hash(SecretHash::of("key")).await.unwrap(), None);
    for token in ["link", "view link"] {
        assert_eq!(store.share_by_hash(SecretHash::of(token)).await.unwrap(), None, "{token}");
    }
}

async fn a_deleted_tenant_takes_everything_with_it(store: &TestStore) {
    let beta = store.tenant_named("beta").await;
    fill(&beta).await;
    store.open("s").await;
    store.append("s", messages(2)).await;
    let mine = store.state("s").await;
    store.delete_tenant(&beta.tenant).await.unwrap();
    assert_eq!(store.tenant(&beta.tenant).await.unwrap(), None);
    assert!(store.tenants().await.unwrap().iter().all(|tenant| tenant.id != beta.tenant));
    is_empty(&beta).await;
    assert_eq!(store.state("s").await, mine);
    let silent = store.now().await.unwrap().plus(DAY);
    assert!(store.due(silent, 100).await.unwrap().iter().all(|due| due.tenant != beta.tenant));
}

async fn a_tenant_made_again_meets_nothing_of_its_past(store: &TestStore) {
    let beta = store.tenant_named("beta").await;
    fill(&beta).await;
    store.delete_tenant(&beta.tenant).await.unwrap();
    let beta = store.tenant_named("beta").await;
    is_empty(&beta).await;
    assert_eq!(beta.audit(&beta.tenant, None, 10).await.unwrap().items.len(), 1, "only its own making");
    beta.open("s").await;
    let done = beta.commit(beta.change(appending("s", vec![message("zebra")])).keyed(Some(key(1, 1)))).await;
    assert!(done.unwrap().replay.is_none());
    assert_eq!(beta.found_said(words(&["zebra"])).await, [("s".to_owned(), 1)]);
}

async fn a_deleted_tenant_leaves_no_row_behind(store: &TestStore) {
    let beta = store.tenant_named("beta").await;
    fill(&beta).await;
    store.delete_tenant(&beta.tenant).await.unwrap();
    // A store may delete the rows later, once no caller can reach them.
    in_time("the rows to go", async {
        while store.rows_kept().await.values().any(|&rows| rows > 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
