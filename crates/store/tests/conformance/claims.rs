//! Claims: which worker gets which session, in which order, once.

use std::collections::BTreeMap;

use sederunt_core::definitions::agent::CONCURRENCY;
use sederunt_core::definitions::{DefinitionDoc, DefinitionKind};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::store::{ClaimChange, Fence, Guard, Record, Update, Write};
use sederunt_core::work::ClaimOrder;

use crate::builders::*;
use crate::definitions::a_doc;
use crate::stores::TestStore;

on_each_store! {
    a_claim_hands_out_the_session_as_it_now_is,
    a_claim_is_written_into_the_log,
    the_highest_priority_goes_first_then_the_oldest,
    only_pending_sessions_are_handed_out,
    types_and_agents_choose,
    any_number_of_queues_is_walked_in_one_order,
    no_more_are_handed_out_than_were_asked_for,
    whatever_runs_counts_against_a_limit_from_whenever_it_is_set,
    a_claim_is_bound_to_its_credential,
    a_requeued_session_comes_back_under_a_higher_epoch,
    a_repeated_claim_call_gets_the_same_sessions,
    a_repeated_claim_call_gets_nothing_that_was_lost_since,
    eight_claimers_share_two_hundred_sessions_without_a_tie,
}

async fn a_claim_hands_out_the_session_as_it_now_is(store: &TestStore) {
    store
        .create(a_session("s", |new| {
            *new = work("s");
            new.details.agent_slug = Some("writer".into());
            new.details.input = Some(json("{\"n\":1}"));
            new.participants = vec![user("ann")];
        }))
        .await;
    store.update("s", Update { deadline: Some(Some(DAY)), ..Update::default() }).await;
    let before = store.get("s").await;
    let claim = store.claim_one("s", "key").await;
    let after = store.get("s").await;
    assert_eq!(claim.session, after);
    assert_eq!(after.head.status, Status::Running);
    assert_eq!((claim.epoch, after.head.epoch, after.head.attempts), (1, 1, 1));
    assert!(after.head.version > before.head.version);
    assert_eq!(after.head.deadline_at, None, "a session with a claim lives by its lease");
    assert!(after.details.started_at.is_some_and(|at| at >= before.details.created_at));
    let held = after.head.claim.unwrap();
    assert_eq!((&*held.worker, &held.credential), ("worker of key", &credential("key")));
    assert_eq!(held.lease_until, claim.lease_until);
    let now = store.now().await.unwrap();
    assert!(claim.lease_until > now && claim.lease_until <= now.plus(LEASE));
}

async fn a_claim_is_written_into_the_log(store: &TestStore) {
    store.create(work("s")).await;
    let claim = store.claim_one("s", "key").await;
    let log = store.log("s").await;
    assert_eq!(claim.session.head.last_sequence, log.len() as u64);
    let find = |kind: &str| {
        let event = log.iter().find(|event| event.kind.as_str() == kind);
        event.unwrap_or_else(|| panic!("no {kind} in {log:?}")).metadata.as_ref().unwrap().value()
    };
    let claimed = find("session.claimed");
    assert_eq!(claimed["worker"], "worker of key");
    assert_eq!(claimed["epoch"], 1);
    let moved = find("session.status_change");
    assert_eq!((&moved["from"], &moved["to"]), (&"pending".into(), &"running".into()));
}

async fn the_highest_priority_goes_first_then_the_oldest(store: &TestStore) {
    for (name, priority) in [("c", 0), ("a", 0), ("low", -5), ("high", 5), ("b", 0), ("high too", 5)] {
        let mut new = work(name);
        new.head.priority = priority;
        store.create(new).await;
        store.clock.advance(LEASE);
    }
    let mut order = Vec::new();
    order.extend(store.claim(store.order("key", 1)).await.unwrap());
    order.extend(store.claim(store.order("key", 2)).await.unwrap());
    order.extend(store.claim(store.order("key", 10)).await.unwrap());
    let order: Vec<_> = order.iter().map(|claim| claim.session.id.as_str()).collect();
    assert_eq!(order, ["high", "high too", "c", "a", "b", "low"]);
}

async fn only_pending_sessions_are_handed_out(store: &TestStore) {
    for status in Status::ALL {
        let mut new = work(status.as_str());
        new.head.status = status;
        store.create(new).await;
    }
    let claims = store.claim(store.order("key", 100)).await.unwrap();
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].session.id, id("pending"));
    assert!(store.claim(store.order("key", 100)).await.unwrap().is_empty());
    store.update("idle", Update { status: Some(Status::Pending), ..Update::default() }).await;
    store.claim_one("idle", "key").await;
}

async fn types_and_agents_choose(store: &TestStore) {
    let sessions = [
        ("agent writer", SessionType::Agent, Some("writer")),
        ("agent editor", SessionType::Agent, Some("editor")),
        ("agent", SessionType::Agent, None),
        ("tool writer", SessionType::Tool, Some("writer")),
        ("mixed", SessionType::Mixed, None),
        ("response", SessionType::Response, None),
    ];
    for (name, session_type, agent) in sessions {
        let mut new = work(name);
        new.head.session_type = session_type;
        new.details.agent_slug = agent.map(Into::into);
        store.create(new).await;
    }
    let claim = async |types: &[SessionType], agents: &[&str]| {
        let order = ClaimOrder {
            session_types: types.to_vec(),
            agent_slugs: agents.iter().map(|&agent| agent.into()).collect(),
            ..store.order("key", 100)
        };
        let claims = store.claim(order).await.unwrap();
        claims.iter().map(|claim| claim.session.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    use SessionType::{Agent, Mixed, Response, Tool};
    assert_eq!(claim(&SessionType::ALL, &["nobody", "writ", "%"]).await, [""; 0]);
    assert_eq!(claim(&[Agent], &["writer", "other"]).await, ["agent writer"]);
    assert_eq!(claim(&[Mixed, Response], &[]).await, ["mixed", "response"]);
    assert_eq!(claim(&[Agent], &["editor"]).await, ["agent editor"]);
    assert_eq!(claim(&[Tool], &["editor"]).await, [""; 0]);
    assert_eq!(claim(&[Tool], &[]).await, ["tool writer"]);
    assert_eq!(claim(&[Agent, Tool], &[]).await, ["agent"]);
}

async fn any_number_of_queues_is_walked_in_one_order(store: &TestStore) {
    let agents: Vec<String> = (0..10).map(|n| format!("agent {n}")).collect();
    // One queue, several, and more than any statement should name; each of them named twice.
    for (round, queues) in [1, 3, 10].into_iter().enumerate() {
        for n in 0..20 {
            let mut new = work(&format!("{round}.{n}"));
            new.head.session_type = if n % 2 == 0 { SessionType::Agent } else { SessionType::Tool };
            new.head.priority = n % 4;
            new.details.agent_slug = Some(agents[n as usize % queues].as_str().into());
            store.create(new).await;
        }
        let order = ClaimOrder {
            session_types: [SessionType::Agent, SessionType::Tool].repeat(2),
            agent_slugs: [&agents[..queues], &agents[..queues]].concat(),
            ..store.order("key", 7)
        };
        let mut handed_out = Vec::new();
        for expected in [7, 7, 6] {
            let claims = store.claim(order.clone()).await.unwrap();
            assert_eq!(claims.len(), expected, "{queues} queues");
            handed_out.extend(claims.into_iter().map(|claim| claim.session.id.as_str().to_owned()));
        }
        let mut expected: Vec<i32> = (0..20).collect();
        expected.sort_by_key(|n| (-(n % 4), *n));
        let expected: Vec<_> = expected.into_iter().map(|n| format!("{round}.{n}")).collect();
        assert_eq!(handed_out, expected, "{queues} queues");
    }
}

async fn no_more_are_handed_out_than_were_asked_for(store: &TestStore) {
    for n in 0..5 {
        store.create(work(&format!("s{n}"))).await;
    }
    for (limit, expected) in [(2, 2), (2, 2), (2, 1), (2, 0)] {
        assert_eq!(store.claim(store.order("key", limit)).await.unwrap().len(), expected);
    }
}

/// Ends one run after the other, and checks each time how many more are handed out.
async fn whatever_runs_counts_against_a_limit_from_whenever_it_is_set(store: &TestStore) {
    let of_agent = |name: &str, status: Status| {
        let mut new = work(name);
        new.details.agent_slug = Some("a".into());
        new.head.status = status;
        new
    };
    let to = |status: Status| Update { status: Some(status), ..Update::default() };
    store.create(of_agent("claimed before", Status::Pending)).await;
    store.claim_one("claimed before", "key").await;
    let limit =
        DefinitionDoc { facets: vec![(CONCURRENCY, "4".into())], ..a_doc(DefinitionKind::Agent, "a") };
    store.record(Record::PutDoc { doc: Box::new(limit), expects: None }).await;
    store.create(of_agent("made running", Status::Running)).await;
    store.create(of_agent("set running", Status::Idle)).await;
    store.update("set running", to(Status::Running)).await;
    store.create(of_agent("claimed after", Status::Pending)).await;
    store.claim_one("claimed after", "key").await;

    for nth in 0..4 {
        store.create(of_agent(&format!("waits {nth}"), Status::Pending)).await;
    }
    let more = async || store.claim(store.order("key", 10)).await.unwrap().len();
    assert_eq!(more().await, 0, "four run");
    for (nth, name) in ["claimed before", "made running", "set running", "claimed after"].iter().enumerate() {
        store.update(name, to(Status::Completed)).await;
        assert_eq!((more().await, more().await), (1, 0), "{name:?} has made room for one");
        store.update(&format!("waits {nth}"), to(Status::Pending)).await;
        assert_eq!(more().await, 1, "what was put back has made room for itself");
    }
}

async fn a_claim_is_bound_to_its_credential(store: &TestStore) {
    store.create(work("s")).await;
    store.claim_one("s", "key").await;
    for (by, epoch, expected) in [("other", 1, "fenced"), ("key", 2, "fenced"), ("key", 1, "ok")] {
        let guard = Guard { fence: Some(Fence { credential: credential(by), epoch }), ..Guard::default() };
        let outcome = store.append_under("s", guard, vec![saying("agent.message", "done")]).await;
        assert_eq!(verdict(&outcome), expected, "{by} {epoch}");
    }
}

async fn a_requeued_session_comes_back_under_a_higher_epoch(store: &TestStore) {
    store.create(work("s")).await;
    for epoch in 1..=3 {
        let claim = store.claim_one("s", "key").await;
        assert_eq!((claim.epoch, claim.session.head.attempts), (epoch, u32::try_from(epoch).unwrap()));
        store.clock.advance(2 * LEASE);
        assert!(
            store.claim(store.order("key", 1)).await.unwrap().is_empty(),
            "the sweeper requeues, not a claim"
        );
        let update =
            Update { status: Some(Status::Pending), claim: Some(ClaimChange::Release), ..Update::default() };
        let guard = Guard { lapsed: true, ..Guard::seen(&claim.session) };
        store.write(on("s", guard, Write::Update(update.into()))).await;
    }
    store.update("s", Update { attempts: Some(0), ..Update::default() }).await;
    let claim = store.claim_one("s", "other").await;
    assert_eq!((claim.epoch, claim.session.head.attempts), (4, 1));
    let old = Guard { fence: Some(Fence { credential: credential("key"), epoch: 3 }), ..Guard::default() };
    assert_eq!(verdict(&store.append_under("s", old, messages(1)).await), "fenced");
}

async fn a_repeated_claim_call_gets_the_same_sessions(store: &TestStore) {
    for n in 0..6 {
        store.create(work(&format!("s{n}"))).await;
    }
    let order = ClaimOrder { key: Some(key(1, 1)), ..store.order("key", 2) };
    let first = store.claim(order.clone()).await.unwrap();
    let again = store.claim(order.clone()).await.unwrap();
    let named = |claims: &[sederunt_core::work::ClaimedRun]| {
        let mut names: Vec<_> = claims.iter().map(|claim| (claim.session.id.clone(), claim.epoch)).collect();
        names.sort();
        names
    };
    assert_eq!(first.len(), 2);
    assert_eq!(named(&again), named(&first));
    let other_body = ClaimOrder { key: Some(key(1, 2)), ..order };
    assert_eq!(store.claim(other_body).await.unwrap_err().code(), "idempotency_mismatch");
    assert_eq!(store.claim(store.order("key", 100)).await.unwrap().len(), 4);
}

async fn a_repeated_claim_call_gets_nothing_that_was_lost_since(store: &TestStore) {
    for name in ["kept", "ended", "requeued"] {
        store.create(work(name)).await;
    }
    let order = ClaimOrder { key: Some(key(1, 1)), ..store.order("key", 3) };
    assert_eq!(store.claim(order.clone()).await.unwrap().len(), 3);
    for (name, status) in [("ended", Status::Completed), ("requeued", Status::Pending)] {
        let claim = Some(ClaimChange::Release);
        store.update(name, Update { status: Some(status), claim, ..Update::default() }).await;
    }
    assert_eq!(store.claim_one("requeued", "other").await.epoch, 2);
    let again = store.claim(order.clone()).await.unwrap();
    assert_eq!(again.iter().map(|claim| claim.session.id.as_str()).collect::<Vec<_>>(), ["kept"]);
    store.clock.advance(2 * LEASE);
    assert!(store.claim(order).await.unwrap().is_empty(), "a lease that has run out holds nothing");
}

async fn eight_claimers_share_two_hundred_sessions_without_a_tie(store: &TestStore) {
    for n in 0..200 {
        let mut new = work(&format!("s{n}"));
        new.head.priority = n % 3;
        store.create(new).await;
    }
    let claims = store
        .at_once(8, |store, n| async move {
            let by = format!("key {n}");
            // Claims for one queue and claims for several compete for the same sessions.
            let session_types = if n < 4 { vec![SessionType::Agent] } else { SessionType::ALL.to_vec() };
            let order = ClaimOrder { session_types, ..store.order(&by, 1 + n) };
            let mut mine = Vec::new();
            loop {
                let batch = store.claim(order.clone()).await.unwrap();
                if batch.is_empty() {
                    return mine;
                }
                assert!(batch.len() <= 1 + n);
                mine.extend(batch.into_iter().map(|claim| (claim.session.id, by.clone(), claim.epoch)));
            }
        })
        .await;
    let mut winners = BTreeMap::new();
    for (session, by, epoch) in claims.into_iter().flatten() {
        assert_eq!(epoch, 1);
        assert!(winners.insert(session.clone(), by).is_none(), "{session} was handed out twice");
    }
    assert_eq!(winners.len(), 200);
    for (session, by) in winners.iter().step_by(17) {
        let held = store.get(session.as_str()).await.head.claim.unwrap();
        assert_eq!(held.credential.as_str(), by);
    }
}
