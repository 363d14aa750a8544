//! The measured product: its stores, filled through its own engine, and its server as a process of its own.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use sederunt::Place;
use sederunt_core::access::{Actor, Role};
use sederunt_core::engine::{Append, DraftEvent, Engine, NewKey, Settings};
use sederunt_core::ids::SessionId;
use sederunt_core::json::Json;
use sederunt_core::live::Hub;
use sederunt_core::session::decide::{self, OpenSession};
use sederunt_core::session::{SessionType, SourceKind};
use sederunt_core::store::{Change, ChangePart, Guard, PartTarget, Refusal, Store, Write};
use sederunt_store::postgres::{PostgresOptions, PostgresStore};
use sederunt_store::sqlite::{self, SqliteOptions, SqliteStore};
use tokio::runtime::Runtime;

use crate::bench::Bench;
use crate::child::{self, Listening};
use crate::load::{Target, single_threaded};
use crate::payload::{Payloads, SESSIONS};
use crate::raw::postgres::{self, Database};

/// Sessions made by one change: few enough to keep a commit short.
const SESSIONS_PER_CHANGE: usize = 100;

/// A store of ours, removed with this value.
pub struct Subject {
    pub url: String,
    key: String,
    /// The log of its servers.
    log: PathBuf,
    home: Home,
}

enum Home {
    #[expect(dead_code, reason = "held until the store is no longer needed")]
    Disk(tempfile::TempDir),
    Database(Database),
}

/// A store that stays open between rounds, as the connections of the bare baselines do.
pub struct Opened {
    runtime: Runtime,
    embedded: Embedded,
}

/// The engine in this process, and the store below it: stores are filled with whole changes, and some of its reads are
/// measured alone.
pub struct Embedded {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
}

impl Deref for Embedded {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Opened {
    pub fn run<T>(&self, run: impl AsyncFnOnce(&Embedded) -> Result<T>) -> Result<T> {
        self.runtime.block_on(run(&self.embedded))
    }

    pub fn close(self) {
        self.runtime.block_on(self.embedded.close());
    }
}

impl Subject {
    /// A fresh store on the benchmark's disk.
    pub fn on_disk(bench: &Bench) -> Result<Self> {
        let dir = tempfile::tempdir_in(&bench.dir)?;
        let url = dir.path().join("store").to_str().context("the path is not UTF-8")?.to_owned();
        Self::new(bench, url, Home::Disk(dir))
    }

    /// A fresh database on the benchmark's PostgreSQL.
    pub fn on_postgres(bench: &Bench) -> Result<Self> {
        let database = Database::create(bench.postgres()?)?;
        Self::new(bench, database.url.clone(), Home::Database(database))
    }

    fn new(bench: &Bench, url: String, home: Home) -> Result<Self> {
        let key = single_threaded()?.block_on(async {
            let engine = open(&url).await?;
            let wish = NewKey { role: Some(Role::Owner), user: Some("bench".into()), ..NewKey::default() };
            let made = engine.create_key(&owner(), wish, None).await?;
            engine.close().await;
            made.secret.context("a key without a secret")
        })?;
        Ok(Self { url, key, log: bench.log(), home })
    }

    /// Runs something on the store in this process, and closes it.
    pub fn with_engine<T>(&self, run: impl AsyncFnOnce(&Embedded) -> Result<T>) -> Result<T> {
        let opened = self.open()?;
        let done = opened.run(run);
        opened.close();
        done
    }

    /// Opens the store in this process for several rounds.
    pub fn open(&self) -> Result<Opened> {
        let runtime = single_threaded()?;
        let embedded = runtime.block_on(open(&self.url))?;
        Ok(Opened { runtime, embedded })
    }

    /// Makes the sessions `s0`, `s1` … that spread-out appends go to.
    pub fn with_sessions(self) -> Result<Self> {
        self.with_engine(async |engine| make_sessions(engine, SESSIONS, talk).await)?;
        self.settle()?;
        Ok(self)
    }

    /// Lets the database analyse what was filled in, which its own worker would do within a minute; the bare
    /// baselines get the same.
    pub fn settle(&self) -> Result<()> {
        match &self.home {
            Home::Disk(_) => Ok(()),
            Home::Database(database) => postgres::run(&database.url, "VACUUM ANALYZE"),
        }
    }

    /// The key in a file, as programs are given it.
    pub fn key_file(&self) -> Result<tempfile::NamedTempFile> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), &self.key)?;
        Ok(file)
    }

    /// Starts the server on this store, with keys.
    pub fn serve(&self) -> Result<Node> {
        self.serve_with(&[])
    }

    /// The same with further arguments, which only the product's own binary knows.
    pub fn serve_with(&self, arguments: &[&str]) -> Result<Node> {
        let mut command = child::command(server_program()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--auth", "keys", "--store", &self.url]);
        let listening = Listening::start(command.args(arguments), &self.log)?;
        let target = Target::new(listening.addr, Some(&self.key));
        Ok(Node { listening, target })
    }
}

/// The product's binary beside this one; without it, this program can serve too.
pub fn server_program() -> Result<PathBuf> {
    let beside = child::this_program()?.with_file_name("sederunt");
    if beside.is_file() { Ok(beside) } else { child::this_program() }
}

/// A running server of ours.
pub struct Node {
    pub listening: Listening,
    pub target: Target,
}

impl Node {
    /// Reads every spread-out session to its end: sequences must be dense, and as many events must be stored as were
    /// acknowledged.
    pub fn check_stored(&self, acknowledged: u64) -> Result<()> {
        let stored = single_threaded()?.block_on(async {
            let mut stored = 0;
            let mut connection = self.target.connect().await?;
            for session in 0..SESSIONS {
                stored += count_events(&self.target, &mut connection, &name(session)).await?;
            }
            anyhow::Ok(stored)
        })?;
        ensure!(stored == acknowledged, "{stored} events stored, {acknowledged} acknowledged");
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Page {
    events: Vec<Numbered>,
    has_more: bool,
}

#[derive(serde::Deserialize)]
struct Numbered {
    sequence: u64,
}

/// The events of a session, without the one of its creation.
async fn count_events(
    target: &Target,
    connection: &mut crate::load::Connection,
    session: &str,
) -> Result<u64> {
    let mut last = 0;
    loop {
        let mut request = Vec::new();
        target.get(&format!("/api/sessions/{session}/events?after_sequence={last}&limit=1000"), &mut request);
        let page: Page = connection.ask(&request).await?.json(200)?;
        for event in page.events {
            ensure!(event.sequence == last + 1, "in {session}, {} comes after {last}", event.sequence);
            last = event.sequence;
        }
        if !page.has_more {
            return Ok(last.saturating_sub(1));
        }
    }
}

/// Opens a store in this process.
pub async fn open(url: &str) -> Result<Embedded> {
    let hub = Arc::new(Hub::default());
    let published = hub.clone();
    let on_sqlite = move |place| {
        SqliteStore::open(SqliteOptions { place, clock: Arc::default(), hub: published.clone() })
    };
    let store: Arc<dyn Store> = match url.parse()? {
        Place::Directory(path) => on_sqlite(sqlite::Place::Directory(path))?,
        Place::Memory => on_sqlite(sqlite::Place::Memory)?,
        Place::Postgres(url) => PostgresStore::open(PostgresOptions::new(url, hub.clone())).await?,
    };
    let engine = Engine::new(store.clone(), hub, Settings::default())
        .with_private(move || Ok(on_sqlite(sqlite::Place::Memory)?));
    Ok(Embedded { engine, store })
}

/// The caller of the engine in this process.
pub fn owner() -> Actor {
    Actor::local(SourceKind::Api)
}

/// The name of the nth session.
pub fn name(nth: usize) -> String {
    format!("s{nth}")
}

/// A session of talk.
pub fn talk(nth: usize) -> OpenSession {
    OpenSession { id: Some(name(nth)), session_type: Some(SessionType::Mixed), ..OpenSession::default() }
}

/// Makes many sessions, a hundred to a change.
pub async fn make_sessions(
    engine: &Embedded,
    count: usize,
    wish: impl Fn(usize) -> OpenSession,
) -> Result<()> {
    let actor = owner();
    let all: Vec<usize> = (0..count).collect();
    for some in all.chunks(SESSIONS_PER_CHANGE) {
        let mut change = Change::new(actor.tenant.clone());
        for &nth in some {
            let wish = wish(nth);
            let id = SessionId::parse_new(wish.id.as_deref().context("an unnamed session")?)?;
            let new = decide::open(&actor, id, wish, &sederunt_core::ids::RandomIds)?;
            let events = vec![decide::created_event(&new)?];
            change = change.part(ChangePart {
                on: PartTarget::New(Box::new(new)),
                guard: Guard::default(),
                writes: [Write::Append(events)].into_iter().collect(),
            });
        }
        match engine.store.commit(change).await {
            Ok(_) => {}
            Err(Refusal::Stale) => anyhow::bail!("the sessions exist already"),
            Err(Refusal::Rejected(error)) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The nth event, as a caller of the engine gives it.
pub fn draft(payloads: &Payloads, nth: u64) -> DraftEvent {
    DraftEvent {
        kind: "user.message".into(),
        content: Some(Json::stored(payloads.nth(nth).clone())),
        ..DraftEvent::default()
    }
}

/// Grows a log by many events, as many to a batch as are allowed.
pub async fn grow(engine: &Engine, payloads: &Payloads, session: &str, events: u64) -> Result<()> {
    const BATCH: u64 = 500;
    let (actor, id) = (Arc::new(owner()), SessionId::parse(session)?);
    let mut done = 0;
    while done < events {
        let batch = (done..events.min(done + BATCH)).map(|nth| draft(payloads, nth)).collect();
        engine.append(&actor, &id, Append { events: batch, ..Append::default() }, None).await?;
        done += BATCH;
    }
    Ok(())
}
