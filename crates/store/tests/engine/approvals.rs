//! Approvals: what waits for people, and that a decision has its effect once.

use std::time::Duration;

use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::{Approval, ApprovalKind, ApprovalQuery, ApprovalState};
use sederunt_core::error::{Conflict, Error};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::json::Json;
use sederunt_core::session::{Session, Status};
use sederunt_core::work::run::Run;
use sederunt_core::work::{ClaimedRun, Pause, Settle};
use sederunt_core::{Actor, Role};

use crate::harness::World;
use crate::on_both_stores;
use crate::tasks::{complete, define_criteria, define_entity, define_task, entity, json, take, trigger};

on_both_stores!(
    an_output_waits_and_its_approval_writes_it_without_another_run,
    a_run_that_writes_nothing_waits_for_leave_too,
    an_edit_keeps_to_what_was_staged_and_passes_the_gate_again,
    an_edit_that_breaks_the_output_contract_is_refused_and_the_approval_stays_pending,
    edited_arguments_that_the_tool_would_refuse_are_refused_when_deciding,
    the_same_decision_stands_and_the_opposite_names_who_decided,
    only_the_assignee_or_an_owner_decides,
    a_denied_output_is_made_again_and_the_third_denial_fails,
    an_approved_call_resumes_with_its_arguments,
    an_edited_call_resumes_with_the_edited_arguments_and_a_new_digest,
    a_denied_call_resumes_as_denied,
    what_one_saw_is_what_one_decides,
    a_question_is_answered_and_the_answer_handed_on,
    silence_expires_or_denies_and_never_approves,
    a_stopped_session_waits_for_no_answer,
    an_approval_releases_what_depends_on_it,
    a_takeover_after_a_crash_is_handed_the_decision_again,
    a_deleted_session_takes_its_question_along,
    a_call_without_a_name_is_refused_and_nothing_waits,
);

fn approve() -> DecisionRequest {
    DecisionRequest {
        decision: Decision::Approve,
        modified_args: None,
        modified_output: None,
        reason: None,
        digest: None,
    }
}

fn deny(reason: &str) -> DecisionRequest {
    DecisionRequest { decision: Decision::Deny, reason: Some(reason.into()), ..approve() }
}

async fn inbox(world: &World, actor: &Actor) -> Vec<Approval> {
    let query = ApprovalQuery { state: Some(ApprovalState::Pending), limit: 100, ..ApprovalQuery::default() };
    world.engine.approvals(actor, true, query).await.unwrap().items
}

async fn decide(world: &World, actor: &Actor, id: &str, wish: DecisionRequest) -> Result<Approval, Error> {
    world.engine.decide(actor, id, wish, None).await
}

/// A task whose output ada approves, triggered and done by its worker.
async fn staged(world: &World, worker: &Actor, result: &str) -> (Session, Approval) {
    define_criteria(world).await;
    define_entity(world, "e1", r#"{"n":0}"#).await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1","assigned_to":"ada",
            "requires_approval":true,"criteria_set_ids":["care"],"output":{"type":"entity"}}"#,
    )
    .await;
    trigger(world, "t").await;
    let claim = take(world, worker).await;
    let waiting = complete(world, worker, &claim, result).await.unwrap();
    assert_eq!(waiting.head.status, Status::WaitingHuman);
    let ada = world.actor(Role::Member, "ada");
    (waiting, inbox(world, &ada).await.pop().expect("something waits"))
}

async fn an_output_waits_and_its_approval_writes_it_without_another_run(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (session, asked) = staged(world, &worker, r#"{"n":1,"tone":"curt"}"#).await;
    assert_eq!((asked.kind, asked.state), (ApprovalKind::Output, ApprovalState::Pending));
    assert_eq!(asked.body.staged.as_ref().unwrap().as_str(), r#"{"n":1,"tone":"curt"}"#);
    assert_eq!((asked.body.score, &asked.body.flags[..]), (Some(0.5), &["tone:curt".to_owned()][..]));
    assert_eq!(entity(world, "e1").await, r#"{"n":0}"#, "nothing is written yet");
    let done = decide(world, &ada, &asked.id, approve()).await.unwrap();
    assert_eq!((done.state, done.decided_by.as_deref()), (ApprovalState::Approved, Some("ada")));
    let session = world.session(session.id.as_str()).await;
    assert_eq!(session.head.status, Status::Completed);
    assert_eq!(session.head.epoch, 1, "the agent did not run again");
    assert_eq!(entity(world, "e1").await, r#"{"n":1,"tone":"curt"}"#);
    assert!(inbox(world, &ada).await.is_empty());
}

async fn a_run_that_writes_nothing_waits_for_leave_too(world: &World) {
    let worker = world.worker("w");
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza","requires_approval":true}"#).await;
    for (decision, ends) in [(approve(), Status::Completed), (deny("not yet"), Status::Pending)] {
        trigger(world, "t").await;
        let claim = take(world, &worker).await;
        complete(world, &worker, &claim, "null").await.unwrap();
        let asked = inbox(world, &world.owner()).await.pop().expect("something waits");
        assert_eq!((asked.kind, asked.body.staged.as_ref()), (ApprovalKind::Output, Some(&json("null"))));
        decide(world, &world.owner(), &asked.id, decision).await.unwrap();
        assert_eq!(world.session(claim.session.id.as_str()).await.head.status, ends);
    }
}

async fn an_edit_keeps_to_what_was_staged_and_passes_the_gate_again(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (session, asked) = staged(world, &worker, r#"{"n":1,"tone":"kind"}"#).await;
    let edit = |text: &str| DecisionRequest { modified_output: Some(json(text)), ..approve() };
    for (wish, code) in [
        (edit(r#"{"other":1}"#), "invalid"),
        (edit(r#"{"tone":"odd"}"#), "invalid"),
        (edit("[1]"), "invalid"),
        (edit(r#"{"tone":"cruel"}"#), "hard_blocked"),
        (DecisionRequest { modified_args: Some(json("{}")), ..approve() }, "invalid"),
        (DecisionRequest { modified_output: Some(json(r#"{"n":2}"#)), ..deny("no") }, "invalid"),
    ] {
        let refused = decide(world, &ada, &asked.id, wish.clone()).await.unwrap_err();
        assert_eq!(refused.code(), code, "{wish:?}");
        assert_eq!(world.engine.approval(&ada, &asked.id).await.unwrap().state, ApprovalState::Pending);
    }
    let done = decide(world, &ada, &asked.id, edit(r#"{"n":2}"#)).await.unwrap();
    assert_ne!(done.body.digest, asked.body.digest);
    assert_eq!(done.body.edited.unwrap().as_str(), r#"{"n":2,"tone":"kind"}"#);
    assert_eq!(entity(world, "e1").await, r#"{"n":2,"tone":"kind"}"#);
    let session = world.session(session.id.as_str()).await;
    assert_eq!(session.details.result.unwrap().as_str(), r#"{"n":2,"tone":"kind"}"#);
}

/// The audit event of a decision, as the log holds it.
async fn audit_event(world: &World, session: &Session, kind: &str) -> Event {
    let query = EventQuery { limit: 100, ..EventQuery::default() };
    let events = world.engine.read(&world.owner(), &session.id, query).await.unwrap().events;
    events.into_iter().rfind(|event| event.kind.as_str() == kind).expect(kind)
}

async fn an_edit_that_breaks_the_output_contract_is_refused_and_the_approval_stays_pending(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", r#"{"rain":true}"#).await;
    define_task(
        world,
        r#"{"slug":"t","name":"T","agent_slug":"eliza","entity_id":"e1","requires_approval":true,
            "output":{"type":"entity","fields":{"rain":"weather.rain"},
                "schema":{"properties":{"weather":{"properties":{"rain":{"type":"boolean"}}}}}}}"#,
    )
    .await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    complete(world, &worker, &claim, r#"{"weather":{"rain":true,"wind":3}}"#).await.unwrap();
    let asked = inbox(world, &world.owner()).await.pop().expect("something waits");
    assert_eq!(asked.body.staged.as_ref().unwrap().as_str(), r#"{"rain":true}"#);
    let edit = |text: &str| DecisionRequest { modified_output: Some(json(text)), ..approve() };
    match decide(world, &world.owner(), &asked.id, edit(r#"{"rain":"no"}"#)).await {
        Err(Error::OutputInvalid { complaints }) => {
            assert!(complaints[0].contains("/weather/rain"), "{complaints:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.engine.approval(&world.owner(), &asked.id).await.unwrap().state, ApprovalState::Pending);
    assert_eq!(entity(world, "e1").await, r#"{"rain":true}"#);
    let said = DecisionRequest { reason: Some("it is dry".into()), ..edit(r#"{"rain":false}"#) };
    decide(world, &world.owner(), &asked.id, said).await.unwrap();
    assert_eq!(entity(world, "e1").await, r#"{"rain":false}"#);
    let session = world.session(claim.session.id.as_str()).await;
    let result = session.details.result.clone().unwrap();
    assert_eq!(result.as_str(), r#"{"weather":{"rain":false,"wind":3}}"#, "the result is whole");
    let event = audit_event(world, &session, "user.output_approval").await;
    assert_eq!(event.content.unwrap().as_str(), r#"[{"type":"data","data":{"rain":false}}]"#);
    assert_eq!(event.metadata.unwrap().value()["reason"], "it is dry");
}

async fn edited_arguments_that_the_tool_would_refuse_are_refused_when_deciding(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ada"}"#).await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let call = |schema: &str| {
        let text =
            format!(r#"{{"id":"c1","name":"send","input_schema":{schema},"args":{{"to":"x","n":1}}}}"#);
        Pause::Tool { call: Some(json(&text)) }
    };
    let refused = yielded(world, &worker, &claim, call(r#"{"type":"nonsense"}"#)).await.unwrap_err();
    assert_eq!(refused.code(), "invalid");
    let schema = r#"{"type":"object","properties":{"to":{"type":"string"}}}"#;
    yielded(world, &worker, &claim, call(schema)).await.unwrap();
    let asked = inbox(world, &ada).await.pop().expect("something waits");
    assert_eq!(asked.body.input_schema.as_ref().unwrap().as_str(), schema);
    assert!(!asked.body.staged.as_ref().unwrap().as_str().contains("input_schema"));
    let edit = |text: &str| DecisionRequest { modified_args: Some(json(text)), ..approve() };
    let refused = decide(world, &ada, &asked.id, edit(r#"{"to":7}"#)).await.unwrap_err();
    assert!(refused.code() == "invalid" && refused.to_string().contains("/to"), "{refused}");
    assert_eq!(world.engine.approval(&ada, &asked.id).await.unwrap().state, ApprovalState::Pending);
    decide(world, &ada, &asked.id, edit(r#"{"to":"boss","n":1}"#)).await.unwrap();
    let event = audit_event(world, &claim.session, "user.tool_confirmation").await;
    assert_eq!(event.content.unwrap().as_str(), r#"[{"type":"data","data":{"to":"boss"}}]"#);
    assert_eq!(event.metadata.unwrap().value()["tool_call_id"], "c1");
}

async fn the_same_decision_stands_and_the_opposite_names_who_decided(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (session, asked) = staged(world, &worker, r#"{"tone":"kind"}"#).await;
    decide(world, &ada, &asked.id, approve()).await.unwrap();
    let before = world.session(session.id.as_str()).await;
    let again = decide(world, &world.owner(), &asked.id, approve()).await.unwrap();
    assert_eq!(again.decided_by.as_deref(), Some("ada"));
    assert_eq!(world.session(session.id.as_str()).await, before, "nothing changed");
    match decide(world, &world.owner(), &asked.id, deny("no")).await {
        Err(Error::Conflict(Conflict::AlreadyDecided { decision, decided_by })) => {
            assert_eq!((decision, decided_by.as_str()), ("approve", "ada"));
        }
        other => panic!("{other:?}"),
    }
}

async fn only_the_assignee_or_an_owner_decides(world: &World) {
    let worker = world.worker("w");
    let (_, asked) = staged(world, &worker, r#"{"tone":"kind"}"#).await;
    for (role, name) in
        [(Role::Member, "bob"), (Role::Guest, "ada"), (Role::Worker, "w"), (Role::Channel, "telegram:")]
    {
        let other = world.actor(role, name);
        let refused = decide(world, &other, &asked.id, approve()).await.unwrap_err();
        assert_eq!(refused.code(), "not_found", "{role:?}");
        assert_eq!(world.engine.approval(&other, &asked.id).await.unwrap_err().code(), "not_found");
    }
    assert!(decide(world, &world.owner(), &asked.id, approve()).await.is_ok());
}

async fn a_denied_output_is_made_again_and_the_third_denial_fails(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (session, mut asked) = staged(world, &worker, r#"{"tone":"kind"}"#).await;
    for round in 1..=3 {
        decide(world, &ada, &asked.id, deny(&format!("not {round}"))).await.unwrap();
        if round == 3 {
            break;
        }
        let claim = take(world, &worker).await;
        let denials = Run::of(&claim.session).denials;
        assert_eq!(denials.len(), round);
        assert_eq!(denials[round - 1].reason.as_deref(), Some(&*format!("not {round}")));
        assert_eq!(claim.session.head.attempts, 1, "a decision counts runs anew");
        complete(world, &worker, &claim, r#"{"tone":"kind"}"#).await.unwrap();
        asked = inbox(world, &ada).await.pop().unwrap();
    }
    let session = world.session(session.id.as_str()).await;
    assert_eq!(session.head.status, Status::Failed);
    let note = session.details.error_message.unwrap();
    assert!(note.contains("denied 3 times") && note.contains("not 2"), "{note}");
    assert_eq!(entity(world, "e1").await, r#"{"n":0}"#);
}

/// A claimed session that waits for permission to call a tool.
async fn paused(world: &World, worker: &Actor) -> (ClaimedRun, Approval) {
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ada"}"#).await;
    trigger(world, "t").await;
    let claim = take(world, worker).await;
    let call = Some(json(r#"{"id":"c1","name":"send","args":{"to":"x","text":"hi"}}"#));
    let parked = yielded(world, worker, &claim, Pause::Tool { call }).await.unwrap();
    assert_eq!(parked.head.status, Status::AwaitingTool);
    assert!(parked.head.deadline_at.is_none(), "a task's run parks without limit");
    let ada = world.actor(Role::Member, "ada");
    (claim, inbox(world, &ada).await.pop().expect("something waits"))
}

async fn yielded(world: &World, worker: &Actor, claim: &ClaimedRun, pause: Pause) -> Result<Session, Error> {
    let how = Settle::Yield { pause, usage: None };
    world.engine.settle(worker, &claim.session.id, claim.epoch, how, None).await
}

async fn an_approved_call_resumes_with_its_arguments(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (_, asked) = paused(world, &worker).await;
    assert_eq!(asked.kind, ApprovalKind::Tool);
    decide(world, &ada, &asked.id, approve()).await.unwrap();
    let claim = take(world, &worker).await;
    let resume = world.engine.brief(&claim, None).await.unwrap().run.resume.unwrap();
    assert_eq!((resume.decision.as_str(), resume.approval_id.as_str()), ("approve", &*asked.id));
    assert_eq!(resume.args.unwrap().as_str(), r#"{"to":"x","text":"hi"}"#);
    let call = asked.body.staged.unwrap();
    assert_eq!(resume.tool_call.as_ref(), Some(&call));
    assert_eq!(
        resume.digest,
        Some(sederunt_core::approval::digest(ApprovalKind::Tool, &claim.session.id, &call)),
        "what may be carried out is what was staged"
    );
    complete(world, &worker, &claim, "1").await.unwrap();
    assert!(Run::of(&world.session(claim.session.id.as_str()).await).resume.is_none());
}

async fn an_edited_call_resumes_with_the_edited_arguments_and_a_new_digest(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (_, asked) = paused(world, &worker).await;
    let edit = |text: &str| DecisionRequest { modified_args: Some(json(text)), ..approve() };
    for wish in [
        edit(r#"{"cc":"y"}"#),
        edit("5"),
        DecisionRequest { modified_output: Some(json("{}")), ..approve() },
        DecisionRequest { modified_args: Some(json(r#"{"to":"y"}"#)), ..deny("no") },
    ] {
        assert_eq!(decide(world, &ada, &asked.id, wish).await.unwrap_err().code(), "invalid");
    }
    let done = decide(world, &ada, &asked.id, edit(r#"{"to":"y"}"#)).await.unwrap();
    assert_ne!(done.body.digest, asked.body.digest);
    let claim = take(world, &worker).await;
    let resume = Run::of(&claim.session).resume.unwrap();
    assert_eq!(resume.args.unwrap().as_str(), r#"{"to":"y","text":"hi"}"#);
    assert_eq!(resume.digest, Some(done.body.digest));
}

async fn a_denied_call_resumes_as_denied(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (_, asked) = paused(world, &worker).await;
    decide(world, &ada, &asked.id, deny("too late")).await.unwrap();
    let resume = Run::of(&take(world, &worker).await.session).resume.unwrap();
    assert_eq!((resume.decision.as_str(), resume.reason.as_deref()), ("deny", Some("too late")));
    assert!(resume.args.is_none() && resume.digest.is_none());
}

async fn what_one_saw_is_what_one_decides(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (_, asked) = paused(world, &worker).await;
    let saw = |digest: &str| DecisionRequest { digest: Some(digest.into()), ..approve() };
    assert_eq!(decide(world, &ada, &asked.id, saw("else")).await.unwrap_err().code(), "stale_base");
    assert!(decide(world, &ada, &asked.id, saw(&asked.body.digest)).await.is_ok());
}

async fn a_question_is_answered_and_the_answer_handed_on(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    define_task(world, r#"{"slug":"t","name":"T","agent_slug":"eliza","assigned_to":"ada"}"#).await;
    trigger(world, "t").await;
    let claim = take(world, &worker).await;
    let question = Some(json(r#"{"text":"Which?","schema":{"enum":["a","b"]}}"#));
    yielded(world, &worker, &claim, Pause::Human { question }).await.unwrap();
    let asked = inbox(world, &ada).await.pop().unwrap();
    assert_eq!(asked.kind, ApprovalKind::Question);
    let id = claim.session.id.clone();
    let reply = |actor, text: &str| world.engine.reply(actor, &id, json(text), None);
    assert_eq!(reply(&ada, r#""c""#).await.unwrap_err().code(), "invalid");
    assert_eq!(decide(world, &ada, &asked.id, approve()).await.unwrap_err().code(), "invalid");
    let bob = world.actor(Role::Member, "bob");
    assert_eq!(reply(&bob, r#""a""#).await.unwrap_err().code(), "not_found");
    assert_eq!(reply(&ada, r#""a""#).await.unwrap().head.status, Status::Pending);
    assert!(reply(&ada, r#""b""#).await.is_err(), "it has been answered");
    let resume = Run::of(&take(world, &worker).await.session).resume.unwrap();
    assert_eq!((resume.decision.as_str(), resume.reply.unwrap().as_str()), ("answer", r#""a""#));
}

async fn silence_expires_or_denies_and_never_approves(world: &World) {
    let worker = world.worker("w");
    define_entity(world, "e1", "{}").await;
    for (slug, on_expiry, end) in [("a", "expire", Status::Expired), ("b", "deny", Status::Pending)] {
        define_task(
            world,
            &format!(
                r#"{{"slug":"{slug}","name":"T","agent_slug":"eliza","entity_id":"e1","requires_approval":true,
                    "approval":{{"expires_in_s":60,"on_expiry":"{on_expiry}"}},"output":{{"type":"entity"}}}}"#
            ),
        )
        .await;
        let session = trigger(world, slug).await;
        let claim = take(world, &worker).await;
        complete(world, &worker, &claim, r#"{"n":1}"#).await.unwrap();
        let asked = inbox(world, &world.owner()).await.pop().unwrap();
        world.clock.advance(Duration::from_secs(59));
        world.engine.sweep().await.unwrap();
        assert_eq!(world.session(session.id.as_str()).await.head.status, Status::WaitingHuman);
        world.clock.advance(Duration::from_secs(2));
        world.engine.sweep().await.unwrap();
        assert_eq!(world.session(session.id.as_str()).await.head.status, end, "{on_expiry}");
        let asked = world.engine.approval(&world.owner(), &asked.id).await.unwrap();
        assert_eq!(asked.state, ApprovalState::Expired);
        let late = decide(world, &world.owner(), &asked.id, approve()).await.unwrap_err();
        assert_eq!(late.code(), "already_decided");
    }
    assert_eq!(entity(world, "e1").await, "{}");
}

async fn a_stopped_session_waits_for_no_answer(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (claim, asked) = paused(world, &worker).await;
    world.engine.stop(&world.owner(), &claim.session.id, None).await.unwrap();
    assert!(inbox(world, &ada).await.is_empty());
    let asked = world.engine.approval(&ada, &asked.id).await.unwrap();
    assert_eq!(asked.state, ApprovalState::Cancelled);
    assert_eq!(decide(world, &ada, &asked.id, approve()).await.unwrap_err().code(), "already_decided");
    assert_eq!(world.session(claim.session.id.as_str()).await.head.status, Status::Abandoned);
}

async fn an_approval_releases_what_depends_on_it(world: &World) {
    let worker = world.worker("w");
    define_task(
        world,
        r#"{"slug":"g","name":"G","requires_approval":true,"steps":[{"key":"a","agent_slug":"eliza"},
            {"key":"b","agent_slug":"eliza","depends_on":["a"]}]}"#,
    )
    .await;
    let parent = trigger(world, "g").await;
    let a = take(world, &worker).await;
    complete(world, &worker, &a, "1").await.unwrap();
    let b = take(world, &worker).await;
    complete(world, &worker, &b, r#"{"x":1}"#).await.unwrap();
    assert_eq!(world.session(parent.id.as_str()).await.head.status, Status::Running);
    let asked = inbox(world, &world.owner()).await.pop().unwrap();
    decide(world, &world.owner(), &asked.id, approve()).await.unwrap();
    let parent = world.session(parent.id.as_str()).await;
    assert_eq!(parent.head.status, Status::Completed);
    assert_eq!(parent.details.result.unwrap().as_str(), r#"{"x":1}"#);
}

async fn a_takeover_after_a_crash_is_handed_the_decision_again(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (_, asked) = paused(world, &worker).await;
    decide(world, &ada, &asked.id, approve()).await.unwrap();
    take(world, &worker).await;
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.engine.sweep().await.unwrap().leases_lost, 1);
    let claim = take(world, &world.worker("other")).await;
    assert_eq!(Run::of(&claim.session).resume.unwrap().approval_id, *asked.id);
}

async fn a_deleted_session_takes_its_question_along(world: &World) {
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let (claim, asked) = paused(world, &worker).await;
    let owner = world.owner();
    assert_eq!(world.engine.delete(&owner, &claim.session.id).await.unwrap_err().code(), "session_running");
    world.engine.stop(&owner, &claim.session.id, None).await.unwrap();
    world.engine.delete(&owner, &claim.session.id).await.unwrap();
    assert_eq!(world.engine.approval(&ada, &asked.id).await.unwrap_err().code(), "not_found");
}

async fn a_call_without_a_name_is_refused_and_nothing_waits(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    for call in [r#"{"id":"c"}"#, r#"{"name":"x"}"#, r#"{"id":"c","name":"x","args":5}"#, "[]"] {
        let refused = yielded(world, &worker, &claim, Pause::Tool { call: Some(json(call)) }).await;
        assert_eq!(refused.unwrap_err().code(), "invalid", "{call}");
    }
    for question in ["{}", r#"{"text":" "}"#, r#"{"text":"x","schema":{"type":"nonsense"}}"#] {
        let pause = Pause::Human { question: Some(json(question)) };
        assert_eq!(yielded(world, &worker, &claim, pause).await.unwrap_err().code(), "invalid", "{question}");
    }
    assert_eq!(world.session("s").await.head.status, Status::Running);
    assert!(inbox(world, &world.owner()).await.is_empty());
    let small: Json = json(r#"{"id":"c","name":"x"}"#);
    assert!(yielded(world, &worker, &claim, Pause::Tool { call: Some(small) }).await.is_ok());
}
