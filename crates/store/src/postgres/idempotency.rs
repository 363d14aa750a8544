//! Idempotency keys: what the first request under a key did, and whether that still counts.

use sederunt_core::error::Error;
use sederunt_core::ids::TenantId;
use sederunt_core::session::Head;
use sederunt_core::store::{CommitResult, IdemKey, KeyNote, PartResult, Refusal, Replay};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{Context, Scope, count};

/// The columns that [`StoredKey::of`] reads.
pub(super) const COLUMNS: &str =
    "i.tk, i.scope, i.sk, i.body, i.first, i.last, i.sequences, i.claims, i.note";

/// What the first request under a key did.
#[derive(Clone, Debug)]
pub(super) struct StoredKey {
    pub(super) tk: i32,
    pub(super) scope: [u8; 16],
    pub(super) sk: Option<i64>,
    pub(super) claims: Vec<(i64, u64)>,
    body: [u8; 16],
    replay: Replay,
}

impl StoredKey {
    pub(super) fn of(row: &Row) -> Result<Self> {
        let mut columns = Columns::of(row);
        let (tk, scope) = (columns.take()?, sixteen(columns.take()?));
        let (sk, body) = (columns.take()?, sixteen(columns.take()?));
        let (first, last): (Option<i64>, Option<i64>) = (columns.take()?, columns.take()?);
        let listed: Option<Vec<i64>> = columns.take()?;
        let claims: Option<Vec<i64>> = columns.take()?;
        let sequences = match (first, last, listed) {
            (Some(first), Some(last), _) => (count(first)..=count(last)).collect(),
            (_, _, Some(list)) => list.into_iter().map(count).collect(),
            _ => Vec::new(),
        };
        let note = columns.take::<Option<uuid::Uuid>>()?.map(KeyNote);
        let claims =
            claims.unwrap_or_default().chunks_exact(2).map(|pair| (pair[0], count(pair[1]))).collect();
        Ok(Self { tk, scope, sk, claims, body, replay: Replay { sequences, note } })
    }

    /// The key of an append, for its repeats in the same batch.
    pub(super) fn of_commit(tk: i32, sk: i64, key: &IdemKey, replay: Replay) -> Self {
        Self { tk, scope: key.scope, sk: Some(sk), claims: Vec::new(), body: key.body, replay }
    }

    /// The first answer, on the sessions as they are now. Another body under the same key is refused.
    pub(super) fn answer(
        &self,
        key: &IdemKey,
        heads: impl IntoIterator<Item = Head>,
        now: Timestamp,
    ) -> Result<CommitResult, Refusal> {
        if self.body != key.body {
            return Err(Error::IdempotencyMismatch.into());
        }
        let parts = heads.into_iter().map(|head| PartResult { head, appended: Vec::new() }).collect();
        Ok(CommitResult { at: now, parts, replay: Some(self.replay.clone()) })
    }
}

fn sixteen(bytes: &[u8]) -> [u8; 16] {
    bytes.try_into().unwrap_or_default()
}

/// What the first request under a key did, while that counts.
pub(super) async fn recall(context: &Context, tenant: &TenantId, key: IdemKey) -> Result<Option<Replay>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(None) };
    let rows = context.read(Scope::Tenant(tk), &valid_key_sql(), &[&tk, &&key.scope[..]]).await?;
    let Some(found) = rows.first().map(StoredKey::of).transpose()? else { return Ok(None) };
    if found.body != key.body {
        return Err(Error::IdempotencyMismatch.into());
    }
    Ok(Some(found.replay))
}

/// Finds a key. It counts while the session that it touched exists.
pub(super) fn valid_key_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM idempotency i LEFT JOIN session_heads h ON h.tk = i.tk AND h.sk = i.sk
         WHERE i.tk = $1 AND i.scope = $2 AND (i.sk IS NULL OR h.sk IS NOT NULL)"
    )
}
