//! The status of an entity's fields and blocks, by the newest sessions that work on it.

use std::collections::BTreeMap;

use sederunt_core::response::{ResponseRow, ResponseState};
use sederunt_core::session::block::{BlockStatus, TaskStatusMap};
use sederunt_core::session::decide::{self, OpenSession};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::store::{Change, ChangePart, Guard, PartTarget, Record};
use sederunt_core::view::Respondent;
use sederunt_core::{Role, SessionId, Timestamp, limits};
use smallvec::smallvec;

use crate::harness::{World, wish};
use crate::on_both_stores;
use crate::tasks::{define_entity, define_task, fail, json, take, trigger};

on_both_stores!(
    the_newest_session_on_a_field_or_a_block_tells_its_status,
    a_bridge_and_sessions_past_the_newest_hundred_do_not_count,
    a_response_works_on_the_fields_of_its_form,
    a_member_is_told_of_sessions_that_the_member_may_see,
);

async fn map(world: &World, role: Role, name: &str) -> TaskStatusMap {
    world.engine.entity_status_map(&world.actor(role, name), "e1").await.unwrap()
}

fn named(each: &BTreeMap<String, BlockStatus>) -> String {
    each.iter().map(|(name, status)| format!("{name}={}", status.as_str())).collect::<Vec<_>>().join(" ")
}

async fn block(world: &World, id: &str, block: &str, status: Status) {
    let wish = OpenSession {
        entity_id: Some("e1".into()),
        metadata: Some(json(&format!(r#"{{"block_id":"{block}"}}"#))),
        status: Some(status),
        ..wish(id, SessionType::Agent)
    };
    world.open(&world.owner(), wish).await;
}

async fn the_newest_session_on_a_field_or_a_block_tells_its_status(world: &World) {
    let missing = world.engine.entity_status_map(&world.owner(), "e1").await.unwrap_err();
    assert_eq!(missing.code(), "not_found");
    define_entity(world, "e1", "{}").await;
    define_entity(world, "e2", "{}").await;
    assert_eq!(map(world, Role::Owner, "owner").await, TaskStatusMap::default());

    define_task(
        world,
        r#"{"slug":"names","name":"N","agent_slug":"eliza","entity_id":"e1",
        "output":{"type":"entity","fields":["price","name"]}}"#,
    )
    .await;
    define_task(
        world,
        r#"{"slug":"paths","name":"P","agent_slug":"eliza","entity_id":"e1",
        "output":{"type":"entity","fields":{"price":"/total","tax":"/vat"}}}"#,
    )
    .await;
    define_task(
        world,
        r#"{"slug":"schema","name":"S","agent_slug":"eliza","entity_id":"e1",
        "output":{"type":"entity","schema":{"type":"object","properties":{"color":{"type":"string"}}}}}"#,
    )
    .await;
    define_task(
        world,
        r#"{"slug":"other","name":"O","agent_slug":"eliza","entity_id":"e2",
        "output":{"type":"entity","fields":["weight"]}}"#,
    )
    .await;
    let minute = std::time::Duration::from_secs(60);
    trigger(world, "names").await;
    let worker = world.worker("w");
    let claim = take(world, &worker).await;
    fail(world, &worker, &claim).await;
    world.clock.advance(minute);
    trigger(world, "paths").await;
    take(world, &worker).await;
    world.clock.advance(minute);
    for task in ["schema", "other"] {
        trigger(world, task).await;
    }
    block(world, "one", "pricing", Status::Draft).await;
    let map = map(world, Role::Owner, "owner").await;
    assert_eq!(named(&map.by_field), "color=pending name=failed price=in-progress tax=in-progress");
    assert_eq!(named(&map.by_block), "pricing=pending");
}

async fn a_bridge_and_sessions_past_the_newest_hundred_do_not_count(world: &World) {
    define_entity(world, "e1", "{}").await;
    block(world, "oldest", "past", Status::Draft).await;
    world.clock.advance(std::time::Duration::from_secs(60));
    let bridge = OpenSession {
        entity_id: Some("e1".into()),
        metadata: Some(json(r#"{"block_id":"bridge"}"#)),
        ..wish("bridge", SessionType::Mixed)
    };
    let owner = world.owner();
    let id = SessionId::stored("bridge");
    let mut new = decide::open(&owner, id, bridge, &sederunt_core::ids::RandomIds).unwrap();
    (new.head.is_bridge, new.head.status) = (true, Status::Running);
    let part =
        ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
    world.store.commit(Change::new(world.tenant.clone()).part(part)).await.unwrap();
    assert_eq!(named(&map(world, Role::Owner, "owner").await.by_block), "past=pending");
    // With the bridge these are as many as are looked at.
    for n in 2..limits::STATUS_MAP_SESSIONS_MAX {
        block(world, &format!("s{n}"), "many", Status::Draft).await;
    }
    assert_eq!(named(&map(world, Role::Owner, "owner").await.by_block), "many=pending past=pending");
    block(world, "one more", "many", Status::Draft).await;
    assert_eq!(named(&map(world, Role::Owner, "owner").await.by_block), "many=pending");
}

async fn a_response_works_on_the_fields_of_its_form(world: &World) {
    define_entity(world, "e1", "{}").await;
    let owner = world.owner();
    let wish = OpenSession { entity_id: Some("e1".into()), ..wish("answer", SessionType::Response) };
    let id = SessionId::stored("answer");
    let new = decide::open(&owner, id.clone(), wish, &sederunt_core::ids::RandomIds).unwrap();
    let part =
        ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
    let form = json(
        r#"{"title":"T","questions":[{"key":"a","label":"A"}],"response":{"fields":{"a":"price"}},
            "gate":"none","view_version":1,"entity_id":"e1"}"#,
    );
    let row = ResponseRow {
        session: id,
        view_id: "v".into(),
        respondent: Respondent::cookie("c".into()),
        respondent_name: "view:c".into(),
        ordinal: 1,
        is_anonymous: true,
        once: true,
        state: ResponseState::Open,
        saved_at: Timestamp::default(),
        form: form.read().unwrap(),
    };
    let change = Change::new(world.tenant.clone()).part(part).record(Record::AddResponse(Box::new(row)));
    world.store.commit(change).await.unwrap();
    assert_eq!(named(&map(world, Role::Owner, "owner").await.by_field), "price=pending");
}

async fn a_member_is_told_of_sessions_that_the_member_may_see(world: &World) {
    define_entity(world, "e1", "{}").await;
    block(world, "of the owner", "secret", Status::Draft).await;
    let wish = OpenSession {
        entity_id: Some("e1".into()),
        metadata: Some(json(r#"{"block_id":"mine"}"#)),
        ..wish("of ann", SessionType::Agent)
    };
    world.open(&world.actor(Role::Member, "ann"), wish).await;
    assert_eq!(named(&map(world, Role::Member, "ann").await.by_block), "mine=pending");
    let guest = world.actor(Role::Guest, "gus");
    assert_eq!(world.engine.entity_status_map(&guest, "e1").await.unwrap_err().code(), "denied");
}
