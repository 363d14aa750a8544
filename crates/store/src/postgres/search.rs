//! Text search: an index that follows the log, and questions to it.
//!
//! Documents are made behind the commits, by a task of each node, session by session up to `done_to`. Words are
//! cut here, not by the database, so that both stores find the same things.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::event::payload::text_of;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::limits;
use sederunt_core::session::query::Page;
use sederunt_core::store::{Hit, SearchQuery};
use tokio::sync::{Notify, watch};

use super::fault::Result;
use super::sessions::{Range, Seen, log_lock, ranges};
use super::tx::{Base, Scope, Tx, count, hash64, int};
use crate::snippet;

/// Appends of one burst are indexed together.
const GATHER: Duration = Duration::from_millis(50);
/// How often a node looks for sessions that another one left behind.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How far back, in minutes, that look goes.
const LOOK_BACK_MINUTES: i64 = 10;
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Sessions of one transaction, and events of one statement.
const SESSIONS_MAX: usize = 64;
const EVENTS_MAX: i64 = 500;
/// The page of a look at all sessions.
const BEHIND_MAX: i64 = 1_000;
/// A longer word is found by its beginning.
const WORD_CHARS_MAX: usize = 64;
/// What is searched at a time, when not everything found may be seen.
const WINDOW: i64 = 200;

/// Sessions whose text has changed.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    sessions: Mutex<BTreeSet<(i32, i64)>>,
    wake: Notify,
}

impl Dirty {
    pub(super) fn put(&self, sessions: impl IntoIterator<Item = (i32, i64)>) {
        self.sessions.lock().extend(sessions);
        self.wake.notify_one();
    }

    fn take(&self) -> BTreeMap<i32, Vec<i64>> {
        let mut by_tenant: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        for (tk, sk) in std::mem::take(&mut *self.sessions.lock()) {
            by_tenant.entry(tk).or_default().push(sk);
        }
        by_tenant
    }
}

/// Follows the commits of this node until the store closes.
pub(super) async fn follow(base: Arc<Base>, mut closing: watch::Receiver<bool>) {
    if let Err(fault) = catch_up(&base).await {
        tracing::warn!(?fault, "the search index could not be brought up to date at the start");
    }
    loop {
        let woken = tokio::select! {
            () = base.dirty.wake.notified() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        if woken {
            tokio::time::sleep(GATHER).await;
        } else if let Err(fault) = look_around(&base).await {
            tracing::debug!(?fault, "cannot look for sessions to index");
        }
        if let Err(fault) = index_dirty(&base).await {
            tracing::warn!(?fault, "indexing has failed and will be tried again");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn index_dirty(base: &Base) -> Result<()> {
    for (tk, sks) in base.dirty.take() {
        for portion in sks.chunks(SESSIONS_MAX) {
            if let Err(fault) = index(base, tk, portion).await {
                base.dirty.put(sks.iter().map(|sk| (tk, *sk)));
                return Err(fault);
            }
        }
    }
    Ok(())
}

const BEHIND: &str = "FROM session_heads h LEFT JOIN search_done d ON d.tk = h.tk AND d.sk = h.sk
     WHERE (d.sk IS NULL OR d.done_to < h.last_sequence OR d.version <> h.version)";

/// Indexes every session that is behind, once through.
pub(super) async fn catch_up(base: &Base) -> Result<()> {
    let sql = format!("SELECT h.tk, h.sk {BEHIND} AND (h.tk, h.sk) > ($1, $2) ORDER BY h.tk, h.sk LIMIT $3");
    let mut after = (0i32, 0i64);
    loop {
        let rows = base.read(Scope::All, &sql, &[&after.0, &after.1, &BEHIND_MAX]).await?;
        let mut by_tenant: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        for row in &rows {
            after = (row.try_get(0)?, row.try_get(1)?);
            by_tenant.entry(after.0).or_default().push(after.1);
        }
        for (tk, sks) in by_tenant {
            for portion in sks.chunks(SESSIONS_MAX) {
                index(base, tk, portion).await?;
            }
        }
        if (rows.len() as i64) < BEHIND_MAX {
            return Ok(());
        }
    }
}

/// Finds what a node that died has left behind. One node looks at a time.
async fn look_around(base: &Base) -> Result<()> {
    let tx = base.begin(Scope::All).await?;
    let lock = hash64(&[b"index", base.schema.as_bytes()]);
    let mine: bool = tx.query("SELECT pg_try_advisory_xact_lock($1)", &[&lock]).await?[0].try_get(0)?;
    if mine {
        let now = tx.clock(base).await?;
        let sql = format!("SELECT h.tk, h.sk {BEHIND} AND h.active_minute >= $1 LIMIT $2");
        let rows = tx.query(&sql, &[&(now.minute() - LOOK_BACK_MINUTES), &BEHIND_MAX]).await?;
        let mut behind = Vec::with_capacity(rows.len());
        for row in &rows {
            behind.push((row.try_get(0)?, row.try_get(1)?));
        }
        base.dirty.put(behind);
    }
    tx.commit().await
}

/// Brings sessions of a tenant up to their last event.
async fn index(base: &Base, tk: i32, sks: &[i64]) -> Result<()> {
    while !index_once(base, tk, sks).await? {}
    Ok(())
}

/// One transaction's worth of it; whether that was all.
async fn index_once(base: &Base, tk: i32, sks: &[i64]) -> Result<bool> {
    super::tx::within(async {
        let tx = base.begin(Scope::Tenant(tk)).await?;
        match write(&tx, tk, sks).await {
            Ok(all) => tx.commit().await.map(|()| all),
            Err(fault) => {
                tx.rollback().await;
                Err(fault)
            }
        }
    })
    .await
}

#[derive(Default)]
struct Docs {
    sk: Vec<i64>,
    seq: Vec<i64>,
    words: Vec<String>,
}

impl Docs {
    fn add(&mut self, tk: i32, sk: i64, seq: i64, text: &str) {
        let mut words: Vec<String> = words_of(text);
        words.sort_unstable();
        words.dedup();
        words.push(tenant_word(tk));
        self.sk.push(sk);
        self.seq.push(seq);
        self.words.push(words.join(" "));
    }
}

async fn write(tx: &Tx, tk: i32, sks: &[i64]) -> Result<bool> {
    // A session that is being removed must not leave documents behind.
    let locks: Vec<i64> = sks.iter().map(|sk| log_lock(tk, *sk)).collect();
    tx.query("SELECT pg_advisory_xact_lock_shared(k) FROM unnest($1::bigint[]) AS k", &[&locks]).await?;
    let sql = "SELECT h.sk, h.last_sequence, h.version, coalesce(d.done_to, 0), coalesce(d.version, -1), s.title,
             s.description
         FROM session_heads h JOIN sessions s ON s.tk = h.tk AND s.sk = h.sk
         LEFT JOIN search_done d ON d.tk = h.tk AND d.sk = h.sk
         WHERE h.tk = $1 AND h.sk = ANY ($2) ORDER BY h.sk";
    let mut docs = Docs::default();
    let (mut done_sk, mut done_to, mut done_version) = (Vec::new(), Vec::new(), Vec::new());
    let mut room = EVENTS_MAX;
    let mut all = true;
    for row in tx.query(sql, &[&tk, &sks]).await? {
        let (sk, last, version): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (done, seen_version): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
        if done >= last && version == seen_version {
            continue;
        }
        if room <= 0 {
            all = false;
            break;
        }
        if version != seen_version || done == 0 {
            let texts: [Option<&str>; 2] = [row.try_get(5)?, row.try_get(6)?];
            docs.add(tk, sk, 0, &texts.into_iter().flatten().collect::<Vec<_>>().join(" "));
        }
        let upto = last.min(done + room);
        read(tx, tk, sk, (done + 1, upto), last, &mut docs).await?;
        room -= upto - done;
        all &= upto == last;
        done_sk.push(sk);
        done_to.push(upto);
        done_version.push(if upto == last { version } else { seen_version });
    }
    let sql = "INSERT INTO search_docs AS d (tk, sk, seq, tsv)
         SELECT $1, u.sk, u.seq, array_to_tsvector(string_to_array(u.words, ' '))
         FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS u (sk, seq, words)
         ON CONFLICT (tk, sk, seq) DO UPDATE SET tsv = excluded.tsv WHERE d.tsv IS DISTINCT FROM excluded.tsv";
    tx.execute(sql, &[&tk, &docs.sk, &docs.seq, &docs.words]).await?;
    let sql = "INSERT INTO search_done AS d (tk, sk, done_to, version)
         SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[])
         ON CONFLICT (tk, sk) DO UPDATE SET done_to = greatest(d.done_to, excluded.done_to), version = excluded.version";
    tx.execute(sql, &[&tk, &done_sk, &done_to, &done_version]).await?;
    Ok(all)
}

/// The texts of a span of a session's log.
async fn read(tx: &Tx, tk: i32, sk: i64, (from, to): (i64, i64), last: i64, docs: &mut Docs) -> Result<()> {
    if from > to {
        return Ok(());
    }
    for piece in Range::prefix(ranges(tx, tk, sk).await?, sk, last) {
        let (low, high) = (piece.from.max(from), piece.to.min(to));
        if low > high {
            continue;
        }
        let sql = "SELECT seq, content FROM events WHERE tk = $1 AND log = $2 AND seq BETWEEN $3 AND $4
             AND content IS NOT NULL ORDER BY seq";
        for row in tx.query(sql, &[&tk, &piece.log, &low, &high]).await? {
            if let Some(text) = text_of(&Json::stored(row.try_get::<_, &str>(1)?)) {
                docs.add(tk, sk, row.try_get(0)?, &text);
            }
        }
    }
    Ok(())
}

/// The words of a text, as the index knows them.
fn words_of(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.to_lowercase().chars().take(WORD_CHARS_MAX).collect())
        .collect()
}

/// Stands in every document of a tenant, so that the index itself keeps tenants apart. No text has such a word.
fn tenant_word(tk: i32) -> String {
    format!("§{tk}")
}

/// All words must be there, each at least as the beginning of one. Words are letters and digits alone, so nothing
/// in them can be an operator.
fn query_of(tk: i32, words: &[String]) -> String {
    let mut query = format!("'{}'", tenant_word(tk));
    for word in words {
        query.push_str(&format!(" & '{word}':*"));
    }
    query
}

/// Sessions with all these words in one place, newest first; `None` if there is no word to look for.
pub(super) async fn sessions_with(base: &Base, tk: i32, text: &str) -> Result<Option<Vec<i64>>> {
    let words = words_of(text);
    if words.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT DISTINCT sk FROM (SELECT sk FROM search_docs WHERE tk = $1 AND tsv @@ $2::text::tsquery
         ORDER BY n DESC LIMIT $3) newest";
    let scan = int(limits::PAGE_SCAN_MAX as u64);
    let rows = base.read(Scope::Words, sql, &[&tk, &query_of(tk, &words), &scan]).await?;
    Ok(Some(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?))
}

pub(super) async fn search(base: &Base, tenant: &TenantId, query: SearchQuery) -> Result<Page<Hit, i64>> {
    let mut page = Page { items: Vec::new(), next: None };
    let words: Vec<String> = query.words.iter().flat_map(|word| words_of(word)).collect();
    let Some(tk) = base.tk(tenant).await?.filter(|_| !words.is_empty()) else { return Ok(page) };
    let limit = query.limit.clamp(1, limits::PAGE_ROWS_MAX);
    let seen = Seen::of(query.seen_by.as_ref());
    let mut before = query.after.unwrap_or(i64::MAX);
    let find = "SELECT n FROM search_docs WHERE tk = $1 AND tsv @@ $2::text::tsquery AND n < $3 ORDER BY n DESC LIMIT $4";
    let mut looked = 0;
    while looked < limits::PAGE_SCAN_MAX {
        let window = WINDOW.max(int(limit as u64) + 1);
        let rows = base.read(Scope::Words, find, &[&tk, &query_of(tk, &words), &before, &window]).await?;
        let found: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        for (n, hit) in hits(base, tk, &found, &seen, &words).await? {
            if page.items.len() == limit {
                page.next = Some(before);
                return Ok(page);
            }
            before = n;
            page.items.push(hit);
        }
        let Some(last) = found.last().filter(|_| found.len() as i64 == window) else { return Ok(page) };
        before = *last;
        looked += found.len();
    }
    page.next = Some(before);
    Ok(page)
}

/// What the documents stand for, as far as it may be seen.
async fn hits(base: &Base, tk: i32, found: &[i64], seen: &Seen, words: &[String]) -> Result<Vec<(i64, Hit)>> {
    let sql = "SELECT d.n, d.seq, h.id, s.title, s.description, e.content
         FROM search_docs d JOIN session_heads h ON h.tk = d.tk AND h.sk = d.sk
         JOIN sessions s ON s.tk = d.tk AND s.sk = d.sk
         LEFT JOIN LATERAL (SELECT r.log FROM session_ranges r WHERE r.tk = d.tk AND r.sk = d.sk
             AND d.seq BETWEEN r.from_seq AND r.to_seq) r ON true
         LEFT JOIN events e ON e.tk = d.tk AND e.log = coalesce(r.log, d.sk) AND e.seq = d.seq
         WHERE d.tk = $1 AND d.n = ANY ($2)
             AND ($3::text IS NULL OR h.holder = $3 OR EXISTS (SELECT 1 FROM participants p
                 WHERE p.tk = h.tk AND p.sk = h.sk AND p.user_id = $3))
             AND ($4::text IS NULL OR h.claim_credential = $4)
             AND ($5::text IS NULL OR (h.id >= $5 AND h.id < $6))
         ORDER BY d.n DESC";
    let (from, to) = seen.prefix.clone().unzip();
    let rows = base.read(Scope::Tenant(tk), sql, &[&tk, &found, &seen.user, &seen.credential, &from, &to]).await?;
    let mut hits = Vec::with_capacity(rows.len());
    for row in &rows {
        let seq: i64 = row.try_get(1)?;
        let text = if seq == 0 {
            let texts: [Option<&str>; 2] = [row.try_get(3)?, row.try_get(4)?];
            texts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        } else {
            let content: Option<&str> = row.try_get(5)?;
            content.and_then(|content| text_of(&Json::stored(content))).unwrap_or_default()
        };
        let hit = Hit {
            session: SessionId::stored(row.try_get::<_, &str>(2)?),
            sequence: (seq > 0).then(|| count(seq)),
            snippet: snippet(&text, words),
        };
        hits.push((row.try_get(0)?, hit));
    }
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_letters_and_digits_in_lower_case() {
        assert_eq!(words_of("It's o'clock: ΑΒΓ-9 & | ! :*'"), ["it", "s", "o", "clock", "αβγ", "9"]);
        assert_eq!(query_of(7, &words_of("a' | b:*")), "'§7' & 'a':* & 'b':*");
    }
}
