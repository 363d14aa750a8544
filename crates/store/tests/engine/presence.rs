//! Who is present is shown on every node within a second, stored nowhere, and ends with the right to be there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sederunt_core::engine::{Engine, LogStream, StreamItem, UserPatch};
use sederunt_core::json::Json;
use sederunt_core::presence::PresenceList;
use sederunt_core::session::SessionType;
use sederunt_core::session::decide::{OpenSession, PatchSession};
use sederunt_core::{Actor, Role, SessionId, limits};

use crate::harness::{World, wish};
use crate::on_both_stores;

on_both_stores!(
    a_person_is_shown_on_every_node_within_a_second,
    a_node_that_starts_later_shows_who_was_there,
    people_who_are_not_renewed_lapse_on_every_node,
    whoever_leaves_or_loses_access_is_gone_on_every_node,
    a_state_changes_once_a_second_and_the_last_word_counts,
    a_hundred_people_are_present_and_no_more,
    a_deleted_session_has_nobody,
);

/// How long a change may take to be shown elsewhere.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

fn id() -> SessionId {
    SessionId::stored("s")
}

async fn room(world: &World) -> [Arc<Actor>; 3] {
    let people =
        OpenSession { participants: vec!["ann".into(), "gus".into()], ..wish("s", SessionType::Mixed) };
    world.open(&world.owner(), people).await;
    [world.owner(), world.actor(Role::Member, "ann"), world.actor(Role::Guest, "gus")]
}

fn state(text: &str) -> Option<Json> {
    Some(Json::stored(text))
}

fn names(list: &PresenceList) -> Vec<&str> {
    list.people.iter().map(|one| one.person.as_ref().map_or("-", |user| user.as_str())).collect()
}

/// Polls until a node shows these people, in any order; how long that took.
async fn shows(engine: &Engine, actor: &Actor, expected: &[&str]) -> Duration {
    let start = Instant::now();
    loop {
        let list = engine.present(actor, &id()).await.unwrap();
        let mut shown = names(&list);
        shown.sort_unstable();
        if shown == expected {
            return start.elapsed();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{shown:?} instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn next_list(stream: &mut LogStream) -> Arc<PresenceList> {
    let next = async {
        loop {
            if let StreamItem::Presence(list) = stream.next().await.unwrap() {
                return list;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), next).await.expect("no list of people came")
}

async fn a_person_is_shown_on_every_node_within_a_second(world: &World) {
    let [owner, ann, gus] = room(world).await;
    let there = world.other_node().await;
    let mut stream = there.stream(owner.clone(), &id(), None).await.unwrap().with_presence().await.unwrap();
    assert!(next_list(&mut stream).await.people.is_empty(), "the list comes at once, also an empty one");
    let start = Instant::now();
    let mine = world.engine.attend(&ann, &id(), state(r#"{"cursor":1}"#)).await.unwrap();
    assert_eq!(names(&mine), ["ann"]);
    assert_eq!(names(&*next_list(&mut stream).await), ["ann"]);
    assert!(start.elapsed() < SHOWN_WITHIN, "{:?}", start.elapsed());
    there.attend(&gus, &id(), None).await.unwrap();
    assert!(shows(&world.engine, &gus, &["ann", "gus"]).await < SHOWN_WITHIN);
    let shown = next_list(&mut stream).await;
    assert_eq!(shown.people[0].state, state(r#"{"cursor":1}"#));
    assert_eq!(shown.people[0].since, mine.people[0].since);
    there.absent(&ann, &id()).await.unwrap();
    assert!(
        shows(&world.engine, &gus, &["gus"]).await < SHOWN_WITHIN,
        "left on the node where she never was"
    );
    let log = world.session("s").await.head.last_sequence;
    assert_eq!(log, 1, "presence is in no log");
}

async fn a_node_that_starts_later_shows_who_was_there(world: &World) {
    let [owner, ann, gus] = room(world).await;
    world.engine.attend(&ann, &id(), None).await.unwrap();
    world.engine.attend(&gus, &id(), state("{}")).await.unwrap();
    let late = world.other_node().await;
    assert!(shows(&late, &owner, &["ann", "gus"]).await < SHOWN_WITHIN);
    let mut stream = late.stream(owner, &id(), None).await.unwrap().with_presence().await.unwrap();
    assert!(
        matches!(stream.next().await.unwrap(), StreamItem::Presence(list) if list.people.len() == 2),
        "a new reader gets the list before the log"
    );
}

async fn people_who_are_not_renewed_lapse_on_every_node(world: &World) {
    let [owner, ann, gus] = room(world).await;
    let there = world.other_node().await;
    world.engine.attend(&ann, &id(), None).await.unwrap();
    world.engine.attend(&gus, &id(), None).await.unwrap();
    shows(&there, &owner, &["ann", "gus"]).await;
    let mut stream = there.stream(owner.clone(), &id(), None).await.unwrap().with_presence().await.unwrap();
    assert_eq!(names(&*next_list(&mut stream).await), ["ann", "gus"]);
    world.clock.advance(limits::PRESENCE_LIFE - Duration::from_secs(2));
    let renewed = world.engine.attend(&gus, &id(), None).await.unwrap();
    assert_eq!(names(&renewed), ["ann", "gus"]);
    world.clock.advance(Duration::from_secs(2));
    let start = Instant::now();
    assert_eq!(names(&*next_list(&mut stream).await), ["gus"], "told without a request to this node");
    assert!(start.elapsed() < SHOWN_WITHIN, "{:?}", start.elapsed());
    assert_eq!(names(&world.engine.present(&owner, &id()).await.unwrap()), ["gus"]);
    world.clock.advance(limits::PRESENCE_LIFE);
    assert!(next_list(&mut stream).await.people.is_empty());
}

async fn whoever_leaves_or_loses_access_is_gone_on_every_node(world: &World) {
    let [owner, ann, gus] = room(world).await;
    let there = world.other_node().await;
    world.engine.create_user(&owner, user("ann"), None).await.unwrap();
    let attend = async || {
        world.clock.advance(Duration::from_secs(2));
        for person in [&ann, &gus, &owner] {
            world.engine.attend(person, &id(), None).await.unwrap();
        }
        shows(&there, &owner, &["ann", "gus", "owner"]).await;
    };
    attend().await;
    there.leave(&gus, &id()).await.unwrap();
    for engine in [&there, &world.engine] {
        assert!(shows(engine, &owner, &["ann", "owner"]).await < SHOWN_WITHIN);
    }
    assert_eq!(world.engine.attend(&gus, &id(), None).await.unwrap_err().code(), "not_found");

    let nobody = PatchSession { participants: Some(Vec::new()), ..PatchSession::default() };
    there.patch(&owner, &id(), nobody, None).await.unwrap();
    assert!(shows(&world.engine, &owner, &["owner"]).await < SHOWN_WITHIN);

    let everybody =
        PatchSession { participants: Some(vec!["ann".into(), "gus".into()]), ..PatchSession::default() };
    world.engine.patch(&owner, &id(), everybody, None).await.unwrap();
    attend().await;
    let suspended = UserPatch { suspended: Some(true), ..UserPatch::default() };
    there.update_user(&owner, ann.user.as_ref().unwrap(), suspended).await.unwrap();
    assert!(shows(&world.engine, &owner, &["gus", "owner"]).await < SHOWN_WITHIN);
}

fn user(name: &str) -> sederunt_core::engine::NewUser {
    sederunt_core::engine::NewUser { id: Some(name.into()), ..Default::default() }
}

async fn a_state_changes_once_a_second_and_the_last_word_counts(world: &World) {
    let [owner, ann, _] = room(world).await;
    world.engine.attend(&ann, &id(), state(r#"{"n":1}"#)).await.unwrap();
    let refused = world.engine.attend(&ann, &id(), state(r#"{"n":2}"#)).await.unwrap_err();
    assert_eq!(refused.code(), "rate_limited");
    world.engine.attend(&ann, &id(), state(r#"{"n":1}"#)).await.unwrap();
    let there = world.other_node().await;
    shows(&there, &owner, &["ann"]).await;
    let refused = there.attend(&ann, &id(), state(r#"{"n":2}"#)).await.unwrap_err();
    assert_eq!(refused.code(), "rate_limited", "on every node");
    world.clock.advance(Duration::from_secs(1));
    there.attend(&ann, &id(), state(r#"{"n":3}"#)).await.unwrap();
    let start = Instant::now();
    while world.engine.present(&owner, &id()).await.unwrap().people[0].state != state(r#"{"n":3}"#) {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(start.elapsed() < SHOWN_WITHIN);
}

async fn a_hundred_people_are_present_and_no_more(world: &World) {
    room(world).await;
    for n in 0..limits::PRESENCE_SESSION_PEOPLE_MAX {
        let owner = world.actor(Role::Owner, &format!("o{n}"));
        world.engine.attend(&owner, &id(), None).await.unwrap();
    }
    let one_more = world.engine.attend(&world.owner(), &id(), None).await.unwrap_err();
    assert_eq!(one_more.code(), "quota_exceeded");
    let first = world.actor(Role::Owner, "o0");
    assert_eq!(world.engine.present(&first, &id()).await.unwrap().people.len(), 100);
    world.engine.absent(&first, &id()).await.unwrap();
    world.engine.attend(&world.owner(), &id(), None).await.unwrap();
}

async fn a_deleted_session_has_nobody(world: &World) {
    let [owner, ann, _] = room(world).await;
    let there = world.other_node().await;
    world.engine.attend(&ann, &id(), None).await.unwrap();
    shows(&there, &owner, &["ann"]).await;
    world.engine.delete(&owner, &id()).await.unwrap();
    assert_eq!(world.engine.present(&owner, &id()).await.unwrap_err().code(), "not_found");
    let again = room(world).await;
    for engine in [&world.engine, &there] {
        assert!(engine.present(&again[0], &id()).await.unwrap().people.is_empty());
    }
}
