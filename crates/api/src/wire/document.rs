//! Documents on the wire: JSON values that people and agents edit together in a session.

use sederunt_core::document::{self, DocumentKey};
use sederunt_core::engine::{self, PatchRequest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Count, Raw, words};
use crate::query::params;

words!(
    /// `scratch` belongs to its session alone; `entity` has the fields of an entity, `view` the title, description and
    /// questions of a view.
    DocumentKind = document::DocumentKind { Scratch, Entity, View }
);

/// The name of a document in its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DocumentRef {
    pub kind: DocumentKind,
    pub id: String,
}

impl From<DocumentKey> for DocumentRef {
    fn from(key: DocumentKey) -> Self {
        Self { kind: key.kind.into(), id: key.id.into() }
    }
}

/// The documents of a session.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DocumentList {
    pub documents: Vec<ListedDocument>,
}

/// A document as lists show it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ListedDocument {
    pub document: DocumentRef,
    /// The sequence of the event that opened it.
    pub opened_sequence: u64,
    /// The sequence of its newest patch, or of its opening.
    pub sequence: u64,
}

impl From<Vec<document::DocumentSummary>> for DocumentList {
    fn from(all: Vec<document::DocumentSummary>) -> Self {
        let listed = |one: document::DocumentSummary| ListedDocument {
            document: one.key.into(),
            opened_sequence: one.opened_sequence,
            sequence: one.sequence,
        };
        Self { documents: all.into_iter().map(listed).collect() }
    }
}

/// A document's value.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Document {
    pub document: DocumentRef,
    /// The sequence of the newest patch in the value, or of the opening: the `base_sequence` of a patch on it.
    pub sequence: u64,
    /// Any JSON value, with the keys of its objects in the order of their bytes.
    #[schema(value_type = Value)]
    pub value: Raw,
    /// The SHA-256 of the bytes of `value`, in hexadecimal digits.
    pub digest: String,
}

impl From<engine::DocumentValue> for Document {
    fn from(found: engine::DocumentValue) -> Self {
        let engine::DocumentValue { key, sequence, value, digest } = found;
        Self { document: key.into(), sequence, value: Raw(value), digest }
    }
}

params! {
    /// Which state of a document.
    pub struct DocumentQuery {
        /// The state at this sequence of the session's log; left out, the newest.
        at_sequence: Option<u64> = number(),
    }
}

/// Opens a document.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"value": {"title": "Trip", "stops": []}}))]
pub struct OpenDocument {
    /// What a scratch document begins with; left out, an empty object. Other documents begin from their row.
    #[schema(value_type = Option<Value>)]
    pub value: Option<Raw>,
}

/// A patch of a document.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"base_sequence": 12, "ops": [{"op": "add", "path": "/stops/-", "value": "Oslo"}]}))]
pub struct PatchDocument {
    /// The sequence of the newest patch of this document that the client has; 0 for none.
    #[schema(value_type = u64)]
    pub base_sequence: Count,
    /// Operations of JSON Patch (RFC 6902), 1 to 100 of them in at most 12 KiB.
    #[schema(value_type = Vec<Object>)]
    pub ops: Raw,
    /// The epoch of the caller's claim, if the caller is a worker.
    #[schema(value_type = Option<u64>)]
    pub epoch: Option<Count>,
}

impl PatchDocument {
    pub fn into_core(self, wants_inverse: bool) -> PatchRequest {
        let Self { base_sequence, ops, epoch } = self;
        let epoch = epoch.map(|epoch| epoch.0);
        PatchRequest { base_sequence: base_sequence.0, ops: ops.0, epoch, wants_inverse }
    }
}

params! {
    /// What to answer to a patch.
    pub struct PatchQuery {
        /// Whether to answer with the operations that take the patch back.
        inverse: bool = switch(),
    }
}

/// A patch that was accepted.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PatchedDocument {
    /// The sequence of the patch in the session's log.
    pub sequence: u64,
    /// Others had patched the document since `base_sequence`, at other places.
    pub rebased: bool,
    /// The operations that take the patch back. Only with `inverse=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub inverse: Option<Raw>,
}

impl From<engine::PatchedDocument> for PatchedDocument {
    fn from(done: engine::PatchedDocument) -> Self {
        let engine::PatchedDocument { sequence, rebased, inverse } = done;
        Self { sequence, rebased, inverse: inverse.map(Raw) }
    }
}

/// Writes a document to its entity or view.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"base_sequence": 12}))]
pub struct ApplyDocument {
    /// The sequence of the newest patch of this document; another one is 409 `stale_base`.
    #[schema(value_type = u64)]
    pub base_sequence: Count,
}

/// What applying a document did.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppliedDocument {
    /// The fields that were written, or that wait for an owner's decision. Empty if the row has all of them already.
    pub fields: Vec<String>,
    /// The version of the row that was written; null while an owner is to decide.
    pub version: Option<u64>,
    /// The approval that an owner decides on.
    pub approval_id: Option<String>,
}

impl From<engine::AppliedDocument> for AppliedDocument {
    fn from(done: engine::AppliedDocument) -> Self {
        let engine::AppliedDocument { fields, version, approval_id } = done;
        Self { fields, version, approval_id: approval_id.map(Into::into) }
    }
}
