//! Turns that wait for a person's permission, on two nodes: how long they wait, which node continues, and what is
//! left when none does.

use futures_util::future::join_all;
use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::{Approval, ApprovalState};
use sederunt_core::engine::{Engine, NextTurn, Post, PostFate, RunningTurn};
use sederunt_core::error::Error;
use sederunt_core::event::EventQuery;
use sederunt_core::json::Json;
use sederunt_core::memory::owner::TurnSpeaker;
use sederunt_core::session::Status;
use sederunt_core::talk::Tier;
use sederunt_core::talk::pause::{TurnApproval, UnmadeCall};
use sederunt_core::talk::turn::OnBusy;
use sederunt_core::work::run::Run;
use sederunt_core::{SessionId, limits};

use crate::harness::{World, hold};
use crate::on_both_stores;

on_both_stores!(
    a_turn_waits_for_leave_as_long_as_it_may_and_no_longer,
    a_message_during_the_wait_has_a_turn_of_its_own,
    opposite_decisions_about_a_call_have_one_effect_and_one_node_goes_on,
    the_quicker_caller_decides_stops_or_gives_up,
    a_decision_outlives_the_node_that_took_it_and_the_one_that_went_on,
);

fn asking() -> TurnApproval {
    let call = |id: &str| UnmadeCall { id: id.to_owned(), name: "send".to_owned() };
    TurnApproval {
        call: Json::stored(r#"{"id":"c1","name":"send","summary":"Send it?","args":{"to":"x"}}"#),
        unmade: vec![call("c1"), call("c2")],
        summary: "Send it?".to_owned(),
        tier: Tier::Quality,
        speaker: TurnSpeaker::default(),
        events: Vec::new(),
        usage: None,
    }
}

impl World {
    async fn begun(&self, id: &str, node: &str) -> RunningTurn {
        self.talk(id).await;
        let post = Post::text("Send it.").unwrap();
        let posted =
            self.engine.post(&self.owner(), &SessionId::stored(id), post, &hold(node), None).await.unwrap();
        match posted.fate {
            PostFate::Started(begun) => *begun,
            other => panic!("{other:?}"),
        }
    }

    /// A conversation whose turn has asked, and what it asks.
    async fn asked(&self, id: &str) -> (RunningTurn, Approval) {
        let begun = self.begun(id, "a").await;
        let paused = self.engine.pause_turn(&begun, asking()).await.unwrap().unwrap();
        let approval = Run::of(&self.session(id).await).approval_id.unwrap();
        assert_eq!(paused.session.head.status, Status::AwaitingTool);
        (begun, self.engine.approval(&self.owner(), &approval).await.unwrap())
    }

    async fn outcomes(&self, id: &str) -> Vec<String> {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        let log = self.engine.read(&self.owner(), &SessionId::stored(id), query).await.unwrap().events;
        let said = log.iter().filter_map(|event| event.metadata.as_ref()).map(Json::value);
        said.filter_map(|said| Some(said["outcome"].as_str()?.to_owned())).collect()
    }

    async fn state(&self, approval: &Approval) -> ApprovalState {
        self.engine.approval(&self.owner(), &approval.id).await.unwrap().state
    }
}

async fn decide(node: &Engine, world: &World, id: &str, decision: Decision) -> Result<Approval, Error> {
    let wish =
        DecisionRequest { decision, modified_args: None, modified_output: None, reason: None, digest: None };
    node.decide(&world.owner(), id, wish, None).await
}

async fn next(node: &Engine, begun: &RunningTurn, name: &str) -> Option<RunningTurn> {
    match node.next_turn(begun.tenant(), &begun.session.id, &hold(name)).await.unwrap() {
        Some(NextTurn::Begun(begun)) => Some(*begun),
        Some(NextTurn::EndFirst(_)) => panic!("the sitting is fresh"),
        None => None,
    }
}

async fn a_turn_waits_for_leave_as_long_as_it_may_and_no_longer(world: &World) {
    let (begun, approval) = world.asked("s").await;
    let node = world.other_node().await;
    world.clock.advance(limits::CONFIRM_WITHIN / 2);
    assert_eq!(node.sweep().await.unwrap().overdue, 0);
    assert!(next(&node, &begun, "b").await.is_none());
    world.clock.advance(limits::CONFIRM_WITHIN / 2);
    for decision in [Decision::Approve, Decision::Deny] {
        let late = decide(&node, world, &approval.id, decision).await.unwrap_err();
        assert_eq!(late.code(), "already_decided");
    }
    assert_eq!(world.session("s").await.head.status, Status::AwaitingTool, "a late word changes nothing");
    assert_eq!(node.sweep().await.unwrap().overdue, 1);
    assert_eq!(node.sweep().await.unwrap().overdue, 0);
    let session = world.session("s").await;
    assert_eq!((session.head.status, session.head.deadline_at), (Status::Idle, None));
    assert_eq!(world.state(&approval).await, ApprovalState::Expired);
    assert_eq!(world.outcomes("s").await, ["timed_out", "cancelled", "timed_out"]);
    assert!(decide(&node, world, &approval.id, Decision::Approve).await.is_err());
    assert!(next(&node, &begun, "b").await.is_none(), "what has expired does not run");
}

async fn a_message_during_the_wait_has_a_turn_of_its_own(world: &World) {
    let (begun, approval) = world.asked("s").await;
    let (owner, id) = (world.owner(), SessionId::stored("s"));
    let post = Post::text("Well?").unwrap();
    let waits = world.engine.post(&owner, &id, post.clone(), &hold("b"), None).await.unwrap();
    assert!(matches!(waits.fate, PostFate::Waits));
    assert_eq!(world.session("s").await.head.turn.unwrap().sequence, begun.turn);
    let node = world.other_node().await;
    decide(&node, world, &approval.id, Decision::Approve).await.unwrap();
    let more = node.post(&owner, &id, post.clone(), &hold("b"), None).await.unwrap();
    assert!(matches!(more.fate, PostFate::Waits), "what was decided comes first");
    let resumed = next(&node, &begun, "b").await.unwrap();
    assert_eq!((resumed.turn, resumed.tier), (begun.turn, Tier::Quality));
    assert!(resumed.resume.is_some());

    let (begun, approval) = world.asked("interrupted").await;
    let id = begun.session.id.clone();
    let post = Post { on_busy: OnBusy::Interrupt, ..post };
    node.post(&owner, &id, post, &hold("b"), None).await.unwrap();
    assert_eq!(world.state(&approval).await, ApprovalState::Cancelled);
    assert_eq!(world.outcomes("interrupted").await, ["cancelled", "cancelled", "stopped"]);
    let its_own = next(&node, &begun, "b").await.unwrap();
    assert!(its_own.turn > begun.turn && its_own.resume.is_none());
}

async fn opposite_decisions_about_a_call_have_one_effect_and_one_node_goes_on(world: &World) {
    let nodes = [world.engine.clone(), world.other_node().await];
    for round in 0..20 {
        let (begun, approval) = world.asked(&format!("s{round}")).await;
        let decisions = [Decision::Approve, Decision::Deny];
        let said = nodes.iter().zip(decisions).map(|(node, word)| decide(node, world, &approval.id, word));
        let said = join_all(said).await;
        assert_eq!(said.iter().filter(|said| said.is_ok()).count(), 1, "{said:?}");
        let winner = decisions[usize::from(said[1].is_ok())];
        let went = join_all(nodes.iter().zip(["a", "b"]).map(|(node, name)| next(node, &begun, name))).await;
        let went: Vec<RunningTurn> = went.into_iter().flatten().collect();
        assert_eq!(went.len(), 1, "one node goes on");
        assert_eq!(went[0].resume.as_ref().unwrap().decision, winner.as_str());
    }
}

async fn the_quicker_caller_decides_stops_or_gives_up(world: &World) {
    let node = world.other_node().await;
    let mut won = [0; 2];
    for round in 0..20 {
        let (begun, approval) = world.asked(&format!("s{round}")).await;
        let owner = world.owner();
        let (decided, stopped) = tokio::join!(
            decide(&world.engine, world, &approval.id, Decision::Approve),
            node.stop(&owner, &begun.session.id, None),
        );
        stopped.unwrap();
        // Decided first, it was stopped before a node continued; stopped first, it cannot be decided.
        let expected = if decided.is_ok() { ApprovalState::Approved } else { ApprovalState::Cancelled };
        won[usize::from(decided.is_ok())] += 1;
        assert_eq!(world.state(&approval).await, expected);
        assert!(next(&node, &begun, "b").await.is_none(), "it was stopped, and nothing is done");
        assert_eq!(world.outcomes(begun.session.id.as_str()).await, ["cancelled", "cancelled", "stopped"]);
        assert_eq!(world.session(begun.session.id.as_str()).await.head.status, Status::Idle);
    }
    assert_eq!(won[0] + won[1], 20);
}

async fn a_decision_outlives_the_node_that_took_it_and_the_one_that_went_on(world: &World) {
    let (begun, approval) = world.asked("s").await;
    decide(&world.engine, world, &approval.id, Decision::Approve).await.unwrap();
    let node = world.other_node().await;
    let due = node.waiting_turns(10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.session.as_str()).collect::<Vec<_>>(), ["s"]);
    let resumed = next(&node, &begun, "b").await.unwrap();
    assert_eq!(resumed.resume.as_ref().unwrap().args.as_ref().unwrap().as_str(), r#"{"to":"x"}"#);
    assert!(node.waiting_turns(10).await.unwrap().is_empty(), "it is somebody's");
    let stale = world.engine.pause_turn(&begun, asking()).await.unwrap_err();
    assert_eq!(stale.code(), "fenced");

    // The node that continued is gone: the decision is not handed out again.
    world.clock.advance(limits::LEASE_DEFAULT);
    assert_eq!(node.sweep().await.unwrap().leases_lost, 1);
    let standing = node.standing(&world.owner(), &begun.session.id).await.unwrap();
    assert!(standing.talk.interrupted && standing.talk.paused.is_none());
    assert_eq!(Run::of(&standing.session).resume, None);
    assert!(next(&node, &begun, "c").await.is_none());
    let post = Post::text("Hello?").unwrap();
    let posted = node.post(&world.owner(), &begun.session.id, post, &hold("c"), None).await.unwrap();
    let PostFate::Started(fresh) = posted.fate else { panic!("{:?}", posted.fate) };
    assert!(fresh.turn > begun.turn && fresh.resume.is_none());
}
