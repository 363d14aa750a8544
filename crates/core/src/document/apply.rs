//! What of an entity's or a view's document is written to its row. Pure: the row is handed in as it is now.
//!
//! A field is written if the document has changed it since it last saw the row. If the row has changed the same field
//! meanwhile, nothing is written. A field that the document has not, or has as `null`, is taken out of the row.

use serde_json::Value;

use super::content::is_equal;
use super::{DocumentKind, DocumentOrigin};
use crate::definitions::{DefinitionDoc, DefinitionKind, Entity, StoredDefinition, View, patched};
use crate::error::{Conflict, Error, Result};
use crate::json::Json;
use crate::store::Record;

/// The fields of a view that a document has.
const VIEW_FIELDS: [&str; 3] = ["title", "description", "questions"];

/// The row of an entity or a view.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinedRow {
    Entity(Box<StoredDefinition<Entity>>),
    View(Box<StoredDefinition<View>>),
}

/// Fields to write, by name.
pub type ChangedFields = Vec<(String, Json)>;

impl DefinedRow {
    pub fn of(doc: &DefinitionDoc) -> Result<Self> {
        match doc.kind {
            DefinitionKind::Entity => Ok(Self::Entity(Box::new(StoredDefinition::of(doc)?))),
            DefinitionKind::View => Ok(Self::View(Box::new(StoredDefinition::of(doc)?))),
            other => Err(Error::internal(format!("a document was applied to a {}", other.as_str()))),
        }
    }

    pub fn id(&self) -> &str {
        match self {
            Self::Entity(entity) => &entity.id,
            Self::View(view) => &view.id,
        }
    }

    /// What kind of thing it is: the type of an entity, or `view`.
    pub fn type_slug(&self) -> &str {
        match self {
            Self::Entity(entity) => &entity.value.type_slug,
            Self::View(_) => DocumentKind::View.as_str(),
        }
    }

    pub fn version(&self) -> u64 {
        match self {
            Self::Entity(entity) => entity.version,
            Self::View(view) => view.version,
        }
    }

    /// The fields that a document of it has.
    pub fn fields(&self) -> Result<Json> {
        match self {
            Self::Entity(entity) => Ok(entity.value.fields.clone()),
            Self::View(view) => {
                let all = Json::of(&view.value)?.fields();
                let shown = all
                    .iter()
                    .filter(|(key, value)| VIEW_FIELDS.contains(&key.as_str()) && value.as_str() != "null");
                Ok(Json::object(shown.map(|(key, value)| (key.as_str(), value))))
            }
        }
    }

    /// The row as a document sees it.
    pub fn origin(&self) -> Result<DocumentOrigin> {
        Ok(DocumentOrigin { version: self.version(), fields: self.fields()? })
    }

    /// The record that writes these fields over this version of the row.
    pub fn write(&self, changed: &[(String, Json)]) -> Result<Record> {
        Ok(Record::PutDoc { doc: Box::new(self.with(changed)?), expects: Some(self.version()) })
    }

    /// The row with these fields, as it is stored: a view fills in what its questions leave out.
    fn with(&self, changed: &[(String, Json)]) -> Result<DefinitionDoc> {
        match self {
            Self::Entity(entity) => {
                let mut entity = entity.clone();
                let (gone, kept): (Vec<_>, Vec<_>) =
                    changed.iter().cloned().partition(|(_, value)| value.as_str() == "null");
                entity.value.take(&kept);
                let fields = entity.value.fields.fields();
                let left = fields.iter().filter(|(key, _)| !gone.iter().any(|(name, _)| name == key));
                entity.value.fields = Json::object(left.map(|(key, value)| (key.as_str(), value)));
                entity.to_doc()
            }
            Self::View(view) => {
                let patch = Json::object(changed.iter().map(|(key, value)| (key.as_str(), value)));
                let value = patched(&view.value, &patch)?;
                StoredDefinition { value, ..(**view).clone() }.to_doc()
            }
        }
    }

    /// The fields to write, so that the row has what the document has changed since `origin`.
    pub fn changes(&self, origin: &DocumentOrigin, document: &Value) -> Result<ChangedFields> {
        let Value::Object(document) = document else {
            return Err(Error::invalid("document", "must be an object to be applied"));
        };
        if let (Self::View(_), Some(other)) =
            (self, document.keys().find(|key| !VIEW_FIELDS.contains(&key.as_str())))
        {
            let message = format!("has `{other}`: a view has title, description and questions here");
            return Err(Error::invalid("document", message));
        }
        let (origin, row) = (origin.fields.value(), self.fields()?.value());
        let known = origin.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
        let mut names: Vec<String> = document.keys().cloned().chain(known.unwrap_or_default()).collect();
        names.sort_unstable();
        names.dedup();
        let mut changed = ChangedFields::new();
        let mut stale = Vec::new();
        for name in names {
            let [wanted, seen, found] = [document.get(&name), origin.get(&name), row.get(&name)]
                .map(|value| value.unwrap_or(&Value::Null));
            if is_equal(wanted, seen) || is_equal(wanted, found) {
                continue;
            }
            if !is_equal(found, seen) {
                stale.push(name);
                continue;
            }
            changed.push((name, Json::of(wanted)?));
        }
        if !stale.is_empty() {
            return Err(Conflict::StaleRow { fields: stale }.into());
        }
        if !changed.is_empty() {
            // What the row would have is compared, not what the document says: a view fills in what is left out.
            let after = Self::of(&self.with(&changed)?)?.fields()?.value();
            changed.retain(|(name, _)| {
                let [found, written] = [&row, &after].map(|fields| fields.get(name).unwrap_or(&Value::Null));
                !is_equal(found, written)
            });
        }
        Ok(changed)
    }
}

impl DocumentOrigin {
    /// What the document has seen of its row after these fields of it were written.
    pub fn after(&self, written: &DefinedRow, version: u64, names: &[String]) -> Result<Self> {
        let mut fields = self.fields.fields();
        fields.retain(|(key, _)| !names.contains(key));
        fields.extend(written.fields()?.fields().into_iter().filter(|(key, _)| names.contains(key)));
        let fields = Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)));
        Ok(Self { version, fields })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::time::Timestamp;

    fn json_of(value: &Value) -> Json {
        Json::of(value).unwrap()
    }

    fn stored<T>(value: T) -> StoredDefinition<T> {
        let at = Timestamp::default();
        StoredDefinition {
            id: "r".into(),
            value,
            version: 3,
            created_by: None,
            created_at: at,
            updated_at: at,
        }
    }

    fn entity(fields: &Value) -> DefinedRow {
        let value = Entity { type_slug: "company".into(), title: None, fields: json_of(fields) };
        DefinedRow::Entity(Box::new(stored(value)))
    }

    fn origin(fields: &Value) -> DocumentOrigin {
        DocumentOrigin { version: 2, fields: json_of(fields) }
    }

    #[test]
    fn a_field_is_written_if_the_document_changed_it_and_the_row_did_not() {
        // What the document saw, what it has, what the row has, and what is written: `!` for a conflict.
        let table = [
            (json!({"a": 1}), json!({"a": 1}), json!({"a": 1}), json!({})),
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 1}), json!({"a": 2})),
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 1.0}), json!({"a": 2})),
            (json!({"a": 1}), json!({"a": 1}), json!({"a": 9}), json!({})),
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 2}), json!({})),
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 9}), json!("!")),
            (json!({"a": 1}), json!({}), json!({"a": 1}), json!({"a": null})),
            (json!({"a": 1}), json!({"a": null}), json!({"a": 1}), json!({"a": null})),
            (json!({"a": 1}), json!({}), json!({"a": 9}), json!("!")),
            (json!({}), json!({"b": [1]}), json!({}), json!({"b": [1]})),
            (json!({}), json!({"b": 1}), json!({"b": 2}), json!("!")),
        ];
        for (seen, document, row, expected) in table {
            let found = match entity(&row).changes(&origin(&seen), &document) {
                Ok(changed) => changed.into_iter().map(|(key, value)| (key, value.value())).collect(),
                Err(Error::Conflict(Conflict::StaleRow { .. })) => json!("!"),
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "saw {seen}, has {document}, row {row}");
        }
        assert!(entity(&json!({})).changes(&origin(&json!({})), &json!([])).is_err());
    }

    #[test]
    fn fields_are_written_over_the_version_that_was_read_and_null_takes_one_out() {
        let changed = [("a".to_owned(), json_of(&json!(2))), ("b".to_owned(), json_of(&Value::Null))];
        let record = entity(&json!({"a": 1, "b": 1, "c": 1})).write(&changed).unwrap();
        let Record::PutDoc { doc, expects } = record else { panic!("no document is written") };
        assert_eq!((expects, doc.body.value()["fields"].clone()), (Some(3), json!({"a": 2, "c": 1})));
        let written = DefinedRow::of(&doc).unwrap();
        let names = changed.map(|(name, _)| name);
        let after = origin(&json!({"a": 1, "b": 1, "d": 1})).after(&written, 4, &names).unwrap();
        assert_eq!((after.version, after.fields.value()), (4, json!({"d": 1, "a": 2})), "and the rest stays");
    }

    #[test]
    fn a_view_takes_its_three_fields_and_no_other() {
        let view: View = crate::strict::read(
            Json::parse(br#"{"title":"Trip","questions":[{"key":"where","label":"Where?"}]}"#)
                .unwrap()
                .as_str(),
        )
        .unwrap();
        let row = DefinedRow::View(Box::new(stored(view)));
        let origin = row.origin().unwrap();
        assert_eq!(
            origin.fields.fields().iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["title", "questions"]
        );
        let mut document = origin.fields.value();
        document["title"] = json!("Journey");
        let changed = row.changes(&origin, &document).unwrap();
        let Record::PutDoc { doc, .. } = row.write(&changed).unwrap() else {
            panic!("no document is written")
        };
        assert_eq!(doc.body.value()["title"], json!("Journey"));
        let written = DefinedRow::of(&doc).unwrap();
        let seen = origin.after(&written, 4, &["title".to_owned()]).unwrap();
        document["questions"][0].as_object_mut().unwrap().retain(|key, _| key == "key" || key == "label");
        assert!(
            written.changes(&seen, &document).unwrap().is_empty(),
            "what a question leaves out is filled in"
        );
        document["publish_config"] = json!({});
        assert!(row.changes(&origin, &document).is_err());
        let nameless = [("title".to_owned(), json_of(&Value::Null))];
        assert!(row.write(&nameless).is_err(), "a view without a title is none");
    }
}
