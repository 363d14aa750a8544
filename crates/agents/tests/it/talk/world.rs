//! A store with somebody who talks on it, and somebody who talks with them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sederunt_agents::executor::Kit;
use sederunt_agents::model::Model;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::end::{EndWish, Ending};
use sederunt_agents::talk::{AcceptedMessage, Conversations, Settings, TurnReply};
use sederunt_core::access::Actor;
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Engine, Post};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::feedback::{Label, Modality, RatingSource};
use sederunt_core::json::Json;
use sederunt_core::memory::MemoryKind;
use sederunt_core::memory::owner::MemoryAct;
use sederunt_core::session::SourceKind;
use sederunt_core::store::Store;
use sederunt_core::talk::Liveness;
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::{Error, SessionId};

use super::gate::{Gate, Gated};
use crate::ground::{self, InMemory};
use crate::wire::SOON;

pub const IDLE: Duration = Duration::from_secs(20 * 60);

pub struct World {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub private: Arc<OnceLock<Arc<dyn Store>>>,
    pub clock: Arc<SystemClock>,
    pub me: Arc<Actor>,
    pub conversations: Conversations,
}

impl World {
    pub fn new() -> Self {
        Self::with(BTreeMap::new(), "eliza")
    }

    pub fn gated(fails: bool) -> (Self, Gate) {
        let (model, gate) = Gated::new(fails);
        let model: Arc<dyn Model> = Arc::new(model);
        let world = Self::with(BTreeMap::from([("gated".to_owned(), model)]), "gated");
        (world, gate)
    }

    pub fn with(named: BTreeMap<String, Arc<dyn Model>>, default_model: &str) -> Self {
        Self::set(named, default_model, Settings::default())
    }

    pub fn set(named: BTreeMap<String, Arc<dyn Model>>, default_model: &str, settings: Settings) -> Self {
        let InMemory { engine, store, private, clock } = ground::in_memory();
        let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
        kit.named = named;
        kit.default_model = default_model.to_owned();
        kit.retries.attempts_max = 1;
        let conversations = Conversations::new(engine.clone(), Arc::new(kit), settings);
        Self { engine, store, private, clock, me: Arc::new(Actor::local(SourceKind::Api)), conversations }
    }

    pub async fn open(&self, thread: &str) -> SessionId {
        self.conversations.open(&self.me, thread, None).await.unwrap()
    }

    /// Says something and waits for the answer.
    pub async fn say(&self, thread: &str, text: &str) -> TurnReply {
        self.say_as(thread, text, None).await.unwrap()
    }

    pub async fn say_as(&self, thread: &str, text: &str, user: Option<&str>) -> Result<TurnReply, Error> {
        let id = self.open(thread).await;
        let taken = self.conversations.post(&self.me, &id, post(text, OnBusy::Queue, user), None).await?;
        self.reply(taken).await
    }

    pub async fn post(&self, id: &SessionId, text: &str, on_busy: OnBusy) -> AcceptedMessage {
        self.conversations.post(&self.me, id, post(text, on_busy, None), None).await.unwrap()
    }

    pub async fn reply(&self, taken: AcceptedMessage) -> Result<TurnReply, Error> {
        tokio::time::timeout(SOON, self.conversations.reply_to(&self.me, taken)).await.unwrap()
    }

    pub async fn end(&self, thread: &str, rating: Option<Label>) -> Ending {
        let wish = EndWish { rating, source: RatingSource::ApiEnd, modality: Modality::Text, discard: false };
        self.conversations.end(&self.me, &SessionId::stored(thread), wish).await.unwrap()
    }

    pub async fn log(&self, thread: &str) -> Vec<Event> {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        self.engine.read(&self.me, &SessionId::stored(thread), query).await.unwrap().events
    }

    /// What a log says, in short.
    pub async fn story(&self, thread: &str) -> Vec<String> {
        let short = |event: &Event| {
            let metadata = event.metadata.as_ref().map(Json::value).unwrap_or_default();
            match event.kind.as_str() {
                "session.turn" => format!("turn:{}", metadata["outcome"].as_str().unwrap()),
                "session.status_change" => format!("to {}", metadata["to"].as_str().unwrap()),
                kind => kind.split('.').next_back().unwrap().to_owned(),
            }
        };
        self.log(thread).await.iter().map(short).collect()
    }

    pub async fn liveness(&self, thread: &str) -> Liveness {
        self.engine.standing(&self.me, &SessionId::stored(thread)).await.unwrap().liveness
    }

    pub async fn remembered(&self, thread: &str, user: Option<&str>, kind: MemoryKind) -> Vec<String> {
        let id = SessionId::stored(thread);
        let scope = self.engine.memory_scope(&self.me, Some(&id), user, MemoryAct::Read).await.unwrap();
        let page = self.engine.memories(&scope, kind, None, 100).await.unwrap();
        page.items.iter().map(sederunt_core::memory::Memory::text).collect()
    }
}

pub fn post(text: &str, on_busy: OnBusy, user: Option<&str>) -> Post {
    Post { on_busy, user: user.map(str::to_owned), ..Post::text(text).unwrap() }
}

pub fn wish(discard: bool) -> EndWish {
    EndWish { rating: None, source: RatingSource::ApiEnd, modality: Modality::Text, discard }
}
