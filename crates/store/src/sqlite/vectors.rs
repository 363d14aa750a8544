//! Vectors of memories: columns of their rows, derived from their text and deleted with them.

use futures_util::FutureExt as _;
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use sederunt_core::Timestamp;
use sederunt_core::clock::Clock as _;
use sederunt_core::error::Error;
use sederunt_core::ids::TenantId;
use sederunt_core::memory::Memory;
use sederunt_core::memory::vector::Vector;
use sederunt_core::store::{NumberedVector, StoreFuture, VectorQuery, VectorStore, Vectors};

use super::fault::unknown_word;
use super::open::Side;
use super::{SqliteStore, memories, tenants};
use crate::postings::Postings;

pub(super) const NEWEST: &str = "SELECT embedded_n, id, vector FROM memories WHERE tk = ?1 AND owner = ?2 \
     AND embedded_by = ?3 AND embedded_n > ?4 AND vector IS NOT NULL ORDER BY embedded_n DESC LIMIT ?5";
pub(super) const KEPT: &str = "SELECT count(*) FROM memories WHERE tk = ?1 AND owner = ?2 AND embedded_by = ?3 \
     AND vector IS NOT NULL";
/// The memories whose vector is of another model, or missing: model names before and behind this one.
pub(super) const BEFORE: &str = "SELECT t.id, m.n FROM memories m JOIN tenants t ON t.tk = m.tk \
     WHERE m.dormant_at IS NULL AND m.kind <> 'profile' AND m.embedded_by < ?1 LIMIT ?2";
pub(super) const BEHIND: &str = "SELECT t.id, m.n FROM memories m JOIN tenants t ON t.tk = m.tk \
     WHERE m.dormant_at IS NULL AND m.kind <> 'profile' AND m.embedded_by > ?1 LIMIT ?2";

impl VectorStore for SqliteStore {
    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> StoreFuture<'a, Vectors> {
        self.read_side_file(tenant, move |db, tk| {
            let (owner, model) = (query.owner.as_str(), query.model.as_str());
            let kept: i64 =
                db.prepare_cached(KEPT)?.query_row(params![tk, owner, model], |row| row.get(0))?;
            let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
            let mut items: Vec<NumberedVector> = db
                .prepare_cached(NEWEST)?
                .query_map(params![tk, owner, model, query.after, limit], |row| {
                    let vector = Vector::stored(row.get_ref(2)?.as_blob()?);
                    let vector = vector.ok_or_else(|| unknown_word("a vector that is none"))?;
                    Ok(NumberedVector { number: row.get(0)?, memory: row.get(1)?, vector })
                })?
                .collect::<rusqlite::Result<_>>()?;
            items.reverse();
            Ok(Vectors { kept: u64::try_from(kept).unwrap_or(0), items })
        })
        .boxed()
    }

    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> StoreFuture<'a, ()> {
        async move {
            self.sync_side_files().await?;
            let Some(tk) = self.read_inline(|db| tenants::key_of(db, tenant)).await? else { return Ok(()) };
            let (side_files, model) = (self.side_files.clone(), model.to_owned());
            let now = self.clock.now();
            let keep = move || side_files.write(Side::Memory, |db| keep(db, tk, &model, &made, now));
            tokio::task::spawn_blocking(keep).await.map_err(Error::internal)?
        }
        .boxed()
    }

    fn unembedded<'a>(&'a self, model: &'a str, limit: usize) -> StoreFuture<'a, Vec<(TenantId, Memory)>> {
        let model = model.to_owned();
        async move {
            self.sync_side_files().await?;
            self.read_pooled(move |db| {
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let mut found: Vec<(String, i64)> = Vec::new();
                for sql in [BEFORE, BEHIND] {
                    let left = limit - i64::try_from(found.len()).unwrap_or(i64::MAX);
                    for row in db
                        .prepare_cached(sql)?
                        .query_map([Value::from(model.to_owned()), left.into()], |row| {
                            Ok((row.get(0)?, row.get(1)?))
                        })?
                    {
                        found.push(row?);
                    }
                }
                found
                    .into_iter()
                    .map(|(tenant, n)| Ok((TenantId::stored(tenant), memories::by_number(db, n)?)))
                    .collect()
            })
            .await
        }
        .boxed()
    }
}

/// Stores vectors. A memory that has changed since is in another bucket or has other words, and is left alone. Vector
/// numbers follow the clock, so that none is given twice when the newest vector is gone.
fn keep(
    db: &Connection,
    tk: i64,
    model: &str,
    made: &[(Memory, Option<Vector>)],
    now: Timestamp,
) -> rusqlite::Result<()> {
    let mut keep = db.prepare_cached(
        "UPDATE memories SET embedded_by = ?3, vector = ?4, \
         embedded_n = max(?8, 1 + coalesce((SELECT max(embedded_n) \
             FROM memories WHERE tk = ?1 AND owner = ?5 AND embedded_by = ?3 AND vector IS NOT NULL), 0)) \
         WHERE tk = ?1 AND id = ?2 AND owner = ?5 AND drawer = ?6 AND words = ?7",
    )?;
    for (memory, vector) in made {
        let postings = Postings::of(tk, memory);
        let vector = vector.as_ref().map(Vector::bytes);
        keep.execute(params![
            tk,
            memory.id,
            model,
            vector,
            memory.owner.as_str(),
            postings.bucket,
            postings.line(),
            now.as_micros(),
        ])?;
    }
    Ok(())
}
