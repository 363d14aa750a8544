//! Somebody speaks at the very moment at which their sitting expires, while two nodes sweep: a sitting
//! ends once or goes on, and never under a turn.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use sederunt_agents::executor::Kit;
use sederunt_agents::model::{Delta, DeltaSink, Model, Request};
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Settings};
use sederunt_core::access::Actor;
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{self, Engine, Post};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::json::Json;
use sederunt_core::limits::SITTING_IDLE_AFTER;
use sederunt_core::live::Hub;
use sederunt_core::memory::MemoryKind;
use sederunt_core::memory::owner::MemoryAct;
use sederunt_core::session::SourceKind;
use sederunt_core::{SessionId, Timestamp};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};

use crate::ground::node;
use crate::stand_ins::{Saying, spoken};
use crate::wire::SOON;

const ROUNDS: usize = 2_000;
/// Conversations that are raced for at once.
const THREADS: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_at_the_moment_of_expiry_is_never_ended_under_on_sqlite() {
    let clock = Arc::new(SystemClock::default());
    let hub = Arc::new(Hub::default());
    let options = SqliteOptions { place: Place::Memory, clock: clock.clone(), hub: hub.clone() };
    let store = SqliteStore::open(options).unwrap();
    let engine = || Engine::new(store.clone(), hub.clone(), engine::Settings::default());
    race([engine(), engine()], &clock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_at_the_moment_of_expiry_is_never_ended_under_on_postgres() {
    let clock = Arc::new(SystemClock::default());
    let schema = format!("expiry_{}", uuid::Uuid::now_v7().simple());
    let first = node(&schema, &clock).await;
    race([first, node(&schema, &clock).await], &clock).await;
}

/// A model that lets everybody else go first before it answers.
#[derive(Debug)]
struct Unhurried;

impl Model for Unhurried {
    fn run<'a>(&'a self, request: &'a Request, heard: DeltaSink<'a>) -> Saying<'a> {
        Box::pin(async move {
            for _ in 0..32 {
                tokio::task::yield_now().await;
            }
            let text = match request.instructions.starts_with("Summarise") {
                true => r#"{"summary": "They talked."}"#,
                false => "Go on.",
            };
            heard(Delta::Text(text.to_owned()));
            Ok(spoken(text))
        })
    }
}

fn conversations(engine: Engine) -> Conversations {
    let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
    let model: Arc<dyn Model> = Arc::new(Unhurried);
    kit.named = BTreeMap::from([("unhurried".to_owned(), model)]);
    kit.default_model = "unhurried".to_owned();
    Conversations::new(engine, Arc::new(kit), Settings::default())
}

async fn race(engines: [Engine; 2], clock: &SystemClock) {
    let me = Arc::new(Actor::local(SourceKind::Api));
    let nodes = engines.map(conversations);
    let mut threads = Vec::new();
    for n in 0..THREADS {
        threads.push(nodes[0].open(&me, &format!("t{n}"), None).await.unwrap());
    }
    let say = async |n: usize, id: &SessionId| {
        let conversations = &nodes[n % 2];
        let taken =
            conversations.post(&me, id, Post::text("I think about the harvest.").unwrap(), None).await;
        let reply = conversations.reply_to(&me, taken.unwrap()).await.unwrap();
        assert_eq!(reply.text, "Go on.");
    };
    for _ in 0..ROUNDS / THREADS {
        // The earlier half of the last batch expires about now, and the later one a moment after.
        clock.advance(SITTING_IDLE_AFTER.saturating_sub(rested(nodes[0].engine(), &me, &threads).await));
        let over = AtomicBool::new(false);
        let keep = async |conversations: &Conversations| {
            while !over.load(Ordering::SeqCst) {
                conversations.sweep().await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let speak = async {
            join_all(threads.iter().enumerate().map(|(n, id)| say(n, id))).await;
            over.store(true, Ordering::SeqCst);
        };
        let all = async { tokio::join!(speak, keep(&nodes[0]), keep(&nodes[1])) };
        tokio::time::timeout(SOON, all).await.expect("everybody is answered");
    }
    let (mut ended, mut went_on) = (0, 0);
    for id in &threads {
        let told = tell(nodes[0].engine(), &me, id).await;
        ended += told.ended;
        went_on += told.turns - told.begun;
    }
    assert!(ended.min(went_on) >= ROUNDS / 20, "{ended} sittings ended, {went_on} turns went on with one");
}

/// For how long half of the conversations have been silent.
async fn rested(engine: &Engine, me: &Actor, threads: &[SessionId]) -> Duration {
    let mut active = Vec::new();
    for id in threads {
        let talk = engine.standing(me, id).await.unwrap().talk;
        active.extend(talk.active_at());
    }
    active.sort_unstable();
    let Some(median) = active.get(active.len() / 2) else { return Duration::ZERO };
    let now = engine.now().await.unwrap();
    Duration::from_micros(u64::try_from(now.as_micros() - median.as_micros()).unwrap_or(0))
}

/// What a log tells of its sittings.
#[derive(Default)]
struct Told {
    begun: usize,
    ended: usize,
    turns: usize,
}

async fn tell(engine: &Engine, me: &Actor, id: &SessionId) -> Told {
    let query = EventQuery { limit: 1_000, ..EventQuery::default() };
    let events = engine.read(me, id, query).await.unwrap().events;
    let (mut told, mut running, mut arcs) = (Told::default(), false, HashSet::new());
    let mut active_at = Timestamp::default();
    let metadata = |event: &Event| event.metadata.as_ref().map(Json::value).unwrap_or_default();
    for event in &events {
        match event.kind.as_str() {
            "session.sitting_started" => told.begun += 1,
            "user.message" => running = true,
            "session.turn" => {
                assert_eq!(metadata(event)["outcome"], "answered", "{id}: {event:?}");
                running = false;
                active_at = event.at;
                told.turns += 1;
            }
            "session.sitting_ended" => {
                assert!(!running, "{id}: a sitting was ended under its turn, at {}", event.sequence);
                let silent = active_at.plus(SITTING_IDLE_AFTER) <= event.at;
                assert!(silent, "{id}: a sitting was ended that was not silent, at {}", event.sequence);
                told.ended += 1;
                if let Some(arc) = metadata(event)["arc_id"].as_str() {
                    assert!(arcs.insert(arc.to_owned()), "{id}: {arc} was left by two sittings");
                }
            }
            _ => {}
        }
        assert!((0..=1).contains(&(told.begun - told.ended)), "{id}: at {}", event.sequence);
    }
    assert_eq!(told.turns, ROUNDS / THREADS, "{id}: every message had its turn");
    let scope = engine.memory_scope(me, Some(id), None, MemoryAct::Read).await.unwrap();
    let kept = engine.memories(&scope, MemoryKind::Arc, None, 1_000).await.unwrap().items;
    assert_eq!(
        kept.into_iter().map(|arc| arc.id).collect::<HashSet<_>>(),
        arcs,
        "{id}: one arc for each end"
    );
    told
}
