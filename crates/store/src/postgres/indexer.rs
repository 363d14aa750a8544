//! The indexer: a task of each node that indexes what this node has committed, session by session up to `done_to`,
//! and every ten seconds searches for sessions that another node left unindexed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::event::Event;
use sederunt_core::event::payload::shown_text_of;
use sederunt_core::json::Json;
use tokio::sync::{Notify, watch};

use super::fault::Result;
use super::sessions::{SharedRange, log_lock};
use super::tsvector::TsVector;
use super::tx::{Context, Scope, Tx, hash64};
use crate::message_groups::{IndexText, MessageGroup, MessageGroups, NUMBERS, REACH, first_number};

/// How long changes are collected. Appends within this time are indexed together, and a session that is created and
/// finished in it once. A message must be found within a second.
const GATHER: Duration = Duration::from_millis(400);
/// How often a node searches for sessions that another node left unindexed.
const FIND_STALE_EVERY: Duration = Duration::from_secs(10);
/// How far back, in minutes, that search goes.
const FIND_STALE_BACK_MINUTES: i64 = 10;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Sessions of one transaction, and events that are read for it.
const SESSIONS_MAX: usize = 256;
const EVENTS_MAX: i64 = 1_000;
/// Documents that are built before other tasks may run.
const AT_ONCE: usize = 8;
/// Sessions of one page of that search.
const BEHIND_MAX: i64 = 1_000;

/// Sessions with something to index.
#[derive(Debug, Default)]
pub(super) struct DirtySessions {
    sessions: Mutex<BTreeSet<(i32, i64)>>,
    wake: Notify,
}

impl DirtySessions {
    pub(super) fn put(&self, sessions: impl IntoIterator<Item = (i32, i64)>) {
        let mut sessions = sessions.into_iter().peekable();
        if sessions.peek().is_some() {
            self.sessions.lock().extend(sessions);
            self.wake.notify_one();
        }
    }

    fn take(&self) -> BTreeMap<i32, Vec<i64>> {
        by_tenant(std::mem::take(&mut *self.sessions.lock()))
    }
}

fn by_tenant(sessions: impl IntoIterator<Item = (i32, i64)>) -> BTreeMap<i32, Vec<i64>> {
    let mut sorted: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    for (tk, sk) in sessions {
        sorted.entry(tk).or_default().push(sk);
    }
    sorted
}

/// Indexes the commits of this node until the store closes. The next start repeats what is half done then.
pub(super) async fn follow(context: Arc<Context>, mut closing: watch::Receiver<bool>) {
    tokio::select! {
        () = run(&context) => {}
        _ = closing.wait_for(|closing| *closing) => {}
    }
}

async fn run(context: &Context) {
    while let Err(fault) = catch_up(context).await {
        tracing::warn!(
            ?fault,
            "the indexer could not bring the search index up to date; it tries again in a second"
        );
        tokio::time::sleep(PAUSE).await;
    }
    loop {
        if tokio::time::timeout(FIND_STALE_EVERY, context.dirty_sessions.wake.notified()).await.is_ok() {
            tokio::time::sleep(GATHER).await;
        } else if let Err(fault) = find_stale(context).await {
            tracing::debug!(
                ?fault,
                "the indexer could not search for unindexed sessions; it tries again in ten seconds"
            );
        }
        let dirty = context.dirty_sessions.take();
        if let Err(fault) = index_all(context, &dirty).await {
            tracing::warn!(?fault, "the indexer could not index new messages; it tries again in a second");
            context
                .dirty_sessions
                .put(dirty.into_iter().flat_map(|(tk, sks)| sks.into_iter().map(move |sk| (tk, sk))));
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn index_all(context: &Context, sessions: &BTreeMap<i32, Vec<i64>>) -> Result<()> {
    for (tk, sks) in sessions {
        for portion in sks.chunks(SESSIONS_MAX) {
            while !index(context, *tk, portion).await? {}
        }
    }
    Ok(())
}

/// Sessions whose index is behind, judged by messages and words only: a session that changes its status has nothing
/// new to index.
pub(super) const BEHIND: &str = "FROM session_heads h LEFT JOIN search_done d ON d.tk = h.tk AND d.sk = h.sk
     WHERE (d.sk IS NULL OR d.messages <> h.message_count OR d.version <> h.words_version)";
/// Stored as the message count of a session that was not indexed to its end: no session has this count.
const UNFINISHED: i64 = -1;

/// Indexes every session whose index is behind, once.
pub(super) async fn catch_up(context: &Context) -> Result<()> {
    let sql = format!("SELECT h.tk, h.sk {BEHIND} AND (h.tk, h.sk) > ($1, $2) ORDER BY h.tk, h.sk LIMIT $3");
    let mut after = (0i32, 0i64);
    loop {
        let mut behind = Vec::new();
        for row in context.read(Scope::All, &sql, &[&after.0, &after.1, &BEHIND_MAX]).await? {
            after = (row.try_get(0)?, row.try_get(1)?);
            behind.push(after);
        }
        let last = (behind.len() as i64) < BEHIND_MAX;
        index_all(context, &by_tenant(behind)).await?;
        if last {
            return Ok(());
        }
    }
}

/// Finds sessions that a dead node left unindexed. One node searches at a time.
async fn find_stale(context: &Context) -> Result<()> {
    let tx = context.begin(Scope::All).await?;
    let lock = hash64(&[b"index", context.schema.as_bytes()]);
    let mine = tx.query("SELECT 1 WHERE pg_try_advisory_xact_lock($1)", &[&lock]).await?;
    if !mine.is_empty() {
        let now = tx.clock(context).await?;
        let sql = format!("SELECT h.tk, h.sk {BEHIND} AND h.active_minute >= $1 LIMIT $2");
        let rows = tx.query(&sql, &[&(now.minute() - FIND_STALE_BACK_MINUTES), &BEHIND_MAX]).await?;
        let mut behind = Vec::with_capacity(rows.len());
        for row in &rows {
            behind.push((row.try_get(0)?, row.try_get(1)?));
        }
        context.dirty_sessions.put(behind);
    }
    tx.commit().await
}

/// Indexes one transaction's worth of some sessions of a tenant. Returns whether that was all.
async fn index(context: &Context, tk: i32, sks: &[i64]) -> Result<bool> {
    super::tx::within(async {
        let tx = context.begin(Scope::Tenant(tk)).await?;
        // A crash may lose these commits, and the next start repeats them: they need not wait for the disk.
        tx.execute("SET LOCAL synchronous_commit TO off", &[]).await?;
        match index_sessions(context, &tx, tk, sks).await {
            Ok(all) => tx.commit().await.map(|()| all),
            Err(fault) => {
                tx.rollback().await;
                Err(fault)
            }
        }
    })
    .await
}

/// A document of the index.
struct IndexDocument {
    at: i64,
    sk: i64,
    /// 0 for title and description.
    seq: i64,
    upto: i64,
    words: TsVector,
}

impl IndexDocument {
    fn of(tk: i32, sk: i64, group: &MessageGroup) -> Self {
        // A document spans few sequences.
        let place = |said: &IndexText| u16::try_from(said.seq - group.first + 1).unwrap_or(u16::MAX);
        let placed = group.texts.iter().map(|said| (place(said), said.text.as_str()));
        Self { at: group.at, sk, seq: group.first, upto: group.last, words: TsVector::of(tk, placed) }
    }
}

/// How far a session was indexed before, and how far it will be now.
struct StaleSession {
    sk: i64,
    last: i64,
    messages: i64,
    version: i64,
    done_to: i64,
    done_version: i64,
    upto: i64,
    /// The events in between, if this node has them.
    fresh: Option<Vec<Arc<Event>>>,
}

async fn index_sessions(context: &Context, tx: &Tx, tk: i32, sks: &[i64]) -> Result<bool> {
    // One node at a time, so that numbers are given once. The locks on the logs make sure that a session that is
    // being deleted leaves no documents behind.
    let tenant_lock = hash64(&[b"index", &tk.to_be_bytes()]);
    tx.query("SELECT pg_advisory_xact_lock($1)", &[&tenant_lock]).await?;
    let locks: Vec<i64> = sks.iter().map(|sk| log_lock(tk, *sk)).collect();
    tx.execute("SELECT pg_advisory_xact_lock_shared(k) FROM unnest($1::bigint[]) AS k", &[&locks]).await?;

    let mut taken: Vec<StaleSession> = Vec::new();
    let mut room = EVENTS_MAX;
    let mut all = true;
    let found = stale_sessions(tx, tk, sks).await?;
    let is_behind = |sk: &i64| found.binary_search_by_key(sk, |behind| behind.sk).is_ok();
    context.unindexed.forget(tk, sks.iter().copied().filter(|sk| !is_behind(sk)));
    for mut behind in found {
        behind.fresh = context.unindexed.take((tk, behind.sk), behind.done_to + 1, behind.last);
        behind.upto = behind.last;
        if behind.fresh.is_none() {
            behind.upto = behind.last.min(behind.done_to + room);
            room -= behind.upto - behind.done_to;
        }
        let whole = behind.upto == behind.last;
        all &= whole;
        if whole || behind.upto > behind.done_to {
            taken.push(behind);
        }
    }
    let mut docs = titles(tx, tk, &taken).await?;
    docs.extend(messages(tx, tk, &taken).await?);
    docs.sort_unstable_by_key(|doc| (doc.at, doc.sk, doc.seq));
    write(tx, tk, &docs).await?;
    let done_sks: Vec<i64> = taken.iter().map(|behind| behind.sk).collect();
    let done_to: Vec<i64> = taken.iter().map(|behind| behind.upto).collect();
    let finished =
        |behind: &StaleSession| if behind.upto == behind.last { behind.messages } else { UNFINISHED };
    let messages: Vec<i64> = taken.iter().map(finished).collect();
    let versions: Vec<i64> = taken.iter().map(|behind| behind.version).collect();
    let sql = "INSERT INTO search_done AS d (tk, sk, done_to, messages, version)
         SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
         ON CONFLICT (tk, sk) DO UPDATE SET done_to = excluded.done_to, messages = excluded.messages,
             version = excluded.version";
    tx.execute(sql, &[&tk, &done_sks, &done_to, &messages, &versions]).await?;
    Ok(all)
}

async fn stale_sessions(tx: &Tx, tk: i32, sks: &[i64]) -> Result<Vec<StaleSession>> {
    let sql = format!(
        "SELECT h.sk, h.last_sequence, h.message_count, h.words_version, coalesce(d.done_to, 0),
             coalesce(d.version, -1) {BEHIND}
         AND h.tk = $1 AND h.sk = ANY ($2) ORDER BY h.sk"
    );
    let mut found = Vec::new();
    for row in tx.query(&sql, &[&tk, &sks]).await? {
        let done_to = row.try_get(4)?;
        found.push(StaleSession {
            sk: row.try_get(0)?,
            last: row.try_get(1)?,
            messages: row.try_get(2)?,
            version: row.try_get(3)?,
            done_to,
            done_version: row.try_get(5)?,
            upto: done_to,
            fresh: None,
        });
    }
    Ok(found)
}

/// Titles and descriptions whose words changed. A description that was taken from the first message is left out: the
/// message has the same words.
async fn titles(tx: &Tx, tk: i32, taken: &[StaleSession]) -> Result<Vec<IndexDocument>> {
    let changed = taken.iter().filter(|behind| behind.version != behind.done_version);
    let changed: Vec<i64> = changed.map(|behind| behind.sk).collect();
    let mut docs = Vec::new();
    if changed.is_empty() {
        return Ok(docs);
    }
    let sql = "SELECT h.sk, h.last_at, concat_ws(E'\n', s.title,
             CASE WHEN s.description_source IS DISTINCT FROM 'fallback' THEN s.description END), d.sk IS NOT NULL
         FROM session_heads h JOIN sessions s ON s.tk = h.tk AND s.sk = h.sk
         LEFT JOIN search_docs d ON d.tk = h.tk AND d.sk = h.sk AND d.seq = 0
         WHERE h.tk = $1 AND h.sk = ANY ($2)";
    let (mut known, mut words): (Vec<i64>, Vec<TsVector>) = Default::default();
    for row in tx.query(sql, &[&tk, &changed]).await? {
        let (sk, text): (i64, &str) = (row.try_get(0)?, row.try_get(2)?);
        let title = IndexText { seq: 0, at: row.try_get(1)?, text: text.to_owned() };
        let doc = IndexDocument::of(tk, sk, &MessageGroup::of(title));
        if row.try_get(3)? {
            known.push(sk);
            words.push(doc.words.clone());
        }
        if !text.is_empty() {
            docs.push(doc);
        }
    }
    if !known.is_empty() {
        // Documents with the same words stay as they are.
        let sql =
            "WITH now AS (SELECT * FROM unnest($2::bigint[], $3::tsvector[]) AS u (sk, words)), gone AS (
                 DELETE FROM search_docs d USING now WHERE d.tk = $1 AND d.sk = now.sk AND d.seq = 0
                     AND d.tsv <> now.words RETURNING d.sk)
             SELECT sk FROM now WHERE sk NOT IN (SELECT sk FROM gone)";
        let rows = tx.query(sql, &[&tk, &known, &words]).await?;
        let same: BTreeSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        docs.retain(|doc| !same.contains(&doc.sk));
    }
    Ok(docs)
}

/// The messages that are not yet indexed, of all sessions at once. Messages of this node are not read back.
async fn messages(tx: &Tx, tk: i32, taken: &[StaleSession]) -> Result<Vec<IndexDocument>> {
    let mut said: Vec<(i64, i64, IndexText)> = Vec::new();
    let mut unread: Vec<&StaleSession> = Vec::new();
    for (nth, behind) in taken.iter().enumerate() {
        yield_now_and_then(nth).await;
        match &behind.fresh {
            Some(events) => said.extend(events.iter().filter_map(|event| {
                let text = event.kind.is_message().then(|| event.shown_text()).flatten()?;
                let seq = event.sequence.cast_signed();
                Some((behind.sk, behind.sk, IndexText { seq, at: event.at.as_micros(), text }))
            })),
            None => unread.push(behind),
        }
    }
    read(tx, tk, &unread, &mut said).await?;
    said.sort_unstable_by_key(|(sk, _, message)| (*sk, message.seq));
    // Messages of another log begin another document, because hits are read from the log.
    let mut groups = MessageGroups::default();
    for (sk, log, message) in said {
        groups.push((sk, log), message);
    }
    let mut docs = Vec::with_capacity(groups.groups.len());
    for (nth, ((sk, _), group)) in groups.groups.iter().enumerate() {
        yield_now_and_then(nth).await;
        docs.push(IndexDocument::of(tk, *sk, group));
    }
    Ok(docs)
}

/// Cutting words takes the processor for milliseconds: other tasks run in between.
async fn yield_now_and_then(nth: usize) {
    if nth.is_multiple_of(AT_ONCE) {
        tokio::task::yield_now().await;
    }
}

/// Reads messages from the logs that hold them: session, log and text.
async fn read(
    tx: &Tx,
    tk: i32,
    unread: &[&StaleSession],
    said: &mut Vec<(i64, i64, IndexText)>,
) -> Result<()> {
    let sks: Vec<i64> = unread.iter().map(|behind| behind.sk).collect();
    if sks.is_empty() {
        return Ok(());
    }
    let mut shared: BTreeMap<i64, Vec<SharedRange>> = BTreeMap::new();
    let sql = "SELECT sk, from_seq, to_seq, log FROM session_ranges WHERE tk = $1 AND sk = ANY ($2)
         ORDER BY sk, from_seq";
    for row in tx.query(sql, &[&tk, &sks]).await? {
        let range = SharedRange { from: row.try_get(1)?, to: row.try_get(2)?, log: row.try_get(3)? };
        shared.entry(row.try_get(0)?).or_default().push(range);
    }
    let mut pieces: (Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>) = Default::default();
    for behind in unread {
        for piece in
            SharedRange::prefix(shared.remove(&behind.sk).unwrap_or_default(), behind.sk, behind.last)
        {
            let (low, high) = (piece.from.max(behind.done_to + 1), piece.to.min(behind.upto));
            if low <= high {
                pieces.0.push(behind.sk);
                pieces.1.push(piece.log);
                pieces.2.push(low);
                pieces.3.push(high);
            }
        }
    }
    if pieces.0.is_empty() {
        return Ok(());
    }
    let sql = "SELECT w.sk, w.log, e.seq, e.at, e.content, e.type
         FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS w (sk, log, low, high)
         JOIN events e ON e.tk = $1 AND e.log = w.log AND e.seq BETWEEN w.low AND w.high
         WHERE e.type IN ('user.message', 'agent.message') AND e.content IS NOT NULL";
    for row in tx.query(sql, &[&tk, &pieces.0, &pieces.1, &pieces.2, &pieces.3]).await? {
        if let Some(text) = shown_text_of(row.try_get(5)?, &Json::stored(row.try_get::<_, &str>(4)?)) {
            let message = IndexText { seq: row.try_get(2)?, at: row.try_get(3)?, text };
            said.push((row.try_get(0)?, row.try_get(1)?, message));
        }
    }
    Ok(())
}

/// Gives every document a free number in the order of time, and writes them.
async fn write(tx: &Tx, tk: i32, docs: &[IndexDocument]) -> Result<()> {
    if docs.is_empty() {
        return Ok(());
    }
    let mut firsts: Vec<i64> = docs.iter().map(|doc| first_number(doc.at)).collect();
    firsts.dedup();
    let sql = "SELECT w.first, (SELECT max(n) FROM search_docs d WHERE d.tk = $1 AND d.n >= w.first AND d.n < w.first + $3)
         FROM unnest($2::bigint[]) AS w (first)";
    let mut taken: BTreeMap<i64, i64> = BTreeMap::new();
    for row in tx.query(sql, &[&tk, &firsts, &NUMBERS]).await? {
        if let Some(number) = row.try_get(1)? {
            taken.insert(row.try_get(0)?, number);
        }
    }
    let mut last = i64::MIN;
    let mut numbers = Vec::with_capacity(docs.len());
    for doc in docs {
        let first = first_number(doc.at);
        let behind = taken.get(&first).map_or(first, |taken| taken + REACH);
        let mut number = behind.max(last.saturating_add(REACH));
        if number >= first + NUMBERS {
            // More documents than numbers at this time: the next free number behind them.
            let sql = "SELECT $2::bigint + $3 * coalesce(max(o), 0) FROM (SELECT row_number() OVER (ORDER BY n) AS o,
                 (n - $2::bigint) / $3 + 1 AS d FROM search_docs WHERE tk = $1 AND n >= $2 ORDER BY n LIMIT 100000) x
                 WHERE o = d";
            let rows = tx.query(sql, &[&tk, &number, &REACH]).await?;
            number = rows.first().map_or(Ok(number), |row| row.try_get(0))?;
        }
        last = number;
        numbers.push(number);
    }
    let sks: Vec<i64> = docs.iter().map(|doc| doc.sk).collect();
    let seqs: Vec<i64> = docs.iter().map(|doc| doc.seq).collect();
    let uptos: Vec<i64> = docs.iter().map(|doc| doc.upto).collect();
    let words: Vec<&TsVector> = docs.iter().map(|doc| &doc.words).collect();
    let sql = "INSERT INTO search_docs (tk, sk, seq, upto, n, tsv)
         SELECT $1, unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]),
             unnest($6::tsvector[])";
    tx.execute(sql, &[&tk, &sks, &seqs, &uptos, &numbers, &words]).await?;
    Ok(())
}
