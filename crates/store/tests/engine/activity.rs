//! The human bridge: one running session of a person, in which only they record what they do.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::Actor;
use sederunt_core::activity::ActivitySettings;
use sederunt_core::engine::{Append, AppendResult, DraftEvent, NewUser, StartedBridge};
use sederunt_core::error::Result;
use sederunt_core::session::query::{SessionQuery, TypeFilter};
use sederunt_core::session::{Session, Status};
use sederunt_core::{CredentialId, Role, SessionId, TenantId, UserId, limits};

use crate::harness::{World, key};
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
