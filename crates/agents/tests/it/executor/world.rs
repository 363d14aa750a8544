//! A store with scripted agents on it, tasks to trigger, and an executor to run them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_agents::executor::kit::Means;
use sederunt_agents::executor::{Executor, Kit, Settings};
use sederunt_agents::model::price::{Price, Prices};
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::model::{DeltaSink, Model, Request};
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::tool::http::Secrets;
use sederunt_agents::tool::mcp;
use sederunt_core::access::Actor;
use sederunt_core::approval::decide::Decision;
use sederunt_core::approval::{Approval, ApprovalQuery, ApprovalState};
use sederunt_core::clock::SystemClock;
use sederunt_core::definitions::{Agent, Task};
use sederunt_core::engine::Engine;
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::json::Json;
use sederunt_core::session::{Session, SourceKind, Status};
use sederunt_core::store::Store;
use sederunt_core::{SessionId, strict};

use crate::ground::{self, InMemory, json, until};
use crate::stand_ins::Saying;

pub const LEASE: Duration = Duration::from_secs(30);

pub struct World {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub clock: Arc<SystemClock>,
    pub owner: Arc<Actor>,
    pub scripts: BTreeMap<String, Arc<dyn Model>>,
    pub servers: BTreeMap<String, Arc<mcp::Server>>,
    pub secrets: Secrets,
}

impl World {
    pub fn new() -> Self {
        let InMemory { engine, store, clock, .. } = ground::in_memory();
        Self {
            engine,
            store,
            clock,
            owner: Arc::new(Actor::local(SourceKind::Api)),
            scripts: BTreeMap::new(),
            servers: BTreeMap::new(),
            secrets: Secrets::new(),
        }
    }

    /// A model that says these steps.
    pub fn script(&mut self, name: &str, steps: &str) {
        let script = Scripted::parse(&format!(r#"{{"steps":{steps}}}"#)).unwrap();
        self.scripts.insert(format!("scripted:{name}"), Arc::new(script));
    }

    /// Listens to what a script's model is told first, before the transcript.
    pub fn listen(&mut self, name: &str) -> Arc<Mutex<Vec<String>>> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let name = format!("scripted:{name}");
        let inner = self.scripts.remove(&name).unwrap();
        self.scripts.insert(name, Arc::new(Listener { inner, heard: heard.clone(), whole: false }));
        heard
    }

    /// Listens to everything that a script's model is told.
    pub fn listen_to_all(&mut self, name: &str) -> Arc<Mutex<Vec<String>>> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let name = format!("scripted:{name}");
        let inner = self.scripts.remove(&name).unwrap();
        self.scripts.insert(name, Arc::new(Listener { inner, heard: heard.clone(), whole: true }));
        heard
    }

    /// An agent of a script's name, with these tools.
    pub async fn agent(&self, name: &str, tools: &str) {
        let text = format!(
            r#"{{"slug":"{name}","name":"{name}","instructions":"Do it.","model":"scripted:{name}","tools":{tools}}}"#
        );
        let agent: Agent = strict::read(json(&text).as_str()).unwrap();
        self.engine.define(&self.owner, None, agent, None).await.unwrap();
    }

    /// A task of that agent, with further fields, triggered once.
    pub async fn trigger(&self, agent: &str, more: &str) -> SessionId {
        let text = format!(r#"{{"slug":"t-{agent}","name":"The task","agent_slug":"{agent}"{more}}}"#);
        let task: Task = strict::read(json(&text).as_str()).unwrap();
        let task = self.engine.define(&self.owner, None, task, None).await.unwrap();
        self.engine.trigger(&self.owner, &task.id, None, None).await.unwrap().id
    }

    pub fn executor(&self, lease: Duration) -> Executor {
        let allow = Allow::parse(["127.0.0.1"]).unwrap();
        let mut kit = Kit::plain(Outbound::new(allow).unwrap());
        kit.named = self.scripts.clone();
        kit.prices = Prices::new([(
            "scripted:*".to_owned(),
            Price { input_micros: 1_000_000, output_micros: 2_000_000, cached_micros: None },
        )]);
        let means =
            Means { servers: self.servers.clone(), secrets: self.secrets.clone(), ..Means::default() };
        kit.means.insert(self.owner.tenant.clone(), means);
        let settings =
            Settings { worker: "executor".into(), runs_max: 4, lease, base_url: "http://here".into() };
        Executor::new(self.engine.clone(), Arc::new(kit), settings)
    }

    /// Runs what is pending, one after the other, until nothing is.
    pub async fn work(&self) {
        self.work_as(&self.executor(LEASE)).await;
    }

    pub async fn work_as(&self, executor: &Executor) {
        let actor = Arc::new(executor.actor(self.owner.tenant.clone()));
        loop {
            let mut taken = executor.take(&actor, 1).await.unwrap();
            if taken.is_empty() {
                taken = executor.take_tools(&actor, 1).await.unwrap();
            }
            let Some(claimed) = taken.pop() else { return };
            executor.run(&actor, claimed).await;
        }
    }

    pub async fn session(&self, id: &SessionId) -> Session {
        self.engine.session(&self.owner, id).await.unwrap()
    }

    pub async fn log(&self, id: &SessionId) -> Vec<Event> {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        self.engine.read(&self.owner, id, query).await.unwrap().events
    }

    /// The agent's and tools' part of a log, in short.
    pub async fn story(&self, id: &SessionId) -> String {
        let events = self.log(id).await;
        let told = events.iter().filter(|event| {
            event.kind.as_str().starts_with("agent.") || event.kind.as_str() == "session.error"
        });
        let words = told.map(|event| {
            let metadata = event.metadata.as_ref().map(Json::value).unwrap_or_default();
            let name = metadata.get("tool_name").or(metadata.get("code"));
            let what = name.and_then(|name| name.as_str()).map(str::to_owned).or(event.text());
            let outcome = metadata.get("outcome").and_then(|outcome| outcome.as_str());
            let kind = event.kind.as_str().split('.').next_back().unwrap();
            format!(
                "{kind}({}{})",
                what.unwrap_or_default(),
                outcome.map(|o| format!(": {o}")).unwrap_or_default()
            )
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// What the log says of calls that were begun and ended.
    pub async fn invocations(&self, id: &SessionId) -> String {
        let events = self.log(id).await;
        let told = events.iter().filter_map(|event| {
            let what = event.kind.as_str().strip_prefix("tool.invocation_")?.to_owned();
            let metadata = event.metadata.as_ref().map(Json::value).unwrap_or_default();
            let outcome = metadata.get("outcome").and_then(|outcome| outcome.as_str());
            Some(outcome.map_or(what.clone(), |outcome| format!("{what}({outcome})")))
        });
        told.collect::<Vec<_>>().join(" ")
    }

    pub async fn asked(&self) -> Approval {
        let query =
            ApprovalQuery { state: Some(ApprovalState::Pending), limit: 10, ..ApprovalQuery::default() };
        self.engine.approvals(&self.owner, false, query).await.unwrap().items.pop().expect("something waits")
    }

    pub async fn decide(&self, decision: Decision, args: Option<&str>) {
        self.engine
            .decide(&self.owner, &self.asked().await.id, ground::decide(decision, args), None)
            .await
            .unwrap();
    }

    pub async fn until(&self, id: &SessionId, status: Status) -> Session {
        until(status.as_str(), async || self.session(id).await.head.status == status).await;
        self.session(id).await
    }
}

/// A model that writes down what it is told.
#[derive(Debug)]
struct Listener {
    inner: Arc<dyn Model>,
    heard: Arc<Mutex<Vec<String>>>,
    /// All of it, and not only what comes before the transcript.
    whole: bool,
}

impl Model for Listener {
    fn run<'a>(&'a self, request: &'a Request, heard: DeltaSink<'a>) -> Saying<'a> {
        let told = match self.whole {
            true => format!("{:?}", request.messages),
            false => request.messages.first().map(|first| first.text().to_owned()).unwrap_or_default(),
        };
        self.heard.lock().push(told);
        self.inner.run(request, heard)
    }
}

pub fn tool(name: &str, url: &str, more: &str) -> String {
    format!(r#"[{{"type":"http","name":"{name}","url":"{url}"{more}}}]"#)
}
