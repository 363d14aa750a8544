//! Incognito sessions are in memory: what they may use is bounded, and memory of deleted or abandoned ones is given
//! back.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Engine, Settings};
use sederunt_core::live::Hub;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{MemoryMode, SessionType};
use sederunt_core::store::{PrivateLimits, Store};
use sederunt_core::{Actor, Error, Result, Role, SessionId};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};

use crate::harness::{World, says, wish};

/// Room for a session with one message of [`LONG`], and no second one.
const LIMITS: PrivateLimits = PrivateLimits {
    session_bytes: 16 * 1024,
    user_bytes: 24 * 1024,
    total_bytes: 32 * 1024,
    idle_after: Duration::from_secs(600),
};
const LONG: usize = 10 * 1024;

async fn world() -> World {
    let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
    let (time, heard) = (clock.clone(), hub.clone());
    let open = move || -> Result<Arc<dyn Store>> {
        let options = SqliteOptions { place: Place::Memory, clock: time.clone(), hub: heard.clone() };
        Ok(SqliteStore::open(options)?)
    };
    let settings = Settings { incognito: LIMITS, ..Settings::default() };
    let store = open().unwrap();
    World::over(Engine::new(store.clone(), hub, settings).with_private(open), store, clock, None).await
}

async fn open(world: &World, actor: &Actor, id: &str) -> Result<()> {
    let wish = OpenSession { memory_mode: Some(MemoryMode::Incognito), ..wish(id, SessionType::Mixed) };
    world.engine.open(actor, wish, None).await.map(drop)
}

async fn say(world: &World, actor: &Arc<Actor>, id: &str) -> Result<()> {
    world
        .engine
        .append(actor, &SessionId::stored(id), says("user.message", &"x".repeat(LONG)), None)
        .await
        .map(drop)
}

fn exceeded(done: Result<()>) -> Option<&'static str> {
    match done {
        Ok(()) => None,
        Err(Error::QuotaExceeded { quota, .. }) => Some(quota.name()),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_budget_is_refused_by_its_name_and_deletion_frees_it() {
    let world = world().await;
    let [ann, bob] = ["ann", "bob"].map(|name| world.actor(Role::Member, name));
    open(&world, &ann, "a1").await.unwrap();
    say(&world, &ann, "a1").await.unwrap();
    assert_eq!(exceeded(say(&world, &ann, "a1").await), Some("incognito.session_bytes"));
    open(&world, &ann, "a2").await.unwrap();
    say(&world, &ann, "a2").await.unwrap();
    open(&world, &ann, "a3").await.unwrap();
    assert_eq!(exceeded(say(&world, &ann, "a3").await), Some("incognito.user_bytes"));
    open(&world, &bob, "b1").await.unwrap();
    assert_eq!(exceeded(say(&world, &bob, "b1").await), Some("incognito.total_bytes"));

    world.engine.delete(&ann, &SessionId::stored("a1")).await.unwrap();
    say(&world, &bob, "b1").await.unwrap();
    world.engine.delete(&ann, &SessionId::stored("a2")).await.unwrap();
    say(&world, &ann, "a3").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incognito_session_is_deleted_when_no_user_comes_back_to_it() {
    let world = world().await;
    let ann = world.actor(Role::Member, "ann");
    open(&world, &ann, "left").await.unwrap();
    world.clock.advance(Duration::from_secs(500));
    open(&world, &ann, "used").await.unwrap();
    world.clock.advance(Duration::from_secs(200));
    assert_eq!(world.engine.sweep().await.unwrap().expired, 1);
    let left = world.engine.session(&ann, &SessionId::stored("left")).await;
    assert!(matches!(left, Err(Error::NotFound)), "{left:?}");
    world.engine.session(&ann, &SessionId::stored("used")).await.unwrap();
    assert_eq!(world.engine.sweep().await.unwrap().expired, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_does_not_bind_what_is_kept_on_disk() {
    let world = world().await;
    let ann = world.actor(Role::Member, "ann");
    world.open(&ann, wish("kept", SessionType::Mixed)).await;
    for _ in 0..4 {
        say(&world, &ann, "kept").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_is_removed_takes_its_incognito_sessions_and_their_budget_along() {
    let world = world().await;
    let ann = world.actor(Role::Member, "ann");
    open(&world, &ann, "a1").await.unwrap();
    say(&world, &ann, "a1").await.unwrap();

    world.engine.operator().delete_tenant(&world.tenant).await.unwrap();
    world.engine.operator().create_tenant(&world.tenant).await.unwrap();
    let gone = world.engine.session(&ann, &SessionId::stored("a1")).await;
    assert!(matches!(gone, Err(Error::NotFound)), "{gone:?}");
    assert_eq!(world.engine.sweep().await.unwrap().expired, 0);
    open(&world, &ann, "a1").await.unwrap();
    say(&world, &ann, "a1").await.unwrap();
}
