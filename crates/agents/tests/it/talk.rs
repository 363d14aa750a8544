//! Conversations from the first message to the end of a sitting, on a real store: what they leave in the log and in
//! the memory, what happens while a turn runs, and what is left when whoever ran it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sederunt_agents::executor::Kit;
use sederunt_agents::model::{self, Delta, Heard, Model, Reply as Spoken, Request, Stop, Usage};
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::end::{EndWish, Ending};
use sederunt_agents::talk::voice::Transcript;
use sederunt_agents::talk::{Progress, Reply, Settings, Talker};
use sederunt_core::access::Actor;
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{self, Engine, Post};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::feedback::{Label, Modality, RatingSource};
use sederunt_core::json::Json;
use sederunt_core::live::Hub;
use sederunt_core::memory::Kind;
use sederunt_core::session::{MemoryMode, SourceKind, Status};
use sederunt_core::store::Store;
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::talk::{Liveness, Tier};
use sederunt_core::{Error, SessionId};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
use tokio::sync::{Semaphore, mpsc};

use crate::wire::SOON;

const IDLE: Duration = Duration::from_secs(20 * 60);

pub struct World {
    pub engine: Engine,
    pub clock: Arc<SystemClock>,
    pub me: Arc<Actor>,
    pub talker: Talker,
}

/// A model that says what it is told, when it is let.
#[derive(Debug)]
struct Gated {
    begun: mpsc::UnboundedSender<Request>,
    leave: Arc<Semaphore>,
    fails: bool,
}

impl Model for Gated {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: Heard<'a>,
    ) -> BoxFuture<'a, Result<Spoken, model::Error>> {
        Box::pin(async move {
            heard(Delta::Text("I hear ".to_owned()));
            let _ = self.begun.send(request.clone());
            self.leave.acquire().await.unwrap().forget();
            if self.fails {
                return Err(model::Error::TooLong);
            }
            let said = request.messages.last().map(|message| message.text().to_owned()).unwrap_or_default();
            heard(Delta::Text(said.clone()));
            let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
            let text = format!("I hear {said}");
            Ok(Spoken { text, thinking: String::new(), calls: Vec::new(), usage, stop: Stop::End })
        })
    }
}

/// What a test holds of a [`Gated`] model.
pub struct Gate {
    begun: mpsc::UnboundedReceiver<Request>,
    leave: Arc<Semaphore>,
}

impl Gate {
    pub async fn begins(&mut self) -> Request {
        tokio::time::timeout(SOON, self.begun.recv()).await.unwrap().unwrap()
    }

    pub fn let_go(&self) {
        self.leave.add_permits(1);
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(BTreeMap::new(), "eliza")
    }

    pub fn gated(fails: bool) -> (Self, Gate) {
        let (tell, begun) = mpsc::unbounded_channel();
        let leave = Arc::new(Semaphore::new(0));
        let model: Arc<dyn Model> = Arc::new(Gated { begun: tell, leave: leave.clone(), fails });
        let world = Self::with(BTreeMap::from([("scripted:gated".to_owned(), model)]), "scripted:gated");
        (world, Gate { begun, leave })
    }

    fn with(named: BTreeMap<String, Arc<dyn Model>>, default_model: &str) -> Self {
        Self::set(named, default_model, Settings::default())
    }

    pub fn set(named: BTreeMap<String, Arc<dyn Model>>, default_model: &str, settings: Settings) -> Self {
        let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
        let (time, heard) = (clock.clone(), hub.clone());
        let open = move || -> sederunt_core::Result<Arc<dyn Store>> {
            let options = SqliteOptions { place: Place::Memory, clock: time.clone(), hub: heard.clone() };
            Ok(SqliteStore::open(options)?)
        };
        let engine = Engine::new(open().unwrap(), hub, engine::Settings::default()).with_private(open);
        let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
        kit.named = named;
        kit.default_model = default_model.to_owned();
        kit.retries.attempts_max = 1;
        let talker = Talker::new(engine.clone(), Arc::new(kit), settings);
        Self { engine, clock, me: Arc::new(Actor::local(SourceKind::Api)), talker }
    }

    pub async fn open(&self, thread: &str) -> SessionId {
        self.talker.open(&self.me, thread, None).await.unwrap()
    }

    /// Says something and waits for the answer.
    pub async fn say(&self, thread: &str, text: &str) -> Reply {
        self.say_as(thread, text, None).await.unwrap()
    }

    async fn say_as(&self, thread: &str, text: &str, user: Option<&str>) -> Result<Reply, Error> {
        let id = self.open(thread).await;
        let taken = self.talker.post(&self.me, &id, post(text, OnBusy::Queue, user), None).await?;
        tokio::time::timeout(SOON, self.talker.reply_to(&self.me, taken)).await.unwrap()
    }

    pub async fn end(&self, thread: &str, rating: Option<Label>) -> Ending {
        let wish = EndWish { rating, source: RatingSource::ApiEnd, modality: Modality::Text, discard: false };
        self.talker.end(&self.me, &SessionId::stored(thread), wish).await.unwrap()
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

    async fn liveness(&self, thread: &str) -> Liveness {
        self.engine.standing(&self.me, &SessionId::stored(thread)).await.unwrap().liveness
    }

    pub async fn remembered(&self, thread: &str, user: Option<&str>, kind: Kind) -> Vec<String> {
        let owner = self.engine.memory_owner(&self.me, Some(&SessionId::stored(thread)), user).await.unwrap();
        let page = self.engine.memories(&self.me, &owner, kind, None, 100).await.unwrap();
        page.items.iter().map(sederunt_core::memory::Memory::text).collect()
    }
}

fn post(text: &str, on_busy: OnBusy, user: Option<&str>) -> Post {
    Post {
        content: Json::of(&serde_json::json!([{"type": "text", "text": text}])).unwrap(),
        on_busy,
        tier: Tier::Fast,
        user: user.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_message_is_answered_and_the_log_tells_the_turn() {
    let world = World::new();
    let reply = world.say("cli:main", "Hello there").await;
    assert!(!reply.text.is_empty());
    assert_eq!((reply.kind.as_str(), reply.session_action.as_str(), reply.stopped), ("talk", "none", false));
    assert_eq!(
        world.story("cli:main").await,
        ["created", "sitting_started", "message", "to running", "message", "turn:answered", "to idle"]
    );
    let events = world.log("cli:main").await;
    assert_eq!(events[4].turn, Some(events[2].sequence));
    assert_eq!(reply.sequence, events[4].sequence);
    world.say("cli:main", "I am tired").await;
    let session = world.engine.session(&world.me, &SessionId::stored("cli:main")).await.unwrap();
    assert_eq!((session.head.status, session.head.turn_count), (Status::Idle, 2));
    assert!(session.head.claim.is_none());
}

#[tokio::test]
async fn the_stages_are_heard_in_their_order_and_the_answer_word_by_word() {
    let world = World::new();
    let id = world.open("t").await;
    let mut taken =
        world.talker.post(&world.me, &id, post("Hello", OnBusy::Queue, None), None).await.unwrap();
    let (mut stages, mut text) = (Vec::new(), String::new());
    while let Some(progress) = taken.progress.recv().await {
        match progress {
            Progress::Stage { stage, .. } => stages.push(stage),
            Progress::Chunk(chunk) => text.push_str(&chunk),
        }
    }
    assert_eq!(stages, ["safety", "control", "recall", "route", "respond", "extract", "finalize"]);
    assert_eq!(world.talker.reply_to(&world.me, taken).await.unwrap().text, text);
}

#[tokio::test]
async fn the_state_that_the_log_tells_is_the_one_that_is_kept_at_every_turn() {
    let world = World::new();
    let id = SessionId::stored("t");
    let said = [
        "Hello", "Can we do a grounding exercise?", "a lamp, a book, a cup, a door, a plant",
        "the chair and the floor", "stop", "Remember that my sister is called Mona",
        "What do you know about me?", "forget number 1", "yes", "I want to kill myself", "Bye!",
    ];
    let mut kept = Vec::new();
    for round in 0..7 {
        for text in said {
            world.say("t", text).await;
            let standing = world.engine.standing(&world.me, &id).await.unwrap();
            let last = standing.session.head.last_sequence;
            let told = world.engine.state_at(&world.me, &id, last).await.unwrap();
            assert_eq!(told, standing.talk.state, "round {round}, after {text:?}");
            kept.push((last, told));
        }
    }
    for (sequence, state) in kept {
        assert_eq!(world.engine.state_at(&world.me, &id, sequence).await.unwrap(), state, "at {sequence}");
    }
}

#[tokio::test]
async fn everything_is_forgotten_after_a_second_word_and_nothing_of_anybody_else() {
    let world = World::new();
    for user in ["ada", "ben"] {
        let thread = format!("of-{user}");
        for text in
            ["Remember that my sister is called Mona", "Always answer briefly", "Always answer briefly"]
        {
            world.say_as(&thread, text, Some(user)).await.unwrap();
        }
        world.end(&thread, None).await;
        world.say_as(&thread, "I live in Graz", Some(user)).await.unwrap();
    }
    let kept = async |user: &str| {
        let owner = world.engine.memory_owner(&world.me, None, Some(user)).await.unwrap();
        let status = world.engine.memory_status(&world.me, &owner, None).await.unwrap();
        (status.facts, status.arcs, status.rules)
    };
    let say = async |text: &str| world.say_as("of-ada", text, Some("ada")).await.unwrap().text;
    assert_eq!(kept("ada").await, (1, 1, 1));
    let asked = say("Please forget everything").await;
    for part in ["1 fact", "1 earlier sitting", "1 rule", "1 thing of this sitting"] {
        assert!(asked.contains(part), "{asked}");
    }
    say("What a day").await;
    say("yes").await;
    assert_eq!(kept("ada").await, (1, 1, 1), "a yes to something else");
    say("Please forget everything").await;
    assert!(say("yes").await.contains("is deleted"));
    assert_eq!((kept("ada").await, kept("ben").await), ((0, 0, 0), (1, 1, 1)));
    let standing = world.engine.standing(&world.me, &SessionId::stored("of-ada")).await.unwrap();
    assert!(standing.talk.sitting.unwrap().buffer.candidates.is_empty());
    assert!(say("Forget everything").await.contains("nothing"), "there is nothing left");
    world.end("of-ada", None).await;
    assert_eq!(kept("ada").await, (0, 0, 0), "and its end brings nothing back");
}

#[tokio::test]
async fn a_message_while_a_turn_runs_waits_for_its_own() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let first = world.talker.post(&world.me, &id, post("one", OnBusy::Queue, None), None).await.unwrap();
    gate.begins().await;
    let second = world.talker.post(&world.me, &id, post("two", OnBusy::Queue, None), None).await.unwrap();
    let refused =
        world.talker.post(&world.me, &id, post("no", OnBusy::Reject, None), None).await.unwrap_err();
    assert_eq!(refused.code(), "session_busy");
    gate.let_go();
    assert_eq!(world.talker.reply_to(&world.me, first).await.unwrap().text, "I hear one");
    let request = gate.begins().await;
    assert_eq!(request.messages.last().unwrap().text(), "two");
    gate.let_go();
    assert_eq!(world.talker.reply_to(&world.me, second).await.unwrap().text, "I hear two");
    let events = world.log("t").await;
    for event in events.iter().filter(|event| event.kind.as_str() == "agent.message") {
        let asked = events.iter().find(|asked| Some(asked.sequence) == event.turn).unwrap();
        assert_eq!(event.text().unwrap(), format!("I hear {}", asked.text().unwrap()));
    }
}

#[tokio::test]
async fn an_interruption_keeps_what_was_said_and_is_next() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let first = world.talker.post(&world.me, &id, post("one", OnBusy::Queue, None), None).await.unwrap();
    gate.begins().await;
    let second = world.talker.post(&world.me, &id, post("two", OnBusy::Interrupt, None), None).await.unwrap();
    let stopped = world.talker.reply_to(&world.me, first).await.unwrap();
    assert_eq!((stopped.text.as_str(), stopped.stopped), ("I hear ", true));
    gate.begins().await;
    gate.let_go();
    assert_eq!(world.talker.reply_to(&world.me, second).await.unwrap().text, "I hear two");
}

#[tokio::test]
async fn a_message_that_steers_is_heard_in_the_same_turn() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let first = world.talker.post(&world.me, &id, post("one", OnBusy::Queue, None), None).await.unwrap();
    gate.begins().await;
    world.talker.post(&world.me, &id, post("rather two", OnBusy::Steer, None), None).await.unwrap();
    gate.let_go();
    let request = gate.begins().await;
    assert_eq!(request.messages.last().unwrap().text(), "rather two");
    gate.let_go();
    assert_eq!(world.talker.reply_to(&world.me, first).await.unwrap().text, "I hear rather two");
    let turns = world.story("t").await.iter().filter(|said| said.starts_with("turn:")).count();
    assert_eq!(turns, 1);
    let standing = world.engine.standing(&world.me, &id).await.unwrap();
    assert!(standing.talk.queue.is_empty());
}

#[tokio::test]
async fn somebody_may_stop_a_turn_and_talk_goes_on() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let taken = world.talker.post(&world.me, &id, post("one", OnBusy::Queue, None), None).await.unwrap();
    gate.begins().await;
    world.engine.stop(&world.me, &id, None).await.unwrap();
    assert!(world.talker.reply_to(&world.me, taken).await.unwrap().stopped);
    let taken = world.talker.post(&world.me, &id, post("two", OnBusy::Reject, None), None).await.unwrap();
    gate.begins().await;
    gate.let_go();
    assert_eq!(world.talker.reply_to(&world.me, taken).await.unwrap().text, "I hear two");
}

#[tokio::test]
async fn a_model_that_fails_leaves_a_conversation_that_works() {
    let (world, mut gate) = World::gated(true);
    let id = world.open("t").await;
    let taken = world.talker.post(&world.me, &id, post("one", OnBusy::Queue, None), None).await.unwrap();
    gate.begins().await;
    gate.let_go();
    let failed = world.talker.reply_to(&world.me, taken).await.unwrap_err();
    assert_eq!(failed.code(), "unavailable");
    let story = world.story("t").await;
    assert_eq!(story[4..], ["message", "error", "turn:failed", "to idle"]);
    assert_eq!(world.liveness("t").await, Liveness::Active);
}

/// Ends a runtime with everything on it, and waits until that is so.
async fn gone(runtime: tokio::runtime::Runtime) {
    tokio::task::spawn_blocking(move || runtime.shutdown_timeout(SOON)).await.unwrap();
}

#[tokio::test]
async fn a_turn_whose_runner_is_gone_is_closed_and_the_next_one_works() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    // The first runner lives on a runtime of its own, which is dropped in the middle of the turn.
    let (talker, me, there) = (world.talker.clone(), world.me.clone(), id.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(async move {
        talker.post(&me, &there, post("one", OnBusy::Queue, None), None).await.unwrap();
        std::future::pending::<()>().await;
    });
    gate.begins().await;
    gone(runtime).await;
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.liveness("t").await, Liveness::Interrupted);
    let taken = world.talker.post(&world.me, &id, post("two", OnBusy::Reject, None), None).await.unwrap();
    gate.begins().await;
    gate.let_go();
    assert_eq!(world.talker.reply_to(&world.me, taken).await.unwrap().text, "I hear two");
    let story = world.story("t").await;
    assert_eq!(story.iter().filter(|said| *said == "turn:interrupted").count(), 1, "{story:?}");
}

#[tokio::test]
async fn what_waits_behind_a_dead_turn_is_gone_on_with_by_whoever_keeps_the_store() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let (talker, me, there) = (world.talker.clone(), world.me.clone(), id.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(async move {
        talker.post(&me, &there, post("one", OnBusy::Queue, None), None).await.unwrap();
        talker.post(&me, &there, post("two", OnBusy::Queue, None), None).await.unwrap();
        std::future::pending::<()>().await;
    });
    gate.begins().await;
    while world.engine.standing(&world.me, &id).await.unwrap().talk.queue.is_empty() {
        tokio::task::yield_now().await;
    }
    gone(runtime).await;
    world.clock.advance(Duration::from_secs(31));
    world.engine.sweep().await.unwrap();
    assert_eq!(world.liveness("t").await, Liveness::Interrupted);
    assert_eq!(world.talker.keep().await.unwrap().resumed, 1);
    assert_eq!(gate.begins().await.messages.last().unwrap().text(), "two");
    gate.let_go();
    world.talker.drain(SOON).await;
    assert_eq!(world.liveness("t").await, Liveness::Active);
}

#[tokio::test]
async fn a_sitting_ends_with_a_summary_and_the_conversation_goes_on_in_a_fresh_one() {
    let world = World::new();
    assert!(matches!(
        world.talker.end(&world.me, &world.open("t").await, wish(false)).await.unwrap(),
        Ending::Nothing
    ));
    world.say("t", "I had a terrible day at work and I am anxious about my boss").await;
    world.say("t", "My job makes me anxious, I will talk to my boss tomorrow").await;
    let Ending::Ended(farewell) = world.end("t", Some(Label::Positive)).await else {
        panic!("it did not end")
    };
    let summary = farewell.summary.unwrap();
    assert!(!summary.themes.is_empty() && !summary.summary.is_empty());
    assert_eq!(farewell.turn_count, 2);
    assert!(matches!(world.end("t", None).await, Ending::Nothing));
    assert_eq!(world.liveness("t").await, Liveness::Absent);
    assert_eq!(world.remembered("t", None, Kind::Arc).await.len(), 1);
    let reply = world.say("t", "Hello again").await;
    assert!(reply.text.starts_with("Last time we talked about"), "{}", reply.text);
    let standing = world.engine.standing(&world.me, &SessionId::stored("t")).await.unwrap();
    let open = standing.talk.sitting.unwrap();
    assert_eq!((open.number, open.turns, open.buffer.candidates.len()), (2, 1, 0));
}

fn wish(discard: bool) -> EndWish {
    EndWish { rating: None, source: RatingSource::ApiEnd, modality: Modality::Text, discard }
}

#[tokio::test]
async fn a_discarded_sitting_leaves_nothing_and_stays_discarded() {
    let world = World::new();
    let id = world.open("t").await;
    world.say("t", "My name is Ada and I live in Graz").await;
    world.say("t", "My name is Ada and I live in Graz").await;
    let ended = world.talker.end(&world.me, &id, wish(true)).await.unwrap();
    assert!(matches!(ended, Ending::Ended(farewell) if farewell.summary.is_none()));
    world.clock.advance(2 * IDLE);
    assert_eq!(world.talker.keep().await.unwrap().ended, 0);
    for kind in Kind::ALL {
        assert!(world.remembered("t", None, kind).await.is_empty(), "{kind:?}");
    }
    let rated =
        world.engine.rate_ended(&world.me, &id, Label::Positive, RatingSource::ApiEnd, Modality::Text).await;
    assert_eq!(rated.unwrap_err().code(), "nothing_ended");
}

#[tokio::test]
async fn silence_ends_a_sitting_and_another_word_does_not_let_it() {
    let world = World::new();
    world.say("t", "I feel lonely since my dog died").await;
    world.clock.advance(IDLE - Duration::from_secs(1));
    assert_eq!(world.talker.keep().await.unwrap().checked, 0);
    world.say("t", "I miss my dog").await;
    world.clock.advance(IDLE - Duration::from_secs(1));
    assert_eq!(world.talker.keep().await.unwrap().checked, 0);
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(world.liveness("t").await, Liveness::Expired);
    assert_eq!(world.talker.keep().await.unwrap().ended, 1);
    assert_eq!(world.liveness("t").await, Liveness::Absent);
    assert_eq!(world.remembered("t", None, Kind::Arc).await.len(), 1);
}

#[tokio::test]
async fn several_keepers_of_one_store_end_a_sitting_once() {
    let world = World::new();
    for n in 0..20 {
        world.say(&format!("t{n}"), "I feel lonely since my dog died").await;
        world.say(&format!("t{n}"), "I miss my dog").await;
    }
    world.clock.advance(IDLE);
    let keepers: Vec<Talker> = (0..4)
        .map(|_| {
            let kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
            Talker::new(world.engine.clone(), Arc::new(kit), Settings::default())
        })
        .collect();
    let kept = futures_util::future::join_all(keepers.iter().map(Talker::keep)).await;
    let ended: usize = kept.into_iter().map(|kept| kept.unwrap().ended).sum();
    assert_eq!(ended, 20);
    for n in 0..20 {
        let thread = format!("t{n}");
        let ends = world.story(&thread).await.iter().filter(|said| *said == "sitting_ended").count();
        assert_eq!((ends, world.remembered(&thread, None, Kind::Arc).await.len()), (1, 1), "{thread}");
    }
}

#[tokio::test]
async fn a_turn_that_finds_its_sitting_expired_ends_it_first() {
    let world = World::new();
    world.say("t", "I feel lonely since my dog died").await;
    world.say("t", "I miss my dog").await;
    world.clock.advance(IDLE);
    world.say("t", "Hello").await;
    let story = world.story("t").await;
    let ended = story.iter().position(|said| said == "sitting_ended").unwrap();
    assert_eq!(story[ended + 1], "sitting_started");
    assert_eq!(world.remembered("t", None, Kind::Arc).await.len(), 1);
}

#[tokio::test]
async fn a_sitting_that_cannot_be_summarised_stays_open_for_another_try() {
    let (world, gate) = World::gated(true);
    let id = world.open("t").await;
    for text in ["Remember that I have a cat", "What do you know about me?"] {
        world.say("t", text).await;
    }
    gate.leave.add_permits(1);
    let failed = world.talker.end(&world.me, &id, wish(false)).await.unwrap();
    assert!(matches!(failed, Ending::Failed(farewell) if farewell.turn_count == 2));
    assert_eq!(world.liveness("t").await, Liveness::Active);
}

#[tokio::test]
async fn a_rating_is_kept_once_for_each_sitting_and_names_nobody() {
    let world = World::new();
    let id = world.open("t").await;
    let rate = async |label| {
        world.engine.rate_ended(&world.me, &id, label, RatingSource::WebEnd, Modality::Text).await
    };
    assert_eq!(rate(Label::Skip).await.unwrap_err().code(), "nothing_ended");
    world.say("t", "Hello").await;
    world.end("t", Some(Label::Negative)).await;
    assert!(!rate(Label::Positive).await.unwrap());
    world.say("t", "Hello").await;
    world.end("t", None).await;
    assert!(rate(Label::Positive).await.unwrap());
    let opaque = world.engine.opaque().await.unwrap().of(&world.me.tenant, "t");
    let kept = world.engine.store().ratings(&world.me.tenant, opaque.as_str()).await.unwrap();
    let labels: Vec<_> = kept.iter().map(|rating| (rating.label, rating.turn_count_at_end)).collect();
    assert_eq!(labels, [(Label::Negative, 1), (Label::Positive, 1)]);
    assert!(kept.iter().all(|rating| !serde_json::to_string(rating).unwrap().contains("\"t\"")));
}

#[tokio::test]
async fn what_somebody_asks_to_be_remembered_follows_the_user_and_not_the_thread() {
    let world = World::new();
    world.say_as("s1", "Remember that my sister is called Mona", Some("alice")).await.unwrap();
    assert_eq!(world.remembered("s1", Some("alice"), Kind::Fact).await.len(), 1);
    assert!(world.remembered("s1", None, Kind::Fact).await.is_empty());
    let known = world.say_as("s2", "What do you know about me?", Some("alice")).await.unwrap();
    assert!(known.text.contains("Mona"), "{}", known.text);
    let nothing = world.say("s3", "What do you know about me?").await;
    assert!(!nothing.text.contains("Mona"), "{}", nothing.text);
}

#[tokio::test]
async fn forgetting_in_talk_takes_a_confirming_turn() {
    let world = World::new();
    world.say("t", "Remember that my sister is called Mona").await;
    let asked = world.say("t", "Forget that my sister is called Mona").await;
    assert_eq!((asked.kind.as_str(), asked.text.contains('?')), ("memory", true), "{}", asked.text);
    assert_eq!(world.remembered("t", None, Kind::Fact).await.len(), 1);
    world.say("t", "Tell me something else").await;
    world.say("t", "yes").await;
    assert_eq!(world.remembered("t", None, Kind::Fact).await.len(), 1, "a yes to something else deleted it");
    world.say("t", "Forget that my sister is called Mona").await;
    world.say("t", "yes").await;
    assert!(world.remembered("t", None, Kind::Fact).await.is_empty());
}

#[tokio::test]
async fn what_was_said_often_enough_is_kept_at_the_end_with_where_it_was_said() {
    let world = World::new();
    let first = world.say("t", "I live in Graz").await;
    world.say("t", "It rains a lot. I live in Graz.").await;
    world.end("t", None).await;
    let owner = world.engine.memory_owner(&world.me, Some(&SessionId::stored("t")), None).await.unwrap();
    let facts = world.engine.memories(&world.me, &owner, Kind::Fact, None, 10).await.unwrap().items;
    assert_eq!(facts.len(), 1, "{facts:?}");
    let fact = facts[0].fact().unwrap();
    assert_eq!(fact.object, "Graz");
    let asked = world
        .log("t")
        .await
        .iter()
        .find(|event| event.sequence < first.sequence && event.kind.as_str() == "user.message")
        .unwrap()
        .sequence;
    assert!(fact.sources[0].sequences.contains(&asked), "{fact:?}");
    world.say("t", "What do you know about me?").await;
    world.say("t", "Is it raining in Graz?").await;
    let injected =
        world.log("t").await.into_iter().any(|event| event.kind.as_str() == "session.context_injected");
    assert!(injected, "what entered the prompt is not in the log");
}

#[tokio::test]
async fn nothing_is_kept_of_a_sitting_in_which_somebody_said_so() {
    let world = World::new();
    world.say("t", "I live in Graz").await;
    world.say("t", "Don't save this").await;
    world.say("t", "I live in Graz").await;
    world.end("t", None).await;
    for kind in [Kind::Fact, Kind::Arc] {
        assert_eq!(world.remembered("t", None, kind).await, [""; 0], "{kind:?}");
    }
}

#[tokio::test]
async fn a_crisis_is_answered_with_help_and_its_record_holds_no_word_of_it() {
    let world = World::new();
    let words = "I want to kill myself with the zanzibar pills";
    let reply = world.say("t", words).await;
    assert_eq!(reply.kind, "crisis");
    assert!(reply.crisis["level"].as_u64().unwrap() >= 2);
    let now = world.engine.store().now().await.unwrap();
    let day = Duration::from_secs(86_400);
    let kept =
        world.engine.store().crises(&world.me.tenant, now.minus(day), now.plus(day), 10).await.unwrap();
    assert_eq!(kept.len(), 1);
    let text = serde_json::to_string(&kept[0]).unwrap();
    assert!(!text.contains("zanzibar") && !text.contains("\"t\""), "{text}");
    let state = world.engine.standing(&world.me, &SessionId::stored("t")).await.unwrap().talk;
    assert_eq!(state.sitting.unwrap().crisis_max, 3);
    assert!(!serde_json::to_string(&state.state).unwrap().contains("zanzibar"));
}

#[tokio::test]
async fn an_exercise_goes_on_from_turn_to_turn_and_not_into_a_new_sitting() {
    let world = World::new();
    let first = world.say("t", "Can we do a grounding exercise?").await;
    assert_eq!((first.kind.as_str(), first.approach.as_deref()), ("exercise", Some("grounding")));
    let second = world.say("t", "a lamp, a book, a cup, a door, a plant").await;
    assert_eq!(second.kind, "exercise");
    assert_ne!(first.text, second.text);
    world.end("t", None).await;
    assert_eq!(world.say("t", "the chair, the floor").await.kind, "talk");
}

#[tokio::test]
async fn an_incognito_conversation_works_and_is_in_no_list() {
    let world = World::new();
    let id = world.talker.open(&world.me, "secret", Some(MemoryMode::Incognito)).await.unwrap();
    let taken = world
        .talker
        .post(&world.me, &id, post("Remember that I live in Graz", OnBusy::Queue, Some("alice")), None)
        .await
        .unwrap();
    world.talker.reply_to(&world.me, taken).await.unwrap();
    assert_eq!(world.remembered("secret", None, Kind::Fact).await.len(), 1);
    let alice = world.engine.memory_owner(&world.me, None, Some("alice")).await.unwrap();
    assert!(world.engine.memories(&world.me, &alice, Kind::Fact, None, 10).await.unwrap().items.is_empty());
    let query =
        sederunt_core::session::query::SessionQuery::of(sederunt_core::session::query::Types::All, 10);
    assert!(world.engine.sessions(&world.me, query).await.unwrap().items.is_empty());
    let other = world.talker.open(&world.me, "secret", Some(MemoryMode::Local)).await.unwrap_err();
    assert_eq!(other.code(), "type_mismatch");
}

#[tokio::test]
async fn a_spoken_turn_is_written_down_once_and_ends_like_any_other() {
    let world = World::new();
    let id = world.open("web-1").await;
    let said = || Transcript {
        user_text: "I live in Graz".to_owned(),
        assistant_text: "That is a fine town.".to_owned(),
        external_id: "turn-1".to_owned(),
        user: None,
    };
    let first = world.talker.voice_turn(&world.me, &id, said()).await.unwrap();
    let again = world.talker.voice_turn(&world.me, &id, said()).await.unwrap();
    assert_eq!((first.repeated, again.repeated, first.sequence), (false, true, again.sequence));
    let standing = world.engine.standing(&world.me, &id).await.unwrap();
    assert_eq!(standing.talk.sitting.unwrap().turns, 1);
    assert_eq!(standing.session.head.turn_count, 1);
    let state = world.engine.state_at(&world.me, &id, standing.session.head.last_sequence).await.unwrap();
    assert_eq!(state, standing.talk.state);
    assert!(matches!(world.end("web-1", Some(Label::Skip)).await, Ending::Ended(_)));
}
