//! Opening, saving, submitting and abandoning responses. Pure: the time and new ids are handed in.

use serde_json::Value;

use super::{
    PromotionMode, RespondentHistory, ResponseConfig, ResponseForm, ResponseRow, ResponseState,
    StoredResponse,
};
use crate::access::Actor;
use crate::approval::safety_gate::GateVerdict;
use crate::definitions::{Entity, StoredDefinition};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventType, NewEvent};
use crate::ids::{IdSource, Incarnation, SessionId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::session::decide::{SessionStep, move_to};
use crate::session::status::Authority;
use crate::session::{Details, Head, Session, SessionSource, SessionType, Status};
use crate::store::{NewSession, Record, Update};
use crate::time::Timestamp;
use crate::view::respondent::RespondentKind;
use crate::view::{Respondent, View, answer, mac};

/// The event type of a saved draft.
pub const DRAFT: &str = "user.form_draft";

/// What opening a view for a respondent leads to.
#[derive(Debug, PartialEq)]
pub enum OpenOutcome {
    /// The respondent's open response.
    Standing(Box<ResponseRow>),
    /// A new one, which is the respondent's response of this number.
    New { ordinal: u64 },
}

/// The configuration of a view that takes responses; refuses any other view.
pub fn config(view: &View) -> Result<&ResponseConfig> {
    view.response.as_ref().ok_or_else(|| Conflict::TypeMismatch { field: "response" }.into())
}

/// A view takes responses from its making until it expires.
pub fn check_open(view: &View, now: Timestamp) -> Result<()> {
    match view.publish_config.expires_at {
        Some(end) if end <= now => Err(Conflict::ViewClosed.into()),
        _ => Ok(()),
    }
}

/// Which response a respondent answers a view with.
pub fn open(view: &View, history: &RespondentHistory, now: Timestamp) -> Result<OpenOutcome> {
    let config = config(view)?;
    let standing = history.standing.as_ref();
    if standing.is_some_and(|row| row.state == ResponseState::Submitted && (config.once || row.once)) {
        return Err(Conflict::AlreadyAnswered.into());
    }
    check_open(view, now)?;
    Ok(match standing.filter(|row| row.state == ResponseState::Open) {
        Some(row) => OpenOutcome::Standing(Box::new(row.clone())),
        None => OpenOutcome::New { ordinal: history.last_ordinal + 1 },
    })
}

/// Refuses an entity that the view's responses could not be written to.
pub fn check_entity(config: &ResponseConfig, entity: Option<&StoredDefinition<Entity>>) -> Result<()> {
    match (entity, &config.entity_type) {
        (Some(entity), Some(expected)) if entity.value.type_slug != *expected => {
            Err(Error::invalid("entity_id", format!("must be an entity of type `{expected}`")))
        }
        (None, None) if config.promote == PromotionMode::Approval => {
            Err(Error::invalid("entity_id", "is required: this view writes to an entity that exists"))
        }
        _ => Ok(()),
    }
}

/// A response to be made.
#[derive(Clone, Debug)]
pub struct NewResponse {
    pub session: NewSession,
    pub row: ResponseRow,
}

/// Who answers, as a new response keeps it.
#[derive(Clone, Copy, Debug)]
pub struct NewRespondent<'a> {
    pub who: &'a Respondent,
    /// The respondent's name for the view.
    pub name: &'a str,
    pub ordinal: u64,
}

/// The new response to a view, with its questions as they are now. It keeps nothing of a stranger but the respondent:
/// no user, no address, no browser.
pub fn new(
    actor: &Actor,
    id: SessionId,
    view: &StoredDefinition<View>,
    respondent: NewRespondent<'_>,
    entity_id: Option<&str>,
    ids: &dyn IdSource,
) -> Result<NewResponse> {
    let NewRespondent { who, name, ordinal } = respondent;
    let config = config(&view.value)?;
    let is_anonymous = is_anonymous(who);
    let holder = actor.user.clone().filter(|_| !is_anonymous);
    let source = SessionSource::direct(actor.surface, true);
    let session = NewSession {
        id: id.clone(),
        head: Head::blank(Incarnation::drawn(ids), SessionType::Response, Status::Draft, holder),
        details: Details {
            title: Some(view.value.title.as_str().into()),
            entity_id: entity_id.map(Into::into),
            is_anonymous,
            ..Details::blank(source)
        },
        participants: Vec::new(),
        fork_of: None,
    };
    let form = ResponseForm {
        title: view.value.title.clone(),
        questions: view.value.questions.clone(),
        response: config.clone(),
        gate: view.value.publish_config.gate,
        view_version: view.version,
        entity_id: entity_id.map(str::to_owned),
    };
    let row = ResponseRow {
        session: id,
        view_id: view.id.clone(),
        respondent: who.clone(),
        respondent_name: name.to_owned(),
        ordinal,
        is_anonymous,
        once: config.once,
        state: ResponseState::Open,
        saved_at: Timestamp::default(),
        form,
    };
    Ok(NewResponse { session, row })
}

/// Whether a respondent is no member: known by a link and a cookie alone.
pub const fn is_anonymous(who: &Respondent) -> bool {
    matches!(who.kind, RespondentKind::Cookie | RespondentKind::Lead)
}

impl NewResponse {
    /// The response as it is shown before it is stored. Its version is 0.
    pub fn shown(self, tenant: TenantId, now: Timestamp) -> StoredResponse {
        let Self { session, row } = self;
        let head = Head { version: 0, last_at: now, ..session.head.clone() };
        let row = ResponseRow { saved_at: now, ..row };
        StoredResponse { row, session: session.made(tenant, head, now), promotion: None }
    }
}

/// The id of the response that a stranger will have once there is something to store. Only the installation can
/// derive it, so only a respondent who was told it knows it.
pub fn derived_id(
    key: &[u8; 32],
    tenant: &TenantId,
    view_id: &str,
    respondent_name: &str,
    ordinal: u64,
) -> SessionId {
    let ordinal = ordinal.to_string();
    let sum = mac(key, "response", &[tenant.as_str(), view_id, respondent_name, &ordinal]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sum[..16]);
    SessionId::stored(uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string())
}

/// What a save does.
#[derive(Debug)]
pub enum SaveOutcome {
    /// Every value is there already.
    Unchanged,
    Saved(Box<SessionStep>),
}

/// Saves values into an open response, key by key; `null` clears one.
pub fn save(response: &StoredResponse, values: &Json, version: Option<u64>) -> Result<SaveOutcome> {
    let StoredResponse { row, session, .. } = response;
    check_unfinished(session)?;
    if version.is_some_and(|seen| seen != session.head.version) {
        return Err(Conflict::StaleVersion { version: session.head.version }.into());
    }
    answer::check_draft(&row.form.questions, values)?;
    let draft = session.details.draft_values.as_ref();
    let (whole, changed) = merged(draft, Some(values));
    if changed.is_empty() {
        return Ok(SaveOutcome::Unchanged);
    }
    check_size(&whole)?;
    let mut step = match session.head.status {
        Status::Draft => move_to(session, Status::Running, Authority::Engine, None)?,
        _ => SessionStep::of(Update::default()),
    };
    let changed = Json::object(changed.iter().map(|(key, value)| (key.as_str(), value)));
    let metadata = Json::object([("values", &changed)]);
    let mut event = NewEvent::engine(EventType::known(DRAFT), Some(metadata));
    event.author = Some(row.respondent.author().into());
    step.events.push(event);
    step.update.draft_values = Some(Some(whole));
    step.records.push(Record::SetResponse { session: session.id.clone(), state: ResponseState::Open });
    Ok(SaveOutcome::Saved(Box::new(step)))
}

/// What a submit comes to.
#[derive(Debug)]
pub enum SubmitCheck {
    /// The same values were submitted before.
    Repeated,
    /// These values are complete. [`finish`] submits them, once they are judged.
    Complete(Json),
}

/// Checks what a respondent submits: these values over the draft.
pub fn submit(response: &StoredResponse, values: Option<&Json>) -> Result<SubmitCheck> {
    let StoredResponse { row, session, .. } = response;
    if session.head.status == Status::Completed {
        let submitted = submitted_values(session);
        return match merged(submitted.as_ref(), values).1.is_empty() {
            true => Ok(SubmitCheck::Repeated),
            false => Err(Conflict::AlreadyAnswered.into()),
        };
    }
    check_unfinished(session)?;
    if let Some(values) = values {
        // Before they are merged, so that a misfit is named even if it clears something.
        answer::check_draft(&row.form.questions, values)?;
    }
    let (whole, _) = merged(session.details.draft_values.as_ref(), values);
    answer::check(&row.form.questions, &whole)?;
    Ok(SubmitCheck::Complete(whole))
}

/// Ends a response with its complete values and what the criteria say of them.
pub fn finish(response: &StoredResponse, values: &Json, verdict: &GateVerdict) -> Result<SessionStep> {
    let StoredResponse { row, session, .. } = response;
    let mut events = Vec::new();
    let mut running = session.clone();
    if session.head.status == Status::Draft {
        events = move_to(session, Status::Running, Authority::Engine, None)?.events;
        running.head.status = Status::Running;
    }
    let mut step = move_to(&running, Status::Completed, Authority::Submit, None)?;
    events.push(answer::event(&row.view_id, &row.respondent, &row.respondent_name, values)?);
    events.append(&mut step.events);
    step.events = events;
    step.update.started = session.head.status == Status::Draft;
    step.update.draft_values = Some(None);
    step.update.result = Some(result(values, verdict)?);
    Ok(step)
}

/// Gives up an open response.
pub fn abandon(session: &Session, reason: &str) -> Result<SessionStep> {
    check_unfinished(session)?;
    let mut step = move_to(session, Status::Abandoned, Authority::OwnerOrHolder, Some(reason))?;
    step.update.end_reason = Some(reason.into());
    Ok(step)
}

/// What a submitted session keeps: the values, and what the criteria say of them.
fn result(values: &Json, verdict: &GateVerdict) -> Result<Json> {
    let (score, flags) = (Json::of(&verdict.score)?, Json::of(&verdict.flags)?);
    let blocked = verdict.blocked.as_ref();
    let blocked = blocked
        .map(|block| Json::of(&serde_json::json!({"dimension": block.dimension, "option": block.option})))
        .transpose()?;
    let fields = [("values", values), ("score", &score), ("flags", &flags)];
    Ok(Json::object(fields.into_iter().chain(blocked.iter().map(|blocked| ("blocked", blocked)))))
}

/// The values of a submitted response.
pub fn submitted_values(session: &Session) -> Option<Json> {
    let fields = session.details.result.as_ref()?.fields();
    fields.into_iter().find(|(key, _)| key == "values").map(|(_, values)| values)
}

fn check_unfinished(session: &Session) -> Result<()> {
    match session.head.status {
        Status::Draft | Status::Running => Ok(()),
        _ => Err(Conflict::SessionClosed.into()),
    }
}

fn check_size(values: &Json) -> Result<()> {
    if values.len() > limits::ANSWER_BYTES_MAX {
        return Err(Error::TooLarge { what: "values", limit: limits::ANSWER_BYTES_MAX });
    }
    Ok(())
}

/// Values over others, and the keys that change with their new values; a cleared one is `null`.
pub(crate) fn merged(before: Option<&Json>, over: Option<&Json>) -> (Json, Vec<(String, Json)>) {
    let mut whole = before.map(Json::fields).unwrap_or_default();
    let mut changed = Vec::new();
    for (key, value) in over.map(Json::fields).unwrap_or_default() {
        let at = whole.iter().position(|(kept, _)| *kept == key);
        match (at, value.value()) {
            (None, Value::Null) => continue,
            (Some(at), Value::Null) => drop(whole.remove(at)),
            (Some(at), given) if whole[at].1.value() == given => continue,
            (Some(at), _) => whole[at].1 = value.clone(),
            (None, _) => whole.push((key.clone(), value.clone())),
        }
        changed.push((key, value));
    }
    (Json::object(whole.iter().map(|(key, value)| (key.as_str(), value))), changed)
}

#[cfg(test)]
mod tests;
