//! Memories: their rows, and the words that they are found by.

use sederunt_core::error::Error;
use sederunt_core::ids::TenantId;
use sederunt_core::memory::{Memory, MemoryBody, MemoryKind, Owner};
use sederunt_core::session::query::Page;
use sederunt_core::store::{MemoryQuery, MemoryStore, StoreFuture};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{self, Context, Scope, Tx, int};
use super::writes::{Writes, cells};
use super::{PostgresStore, read};
use crate::postings::{self, HITS_MAX, PostingHit, Postings};

const MEMORY: &str = "m.n, m.id, m.owner, m.created_at, m.last_referenced_at, m.dormant_at, m.body";

fn memory_of(row: &Row) -> Result<(i64, Memory)> {
    let mut columns = Columns::of(row);
    let n = columns.take()?;
    let memory = Memory {
        id: columns.take()?,
        owner: Owner::stored(columns.take::<&str>()?),
        created_at: columns.time()?,
        last_referenced_at: columns.time()?,
        dormant_at: columns.time_if()?,
        body: MemoryBody::stored(columns.take()?)?,
    };
    Ok((n, memory))
}

impl MemoryStore for PostgresStore {
    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> StoreFuture<'a, Page<Memory, i64>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Page::default()) };
            if query.words.is_empty() {
                newest(&self.context, tk, &query).await
            } else {
                matching(&self.context, tk, &query).await
            }
        })
    }

    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Memory>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = format!("SELECT {MEMORY} FROM memories m WHERE m.tk = $1 AND m.id = $2");
            let rows = self.context.read(Scope::Tenant(tk), &sql, &[&tk, &id]).await?;
            rows.first().map(|row| memory_of(row).map(|(_, memory)| memory)).transpose()
        })
    }

    fn memories_at<'a>(&'a self, tenant: &'a TenantId, ids: &'a [String]) -> StoreFuture<'a, Vec<Memory>> {
        read(at(&self.context, tenant, ids))
    }

    fn count_memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        owner: &'a Owner,
        kind: MemoryKind,
    ) -> StoreFuture<'a, u64> {
        read(count(&self.context, tenant, owner, kind))
    }
}

/// The memories with these ids.
pub(super) async fn at(context: &Context, tenant: &TenantId, ids: &[String]) -> Result<Vec<Memory>> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Vec::new()) };
    let sql = format!("SELECT {MEMORY} FROM memories m WHERE m.tk = $1 AND m.id = ANY ($2)");
    let rows = context.read(Scope::Tenant(tk), &sql, &[&tk, &ids]).await?;
    rows.iter().map(|row| memory_of(row).map(|(_, memory)| memory)).collect()
}

/// How many memories of a kind are shown.
pub(super) async fn count(
    context: &Context,
    tenant: &TenantId,
    owner: &Owner,
    kind: MemoryKind,
) -> Result<u64> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(0) };
    let sql =
        "SELECT count(*) FROM memories WHERE tk = $1 AND owner = $2 AND kind = $3 AND dormant_at IS NULL";
    let rows = context.read(Scope::Tenant(tk), sql, &[&tk, &owner.as_str(), &kind.as_str()]).await?;
    Ok(tx::count(rows.first().map_or(Ok(0), |row| row.try_get(0))?))
}

/// A page, newest first. Each kind has its own order in the index, so the kinds are merged.
async fn newest(context: &Context, tk: i32, query: &MemoryQuery) -> Result<Page<Memory, i64>> {
    let sql = format!(
        "SELECT {MEMORY} FROM unnest($3::text[]) AS k (kind) CROSS JOIN LATERAL (
             SELECT * FROM memories m WHERE m.tk = $1 AND m.owner = $2 AND m.kind = k.kind AND m.n < $4
                 AND m.created_at >= $5 AND ($6 OR m.dormant_at IS NULL) ORDER BY m.n DESC LIMIT $7) m
         ORDER BY m.n DESC LIMIT $7"
    );
    let kinds: Vec<&str> = postings::kinds(query).iter().map(|kind| kind.as_str()).collect();
    let (before, since) = (query.after.unwrap_or(i64::MAX), since(query));
    let one_more = int(query.limit as u64).saturating_add(1);
    let (owner, dormant) = (query.owner.as_str(), query.dormant);
    let rows = context
        .read(Scope::Tenant(tk), &sql, &[&tk, &owner, &kinds, &before, &since, &dormant, &one_more])
        .await?;
    let found: Vec<(i64, Memory)> = rows.iter().map(memory_of).collect::<Result<_>>()?;
    Ok(Page::cut(found, query.limit))
}

/// The memories that match the words best.
async fn matching(context: &Context, tk: i32, query: &MemoryQuery) -> Result<Page<Memory, i64>> {
    let (words, buckets) = (postings::query_words(query), postings::buckets(tk.into(), query));
    let found = hits_of_words(context, tk, "memory_words", &words, &buckets).await?;
    let sql = format!(
        "SELECT {MEMORY} FROM unnest($2::bigint[]) WITH ORDINALITY AS r (n, at)
         JOIN memories m ON m.tk = $1 AND m.n = r.n
         WHERE m.owner = $3 AND m.created_at >= $4 ORDER BY r.at LIMIT $5"
    );
    let (best, limit) = (postings::rank(&found), int(query.limit as u64));
    let rows = context
        .read(Scope::Tenant(tk), &sql, &[&tk, &best, &query.owner.as_str(), &since(query), &limit])
        .await?;
    let items = rows.iter().map(|row| memory_of(row).map(|(_, memory)| memory)).collect::<Result<_>>()?;
    Ok(Page { items, next: None })
}

/// The newest hits of each word in any of these buckets, and one more where there are too many.
pub(super) async fn hits_of_words(
    context: &Context,
    tk: i32,
    table: &str,
    words: &[String],
    buckets: &[i64],
) -> Result<Vec<Vec<PostingHit>>> {
    let sql = format!(
        "SELECT w.at, f.n, f.times, f.length FROM unnest($2::text[]) WITH ORDINALITY AS w (word, at)
         CROSS JOIN unnest($3::bigint[]) AS d (drawer)
         CROSS JOIN LATERAL (SELECT m.n, m.times, m.length FROM {table} m
             WHERE m.tk = $1 AND m.drawer = d.drawer AND m.word = w.word ORDER BY m.n DESC LIMIT $4) f"
    );
    let most = HITS_MAX as i64 + 1;
    let mut found: Vec<Vec<PostingHit>> = vec![Vec::new(); words.len()];
    for row in context.read(Scope::Tenant(tk), &sql, &[&tk, &words, &buckets, &most]).await? {
        let at = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or_default();
        let hit = PostingHit { n: row.try_get(1)?, times: row.try_get(2)?, length: row.try_get(3)? };
        if let Some(hits) = found.get_mut(at) {
            hits.push(hit);
        }
    }
    Ok(found)
}

fn since(query: &MemoryQuery) -> i64 {
    query.since.map_or(i64::MIN, Timestamp::as_micros)
}

/// Writes a memory whole. If its words changed, its postings are written again and its vector is removed.
pub(super) async fn put(tx: &Tx, tk: i32, memory: &Memory) -> Result<()> {
    let postings = Postings::of(tk.into(), memory);
    let line = postings.line();
    // The row keeps its old bucket and words until those postings are deleted; another transaction that writes the
    // row waits for this one.
    let sql = "INSERT INTO memories AS m (tk, id, owner, kind, created_at, last_referenced_at, dormant_at, body, drawer,
             words) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, '')
         ON CONFLICT (tk, id) DO UPDATE SET owner = excluded.owner, kind = excluded.kind,
             created_at = excluded.created_at, last_referenced_at = excluded.last_referenced_at,
             dormant_at = excluded.dormant_at, body = excluded.body
         RETURNING m.n, m.drawer, m.words";
    let body = serde_json::to_string(&memory.body).map_err(Error::internal)?;
    let rows = tx
        .query(
            sql,
            &[
                &tk,
                &memory.id,
                &memory.owner.as_str(),
                &memory.kind().as_str(),
                &memory.created_at.as_micros(),
                &memory.last_referenced_at.as_micros(),
                &memory.dormant_at.map(Timestamp::as_micros),
                &body,
            ],
        )
        .await?;
    let row = rows.first().ok_or_else(|| Error::internal("a memory was not written"))?;
    let (n, bucket, words): (i64, i64, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if bucket == postings.bucket && words == line {
        return Ok(());
    }
    let mut writes = Writes::default();
    writes.add_after(TAKE_OUT, cells![tk, bucket, words, n]);
    let (texts, times): (Vec<&str>, Vec<i64>) =
        postings.words.iter().map(|(word, times)| (word.as_str(), *times)).unzip();
    writes.add_after(
        "INSERT INTO memory_words (tk, drawer, word, n, times, length)
         SELECT $1, $2, w.word, $3, w.times, $6 FROM unnest($4::text[], $5::bigint[]) AS w (word, times)",
        cells![tk, postings.bucket, n, texts, times, postings.length],
    );
    writes.add_after(
        "UPDATE memories SET drawer = $3, words = $4, embedded_by = '', vector = NULL WHERE tk = $1 AND n = $2",
        cells![tk, n, postings.bucket, line],
    );
    writes.run(tx.client()?).await
}

const TAKE_OUT: &str = "DELETE FROM memory_words WHERE tk = $1 AND drawer = $2 AND word = ANY (string_to_array($3, ' ')) AND n = $4";

pub(super) async fn remove(tx: &Tx, tk: i32, id: &str) -> Result<()> {
    let sql = "DELETE FROM memories WHERE tk = $1 AND id = $2 RETURNING drawer, words, n";
    if let Some(row) = tx.query(sql, &[&tk, &id]).await?.first() {
        let (bucket, words, n): (i64, &str, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        tx.execute(TAKE_OUT, &[&tk, &bucket, &words, &n]).await?;
    }
    Ok(())
}

/// Deletes all memories of an owner.
pub(super) async fn remove_of(tx: &Tx, tk: i32, owner: &Owner) -> Result<()> {
    let buckets = postings::buckets_of(tk.into(), owner);
    tx.execute(
        "DELETE FROM memory_words WHERE tk = $1 AND drawer = ANY ($2)
             AND n IN (SELECT n FROM memories WHERE tk = $1 AND owner = $3)",
        &[&tk, &buckets, &owner.as_str()],
    )
    .await?;
    tx.execute("DELETE FROM memories WHERE tk = $1 AND owner = $2", &[&tk, &owner.as_str()]).await?;
    Ok(())
}

/// Hands facts and arcs of one owner to another, from bucket to bucket.
pub(super) async fn hand_over(tx: &Tx, tk: i32, from: &Owner, into: &Owner) -> Result<()> {
    let (old, new) = (postings::buckets_of(tk.into(), from), postings::buckets_of(tk.into(), into));
    for sql in [
        "UPDATE memory_words w SET drawer = d.new FROM unnest($2::bigint[], $3::bigint[]) AS d (old, new)
         WHERE w.tk = $1 AND w.drawer = d.old AND w.n IN
             (SELECT n FROM memories WHERE tk = $1 AND owner = $4 AND kind <> 'profile' AND $5::text <> '')",
        "UPDATE memories m SET owner = $5, drawer = d.new FROM unnest($2::bigint[], $3::bigint[]) AS d (old, new)
         WHERE m.tk = $1 AND m.owner = $4 AND m.drawer = d.old AND m.kind <> 'profile'",
    ] {
        tx.execute(sql, &[&tk, &old, &new, &from.as_str(), &into.as_str()]).await?;
    }
    Ok(())
}
