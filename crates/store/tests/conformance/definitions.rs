//! Documents: what people define, found by id, slug and facets.

use sederunt_core::definitions::{
    DefinitionDoc, DefinitionKind, DocQuery, DocTitle, Entity, StoredDefinition, Task,
};
use sederunt_core::store::{Change, CommitResult, Guard, Record, Refusal, Write};
use sederunt_core::{TenantId, Timestamp};

use crate::builders::*;
use crate::people::a_user;
use crate::stores::TestStore;

on_each_store! {
    a_document_reads_back_as_it_was_given,
    a_definition_keeps_its_facets,
    a_document_is_found_by_its_id_before_any_slug,
    an_update_keeps_the_time_of_the_making_and_replaces_the_rest,
    a_version_that_was_not_expected_is_stale,
    a_taken_slug_is_refused_and_leaves_nothing_behind,
    a_slug_that_was_given_up_can_be_taken,
    documents_of_one_change_see_each_other,
    a_refused_document_leaves_the_session_unwritten_and_the_other_way_round,
    documents_are_listed_newest_first_and_page_by_page,
    lists_show_what_has_every_facet_that_is_asked_for,
    a_person_sees_what_it_made_and_what_it_is_assigned_to,
    documents_are_found_by_the_words_of_their_titles_and_names,
    words_are_found_page_by_page_far_down_a_list,
    a_narrow_facet_is_found_among_many_wide_ones,
    of_many_writers_with_the_same_version_one_wins,
    of_many_makers_of_the_same_id_one_wins,
    documents_of_one_tenant_are_nothing_in_another,
    titles_of_entities_and_tasks_are_read_together_and_of_this_tenant_alone,
    a_merged_user_hands_over_documents,
    a_dropped_document_is_gone_with_its_facets_and_its_name_is_free;
    durable: a_copy_carries_documents_and_goes_on_after_them,
}

pub fn a_doc(kind: DefinitionKind, name: &str) -> DefinitionDoc {
    DefinitionDoc {
        kind,
        id: name.into(),
        slug: None,
        body: json(r#"{"name":"x"}"#),
        facets: Vec::new(),
        version: 0,
        created_by: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}

fn faceted(name: &str, facets: &[(&'static str, &str)]) -> DefinitionDoc {
    let facets = facets.iter().map(|&(key, value)| (key, value.into())).collect();
    DefinitionDoc { facets, ..a_doc(DefinitionKind::Task, name) }
}

fn all(kind: DefinitionKind) -> DocQuery {
    DocQuery { kind, facets: Vec::new(), text: None, of_user: None, after: None, limit: 100 }
}

fn with(facets: &[(&'static str, &str)]) -> DocQuery {
    let facets = facets.iter().map(|&(key, value)| (key, value.to_owned())).collect();
    DocQuery { facets, ..all(DefinitionKind::Task) }
}

impl TestStore {
    async fn try_put(&self, doc: DefinitionDoc, expects: Option<u64>) -> Result<CommitResult, Refusal> {
        self.try_record(Record::PutDoc { doc: Box::new(doc), expects }).await
    }

    pub async fn put(&self, doc: DefinitionDoc) -> Timestamp {
        self.try_put(doc, None).await.unwrap().at
    }

    async fn named(&self, kind: DefinitionKind, name: &str) -> Option<DefinitionDoc> {
        self.doc(&self.tenant, kind, name).await.unwrap()
    }

    async fn doc_ids(&self, query: DocQuery) -> Vec<String> {
        let page = self.docs(&self.tenant, query).await.unwrap();
        page.items.into_iter().map(|doc| doc.id.into()).collect()
    }
}

async fn a_document_reads_back_as_it_was_given(store: &TestStore) {
    let mut given = DefinitionDoc {
        slug: Some("tägliche 'Übersicht'".into()),
        body: json(r#"{"b":1.50,"a":[1e2,18446744073709551615],"é'\"%_":"😀\n\\"}"#),
        facets: vec![
            ("agent_slug", "a 'b'".into()),
            ("created_by", "ann".into()),
            ("status", "active".into()),
        ],
        created_by: Some(user("ann")),
        ..a_doc(DefinitionKind::Task, "Düsseldorf")
    };
    let at = store.put(given.clone()).await;
    (given.version, given.created_at, given.updated_at) = (1, at, at);
    for name in ["Düsseldorf", "tägliche 'Übersicht'"] {
        assert_eq!(store.named(DefinitionKind::Task, name).await, Some(given.clone()), "{name}");
    }
    assert_eq!(store.docs(&store.tenant, all(DefinitionKind::Task)).await.unwrap().items, [given.clone()]);
    for kind in
        [DefinitionKind::Agent, DefinitionKind::Entity, DefinitionKind::CriteriaSet, DefinitionKind::View]
    {
        assert_eq!(store.named(kind, "Düsseldorf").await, None);
        let plain = a_doc(kind, "Düsseldorf");
        let at = store.put(plain.clone()).await;
        let plain = DefinitionDoc { version: 1, created_at: at, updated_at: at, ..plain };
        assert_eq!(store.named(kind, "Düsseldorf").await, Some(plain));
    }
    for unknown in ["düsseldorf", "Düsseldor_", "", "tägliche 'übersicht'"] {
        assert_eq!(store.named(DefinitionKind::Task, unknown).await, None, "{unknown}");
    }
    assert_eq!(store.named(DefinitionKind::Task, "Düsseldorf").await, Some(given));
}

async fn a_dropped_document_is_gone_with_its_facets_and_its_name_is_free(store: &TestStore) {
    let of_session = |name: &str| faceted(name, &[("session_id", "s")]);
    for name in ["a", "b"] {
        store.put(of_session(name)).await;
        store.put(a_doc(DefinitionKind::View, name)).await;
    }
    let drop = |name: &str| Record::DropDoc { kind: DefinitionKind::Task, id: name.into() };
    store.record(drop("a")).await;
    store.record(drop("never there")).await;
    assert_eq!(store.named(DefinitionKind::Task, "a").await, None);
    assert!(store.named(DefinitionKind::View, "a").await.is_some(), "another kind keeps its own");
    assert_eq!(store.doc_ids(with(&[("session_id", "s")])).await, ["b"]);
    store.put(of_session("a")).await;
    assert_eq!(store.named(DefinitionKind::Task, "a").await.unwrap().version, 1);
}

async fn a_definition_keeps_its_facets(store: &TestStore) {
    let task: Task = json(
        r#"{"slug":"weekly","name":"Weekly","agent_slug":"writer","assigned_to":"bob","entity_id":"e1"}"#,
    )
    .read()
    .unwrap();
    let entity: Entity = json(r#"{"type_slug":"customer","title":"Acme","fields":{}}"#).read().unwrap();
    let unset = Timestamp::default();
    let task = StoredDefinition {
        id: "t1".into(),
        value: task,
        version: 0,
        created_by: Some(user("ann")),
        created_at: unset,
        updated_at: unset,
    };
    let entity = StoredDefinition {
        id: "e1".into(),
        value: entity,
        version: 0,
        created_by: None,
        created_at: unset,
        updated_at: unset,
    };
    for mut doc in [task.to_doc().unwrap(), entity.to_doc().unwrap()] {
        store.put(doc.clone()).await;
        doc.facets.sort_unstable();
        assert_eq!(store.named(doc.kind, &doc.id).await.unwrap().facets, doc.facets);
    }
}

async fn a_document_is_found_by_its_id_before_any_slug(store: &TestStore) {
    store.put(DefinitionDoc { slug: Some("b".into()), ..a_doc(DefinitionKind::Task, "a") }).await;
    store.put(DefinitionDoc { slug: Some("a".into()), ..a_doc(DefinitionKind::Task, "b") }).await;
    store.put(DefinitionDoc { slug: Some("d".into()), ..a_doc(DefinitionKind::Task, "c") }).await;
    for (name, found) in [("a", "a"), ("b", "b"), ("c", "c"), ("d", "c")] {
        assert_eq!(&*store.named(DefinitionKind::Task, name).await.unwrap().id, found, "{name}");
    }
}

async fn an_update_keeps_the_time_of_the_making_and_replaces_the_rest(store: &TestStore) {
    let mut doc = faceted("d", &[("status", "active"), ("agent_slug", "one")]);
    let made = store.put(doc.clone()).await;
    store.clock.advance(LEASE);
    doc.body = json("{}");
    doc.slug = Some("slug".into());
    doc.facets = vec![("entity_id", "e".into()), ("status", "paused".into())];
    doc.created_at = Timestamp::from_micros(5);
    let changed = store.try_put(doc.clone(), Some(1)).await.unwrap().at;
    let expected = DefinitionDoc { version: 2, created_at: made, updated_at: changed, ..doc };
    assert!(changed > made);
    assert_eq!(store.named(DefinitionKind::Task, "slug").await, Some(expected));
    for (query, ids) in [
        (with(&[("status", "active")]), &[][..]),
        (with(&[("agent_slug", "one")]), &[]),
        (with(&[("status", "paused")]), &["d"]),
        (with(&[("entity_id", "e")]), &["d"]),
    ] {
        assert_eq!(store.doc_ids(query.clone()).await, ids, "{query:?}");
    }
}

async fn a_version_that_was_not_expected_is_stale(store: &TestStore) {
    let doc = faceted("d", &[("status", "active")]);
    assert_eq!(verdict(&store.try_put(doc.clone(), Some(1)).await), "stale", "it is not there");
    assert_eq!(store.named(DefinitionKind::Task, "d").await, None);
    store.put(doc.clone()).await;
    store.try_put(doc, Some(1)).await.unwrap();
    let before = store.named(DefinitionKind::Task, "d").await.unwrap();
    assert_eq!(before.version, 2);
    for expects in [None, Some(0), Some(1), Some(3)] {
        let other = faceted("d", &[("status", "paused")]);
        assert_eq!(verdict(&store.try_put(other, expects).await), "stale", "{expects:?}");
    }
    assert_eq!(store.named(DefinitionKind::Task, "d").await, Some(before));
}

async fn a_taken_slug_is_refused_and_leaves_nothing_behind(store: &TestStore) {
    let slugged = |name: &str, slug: &str| DefinitionDoc {
        slug: Some(slug.into()),
        ..faceted(name, &[("status", "x")])
    };
    store.put(slugged("a", "one")).await;
    store.put(slugged("b", "two")).await;
    let before = store.named(DefinitionKind::Task, "b").await;
    assert_eq!(verdict(&store.try_put(slugged("c", "one"), None).await), "already_exists");
    assert_eq!(verdict(&store.try_put(slugged("b", "one"), Some(1)).await), "already_exists");
    assert_eq!(verdict(&store.try_put(slugged("a", "two"), None).await), "stale", "the version comes first");
    assert_eq!(store.named(DefinitionKind::Task, "c").await, None);
    assert_eq!(store.named(DefinitionKind::Task, "b").await, before);
    assert_eq!(store.doc_ids(with(&[("status", "x")])).await, ["b", "a"]);
    store.put(DefinitionDoc { kind: DefinitionKind::Entity, ..slugged("c", "one") }).await;
    store.try_put(slugged("a", "one"), Some(1)).await.unwrap();
}

async fn a_slug_that_was_given_up_can_be_taken(store: &TestStore) {
    store.put(DefinitionDoc { slug: Some("one".into()), ..a_doc(DefinitionKind::Task, "a") }).await;
    store.try_put(a_doc(DefinitionKind::Task, "a"), Some(1)).await.unwrap();
    assert_eq!(store.named(DefinitionKind::Task, "one").await, None);
    store.put(DefinitionDoc { slug: Some("one".into()), ..a_doc(DefinitionKind::Task, "b") }).await;
    assert_eq!(&*store.named(DefinitionKind::Task, "one").await.unwrap().id, "b");
}

async fn documents_of_one_change_see_each_other(store: &TestStore) {
    let slugged = |name: &str, slug: Option<&str>| DefinitionDoc {
        slug: slug.map(Into::into),
        ..a_doc(DefinitionKind::Task, name)
    };
    let puts = |list: &[(&str, Option<&str>, Option<u64>)]| {
        list.iter().fold(Change::new(store.tenant.clone()), |change, &(name, slug, expects)| {
            change.record(Record::PutDoc { doc: Box::new(slugged(name, slug)), expects })
        })
    };
    type Case<'a> = (&'a [(&'a str, Option<&'a str>, Option<u64>)], &'a str);
    let table: [Case<'_>; 6] = [
        (&[("a", Some("one"), None), ("b", Some("one"), None)], "already_exists"),
        (&[("a", None, None), ("a", None, None)], "stale"),
        (&[("a", Some("one"), None), ("b", Some("two"), None)], "ok"),
        (&[("a", None, Some(1)), ("b", Some("one"), Some(1)), ("a", Some("two"), Some(2))], "ok"),
        (&[("b", None, Some(2)), ("b", None, Some(2))], "stale"),
        (&[("c", Some("one"), None)], "already_exists"),
    ];
    for (list, outcome) in table {
        assert_eq!(verdict(&store.commit(puts(list)).await), outcome, "{list:?}");
    }
    for (slug, owner, version) in [("one", "b", 2), ("two", "a", 3)] {
        let found = store.named(DefinitionKind::Task, slug).await.unwrap();
        assert_eq!((&*found.id, found.version), (owner, version), "{slug}");
    }
    assert_eq!(store.doc_ids(all(DefinitionKind::Task)).await, ["b", "a"]);
}

async fn a_refused_document_leaves_the_session_unwritten_and_the_other_way_round(store: &TestStore) {
    store.open("s").await;
    store.put(a_doc(DefinitionKind::Task, "there")).await;
    let before = store.state("s").await;
    let put = |name: &str| Record::PutDoc { doc: Box::new(a_doc(DefinitionKind::Task, name)), expects: None };
    let change = store.change(appending("s", messages(1))).record(put("new")).record(put("there"));
    assert_eq!(verdict(&store.commit(change).await), "stale");
    assert_eq!(store.state("s").await, before);
    assert_eq!(store.named(DefinitionKind::Task, "new").await, None);

    let stale = Guard { version: Some(99), ..Guard::default() };
    let part = on("s", stale, Write::Append(messages(1)));
    assert_eq!(verdict(&store.commit(store.change(part).record(put("new"))).await), "stale");
    assert_eq!(store.named(DefinitionKind::Task, "new").await, None);
    store.commit(store.change(appending("s", messages(1))).record(put("new"))).await.unwrap();
    assert_eq!(store.log("s").await.len(), 1);
    assert!(store.named(DefinitionKind::Task, "new").await.is_some());
}

async fn documents_are_listed_newest_first_and_page_by_page(store: &TestStore) {
    let mut expected = Vec::new();
    for n in 0..7 {
        let name = format!("d{n}");
        store.put(faceted(&name, &[("status", "active")])).await;
        store.put(a_doc(DefinitionKind::Entity, &name)).await;
        expected.insert(0, name);
    }
    store.try_put(faceted("d2", &[("status", "active")]), Some(1)).await.unwrap();
    for query in [all(DefinitionKind::Task), with(&[("status", "active")])] {
        for limit in [1, 3, 6, 7, 8] {
            let (mut seen, mut after): (Vec<String>, _) = (Vec::new(), None);
            loop {
                let asked = DocQuery { after, limit, ..query.clone() };
                let page = store.docs(&store.tenant, asked).await.unwrap();
                assert!(page.items.len() <= limit);
                seen.extend(page.items.iter().map(|doc| doc.id.to_string()));
                after = page.next;
                if after.is_none() {
                    break;
                }
                assert_eq!(page.items.len(), limit, "more is promised only behind a full page");
            }
            assert_eq!(seen, expected, "{limit}");
        }
    }
}

async fn lists_show_what_has_every_facet_that_is_asked_for(store: &TestStore) {
    store.put(faceted("a", &[("status", "active"), ("agent_slug", "x"), ("entity_id", "e")])).await;
    store.put(faceted("b", &[("status", "active"), ("agent_slug", "y"), ("entity_id", "e")])).await;
    store.put(faceted("c", &[("status", "paused"), ("agent_slug", "x")])).await;
    store
        .put(DefinitionDoc { kind: DefinitionKind::Entity, ..faceted("other kind", &[("status", "active")]) })
        .await;
    type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
    let table: [Case; 9] = [
        (&[], &["c", "b", "a"]),
        (&[("status", "active")], &["b", "a"]),
        (&[("status", "active"), ("agent_slug", "x")], &["a"]),
        (&[("agent_slug", "x"), ("status", "active")], &["a"]),
        (&[("entity_id", "e"), ("agent_slug", "y"), ("status", "active")], &["b"]),
        (&[("entity_id", "e"), ("status", "paused")], &[]),
        (&[("status", "ACTIVE")], &[]),
        (&[("status", "active"), ("status", "paused")], &[]),
        (&[("type_slug", "active")], &[]),
    ];
    for (facets, ids) in table {
        assert_eq!(store.doc_ids(with(facets)).await, ids, "{facets:?}");
    }
}

async fn documents_are_found_by_the_words_of_their_titles_and_names(store: &TestStore) {
    let titled = |kind, name: &str, body: &str| DefinitionDoc { body: json(body), ..a_doc(kind, name) };
    let (task, entity) = (DefinitionKind::Task, DefinitionKind::Entity);
    store.put(titled(entity, "e1", r#"{"title":"Café Acme","fields":{"note":"hidden"}}"#)).await;
    store.put(titled(entity, "e2", r#"{"title":null,"fields":{}}"#)).await;
    let by_ann = DefinitionDoc {
        slug: Some("weekly-report".into()),
        facets: vec![("status", "active".into()), ("created_by", "ann".into())],
        ..titled(task, "t1", r#"{"name":"Reconcile the invoices","title":"Acme"}"#)
    };
    store.put(by_ann).await;
    store.put(titled(task, "t2", r#"{"name":"Invoices of Acme"}"#)).await;
    type Case = (DefinitionKind, &'static str, &'static [&'static str]);
    let table: [Case; 12] = [
        (entity, "acme", &["e1"]),
        (entity, "CAFE ac", &["e1"]),
        (entity, "hidden", &[]),
        (entity, "e2", &["e2"]),
        (entity, "!?", &[]),
        (task, "acme", &["t2"]),
        (task, "invoices", &["t2", "t1"]),
        (task, "inv recon", &["t1"]),
        (task, "nvoices", &[]),
        (task, "weekly", &["t1"]),
        (task, "report the", &["t1"]),
        (task, "%", &[]),
    ];
    for (kind, text, ids) in table {
        let query = DocQuery { text: Some(text.to_owned()), ..all(kind) };
        assert_eq!(store.doc_ids(query).await, ids, "{text}");
    }
    let invoices = |query: DocQuery| DocQuery { text: Some("invoices".into()), ..query };
    assert_eq!(store.doc_ids(invoices(with(&[("status", "active")]))).await, ["t1"]);
    let anns = DocQuery { of_user: Some(user("ann")), ..all(task) };
    assert_eq!(store.doc_ids(invoices(anns)).await, ["t1"]);
}

async fn words_are_found_page_by_page_far_down_a_list(store: &TestStore) {
    let mut expected = Vec::new();
    let mut change = Change::new(store.tenant.clone());
    for n in 0..2_300 {
        let (name, is_wanted) = (format!("d{n:04}"), n % 700 == 3);
        let body = json(if is_wanted { r#"{"name":"A wanted one"}"# } else { r#"{"name":"Another"}"# });
        if is_wanted {
            expected.insert(0, name.clone());
        }
        let doc = DefinitionDoc { body, ..a_doc(DefinitionKind::Task, &name) };
        change = change.record(Record::PutDoc { doc: Box::new(doc), expects: None });
    }
    store.commit(change).await.unwrap();
    for limit in [1, 2, 3, 4, 5] {
        let (mut seen, mut after): (Vec<String>, _) = (Vec::new(), None);
        loop {
            let query = all(DefinitionKind::Task);
            let asked = DocQuery { text: Some("wanted".into()), after, limit, ..query };
            let page = store.docs(&store.tenant, asked).await.unwrap();
            assert!(page.items.len() <= limit);
            seen.extend(page.items.iter().map(|doc| doc.id.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "{limit}");
    }
}

async fn a_person_sees_what_it_made_and_what_it_is_assigned_to(store: &TestStore) {
    store.put(faceted("made", &[("created_by", "ann"), ("status", "active")])).await;
    store
        .put(faceted("assigned", &[("created_by", "bob"), ("assigned_to", "ann"), ("status", "paused")]))
        .await;
    store.put(faceted("both", &[("created_by", "ann"), ("assigned_to", "ann"), ("status", "active")])).await;
    store
        .put(faceted("neither", &[("created_by", "bob"), ("status", "active"), ("agent_slug", "ann")]))
        .await;
    let of =
        |name: &str, facets: &[(&'static str, &str)]| DocQuery { of_user: Some(user(name)), ..with(facets) };
    for (query, ids) in [
        (of("ann", &[]), &["both", "assigned", "made"][..]),
        (of("bob", &[]), &["neither", "assigned"]),
        (of("ann", &[("status", "active")]), &["both", "made"]),
        (of("ann", &[("status", "active"), ("created_by", "ann")]), &["both", "made"]),
        (of("bob", &[("assigned_to", "ann")]), &["assigned"]),
        (of("eve", &[]), &[]),
    ] {
        assert_eq!(store.doc_ids(query.clone()).await, ids, "{query:?}");
    }
    let first = store.docs(&store.tenant, DocQuery { limit: 2, ..of("ann", &[]) }).await.unwrap();
    let rest = DocQuery { after: first.next, ..of("ann", &[]) };
    assert_eq!(store.doc_ids(rest).await, ["made"], "who made and is assigned counts once");
}

async fn a_narrow_facet_is_found_among_many_wide_ones(store: &TestStore) {
    let mut change = Change::new(store.tenant.clone());
    for n in 0..300 {
        let agent = if n == 7 { "rare" } else { "common" };
        let maker = if n == 8 { "ann" } else { "bob" };
        let facets = [("status", "active"), ("agent_slug", agent), ("created_by", maker)];
        let doc = Box::new(faceted(&format!("d{n}"), &facets));
        change = change.record(Record::PutDoc { doc, expects: None });
    }
    store.commit(change).await.unwrap();
    for facets in
        [[("status", "active"), ("agent_slug", "rare")], [("agent_slug", "rare"), ("status", "active")]]
    {
        assert_eq!(store.doc_ids(with(&facets)).await, ["d7"], "{facets:?}");
    }
    for (maker, ids) in [("ann", &["d8"][..]), ("cy", &[])] {
        let query = DocQuery { of_user: Some(user(maker)), ..with(&[("agent_slug", "common")]) };
        assert_eq!(store.doc_ids(query).await, ids, "{maker}");
    }
    let of_bob = DocQuery { of_user: Some(user("bob")), ..with(&[("agent_slug", "rare")]) };
    assert_eq!(store.doc_ids(of_bob).await, ["d7"]);
}

/// How many succeeded; the others must have been refused as stale.
fn winners(answers: &[Result<CommitResult, Refusal>]) -> usize {
    assert!(answers.iter().all(|answer| ["ok", "stale"].contains(&verdict(answer))), "{answers:?}");
    answers.iter().filter(|answer| answer.is_ok()).count()
}

async fn of_many_writers_with_the_same_version_one_wins(store: &TestStore) {
    store.put(a_doc(DefinitionKind::Task, "d")).await;
    for version in 1..5 {
        let answers = store
            .at_once(8, |store, n| async move {
                let doc = DefinitionDoc { body: json(&n.to_string()), ..faceted("d", &[("status", "x")]) };
                store.try_put(doc, Some(version)).await
            })
            .await;
        assert_eq!(winners(&answers), 1);
    }
    let found = store.named(DefinitionKind::Task, "d").await.unwrap();
    assert_eq!((found.version, found.facets.len()), (5, 1));
}

async fn of_many_makers_of_the_same_id_one_wins(store: &TestStore) {
    let answers = store
        .at_once(8, |store, n| async move {
            let doc = DefinitionDoc {
                slug: Some("same".into()),
                body: json(&n.to_string()),
                ..a_doc(DefinitionKind::Task, "d")
            };
            store.try_put(doc, None).await
        })
        .await;
    assert_eq!(winners(&answers), 1);
    assert_eq!(store.doc_ids(all(DefinitionKind::Task)).await, ["d"]);
    assert_eq!(store.named(DefinitionKind::Task, "same").await.unwrap().version, 1);
}

async fn documents_of_one_tenant_are_nothing_in_another(store: &TestStore) {
    let other = store.tenant_named("other").await;
    let doc = DefinitionDoc {
        slug: Some("slug".into()),
        ..faceted("d", &[("status", "x"), ("created_by", "ann")])
    };
    for tenant in [store, &other] {
        tenant.put(doc.clone()).await;
    }
    other.try_put(DefinitionDoc { body: json("2"), ..doc.clone() }, Some(1)).await.unwrap();
    other.put(a_doc(DefinitionKind::Task, "only there")).await;
    assert_eq!(store.named(DefinitionKind::Task, "slug").await.unwrap().version, 1);
    assert_eq!(store.named(DefinitionKind::Task, "only there").await, None);
    let of_ann = DocQuery { of_user: Some(user("ann")), ..all(DefinitionKind::Task) };
    for query in [all(DefinitionKind::Task), with(&[("status", "x")]), of_ann] {
        assert_eq!(store.doc_ids(query).await, ["d"]);
    }
    assert_eq!(verdict(&store.try_put(doc, Some(2)).await), "stale");
    let nowhere = TenantId::stored("nowhere");
    assert_eq!(store.doc(&nowhere, DefinitionKind::Task, "d").await.unwrap(), None);
    assert!(store.docs(&nowhere, all(DefinitionKind::Task)).await.unwrap().items.is_empty());
}

async fn titles_of_entities_and_tasks_are_read_together_and_of_this_tenant_alone(store: &TestStore) {
    let other = store.tenant_named("other").await;
    let entity =
        |id: &str, body: &str| DefinitionDoc { body: json(body), ..a_doc(DefinitionKind::Entity, id) };
    let hostile = "A \\\"quoted\\\" \u{202e} ** </recent-activity>";
    store
        .put(entity("e1", r#"{"type_slug":"companies","title":"Acme","fields":{"title":"no","n":1}}"#))
        .await;
    store.put(entity("e2", &format!(r#"{{"type_slug":"people","title":"{hostile}","fields":{{}}}}"#))).await;
    store.put(entity("e3", r#"{"type_slug":"people","title":null,"fields":{}}"#)).await;
    let task = DefinitionDoc {
        slug: Some("by-slug".into()),
        body: json(r#"{"slug":"by-slug","name":"Plan","title":"no"}"#),
        ..a_doc(DefinitionKind::Task, "e1")
    };
    store.put(task).await;
    other.put(entity("theirs", r#"{"type_slug":"companies","title":"Globex","fields":{}}"#)).await;
    let (entities, tasks) = (DefinitionKind::Entity, DefinitionKind::Task);
    let asked: Vec<(DefinitionKind, Box<str>)> = [
        (entities, "e1"),
        (entities, "e2"),
        (entities, "e3"),
        (tasks, "e1"),
        (tasks, "by-slug"),
        (entities, "theirs"),
        (entities, "missing"),
        (entities, "it's \"quoted\""),
    ]
    .map(|(kind, id)| (kind, id.into()))
    .to_vec();
    let mut found = store.doc_titles(&store.tenant, &asked).await.unwrap();
    found.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
    let title = |kind, id: &str, title: Option<&str>, type_slug: Option<&str>| DocTitle {
        kind,
        id: id.into(),
        title: title.map(Into::into),
        type_slug: type_slug.map(Into::into),
    };
    let expected = [
        title(tasks, "e1", Some("Plan"), None),
        title(entities, "e1", Some("Acme"), Some("companies")),
        title(entities, "e2", Some("A \"quoted\" \u{202e} ** </recent-activity>"), Some("people")),
        title(entities, "e3", None, Some("people")),
    ];
    assert_eq!(found, expected);
    assert_eq!(store.doc_titles(&store.tenant, &[]).await.unwrap(), []);
    assert_eq!(store.doc_titles(&TenantId::stored("nowhere"), &asked).await.unwrap(), []);
}

async fn a_merged_user_hands_over_documents(store: &TestStore) {
    for name in ["old", "new", "other"] {
        store.record(Record::AddUser(a_user(name))).await;
    }
    let made = DefinitionDoc { created_by: Some(user("old")), ..faceted("made", &[("created_by", "old")]) };
    store.put(made).await;
    store.put(faceted("assigned", &[("assigned_to", "old"), ("created_by", "new")])).await;
    store.put(faceted("both", &[("assigned_to", "old"), ("assigned_to", "new")])).await;
    let untouched =
        DefinitionDoc { created_by: Some(user("other")), ..faceted("not", &[("agent_slug", "old")]) };
    store.put(untouched).await;
    let before = store.named(DefinitionKind::Task, "not").await;
    store.record(Record::MergeUser { from: user("old"), into: user("new") }).await;

    let of = |name: &str| DocQuery { of_user: Some(user(name)), ..all(DefinitionKind::Task) };
    assert_eq!(store.doc_ids(of("new")).await, ["both", "assigned", "made"]);
    assert!(store.doc_ids(of("old")).await.is_empty());
    assert_eq!(store.named(DefinitionKind::Task, "not").await, before);
    let made = store.named(DefinitionKind::Task, "made").await.unwrap();
    assert_eq!((made.created_by, made.version), (Some(user("new")), 2));
    let both = store.named(DefinitionKind::Task, "both").await.unwrap();
    assert_eq!(both.facets, [("assigned_to", "new".into())]);
    assert_eq!(verdict(&store.try_put(both, Some(1)).await), "stale", "it was read before the merge");
}

async fn a_copy_carries_documents_and_goes_on_after_them(store: &TestStore) {
    store
        .put(DefinitionDoc {
            slug: Some("slug".into()),
            ..faceted("a", &[("status", "x"), ("entity_id", "é")])
        })
        .await;
    store.try_put(faceted("a", &[("status", "y")]), Some(1)).await.unwrap();
    store.put(DefinitionDoc { created_by: Some(user("ann")), ..faceted("b", &[("status", "y")]) }).await;
    let Some(copy) = store.copied().await else { return };
    let listed = async |store: &TestStore| store.docs(&store.tenant, with(&[("status", "y")])).await.unwrap();
    let (here, there) = (listed(store).await, listed(&copy).await);
    assert_eq!(here.items.len(), 2);
    assert_eq!(there.items, here.items);
    copy.put(faceted("c", &[("status", "y")])).await;
    assert_eq!(copy.doc_ids(with(&[("status", "y")])).await, ["c", "b", "a"]);
    copy.remove().await;
}
