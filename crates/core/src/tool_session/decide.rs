//! Starting, filling, invoking and cancelling tool sessions, and the events of an invocation. Pure: new ids are handed in.

use serde_json::json;

use super::{Invocation, Invoker, TOOL_SLUG, ToolRun, invocation_id, values};
use crate::access::{Actor, Role};
use crate::definitions::ToolDefinition;
use crate::definitions::task::OnChildFailure;
use crate::definitions::tool::ToolAction;
use crate::error::{Conflict, Error, Result};
use crate::event::{EventType, NewEvent};
use crate::ids::{IdSource, Incarnation, SessionId, UserId};
use crate::json::Json;
use crate::limits;
use crate::response::decide::merged;
use crate::session::decide::{SessionStep, created_event, move_to, status_change};
use crate::session::status::Authority;
use crate::session::{Details, Head, Session, SessionSource, SessionType, Status};
use crate::store::{NewSession, Update};
use crate::work::run::{Run, StepOf};
use crate::work::trigger::SessionStart;

/// Refuses callers that run no tools.
pub fn check_runs_tools(actor: &Actor) -> Result<()> {
    match (actor.role, &actor.user) {
        (Role::Owner, _) | (Role::Member, Some(_)) => Ok(()),
        (Role::Member, None) => Err(Error::denied("this credential names no user")),
        _ => Err(Error::denied("only members and owners run tools")),
    }
}

/// Whether a tool session is the caller's own.
pub fn is_own(actor: &Actor, session: &Session) -> bool {
    session.head.holder == actor.user
}

/// Refuses to show a tool session to a caller who may not see it: a member sees its own.
pub fn check_shown(actor: &Actor, session: &Session) -> Result<()> {
    if session.head.session_type != SessionType::Tool
        || !(actor.role == Role::Owner || is_own(actor, session))
    {
        return Err(Error::NotFound);
    }
    Ok(())
}

/// The tool of a session. A session of this type that no tool was started with has none of these verbs.
pub fn tool_of(session: &Session) -> Result<ToolRun> {
    match Run::of(session).tool {
        Some(tool) => Ok(*tool),
        None => Err(Conflict::TypeMismatch { field: "tool" }.into()),
    }
}

/// A tool session to be made.
#[derive(Clone, Debug)]
pub struct NewToolSession {
    pub id: SessionId,
    pub holder: Option<UserId>,
    pub source: SessionSource,
    pub tool: ToolRun,
    pub values: Option<Json>,
    pub retry_of: Option<SessionId>,
    /// The session that started it, and the root of that session's family.
    pub parent: Option<(SessionId, SessionId)>,
    pub step: Option<StepOf>,
}

impl NewToolSession {
    /// Makes it: a draft, or running once it has a value.
    pub fn made(self, ids: &dyn IdSource) -> Result<SessionStart> {
        let definition = &self.tool.definition;
        let slug = definition.slug.clone();
        let head = Head::blank(Incarnation::drawn(ids), SessionType::Tool, Status::Draft, self.holder);
        let run = Run {
            output: definition.output.clone(),
            on_child_failure: is_composed(definition).then_some(OnChildFailure::FailParent),
            step: self.step,
            ..Run::default()
        };
        let mut new = NewSession {
            id: self.id,
            head,
            details: Details {
                title: Some(definition.name.as_str().into()),
                metadata: Json::of(&json!({ TOOL_SLUG: slug }))?,
                retry_of: self.retry_of,
                parent_id: self.parent.as_ref().map(|(parent, _)| parent.clone()),
                root_id: self.parent.map(|(_, root)| root),
                run: Some(Run { tool: Some(Box::new(self.tool)), ..run }.to_json()?),
                ..Details::blank(self.source)
            },
            participants: Vec::new(),
            fork_of: None,
        };
        let mut events = vec![
            created_event(&new)?,
            NewEvent::engine(
                EventType::known("tool.session_started"),
                Some(Json::of(&json!({"tool_slug": slug}))?),
            ),
        ];
        let (whole, changed) = merged(None, self.values.as_ref());
        if !changed.is_empty() {
            new.head.status = Status::Running;
            events.push(status_change(Status::Draft, Status::Running, None)?);
            events.extend(fields_changed(&changed, new.head.holder.as_ref())?);
            new.details.draft_values = Some(whole);
        }
        Ok(SessionStart { new, events })
    }
}

/// Whether the engine itself carries out an invocation, by starting other sessions: no worker claims it.
pub const fn is_composed(tool: &ToolDefinition) -> bool {
    match tool.run {
        ToolAction::Http(_) | ToolAction::Mcp(_) => false,
        ToolAction::Task(_) | ToolAction::Steps(_) => true,
    }
}

/// One event for every changed value.
fn fields_changed(changed: &[(String, Json)], author: Option<&UserId>) -> Result<Vec<NewEvent>> {
    let event = |(field, value): &(String, Json)| -> Result<NewEvent> {
        let name = Json::of(field)?;
        let metadata = Json::object([("field", &name), ("value", value)]);
        let mut event = NewEvent::engine(EventType::known("tool.field_changed"), Some(metadata));
        event.author = author.map(|author| author.as_str().into());
        Ok(event)
    };
    changed.iter().map(event).collect()
}

/// Refuses a session that was invoked, or has ended.
fn check_fillable(session: &Session) -> Result<()> {
    if session.head.status.is_terminal() {
        return Err(Conflict::SessionClosed.into());
    }
    match Invocation::of(session) {
        Some(_) => Err(Conflict::SessionRunning.into()),
        None => Ok(()),
    }
}

/// Saves values, key by key; `null` clears one. `None`: every value is there already.
pub fn fill(session: &Session, given: &Json, version: Option<u64>) -> Result<Option<SessionStep>> {
    let tool = tool_of(session)?;
    check_fillable(session)?;
    if version.is_some_and(|seen| seen != session.head.version) {
        return Err(Conflict::StaleVersion { version: session.head.version }.into());
    }
    values::check_draft(&tool.definition, given)?;
    let (whole, changed) = merged(session.details.draft_values.as_ref(), Some(given));
    if changed.is_empty() {
        return Ok(None);
    }
    values::check_draft(&tool.definition, &whole)?;
    let mut step = match session.head.status {
        Status::Draft => move_to(session, Status::Running, Authority::Engine, None)?,
        _ => SessionStep::of(Update::default()),
    };
    step.events.extend(fields_changed(&changed, session.head.holder.as_ref())?);
    step.update.draft_values = Some(Some(whole));
    Ok(Some(step))
}

/// An invocation to be carried out.
#[derive(Debug)]
pub struct InvokeStep {
    pub step: SessionStep,
    pub tool: ToolRun,
    /// The values that it is invoked with.
    pub values: Json,
}

/// Invokes a tool with these values over those that were filled in. What a worker does is queued; what the engine does
/// itself is started.
pub fn invoke(session: &Session, given: Option<&Json>, by: Invoker) -> Result<InvokeStep> {
    let mut run = Run::of(session);
    let mut tool = tool_of(session)?;
    check_fillable(session)?;
    if let Some(given) = given {
        values::check_draft(&tool.definition, given)?;
    }
    let (whole, changed) = merged(session.details.draft_values.as_ref(), given);
    values::check_whole(&tool.definition, &whole)?;
    let author = session.head.holder.as_ref();
    let mut step = if is_composed(&tool.definition) {
        let mut step = match session.head.status {
            Status::Draft => move_to(session, Status::Running, Authority::Engine, Some("invoked"))?,
            _ => SessionStep::of(Update::default()),
        };
        step.events.push(started(&session.head)?);
        // From now on its steps have deadlines, and silence is no sign.
        step.update.deadline = Some(None);
        step
    } else {
        move_to(session, Status::Pending, Authority::Submit, Some("invoked"))?
    };
    step.events.splice(0..0, fields_changed(&changed, author)?);
    tool.invoked_by = Some(by);
    run.tool = Some(Box::new(tool.clone()));
    step.update.run = Some(run.to_json()?);
    step.update.draft_values = Some(Some(whole.clone()));
    Ok(InvokeStep { step, tool, values: whole })
}

/// Cancels a tool session, at once: a worker that holds it finds its claim gone.
pub fn cancel(session: &Session, reason: &str) -> Result<SessionStep> {
    tool_of(session)?;
    let by = match session.head.status {
        status if status.is_terminal() => return Err(Conflict::SessionClosed.into()),
        Status::Pending => Authority::Submit,
        _ => Authority::OwnerOrHolder,
    };
    let mut step = move_to(session, Status::Abandoned, by, Some(reason))?;
    step.update.end_reason = Some(reason.into());
    Ok(step)
}

/// The event that starts an invocation.
pub fn started(head: &Head) -> Result<NewEvent> {
    let metadata = Json::of(&json!({"invocation_id": invocation_id(head)}))?;
    Ok(NewEvent::engine(EventType::known("tool.invocation_started"), Some(metadata)))
}

/// Adds the event that ends the invocation to a step that ends its session, whatever ends it. An invocation that never
/// started has no end.
pub fn close(session: &Session, step: &mut SessionStep) -> Result<()> {
    let head = &session.head;
    let Some(to) = step.update.status.filter(|to| to.is_terminal()) else { return Ok(()) };
    if head.session_type != SessionType::Tool {
        return Ok(());
    }
    let Some(tool) = Run::of(session).tool else { return Ok(()) };
    let was_started = head.epoch > 0 || (is_composed(&tool.definition) && head.status == Status::Running);
    if tool.invoked_by.is_none() || !was_started {
        return Ok(());
    }
    let id = Json::of(&invocation_id(head))?;
    let mut fields = vec![("invocation_id", id)];
    let kind = if to == Status::Completed {
        let result = step.update.result.clone();
        fields.extend(
            result.filter(|it| it.len() <= limits::TOOL_RESULT_LOGGED_BYTES_MAX).map(|it| ("result", it)),
        );
        "tool.invocation_completed"
    } else {
        let code = step.update.end_reason.as_deref().unwrap_or(to.as_str());
        let message = step.update.error_message.as_deref().or(session.details.error_message.as_deref());
        fields.push(("error", Json::of(&json!({"code": code, "message": message}))?));
        "tool.invocation_failed"
    };
    let metadata = Json::object(fields.iter().map(|(key, value)| (*key, value)));
    let event = NewEvent::engine(EventType::known(kind), Some(metadata));
    let moved = step.events.iter().position(|event| event.kind.as_str() == "session.status_change");
    step.events.insert(moved.unwrap_or(step.events.len()), event);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RandomIds, TenantId};
    use crate::session::SourceKind;
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(5_000_000);

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    const HTTP: &str = r#"{"type":"http","url":"https://example.org/"}"#;
    const TASK: &str = r#"{"type":"task","task":"t"}"#;

    /// A tool session in this status, invoked or not.
    fn session(run: &str, status: Status, invoked: bool, draft: &str) -> Session {
        let text = format!(
            r#"{{"slug":"t","name":"T","run":{run},"input_schema":{{"type":"object","required":["a"],
                "properties":{{"a":{{"type":"string"}},"n":{{"type":"integer"}}}}}}}}"#
        );
        let by = Invoker { user: Some("ada".to_owned()), is_owner: false };
        let new = NewToolSession {
            id: SessionId::stored("s"),
            holder: Some(UserId::stored("ada")),
            source: SessionSource::direct(SourceKind::Api, true),
            tool: ToolRun {
                definition: json(&text).read().unwrap(),
                invoked_by: invoked.then_some(by),
                step_input: None,
            },
            values: Some(json(draft)),
            retry_of: None,
            parent: None,
            step: None,
        };
        let start = new.made(&RandomIds).unwrap();
        let head = Head { status, version: 7, ..start.new.head.clone() };
        start.new.made(TenantId::stored("t"), head, NOW)
    }

    fn kinds(step: &SessionStep) -> Vec<&str> {
        step.events.iter().map(|event| event.kind.as_str()).collect()
    }

    fn code<T: std::fmt::Debug>(outcome: Result<T>) -> String {
        match outcome {
            Ok(_) => "ok".to_owned(),
            Err(Error::Invalid { field, .. }) => field.into_owned(),
            Err(Error::ValuesInvalid { field, .. }) => field,
            Err(error) => error.code().to_owned(),
        }
    }

    fn by() -> Invoker {
        Invoker { user: None, is_owner: true }
    }

    #[test]
    fn what_each_status_allows() {
        use Status::{Abandoned, AwaitingTool, Completed, Draft, Failed, Pending, Running};
        for (status, invoked, filled, invoke_again, cancelled) in [
            (Draft, false, "ok", "ok", "ok"),
            (Running, false, "ok", "ok", "ok"),
            (Pending, true, "session_running", "session_running", "ok"),
            (Running, true, "session_running", "session_running", "ok"),
            (AwaitingTool, true, "session_running", "session_running", "ok"),
            (Completed, true, "session_closed", "session_closed", "session_closed"),
            (Failed, true, "session_closed", "session_closed", "session_closed"),
            (Abandoned, false, "session_closed", "session_closed", "session_closed"),
        ] {
            let session = session(HTTP, status, invoked, r#"{"a":"x"}"#);
            assert_eq!(code(fill(&session, &json(r#"{"n":1}"#), None)), filled, "fill {status} {invoked}");
            assert_eq!(code(invoke(&session, None, by())), invoke_again, "invoke {status} {invoked}");
            assert_eq!(code(cancel(&session, "cancelled")), cancelled, "cancel {status} {invoked}");
        }
    }

    #[test]
    fn filling_writes_one_event_for_each_changed_field() {
        let draft = session(HTTP, Status::Draft, false, "{}");
        let step = fill(&draft, &json(r#"{"a":"x","n":1}"#), Some(7)).unwrap().unwrap();
        assert_eq!(kinds(&step), ["session.status_change", "tool.field_changed", "tool.field_changed"]);
        assert_eq!(step.update.status, Some(Status::Running));
        let filled = session(HTTP, Status::Running, false, r#"{"a":"x","n":1}"#);
        assert!(fill(&filled, &json(r#"{"a":"x"}"#), None).unwrap().is_none());
        let step = fill(&filled, &json(r#"{"n":null}"#), None).unwrap().unwrap();
        assert_eq!((kinds(&step), step.update.status), (vec!["tool.field_changed"], None));
        assert_eq!(step.update.draft_values, Some(Some(json(r#"{"a":"x"}"#))));
        assert_eq!(code(fill(&filled, &json(r#"{"n":2}"#), Some(6))), "stale_base");
        assert_eq!(code(fill(&filled, &json(r#"{"n":"2"}"#), None)), "values.n");
    }

    #[test]
    fn an_invocation_is_queued_for_a_worker_or_started_by_the_engine() {
        let step =
            invoke(&session(HTTP, Status::Draft, false, "{}"), Some(&json(r#"{"a":"x"}"#)), by()).unwrap();
        assert_eq!(kinds(&step.step), ["tool.field_changed", "session.status_change"]);
        assert_eq!((step.step.update.status, step.values), (Some(Status::Pending), json(r#"{"a":"x"}"#)));
        let composed = session(TASK, Status::Running, false, r#"{"a":"x"}"#);
        let step = invoke(&composed, None, by()).unwrap().step;
        assert_eq!((kinds(&step), step.update.status), (vec!["tool.invocation_started"], None));
        assert_eq!(code(invoke(&session(HTTP, Status::Draft, false, "{}"), None, by())), "values.a");
    }

    #[test]
    fn an_invocation_that_started_ends_once_and_any_other_not_at_all() {
        let ended = |session: &Session, to: Status| {
            let mut step = SessionStep::of(Update { status: Some(to), ..Update::default() });
            step.events.push(status_change(session.head.status, to, None).unwrap());
            close(session, &mut step).unwrap();
            kinds(&step).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let mut claimed = session(HTTP, Status::Running, true, r#"{"a":"x"}"#);
        claimed.head.epoch = 2;
        let moved = "session.status_change";
        assert_eq!(ended(&claimed, Status::Completed), ["tool.invocation_completed", moved]);
        for to in [Status::Failed, Status::Expired, Status::Abandoned] {
            assert_eq!(ended(&claimed, to), ["tool.invocation_failed", moved], "{to}");
        }
        assert_eq!(ended(&claimed, Status::Pending), [moved], "it is tried again");
        assert_eq!(ended(&session(HTTP, Status::Pending, true, "{}"), Status::Abandoned), [moved]);
        assert_eq!(ended(&session(HTTP, Status::Running, false, "{}"), Status::Abandoned), [moved]);
        let composed = session(TASK, Status::Running, true, "{}");
        assert_eq!(ended(&composed, Status::Completed), ["tool.invocation_completed", moved]);
        assert_eq!(ended(&session(TASK, Status::Draft, true, "{}"), Status::Abandoned), [moved]);
    }

    #[test]
    fn a_long_result_is_not_repeated_in_the_log() {
        let mut claimed = session(HTTP, Status::Running, true, "{}");
        claimed.head.epoch = 1;
        let logged = |bytes: usize| {
            let result = Json::of(&"x".repeat(bytes - 2)).unwrap();
            let update =
                Update { status: Some(Status::Completed), result: Some(result), ..Update::default() };
            let mut step = SessionStep::of(update);
            close(&claimed, &mut step).unwrap();
            step.events[0].metadata.as_ref().unwrap().as_str().contains("\"result\"")
        };
        assert!(logged(limits::TOOL_RESULT_LOGGED_BYTES_MAX));
        assert!(!logged(limits::TOOL_RESULT_LOGGED_BYTES_MAX + 1));
    }
}
