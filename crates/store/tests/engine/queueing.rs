//! What makes a session pending: the right to start work, held now, or a run that goes on.

use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::{ApprovalKind, ApprovalQuery, ApprovalState};
use sederunt_core::definitions::Task;
use sederunt_core::error::Result;
use sederunt_core::session::decide::{OpenSession, Transition};
use sederunt_core::session::{Session, SessionType, Status};
use sederunt_core::{Actor, Role, SessionId, limits, strict};

use crate::harness::{World, key, wish};
use crate::on_both_stores;
use crate::tasks::{define_entity, define_task, entity, fail, json, take};

on_both_stores!(
    an_abandoned_draft_is_not_queued_by_its_retry,
    a_retry_needs_the_right_to_start_the_task_now,
    a_draft_is_started_with_the_right_to_start_its_task,
    retries_of_one_origin_are_bounded,
    deleting_what_was_retried_makes_no_room_for_more_retries,
    the_retries_of_a_chain_are_counted_by_the_oldest_session_that_is_left,
    a_deletion_and_a_retry_at_once_both_count,
    a_session_that_takes_over_a_deleted_id_is_not_charged_with_its_retries,
    a_session_of_an_unseen_task_is_not_found,
    a_persons_output_waits_for_an_owner,
);

fn code<T>(answer: Result<T>) -> &'static str {
    answer.map_or_else(|error| error.code(), |_| "ok")
}

async fn move_to(world: &World, actor: &Actor, id: &SessionId, to: Status) -> Result<Session> {
    let wish = Transition { to, expected: None, reason: None };
    world.engine.transition(actor, id, wish, None).await
}

async fn an_abandoned_draft_is_not_queued_by_its_retry(world: &World) {
    let mallory = world.actor(Role::Member, "mallory");
    let draft = world.open(&mallory, wish("draft", SessionType::Agent)).await;
    assert_eq!(code(move_to(world, &mallory, &draft.id, Status::Pending).await), "denied");
    move_to(world, &mallory, &draft.id, Status::Abandoned).await.unwrap();
    assert_eq!(code(world.engine.retry(&mallory, &draft.id, None).await), "denied");
    assert!(world.claim(&world.worker("w")).await.is_empty());
    assert_eq!(code(world.engine.retry(&world.owner(), &draft.id, None).await), "ok");
    // Without a task, a participant may have done again what an owner had queued.
    let worker = world.worker("w");
    take(world, &worker).await;
    let pending = OpenSession {
        status: Some(Status::Pending),
        participants: vec!["mallory".into()],
        ..wish("queued", SessionType::Agent)
    };
    world.open(&world.owner(), pending).await;
    let failed = fail(world, &worker, &take(world, &worker).await).await;
    assert_eq!(code(world.engine.retry(&mallory, &failed.id, None).await), "ok");
}

async fn a_retry_needs_the_right_to_start_the_task_now(world: &World) {
    let (owner, ada, worker) = (world.owner(), world.actor(Role::Member, "ada"), world.worker("w"));
    let single = r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ada"}"#;
    let graph = r#"{"slug":"g","name":"G","assigned_to":"ada","steps":[{"key":"a","agent_slug":"eliza"}]}"#;
    for (slug, text) in [("t", single), ("g", graph)] {
        define_task(world, text).await;
        world.engine.trigger(&ada, slug, None, None).await.unwrap();
        let failed = fail(world, &worker, &take(world, &worker).await).await;
        let again = world.engine.retry(&ada, &failed.id, None).await.unwrap();
        assert!(again.details.retry_of.is_some(), "{slug}");
        let failed = fail(world, &worker, &take(world, &worker).await).await;
        let away = json(r#"{"assigned_to":null}"#);
        world.engine.redefine::<Task>(&owner, slug, &away, None).await.unwrap();
        assert_eq!(code(world.engine.trigger(&ada, slug, None, None).await), "not_found", "{slug}");
        assert_eq!(code(world.engine.retry(&ada, &failed.id, None).await), "denied", "{slug}");
        assert!(world.claim(&worker).await.is_empty(), "{slug}");
        assert_eq!(code(world.engine.retry(&owner, &failed.id, None).await), "ok", "{slug}");
        take(world, &worker).await;
    }
}

async fn a_draft_is_started_with_the_right_to_start_its_task(world: &World) {
    let owner = world.owner();
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ada"}"#).await;
    let participants = vec!["ada".to_owned(), "bob".to_owned()];
    let draft = OpenSession { task_id: Some("t".into()), participants, ..wish("draft", SessionType::Agent) };
    let draft = world.open(&owner, draft).await;
    let (ada, bob) = (world.actor(Role::Member, "ada"), world.actor(Role::Member, "bob"));
    assert_eq!(code(move_to(world, &bob, &draft.id, Status::Pending).await), "denied");
    assert_eq!(code(move_to(world, &ada, &draft.id, Status::Pending).await), "ok");
}

async fn retries_of_one_origin_are_bounded(world: &World) {
    let owner = world.owner();
    let first = world.open(&owner, wish("first", SessionType::Agent)).await;
    move_to(world, &owner, &first.id, Status::Abandoned).await.unwrap();
    let mut newest = first.id.clone();
    for n in 0..limits::RETRIES_PER_ORIGIN_MAX {
        // Of the first one and of the newest one by turns: both count.
        let of = if n % 2 == 0 { &first.id } else { &newest };
        let again = world.engine.retry(&owner, of, key("again", n as u8)).await;
        let again = if n == 0 { again.unwrap() } else { world.engine.retry(&owner, of, None).await.unwrap() };
        move_to(world, &owner, &again.id, Status::Abandoned).await.unwrap();
        newest = again.id;
    }
    for of in [&first.id, &newest] {
        assert_eq!(code(world.engine.retry(&owner, of, None).await), "retry_limit");
    }
    let repeat = world.engine.retry(&owner, &first.id, key("again", 0)).await.unwrap();
    assert_eq!(repeat.details.retry_of, Some(first.id), "a repeat is told of the first");
}

/// A session that failed, to be retried.
async fn abandoned(world: &World, id: &str) -> Session {
    let owner = world.owner();
    let session = world.open(&owner, wish(id, SessionType::Agent)).await;
    move_to(world, &owner, &session.id, Status::Abandoned).await.unwrap()
}

/// The session that a retry of another made, failed in turn.
async fn retried(world: &World, of: &SessionId) -> Result<SessionId> {
    let again = world.engine.retry(&world.owner(), of, None).await?;
    move_to(world, &world.owner(), &again.id, Status::Abandoned).await.map(|session| session.id)
}

async fn deleting_what_was_retried_makes_no_room_for_more_retries(world: &World) {
    let owner = world.owner();
    let mut newest = abandoned(world, "first").await.id;
    for _ in 0..limits::RETRIES_PER_ORIGIN_MAX {
        let again = retried(world, &newest).await.unwrap();
        world.engine.delete(&owner, &newest).await.unwrap();
        newest = again;
    }
    assert_eq!(code(retried(world, &newest).await), "retry_limit");
}

async fn the_retries_of_a_chain_are_counted_by_the_oldest_session_that_is_left(world: &World) {
    let owner = world.owner();
    let first = abandoned(world, "first").await.id;
    let second = retried(world, &first).await.unwrap();
    let third = retried(world, &first).await.unwrap();
    let fourth = retried(world, &second).await.unwrap();
    world.engine.delete(&owner, &first).await.unwrap();
    for n in 3..limits::RETRIES_PER_ORIGIN_MAX {
        let of = [&second, &third, &fourth][n as usize % 3];
        let spare = retried(world, of).await.unwrap();
        // The sessions that it led to may be deleted as well.
        world.engine.delete(&owner, &spare).await.unwrap();
    }
    for of in [&second, &third, &fourth] {
        assert_eq!(code(retried(world, of).await), "retry_limit");
    }
    for gone in [&third, &second] {
        world.engine.delete(&owner, gone).await.unwrap();
    }
    assert_eq!(code(retried(world, &fourth).await), "retry_limit");
}

async fn a_deletion_and_a_retry_at_once_both_count(world: &World) {
    let owner = world.owner();
    let mut oldest = abandoned(world, "first").await.id;
    let mut newest = retried(world, &oldest).await.unwrap();
    let mut made = 1;
    for _ in 0..8 {
        let (deleted, again) =
            tokio::join!(world.engine.delete(&owner, &oldest), world.engine.retry(&owner, &newest, None));
        deleted.unwrap();
        let again = again.unwrap().id;
        move_to(world, &owner, &again, Status::Abandoned).await.unwrap();
        (oldest, newest) = (newest, again);
        made += 1;
    }
    while retried(world, &newest).await.is_ok() {
        made += 1;
    }
    assert_eq!(made, limits::RETRIES_PER_ORIGIN_MAX);
}

async fn a_session_that_takes_over_a_deleted_id_is_not_charged_with_its_retries(world: &World) {
    let owner = world.owner();
    let first = abandoned(world, "first").await.id;
    let second = retried(world, &first).await.unwrap();
    world.engine.delete(&owner, &first).await.unwrap();
    abandoned(world, "first").await;
    for _ in 1..limits::RETRIES_PER_ORIGIN_MAX {
        retried(world, &second).await.unwrap();
    }
    assert_eq!(code(retried(world, &second).await), "retry_limit");
    assert_eq!(code(retried(world, &first).await), "ok");
}

async fn a_session_of_an_unseen_task_is_not_found(world: &World) {
    let (owner, ada) = (world.owner(), world.actor(Role::Member, "ada"));
    let task = define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza"}"#).await;
    let of =
        |id: &str, task: &str| OpenSession { task_id: Some(task.into()), ..wish(id, SessionType::Agent) };
    assert_eq!(code(world.engine.open(&owner, of("a", "none"), None).await), "not_found");
    assert_eq!(code(world.engine.open(&ada, of("a", "none"), None).await), "not_found");
    assert_eq!(code(world.engine.open(&ada, of("a", "t"), None).await), "not_found");
    let opened = world.open(&owner, of("a", "t")).await;
    assert_eq!(opened.details.task_id.as_deref(), Some(&*task), "a slug stands for the id");
    let mine: Task = strict::read(r#"{"slug":"mine","name":"M","agent_slug":"eliza"}"#).unwrap();
    world.engine.define(&ada, None, mine, None).await.unwrap();
    assert_eq!(code(world.engine.open(&ada, of("b", "mine"), None).await), "denied");
}

async fn a_persons_output_waits_for_an_owner(world: &World) {
    let (owner, ada) = (world.owner(), world.actor(Role::Member, "ada"));
    define_entity(world, "e1", "{}").await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","assigned_to":"ada","entity_id":"e1","requires_approval":true,
            "output":{"type":"entity"}}"#,
    )
    .await;
    let run = world.engine.trigger(&ada, "t", None, None).await.unwrap();
    let pending = async |actor: &Actor| {
        let query =
            ApprovalQuery { state: Some(ApprovalState::Pending), limit: 10, ..ApprovalQuery::default() };
        world.engine.approvals(actor, true, query).await.unwrap().items
    };
    let done = async |n: u32| {
        let result = Some(json(&format!(r#"{{"n":{n}}}"#)));
        world.engine.human_complete(&ada, &run.id, result, None, None).await
    };
    let decide = |decision| DecisionRequest {
        decision,
        modified_args: None,
        modified_output: None,
        reason: Some("again".into()),
        digest: None,
    };
    assert_eq!(done(1).await.unwrap().head.status, Status::WaitingHuman);
    assert_eq!(entity(world, "e1").await, "{}", "nothing is written yet");
    assert!(pending(&ada).await.is_empty(), "nobody decides on their own work");
    let asked = pending(&owner).await.pop().unwrap();
    assert_eq!((asked.kind, asked.assigned_to.as_ref()), (ApprovalKind::Output, None));
    assert_eq!(
        code(world.engine.decide(&ada, &asked.id, decide(Decision::Approve), None).await),
        "not_found"
    );
    assert!(done(2).await.is_err(), "it is done and waits");
    // A denial puts the step before the person again, and never before a worker.
    world.engine.decide(&owner, &asked.id, decide(Decision::Deny), None).await.unwrap();
    assert!(world.claim(&world.worker("w")).await.is_empty());
    let again = pending(&ada).await.pop().unwrap();
    assert_eq!(again.kind, ApprovalKind::Question);
    assert!(again.body.staged.unwrap().as_str().contains("again"), "the person is told why");
    done(3).await.unwrap();
    let asked = pending(&owner).await.pop().unwrap();
    world.engine.decide(&owner, &asked.id, decide(Decision::Approve), None).await.unwrap();
    assert_eq!(world.session(run.id.as_str()).await.head.status, Status::Completed);
    assert_eq!(entity(world, "e1").await, r#"{"n":3}"#);
    // An owner who does it decides on it too; after three denials the run has failed.
    let run = world.engine.trigger(&owner, "t", None, None).await.unwrap();
    for n in 0..limits::DENIALS_MAX {
        let result = Some(json(&format!(r#"{{"n":{n}}}"#)));
        world.engine.human_complete(&owner, &run.id, result, None, None).await.unwrap();
        let asked =
            pending(&owner).await.into_iter().find(|asked| asked.kind == ApprovalKind::Output).unwrap();
        world.engine.decide(&owner, &asked.id, decide(Decision::Deny), None).await.unwrap();
    }
    assert_eq!(world.session(run.id.as_str()).await.head.status, Status::Failed);
}
