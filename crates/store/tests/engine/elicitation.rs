//! What called servers ask people: a call that is sealed while its run waits, and a question while the run goes on.

use std::time::Duration;

use sederunt_core::approval::decide::TurnDown;
use sederunt_core::approval::{ApprovalQuery, ApprovalState};
use sederunt_core::engine::{Engine, HeldAnswer};
use sederunt_core::error::Error;
use sederunt_core::event::EventQuery;
use sederunt_core::json::Json;
use sederunt_core::session::Status;
use sederunt_core::work::run::Run;
use sederunt_core::work::{ClaimedRun, Pause, Settle};
use sederunt_core::{Actor, Role, SessionId};
use tokio::time::Instant;

use crate::harness::World;
use crate::on_both_stores;

on_both_stores!(
    a_sealed_call_reaches_the_next_claim_on_another_node_and_nobody_else,
    a_held_question_is_answered_once_and_the_run_keeps_its_claim,
    a_held_question_ends_with_its_time_or_with_the_move_of_its_session,
    nobody_answers_the_question_of_a_worker_whose_lease_is_over,
);

const STATE: &str = "the-state-of-the-server";

fn question() -> Json {
    let text = r#"{"text":"Which?","schema":{"type":"object","required":["n"]},"tool":"t"}"#;
    Json::parse(text.as_bytes()).unwrap()
}

fn reply() -> Json {
    Json::parse(br#"{"n":1}"#).unwrap()
}

fn code<T>(outcome: Result<T, Error>) -> String {
    outcome.map_or_else(|error| error.code().to_owned(), |_| "ok".to_owned())
}

async fn park(world: &World, worker: &Actor, claimed: &ClaimedRun) {
    let call = Json::of(&serde_json::json!({ "state": STATE })).unwrap();
    let sealed = world.engine.seal_call(&claimed.session, &call).await.unwrap();
    let how = Settle::Yield { pause: Pause::Elicitation { question: question(), sealed }, usage: None };
    world.engine.settle(worker, &claimed.session.id, claimed.epoch, how, None).await.unwrap();
}

async fn log(world: &World, id: &SessionId) -> String {
    let query = EventQuery { limit: 1000, ..EventQuery::default() };
    format!("{:?}", world.engine.read(&world.owner(), id, query).await.unwrap().events)
}

async fn states(world: &World, id: &SessionId) -> Vec<ApprovalState> {
    let query = ApprovalQuery { session: Some(id.clone()), limit: 10, ..ApprovalQuery::default() };
    let found = world.engine.approvals(&world.owner(), false, query).await.unwrap().items;
    found.into_iter().map(|approval| approval.state).collect()
}

async fn a_sealed_call_reaches_the_next_claim_on_another_node_and_nobody_else(world: &World) {
    let (owner, worker, other) = (world.owner(), world.worker("w"), world.other_node().await);
    let claimed = world.claimed("s", &worker).await;
    let id = claimed.session.id.clone();
    park(world, &worker, &claimed).await;
    let waiting = world.session("s").await;
    assert_eq!(waiting.head.status, Status::WaitingHuman);
    let sealed = Run::of(&waiting).elicitation.unwrap();
    assert!(!format!("{waiting:?}").contains(STATE) && !log(world, &id).await.contains(STATE));

    let stranger = world.actor(Role::Member, "stranger");
    assert_eq!(code(other.reply(&stranger, &id, reply(), None).await), "not_found");
    let misfit = Json::parse(br#"{"m":1}"#).unwrap();
    assert_eq!(code(other.reply(&owner, &id, misfit, None).await), "invalid");
    other.reply(&owner, &id, reply(), None).await.unwrap();
    assert_eq!(code(other.turn_down(&owner, &id, TurnDown::Cancel, None).await), "invalid_transition");
    let again = world.claim(&worker).await.pop().unwrap();
    let resume = other.brief(&again, None).await.unwrap().run.resume.unwrap();
    assert_eq!((resume.decision.as_str(), resume.reply), ("answer", Some(reply())));
    assert_eq!(resume.elicitation.as_ref(), Some(&sealed));
    let opened = other.open_call(&again.session, &sealed).await.unwrap();
    assert_eq!(opened.value()["state"], STATE);
    let log = log(world, &id).await;
    assert!(log.contains("user.tool_result") && !log.contains(STATE), "{log}");

    let foreign = world.claimed("t", &worker).await.session;
    assert!(other.open_call(&foreign, &sealed).await.is_err(), "sealed for another session");
}

/// A question that is asked while the worker waits, and what is done meanwhile.
async fn held<T>(
    engine: &Engine,
    worker: &Actor,
    claimed: &ClaimedRun,
    lasts: Duration,
    meanwhile: impl Future<Output = T>,
) -> (Result<HeldAnswer, Error>, T) {
    let (asked, until) = (question(), Instant::now() + lasts);
    let never = Box::pin(std::future::pending());
    let asking = engine.ask_during_call(worker, &claimed.session.id, claimed.epoch, &asked, until, never);
    tokio::join!(asking, meanwhile)
}

async fn asked(world: &World) {
    while Run::of(&world.session("s").await).approval_id.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn a_held_question_is_answered_once_and_the_run_keeps_its_claim(world: &World) {
    let (owner, worker, other) = (world.owner(), world.worker("w"), world.other_node().await);
    let claimed = world.claimed("s", &worker).await;
    let id = claimed.session.id.clone();
    let long = Duration::from_secs(60);
    let answering = async {
        asked(world).await;
        assert_eq!(world.session("s").await.head.status, Status::Running);
        // One question at a time.
        let (second, ()) = held(&world.engine, &worker, &claimed, long, async {}).await;
        assert_eq!(code(second), "session_busy");
        other.reply(&owner, &id, reply(), None).await.unwrap();
        code(other.reply(&owner, &id, reply(), None).await)
    };
    let (answer, again) = held(&world.engine, &worker, &claimed, long, answering).await;
    assert_eq!((answer.unwrap(), again.as_str()), (HeldAnswer::Accepted(reply()), "invalid_transition"));
    let declining = async {
        asked(world).await;
        other.turn_down(&owner, &id, TurnDown::Decline, None).await.unwrap();
    };
    assert_eq!(
        held(&world.engine, &worker, &claimed, long, declining).await.0.unwrap(),
        HeldAnswer::Declined
    );
    let cancelling = async {
        asked(world).await;
        other.turn_down(&owner, &id, TurnDown::Cancel, None).await.unwrap();
    };
    assert_eq!(
        held(&world.engine, &worker, &claimed, long, cancelling).await.0.unwrap(),
        HeldAnswer::Cancelled
    );
    let session = world.session("s").await;
    assert_eq!((session.head.status, session.head.epoch), (Status::Running, claimed.epoch));
    let done = Settle::Complete { result: None, text: None, usage: None };
    world.engine.settle(&worker, &id, claimed.epoch, done, None).await.unwrap();
}

async fn a_held_question_ends_with_its_time_or_with_the_move_of_its_session(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    let claimed = world.claimed("s", &worker).await;
    let id = claimed.session.id.clone();
    let (answer, ()) = held(&world.engine, &worker, &claimed, Duration::from_millis(300), async {}).await;
    assert_eq!(answer.unwrap(), HeldAnswer::Unanswered);
    assert_eq!(states(world, &id).await, [ApprovalState::Expired]);
    assert_eq!(code(world.engine.reply(&owner, &id, reply(), None).await), "invalid_transition");

    // The run fails in another way: the question goes with it.
    let failing = async {
        asked(world).await;
        let error = "it broke".to_owned();
        let how = Settle::Fail { error, retryable: false, reason: None, usage: None };
        world.engine.settle(&worker, &id, claimed.epoch, how, None).await.unwrap();
    };
    let (answer, ()) = held(&world.engine, &worker, &claimed, Duration::from_secs(60), failing).await;
    assert_eq!(answer.unwrap(), HeldAnswer::Unanswered);
    assert_eq!(states(world, &id).await, [ApprovalState::Cancelled, ApprovalState::Expired]);
}

async fn nobody_answers_the_question_of_a_worker_whose_lease_is_over(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    let claimed = world.claimed("s", &worker).await;
    let id = claimed.session.id.clone();
    // The worker dies while it asks; the time of its question is longer than its lease.
    tokio::select! {
        _ = held(&world.engine, &worker, &claimed, Duration::from_secs(86_400), async {}) => panic!("answered"),
        () = asked(world) => {}
    }
    world.clock.advance(Duration::from_secs(3_600));
    assert_eq!(code(world.engine.reply(&owner, &id, reply(), None).await), "invalid_transition");
    world.engine.sweep().await.unwrap();
    assert_eq!(world.session("s").await.head.status, Status::Pending);
    assert_eq!(states(world, &id).await, [ApprovalState::Cancelled]);
}
