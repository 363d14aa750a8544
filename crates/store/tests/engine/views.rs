//! Views: published once, answered once by each respondent, resumed once, and every answer read once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::{ApprovalQuery, ApprovalState};
use sederunt_core::definitions::{Entity, View};
use sederunt_core::engine::DefinitionFilters;
use sederunt_core::engine::{
    Credential, Engine, OpenedView, PublishedView, Submission, SubmitResult, ViewDisplay,
};
use sederunt_core::error::Error;
use sederunt_core::event::EventQuery;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::view::{Lead, ViewAudience};
use sederunt_core::work::run::{Resume, Run};
use sederunt_core::work::{ClaimedRun, Pause, Settle};
use sederunt_core::{Actor, Role, SessionId, limits, strict};

use crate::harness::{World, wish};
use crate::on_both_stores;
use crate::tasks::{complete, json, take};

on_both_stores!(
    a_run_that_asks_by_a_view_goes_on_with_the_answer,
    a_run_that_was_answered_before_it_paused_goes_on_at_once,
    the_same_publication_again_gives_the_same_link,
    a_worker_that_lost_the_claim_publishes_nothing,
    a_respondent_answers_once_and_the_same_again_changes_nothing,
    two_answers_at_once_resume_a_run_once,
    the_same_answer_from_two_nodes_at_once_is_one,
    of_answers_that_come_at_once_none_is_lost,
    answers_that_come_late_are_handed_on_oldest_first_and_once,
    answers_are_handed_again_until_a_run_that_had_them_settles,
    a_question_that_gets_no_answer_is_denied,
    a_lead_becomes_an_entity_and_is_found_again,
    a_link_opens_its_view_and_nothing_of_the_session,
    a_view_closes_with_its_session_and_goes_with_it,
    views_of_one_tenant_are_nothing_in_another,
    members_keep_what_they_made_and_answer_the_rest,
    talk_publishes_nothing,
);

fn form(gate: ViewAudience) -> View {
    let text = r#"{"title":"Which one?","questions":[{"key":"pick","label":"Pick","required":true}]}"#;
    let mut view: View = strict::read(json(text).as_str()).unwrap();
    view.publish_config.gate = gate;
    view
}

fn values(pick: &str) -> Submission {
    Submission { values: json(&format!(r#"{{"pick":"{pick}"}}"#)), lead: None }
}

async fn publish(
    world: &World,
    worker: &Actor,
    claim: &ClaimedRun,
    id: &str,
    gate: ViewAudience,
) -> PublishedView {
    world.engine.publish(worker, &claim.session.id, claim.epoch, Some(id), form(gate), None).await.unwrap()
}

fn waiting_for(view: &str) -> Settle {
    let question = json(&format!(r#"{{"view_id":"{view}"}}"#));
    Settle::Yield { pause: Pause::Human { question: Some(question) }, usage: None }
}

async fn park(world: &World, worker: &Actor, claim: &ClaimedRun, view: &str) -> Status {
    let how = waiting_for(view);
    world.engine.settle(worker, &claim.session.id, claim.epoch, how, None).await.unwrap().head.status
}

async fn submit(world: &World, actor: &Actor, view: &str, pick: &str) -> Result<SubmitResult, Error> {
    world.engine.submit(actor, view, None, &values(pick), None).await
}

/// The holder of a view's link.
async fn stranger(engine: &Engine, published: &PublishedView) -> Actor {
    engine.authenticate(Credential::Share(&published.token), None).await.unwrap()
}

fn resume(claim: &ClaimedRun) -> Resume {
    Run::of(&claim.session).resume.expect("somebody has answered")
}

/// What a claim is handed, in short.
async fn handed(world: &World, claim: &ClaimedRun) -> Vec<String> {
    let brief = world.engine.brief(claim, None).await.unwrap();
    let pick = |values: serde_json::Value| values["pick"].as_str().unwrap().to_owned();
    brief.answers.iter().map(|answer| pick(answer.values.value())).collect()
}

async fn log_of(world: &World, id: &SessionId, kind: &str) -> usize {
    let query = EventQuery { types: vec![kind.to_owned()], limit: 1000, ..EventQuery::default() };
    world.engine.read(&world.owner(), id, query).await.unwrap().events.len()
}

/// A session that has published the view `v` and waits for an answer to it.
async fn waiting(world: &World, gate: ViewAudience) -> (Arc<Actor>, SessionId, PublishedView) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    let published = publish(world, &worker, &claim, "v", gate).await;
    assert_eq!(park(world, &worker, &claim, "v").await, Status::WaitingHuman);
    (worker, claim.session.id, published)
}

async fn a_run_that_asks_by_a_view_goes_on_with_the_answer(world: &World) {
    let (worker, id, _) = waiting(world, ViewAudience::Member).await;
    let query = ApprovalQuery { state: Some(ApprovalState::Pending), limit: 10, ..ApprovalQuery::default() };
    let asked = world.engine.approvals(&world.owner(), false, query).await.unwrap().items.pop().unwrap();
    let staged = asked.body.staged.as_ref().unwrap().as_str();
    assert_eq!(staged, r#"{"text":"Which one?","view_id":"v"}"#);
    let reply = world.engine.reply(&world.owner(), &id, json(r#""green""#), None).await;
    assert_eq!(reply.unwrap_err().code(), "invalid", "it is answered by its view alone");

    let ada = world.actor(Role::Member, "ada");
    let done = submit(world, &ada, "v", "green").await.unwrap();
    assert!(!done.repeated);
    assert_eq!(world.session("s").await.head.status, Status::Pending);
    let claim = take(world, &worker).await;
    let resume = resume(&claim);
    assert_eq!((resume.decision.as_str(), resume.view_id.as_deref()), ("answer", Some("v")));
    let told = r#"{"view_id":"v","respondent":{"kind":"user","id":"ada"},"values":{"pick":"green"}}"#;
    assert_eq!(resume.reply.unwrap().as_str(), told);
    assert!(handed(world, &claim).await.is_empty(), "it is not handed twice");
    assert_eq!(claim.session.head.attempts, 1, "whoever waited has not failed");
    let decided = world.engine.approval(&world.owner(), &resume.approval_id).await.unwrap();
    assert_eq!((decided.state, decided.decided_by.as_deref()), (ApprovalState::Approved, Some("ada")));
    let answers = world.engine.answers(&world.owner(), "v", 0, 10).await.unwrap().items;
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].sequence, answers[0].respondent.id.as_str()), (done.sequence, "ada"));
}

async fn a_run_that_was_answered_before_it_paused_goes_on_at_once(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    publish(world, &worker, &claim, "v", ViewAudience::Member).await;
    submit(world, &world.owner(), "v", "quick").await.unwrap();
    assert_eq!(park(world, &worker, &claim, "v").await, Status::Pending);
    let again = take(world, &worker).await;
    assert!(resume(&again).reply.unwrap().as_str().contains("quick"));
    assert!(handed(world, &again).await.is_empty(), "it was handed as what the run waited for");
    assert_eq!(again.session.head.attempts, 1);
    let decided = world.engine.approval(&world.owner(), &resume(&again).approval_id).await.unwrap();
    assert_eq!(decided.state, ApprovalState::Approved);
}

async fn the_same_publication_again_gives_the_same_link(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    let first = publish(world, &worker, &claim, "v", ViewAudience::None).await;
    world.clock.advance(Duration::from_secs(60));
    world.engine.sweep().await.unwrap();
    let other = world.worker("other");
    let taken_over = take(world, &other).await;
    let again = publish(world, &other, &taken_over, "v", ViewAudience::None).await;
    assert_eq!((again.token, again.view.version), (first.token, 1));
    let differs = world
        .engine
        .publish(&other, &taken_over.session.id, taken_over.epoch, Some("v"), form(ViewAudience::Lead), None)
        .await;
    assert_eq!(differs.unwrap_err().code(), "already_exists");
    let page = world
        .engine
        .definitions::<View>(&world.owner(), DefinitionFilters::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(page.items.len(), 1);
}

async fn a_worker_that_lost_the_claim_publishes_nothing(world: &World) {
    let (worker, other) = (world.worker("w"), world.worker("other"));
    let claim = world.claimed("s", &worker).await;
    for (actor, epoch) in [(&other, claim.epoch), (&worker, claim.epoch + 1)] {
        let refused = world
            .engine
            .publish(actor, &claim.session.id, epoch, Some("v"), form(ViewAudience::None), None)
            .await;
        assert_eq!(refused.unwrap_err().code(), "fenced");
    }
    let member = world.actor(Role::Member, "ada");
    let refused = world
        .engine
        .publish(&member, &claim.session.id, claim.epoch, None, form(ViewAudience::None), None)
        .await;
    assert_eq!(refused.unwrap_err().code(), "denied");
    let elsewhere = waiting_for("v");
    let refused = world.engine.settle(&worker, &claim.session.id, claim.epoch, elsewhere, None).await;
    assert_eq!(refused.unwrap_err().code(), "invalid", "nobody waits for a view that is not there");
    assert_eq!(world.session("s").await.head.status, Status::Running);
}

async fn a_respondent_answers_once_and_the_same_again_changes_nothing(world: &World) {
    let (worker, id, _) = waiting(world, ViewAudience::Member).await;
    let (ada, bob) = (world.actor(Role::Member, "ada"), world.actor(Role::Member, "bob"));
    let first = submit(world, &ada, "v", "green").await.unwrap();
    let before = world.session("s").await;
    let again = submit(world, &ada, "v", "green").await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.sequence, first.sequence);
    assert_eq!(world.session("s").await, before, "nothing changed");
    assert_eq!(submit(world, &ada, "v", "red").await.unwrap_err().code(), "already_answered");
    assert_eq!(submit(world, &bob, "v", " ").await.unwrap_err().code(), "invalid");
    let unknown = Submission { values: json(r#"{"pick":"x","more":1}"#), lead: None };
    match world.engine.submit(&bob, "v", None, &unknown, None).await {
        Err(Error::Invalid { field, .. }) => assert_eq!(field, "values.more"),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.session("s").await, before, "nothing changed");
    submit(world, &bob, "v", "late").await.unwrap();
    assert_eq!(log_of(world, &id, "user.form_submit").await, 2);
    let claim = take(world, &worker).await;
    assert!(resume(&claim).reply.unwrap().as_str().contains("green"));
    assert_eq!(handed(world, &claim).await, ["late"]);
}

async fn two_answers_at_once_resume_a_run_once(world: &World) {
    const ROUNDS: usize = 20;
    let nodes = [world.engine.clone(), world.other_node().await];
    let people = [world.actor(Role::Member, "ada"), world.actor(Role::Member, "bob")];
    let worker = world.worker("w");
    for round in 0..ROUNDS {
        let claim = world.claimed(&format!("s{round}"), &worker).await;
        let view = format!("v{round}");
        publish(world, &worker, &claim, &view, ViewAudience::Member).await;
        park(world, &worker, &claim, &view).await;
        let calls = [0, 1].map(|n| {
            let (node, actor, view) = (nodes[n].clone(), people[n].clone(), view.clone());
            tokio::spawn(async move { node.submit(&actor, &view, None, &values(["a", "b"][n]), None).await })
        });
        for done in join_all(calls).await {
            assert!(!done.unwrap().unwrap().repeated);
        }
        let again = take(world, &worker).await;
        let reply = resume(&again).reply.unwrap().as_str().to_owned();
        let late = handed(world, &again).await;
        assert_eq!(late.len(), 1, "one resumes, the other waits: {reply} {late:?}");
        assert!(!reply.contains(&format!(r#""pick":"{}""#, late[0])), "{reply} {late:?}");
        let moves = log_of(world, &again.session.id, "session.status_change").await;
        assert_eq!(moves, 4, "claimed, parked, resumed, claimed");
        complete(world, &worker, &again, "1").await.unwrap();
    }
}

async fn the_same_answer_from_two_nodes_at_once_is_one(world: &World) {
    const ROUNDS: usize = 20;
    let nodes = [world.engine.clone(), world.other_node().await];
    let (worker, ada) = (world.worker("w"), world.actor(Role::Member, "ada"));
    let mut repeats = 0;
    for round in 0..ROUNDS {
        let claim = world.claimed(&format!("s{round}"), &worker).await;
        let view = format!("v{round}");
        publish(world, &worker, &claim, &view, ViewAudience::Member).await;
        park(world, &worker, &claim, &view).await;
        let calls = [0, 1].map(|n| {
            let (node, ada, view) = (nodes[n].clone(), ada.clone(), view.clone());
            tokio::spawn(async move { node.submit(&ada, &view, None, &values("same"), None).await.unwrap() })
        });
        let done: Vec<SubmitResult> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(done[0].sequence, done[1].sequence);
        repeats += done.iter().filter(|done| done.repeated).count();
        assert_eq!(log_of(world, &claim.session.id, "user.form_submit").await, 1);
        let again = take(world, &worker).await;
        assert!(handed(world, &again).await.is_empty());
        complete(world, &worker, &again, "1").await.unwrap();
    }
    assert_eq!(repeats, ROUNDS, "of each two one was the first");
}

async fn of_answers_that_come_at_once_none_is_lost(world: &World) {
    const ROUNDS: usize = 20;
    let nodes = [world.engine.clone(), world.other_node().await];
    let people = ["a", "b", "c", "d"].map(|name| world.actor(Role::Member, name));
    let worker = world.worker("w");
    for round in 0..ROUNDS {
        let claim = world.claimed(&format!("s{round}"), &worker).await;
        let view = format!("v{round}");
        publish(world, &worker, &claim, &view, ViewAudience::Member).await;
        let calls = people.iter().enumerate().map(|(n, actor)| {
            let (node, actor, view) = (nodes[n % 2].clone(), actor.clone(), view.clone());
            tokio::spawn(async move { node.submit(&actor, &view, None, &values("x"), None).await.unwrap() })
        });
        for done in join_all(calls.collect::<Vec<_>>()).await {
            assert!(!done.unwrap().repeated);
        }
        park_again(world, &worker, &claim).await;
        let again = take(world, &worker).await;
        assert_eq!(handed(world, &again).await.len(), people.len());
        complete(world, &worker, &again, "1").await.unwrap();
    }
}

async fn answers_that_come_late_are_handed_on_oldest_first_and_once(world: &World) {
    let (worker, _, _) = waiting(world, ViewAudience::Member).await;
    submit(world, &world.actor(Role::Member, "first"), "v", "resumes").await.unwrap();
    let claim = take(world, &worker).await;
    for n in 0..=limits::ANSWERS_HANDED_MAX {
        let who = world.actor(Role::Member, &format!("user{n}"));
        submit(world, &who, "v", &format!("{n}")).await.unwrap();
    }
    assert!(handed(world, &claim).await.is_empty(), "what comes during a run is for the next one");
    park_again(world, &worker, &claim).await;
    let second = take(world, &worker).await;
    let expected: Vec<String> = (0..limits::ANSWERS_HANDED_MAX).map(|n| n.to_string()).collect();
    assert_eq!(handed(world, &second).await, expected);
    park_again(world, &worker, &second).await;
    let third = take(world, &worker).await;
    assert_eq!(handed(world, &third).await, [limits::ANSWERS_HANDED_MAX.to_string()]);
    park_again(world, &worker, &third).await;
    assert!(handed(world, &take(world, &worker).await).await.is_empty());
}

/// Pauses a run for another view, and answers that at once.
async fn park_again(world: &World, worker: &Actor, claim: &ClaimedRun) {
    let view = format!("again-{}-{}", claim.session.id, claim.epoch);
    publish(world, worker, claim, &view, ViewAudience::Member).await;
    assert_eq!(park(world, worker, claim, &view).await, Status::WaitingHuman);
    submit(world, &world.owner(), &view, "go on").await.unwrap();
}

async fn answers_are_handed_again_until_a_run_that_had_them_settles(world: &World) {
    let (worker, _, _) = waiting(world, ViewAudience::Member).await;
    submit(world, &world.owner(), "v", "resumes").await.unwrap();
    submit(world, &world.actor(Role::Member, "ada"), "v", "late").await.unwrap();
    let dies = take(world, &worker).await;
    assert_eq!(handed(world, &dies).await, ["late"]);
    submit(world, &world.actor(Role::Member, "bob"), "v", "later").await.unwrap();
    world.clock.advance(Duration::from_secs(60));
    world.engine.sweep().await.unwrap();
    let fails = take(world, &worker).await;
    assert_eq!(handed(world, &fails).await, ["late", "later"], "whoever takes over is handed them too");
    let broken = Settle::Fail { error: "x".into(), retryable: true, reason: None, usage: None };
    world.engine.settle(&worker, &fails.session.id, fails.epoch, broken, None).await.unwrap();
    let settles = take(world, &worker).await;
    assert_eq!(handed(world, &settles).await, ["late", "later"], "work that is done again needs them again");
    park_again(world, &worker, &settles).await;
    assert!(handed(world, &take(world, &worker).await).await.is_empty());
    let late = world.engine.settle(&worker, &dies.session.id, dies.epoch, waiting_for("v"), None).await;
    assert_eq!(late.unwrap_err().code(), "fenced");
}

async fn a_question_that_gets_no_answer_is_denied(world: &World) {
    let (worker, _, published) = waiting(world, ViewAudience::None).await;
    let query = ApprovalQuery { state: Some(ApprovalState::Pending), limit: 1, ..ApprovalQuery::default() };
    let asked = world.engine.approvals(&world.owner(), false, query).await.unwrap().items.pop().unwrap();
    let deny = DecisionRequest {
        decision: Decision::Deny,
        modified_args: None,
        modified_output: None,
        reason: Some("no time".into()),
        digest: None,
    };
    world.engine.decide(&world.owner(), &asked.id, deny, None).await.unwrap();
    let holder = stranger(&world.engine, &published).await;
    submit(world, &holder, "v", "too late").await.unwrap();
    let claim = take(world, &worker).await;
    let resume = resume(&claim);
    assert_eq!((resume.decision.as_str(), resume.view_id.as_deref()), ("deny", Some("v")));
    assert_eq!(resume.reason.as_deref(), Some("no time"));
    assert_eq!(handed(world, &claim).await, ["too late"], "what came after is not lost");
}

async fn a_lead_becomes_an_entity_and_is_found_again(world: &World) {
    let (_, _, published) = waiting(world, ViewAudience::Lead).await;
    let holder = stranger(&world.engine, &published).await;
    let shown = |shown: ViewDisplay| match shown {
        ViewDisplay::Asked(opened) => *opened,
        ViewDisplay::Whole { .. } => panic!("a stranger sees all of it"),
    };
    let before: OpenedView = shown(world.engine.view(&holder, "v", None).await.unwrap());
    assert!(before.view.is_none() && before.open, "what is asked shows after the gate");
    match submit(world, &holder, "v", "x").await {
        Err(Error::Invalid { field, .. }) => assert_eq!(field, "lead"),
        other => panic!("{other:?}"),
    }
    let lead = Lead::new("Ada", "Ada@Example.org").unwrap();
    let cookie = world.engine.clear_lead(&holder, "v", &lead).await.unwrap();
    let after = shown(world.engine.view(&holder, "v", Some(&cookie)).await.unwrap());
    assert!(after.view.is_some() && !after.answered);
    let done = world.engine.submit(&holder, "v", Some(&cookie), &values("x"), None).await.unwrap();
    let known = world.engine.definition::<Entity>(&world.owner(), &done.respondent.id).await.unwrap();
    assert_eq!(known.value.type_slug, "lead");
    assert_eq!(known.value.fields.as_str(), r#"{"name":"Ada","email":"ada@example.org"}"#);
    let answered = done.cookie.as_deref();
    assert!(shown(world.engine.view(&holder, "v", answered).await.unwrap()).answered);
    assert!(
        !shown(world.engine.view(&holder, "v", Some(&cookie)).await.unwrap()).answered,
        "it does not prove it"
    );

    // The same address is the same lead, whatever it calls itself, and changes nothing of what is known.
    let again = Lead::new("Mallory", "ada@example.org").unwrap();
    let twice = Submission { lead: Some(again), ..values("y") };
    let refused = world.engine.submit(&holder, "v", None, &twice, None).await;
    assert_eq!(refused.unwrap_err().code(), "already_answered");
    let page = world
        .engine
        .definitions::<Entity>(&world.owner(), DefinitionFilters::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(page.items, [known]);
    let last = if cookie.ends_with('0') { "1" } else { "0" };
    let sealed_otherwise = format!("{}{last}", &cookie[..cookie.len() - 1]);
    for forged in ["", "lead.x.1.00", &cookie.replace("lead.", "user."), &sealed_otherwise] {
        let refused = world.engine.submit(&holder, "v", Some(forged), &values("y"), None).await;
        assert_eq!(refused.unwrap_err().code(), "invalid", "{forged}");
    }

    // One that was there before is found by its address.
    let entity = Entity {
        type_slug: "lead".into(),
        title: None,
        fields: json(r#"{"email":"Bob@example.org","since":1}"#),
    };
    world.engine.define(&world.owner(), Some("bob"), entity, None).await.unwrap();
    let bob = Submission { lead: Some(Lead::new("Bob", "bob@example.org").unwrap()), ..values("z") };
    let done = world.engine.submit(&holder, "v", None, &bob, None).await.unwrap();
    assert_eq!(done.respondent.id, "bob");
}

async fn a_link_opens_its_view_and_nothing_of_the_session(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    let published = publish(world, &worker, &claim, "v", ViewAudience::None).await;
    publish(world, &worker, &claim, "w", ViewAudience::None).await;
    let holder = stranger(&world.engine, &published).await;
    let refused = world.engine.session(&holder, &claim.session.id).await;
    assert_eq!(refused.unwrap_err().code(), "not_found");
    let log = world.engine.read(&holder, &claim.session.id, EventQuery::default()).await;
    assert_eq!(log.unwrap_err().code(), "not_found");
    for other in ["w", "nothing"] {
        assert_eq!(world.engine.view(&holder, other, None).await.unwrap_err().code(), "not_found");
        assert_eq!(submit(world, &holder, other, "x").await.unwrap_err().code(), "not_found");
    }
    let ViewDisplay::Asked(opened) = world.engine.view(&holder, "v", None).await.unwrap() else {
        panic!("whole")
    };
    let cookie = opened.cookie.expect("they are known again");
    let done = world.engine.submit(&holder, "v", Some(&cookie), &values("x"), None).await.unwrap();
    assert!(done.cookie.is_none());
    let again = world.engine.submit(&holder, "v", Some(&cookie), &values("y"), None).await;
    assert_eq!(again.unwrap_err().code(), "already_answered");
    assert!(submit(world, &holder, "v", "z").await.unwrap().cookie.is_some(), "another one is another one");

    let link = world.store.share_by_hash(sederunt_core::people::SecretHash::of(&published.token));
    let link = link.await.unwrap().unwrap();
    world.engine.revoke_share(&world.owner(), &link.id).await.unwrap();
    let revoked = world.engine.authenticate(Credential::Share(&published.token), None).await;
    assert_eq!(revoked.unwrap_err().code(), "unauthenticated");
}

async fn a_view_closes_with_its_session_and_goes_with_it(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    publish(world, &worker, &claim, "v", ViewAudience::Member).await;
    let mut brief = form(ViewAudience::None);
    let now = world.engine.now().await.unwrap();
    for end in [now, now.plus(Duration::from_secs(400 * 24 * 3600))] {
        brief.publish_config.expires_at = Some(end);
        let refused =
            world.engine.publish(&worker, &claim.session.id, claim.epoch, None, brief.clone(), None).await;
        assert_eq!(refused.unwrap_err().code(), "invalid");
    }
    brief.publish_config.expires_at = Some(now.plus(Duration::from_secs(10)));
    let published = world
        .engine
        .publish(&worker, &claim.session.id, claim.epoch, Some("brief"), brief, None)
        .await
        .unwrap();
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(submit(world, &world.owner(), "brief", "x").await.unwrap_err().code(), "view_closed");
    let expired = world.engine.authenticate(Credential::Share(&published.token), None).await;
    assert_eq!(expired.unwrap_err().code(), "unauthenticated");

    complete(world, &worker, &claim, "1").await.unwrap();
    assert_eq!(submit(world, &world.owner(), "v", "x").await.unwrap_err().code(), "view_closed");
    world.engine.delete(&world.owner(), &claim.session.id).await.unwrap();
    for gone in ["v", "brief"] {
        assert_eq!(world.engine.view(&world.owner(), gone, None).await.unwrap_err().code(), "not_found");
    }
    let draft =
        world.engine.define(&world.owner(), Some("draft"), form(ViewAudience::Member), None).await.unwrap();
    assert_eq!(submit(world, &world.owner(), &draft.id, "x").await.unwrap_err().code(), "view_closed");
    let answers = world.engine.answers(&world.owner(), &draft.id, 0, 10).await.unwrap();
    assert!(answers.items.is_empty() && answers.next.is_none(), "what was never published has no answers");
}

async fn views_of_one_tenant_are_nothing_in_another(world: &World) {
    let (_, _, published) = waiting(world, ViewAudience::None).await;
    let other = world.other_tenant().await;
    assert_eq!(world.engine.view(&other, "v", None).await.unwrap_err().code(), "not_found");
    assert_eq!(submit(world, &other, "v", "x").await.unwrap_err().code(), "not_found");
    assert_eq!(world.engine.answers(&other, "v", 0, 10).await.unwrap_err().code(), "not_found");
    let holder = stranger(&world.engine, &published).await;
    let elsewhere = Actor { tenant: other.tenant.clone(), ..holder };
    assert_eq!(submit(world, &elsewhere, "v", "x").await.unwrap_err().code(), "not_found");
}

async fn members_keep_what_they_made_and_answer_the_rest(world: &World) {
    let (_, _, _) = waiting(world, ViewAudience::Member).await;
    let (ada, guest) = (world.actor(Role::Member, "ada"), world.actor(Role::Guest, "gus"));
    assert!(matches!(world.engine.view(&ada, "v", None).await.unwrap(), ViewDisplay::Asked(_)));
    assert!(matches!(world.engine.view(&world.owner(), "v", None).await.unwrap(), ViewDisplay::Whole { .. }));
    assert_eq!(world.engine.view(&guest, "v", None).await.unwrap_err().code(), "not_found");
    assert_eq!(world.engine.answers(&ada, "v", 0, 10).await.unwrap_err().code(), "not_found");
    let page = world.engine.definitions::<View>(&ada, DefinitionFilters::default(), None, 10).await.unwrap();
    assert!(page.items.is_empty());
    let made = world.engine.define(&ada, None, form(ViewAudience::Member), None).await;
    assert_eq!(made.unwrap_err().code(), "denied");
    world.engine.define(&world.owner(), Some("draft"), form(ViewAudience::Member), None).await.unwrap();
    assert_eq!(world.engine.view(&ada, "draft", None).await.unwrap_err().code(), "not_found");
    assert_eq!(world.engine.answers(&ada, "draft", 0, 10).await.unwrap_err().code(), "not_found");
}

async fn talk_publishes_nothing(world: &World) {
    let id = world.open(&world.owner(), wish("t", SessionType::Mixed)).await.id;
    let refused = world.engine.publish(&world.owner(), &id, 1, None, form(ViewAudience::None), None).await;
    assert_eq!(refused.unwrap_err().code(), "fenced");
}
