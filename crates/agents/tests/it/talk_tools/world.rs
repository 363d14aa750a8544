//! A store with two nodes on it, and an agent that talks by a script and has tools on loopback.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use sederunt_agents::context::transcript::flaw;
use sederunt_agents::executor::Kit;
use sederunt_agents::executor::kit::Means;
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::model::{DeltaSink, Message, Model, Request};
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{AcceptedMessage, Conversations, Settings, TurnReply};
use sederunt_core::access::Actor;
use sederunt_core::approval::Approval;
use sederunt_core::approval::decide::Decision;
use sederunt_core::clock::SystemClock;
use sederunt_core::definitions::Agent;
use sederunt_core::engine::{Engine, Post};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::json::Json;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{MemoryMode, Session, SessionType, SourceKind, Status};
use sederunt_core::store::Store;
use sederunt_core::talk::Tier;
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::{Error, SessionId, strict};
use tokio::sync::Semaphore;

use crate::ground::{self, InMemory, elsewhere, json};
use crate::stand_ins::Saying;
use crate::wire::{SOON, Server};

pub const MODEL: &str = "scripted:model";

/// A script that remembers what it was asked, and speaks when it is let.
#[derive(Debug)]
pub struct Watched {
    pub script: Scripted,
    pub seen: Mutex<Vec<Request>>,
    pub leave: Semaphore,
    /// Every call is made twice, under one id.
    pub twins: AtomicBool,
}

impl Model for Watched {
    fn run<'a>(&'a self, request: &'a Request, heard: DeltaSink<'a>) -> Saying<'a> {
        Box::pin(async move {
            self.seen.lock().unwrap().push(request.clone());
            self.leave.acquire().await.unwrap().forget();
            let mut reply = self.script.run(request, heard).await?;
            if self.twins.load(Ordering::Relaxed) {
                reply.calls = reply.calls.iter().flat_map(|call| [call.clone(), call.clone()]).collect();
            }
            Ok(reply)
        })
    }
}

/// A store with two nodes on it, and an agent that talks by a script.
pub struct World {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub clock: Arc<SystemClock>,
    pub me: Arc<Actor>,
    pub model: Arc<Watched>,
    pub node: Conversations,
    pub other: Conversations,
}

pub fn tool(name: &str, url: &str, more: &str) -> String {
    format!(r#"{{"type":"http","name":"{name}","url":"{url}"{more}}}"#)
}

pub const CONFIRMED: &str = r#","requires_confirmation":true"#;

impl World {
    pub async fn new(steps: &str, tools: &[String]) -> Self {
        Self::with(steps, tools, "", Means::default()).await
    }

    pub async fn with(steps: &str, tools: &[String], more: &str, means: Means) -> Self {
        let InMemory { engine, store, clock, .. } = ground::in_memory();
        let me = Arc::new(Actor::local(SourceKind::Api));
        let script = Scripted::parse(&format!(r#"{{"steps":{steps}}}"#)).unwrap();
        let leave = Semaphore::new(Semaphore::MAX_PERMITS);
        let model = Arc::new(Watched { script, seen: Mutex::default(), leave, twins: AtomicBool::default() });
        let mut kit = Kit::plain(Outbound::new(Allow::parse(["127.0.0.1"]).unwrap()).unwrap());
        let named: Arc<dyn Model> = model.clone();
        kit.named = BTreeMap::from([(MODEL.to_owned(), named)]);
        kit.retries.attempts_max = 1;
        kit.means.insert(me.tenant.clone(), means);
        let kit = Arc::new(kit);
        let conversations = || Conversations::new(engine.clone(), kit.clone(), Settings::default());
        let (node, other) = (conversations(), conversations());
        let world = Self { engine, store, clock, me, model, node, other };
        let text =
            format!(r#"{{"slug":"a","name":"A","model":"{MODEL}","tools":[{}]{more}}}"#, tools.join(","));
        let agent: Agent = strict::read(json(&text).as_str()).unwrap();
        world.engine.define(&world.me, None, agent, None).await.unwrap();
        world.open(SourceKind::Api, None).await;
        world
    }

    pub async fn open(&self, surface: SourceKind, mode: Option<MemoryMode>) {
        let wish = OpenSession {
            id: Some("t".to_owned()),
            session_type: Some(SessionType::Mixed),
            agent_slug: Some("a".to_owned()),
            memory_mode: mode,
            ..OpenSession::default()
        };
        self.engine.open(&Actor::local(surface), wish, None).await.unwrap();
    }

    /// The conversation, opened again in another way.
    pub async fn afresh(&self, surface: SourceKind, mode: Option<MemoryMode>) {
        self.engine.delete(&self.me, &id()).await.unwrap();
        self.open(surface, mode).await;
    }

    pub async fn post(&self, text: &str, on_busy: OnBusy) -> AcceptedMessage {
        self.node.post(&self.me, &id(), said(text, on_busy), None).await.unwrap()
    }

    pub async fn reply(&self, taken: AcceptedMessage) -> Result<TurnReply, Error> {
        tokio::time::timeout(SOON, self.node.reply_to(&self.me, taken)).await.unwrap()
    }

    pub async fn say(&self, text: &str) -> TurnReply {
        let taken = self.post(text, OnBusy::Queue).await;
        self.reply(taken).await.unwrap()
    }

    /// Says something on a runtime that can be ended with everything on it.
    pub fn say_elsewhere(&self, text: &'static str) -> tokio::runtime::Runtime {
        let (conversations, me) = (self.node.clone(), self.me.clone());
        elsewhere(async move {
            conversations.post(&me, &id(), said(text, OnBusy::Queue), None).await.unwrap();
        })
    }

    pub async fn session(&self) -> Session {
        self.engine.session(&self.me, &id()).await.unwrap()
    }

    pub async fn approval(&self, reply: &TurnReply) -> Approval {
        self.engine.approval(&self.me, reply.approval_id.as_ref().unwrap()).await.unwrap()
    }

    pub async fn decide(
        &self,
        reply: &TurnReply,
        decision: Decision,
        args: Option<&str>,
    ) -> Result<(), Error> {
        self.engine
            .decide(&self.me, reply.approval_id.as_ref().unwrap(), ground::decide(decision, args), None)
            .await
            .map(drop)
    }

    /// Lets a node go on, and waits until it has nothing left to do.
    pub async fn go_on(&self, node: &Conversations) {
        node.go_on(&self.me.tenant, &id());
        node.drain(SOON).await;
        assert_eq!(self.session().await.head.status, Status::Idle);
    }

    pub async fn log(&self) -> Vec<Event> {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        self.engine.read(&self.me, &id(), query).await.unwrap().events
    }

    /// What happened in turns, in short.
    pub async fn story(&self) -> String {
        let short = |event: &Event| {
            let metadata = event.metadata.as_ref().map(Json::value).unwrap_or_default();
            let word = |key: &str| metadata[key].as_str().map(str::to_owned);
            Some(match event.kind.as_str() {
                "agent.message" => event.text().unwrap_or_default(),
                "agent.tool_call" => format!("call({})", word("tool_name").unwrap()),
                "agent.tool_result" => format!(
                    "{}({})",
                    word("outcome").unwrap_or_else(|| "result".to_owned()),
                    word("tool_name").unwrap()
                ),
                "session.turn" => format!("/{}", word("outcome").unwrap()),
                "session.waiting_approval" => "asks".to_owned(),
                "user.tool_confirmation" => word("decision").unwrap(),
                "session.error" => format!("error({})", word("code").unwrap()),
                _ => return None,
            })
        };
        self.log().await.iter().filter_map(short).collect::<Vec<_>>().join(" ")
    }

    pub fn requests(&self) -> Vec<Request> {
        let seen = self.model.seen.lock().unwrap().clone();
        for request in &seen {
            assert_eq!(flaw(&request.messages), None, "{:?}", request.messages);
        }
        seen
    }
}

pub fn id() -> SessionId {
    SessionId::stored("t")
}

pub fn said(text: &str, on_busy: OnBusy) -> Post {
    Post { on_busy, tier: Tier::Fast, ..Post::text(text).unwrap() }
}

pub fn bodies(server: &Server) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.body).collect()
}

pub const SEND: &str = r#"[{"say":"Let me see.","call":{"name":"send","args":{"to":"x","text":"hi"}}},
    {"expect":"sent","say":"It is sent."},{"say":"You are welcome."}]"#;

/// A conversation whose turn waits for leave to send something.
pub async fn asking(server: &Server) -> (World, TurnReply) {
    let world = World::new(SEND, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    assert_eq!((reply.kind.as_str(), reply.text.as_str()), ("confirmation", "Call `send`?"));
    assert_eq!(world.session().await.head.status, Status::AwaitingTool);
    assert!(server.asked().is_empty(), "nothing without leave");
    (world, reply)
}

/// What a message of a transcript is.
pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::User { .. } => "user",
        Message::Assistant { calls, .. } if calls.is_empty() => "agent",
        Message::Assistant { .. } => "call",
        Message::ToolResult { .. } => "result",
    }
}
