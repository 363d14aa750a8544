//! Tasks as they are defined: what they may name, who may change them, and what a bundle carries of them.

use sederunt_core::definitions::{Agent, Bundle, Task};
use sederunt_core::engine::DefinitionFilters;
use sederunt_core::error::Error;
use sederunt_core::session::Status;
use sederunt_core::{Actor, Role, strict};

use super::{define_criteria, define_entity, define_task, json, trigger};
use crate::harness::World;
use crate::on_both_stores;

on_both_stores!(
    only_active_tasks_are_started,
    a_task_names_only_what_is_there,
    a_slug_belongs_to_one_task,
    members_start_and_change_their_own_tasks_and_loosen_nothing,
    a_bundle_carries_every_field,
);

async fn only_active_tasks_are_started(world: &World) {
    let task = define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#).await;
    for status in ["paused", "done", "archived"] {
        let patch = json(&format!(r#"{{"status":"{status}"}}"#));
        world.engine.redefine::<Task>(&world.owner(), &task, &patch, None).await.unwrap();
        let refused = world.engine.trigger(&world.owner(), &task, None, None).await.unwrap_err();
        assert_eq!(refused.code(), "task_not_active", "{status}");
    }
    world
        .engine
        .redefine::<Task>(&world.owner(), &task, &json(r#"{"status":"active"}"#), None)
        .await
        .unwrap();
    assert_eq!(trigger(world, &task).await.head.status, Status::Pending);
}

async fn a_task_names_only_what_is_there(world: &World) {
    for (text, field) in [
        (r#"{"slug":"t","name":"T","agent_slug":"nobody"}"#, "agent_slug"),
        (r#"{"slug":"t","name":"T","steps":[{"key":"a","agent_slug":"nobody"}]}"#, "agent_slug"),
        (r#"{"slug":"t","name":"T","entity_id":"none"}"#, "entity_id"),
        (r#"{"slug":"t","name":"T","criteria_set_ids":["none"]}"#, "criteria_set_ids"),
    ] {
        let task: Task = strict::read(json(text).as_str()).unwrap();
        match world.engine.define(&world.owner(), None, task, None).await {
            Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field),
            other => panic!("{text}: {other:?}"),
        }
    }
    let none = world
        .engine
        .definitions::<Task>(&world.owner(), DefinitionFilters::default(), None, 10)
        .await
        .unwrap();
    assert!(none.items.is_empty());
}

async fn a_slug_belongs_to_one_task(world: &World) {
    let text = r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#;
    define_task(world, text).await;
    let again: Task = strict::read(text).unwrap();
    let refused = world.engine.define(&world.owner(), None, again, None).await.unwrap_err();
    assert_eq!(refused.code(), "already_exists");
}

async fn members_start_and_change_their_own_tasks_and_loosen_nothing(world: &World) {
    let (ada, bob) = (world.actor(Role::Member, "ada"), world.actor(Role::Member, "bob"));
    let text = r#"{"slug":"t","name":"T","agent_slug":"eliza","requires_approval":true}"#;
    let task: Task = strict::read(text).unwrap();
    let task = world.engine.define(&ada, None, task, None).await.unwrap();
    assert_eq!(task.created_by, ada.user);
    let patch = |text: &str| json(text);
    let change = async |actor: &Actor, text: &str| {
        world.engine.redefine::<Task>(actor, &task.id, &patch(text), None).await.map(|task| task.version)
    };
    assert_eq!(change(&ada, r#"{"name":"Better"}"#).await.unwrap(), 2);
    assert_eq!(change(&ada, r#"{"requires_approval":false}"#).await.unwrap_err().code(), "denied");
    assert_eq!(change(&bob, r#"{"name":"Mine"}"#).await.unwrap_err().code(), "not_found");
    assert_eq!(change(&world.owner(), r#"{"requires_approval":false}"#).await.unwrap(), 3);
    assert!(world.engine.trigger(&ada, "t", None, None).await.is_ok());
    assert_eq!(world.engine.trigger(&bob, "t", None, None).await.unwrap_err().code(), "not_found");
    change(&world.owner(), r#"{"assigned_to":"bob"}"#).await.unwrap();
    let session = world.engine.trigger(&bob, "t", None, None).await.unwrap();
    assert!(world.engine.session(&ada, &session.id).await.is_ok(), "who made the task sees its runs");
    for role in [Role::Guest, Role::Worker, Role::Channel] {
        let other = world.actor(role, "x");
        assert!(world.engine.trigger(&other, "t", None, None).await.is_err(), "{role:?}");
    }
}

async fn a_bundle_carries_every_field(world: &World) {
    define_criteria(world).await;
    define_entity(world, "e1", r#"{"a":1.50}"#).await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1","criteria_set_ids":["care"],
            "approval":{"expires_in_s":60,"on_expiry":"deny"},"limits":{"tokens":5},"priority":-3,
            "steps":[{"key":"a","agent_slug":"eliza","input":{"x":[1]},"output":{"type":"text"}}],
            "on_child_failure":"continue","requires_approval":true,"description":"D","assigned_to":"ada"}"#,
    )
    .await;
    let agent: Agent = strict::read(
        json(
            r#"{"slug":"w","name":"W","model":"eliza","instructions":"I","limits":{"concurrency":2},"tools":[
                {"type":"http","name":"look_up","url":"https://example.org/x","schema":{"type":"object"},
                 "headers":{"X-Key":"secret:k"},"requires_confirmation":true},
                {"type":"mcp","server":"files","allow":["read"]},{"type":"builtin","name":"request_input"}]}"#,
        )
        .as_str(),
    )
    .unwrap();
    world.engine.define(&world.owner(), None, agent, None).await.unwrap();
    let bundle = world.engine.bundle(&world.owner()).await.unwrap();
    assert_eq!(bundle.len(), 4);
    let text = serde_json::to_string(&bundle).unwrap();
    assert!(text.contains(r#""hard_block":true,"color":"red""#), "{text}");
    let read: Bundle = serde_json::from_str(&text).unwrap();
    assert_eq!(read, bundle);
    // Into a tenant that has nothing yet, and there again.
    let elsewhere = world.other_tenant().await;
    assert_eq!(world.engine.import(&elsewhere, read.clone(), None).await.unwrap(), 4);
    assert_eq!(world.engine.bundle(&elsewhere).await.unwrap(), bundle);
    assert_eq!(world.engine.import(&elsewhere, read, None).await.unwrap(), 4);
    let task = world.engine.definition::<Task>(&elsewhere, "t").await.unwrap();
    assert_eq!(task.version, 1, "what is the same is left alone");
    // Whole or not at all.
    let mut broken = bundle.clone();
    broken.entities[0].value.type_slug = "other".into();
    broken.tasks[0].value.agent_slug = Some("nobody".into());
    assert!(world.engine.import(&elsewhere, broken, None).await.is_err());
    assert_eq!(world.engine.bundle(&elsewhere).await.unwrap(), bundle);
    let member = world.actor(Role::Member, "ada");
    assert_eq!(world.engine.bundle(&member).await.unwrap_err().code(), "denied");
}
