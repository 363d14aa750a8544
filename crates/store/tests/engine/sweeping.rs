//! Stuck work is always freed, and finished work is never undone.

use std::time::Duration;

use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::work::Settle;

use crate::harness::{World, request, says, wish};
use crate::on_both_stores;

on_both_stores!(
    a_lost_lease_is_queued_again_and_fails_after_three_attempts,
    a_sweep_beside_settling_workers_undoes_nothing,
    deadlines_expire_what_waits_and_leave_what_runs,
    silence_hides_a_session_and_opening_shows_it_again,
    a_waiting_claim_is_woken_by_new_work,
);

async fn a_lost_lease_is_queued_again_and_fails_after_three_attempts(world: &World) {
    let worker = world.worker("w");
    world.pending("s").await;
    for attempt in 1..=3 {
        assert_eq!(world.claim(&worker).await.len(), 1, "attempt {attempt}");
        world.clock.advance(Duration::from_secs(31));
        assert_eq!(world.engine.sweep().await.unwrap().leases_lost, 1);
    }
    let session = world.session("s").await;
    assert_eq!(session.head.status, Status::Failed);
    assert!(session.details.error_message.is_some() && session.details.completed_at.is_some());
    assert!(world.claim(&worker).await.is_empty());
}

async fn a_sweep_beside_settling_workers_undoes_nothing(world: &World) {
    let worker = world.worker("w");
    let mut settled = 0;
    for round in 0..40 {
        let claim = world.claimed(&format!("s{round}"), &worker).await;
        world.clock.advance(Duration::from_secs(if round % 2 == 0 { 29 } else { 31 }));
        let done = Settle::Complete { result: None, text: None, usage: None };
        let (completed, swept) = tokio::join!(
            world.engine.settle(&worker, &claim.session.id, claim.epoch, done, None),
            world.engine.sweep(),
        );
        swept.unwrap();
        let session = world.session(&format!("s{round}")).await;
        match completed {
            Ok(_) => {
                settled += 1;
                assert_eq!(session.head.status, Status::Completed);
            }
            Err(error) => {
                assert_eq!(error.code(), "fenced");
                assert_ne!(session.head.status, Status::Completed);
                world.engine.stop(&world.owner(), &session.id, None).await.unwrap();
                world.clock.advance(Duration::from_secs(60));
                world.engine.sweep().await.unwrap();
            }
        }
    }
    assert_eq!(settled, 20, "runs within their lease are settled, others are not");
}

async fn deadlines_expire_what_waits_and_leave_what_runs(world: &World) {
    let owner = world.owner();
    world.pending("waits").await;
    world.talk("talk").await;
    world.open(&owner, OpenSession { ..wish("form", SessionType::Response) }).await;
    world.open(&owner, wish("draft", SessionType::Agent)).await;
    world.clock.advance(Duration::from_secs(6 * 86_400));
    let form = world.session("form").await;
    world.engine.append(&owner, &form.id, says("user.message", "still here"), None).await.unwrap();
    world.clock.advance(Duration::from_secs(2 * 86_400));
    world.engine.sweep().await.unwrap();
    for (id, status) in [
        ("waits", Status::Expired),
        ("talk", Status::Idle),
        ("form", Status::Draft),
        ("draft", Status::Draft),
    ] {
        assert_eq!(world.session(id).await.head.status, status, "{id}");
    }
    world.clock.advance(Duration::from_secs(6 * 86_400));
    world.engine.sweep().await.unwrap();
    assert_eq!(world.session("form").await.head.status, Status::Abandoned);
}

async fn silence_hides_a_session_and_opening_shows_it_again(world: &World) {
    world.talk("quiet").await;
    world.clock.advance(Duration::from_secs(3 * 86_400 + 60));
    world.engine.sweep().await.unwrap();
    assert!(world.session("quiet").await.head.inactive);
    assert!(!world.talk("quiet").await.head.inactive);
}

async fn a_waiting_claim_is_woken_by_new_work(world: &World) {
    let worker = world.worker("w");
    let waits = sederunt_core::work::ClaimRequest { wait: Duration::from_secs(30), ..request() };
    let waiting = world.engine.claim(&worker, waits, None);
    let opening = async {
        tokio::task::yield_now().await;
        world.pending("new").await;
    };
    let (claims, ()) =
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(waiting, opening) })
            .await
            .expect("the waiting claim was not woken");
    assert_eq!(claims.unwrap()[0].session.id.as_str(), "new");
}
