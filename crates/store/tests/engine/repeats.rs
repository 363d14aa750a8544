//! A retry with the same key has one effect, whatever the command, and gives the first answer.

use std::time::Duration;

use sederunt_core::access::ShareAccess;
use sederunt_core::engine::{NewKey, NewUser};
use sederunt_core::session::decide::{OpenSession, PatchSession, Transition};
use sederunt_core::session::query::{SessionQuery, TypeFilter};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::work::Settle;
use sederunt_core::{Role, SessionId};

use crate::harness::{World, key, request, says, wish};
use crate::on_both_stores;

on_both_stores!(
    an_append_is_done_once,
    opening_without_an_id_makes_one_session,
    a_move_that_can_no_longer_be_made_is_answered_from_its_key,
    a_settled_run_is_answered_from_its_key_although_the_claim_is_gone,
    retry_and_fork_make_one_session_each,
    secrets_are_shown_once,
    a_claim_is_not_handed_out_twice,
    sixty_four_twins_at_once_have_one_effect,
    another_body_under_the_same_key_is_refused,
    a_refusal_is_not_kept,
);

async fn an_append_is_done_once(world: &World) {
    let (owner, session) = (world.owner(), world.talk("a").await);
    let first =
        world.engine.append(&owner, &session.id, says("user.message", "x"), key("a", 1)).await.unwrap();
    let again =
        world.engine.append(&owner, &session.id, says("user.message", "x"), key("a", 1)).await.unwrap();
    assert_eq!(first.events, again.events);
    assert_eq!(first.last_sequence, again.last_sequence);
    assert_eq!(world.session("a").await.head.last_sequence, first.last_sequence);
}

async fn opening_without_an_id_makes_one_session(world: &World) {
    let wish = OpenSession { session_type: Some(SessionType::Mixed), ..OpenSession::default() };
    let first = world.engine.open(&world.owner(), wish.clone(), key("o", 1)).await.unwrap();
    let again = world.engine.open(&world.owner(), wish, key("o", 1)).await.unwrap();
    assert!(first.created && again.created);
    assert_eq!(first.session, again.session);
    let all = SessionQuery::of(TypeFilter::All, 10);
    assert_eq!(world.engine.sessions(&world.owner(), all).await.unwrap().items.len(), 1);
}

async fn a_move_that_can_no_longer_be_made_is_answered_from_its_key(world: &World) {
    let owner = world.owner();
    let session = world.open(&owner, wish("m", SessionType::Agent)).await;
    let start = Transition { to: Status::Pending, expected: Some(Status::Draft), reason: None };
    for _ in 0..2 {
        let moved = world.engine.transition(&owner, &session.id, start.clone(), key("m", 1)).await.unwrap();
        assert_eq!((moved.head.status, moved.head.last_sequence), (Status::Pending, 2));
    }
    let unkeyed = world.engine.transition(&owner, &session.id, start, None).await.unwrap_err();
    assert_eq!(unkeyed.code(), "invalid_transition");
    let patch = PatchSession { title: Some(Some("t".into())), ..PatchSession::default() };
    let version =
        world.engine.patch(&owner, &session.id, patch.clone(), key("p", 1)).await.unwrap().head.version;
    let again = world.engine.patch(&owner, &session.id, patch, key("p", 1)).await.unwrap();
    assert_eq!(again.head.version, version);
}

async fn a_settled_run_is_answered_from_its_key_although_the_claim_is_gone(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    let done = Settle::Complete { result: None, text: Some("done".into()), usage: None };
    let mut last = Vec::new();
    for _ in 0..2 {
        let id = &claim.session.id;
        let session = world.engine.settle(&worker, id, claim.epoch, done.clone(), key("s", 1)).await.unwrap();
        assert_eq!(session.head.status, Status::Completed);
        last.push(session.head.last_sequence);
    }
    assert_eq!(last[0], last[1]);
}

async fn retry_and_fork_make_one_session_each(world: &World) {
    let owner = world.owner();
    let session = world.pending("r").await;
    world.engine.stop(&owner, &session.id, None).await.unwrap();
    let first = world.engine.retry(&owner, &session.id, key("r", 1)).await.unwrap();
    let again = world.engine.retry(&owner, &session.id, key("r", 1)).await.unwrap();
    assert_eq!(first.id, again.id);
    assert_eq!(first.details.retry_of, Some(session.id.clone()));
    let first = world.engine.fork(&owner, &session.id, 1, key("f", 1)).await.unwrap();
    let again = world.engine.fork(&owner, &session.id, 1, key("f", 1)).await.unwrap();
    assert_eq!(first.id, again.id);
}

async fn secrets_are_shown_once(world: &World) {
    let owner = world.owner();
    let wish = NewKey { role: Some(Role::Worker), ..NewKey::default() };
    let first = world.engine.create_key(&owner, wish.clone(), key("k", 1)).await.unwrap();
    let again = world.engine.create_key(&owner, wish, key("k", 1)).await.unwrap();
    assert_eq!(first.key.id, again.key.id);
    assert!(first.secret.is_some() && again.secret.is_none());
    let session = world.talk("sh").await;
    let day = Duration::from_secs(86_400);
    let first = world.engine.share(&owner, &session.id, ShareAccess::Read, day, key("h", 1)).await.unwrap();
    let again = world.engine.share(&owner, &session.id, ShareAccess::Read, day, key("h", 1)).await.unwrap();
    assert_eq!(first.share.id, again.share.id);
    assert!(first.token.is_some() && again.token.is_none());
    let first = world.engine.create_user(&owner, NewUser::default(), key("u", 1)).await.unwrap();
    let again = world.engine.create_user(&owner, NewUser::default(), key("u", 1)).await.unwrap();
    assert_eq!(first, again);
}

async fn a_claim_is_not_handed_out_twice(world: &World) {
    let worker = world.worker("w");
    world.pending("c1").await;
    world.pending("c2").await;
    let first = world.engine.claim(&worker, request(), key("c", 1)).await.unwrap();
    let again = world.engine.claim(&worker, request(), key("c", 1)).await.unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].session.id, again[0].session.id);
    assert_eq!(first[0].epoch, again[0].epoch);
    assert_eq!(world.session("c2").await.head.status, Status::Pending);
}

async fn sixty_four_twins_at_once_have_one_effect(world: &World) {
    let (owner, session) = (world.owner(), world.talk("t").await);
    let mut twins = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (engine, owner, id) = (world.engine.clone(), owner.clone(), session.id.clone());
        twins.spawn(async move {
            engine
                .append(&owner, &id, says("user.message", "once"), key("twin", 1))
                .await
                .unwrap()
                .last_sequence
        });
    }
    let answers = twins.join_all().await;
    assert!(answers.iter().all(|sequence| *sequence == 2), "{answers:?}");
    assert_eq!(world.session("t").await.head.last_sequence, 2);
}

async fn another_body_under_the_same_key_is_refused(world: &World) {
    let (owner, session) = (world.owner(), world.talk("b").await);
    world.engine.append(&owner, &session.id, says("user.message", "x"), key("b", 1)).await.unwrap();
    let other = world.engine.append(&owner, &session.id, says("user.message", "y"), key("b", 2)).await;
    assert_eq!(other.unwrap_err().code(), "idempotency_mismatch");
    assert_eq!(world.session("b").await.head.last_sequence, 2);
}

async fn a_refusal_is_not_kept(world: &World) {
    let owner = world.owner();
    let missing = SessionId::stored("late");
    let refused = world.engine.append(&owner, &missing, says("user.message", "x"), key("l", 1)).await;
    assert_eq!(refused.unwrap_err().code(), "not_found");
    world.talk("late").await;
    world.engine.append(&owner, &missing, says("user.message", "x"), key("l", 1)).await.unwrap();
    assert_eq!(world.session("late").await.head.last_sequence, 2);
}
