//! The human bridge: one running session of a person, in which only they record what they do.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::{Actor, ShareAccess};
use sederunt_core::activity::ActivitySettings;
use sederunt_core::engine::{
    Append, AppendResult, DraftEvent, Engine, HintStream, NewUser, Post, StartedBridge,
};
use sederunt_core::error::Result;
use sederunt_core::event::EventQuery;
use sederunt_core::live::Hint;
use sederunt_core::live::hints::HintBatch;
use sederunt_core::session::decide::PatchSession;
use sederunt_core::session::query::{SessionQuery, TypeFilter};
use sederunt_core::session::{Session, Status};
use sederunt_core::store::FailureQuery;
use sederunt_core::work::queue::Bucket;
use sederunt_core::{CredentialId, Role, SessionId, TenantId, UserId, limits};

use crate::harness::{World, hold, key};
use crate::on_both_stores;
use crate::tasks::{define_task, json};

on_both_stores!(
    a_start_opens_a_bridge_and_the_next_one_supersedes_it,
    starts_at_once_leave_one_bridge_running,
    a_repeated_start_is_answered_with_the_first_bridge,
    only_a_person_who_sees_an_active_task_works_on_it,
    a_bridge_records_its_holders_activity_and_nothing_else,
    an_entity_is_noted_once_and_excluded_paths_never,
    a_repeated_batch_is_answered_as_the_first,
    a_switch_moves_the_task_and_the_title_with_the_log,
    the_caller_without_authentication_is_one_person,
    a_bridge_ends_twelve_hours_after_its_start_whatever_is_recorded,
    a_person_forgets_their_own_bridges,
    two_people_who_become_one_have_one_bridge,
    a_bridge_is_nobodys_run,
    only_its_holder_reads_what_a_bridge_records,
    hints_of_what_is_recorded_reach_the_holder_alone,
);

const ENTITY: &str = "0190d3c0-0000-7000-8000-00000000000a";

fn code<T>(answer: Result<T>) -> &'static str {
    answer.map_or_else(|error| error.code(), |_| "ok")
}

pub async fn tasks(world: &World) {
    for (slug, name) in [("q2", "Q2 review"), ("q3", "Q3 planning")] {
        let text = format!(r#"{{"slug":"{slug}","name":"{name}","assigned_to":"ada"}}"#);
        define_task(world, &text).await;
    }
}

pub async fn start(world: &World, actor: &Actor, task: &str) -> StartedBridge {
    world.engine.start_bridge(actor, Some(task), None).await.unwrap()
}

pub fn human(kind: &str, metadata: &str) -> DraftEvent {
    DraftEvent { kind: format!("human.{kind}"), metadata: Some(json(metadata)), ..DraftEvent::default() }
}

pub fn visit(path: &str) -> DraftEvent {
    human("navigate", &format!(r#"{{"pathname":"{path}"}}"#))
}

pub fn view(entity: &str) -> DraftEvent {
    human(
        "entity_view",
        &format!(r#"{{"entityId":"{entity}","entityType":"note","pathname":"/entities/{entity}"}}"#),
    )
}

pub fn marker(text: &str) -> DraftEvent {
    DraftEvent {
        kind: "human.marker".into(),
        content: Some(json(&format!("\"{text}\""))),
        ..DraftEvent::default()
    }
}

pub async fn record(
    world: &World,
    actor: &Arc<Actor>,
    id: &SessionId,
    events: Vec<DraftEvent>,
) -> Result<AppendResult> {
    world.engine.append(actor, id, Append { events, ..Append::default() }, None).await
}

async fn bridges(world: &World) -> Vec<Session> {
    let query = SessionQuery {
        kind: Some("human-session-bridge".into()),
        inactive: Some(false),
        ..SessionQuery::of(TypeFilter::All, 1000)
    };
    world.engine.sessions(&world.owner(), query).await.unwrap().items
}

async fn a_start_opens_a_bridge_and_the_next_one_supersedes_it(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    assert!(world.engine.active_bridge(&ada).await.unwrap().is_none());
    let first = start(world, &ada, "q2").await;
    assert!(first.created);
    let Session { head, details, .. } = &first.session;
    assert_eq!((head.status, head.holder.as_ref().map(UserId::as_str)), (Status::Running, Some("ada")));
    assert_eq!(
        (details.title.as_deref(), &details.task_id),
        (Some("Q2 review"), &Some(first.task.id.clone()))
    );
    assert!(details.started_at.is_some());

    let again = start(world, &ada, &first.task.id).await;
    assert!(!again.created);
    assert_eq!((again.session.id, again.session.head.version), (first.session.id.clone(), head.version));

    let next = start(world, &ada, "q3").await;
    assert!(next.created);
    let former = world.session(first.session.id.as_str()).await;
    assert_eq!(former.head.status, Status::Completed);
    assert_eq!(former.details.end_reason.as_deref(), Some("superseded"));
    assert!(former.details.completed_at.is_some());
    let (active, task) = world.engine.active_bridge(&ada).await.unwrap().unwrap();
    assert_eq!((active.id, task.unwrap().id), (next.session.id.clone(), next.task.id));

    let stop = async |id: &SessionId| world.engine.stop_bridge(&ada, Some(id.as_str()), None).await;
    let stopped = stop(&next.session.id).await.unwrap();
    assert_eq!(stopped.head.status, Status::Completed);
    assert!(stopped.details.completed_at.is_some());
    assert_eq!(stop(&next.session.id).await.unwrap(), stopped, "again, and nothing moves");
    assert!(world.engine.active_bridge(&ada).await.unwrap().is_none());
    let owner = world.owner();
    for (who, id) in [(&owner, next.session.id.as_str()), (&ada, "nothing"), (&ada, "human")] {
        assert_eq!(code(world.engine.stop_bridge(who, Some(id), None).await), "not_found", "{id}");
    }
    assert_eq!(code(world.engine.stop_bridge(&ada, None, None).await), "invalid");
}

async fn starts_at_once_leave_one_bridge_running(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    let other = world.other_node().await;
    for _ in 0..20 {
        let (one, two) = tokio::join!(
            world.engine.start_bridge(&ada, Some("q2"), None),
            other.start_bridge(&ada, Some("q3"), None)
        );
        let ids = [one.unwrap().session.id, two.unwrap().session.id];
        let running: Vec<SessionId> = bridges(world)
            .await
            .into_iter()
            .filter(|session| session.head.status == Status::Running)
            .map(|session| session.id)
            .collect();
        assert_eq!(running.len(), 1);
        assert!(ids.contains(&running[0]));
        // And of the same task: both are answered with one bridge.
        world.engine.stop_bridge(&ada, Some(running[0].as_str()), None).await.unwrap();
        let (one, two) = tokio::join!(
            world.engine.start_bridge(&ada, Some("q2"), None),
            other.start_bridge(&ada, Some("q2"), None)
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.session.id, two.session.id);
        assert!(one.created != two.created);
    }
}

async fn a_repeated_start_is_answered_with_the_first_bridge(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    let first = world.engine.start_bridge(&ada, Some("q2"), key("start", 1)).await.unwrap();
    start(world, &ada, "q3").await;
    let again = world.engine.start_bridge(&ada, Some("q2"), key("start", 1)).await.unwrap();
    assert_eq!(again.session.id, first.session.id);
    assert_eq!(again.session.head.status, Status::Completed, "as it is now");
    assert_eq!(bridges(world).await.len(), 2);
}

async fn only_a_person_who_sees_an_active_task_works_on_it(world: &World) {
    tasks(world).await;
    let begin =
        async |actor: &Actor, task: &str| code(world.engine.start_bridge(actor, Some(task), None).await);
    let bob = world.actor(Role::Member, "bob");
    assert_eq!(begin(&bob, "q2").await, "not_found", "the task of others");
    assert_eq!(begin(&bob, "nothing").await, "not_found");
    assert_eq!(code(world.engine.start_bridge(&bob, None, None).await), "invalid");
    for role in [Role::Guest, Role::Worker, Role::Channel, Role::Share] {
        let who = Actor { role, ..(*world.actor(Role::Member, "ada")).clone() };
        assert_eq!(begin(&who, "q2").await, "denied", "{role:?}");
        assert_eq!(code(world.engine.active_bridge(&who).await), "denied", "{role:?}");
        assert_eq!(code(world.engine.stop_bridge(&who, Some("x"), None).await), "denied", "{role:?}");
        assert_eq!(code(world.engine.forget_bridges(&who, None).await), "denied", "{role:?}");
    }
    let nameless = Actor { user: None, ..(*world.owner()).clone() };
    assert_eq!(begin(&nameless, "q2").await, "denied", "a key without a user");
    let paused = r#"{"slug":"later","name":"Later","status":"paused","assigned_to":"ada"}"#;
    define_task(world, paused).await;
    assert_eq!(begin(&world.actor(Role::Member, "ada"), "later").await, "task_not_active");
    assert!(bridges(world).await.is_empty());
}

async fn a_bridge_records_its_holders_activity_and_nothing_else(world: &World) {
    tasks(world).await;
    let (ada, owner) = (world.actor(Role::Member, "ada"), world.owner());
    let bridge = start(world, &ada, "q2").await.session;
    let last = async || world.session(bridge.id.as_str()).await.head.last_sequence;
    let done = record(world, &ada, &bridge.id, vec![visit("/a?b=c"), marker("writing")]).await.unwrap();
    assert_eq!((done.events.len(), done.dropped, done.last_sequence), (2, Some(0), 3));
    let plain = |kind: &str| DraftEvent {
        kind: kind.into(),
        content: Some(json(r#""hi""#)),
        ..DraftEvent::default()
    };
    for kind in ["agent.message", "session.completed", "user.message", "external.event", "billing.charged"] {
        for events in [vec![plain(kind)], vec![marker("x"), plain(kind)], vec![plain(kind), visit("/")]] {
            assert_eq!(code(record(world, &ada, &bridge.id, events).await), "denied", "{kind}");
        }
        assert_eq!(code(record(world, &owner, &bridge.id, vec![plain(kind)]).await), "denied", "{kind}");
    }
    assert_eq!(code(record(world, &owner, &bridge.id, vec![marker("x")]).await), "denied");
    let bob = world.actor(Role::Member, "bob");
    assert_eq!(code(record(world, &bob, &bridge.id, vec![marker("x")]).await), "not_found");
    for bad in [
        plain("human.keypress"),
        human("navigate", r#"{"pathname":"/","title":"t"}"#),
        DraftEvent { subthread_id: Some("s".into()), ..visit("/") },
        DraftEvent { external_event_id: Some("e".into()), ..visit("/") },
        DraftEvent { content: Some(json(r#""x""#)), ..visit("/") },
    ] {
        assert_eq!(code(record(world, &ada, &bridge.id, vec![marker("x"), bad]).await), "invalid");
    }
    let many = |n| vec![marker("x"); n];
    let over = limits::BRIDGE_BATCH_EVENTS_MAX + 1;
    assert_eq!(code(record(world, &ada, &bridge.id, many(over)).await), "too_large");
    assert_eq!(last().await, 3, "nothing of these has landed");
    record(world, &ada, &bridge.id, many(over - 1)).await.unwrap();
    world.engine.stop_bridge(&ada, Some(bridge.id.as_str()), None).await.unwrap();
    assert_eq!(code(record(world, &ada, &bridge.id, vec![marker("x")]).await), "session_closed");
    let talk = world.talk("talk").await;
    assert_eq!(code(record(world, &owner, &talk.id, vec![marker("x")]).await), "denied", "no bridge");
}

async fn an_entity_is_noted_once_and_excluded_paths_never(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    let settings = ActivitySettings { exclude: vec!["/admin".into()], ..ActivitySettings::default() };
    let engine = world.engine.clone().with_activity(settings);
    let bridge = start(world, &ada, "q2").await.session;
    let record = async |events: Vec<DraftEvent>| {
        engine.append(&ada, &bridge.id, Append { events, ..Append::default() }, None).await.unwrap()
    };
    let first = record(vec![view(ENTITY), visit("/admin/keys"), view(ENTITY), visit("/chat")]).await;
    assert_eq!((first.events.len(), first.dropped, first.last_sequence), (2, Some(2), 3));
    let upper = record(vec![view(&ENTITY.to_uppercase())]).await;
    assert_eq!((upper.events.len(), upper.dropped, upper.last_sequence), (0, Some(1), 3));
    let hidden = record(vec![visit("/admin")]).await;
    assert_eq!((hidden.events.len(), hidden.dropped, hidden.last_sequence), (0, Some(1), 3));
    let next = start(world, &ada, "q3").await.session;
    let wish = Append { events: vec![view(ENTITY)], ..Append::default() };
    let anew = engine.append(&ada, &next.id, wish, None).await.unwrap();
    assert_eq!((anew.events.len(), anew.dropped), (1, Some(0)), "once in each bridge");
    for (who, expected) in [(world.actor(Role::Member, "bob"), "not_found"), (world.owner(), "denied")] {
        let wish = Append { events: vec![visit("/admin")], ..Append::default() };
        assert_eq!(
            code(engine.append(&who, &next.id, wish, None).await),
            expected,
            "also where nothing is kept"
        );
    }
}

async fn a_repeated_batch_is_answered_as_the_first(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    let bridge = start(world, &ada, "q2").await.session;
    record(world, &ada, &bridge.id, vec![view(ENTITY)]).await.unwrap();
    let (q2, q3) = (
        &bridge.details.task_id,
        define_task(world, r#"{"slug":"q4","name":"Q4","assigned_to":"ada"}"#).await,
    );
    let switch = format!(r#"{{"from_task_id":"{}","to_task_id":"{q3}"}}"#, q2.as_deref().unwrap());
    for (name, batch) in [
        ("a", vec![visit("/a"), view(ENTITY), marker("b"), view(ENTITY)]),
        ("b", vec![human("task_switch", &switch), visit("/c")]),
    ] {
        let send = async || {
            let wish = Append { events: batch.clone(), ..Append::default() };
            world.engine.append(&ada, &bridge.id, wish, key(name, 1)).await.unwrap()
        };
        let (first, again) = (send().await, send().await);
        let numbers =
            |done: &AppendResult| done.events.iter().map(|event| event.sequence).collect::<Vec<_>>();
        assert_eq!(numbers(&again), numbers(&first), "{name}");
        assert_eq!((again.dropped, again.last_sequence), (first.dropped, first.last_sequence), "{name}");
    }
}

async fn a_switch_moves_the_task_and_the_title_with_the_log(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    let started = start(world, &ada, "q2").await;
    let id = &started.session.id;
    let switch = |from: &str, to: &str| {
        vec![human("task_switch", &format!(r#"{{"fromTaskId":"{from}","toTaskId":"{to}"}}"#))]
    };
    let done = record(world, &ada, id, switch("q2", "q3")).await.unwrap();
    let metadata = done.events[0].metadata.as_ref().unwrap().value();
    assert_eq!(metadata["from_task_id"], *started.task.id);
    let moved = world.session(id.as_str()).await;
    assert_eq!(moved.details.title.as_deref(), Some("Q3 planning"));
    assert_eq!(moved.details.task_id.as_deref(), metadata["to_task_id"].as_str());
    assert_eq!(moved.head.deadline_at, started.session.head.deadline_at);
    for (from, to, expected) in
        [("q2", "q3", "stale_base"), ("nothing", "q3", "stale_base"), ("q3", "nothing", "not_found")]
    {
        assert_eq!(code(record(world, &ada, id, switch(from, to)).await), expected, "{from} {to}");
    }
    assert_eq!(code(record(world, &world.owner(), id, switch("q3", "q2")).await), "denied");
    let of_task = async |task: &str| {
        let query = SessionQuery { task_id: Some(task.to_owned()), ..SessionQuery::of(TypeFilter::All, 10) };
        world.store.sessions(&world.tenant, query).await.unwrap().items.len()
    };
    assert_eq!(
        (of_task(&started.task.id).await, of_task(moved.details.task_id.as_deref().unwrap()).await),
        (0, 1)
    );
    // There and back in one batch.
    let both = [switch("q3", "q2"), vec![visit("/")], switch("q2", "q3")].concat();
    assert_eq!(record(world, &ada, id, both).await.unwrap().events.len(), 3);
    assert_eq!(world.session(id.as_str()).await.details.title.as_deref(), Some("Q3 planning"));
}

async fn the_caller_without_authentication_is_one_person(world: &World) {
    let tenant = TenantId::stored("default");
    let local = Arc::new(Actor {
        user: None,
        tenant: tenant.clone(),
        ..Actor::local(sederunt_core::session::SourceKind::Api)
    });
    let operator = Arc::new(Actor { credential: CredentialId::stored("operator"), ..(*local).clone() });
    let task = sederunt_core::strict::read(r#"{"slug":"q2","name":"Q2"}"#).unwrap();
    world.engine.define::<sederunt_core::definitions::Task>(&local, None, task, None).await.unwrap();
    let bridge = start(world, &local, "q2").await.session;
    assert_eq!(bridge.head.holder, None);
    record(world, &local, &bridge.id, vec![marker("x"), view(ENTITY)]).await.unwrap();
    assert!(!start(world, &local, "q2").await.created);
    assert_eq!(code(world.engine.start_bridge(&operator, Some("q2"), None).await), "denied");
    assert_eq!(code(record(world, &operator, &bridge.id, vec![marker("x")]).await), "denied");
    let alone = ActivitySettings { one_person: true, ..ActivitySettings::default() };
    let engine = world.engine.clone().with_activity(alone);
    assert_eq!(engine.active_bridge(&operator).await.unwrap().unwrap().0.id, bridge.id);
    let wish = Append { events: vec![marker("y")], ..Append::default() };
    engine.append(&operator, &bridge.id, wish, None).await.unwrap();
    // A key without a user is not that person, nor is a user.
    let key = Arc::new(Actor { credential: CredentialId::stored("k"), ..(*local).clone() });
    let olga = Arc::new(Actor { user: Some(UserId::stored("olga")), ..(*key).clone() });
    for who in [&key, &olga] {
        let wish = Append { events: vec![marker("y")], ..Append::default() };
        assert_eq!(code(engine.append(who, &bridge.id, wish, None).await), "denied");
    }
    assert!(engine.active_bridge(&olga).await.unwrap().is_none());
    engine.stop_bridge(&local, Some(bridge.id.as_str()), None).await.unwrap();
}

async fn a_bridge_ends_twelve_hours_after_its_start_whatever_is_recorded(world: &World) {
    tasks(world).await;
    let ada = world.actor(Role::Member, "ada");
    let bridge = start(world, &ada, "q2").await.session;
    let minute = Duration::from_secs(60);
    world.clock.advance(limits::BRIDGE_DEADLINE - minute);
    record(world, &ada, &bridge.id, vec![marker("late")]).await.unwrap();
    assert_eq!(world.engine.sweep().await.unwrap().overdue, 0);
    world.clock.advance(minute * 2);
    assert_eq!(code(record(world, &ada, &bridge.id, vec![marker("too late")]).await), "session_closed");
    assert!(world.engine.active_bridge(&ada).await.unwrap().is_none());
    assert_eq!(world.engine.sweep().await.unwrap().overdue, 1);
    let ended = world.session(bridge.id.as_str()).await;
    assert_eq!(
        (ended.head.status, ended.details.end_reason.as_deref()),
        (Status::Abandoned, Some("deadline"))
    );
    // A start that comes before the sweep ends it likewise.
    let second = start(world, &ada, "q2").await.session;
    world.clock.advance(limits::BRIDGE_DEADLINE + minute);
    assert!(start(world, &ada, "q2").await.created);
    assert_eq!(world.session(second.id.as_str()).await.head.status, Status::Abandoned);
}

async fn a_person_forgets_their_own_bridges(world: &World) {
    tasks(world).await;
    let (ada, owner) = (world.actor(Role::Member, "ada"), world.owner());
    start(world, &owner, "q2").await;
    for _ in 0..3 {
        let bridge = start(world, &ada, "q2").await.session;
        record(world, &ada, &bridge.id, vec![marker("x")]).await.unwrap();
        world.engine.stop_bridge(&ada, Some(bridge.id.as_str()), None).await.unwrap();
        world.clock.advance(Duration::from_secs(60));
    }
    let third = bridges(world).await.into_iter().filter_map(|session| session.details.completed_at).max();
    start(world, &ada, "q3").await;
    assert_eq!(world.engine.forget_bridges(&ada, third).await.unwrap(), 2, "those that ended before");
    assert_eq!(bridges(world).await.len(), 3);
    assert_eq!(world.engine.forget_bridges(&ada, None).await.unwrap(), 2, "and the running one");
    assert!(world.engine.active_bridge(&ada).await.unwrap().is_none());
    let left = bridges(world).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].head.holder.as_ref().map(UserId::as_str), Some("owner"));
    assert_eq!(world.engine.forget_bridges(&ada, None).await.unwrap(), 0);
}

async fn two_people_who_become_one_have_one_bridge(world: &World) {
    for user in ["ada", "bea"] {
        let new = NewUser { id: Some(user.to_owned()), ..NewUser::default() };
        world.engine.create_user(&world.owner(), new, None).await.unwrap();
    }
    tasks(world).await;
    define_task(world, r#"{"slug":"hers","name":"Hers","assigned_to":"bea"}"#).await;
    let (ada, bea) = (world.actor(Role::Member, "ada"), world.actor(Role::Member, "bea"));
    let gives = start(world, &ada, "q2").await.session;
    let keeps = start(world, &bea, "hers").await.session;
    world
        .engine
        .merge_users(&world.owner(), &UserId::stored("ada"), &UserId::stored("bea"), None)
        .await
        .unwrap();
    let ended = world.session(gives.id.as_str()).await;
    assert_eq!((ended.head.status, ended.details.end_reason.as_deref()), (Status::Completed, Some("merged")));
    assert_eq!(ended.head.holder.as_ref().map(UserId::as_str), Some("bea"));
    assert_eq!(world.engine.active_bridge(&bea).await.unwrap().unwrap().0.id, keeps.id);
}

async fn a_bridge_is_nobodys_run(world: &World) {
    let (owner, ada, worker) = (world.owner(), world.actor(Role::Member, "ada"), world.worker("w"));
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ada"}"#).await;
    let counts = async || {
        let counts = world.engine.queue_counts(&ada, None).await.unwrap();
        (counts.needs_me, counts.running, counts.delegatable, counts.failed, counts.done_today)
    };
    assert_eq!(counts().await, (0, 0, 1, 0, 0));
    let bridge = start(world, &owner, "t").await.session;
    let id = &bridge.id;
    assert_eq!(counts().await, (0, 1, 1, 0, 0), "counted as running, and the task can still be given away");
    let running = world.engine.queue(&ada, Bucket::Running, None, None, 10).await.unwrap();
    assert!(running.items.is_empty(), "the row of another's bridge is for owners");
    assert_eq!(world.engine.queue(&owner, Bucket::Running, None, None, 10).await.unwrap().items.len(), 1);
    assert!(world.engine.task_standing(&owner, "t").await.unwrap().session.is_none());
    assert!(world.claim(&worker).await.is_empty());

    let patch = PatchSession { participants: Some(vec!["bob".into()]), ..PatchSession::default() };
    let hour = Duration::from_secs(3600);
    for (what, refused) in [
        ("fork", code(world.engine.fork(&owner, id, 1, None).await)),
        ("retry", code(world.engine.retry(&owner, id, None).await)),
        ("share", code(world.engine.share(&owner, id, ShareAccess::Read, hour, None).await)),
        ("participants", code(world.engine.patch(&owner, id, patch, None).await)),
        ("leave", code(world.engine.leave(&owner, id).await)),
        ("come back", code(world.engine.come_back(&owner, id, None).await)),
    ] {
        assert_eq!(refused, "type_mismatch", "{what}");
    }
    let message = world.engine.append_message(&owner, id, json(r#""hi""#), None).await;
    assert_eq!(code(message), "invalid");
    let post = world.engine.post(&owner, id, Post::text("hi").unwrap(), &hold("a"), None).await;
    assert_eq!(code(post), "invalid");

    world.engine.stop_bridge(&owner, Some(id.as_str()), None).await.unwrap();
    assert_eq!(counts().await, (0, 0, 1, 0, 0), "and it is not done work");
    start(world, &owner, "t").await;
    world.clock.advance(limits::BRIDGE_DEADLINE);
    world.engine.sweep().await.unwrap();
    assert_eq!(counts().await, (0, 0, 1, 0, 0), "nor failed work");
    let failures = FailureQuery { task_id: None, session: None, after: None, limit: 10 };
    assert!(world.store.failures(&world.tenant, failures).await.unwrap().items.is_empty());
    // Work that was done is counted; responses and tools are not.
    world.engine.trigger(&ada, "t", None, None).await.unwrap();
    assert_eq!(counts().await, (0, 1, 0, 0, 0));
}

async fn only_its_holder_reads_what_a_bridge_records(world: &World) {
    tasks(world).await;
    let (owner, ada) = (world.owner(), world.actor(Role::Member, "ada"));
    let bridge = start(world, &ada, "q2").await.session;
    record(world, &ada, &bridge.id, vec![marker("private")]).await.unwrap();
    let id = &bridge.id;
    let readings = async |engine: &Engine, who: &Arc<Actor>| {
        vec![
            code(engine.read(who, id, EventQuery::default()).await),
            code(engine.read(who, id, EventQuery { after: 99, ..EventQuery::default() }).await),
            code(
                engine.read(who, id, EventQuery { types: vec!["a.b".into()], ..EventQuery::default() }).await,
            ),
            code(engine.stream(who.clone(), id, None).await),
            code(engine.state(who, id).await),
            code(engine.export(who, id).await),
            code(engine.standing(who, id).await),
            code(engine.state_at(who, id, 1).await),
            code(engine.history(who, id, 10).await),
        ]
    };
    assert_eq!(readings(&world.engine, &ada).await, ["ok"; 9]);
    assert_eq!(readings(&world.engine, &owner).await, ["denied"; 9]);
    let open = ActivitySettings { owners_read: true, ..ActivitySettings::default() };
    assert_eq!(readings(&world.engine.clone().with_activity(open.clone()), &owner).await, ["ok"; 9]);
    let bob = world.actor(Role::Member, "bob");
    let stranger = readings(&world.engine.clone().with_activity(open), &bob).await;
    assert_eq!(stranger[..8], ["not_found"; 8]);
    let row = world.engine.session(&owner, id).await.unwrap();
    assert_eq!((row.head.preview, row.details.description), (None, None), "owners see the row");
    assert_eq!(bridges(world).await.len(), 1);
    world.engine.index_now().await.unwrap();
    assert!(world.engine.search(&owner, "private", None, 10).await.unwrap().items.is_empty());
    // A stream that is open when the setting is gone ends with the next check.
    let stream = world.engine.stream(ada.clone(), id, None).await.unwrap();
    stream.recheck().await.unwrap();
}

async fn hints_of_what_is_recorded_reach_the_holder_alone(world: &World) {
    tasks(world).await;
    let (owner, ada) = (world.owner(), world.actor(Role::Member, "ada"));
    let hers = start(world, &ada, "q2").await.session;
    let own = start(world, &owner, "q3").await.session;
    let elsewhere = world.other_node().await;
    let mut streams = Vec::new();
    for engine in [&world.engine, &elsewhere] {
        streams.push((engine.hints(&owner, None).unwrap(), engine.hints(&ada, None).unwrap()));
    }
    record(world, &ada, &hers.id, vec![marker("x")]).await.unwrap();
    record(world, &owner, &own.id, vec![marker("y")]).await.unwrap();
    // A change of the row is a hint for everybody who sees it, also with events behind it.
    let title = PatchSession { title: Some(Some("Renamed".into())), ..PatchSession::default() };
    let talk = world.talk("talk").await;
    world.engine.patch(&ada, &hers.id, title, None).await.unwrap();
    record(world, &ada, &hers.id, vec![marker("z")]).await.unwrap();
    for (of_owner, of_ada) in &mut streams {
        let told = until_hint(of_owner, &talk.id).await;
        let about = |id: &SessionId| told.iter().filter(|hint| hint.session == *id).collect::<Vec<_>>();
        assert!(about(&own.id).iter().any(|hint| hint.is_activity), "the owner's own");
        assert!(about(&hers.id).iter().all(|hint| !hint.is_activity), "{told:?}");
        loop {
            let HintBatch::Hints(hints, _) = next_hints(of_ada).await else { continue };
            assert!(hints.iter().all(|hint| hint.session == hers.id), "{hints:?}");
            if hints.iter().any(|hint| hint.last_sequence >= 2) {
                break;
            }
        }
    }
}

async fn next_hints(stream: &mut HintStream) -> HintBatch {
    tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("a hint comes")
}

/// Reads hints until one of this session comes, and a little longer.
async fn until_hint(stream: &mut HintStream, id: &SessionId) -> Vec<Hint> {
    let mut told = Vec::new();
    while !told.iter().any(|hint: &Hint| hint.session == *id) {
        if let HintBatch::Hints(hints, _) = next_hints(stream).await {
            told.extend(hints);
        }
    }
    while let Ok(HintBatch::Hints(hints, _)) =
        tokio::time::timeout(Duration::from_millis(300), stream.next()).await
    {
        told.extend(hints);
    }
    told
}
