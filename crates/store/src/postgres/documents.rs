//! Documents: their rows, and where their patches are in the logs.

use sederunt_core::document::{
    DocumentKey, DocumentKind, DocumentOrigin, DocumentSnapshot, DocumentSummary, PatchRange, SharedDocument,
    StoredDocument, StoredPatch,
};
use sederunt_core::error::Error;
use sederunt_core::ids::{Incarnation, SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::store::{DocumentStore, StoreFuture};
use tokio_postgres::Row;

use super::fault::Result;
use super::tx::{Param, Scope, Tx, count, int};
use super::{PostgresStore, read};

const LIST: &str =
    "SELECT d.kind, d.id, d.opened_seq, greatest(d.snapshot_seq, (SELECT max(p.seq) FROM document_patches p
         WHERE p.tk = d.tk AND p.log = d.sk AND p.kind = d.kind AND p.id = d.id))
     FROM sessions s JOIN documents d ON d.tk = s.tk AND d.sk = s.sk WHERE s.tk = $1 AND s.id = $2
     ORDER BY d.kind, d.id";

/// One document, with the patches that its reader lacks as further rows. The first row alone carries the value.
const ONE: &str = "SELECT h.incarnation, d.opened_seq, d.snapshot_seq,
         CASE WHEN d.snapshot_seq > $5 AND coalesce(p.nth, 1) = 1 THEN d.snapshot END, d.row_version,
         CASE WHEN coalesce(p.nth, 1) = 1 THEN d.origin END, p.seq, e.content, e.metadata
     FROM sessions s JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk
     JOIN documents d ON d.tk = s.tk AND d.sk = s.sk AND d.kind = $3 AND d.id = $4
     LEFT JOIN LATERAL (
         SELECT p.seq, row_number() OVER (ORDER BY p.seq) AS nth FROM document_patches p
         WHERE p.tk = d.tk AND p.log = d.sk AND p.kind = d.kind AND p.id = d.id
             AND p.seq > greatest(d.snapshot_seq, $5)
     ) p ON true
     LEFT JOIN events e ON e.tk = d.tk AND e.log = d.sk AND e.seq = p.seq
     WHERE s.tk = $1 AND s.id = $2 ORDER BY p.seq";

/// Patches of all the logs that a session consists of.
const WITHIN: &str = "SELECT p.seq, e.content, e.metadata
     FROM (SELECT h.sk, h.last_sequence FROM sessions s JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk
           WHERE s.tk = $1 AND s.id = $2) h
     CROSS JOIN LATERAL (
         SELECT r.log, r.from_seq, r.to_seq FROM session_ranges r WHERE r.tk = $1 AND r.sk = h.sk
         UNION ALL
         SELECT h.sk, 1 + coalesce((SELECT max(r.to_seq) FROM session_ranges r WHERE r.tk = $1 AND r.sk = h.sk), 0),
             h.last_sequence
     ) piece
     CROSS JOIN LATERAL (
         SELECT p.seq FROM document_patches p WHERE p.tk = $1 AND p.log = piece.log AND p.kind = $3 AND p.id = $4
             AND p.seq >= greatest(piece.from_seq, $5) AND p.seq <= least(piece.to_seq, $6)
         ORDER BY p.seq LIMIT $7
     ) p
     JOIN events e ON e.tk = $1 AND e.log = piece.log AND e.seq = p.seq
     ORDER BY p.seq LIMIT $7";

impl DocumentStore for PostgresStore {
    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
    ) -> StoreFuture<'a, Vec<DocumentSummary>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let rows = self.context.read(Scope::Tenant(tk), LIST, &[&tk, &session.as_str()]).await?;
            rows.iter().map(summary).collect()
        })
    }

    fn document<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        seen: Option<u64>,
    ) -> StoreFuture<'a, Option<StoredDocument>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let seen = int(seen.unwrap_or(0));
            let params: [Param<'_>; 5] = [&tk, &session.as_str(), &key.kind.as_str(), &&*key.id, &seen];
            let rows = self.context.read(Scope::Tenant(tk), ONE, &params).await?;
            let Some(first) = rows.first() else { return Ok(None) };
            let mut found = stored(first)?;
            for row in &rows {
                if let Some(sequence) = row.try_get::<_, Option<i64>>(6)? {
                    found.patches.push(patch(sequence, row.try_get(7)?, row.try_get(8)?));
                }
            }
            Ok(Some(found))
        })
    }

    fn document_patches<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        key: &'a DocumentKey,
        within: PatchRange,
    ) -> StoreFuture<'a, Vec<StoredPatch>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            // Sequences fit into 32 bits.
            let number = |sequence: u64| int(sequence.min(u64::from(u32::MAX) << 16));
            let (low, high) = (number(within.after.saturating_add(1)), number(within.to));
            let limit = int(within.limit as u64);
            let params: [Param<'_>; 7] =
                [&tk, &session.as_str(), &key.kind.as_str(), &&*key.id, &low, &high, &limit];
            let rows = self.context.read(Scope::Tenant(tk), WITHIN, &params).await?;
            rows.iter().map(|row| Ok(patch(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
        })
    }
}

fn summary(row: &Row) -> Result<DocumentSummary> {
    let kind = DocumentKind::parse(row.try_get(0)?);
    let kind = kind.ok_or_else(|| Error::internal("a document of no kind was found"))?;
    Ok(DocumentSummary {
        key: DocumentKey::stored(kind, row.try_get::<_, &str>(1)?),
        opened_sequence: count(row.try_get(2)?),
        sequence: count(row.try_get(3)?),
    })
}

fn stored(row: &Row) -> Result<StoredDocument> {
    let snapshot_sequence = count(row.try_get(2)?);
    let value: Option<&str> = row.try_get(3)?;
    let origin = match (row.try_get::<_, Option<i64>>(4)?, row.try_get::<_, Option<&str>>(5)?) {
        (Some(version), Some(fields)) => {
            Some(DocumentOrigin { version: count(version), fields: Json::stored(fields) })
        }
        _ => None,
    };
    Ok(StoredDocument {
        incarnation: Incarnation(row.try_get(0)?),
        opened_sequence: count(row.try_get(1)?),
        snapshot: value
            .map(|value| DocumentSnapshot { sequence: snapshot_sequence, value: Json::stored(value) }),
        snapshot_sequence,
        origin,
        patches: Vec::new(),
    })
}

fn patch(sequence: i64, content: Option<&str>, metadata: Option<&str>) -> StoredPatch {
    StoredPatch {
        sequence: count(sequence),
        content: content.map(Json::stored),
        metadata: Json::stored(metadata.unwrap_or("{}")),
    }
}

/// Writes the row of a document that is opened. Returns the rows written.
pub(super) async fn open(tx: &Tx, tk: i32, document: &SharedDocument) -> Result<u64> {
    let SharedDocument { session, key, opened_sequence, snapshot, origin } = document;
    let sql =
        "INSERT INTO documents (tk, sk, kind, id, opened_seq, snapshot_seq, row_version, snapshot, origin)
         SELECT $1, h.sk, $3, $4, $5, $6, $7, $8, $9 FROM sessions s
         JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk WHERE s.tk = $1 AND s.id = $2 FOR KEY SHARE OF h";
    tx.execute(
        sql,
        &[
            &tk,
            &session.as_str(),
            &key.kind.as_str(),
            &&*key.id,
            &int(*opened_sequence),
            &int(snapshot.sequence),
            &origin.as_ref().map(|origin| int(origin.version)),
            &snapshot.value.as_str(),
            &origin.as_ref().map(|origin| origin.fields.as_str()),
        ],
    )
    .await
}

pub(super) async fn take_snapshot(tx: &Tx, tk: i32, document: &SharedDocument) -> Result<()> {
    let SharedDocument { session, key, snapshot, .. } = document;
    let sql = "UPDATE documents SET snapshot_seq = $5, snapshot = $6 WHERE tk = $1 AND kind = $3 AND id = $4
         AND sk = (SELECT s.sk FROM sessions s WHERE s.tk = $1 AND s.id = $2)";
    let params: [Param<'_>; 6] = [
        &tk,
        &session.as_str(),
        &key.kind.as_str(),
        &&*key.id,
        &int(snapshot.sequence),
        &snapshot.value.as_str(),
    ];
    tx.execute(sql, &params).await.map(drop)
}

pub(super) async fn set_origin(
    tx: &Tx,
    tk: i32,
    session: &SessionId,
    key: &DocumentKey,
    origin: &DocumentOrigin,
) -> Result<()> {
    let sql = "UPDATE documents SET row_version = $5, origin = $6 WHERE tk = $1 AND kind = $3 AND id = $4
         AND sk = (SELECT s.sk FROM sessions s WHERE s.tk = $1 AND s.id = $2)";
    let params: [Param<'_>; 6] = [
        &tk,
        &session.as_str(),
        &key.kind.as_str(),
        &&*key.id,
        &int(origin.version),
        &origin.fields.as_str(),
    ];
    tx.execute(sql, &params).await.map(drop)
}
