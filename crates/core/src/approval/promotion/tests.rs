use super::super::decide::{Decision, decide};
use super::*;
use crate::ids::CountedIds;
use crate::session::decide::tests::session_in;
use crate::session::{SessionType, SourceKind, Status};
use crate::store::Record;

const NOW: Timestamp = Timestamp::from_micros(1_000);

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn criteria() -> CriteriaSet {
    crate::strict::read(
        r#"{"name":"care","dimensions":[
            {"slug":"size","options":[{"value":"small","score":1},{"value":"big","score":0.5,"flag":true},
                {"value":"vast","score":0}],"option_styles":{"vast":{"hard_block":true}}},
            {"slug":"mood","options":[{"value":"good","score":1},{"value":"bad","score":0}]}]}"#,
    )
    .unwrap()
}

fn form(terms: &StagingTerms) -> ResponseForm {
    let view = crate::view::tests::view(
        r#"[{"key":"q_size","label":"S"},{"key":"q_town","label":"T"},{"key":"mood","label":"M"}]"#,
    );
    let mut response: crate::response::ResponseConfig =
        crate::strict::read(r#"{"fields":{"q_size":"size","q_town":"town"},"promote":"approval"}"#).unwrap();
    response.entity_type = terms.entity_type.map(Into::into);
    response.assigned_to = terms.assigned_to.map(Into::into);
    ResponseForm {
        title: view.title,
        questions: view.questions,
        response,
        gate: view.publish_config.gate,
        view_version: 1,
        entity_id: terms.entity_id.map(Into::into),
    }
}

fn sources(entity: Option<&StoredDefinition<Entity>>, terms: &StagingTerms) -> PromotionSources {
    let criteria = terms.criteria.clone().map(|value| StoredDefinition {
        id: "care".into(),
        value,
        version: 1,
        created_by: None,
        created_at: NOW,
        updated_at: NOW,
    });
    PromotionSources { entity: entity.cloned(), criteria }
}

fn entity(version: u64, fields: &str) -> StoredDefinition<Entity> {
    StoredDefinition {
        id: "acme".into(),
        value: Entity { type_slug: "company".into(), title: None, fields: json(fields) },
        version,
        created_by: None,
        created_at: NOW,
        updated_at: NOW,
    }
}

/// A response of `holder`, which was submitted.
fn response() -> Session {
    let mut session = session_in(Status::Completed);
    session.head.session_type = SessionType::Response;
    session
}

fn staging(
    values: &str,
    entity: Option<&StoredDefinition<Entity>>,
    terms: &StagingTerms,
) -> PromotionOutcome {
    let session = response();
    let request = PromotionRequest {
        session: &session.id,
        respondent: session.head.holder.as_ref(),
        form: &form(terms),
        values: &json(values),
        assigned_to: None,
        sources: &sources(entity, terms),
    };
    stage(&request, NOW, &CountedIds::default()).unwrap()
}

struct StagingTerms {
    entity_type: Option<&'static str>,
    entity_id: Option<&'static str>,
    assigned_to: Option<&'static str>,
    criteria: Option<CriteriaSet>,
}

fn new_company() -> StagingTerms {
    StagingTerms {
        entity_type: Some("company"),
        entity_id: None,
        assigned_to: Some("judge"),
        criteria: Some(criteria()),
    }
}

fn of_acme() -> StagingTerms {
    StagingTerms { entity_id: Some("acme"), ..new_company() }
}

fn staged(values: &str, entity: Option<&StoredDefinition<Entity>>, terms: &StagingTerms) -> Approval {
    match staging(values, entity, terms) {
        PromotionOutcome::Staged(approval) => *approval,
        other => panic!("{other:?}"),
    }
}

fn actor(role: Role, user: &str) -> Actor {
    Actor { role, user: Some(UserId::stored(user)), ..Actor::local(SourceKind::Api) }
}

fn wish(decision: Decision, edit: Option<&str>) -> DecisionRequest {
    DecisionRequest {
        decision,
        modified_args: None,
        modified_output: edit.map(json),
        reason: Some("because".into()),
        digest: None,
    }
}

fn decided(
    who: &Actor,
    approval: &Approval,
    entity: Option<&StoredDefinition<Entity>>,
    wish: &DecisionRequest,
    now: Timestamp,
) -> Result<DecisionEffects> {
    let row = entity.map(|entity| DefinedRow::Entity(Box::new(entity.clone())));
    match decide(who, &response(), approval, row.as_ref(), wish, now, &CountedIds::default())? {
        DecisionOutcome::Settled(effects) => Ok(*effects),
        DecisionOutcome::Stands => panic!("it was pending"),
    }
}

#[test]
fn mapped_answers_are_staged_with_the_entity_as_it_is() {
    let acme = entity(7, r#"{"size":"big","owner":"ann"}"#);
    let approval =
        staged(r#"{"q_size":"small","q_town":"Bonn","mood":"bad","q_none":null}"#, Some(&acme), &of_acme());
    let target = approval.body.promotion.as_ref().unwrap();
    assert_eq!(approval.body.staged, Some(json(r#"{"size":"small","town":"Bonn"}"#)));
    assert_eq!((target.entity_id.as_str(), target.is_new, target.version), ("acme", false, 7));
    assert_eq!(target.base, json(r#"{"size":"big"}"#), "what it did not have is missing");
    assert_eq!(target.unwritten, json(r#"{"mood":"bad"}"#));
    assert_eq!((approval.body.score, &approval.body.flags[..]), (Some(0.5), &[][..]));
    assert_eq!(approval.assigned_to, Some(UserId::stored("judge")));
    assert_eq!(approval.expires_at, Some(NOW.plus(limits::WAITING_DEADLINE)));
    let new = staged(r#"{"q_size":"big"}"#, None, &new_company());
    let target = new.body.promotion.unwrap();
    assert_eq!((target.entity_type.as_str(), target.is_new, target.version), ("company", true, 0));
    assert_eq!(new.body.flags, ["size:big", "missing:mood"]);
}

#[test]
fn what_cannot_or_must_not_be_written_asks_nobody() {
    let acme = entity(7, "{}");
    let nowhere = StagingTerms { entity_type: None, ..new_company() };
    for (values, entity, terms) in [
        ("{}", Some(&acme), of_acme()),
        (r#"{"q_size":null,"mood":"good"}"#, Some(&acme), of_acme()),
        (r#"{"q_size":"small"}"#, None, nowhere),
        (r#"{"q_size":"small"}"#, None, of_acme()),
    ] {
        assert_eq!(staging(values, entity, &terms), PromotionOutcome::None, "{values}");
    }
    let blocked = GateBlock { dimension: "size".into(), option: "vast".into() };
    assert_eq!(staging(r#"{"q_size":"vast"}"#, Some(&acme), &of_acme()), PromotionOutcome::Blocked(blocked));
}

#[test]
fn a_respondent_is_not_asked_to_decide_on_its_own_response() {
    let own = StagingTerms { assigned_to: Some("holder"), ..new_company() };
    assert_eq!(staged(r#"{"q_size":"small"}"#, None, &own).assigned_to, None);
    let mut approval = staged(r#"{"q_size":"small"}"#, None, &new_company());
    approval.assigned_to = Some(UserId::stored("holder"));
    for decision in [Decision::Approve, Decision::Deny] {
        let wish = wish(decision, None);
        let by = |role, user| {
            decided(&actor(role, user), &approval, None, &wish, NOW).map(drop).map_err(|error| error.code())
        };
        assert_eq!(by(Role::Member, "holder"), Err("denied"));
        assert_eq!(by(Role::Owner, "holder"), Ok(()));
        assert_eq!(by(Role::Member, "judge"), Err("not_found"), "it is not assigned any more");
        approval_of("judge", &approval, &wish);
    }
}

fn approval_of(user: &str, approval: &Approval, wish: &DecisionRequest) {
    let assigned = Approval { assigned_to: Some(UserId::stored(user)), ..approval.clone() };
    assert!(decided(&actor(Role::Member, user), &assigned, None, wish, NOW).is_ok());
}

#[test]
fn an_approval_writes_the_entity_and_leaves_the_session_where_it_is() {
    let acme = entity(7, r#"{"size":"big","owner":"ann"}"#);
    let approval = staged(r#"{"q_size":"small","q_town":"Bonn"}"#, Some(&acme), &of_acme());
    // Another field has changed meanwhile: that is no reason to ask again.
    let since = entity(9, r#"{"size":"big","owner":"bob"}"#);
    let judge = actor(Role::Member, "judge");
    let edit = wish(Decision::Approve, Some(r#"{"town":"Köln"}"#));
    let effects = decided(&judge, &approval, Some(&since), &edit, NOW).unwrap();
    assert_eq!(effects.step.update.status, None);
    assert!(effects.step.update.run.is_none() && effects.step.update.result.is_none());
    let [Record::PutDoc { doc, expects: Some(9) }] = &effects.step.records[..] else {
        panic!("{:?}", effects.step.records)
    };
    let written: Entity = doc.body.read().unwrap();
    assert_eq!(written.fields.value(), json(r#"{"size":"small","owner":"bob","town":"Köln"}"#).value());
    let [event] = &effects.step.events[..] else { panic!("{:?}", effects.step.events) };
    assert_eq!(event.kind.as_str(), "user.output_approval");
    assert_eq!(event.author.as_deref(), Some("judge"));
    assert_eq!(event.metadata.as_ref().unwrap().value()["entity_id"], "acme");
    let Record::CloseApproval { state: ApprovalState::Approved, body: Some(body), .. } = &effects.record
    else {
        panic!("{:?}", effects.record)
    };
    assert_eq!(body.edited, Some(json(r#"{"size":"small","town":"Köln"}"#)));
    assert_eq!(body.digest, digest(ApprovalKind::Promotion, &response().id, body.edited.as_ref().unwrap()));
}

#[test]
fn a_new_entity_is_made_with_the_id_that_was_told() {
    let approval = staged(r#"{"q_size":"small"}"#, None, &new_company());
    let effects =
        decided(&actor(Role::Owner, "boss"), &approval, None, &wish(Decision::Approve, None), NOW).unwrap();
    let [Record::PutDoc { doc, expects: None }] = &effects.step.records[..] else {
        panic!("{:?}", effects.step.records)
    };
    assert_eq!(*doc.id, *approval.body.promotion.unwrap().entity_id);
    let made: Entity = doc.body.read().unwrap();
    assert_eq!((made.type_slug.as_str(), made.fields), ("company", json(r#"{"size":"small"}"#)));
}

#[test]
fn a_staged_field_that_has_changed_since_is_not_overwritten() {
    let before = entity(7, r#"{"size":"big","owner":"ann"}"#);
    let approval = staged(r#"{"q_size":"small","q_town":"Bonn"}"#, Some(&before), &of_acme());
    let changed = |fields: &str| entity(8, fields);
    for (now, stale) in [
        (Some(changed(r#"{"size":"big"}"#)), &[][..]),
        (Some(changed(r#"{"size":"small"}"#)), &["size"]),
        (Some(changed(r#"{"size":"big","town":"Bonn"}"#)), &["town"]),
        (Some(changed(r#"{"size":"big","town":null}"#)), &["town"]),
        (Some(changed("{}")), &["size"]),
        (None, &["size", "town"]),
    ] {
        let wish = wish(Decision::Approve, None);
        let outcome = decided(&actor(Role::Owner, "boss"), &approval, now.as_ref(), &wish, NOW);
        let refused = match outcome {
            Ok(_) => Vec::new(),
            Err(Error::Conflict(Conflict::StaleFields { fields })) => fields,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(refused, stale, "{now:?}");
    }
    let new = staged(r#"{"q_size":"small"}"#, None, &new_company());
    let taken =
        decided(&actor(Role::Owner, "boss"), &new, Some(&before), &wish(Decision::Approve, None), NOW);
    assert_eq!(taken.unwrap_err().code(), "stale_base");
}

#[test]
fn an_edit_stays_within_what_was_staged_and_passes_the_gate_again() {
    let acme = entity(7, "{}");
    let approval = staged(r#"{"q_size":"small","mood":"bad"}"#, Some(&acme), &of_acme());
    let owner = actor(Role::Owner, "boss");
    for (edit, code) in [
        (r#"{"owner":"eve"}"#, "invalid"),
        (r#"{"mood":"good"}"#, "invalid"),
        (r#"{"size":"odd"}"#, "invalid"),
        (r#"["small"]"#, "invalid"),
        (r#"{"size":"vast"}"#, "hard_blocked"),
    ] {
        let refused = decided(&owner, &approval, Some(&acme), &wish(Decision::Approve, Some(edit)), NOW);
        assert_eq!(refused.unwrap_err().code(), code, "{edit}");
    }
    let args = DecisionRequest { modified_args: Some(json("{}")), ..wish(Decision::Approve, None) };
    assert_eq!(decided(&owner, &approval, Some(&acme), &args, NOW).unwrap_err().code(), "invalid");
    let edit = wish(Decision::Approve, Some(r#"{"size":"big"}"#));
    let effects = decided(&owner, &approval, Some(&acme), &edit, NOW).unwrap();
    let Record::CloseApproval { body: Some(body), .. } = effects.record else { panic!() };
    assert_eq!((body.score, &body.flags[..]), (Some(0.25), &["size:big".to_owned()][..]));
}

#[test]
fn an_edit_is_an_answer_to_the_questions_of_the_form() {
    let acme = entity(7, "{}");
    let approval = staged(r#"{"q_size":"small","q_town":"Bonn"}"#, Some(&acme), &of_acme());
    let kept: Vec<&str> =
        approval.body.promotion.iter().flat_map(|target| &target.questions).map(|one| &*one.key).collect();
    assert_eq!(kept, ["size", "town"], "by the names of their fields");
    let owner = actor(Role::Owner, "boss");
    let edited = |town: &str| {
        let edit = wish(Decision::Approve, Some(&format!(r#"{{"town":{town}}}"#)));
        decided(&owner, &approval, Some(&acme), &edit, NOW)
    };
    let long = format!("\"{}\"", "x".repeat(limits::ANSWER_TEXT_CHARS + 1));
    for misfit in ["5", "true", r#"["Bonn"]"#, r#"{"a":1}"#, &long] {
        match edited(misfit) {
            Err(Error::Invalid { field, .. }) => assert_eq!(field, "modified_output.town", "{misfit}"),
            other => panic!("{misfit}: {other:?}"),
        }
    }
    for fits in [r#""Köln""#, "null"] {
        assert!(edited(fits).is_ok(), "{fits}");
    }
    let mut older = approval.clone();
    older.body.promotion.iter_mut().for_each(|target| target.questions.clear());
    let edit = wish(Decision::Approve, Some(r#"{"town":5}"#));
    assert!(
        decided(&owner, &older, Some(&acme), &edit, NOW).is_ok(),
        "what was staged without its questions"
    );
}

#[test]
fn a_denial_and_an_expiry_write_their_event_and_nothing_else() {
    let approval = staged(r#"{"q_size":"small"}"#, None, &new_company());
    let end = approval.expires_at.unwrap();
    let denial =
        decided(&actor(Role::Owner, "boss"), &approval, None, &wish(Decision::Deny, None), NOW).unwrap();
    assert!(expire(&approval, Timestamp::from_micros(end.as_micros() - 1)).unwrap().is_none());
    let expiry = expire(&approval, end).unwrap().unwrap();
    for (effects, state, reason) in [
        (denial, ApprovalState::Denied, "because"),
        (expiry, ApprovalState::Expired, "nobody decided in time"),
    ] {
        assert_eq!((effects.step.update.status, effects.step.records.len()), (None, 0));
        assert_eq!(effects.step.events.len(), 1);
        let Record::CloseApproval { state: closed, body: Some(body), .. } = effects.record else { panic!() };
        assert_eq!((closed, body.reason.as_deref()), (state, Some(reason)));
    }
    let late = decided(&actor(Role::Owner, "boss"), &approval, None, &wish(Decision::Approve, None), end);
    assert_eq!(late.unwrap_err().code(), "already_decided");
    for state in ApprovalState::ALL.into_iter().filter(|state| *state != ApprovalState::Pending) {
        let closed = Approval { state, ..approval.clone() };
        assert!(expire(&closed, end).unwrap().is_none(), "{state:?}");
    }
    let output = Approval { kind: ApprovalKind::Output, ..approval };
    assert!(expire(&output, end).unwrap().is_none(), "an output expires with its session");
}

#[test]
fn a_submitted_response_is_asked_for_again_after_a_denial_or_an_expiry() {
    let terms = new_company();
    let mut session = response();
    session.details.result = Some(json(r#"{"values":{"q_size":"small"},"score":1,"flags":[]}"#));
    let row = crate::response::ResponseRow {
        session: session.id.clone(),
        view_id: "v".into(),
        respondent: crate::view::Respondent::cookie("c".into()),
        respondent_name: "n".into(),
        ordinal: 1,
        is_anonymous: true,
        once: true,
        state: ResponseState::Submitted,
        saved_at: NOW,
        form: form(&terms),
    };
    let before = staged(r#"{"q_size":"small"}"#, None, &terms);
    let outcome = |row_state, promotion: Option<ApprovalState>, result: &str, to: Option<&UserId>| {
        let promotion = promotion.map(|state| Approval { state, ..before.clone() });
        let mut session = session.clone();
        session.details.result = Some(json(result));
        let row = crate::response::ResponseRow { state: row_state, ..row.clone() };
        let response = StoredResponse { row, session, promotion };
        ask_again(&response, to, &sources(None, &terms), NOW, &CountedIds::default())
            .map(|approval| approval.assigned_to)
            .map_err(|error| error.code())
    };
    let small = r#"{"values":{"q_size":"small"}}"#;
    let judge = Some(UserId::stored("judge"));
    for (state, expected) in [
        (None, Ok(judge.clone())),
        (Some(ApprovalState::Denied), Ok(judge.clone())),
        (Some(ApprovalState::Expired), Ok(judge)),
        (Some(ApprovalState::Pending), Err("session_running")),
        (Some(ApprovalState::Approved), Err("already_decided")),
    ] {
        assert_eq!(outcome(ResponseState::Submitted, state, small, None), expected, "{state:?}");
    }
    for state in [ResponseState::Open, ResponseState::Abandoned] {
        assert_eq!(outcome(state, None, small, None), Err("invalid_transition"));
    }
    let other = UserId::stored("other");
    assert_eq!(outcome(ResponseState::Submitted, None, small, Some(&other)), Ok(Some(other.clone())));
    let own = UserId::stored("holder");
    assert_eq!(outcome(ResponseState::Submitted, None, small, Some(&own)), Ok(None), "an owner decides");
    let vast = r#"{"values":{"q_size":"vast"}}"#;
    assert_eq!(outcome(ResponseState::Submitted, None, vast, None), Err("hard_blocked"));
    assert_eq!(outcome(ResponseState::Submitted, None, r#"{"values":{}}"#, None), Err("invalid"));
}

#[test]
fn a_promotion_stands_as_its_approval_or_its_block_says() {
    let approval = staged(r#"{"q_size":"small"}"#, None, &new_company());
    let of = |state| standing(Some(&Approval { state, ..approval.clone() }), None).unwrap().state.as_str();
    assert_eq!(
        [ApprovalState::Pending, ApprovalState::Approved, ApprovalState::Denied, ApprovalState::Expired]
            .map(of),
        ["pending", "approved", "denied", "expired"]
    );
    let blocked = json(r#"{"values":{},"blocked":{"dimension":"size","option":"vast"}}"#);
    let found = standing(None, Some(&blocked)).unwrap();
    assert_eq!((found.state, found.approval_id), (PromotionState::Blocked, None));
    assert_eq!(found.block, Some(GateBlock { dimension: "size".into(), option: "vast".into() }));
    assert_eq!(standing(None, Some(&json(r#"{"values":{}}"#))), None);
    assert_eq!(standing(None, None), None);
    let approved = Approval { state: ApprovalState::Approved, decided_at: Some(NOW), ..approval.clone() };
    assert_eq!((promoted_at(Some(&approved)), promoted_at(Some(&approval))), (Some(NOW), None));
}
