//! Documents: their rows, and where their patches are in the logs.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::document::{
    DocumentKey, DocumentKind, DocumentOrigin, DocumentSnapshot, DocumentSummary, PatchRange, SharedDocument,
    StoredDocument, StoredPatch,
};
use sederunt_core::ids::{Incarnation, SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::store::{DocumentStore, StoreFuture};

use super::fault::unknown_word;
use super::heads::text;
use super::readers::in_snapshot;
use super::{SqliteStore, logs};

/// What of a session decides where its documents are.
struct DocumentHome {
    sk: i64,
    incarnation: Incarnation,
    prefix_to: u64,
    last_sequence: u64,
}

impl DocumentStore for SqliteStore {
    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
    ) -> StoreFuture<'a, Vec<DocumentSummary>> {
        self.read_inline(move |db| {
            in_snapshot(db, |db| match home(db, tenant, session)? {
                Some(home) => list(db, home.sk),
                None => Ok(Vec::new()),
            })
        })
        .boxed()
    }

    fn document<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        seen: Option<u64>,
    ) -> StoreFuture<'a, Option<StoredDocument>> {
        self.read_inline(move |db| {
            in_snapshot(db, |db| match home(db, tenant, session)? {
                Some(home) => document(db, &home, key, seen),
                None => Ok(None),
            })
        })
        .boxed()
    }

    fn document_patches<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        within: PatchRange,
    ) -> StoreFuture<'a, Vec<StoredPatch>> {
        let (tenant, session, key) = (tenant.clone(), session.clone(), key.clone());
        self.read_pooled(move |db| {
            in_snapshot(db, |db| match home(db, &tenant, &session)? {
                Some(home) => patches_within(db, &home, &key, within),
                None => Ok(Vec::new()),
            })
        })
        .boxed()
    }
}

fn home(db: &Connection, tenant: &TenantId, session: &SessionId) -> rusqlite::Result<Option<DocumentHome>> {
    db.prepare_cached(
        "SELECT h.sk, h.incarnation, h.prefix_to, l.last_sequence FROM tenants t \
         JOIN session_heads h ON h.tk = t.tk JOIN session_tails l ON l.sk = h.sk WHERE t.id = ?1 AND h.id = ?2",
    )?
    .query_row([tenant.as_str(), session.as_str()], |row| {
        Ok(DocumentHome {
            sk: row.get(0)?,
            incarnation: Incarnation(uuid::Uuid::from_bytes(row.get(1)?)),
            prefix_to: row.get::<_, i64>(2)?.cast_unsigned(),
            last_sequence: row.get::<_, i64>(3)?.cast_unsigned(),
        })
    })
    .optional()
}

fn list(db: &Connection, sk: i64) -> rusqlite::Result<Vec<DocumentSummary>> {
    db.prepare_cached(
        "SELECT d.kind, d.id, d.opened_seq, max(d.snapshot_seq, coalesce((SELECT max(p.seq) FROM document_patches p \
         WHERE p.log = d.sk AND p.kind = d.kind AND p.id = d.id), 0)) FROM documents d WHERE d.sk = ?1 \
         ORDER BY d.kind, d.id",
    )?
    .query_map([sk], |row| {
        Ok(DocumentSummary {
            key: DocumentKey::stored(kind(row, 0)?, row.get::<_, Box<str>>(1)?),
            opened_sequence: row.get::<_, i64>(2)?.cast_unsigned(),
            sequence: row.get::<_, i64>(3)?.cast_unsigned(),
        })
    })?
    .collect()
}

fn kind(row: &Row<'_>, at: usize) -> rusqlite::Result<DocumentKind> {
    let word = row.get_ref(at)?.as_str()?;
    DocumentKind::parse(word).ok_or_else(|| unknown_word(word))
}

fn document(
    db: &Connection,
    home: &DocumentHome,
    key: &DocumentKey,
    seen: Option<u64>,
) -> rusqlite::Result<Option<StoredDocument>> {
    let seen = seen.unwrap_or(0);
    let mut found = db.prepare_cached(
        "SELECT opened_seq, snapshot_seq, row_version, CASE WHEN snapshot_seq > ?4 THEN snapshot END, origin \
         FROM documents WHERE sk = ?1 AND kind = ?2 AND id = ?3",
    )?;
    let found = found
        .query_row(params![home.sk, key.kind.as_str(), &*key.id, seen.cast_signed()], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
            let snapshot_sequence = number(1)?;
            let snapshot = text(row, 3)?
                .map(|value| DocumentSnapshot { sequence: snapshot_sequence, value: Json::stored(value) });
            let origin = match (row.get::<_, Option<i64>>(2)?, text(row, 4)?) {
                (Some(version), Some(fields)) => {
                    Some(DocumentOrigin { version: version.cast_unsigned(), fields: Json::stored(fields) })
                }
                _ => None,
            };
            Ok(StoredDocument {
                incarnation: home.incarnation,
                opened_sequence: number(0)?,
                snapshot,
                snapshot_sequence,
                origin,
                patches: Vec::new(),
            })
        })
        .optional()?;
    let Some(mut found) = found else { return Ok(None) };
    let after = seen.max(found.snapshot_sequence);
    patches(db, home.sk, key, after, home.last_sequence, usize::MAX, &mut found.patches)?;
    Ok(Some(found))
}

fn patches_within(
    db: &Connection,
    home: &DocumentHome,
    key: &DocumentKey,
    within: PatchRange,
) -> rusqlite::Result<Vec<StoredPatch>> {
    let (low, high) = (within.after.saturating_add(1), within.to.min(home.last_sequence));
    let mut found = Vec::new();
    if low > high {
        return Ok(found);
    }
    for range in logs::ranges(db, home.sk, home.prefix_to, low, high)? {
        let left = within.limit - found.len();
        if left == 0 {
            break;
        }
        patches(db, range.log, key, range.from - 1, range.to, left, &mut found)?;
    }
    Ok(found)
}

/// Reads patches of one log by their keys.
fn patches(
    db: &Connection,
    log: i64,
    key: &DocumentKey,
    after: u64,
    to: u64,
    limit: usize,
    found: &mut Vec<StoredPatch>,
) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT p.seq, e.content, e.metadata FROM document_patches p JOIN events e ON e.k = (p.log << 32) | p.seq \
         WHERE p.log = ?1 AND p.kind = ?2 AND p.id = ?3 AND p.seq > ?4 AND p.seq <= ?5 ORDER BY p.seq LIMIT ?6",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(
        params![log, key.kind.as_str(), &*key.id, after.cast_signed(), to.cast_signed(), limit],
        |row| {
            Ok(StoredPatch {
                sequence: row.get::<_, i64>(0)?.cast_unsigned(),
                content: text(row, 1)?.map(Json::stored),
                metadata: Json::stored(text(row, 2)?.unwrap_or("{}")),
            })
        },
    )?;
    for patch in rows {
        found.push(patch?);
    }
    Ok(())
}

/// The newest patch of a document, if the session has it.
pub(super) fn newest(db: &Connection, sk: i64, key: &DocumentKey) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached(
        "SELECT max(d.snapshot_seq, coalesce((SELECT max(p.seq) FROM document_patches p \
         WHERE p.log = ?1 AND p.kind = ?2 AND p.id = ?3), 0)) FROM documents d \
         WHERE d.sk = ?1 AND d.kind = ?2 AND d.id = ?3",
    )?
    .query_row(params![sk, key.kind.as_str(), &*key.id], |row| row.get::<_, i64>(0))
    .optional()
    .map(|newest| newest.map(i64::cast_unsigned))
}

/// Whether a session has this document.
pub(super) fn is_open(db: &Connection, tk: i64, session: &SessionId, joined: &str) -> rusqlite::Result<bool> {
    let (kind, id) = joined.split_once('/').unwrap_or_default();
    db.prepare_cached(
        "SELECT 1 FROM documents WHERE sk = (SELECT sk FROM session_heads WHERE tk = ?1 AND id = ?2) \
         AND kind = ?3 AND id = ?4",
    )?
    .exists(params![tk, session.as_str(), kind, id])
}

/// Notes where a patch is.
pub(super) fn note_patch(db: &Connection, log: i64, metadata: &Json, sequence: u64) -> rusqlite::Result<()> {
    let Some(key) = DocumentKey::of_metadata(metadata) else { return Ok(()) };
    db.prepare_cached("INSERT INTO document_patches (log, kind, id, seq) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![log, key.kind.as_str(), &*key.id, sequence.cast_signed()])
        .map(drop)
}

pub(super) fn open(db: &Connection, tk: i64, document: &SharedDocument) -> rusqlite::Result<()> {
    let SharedDocument { session, key, opened_sequence, snapshot, origin } = document;
    db.prepare_cached(
        "INSERT INTO documents (sk, kind, id, opened_seq, snapshot_seq, row_version, snapshot, origin) \
         SELECT sk, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM session_heads WHERE tk = ?1 AND id = ?2",
    )?
    .execute(params![
        tk,
        session.as_str(),
        key.kind.as_str(),
        &*key.id,
        opened_sequence.cast_signed(),
        snapshot.sequence.cast_signed(),
        origin.as_ref().map(|origin| origin.version.cast_signed()),
        snapshot.value.as_str(),
        origin.as_ref().map(|origin| origin.fields.as_str()),
    ])
    .map(drop)
}

pub(super) fn take_snapshot(db: &Connection, tk: i64, document: &SharedDocument) -> rusqlite::Result<()> {
    let SharedDocument { session, key, snapshot, .. } = document;
    db.prepare_cached(
        "UPDATE documents SET snapshot_seq = ?5, snapshot = ?6 \
         WHERE sk = (SELECT sk FROM session_heads WHERE tk = ?1 AND id = ?2) AND kind = ?3 AND id = ?4",
    )?
    .execute(params![
        tk,
        session.as_str(),
        key.kind.as_str(),
        &*key.id,
        snapshot.sequence.cast_signed(),
        snapshot.value.as_str(),
    ])
    .map(drop)
}

pub(super) fn set_origin(
    db: &Connection,
    tk: i64,
    session: &SessionId,
    key: &DocumentKey,
    origin: &DocumentOrigin,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE documents SET row_version = ?5, origin = ?6 \
         WHERE sk = (SELECT sk FROM session_heads WHERE tk = ?1 AND id = ?2) AND kind = ?3 AND id = ?4",
    )?
    .execute(params![
        tk,
        session.as_str(),
        key.kind.as_str(),
        &*key.id,
        origin.version.cast_signed(),
        origin.fields.as_str(),
    ])
    .map(drop)
}
