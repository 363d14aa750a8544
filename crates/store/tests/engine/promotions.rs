//! Promotions: fields of a submitted response that wait to be written to an entity. The response is closed and stays so.

use sederunt_core::approval::decide::{Decision, DecisionRequest};
use sederunt_core::approval::promotion::{
    PromotionOutcome, PromotionRequest, PromotionSources, stage, standing,
};
use sederunt_core::approval::{Approval, ApprovalQuery, ApprovalState};
use sederunt_core::definitions::{CriteriaSet, Entity, View};
use sederunt_core::error::{Conflict, Error};
use sederunt_core::event::EventQuery;
use sederunt_core::ids::RandomIds;
use sederunt_core::response::{ResponseForm, ResponseRow, ResponseState};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::store::{Change, ChangePart, Guard, PartTarget, Record, Update, Write};
use sederunt_core::view::{PublishConfig, Respondent};
use sederunt_core::work::queue::Bucket;
use sederunt_core::{Actor, Role, SessionId, UserId, limits};

use crate::harness::{World, wish};
use crate::on_both_stores;
use crate::tasks::{define_criteria, define_entity, entity, json};

on_both_stores!(
    an_approval_writes_the_entity_and_leaves_the_response_completed,
    an_approval_makes_the_entity_that_was_told,
    a_blocked_edit_leaves_the_promotion_pending,
    a_field_that_changed_meanwhile_is_not_overwritten,
    a_denied_promotion_leaves_the_response_as_it_was,
    nobody_but_an_owner_decides_on_an_own_response,
    a_promotion_that_nobody_decides_expires_in_one_sweep,
    a_decision_and_the_expiry_at_once_have_one_effect,
    owners_and_the_maker_of_the_form_promote_what_was_submitted,
    two_who_promote_at_once_ask_once,
    a_submit_stages_its_promotion_once,
    a_hard_block_at_submit_asks_nobody_and_is_kept,
    a_response_with_a_pending_promotion_is_not_deleted,
    an_owner_finds_promotions_that_are_assigned_to_nobody,
    what_no_worker_did_is_not_retried,
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

fn edit(text: &str) -> DecisionRequest {
    DecisionRequest { modified_output: Some(json(text)), ..approve() }
}

fn deny(reason: &str) -> DecisionRequest {
    DecisionRequest { decision: Decision::Deny, reason: Some(reason.into()), ..approve() }
}

/// What is staged, for whom, and on which entity.
struct Staging<'a> {
    values: &'a str,
    entity_id: Option<&'a str>,
    assigned_to: Option<&'a str>,
}

const NEW_NOTE: Staging<'_> =
    Staging { values: r#"{"q_tone":"kind","q_size":3}"#, entity_id: None, assigned_to: None };
const ON_ACME: Staging<'_> = Staging { entity_id: Some("acme"), ..NEW_NOTE };

/// A response that `rita` has submitted, with its fields staged.
async fn submitted(world: &World, id: &str, staging: &Staging<'_>) -> Approval {
    let rita = world.actor(Role::Member, "rita");
    world.open(&rita, wish(id, SessionType::Response)).await;
    let promotion = promoted(world, id, staging).await;
    let closed = Update {
        status: Some(Status::Completed),
        completed: true,
        deadline: Some(None),
        result: Some(json(&format!(r#"{{"values":{}}}"#, staging.values))),
        ..Update::default()
    };
    let part = ChangePart {
        on: PartTarget::Session(SessionId::stored(id)),
        guard: Guard::default(),
        writes: [Write::Update(Box::new(closed))].into_iter().collect(),
    };
    let asked = Record::AddApproval(Box::new(promotion.clone()));
    let row = ResponseRow {
        session: SessionId::stored(id),
        view_id: "form".into(),
        respondent: Respondent::cookie(id.into()),
        respondent_name: format!("view:{id}"),
        ordinal: 1,
        is_anonymous: false,
        once: true,
        state: ResponseState::Submitted,
        saved_at: promotion.created_at,
        form: form(staging),
    };
    let change = Change::new(world.tenant.clone()).part(part).record(Record::AddResponse(Box::new(row)));
    world.store.commit(change.record(asked)).await.unwrap();
    promotion
}

/// The form that a response was opened with.
fn form(staging: &Staging<'_>) -> ResponseForm {
    let mut form: ResponseForm = json(
        r#"{"title":"T","questions":[{"key":"q_tone","label":"Tone"},{"key":"q_size","label":"Size","type":"number"}],
            "response":{"entity_type":"note","fields":{"q_tone":"tone","q_size":"size"},"promote":"approval",
                "criteria_set_id":"care"},"gate":"member","view_version":1}"#,
    )
    .read()
    .unwrap();
    form.entity_id = staging.entity_id.map(Into::into);
    form.response.assigned_to = staging.assigned_to.map(Into::into);
    form
}

async fn promoted(world: &World, id: &str, staging: &Staging<'_>) -> Approval {
    let owner = world.owner();
    let entity = match staging.entity_id {
        Some(id) => Some(world.engine.definition::<Entity>(&owner, id).await.unwrap()),
        None => None,
    };
    let criteria = world.engine.definition::<CriteriaSet>(&owner, "care").await.ok();
    let request = PromotionRequest {
        session: &SessionId::stored(id),
        respondent: Some(&UserId::stored("rita")),
        form: &form(staging),
        values: &json(staging.values),
        assigned_to: None,
        sources: &PromotionSources { entity, criteria },
    };
    match stage(&request, world.engine.now().await.unwrap(), &RandomIds).unwrap() {
        PromotionOutcome::Staged(approval) => *approval,
        other => panic!("{other:?}"),
    }
}

async fn decide(
    world: &World,
    actor: &Actor,
    of: &Approval,
    wish: DecisionRequest,
) -> Result<Approval, Error> {
    world.engine.decide(actor, &of.id, wish, None).await
}

async fn state(world: &World, of: &Approval) -> ApprovalState {
    world.engine.approval(&world.owner(), &of.id).await.unwrap().state
}

/// The types of the events of a session after the first.
async fn log(world: &World, id: &str) -> Vec<String> {
    let query = EventQuery { after: 1, limit: 100, ..EventQuery::default() };
    let page = world.engine.read(&world.owner(), &SessionId::stored(id), query).await.unwrap();
    page.events.iter().map(|event| event.kind.as_str().to_owned()).collect()
}

async fn an_approval_writes_the_entity_and_leaves_the_response_completed(world: &World) {
    define_criteria(world).await;
    define_entity(world, "acme", r#"{"tone":"curt","owner":"ann"}"#).await;
    let asked = submitted(world, "r", &Staging { assigned_to: Some("ada"), ..ON_ACME }).await;
    assert_eq!(entity(world, "acme").await, r#"{"tone":"curt","owner":"ann"}"#, "nothing is written yet");
    let before = world.session("r").await;
    let ada = world.actor(Role::Member, "ada");
    let done = decide(world, &ada, &asked, edit(r#"{"size":4}"#)).await.unwrap();
    assert_eq!((done.state, done.decided_by.as_deref()), (ApprovalState::Approved, Some("ada")));
    assert_eq!(done.body.edited, Some(json(r#"{"tone":"kind","size":4}"#)));
    assert_eq!(entity(world, "acme").await, r#"{"tone":"kind","owner":"ann","size":4}"#);
    let after = world.session("r").await;
    assert_eq!(after.head.status, Status::Completed);
    assert_eq!(
        (&after.details.completed_at, &after.details.result, after.head.deadline_at),
        (&before.details.completed_at, &before.details.result, None)
    );
    assert_eq!(log(world, "r").await, ["user.output_approval"]);
    decide(world, &ada, &asked, approve()).await.unwrap();
    assert_eq!(log(world, "r").await, ["user.output_approval"], "the same decision stands");
    assert_eq!(decide(world, &ada, &asked, deny("no")).await.unwrap_err().code(), "already_decided");
}

async fn an_approval_makes_the_entity_that_was_told(world: &World) {
    let asked = submitted(world, "r", &NEW_NOTE).await;
    let id = asked.body.promotion.as_ref().unwrap().entity_id.clone();
    assert!(world.engine.definition::<Entity>(&world.owner(), &id).await.is_err());
    decide(world, &world.owner(), &asked, approve()).await.unwrap();
    let made = world.engine.definition::<Entity>(&world.owner(), &id).await.unwrap();
    assert_eq!((made.value.type_slug.as_str(), made.version), ("note", 1));
    assert_eq!(made.value.fields, json(r#"{"tone":"kind","size":3}"#));
}

async fn a_blocked_edit_leaves_the_promotion_pending(world: &World) {
    define_criteria(world).await;
    let asked = submitted(world, "r", &NEW_NOTE).await;
    let owner = world.owner();
    for (wish, code) in [
        (edit(r#"{"tone":"cruel"}"#), "hard_blocked"),
        (edit(r#"{"tone":"odd"}"#), "invalid"),
        (edit(r#"{"owner":"eve"}"#), "invalid"),
    ] {
        assert_eq!(decide(world, &owner, &asked, wish).await.unwrap_err().code(), code);
        assert_eq!(state(world, &asked).await, ApprovalState::Pending);
    }
    assert_eq!(log(world, "r").await, [""; 0]);
    decide(world, &owner, &asked, edit(r#"{"tone":"curt"}"#)).await.unwrap();
}

async fn a_field_that_changed_meanwhile_is_not_overwritten(world: &World) {
    define_entity(world, "acme", r#"{"tone":"curt","owner":"ann"}"#).await;
    let asked = submitted(world, "r", &ON_ACME).await;
    let owner = world.owner();
    let set = async |fields: &str| {
        let patch = json(&format!(r#"{{"fields":{fields}}}"#));
        world.engine.redefine::<Entity>(&owner, "acme", &patch, None).await.unwrap();
    };
    set(r#"{"tone":"odd","owner":"ann"}"#).await;
    for decision in [approve(), edit(r#"{"size":9}"#)] {
        match decide(world, &owner, &asked, decision).await {
            Err(Error::Conflict(Conflict::StaleFields { fields })) => assert_eq!(fields, ["tone"]),
            other => panic!("{other:?}"),
        }
        assert_eq!(state(world, &asked).await, ApprovalState::Pending);
        assert_eq!(entity(world, "acme").await, r#"{"tone":"odd","owner":"ann"}"#);
    }
    set(r#"{"tone":"curt","owner":"bob"}"#).await;
    decide(world, &owner, &asked, approve()).await.unwrap();
    assert_eq!(entity(world, "acme").await, r#"{"tone":"kind","owner":"bob","size":3}"#);
}

async fn a_denied_promotion_leaves_the_response_as_it_was(world: &World) {
    define_form(world, "owner").await;
    let asked = submitted(world, "r", &NEW_NOTE).await;
    // Outputs fail at the third denial; promotions do not.
    for round in 0..4 {
        let again = match round {
            0 => asked.clone(),
            _ => promote(world, &world.owner(), None).await.unwrap(),
        };
        let done = decide(world, &world.owner(), &again, deny("too vague")).await.unwrap();
        assert_eq!((done.state, done.body.reason.as_deref()), (ApprovalState::Denied, Some("too vague")));
        assert_eq!(world.session("r").await.head.status, Status::Completed);
    }
    assert_eq!(log(world, "r").await, ["user.output_approval"; 4]);
}

/// The form of these responses, made by this owner.
async fn define_form(world: &World, maker: &str) {
    let ResponseForm { title, questions, response, .. } = form(&NEW_NOTE);
    let view = View {
        title,
        description: None,
        questions,
        publish_config: PublishConfig::default(),
        session_id: None,
        response: Some(response),
    };
    define_criteria(world).await;
    world.engine.define(&world.actor(Role::Owner, maker), Some("form"), view, None).await.unwrap();
}

async fn a_submit_stages_its_promotion_once(world: &World) {
    define_form(world, "owner").await;
    let other = world.other_node().await;
    for round in 0..12 {
        let name = format!("member{round}");
        let member = world.actor(Role::Member, &name);
        let id =
            world.engine.open_response(&member, "form", None, None, None).await.unwrap().response.row.session;
        let values = [
            json(r#"{"q_tone":"kind"}"#),
            json(&format!(r#"{{"q_tone":"{}"}}"#, ["kind", "curt"][round % 2])),
        ];
        let (one, two) = tokio::join!(
            world.engine.submit_response(&member, &id, None, Some(&values[0]), None),
            other.submit_response(&member, &id, None, Some(&values[1]), None),
        );
        match round % 2 {
            0 => assert!(one.unwrap().repeated != two.unwrap().repeated),
            _ => {
                let lost = [one.err(), two.err()].into_iter().flatten().map(|error| error.code());
                assert_eq!(lost.collect::<Vec<_>>(), ["already_answered"]);
            }
        }
        let query = ApprovalQuery { session: Some(id.clone()), limit: 10, ..ApprovalQuery::default() };
        let asked = world.engine.approvals(&world.owner(), false, query).await.unwrap().items;
        assert_eq!(asked.len(), 1, "one promotion");
        let submits = log(world, id.as_str()).await.into_iter().filter(|kind| kind == "user.form_submit");
        assert_eq!(submits.count(), 1);
        let response = world.engine.response(&world.owner(), &id, None).await.unwrap();
        assert_eq!(response.promotion.map(|promotion| promotion.id), Some(asked[0].id.clone()));
    }
}

async fn a_hard_block_at_submit_asks_nobody_and_is_kept(world: &World) {
    define_form(world, "owner").await;
    let rita = world.actor(Role::Member, "rita");
    let id = world.engine.open_response(&rita, "form", None, None, None).await.unwrap().response.row.session;
    let cruel = json(r#"{"q_tone":"cruel","q_size":1}"#);
    let done = world.engine.submit_response(&rita, &id, None, Some(&cruel), None).await.unwrap().response;
    assert_eq!((done.session.head.status, &done.promotion), (Status::Completed, &None));
    let standing = standing(None, done.session.details.result.as_ref()).unwrap();
    assert_eq!(standing.block.map(|block| block.option).as_deref(), Some("cruel"));
    let refused = world.engine.promote(&world.owner(), &id, None, None).await.unwrap_err();
    assert_eq!(refused.code(), "hard_blocked");
}

/// Promotes the response `r` again.
async fn promote(world: &World, actor: &Actor, to: Option<&str>) -> Result<Approval, Error> {
    let response = world.engine.promote(actor, &SessionId::stored("r"), to, None).await?;
    Ok(response.promotion.expect("somebody is asked"))
}

async fn owners_and_the_maker_of_the_form_promote_what_was_submitted(world: &World) {
    let asked = submitted(world, "r", &NEW_NOTE).await;
    define_form(world, "mia").await;
    let owner = world.owner();
    let code = |outcome: Result<Approval, Error>| outcome.map(drop).map_err(|error| error.code());
    assert_eq!(code(promote(world, &owner, None).await), Err("session_running"), "one is pending");
    decide(world, &owner, &asked, deny("no")).await.unwrap();
    let (rita, eve) = (world.actor(Role::Member, "rita"), world.actor(Role::Member, "eve"));
    assert_eq!(code(promote(world, &rita, None).await), Err("denied"), "the respondent sees it");
    assert_eq!(code(promote(world, &eve, None).await), Err("not_found"));
    // The maker is an owner no more, and made the form all the same.
    let again = promote(world, &world.actor(Role::Member, "mia"), Some("ada")).await.unwrap();
    assert_eq!(
        (again.state, again.assigned_to.as_ref()),
        (ApprovalState::Pending, Some(&UserId::stored("ada")))
    );
    assert_eq!(again.body.staged, asked.body.staged);
    decide(world, &world.actor(Role::Member, "ada"), &again, approve()).await.unwrap();
    assert_eq!(code(promote(world, &owner, None).await), Err("already_decided"));
    for (id, session_type, refused) in
        [("plain", SessionType::Response, "type_mismatch"), ("tool", SessionType::Tool, "not_found")]
    {
        world.open(&owner, wish(id, session_type)).await;
        let outcome = world.engine.promote(&owner, &SessionId::stored(id), None, None).await;
        assert_eq!(outcome.unwrap_err().code(), refused);
    }
}

async fn two_who_promote_at_once_ask_once(world: &World) {
    let asked = submitted(world, "r", &NEW_NOTE).await;
    define_form(world, "owner").await;
    let (owner, other) = (world.owner(), world.other_node().await);
    let mut before = asked;
    for round in 0..10 {
        decide(world, &owner, &before, deny("no")).await.unwrap();
        let id = SessionId::stored("r");
        let (one, two) = tokio::join!(
            world.engine.promote(&owner, &id, None, None),
            other.promote(&owner, &id, None, None)
        );
        let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
        assert_eq!(lost.unwrap_err().code(), "session_running", "round {round}");
        before = won.unwrap().promotion.unwrap();
    }
}

async fn nobody_but_an_owner_decides_on_an_own_response(world: &World) {
    let (rita, ada) = (world.actor(Role::Member, "rita"), world.actor(Role::Member, "ada"));
    let own = Staging { assigned_to: Some("rita"), ..NEW_NOTE };
    let asked = submitted(world, "r", &own).await;
    assert_eq!(asked.assigned_to, None, "an owner is asked");
    assert_eq!(decide(world, &rita, &asked, approve()).await.unwrap_err().code(), "not_found");
    assert_eq!(decide(world, &ada, &asked, approve()).await.unwrap_err().code(), "not_found");
    // By a merge of two users an assignee becomes the respondent.
    let merged = Approval { assigned_to: Some(UserId::stored("rita")), ..promoted(world, "r", &own).await };
    let record = Record::AddApproval(Box::new(merged.clone()));
    world.store.commit(Change::new(world.tenant.clone()).record(record)).await.unwrap();
    for wish in [approve(), deny("no")] {
        assert_eq!(decide(world, &rita, &merged, wish).await.unwrap_err().code(), "denied");
    }
    assert_eq!(state(world, &merged).await, ApprovalState::Pending);
    decide(world, &world.actor(Role::Owner, "rita"), &merged, approve()).await.unwrap();
}

async fn a_promotion_that_nobody_decides_expires_in_one_sweep(world: &World) {
    let asked = submitted(world, "r", &NEW_NOTE).await;
    let waits = limits::WAITING_DEADLINE;
    world.clock.advance(waits - std::time::Duration::from_secs(1));
    assert_eq!(world.engine.sweep().await.unwrap().promotions_expired, 0);
    world.clock.advance(std::time::Duration::from_secs(1));
    let late = decide(world, &world.owner(), &asked, approve()).await.unwrap_err();
    assert_eq!(late.code(), "already_decided", "even before the sweep");
    assert_eq!(world.engine.sweep().await.unwrap().promotions_expired, 1);
    let expired = world.engine.approval(&world.owner(), &asked.id).await.unwrap();
    assert_eq!(expired.state, ApprovalState::Expired);
    assert_eq!(expired.body.reason.as_deref(), Some("nobody decided in time"));
    assert_eq!(world.session("r").await.head.status, Status::Completed);
    assert_eq!(log(world, "r").await, ["user.output_approval"]);
    assert_eq!(world.engine.sweep().await.unwrap().promotions_expired, 0);
    assert_eq!(decide(world, &world.owner(), &asked, approve()).await.unwrap_err().code(), "already_decided");
}

async fn a_decision_and_the_expiry_at_once_have_one_effect(world: &World) {
    const ROUNDS: usize = 60;
    let other = world.other_node().await;
    let (mut approved, mut expired) = (0, 0);
    for round in 0..ROUNDS {
        let id = format!("r{round}");
        let mut asked = promoted(world, &id, &NEW_NOTE).await;
        // Due while the two run: which of them comes first is open.
        asked.expires_at = Some(world.engine.now().await.unwrap().plus(std::time::Duration::from_millis(4)));
        world.open(&world.actor(Role::Member, "rita"), wish(&id, SessionType::Response)).await;
        let record = Record::AddApproval(Box::new(asked.clone()));
        world.store.commit(Change::new(world.tenant.clone()).record(record)).await.unwrap();
        let owner = world.owner();
        let sweeps = async {
            let mut swept = 0;
            let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
            while swept == 0 && state(world, &asked).await == ApprovalState::Pending {
                assert!(std::time::Instant::now() < end, "the promotion never became due");
                swept += other.sweep().await.unwrap().promotions_expired;
            }
            swept
        };
        let pause = tokio::time::sleep(std::time::Duration::from_millis((round % 8) as u64));
        let decides = async {
            pause.await;
            decide(world, &owner, &asked, approve()).await
        };
        let (decided, swept) = tokio::join!(decides, sweeps);
        let made = asked.body.promotion.as_ref().unwrap().entity_id.clone();
        let is_made = world.engine.definition::<Entity>(&owner, &made).await.is_ok();
        match (decided, state(world, &asked).await) {
            (Ok(_), ApprovalState::Approved) => {
                assert!(is_made && swept == 0);
                approved += 1;
            }
            (Err(error), ApprovalState::Expired) => {
                assert_eq!(error.code(), "already_decided");
                assert!(!is_made && swept == 1);
                expired += 1;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(log(world, &id).await, ["user.output_approval"], "one of them, once");
    }
    assert_eq!(approved + expired, ROUNDS);
}

async fn a_response_with_a_pending_promotion_is_not_deleted(world: &World) {
    let asked = submitted(world, "r", &NEW_NOTE).await;
    let (owner, id) = (world.owner(), SessionId::stored("r"));
    for refused in [world.engine.delete(&owner, &id).await, world.engine.delete_by_force(&owner, &id).await] {
        assert_eq!(refused.unwrap_err().code(), "session_running");
    }
    decide(world, &owner, &asked, deny("no")).await.unwrap();
    world.engine.delete(&owner, &id).await.unwrap();
    assert_eq!(world.engine.approval(&owner, &asked.id).await.unwrap_err().code(), "not_found");
}

async fn an_owner_finds_promotions_that_are_assigned_to_nobody(world: &World) {
    submitted(world, "free", &NEW_NOTE).await;
    submitted(world, "adas", &Staging { assigned_to: Some("ada"), ..NEW_NOTE }).await;
    for (role, name, expected) in [
        (Role::Owner, "owner", &["free"][..]),
        (Role::Owner, "ada", &["adas", "free"]),
        (Role::Member, "ada", &["adas"]),
        (Role::Member, "eve", &[]),
    ] {
        let actor = world.actor(role, name);
        let page = world.engine.queue(&actor, Bucket::NeedsMe, None, None, 100).await.unwrap();
        let found: Vec<_> = page
            .items
            .iter()
            .map(|item| match item {
                sederunt_core::engine::WaitingItem::Approval(_, session, _) => session.id.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, expected, "{role:?} {name}");
        let counted = world.engine.queue_counts(&actor, None).await.unwrap().needs_me;
        assert_eq!(counted as usize, expected.len());
    }
}

async fn what_no_worker_did_is_not_retried(world: &World) {
    let owner = world.owner();
    for (id, session_type) in [("r", SessionType::Response), ("t", SessionType::Tool)] {
        world.open(&owner, wish(id, session_type)).await;
        let id = SessionId::stored(id);
        for status in ["before", "after"] {
            let refused = world.engine.retry(&owner, &id, None).await.unwrap_err();
            assert_eq!(refused.code(), "type_mismatch", "{session_type:?} {status}");
            let gone = sederunt_core::session::decide::Transition {
                to: Status::Abandoned,
                expected: None,
                reason: None,
            };
            world.engine.transition(&owner, &id, gone, None).await.ok();
        }
    }
    assert!(world.claim(&world.worker("w")).await.is_empty());
}
