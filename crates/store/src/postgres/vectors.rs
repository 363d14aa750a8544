//! Vectors of memories: columns of their rows, derived from their text and deleted with them.

use sederunt_core::error::Error;
use sederunt_core::ids::TenantId;
use sederunt_core::memory::Memory;
use sederunt_core::memory::vector::Vector;
use sederunt_core::store::{NumberedVector, StoreFuture, VectorQuery, VectorStore, Vectors};

use super::fault::Result;
use super::tx::{Context, Scope, count, int, within};
use super::{PostgresStore, memories, read};
use crate::postings::Postings;

impl VectorStore for PostgresStore {
    fn vectors<'a>(&'a self, tenant: &'a TenantId, query: VectorQuery) -> StoreFuture<'a, Vectors> {
        read(vectors(&self.context, tenant, query))
    }

    fn keep_vectors<'a>(
        &'a self,
        tenant: &'a TenantId,
        model: &'a str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> StoreFuture<'a, ()> {
        read(keep(&self.context, tenant, model, made))
    }

    fn unembedded<'a>(&'a self, model: &'a str, limit: usize) -> StoreFuture<'a, Vec<(TenantId, Memory)>> {
        read(missing(&self.context, model, limit))
    }
}

async fn vectors(context: &Context, tenant: &TenantId, query: VectorQuery) -> Result<Vectors> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Vectors::default()) };
    let (owner, model, limit) = (query.owner.as_str(), query.model.as_str(), int(query.limit as u64));
    // One statement, so that both halves are of the same moment.
    let sql = "SELECT k.kept, m.embedded_n, m.id, m.vector
         FROM (SELECT count(*) AS kept FROM memories
             WHERE tk = $1 AND owner = $2 AND embedded_by = $3 AND vector IS NOT NULL) k
         LEFT JOIN LATERAL (SELECT embedded_n, id, vector FROM memories
             WHERE tk = $1 AND owner = $2 AND embedded_by = $3 AND vector IS NOT NULL AND embedded_n > $4
             ORDER BY embedded_n DESC LIMIT $5) m ON true ORDER BY m.embedded_n";
    let rows = context.read(Scope::Tenant(tk), sql, &[&tk, &owner, &model, &query.after, &limit]).await?;
    let mut found = Vectors::default();
    for row in &rows {
        found.kept = count(row.try_get(0)?);
        let Some(number) = row.try_get::<_, Option<i64>>(1)? else { continue };
        let vector = Vector::stored(row.try_get(3)?);
        let vector = vector.ok_or_else(|| Error::internal("a vector that is none"))?;
        found.items.push(NumberedVector { number, memory: row.try_get(2)?, vector });
    }
    Ok(found)
}

/// Stores vectors. A memory that has changed since is in another bucket or has other words, and is left alone. Vector
/// numbers follow the clock, so that none is given twice when the newest vector is gone.
async fn keep(
    context: &Context,
    tenant: &TenantId,
    model: &str,
    made: Vec<(Memory, Option<Vector>)>,
) -> Result<()> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(()) };
    within(async {
        let tx = context.begin(Scope::Tenant(tk)).await?;
        for (memory, vector) in &made {
            let postings = Postings::of(tk.into(), memory);
            let vector = vector.as_ref().map(Vector::bytes);
            tx.execute(
                "UPDATE memories SET embedded_by = $3, vector = $4, 
                     embedded_n = greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                         1 + coalesce((SELECT max(embedded_n) FROM memories
                             WHERE tk = $1 AND owner = $5 AND embedded_by = $3 AND vector IS NOT NULL), 0))
                 WHERE tk = $1 AND id = $2 AND owner = $5 AND drawer = $6 AND words = $7",
                &[
                    &tk,
                    &memory.id,
                    &model,
                    &vector,
                    &memory.owner.as_str(),
                    &postings.bucket,
                    &postings.line(),
                ],
            )
            .await?;
        }
        tx.commit().await
    })
    .await
}

async fn missing(context: &Context, model: &str, limit: usize) -> Result<Vec<(TenantId, Memory)>> {
    // Memories whose vector is of another model, or missing: model names before and behind this one. The limit is in
    // the text, as for sittings.
    let limit = int(limit as u64);
    let sql = format!(
        "SELECT t.id, k.id FROM (
             (SELECT tk, id FROM memories WHERE dormant_at IS NULL AND kind <> 'profile' AND embedded_by < $1
              ORDER BY embedded_by LIMIT {limit})
             UNION ALL
             (SELECT tk, id FROM memories WHERE dormant_at IS NULL AND kind <> 'profile' AND embedded_by > $1
              ORDER BY embedded_by LIMIT {limit})) k
         JOIN tenants t ON t.tk = k.tk WHERE t.id IS NOT NULL ORDER BY t.id LIMIT {limit}"
    );
    let rows = context.read(Scope::All, &sql, &[&model]).await?;
    let mut due: Vec<(TenantId, Vec<String>)> = Vec::new();
    for row in &rows {
        let (tenant, id) = (TenantId::stored(row.try_get::<_, &str>(0)?), row.try_get(1)?);
        match due.last_mut() {
            Some((last, ids)) if *last == tenant => ids.push(id),
            _ => due.push((tenant, vec![id])),
        }
    }
    let mut found = Vec::with_capacity(rows.len());
    for (tenant, ids) in due {
        found
            .extend(memories::at(context, &tenant, &ids).await?.into_iter().map(|one| (tenant.clone(), one)));
    }
    Ok(found)
}
