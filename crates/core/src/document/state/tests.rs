use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::document::patch::read_ops;
use crate::json::Json;

fn patch(base: u64, ops: &Value) -> DocumentPatch {
    DocumentPatch::read(base, &Json::of(ops).unwrap()).unwrap()
}

fn set(path: &str, value: i32) -> Value {
    json!([{"op": "add", "path": path, "value": value}])
}

/// A document that was opened at 10 and patched at 12 and 15.
fn state() -> DocumentState {
    let start = json!({"a": 0, "b": 0, "list": [0, 1]});
    let mut state = DocumentState::new(DocumentContent::new(start).unwrap(), 10, 10);
    for (sequence, ops) in [(12, set("/a", 1)), (15, set("/list/-", 2))] {
        state.follow(sequence, &read_ops(&Json::of(&ops).unwrap()).unwrap(), 40).unwrap();
    }
    state
}

/// `applied`, `rebased`, `stale:` with the places, or `invalid`.
fn outcome(state: &mut DocumentState, base: u64, ops: &Value) -> String {
    let patch = patch(base, ops);
    let judged = match state.standing_of(base) {
        Ok(BaseStanding::Known) => state.judge(&patch),
        Ok(BaseStanding::Unread { after }) => return format!("unread after {after}"),
        Err(error) => Err(error),
    };
    match judged {
        Ok(judged) => {
            let said = if judged.rebased { "rebased" } else { "applied" };
            state.take_back([judged].into_iter());
            said.into()
        }
        Err(Error::Conflict(Conflict::StaleDocument { sequence, conflicts })) => {
            format!("stale at {sequence}: {}", conflicts.join(" "))
        }
        Err(error) => error.code().into(),
    }
}

#[test]
fn a_patch_is_judged_by_its_base_and_its_places() {
    let table = [
        (15, set("/a", 2), "applied"),
        (12, set("/a", 2), "rebased"),
        (12, set("/list/-", 2), "rebased"),
        (12, set("/list/0", 2), "stale at 15: /list/-"),
        (10, set("/a", 2), "stale at 15: /a"),
        (0, set("/a", 2), "stale at 15: /a"),
        (0, set("/b", 2), "rebased"),
        (10, json!([{"op": "replace", "path": "", "value": 1}]), "stale at 15: /a /list/-"),
        (10, json!([{"op": "test", "path": "/a", "value": 1}]), "stale at 15: /a"),
        (15, json!([{"op": "test", "path": "/a", "value": 7}]), "stale at 15: /a"),
        (15, json!([{"op": "test", "path": "/c", "value": 7}]), "stale at 15: /c"),
        (15, json!([{"op": "test", "path": "/a", "value": 1.0}]), "applied"),
        (15, json!([{"op": "remove", "path": "/c"}]), "invalid"),
        (12, json!([{"op": "remove", "path": "/c"}]), "invalid"),
        (11, set("/b", 2), "invalid"),
        (13, set("/b", 2), "invalid"),
        (9, set("/b", 2), "invalid"),
        (16, set("/b", 2), "invalid"),
        (1 << 53, set("/b", 2), "invalid"),
    ];
    for (base, ops, expected) in table {
        let mut state = state();
        let before = state.content.clone();
        assert_eq!(outcome(&mut state, base, &ops), expected, "{ops} on {base}");
        assert_eq!(state.content, before, "{ops} on {base}");
    }
}

#[test]
fn what_was_removed_under_a_patch_is_a_conflict_and_no_mistake_of_its_author() {
    let mut state = state();
    state
        .follow(20, &read_ops(&Json::of(&json!([{"op": "remove", "path": "/list"}])).unwrap()).unwrap(), 40)
        .unwrap();
    assert_eq!(
        outcome(&mut state, 15, &json!([{"op": "replace", "path": "/list/0", "value": 5}])),
        "stale at 20: /list"
    );
}

#[test]
fn patches_of_one_commit_are_judged_on_what_those_before_them_left() {
    let mut state = state();
    let first = state.judge(&patch(15, &set("/a", 2))).unwrap();
    assert!(!first.rebased);
    match state.judge(&patch(15, &set("/a", 3))) {
        Err(Error::Conflict(Conflict::StaleDocument { sequence: 15, conflicts })) => {
            assert_eq!(conflicts, ["/a"])
        }
        other => panic!("{other:?}"),
    }
    let second = state.judge(&patch(15, &set("/list/-", 3))).unwrap();
    assert!(second.rebased);
    state.land([(17, 40), (18, 40)]);
    assert_eq!((state.sequence, state.since_snapshot.patches), (18, 4));
    assert_eq!(outcome(&mut state, 17, &set("/a", 9)), "rebased");
    assert_eq!(outcome(&mut state, 15, &set("/a", 9)), "stale at 18: /a");
}

#[test]
fn a_snapshot_is_due_after_so_many_patches_or_bytes() {
    let debt = |patches, bytes| SnapshotDebt { patches, bytes }.is_due();
    assert!(!debt(limits::SNAPSHOT_PATCHES - 1, 0) && debt(limits::SNAPSHOT_PATCHES, 0));
    assert!(!debt(0, limits::SNAPSHOT_OPS_BYTES - 1) && debt(0, limits::SNAPSHOT_OPS_BYTES));
}

#[test]
fn a_base_too_far_behind_is_stale_without_a_list_and_an_unread_one_is_read_first() {
    let mut state = DocumentState::new(DocumentContent::new(json!({})).unwrap(), 1, 1);
    let one = read_ops(&Json::of(&set("/a", 1)).unwrap()).unwrap();
    for sequence in 2..=limits::PATCHES_BEHIND_MAX as u64 + 1 {
        state.follow(sequence, &one, 1).unwrap();
    }
    assert_eq!(outcome(&mut state, 1, &set("/b", 1)), "rebased");
    let last = limits::PATCHES_BEHIND_MAX as u64 + 2;
    state.follow(last, &one, 1).unwrap();
    assert_eq!(outcome(&mut state, 1, &set("/b", 1)), format!("stale at {last}: "));
    assert_eq!(outcome(&mut state, 2, &set("/b", 1)), "rebased");
    state.land([]);
    assert_eq!(outcome(&mut state, 1, &set("/b", 1)), "unread after 0", "the oldest was forgotten");

    let mut opened = DocumentState::new(DocumentContent::new(json!({"a": 1})).unwrap(), 1, 9);
    assert_eq!(outcome(&mut opened, 3, &set("/b", 1)), "unread after 2");
    opened.remember_earlier(3, vec![(3, WrittenPaths::default()), (9, state.recent[0].written.clone())]);
    assert_eq!(outcome(&mut opened, 3, &set("/b", 1)), "rebased");
    assert_eq!(outcome(&mut opened, 3, &set("/a", 1)), "stale at 9: /a");
}

#[test]
fn conflicts_are_listed_up_to_a_limit() {
    let mut state = DocumentState::new(DocumentContent::new(json!({})).unwrap(), 1, 1);
    for at in 0..=limits::CONFLICTS_LISTED_MAX {
        let ops = read_ops(&Json::of(&set(&format!("/k{at}"), 1)).unwrap()).unwrap();
        state.follow(at as u64 + 2, &ops, 1).unwrap();
    }
    match state.judge(&patch(1, &json!([{"op": "replace", "path": "", "value": 1}]))) {
        Err(Error::Conflict(Conflict::StaleDocument { conflicts, .. })) => {
            assert_eq!(conflicts.len(), limits::CONFLICTS_LISTED_MAX);
        }
        other => panic!("{other:?}"),
    }
}

/// Operations on the places of a small document.
fn some_ops() -> impl Strategy<Value = Value> {
    let one = (0..7usize, 0..4usize, -9..9i32).prop_map(|(kind, at, value)| match kind {
        0 => json!({"op": "add", "path": format!("/o/k{at}"), "value": value}),
        1 => json!({"op": "remove", "path": format!("/o/k{at}")}),
        2 => json!({"op": "replace", "path": format!("/list/{at}"), "value": value}),
        3 => json!({"op": "add", "path": "/list/-", "value": value}),
        4 => json!({"op": "add", "path": format!("/list/{at}"), "value": value}),
        5 => json!({"op": "remove", "path": format!("/list/{at}")}),
        _ => json!({"op": "move", "from": format!("/list/{at}"), "path": format!("/o/k{at}")}),
    });
    prop::collection::vec(one, 1..4).prop_map(Value::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The promise: what was accepted applies in the order of the log, without error, to the same value. And a patch
    /// that was accepted on an older base does there what it does on the newest.
    #[test]
    fn accepted_patches_apply_in_log_order_on_every_reader(
        sent in prop::collection::vec((some_ops(), 0..6usize), 1..30)
    ) {
        let start = json!({"o": {"k0": 0}, "list": [0, 1, 2]});
        let content = DocumentContent::new(start).unwrap();
        let mut state = DocumentState::new(content.clone(), 1, 1);
        let mut log: Vec<(u64, Vec<PatchOp>)> = Vec::new();
        let mut bases = vec![1u64];
        for (ops, behind) in sent {
            let base = bases[bases.len().saturating_sub(1 + behind)];
            let patch = patch(base, &ops);
            let before = state.content.clone();
            match state.judge(&patch) {
                Ok(judged) => {
                    let sequence = state.sequence + 1;
                    state.land([(sequence, judged.ops_bytes())]);
                    log.push((sequence, patch.ops));
                    bases.push(sequence);
                }
                Err(_) => prop_assert_eq!(&state.content, &before),
            }
        }
        let mut reader = DocumentState::new(content, 1, 1);
        for (sequence, ops) in &log {
            prop_assert!(reader.follow(*sequence, ops, 1).is_ok());
        }
        prop_assert_eq!(reader.content.sorted_text(), state.content.sorted_text());
    }
}
