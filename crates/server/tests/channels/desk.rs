//! A channel at work in this process: a store in memory, a model that follows a script, a stand-in for the platform, and
//! the node that holds the channel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sederunt_agents::executor::Kit;
use sederunt_agents::model::Model;
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Settings as TalkSettings};
use sederunt_core::access::Actor;
use sederunt_core::channel::inbound::ChannelProfile;
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Engine, NewUser, Settings};
use sederunt_core::event::EventQuery;
use sederunt_core::live::Hub;
use sederunt_core::people::Identity;
use sederunt_core::session::query::SessionQuery;
use sederunt_core::session::{Session, SourceKind};
use sederunt_core::store::Store;
use sederunt_core::talk::route::ChannelRules;
use sederunt_core::{Role, TenantId};
use sederunt_server::channels::telegram::api::TelegramApi;
use sederunt_server::channels::telegram::runner::TelegramRunner;
use sederunt_stand_ins::telegram::TelegramStandIn;
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The person whom an owner knows.
pub const ANN: i64 = 1001;
/// A person whom nobody knows.
pub const STRANGER: i64 = 6006;
pub const GROUP: i64 = -100_200;

/// How long something that is meant to happen may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing has happened when nothing is meant to.
const SILENCE: Duration = Duration::from_millis(800);

pub struct Desk {
    pub engine: Engine,
    pub clock: Arc<SystemClock>,
    pub platform: TelegramStandIn,
    store: Arc<dyn Store>,
    profile: ChannelProfile,
    conversations: Conversations,
    stop: watch::Sender<bool>,
    nodes: Mutex<Vec<JoinHandle<()>>>,
}

impl Desk {
    /// A desk whose model says the same each time, held by one node.
    pub async fn of_telegram() -> Self {
        Self::answering("Here you are.").await
    }

    pub async fn answering(text: &str) -> Self {
        let desk = Self::unheld(text).await;
        desk.node("first");
        desk
    }

    pub async fn unheld(text: &str) -> Self {
        let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
        let options = SqliteOptions { place: Place::Memory, clock: clock.clone(), hub: hub.clone() };
        let store = SqliteStore::open(options).unwrap();
        let engine = Engine::new(store.clone(), hub, Settings::default());
        let script = serde_json::json!({"steps": [{"say": text}], "start_over": true}).to_string();
        let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
        kit.default_model = "scripted:desk".to_owned();
        kit.named = BTreeMap::from([(
            "scripted:desk".to_owned(),
            Arc::new(Scripted::parse(&script).unwrap()) as Arc<dyn Model>,
        )]);
        let conversations = Conversations::new(engine.clone(), Arc::new(kit), TalkSettings::default());
        let profile = ChannelProfile {
            tenant: TenantId::stored("default"),
            name: "desk".into(),
            platform: "telegram",
            agent_slug: None,
            rules: ChannelRules::default(),
        };
        let platform = TelegramStandIn::start().await.unwrap();
        let desk = Self {
            engine,
            clock,
            platform,
            store,
            profile,
            conversations,
            stop: watch::Sender::new(false),
            nodes: Mutex::default(),
        };
        desk.meet_ann().await;
        desk
    }

    async fn meet_ann(&self) {
        let owner = Actor::local(SourceKind::Cli);
        let ann = NewUser { id: Some("ann".into()), name: None, role: Some(Role::Member) };
        let ann = self.engine.create_user(&owner, ann, None).await.unwrap().id;
        let account = Identity { platform: "telegram".into(), external_id: ANN.to_string() };
        self.engine.link_identity(&owner, &ann, account, None).await.unwrap();
    }

    /// Starts a node that wants to hold the channel.
    pub fn node(&self, name: &str) {
        let api = TelegramApi::new(reqwest::Client::new(), &self.platform.base, &self.platform.token);
        let runner = TelegramRunner::new(self.profile.clone(), api, self.conversations.clone(), name)
            .within(Some([ANN, STRANGER, GROUP].map(|chat| chat.to_string().into()).to_vec()));
        let node = tokio::spawn(Arc::new(runner).run(self.stop.subscribe()));
        self.nodes.lock().unwrap().push(node);
    }

    /// Ends every node as a crash does: without a word to the store.
    pub fn crash(&self) {
        self.nodes.lock().unwrap().drain(..).for_each(|node| node.abort());
    }

    /// Stops every node in good order.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let nodes: Vec<_> = self.nodes.lock().unwrap().drain(..).collect();
        for node in nodes {
            node.await.unwrap();
        }
        self.stop.send_replace(false);
    }

    /// The texts that were sent, with their chats, oldest first.
    pub fn sent(&self) -> Vec<(i64, String)> {
        let text =
            |call: &Value| (call["chat_id"].as_i64().unwrap(), call["text"].as_str().unwrap().to_owned());
        self.platform.calls("sendMessage").iter().map(text).collect()
    }

    /// Waits until so many texts were sent, and then a little longer: there must be no more.
    pub async fn hears(&self, count: usize) -> Vec<(i64, String)> {
        self.until("the texts come", || self.sent().len() >= count).await;
        tokio::time::sleep(SILENCE).await;
        let sent = self.sent();
        assert_eq!(sent.len(), count, "{sent:?}");
        sent
    }

    pub async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "in vain: {what}");
    }

    /// Every session, the newest first, hidden ones too.
    pub async fn sessions(&self) -> Vec<Session> {
        let query = SessionQuery { inactive: Some(false), ..SessionQuery::conversations(100) };
        self.engine.sessions(&Actor::local(SourceKind::Cli), query).await.unwrap().items
    }

    /// The metadata of a session's events of a type.
    pub async fn events(&self, session: &Session, kind: &str) -> Vec<Value> {
        let query = EventQuery { types: vec![kind.to_owned()], limit: 100, ..EventQuery::default() };
        let page = self.store.events(&session.tenant, &session.id, query).await.unwrap();
        page.events
            .iter()
            .map(|event| event.metadata.as_ref().map(|m| m.value()).unwrap_or_default())
            .collect()
    }

    /// What was said in a session.
    pub async fn messages(&self, session: &Session) -> Vec<String> {
        let query = EventQuery { limit: 100, ..EventQuery::default() }.of_messages();
        let page = self.store.events(&session.tenant, &session.id, query).await.unwrap();
        page.events.iter().filter_map(sederunt_core::Event::text).collect()
    }
}
