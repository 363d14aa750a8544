//! Write-back: the entities that a run's result changes and makes. Pure; `engine/approvals.rs` reads the entities and
//! commits the records.

use std::collections::HashMap;

use super::output::{OutputContract, OutputType};
use super::write_grant::{EntityWrite, WriteGrant};
use crate::approval::ApprovalKind;
use crate::definitions::{Entity, StoredDefinition};
use crate::error::{Error, Result};
use crate::ids::IdSource;
use crate::json::Json;
use crate::session::decide::SessionStep;
use crate::store::Record;
use crate::time::Timestamp;

/// What decides which entities a run writes.
#[derive(Clone, Copy, Debug)]
pub struct WriteBack<'a> {
    pub output: &'a OutputContract,
    /// The entity that the run is about.
    pub about: Option<&'a str>,
    pub grant: &'a WriteGrant,
}

/// Entities by the names that [`WriteBack::named`] gave.
pub type NamedEntities = HashMap<String, StoredDefinition<Entity>>;

/// The values that a step asks a person to approve as its output.
pub fn staged(step: &SessionStep) -> Option<&Json> {
    step.records.iter().find_map(|record| match record {
        Record::AddApproval(asked) if asked.kind == ApprovalKind::Output => asked.body.staged.as_ref(),
        _ => None,
    })
}

impl WriteBack<'_> {
    /// The names of the entities that these values may change. Those that exist are handed to [`Self::records`].
    pub fn named(&self, values: &Json) -> Vec<String> {
        match self.output.kind {
            OutputType::None | OutputType::Text | OutputType::Object => Vec::new(),
            OutputType::Entity | OutputType::RelationEntity => {
                self.about.map(str::to_owned).into_iter().collect()
            }
            OutputType::Entities => listed(values).into_iter().filter_map(|(id, _)| id).collect(),
        }
    }

    /// The entity records of a run's values, each guarded by the version that was read.
    pub fn records(&self, values: &Json, known: &NamedEntities, ids: &dyn IdSource) -> Result<Vec<Record>> {
        match self.output.kind {
            OutputType::None | OutputType::Text | OutputType::Object => Ok(Vec::new()),
            OutputType::Entity => Ok(vec![self.put(self.about, known, &values.fields(), ids)?]),
            OutputType::Entities => listed(values)
                .iter()
                .map(|(id, fields)| self.put(id.as_deref(), known, fields, ids))
                .collect(),
            OutputType::RelationEntity => self.put_related(known, &values.fields(), ids),
        }
    }

    /// Changes the entity of this name, or makes one.
    fn put(
        &self,
        id: Option<&str>,
        known: &NamedEntities,
        fields: &[(String, Json)],
        ids: &dyn IdSource,
    ) -> Result<Record> {
        match id.and_then(|id| known.get_key_value(id)) {
            Some((id, entity)) => self.change(id, entity, fields),
            None => self.make(id, fields, ids).and_then(|made| put_doc(&made, None)),
        }
    }

    /// Makes an entity, and lists it in the one that the run is about.
    fn put_related(
        &self,
        known: &NamedEntities,
        fields: &[(String, Json)],
        ids: &dyn IdSource,
    ) -> Result<Vec<Record>> {
        let made = self.make(None, fields, ids)?;
        let mut records = Vec::new();
        if let (Some(relation), Some(source)) =
            (&self.output.relation, self.about.and_then(|about| known.get(about)))
        {
            let before = source.value.fields.fields();
            let listed = before.iter().find(|(key, _)| key == relation);
            let mut related: Vec<String> = listed.and_then(|(_, ids)| ids.read().ok()).unwrap_or_default();
            related.push(made.id.to_string());
            records.push(self.change(&source.id, source, &[(relation.clone(), Json::of(&related)?)])?);
        }
        records.push(put_doc(&made, None)?);
        Ok(records)
    }

    fn change(
        &self,
        id: &str,
        entity: &StoredDefinition<Entity>,
        fields: &[(String, Json)],
    ) -> Result<Record> {
        self.check(EntityWrite::Change { id })?;
        let mut entity = entity.clone();
        entity.value.take(fields);
        put_doc(&entity, Some(entity.version))
    }

    fn make(
        &self,
        id: Option<&str>,
        fields: &[(String, Json)],
        ids: &dyn IdSource,
    ) -> Result<StoredDefinition<Entity>> {
        let Some(type_slug) = self.output.entity_type.as_deref() else {
            return Err(Error::OutputInvalid {
                complaints: vec!["the run is about no entity, and its contract names no type to make".into()],
            });
        };
        self.check(EntityWrite::Make { type_slug })?;
        Ok(StoredDefinition {
            id: id.map_or_else(|| ids.ordered().to_string().into(), Into::into),
            value: Entity::of_fields(type_slug, fields),
            version: 0,
            created_by: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        })
    }

    fn check(&self, write: EntityWrite<'_>) -> Result<()> {
        match self.grant.complaint(write) {
            None => Ok(()),
            Some(complaint) => Err(Error::OutputInvalid { complaints: vec![complaint] }),
        }
    }
}

/// An item of a list of entities: the id that it names, and its other fields.
type ListedEntity = (Option<String>, Vec<(String, Json)>);

fn listed(values: &Json) -> Vec<ListedEntity> {
    let items = values.read::<Vec<Json>>().unwrap_or_default();
    let parted = items.iter().map(|item| {
        let (named, fields): (Vec<_>, Vec<_>) = item.fields().into_iter().partition(|(key, _)| key == "id");
        (named.first().and_then(|(_, id)| id.read().ok()), fields)
    });
    parted.collect()
}

pub(crate) fn put_doc(entity: &StoredDefinition<Entity>, expects: Option<u64>) -> Result<Record> {
    Ok(Record::PutDoc { doc: Box::new(entity.to_doc()?), expects })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CountedIds;

    const MADE: &str = "00000000-0000-0000-0000-000000000001";

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn contract(kind: &str) -> OutputContract {
        json(&format!(r#"{{"type":"{kind}","entity_type":"note","relation":"notes"}}"#)).read().unwrap()
    }

    fn known() -> NamedEntities {
        let doc = |id: &str, fields: &str| StoredDefinition {
            id: id.into(),
            value: Entity { type_slug: "lead".into(), title: None, fields: json(fields) },
            version: 7,
            created_by: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        [("e", r#"{"a":1,"notes":["n"]}"#), ("f", "{}")]
            .map(|(id, fields)| (id.to_owned(), doc(id, fields)))
            .into()
    }

    /// Id, expected version, type, title and fields of each record.
    fn written(records: &[Record]) -> Vec<(String, Option<u64>, String)> {
        let one = |record: &Record| match record {
            Record::PutDoc { doc, expects } => (doc.id.to_string(), *expects, doc.body.as_str().to_owned()),
            other => panic!("{other:?}"),
        };
        records.iter().map(one).collect()
    }

    #[test]
    fn a_result_changes_known_entities_and_makes_the_others() {
        let note = |title: &str, fields: &str| {
            format!(r#"{{"type_slug":"note","title":{title},"fields":{fields}}}"#)
        };
        let lead = |fields: &str| format!(r#"{{"type_slug":"lead","title":null,"fields":{fields}}}"#);
        let table = [
            ("text", Some("e"), r#""said""#, vec![]),
            ("object", Some("e"), r#"{"b":2}"#, vec![]),
            (
                "entity",
                Some("e"),
                r#"{"a":2,"b":3}"#,
                vec![("e", Some(7), lead(r#"{"a":2,"notes":["n"],"b":3}"#))],
            ),
            ("entity", None, r#"{"name":"N"}"#, vec![(MADE, None, note(r#""N""#, r#"{"name":"N"}"#))]),
            ("entity", Some("gone"), r#"{"b":3}"#, vec![("gone", None, note("null", r#"{"b":3}"#))]),
            (
                "entities",
                None,
                r#"[{"id":"f","b":1},{"b":2},{"id":"new","b":3}]"#,
                vec![
                    ("f", Some(7), lead(r#"{"b":1}"#)),
                    (MADE, None, note("null", r#"{"b":2}"#)),
                    ("new", None, note("null", r#"{"b":3}"#)),
                ],
            ),
            (
                "relation-entity",
                Some("e"),
                r#"{"b":1}"#,
                vec![
                    ("e", Some(7), lead(&format!(r#"{{"a":1,"notes":["n","{MADE}"]}}"#))),
                    (MADE, None, note("null", r#"{"b":1}"#)),
                ],
            ),
            ("relation-entity", None, r#"{"b":1}"#, vec![(MADE, None, note("null", r#"{"b":1}"#))]),
        ];
        let grant = WriteGrant { types: vec!["note".into()], ids: vec!["e".into(), "f".into()] };
        for (kind, about, values, expected) in table {
            let output = contract(kind);
            let write_back = WriteBack { output: &output, about, grant: &grant };
            let records = write_back.records(&json(values), &known(), &CountedIds::default()).unwrap();
            let expected: Vec<_> =
                expected.into_iter().map(|(id, expects, body)| (id.to_owned(), expects, body)).collect();
            assert_eq!(written(&records), expected, "{kind} {about:?} {values}");
        }
    }

    #[test]
    fn what_was_not_granted_is_a_complaint() {
        let changes = WriteGrant { types: Vec::new(), ids: vec!["e".into()] };
        let makes = WriteGrant { types: vec!["note".into()], ids: Vec::new() };
        let table = [
            ("entity", Some("e"), r#"{"b":1}"#, &changes, None),
            ("entity", Some("f"), r#"{"b":1}"#, &changes, Some("the entity `f` was not given")),
            ("entity", None, r#"{"b":1}"#, &changes, Some("entities of type `note`")),
            ("entities", None, r#"[{"id":"f"}]"#, &makes, Some("the entity `f` was not given")),
            ("relation-entity", Some("e"), r#"{"b":1}"#, &makes, Some("the entity `e` was not given")),
            ("relation-entity", None, r#"{"b":1}"#, &makes, None),
        ];
        for (kind, about, values, grant, complaint) in table {
            let output = contract(kind);
            let write_back = WriteBack { output: &output, about, grant };
            let done = write_back.records(&json(values), &known(), &CountedIds::default());
            match (done, complaint) {
                (Ok(_), None) => {}
                (Err(Error::OutputInvalid { complaints }), Some(part)) => {
                    assert!(complaints[0].contains(part), "{complaints:?}");
                }
                (other, _) => panic!("{kind} {about:?}: {other:?}"),
            }
        }
        let typeless = OutputContract { entity_type: None, ..contract("entity") };
        let write_back = WriteBack { output: &typeless, about: None, grant: &makes };
        let refused = write_back.records(&json("{}"), &known(), &CountedIds::default()).unwrap_err();
        assert_eq!(refused.code(), "output_invalid");
    }

    #[test]
    fn only_entities_that_may_change_are_read() {
        let table = [
            ("object", Some("e"), r#"{"id":"f"}"#, vec![]),
            ("entity", Some("e"), r#"{"id":"f"}"#, vec!["e"]),
            ("entity", None, "{}", vec![]),
            ("entities", Some("e"), r#"[{"id":"f"},{"b":1},{"id":7}]"#, vec!["f"]),
            ("relation-entity", Some("e"), "{}", vec!["e"]),
        ];
        for (kind, about, values, names) in table {
            let output = contract(kind);
            let write_back = WriteBack { output: &output, about, grant: &WriteGrant::default() };
            assert_eq!(write_back.named(&json(values)), names, "{kind}");
        }
    }
}
