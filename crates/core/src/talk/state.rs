//! The state that a conversation carries from turn to turn: fields, each with a declared reducer.
//!
//! A turn names only what it changed. The change is written into the event that closes the turn, and the fold of all
//! changes is the state, so any past state can be read from the log and the stored one can be checked. What was said
//! (`history`, `transcript`) is the log itself and is stored nowhere else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::limits;

/// How a field takes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// Grows with every turn: the log itself.
    Append,
    /// Key by key; `null` removes a key, and `null` in place of the object empties the field.
    Merge,
    /// Describes one turn; cleared by the next one unless set again.
    Overwrite,
}

/// Every field of the state.
pub const FIELDS: &[(&str, Reducer)] = &[
    ("history", Reducer::Append),
    ("transcript", Reducer::Append),
    ("session_progress", Reducer::Merge),
    ("session_memory", Reducer::Merge),
    ("exercise_state", Reducer::Merge),
    ("memory_control", Reducer::Merge),
    ("diagnostics", Reducer::Merge),
    ("crisis", Reducer::Overwrite),
    ("crisis_audit", Reducer::Overwrite),
    ("route", Reducer::Overwrite),
    ("response_text", Reducer::Overwrite),
    ("response_style", Reducer::Overwrite),
    ("therapeutic_approach", Reducer::Overwrite),
    ("lookups", Reducer::Overwrite),
];

/// One turn in this many carries the whole state: reading a past state goes back no further.
pub const WHOLE_EVERY: u64 = 64;

fn reducer(field: &str) -> Option<Reducer> {
    FIELDS.iter().find(|(name, _)| *name == field).map(|(_, reducer)| *reducer)
}

/// The fields that are not the log itself, or a change of them. Shared, because a turn hands them on several times and
/// changes them once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateFields(Arc<Map<String, Value>>);

impl StateFields {
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// A value inside a merged field.
    pub fn at(&self, field: &str, key: &str) -> Option<&Value> {
        self.0.get(field)?.get(key)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a field to a change. A later change of the same merged field adds to an earlier one.
    #[must_use]
    pub fn with(mut self, field: &'static str, value: Value) -> Self {
        let fields = Arc::make_mut(&mut self.0);
        match (reducer(field), fields.get_mut(field), value) {
            (Some(Reducer::Merge), Some(Value::Object(kept)), Value::Object(more)) => kept.extend(more),
            (_, _, value) => {
                fields.insert(field.to_owned(), value);
            }
        }
        self
    }

    /// Refuses a change that names an unknown field or one of the log, or that is too large for an event.
    pub fn check(&self) -> Result<()> {
        for (field, value) in &*self.0 {
            match reducer(field) {
                Some(Reducer::Merge) if value.is_object() || value.is_null() => {}
                Some(Reducer::Overwrite) => {}
                _ => return Err(Error::internal(format!("`{field}` cannot be changed like this"))),
            }
        }
        let bytes = serde_json::to_vec(&*self.0).map_err(Error::internal)?.len();
        if bytes > limits::TURN_DELTA_BYTES_MAX {
            return Err(Error::TooLarge { what: "change of state", limit: limits::TURN_DELTA_BYTES_MAX });
        }
        Ok(())
    }

    /// Applies the change of one turn.
    pub fn apply(&mut self, change: &Self) {
        Arc::make_mut(&mut self.0).retain(|field, _| reducer(field) != Some(Reducer::Overwrite));
        self.touch(change);
    }

    /// Applies a change that belongs to no turn: the fields that describe the last turn stay.
    pub fn touch(&mut self, change: &Self) {
        let fields = Arc::make_mut(&mut self.0);
        for (field, value) in &*change.0 {
            match (reducer(field), value) {
                (Some(Reducer::Merge), Value::Object(more)) => {
                    let kept = fields.entry(field.clone()).or_insert_with(|| Value::Object(Map::new()));
                    if let Value::Object(kept) = kept {
                        for (key, value) in more {
                            match value {
                                Value::Null => drop(kept.remove(key)),
                                value => drop(kept.insert(key.clone(), value.clone())),
                            }
                        }
                        if kept.is_empty() {
                            fields.remove(field);
                        }
                    }
                }
                (Some(Reducer::Append), _) | (None, _) => {}
                (_, Value::Null) => drop(fields.remove(field)),
                (_, value) => drop(fields.insert(field.clone(), value.clone())),
            }
        }
    }
}

/// What an event says about the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateNote {
    /// The change, or the whole state.
    #[serde(default, skip_serializing_if = "StateFields::is_empty")]
    pub state: StateFields,
    /// `state` is all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// Applies one event to a state. Only the engine writes events that change it.
pub fn take(state: &mut StateFields, event: &Event) {
    let turn = match event.kind.as_str() {
        "session.turn" => true,
        "session.sitting_started" | "session.sitting_ended" | "session.introspection" => false,
        _ => return,
    };
    let Some(said) = event.metadata.as_ref().and_then(|metadata| metadata.read::<StateNote>().ok()) else {
        return;
    };
    if said.whole {
        *state = said.state;
    } else if turn {
        state.apply(&said.state);
    } else {
        state.touch(&said.state);
    }
}

/// Whether an event carries the whole state, so that nothing before it has to be read.
pub fn is_whole(event: &Event) -> bool {
    event.kind.as_str() == "session.turn"
        && event
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.read::<StateNote>().ok())
            .is_some_and(|said| said.whole)
}

/// The event types that change the state.
pub const SAYING: [&str; 4] =
    ["session.turn", "session.sitting_started", "session.sitting_ended", "session.introspection"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fields(value: &Value) -> StateFields {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn each_field_takes_a_change_by_its_reducer() {
        let cases = [
            (
                "merges key by key",
                json!({"diagnostics": {"a": 1}}),
                json!({"diagnostics": {"b": 2}}),
                json!({"diagnostics": {"a": 1, "b": 2}}),
            ),
            (
                "null removes a key",
                json!({"exercise_state": {"step": 1, "kind": "x"}}),
                json!({"exercise_state": {"step": null}}),
                json!({"exercise_state": {"kind": "x"}}),
            ),
            (
                "null empties a merged field",
                json!({"exercise_state": {"step": 1}}),
                json!({"exercise_state": null}),
                json!({}),
            ),
            (
                "what describes a turn goes with the next",
                json!({"route": "crisis", "crisis": {"level": 2}}),
                json!({"route": "talk"}),
                json!({"route": "talk"}),
            ),
            ("what was said is the log's", json!({}), json!({"history": ["x"], "unknown": 1}), json!({})),
        ];
        for (name, before, change, after) in cases {
            let mut state = fields(&before);
            state.apply(&fields(&change));
            assert_eq!(state, fields(&after), "{name}");
        }
    }

    #[test]
    fn a_change_between_turns_leaves_what_the_last_turn_said() {
        let mut state = fields(&json!({"route": "talk", "exercise_state": {"step": 2}}));
        state.touch(&fields(&json!({"exercise_state": null})));
        assert_eq!(state, fields(&json!({"route": "talk"})));
    }

    #[test]
    fn a_change_is_refused_when_it_names_no_field_or_is_too_large() {
        for bad in [json!({"history": []}), json!({"hello": 1}), json!({"diagnostics": 1})] {
            assert!(fields(&bad).check().is_err(), "{bad}");
        }
        let sized = |n: usize| fields(&json!({"route": "x".repeat(n - r#"{"route":""}"#.len())}));
        assert!(sized(limits::TURN_DELTA_BYTES_MAX).check().is_ok());
        assert_eq!(sized(limits::TURN_DELTA_BYTES_MAX + 1).check().unwrap_err().code(), "too_large");
    }

    fn change() -> impl Strategy<Value = StateFields> {
        let key = prop::sample::select(vec!["a", "b", "c"]);
        let value = prop_oneof![Just(Value::Null), any::<u8>().prop_map(Value::from)];
        let object = prop::collection::btree_map(key, value.clone(), 0..3)
            .prop_map(|map| Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()));
        let merged = prop::sample::select(vec!["diagnostics", "exercise_state", "session_memory"]);
        let overwritten = prop::sample::select(vec!["route", "crisis"]);
        (
            prop::collection::vec((merged, prop_oneof![object, Just(Value::Null)]), 0..3),
            prop::option::of((overwritten, value)),
        )
            .prop_map(|(merged, overwritten)| {
                merged
                    .into_iter()
                    .chain(overwritten)
                    .fold(StateFields::default(), |all, (field, value)| all.with(field, value))
            })
    }

    fn event(sequence: u64, said: &StateNote) -> Event {
        Event {
            session_id: crate::ids::SessionId::stored("s"),
            sequence,
            kind: crate::event::EventType::known("session.turn"),
            content: None,
            metadata: Some(crate::json::Json::of(said).unwrap()),
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            at: crate::time::Timestamp::default(),
        }
    }

    proptest! {
        #[test]
        fn a_log_read_from_a_whole_state_on_tells_the_same_as_all_of_it(
            changes in prop::collection::vec(change(), 1..20),
            at in any::<prop::sample::Index>(),
        ) {
            let at = at.index(changes.len());
            let mut kept = StateFields::default();
            let mut log = Vec::new();
            for (n, change) in changes.iter().enumerate() {
                kept.apply(change);
                let whole = n == at;
                let state = if whole { kept.clone() } else { change.clone() };
                log.push(event(n as u64 + 1, &StateNote { state, whole }));
            }
            for from in [0, at] {
                let mut folded = StateFields::default();
                log[from..].iter().for_each(|event| take(&mut folded, event));
                prop_assert_eq!(&folded, &kept, "from {}", from);
            }
            prop_assert_eq!(log.iter().position(is_whole), Some(at));
        }
    }
}
