//! Idempotency keys: one effect, however often and however closely a change is repeated.

use sederunt_core::event::NewEvent;
use sederunt_core::people::Audit;
use sederunt_core::store::{Change, CommitResult, Guard, IdemKey, Record, Refusal, Update, Write};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    a_repeated_append_is_answered_with_its_first_effect,
    the_sequences_of_a_replay_follow_the_batch,
    another_body_under_the_same_key_is_a_mismatch,
    keys_of_different_scopes_do_not_meet,
    a_refusal_does_not_spend_a_key,
    a_replay_does_not_ask_the_guard_again,
    sixty_four_twins_at_once_have_one_effect,
    twins_of_a_creation_make_one_session,
    a_repeated_creation_is_answered_with_its_note,
    a_repeated_update_is_applied_once,
    a_repeated_record_is_added_once,
    a_used_key_can_be_recalled,
    a_key_of_a_deleted_session_opens_nothing,
    old_keys_are_purged_and_young_ones_kept,
}

fn keyed(store: &TestStore, name: &str, events: Vec<NewEvent>, key: IdemKey) -> Change {
    store.change(appending(name, events)).keyed(Some(key))
}

fn replayed(outcome: &Result<CommitResult, Refusal>) -> Option<Vec<u64>> {
    assert_eq!(verdict(outcome), "ok", "{outcome:?}");
    Some(outcome.as_ref().ok()?.replay.as_ref()?.sequences.clone())
}

async fn a_repeated_append_is_answered_with_its_first_effect(store: &TestStore) {
    store.open("s").await;
    store.append("s", messages(2)).await;
    let change = || keyed(store, "s", messages(3), noted(key(1, 1)));
    let first = change();
    let note = first.key.unwrap().note;
    let done = store.commit(first).await.unwrap();
    assert!(done.replay.is_none());
    assert_eq!(appended(&done.parts[0]), [3, 4, 5]);
    store.append("s", messages(1)).await;
    let before = store.state("s").await;
    for _ in 0..3 {
        let replay = store.commit(change()).await.unwrap().replay.unwrap();
        assert_eq!(replay.sequences, [3, 4, 5]);
        assert_eq!(replay.note, note, "the note of the first call, not of its repeat");
    }
    assert_eq!(store.state("s").await, before);
}

async fn the_sequences_of_a_replay_follow_the_batch(store: &TestStore) {
    store.open("s").await;
    store.append("s", vec![external("a"), external("b")]).await;
    let batch = || vec![external("c"), external("b"), external("d"), external("c"), external("a")];
    let done = store.commit(keyed(store, "s", batch(), key(1, 1))).await.unwrap();
    assert_eq!(appended(&done.parts[0]), [3, 2, 4, 3, 1]);
    assert_eq!(
        replayed(&store.commit(keyed(store, "s", batch(), key(1, 1))).await),
        Some(vec![3, 2, 4, 3, 1])
    );

    let repeats = || vec![external("b"), external("a")];
    assert_eq!(replayed(&store.commit(keyed(store, "s", repeats(), key(2, 1))).await), None);
    assert_eq!(replayed(&store.commit(keyed(store, "s", repeats(), key(2, 1))).await), Some(vec![2, 1]));
}

async fn another_body_under_the_same_key_is_a_mismatch(store: &TestStore) {
    store.open("s").await;
    store.commit(keyed(store, "s", messages(1), key(1, 1))).await.unwrap();
    let before = store.state("s").await;
    let outcome = store.commit(keyed(store, "s", messages(2), key(1, 2))).await;
    assert_eq!(verdict(&outcome), "idempotency_mismatch");
    assert_eq!(store.state("s").await, before);
    assert_eq!(replayed(&store.commit(keyed(store, "s", messages(1), key(1, 1))).await), Some(vec![1]));
}

async fn keys_of_different_scopes_do_not_meet(store: &TestStore) {
    store.open("s").await;
    let mut close = key(1, 1);
    close.scope[15] = 2;
    for (n, key) in [key(1, 1), key(2, 1), key(0, 1), key(255, 1), close].into_iter().enumerate() {
        assert_eq!(replayed(&store.commit(keyed(store, "s", messages(1), key)).await), None, "{n}");
    }
    assert_eq!(store.log("s").await.len(), 5);
}

async fn a_refusal_does_not_spend_a_key(store: &TestStore) {
    store.open("s").await;
    let under = |sequence| {
        let guard = Guard { sequence: Some(sequence), ..Guard::default() };
        store.change(on("s", guard, Write::Append(messages(1)))).keyed(Some(key(1, 1)))
    };
    assert_eq!(verdict(&store.commit(under(9)).await), "sequence_mismatch");
    assert_eq!(replayed(&store.commit(under(0)).await), None);
    assert_eq!(replayed(&store.commit(under(0)).await), Some(vec![1]));
}

async fn a_replay_does_not_ask_the_guard_again(store: &TestStore) {
    store.open("s").await;
    let guard = Guard::seen(&store.get("s").await);
    let change = || {
        let guard = Guard { sequence: Some(0), ..guard.clone() };
        store.change(on("s", guard, Write::Append(messages(1)))).keyed(Some(key(1, 1)))
    };
    store.commit(change()).await.unwrap();
    store.update("s", Update::default()).await;
    assert_eq!(replayed(&store.commit(change()).await), Some(vec![1]));
}

async fn sixty_four_twins_at_once_have_one_effect(store: &TestStore) {
    store.open("s").await;
    let outcomes = store
        .at_once(64, |store, _| async move {
            store.commit(keyed(&store, "s", messages(2), noted(key(1, 1)))).await
        })
        .await;
    let effects = outcomes.iter().filter(|outcome| replayed(outcome).is_none()).count();
    assert_eq!(effects, 1);
    let notes: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().unwrap().replay.as_ref())
        .map(|r| r.note)
        .collect();
    assert!(notes.windows(2).all(|pair| pair[0] == pair[1] && pair[0].is_some()));
    assert!(outcomes.iter().filter_map(replayed).all(|sequences| sequences == [1, 2]));
    assert_eq!(store.log("s").await.len(), 2);
}

async fn twins_of_a_creation_make_one_session(store: &TestStore) {
    // Callers that name the session, and callers for each of whom an id was drawn.
    for (n, named) in [true, false].into_iter().enumerate() {
        let scope = u8::try_from(n).unwrap();
        let outcomes = store
            .at_once(16, |store, twin| async move {
                let name = if named { "named".to_owned() } else { format!("drawn {twin}") };
                let mut part = creating(a_session(&name, |_| {}));
                part.writes.push(Write::Append(vec![event("session.created")]));
                let key = noted(key(scope, 1));
                (key.note, store.commit(store.change(part).keyed(Some(key))).await)
            })
            .await;
        let winners: Vec<_> = outcomes
            .iter()
            .filter(|(_, outcome)| replayed(outcome).is_none())
            .map(|(note, _)| *note)
            .collect();
        assert_eq!(winners.len(), 1, "named: {named}");
        for (_, outcome) in &outcomes {
            let Some(replay) = &outcome.as_ref().unwrap().replay else { continue };
            assert_eq!((replay.note, &replay.sequences[..]), (winners[0], &[1][..]));
        }
    }
    assert_eq!(store.listed(everything()).await.len(), 2);
}

async fn a_repeated_creation_is_answered_with_its_note(store: &TestStore) {
    let first = noted(key(1, 1));
    let create = |key| store.change(creating(a_session("s", |_| {}))).keyed(Some(key));
    let done = store.commit(create(first)).await.unwrap();
    assert!(done.replay.is_none());
    let before = store.state("s").await;
    let replay = store.commit(create(noted(key(1, 1)))).await.unwrap().replay.unwrap();
    assert_eq!(replay.note, first.note);
    assert!(replay.sequences.is_empty());
    assert_eq!(store.state("s").await, before);
    assert_eq!(verdict(&store.commit(create(key(1, 2))).await), "idempotency_mismatch");
    assert_eq!(verdict(&store.commit(create(key(2, 1))).await), "stale");
}

async fn a_repeated_update_is_applied_once(store: &TestStore) {
    let version = store.open("s").await.head.version;
    let change = || {
        let update = Update { attempts: Some(1), ..Update::default() };
        let audit = Audit { actor: "ann".into(), action: "session.touched", target: "s".into() };
        store.change(updating("s", update)).audited(audit).keyed(Some(key(1, 1)))
    };
    assert!(store.commit(change()).await.unwrap().replay.is_none());
    assert!(store.commit(change()).await.unwrap().replay.is_some());
    assert_eq!(store.get("s").await.head.version, version + 1);
    let trail = store.audit(&store.tenant, None, 10).await.unwrap().items;
    assert_eq!(trail.iter().filter(|line| line.action == "session.touched").count(), 1);
}

async fn a_repeated_record_is_added_once(store: &TestStore) {
    let change = || {
        Change::new(store.tenant.clone())
            .record(Record::AddUser(crate::people::a_user("ann")))
            .keyed(Some(noted(key(1, 1))))
    };
    let outcomes = store.at_once(8, |store, _| {
        let change = change();
        async move { store.commit(change).await }
    });
    let outcomes = outcomes.await;
    assert_eq!(outcomes.iter().filter(|outcome| replayed(outcome).is_none()).count(), 1);
    assert_eq!(store.users(&store.tenant, None, 10).await.unwrap().len(), 1);
}

async fn a_used_key_can_be_recalled(store: &TestStore) {
    let other = store.tenant_named("other").await;
    store.open("s").await;
    let used = noted(key(1, 1));
    assert_eq!(store.recall(&store.tenant, used).await.unwrap(), None);
    store.commit(keyed(store, "s", messages(2), used)).await.unwrap();
    let recalled = store.recall(&store.tenant, noted(key(1, 1))).await.unwrap().unwrap();
    assert_eq!((recalled.sequences, recalled.note), (vec![1, 2], used.note));
    assert_eq!(store.recall(&store.tenant, key(2, 1)).await.unwrap(), None);
    assert_eq!(store.recall(&other.tenant, key(1, 1)).await.unwrap(), None);
    let another_body = store.recall(&store.tenant, key(1, 2)).await;
    assert!(!matches!(another_body, Ok(Some(_))), "{another_body:?}");
    let refused = on("s", Guard { version: Some(99), ..Guard::default() }, Write::Append(messages(1)));
    assert_eq!(verdict(&store.commit(store.change(refused).keyed(Some(key(3, 1)))).await), "stale");
    assert_eq!(store.recall(&store.tenant, key(3, 1)).await.unwrap(), None);
}

async fn a_key_of_a_deleted_session_opens_nothing(store: &TestStore) {
    store.open("s").await;
    store.commit(keyed(store, "s", messages(1), key(1, 1))).await.unwrap();
    store.delete("s").await;
    let outcome = store.commit(keyed(store, "s", messages(1), key(1, 1))).await;
    assert_eq!(verdict(&outcome), "not_found");
    store.open("s").await;
    assert_eq!(replayed(&store.commit(keyed(store, "s", messages(1), key(1, 1))).await), None);
    assert_eq!(sequences(&store.log("s").await), [1]);
}

async fn old_keys_are_purged_and_young_ones_kept(store: &TestStore) {
    store.open("s").await;
    store.commit(keyed(store, "s", messages(1), key(1, 1))).await.unwrap();
    store.commit(keyed(store, "s", messages(1), key(2, 1))).await.unwrap();
    store.clock.advance(DAY);
    let between = store.now().await.unwrap();
    store.clock.advance(LEASE);
    store.commit(keyed(store, "s", messages(1), key(3, 1))).await.unwrap();

    assert_eq!(store.purge_keys(between).await.unwrap(), 2);
    assert_eq!(store.purge_keys(between).await.unwrap(), 0);
    assert_eq!(replayed(&store.commit(keyed(store, "s", messages(1), key(3, 1))).await), Some(vec![3]));
    assert_eq!(replayed(&store.commit(keyed(store, "s", messages(1), key(1, 1))).await), None);
    assert_eq!(store.log("s").await.len(), 4);
}
