//! Transactions under row-level security: each one names whose rows it may see, for itself only. Also the context
//! that all parts of the store share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool};
use futures_util::future::join3;
use parking_lot::Mutex;
use postgres_types::{ToSql, Type};
use sederunt_core::access::ActingUser;
use sederunt_core::clock::SystemClock;
use sederunt_core::ids::TenantId;
use sederunt_core::live::Hub;
use sederunt_core::people::SecretHash;
use sederunt_core::store::Notice;
use sederunt_core::time::Timestamp;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;

use super::append::head_cache::HeadCache;
use super::connect::DbRole;
use super::fault::{Fault, Result};
use super::indexer::DirtySessions;
use super::notify::NotifyQueue;
use super::unindexed::UnindexedEvents;
use super::writes::CommitFailure;

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// How long a caller waits for a whole command. The server's own limits come first; this one is for a server that no
/// longer answers.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(15);

/// How long the number of a tenant is cached: it never changes, but the tenant may be removed.
const TENANT_CACHED_FOR: Duration = Duration::from_secs(5);

/// How long the number of sessions with a metadata value is cached: it only decides how a list is searched.
const METADATA_COUNT_CACHED_FOR: Duration = Duration::from_secs(60);

/// How long the time is computed from a clock reading before the clock is read again.
const CLOCK_READING_AGE_MAX: Duration = Duration::from_secs(1);

/// Reads the database's clock, in microseconds: a statement of its own, after every wait for a lock.
pub(super) const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
/// The same as a column of rows that were locked or created: the last row has the time after every wait.
pub(super) const TICK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Wraps a statement that locks rows in order, so that each row ends with the time.
pub(super) fn locked_at(select: &str) -> String {
    format!("SELECT locked.*, {TICK} FROM ({select}) locked")
}

/// The time at the end of the last row.
pub(super) fn last_tick(rows: &[Row]) -> Result<Option<i64>> {
    rows.last().map(|row| Ok(row.try_get(row.len() - 1)?)).transpose()
}

/// What the parts of this store share: pools, clock, hub, queues and caches.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) schema: Arc<str>,
    pub(super) app: Pool,
    pub(super) scan: Pool,
    pub(super) append: Pool,
    pub(super) clock: Arc<SystemClock>,
    pub(super) hub: Arc<Hub>,
    pub(super) notify_queue: NotifyQueue,
    pub(super) dirty_sessions: DirtySessions,
    pub(super) unindexed: UnindexedEvents,
    pub(super) tenants: moka::sync::Cache<TenantId, i32>,
    /// How many sessions of a tenant have a metadata value.
    pub(super) metadata_counts: moka::sync::Cache<(i32, String, String), usize>,
    pub(super) clock_reading: Mutex<Option<ClockReading>>,
    pub(super) head_cache: HeadCache,
}

/// A reading of the database's clock, and when this node received it. The time that is computed from it lags by the
/// time that the answer took, as any reading does.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    micros: i64,
    heard: Instant,
}

impl ClockReading {
    fn now_micros(self) -> i64 {
        self.micros.saturating_add(i64::try_from(self.heard.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    /// The later of two readings, which is not always the one that arrived later. An old one does not count.
    fn later_of(self, other: Self) -> Self {
        if self.is_recent() && self.now_micros() > other.now_micros() { self } else { other }
    }

    fn is_recent(self) -> bool {
        self.heard.elapsed() < CLOCK_READING_AGE_MAX
    }
}

/// Whose rows a transaction may see.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope<'a> {
    Tenant(i32),
    /// The same, and in it the share links that this user may see.
    TenantAs(i32, &'a ActingUser),
    /// The same, and in it all share links: for deletions of sessions and tenants.
    Whole(i32),
    /// The tenant of this name, and only its row.
    Named(&'a TenantId),
    /// Keys and states of all tenants.
    All,
    /// Numbers of documents, by their words.
    Words,
    /// The text of unfinished replies in these tenants.
    Relay(&'a [i32]),
    /// What the share link with this hash shows, and of a link to a view what this respondent has answered.
    Link(SecretHash, &'a str),
}

/// Lets a transaction see all share links of its tenant.
pub(super) const AS_STORE: &str = "SET LOCAL app.role TO 'store'";

/// A text as a literal; strings are standard-conforming on every connection.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Scope<'_> {
    pub(super) fn begin(self, how: &str, schema: &str) -> String {
        match self {
            Self::Tenant(tk) => format!("BEGIN {how}; SET LOCAL app.tk TO '{tk}'"),
            Self::TenantAs(tk, by) => {
                let (user, role) = match by {
                    ActingUser::User(user) => (user.as_str(), ""),
                    ActingUser::Owner => ("", "owner"),
                    ActingUser::Nobody => ("", ""),
                };
                format!(
                    "BEGIN {how}; SET LOCAL app.tk TO '{tk}'; SET LOCAL app.\"user\" TO {}; SET LOCAL app.role TO '{role}'",
                    quoted(user)
                )
            }
            Self::Whole(tk) => format!("BEGIN {how}; SET LOCAL app.tk TO '{tk}'; {AS_STORE}"),
            Self::Named(id) => format!("BEGIN {how}; SET LOCAL app.tenant TO {}", quoted(id.as_str())),
            Self::All => format!("BEGIN {how}"),
            // A GIN index can only be read as a bitmap, and how common the words are decides whether to read it.
            Self::Words => {
                format!(
                    "BEGIN {how}; SET LOCAL ROLE {}; SET LOCAL enable_bitmapscan TO on; \
                     SET LOCAL plan_cache_mode TO force_custom_plan",
                    DbRole::Find.name(schema)
                )
            }
            Self::Relay(tks) => {
                let tks = tks.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
                format!(
                    "BEGIN {how}; SET LOCAL ROLE {}; SET LOCAL app.tks TO '{{{tks}}}'",
                    DbRole::Relay.name(schema)
                )
            }
            Self::Link(hash, respondent) => format!(
                "BEGIN {how}; SET LOCAL ROLE {}; SET LOCAL app.hash TO '{}'; SET LOCAL app.respondent TO {}",
                DbRole::Share.name(schema),
                hex::encode(hash.0),
                quoted(respondent)
            ),
        }
    }
}

impl Context {
    pub(super) fn tenant_cache() -> moka::sync::Cache<TenantId, i32> {
        moka::sync::Cache::builder().max_capacity(100_000).time_to_live(TENANT_CACHED_FOR).build()
    }

    pub(super) fn metadata_count_cache() -> moka::sync::Cache<(i32, String, String), usize> {
        moka::sync::Cache::builder().max_capacity(10_000).time_to_live(METADATA_COUNT_CACHED_FOR).build()
    }

    fn pool(&self, scope: Scope<'_>) -> &Pool {
        match scope {
            Scope::Tenant(_)
            | Scope::TenantAs(..)
            | Scope::Whole(_)
            | Scope::Named(_)
            | Scope::Words
            | Scope::Link(..) => &self.app,
            Scope::All | Scope::Relay(_) => &self.scan,
        }
    }

    /// The time of the store from a clock reading that has just arrived.
    pub(super) fn time(&self, micros: i64) -> Timestamp {
        let read = ClockReading { micros, heard: Instant::now() };
        let mut reading = self.clock_reading.lock();
        *reading = Some(reading.map_or(read, |before| before.later_of(read)));
        self.with_offset(micros)
    }

    /// The time of the store, if its clock was read recently.
    pub(super) fn recent_time(&self) -> Option<Timestamp> {
        let reading = (*self.clock_reading.lock()).filter(|reading| reading.is_recent())?;
        Some(self.with_offset(reading.now_micros()))
    }

    fn with_offset(&self, micros: i64) -> Timestamp {
        Timestamp::from_micros(micros.saturating_add(self.clock.offset_micros()))
    }

    /// Runs a statement that only reads, in one round trip. Tried once more if the connection had died unnoticed.
    pub(super) async fn read(&self, scope: Scope<'_>, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        within(async {
            match self.read_once(scope, sql, params).await {
                Err(fault) if fault.is_lost() => self.read_once(scope, sql, params).await,
                answer => answer,
            }
        })
        .await
    }

    async fn read_once(&self, scope: Scope<'_>, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let client = self.pool(scope).get().await?;
        let statement = client.prepare_cached(sql).await?;
        let begin = scope.begin("READ ONLY", &self.schema);
        // The first poll sends all three, so a caller that goes away leaves no transaction behind.
        let (begun, rows, ended) = join3(
            client.batch_execute(&begin),
            client.query(&statement, params),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        ended?;
        Ok(rows?)
    }

    /// The same for a statement that is built for one query and not cached.
    pub(super) async fn read_uncached(
        &self,
        scope: Scope<'_>,
        sql: &str,
        params: &[(Param<'_>, Type)],
    ) -> Result<Vec<Row>> {
        within(async {
            let client = self.pool(scope).get().await?;
            let begin = scope.begin("READ ONLY", &self.schema);
            let (begun, rows, ended) = join3(
                client.batch_execute(&begin),
                client.query_typed(sql, params),
                client.batch_execute("COMMIT"),
            )
            .await;
            begun?;
            ended?;
            Ok(rows?)
        })
        .await
    }

    /// Starts a transaction of several statements. Tried once more if the connection had died unnoticed.
    pub(super) async fn begin(&self, scope: Scope<'_>) -> Result<Tx> {
        let tx = self.prepare(scope).await?;
        match tx.begin().await {
            Err(fault) if fault.is_lost() => {
                let tx = self.prepare(scope).await?;
                tx.begin().await.map(|()| tx)
            }
            begun => begun.map(|()| tx),
        }
    }

    /// A transaction that the caller begins together with its first statements, to save a round trip.
    pub(super) async fn prepare(&self, scope: Scope<'_>) -> Result<Tx> {
        Ok(Tx { client: Some(self.pool(scope).get().await?), begin: scope.begin("", &self.schema) })
    }

    /// The number of a tenant.
    pub(super) async fn tk(&self, tenant: &TenantId) -> Result<Option<i32>> {
        if let Some(tk) = self.tenants.get(tenant) {
            return Ok(Some(tk));
        }
        let rows = self
            .read(Scope::Named(tenant), "SELECT tk FROM tenants WHERE id = $1", &[&tenant.as_str()])
            .await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let tk = row.try_get(0)?;
        self.tenants.insert(tenant.clone(), tk);
        Ok(Some(tk))
    }

    /// Publishes a commit: to the hub of this node, then to the other nodes and the indexer. `keys` are the sessions
    /// of the notices. The indexer gets the notices for which `words` is true.
    pub(super) fn publish(&self, notices: &[Notice], keys: &[(i32, i64)], words: impl Fn(&Notice) -> bool) {
        if notices.is_empty() {
            return;
        }
        self.head_cache.forget(notices.iter().map(|notice| (notice.tenant.clone(), notice.session.clone())));
        self.hub.committed(notices);
        self.notify_queue.put(notices);
        let keyed = || keys.iter().copied().zip(notices).filter(|(_, notice)| !notice.deleted);
        self.unindexed
            .put(keyed().flat_map(|(key, notice)| notice.events.iter().map(move |event| (key, event))));
        self.dirty_sessions.put(keyed().filter(|(_, notice)| words(notice)).map(|(key, _)| key));
    }
}

/// Bounds a command by [`ANSWER_MAX`].
pub(super) async fn within<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(ANSWER_MAX, command).await.unwrap_or(Err(Fault::TimedOut))
}

/// A transaction in progress. Dropped without a commit, it closes its connection, so the server rolls back.
#[derive(Debug)]
pub(super) struct Tx {
    client: Option<Object>,
    begin: String,
}

impl Tx {
    pub(super) fn client(&self) -> Result<&Object> {
        self.client.as_ref().ok_or(Fault::TimedOut)
    }

    pub(super) async fn begin(&self) -> Result<()> {
        Ok(self.client()?.batch_execute(&self.begin).await?)
    }

    pub(super) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query(&statement, params).await?)
    }

    pub(super) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.execute(&statement, params).await?)
    }

    /// The time, after every lock that was waited for so far.
    pub(super) async fn clock(&self, context: &Context) -> Result<Timestamp> {
        let rows = self.query(CLOCK, &[]).await?;
        Ok(context.time(rows.first().map_or(Ok(0), |row| row.try_get(0))?))
    }

    pub(super) async fn commit(self) -> Result<()> {
        self.send_commit().await.map_err(|failure| failure.fault)?;
        self.release();
        Ok(())
    }

    /// Commits. If the answer does not arrive, it is not known whether the commit was made.
    pub(super) async fn send_commit(&self) -> Result<(), CommitFailure> {
        let ended = self.client()?.batch_execute("COMMIT").await;
        ended.map_err(|error| CommitFailure { fault: error.into(), certain: false })
    }

    /// Gives the connection back after its commit was answered.
    pub(super) fn release(mut self) {
        self.client.take();
    }

    pub(super) async fn rollback(mut self) {
        if let Some(client) = &self.client
            && client.batch_execute("ROLLBACK").await.is_ok()
        {
            self.client.take();
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

/// 64 bits of a hash, for advisory locks.
pub(super) fn hash64(parts: &[&[u8]]) -> i64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}

/// A count as the database stores it.
pub(super) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count as core has it.
pub(super) fn count(int: i64) -> u64 {
    u64::try_from(int).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(micros: i64, since: Duration) -> ClockReading {
        ClockReading { micros, heard: Instant::now().checked_sub(since).unwrap() }
    }

    #[test]
    fn the_time_goes_on_from_a_reading() {
        let told = reading(5_000_000, Duration::from_millis(200)).now_micros();
        assert!((5_200_000..5_900_000).contains(&told), "{told}");
    }

    #[test]
    fn an_answer_that_was_long_on_its_way_does_not_set_the_time_back() {
        let before = reading(5_000_000, Duration::from_millis(200));
        let late = reading(5_100_000, Duration::ZERO);
        assert_eq!(before.later_of(late).micros, 5_000_000);
        let prompt = reading(8_000_000, Duration::ZERO);
        assert_eq!(before.later_of(prompt).micros, 8_000_000);
    }

    #[test]
    fn an_old_reading_gives_way_to_any() {
        let old = reading(9_000_000, CLOCK_READING_AGE_MAX);
        assert!(!old.is_recent());
        assert_eq!(old.later_of(reading(5_000_000, Duration::ZERO)).micros, 5_000_000);
    }
}
