//! Tasks: one session or a graph of them, under the contract that was frozen when they began; what owners and workers
//! do with them.

mod definitions;
mod grants;
mod graphs;
mod queue;
mod results;

use sederunt_core::definitions::{CriteriaSet, Entity, Task};
use sederunt_core::error::Error;
use sederunt_core::json::Json;
use sederunt_core::session::Session;
use sederunt_core::work::{ClaimedRun, Settle};
use sederunt_core::{Actor, strict};

use crate::harness::World;

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

pub async fn define_task(world: &World, text: &str) -> String {
    let task: Task = strict::read(json(text).as_str()).unwrap();
    world.engine.define(&world.owner(), None, task, None).await.unwrap().id.into()
}

pub async fn define_entity(world: &World, id: &str, fields: &str) {
    let entity = Entity { type_slug: "note".into(), title: None, fields: json(fields) };
    world.engine.define(&world.owner(), Some(id), entity, None).await.unwrap();
}

pub async fn define_criteria(world: &World) {
    let set: CriteriaSet = strict::read(
        json(
            r#"{"name":"care","dimensions":[{"slug":"tone","type":"select",
                "options":[{"value":"kind","score":1},{"value":"curt","score":0.5,"flag":true},{"value":"cruel"}],
                "option_styles":{"cruel":{"hard_block":true,"color":"red"}}}]}"#,
        )
        .as_str(),
    )
    .unwrap();
    world.engine.define(&world.owner(), Some("care"), set, None).await.unwrap();
}

pub async fn entity(world: &World, id: &str) -> String {
    let found = world.engine.definition::<Entity>(&world.owner(), id).await.unwrap();
    found.value.fields.as_str().to_owned()
}

pub async fn complete(
    world: &World,
    worker: &Actor,
    claim: &ClaimedRun,
    result: &str,
) -> Result<Session, Error> {
    let how = Settle::Complete { result: Some(json(result)), text: None, usage: None };
    world.engine.settle(worker, &claim.session.id, claim.epoch, how, None).await
}

pub async fn fail(world: &World, worker: &Actor, claim: &ClaimedRun) -> Session {
    let how = Settle::Fail { error: "it broke".into(), retryable: false, reason: None, usage: None };
    world.engine.settle(worker, &claim.session.id, claim.epoch, how, None).await.unwrap()
}

pub async fn trigger(world: &World, task: &str) -> Session {
    let session = world.engine.trigger(&world.owner(), task, None, None).await.unwrap();
    assert_eq!(world.session(session.id.as_str()).await, session, "what is told is what is kept");
    session
}

pub async fn take(world: &World, worker: &Actor) -> ClaimedRun {
    world.claim(worker).await.pop().expect("there is work")
}
