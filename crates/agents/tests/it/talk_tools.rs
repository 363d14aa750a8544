//! An agent's tools inside turns of talk, with scripted models and tools on loopback: what is in the log, that nothing
//! is done twice, and that what needs leave is done with it and not without.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sederunt_agents::context::transcript::flaw;
use sederunt_agents::executor::Kit;
use sederunt_agents::executor::kit::Means;
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::model::{self, Heard, Message, Model, Reply as Spoken, Request};
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::end::{EndWish, Ending};
use sederunt_agents::talk::{Progress, Reply, Settings, Taken, Talker};
use sederunt_core::access::Actor;
use sederunt_core::approval::decide::{Decide, Decision};
use sederunt_core::approval::{Approval, State};
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{self, Engine, Post};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::feedback::{Modality, RatingSource};
use sederunt_core::json::Json;
use sederunt_core::library::Agent;
use sederunt_core::live::Hub;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{MemoryMode, Session, SessionType, SourceKind, Status};
use sederunt_core::store::{Change, Guard, On, Part, Store, Update, Write};
use sederunt_core::talk::Tier;
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::work::run::Run;
use sederunt_core::{Error, SessionId, limits, strict};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
use tokio::sync::Semaphore;

use crate::wire::{Answer, SOON, Server};

const MODEL: &str = "scripted:model";

/// A script that remembers what it was asked, and speaks when it is let.
#[derive(Debug)]
struct Watched {
    script: Scripted,
    seen: Mutex<Vec<Request>>,
    leave: Semaphore,
    /// Every call is made twice, under one id.
    twins: AtomicBool,
}

impl Model for Watched {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: Heard<'a>,
    ) -> BoxFuture<'a, Result<Spoken, model::Error>> {
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
struct World {
    engine: Engine,
    clock: Arc<SystemClock>,
    me: Arc<Actor>,
    model: Arc<Watched>,
    node: Talker,
    other: Talker,
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn ok(body: &str) -> Answer {
    Answer::status(200, "content-type: application/json\r\n", body)
}

fn tool(name: &str, url: &str, more: &str) -> String {
    format!(r#"{{"type":"http","name":"{name}","url":"{url}"{more}}}"#)
}

const CONFIRMED: &str = r#","requires_confirmation":true"#;

impl World {
    async fn new(steps: &str, tools: &[String]) -> Self {
        Self::with(steps, tools, "", Means::default()).await
    }

    async fn with(steps: &str, tools: &[String], more: &str, means: Means) -> Self {
        let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
        let (time, heard) = (clock.clone(), hub.clone());
        let open = move || -> sederunt_core::Result<Arc<dyn Store>> {
            let options = SqliteOptions { place: Place::Memory, clock: time.clone(), hub: heard.clone() };
            Ok(SqliteStore::open(options)?)
        };
        let engine = Engine::new(open().unwrap(), hub, engine::Settings::default()).with_private(open);
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
        let talker = || Talker::new(engine.clone(), kit.clone(), Settings::default());
        let (node, other) = (talker(), talker());
        let world = Self { engine, clock, me, model, node, other };
        let text =
            format!(r#"{{"slug":"a","name":"A","model":"{MODEL}","tools":[{}]{more}}}"#, tools.join(","));
        let agent: Agent = strict::read(json(&text).as_str()).unwrap();
        world.engine.define(&world.me, None, agent, None).await.unwrap();
        world.open(SourceKind::Api, None).await;
        world
    }

    async fn open(&self, surface: SourceKind, mode: Option<MemoryMode>) {
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
    async fn afresh(&self, surface: SourceKind, mode: Option<MemoryMode>) {
        self.engine.delete(&self.me, &id()).await.unwrap();
        self.open(surface, mode).await;
    }

    async fn post(&self, text: &str, on_busy: OnBusy) -> Taken {
        self.node.post(&self.me, &id(), said(text, on_busy), None).await.unwrap()
    }

    async fn reply(&self, taken: Taken) -> Result<Reply, Error> {
        tokio::time::timeout(SOON, self.node.reply_to(&self.me, taken)).await.unwrap()
    }

    async fn say(&self, text: &str) -> Reply {
        let taken = self.post(text, OnBusy::Queue).await;
        self.reply(taken).await.unwrap()
    }

    /// Says something on a runtime that can be ended with everything on it.
    fn say_elsewhere(&self, text: &'static str) -> tokio::runtime::Runtime {
        let (talker, me) = (self.node.clone(), self.me.clone());
        self.elsewhere(async move {
            talker.post(&me, &id(), said(text, OnBusy::Queue), None).await.unwrap();
        })
    }

    fn elsewhere(&self, work: impl Future<Output = ()> + Send + 'static) -> tokio::runtime::Runtime {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            work.await;
            std::future::pending::<()>().await;
        });
        runtime
    }

    async fn session(&self) -> Session {
        self.engine.session(&self.me, &id()).await.unwrap()
    }

    async fn approval(&self, reply: &Reply) -> Approval {
        self.engine.approval(&self.me, reply.approval_id.as_ref().unwrap()).await.unwrap()
    }

    async fn decide(&self, reply: &Reply, decision: Decision, args: Option<&str>) -> Result<(), Error> {
        let wish = Decide {
            decision,
            modified_args: args.map(json),
            modified_output: None,
            reason: Some("because".into()),
            digest: None,
        };
        self.engine.decide(&self.me, reply.approval_id.as_ref().unwrap(), wish, None).await.map(drop)
    }

    /// Lets a node go on, and waits until it has nothing left to do.
    async fn go_on(&self, node: &Talker) {
        node.go_on(&self.me.tenant, &id());
        node.drain(SOON).await;
        assert_eq!(self.session().await.head.status, Status::Idle);
    }

    async fn until(&self, what: impl AsyncFn() -> bool) {
        tokio::time::timeout(SOON, async {
            while !what().await {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("it never happened");
    }

    async fn log(&self) -> Vec<Event> {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        self.engine.read(&self.me, &id(), query).await.unwrap().events
    }

    /// What happened in turns, in short.
    async fn story(&self) -> String {
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

    fn requests(&self) -> Vec<Request> {
        let seen = self.model.seen.lock().unwrap().clone();
        for request in &seen {
            assert_eq!(flaw(&request.messages), None, "{:?}", request.messages);
        }
        seen
    }
}

fn id() -> SessionId {
    SessionId::stored("t")
}

fn said(text: &str, on_busy: OnBusy) -> Post {
    Post { on_busy, tier: Tier::Fast, ..Post::text(text).unwrap() }
}

fn bodies(server: &Server) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.body).collect()
}

async fn gone(runtime: tokio::runtime::Runtime) {
    tokio::task::spawn_blocking(move || runtime.shutdown_timeout(SOON)).await.unwrap();
}

const SEND: &str = r#"[{"say":"Let me see.","call":{"name":"send","args":{"to":"x","text":"hi"}}},
    {"expect":"sent","say":"It is sent."},{"say":"You are welcome."}]"#;

/// A conversation whose turn waits for leave to send something.
async fn asking(server: &Server) -> (World, Reply) {
    let world = World::new(SEND, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    assert_eq!((reply.kind.as_str(), reply.text.as_str()), ("confirmation", "Call `send`?"));
    assert_eq!(world.session().await.head.status, Status::AwaitingTool);
    assert!(server.asked().is_empty(), "nothing without leave");
    (world, reply)
}

#[tokio::test]
async fn a_turn_has_something_done_and_later_turns_know_of_it() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let world = World::new(SEND, &[tool("send", &server.url("/send"), "")]).await;
    let mut taken = world.post("Send it.", OnBusy::Queue).await;
    let mut heard = String::new();
    while let Some(progress) = taken.progress.recv().await {
        if let Progress::Chunk(text) = progress {
            heard.push_str(&text);
        }
    }
    assert_eq!(heard, "Let me see.\n\nIt is sent.");
    assert_eq!(world.reply(taken).await.unwrap().text, "It is sent.");
    assert_eq!(world.say("Thanks.").await.text, "You are welcome.");
    assert_eq!(
        world.story().await,
        "Let me see. call(send) result(send) It is sent. /answered You are welcome. /answered"
    );
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].body.as_str()), (1, r#"{"to":"x","text":"hi"}"#));
    assert!(asked[0].head.contains("idempotency-key: "));
    let requests = world.requests();
    assert_eq!(requests[0].tools.len(), 1);
    let kinds: Vec<&str> = requests[2].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "agent", "user"]);
    let events = world.log().await;
    let turn = events.iter().find(|event| event.kind.as_str() == "user.message").unwrap().sequence;
    let of_turn = events.iter().filter(|event| event.kind.as_str().starts_with("agent.tool"));
    assert!(of_turn.into_iter().all(|event| event.turn == Some(turn)));
    assert_eq!(world.session().await.head.turn_count, 2);
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::User { .. } => "user",
        Message::Assistant { calls, .. } if calls.is_empty() => "agent",
        Message::Assistant { .. } => "call",
        Message::ToolResult { .. } => "result",
    }
}

#[tokio::test]
async fn a_turn_that_calls_nothing_leaves_what_any_turn_leaves() {
    let server = Server::start(vec![]).await;
    let world = World::new(r#"[{"say":"Hello."}]"#, &[tool("send", &server.url("/send"), "")]).await;
    let before = world.session().await.head.version;
    world.say("Hi.").await;
    let kinds: Vec<String> = world.log().await.iter().map(|event| event.kind.as_str().to_owned()).collect();
    assert_eq!(
        kinds,
        [
            "session.created", "session.sitting_started", "user.message", "session.status_change",
            "agent.message", "session.turn", "session.status_change"
        ]
    );
    assert_eq!(world.session().await.head.version, before + 2, "two commits");
}

#[tokio::test]
async fn what_cannot_be_done_is_told_to_the_model_and_the_turn_goes_on() {
    let cases = [
        ("unknown", r#"{"name":"fly"}"#, vec![], "unknown_tool(fly)"),
        ("bad arguments", r#"{"name":"send","args":{"n":"x"}}"#, vec![], "bad_arguments(send)"),
        ("refused", r#"{"name":"send"}"#, vec![Answer::status(403, "", "no")], "result(send)"),
        ("silence", r#"{"name":"send"}"#, vec![Answer::Hang(Vec::new())], "outcome_unknown(send)"),
        ("garbage", r#"{"name":"send"}"#, vec![Answer::Bytes(b"what?".to_vec())], "outcome_unknown(send)"),
    ];
    for (name, call, answers, told) in cases {
        let server = Server::start(answers).await;
        let steps = format!(r#"[{{"call":{call}}},{{"say":"So be it."}}]"#);
        let schema = r#","timeout_ms":500,"schema":{"type":"object","properties":{"n":{"type":"integer"}}}"#;
        let world = World::new(&steps, &[tool("send", &server.url("/send"), schema)]).await;
        assert_eq!(world.say("Go.").await.text, "So be it.", "{name}");
        let story = world.story().await;
        assert!(story.contains(told), "{name}: {story}");
        let result = world.log().await.into_iter().find(|event| event.kind.as_str() == "agent.tool_result");
        assert_eq!(result.unwrap().metadata.unwrap().value()["is_error"], true, "{name}");
        world.requests();
    }
}

#[tokio::test]
async fn a_turn_takes_no_more_steps_than_its_agent_may() {
    let server = Server::start(vec![ok("1"), ok("2"), ok("3")]).await;
    let steps = r#"[{"call":{"name":"send"}},{"call":{"name":"send"}},{"say":"too late"}]"#;
    let tools = [tool("send", &server.url("/send"), "")];
    let world = World::with(steps, &tools, r#","limits":{"steps":2}"#, Means::default()).await;
    let taken = world.post("Go.", OnBusy::Queue).await;
    assert_eq!(world.reply(taken).await.unwrap_err().code(), "unavailable");
    assert_eq!(
        world.story().await,
        "call(send) result(send) call(send) result(send) error(limit_steps) /failed"
    );
    assert_eq!(world.say("And now?").await.text, "too late", "talk goes on");
}

#[tokio::test]
async fn a_stop_ends_a_turn_in_the_middle_of_a_call_and_every_call_has_a_result() {
    let server = Server::start(vec![Answer::Hang(Vec::new())]).await;
    let steps =
        r#"[{"call":[{"name":"send","args":{"n":1}},{"name":"send","args":{"n":2}}]},{"say":"Yes?"}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
    let taken = world.post("Go.", OnBusy::Queue).await;
    world.until(async || !server.asked().is_empty()).await;
    world.engine.stop(&world.me, &id(), None).await.unwrap();
    assert!(world.reply(taken).await.unwrap().stopped);
    assert_eq!(world.story().await, "call(send) call(send) outcome_unknown(send) cancelled(send) /stopped");
    assert_eq!(world.say("Hello?").await.text, "Yes?");
    assert_eq!((world.requests().len(), server.asked().len()), (2, 1));
}

#[tokio::test]
async fn a_message_that_steers_is_heard_at_the_next_step() {
    let server = Server::start(vec![ok("1")]).await;
    let steps = r#"[{"call":{"name":"send"}},{"say":"Very well."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
    world.model.leave.forget_permits(Semaphore::MAX_PERMITS);
    let taken = world.post("Go.", OnBusy::Queue).await;
    world.until(async || !world.model.seen.lock().unwrap().is_empty()).await;
    world.post("Rather not.", OnBusy::Steer).await;
    world.model.leave.add_permits(2);
    assert_eq!(world.reply(taken).await.unwrap().text, "Very well.");
    let requests = world.requests();
    let kinds: Vec<&str> = requests[1].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "user"]);
    assert_eq!(requests[1].messages[3].text(), "Rather not.");
}

#[tokio::test]
async fn a_call_of_a_turn_that_died_is_not_made_again_and_the_next_turn_closes_it() {
    let mut server = Server::start(vec![Answer::Hang(Vec::new())]).await;
    let steps = r#"[{"call":{"name":"send"}},{"say":"I cannot tell."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), "")]).await;
    let runtime = world.say_elsewhere("Go.");
    world.until(async || !server.asked().is_empty()).await;
    gone(runtime).await;
    server.client_is_gone().await;
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.say("Did you?").await.text, "I cannot tell.");
    assert_eq!(world.story().await, "call(send) /interrupted outcome_unknown(send) I cannot tell. /answered");
    assert_eq!(server.asked().len(), 1);
    let requests = world.requests();
    let kinds: Vec<&str> = requests[1].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "user"]);
}

#[tokio::test]
async fn what_was_agreed_to_is_done_once_on_whichever_node_goes_on() {
    for (args, sent) in
        [(None, r#"{"to":"x","text":"hi"}"#), (Some(r#"{"to":"y"}"#), r#"{"to":"y","text":"hi"}"#)]
    {
        let server = Server::start(vec![ok(r#""sent""#)]).await;
        let (world, reply) = asking(&server).await;
        let approval = world.approval(&reply).await;
        assert!(approval.expires_at.unwrap() <= approval.created_at.plus(limits::CONFIRM_WITHIN));
        world.decide(&reply, Decision::Approve, args).await.unwrap();
        for node in [&world.node, &world.other] {
            node.go_on(&world.me.tenant, &id());
        }
        world.node.drain(SOON).await;
        world.other.drain(SOON).await;
        assert_eq!(bodies(&server), [sent]);
        assert!(server.asked()[0].head.contains("sederunt-confirmed: true"));
        assert_eq!(
            world.story().await,
            "Let me see. call(send) asks approve result(send) It is sent. /answered"
        );
        let opposite = world.decide(&reply, Decision::Deny, None).await.unwrap_err();
        assert_eq!(opposite.code(), "already_decided");
        assert_eq!(world.say("Thanks.").await.text, "You are welcome.");
        world.requests();
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn what_was_denied_is_not_done_and_the_model_goes_on_with_why() {
    let server = Server::start(vec![]).await;
    let steps = r#"[{"call":[{"name":"send"},{"name":"read"}]},{"say":"Very well."}]"#;
    let tools = [tool("send", &server.url("/send"), CONFIRMED), tool("read", "http://127.0.0.1:1/", "")];
    let world = World::new(steps, &tools).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Deny, None).await.unwrap();
    world.go_on(&world.node).await;
    assert!(server.asked().is_empty());
    assert_eq!(
        world.story().await,
        "call(send) call(read) asks deny denied(send) tool_unreachable(read) Very well. /answered"
    );
    let told = &world.requests()[1].messages[2];
    assert!(told.text().contains("denied: because"), "{told:?}");
}

#[tokio::test]
async fn a_tool_may_ask_for_leave_by_itself_and_another_call_of_the_same_turn_too() {
    let wants = || ok(r#"{"requires_confirmation":true,"summary":"Send 1000?"}"#);
    let server = Server::start(vec![wants(), ok(r#""paid""#), wants(), ok(r#""paid""#)]).await;
    let steps = r#"[{"call":[{"name":"pay","args":{"n":1}},{"name":"pay","args":{"n":2}}]},{"say":"Paid."}]"#;
    let world = World::new(steps, &[tool("pay", &server.url("/pay"), "")]).await;
    let first = world.say("Pay.").await;
    assert_eq!(first.text, "Send 1000?");
    world.decide(&first, Decision::Approve, None).await.unwrap();
    world.node.go_on(&world.me.tenant, &id());
    world.node.drain(SOON).await;
    let run = Run::of(&world.session().await);
    let second = Reply { approval_id: run.approval_id, ..first };
    world.decide(&second, Decision::Approve, None).await.unwrap();
    world.go_on(&world.other).await;
    let n = |n: u32| format!(r#"{{"n":{n}}}"#);
    assert_eq!(bodies(&server), [n(1), n(1), n(2), n(2)]);
    assert_eq!(
        world.story().await,
        "call(pay) call(pay) asks approve result(pay) asks approve result(pay) Paid. /answered"
    );
}

#[tokio::test]
async fn what_nobody_decided_in_time_is_not_done_and_talk_goes_on() {
    let server = Server::start(vec![]).await;
    let (world, reply) = asking(&server).await;
    let waits = world.post("Hello?", OnBusy::Queue).await;
    world.clock.advance(limits::CONFIRM_WITHIN);
    let late = world.decide(&reply, Decision::Approve, None).await.unwrap_err();
    assert_eq!(late.code(), "already_decided", "even before anybody has noticed");
    assert_eq!(world.engine.sweep().await.unwrap().overdue, 1);
    assert_eq!(world.approval(&reply).await.state, State::Expired);
    assert_eq!(world.session().await.head.status, Status::Idle);
    let late = world.decide(&reply, Decision::Approve, None).await.unwrap_err();
    assert_eq!(late.code(), "already_decided");
    assert_eq!(world.node.keep().await.unwrap().resumed, 1);
    // The script expects another result of the call than this one.
    assert_eq!(world.reply(waits).await.unwrap_err().code(), "unavailable");
    assert!(world.story().await.starts_with("Let me see. call(send) asks timed_out(send) /timed_out"));
    assert!(server.asked().is_empty());
    world.requests();
}

#[tokio::test]
async fn a_message_waits_for_the_decision_or_does_without_it() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let (world, reply) = asking(&server).await;
    let waits = world.post("Thanks.", OnBusy::Queue).await;
    let refused = world.node.post(&world.me, &id(), said("No.", OnBusy::Reject), None).await.unwrap_err();
    assert_eq!(refused.code(), "session_busy");
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.go_on(&world.other).await;
    assert_eq!(world.reply(waits).await.unwrap().text, "You are welcome.");

    let steps = r#"[{"call":{"name":"send"}},{"expect":"Forget it","say":"As you like."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    let interrupts = world.post("Forget it.", OnBusy::Interrupt).await;
    assert_eq!(world.reply(interrupts).await.unwrap().text, "As you like.");
    assert_eq!(world.approval(&reply).await.state, State::Cancelled);
    assert_eq!(world.story().await, "call(send) asks cancelled(send) /stopped As you like. /answered");
    assert_eq!(server.asked().len(), 1);
    world.requests();
}

#[tokio::test]
async fn a_message_that_steers_a_waiting_turn_is_heard_when_it_goes_on() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let (world, reply) = asking(&server).await;
    world.post("And be quick.", OnBusy::Steer).await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.node.go_on(&world.me.tenant, &id());
    world.node.drain(SOON).await;
    let kinds: Vec<&str> = world.requests()[1].messages.iter().map(kind).collect();
    assert_eq!(kinds, ["user", "call", "result", "user"]);
    assert!(world.engine.standing(&world.me, &id()).await.unwrap().talk.queue.is_empty());
}

#[tokio::test]
async fn a_waiting_turn_is_stopped_and_ended_without_its_call() {
    let server = Server::start(vec![]).await;
    let (world, reply) = asking(&server).await;
    world.engine.stop(&world.me, &id(), None).await.unwrap();
    assert_eq!(world.session().await.head.status, Status::Idle);
    assert_eq!(world.approval(&reply).await.state, State::Cancelled);
    let late = world.decide(&reply, Decision::Approve, None).await.unwrap_err();
    assert_eq!(late.code(), "already_decided");
    assert_eq!(world.story().await, "Let me see. call(send) asks cancelled(send) /stopped");

    let (world, reply) = asking(&server).await;
    let wish =
        EndWish { rating: None, source: RatingSource::ApiEnd, modality: Modality::Text, discard: true };
    assert!(matches!(world.node.end(&world.me, &id(), wish).await.unwrap(), Ending::Ended(_)));
    assert_eq!(world.approval(&reply).await.state, State::Cancelled);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_decision_that_nobody_acted_on_is_acted_on_by_whoever_keeps_the_store() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let (world, reply) = asking(&server).await;
    assert_eq!(world.other.keep().await.unwrap().resumed, 0, "nothing is decided yet");
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    assert_eq!(world.other.keep().await.unwrap().resumed, 1);
    world.other.drain(SOON).await;
    assert_eq!((world.session().await.head.status, server.asked().len()), (Status::Idle, 1));
}

#[tokio::test]
async fn a_node_that_dies_while_it_does_what_was_agreed_to_leaves_talk_that_works() {
    let mut server = Server::start(vec![Answer::Hang(Vec::new())]).await;
    let steps = r#"[{"call":{"name":"send"}},{"say":"I cannot tell."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    let (node, tenant) = (world.node.clone(), world.me.tenant.clone());
    let runtime = world.elsewhere(async move { node.go_on(&tenant, &id()) });
    world.until(async || !server.asked().is_empty()).await;
    gone(runtime).await;
    server.client_is_gone().await;
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.engine.sweep().await.unwrap().leases_lost, 1);
    assert_eq!(world.other.keep().await.unwrap().resumed, 0, "it is not done again");
    assert_eq!(world.say("Did you?").await.text, "I cannot tell.");
    assert_eq!(
        world.story().await,
        "call(send) asks approve /interrupted outcome_unknown(send) I cannot tell. /answered"
    );
    assert_eq!(server.asked().len(), 1);
    world.requests();
}

#[tokio::test]
async fn a_call_that_differs_from_what_was_agreed_to_is_refused() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let steps = r#"[{"call":{"name":"send","args":{"n":1}}},{"expect":"refused","say":"So be it."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    // Somebody reaches into the store between the approval and the call.
    let session = world.session().await;
    let mut run = Run::of(&session);
    run.resume.as_mut().unwrap().args = Some(json(r#"{"n":1000}"#));
    let update = Update { run: Some(run.to_json().unwrap()), ..Update::default() };
    let part = Part {
        on: On::Session(id()),
        guard: Guard::seen(&session),
        writes: [Write::Update(Box::new(update))].into_iter().collect(),
    };
    world.engine.store().commit(Change::new(world.me.tenant.clone()).part(part)).await.unwrap();
    world.go_on(&world.node).await;
    assert!(server.asked().is_empty(), "nothing is done that nobody agreed to");
    assert_eq!(world.story().await, "call(send) asks approve refused(send) So be it. /answered");
}

#[tokio::test]
async fn a_decision_is_about_one_call_even_if_two_have_the_same_id() {
    let server = Server::start(vec![ok(r#""sent""#), ok(r#""sent""#)]).await;
    let steps = r#"[{"call":{"name":"send","args":{"n":1}}},{"say":"Done."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    // A model that gives two calls the same id.
    world.model.twins.store(true, Ordering::Relaxed);
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.go_on(&world.node).await;
    assert_eq!(server.asked().len(), 1, "one was agreed to");
    world.requests();
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_answer_is_no() {
    let server = Server::start(vec![]).await;
    let steps = r#"[{"call":{"name":"send"}},{"expect":"denied: nobody","say":"Then not."}]"#;
    let world = World::new(steps, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    world.afresh(SourceKind::Schedule, None).await;
    assert_eq!(world.say("Send it.").await.text, "Then not.");
    assert_eq!(world.story().await, "call(send) denied(send) Then not. /answered");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_conversation_that_leaves_no_trace_asks_too() {
    let server = Server::start(vec![ok(r#""sent""#)]).await;
    let world = World::new(SEND, &[tool("send", &server.url("/send"), CONFIRMED)]).await;
    world.afresh(SourceKind::Api, Some(MemoryMode::Incognito)).await;
    let reply = world.say("Send it.").await;
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.go_on(&world.node).await;
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn tools_of_an_mcp_server_are_called_in_a_turn_and_ask_for_leave() {
    let fix = crate::mcp::server(crate::mcp::stdio());
    let means = Means { servers: BTreeMap::from([("fix".to_owned(), fix)]), ..Means::default() };
    let steps = r#"[{"call":[{"name":"fix__add","args":{"a":1,"b":2}},{"name":"fix__fail"},{"name":"fix__meta"}]},
        {"expect":"sederunt/confirmed=True","say":"Three."}]"#;
    let tools = [r#"{"type":"mcp","server":"fix","requires_confirmation":["meta"]}"#.to_owned()];
    let world = World::with(steps, &tools, "", means).await;
    let reply = world.node.post(&world.me, &id(), said("Add.", OnBusy::Queue), None).await.unwrap();
    // Python takes its time on a busy machine.
    let reply = world.node.reply_to(&world.me, reply).await.unwrap();
    assert_eq!(reply.kind, "confirmation");
    world.decide(&reply, Decision::Approve, None).await.unwrap();
    world.go_on(&world.other).await;
    assert_eq!(
        world.story().await,
        "call(fix__add) call(fix__fail) call(fix__meta) result(fix__add) result(fix__fail) asks approve \
         result(fix__meta) Three. /answered"
    );
    let results: Vec<String> = world.requests()[1]
        .messages
        .iter()
        .filter(|message| matches!(message, Message::ToolResult { .. }))
        .map(|message| message.text().to_owned())
        .collect();
    assert!(results[0].contains('3') && results[1].contains("cannot be done"), "{results:?}");
}
