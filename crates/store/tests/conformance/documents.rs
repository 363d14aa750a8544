//! Documents: patches are found by their document, a commit is refused unless it was judged on the newest patch, and a
//! fork has its own row.

use sederunt_core::document::{
    DocumentKey, DocumentOrigin, DocumentSnapshot, DocumentSummary, PatchRange, SharedDocument,
    StoredDocument, opening_event, patch_event,
};
use sederunt_core::document::{DocumentPatch, StoredPatch};
use sederunt_core::event::NewEvent;
use sederunt_core::store::{Change, DocumentGuard, Fork, Guard, Record, Refusal, Write};
use smallvec::smallvec;

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    a_document_reads_back_with_the_patches_since_its_snapshot,
    patches_are_found_whatever_lies_between,
    a_commit_on_another_patch_than_the_newest_is_stale,
    a_patch_of_a_batch_counts_for_those_after_it,
    a_name_is_opened_once,
    a_snapshot_takes_the_sequence_of_its_commit,
    an_origin_is_replaced_and_a_snapshot_leaves_it,
    a_fork_has_its_own_row_and_shares_the_log,
    a_deleted_session_takes_its_documents_with_it,
    documents_of_one_tenant_are_nothing_in_another;
    durable: documents_are_there_after_reopening,
    a_copy_carries_documents,
}

pub fn note(name: &str) -> DocumentKey {
    DocumentKey::parse("scratch", name).unwrap()
}

fn a_patch(key: &DocumentKey, value: usize) -> NewEvent {
    let ops = json(&format!(r#"[{{"op":"add","path":"/n","value":{value}}}]"#));
    patch_event(key, &DocumentPatch::read(0, &ops).unwrap(), None).unwrap()
}

fn a_row(session: &str, key: &DocumentKey, value: &str) -> SharedDocument {
    SharedDocument {
        session: id(session),
        key: key.clone(),
        opened_sequence: 0,
        snapshot: DocumentSnapshot { sequence: 0, value: json(value) },
        origin: None,
    }
}

fn opening(store: &TestStore, session: &str, key: &DocumentKey) -> Change {
    let event = opening_event(key, &json("{}"), None).unwrap();
    let row = Box::new(a_row(session, key, "{}"));
    store.change(appending(session, vec![event])).record(Record::OpenDocument(row))
}

fn judged_on(key: &DocumentKey, newest: u64) -> Guard {
    Guard { documents: smallvec![DocumentGuard { key: key.clone(), newest }], ..Guard::default() }
}

impl TestStore {
    async fn opened_document(&self, session: &str, name: &str) -> u64 {
        let done = self.commit(opening(self, session, &note(name))).await.unwrap();
        appended(&done.parts[0])[0]
    }

    /// Patches a document that nobody else patches.
    async fn patch(&self, session: &str, name: &str, value: usize) -> u64 {
        let newest = self.listed_document(session, name).await.sequence;
        let events = vec![a_patch(&note(name), value)];
        let done = self.append_under(session, judged_on(&note(name), newest), events).await.unwrap();
        appended(&done.parts[0])[0]
    }

    async fn listed_document(&self, session: &str, name: &str) -> DocumentSummary {
        let all = self.documents(&self.tenant, &id(session)).await.unwrap();
        all.into_iter().find(|one| one.key == note(name)).unwrap()
    }

    async fn stored_document(&self, session: &str, name: &str, seen: Option<u64>) -> StoredDocument {
        self.document(&self.tenant, &id(session), &note(name), seen).await.unwrap().unwrap()
    }

    async fn patches(&self, session: &str, name: &str, within: (u64, u64, usize)) -> Vec<u64> {
        let (after, to, limit) = within;
        let range = PatchRange { after, to, limit };
        let found = self.document_patches(&self.tenant, &id(session), &note(name), range).await.unwrap();
        numbers(&found)
    }
}

fn numbers(patches: &[StoredPatch]) -> Vec<u64> {
    patches.iter().map(|patch| patch.sequence).collect()
}

async fn a_document_reads_back_with_the_patches_since_its_snapshot(store: &TestStore) {
    store.open("s").await;
    let opened = store.opened_document("s", "a").await;
    let first = store.stored_document("s", "a", None).await;
    assert_eq!((first.opened_sequence, first.snapshot_sequence), (opened, opened));
    assert_eq!(first.incarnation, store.get("s").await.head.incarnation);
    assert_eq!(first.snapshot, Some(DocumentSnapshot { sequence: opened, value: json("{}") }));
    assert!(first.patches.is_empty(), "the opening is in the snapshot");
    let (one, two) = (store.patch("s", "a", 1).await, store.patch("s", "a", 2).await);
    let found = store.stored_document("s", "a", None).await;
    assert_eq!(numbers(&found.patches), [one, two]);
    assert_eq!(found.patches[0].metadata, a_patch(&note("a"), 1).metadata.unwrap());
    let later = store.stored_document("s", "a", Some(one)).await;
    assert_eq!(
        (later.snapshot, numbers(&later.patches)),
        (None, vec![two]),
        "what the reader has is not sent"
    );
    assert_eq!(
        store.documents(&store.tenant, &id("s")).await.unwrap(),
        [DocumentSummary { key: note("a"), opened_sequence: opened, sequence: two }]
    );
    assert!(store.document(&store.tenant, &id("s"), &note("b"), None).await.unwrap().is_none());
    assert!(store.document(&store.tenant, &id("none"), &note("a"), None).await.unwrap().is_none());
    assert!(store.documents(&store.tenant, &id("none")).await.unwrap().is_empty());
}

async fn patches_are_found_whatever_lies_between(store: &TestStore) {
    store.open("s").await;
    let opened = store.opened_document("s", "a").await;
    store.opened_document("s", "b").await;
    let mut all = vec![opened];
    for value in 0..4 {
        store.append("s", messages(3)).await;
        all.push(store.patch("s", "a", value).await);
        store.patch("s", "b", value).await;
    }
    assert_eq!(store.patches("s", "a", (0, u64::MAX, 100)).await, all);
    assert_eq!(store.patches("s", "a", (all[1], all[3], 100)).await, all[2..4]);
    assert_eq!(store.patches("s", "a", (0, u64::MAX, 2)).await, all[..2]);
    assert!(store.patches("s", "a", (all[4], u64::MAX, 100)).await.is_empty());
    assert_eq!(numbers(&store.stored_document("s", "a", None).await.patches), all[1..]);
}

async fn a_commit_on_another_patch_than_the_newest_is_stale(store: &TestStore) {
    store.open("s").await;
    let opened = store.opened_document("s", "a").await;
    store.opened_document("s", "b").await;
    let newest = store.patch("s", "a", 1).await;
    let before = store.log("s").await;
    for stale in [0, opened, newest + 1] {
        let outcome =
            store.append_under("s", judged_on(&note("a"), stale), vec![a_patch(&note("a"), 2)]).await;
        assert!(matches!(outcome, Err(Refusal::Stale)), "{stale}");
    }
    let outcome = store.append_under("s", judged_on(&note("none"), 0), vec![message("x")]).await;
    assert!(matches!(outcome, Err(Refusal::Stale)), "a document that is not there");
    assert_eq!(store.log("s").await, before);
    let fresh = store.append_under("s", judged_on(&note("a"), newest), vec![a_patch(&note("a"), 2)]).await;
    assert_eq!(verdict(&fresh), "ok");
}

async fn a_patch_of_a_batch_counts_for_those_after_it(store: &TestStore) {
    store.open("s").await;
    let opened = store.opened_document("s", "a").await;
    let answers = store
        .at_once(16, |store, n| async move {
            store.append_under("s", judged_on(&note("a"), opened), vec![a_patch(&note("a"), n)]).await
        })
        .await;
    let won = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(won, 1, "of those that were judged on one patch, one is committed");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Refusal::Stale))));
    assert_eq!(store.patches("s", "a", (opened, u64::MAX, 100)).await.len(), 1);
}

async fn a_name_is_opened_once(store: &TestStore) {
    store.open("s").await;
    store.opened_document("s", "a").await;
    let before = store.log("s").await;
    let again = store.commit(opening(store, "s", &note("a"))).await;
    assert_eq!(verdict(&again), "already_exists");
    assert_eq!(store.log("s").await, before);
    assert_eq!(verdict(&store.commit(opening(store, "none", &note("a"))).await), "not_found");
    store.open("t").await;
    store.opened_document("t", "a").await;
}

async fn a_snapshot_takes_the_sequence_of_its_commit(store: &TestStore) {
    store.open("s").await;
    let opened = store.opened_document("s", "a").await;
    store.patch("s", "a", 1).await;
    let newest = store.patch("s", "a", 2).await;
    let events = vec![a_patch(&note("a"), 3), message("x"), a_patch(&note("a"), 4)];
    let part = on("s", judged_on(&note("a"), newest), Write::Append(events));
    let row = SharedDocument { opened_sequence: opened, ..a_row("s", &note("a"), r#"{"n":4}"#) };
    let done =
        store.commit(store.change(part).record(Record::SnapshotDocument(Box::new(row)))).await.unwrap();
    let last = appended(&done.parts[0])[2];
    let found = store.stored_document("s", "a", None).await;
    assert_eq!(found.snapshot, Some(DocumentSnapshot { sequence: last, value: json(r#"{"n":4}"#) }));
    assert_eq!((found.opened_sequence, found.patches.len()), (opened, 0));
    assert_eq!(store.listed_document("s", "a").await.sequence, last);
    let seen = store.stored_document("s", "a", Some(newest)).await;
    assert!(seen.snapshot.is_some(), "a reader that is behind the snapshot gets it");
}

async fn an_origin_is_replaced_and_a_snapshot_leaves_it(store: &TestStore) {
    store.open("s").await;
    let key = DocumentKey::parse("entity", "e").unwrap();
    let event = opening_event(&key, &json("{}"), None).unwrap();
    let origin = |version, fields: &str| DocumentOrigin { version, fields: json(fields) };
    let row = SharedDocument { origin: Some(origin(3, r#"{"a":1}"#)), ..a_row("s", &key, "{}") };
    let change = store.change(appending("s", vec![event])).record(Record::OpenDocument(Box::new(row)));
    store.commit(change).await.unwrap();
    let found = async || store.document(&store.tenant, &id("s"), &key, None).await.unwrap().unwrap().origin;
    assert_eq!(found().await, Some(origin(3, r#"{"a":1}"#)));
    let set = Record::SetDocumentOrigin {
        session: id("s"),
        key: key.clone(),
        origin: Box::new(origin(4, r#"{"a":2}"#)),
    };
    store.commit(Change::new(store.tenant.clone()).record(set)).await.unwrap();
    let snapshot = Record::SnapshotDocument(Box::new(a_row("s", &key, r#"{"a":5}"#)));
    store.commit(Change::new(store.tenant.clone()).record(snapshot)).await.unwrap();
    assert_eq!(found().await, Some(origin(4, r#"{"a":2}"#)));
}

async fn a_fork_has_its_own_row_and_shares_the_log(store: &TestStore) {
    store.open("s").await;
    let opened = store.opened_document("s", "a").await;
    let one = store.patch("s", "a", 1).await;
    let two = store.patch("s", "a", 2).await;
    let incarnation = store.get("s").await.head.incarnation;
    let new = a_session("fork", |new| {
        new.head.last_sequence = one;
        new.fork_of = Some(Fork { session: id("s"), incarnation, at_sequence: one });
    });
    let row = SharedDocument {
        opened_sequence: opened,
        snapshot: DocumentSnapshot { sequence: one, value: json(r#"{"n":1}"#) },
        ..a_row("fork", &note("a"), "{}")
    };
    store.commit(store.change(creating(new)).record(Record::OpenDocument(Box::new(row)))).await.unwrap();
    let forked = store.stored_document("fork", "a", None).await;
    assert_eq!((forked.opened_sequence, forked.snapshot_sequence, forked.patches.len()), (opened, one, 0));
    assert_eq!(store.patches("fork", "a", (0, u64::MAX, 100)).await, [opened, one]);
    let own = store.patch("fork", "a", 9).await;
    assert_eq!(own, two, "both go on from the same place");
    assert_eq!(store.patches("fork", "a", (0, u64::MAX, 100)).await, [opened, one, own]);
    store.patch("s", "a", 3).await;
    assert_eq!(store.listed_document("fork", "a").await.sequence, own);
    store.delete("s").await;
    assert_eq!(store.patches("fork", "a", (0, u64::MAX, 100)).await, [opened, one, own]);
}

async fn a_deleted_session_takes_its_documents_with_it(store: &TestStore) {
    store.open("s").await;
    store.opened_document("s", "a").await;
    store.patch("s", "a", 1).await;
    store.delete("s").await;
    store.open("s").await;
    assert!(store.documents(&store.tenant, &id("s")).await.unwrap().is_empty());
    assert!(store.patches("s", "a", (0, u64::MAX, 100)).await.is_empty());
    store.opened_document("s", "a").await;
}

async fn documents_of_one_tenant_are_nothing_in_another(store: &TestStore) {
    store.open("s").await;
    store.opened_document("s", "a").await;
    let other = store.tenant_named("other").await;
    other.open("s").await;
    assert!(other.documents(&other.tenant, &id("s")).await.unwrap().is_empty());
    assert!(other.document(&other.tenant, &id("s"), &note("a"), None).await.unwrap().is_none());
    other.opened_document("s", "a").await;
    assert_eq!(store.patches("s", "a", (0, u64::MAX, 100)).await.len(), 1);
}

async fn documents_are_there_after_reopening(store: &TestStore) {
    store.open("s").await;
    store.opened_document("s", "a").await;
    store.patch("s", "a", 1).await;
    let before = store.stored_document("s", "a", None).await;
    let again = store.reopened().await;
    assert_eq!(again.stored_document("s", "a", None).await, before);
    again.patch("s", "a", 2).await;
    again.close().await;
}

async fn a_copy_carries_documents(store: &TestStore) {
    store.open("s").await;
    store.opened_document("s", "a").await;
    store.patch("s", "a", 1).await;
    let Some(copy) = store.copied().await else { return };
    assert_eq!(copy.stored_document("s", "a", None).await, store.stored_document("s", "a", None).await);
    copy.patch("s", "a", 2).await;
    copy.remove().await;
}
