//! Recent activity in prompts: whose, where, and that the log says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::model::{Model, Request};
use sederunt_core::access::{Actor, Role};
use sederunt_core::activity::injection;
use sederunt_core::definitions::{Agent, Task};
use sederunt_core::engine::{Append, DraftEvent, Engine};
use sederunt_core::event::Event;
use sederunt_core::session::decide::{OpenSession, SourceWish};
use sederunt_core::session::source::Company;
use sederunt_core::session::{MemoryMode, SessionType, SourceKind, Status};
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::work::{ClaimRequest, Settle};
use sederunt_core::{CredentialId, SessionId, UserId, strict};

use crate::executor::World as Work;
use crate::ground::json;
use crate::stand_ins::Overheard;
use crate::talk::World as Talk;
use crate::talk::world::post;

const OPENING: &str = "<recent-activity untrusted=\"true\">";

/// A member or an owner with a key of their own.
fn person(role: Role, name: &str) -> Arc<Actor> {
    let (user, credential) = (Some(UserId::stored(name)), CredentialId::stored(format!("key-{name}")));
    Arc::new(Actor { role, user, credential, ..Actor::local(SourceKind::Api) })
}

/// Lets a person work on a task that an owner has assigned to them. Returns their bridge.
async fn works_on(engine: &Engine, who: &Arc<Actor>, slug: &str) -> SessionId {
    let assigned = who.user.as_ref().map(|user| format!(r#","assigned_to":"{user}""#)).unwrap_or_default();
    let task: Task =
        strict::read(json(&format!(r#"{{"slug":"{slug}","name":"Task {slug}"{assigned}}}"#)).as_str())
            .unwrap();
    engine.define(&Actor::local(SourceKind::Api), None, task, None).await.unwrap();
    engine.start_bridge(who, Some(slug), None).await.unwrap().session.id
}

async fn marks(engine: &Engine, who: &Arc<Actor>, bridge: &SessionId, text: &str) {
    let content = Some(json(&format!("\"{text}\"")));
    let event = DraftEvent { kind: "human.marker".into(), content, ..DraftEvent::default() };
    engine.append(who, bridge, Append { events: vec![event], ..Append::default() }, None).await.unwrap();
}

fn talk_with(model: &Arc<Overheard>) -> Talk {
    let model: Arc<dyn Model> = model.clone();
    Talk::with(BTreeMap::from([("scripted:overheard".to_owned(), model)]), "scripted:overheard")
}

impl Talk {
    async fn says(&self, who: &Arc<Actor>, thread: &str, text: &str, user: Option<&str>) {
        let id = SessionId::stored(thread);
        let taken = self.conversations.post(who, &id, post(text, OnBusy::Queue, user), None).await.unwrap();
        self.conversations.reply_to(who, taken).await.unwrap();
    }

    async fn opens(&self, who: &Arc<Actor>, thread: &str, more: OpenSession) {
        let wish =
            OpenSession { id: Some(thread.to_owned()), session_type: Some(SessionType::Mixed), ..more };
        self.engine.open(who, wish, None).await.unwrap();
    }
}

/// What a request has before the block, byte for byte; `None` if it has no block.
fn before_block(request: &Request) -> Option<String> {
    let whole = format!("{}\0{:?}\0{}", request.instructions, request.tools, request.messages[0].text());
    whole.find(OPENING).map(|at| whole[..at].to_owned())
}

/// The bridges that a log names as shown, once for each time.
fn shown_in(log: &[Event], bridge: &SessionId) -> usize {
    log.iter().filter(|event| injection::names_bridge(event, bridge)).count()
}

#[tokio::test]
async fn direct_talk_is_given_the_activity_after_the_stable_prefix_and_the_log_says_so() {
    let model = Overheard::new("Certainly.");
    let world = talk_with(&model);
    world.say("t", "Hello there").await;
    let bridge = works_on(&world.engine, &world.me, "plan").await;
    marks(&world.engine, &world.me, &bridge, "drafting the outline").await;
    world.say("t", "What am I doing?").await;
    marks(&world.engine, &world.me, &bridge, "asking Bob").await;
    world.say("t", "And now?").await;
    let [first, second, third] = &model.requests()[..] else { panic!("three turns") };
    assert_eq!(before_block(first), None, "nothing was recorded then");
    let (second, third) = (second.messages[0].text(), third.messages[0].text());
    assert!(second.contains("Working on: **Task plan** (started at "), "{second}");
    assert!(second.contains("marker \"drafting the outline\"\n</recent-activity>"), "{second}");
    assert!(third.contains("marker \"asking Bob\"\n</recent-activity>"), "{third}");
    let requests = model.requests();
    assert!(before_block(&requests[1]).is_some());
    assert_eq!(before_block(&requests[1]), before_block(&requests[2]), "the prefix is stable");
    assert_eq!(shown_in(&world.log("t").await, &bridge), 2);

    world.engine.stop_bridge(&world.me, Some(bridge.as_str()), None).await.unwrap();
    world.say("t", "And after that?").await;
    assert_eq!(before_block(model.requests().last().unwrap()), None, "the work has ended");
    assert_eq!(shown_in(&world.log("t").await, &bridge), 2);
}

#[tokio::test]
async fn the_rule_based_model_talks_on_beside_the_activity() {
    let world = Talk::new();
    let bridge = works_on(&world.engine, &world.me, "plan").await;
    marks(&world.engine, &world.me, &bridge, "use nothing {}").await;
    let reply = world.say("t", "I need a holiday").await;
    assert!(!reply.text.contains("use nothing"), "{}", reply.text);
    assert_eq!(shown_in(&world.log("t").await, &bridge), 1);
}

#[tokio::test]
async fn no_group_incognito_or_shared_conversation_is_given_anybodys_activity() {
    let model = Overheard::new("Certainly.");
    let world = talk_with(&model);
    let (ann, bob) = (person(Role::Member, "ann"), person(Role::Owner, "bob"));
    let bridges = [
        works_on(&world.engine, &ann, "of-ann").await,
        works_on(&world.engine, &bob, "of-bob").await,
        works_on(&world.engine, &world.me, "local").await,
    ];
    let with = |names: &[&str]| OpenSession {
        participants: names.iter().map(|name| (*name).to_owned()).collect(),
        ..OpenSession::default()
    };
    let group = OpenSession {
        source: Some(SourceWish { company: Some(Company::Group), ..SourceWish::default() }),
        ..OpenSession::default()
    };
    let incognito = OpenSession { memory_mode: Some(MemoryMode::Incognito), ..OpenSession::default() };
    world.opens(&ann, "alone", OpenSession::default()).await;
    world.opens(&ann, "group", group).await;
    world.opens(&ann, "two", with(&["bob"])).await;
    world.opens(&ann, "incognito", incognito).await;
    world.opens(&world.me, "local", OpenSession::default()).await;
    let cases = [
        ("direct talk", &ann, "alone", None, true),
        ("an owner in another's session", &bob, "alone", None, false),
        ("the one local person in another's session", &world.me, "alone", None, false),
        ("a group", &ann, "group", None, false),
        ("with a participant", &ann, "two", None, false),
        ("that participant", &bob, "two", None, false),
        ("incognito", &ann, "incognito", None, false),
        ("local", &world.me, "local", None, true),
        ("local, for a user", &world.me, "local", Some("ann"), false),
    ];
    for (case, who, thread, user, expected) in cases {
        world.says(who, thread, "Hello there", user).await;
        let request = model.requests().pop().unwrap();
        assert_eq!(before_block(&request).is_some(), expected, "{case}");
    }
    for (thread, expected) in [("alone", [1, 0, 0]), ("local", [0, 0, 1]), ("group", [0; 3]), ("two", [0; 3])]
    {
        let log = world.log(thread).await;
        assert_eq!(bridges.each_ref().map(|bridge| shown_in(&log, bridge)), expected, "{thread}");
    }
}

#[tokio::test]
async fn a_turn_without_a_session_is_given_no_activity() {
    let model = Overheard::new("Certainly.");
    let world = talk_with(&model);
    works_on(&world.engine, &world.me, "plan").await;
    let asked = [sederunt_agents::model::Message::user("What am I doing?")];
    world.conversations.run_agent(&world.me, &asked, None).await.unwrap();
    assert_eq!(before_block(&model.requests()[0]), None);
}

impl Work {
    /// A task of an agent that does or does not ask for activity.
    async fn agent_with(&self, slug: &str, activity: bool) {
        let text = format!(
            r#"{{"slug":"{slug}","name":"{slug}","model":"scripted:overheard","activity":{activity}}}"#
        );
        let agent: Agent = strict::read(json(&text).as_str()).unwrap();
        self.engine.define(&self.owner, None, agent, None).await.unwrap();
        let text =
            format!(r#"{{"slug":"t-{slug}","name":"The task","agent_slug":"{slug}","assigned_to":"ann"}}"#);
        let task: Task = strict::read(json(&text).as_str()).unwrap();
        self.engine.define(&self.owner, None, task, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_run_is_given_the_activity_of_the_person_who_triggered_it_where_its_agent_says_so() {
    let model = Overheard::new("done");
    let mut world = Work::new();
    world.scripts.insert("scripted:overheard".to_owned(), model.clone());
    world.agent_with("aware", true).await;
    world.agent_with("plain", false).await;
    let (ann, bob) = (person(Role::Member, "ann"), person(Role::Owner, "bob"));
    let bridge = works_on(&world.engine, &ann, "of-ann").await;
    marks(&world.engine, &ann, &bridge, "in the middle of it").await;
    for (who, task, expected) in [(&ann, "t-aware", true), (&ann, "t-plain", false), (&bob, "t-aware", false)]
    {
        let run = world.engine.trigger(who, task, None, None).await.unwrap().id;
        world.work().await;
        let request = model.requests().pop().unwrap();
        assert_eq!(request.messages[0].text().contains("in the middle of it"), expected, "{who:?} {task}");
        assert_eq!(shown_in(&world.log(&run).await, &bridge), usize::from(expected), "{who:?} {task}");
    }
}

#[tokio::test]
async fn a_run_that_another_person_retries_is_given_nobodys_activity() {
    let model = Overheard::new("done");
    let mut world = Work::new();
    world.scripts.insert("scripted:overheard".to_owned(), model.clone());
    world.agent_with("aware", true).await;
    let (ann, bob) = (person(Role::Member, "ann"), person(Role::Owner, "bob"));
    for (who, slug) in [(&ann, "of-ann"), (&bob, "of-bob")] {
        works_on(&world.engine, who, slug).await;
    }
    let first = world.engine.trigger(&ann, "t-aware", None, None).await.unwrap().id;
    let request = ClaimRequest {
        worker: "fails".into(),
        session_types: Vec::new(),
        agent_slugs: Vec::new(),
        limit: 1,
        lease: Duration::from_secs(30),
        wait: Duration::ZERO,
    };
    let claimed = world.engine.claim(&world.owner, request, None).await.unwrap().pop().unwrap();
    let failure = Settle::Fail { error: "no ink".into(), retryable: false, reason: None, usage: None };
    world.engine.settle(&world.owner, &first, claimed.epoch, failure, None).await.unwrap();
    for (who, expected) in [(&bob, None), (&ann, Some("**Task of-ann**"))] {
        let run = world.engine.retry(who, &first, None).await.unwrap().id;
        world.work().await;
        assert_eq!(world.session(&run).await.head.status, Status::Completed);
        let request = model.requests().pop().unwrap();
        let text = request.messages[0].text();
        match expected {
            Some(expected) => assert!(text.contains(expected), "{text}"),
            None => assert!(!text.contains("recent-activity"), "{text}"),
        }
    }
}
