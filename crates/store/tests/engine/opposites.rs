//! Two people decide opposite things at the same instant, each on another node: one decision counts, and it counts
//! once.

use std::collections::HashMap;

use futures_util::future::join_all;
use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::{Approval, ApprovalQuery, ApprovalState};
use sederunt_core::definitions::Entity;
use sederunt_core::engine::{DefinitionFilters, Engine};
use sederunt_core::error::{Conflict, Error};
use sederunt_core::event::EventQuery;
use sederunt_core::session::Status;
use sederunt_core::work::ClaimRequest;
use sederunt_core::{Actor, Role, SessionId};

use crate::harness::{World, request};
use crate::on_both_stores;
use crate::tasks::{complete, define_task, trigger};

on_both_stores!(opposite_decisions_at_once_have_one_effect);

const PAIRS: usize = 500;
/// Pairs that are under way at once.
const AT_ONCE: usize = 10;

async fn opposite_decisions_at_once_have_one_effect(world: &World) {
    let nodes = [world.engine.clone(), world.other_node().await];
    let people = [world.actor(Role::Owner, "ada"), world.actor(Role::Owner, "bob")];
    let waiting = stage(world).await;
    let mut approved = 0;
    for (batch, pairs) in waiting.chunks(AT_ONCE).enumerate() {
        let decided = pairs.iter().enumerate().map(|(pair, asked)| {
            // Who decides what, and which node is asked first, changes from pair to pair.
            let (said, first) = ((batch + pair) % 2, (pair / 2) % 2);
            let decisions = [[Decision::Approve, Decision::Deny], [Decision::Deny, Decision::Approve]][said];
            let mut calls = Vec::new();
            for n in [first, 1 - first] {
                let (node, actor, id) = (nodes[n].clone(), people[n].clone(), asked.id.to_string());
                calls.push(tokio::spawn(async move { decide(&node, &actor, &id, decisions[n]).await }));
            }
            async move {
                let mut answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
                if first == 1 {
                    answers.reverse();
                }
                (asked, decisions, answers)
            }
        });
        for (asked, decisions, answers) in join_all(decided).await {
            let winner = usize::from(answers[1].is_ok());
            let (decision, decider) = (decisions[winner], ["ada", "bob"][winner]);
            assert!(answers[winner].is_ok() && answers[1 - winner].is_err(), "{answers:?}");
            match &answers[1 - winner] {
                Err(Error::Conflict(Conflict::AlreadyDecided { decision: told, decided_by })) => {
                    assert_eq!((*told, decided_by.as_str()), (decision.as_str(), decider));
                }
                other => panic!("{other:?}"),
            }
            check(world, asked, decision, decider).await;
            approved += usize::from(decision == Decision::Approve);
        }
    }
    assert_eq!(waiting.len(), PAIRS);
    assert!((PAIRS / 20..PAIRS * 19 / 20).contains(&approved), "{approved} of {PAIRS}: that was no race");
    let page = world
        .engine
        .definitions::<Entity>(&world.owner(), DefinitionFilters::default(), None, 1000)
        .await
        .unwrap();
    let mut written: Vec<_> = page.items.iter().map(|one| one.value.fields.as_str()).collect();
    assert_eq!(written.len(), approved, "every approval has written once, and nothing else has");
    written.sort_unstable();
    written.dedup();
    assert_eq!(written.len(), approved);
}

/// Sessions of a task whose output makes an entity, each waiting for a decision.
async fn stage(world: &World) -> Vec<Approval> {
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","requires_approval":true,
            "output":{"type":"entity","entity_type":"note"}}"#,
    )
    .await;
    let worker = world.worker("w");
    for _ in 0..PAIRS / AT_ONCE {
        join_all((0..AT_ONCE).map(|_| trigger(world, "t"))).await;
        let order = ClaimRequest { limit: AT_ONCE, ..request() };
        let claims = world.engine.claim(&worker, order, None).await.unwrap();
        let results = claims.iter().map(|claim| format!(r#"{{"of":"{}"}}"#, claim.session.id));
        let results: Vec<String> = results.collect();
        let ends = claims.iter().zip(&results).map(|(claim, result)| complete(world, &worker, claim, result));
        join_all(ends).await.into_iter().for_each(|ended| drop(ended.unwrap()));
    }
    let query =
        ApprovalQuery { state: Some(ApprovalState::Pending), limit: 1000, ..ApprovalQuery::default() };
    world.engine.approvals(&world.owner(), false, query).await.unwrap().items
}

async fn decide(node: &Engine, actor: &Actor, id: &str, decision: Decision) -> Result<Approval, Error> {
    let wish =
        DecisionRequest { decision, modified_args: None, modified_output: None, reason: None, digest: None };
    node.decide(actor, id, wish, None).await
}

/// The record, the session and its log hold this decision and no other.
async fn check(world: &World, asked: &Approval, decision: Decision, decider: &str) {
    let kept = world.engine.approval(&world.owner(), &asked.id).await.unwrap();
    let (state, status) = match decision {
        Decision::Approve => (ApprovalState::Approved, Status::Completed),
        Decision::Deny => (ApprovalState::Denied, Status::Pending),
    };
    assert_eq!((kept.state, kept.decided_by.as_deref()), (state, Some(decider)));
    let session = SessionId::stored(asked.session.as_str());
    assert_eq!(world.session(session.as_str()).await.head.status, status);
    let query = EventQuery { limit: 100, ..EventQuery::default() };
    let log = world.engine.read(&world.owner(), &session, query).await.unwrap().events;
    let mut told: HashMap<&str, usize> = HashMap::new();
    for event in &log {
        *told.entry(event.kind.as_str()).or_default() += 1;
    }
    assert_eq!(told["user.output_approval"], 1, "{told:?}");
    assert_eq!(told.get("session.completed").copied().unwrap_or(0), usize::from(status == Status::Completed));
    let word = log.iter().find(|event| event.kind.as_str() == "user.output_approval").unwrap();
    assert_eq!(word.author.as_deref(), Some(decider));
}
