//! Which entities a task and its runs may write: what an owner has granted, and nothing else.

use sederunt_core::definitions::bundle::NamedDefinition;
use sederunt_core::definitions::{Bundle, Entity, Task};
use sederunt_core::engine::DefinitionFilters;
use sederunt_core::engine::{NewKey, NewUser, UserPatch};
use sederunt_core::error::{Error, Result};
use sederunt_core::session::Status;
use sederunt_core::work::write_grant::WriteGrant;
use sederunt_core::{Actor, Role, UserId, strict};

use super::{complete, define_entity, define_task, entity, fail, json, take};
use crate::harness::World;
use crate::on_both_stores;

on_both_stores!(
    a_member_writes_no_entity_by_a_task_of_its_own,
    a_member_stays_within_the_grant_of_its_task,
    a_list_of_entities_changes_only_what_the_run_was_given,
    the_grant_of_a_run_is_that_of_its_start_and_of_its_retries,
    a_task_without_a_grant_has_the_right_of_its_maker,
    an_imported_task_is_granted_what_it_needs,
);

/// Every way to write entities, about `price`, for a person and for an agent.
const WRITING: [&str; 4] = [
    r#""output":{"type":"entity"}"#,
    r#""output":{"type":"entities","entity_type":"note"}"#,
    r#""output":{"type":"relation-entity","entity_type":"note","relation":"notes"}"#,
    r#""steps":[{"key":"a","assigned_to":"mallory","output":{"type":"entity"}}]"#,
];

fn task(slug: &str, more: &str) -> Task {
    strict::read(json(&format!(r#"{{"slug":"{slug}","name":"T",{more}}}"#)).as_str()).unwrap()
}

fn code<T>(answer: Result<T>) -> &'static str {
    answer.map_or_else(|error| error.code(), |_| "ok")
}

async fn a_member_writes_no_entity_by_a_task_of_its_own(world: &World) {
    let mallory = world.actor(Role::Member, "mallory");
    define_entity(world, "price", r#"{"eur":100}"#).await;
    let plain = task("plain", r#""assigned_to":"mallory","entity_id":"price""#);
    let plain = world.engine.define(&mallory, None, plain, None).await.unwrap();
    for (n, output) in WRITING.iter().enumerate() {
        let wish =
            task(&format!("m{n}"), &format!(r#""assigned_to":"mallory","entity_id":"price",{output}"#));
        assert_eq!(code(world.engine.define(&mallory, None, wish.clone(), None).await), "denied", "{output}");
        let patch = json(&format!("{{{output}}}"));
        let patched = world.engine.redefine::<Task>(&mallory, &plain.id, &patch, None).await;
        assert_eq!(code(patched), "denied", "{output}");
        let bundle = Bundle {
            version: 1,
            tasks: vec![NamedDefinition { id: format!("m{n}"), value: wish }],
            ..Bundle::default()
        };
        assert_eq!(code(world.engine.import(&mallory, bundle, None).await), "denied", "{output}");
    }
    let wish = task("w", r#""writes":{"ids":["price"]}"#);
    assert_eq!(code(world.engine.define(&mallory, None, wish, None).await), "denied");
    let grants = json(r#"{"writes":{"ids":["price"]}}"#);
    assert_eq!(code(world.engine.redefine::<Task>(&mallory, &plain.id, &grants, None).await), "denied");
    let run = world.engine.trigger(&mallory, "plain", None, None).await.unwrap();
    let result = Some(json(r#"{"eur":1}"#));
    world.engine.human_complete(&mallory, &run.id, result, None, None).await.unwrap();
    assert_eq!(entity(world, "price").await, r#"{"eur":100}"#);
}

async fn a_member_stays_within_the_grant_of_its_task(world: &World) {
    let ada = world.actor(Role::Member, "ada");
    for id in ["mine", "other", "price"] {
        define_entity(world, id, "{}").await;
    }
    let made = world.engine.define(&ada, None, task("t", r#""assigned_to":"ada""#), None).await.unwrap();
    let change = async |actor: &Actor, text: &str| {
        code(world.engine.redefine::<Task>(actor, &made.id, &json(text), None).await)
    };
    assert_eq!(change(&world.owner(), r#"{"writes":{"ids":["mine","other"]}}"#).await, "ok");
    assert_eq!(change(&ada, r#"{"entity_id":"mine","output":{"type":"entity"}}"#).await, "ok");
    assert_eq!(change(&ada, r#"{"entity_id":"other"}"#).await, "ok");
    for widening in [
        r#"{"entity_id":"price"}"#,
        r#"{"entity_id":null,"output":{"type":"entity","entity_type":"note"}}"#,
        r#"{"assigned_to":"eve"}"#,
        r#"{"agent_slug":"eliza"}"#,
        r#"{"writes":{"ids":["other","price"]}}"#,
        r#"{"writes":null}"#,
        r#"{"steps":[{"key":"a","assigned_to":"eve","output":{"type":"entity"}}]}"#,
    ] {
        assert_eq!(change(&ada, widening).await, "denied", "{widening}");
    }
    let too_narrow = change(&world.owner(), r#"{"writes":{"ids":["mine"]}}"#).await;
    assert_eq!(too_narrow, "invalid", "a grant covers what its task writes");
    let run = world.engine.trigger(&ada, "t", None, None).await.unwrap();
    let done =
        world.engine.human_complete(&ada, &run.id, Some(json(r#"{"n":1}"#)), None, None).await.unwrap();
    assert_eq!(done.head.status, Status::Completed);
    assert_eq!((&*entity(world, "other").await, &*entity(world, "price").await), (r#"{"n":1}"#, "{}"));
}

async fn a_list_of_entities_changes_only_what_the_run_was_given(world: &World) {
    let worker = world.worker("w");
    for id in ["given", "named", "foreign"] {
        define_entity(world, id, "{}").await;
    }
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ada",
            "output":{"type":"entities","entity_type":"note"},"writes":{"types":["note"],"ids":["given"]}}"#,
    )
    .await;
    let input = Some(json(r#"{"entity_ids":["named"]}"#));
    let fine = r#"[{"id":"given","n":1},{"n":2},{"id":"new","n":3}]"#;
    for (n, (actor, result, ends)) in [
        (world.owner(), r#"[{"id":"given","n":1},{"id":"named","n":1},{"id":"fresh"}]"#, Status::Completed),
        (world.actor(Role::Member, "ada"), fine, Status::Completed),
        (world.actor(Role::Member, "ada"), r#"[{"id":"named","n":9},{"n":9}]"#, Status::Failed),
        (world.owner(), r#"[{"n":9},{"id":"foreign","n":9}]"#, Status::Failed),
    ]
    .into_iter()
    .enumerate()
    {
        world.engine.trigger(&actor, "t", input.clone(), None).await.unwrap();
        let claim = take(world, &worker).await;
        if ends == Status::Failed {
            match complete(world, &worker, &claim, result).await {
                Err(Error::OutputInvalid { complaints }) => {
                    assert!(complaints[0].contains("was not given to this run"), "{complaints:?}");
                }
                other => panic!("{n}: {other:?}"),
            }
        }
        let done = complete(world, &worker, &claim, result).await.unwrap();
        assert_eq!(done.head.status, ends, "{n}");
        let reason = (ends == Status::Failed).then_some("output_invalid");
        assert_eq!(done.details.end_reason.as_deref(), reason, "{n}");
    }
    let all = world
        .engine
        .definitions::<Entity>(&world.owner(), DefinitionFilters::default(), None, 100)
        .await
        .unwrap();
    assert!(all.items.iter().all(|one| !one.value.fields.as_str().contains('9')), "{all:?}");
}

async fn the_grant_of_a_run_is_that_of_its_start_and_of_its_retries(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    define_entity(world, "e1", "{}").await;
    define_entity(world, "e2", "{}").await;
    let text =
        r#""agent_slug":"eliza","assigned_to":"ada","output":{"type":"entities","entity_type":"note"}"#;
    let named = format!(r#"{text},"writes":{{"types":["note"],"ids":["e1"]}}"#);
    let made = world.engine.define(&world.owner(), None, task("t", &named), None).await.unwrap();
    world.engine.trigger(&ada, "t", None, None).await.unwrap();
    let first = take(world, &worker).await;
    let wider = json(r#"{"writes":{"types":["note"],"ids":["e2"]}}"#);
    world.engine.redefine::<Task>(&world.owner(), &made.id, &wider, None).await.unwrap();
    let failed = fail(world, &worker, &first).await;
    world.engine.retry(&ada, &failed.id, None).await.unwrap();
    let again = take(world, &worker).await;
    let refused = complete(world, &worker, &again, r#"[{"id":"e2","n":1}]"#).await;
    assert_eq!(code(refused), "output_invalid");
    complete(world, &worker, &again, r#"[{"id":"e1","n":1}]"#).await.unwrap();
    assert_eq!((&*entity(world, "e1").await, &*entity(world, "e2").await), (r#"{"n":1}"#, "{}"));
}

async fn a_task_without_a_grant_has_the_right_of_its_maker(world: &World) {
    let (owner, ada) = (world.owner(), world.actor(Role::Member, "ada"));
    define_entity(world, "e1", "{}").await;
    let text = r#""assigned_to":"ada","entity_id":"e1","output":{"type":"entity"}"#;
    let made = world.engine.define(&owner, None, task("t", text), None).await.unwrap();
    assert_eq!(made.value.writes, Some(WriteGrant { types: Vec::new(), ids: vec!["e1".into()] }));
    // As a task from before there were grants is kept.
    let bare = json(r#"{"writes":null}"#);
    let bare = world.engine.redefine::<Task>(&owner, "t", &bare, None).await.unwrap();
    assert_eq!(bare.value.writes, None);
    let start = async |actor: &Actor| code(world.engine.trigger(actor, "t", None, None).await);
    assert_eq!(start(&ada).await, "denied", "nobody knows that its maker is an owner");
    assert_eq!(start(&owner).await, "ok");
    let key = NewKey { role: Some(Role::Owner), user: Some("owner".into()), ..NewKey::default() };
    let key = world.engine.create_key(&owner, key, None).await.unwrap();
    assert_eq!(start(&ada).await, "ok", "its maker has an owner's key");
    world.engine.revoke_key(&owner, &key.key.id).await.unwrap();
    assert_eq!(start(&ada).await, "denied");
    let user = NewUser { id: Some("owner".into()), role: Some(Role::Owner), ..NewUser::default() };
    world.engine.create_user(&owner, user, None).await.unwrap();
    assert_eq!(start(&ada).await, "ok");
    let run = world.engine.trigger(&ada, "t", None, None).await.unwrap();
    let patch = UserPatch { role: Some(Role::Member), ..UserPatch::default() };
    world.engine.update_user(&owner, &UserId::stored("owner"), patch).await.unwrap();
    assert_eq!(start(&ada).await, "denied", "its maker is no owner any more");
    world.engine.human_complete(&ada, &run.id, Some(json(r#"{"n":1}"#)), None, None).await.unwrap();
    assert_eq!(entity(world, "e1").await, r#"{"n":1}"#, "what was started goes on");
}

async fn an_imported_task_is_granted_what_it_needs(world: &World) {
    define_entity(world, "e1", "{}").await;
    let value = task("t", r#""assigned_to":"ada","entity_id":"e1","output":{"type":"entity"}"#);
    let bundle =
        Bundle { version: 1, tasks: vec![NamedDefinition { id: "t".into(), value }], ..Bundle::default() };
    world.engine.import(&world.owner(), bundle, None).await.unwrap();
    let ada = world.actor(Role::Member, "ada");
    let run = world.engine.trigger(&ada, "t", None, None).await.unwrap();
    world.engine.human_complete(&ada, &run.id, Some(json(r#"{"n":1}"#)), None, None).await.unwrap();
    assert_eq!(entity(world, "e1").await, r#"{"n":1}"#);
}
