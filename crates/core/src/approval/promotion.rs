//! Promotions: fields of a submitted response that wait to be written to an entity. Pure: the time and new ids are
//! handed in. The session of the response is closed and stays so; a decision adds its event to the log and nothing
//! else. The form, which an owner made, grants the write: of the fields that it maps, and of no other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decide::{
    DecisionEffects, DecisionOutcome, DecisionRequest, DenialTerms, approved_event, by, changed_values,
    check_edit, close, denied_event, expired, merged,
};
use super::safety_gate::{GateBlock, GateVerdict, check_choices, evaluate_safety_gate};
use super::{Approval, ApprovalBody, ApprovalKind, ApprovalState, digest};
use crate::access::{Actor, Role};
use crate::definitions::criteria::Dimension;
use crate::definitions::task::OnExpiry;
use crate::definitions::{CriteriaSet, Entity, StoredDefinition};
use crate::document::apply::DefinedRow;
use crate::error::{Conflict, Error, Result};
use crate::ids::{IdSource, SessionId, UserId};
use crate::json::Json;
use crate::limits;
use crate::response::{ResponseForm, ResponseState, StoredResponse};
use crate::session::Session;
use crate::session::decide::SessionStep;
use crate::store::Update;
use crate::time::Timestamp;
use crate::work::write_back::put_doc;

/// The entity that staged fields are written to, as it was when they were staged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromotionTarget {
    /// The entity's id; of a new entity, the id that it will have.
    pub entity_id: String,
    pub entity_type: String,
    pub is_new: bool,
    /// 0 for a new entity.
    pub version: u64,
    /// The staged fields as the entity had them. A field that it did not have is missing.
    pub base: Json,
    /// The dimensions that judged what is staged; an edit is judged by the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Dimension>,
    /// The answers that are judged and not written.
    #[serde(default = "Json::empty_object")]
    pub unwritten: Json,
    /// The document that the fields come from, if they come from no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<PromotedDocument>,
}

/// A document whose fields are to be written to its entity or view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotedDocument {
    /// `entity` or `view`.
    pub kind: String,
    pub id: String,
}

impl PromotionTarget {
    /// The staged fields whose value in the row is another one than when they were staged.
    fn changed_since(&self, staged: &Json, row: Option<&DefinedRow>) -> Result<Vec<String>> {
        let keys = staged.fields().into_iter().map(|(key, _)| key);
        let now = match (self.is_new, row) {
            (true, None) => return Ok(Vec::new()),
            (false, Some(row)) => row.fields()?.fields(),
            // An entity that was to be made is there, or one that was there is gone.
            (true, Some(_)) | (false, None) => return Ok(keys.collect()),
        };
        let base = self.base.fields();
        Ok(keys.filter(|key| value_of(&base, key) != value_of(&now, key)).collect())
    }

    /// Everything that the criteria judge, with these values to write.
    fn judged(&self, values: &Json) -> Json {
        let (written, unwritten) = (values.fields(), self.unwritten.fields());
        Json::object(written.iter().chain(&unwritten).map(|(key, value)| (key.as_str(), value)))
    }
}

fn value_of(fields: &[(String, Json)], key: &str) -> Option<serde_json::Value> {
    fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.value())
}

/// The definitions that the promotion of a response rests on, as they are now.
#[derive(Clone, Debug, Default)]
pub struct PromotionSources {
    /// The entity that the response names.
    pub entity: Option<StoredDefinition<Entity>>,
    pub criteria: Option<StoredDefinition<CriteriaSet>>,
}

/// A response whose fields are to be staged.
#[derive(Clone, Copy, Debug)]
pub struct PromotionRequest<'a> {
    pub session: &'a SessionId,
    /// The user who gave the response.
    pub respondent: Option<&'a UserId>,
    pub form: &'a ResponseForm,
    pub values: &'a Json,
    /// The user who is to decide, where that is not the form's.
    pub assigned_to: Option<&'a UserId>,
    pub sources: &'a PromotionSources,
}

/// What becomes of the fields of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum PromotionOutcome {
    /// There is nothing to write, or no entity to write to.
    None,
    Staged(Box<Approval>),
    /// A value was chosen that must never be written: nobody is asked.
    Blocked(GateBlock),
}

/// Judges the values of a response by its form's criteria set. A value counts under the entity field that it is written
/// to, and under its question's key where it is written to none.
pub fn judge(form: &ResponseForm, values: &Json, sources: &PromotionSources) -> GateVerdict {
    let Some(criteria) = &sources.criteria else { return GateVerdict::default() };
    let (written, unwritten) = parted(&form.response.fields, values);
    let all = Json::object(written.iter().chain(&unwritten).map(|(key, value)| (key.as_str(), value)));
    evaluate_safety_gate(&all, &criteria.value.dimensions)
}

/// Stages the fields of a submitted response for a decision.
pub fn stage(request: &PromotionRequest<'_>, now: Timestamp, ids: &dyn IdSource) -> Result<PromotionOutcome> {
    let PromotionRequest { session, form, sources, .. } = *request;
    let verdict = judge(form, request.values, sources);
    if let Some(block) = verdict.blocked {
        return Ok(PromotionOutcome::Blocked(block));
    }
    let config = &form.response;
    let (written, unwritten) = parted(&config.fields, request.values);
    let entity = sources.entity.as_ref().filter(|_| form.entity_id.is_some());
    let (entity_id, entity_type) = match (&form.entity_id, entity, &config.entity_type) {
        (Some(_), Some(entity), _) => (entity.id.to_string(), entity.value.type_slug.clone()),
        (None, _, Some(entity_type)) => (ids.ordered().to_string(), entity_type.clone()),
        (Some(_), None, _) | (None, _, None) => return Ok(PromotionOutcome::None),
    };
    if written.is_empty() {
        return Ok(PromotionOutcome::None);
    }
    let object =
        |fields: &[(String, Json)]| Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)));
    let staged = object(&written);
    let base: Vec<(String, Json)> = entity
        .map(|entity| entity.value.fields.fields())
        .unwrap_or_default()
        .into_iter()
        .filter(|(key, _)| written.iter().any(|(field, _)| field == key))
        .collect();
    let target = PromotionTarget {
        entity_id,
        entity_type,
        is_new: entity.is_none(),
        version: entity.map_or(0, |entity| entity.version),
        base: object(&base),
        criteria: sources.criteria.as_ref().map(|set| set.value.dimensions.clone()).unwrap_or_default(),
        unwritten: object(&unwritten),
        document: None,
    };
    // The respondent's own promotion is an owner's to decide.
    let assigned_to = request
        .assigned_to
        .cloned()
        .or_else(|| config.assigned_to.as_deref().map(UserId::stored))
        .filter(|user| request.respondent != Some(user));
    let id = ids.ordered().to_string().into();
    let asked = staged_approval(session, id, assigned_to, staged, verdict, target, now);
    Ok(PromotionOutcome::Staged(Box::new(asked)))
}

/// The approval of fields that are staged for a row.
fn staged_approval(
    session: &SessionId,
    id: Box<str>,
    assigned_to: Option<UserId>,
    staged: Json,
    verdict: GateVerdict,
    target: PromotionTarget,
    now: Timestamp,
) -> Approval {
    Approval {
        id,
        kind: ApprovalKind::Promotion,
        session: session.clone(),
        task_id: None,
        state: ApprovalState::Pending,
        assigned_to,
        expires_at: Some(now.plus(limits::WAITING_DEADLINE)),
        created_at: now,
        decided_by: None,
        decided_at: None,
        body: ApprovalBody {
            digest: digest(ApprovalKind::Promotion, session, &staged),
            staged: Some(staged),
            score: verdict.score,
            flags: verdict.flags,
            on_expiry: OnExpiry::Expire,
            edited: None,
            reason: None,
            input_schema: None,
            tool_description: None,
            promotion: Some(target),
            elicitation: None,
        },
    }
}

/// Asks an owner whether fields of a document may be written to its row.
pub fn stage_document(
    session: &SessionId,
    row: &DefinedRow,
    changed: &[(String, Json)],
    document: PromotedDocument,
    now: Timestamp,
    id: &str,
) -> Result<Approval> {
    let staged = Json::object(changed.iter().map(|(key, value)| (key.as_str(), value)));
    let before = row.fields()?.fields();
    let base = before.iter().filter(|(key, _)| changed.iter().any(|(name, _)| name == key));
    let target = PromotionTarget {
        entity_id: row.id().to_owned(),
        entity_type: row.type_slug().to_owned(),
        is_new: false,
        version: row.version(),
        base: Json::object(base.map(|(key, value)| (key.as_str(), value))),
        criteria: Vec::new(),
        unwritten: Json::empty_object(),
        document: Some(document),
    };
    let verdict = GateVerdict::default();
    Ok(staged_approval(session, id.into(), None, staged, verdict, target, now))
}

/// The approval that asks again for a response that was submitted: for the first time, or after a denial or an expiry.
pub fn ask_again(
    response: &StoredResponse,
    assigned_to: Option<&UserId>,
    sources: &PromotionSources,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<Approval> {
    let StoredResponse { row, session, promotion } = response;
    if row.state != ResponseState::Submitted {
        return Err(Conflict::NotSubmitted { status: session.head.status }.into());
    }
    match promotion.as_ref().map(|promotion| promotion.state) {
        Some(ApprovalState::Pending) => return Err(Conflict::PromotionPending.into()),
        Some(ApprovalState::Approved) => {
            let decided_by = promotion.as_ref().and_then(|promotion| promotion.decided_by.as_deref());
            let decided_by = decided_by.unwrap_or("nobody").to_owned();
            return Err(Conflict::AlreadyDecided { decision: "approve", decided_by }.into());
        }
        Some(ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled) | None => {}
    }
    let result = session.details.result.as_ref().map(Json::fields).unwrap_or_default();
    let values = result.into_iter().find(|(key, _)| key == "values");
    let values = values.map_or_else(Json::empty_object, |(_, values)| values);
    let request = PromotionRequest {
        session: &session.id,
        respondent: session.head.holder.as_ref(),
        form: &row.form,
        values: &values,
        assigned_to,
        sources,
    };
    match stage(&request, now, ids)? {
        PromotionOutcome::Staged(approval) => Ok(*approval),
        PromotionOutcome::Blocked(GateBlock { dimension, option }) => {
            Err(Error::HardBlocked { dimension, option })
        }
        PromotionOutcome::None => Err(Error::invalid(
            "id",
            "the form writes none of these answers to an entity, or names no entity",
        )),
    }
}

/// Where the promotion of a response stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotionStanding {
    pub approval_id: Option<Box<str>>,
    pub state: PromotionState,
    pub reason: Option<String>,
    /// What must not be written, if it is blocked.
    pub block: Option<GateBlock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromotionState {
    Pending,
    Approved,
    Denied,
    Expired,
    /// The criteria forbid it: nobody was asked.
    Blocked,
}

impl PromotionState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Blocked => "blocked",
        }
    }
}

/// Where the promotion of a response stands: as its newest approval says, or blocked as its result says. `None`: nobody
/// has asked for one.
pub fn standing(promotion: Option<&Approval>, result: Option<&Json>) -> Option<PromotionStanding> {
    let Some(approval) = promotion else {
        let fields = result.map(Json::fields).unwrap_or_default();
        let (_, block) = fields.into_iter().find(|(key, _)| key == "blocked")?;
        let block: GateBlock = block.read().ok()?;
        let GateBlock { dimension, option } = &block;
        let reason = Error::HardBlocked { dimension: dimension.clone(), option: option.clone() }.to_string();
        return Some(PromotionStanding {
            approval_id: None,
            state: PromotionState::Blocked,
            reason: Some(reason),
            block: Some(block),
        });
    };
    let state = match approval.state {
        ApprovalState::Pending => PromotionState::Pending,
        ApprovalState::Approved => PromotionState::Approved,
        ApprovalState::Denied => PromotionState::Denied,
        // No session goes on without its promotion: there are no cancelled ones.
        ApprovalState::Expired | ApprovalState::Cancelled => PromotionState::Expired,
    };
    let reason = approval.body.reason.clone();
    Some(PromotionStanding { approval_id: Some(approval.id.clone()), state, reason, block: None })
}

/// When a response was promoted, if it was.
pub fn promoted_at(promotion: Option<&Approval>) -> Option<Timestamp> {
    promotion.filter(|approval| approval.state == ApprovalState::Approved)?.decided_at
}

type NamedValues = Vec<(String, Json)>;

/// The answered values: those that are written, by entity field, and the others, by the key of their question.
fn parted(fields: &BTreeMap<String, String>, values: &Json) -> (NamedValues, NamedValues) {
    let (mut written, mut unwritten) = (NamedValues::new(), NamedValues::new());
    for (key, value) in values.fields().into_iter().filter(|(_, value)| value.as_str() != "null") {
        match fields.get(&key) {
            Some(field) => written.push((field.clone(), value)),
            None => unwritten.push((key, value)),
        }
    }
    // A dimension is judged once: by what is written, where a question has the name of a field.
    unwritten.retain(|(key, _)| !written.iter().any(|(field, _)| field == key));
    (written, unwritten)
}

/// Refuses a respondent who is no owner the decision on its own response.
pub fn check_not_own(actor: &Actor, session: &Session) -> Result<()> {
    let is_own = actor.user.is_some() && session.head.holder == actor.user;
    if is_own && actor.role != Role::Owner {
        return Err(Error::denied("you gave this response: an owner decides on its promotion"));
    }
    Ok(())
}

/// Writes the staged fields, as they are or edited, to the entity.
pub(super) fn approve(
    actor: &Actor,
    session: &Session,
    approval: &Approval,
    staged: &Json,
    row: Option<&DefinedRow>,
    wish: &DecisionRequest,
) -> Result<DecisionOutcome> {
    if wish.modified_args.is_some() {
        return Err(Error::invalid("modified_args", "a promotion has values; use `modified_output`"));
    }
    let target = target_of(approval)?;
    let fields = target.changed_since(staged, row)?;
    if !fields.is_empty() {
        return Err(Conflict::StaleFields { fields }.into());
    }
    let mut body = ApprovalBody { reason: wish.reason.clone(), ..approval.body.clone() };
    let mut values = staged.clone();
    let mut changed = None;
    if let Some(edited) = &wish.modified_output {
        check_edit("modified_output", staged, edited)?;
        check_choices(edited, &target.criteria)?;
        values = merged(staged, edited);
        changed = Some(changed_values(staged, &values));
        if !target.criteria.is_empty() {
            let verdict = evaluate_safety_gate(&target.judged(&values), &target.criteria);
            if let Some(GateBlock { dimension, option }) = verdict.blocked {
                return Err(Error::HardBlocked { dimension, option });
            }
            body.score = verdict.score;
            body.flags = verdict.flags;
        }
        body.digest = digest(approval.kind, &session.id, &values);
        body.edited = Some(values.clone());
    }
    let written = match row {
        Some(DefinedRow::Entity(entity)) if target.document.is_none() => {
            let mut changed = entity.clone();
            changed.value.take(&values.fields());
            put_doc(&changed, Some(entity.version))?
        }
        Some(row) => row.write(&values.fields())?,
        None => put_doc(&made(target, &values), None)?,
    };
    let name = by(actor);
    let event =
        approved_event("user.output_approval", approval, &name, wish.reason.as_deref(), changed.as_ref())?;
    // The row is changed without a change of its values: its version keeps the session from being deleted meanwhile.
    let step = SessionStep { update: Update::default(), events: vec![event], records: vec![written] };
    let record = close(approval, ApprovalState::Approved, &name, body);
    Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: None })))
}

fn made(target: &PromotionTarget, values: &Json) -> StoredDefinition<Entity> {
    StoredDefinition {
        id: target.entity_id.as_str().into(),
        value: Entity::of_fields(&target.entity_type, &values.fields()),
        version: 0,
        created_by: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}

/// Refuses to write the fields. The response stays submitted, and may be promoted again.
pub(super) fn deny(refusal: &DenialTerms, approval: &Approval) -> Result<DecisionOutcome> {
    let event = denied_event("user.output_approval", approval, refusal)?;
    let step = SessionStep { update: Update::default(), events: vec![event], records: Vec::new() };
    let body = ApprovalBody { reason: refusal.reason.clone(), ..approval.body.clone() };
    let record = close(approval, ApprovalState::Denied, &refusal.by, body);
    Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: None })))
}

/// Expires a promotion that nobody decided in time. `None`: it is not due.
pub fn expire(approval: &Approval, now: Timestamp) -> Result<Option<DecisionEffects>> {
    let is_due = approval.kind == ApprovalKind::Promotion
        && approval.state == ApprovalState::Pending
        && approval.expires_at.is_some_and(|end| end <= now);
    if !is_due {
        return Ok(None);
    }
    Ok(expired(deny(&DenialTerms::silence(), approval)?))
}

/// Where the staged fields of a promotion go.
pub fn target_of(approval: &Approval) -> Result<&PromotionTarget> {
    let target = approval.body.promotion.as_ref().filter(|_| approval.kind == ApprovalKind::Promotion);
    target.ok_or_else(|| Error::invalid("id", "this approval names no entity to write to"))
}

#[cfg(test)]
mod tests {
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
            crate::strict::read(r#"{"fields":{"q_size":"size","q_town":"town"},"promote":"approval"}"#)
                .unwrap();
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
        let approval = staged(
            r#"{"q_size":"small","q_town":"Bonn","mood":"bad","q_none":null}"#,
            Some(&acme),
            &of_acme(),
        );
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
        assert_eq!(
            staging(r#"{"q_size":"vast"}"#, Some(&acme), &of_acme()),
            PromotionOutcome::Blocked(blocked)
        );
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
                decided(&actor(role, user), &approval, None, &wish, NOW)
                    .map(drop)
                    .map_err(|error| error.code())
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
        assert_eq!(
            body.digest,
            digest(ApprovalKind::Promotion, &response().id, body.edited.as_ref().unwrap())
        );
    }

    #[test]
    fn a_new_entity_is_made_with_the_id_that_was_told() {
        let approval = staged(r#"{"q_size":"small"}"#, None, &new_company());
        let effects =
            decided(&actor(Role::Owner, "boss"), &approval, None, &wish(Decision::Approve, None), NOW)
                .unwrap();
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
            let Record::CloseApproval { state: closed, body: Some(body), .. } = effects.record else {
                panic!()
            };
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
        let of =
            |state| standing(Some(&Approval { state, ..approval.clone() }), None).unwrap().state.as_str();
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
}
