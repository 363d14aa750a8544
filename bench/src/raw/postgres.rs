//! PostgreSQL driven bare: the same two tables, as multi-row batches on four connections and as one statement per
//! append on many; and SKIP LOCKED claims. No row-level security, no guards, no keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use super::{LISTS, STATUS_CHANGE, Taking};
use crate::payload::{Payloads, SESSIONS};
use crate::rounds::{Latencies, Sample};

/// Appends that one batch takes, as in the product.
const BATCH_MAX: usize = 512;
/// Writers of the bare batches.
pub const LANES: usize = 4;

/// A database of its own on the measured server, dropped with this value.
pub struct Database {
    admin: String,
    name: String,
    pub url: String,
}

impl Database {
    pub fn create(admin: &str) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("bench_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (server, _) = admin.rsplit_once('/').context("the address of PostgreSQL names no database")?;
        let url = format!("{server}/{name}");
        run(admin, &format!("CREATE DATABASE {name}"))?;
        Ok(Self { admin: admin.to_owned(), name, url })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = run(&self.admin, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Runs one statement on a connection of its own.
pub fn run(url: &str, statement: &str) -> Result<()> {
    runtime()?.block_on(async {
        connect(url).await?.batch_execute(statement).await?;
        Ok(())
    })
}

/// The server's version.
pub fn version(url: &str) -> Result<String> {
    runtime()?.block_on(async { Ok(connect(url).await?.query_one("SHOW server_version", &[]).await?.get(0)) })
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    crate::load::single_threaded()
}

pub(super) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.context("PostgreSQL does not answer")?;
    tokio::spawn(connection);
    Ok(client)
}

/// The table of events is the product's, column by column; the heads have what an append needs.
const EVENTS: &str = "
    CREATE TABLE events (
        tk INTEGER NOT NULL, log BIGINT NOT NULL, seq BIGINT NOT NULL, type TEXT COLLATE \"C\" NOT NULL, content TEXT,
        metadata TEXT, subthread_id TEXT, external_id TEXT COLLATE \"C\", turn BIGINT, author TEXT, at BIGINT NOT NULL,
        PRIMARY KEY (tk, log, seq));";

const HEADS: &str = "CREATE TABLE session_heads (sk BIGINT PRIMARY KEY, last_sequence BIGINT NOT NULL, last_at BIGINT NOT NULL);";

/// The batch: each head advances by the number of its session's events, which are numbered from there.
const APPEND_BATCH: &str = "
    WITH new AS (
        SELECT sk, at, content, row_number() OVER (PARTITION BY sk ORDER BY nth) AS offset_in_batch
        FROM unnest($1::bigint[], $2::bigint[], $3::text[]) WITH ORDINALITY AS new (sk, at, content, nth)
    ), heads AS (
        UPDATE session_heads SET last_sequence = last_sequence + grown.events, last_at = grown.at
        FROM (SELECT sk, count(*) AS events, max(at) AS at FROM new GROUP BY sk) AS grown
        WHERE session_heads.sk = grown.sk
        RETURNING session_heads.sk, last_sequence - grown.events AS base
    )
    INSERT INTO events (tk, log, seq, type, content, turn, author, at)
    SELECT 1, sk, base + offset_in_batch, 'user.message', content, base + offset_in_batch, 'u', at
    FROM new JOIN heads USING (sk)
    RETURNING seq";

const APPEND_ONE: &str = "
    WITH head AS (
        UPDATE session_heads SET last_sequence = last_sequence + 1, last_at = $2 WHERE sk = $1
        RETURNING sk, last_sequence
    )
    INSERT INTO events (tk, log, seq, type, content, turn, author, at)
    SELECT 1, sk, last_sequence, 'user.message', $3, last_sequence, 'u', $2 FROM head
    RETURNING seq";

struct PostgresJob {
    session: i64,
    content: Arc<str>,
    done: oneshot::Sender<()>,
}

/// How a round appends.
#[derive(Clone, Copy)]
pub enum How {
    /// Four lanes, sharded by session, each committing what is queued.
    Batches,
    /// One statement per append, a connection per producer.
    Singles,
}

/// A database with the two tables and a head for every session.
pub fn fresh(admin: &str) -> Result<Database> {
    let database = Database::create(admin)?;
    run(
        &database.url,
        &format!(
            "{EVENTS} {HEADS} INSERT INTO session_heads SELECT n, 0, 0 FROM generate_series(0, {}) n",
            SESSIONS - 1
        ),
    )?;
    run(&database.url, "VACUUM ANALYZE session_heads")?;
    Ok(database)
}

/// Appends `count` events with this many producers to a fresh database.
pub fn append(
    admin: &str,
    payloads: &Arc<Payloads>,
    how: How,
    producers: usize,
    count: u64,
    cap: Duration,
) -> Result<Sample> {
    let database = fresh(admin)?;
    runtime()?.block_on(async {
        let (done, took, mut latencies) = match how {
            How::Batches => append_batches(&database.url, payloads, producers, count, cap).await?,
            How::Singles => append_singles(&database.url, payloads, producers, count, cap).await?,
        };
        check_stored(&database.url, done).await?;
        Ok(Sample::new(done, took, &mut latencies))
    })
}

pub async fn check_stored(url: &str, done: u64) -> Result<()> {
    let stored: i64 = connect(url).await?.query_one("SELECT count(*) FROM events", &[]).await?.get(0);
    ensure!(stored as u64 == done, "{stored} events stored, {done} acknowledged");
    Ok(())
}

/// Writers, sharded by session, each with a connection of its own.
pub(super) struct Batches {
    lanes: Vec<mpsc::UnboundedSender<PostgresJob>>,
    writers: JoinSet<Result<()>>,
}

impl Batches {
    pub(super) async fn open(url: &str, count: usize) -> Result<Self> {
        let mut lanes = Vec::with_capacity(count);
        let mut writers = JoinSet::new();
        for _ in 0..count {
            let client = connect(url).await?;
            let (jobs, queue) = mpsc::unbounded_channel();
            writers.spawn(write_batches(client, queue));
            lanes.push(jobs);
        }
        Ok(Self { lanes, writers })
    }

    /// Returns when it is committed.
    pub(super) async fn append(&self, session: i64, content: Arc<str>) -> Result<()> {
        let (done, wait) = oneshot::channel();
        let lane = &self.lanes[session as usize % self.lanes.len()];
        lane.send(PostgresJob { session, content, done }).ok().context("a raw lane ended")?;
        wait.await.context("a raw lane failed")
    }

    async fn end(mut self) -> Result<()> {
        self.lanes.clear();
        while let Some(writer) = self.writers.join_next().await {
            writer??;
        }
        Ok(())
    }
}

async fn append_batches(
    url: &str,
    payloads: &Arc<Payloads>,
    producers: usize,
    count: u64,
    cap: Duration,
) -> Result<(u64, Duration, Latencies)> {
    let batches = Arc::new(Batches::open(url, LANES).await?);
    let tickets = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..producers {
        let (batches, tickets, payloads) = (batches.clone(), tickets.clone(), payloads.clone());
        tasks.spawn(async move {
            let mut latencies = Latencies::default();
            while start.elapsed() < cap {
                let nth = tickets.fetch_add(1, Ordering::Relaxed);
                if nth >= count {
                    break;
                }
                let sent = Instant::now();
                batches.append((nth % SESSIONS as u64) as i64, payloads.nth(nth).clone()).await?;
                latencies.add(sent.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let all = joined(tasks).await?;
    let took = start.elapsed();
    Arc::into_inner(batches).context("a producer has not ended")?.end().await?;
    Ok((all.len() as u64, took, all))
}

async fn write_batches(client: Client, mut queue: mpsc::UnboundedReceiver<PostgresJob>) -> Result<()> {
    let statement = client.prepare(APPEND_BATCH).await?;
    let mut jobs = Vec::with_capacity(BATCH_MAX);
    while queue.recv_many(&mut jobs, BATCH_MAX).await > 0 {
        let at = now_micros();
        let sessions: Vec<i64> = jobs.iter().map(|job| job.session).collect();
        let ats = vec![at; jobs.len()];
        let contents: Vec<&str> = jobs.iter().map(|job| &*job.content).collect();
        let rows = client.query(&statement, &[&sessions, &ats, &contents]).await?;
        ensure!(rows.len() == jobs.len(), "a batch of {} wrote {} rows", jobs.len(), rows.len());
        for job in jobs.drain(..) {
            let _ = job.done.send(());
        }
    }
    Ok(())
}

async fn append_singles(
    url: &str,
    payloads: &Arc<Payloads>,
    connections: usize,
    count: u64,
    cap: Duration,
) -> Result<(u64, Duration, Latencies)> {
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        let client = connect(url).await?;
        let statement = client.prepare(APPEND_ONE).await?;
        clients.push((client, statement));
    }
    let tickets = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (client, statement) in clients {
        let (tickets, payloads) = (tickets.clone(), payloads.clone());
        tasks.spawn(async move {
            let mut latencies = Latencies::default();
            while start.elapsed() < cap {
                let nth = tickets.fetch_add(1, Ordering::Relaxed);
                if nth >= count {
                    break;
                }
                let session = (nth % SESSIONS as u64) as i64;
                let sent = Instant::now();
                client.query_one(&statement, &[&session, &now_micros(), &&**payloads.nth(nth)]).await?;
                latencies.add(sent.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let all = joined(tasks).await?;
    Ok((all.len() as u64, start.elapsed(), all))
}

async fn joined(mut tasks: JoinSet<Result<Latencies>>) -> Result<Latencies> {
    let mut all = Latencies::default();
    while let Some(done) = tasks.join_next().await {
        all.join(done??);
    }
    Ok(all)
}

/// Pending rows that workers take with SKIP LOCKED.
pub struct PostgresQueue {
    database: Database,
    taking: Taking,
}

const TAKE: &str = "
    UPDATE session_heads SET status = 2, worker = $1, epoch = epoch + 1, lease_until = $2
    WHERE sk IN (SELECT sk FROM session_heads WHERE status = 1
                 ORDER BY priority DESC, sk LIMIT $3 FOR UPDATE SKIP LOCKED)
    RETURNING sk, epoch";

/// The same, and the two events of every claim into the log; one row comes back for each session.
const TAKE_AND_TELL: &str = "
    WITH taken AS (
        UPDATE session_heads SET status = 2, worker = $1, epoch = epoch + 1, lease_until = $2,
            last_sequence = last_sequence + 2
        WHERE sk IN (SELECT sk FROM session_heads WHERE status = 1
                     ORDER BY priority DESC, sk LIMIT $3 FOR UPDATE SKIP LOCKED)
        RETURNING sk, epoch, last_sequence
    ), told AS (
        INSERT INTO events (tk, log, seq, type, metadata, at)
        SELECT 1, sk, last_sequence - 1, 'session.claimed', '{\"worker\":\"worker\",\"epoch\":' || epoch || '}', $2
        FROM taken
        UNION ALL SELECT 1, sk, last_sequence, 'session.status_change', $4, $2 FROM taken
    )
    SELECT sk, epoch FROM taken";

impl PostgresQueue {
    pub fn prepare(admin: &str, pending: u64, taking: Taking) -> Result<Self> {
        let database = Database::create(admin)?;
        run(
            &database.url,
            &format!(
                "CREATE TABLE session_heads (
                     sk BIGINT PRIMARY KEY, status INT NOT NULL, priority INT NOT NULL, epoch BIGINT NOT NULL,
                     worker TEXT, lease_until BIGINT);
                 CREATE INDEX pending ON session_heads (priority DESC, sk) WHERE status = 1;
                 INSERT INTO session_heads SELECT n, 1, n % 3, 0, NULL, NULL FROM generate_series(1, {pending}) n;"
            ),
        )?;
        if taking != Taking::Rows {
            let column = "ALTER TABLE session_heads ADD COLUMN last_sequence BIGINT NOT NULL DEFAULT 1";
            run(&database.url, &format!("{EVENTS} {column}"))?;
        }
        if taking == Taking::RowsEventsAndLists {
            run(&database.url, LISTS)?;
        }
        run(&database.url, "VACUUM ANALYZE session_heads")?;
        Ok(Self { database, taking })
    }

    /// Takes `count` rows with this many workers, `each` at a time.
    pub fn claim(&self, workers: usize, count: u64, each: usize) -> Result<Sample> {
        runtime()?.block_on(async {
            let mut clients = Vec::with_capacity(workers);
            for _ in 0..workers {
                let client = connect(&self.database.url).await?;
                let claim = match self.taking {
                    Taking::Rows => client.prepare(TAKE).await?,
                    Taking::RowsAndEvents => client.prepare(TAKE_AND_TELL).await?,
                    Taking::RowsEventsAndLists => {
                        let listed = TAKE_AND_TELL
                            .replace("lease_until = $2,", "lease_until = $2, deadline_at = NULL,");
                        client.prepare(&listed).await?
                    }
                };
                clients.push((client, claim));
            }
            let taking = self.taking;
            let taken = Arc::new(AtomicU64::new(0));
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for (client, claim) in clients {
                let taken = taken.clone();
                tasks.spawn(async move {
                    while taken.load(Ordering::Relaxed) < count {
                        let lease_until = now_micros() + 30_000_000;
                        let limit = each as i64;
                        let rows = match taking {
                            Taking::Rows => client.query(&claim, &[&"worker", &lease_until, &limit]).await?,
                            Taking::RowsAndEvents | Taking::RowsEventsAndLists => {
                                client
                                    .query(&claim, &[&"worker", &lease_until, &limit, &STATUS_CHANGE])
                                    .await?
                            }
                        };
                        ensure!(rows.len() == each, "a claim took {} rows", rows.len());
                        taken.fetch_add(rows.len() as u64, Ordering::Relaxed);
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            Ok(Sample::rate(taken.load(Ordering::Relaxed), start.elapsed()))
        })
    }
}

pub(super) fn now_micros() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
