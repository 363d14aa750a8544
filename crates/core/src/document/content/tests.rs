use proptest::prelude::*;
use serde_json::json;

use super::super::patch::read_ops;
use super::*;

fn content(value: Value) -> DocumentContent {
    DocumentContent::new(value).unwrap()
}

fn ops(value: &Value) -> Vec<PatchOp> {
    read_ops(&Json::of(value).unwrap()).unwrap()
}

#[test]
fn an_operation_does_what_rfc_6902_says_and_its_inverse_takes_it_back() {
    let start = || json!({"a": 1, "l": [1, 2, 3], "o": {"x": {"y": true}}, "~/": "k"});
    let table = [
        (json!([{"op": "add", "path": "/b", "value": 2}]), json!({"b": 2})),
        (json!([{"op": "add", "path": "/a", "value": [2]}]), json!({"a": [2]})),
        (json!([{"op": "add", "path": "/l/0", "value": 0}]), json!({"l": [0, 1, 2, 3]})),
        (json!([{"op": "add", "path": "/l/3", "value": 0}]), json!({"l": [1, 2, 3, 0]})),
        (json!([{"op": "add", "path": "/l/-", "value": 0}]), json!({"l": [1, 2, 3, 0]})),
        (json!([{"op": "add", "path": "/~0~1", "value": 0}]), json!({"~/": 0})),
        (json!([{"op": "remove", "path": "/l/1"}]), json!({"l": [1, 3]})),
        (json!([{"op": "remove", "path": "/o/x"}]), json!({"o": {}})),
        (json!([{"op": "replace", "path": "/o/x/y", "value": null}]), json!({"o": {"x": {"y": null}}})),
        (json!([{"op": "replace", "path": "/l/2", "value": "three"}]), json!({"l": [1, 2, "three"]})),
        (json!([{"op": "move", "from": "/l/0", "path": "/l/2"}]), json!({"l": [2, 3, 1]})),
        (json!([{"op": "move", "from": "/l/0", "path": "/l/-"}]), json!({"l": [2, 3, 1]})),
        (json!([{"op": "move", "from": "/a", "path": "/o/x"}]), json!({"a": "gone", "o": {"x": 1}})),
        (json!([{"op": "move", "from": "/o/x", "path": "/o"}]), json!({"o": {"y": true}})),
        (json!([{"op": "move", "from": "/a", "path": "/a"}]), json!({})),
        (json!([{"op": "copy", "from": "/l", "path": "/l/0"}]), json!({"l": [[1, 2, 3], 1, 2, 3]})),
        (
            json!([{"op": "copy", "from": "/o", "path": "/o/x/z"}]),
            json!({"o": {"x": {"y": true, "z": {"x": {"y": true}}}}}),
        ),
        (
            json!([{"op": "test", "path": "/a", "value": 1.0}, {"op": "replace", "path": "/a", "value": 2}]),
            json!({"a": 2}),
        ),
    ];
    for (patch, changes) in table {
        let mut expected = start();
        for (key, value) in changes.as_object().unwrap() {
            if value == "gone" {
                expected.as_object_mut().unwrap().swap_remove(key);
            } else {
                expected[key] = value.clone();
            }
        }
        let mut document = content(start());
        let applied = document.apply(&ops(&patch)).unwrap();
        assert_eq!(document.value(), &expected, "{patch}");
        assert_eq!(document.bytes(), document.sorted_text().len(), "{patch}");
        document.take_back(applied.inverse);
        assert_eq!(document, content(start()), "{patch} taken back");
    }
    let mut document = content(start());
    let applied = document.apply(&ops(&json!([{"op": "move", "from": "/o", "path": ""}]))).unwrap();
    assert_eq!(document.value(), &json!({"x": {"y": true}}));
    document.take_back(applied.inverse);
    assert_eq!(document, content(start()));
}

#[test]
fn a_refused_operation_names_its_place_and_leaves_the_document_as_it_was() {
    let start = || json!({"a": 1, "l": [1, 2]});
    let first = json!({"op": "add", "path": "/l/-", "value": 3});
    let table = [
        (json!({"op": "add", "path": "/l/01", "value": 0}), "ops[1].path"),
        (json!({"op": "add", "path": "/l/9", "value": 0}), "ops[1].path"),
        (json!({"op": "add", "path": "/l/x", "value": 0}), "ops[1].path"),
        (json!({"op": "add", "path": "/x/y", "value": 0}), "ops[1].path"),
        (json!({"op": "add", "path": "/a/y", "value": 0}), "ops[1].path"),
        (json!({"op": "replace", "path": "/l/-", "value": 0}), "ops[1].path"),
        (json!({"op": "replace", "path": "/l/3", "value": 0}), "ops[1].path"),
        (json!({"op": "replace", "path": "/x", "value": 0}), "ops[1].path"),
        (json!({"op": "remove", "path": "/l/-"}), "ops[1].path"),
        (json!({"op": "remove", "path": "/l/3"}), "ops[1].path"),
        (json!({"op": "remove", "path": "/x"}), "ops[1].path"),
        (json!({"op": "move", "from": "/x", "path": "/y"}), "ops[1].from"),
        (json!({"op": "move", "from": "/a", "path": "/x/y"}), "ops[1].path"),
        (json!({"op": "move", "from": "/l/0", "path": "/l/3"}), "ops[1].path"),
        (json!({"op": "copy", "from": "/l/7", "path": "/y"}), "ops[1].from"),
        (json!({"op": "test", "path": "/l/01", "value": 1}), "ops[1].path"),
        (json!({"op": "test", "path": "/a", "value": 2}), "ops[1].value"),
    ];
    for (second, field) in table {
        let mut document = content(start());
        let refused = document.apply(&ops(&json!([first, second]))).unwrap_err();
        assert_eq!(refused.failed_test.is_some(), field == "ops[1].value", "{second}");
        match Error::from(refused) {
            Error::Invalid { field: found, .. } => assert_eq!(found, field, "{second}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(document, content(start()), "{second}");
    }
}

#[test]
fn a_document_meets_its_limits_and_no_operation_goes_past_them() {
    let most = limits::SHARED_DOCUMENT_BYTES_MAX;
    let text = |bytes: usize| Value::String("x".repeat(bytes - 2));
    assert!(DocumentContent::new(text(most)).is_ok());
    assert!(DocumentContent::new(text(most + 1)).is_err());
    let nested = |levels: usize| (1..levels).fold(json!([]), |inner, _| json!([inner]));
    assert!(DocumentContent::new(nested(limits::SHARED_DOCUMENT_DEPTH_MAX)).is_ok());
    assert!(DocumentContent::new(nested(limits::SHARED_DOCUMENT_DEPTH_MAX + 1)).is_err());

    let mut deep = content(json!({"a": nested(limits::SHARED_DOCUMENT_DEPTH_MAX - 1)}));
    let before = deep.clone();
    assert!(deep.apply(&ops(&json!([{"op": "copy", "from": "/a", "path": "/b"}]))).is_ok());
    assert!(
        deep.apply(&ops(
            &json!([{"op": "add", "path": "/o", "value": {}}, {"op": "copy", "from": "/a", "path": "/o/b"}])
        ))
        .is_err()
    );
    assert!(before.bytes() < deep.bytes());

    // Each copy doubles the document; the first that goes too far is refused, and none of the patch stays.
    let doubling: Vec<Value> =
        (0..40).map(|at| json!({"op": "copy", "from": "", "path": format!("/c{at}")})).collect();
    let mut document = content(json!({"text": "x".repeat(1000)}));
    let before = document.clone();
    let refused = document.apply(&ops(&Value::Array(doubling))).unwrap_err();
    assert_eq!(refused.at, 8, "1,000 bytes are doubled eight times before they are more than 256 KiB");
    assert_eq!(document, before);
    // What gives way makes room for what comes.
    let half = "x".repeat(most / 2 - 20);
    let mut full = content(json!({"a": half, "b": half}));
    assert!(full.apply(&ops(&json!([{"op": "copy", "from": "/a", "path": "/b"}]))).is_ok());
    assert!(full.apply(&ops(&json!([{"op": "copy", "from": "/a", "path": "/c"}]))).is_err());
}

#[test]
fn numbers_are_equal_by_value_and_objects_in_any_order() {
    let table = [
        (json!(1), json!(1.0), true),
        (json!(-3), json!(-3.0), true),
        (json!(0), json!(-0.0), true),
        (json!(1), json!(1.5), false),
        (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0), false),
        (json!(u64::MAX), json!(18_446_744_073_709_551_616.0), false),
        (json!(1), json!("1"), false),
        (json!([1, 2]), json!([2, 1]), false),
        (json!({"a": [1.0], "b": 2}), json!({"b": 2.0, "a": [1]}), true),
        (json!(null), json!(false), false),
    ];
    for (a, b, equal) in table {
        assert_eq!((is_equal(&a, &b), is_equal(&b, &a)), (equal, equal), "{a} {b}");
    }
}

#[test]
fn the_text_has_sorted_keys_and_its_digest_is_that_of_its_bytes() {
    let document = content(json!({"b": {"z": 1, "a": "\u{1}\n\"é"}, "a": [true, false, null, -1.5, 10]}));
    let text = document.sorted_text();
    assert_eq!(text.as_str(), r#"{"a":[true,false,null,-1.5,10],"b":{"a":"\u0001\n\"é","z":1}}"#);
    assert_eq!(text.len(), document.bytes());
    assert_eq!(
        digest(&Json::stored("{}")),
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

/// Values small enough that paths of random patches meet them.
fn small_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5i64..5).prop_map(Value::from),
        "[a-c\"\n]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-c]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn some_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof!["[a-c]", "[0-3]", Just("-".to_owned())], 0..4)
        .prop_map(|tokens| tokens.iter().map(|token| format!("/{token}")).collect())
}

fn some_op() -> impl Strategy<Value = Value> {
    (0..6usize, some_path(), some_path(), small_value()).prop_map(|(kind, from, path, value)| match kind {
        0 => json!({"op": "add", "path": path, "value": value}),
        1 => json!({"op": "remove", "path": if path.is_empty() { "/a".to_owned() } else { path }}),
        2 => json!({"op": "replace", "path": path, "value": value}),
        3 => json!({"op": "copy", "from": from, "path": path}),
        // The peer moves no whole document, not even onto itself.
        4 if !from.is_empty() && (from == path || !path.starts_with(&from)) => {
            json!({"op": "move", "from": from, "path": path})
        }
        _ => json!({"op": "test", "path": path, "value": value}),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_patches_do_what_another_implementation_does(start in small_value(), patch in prop::collection::vec(some_op(), 1..5)) {
        let Ok(read) = read_ops(&Json::of(&patch).unwrap()) else { return Ok(()) };
        let mut document = content(start.clone());
        let mut peer = start.clone();
        // The peer applies one operation at a time: its way back from a failure is not under test.
        let mut peer_failed = false;
        for op in &patch {
            let one: json_patch::Patch = serde_json::from_value(json!([op])).unwrap();
            // Its `test` compares numbers by their spelling, which these values have alike.
            let before = peer.clone();
            if json_patch::patch_unsafe(&mut peer, &one).is_err() {
                peer = before;
                peer_failed = true;
                break;
            }
        }
        match document.apply(&read) {
            Ok(applied) => {
                prop_assert!(!peer_failed, "{start} {patch:?}");
                prop_assert_eq!(document.value(), &peer);
                prop_assert_eq!(document.bytes(), document.sorted_text().len());
                // The inverse is a patch like any other, and takes this one back.
                let inverse: Vec<Value> = applied.inverse.iter().map(PatchOp::to_value).collect();
                if !inverse.is_empty() {
                    let inverse = ops(&Value::Array(inverse));
                    document.apply(&inverse).unwrap();
                }
                prop_assert_eq!(document.value(), &start);
            }
            Err(_) => {
                prop_assert!(peer_failed, "{start} {patch:?}");
                prop_assert_eq!(document.value(), &start);
            }
        }
        prop_assert_eq!(document.bytes(), document.sorted_text().len());
    }
}
