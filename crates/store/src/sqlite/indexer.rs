//! The indexer: a thread that writes the words of titles, descriptions and messages to `search.sqlite3`, half a
//! second behind the log. The writer marks the sessions that changed. How far each session was read is stored with
//! the words; after a restart the indexer reads every session that was active since. It never delays a write, and a
//! lost file is filled again.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OptionalExtension, params};
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_core::event::payload::shown_text_of;
use sederunt_core::json::Json;
use sederunt_core::{Error, Result, Timestamp};
use tokio::sync::oneshot;

use super::heads;
use super::index_queue;
use super::logs::{self, key, sequence_of};
use super::open::Files;
use super::search;
use super::writer::Writer;
use crate::message_groups::{IndexText, MessageGroups, REACH, first_number};

/// How long the indexer collects marks: indexing many texts at once costs a fraction of indexing them one by one.
const GATHER: Duration = Duration::from_millis(500);
/// The pause after a failure, for instance on a full disk.
const RETRY: Duration = Duration::from_secs(1);
/// Added to the nice value of the process for the indexer's thread. When all cores are busy, the writer goes first
/// and the indexer still gets a quarter of a core.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;
/// Texts in one transaction of the search file.
const CHUNK_TEXTS: usize = 16_000;
/// The clock may be set back a little between two runs of the process.
const OVERLAP: Duration = Duration::from_secs(120);

/// A session with something to index.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexMark {
    pub sk: i64,
    /// Its title or description is new, not only its log.
    pub row: bool,
}

impl IndexMark {
    /// Names no session: only the index queue has new rows.
    pub(super) const QUEUE: Self = Self { sk: 0, row: false };
}

/// The sessions to index, and the callers that wait until they are.
#[derive(Debug, Default)]
pub(super) struct IndexMarks {
    state: Mutex<IndexMarksState>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct IndexMarksState {
    marks: HashMap<i64, bool>,
    waiting: Vec<oneshot::Sender<Result<()>>>,
    closing: bool,
}

/// The marks and callers of one round of the indexer.
struct IndexRound {
    marks: HashMap<i64, bool>,
    waiting: Vec<oneshot::Sender<Result<()>>>,
}

impl IndexMarks {
    pub(super) fn add(&self, marks: impl ExactSizeIterator<Item = IndexMark>) {
        if marks.len() == 0 {
            return;
        }
        let mut state = self.state.lock();
        let was_empty = state.marks.is_empty();
        for mark in marks {
            *state.marks.entry(mark.sk).or_default() |= mark.row;
        }
        drop(state);
        if was_empty {
            self.bell.notify_one();
        }
    }

    /// Waits until every session that was marked before this call is indexed.
    pub(super) async fn drained(&self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.state.lock().waiting.push(done);
        self.bell.notify_one();
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the store is closed")))
    }

    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.bell.notify_one();
    }

    fn is_closing(&self) -> bool {
        self.state.lock().closing
    }

    /// Waits for marks; `None` once the store closes.
    fn next(&self) -> Option<IndexRound> {
        let mut state = self.state.lock();
        while state.marks.is_empty() && state.waiting.is_empty() && !state.closing {
            self.bell.wait(&mut state);
        }
        if state.waiting.is_empty() && !state.closing {
            self.bell.wait_while_for(&mut state, |state| state.waiting.is_empty() && !state.closing, GATHER);
        }
        if state.closing {
            state.waiting.clear();
            return None;
        }
        Some(IndexRound {
            marks: std::mem::take(&mut state.marks),
            waiting: std::mem::take(&mut state.waiting),
        })
    }

    fn pause(&self) {
        let mut state = self.state.lock();
        self.bell.wait_while_for(&mut state, |state| !state.closing, RETRY);
    }
}

pub(super) fn start(
    files: Arc<Files>,
    clock: Arc<SystemClock>,
    index_marks: Arc<IndexMarks>,
    writer: Weak<Writer>,
) -> Result<JoinHandle<()>> {
    let indexer = Indexer { files, clock, index_marks, writer, caught_up: false, databases: None };
    std::thread::Builder::new()
        .name("sederunt-indexer".into())
        .spawn(move || indexer.serve())
        .map_err(Error::internal)
}

struct Indexer {
    files: Arc<Files>,
    clock: Arc<SystemClock>,
    index_marks: Arc<IndexMarks>,
    writer: Weak<Writer>,
    /// Whether this process has indexed what was active before its start.
    caught_up: bool,
    databases: Option<Databases>,
}

struct Databases {
    threads: Connection,
    search: Connection,
}

impl Indexer {
    fn serve(mut self) {
        // Linux sets this for the calling thread alone. If it is not permitted, the indexer only runs at normal
        // priority.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(NICE);
        // The first round indexes what a former process left.
        self.index_marks.add([IndexMark::QUEUE].into_iter());
        while let Some(IndexRound { marks, waiting }) = self.index_marks.next() {
            // The thread outlives a panic: callers may wait for the next round.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.round(&marks)))
                .unwrap_or_else(|_| Err(rusqlite::Error::UnwindingPanic));
            if let Err(error) = &outcome {
                tracing::warn!(%error, "the indexer could not write the search index; it tries again in a second");
                self.databases = None;
                self.index_marks.add(
                    marks.into_iter().map(|(sk, row)| IndexMark { sk, row }).collect::<Vec<_>>().into_iter(),
                );
            }
            for done in waiting {
                let _ = done.send(match &outcome {
                    Ok(()) => Ok(()),
                    Err(error) => Err(Error::unavailable(error.to_string())),
                });
            }
            if outcome.is_err() {
                self.index_marks.pause();
            }
        }
    }

    fn round(&mut self, marks: &HashMap<i64, bool>) -> rusqlite::Result<()> {
        let began = self.clock.now();
        let databases = match self.databases.take() {
            Some(databases) => databases,
            None => Databases { threads: self.files.reader()?, search: self.files.search()? },
        };
        let databases = self.databases.insert(databases);
        if !self.caught_up {
            // A former process may have run with a clock ahead of this one.
            let _turn = self.files.turn_to_write();
            databases
                .search
                .prepare_cached("UPDATE progress SET read_to = min(read_to, ?1)")?
                .execute([began.minus(OVERLAP).as_micros()])?;
        }
        let mut todo = marks.clone();
        todo.remove(&IndexMark::QUEUE.sk);
        let lines = {
            let _turn = self.files.turn_to_read();
            let lines = index_queue::read(&databases.threads, i64::MAX)?;
            todo.extend(lines.iter().map(|line| (line.sk, true)));
            if !self.caught_up {
                todo.extend(active_since(databases)?.into_iter().map(|sk| (sk, true)));
            }
            lines
        };
        let mut todo = todo.into_iter().collect::<Vec<_>>();
        todo.sort_unstable();
        if !index_sessions(&self.files, &self.index_marks, databases, &todo)? {
            return Ok(());
        }
        {
            let _turn = self.files.turn_to_write();
            databases
                .search
                .prepare_cached("UPDATE progress SET read_to = ?1")?
                .execute([began.minus(OVERLAP).as_micros()])?;
        }
        self.caught_up = true;
        if let Some(last) = lines.last().map(|line| line.n)
            && let Some(writer) = self.writer.upgrade()
        {
            writer.run_detached(move |tx| index_queue::remove_to(tx.db, last));
        }
        Ok(())
    }
}

/// Sessions with activity that a former process may not have indexed.
fn active_since(databases: &Databases) -> rusqlite::Result<Vec<i64>> {
    let read_to: i64 = databases.search.query_row("SELECT read_to FROM progress", [], |row| row.get(0))?;
    databases
        .threads
        .prepare_cached(
            "SELECT s.sk FROM tenants t CROSS JOIN sessions s INDEXED BY sessions_by_state ON s.tk = t.tk \
             AND s.session_type IN ('agent', 'response', 'tool', 'mixed') \
             AND s.status IN ('draft', 'pending', 'running', 'waiting_human', 'awaiting_tool', 'idle', 'completed', \
             'failed', 'expired', 'abandoned') AND s.inactive IN (0, 1) AND s.active_minute >= ?1",
        )?
        .query_map([Timestamp::from_micros(read_to).minute()], |row| row.get(0))?
        .collect()
}

/// Indexes the sessions, chunk by chunk. Returns `false` if it stopped because the store closes.
fn index_sessions(
    files: &Files,
    index_marks: &IndexMarks,
    databases: &mut Databases,
    todo: &[(i64, bool)],
) -> rusqlite::Result<bool> {
    let mut left = todo.iter().copied();
    let mut next = left.next();
    while next.is_some() {
        if index_marks.is_closing() {
            return Ok(false);
        }
        let _turn = files.turn_to_write();
        let chunk = databases.search.transaction()?;
        let mut documents = IndexDocuments::default();
        let mut visited = 0;
        while let Some((sk, row)) = next
            && documents.texts < CHUNK_TEXTS
            && visited < CHUNK_TEXTS
        {
            visited += 1;
            let all = index_session(&databases.threads, &chunk, sk, row, &mut documents)?;
            next = if all { left.next() } else { Some((sk, false)) };
        }
        // FTS5 takes rows in ascending order many times faster than in any other.
        documents.groups.sort_unstable_by_key(|((_, sk), group)| (group.at, *sk, group.first));
        add(&chunk, &documents)?;
        chunk.commit()?;
    }
    Ok(true)
}

/// The documents to add, by tenant and session.
type IndexDocuments = MessageGroups<(i64, i64)>;

/// Collects what is new in one session. Returns whether that was all of it.
fn index_session(
    threads: &Connection,
    search: &Connection,
    sk: i64,
    row: bool,
    documents: &mut IndexDocuments,
) -> rusqlite::Result<bool> {
    let found = threads
        .prepare_cached(concat!(
            "SELECT h.tk, l.last_sequence, h.prefix_to FROM ",
            heads::tables!(),
            " WHERE h.sk = ?1"
        ))?
        .query_row([sk], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))
        .optional()?;
    let Some((tk, last, prefix_to)) = found else {
        forget(search, sk)?;
        return Ok(true);
    };
    if row && let Some(title) = changed_title(threads, search, sk)? {
        documents.push((tk, sk), title);
    }
    let done_to: i64 = search
        .prepare_cached("SELECT done_to FROM done WHERE sk = ?1")?
        .query_row([sk], |row| row.get(0))
        .optional()?
        .unwrap_or(0);
    let (low, high) = (done_to.cast_unsigned() + 1, last.cast_unsigned());
    let mut read_to = done_to;
    let mut all = true;
    'pieces: for piece in logs::ranges(threads, sk, prefix_to.cast_unsigned(), low, high)? {
        let mut statement = threads
            .prepare_cached("SELECT k, type, at, content FROM events WHERE k BETWEEN ?1 AND ?2 ORDER BY k")?;
        let mut rows = statement.query([key(piece.log, piece.from), key(piece.log, piece.to)])?;
        while let Some(event) = rows.next()? {
            if documents.texts >= CHUNK_TEXTS {
                all = false;
                break 'pieces;
            }
            read_to = sequence_of(event.get(0)?).cast_signed();
            let kind = event.get_ref(1)?.as_str()?;
            if matches!(kind, "user.message" | "agent.message")
                && let Some(content) = event.get_ref(3)?.as_str_or_null()?
                && let Some(text) = shown_text_of(kind, &Json::stored(content))
            {
                documents.push((tk, sk), IndexText { seq: read_to, at: event.get(2)?, text });
            }
        }
    }
    if all {
        read_to = last;
    }
    if read_to != done_to {
        search
            .prepare_cached("INSERT OR REPLACE INTO done (sk, done_to) VALUES (?1, ?2)")?
            .execute([sk, read_to])?;
    }
    Ok(all)
}

/// The title and description, if their words changed. A description that was taken from the first message is left
/// out: the message has the same words.
fn changed_title(threads: &Connection, search: &Connection, sk: i64) -> rusqlite::Result<Option<IndexText>> {
    let now: Option<(i64, String)> = threads
        .prepare_cached(
            "SELECT l.last_at, concat_ws(char(10), d.title, \
             CASE WHEN d.description_source IS NOT 'fallback' THEN d.description END) \
             FROM session_details d JOIN session_tails l ON l.sk = d.sk WHERE d.sk = ?1",
        )?
        .query_row([sk], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (at, text) = now.unwrap_or_default();
    let before: Option<(i64, String)> = search
        .prepare_cached("SELECT doc, text FROM docs WHERE sk = ?1 AND seq = 0")?
        .query_row([sk], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if before.as_ref().map_or("", |(_, before)| before) == text {
        return Ok(None);
    }
    if let Some((doc, _)) = before {
        remove(search, doc)?;
    }
    Ok((!text.is_empty()).then_some(IndexText { seq: 0, at, text }))
}

/// Adds documents, which come in the order of their time.
fn add(search: &Connection, documents: &IndexDocuments) -> rusqlite::Result<()> {
    let mut insert = search.prepare_cached(
        "INSERT INTO docs (doc, tk, sk, seq, cuts, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (doc) DO NOTHING",
    )?;
    let mut index = search.prepare_cached("INSERT INTO words (rowid, bag) VALUES (?1, ?2)")?;
    let mut last = i64::MIN;
    for ((tk, sk), group) in &documents.groups {
        let (cuts, text) = search::concatenated(group);
        let mut number = first_number(group.at).max(last.saturating_add(REACH));
        while insert.execute(params![number, tk, sk, group.first, cuts, text])? == 0 {
            number += REACH;
        }
        index.execute(params![
            number,
            search::indexed_words(*tk, *sk, group.texts.iter().map(|said| said.text.as_str()))
        ])?;
        last = number;
    }
    Ok(())
}

fn remove(search: &Connection, doc: i64) -> rusqlite::Result<()> {
    let bag = search.prepare_cached("SELECT tk, sk, cuts, text FROM docs WHERE doc = ?1")?.query_row(
        [doc],
        |row| {
            let (cuts, text) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
            Ok(search::indexed_words(row.get(0)?, row.get(1)?, search::cut(cuts, text).map(|(_, text)| text)))
        },
    )?;
    search
        .prepare_cached("INSERT INTO words (words, rowid, bag) VALUES ('delete', ?1, ?2)")?
        .execute(params![doc, bag])?;
    search.prepare_cached("DELETE FROM docs WHERE doc = ?1")?.execute([doc]).map(drop)
}

fn forget(search: &Connection, sk: i64) -> rusqlite::Result<()> {
    let docs: Vec<i64> = search
        .prepare_cached("SELECT doc FROM docs WHERE sk = ?1")?
        .query_map([sk], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for doc in docs {
        remove(search, doc)?;
    }
    search.prepare_cached("DELETE FROM done WHERE sk = ?1")?.execute([sk]).map(drop)
}
