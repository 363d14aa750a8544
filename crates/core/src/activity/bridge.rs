//! The human bridge: the session in which a person records what they are working on. Pure decisions: starting,
//! stopping, moving to another task, and what a `human.*` event may hold.
//!
//! The metadata of these events is closed, so that a client cannot send along more about a person than is listed
//! here: no titles, keys, positions or pictures.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::ActivitySettings;
use crate::access::{self, Actor, Verb};
use crate::definitions::task::TaskStatus;
use crate::definitions::{StoredDefinition, Task};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventType, NewEvent};
use crate::ids::{IdSource, Incarnation, SessionId, UserId};
use crate::json::Json;
use crate::limits;
use crate::session::decide::{SessionStep, move_to};
use crate::session::status::Authority;
use crate::session::{Details, Head, Session, SessionSource, SessionType, SourceKind, Status};
use crate::store::NewSession;
use crate::strict::shortened;
use crate::time::Timestamp;

/// How the types of a person's own activity start.
pub const PREFIX: &str = "human.";
const ENTITY_VIEW: &str = "human.entity_view";
const MARKER: &str = "human.marker";
pub const TASK_SWITCH: &str = "human.task_switch";

/// The time that a client says; kept, and never relied on.
const AT: &str = "at";

/// The person whose bridges a caller starts, stops and reads: `None` is the one person of an installation without
/// authentication. Everywhere else a caller without a user has no bridge.
pub fn person(actor: &Actor, settings: &ActivitySettings) -> Result<Option<UserId>> {
    access::check_general(actor, Verb::WorkOn)?;
    match &actor.user {
        Some(user) => Ok(Some(user.clone())),
        None if actor.is_local() || (settings.one_person && actor.names_users()) => Ok(None),
        None => Err(Error::denied("this credential names no user; what a person works on needs one")),
    }
}

/// What a start does.
#[derive(Debug)]
pub enum BridgeStart {
    /// The task runs already: nothing is written.
    Running,
    /// A new bridge, and the end of the former one.
    New { ended: Option<Box<SessionStep>>, new: Box<NewSession> },
}

/// Decides a start. `running` is the person's bridge that runs now. A start for the task that it is on changes nothing,
/// so it is not refused where that task was paused meanwhile.
pub fn start(
    holder: Option<UserId>,
    task: &StoredDefinition<Task>,
    running: Option<&Session>,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<BridgeStart> {
    let is_on_it = |session: &Session| {
        !is_overdue(&session.head, now) && session.details.task_id.as_deref() == Some(&*task.id)
    };
    if running.is_some_and(is_on_it) {
        return Ok(BridgeStart::Running);
    }
    check_active(task)?;
    let ended = match running {
        Some(overdue) if is_overdue(&overdue.head, now) => {
            Some(end(overdue, Status::Abandoned, Authority::Sweeper, "deadline")?)
        }
        Some(former) => Some(end(former, Status::Completed, Authority::Engine, "superseded")?),
        None => None,
    };
    let mut head = Head::blank(Incarnation::drawn(ids), SessionType::Mixed, Status::Running, holder.clone());
    head.is_bridge = true;
    let details = Details {
        task_id: Some(task.id.clone()),
        title: Some(title_of(task)),
        started_at: Some(now),
        ..Details::blank(SessionSource::direct(SourceKind::HumanSessionBridge, true))
    };
    let participants = holder.into_iter().collect();
    let new = NewSession { id: SessionId::drawn(ids), head, details, participants, fork_of: None };
    Ok(BridgeStart::New { ended: ended.map(Box::new), new: Box::new(new) })
}

/// Decides a stop. `None`: it has ended already.
pub fn stop(session: &Session) -> Result<Option<SessionStep>> {
    match session.head.status.is_terminal() {
        true => Ok(None),
        false => end(session, Status::Completed, Authority::Engine, "stopped").map(Some),
    }
}

/// Ends the bridge of a user who becomes part of another user: that one may have a running bridge.
pub fn end_merged(session: &Session) -> Result<SessionStep> {
    end(session, Status::Completed, Authority::Engine, "merged")
}

fn end(session: &Session, to: Status, by: Authority, reason: &'static str) -> Result<SessionStep> {
    let mut step = move_to(session, to, by, Some(reason))?;
    step.update.end_reason = Some(reason.into());
    Ok(step)
}

/// Refuses what is done with runs and conversations: a bridge is one person's, and nobody's run.
pub fn check_none(session: &Session, done: &'static str) -> Result<()> {
    match session.head.is_bridge {
        true => Err(Conflict::NotForType { kind: "human", done }.into()),
        false => Ok(()),
    }
}

/// Whether a bridge has run longer than it may and only waits for the sweeper.
pub fn is_overdue(head: &Head, now: Timestamp) -> bool {
    head.is_bridge && head.deadline_at.is_some_and(|deadline| deadline <= now)
}

fn check_active(task: &StoredDefinition<Task>) -> Result<()> {
    match task.value.status {
        TaskStatus::Active => Ok(()),
        other => Err(Conflict::TaskNotActive { status: other.as_str() }.into()),
    }
}

fn title_of(task: &StoredDefinition<Task>) -> Box<str> {
    task.value.name.chars().take(limits::NAME_CHARS_MAX).collect::<String>().into()
}

/// One move to another task, as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskSwitch {
    pub from_task_id: String,
    pub to_task_id: String,
}

impl TaskSwitch {
    /// The switch that a checked event records.
    pub fn of(kind: &EventType, metadata: Option<&Json>) -> Option<Self> {
        metadata.filter(|_| kind.as_str() == TASK_SWITCH)?.read().ok()
    }
}

/// Decides a move of a bridge from the task that it is on. `from` is what the client's name for that task stands for.
/// Returns the title, and the metadata with the ids of both tasks.
pub fn switch(
    current: Option<&str>,
    from: Option<&str>,
    to: &StoredDefinition<Task>,
    metadata: &Json,
) -> Result<(Box<str>, Json)> {
    if from.is_none() || from != current {
        return Err(Conflict::StaleBase.into());
    }
    check_active(to)?;
    let mut fields = fields_of(Some(metadata));
    fields.insert("from_task_id".to_owned(), from.into());
    fields.insert("to_task_id".to_owned(), (*to.id).into());
    Ok((title_of(to), Json::of(&fields)?))
}

/// What a `human.*` event is stored with.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub content: Option<Json>,
    pub metadata: Option<Json>,
    /// Set by the server, so that an entity is noted once in a bridge.
    pub external_event_id: Option<Box<str>>,
}

/// Whether the operator excluded the path that an event is about.
pub fn is_excluded(event: &NewEvent, settings: &ActivitySettings) -> bool {
    #[derive(Deserialize)]
    struct Visit {
        pathname: String,
    }
    if settings.exclude.is_empty() {
        return false;
    }
    let visit = event.metadata.as_ref().filter(|_| event.kind.as_str().starts_with(PREFIX));
    visit
        .and_then(|metadata| metadata.read::<Visit>().ok())
        .is_some_and(|visit| settings.excludes(&visit.pathname))
}

/// The metadata keys of a type: the stored name, and the name that browsers send.
const fn keys_of(kind: &str) -> &'static [(&'static str, &'static str)] {
    match kind.as_bytes() {
        b"human.navigate" => &[("pathname", "pathname")],
        b"human.entity_view" => {
            &[("entity_id", "entityId"), ("entity_type", "entityType"), ("pathname", "pathname")]
        }
        b"human.task_switch" => &[("from_task_id", "fromTaskId"), ("to_task_id", "toTaskId")],
        _ => &[],
    }
}

/// Checks a `human.*` event and brings it into the form that is stored.
pub fn check_event(kind: &EventType, content: Option<&Json>, metadata: Option<&Json>) -> Result<Recorded> {
    let kind = kind.as_str();
    check_content(kind, content)?;
    let mut given = fields_of(metadata);
    let mut stored = Map::new();
    for (key, alias) in keys_of(kind) {
        let named = given.remove(*key);
        let aliased = if key == alias { None } else { given.remove(*alias) };
        let value = match (named, aliased) {
            (Some(_), Some(_)) => {
                return Err(invalid(alias, format!("says the same as `metadata.{key}`; send one of them")));
            }
            (Some(Value::String(text)), None) | (None, Some(Value::String(text))) => text,
            _ => return Err(invalid(key, format!("`{kind}` needs `metadata.{key}`, a text"))),
        };
        stored.insert((*key).to_owned(), value.into());
    }
    if let Some(at) = given.remove(AT) {
        if at.as_str().is_none_or(|at| at.len() > limits::TIME_BYTES_MAX || Timestamp::parse(at).is_none()) {
            return Err(invalid(AT, "must be a time such as 2026-01-31T09:30:00Z"));
        }
        stored.insert(AT.to_owned(), at);
    }
    if let Some(other) = given.keys().next() {
        let key = shortened(other);
        return Err(invalid(&key, format!("`{kind}` has no `metadata.{key}`; nothing else is recorded")));
    }
    let pathname = stored.get("pathname").and_then(Value::as_str).map(checked_path).transpose()?;
    let mut external_event_id = None;
    if let Some(path) = &pathname {
        stored.insert("pathname".to_owned(), path.as_str().into());
    }
    if let (ENTITY_VIEW, Some(path)) = (kind, &pathname) {
        let entity = checked_entity(&stored, path)?;
        external_event_id = Some(format!("{ENTITY_VIEW}:{entity}").into());
        stored.insert("entity_id".to_owned(), entity.into());
    }
    for key in ["from_task_id", "to_task_id", "entity_type"] {
        if let Some(text) = stored.get(key).and_then(Value::as_str) {
            check_short(key, text)?;
        }
    }
    let metadata = if stored.is_empty() { None } else { Some(Json::of(&stored)?) };
    Ok(Recorded { content: content.cloned(), metadata, external_event_id })
}

/// Only a marker says something: one text.
fn check_content(kind: &str, content: Option<&Json>) -> Result<()> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TextPart<'a> {
        #[serde(rename = "type", borrow)]
        kind: &'a RawValue,
        text: String,
    }
    match content {
        None if kind == MARKER => Err(Error::invalid("content", "a marker needs its text")),
        None => Ok(()),
        Some(_) if kind != MARKER => {
            Err(Error::invalid("content", format!("`{kind}` has no content; only `{MARKER}` has")))
        }
        Some(content) => {
            let parts: Vec<TextPart<'_>> = content.read().unwrap_or_default();
            let [TextPart { kind, text }] = &parts[..] else {
                return Err(Error::invalid("content", "a marker is one text part"));
            };
            if kind.get() != "\"text\"" {
                return Err(Error::invalid("content", "a marker is one text part"));
            }
            if text.is_empty() || text.chars().nth(limits::MARKER_CHARS_MAX).is_some() {
                let message = format!("a marker has 1 to {} characters", limits::MARKER_CHARS_MAX);
                return Err(Error::invalid("content", message));
            }
            Ok(())
        }
    }
}

/// A path without its query and fragment, which may hold anything.
fn checked_path(text: &str) -> Result<String> {
    let path = text.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(invalid("pathname", "must start with `/`"));
    }
    if path.chars().nth(limits::PATHNAME_CHARS_MAX).is_some() {
        let message = format!("is longer than {} characters", limits::PATHNAME_CHARS_MAX);
        return Err(invalid("pathname", message));
    }
    if path.chars().any(char::is_control) {
        return Err(invalid("pathname", "must not contain control characters"));
    }
    Ok(path.to_owned())
}

/// The entity of a view: a UUID, and the one that the path leads to.
fn checked_entity(stored: &Map<String, Value>, path: &str) -> Result<String> {
    const HYPHENATED: usize = 36;
    let text = stored.get("entity_id").and_then(Value::as_str).unwrap_or_default();
    let uuid = |text: &str| Uuid::try_parse(text).ok().filter(|_| text.len() == HYPHENATED);
    let entity = uuid(text).ok_or_else(|| invalid("entity_id", "must be a UUID"))?;
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let last = match segments[..] {
        ["entities", last] => Some(last),
        ["t", tenant, kind, last] if !tenant.is_empty() && !kind.is_empty() => Some(last),
        _ => None,
    };
    match last.and_then(uuid) {
        Some(named) if named == entity => Ok(entity.to_string()),
        _ => Err(invalid(
            "pathname",
            "must be `/t/{tenant}/{type}/{entity_id}` or `/entities/{entity_id}` with this `entity_id`",
        )),
    }
}

fn check_short(key: &str, text: &str) -> Result<()> {
    if text.is_empty()
        || text.chars().nth(limits::NAME_CHARS_MAX).is_some()
        || text.chars().any(char::is_control)
    {
        let message =
            format!("must have 1 to {} characters and no control characters", limits::NAME_CHARS_MAX);
        return Err(invalid(key, message));
    }
    Ok(())
}

fn fields_of(metadata: Option<&Json>) -> Map<String, Value> {
    match metadata.map(Json::value) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn invalid(key: &str, message: impl Into<String>) -> Error {
    Error::invalid(format!("metadata.{key}"), message)
}

#[cfg(test)]
mod tests;
