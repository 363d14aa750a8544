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
mod tests {
    use super::*;
    use crate::definitions::StoredDefinition;
    use crate::ids::RandomIds;
    use crate::session::SourceKind;
    use crate::view::tests::view;

    const NOW: Timestamp = Timestamp::from_micros(5_000_000);

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn defined(once: bool) -> StoredDefinition<View> {
        let mut value = view(
            r#"[{"key":"a","label":"A","required":true},{"key":"n","label":"N","type":"number"},
                {"key":"s","label":"S","type":"scale","min":1,"max":5}]"#,
        );
        value.response = Some(json(&format!(r#"{{"once":{once}}}"#)).read().unwrap());
        StoredDefinition {
            id: "v".into(),
            value,
            version: 4,
            created_by: None,
            created_at: NOW,
            updated_at: NOW,
        }
    }

    /// A stored response in this status with this draft.
    fn response(status: Status, draft: Option<&str>) -> StoredResponse {
        let who = Respondent::cookie("c".to_owned());
        let respondent = NewRespondent { who: &who, name: "view:c", ordinal: 1 };
        let actor = Actor::local(SourceKind::Web);
        let made = new(&actor, SessionId::stored("r"), &defined(true), respondent, None, &RandomIds).unwrap();
        let mut shown = made.shown(TenantId::stored("t"), NOW);
        shown.session.head.version = 7;
        shown.session.head.status = status;
        shown.session.details.draft_values = draft.map(json);
        if status == Status::Completed {
            shown.session.details.result =
                Some(json(r#"{"values":{"a":"x","n":1},"score":null,"flags":[]}"#));
        }
        shown
    }

    fn code<T: std::fmt::Debug>(outcome: Result<T>) -> String {
        match outcome {
            Ok(_) => "ok".to_owned(),
            Err(Error::Invalid { field, .. }) => field.into_owned(),
            Err(error) => error.code().to_owned(),
        }
    }

    #[test]
    fn a_respondent_opens_what_stands_or_a_new_one() {
        let row = |state, once| {
            let row = ResponseRow { state, once, ..response(Status::Draft, None).row };
            RespondentHistory { last_ordinal: 2, standing: Some(row) }
        };
        use ResponseState::{Open, Submitted};
        let none = RespondentHistory { last_ordinal: 2, standing: None };
        for (history, once, closed, expected) in [
            (none.clone(), true, false, "new 3"),
            (none, true, true, "view_closed"),
            (row(Open, true), true, false, "standing"),
            (row(Open, true), true, true, "view_closed"),
            (row(Submitted, true), true, false, "already_answered"),
            (row(Submitted, true), true, true, "already_answered"),
            (row(Submitted, false), false, false, "new 3"),
            // The view asks for one now, or asked for one then.
            (row(Submitted, false), true, false, "already_answered"),
            (row(Submitted, true), false, false, "already_answered"),
        ] {
            let mut view = defined(once).value;
            view.publish_config.expires_at = closed.then_some(NOW);
            let outcome = match open(&view, &history, NOW) {
                Ok(OpenOutcome::Standing(_)) => "standing".to_owned(),
                Ok(OpenOutcome::New { ordinal }) => format!("new {ordinal}"),
                Err(error) => error.code().to_owned(),
            };
            assert_eq!(outcome, expected, "{history:?} {once} {closed}");
        }
        let plain = View { response: None, ..defined(true).value };
        assert_eq!(code(open(&plain, &RespondentHistory::default(), NOW)), "type_mismatch");
    }

    #[test]
    fn a_new_response_freezes_the_form_and_keeps_nothing_of_a_stranger() {
        let stranger = response(Status::Draft, None);
        assert_eq!(stranger.row.form.questions, defined(true).value.questions);
        assert_eq!(stranger.row.form.view_version, 4);
        assert!(stranger.row.is_anonymous && stranger.session.details.is_anonymous);
        assert_eq!(stranger.session.head.holder, None);
        let actor = Actor { user: Some(crate::UserId::stored("ada")), ..Actor::local(SourceKind::Api) };
        let who = Respondent::of(&actor);
        let respondent = NewRespondent { who: &who, name: "view:ada", ordinal: 1 };
        let made =
            new(&actor, SessionId::stored("r"), &defined(true), respondent, Some("e"), &RandomIds).unwrap();
        assert_eq!((made.session.head.holder, made.row.is_anonymous), (actor.user, false));
        assert_eq!(made.session.details.entity_id.as_deref(), Some("e"));
        assert_eq!(made.row.form.entity_id.as_deref(), Some("e"));
    }

    #[test]
    fn an_entity_fits_the_type_and_is_there_where_no_other_could_be_made() {
        let config = |text: &str| json(text).read::<ResponseConfig>().unwrap();
        let company = StoredDefinition {
            id: "e".into(),
            value: Entity { type_slug: "company".into(), title: None, fields: Json::empty_object() },
            version: 1,
            created_by: None,
            created_at: NOW,
            updated_at: NOW,
        };
        let typed = config(r#"{"entity_type":"company","promote":"approval"}"#);
        let other = config(r#"{"entity_type":"person"}"#);
        let named = config(r#"{"promote":"approval"}"#);
        for (config, entity, expected) in [
            (&typed, Some(&company), "ok"),
            (&typed, None, "ok"),
            (&other, Some(&company), "entity_id"),
            (&other, None, "ok"),
            (&named, Some(&company), "ok"),
            (&named, None, "entity_id"),
            (&config("{}"), None, "ok"),
        ] {
            assert_eq!(code(check_entity(config, entity)), expected, "{config:?}");
        }
    }

    #[test]
    fn a_save_merges_key_by_key_and_logs_only_what_changed() {
        for (status, draft, values, whole, changed) in [
            (Status::Draft, None, r#"{"a":"x"}"#, r#"{"a":"x"}"#, r#"{"a":"x"}"#),
            (Status::Running, Some(r#"{"a":"x"}"#), r#"{"n":1}"#, r#"{"a":"x","n":1}"#, r#"{"n":1}"#),
            (
                Status::Running,
                Some(r#"{"a":"x","n":1}"#),
                r#"{"a":"x","n":2}"#,
                r#"{"a":"x","n":2}"#,
                r#"{"n":2}"#,
            ),
            (Status::Running, Some(r#"{"a":"x","n":1}"#), r#"{"n":null}"#, r#"{"a":"x"}"#, r#"{"n":null}"#),
            // What is required may be empty in a draft.
            (Status::Draft, None, r#"{"a":""}"#, r#"{"a":""}"#, r#"{"a":""}"#),
        ] {
            let SaveOutcome::Saved(step) = save(&response(status, draft), &json(values), Some(7)).unwrap()
            else {
                panic!("{values} changes nothing")
            };
            assert_eq!(step.update.draft_values, Some(Some(json(whole))), "{values}");
            let saved = step.events.last().unwrap();
            assert_eq!(saved.kind.as_str(), DRAFT);
            let logged = saved.metadata.as_ref().unwrap();
            assert_eq!(logged.as_str(), format!(r#"{{"values":{changed}}}"#));
            let starts = status == Status::Draft;
            assert_eq!(step.update.status, starts.then_some(Status::Running), "{values}");
            assert_eq!(step.events.len(), 1 + usize::from(starts), "{values}");
            assert!(matches!(&step.records[..], [Record::SetResponse { state: ResponseState::Open, .. }]));
        }
    }

    #[test]
    fn a_save_that_changes_nothing_writes_nothing() {
        for (draft, values) in [
            (None, "{}"),
            (None, r#"{"a":null}"#),
            (Some(r#"{"a":"x","n":1}"#), r#"{"n":1}"#),
            (Some(r#"{"n":1}"#), r#"{"n":1.0}"#),
        ] {
            let outcome = save(&response(Status::Running, draft), &json(values), None).unwrap();
            // A number that is written otherwise is another value for those who compare texts, so it may be saved.
            let is_unchanged = matches!(outcome, SaveOutcome::Unchanged);
            assert!(is_unchanged || values.contains("1.0"), "{values}");
        }
    }

    #[test]
    fn a_save_is_refused_with_its_reason() {
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(limits::ANSWER_TEXT_CHARS + 1));
        for (status, values, version, expected) in [
            (Status::Running, r#"{"x":1}"#, None, "values.x"),
            (Status::Running, r#"{"__proto__":1}"#, None, "values.__proto__"),
            (Status::Running, r#"{"n":"1"}"#, None, "values.n"),
            (Status::Running, r#"{"s":6}"#, None, "values.s"),
            (Status::Running, &long, None, "values.a"),
            (Status::Running, "[]", None, "values"),
            (Status::Running, r#"{"a":"y"}"#, Some(6), "stale_base"),
            (Status::Running, r#"{"a":"y"}"#, Some(7), "ok"),
            (Status::Completed, r#"{"a":"y"}"#, None, "session_closed"),
            (Status::Abandoned, r#"{"a":"y"}"#, None, "session_closed"),
            (Status::Pending, r#"{"a":"y"}"#, None, "session_closed"),
        ] {
            let outcome = save(&response(status, Some(r#"{"a":"x"}"#)), &json(values), version);
            assert_eq!(code(outcome), expected, "{status} {values}");
        }
        let stale = save(&response(Status::Running, None), &json("{}"), Some(1)).unwrap_err();
        assert!(matches!(stale, Error::Conflict(Conflict::StaleVersion { version: 7 })), "{stale:?}");
        let mut wide = response(Status::Running, None);
        for question in &mut wide.row.form.questions {
            question.kind = crate::view::QuestionType::Text;
            question.max = Some(1e6);
            question.min = None;
        }
        let half = "x".repeat(limits::ANSWER_BYTES_MAX / 2);
        wide.session.details.draft_values = Some(json(&format!(r#"{{"n":"{half}"}}"#)));
        let other_half = json(&format!(r#"{{"a":"{half}"}}"#));
        assert_eq!(code(save(&wide, &other_half, None)), "too_large", "together they are too large");
    }

    #[test]
    fn a_submit_checks_the_values_over_the_draft_whole() {
        for (draft, values, expected) in [
            (None, None, "values.a"),
            (None, Some(r#"{"n":1}"#), "values.a"),
            (Some(r#"{"a":"x"}"#), None, r#"{"a":"x"}"#),
            (Some(r#"{"a":"x"}"#), Some(r#"{"a":"y","n":1}"#), r#"{"a":"y","n":1}"#),
            (Some(r#"{"a":"x"}"#), Some(r#"{"a":null}"#), "values.a"),
            (Some(r#"{"a":"x","n":2}"#), Some(r#"{"n":null}"#), r#"{"a":"x"}"#),
            (Some(r#"{"a":"x"}"#), Some(r#"{"q":null}"#), "values.q"),
        ] {
            let values = values.map(json);
            let outcome = match submit(&response(Status::Running, draft), values.as_ref()) {
                Ok(SubmitCheck::Complete(whole)) => whole.as_str().to_owned(),
                other => code(other),
            };
            assert_eq!(outcome, expected, "{draft:?} {values:?}");
        }
    }

    #[test]
    fn a_submit_is_repeated_or_refused_once_it_is_done() {
        for (status, values, expected) in [
            (Status::Completed, None, "repeated"),
            (Status::Completed, Some(r#"{"a":"x"}"#), "repeated"),
            (Status::Completed, Some(r#"{"n":1,"a":"x"}"#), "repeated"),
            (Status::Completed, Some(r#"{"a":"y"}"#), "already_answered"),
            (Status::Completed, Some(r#"{"n":null}"#), "already_answered"),
            (Status::Abandoned, Some(r#"{"a":"x"}"#), "session_closed"),
            (Status::Expired, None, "session_closed"),
        ] {
            let values = values.map(json);
            let outcome = match submit(&response(status, None), values.as_ref()) {
                Ok(SubmitCheck::Repeated) => "repeated".to_owned(),
                other => code(other),
            };
            assert_eq!(outcome, expected, "{status} {values:?}");
        }
    }

    #[test]
    fn the_end_of_a_response_is_one_submit_event_between_its_moves() {
        let verdict = GateVerdict { score: Some(2.5), flags: vec!["late".into()], blocked: None };
        for (status, kinds) in [
            (Status::Draft, &["session.status_change", "user.form_submit", "session.status_change"][..]),
            (Status::Running, &["user.form_submit", "session.status_change"]),
        ] {
            let step =
                finish(&response(status, Some(r#"{"a":"x"}"#)), &json(r#"{"a":"x"}"#), &verdict).unwrap();
            let found: Vec<&str> = step.events.iter().map(|event| event.kind.as_str()).collect();
            assert_eq!(found, kinds);
            assert_eq!(step.update.status, Some(Status::Completed));
            assert_eq!(step.update.draft_values, Some(None));
            assert_eq!((step.update.started, step.update.completed), (status == Status::Draft, true));
            let result = step.update.result.unwrap();
            assert_eq!(result.as_str(), r#"{"values":{"a":"x"},"score":2.5,"flags":["late"]}"#);
        }
    }

    #[test]
    fn only_an_open_response_is_abandoned() {
        for (status, expected) in [
            (Status::Draft, "ok"),
            (Status::Running, "ok"),
            (Status::Completed, "session_closed"),
            (Status::Abandoned, "session_closed"),
        ] {
            assert_eq!(code(abandon(&response(status, None).session, "abandoned")), expected, "{status}");
        }
    }

    #[test]
    fn the_id_of_a_stranger_s_response_follows_from_all_that_it_belongs_to() {
        let tenant = TenantId::stored("t");
        let id =
            |key: u8, view: &str, name: &str, ordinal| derived_id(&[key; 32], &tenant, view, name, ordinal);
        let one = id(1, "v", "n", 1);
        assert_eq!(one, id(1, "v", "n", 1));
        for other in [id(2, "v", "n", 1), id(1, "w", "n", 1), id(1, "v", "m", 1), id(1, "v", "n", 2)] {
            assert_ne!(one, other);
        }
        assert_ne!(one, derived_id(&[1; 32], &TenantId::stored("u"), "v", "n", 1));
    }
}
