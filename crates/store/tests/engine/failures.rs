//! Failed runs: one record each, in the commit that fails them, apart from people's feedback.

use std::time::Duration;

use sederunt_core::access::Actor;
use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::{ApprovalQuery, ApprovalState};
use sederunt_core::engine::FeedbackOpening;
use sederunt_core::event::EventQuery;
use sederunt_core::feedback::capture::{Capture, FeedbackEvent, FeedbackText, Signal};
use sederunt_core::session::Status;
use sederunt_core::session::decide::PatchSession;
use sederunt_core::work::Settle;
use sederunt_core::{Error, Role, SessionId};

use crate::harness::{World, key};
use crate::on_both_stores;
use crate::tasks::{complete, define_criteria, define_entity, define_task, fail, take, trigger};

on_both_stores!(
    every_way_to_fail_leaves_one_record_that_says_by_what,
    what_did_not_fail_leaves_none,
    of_many_who_fail_a_run_at_once_one_leaves_a_record,
    a_failed_step_and_its_run_leave_one_each,
    failures_move_no_rate_and_teach_nothing,
    failures_are_told_to_those_who_may_read_the_session,
    a_run_that_completes_at_last_shows_no_error_of_an_earlier_attempt,
);

const PLAIN: &str = r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#;

impl World {
    async fn failed(&self, task: Option<&str>) -> Vec<FeedbackEvent> {
        self.engine.failures(&self.owner(), task, None, None, 100).await.unwrap().items
    }

    /// The one failure of a session, and that its log says why at its sequence.
    async fn failure_of(&self, id: &SessionId) -> FeedbackEvent {
        let page = self.engine.failures(&self.owner(), None, Some(id.clone()), None, 100).await.unwrap();
        let [one] = &page.items[..] else { panic!("{:?}", page.items) };
        let types = vec!["session.error".to_owned()];
        let query = EventQuery { types, newest_first: true, ..EventQuery::default() };
        let said = self.engine.read(&self.owner(), id, query).await.unwrap().events;
        assert_eq!(one.body.sequences, [said[0].sequence]);
        let session = self.session(id.as_str()).await;
        assert_eq!(session.head.status, Status::Failed);
        assert_eq!(one.at, said[0].at, "in the same commit");
        assert_eq!(one.body.words.what_went_wrong.as_deref(), session.details.error_message.as_deref());
        assert_eq!(one.body.agent.as_deref(), session.details.agent_slug.as_deref());
        assert_eq!((one.author.as_ref(), one.signal, one.body.trusted), (None, Signal::Down, false));
        one.clone()
    }

    /// A run that its worker fails like this.
    async fn fails_with(&self, worker: &Actor, error: &str, reason: Option<&str>) -> SessionId {
        let run = trigger(self, "t").await;
        let claim = take(self, worker).await;
        let how = Settle::Fail {
            error: error.into(),
            retryable: false,
            reason: reason.map(str::to_owned),
            usage: None,
        };
        self.engine.settle(worker, &run.id, claim.epoch, how, None).await.unwrap();
        run.id
    }

    async fn deny_what_waits(&self) {
        let query =
            ApprovalQuery { state: Some(ApprovalState::Pending), limit: 10, ..ApprovalQuery::default() };
        let owner = self.owner();
        let asked =
            self.engine.approvals(&owner, false, query).await.unwrap().items.pop().expect("something waits");
        let no = DecisionRequest {
            decision: Decision::Deny,
            modified_args: None,
            modified_output: None,
            reason: Some("too long".into()),
            digest: None,
        };
        self.engine.decide(&owner, &asked.id, no, None).await.unwrap();
    }
}

fn code(event: &FeedbackEvent) -> &str {
    &event.body.failure.as_ref().expect("a failure").code
}

async fn a_run_that_completes_at_last_shows_no_error_of_an_earlier_attempt(world: &World) {
    let worker = world.worker("w");
    define_task(world, PLAIN).await;
    let run = trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let cut = Settle::Fail { error: "the stream was cut".into(), retryable: true, reason: None, usage: None };
    world.engine.settle(&worker, &run.id, claim.epoch, cut, None).await.unwrap();
    let queued = world.session(run.id.as_str()).await;
    assert_eq!(queued.details.error_message.as_deref(), Some("the stream was cut"));
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, r#"{"n":1}"#).await.unwrap();
    let done = world.session(run.id.as_str()).await;
    assert_eq!((done.head.status, done.details.error_message), (Status::Completed, None));
}

async fn every_way_to_fail_leaves_one_record_that_says_by_what(world: &World) {
    let worker = world.worker("w");
    define_task(world, PLAIN).await;
    // By its worker, with and without a reason such as a limit.
    let by_worker = world.fails_with(&worker, "it broke", None).await;
    let left = world.failure_of(&by_worker).await;
    assert_eq!(
        (code(&left), left.body.failure.as_ref().unwrap().task_slug.as_deref()),
        ("run_failed", Some("t"))
    );
    assert_eq!(left.body.words.context.as_deref(), Some("run_failed: task `t`, agent `eliza`"));
    let by_limit = world.fails_with(&worker, "it took 30 steps", Some("steps")).await;
    assert_eq!(code(&world.failure_of(&by_limit).await), "steps");
    // By attempts that are used up.
    let lost = trigger(world, "t").await.id;
    for _ in 0..3 {
        assert_eq!(world.failed(None).await.len(), 2);
        take(world, &worker).await;
        world.clock.advance(Duration::from_secs(31));
        world.engine.sweep().await.unwrap();
    }
    assert_eq!(code(&world.failure_of(&lost).await), "lease_lost");
    assert_eq!(world.session(lost.as_str()).await.details.end_reason.as_deref(), Some("lease_lost"));
    // By an output that does not fit, once repaired.
    define_entity(world, "e1", r#"{"n":0}"#).await;
    define_criteria(world).await;
    define_task(
        world,
        r#"{"slug":"fit","name":"F","agent_slug":"eliza","entity_id":"e1",
            "output":{"type":"entity","schema":{"type":"object","required":["n"]}}}"#,
    )
    .await;
    let unfit = trigger(world, "fit").await.id;
    let claim = take(world, &worker).await;
    for _ in 0..2 {
        let _ = complete(world, &worker, &claim, r#"{"m":1}"#).await;
    }
    assert_eq!(code(&world.failure_of(&unfit).await), "output_invalid");
    // By the gate, and by the third denial.
    define_task(
        world,
        r#"{"slug":"gate","name":"G","agent_slug":"eliza","entity_id":"e1","requires_approval":true,
            "criteria_set_ids":["care"],"output":{"type":"entity"}}"#,
    )
    .await;
    let blocked = trigger(world, "gate").await.id;
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, r#"{"tone":"cruel"}"#).await.unwrap();
    assert_eq!(code(&world.failure_of(&blocked).await), "hard_blocked");
    let denied = trigger(world, "gate").await.id;
    for _ in 0..3 {
        let claim = take(world, &worker).await;
        complete(world, &worker, &claim, r#"{"tone":"kind"}"#).await.unwrap();
        world.deny_what_waits().await;
    }
    let left = world.failure_of(&denied).await;
    assert_eq!(code(&left), "denied");
    assert!(left.body.words.what_went_wrong.unwrap().contains("too long"));
    // By a person who will not do their step.
    define_task(world, r#"{"slug":"people","name":"P","steps":[{"key":"a","assigned_to":"ada"}]}"#).await;
    let parent = trigger(world, "people").await.id;
    world.deny_what_waits().await;
    assert_eq!(code(&world.failure_of(&parent).await), "child_failed");
    let codes: Vec<String> =
        world.failed(Some("people")).await.iter().map(|one| code(one).to_owned()).collect();
    assert_eq!(codes.len(), 2);
    assert!(codes.contains(&"declined".to_owned()), "{codes:?}");
    assert_eq!(world.failed(None).await.len(), 8);
}

async fn what_did_not_fail_leaves_none(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    define_task(world, PLAIN).await;
    // Done, queued again, stopped, and expired.
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, "1").await.unwrap();
    let again = trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let how = Settle::Fail { error: "later".into(), retryable: true, reason: None, usage: None };
    let queued = world.engine.settle(&worker, &again.id, claim.epoch, how, None).await.unwrap();
    assert_eq!(queued.head.status, Status::Pending);
    world.engine.stop(&owner, &again.id, None).await.unwrap();
    let old = trigger(world, "t").await;
    world.clock.advance(Duration::from_secs(8 * 24 * 3600));
    world.engine.sweep().await.unwrap();
    assert_eq!(world.session(old.id.as_str()).await.head.status, Status::Expired);
    // Work without a task, and talk.
    let claim = world.claimed("loose", &worker).await;
    fail(world, &worker, &claim).await;
    assert_eq!(world.session("loose").await.head.status, Status::Failed);
    world.talk("chat").await;
    assert_eq!(world.failed(None).await, []);
}

async fn of_many_who_fail_a_run_at_once_one_leaves_a_record(world: &World) {
    let worker = world.worker("w");
    define_task(world, PLAIN).await;
    let nodes = [world.engine.clone(), world.other_node().await];
    for round in 1..=5u8 {
        let run = trigger(world, "t").await;
        let claim = take(world, &worker).await;
        let mut failing = tokio::task::JoinSet::new();
        for n in 0..6u8 {
            let (node, worker, id) = (nodes[usize::from(n % 2)].clone(), worker.clone(), run.id.clone());
            // Two are retries of each other; the others are independent.
            let key = (n < 2).then(|| key("fail", round)).flatten();
            let key = key.map(|key| sederunt_core::store::IdemKey { scope: [round; 16], ..key });
            let how = Settle::Fail { error: "it broke".into(), retryable: false, reason: None, usage: None };
            failing.spawn(async move { node.settle(&worker, &id, claim.epoch, how, key).await.is_ok() });
        }
        let done = failing.join_all().await.into_iter().filter(|done| *done).count();
        assert!((1..=2).contains(&done), "{done} were told that they failed it");
        world.failure_of(&run.id).await;
        assert_eq!(world.failed(Some("t")).await.len(), usize::from(round));
    }
}

async fn a_failed_step_and_its_run_leave_one_each(world: &World) {
    let worker = world.worker("w");
    define_task(
        world,
        r#"{"slug":"g","name":"G","steps":[{"key":"a","agent_slug":"eliza"},
            {"key":"b","agent_slug":"eliza","depends_on":["a"]}]}"#,
    )
    .await;
    let parent = trigger(world, "g").await;
    let claim = take(world, &worker).await;
    fail(world, &worker, &claim).await;
    let step = world.failure_of(&claim.session.id).await;
    assert_eq!((code(&step), step.body.failure.as_ref().unwrap().step.as_deref()), ("run_failed", Some("a")));
    let whole = world.failure_of(&parent.id).await;
    assert_eq!((code(&whole), whole.body.failure.as_ref().unwrap().step.as_deref()), ("child_failed", None));
    assert_eq!(world.failed(Some("g")).await.len(), 2, "what was called off did not fail");
    let again = world.engine.retry(&world.owner(), &parent.id, None).await.unwrap();
    let claim = take(world, &worker).await;
    fail(world, &worker, &claim).await;
    assert_eq!(code(&world.failure_of(&again.id).await), "child_failed");
    assert_eq!(world.failed(Some("g")).await.len(), 4);
}

async fn failures_move_no_rate_and_teach_nothing(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    define_task(world, PLAIN).await;
    let words = FeedbackText { what_worked: Some("ran the tests first".into()), ..FeedbackText::default() };
    let up = Capture { signal: Some(Signal::Up), words, ..Capture::default() };
    world.accepted(&owner, up).await;
    let secret = "login failed with password: hunter2hunter2";
    let run = world.fails_with(&worker, secret, None).await;
    let page = world.engine.failures(&owner, None, Some(run), None, 1).await.unwrap();
    assert_eq!(page.items[0].body.words.what_went_wrong, None, "a secret goes no further");
    let stats = world.engine.feedback_stats(&owner).await.unwrap();
    assert_eq!((stats.tally.lifetime.total(), stats.tally.lifetime.rate()), (1, Some(1.0)));
    assert_eq!((stats.recent.total(), stats.tally.failures.lifetime), (1, 1));
    let summary = world.engine.feedback_summary(&owner, 10).await.unwrap();
    assert!(summary.contains("- Failed runs: 1 in all"), "{summary}");
    assert!(!summary.contains("hunter2"), "{summary}");
    world.clock.advance(Duration::from_secs(120));
    let silent = world.engine.silent_feedback().await.unwrap();
    assert_eq!(silent.len(), 1, "only the thumb waits for more");
    // No person wrote it, so no person adds to it; but a thumb may refer to it.
    let id = page.items[0].id.clone();
    for actor in [&owner, &worker] {
        let opened = world.engine.open_feedback(actor, &id, Signal::Down, None, None).await;
        assert!(matches!(&opened, Err(Error::Invalid { .. } | Error::NotFound)), "{opened:?}");
        assert!(!matches!(opened, Ok(FeedbackOpening::Open(_))));
    }
    let words = FeedbackText { what_to_change: Some("Renew the login".into()), ..FeedbackText::default() };
    let wish = || Capture {
        signal: Some(Signal::Down),
        words: words.clone(),
        related: Some(id.clone()),
        ..Capture::default()
    };
    world.accepted(&owner, wish()).await;
    let worker = world.engine.capture_feedback(&worker, wish(), None).await.unwrap_err();
    assert_eq!(worker.code(), "invalid");
}

async fn failures_are_told_to_those_who_may_read_the_session(world: &World) {
    let (owner, worker) = (world.owner(), world.worker("w"));
    let (ann, ben) = (world.actor(Role::Member, "ann"), world.actor(Role::Member, "ben"));
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ann"}"#).await;
    let other = world.fails_with(&worker, "it broke", None).await;
    let nobody = PatchSession { participants: Some(Vec::new()), ..PatchSession::default() };
    world.engine.patch(&owner, &other, nobody, None).await.unwrap();
    let run = world.fails_with(&worker, "it broke", None).await;
    let patch = PatchSession { participants: Some(vec!["ann".into()]), ..PatchSession::default() };
    world.engine.patch(&owner, &run, patch, None).await.unwrap();
    let of_session =
        async |actor: &Actor| world.engine.failures(actor, None, Some(run.clone()), None, 10).await;
    let of_task = async |actor: &Actor| world.engine.failures(actor, Some("t"), None, None, 10).await;
    for (actor, sees) in [(&owner, 2), (&ann, 1)] {
        assert_eq!(of_session(actor).await.unwrap().items.len(), 1);
        assert_eq!(of_task(actor).await.unwrap().items.len(), sees);
    }
    assert!(matches!(of_session(&ben).await, Err(Error::NotFound)), "not his to see");
    assert!(matches!(of_task(&ben).await, Err(Error::NotFound)), "not his task");
    for actor in [&ann, &ben, &worker] {
        let all = world.engine.failures(actor, None, None, None, 10).await;
        assert_eq!(all.unwrap_err().code(), "denied");
    }
    let elsewhere = world.other_tenant().await;
    assert_eq!(world.engine.failures(&elsewhere, None, None, None, 10).await.unwrap().items, []);
    let share = world.actor(Role::Share, "s");
    assert_eq!(of_session(&share).await.unwrap_err().code(), "denied");
    assert_eq!(world.engine.feedback_stats(&ann).await.unwrap().tally.failures.lifetime, 0);
}
