//! The store on PostgreSQL: many stateless nodes over one database.
//!
//! # Which way a change goes
//!
//! `PostgresStore::commit` sends a change one of four ways; claims go a fifth. Changes of several
//! callers share a transaction where the table says so.
//!
//! | change | way | shared by | round trips | role |
//! |---|---|---|---|---|
//! | plain append; this node has the session's head in its cache; no idempotency key, no external id, no look at participants, no patch of a document that this node has not patched before | `append/queue` → `append/optimistic` | a batch | 1: one statement, which writes only rows that are still as cached. An append whose row has changed goes on to the next way | `append` |
//! | every other plain append | `append/queue` → `append/batch` | a batch | 2: begin, lock and load; write and commit | `append` |
//! | at most four sessions; no key, audit line, record, fork or deletion | `batching/changes` → `commit` | up to 32 changes of one tenant | 2: begin, lock and load; write and commit. 1 more if participants are asked for, 1 more for external ids | `app` |
//! | everything else, also appends of `human.*` events and by share links | `commit` | no other change | as above; 1 more for each fork; with records, 1 or more for each record and 1 for the commit; a deletion deletes table by table | `app` |
//! | claims for the same work | `batching/claims` → `claim` | up to 128 sessions; a claim with a key goes alone | 2: begin, lock and load; write and commit. 1 more if an agent's runs are limited, 3 more with a key, another round if sessions had to be passed over | `app` |
//!
//! A *plain append* is a change with one part that appends to one existing session, without records and audit line
//! (`Change::is_plain_append`). Round trips are counted with prepared statements and a known tenant: preparing a statement
//! costs one more per connection, and the number of a tenant is asked for every five seconds. More than 24 statements are
//! sent in portions. The role `append` may not read content, add `human.*` events or see share links.
//!
//! The four ways of changes call one `judge::judge`, which applies core's rules to a head; a claim is judged by core's
//! `HandOut`. All of them lock heads in the order of their keys. After the commit, `Context::publish` (`tx`) tells the hub of this
//! node, the other nodes and the indexer, and then the callers are acknowledged.
//!
//! # The other parts
//!
//! | part | does |
//! |---|---|
//! | `append/head_cache` | heads as this node's appends left them |
//! | `batching/coalesce` | collects requests into batches, for `changes` and `point_reads` |
//! | `batching/point_reads` | reads of one session, one document or the time, which share a transaction |
//! | `writes` | statements for many rows at once, and the pipeline that sends them |
//! | `notify`, `seal`, `reply_pieces` | tells other nodes which logs have grown, and the text of unfinished replies |
//! | `indexer`, `unindexed`, `tsvector`, `search` | the search index, which follows the commits |
//! | `tx`, `connect`, `migrate`, `login` | transactions and their scope, connections and roles, the schema, the rights of the login |
//!
//! Row-level security is forced, and no role that this store takes may bypass it: see `migrations/V1__log.sql`.

mod append;
mod approvals;
mod batching;
mod bridges;
mod browser_sessions;
mod channels;
mod claim;
mod commit;
mod connect;
pub mod copy;
mod crises;
mod definitions;
mod documents;
mod events;
mod fault;
mod feedback;
mod idempotency;
mod indexer;
pub mod inspect;
mod judge;
mod lessons;
mod list;
pub mod login;
mod memories;
mod migrate;
mod notify;
mod people;
mod presence;
mod ratings;
mod records;
mod reply_pieces;
mod responses;
mod rows;
mod seal;
mod search;
mod sessions;
mod sweep;
mod talk;
mod tenants;
#[cfg(test)]
mod tests;
mod tsvector;
mod tx;
mod unindexed;
mod vectors;
mod work_queue;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use append::AppendJob;
use append::head_cache::HeadCache;
use append::queue::{AppendQueues, QUEUES};
use batching::changes::ChangeBatches;
use batching::claims::ClaimBatches;
use batching::point_reads::ReadBatches;
use connect::{Address, DbRole};
use fault::Fault;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sederunt_core::clock::SystemClock;
use sederunt_core::ids::TenantId;
use sederunt_core::live::Hub;
use sederunt_core::store::{
    Change, CommitResult, CommitStore, IdemKey, Refusal, Replay, StoreFuture, UpkeepStore, Vitals, Write,
};
use sederunt_core::time::Timestamp;
use sederunt_core::{Error, Result};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tx::Context;

/// Connections for commands and reads, by default.
const POOL_SIZE_DEFAULT: usize = 16;
/// Connections for sweeps, polls and notifications.
const SCAN_SIZE: usize = 3;
/// How long opening waits until this node listens to the others.
const LISTEN_MAX: Duration = Duration::from_secs(5);
/// How long closing waits for its tasks.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Options of a store.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub url: String,
    /// The schema of all tables, so that several stores can share a database.
    pub schema: String,
    /// Only its offset is used; it is added to the database's time.
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
    /// Whether to create or migrate the schema, as the login in the URL.
    pub migrate: bool,
    pub pool_size: usize,
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>, hub: Arc<Hub>) -> Self {
        Self {
            url: url.into(),
            schema: "sederunt".into(),
            clock: Arc::default(),
            hub,
            migrate: true,
            pool_size: POOL_SIZE_DEFAULT,
        }
    }
}

/// Creates or migrates the schema as a login that owns it and does not serve. Returns its version.
pub async fn migrate(url: &str, schema: &str) -> Result<u32> {
    migrate::migrate(&Address::parse(url, schema)?, migrate::MigrationLogin::Owns).await?;
    Ok(migrate::VERSION)
}

/// A store on PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    context: Arc<Context>,
    append_queues: Arc<AppendQueues>,
    change_batches: ChangeBatches,
    read_batches: ReadBatches,
    claim_batches: Arc<ClaimBatches>,
    closing: watch::Sender<bool>,
    drivers: Mutex<Vec<JoinHandle<()>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Boxed, so that the tasks which it spawns (batches, notifications, the index) are compiled in this crate, with
    /// its optimisation, and not in each crate that opens a store.
    pub fn open(options: PostgresOptions) -> BoxFuture<'static, Result<Arc<Self>>> {
        Box::pin(Self::open_and_follow(options))
    }

    async fn open_and_follow(options: PostgresOptions) -> Result<Arc<Self>> {
        let address = Address::parse(&options.url, &options.schema)?;
        if options.migrate {
            migrate::migrate_if_older(&address).await?;
        } else {
            migrate::check(&address).await?;
        }
        login::check(&address).await?;
        let scan = address.pool(DbRole::Scan, SCAN_SIZE)?;
        let secret = notify::secret(&scan, &address.schema).await?;
        let context = Arc::new(Context {
            schema: address.schema.clone(),
            app: address.pool(DbRole::App, options.pool_size.max(2))?,
            scan,
            append: address.pool(DbRole::Append, QUEUES)?,
            clock: options.clock,
            hub: options.hub,
            notify_queue: notify::NotifyQueue::new(secret)?,
            dirty_sessions: indexer::DirtySessions::default(),
            unindexed: unindexed::UnindexedEvents::default(),
            tenants: Context::tenant_cache(),
            metadata_counts: Context::metadata_count_cache(),
            clock_reading: Mutex::default(),
            head_cache: HeadCache::default(),
        });
        let (append_queues, mut drivers) = AppendQueues::start(&context);
        let (change_batches, change_drivers) = ChangeBatches::start(&context);
        drivers.extend(change_drivers);
        let (read_batches, read_drivers) = ReadBatches::start(&context);
        drivers.extend(read_drivers);
        let (closing, seen) = watch::channel(false);
        let (listens, mut listening) = mpsc::channel(1);
        let tasks = vec![
            tokio::spawn(notify::listen(context.clone(), address, listens, seen.clone())),
            tokio::spawn(notify::send_loop(context.clone(), seen.clone())),
            tokio::spawn(notify::poll(context.clone(), seen.clone())),
            tokio::spawn(indexer::follow(context.clone(), seen)),
            tokio::spawn(finish_removals(context.clone())),
        ];
        let store = Self {
            context,
            append_queues,
            change_batches,
            read_batches,
            claim_batches: Arc::default(),
            closing,
            drivers: Mutex::new(drivers),
            tasks: Mutex::new(tasks),
        };
        match tokio::time::timeout(LISTEN_MAX, listening.recv()).await {
            Ok(Some(())) => Ok(Arc::new(store)),
            _ => Err(Error::unavailable("the database cannot be listened to")),
        }
    }

    /// Whether a change goes to the append queues. The role `append` may not write what a browser records about a
    /// person (`human.*`) or act for share links.
    fn is_batched(change: &Change) -> bool {
        let shared = change.parts.iter().any(|part| {
            part.guard.append.as_ref().is_some_and(|rule| rule.actor.role == sederunt_core::Role::Share)
        });
        let human = change.parts.iter().any(commit::records_activity);
        change.is_plain_append() && !shared && !human
    }

    async fn append(&self, tk: i32, change: Change) -> Result<CommitResult, Refusal> {
        let (done, answer) = oneshot::channel();
        let Change { tenant, parts, key, .. } = change;
        let Some(part) = parts.into_iter().next() else { return Err(not_an_append()) };
        let sederunt_core::store::PartTarget::Session(session) = part.on else { return Err(not_an_append()) };
        let Some(write @ Write::Append(_)) = part.writes.into_iter().next() else {
            return Err(not_an_append());
        };
        self.append_queues.put(AppendJob { tk, tenant, session, guard: part.guard, write, key, done })?;
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the store has closed").into()))
    }

    /// In a task of its own, so that a caller that goes away cannot stop a change between commit and publication.
    async fn apply(&self, tk: i32, change: Change) -> Result<CommitResult, Refusal> {
        let context = self.context.clone();
        let task = tokio::spawn(async move { commit::apply(&context, tk, &change).await });
        task.await.unwrap_or_else(|error| Err(Error::internal(error).into()))
    }
}

fn not_an_append() -> Refusal {
    Error::internal("a batched change that is no plain append").into()
}

async fn finish_removals(context: Arc<Context>) {
    if let Err(fault) = tenants::sweep(&context).await {
        tracing::warn!(
            ?fault,
            "the store could not delete the rows of removed tenants; the next start tries again"
        );
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.append_queues.close();
        self.closing.send_replace(true);
    }
}

/// Turns the fault of a read into the product's error.
fn read<'a, T: 'a>(work: impl Future<Output = Result<T, Fault>> + Send + 'a) -> BoxFuture<'a, Result<T>> {
    work.map(|outcome| outcome.map_err(Error::from)).boxed()
}

impl CommitStore for PostgresStore {
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<CommitResult, Refusal>> {
        async move {
            let tk = self.context.tk(&change.tenant).await.map_err(Error::from)?;
            let tk = tk.ok_or(Refusal::Rejected(Error::NotFound))?;
            if Self::is_batched(&change) {
                self.append(tk, change).await
            } else if ChangeBatches::accepts(&change) {
                self.change_batches.apply(tk, change).await
            } else {
                self.apply(tk, change).await
            }
        }
        .boxed()
    }

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> StoreFuture<'a, Option<Replay>> {
        read(idempotency::recall(&self.context, tenant, key))
    }
}

impl UpkeepStore for PostgresStore {
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.read_batches.now().boxed()
    }

    fn installation_key(&self) -> StoreFuture<'_, [u8; 32]> {
        read(talk::installation_key(&self.context))
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        read(sweep::ready(&self.context))
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        read(sweep::vitals(&self.context))
    }

    fn index_now(&self) -> StoreFuture<'_, ()> {
        read(indexer::catch_up(&self.context))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.append_queues.close();
            self.change_batches.close();
            self.read_batches.close();
            let drivers = std::mem::take(&mut *self.drivers.lock());
            join_or_abort(drivers).await;
            self.closing.send_replace(true);
            let tasks = std::mem::take(&mut *self.tasks.lock());
            join_or_abort(tasks).await;
            for pool in [&self.context.app, &self.context.scan, &self.context.append] {
                pool.close();
            }
        }
        .boxed()
    }
}

async fn join_or_abort(tasks: Vec<JoinHandle<()>>) {
    for mut task in tasks {
        if tokio::time::timeout(CLOSE_MAX, &mut task).await.is_err() {
            task.abort();
        }
    }
}
