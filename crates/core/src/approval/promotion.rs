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
use crate::view::{ViewQuestion, answer};
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
    /// The questions whose answers are staged, under the names of the fields that they are written to: an edit has to be an
    /// answer to them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<ViewQuestion>,
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

    /// Refuses edited values that could not have been answered.
    fn check_answers(&self, values: &Json) -> Result<()> {
        if self.questions.is_empty() {
            return Ok(());
        }
        answer::check(&self.questions, values).map_err(|error| match error {
            Error::Invalid { field, message } => {
                Error::invalid(field.replacen("values", "modified_output", 1), message)
            }
            other => other,
        })
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
        questions: questions_of(form, &written),
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

/// The questions of the written answers, each under the name of its field.
fn questions_of(form: &ResponseForm, written: &[(String, Json)]) -> Vec<ViewQuestion> {
    let named = form.questions.iter().filter_map(|question| {
        let field = form.response.fields.get(&question.key)?;
        written
            .iter()
            .any(|(name, _)| name == field)
            .then(|| ViewQuestion { key: field.clone(), ..question.clone() })
    });
    named.collect()
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
        questions: Vec::new(),
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
        target.check_answers(&values)?;
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
mod tests;
