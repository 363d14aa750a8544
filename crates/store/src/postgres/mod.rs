//! The seam on PostgreSQL: many stateless nodes over one database.
//!
//! Plain appends go through `lanes` in batches, other small changes through `groups`, and claims for the same work meet
//! in `takers`; every other change is a transaction of its own (`commit`). Small reads meet in `looks`.
//! Row-level security is forced, and no role that this store takes may bypass it: see `migrations/V1__log.sql`.
//! Nodes tell each other by `spread` what has happened; rows are always read from the tables.

mod append;
mod approvals;
mod batching;
mod claim;
mod commit;
mod connect;
pub mod copy;
mod crises;
mod events;
mod fault;
mod feedback;
mod idempotency;
mod indexer;
pub mod inspect;
mod lessons;
mod library;
mod list;
pub mod login;
mod memories;
mod migrate;
mod notify;
mod people;
mod ratings;
mod records;
mod reply_pieces;
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

use append::batch::Job;
use append::head_cache::KnownHeads;
use append::queue::{LANES, Lanes};
use batching::changes::Groups;
use batching::claims::Takers;
use batching::point_reads::Looks;
use connect::{Address, Role};
use fault::Fault;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sederunt_core::clock::SystemClock;
use sederunt_core::ids::TenantId;
use sederunt_core::live::Hub;
use sederunt_core::store::{
    Change, CommitStore, Committed, IdemKey, Refusal, Replay, StoreFuture, UpkeepStore, Vitals, Write,
};
use sederunt_core::time::Timestamp;
use sederunt_core::{Error, Result};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tx::Base;

/// Connections for commands and reads, when nobody says.
const POOL_SIZE_DEFAULT: usize = 16;
/// Connections for sweeps, polls and notifications.
const SCAN_SIZE: usize = 3;
/// How long opening waits until this node hears the others.
const LISTEN_MAX: Duration = Duration::from_secs(5);
/// How long closing waits for tasks that should have ended.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Where the database is, and what goes with it.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub url: String,
    /// Everything lives in this schema, so that several stores can share a database.
    pub schema: String,
    /// Only its offset counts, added to the time of the database.
    pub clock: Arc<SystemClock>,
    pub hub: Arc<Hub>,
    /// Whether to make the schema or bring it forward, as the login in the URL.
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

/// Makes the schema or brings it forward as a login that owns it and does not serve. The version that it has then.
pub async fn migrate(url: &str, schema: &str) -> Result<u32> {
    migrate::bring_up(&Address::parse(url, schema)?, migrate::Login::Owns).await?;
    Ok(migrate::VERSION)
}

/// A store on PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    base: Arc<Base>,
    lanes: Arc<Lanes>,
    groups: Groups,
    looks: Looks,
    takers: Arc<Takers>,
    closing: watch::Sender<bool>,
    lane_tasks: Mutex<Vec<JoinHandle<()>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    pub async fn open(options: PostgresOptions) -> Result<Arc<Self>> {
        let address = Address::parse(&options.url, &options.schema)?;
        if options.migrate {
            migrate::bring_up_if_older(&address).await?;
        } else {
            migrate::check(&address).await?;
        }
        login::check(&address).await?;
        let scan = address.pool(Role::Scan, SCAN_SIZE)?;
        let secret = notify::secret(&scan, &address.schema).await?;
        let base = Arc::new(Base {
            schema: address.schema.clone(),
            app: address.pool(Role::App, options.pool_size.max(2))?,
            scan,
            append: address.pool(Role::Append, LANES)?,
            clock: options.clock,
            hub: options.hub,
            outbox: notify::Outbox::new(secret)?,
            dirty: indexer::Dirty::default(),
            fresh: unindexed::Fresh::default(),
            tenants: Base::cache(),
            common: Base::common(),
            reading: Mutex::default(),
            known: KnownHeads::default(),
        });
        let (lanes, mut lane_tasks) = Lanes::start(&base);
        let (groups, drivers) = Groups::start(&base);
        lane_tasks.extend(drivers);
        let (looks, drivers) = Looks::start(&base);
        lane_tasks.extend(drivers);
        let (closing, seen) = watch::channel(false);
        let (listens, mut listening) = mpsc::channel(1);
        let tasks = vec![
            tokio::spawn(notify::listen(base.clone(), address, listens, seen.clone())),
            tokio::spawn(notify::tell(base.clone(), seen.clone())),
            tokio::spawn(notify::poll(base.clone(), seen.clone())),
            tokio::spawn(indexer::follow(base.clone(), seen)),
            tokio::spawn(finish_removals(base.clone())),
        ];
        let store = Self {
            base,
            lanes,
            groups,
            looks,
            takers: Arc::default(),
            closing,
            lane_tasks: Mutex::new(lane_tasks),
            tasks: Mutex::new(tasks),
        };
        match tokio::time::timeout(LISTEN_MAX, listening.recv()).await {
            Ok(Some(())) => Ok(Arc::new(store)),
            _ => Err(Error::unavailable("the database cannot be listened to")),
        }
    }

    /// Plain appends are batched, but for what the role of the batches is not given: what a browser records
    /// about a person, and anything of a share link.
    fn is_batched(change: &Change) -> bool {
        let shared = change.parts.iter().any(|part| {
            part.guard.append.as_ref().is_some_and(|rule| rule.actor.role == sederunt_core::Role::Share)
        });
        let human = change.parts.iter().flat_map(|part| &part.writes).any(|write| match write {
            Write::Append(events) => events.iter().any(|event| event.kind.as_str().starts_with("human.")),
            Write::Update(_) | Write::Talk(_) | Write::Delete => false,
        });
        change.is_plain_append() && !shared && !human
    }

    async fn append(&self, tk: i32, change: Change) -> Result<Committed, Refusal> {
        let (done, answer) = oneshot::channel();
        let Change { tenant, parts, key, .. } = change;
        let Some(part) = parts.into_iter().next() else { return Err(lost()) };
        let sederunt_core::store::On::Session(session) = part.on else { return Err(lost()) };
        let Some(Write::Append(events)) = part.writes.into_iter().next() else { return Err(lost()) };
        self.lanes.put(Job { tk, tenant, session, guard: part.guard, events, key, done })?;
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the store has closed").into()))
    }

    /// In a task of its own: a caller that goes away cannot stop a change halfway between commit and publication.
    async fn apply(&self, tk: i32, change: Change) -> Result<Committed, Refusal> {
        let base = self.base.clone();
        let task = tokio::spawn(async move { commit::apply(&base, tk, &change).await });
        task.await.unwrap_or_else(|error| Err(Error::internal(error).into()))
    }
}

fn lost() -> Refusal {
    Error::internal("a batched change that is no plain append").into()
}

async fn finish_removals(base: Arc<Base>) {
    if let Err(fault) = tenants::sweep(&base).await {
        tracing::warn!(?fault, "rows of deleted tenants could not be removed; the next start tries again");
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.lanes.close();
        self.closing.send_replace(true);
    }
}

/// Turns the faults of a read into the product's errors.
fn read<'a, T: 'a>(work: impl Future<Output = Result<T, Fault>> + Send + 'a) -> BoxFuture<'a, Result<T>> {
    work.map(|outcome| outcome.map_err(Error::from)).boxed()
}

impl CommitStore for PostgresStore {
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<Committed, Refusal>> {
        async move {
            let tk = self.base.tk(&change.tenant).await.map_err(Error::from)?;
            let tk = tk.ok_or(Refusal::Rejected(Error::NotFound))?;
            if Self::is_batched(&change) {
                self.append(tk, change).await
            } else if Groups::take(&change) {
                self.groups.apply(tk, change).await
            } else {
                self.apply(tk, change).await
            }
        }
        .boxed()
    }

    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> StoreFuture<'a, Option<Replay>> {
        read(idempotency::recall(&self.base, tenant, key))
    }
}

impl UpkeepStore for PostgresStore {
    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.looks.now().boxed()
    }

    fn installation_key(&self) -> StoreFuture<'_, [u8; 32]> {
        read(talk::installation_key(&self.base))
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        read(sweep::ready(&self.base))
    }

    fn vitals(&self) -> StoreFuture<'_, Vitals> {
        read(sweep::vitals(&self.base))
    }

    fn index_now(&self) -> StoreFuture<'_, ()> {
        read(indexer::catch_up(&self.base))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.lanes.close();
            self.groups.close();
            self.looks.close();
            let lane_tasks = std::mem::take(&mut *self.lane_tasks.lock());
            end(lane_tasks).await;
            self.closing.send_replace(true);
            let tasks = std::mem::take(&mut *self.tasks.lock());
            end(tasks).await;
            for pool in [&self.base.app, &self.base.scan, &self.base.append] {
                pool.close();
            }
        }
        .boxed()
    }
}

async fn end(tasks: Vec<JoinHandle<()>>) {
    for mut task in tasks {
        if tokio::time::timeout(CLOSE_MAX, &mut task).await.is_err() {
            task.abort();
        }
    }
}
