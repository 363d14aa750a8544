//! What a run leaves: its result under the contract, written back or refused, and what it used.

use sederunt_core::definitions::Entity;
use sederunt_core::engine::DefinitionFilters;
use sederunt_core::error::Error;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::work::Settle;

use super::{complete, define_criteria, define_entity, define_task, entity, json, take, trigger};
use crate::harness::{World, key, wish};
use crate::on_both_stores;

on_both_stores!(
    a_result_is_written_back_with_the_end_of_its_run,
    a_result_that_cannot_be_written_back_ends_nothing,
    a_settlement_that_is_refused_writes_nothing_back,
    a_result_that_does_not_fit_is_repaired_once_and_then_fails,
    a_hard_block_fails_the_run_at_once,
    lists_of_entities_and_related_entities_are_made,
    what_a_run_uses_adds_up_over_its_attempts,
);

async fn a_result_is_written_back_with_the_end_of_its_run(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", r#"{"kept":1.50,"n":0}"#).await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1",
            "output":{"type":"entity","fields":{"n":"count","who":"by.name"},
                "schema":{"type":"object","required":["count"],"properties":{"count":{"type":"integer"}}}}}"#,
    )
    .await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let done =
        complete(world, &worker, &claim, r#"{"count":7,"by":{"name":"x"},"more":true}"#).await.unwrap();
    assert_eq!(done.head.status, Status::Completed);
    assert_eq!(entity(world, "e1").await, r#"{"kept":1.50,"n":7,"who":"x"}"#);
}

async fn a_result_that_cannot_be_written_back_ends_nothing(world: &World) {
    let worker = world.worker("w");
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","output":{"type":"entities","entity_type":"note"}}"#,
    )
    .await;
    let session = trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let twins = complete(world, &worker, &claim, r#"[{"id":"e1","n":1},{"id":"e1","n":2}]"#).await;
    assert!(twins.is_err(), "two new entities have one id");
    assert_eq!(world.session(session.id.as_str()).await.head.status, Status::Running);
    let none = world.engine.definition::<Entity>(&world.owner(), "e1").await;
    assert_eq!(none.unwrap_err().code(), "not_found");
    let done = complete(world, &worker, &claim, r#"[{"id":"e1","n":1},{"id":"e2","n":2}]"#).await.unwrap();
    assert_eq!(done.head.status, Status::Completed);
    assert_eq!(entity(world, "e1").await, r#"{"n":1}"#);
}

async fn a_settlement_that_is_refused_writes_nothing_back(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", r#"{"n":0}"#).await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1","output":{"type":"entity"}}"#,
    )
    .await;
    let session = trigger(world, "t").await;
    let claim = take(world, &worker).await;
    world.engine.open(&world.owner(), wish("other", SessionType::Mixed), key("k", 1)).await.unwrap();
    let how = Settle::Complete { result: Some(json(r#"{"n":1}"#)), text: None, usage: None };
    let refused = world.engine.settle(&worker, &session.id, claim.epoch, how, key("k", 2)).await;
    assert_eq!(refused.unwrap_err().code(), "idempotency_mismatch");
    assert_eq!(world.session(session.id.as_str()).await.head.status, Status::Running);
    assert_eq!(entity(world, "e1").await, r#"{"n":0}"#);
}

async fn a_result_that_does_not_fit_is_repaired_once_and_then_fails(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", "{}").await;
    let contract = r#"{"slug":"SLUG","name":"T","agent_slug":"eliza","entity_id":"e1",
        "output":{"type":"entity","schema":{"type":"object","required":["n"]}}}"#;
    for (slug, second, end) in [("a", r#"{"n":1}"#, Status::Completed), ("b", "{}", Status::Failed)] {
        define_task(world, &contract.replace("SLUG", slug)).await;
        trigger(world, slug).await;
        let claim = take(world, &worker).await;
        match complete(world, &worker, &claim, r#"{"m":1}"#).await {
            Err(Error::OutputInvalid { complaints }) => {
                assert!(complaints[0].contains('n'), "{complaints:?}")
            }
            other => panic!("{other:?}"),
        }
        let waiting = world.session(claim.session.id.as_str()).await;
        assert_eq!(waiting.head.status, Status::Running, "the claim stays the worker's");
        let done = complete(world, &worker, &claim, second).await.unwrap();
        assert_eq!(done.head.status, end);
        if end == Status::Failed {
            assert_eq!(done.details.end_reason.as_deref(), Some("output_invalid"));
        }
    }
    assert_eq!(entity(world, "e1").await, r#"{"n":1}"#);
}

async fn a_hard_block_fails_the_run_at_once(world: &World) {
    let worker = world.worker("w");
    define_criteria(world).await;
    define_entity(world, "e1", "{}").await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1","criteria_set_ids":["care"],
            "output":{"type":"entity"}}"#,
    )
    .await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let done = complete(world, &worker, &claim, r#"{"tone":"cruel"}"#).await.unwrap();
    assert_eq!(done.head.status, Status::Failed);
    assert_eq!(done.details.end_reason.as_deref(), Some("hard_blocked"));
    assert!(done.details.error_message.unwrap().contains("cruel"));
    assert_eq!(entity(world, "e1").await, "{}");
}

async fn lists_of_entities_and_related_entities_are_made(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", r#"{"links":["old"]}"#).await;
    define_task(
        world,
        r#"{"slug":"many","name":"T","agent_slug":"eliza","output":{"type":"entities","entity_type":"fact"},
            "writes":{"types":["fact"],"ids":["e1"]}}"#,
    )
    .await;
    define_task(
        world,
        r#"{"slug":"rel","name":"T","agent_slug":"eliza","entity_id":"e1",
            "output":{"type":"relation-entity","entity_type":"link","relation":"links"}}"#,
    )
    .await;
    trigger(world, "many").await;
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, r#"[{"x":1},{"id":"e1","x":2},{"id":"new","title":"N"}]"#)
        .await
        .unwrap();
    let facets = vec![("type_slug", "fact".to_owned())];
    let facts = world
        .engine
        .definitions::<Entity>(&world.owner(), DefinitionFilters { facets, text: None }, None, 10)
        .await
        .unwrap();
    assert_eq!(facts.items.len(), 2);
    assert_eq!(facts.items[0].value.title.as_deref(), Some("N"));
    assert_eq!(entity(world, "e1").await, r#"{"links":["old"],"x":2}"#);

    trigger(world, "rel").await;
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, r#"{"to":"there"}"#).await.unwrap();
    let facets = vec![("type_slug", "link".to_owned())];
    let links = world
        .engine
        .definitions::<Entity>(&world.owner(), DefinitionFilters { facets, text: None }, None, 10)
        .await
        .unwrap();
    let made = &links.items[0].id;
    assert_eq!(entity(world, "e1").await, format!(r#"{{"links":["old","{made}"],"x":2}}"#));
}

async fn what_a_run_uses_adds_up_over_its_attempts(world: &World) {
    let worker = world.worker("w");
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#).await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let how = Settle::Fail {
        error: "busy".into(),
        retryable: true,
        reason: None,
        usage: Some(json(r#"{"input_tokens":10,"cost":0.5,"model":"a"}"#)),
    };
    world.engine.settle(&worker, &claim.session.id, claim.epoch, how, None).await.unwrap();
    let claim = take(world, &worker).await;
    let usage = Some(json(r#"{"input_tokens":5,"output_tokens":2,"cost":0.25,"model":"b"}"#));
    let how = Settle::Complete { result: None, text: None, usage };
    let done = world.engine.settle(&worker, &claim.session.id, claim.epoch, how, None).await.unwrap();
    assert_eq!(
        done.details.usage.unwrap().as_str(),
        r#"{"input_tokens":15,"cost":0.75,"model":"b","output_tokens":2}"#
    );
}
