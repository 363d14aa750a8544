//! Memories: their rows, and the words that they are found by.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::TenantId;
use sederunt_core::memory::{Memory, MemoryBody, MemoryKind, Owner};
use sederunt_core::session::query::Page;
use sederunt_core::store::{MemoryQuery, MemoryStore, StoreFuture};

use super::SqliteStore;
use super::fault::{unreadable, unwritable};
use crate::postings::{self, HITS_MAX, PostingHit, Postings};

/// The columns that [`read`] reads; a macro, so that statements stay constants.
macro_rules! columns {
    () => {
        "m.n, m.id, m.owner, m.created_at, m.last_referenced_at, m.dormant_at, m.body"
    };
}

pub(super) const NEWEST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM memories m WHERE m.tk = ?1 AND m.owner = ?2 AND m.kind = ?3 AND m.n < ?4 AND m.created_at >= ?5 \
     AND (?6 OR m.dormant_at IS NULL) ORDER BY m.n DESC LIMIT ?7"
);
pub(super) const COUNT: &str =
    "SELECT count(*) FROM memories WHERE tk = ?1 AND owner = ?2 AND kind = ?3 AND dormant_at IS NULL";
pub(super) const UNDER_WORD: &str =
    "SELECT n, times, length FROM memory_words WHERE drawer = ?1 AND word = ?2 ORDER BY n DESC LIMIT ?3";

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Memory)> {
    let memory = Memory {
        id: row.get(1)?,
        owner: Owner::stored(row.get_ref(2)?.as_str()?),
        created_at: Timestamp::from_micros(row.get(3)?),
        last_referenced_at: Timestamp::from_micros(row.get(4)?),
        dormant_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
        body: serde_json::from_str::<MemoryBody>(row.get_ref(6)?.as_str()?).map_err(unreadable)?,
    };
    Ok((row.get(0)?, memory))
}

impl MemoryStore for SqliteStore {
    fn memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: MemoryQuery,
    ) -> StoreFuture<'a, Page<Memory, i64>> {
        self.read_side_file(tenant, move |db, tk| memories(db, tk, &query)).boxed()
    }

    fn memory<'a>(&'a self, tenant: &'a TenantId, id: &'a str) -> StoreFuture<'a, Option<Memory>> {
        async move {
            self.sync_side_files().await?;
            self.read_inline(move |db| memory(db, tenant, id)).await
        }
        .boxed()
    }

    fn memories_at<'a>(&'a self, tenant: &'a TenantId, ids: &'a [String]) -> StoreFuture<'a, Vec<Memory>> {
        async move {
            self.sync_side_files().await?;
            self.read_inline(move |db| {
                ids.iter().filter_map(|id| memory(db, tenant, id).transpose()).collect()
            })
            .await
        }
        .boxed()
    }

    fn count_memories<'a>(
        &'a self,
        tenant: &'a TenantId,
        owner: &'a Owner,
        kind: MemoryKind,
    ) -> StoreFuture<'a, u64> {
        let owner = owner.clone();
        self.read_side_file(tenant, move |db, tk| count(db, tk, &owner, kind)).boxed()
    }
}

pub(super) fn memory(db: &Connection, tenant: &TenantId, id: &str) -> rusqlite::Result<Option<Memory>> {
    db.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM tenants t JOIN memories m ON m.tk = t.tk WHERE t.id = ?1 AND m.id = ?2"
    ))?
    .query_row([tenant.as_str(), id], |row| read(row).map(|(_, memory)| memory))
    .optional()
}

pub(super) fn by_number(db: &Connection, n: i64) -> rusqlite::Result<Memory> {
    db.prepare_cached(concat!("SELECT ", columns!(), " FROM memories m WHERE m.n = ?1"))?
        .query_row([n], |row| read(row).map(|(_, memory)| memory))
}

/// How many memories of a kind are shown.
fn count(db: &Connection, tk: i64, owner: &Owner, kind: MemoryKind) -> rusqlite::Result<u64> {
    db.prepare_cached(COUNT)?
        .query_row(params![tk, owner.as_str(), kind.as_str()], |row| row.get::<_, i64>(0))
        .map(|count| u64::try_from(count).unwrap_or(0))
}

pub(super) fn memories(db: &Connection, tk: i64, query: &MemoryQuery) -> rusqlite::Result<Page<Memory, i64>> {
    let words = postings::query_words(query);
    if query.words.is_empty() { newest(db, tk, query) } else { matching(db, tk, query, &words) }
}

/// A page, newest first. Each kind has its own order in the index, so the kinds are merged here.
fn newest(db: &Connection, tk: i64, query: &MemoryQuery) -> rusqlite::Result<Page<Memory, i64>> {
    let mut statement = db.prepare_cached(NEWEST)?;
    let (before, since) = (query.after.unwrap_or(i64::MAX), since(query));
    let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut found: Vec<(i64, Memory)> = Vec::new();
    for kind in postings::kinds(query) {
        let asked = params![tk, query.owner.as_str(), kind.as_str(), before, since, query.dormant, one_more];
        for row in statement.query_map(asked, read)? {
            found.push(row?);
        }
    }
    found.sort_unstable_by_key(|(n, _)| std::cmp::Reverse(*n));
    Ok(Page::cut(found, query.limit))
}

/// The memories that match the words best.
fn matching(
    db: &Connection,
    tk: i64,
    query: &MemoryQuery,
    words: &[String],
) -> rusqlite::Result<Page<Memory, i64>> {
    let found = hits_of_words(db, UNDER_WORD, words, &postings::buckets(tk, query))?;
    let mut by_number = db.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM memories m WHERE m.n = ?1 AND m.tk = ?2 AND m.owner = ?3 AND m.created_at >= ?4"
    ))?;
    let mut items = Vec::new();
    for n in postings::rank(&found) {
        if items.len() == query.limit {
            break;
        }
        let row = by_number.query_row(params![n, tk, query.owner.as_str(), since(query)], read).optional()?;
        items.extend(row.map(|(_, memory)| memory));
    }
    Ok(Page { items, next: None })
}

/// The newest hits of each word in any of these buckets, and one more where there are too many.
pub(super) fn hits_of_words(
    db: &Connection,
    sql: &str,
    words: &[String],
    buckets: &[i64],
) -> rusqlite::Result<Vec<Vec<PostingHit>>> {
    let mut under = db.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(words.len());
    for word in words {
        let mut hits = Vec::new();
        for bucket in buckets {
            let rows = under.query_map(params![bucket, word, HITS_MAX as i64 + 1], |row| {
                Ok(PostingHit { n: row.get(0)?, times: row.get(1)?, length: row.get(2)? })
            })?;
            for hit in rows {
                hits.push(hit?);
            }
        }
        found.push(hits);
    }
    Ok(found)
}

fn since(query: &MemoryQuery) -> i64 {
    query.since.map_or(i64::MIN, Timestamp::as_micros)
}

/// Writes a memory whole. If its words changed, its postings are written again and its vector is removed.
pub(super) fn put(db: &Connection, tk: i64, memory: &Memory) -> rusqlite::Result<()> {
    let postings = Postings::of(tk, memory);
    let line = postings.line();
    let before = filed(db, tk, &memory.id)?;
    let n: i64 = db
        .prepare_cached(
            "INSERT INTO memories (tk, id, owner, kind, created_at, last_referenced_at, dormant_at, body, drawer, \
             words) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (tk, id) DO UPDATE SET \
             owner = excluded.owner, kind = excluded.kind, created_at = excluded.created_at, \
             last_referenced_at = excluded.last_referenced_at, dormant_at = excluded.dormant_at, \
             body = excluded.body, drawer = excluded.drawer, words = excluded.words, \
             embedded_by = CASE WHEN drawer = excluded.drawer AND words = excluded.words THEN embedded_by ELSE '' END, \
             vector = CASE WHEN drawer = excluded.drawer AND words = excluded.words THEN vector END RETURNING n",
        )?
        .query_row(
            params![
                tk,
                memory.id,
                memory.owner.as_str(),
                memory.kind().as_str(),
                memory.created_at.as_micros(),
                memory.last_referenced_at.as_micros(),
                memory.dormant_at.map(Timestamp::as_micros),
                serde_json::to_string(&memory.body).map_err(unwritable)?,
                postings.bucket,
                line,
            ],
            |row| row.get(0),
        )?;
    match &before {
        Some(before) if before.bucket == postings.bucket && before.words == line => return Ok(()),
        Some(before) => take_out(db, before)?,
        None => {}
    }
    let mut file = db.prepare_cached(
        "INSERT INTO memory_words (drawer, word, n, times, length) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (word, times) in &postings.words {
        file.execute(params![postings.bucket, word, n, times, postings.length])?;
    }
    Ok(())
}

pub(super) fn remove(db: &Connection, tk: i64, id: &str) -> rusqlite::Result<()> {
    let Some(before) = filed(db, tk, id)? else { return Ok(()) };
    take_out(db, &before)?;
    db.prepare_cached("DELETE FROM memories WHERE n = ?1")?.execute([before.n]).map(drop)
}

/// Deletes all memories of an owner.
pub(super) fn remove_of(db: &Connection, tk: i64, owner: &Owner) -> rusqlite::Result<()> {
    let mut take = db.prepare_cached(
        "DELETE FROM memory_words WHERE drawer = ?1 AND n IN (SELECT n FROM memories WHERE tk = ?2 AND owner = ?3)",
    )?;
    for bucket in postings::buckets_of(tk, owner) {
        take.execute(params![bucket, tk, owner.as_str()])?;
    }
    db.prepare_cached("DELETE FROM memories WHERE tk = ?1 AND owner = ?2")?
        .execute(params![tk, owner.as_str()])
        .map(drop)
}

/// Hands facts and arcs of one owner to another, from bucket to bucket.
pub(super) fn hand_over(db: &Connection, tk: i64, from: &Owner, into: &Owner) -> rusqlite::Result<()> {
    let mut refile = db.prepare_cached(
        "UPDATE memory_words SET drawer = ?2 WHERE drawer = ?1 AND n IN \
         (SELECT n FROM memories WHERE tk = ?3 AND owner = ?4 AND drawer = ?1 AND kind <> 'profile')",
    )?;
    let mut hand = db.prepare_cached(
        "UPDATE memories SET owner = ?5, drawer = ?2 WHERE tk = ?3 AND owner = ?4 AND drawer = ?1 \
         AND kind <> 'profile'",
    )?;
    for (old, new) in postings::buckets_of(tk, from).into_iter().zip(postings::buckets_of(tk, into)) {
        refile.execute(params![old, new, tk, from.as_str()])?;
        hand.execute(params![old, new, tk, from.as_str(), into.as_str()])?;
    }
    Ok(())
}

pub(super) fn remove_all(db: &Connection, tk: i64) -> rusqlite::Result<()> {
    let ids: Vec<String> = db
        .prepare_cached("SELECT id FROM memories WHERE tk = ?1")?
        .query_map([tk], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    ids.iter().try_for_each(|id| remove(db, tk, id))
}

/// The postings that are stored for a memory.
struct StoredPostings {
    n: i64,
    bucket: i64,
    words: String,
}

fn filed(db: &Connection, tk: i64, id: &str) -> rusqlite::Result<Option<StoredPostings>> {
    db.prepare_cached("SELECT n, drawer, words FROM memories WHERE tk = ?1 AND id = ?2")?
        .query_row(params![tk, id], |row| {
            Ok(StoredPostings { n: row.get(0)?, bucket: row.get(1)?, words: row.get(2)? })
        })
        .optional()
}

fn take_out(db: &Connection, filed: &StoredPostings) -> rusqlite::Result<()> {
    let mut take =
        db.prepare_cached("DELETE FROM memory_words WHERE drawer = ?1 AND word = ?2 AND n = ?3")?;
    for word in filed.words.split_ascii_whitespace() {
        take.execute(params![filed.bucket, word, filed.n])?;
    }
    Ok(())
}
