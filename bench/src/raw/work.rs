//! A queue of sessions as a team writes it by hand with tokio-postgres: two tables, and a transaction for every step.
//! Statements are prepared once; workers take with SKIP LOCKED; every step is logged, and a worker whose epoch is not
//! the session's changes nothing. No tenants, rules, contracts, lists or search.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};

use super::postgres::{Database, connect, now_micros, run, runtime};
use crate::rounds::Sample;

const LEASE_MICROS: i64 = 30_000_000;
/// The pause of a worker that found nothing.
const REST: Duration = Duration::from_millis(2);

const SCHEMA: &str = "
    CREATE TABLE sessions (
        id UUID PRIMARY KEY, status TEXT NOT NULL, priority INT NOT NULL DEFAULT 0, task TEXT NOT NULL,
        agent TEXT NOT NULL, worker TEXT, epoch BIGINT NOT NULL DEFAULT 0, lease_until BIGINT,
        last_sequence BIGINT NOT NULL, result JSONB, created_at BIGINT NOT NULL, completed_at BIGINT);
    CREATE INDEX sessions_pending ON sessions (priority DESC, created_at) WHERE status = 'pending';
    CREATE INDEX sessions_listed ON sessions (status, created_at);
    CREATE TABLE events (
        session UUID NOT NULL REFERENCES sessions, sequence BIGINT NOT NULL, type TEXT NOT NULL, content JSONB,
        metadata JSONB, at BIGINT NOT NULL, PRIMARY KEY (session, sequence));";

const CREATE: &str = "INSERT INTO sessions (id, status, task, agent, last_sequence, created_at)
    VALUES ($1, 'pending', 'report', 'scribe', 1, $2)";
const TELL: &str = "INSERT INTO events (session, sequence, type, content, metadata, at)
    VALUES ($1, $2, $3, $4::text::jsonb, $5::text::jsonb, $6)";
const FIND: &str = "SELECT id FROM sessions WHERE status = 'pending' ORDER BY priority DESC, created_at
    LIMIT 1 FOR UPDATE SKIP LOCKED";
const TAKE: &str = "UPDATE sessions SET status = 'running', worker = $2, epoch = epoch + 1, lease_until = $3,
    last_sequence = last_sequence + 1 WHERE id = $1 RETURNING epoch, last_sequence";
const GROW: &str = "UPDATE sessions SET last_sequence = last_sequence + 1
    WHERE id = $1 AND epoch = $2 AND status = 'running' RETURNING last_sequence";
const COMPLETE: &str =
    "UPDATE sessions SET status = 'completed', result = $3::text::jsonb, completed_at = $4,
    worker = NULL, lease_until = NULL, last_sequence = last_sequence + 1
    WHERE id = $1 AND epoch = $2 AND status = 'running' RETURNING last_sequence";

/// The tables, in a database of their own.
pub struct Tables(Database);

impl Tables {
    pub fn prepare(admin: &str) -> Result<Self> {
        let database = Database::create(admin)?;
        run(&database.url, SCHEMA)?;
        Ok(Self(database))
    }

    /// Brings `count` sessions from their creation to their end: as many connections create as work.
    pub fn run(&self, workers: usize, count: u64, words: &'static str) -> Result<Sample> {
        runtime()?.block_on(async {
            let mut hands = Vec::with_capacity(2 * workers);
            for _ in 0..2 * workers {
                hands.push(Hand::at(&self.0.url).await?);
            }
            let before = self.count().await?;
            let (tickets, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for (nth, mut hand) in hands.into_iter().enumerate() {
                let (tickets, done) = (tickets.clone(), done.clone());
                tasks.spawn(async move {
                    if nth < workers {
                        while tickets.fetch_add(1, Ordering::Relaxed) < count {
                            hand.create().await?;
                        }
                    }
                    while nth >= workers && done.load(Ordering::Relaxed) < count {
                        match hand.claim(nth).await? {
                            Some((id, epoch)) => {
                                hand.say(id, epoch, words).await?;
                                hand.complete(id, epoch, words).await?;
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                            None => tokio::time::sleep(REST).await,
                        }
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            let took = start.elapsed();
            let (sessions, events) = self.count().await?;
            ensure!(sessions - before.0 == count, "{} of {count} sessions are done", sessions - before.0);
            ensure!(events - before.1 == 4 * count, "{} events stand in the log", events - before.1);
            Ok(Sample::rate(count, took))
        })
    }

    /// Sessions that are done, and events.
    async fn count(&self) -> Result<(u64, u64)> {
        let client = connect(&self.0.url).await?;
        let sql = "SELECT (SELECT count(*) FROM sessions WHERE status = 'completed'), (SELECT count(*) FROM events)";
        let row = client.query_one(sql, &[]).await?;
        Ok((row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64))
    }
}

/// A connection with its prepared statements.
struct Hand {
    client: Client,
    create: Statement,
    tell: Statement,
    find: Statement,
    take: Statement,
    grow: Statement,
    complete: Statement,
}

impl Hand {
    async fn at(url: &str) -> Result<Self> {
        let client = connect(url).await?;
        let [create, tell, find, take, grow, complete] = [
            client.prepare(CREATE).await?,
            client.prepare(TELL).await?,
            client.prepare(FIND).await?,
            client.prepare(TAKE).await?,
            client.prepare(GROW).await?,
            client.prepare(COMPLETE).await?,
        ];
        Ok(Self { client, create, tell, find, take, grow, complete })
    }

    async fn create(&mut self) -> Result<()> {
        let (id, now) = (uuid::Uuid::now_v7(), now_micros());
        let tx = self.client.transaction().await?;
        tx.execute(&self.create, &[&id, &now]).await?;
        let said = Some(r#"{"task":"report","agent":"scribe"}"#);
        tx.execute(&self.tell, &[&id, &1i64, &"session.created", &None::<&str>, &said, &now]).await?;
        Ok(tx.commit().await?)
    }

    async fn claim(&mut self, worker: usize) -> Result<Option<(uuid::Uuid, i64)>> {
        let now = now_micros();
        let tx = self.client.transaction().await?;
        let Some(found) = tx.query_opt(&self.find, &[]).await? else {
            tx.rollback().await?;
            return Ok(None);
        };
        let id: uuid::Uuid = found.get(0);
        let worker = format!("worker-{worker}");
        let taken = tx.query_one(&self.take, &[&id, &worker, &(now + LEASE_MICROS)]).await?;
        let (epoch, sequence): (i64, i64) = (taken.get(0), taken.get(1));
        let said = format!(r#"{{"worker":"{worker}","epoch":{epoch}}}"#);
        tx.execute(&self.tell, &[&id, &sequence, &"session.claimed", &None::<&str>, &Some(said), &now])
            .await?;
        tx.commit().await?;
        Ok(Some((id, epoch)))
    }

    async fn say(&mut self, id: uuid::Uuid, epoch: i64, words: &str) -> Result<()> {
        let now = now_micros();
        let tx = self.client.transaction().await?;
        let grown = tx.query_opt(&self.grow, &[&id, &epoch]).await?.context("a claim was lost")?;
        let content = serde_json::json!([{"type": "text", "text": words}]).to_string();
        let sequence: i64 = grown.get(0);
        tx.execute(&self.tell, &[&id, &sequence, &"agent.message", &Some(content), &None::<&str>, &now])
            .await?;
        Ok(tx.commit().await?)
    }

    async fn complete(&mut self, id: uuid::Uuid, epoch: i64, words: &str) -> Result<()> {
        let (now, result) = (now_micros(), serde_json::json!(words).to_string());
        let tx = self.client.transaction().await?;
        let ended = tx.query_opt(&self.complete, &[&id, &epoch, &result, &now]).await?;
        let sequence: i64 = ended.context("a claim was lost")?.get(0);
        tx.execute(&self.tell, &[&id, &sequence, &"session.completed", &None::<&str>, &None::<&str>, &now])
            .await?;
        Ok(tx.commit().await?)
    }
}
