//! SQLite driven bare: the layout and durability of the product's events, one writer thread that commits what is
//! queued, and no rule, key, tenant or index beside it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, anyhow, ensure};
use crossbeam_channel::{Receiver, Sender};
use rusqlite::{Connection, OpenFlags, params};
use tokio::sync::oneshot;

use super::{LISTS, STATUS_CHANGE, Taking};
use crate::load::single_threaded;
use crate::payload::{Payloads, SESSIONS};
use crate::rounds::{Latencies, Sample};

/// Changes that one commit takes, as in the product.
const GROUP_MAX: usize = 512;
const EVENTS: &str = "
    CREATE TABLE events (
        k INTEGER PRIMARY KEY, type TEXT NOT NULL, at INTEGER NOT NULL, turn INTEGER, author TEXT,
        external_id TEXT, subthread TEXT, content TEXT, metadata TEXT);";

const HEADS: &str = "
    CREATE TABLE session_heads (
        sk INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, last_at INTEGER NOT NULL);";

/// Opens a database with the product's durability.
pub fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 16000;
         PRAGMA foreign_keys = ON;",
    )?;
    Ok(connection)
}

struct SqliteJob {
    session: i64,
    contents: Vec<Arc<str>>,
    done: oneshot::Sender<i64>,
}

/// Appends by one writer thread on a fresh database.
pub(super) struct Writer {
    jobs: Sender<SqliteJob>,
    thread: JoinHandle<Result<()>>,
}

impl Writer {
    pub(super) fn start(path: &Path) -> Result<Self> {
        let connection = open(path)?;
        connection.execute_batch(EVENTS)?;
        connection.execute_batch(HEADS)?;
        connection.execute_batch("BEGIN")?;
        for session in 0..SESSIONS as i64 {
            connection.execute("INSERT INTO session_heads VALUES (?1, 0, 0)", [session])?;
        }
        connection.execute_batch("COMMIT")?;
        let (jobs, queue) = crossbeam_channel::unbounded();
        let thread = thread::spawn(move || write_all(&connection, &queue));
        Ok(Self { jobs, thread })
    }

    /// Returns when it is committed.
    pub(super) async fn append(&self, session: i64, contents: Vec<Arc<str>>) -> Result<()> {
        let (done, wait) = oneshot::channel();
        self.jobs.send(SqliteJob { session, contents, done })?;
        wait.await?;
        Ok(())
    }

    fn finish(self) -> Result<()> {
        drop(self.jobs);
        self.thread.join().map_err(|_| anyhow!("the raw writer panicked"))?
    }
}

fn write_all(connection: &Connection, queue: &Receiver<SqliteJob>) -> Result<()> {
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    let mut advance = connection.prepare(
        "UPDATE session_heads SET last_sequence = last_sequence + ?2, last_at = ?3 WHERE sk = ?1
         RETURNING last_sequence",
    )?;
    let mut insert = connection.prepare(
        "INSERT INTO events (k, type, at, turn, author, external_id, subthread, content, metadata)
         VALUES (?1, 'user.message', ?2, ?3, 'u', NULL, NULL, ?4, NULL)",
    )?;
    let mut acknowledged = Vec::with_capacity(GROUP_MAX);
    while let Ok(first) = queue.recv() {
        begin.execute([])?;
        let mut next = Some(first);
        while let Some(job) = next {
            let at = now_micros();
            let count = job.contents.len() as i64;
            let last: i64 =
                advance.query_row(params![job.session, count, at], |row| row.get(0)).context("no head")?;
            for (sequence, content) in (last - count + 1..).zip(&job.contents) {
                insert.execute(params![job.session << 32 | sequence, at, sequence, &**content])?;
            }
            acknowledged.push((job.done, last));
            next = if acknowledged.len() < GROUP_MAX { queue.try_recv().ok() } else { None };
        }
        commit.execute([])?;
        for (done, last) in acknowledged.drain(..) {
            let _ = done.send(last);
        }
    }
    Ok(())
}

/// How many appends, by how many callers.
#[derive(Clone, Copy)]
pub struct Appends {
    pub producers: usize,
    /// Events in one append.
    pub batch: usize,
    /// Appends in all.
    pub count: u64,
    pub cap: Duration,
}

/// Appends to a fresh database in this directory, and removes it.
pub fn append(dir: &Path, payloads: &Arc<Payloads>, appends: Appends) -> Result<Sample> {
    let dir = tempfile::tempdir_in(dir)?;
    let path = dir.path().join("raw.sqlite3");
    let writer = Writer::start(&path)?;
    let (done, took, mut latencies) = single_threaded()?.block_on(produce(&writer, payloads, appends))?;
    writer.finish()?;
    let stored = check_stored(&path, done * appends.batch as u64)?;
    Ok(Sample::new(stored, took, &mut latencies))
}

/// Counts the stored events, which must be those that were acknowledged.
pub fn check_stored(path: &Path, acknowledged: u64) -> Result<u64> {
    let stored: u64 =
        open(path)?.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0))? as u64;
    ensure!(stored == acknowledged, "{stored} events stored, {acknowledged} acknowledged");
    Ok(stored)
}

async fn produce(
    writer: &Writer,
    payloads: &Arc<Payloads>,
    appends: Appends,
) -> Result<(u64, Duration, Latencies)> {
    let tickets = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..appends.producers {
        let (jobs, tickets, payloads) = (writer.jobs.clone(), tickets.clone(), payloads.clone());
        tasks.spawn(async move {
            let mut latencies = Latencies::default();
            while start.elapsed() < appends.cap {
                let nth = tickets.fetch_add(1, Ordering::Relaxed);
                if nth >= appends.count {
                    break;
                }
                let contents = (0..appends.batch as u64).map(|n| payloads.nth(nth + n).clone()).collect();
                let (done, wait) = oneshot::channel();
                let sent = Instant::now();
                jobs.send(SqliteJob { session: nth as i64 % SESSIONS as i64, contents, done })?;
                wait.await?;
                latencies.add(sent.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut all = Latencies::default();
    while let Some(done) = tasks.join_next().await {
        all.join(done??);
    }
    Ok((all.len() as u64, start.elapsed(), all))
}

/// A log of many events, for readers.
pub struct Log {
    _dir: tempfile::TempDir,
    connection: Connection,
    events: u64,
}

impl Log {
    pub fn prepare(dir: &Path, payloads: &Payloads, events: u64) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        let path = dir.path().join("raw.sqlite3");
        {
            let connection = open(&path)?;
            connection.execute_batch(EVENTS)?;
            connection.execute_batch(HEADS)?;
            connection.execute_batch("BEGIN")?;
            {
                let mut insert = connection.prepare(
                    "INSERT INTO events VALUES (?1, 'user.message', ?2, ?3, 'u', NULL, NULL, ?4, NULL)",
                )?;
                for n in 1..=events {
                    let sequence = n as i64;
                    insert.execute(params![
                        1_i64 << 32 | sequence,
                        now_micros(),
                        sequence,
                        &**payloads.nth(n)
                    ])?;
                }
            }
            connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
        }
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Self { _dir: dir, connection, events })
    }

    /// Reads pages of 100 events from places all over the log into JSON bytes, as one reader.
    pub fn read_pages(&self, pages: u64, cap: Duration) -> Result<Sample> {
        let mut select = self.connection.prepare(
            "SELECT k, type, at, turn, author, external_id, subthread, content, metadata FROM events
             WHERE k > ?1 AND k < ?2 ORDER BY k LIMIT 100",
        )?;
        let mut bytes = Vec::with_capacity(64 * 1024);
        let mut latencies = Latencies::default();
        let start = Instant::now();
        let mut done = 0;
        while done < pages && start.elapsed() < cap {
            let sent = Instant::now();
            bytes.clear();
            let after = page_start(done, self.events) as i64;
            let mut rows = select.query(params![1_i64 << 32 | after, 2_i64 << 32])?;
            let mut found = 0;
            while let Some(row) = rows.next()? {
                print_event(row, &mut bytes)?;
                found += 1;
            }
            ensure!(found == 100, "a page held {found} events");
            std::hint::black_box(&bytes);
            latencies.add(sent.elapsed());
            done += 1;
        }
        Ok(Sample::new(done, start.elapsed(), &mut latencies))
    }
}

/// Where the nth page starts: all over the log, the same for every contestant.
pub fn page_start(nth: u64, events: u64) -> u64 {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) % events.saturating_sub(100).max(1)
}

fn print_event(row: &rusqlite::Row<'_>, out: &mut Vec<u8>) -> Result<()> {
    use std::io::Write as _;
    let text = |column: usize| row.get_ref(column).map(|value| value.as_str_or_null().ok().flatten());
    let k: i64 = row.get(0)?;
    write!(out, r#"{{"sequence":{},"type":""#, k & 0xffff_ffff)?;
    out.extend_from_slice(text(1)?.unwrap_or_default().as_bytes());
    write!(out, r#"","at":{},"turn":{}"#, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?)?;
    for (name, column, quoted) in [
        ("author", 4, true),
        ("external_event_id", 5, true),
        ("subthread_id", 6, true),
        ("content", 7, false),
        ("metadata", 8, false),
    ] {
        write!(out, r#","{name}":"#)?;
        match text(column)? {
            None => out.extend_from_slice(b"null"),
            Some(value) if quoted => write!(out, r#""{value}""#)?,
            Some(value) => out.extend_from_slice(value.as_bytes()),
        }
    }
    out.extend_from_slice(b"},");
    Ok(())
}

/// Pending rows that workers take, each batch in a transaction of its own.
pub struct SqliteQueue {
    _dir: tempfile::TempDir,
    connection: Mutex<Connection>,
    taking: Taking,
}

impl SqliteQueue {
    pub fn prepare(dir: &Path, pending: u64, taking: Taking) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        let connection = open(&dir.path().join("raw.sqlite3"))?;
        connection.execute_batch(
            "CREATE TABLE session_heads (
                 sk INTEGER PRIMARY KEY, status INTEGER NOT NULL, priority INTEGER NOT NULL, epoch INTEGER NOT NULL,
                 worker TEXT, lease_until INTEGER);
             CREATE INDEX pending ON session_heads (priority DESC, sk) WHERE status = 1;",
        )?;
        if taking != Taking::Rows {
            connection.execute_batch(EVENTS)?;
            connection.execute_batch(
                "ALTER TABLE session_heads ADD COLUMN last_sequence INTEGER NOT NULL DEFAULT 1",
            )?;
        }
        connection.execute_batch("BEGIN")?;
        {
            let mut insert = connection.prepare(
                "INSERT INTO session_heads (sk, status, priority, epoch, worker, lease_until)
                 VALUES (?1, 1, ?2, 0, NULL, NULL)",
            )?;
            for sk in 0..pending as i64 {
                insert.execute(params![sk, sk % 3])?;
            }
        }
        if taking == Taking::RowsEventsAndLists {
            connection.execute_batch(LISTS)?;
        }
        connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(Self { _dir: dir, connection: Mutex::new(connection), taking })
    }

    /// Takes `count` rows with this many workers, `each` at a time.
    pub fn claim(&self, workers: usize, count: u64, each: usize) -> Result<Sample> {
        let taken = AtomicU64::new(0);
        let start = Instant::now();
        thread::scope(|scope| {
            let work = || -> Result<()> {
                while taken.load(Ordering::Relaxed) < count {
                    let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
                    let rows = match self.taking {
                        Taking::Rows => take(&connection, each)?,
                        Taking::RowsAndEvents | Taking::RowsEventsAndLists => {
                            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
                            let rows = take_and_tell(&connection, each, self.taking)?;
                            connection.prepare_cached("COMMIT")?.execute([])?;
                            rows
                        }
                    };
                    ensure!(rows == each, "a claim took {rows} rows");
                    taken.fetch_add(rows as u64, Ordering::Relaxed);
                }
                Ok(())
            };
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a raw worker panicked"))?)
        })?;
        Ok(Sample::rate(taken.into_inner(), start.elapsed()))
    }
}

fn take(connection: &Connection, each: usize) -> Result<usize> {
    let mut claim = connection.prepare_cached(
        "UPDATE session_heads SET status = 2, worker = ?1, epoch = epoch + 1, lease_until = ?2
         WHERE sk IN (SELECT sk FROM session_heads WHERE status = 1
                      ORDER BY priority DESC, sk LIMIT ?3)
         RETURNING sk, epoch",
    )?;
    let lease_until = now_micros() + 30_000_000;
    let rows = claim
        .query_map(params!["worker", lease_until, each as i64], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows.len())
}

/// The same, and the two events of every claim into the log.
fn take_and_tell(connection: &Connection, each: usize, taking: Taking) -> Result<usize> {
    let listed = if taking == Taking::RowsEventsAndLists { ", deadline_at = NULL" } else { "" };
    let mut claim = connection.prepare_cached(&format!(
        "UPDATE session_heads SET status = 2, worker = ?1, epoch = epoch + 1, lease_until = ?2,
             last_sequence = last_sequence + 2 {listed}
         WHERE sk IN (SELECT sk FROM session_heads INDEXED BY pending WHERE status = 1
                      ORDER BY priority DESC, sk LIMIT ?3)
         RETURNING sk, epoch, last_sequence"
    ))?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO events (k, type, at, turn, author, external_id, subthread, content, metadata)
         VALUES (?1, ?2, ?3, NULL, NULL, NULL, NULL, NULL, ?4)",
    )?;
    let now = now_micros();
    let rows = claim
        .query_map(params!["worker", now + 30_000_000, each as i64], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (sk, epoch, last) in &rows {
        let claimed = format!(r#"{{"worker":"worker","epoch":{epoch}}}"#);
        insert.execute(params![sk << 32 | (last - 1), "session.claimed", now, claimed])?;
        insert.execute(params![sk << 32 | last, "session.status_change", now, STATUS_CHANGE])?;
    }
    Ok(rows.len())
}

fn now_micros() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
