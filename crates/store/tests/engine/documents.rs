//! Documents: everybody who patches one sees the same, whichever node they talk to; what does not fit is refused and
//! leaves nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::access::ShareAccess;
use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::definitions::{Entity, View};
use sederunt_core::document::patch::read_stored_ops;
use sederunt_core::document::{DocumentContent, DocumentKey, StoredPatch};
use sederunt_core::engine::{Append, DraftEvent, Engine, NewKey, NewUser, PatchRequest, PatchedDocument};
use sederunt_core::error::{Conflict, Error};
use sederunt_core::event::EventQuery;
use sederunt_core::json::Json;
use sederunt_core::session::decide::{OpenSession, PatchSession, Transition};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::{Actor, Role, SessionId, UserId, limits, strict};
use serde_json::{Value, json as value};

use crate::harness::{World, key, says, wish};
use crate::on_both_stores;

on_both_stores!(
    a_document_is_opened_patched_and_read,
    an_inverse_is_given_if_it_is_a_patch,
    two_earlier_states_are_computed_at_once,
    a_patch_on_an_older_state_is_rebased_or_refused,
    a_base_that_is_no_patch_of_the_document_is_refused,
    appending_a_patch_obeys_the_same_rule,
    a_batch_with_a_patch_is_written_whole_or_not_at_all,
    a_repeated_patch_gets_the_first_answer,
    many_writers_at_once_lose_nothing,
    a_node_with_an_old_copy_does_not_accept_by_it,
    a_node_with_an_old_copy_refuses_nothing_by_it,
    one_writer_without_a_right_stops_no_other,
    opening_reads_a_snapshot_and_the_patches_since,
    an_earlier_state_is_read_by_its_sequence,
    a_base_older_than_the_snapshot_is_judged_too,
    a_fork_goes_its_own_way,
    a_session_made_again_has_none_of_the_old_documents,
    only_mixed_sessions_have_documents,
    strangers_hear_nothing_of_documents,
    a_worker_patches_under_its_claim,
    a_session_has_so_many_documents,
    an_owner_applies_at_once,
    a_member_asks_an_owner,
    a_view_is_edited_as_a_document,
    rows_are_not_shown_to_guests_or_by_links,
    who_becomes_a_guest_reads_no_row,
    a_guest_is_known_by_their_keys,
);

fn note() -> DocumentKey {
    DocumentKey::parse("scratch", "note").unwrap()
}

fn json(value: &Value) -> Json {
    Json::of(value).unwrap()
}

fn set(path: &str, to: usize) -> Value {
    value!([{"op": "add", "path": path, "value": to}])
}

fn request(base_sequence: u64, ops: &Value) -> PatchRequest {
    PatchRequest { base_sequence, ops: json(ops), epoch: None, wants_inverse: false }
}

fn code<T>(outcome: Result<T, Error>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(Error::Invalid { field, .. }) => field.into_owned(),
        Err(error) => error.code().to_owned(),
    }
}

/// A mixed session with a note in it. Returns the sequence of the opening.
async fn opened(world: &World, id: &str, start: &Value) -> (SessionId, u64) {
    let session = world.talk(id).await;
    let made =
        world.engine.open_document(&world.owner(), &session.id, &note(), Some(&json(start)), None).await;
    (session.id, made.unwrap().sequence)
}

async fn patch(
    engine: &Engine,
    actor: &Arc<Actor>,
    id: &SessionId,
    base: u64,
    ops: &Value,
) -> Result<PatchedDocument, Error> {
    engine.patch_document(actor, id, &note(), request(base, ops), None).await
}

async fn value_at(engine: &Engine, world: &World, id: &SessionId, at: Option<u64>) -> (u64, Value) {
    let found = engine.shared_document(&world.owner(), id, &note(), at).await.unwrap();
    (found.sequence, found.value.value())
}

/// The log alone, folded as any reader would.
async fn folded(world: &World, id: &SessionId) -> (u64, Json) {
    let (mut after, mut content, mut sequence) = (0, None::<DocumentContent>, 0);
    loop {
        let query =
            EventQuery { after, limit: 1000, types: vec!["state.patch".into()], ..EventQuery::default() };
        let page = world.engine.read(&world.owner(), id, query).await.unwrap();
        for event in page.events {
            let metadata = event.metadata.unwrap();
            if DocumentKey::of_metadata(&metadata) != Some(note()) {
                continue;
            }
            let patch = StoredPatch { sequence: event.sequence, content: event.content, metadata };
            sequence = patch.sequence;
            match patch.opening() {
                Some(value) => content = Some(DocumentContent::stored(&value)),
                None => {
                    let ops = json(&patch.metadata.value()["ops"]);
                    content.as_mut().unwrap().apply(&read_stored_ops(&ops).unwrap()).unwrap();
                }
            }
        }
        if !page.has_more {
            return (sequence, content.unwrap().sorted_text());
        }
        after = page.next_after;
    }
}

async fn a_document_is_opened_patched_and_read(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"b": 1, "a": []})).await;
    let owner = world.owner();
    let found = world.engine.shared_document(&owner, &id, &note(), None).await.unwrap();
    assert_eq!((found.sequence, found.value.as_str()), (opened, r#"{"a":[],"b":1}"#));
    let wants = PatchRequest { wants_inverse: true, ..request(opened, &set("/a/-", 1)) };
    let done = world.engine.patch_document(&owner, &id, &note(), wants, None).await.unwrap();
    assert_eq!((done.sequence, done.rebased), (opened + 1, false));
    let inverse = done.inverse.unwrap();
    assert_eq!(inverse.value(), value!([{"op": "remove", "path": "/a/0"}]));
    assert_eq!(value_at(&world.engine, world, &id, None).await, (opened + 1, value!({"a": [1], "b": 1})));
    let undone = patch(&world.engine, &owner, &id, done.sequence, &inverse.value()).await.unwrap();
    assert_eq!(value_at(&world.engine, world, &id, None).await, (undone.sequence, value!({"a": [], "b": 1})));
    let after = world.engine.shared_document(&owner, &id, &note(), None).await.unwrap();
    assert_eq!(after.digest, found.digest, "the same bytes have the same digest");
    let again = world.engine.open_document(&owner, &id, &note(), None, None).await;
    assert_eq!(code(again), "already_exists");
    let listed = world.engine.documents(&owner, &id).await.unwrap();
    assert_eq!((listed.len(), listed[0].opened_sequence, listed[0].sequence), (1, opened, undone.sequence));
    assert_eq!(folded(world, &id).await, (undone.sequence, after.value));
    let missing = DocumentKey::parse("scratch", "none").unwrap();
    assert_eq!(code(world.engine.shared_document(&owner, &id, &missing, None).await), "not_found");
    let none = world.engine.patch_document(&owner, &id, &missing, request(0, &set("/a", 1)), None).await;
    assert_eq!(code(none), "not_found");
    let deep = value!({"x": "y".repeat(limits::SHARED_DOCUMENT_BYTES_MAX)});
    let large = world.engine.open_document(&owner, &id, &missing, Some(&json(&deep)), None).await;
    assert_eq!(code(large), "value");
}

async fn an_inverse_is_given_if_it_is_a_patch(world: &World) {
    let owner = world.owner();
    let long = "x".repeat(limits::PATCH_BYTES_MAX);
    let (id, opened) = opened(world, "s", &value!({"a": 1, "long": long, "b": null})).await;
    let mut base = opened;
    for (ops, expected) in [
        (value!([{"op": "test", "path": "/a", "value": 1}]), None),
        (
            value!([{"op": "replace", "path": "/a", "value": 1}]),
            Some(value!([{"op": "replace", "path": "/a", "value": 1}])),
        ),
        (
            value!([{"op": "replace", "path": "/a", "value": null}]),
            Some(value!([{"op": "replace", "path": "/a", "value": 1}])),
        ),
        (
            value!([{"op": "remove", "path": "/b"}]),
            Some(value!([{"op": "add", "path": "/b", "value": null}])),
        ),
        (value!([{"op": "remove", "path": "/long"}]), None),
    ] {
        let wants = PatchRequest { wants_inverse: true, ..request(base, &ops) };
        let done = world.engine.patch_document(&owner, &id, &note(), wants, None).await.unwrap();
        assert_eq!(done.inverse.as_ref().map(Json::value), expected, "{ops}");
        base = done.sequence;
        if let Some(inverse) = done.inverse {
            base = patch(&world.engine, &owner, &id, base, &inverse.value()).await.unwrap().sequence;
        }
    }
}

async fn two_earlier_states_are_computed_at_once(world: &World) {
    let owner = world.owner();
    let (id, opened) = opened(world, "s", &value!({"list": []})).await;
    let patches = (0..2 * limits::SNAPSHOT_PATCHES).map(|n| {
        let (engine, owner, id) = (world.engine.clone(), owner.clone(), id.clone());
        tokio::spawn(async move { patch(&engine, &owner, &id, opened, &set("/list/-", n)).await.unwrap() })
    });
    join_all(patches).await;
    let key = note();
    let read = || world.engine.shared_document(&owner, &id, &key, Some(opened + 200));
    let all = join_all((0..20).map(|_| read())).await;
    let codes: Vec<String> = all.into_iter().map(code).collect();
    assert!(codes.iter().filter(|code| *code == "ok").count() >= limits::DOCUMENT_FOLDS_MAX, "{codes:?}");
    assert!(codes.iter().any(|code| code == "unavailable"), "{codes:?}");
    assert!(codes.iter().all(|code| ["ok", "unavailable"].contains(&code.as_str())), "{codes:?}");
    assert_eq!(code(read().await), "ok", "later there is room again");
}

async fn a_patch_on_an_older_state_is_rebased_or_refused(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"a": 0, "b": 0, "list": []})).await;
    let owner = world.owner();
    world.engine.append(&owner, &id, says("user.message", "hi"), None).await.unwrap();
    let first = patch(&world.engine, &owner, &id, opened, &set("/a", 1)).await.unwrap();
    assert!(!first.rebased, "what lies between in the log is no patch of the document");
    let second = patch(&world.engine, &owner, &id, opened, &set("/b", 1)).await.unwrap();
    assert!(second.rebased);
    let before = world.session("s").await.head.last_sequence;
    match patch(&world.engine, &owner, &id, opened, &set("/a", 2)).await {
        Err(Error::Conflict(Conflict::StaleDocument { sequence, conflicts })) => {
            assert_eq!((sequence, conflicts), (second.sequence, vec!["/a".to_owned()]));
        }
        other => panic!("{other:?}"),
    }
    let tested = value!([{"op": "test", "path": "/a", "value": 0}, {"op": "add", "path": "/c", "value": 1}]);
    assert_eq!(code(patch(&world.engine, &owner, &id, second.sequence, &tested).await), "stale_base");
    let wrong =
        value!([{"op": "add", "path": "/c", "value": 1}, {"op": "replace", "path": "/d", "value": 1}]);
    assert_eq!(code(patch(&world.engine, &owner, &id, second.sequence, &wrong).await), "ops[1].path");
    assert_eq!(world.session("s").await.head.last_sequence, before, "a refused patch leaves nothing");
    for _ in 0..2 {
        assert!(patch(&world.engine, &owner, &id, 0, &set("/list/-", 1)).await.unwrap().rebased);
    }
    assert_eq!(value_at(&world.engine, world, &id, None).await.1, value!({"a": 1, "b": 1, "list": [1, 1]}));
}

async fn a_base_that_is_no_patch_of_the_document_is_refused(world: &World) {
    let (id, opened) = opened(world, "s", &value!({})).await;
    let owner = world.owner();
    let other = DocumentKey::parse("scratch", "other").unwrap();
    let elsewhere = world.engine.open_document(&owner, &id, &other, None, None).await.unwrap().sequence;
    let message =
        world.engine.append(&owner, &id, says("user.message", "hi"), None).await.unwrap().last_sequence;
    let last = patch(&world.engine, &owner, &id, opened, &set("/a", 1)).await.unwrap().sequence;
    for base in [elsewhere, message, opened - 1, last + 1, 1 << 53, u64::MAX >> 1] {
        assert_eq!(
            code(patch(&world.engine, &owner, &id, base, &set("/b", 1)).await),
            "base_sequence",
            "{base}"
        );
    }
    assert_eq!(world.session("s").await.head.last_sequence, last);
}

fn patching(base: u64, ops: &Value) -> DraftEvent {
    let metadata = value!({"document": {"kind": "scratch", "id": "note"}, "base_sequence": base, "ops": ops});
    DraftEvent { kind: "state.patch".into(), metadata: Some(json(&metadata)), ..DraftEvent::default() }
}

fn batch(events: Vec<DraftEvent>) -> Append {
    Append { events, ..Append::default() }
}

async fn appending_a_patch_obeys_the_same_rule(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"a": 0})).await;
    let owner = world.owner();
    let append = async |event: DraftEvent| world.engine.append(&owner, &id, batch(vec![event]), None).await;
    let done = append(patching(opened, &set("/a", 1))).await.unwrap();
    assert_eq!((done.events.len(), done.last_sequence), (1, opened + 1));
    let before = world.session("s").await.head.last_sequence;
    let content = Some(json(&value!([{"type": "text", "text": "x"}])));
    let named =
        value!({"document": {"kind": "scratch", "id": "none"}, "base_sequence": 0, "ops": set("/a", 1)});
    let table = [
        (patching(opened, &set("/a", 2)), "stale_base"),
        (patching(99, &set("/a", 2)), "metadata.base_sequence"),
        (patching(opened + 1, &value!([{"op": "frob"}])), "metadata.ops[0].op"),
        (patching(opened + 1, &value!([{"op": "remove", "path": "/x"}])), "metadata.ops[0].path"),
        (patching(opened + 1, &value!([])), "metadata.ops"),
        (DraftEvent { content, ..patching(opened + 1, &set("/a", 2)) }, "content"),
        (DraftEvent { metadata: Some(json(&named)), ..patching(0, &set("/a", 1)) }, "metadata.document"),
        (
            DraftEvent { external_event_id: Some("x".into()), ..patching(opened + 1, &set("/a", 2)) },
            "external_event_id",
        ),
        (DraftEvent { metadata: None, ..patching(0, &set("/a", 1)) }, "metadata.document"),
    ];
    for (event, expected) in table {
        assert_eq!(code(append(event.clone()).await), expected, "{event:?}");
    }
    assert_eq!(world.session("s").await.head.last_sequence, before);
}

async fn a_batch_with_a_patch_is_written_whole_or_not_at_all(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"a": 0, "b": 0})).await;
    let owner = world.owner();
    let message = || says("user.message", "hi").events.pop().unwrap();
    let append = async |events: Vec<DraftEvent>| world.engine.append(&owner, &id, batch(events), None).await;
    let done = append(vec![message(), patching(opened, &set("/a", 1)), patching(opened, &set("/b", 1))])
        .await
        .unwrap();
    assert_eq!(done.events.len(), 3);
    assert_eq!(
        value_at(&world.engine, world, &id, None).await,
        (done.last_sequence, value!({"a": 1, "b": 1}))
    );
    let before = world.session("s").await.head.last_sequence;
    let base = done.last_sequence;
    let refused = append(vec![message(), patching(base, &set("/a", 2)), patching(base, &set("/a", 3))]).await;
    assert_eq!(code(refused), "stale_base", "the second is judged on what the first leaves");
    let wrong = append(vec![message(), patching(base, &value!([{"op": "remove", "path": "/x"}]))]).await;
    assert_eq!(code(wrong), "events[1].metadata.ops[0].path");
    assert_eq!(world.session("s").await.head.last_sequence, before);
    let late = Append { expected_sequence: Some(opened), ..batch(vec![patching(base, &set("/a", 2))]) };
    assert_eq!(code(world.engine.append(&owner, &id, late, None).await), "sequence_mismatch");
    assert_eq!(value_at(&world.engine, world, &id, None).await.1, value!({"a": 1, "b": 1}));
    assert_eq!(folded(world, &id).await.1.value(), value!({"a": 1, "b": 1}));
}

async fn a_repeated_patch_gets_the_first_answer(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"list": []})).await;
    let owner = world.owner();
    patch(&world.engine, &owner, &id, opened, &set("/x", 1)).await.unwrap();
    let send = async |ops: &Value, body| {
        let wants = PatchRequest { wants_inverse: true, ..request(opened, ops) };
        world.engine.patch_document(&owner, &id, &note(), wants, key("k", body)).await
    };
    let first = send(&set("/list/-", 7), 1).await.unwrap();
    assert!(first.rebased);
    patch(
        &world.engine,
        &owner,
        &id,
        first.sequence,
        &value!([{"op": "replace", "path": "/list", "value": 1}]),
    )
    .await
    .unwrap();
    assert_eq!(send(&set("/list/-", 7), 1).await.unwrap(), first);
    assert_eq!(code(send(&set("/y", 7), 2).await), "idempotency_mismatch");
    let whole = batch(vec![patching(opened, &set("/z", 1))]);
    let once = world.engine.append(&owner, &id, whole.clone(), key("b", 1)).await.unwrap();
    let twice = world.engine.append(&owner, &id, whole, key("b", 1)).await.unwrap();
    assert_eq!(once.events, twice.events);
    assert_eq!(folded(world, &id).await.1.value(), value!({"list": 1, "x": 1, "z": 1}));
}

async fn many_writers_at_once_lose_nothing(world: &World) {
    const WRITERS: usize = 16;
    const PATCHES: usize = 20;
    let start: Value = (0..WRITERS).map(|n| (format!("w{n}"), value!(0))).collect();
    let (id, opened) = opened(world, "s", &start).await;
    let other = world.other_node().await;
    let writers = (0..WRITERS).map(|n| {
        let engine = if n % 2 == 0 { world.engine.clone() } else { other.clone() };
        let (id, owner) = (id.clone(), world.owner());
        async move {
            let mut base = opened;
            for value in 1..=PATCHES {
                let ops = set(&format!("/w{n}"), value);
                base = patch(&engine, &owner, &id, base, &ops).await.unwrap().sequence;
            }
        }
    });
    join_all(writers.map(tokio::spawn)).await.into_iter().for_each(Result::unwrap);
    let expected: Value = (0..WRITERS).map(|n| (format!("w{n}"), value!(PATCHES))).collect();
    let (_, value) = value_at(&world.engine, world, &id, None).await;
    assert_eq!(value, expected);
    assert_eq!(value_at(&other, world, &id, None).await.1, expected);
    assert_eq!(folded(world, &id).await.1.value(), expected);
}

async fn a_node_with_an_old_copy_does_not_accept_by_it(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"a": 0})).await;
    let (owner, other) = (world.owner(), world.other_node().await);
    // Both nodes hold the document now.
    value_at(&world.engine, world, &id, None).await;
    value_at(&other, world, &id, None).await;
    let newest = patch(&other, &owner, &id, opened, &set("/a", 1)).await.unwrap().sequence;
    assert_eq!(code(patch(&world.engine, &owner, &id, opened, &set("/a", 2)).await), "stale_base");
    let removed = value!([{"op": "remove", "path": "/a"}]);
    let last = patch(&other, &owner, &id, newest, &removed).await.unwrap().sequence;
    let replaced = value!([{"op": "replace", "path": "/a", "value": 3}]);
    assert_eq!(code(patch(&world.engine, &owner, &id, newest, &replaced).await), "stale_base");
    assert_eq!(value_at(&world.engine, world, &id, None).await, (last, value!({})));
    assert_eq!(folded(world, &id).await.1.value(), value!({}));
}

async fn a_node_with_an_old_copy_refuses_nothing_by_it(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"a": {}})).await;
    let (owner, other) = (world.owner(), world.other_node().await);
    value_at(&world.engine, world, &id, None).await;
    let newest = patch(&other, &owner, &id, opened, &set("/a/b", 1)).await.unwrap().sequence;
    let inside = value!([{"op": "replace", "path": "/a/b", "value": 2}]);
    patch(&world.engine, &owner, &id, newest, &inside).await.unwrap();
    assert_eq!(value_at(&other, world, &id, None).await.1, value!({"a": {"b": 2}}));
}

async fn one_writer_without_a_right_stops_no_other(world: &World) {
    let (id, opened) = opened(world, "s", &value!({})).await;
    let (owner, stranger) = (world.owner(), world.actor(Role::Member, "stranger"));
    let sent = (0..20).map(|n| {
        let (engine, id) = (world.engine.clone(), id.clone());
        let actor = if n % 4 == 0 { stranger.clone() } else { owner.clone() };
        async move { patch(&engine, &actor, &id, opened, &set(&format!("/k{n}"), n)).await }
    });
    let answers = join_all(sent.map(tokio::spawn)).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(code(answer.unwrap()), if n % 4 == 0 { "not_found" } else { "ok" }, "{n}");
    }
    assert_eq!(folded(world, &id).await.1.value().as_object().unwrap().len(), 15);
}

async fn opening_reads_a_snapshot_and_the_patches_since(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"list": []})).await;
    let owner = world.owner();
    let mut base = opened;
    let count = limits::SNAPSHOT_PATCHES + 10;
    for n in 1..=count {
        // A patch that a reader applied twice, or not at all, would show.
        base = patch(&world.engine, &owner, &id, base, &set("/list/-", n)).await.unwrap().sequence;
    }
    let stored = world.store.document(&world.tenant, &id, &note(), None).await.unwrap().unwrap();
    assert!(stored.snapshot_sequence > opened && stored.patches.len() < limits::SNAPSHOT_PATCHES);
    let fresh = Engine::new(world.store.clone(), Arc::default(), sederunt_core::engine::Settings::default());
    let all: Vec<usize> = (1..=count).collect();
    assert_eq!(value_at(&fresh, world, &id, None).await, (base, value!({"list": all})));
    assert_eq!(folded(world, &id).await.1.value(), value!({"list": all}), "the log alone makes the same");
    // Large operations bring the next one sooner.
    let long = "x".repeat(limits::PATCH_BYTES_MAX - 100);
    for _ in 0..=limits::SNAPSHOT_OPS_BYTES / long.len() + 1 {
        let ops = value!([{"op": "add", "path": "/long", "value": long}]);
        base = patch(&world.engine, &owner, &id, base, &ops).await.unwrap().sequence;
    }
    let later = world.store.document(&world.tenant, &id, &note(), None).await.unwrap().unwrap();
    assert!(later.snapshot_sequence > stored.snapshot_sequence);
}

async fn an_earlier_state_is_read_by_its_sequence(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"n": 0})).await;
    let owner = world.owner();
    let mut base = opened;
    for n in 1..=limits::SNAPSHOT_PATCHES + 5 {
        base = patch(&world.engine, &owner, &id, base, &set("/n", n)).await.unwrap().sequence;
    }
    for at in [opened, opened + 1, opened + 200, base - 1, base] {
        let expected = value!({"n": at - opened});
        assert_eq!(value_at(&world.engine, world, &id, Some(at)).await, (at, expected), "{at}");
    }
    let before = world.engine.shared_document(&owner, &id, &note(), Some(opened - 1)).await;
    assert_eq!(code(before), "at_sequence");
    let ahead = world.engine.shared_document(&owner, &id, &note(), Some(base + 1)).await;
    assert_eq!(code(ahead), "at_sequence");
    // More of them at once than a node computes are told to come back.
    let key = note();
    let many = (0..20).map(|_| world.engine.shared_document(&owner, &id, &key, Some(opened)));
    let codes: Vec<String> = join_all(many).await.into_iter().map(code).collect();
    assert!(codes.iter().all(|code| code == "ok" || code == "unavailable"), "{codes:?}");
    assert!(codes.iter().filter(|code| *code == "ok").count() >= limits::DOCUMENT_FOLDS_MAX);
}

async fn a_base_older_than_the_snapshot_is_judged_too(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"n": 0, "list": []})).await;
    let owner = world.owner();
    let mut base = patch(&world.engine, &owner, &id, opened, &set("/list/-", 1)).await.unwrap().sequence;
    let early = base;
    for n in 1..=limits::SNAPSHOT_PATCHES + 5 {
        base = patch(&world.engine, &owner, &id, base, &set("/n", n)).await.unwrap().sequence;
    }
    let fresh = Engine::new(world.store.clone(), Arc::default(), sederunt_core::engine::Settings::default());
    assert_eq!(code(patch(&fresh, &owner, &id, opened, &set("/list/0", 1)).await), "stale_base");
    assert_eq!(code(patch(&fresh, &owner, &id, early, &set("/n", 1)).await), "stale_base");
    assert!(patch(&fresh, &owner, &id, early, &set("/list/0", 2)).await.unwrap().rebased);
    assert!(patch(&fresh, &owner, &id, opened, &set("/other", 2)).await.unwrap().rebased);
    assert_eq!(code(patch(&fresh, &owner, &id, opened - 1, &set("/other", 2)).await), "base_sequence");
}

async fn a_fork_goes_its_own_way(world: &World) {
    let (id, opened) = opened(world, "s", &value!({"a": 0})).await;
    let owner = world.owner();
    let one = patch(&world.engine, &owner, &id, opened, &set("/a", 1)).await.unwrap().sequence;
    let two = patch(&world.engine, &owner, &id, one, &set("/a", 2)).await.unwrap().sequence;
    let fork = world.engine.fork(&owner, &id, one, None).await.unwrap().id;
    assert_eq!(value_at(&world.engine, world, &fork, None).await, (one, value!({"a": 1})));
    let own = patch(&world.engine, &owner, &fork, one, &set("/b", 9)).await.unwrap();
    assert!(!own.rebased);
    assert!(patch(&world.engine, &owner, &fork, opened, &set("/c", 9)).await.unwrap().rebased);
    assert_eq!(code(patch(&world.engine, &owner, &fork, opened, &set("/a", 9)).await), "stale_base");
    assert_eq!(value_at(&world.engine, world, &fork, Some(opened)).await, (opened, value!({"a": 0})));
    assert_eq!(value_at(&world.engine, world, &id, None).await, (two, value!({"a": 2})));
    assert_eq!(folded(world, &fork).await.1.value(), value!({"a": 1, "b": 9, "c": 9}));
    let empty = world.engine.fork(&owner, &id, opened - 1, None).await.unwrap().id;
    assert!(world.engine.documents(&owner, &empty).await.unwrap().is_empty());
}

async fn a_session_made_again_has_none_of_the_old_documents(world: &World) {
    let (id, first) = opened(world, "s", &value!({"old": 1})).await;
    let owner = world.owner();
    patch(&world.engine, &owner, &id, first, &set("/a", 1)).await.unwrap();
    world.engine.delete(&owner, &id).await.unwrap();
    assert_eq!(code(patch(&world.engine, &owner, &id, first, &set("/a", 1)).await), "not_found");
    let (id, second) = opened(world, "s", &value!({"new": 1})).await;
    patch(&world.engine, &owner, &id, second, &set("/b", 1)).await.unwrap();
    assert_eq!(value_at(&world.engine, world, &id, None).await.1, value!({"new": 1, "b": 1}));
}

async fn only_mixed_sessions_have_documents(world: &World) {
    let owner = world.owner();
    for kind in [SessionType::Agent, SessionType::Tool] {
        let session = world.open(&owner, wish(kind.as_str(), kind)).await;
        let refused = world.engine.open_document(&owner, &session.id, &note(), None, None).await;
        assert_eq!(code(refused), "type_mismatch", "{kind:?}");
        assert!(world.engine.documents(&owner, &session.id).await.unwrap().is_empty());
        let read = world.engine.shared_document(&owner, &session.id, &note(), None).await;
        assert_eq!(code(read), "not_found", "{kind:?}");
        assert_eq!(code(patch(&world.engine, &owner, &session.id, 0, &set("/a", 1)).await), "type_mismatch");
        let append =
            world.engine.append(&owner, &session.id, batch(vec![patching(0, &set("/a", 1))]), None).await;
        assert_eq!(code(append), "type_mismatch", "{kind:?}");
    }
    let queued = OpenSession { status: Some(Status::Pending), ..wish("s", SessionType::Mixed) };
    let id = world.open(&owner, queued).await.id;
    let base = world.engine.open_document(&owner, &id, &note(), None, None).await.unwrap().sequence;
    let cancelled = Transition { to: Status::Abandoned, expected: None, reason: None };
    world.engine.transition(&owner, &id, cancelled, None).await.unwrap();
    assert_eq!(code(patch(&world.engine, &owner, &id, base, &set("/a", 1)).await), "session_closed");
}

async fn strangers_hear_nothing_of_documents(world: &World) {
    let (id, base) = opened(world, "s", &value!({"a": 1})).await;
    let foreign = world.other_tenant().await;
    for actor in [world.actor(Role::Member, "stranger"), world.actor(Role::Guest, "guest"), foreign] {
        for base in [base, 0, 99] {
            for path in ["/a", "/x/y"] {
                let refused = patch(&world.engine, &actor, &id, base, &set(path, 1)).await;
                assert_eq!(code(refused), "not_found", "{path} on {base}");
            }
        }
        let appended =
            world.engine.append(&actor, &id, batch(vec![patching(base, &set("/a", 1))]), None).await;
        assert_eq!(code(appended), "not_found");
        assert_eq!(code(world.engine.documents(&actor, &id).await), "not_found");
        assert_eq!(code(world.engine.shared_document(&actor, &id, &note(), None).await), "not_found");
        assert_eq!(code(world.engine.open_document(&actor, &id, &note(), None, None).await), "not_found");
    }
}

async fn a_worker_patches_under_its_claim(world: &World) {
    let wish = OpenSession { status: Some(Status::Pending), ..wish("s", SessionType::Mixed) };
    let id = world.open(&world.owner(), wish).await.id;
    let made = world.engine.open_document(&world.owner(), &id, &note(), None, None).await.unwrap();
    let worker = world.worker("w");
    let claim = world.claim(&worker).await.pop().unwrap();
    let under = |epoch| PatchRequest { epoch, ..request(made.sequence, &set("/a", 1)) };
    let done =
        world.engine.patch_document(&worker, &id, &note(), under(Some(claim.epoch)), None).await.unwrap();
    assert_eq!(done.sequence, claim.session.head.last_sequence + 1);
    let old = world.engine.patch_document(&worker, &id, &note(), under(Some(claim.epoch - 1)), None).await;
    assert_eq!(code(old), "fenced");
    let none = world
        .engine
        .patch_document(
            &worker,
            &id,
            &note(),
            PatchRequest { epoch: None, ..request(done.sequence, &set("/b", 1)) },
            None,
        )
        .await;
    assert_eq!(code(none), "fenced");
    let other = world.worker("other");
    let stolen = PatchRequest { epoch: Some(claim.epoch), ..request(done.sequence, &set("/b", 1)) };
    assert_eq!(code(world.engine.patch_document(&other, &id, &note(), stolen, None).await), "fenced");
    let event = DraftEvent { ..patching(done.sequence, &set("/b", 1)) };
    let wish = Append { epoch: Some(claim.epoch), ..batch(vec![event]) };
    world.engine.append(&worker, &id, wish, None).await.unwrap();
    assert_eq!(folded(world, &id).await.1.value(), value!({"a": 1, "b": 1}));
}

async fn a_session_has_so_many_documents(world: &World) {
    let owner = world.owner();
    let id = world.talk("s").await.id;
    let open = async |n: usize| {
        let key = DocumentKey::parse("scratch", &format!("n{n}")).unwrap();
        world.engine.open_document(&owner, &id, &key, None, None).await
    };
    for n in 0..limits::DOCUMENTS_PER_SESSION_MAX {
        open(n).await.unwrap();
    }
    assert_eq!(code(open(limits::DOCUMENTS_PER_SESSION_MAX).await), "id");
    assert_eq!(world.engine.documents(&owner, &id).await.unwrap().len(), limits::DOCUMENTS_PER_SESSION_MAX);
}

async fn company(world: &World, fields: &Value) -> DocumentKey {
    let entity = Entity { type_slug: "company".into(), title: None, fields: json(fields) };
    let made = world.engine.define(&world.owner(), Some("acme"), entity, None).await.unwrap();
    DocumentKey::parse("entity", &made.id).unwrap()
}

async fn fields_of(world: &World) -> Value {
    world.engine.definition::<Entity>(&world.owner(), "acme").await.unwrap().value.fields.value()
}

async fn an_owner_applies_at_once(world: &World) {
    let owner = world.owner();
    let key = company(world, &value!({"name": "Acme", "size": 1, "old": true})).await;
    let id = world.talk("s").await.id;
    let given = world.engine.open_document(&owner, &id, &key, Some(&json(&value!({}))), None).await;
    assert_eq!(code(given), "value");
    let base = world.engine.open_document(&owner, &id, &key, None, None).await.unwrap().sequence;
    let ops = value!([{"op": "replace", "path": "/size", "value": 2}, {"op": "remove", "path": "/old"}]);
    let done = world.engine.patch_document(&owner, &id, &key, request(base, &ops), None).await.unwrap();
    assert_eq!(code(world.engine.apply_document(&owner, &id, &key, base, None).await), "stale_base");
    let applied = world.engine.apply_document(&owner, &id, &key, done.sequence, None).await.unwrap();
    assert_eq!((applied.fields, applied.version), (vec!["old".to_owned(), "size".to_owned()], Some(2)));
    assert_eq!(fields_of(world).await, value!({"name": "Acme", "size": 2}));
    let again = world.engine.apply_document(&owner, &id, &key, done.sequence, None).await.unwrap();
    assert!(again.fields.is_empty() && again.approval_id.is_none());
    // The row changes beside the document.
    let beside = json(&value!({"fields": {"name": "Acme", "size": 5}}));
    world.engine.redefine::<Entity>(&owner, "acme", &beside, None).await.unwrap();
    let both = value!([{"op": "replace", "path": "/size", "value": 9}, {"op": "replace", "path": "/name", "value": "A"}]);
    let done =
        world.engine.patch_document(&owner, &id, &key, request(done.sequence, &both), None).await.unwrap();
    match world.engine.apply_document(&owner, &id, &key, done.sequence, None).await {
        Err(Error::Conflict(Conflict::StaleRow { fields })) => assert_eq!(fields, ["size"]),
        other => panic!("{other:?}"),
    }
    let seen = value!([{"op": "replace", "path": "/size", "value": 5}]);
    let done =
        world.engine.patch_document(&owner, &id, &key, request(done.sequence, &seen), None).await.unwrap();
    let applied = world.engine.apply_document(&owner, &id, &key, done.sequence, None).await.unwrap();
    assert_eq!(applied.fields, ["name"]);
    assert_eq!(fields_of(world).await, value!({"name": "A", "size": 5}));
    let (plain, base) = opened(world, "t", &value!({})).await;
    assert_eq!(code(world.engine.apply_document(&owner, &plain, &note(), base, None).await), "type_mismatch");
}

async fn a_member_asks_an_owner(world: &World) {
    let owner = world.owner();
    let ada = world.actor(Role::Member, "ada");
    let key = company(world, &value!({"size": 1})).await;
    let id = world.open(&ada, wish("s", SessionType::Mixed)).await.id;
    let base = world.engine.open_document(&ada, &id, &key, None, None).await.unwrap().sequence;
    let patch = async |base: u64, size: u64| {
        let ops = value!([{"op": "replace", "path": "/size", "value": size}]);
        world.engine.patch_document(&ada, &id, &key, request(base, &ops), None).await.unwrap().sequence
    };
    let decide = async |approval: &str, decision| {
        let wish = DecisionRequest {
            decision,
            modified_args: None,
            modified_output: None,
            reason: None,
            digest: None,
        };
        world.engine.decide(&owner, approval, wish, None).await
    };
    let mut base = patch(base, 2).await;
    let asked = world.engine.apply_document(&ada, &id, &key, base, key_of("k")).await.unwrap();
    let approval = asked.approval_id.clone().unwrap();
    assert_eq!(world.engine.apply_document(&ada, &id, &key, base, key_of("k")).await.unwrap(), asked);
    assert_eq!(fields_of(world).await, value!({"size": 1}), "nothing is written before an owner agrees");
    assert_eq!(code(world.engine.apply_document(&ada, &id, &key, base, None).await), "session_running");
    let wish = DecisionRequest {
        decision: Decision::Approve,
        modified_args: None,
        modified_output: None,
        reason: None,
        digest: None,
    };
    assert_eq!(code(world.engine.decide(&ada, &approval, wish, None).await), "not_found");
    decide(&approval, Decision::Approve).await.unwrap();
    assert_eq!(fields_of(world).await, value!({"size": 2}));
    base = patch(base, 3).await;
    let asked = world.engine.apply_document(&ada, &id, &key, base, None).await.unwrap();
    decide(asked.approval_id.as_deref().unwrap(), Decision::Deny).await.unwrap();
    assert_eq!(fields_of(world).await, value!({"size": 2}));
    let asked = world.engine.apply_document(&ada, &id, &key, base, None).await.unwrap();
    let beside = json(&value!({"fields": {"size": 7}}));
    world.engine.redefine::<Entity>(&owner, "acme", &beside, None).await.unwrap();
    assert_eq!(code(decide(asked.approval_id.as_deref().unwrap(), Decision::Approve).await), "stale_base");
}

fn key_of(name: &str) -> Option<sederunt_core::store::IdemKey> {
    key(name, 1)
}

async fn a_view_is_edited_as_a_document(world: &World) {
    let owner = world.owner();
    let text = r#"{"title":"Trip","questions":[{"key":"where","label":"Where?"}]}"#;
    let view: View = strict::read(text).unwrap();
    world.engine.define(&owner, Some("v"), view, None).await.unwrap();
    let id = world.talk("s").await.id;
    let key = DocumentKey::parse("view", "v").unwrap();
    let found = world.engine.open_document(&owner, &id, &key, None, None).await.unwrap();
    assert_eq!(found.value.value()["title"], value!("Trip"));
    let ops = value!([{"op": "replace", "path": "/title", "value": "Journey"},
        {"op": "add", "path": "/questions/-", "value": {"key": "when", "label": "When?"}}]);
    let done =
        world.engine.patch_document(&owner, &id, &key, request(found.sequence, &ops), None).await.unwrap();
    world.engine.apply_document(&owner, &id, &key, done.sequence, None).await.unwrap();
    let view = world.engine.definition::<View>(&owner, "v").await.unwrap().value;
    assert_eq!((view.title.as_str(), view.questions.len()), ("Journey", 2));
    let broken = value!([{"op": "replace", "path": "/questions", "value": [{"key": "a"}]}]);
    let done =
        world.engine.patch_document(&owner, &id, &key, request(done.sequence, &broken), None).await.unwrap();
    let refused = world.engine.apply_document(&owner, &id, &key, done.sequence, None).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let maker = world.actor(Role::Member, "ada");
    let own = world.open(&maker, wish("t", SessionType::Mixed)).await.id;
    assert_eq!(
        code(world.engine.open_document(&maker, &own, &key, None, None).await),
        "not_found",
        "not hers to read"
    );
}

async fn rows_are_not_shown_to_guests_or_by_links(world: &World) {
    let owner = world.owner();
    let key = company(world, &value!({"size": 1})).await;
    for (name, role) in [("gus", Role::Guest), ("mia", Role::Member)] {
        let user = NewUser { id: Some(name.into()), role: Some(role), ..NewUser::default() };
        world.engine.create_user(&owner, user, None).await.unwrap();
    }
    let invite = async |id: &SessionId, who: &str| {
        let wish = PatchSession { participants: Some(vec![who.into()]), ..PatchSession::default() };
        world.engine.patch(&owner, id, wish, None).await.map(drop)
    };
    let share = async |id: &SessionId| {
        world.engine.share(&owner, id, ShareAccess::Read, Duration::from_secs(60), None).await.map(drop)
    };
    let open =
        async |id: &SessionId| world.engine.open_document(&owner, id, &key, None, None).await.map(drop);

    let with_guest = world.talk("guest").await.id;
    invite(&with_guest, "gus").await.unwrap();
    assert_eq!(code(open(&with_guest).await), "type_mismatch");
    let with_link = world.talk("link").await.id;
    share(&with_link).await.unwrap();
    assert_eq!(code(open(&with_link).await), "type_mismatch");

    let inside = world.talk("inside").await.id;
    open(&inside).await.unwrap();
    assert_eq!(code(invite(&inside, "gus").await), "type_mismatch");
    assert_eq!(code(share(&inside).await), "type_mismatch");
    invite(&inside, "mia").await.unwrap();
    let (scratch, _) = opened(world, "scratch", &value!({})).await;
    invite(&scratch, "gus").await.unwrap();
    share(&scratch).await.unwrap();
    let guest = world.actor(Role::Guest, "gus");
    assert_eq!(code(world.engine.open_document(&guest, &with_guest, &key, None, None).await), "denied");
}

/// A session with a document of a row and a scratch document, in which mia takes part.
async fn shared_row(world: &World) -> (SessionId, DocumentKey) {
    let key = company(world, &value!({"size": 1})).await;
    let (id, _) = opened(world, "shared", &value!({})).await;
    world.engine.open_document(&world.owner(), &id, &key, None, None).await.unwrap();
    let wish = PatchSession { participants: Some(vec!["mia".into()]), ..PatchSession::default() };
    world.engine.patch(&world.owner(), &id, wish, None).await.unwrap();
    (id, key)
}

async fn who_becomes_a_guest_reads_no_row(world: &World) {
    let owner = world.owner();
    for (name, role) in [("mia", Role::Member), ("gus", Role::Guest)] {
        let user = NewUser { id: Some(name.into()), role: Some(role), ..NewUser::default() };
        world.engine.create_user(&owner, user, None).await.unwrap();
    }
    let (id, key) = shared_row(world).await;
    let read = async |who: &Arc<Actor>| {
        let log = world.engine.read(who, &id, EventQuery { limit: 10, ..EventQuery::default() }).await;
        let stream = world.engine.stream(who.clone(), &id, None).await.map(drop);
        let document = world.engine.shared_document(who, &id, &key, None).await;
        let list = world.engine.documents(who, &id).await;
        let present = world.engine.attend(who, &id, None).await;
        [code(log), code(stream), code(document), code(list), code(present)]
    };
    let mia = world.actor(Role::Member, "mia");
    assert_eq!(read(&mia).await, ["ok"; 5]);
    let open = world.engine.stream(mia.clone(), &id, None).await.unwrap();
    assert_eq!(code(open.recheck().await), "ok");
    // The role of the credential and that of the row: the lower one counts, so that a guest's key opens as little.
    let as_guest = world.actor(Role::Guest, "mia");
    assert_eq!(read(&as_guest).await, ["denied"; 5]);
    let (mia, gus) = (UserId::stored("mia"), UserId::stored("gus"));
    world.engine.merge_users(&owner, &mia, &gus, None).await.unwrap();
    assert_eq!(read(&world.actor(Role::Guest, "gus")).await, ["denied"; 5]);
    let view: View =
        strict::read(r#"{"title":"Trip","questions":[{"key":"where","label":"Where?"}]}"#).unwrap();
    world.engine.define(&owner, Some("v"), view, None).await.unwrap();
    let view = DocumentKey::parse("view", "v").unwrap();
    assert_eq!(code(world.engine.open_document(&owner, &id, &view, None, None).await), "type_mismatch");
    let (plain, _) = opened(world, "plain", &value!({})).await;
    let wish = PatchSession { participants: Some(vec!["gus".into()]), ..PatchSession::default() };
    world.engine.patch(&owner, &plain, wish, None).await.unwrap();
    let guest = world.actor(Role::Guest, "gus");
    assert_eq!(code(world.engine.shared_document(&guest, &plain, &note(), None).await), "ok");
}

async fn a_guest_is_known_by_their_keys(world: &World) {
    let owner = world.owner();
    for (user, role) in [("gus", Role::Guest), ("mia", Role::Guest), ("mia", Role::Member)] {
        let wish = NewKey { role: Some(role), user: Some(user.to_owned()), ..NewKey::default() };
        world.engine.create_key(&owner, wish, None).await.unwrap();
    }
    let (id, _) = shared_row(world).await;
    let invite = async |who: &str| {
        let participants = Some(vec!["mia".into(), who.into()]);
        let wish = PatchSession { participants, ..PatchSession::default() };
        code(world.engine.patch(&owner, &id, wish, None).await)
    };
    assert_eq!(invite("gus").await, "type_mismatch", "no row says who gus is, and the only key is a guest's");
    assert_eq!(invite("nobody").await, "ok");
}
