//! The document room: JSON values that several people and agents edit together in a mixed session. Owns the operations
//! ([`patch`], [`content`]), the places that they touch ([`paths`]), the judgement of patches ([`state`]) and what is written
//! to an entity or a view ([`apply`]). Refuses to know how patches are gathered and stored.

pub mod apply;
pub mod content;
pub mod patch;
pub mod paths;
pub mod pointer;
pub mod state;
mod store;

use serde::Deserialize;
use serde_json::json;

use crate::definitions::DefinitionKind;
use crate::error::{Conflict, Error, Result};
use crate::event::{AppendOutcome, EventType, NewEvent};
use crate::ids::{Incarnation, SessionId, check_name};
use crate::json::Json;
use crate::session::{Head, MemoryMode, Session, SessionType};

pub use content::DocumentContent;
pub use patch::DocumentPatch;
pub use state::DocumentState;
pub use store::DocumentStore;

/// The event type of patches, and of the opening.
pub const PATCH: &str = "state.patch";

/// What a document is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DocumentKind {
    /// Nothing outside the session.
    Scratch,
    /// The fields of an entity.
    Entity,
    /// The title, description and questions of a view.
    View,
}

impl DocumentKind {
    pub const ALL: [Self; 3] = [Self::Scratch, Self::Entity, Self::View];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scratch => "scratch",
            Self::Entity => "entity",
            Self::View => "view",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The definitions that documents of this kind begin from and are applied to.
    pub const fn row_kind(self) -> Option<DefinitionKind> {
        match self {
            Self::Scratch => None,
            Self::Entity => Some(DefinitionKind::Entity),
            Self::View => Some(DefinitionKind::View),
        }
    }
}

/// The name of a document in its session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentKey {
    pub kind: DocumentKind,
    pub id: Box<str>,
}

impl DocumentKey {
    /// The document that a caller names.
    pub fn parse(kind: &str, id: &str) -> Result<Self> {
        let kind = DocumentKind::parse(kind)
            .ok_or_else(|| Error::invalid("kind", "must be scratch, entity or view"))?;
        check_name("id", id)?;
        Ok(Self { kind, id: id.into() })
    }

    pub fn stored(kind: DocumentKind, id: impl Into<Box<str>>) -> Self {
        Self { kind, id: id.into() }
    }

    /// The document that a patch of a log names.
    pub fn of_metadata(metadata: &Json) -> Option<Self> {
        let PatchMetadata { document: NamedDocument { kind, id }, .. } = metadata.read().ok()?;
        Some(Self { kind: DocumentKind::parse(&kind)?, id: id.into() })
    }

    /// The name as one text: no kind has a `/`.
    pub fn joined(&self) -> String {
        format!("{}/{}", self.kind.as_str(), self.id)
    }

    fn to_value(&self) -> serde_json::Value {
        json!({"kind": self.kind.as_str(), "id": &*self.id})
    }
}

#[derive(Deserialize)]
struct NamedDocument<'a> {
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
}

/// The metadata of a patch in a log.
#[derive(Deserialize)]
struct PatchMetadata<'a> {
    #[serde(borrow)]
    document: NamedDocument<'a>,
    base_sequence: u64,
    #[serde(borrow)]
    ops: &'a serde_json::value::RawValue,
}

/// A document as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSummary {
    pub key: DocumentKey,
    pub opened_sequence: u64,
    /// The newest patch, or the opening.
    pub sequence: u64,
}

/// The row of a document as it is written: at its opening, and with every snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedDocument {
    pub session: SessionId,
    pub key: DocumentKey,
    /// The first commit of the row sets it to the sequence of the opening.
    pub opened_sequence: u64,
    pub snapshot: DocumentSnapshot,
    pub origin: Option<DocumentOrigin>,
}

impl SharedDocument {
    /// Takes the sequence of the newest patch of this document that its commit has appended. A fork appends none: its
    /// documents keep the sequences that they have in the log that it shares.
    pub fn land<'a>(&mut self, appended: impl IntoIterator<Item = &'a AppendOutcome>) {
        for slot in appended {
            let AppendOutcome::New(event) = slot else { continue };
            let is_own = event.kind.is_patch()
                && event.session_id == self.session
                && event.metadata.as_ref().and_then(DocumentKey::of_metadata).as_ref() == Some(&self.key);
            if is_own {
                self.snapshot.sequence = event.sequence;
                if self.opened_sequence == 0 {
                    self.opened_sequence = event.sequence;
                }
            }
        }
    }
}

/// A document's value at one of its patches.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentSnapshot {
    pub sequence: u64,
    pub value: Json,
}

/// The row that an entity's or a view's document began from, as the document has last seen it.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentOrigin {
    pub version: u64,
    /// The fields of the row, or of it what a document of its kind has.
    pub fields: Json,
}

/// A document as a store has it: its row, and the patches that a reader lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    /// The life of the session that it belongs to.
    pub incarnation: Incarnation,
    pub opened_sequence: u64,
    /// `None` if the reader has the value of a later patch.
    pub snapshot: Option<DocumentSnapshot>,
    pub snapshot_sequence: u64,
    pub origin: Option<DocumentOrigin>,
    /// The patches after the snapshot, or after what the reader has, oldest first.
    pub patches: Vec<StoredPatch>,
}

/// Which patches of a document to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchRange {
    /// Not this one, those after it.
    pub after: u64,
    /// Up to this one, which counts.
    pub to: u64,
    pub limit: usize,
}

/// A patch as the log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPatch {
    pub sequence: u64,
    /// Of the opening: its value.
    pub content: Option<Json>,
    pub metadata: Json,
}

impl StoredPatch {
    /// The operations, and the bytes of their text; none for the opening.
    pub fn ops(&self) -> Result<(Vec<patch::PatchOp>, usize)> {
        if self.content.is_some() {
            return Ok((Vec::new(), 0));
        }
        let metadata: PatchMetadata<'_> = self.metadata.read().map_err(Error::internal)?;
        let text = metadata.ops.get();
        Ok((patch::read_stored_ops(&Json::stored(text))?, text.len()))
    }

    /// The newest patch that its author had seen.
    pub fn base_sequence(&self) -> Result<u64> {
        let metadata: PatchMetadata<'_> = self.metadata.read().map_err(Error::internal)?;
        Ok(metadata.base_sequence)
    }

    /// The value that the opening carries.
    pub fn opening(&self) -> Option<Json> {
        #[derive(Deserialize)]
        struct ValuePart<'a> {
            #[serde(borrow)]
            data: &'a serde_json::value::RawValue,
        }
        let parts: Vec<ValuePart<'_>> = self.content.as_ref()?.read().ok()?;
        Some(Json::stored(parts.first()?.data.get()))
    }
}

/// The event that opens a document. It carries the value, so that the log alone makes the document.
pub fn opening_event(key: &DocumentKey, value: &Json, author: Option<Box<str>>) -> Result<NewEvent> {
    let metadata = Json::of(&json!({"document": key.to_value(), "base_sequence": 0, "ops": []}))?;
    let part = Json::object([("type", &Json::stored(r#""data""#)), ("data", value)]);
    let content = Some(Json::stored(format!("[{}]", part.as_str())));
    Ok(NewEvent { content, author, ..NewEvent::engine(EventType::known(PATCH), Some(metadata)) })
}

/// The event of a patch.
pub fn patch_event(key: &DocumentKey, patch: &DocumentPatch, author: Option<Box<str>>) -> Result<NewEvent> {
    let document = Json::of(&key.to_value())?;
    let base = Json::of(&patch.base_sequence)?;
    let metadata = Json::object([("document", &document), ("base_sequence", &base), ("ops", &patch.text)]);
    Ok(NewEvent { author, ..NewEvent::engine(EventType::known(PATCH), Some(metadata)) })
}

/// Reads a patch from the metadata of an event that a caller appends.
pub fn read_appended(metadata: &Json) -> Result<(DocumentKey, DocumentPatch)> {
    let fields = metadata.value();
    let word = |name: &str| fields["document"].get(name).and_then(serde_json::Value::as_str);
    let key = match (word("kind"), word("id")) {
        (Some(kind), Some(id)) => {
            DocumentKey::parse(kind, id).map_err(|error| error.within("metadata.document"))?
        }
        _ => return Err(Error::invalid("metadata.document", "needs a `kind` and an `id`, both strings")),
    };
    let read: PatchMetadata<'_> =
        metadata.read().map_err(|_| Error::invalid("metadata", "is not that of a patch"))?;
    let ops = Json::stored(read.ops.get());
    let patch = DocumentPatch::read(read.base_sequence, &ops).map_err(|error| error.within("metadata"))?;
    Ok((key, patch))
}

/// Refuses patches of sessions that have no documents.
pub fn check_head(head: &Head) -> Result<(), Conflict> {
    if head.session_type == SessionType::Mixed && !head.is_bridge {
        Ok(())
    } else {
        Err(Conflict::NoDocuments)
    }
}

/// Refuses documents in a session that leaves no trace, and in one that has none.
pub fn check_session(session: &Session) -> Result<()> {
    check_head(&session.head)?;
    if session.details.memory_mode == MemoryMode::Incognito {
        return Err(Conflict::NoDocuments.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_alone_tells_the_document_its_value_and_its_patches() {
        let key = DocumentKey::parse("scratch", "a \"note\"").unwrap();
        let value = Json::parse(br#"{"b":[1.0,"x"],"a":null}"#).unwrap();
        let event = opening_event(&key, &value, None).unwrap();
        let opened = StoredPatch { sequence: 4, content: event.content, metadata: event.metadata.unwrap() };
        assert_eq!(DocumentKey::of_metadata(&opened.metadata), Some(key.clone()));
        assert_eq!(opened.opening(), Some(value));
        assert_eq!(opened.ops().unwrap(), (Vec::new(), 0));

        let ops = Json::parse(br#"[{"op":"remove","path":"/a"}]"#).unwrap();
        let patch = DocumentPatch::read(4, &ops).unwrap();
        let event = patch_event(&key, &patch, Some("ada".into())).unwrap();
        assert_eq!(read_appended(event.metadata.as_ref().unwrap()).unwrap(), (key, patch.clone()));
        let stored = StoredPatch { sequence: 5, content: None, metadata: event.metadata.unwrap() };
        assert_eq!(stored.ops().unwrap(), (patch.ops, ops.len()));
        assert_eq!((stored.base_sequence().unwrap(), stored.opening()), (4, None));
    }

    #[test]
    fn an_appended_patch_that_names_no_document_is_refused_by_its_place() {
        for (metadata, field) in [
            (r#"{"document":{},"base_sequence":0,"ops":[]}"#, "metadata.document"),
            (
                r#"{"document":{"kind":"banana","id":"x"},"base_sequence":0,"ops":[]}"#,
                "metadata.document.kind",
            ),
            (r#"{"document":{"kind":"scratch","id":""},"base_sequence":0,"ops":[]}"#, "metadata.document.id"),
            (r#"{"document":{"kind":"scratch","id":"x"},"base_sequence":0,"ops":[]}"#, "metadata.ops"),
            (
                r#"{"document":{"kind":"scratch","id":"x"},"base_sequence":0,"ops":[{"op":"remove","path":"a"}]}"#,
                "metadata.ops[0].path",
            ),
        ] {
            match read_appended(&Json::parse(metadata.as_bytes()).unwrap()) {
                Err(Error::Invalid { field: found, .. }) => assert_eq!(found, field, "{metadata}"),
                other => panic!("{metadata}: {other:?}"),
            }
        }
    }
}
