use super::*;
use crate::access::Actor;
use crate::approval::Approval;
use crate::approval::decide::{self, Decision, DecisionOutcome, DecisionRequest};
use crate::ids::{RandomIds, UserId};
use crate::store::ClaimChange;
use crate::talk::sitting::{self, EndReason};
use crate::talk::turn::tests::{NOW, SETTINGS, alone, hold, kinds, message, running as turn_runs, sat};
use crate::talk::turn::{MessagePlan, OnBusy, begin, next};
use crate::talk::{Liveness, QueuedMessage};

/// A running turn.
fn running() -> Session {
    let mut session = turn_runs(1);
    session.head.holder = Some(UserId::stored("holder"));
    session
}

fn unmade(id: &str) -> UnmadeCall {
    UnmadeCall { id: id.to_owned(), name: "send".to_owned() }
}

fn asking() -> TurnApproval {
    TurnApproval {
        call: Json::stored(r#"{"id":"c1","name":"send","summary":"Send it?","args":{"to":"x"}}"#),
        unmade: vec![unmade("c1"), unmade("c2")],
        summary: "Send it?".to_owned(),
        tier: Tier::Quality,
        speaker: alone(),
        events: Vec::new(),
        usage: None,
    }
}

/// A session after a plan, as a store would leave it.
fn after(session: &Session, plan: &TurnPlan) -> Session {
    let mut after = session.clone();
    plan.step.update.apply(&mut after.head, NOW);
    if plan.step.update.run.is_some() {
        after.details.run.clone_from(&plan.step.update.run);
    }
    after
}

fn approval_in(step: &SessionStep) -> Approval {
    let found = step.records.iter().find_map(|record| match record {
        Record::AddApproval(approval) => Some((**approval).clone()),
        _ => None,
    });
    found.expect("somebody is asked")
}

fn paused() -> (Session, Talk, Approval) {
    let plan = pause(&running(), &Talk::default(), asking(), NOW, &SETTINGS, &RandomIds).unwrap();
    (after(&running(), &plan), plan.talk.clone(), approval_in(&plan.step))
}

fn verdict(decision: Decision, args: Option<&str>) -> DecisionRequest {
    DecisionRequest {
        decision,
        modified_args: args.map(Json::stored),
        modified_output: None,
        reason: None,
        digest: None,
    }
}

/// A paused turn that was decided on.
fn decided_on(decision: Decision, args: Option<&str>) -> (Session, Talk) {
    let (session, talk, approval) = paused();
    let owner = Actor::local(SourceKind::Api);
    let DecisionOutcome::Settled(settled) =
        decide::decide(&owner, &session, &approval, None, &verdict(decision, args), NOW, &RandomIds).unwrap()
    else {
        panic!("it stood already")
    };
    let talk = decided(&talk);
    (after(&session, &TurnPlan { step: settled.step, talk: talk.clone() }), talk)
}

fn outcomes(step: &SessionStep) -> Vec<String> {
    let told = step.events.iter().filter_map(|event| event.metadata.as_ref()).map(Json::value);
    told.filter_map(|metadata| Some(metadata["outcome"].as_str()?.to_owned())).collect()
}

#[test]
fn a_turn_that_asks_is_nobodys_until_somebody_answers() {
    let plan = pause(&running(), &Talk::default(), asking(), NOW, &SETTINGS, &RandomIds).unwrap();
    assert_eq!(kinds(&plan.step), ["session.status_change", "session.waiting_approval"]);
    let session = after(&running(), &plan);
    assert_eq!((session.head.status, session.head.claim.is_none()), (Status::AwaitingTool, true));
    assert_eq!(session.head.deadline_at, Some(NOW.plus(SETTINGS.confirm_within)));
    let approval = approval_in(&plan.step);
    assert_eq!((approval.kind, approval.expires_at), (ApprovalKind::Tool, session.head.deadline_at));
    assert_eq!(approval.assigned_to, session.head.holder);
    let paused = plan.talk.paused.clone().unwrap();
    assert_eq!((paused.turn, paused.tier, paused.decided), (3, Tier::Quality, false));
    assert!(plan.talk.waiting().is_none());
    assert!(next(&session, &plan.talk, &hold(), NOW, &SETTINGS).unwrap().is_none());
}

#[test]
fn a_decided_turn_goes_on_once_and_before_everything_that_waits() {
    for (decision, args, resumes_with) in [
        (Decision::Approve, None, Some(r#"{"to":"x"}"#)),
        (Decision::Approve, Some(r#"{"to":"y"}"#), Some(r#"{"to":"y"}"#)),
        (Decision::Deny, None, None),
    ] {
        let (session, mut talk) = decided_on(decision, args);
        talk.queue.push(QueuedMessage {
            sequence: Some(9),
            steers: false,
            tier: Tier::Fast,
            speaker: alone(),
        });
        assert_eq!((session.head.status, talk.waiting()), (Status::Running, Some(3)), "{decision:?}");
        assert_eq!(session.head.deadline_at, None, "{decision:?}");
        let resume = Run::of(&session).resume.unwrap();
        assert_eq!(resume.decision, decision.as_str());
        assert_eq!(resume.args.as_ref().map(Json::as_str), resumes_with);
        let Some(MessagePlan::Started(plan)) = next(&session, &talk, &hold(), NOW, &SETTINGS).unwrap() else {
            panic!("{decision:?} does not go on")
        };
        assert!(matches!(plan.step.update.claim, Some(ClaimChange::Take { .. })));
        assert_eq!((plan.step.update.turn, plan.talk.queue.len()), (None, 1));
        let session = after(&session, &plan);
        assert_eq!(Run::of(&session).resume, None, "what was decided is handed out once");
        assert!(next(&session, &plan.talk, &hold(), NOW, &SETTINGS).unwrap().is_none());
    }
}

#[test]
fn a_turn_that_is_given_up_leaves_a_result_for_every_call() {
    let (asked, talk, _) = paused();
    let (decided, decided_talk) = decided_on(Decision::Approve, None);
    let cases = [
        (
            &asked,
            &talk,
            AbandonReason::TimedOut,
            Some(ApprovalState::Expired),
            ["timed_out", "cancelled", "timed_out"],
        ),
        (
            &asked,
            &talk,
            AbandonReason::Stopped,
            Some(ApprovalState::Cancelled),
            ["cancelled", "cancelled", "stopped"],
        ),
        (&decided, &decided_talk, AbandonReason::Stopped, None, ["cancelled", "cancelled", "stopped"]),
    ];
    for (session, talk, why, closes, told) in cases {
        let plan = give_up(session, talk, why).unwrap().unwrap();
        assert_eq!(
            kinds(&plan.step),
            ["agent.tool_result", "agent.tool_result", "session.turn", "session.status_change"],
            "{why:?}"
        );
        assert_eq!(outcomes(&plan.step), told, "{why:?}");
        let closed = plan.step.records.iter().find_map(|record| match record {
            Record::CloseApproval { state, .. } => Some(*state),
            _ => None,
        });
        assert_eq!(closed, closes, "{why:?}");
        let after = after(session, &plan);
        assert_eq!((after.head.status, plan.talk.paused.is_none()), (Status::Idle, true));
        let run = Run::of(&after);
        assert_eq!((run.approval_id, run.resume), (None, None));
        assert!(give_up(&after, &plan.talk, why).unwrap().is_none(), "once");
    }
}

#[test]
fn a_message_while_a_turn_asks_waits_unless_it_interrupts() {
    for (on_busy, status, waiting) in
        [(OnBusy::Queue, None, 1), (OnBusy::Steer, None, 1), (OnBusy::Interrupt, Some(Status::Idle), 0)]
    {
        let (session, mut talk, _) = paused();
        talk.queue.push(QueuedMessage {
            sequence: Some(9),
            steers: false,
            tier: Tier::Fast,
            speaker: alone(),
        });
        let begun = begin(&session, &talk, message(on_busy), &hold(), NOW, &SETTINGS).unwrap();
        let MessagePlan::Queued(plan) = begun else { panic!("{on_busy:?}") };
        assert_eq!(plan.step.update.status, status, "{on_busy:?}");
        assert_eq!(plan.talk.queue[waiting].sequence, None, "{on_busy:?}");
        assert_eq!(plan.talk.paused.is_some(), status.is_none(), "{on_busy:?}");
    }
}

#[test]
fn what_nobody_decided_in_time_is_not_decided_later() {
    let (session, _, approval) = paused();
    let owner = Actor::local(SourceKind::Api);
    let end = approval.expires_at.unwrap();
    let before = Timestamp::from_micros(end.as_micros() - 1);
    for decision in [Decision::Approve, Decision::Deny] {
        let wish = verdict(decision, None);
        assert!(decide::decide(&owner, &session, &approval, None, &wish, before, &RandomIds).is_ok());
        let late = decide::decide(&owner, &session, &approval, None, &wish, end, &RandomIds).unwrap_err();
        assert_eq!(late.code(), "already_decided");
    }
}

#[test]
fn nobody_is_asked_where_nobody_is() {
    let mut session = running();
    for (kind, holder, asks) in [
        (SourceKind::Cli, None, true),
        (SourceKind::Api, None, true),
        (SourceKind::Web, None, true),
        (SourceKind::Schedule, Some("holder"), false),
        (SourceKind::Channel, None, false),
        (SourceKind::Channel, Some("holder"), true),
    ] {
        session.details.source.kind = kind;
        session.head.holder = holder.map(UserId::stored);
        assert_eq!(can_ask(&session), asks, "{kind:?} {holder:?}");
    }
}

#[test]
fn a_sitting_does_not_end_under_a_turn_that_asks() {
    let (session, asked, _) = paused();
    let talk = Talk { paused: asked.paused, ..sat(60_000_000) };
    let refused = sitting::end(&session, &talk, EndReason::Silence, None, None, Vec::new(), NOW).unwrap_err();
    assert_eq!(refused.code(), "session_busy");
    assert_eq!(turn::liveness(&session, &talk, NOW, &SETTINGS), Liveness::Active);
}
