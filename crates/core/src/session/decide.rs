//! Opening, changing, moving and deleting sessions: pure decisions. None of them reads a clock,
//! a store or a request.

use serde_json::{Value, json};

use super::row::check_metadata;
use super::source::{Company, PLATFORM_KEYS, RESERVED_PREFIXES};
use super::status::{Authority, check_move};
use super::{
    DescriptionSource, Details, Head, MemoryMode, Session, SessionSource, SessionType, SourceKind, Status,
};
use crate::access::{Actor, Role, Verb, within_prefix};
use crate::activity::bridge;
use crate::approval::{Approval, ApprovalState};
use crate::channel::conversation::REPLACED_BY;
use crate::definitions::{StoredDefinition, Task};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventType, NewEvent};
use crate::ids::{IdSource, Incarnation, SessionId, UserId, check_name, check_text};
use crate::json::Json;
use crate::limits;
use crate::store::{ClaimChange, Fork, NewSession, Record, Update};
use crate::tool_session::TOOL_SLUG;
use crate::work::queueing::{QueueCause, check_may_queue};
use crate::work::run::Run;

/// The name of the model that runs outside Sederunt: the session's holder or a worker runs it. A built-in agent has
/// the same name.
pub const EXTERNAL_AGENT: &str = "external";

/// What a decision does to one session.
#[derive(Clone, Debug)]
pub struct SessionStep {
    pub update: Update,
    pub events: Vec<NewEvent>,
    /// Rows beside the session that are written with it.
    pub records: Vec<Record>,
}

impl SessionStep {
    /// A change of the row without events.
    pub const fn of(update: Update) -> Self {
        Self { update, events: Vec::new(), records: Vec::new() }
    }
}

/// What a caller wants to open.
#[derive(Clone, Debug, Default)]
pub struct OpenSession {
    pub id: Option<String>,
    pub session_type: Option<SessionType>,
    pub source: Option<SourceWish>,
    pub status: Option<Status>,
    pub task_id: Option<String>,
    pub agent_slug: Option<String>,
    pub entity_id: Option<String>,
    pub parent_id: Option<String>,
    pub title: Option<String>,
    pub input: Option<Json>,
    pub metadata: Option<Json>,
    pub memory_mode: Option<MemoryMode>,
    pub participants: Vec<String>,
    pub priority: Option<i32>,
}

/// What a caller says about where it comes from: only what its surface implies anyway.
#[derive(Clone, Debug, Default)]
pub struct SourceWish {
    pub kind: Option<SourceKind>,
    pub interactive: Option<bool>,
    pub platform: Option<String>,
    pub company: Option<Company>,
}

/// The new session, where the caller's id does not exist yet.
pub fn open(actor: &Actor, id: SessionId, wish: OpenSession, ids: &dyn IdSource) -> Result<NewSession> {
    let session_type =
        wish.session_type.ok_or_else(|| Error::invalid("session_type", "is required for a new session"))?;
    check_id_is_free_to_choose(actor, &id)?;
    let starts_work = wish.status == Some(Status::Pending)
        || wish.task_id.is_some()
        || wish.agent_slug.is_some()
        || wish.parent_id.is_some()
        || wish.priority.is_some();
    if starts_work {
        check_may_queue(actor, QueueCause::NoTask)?;
    }
    let status = wish.status.unwrap_or(match session_type {
        SessionType::Mixed => Status::Idle,
        SessionType::Agent | SessionType::Response | SessionType::Tool => Status::Draft,
    });
    if !matches!(status, Status::Draft | Status::Pending | Status::Idle) {
        return Err(Error::invalid("status", "a session opens as draft, pending or idle"));
    }
    if status == Status::Pending && session_type == SessionType::Tool {
        let rule = "a tool session is queued by invoking it: start it with `POST /api/tools/{slug}/sessions`";
        return Err(Error::invalid("status", rule));
    }
    let source = source_of(actor, wish.source.unwrap_or_default())?;
    let is_talk = session_type == SessionType::Mixed
        && status == Status::Idle
        && wish.task_id.is_none()
        && wish.parent_id.is_none();
    for (field, text) in
        [("task_id", &wish.task_id), ("agent_slug", &wish.agent_slug), ("entity_id", &wish.entity_id)]
    {
        text.as_deref().map_or(Ok(()), |text| check_name(field, text))?;
    }
    if let Some(title) = &wish.title {
        check_title(title)?;
    }
    let metadata = wish.metadata.unwrap_or_else(Json::empty_object);
    check_caller_metadata(actor, &metadata)?;
    if wish.input.as_ref().is_some_and(|input| input.len() > limits::EVENT_BYTES_MAX) {
        return Err(Error::TooLarge { what: "input", limit: limits::EVENT_BYTES_MAX });
    }
    let priority = wish.priority.unwrap_or(0);
    if !limits::PRIORITY_RANGE.contains(&priority) {
        return Err(Error::invalid("priority", "must be -1000 to 1000"));
    }
    let participants = participants_of(&wish.participants, actor.user.as_ref())?;
    let parent_id = wish.parent_id.as_deref().map(SessionId::parse).transpose()?;
    let mut head = Head::blank(Incarnation::drawn(ids), session_type, status, actor.user.clone());
    head.is_talk = is_talk;
    head.is_group = source.is_group();
    head.priority = priority;
    Ok(NewSession {
        id,
        head,
        details: Details {
            task_id: wish.task_id.map(Into::into),
            agent_slug: wish.agent_slug.map(Into::into),
            entity_id: wish.entity_id.map(Into::into),
            root_id: parent_id.clone(),
            parent_id,
            title: wish.title.map(Into::into),
            input: wish.input,
            metadata,
            memory_mode: wish.memory_mode.unwrap_or(MemoryMode::Local),
            ..Details::blank(source)
        },
        participants,
        fork_of: None,
    })
}

/// The effect of opening an existing id: nothing on a closed session; any other is shown in lists again, with its
/// scalar metadata merged. `None` when nothing changes.
pub fn reopen(actor: &Actor, session: &Session, wish: &OpenSession) -> Result<Option<SessionStep>> {
    if wish.session_type.is_some_and(|wanted| wanted != session.head.session_type) {
        return Err(Conflict::TypeMismatch { field: "session_type" }.into());
    }
    check_memory_mode(session, wish.memory_mode)?;
    if session.head.status.is_terminal() {
        return Ok(None);
    }
    let mut update = Update::default();
    if let Some(wanted) = &wish.metadata {
        check_caller_metadata(actor, wanted)?;
        let scalars = object(wanted).into_iter().filter(|(_, value)| !value.is_array() && !value.is_object());
        update.metadata = merged(&session.details.metadata, scalars)?;
    }
    if session.head.inactive {
        update.inactive = Some(false);
    }
    let changes = update.metadata.is_some() || update.inactive.is_some();
    Ok(changes.then_some(SessionStep::of(update)))
}

/// A request may repeat the memory mode of its session; another one is a contradiction.
pub fn check_memory_mode(session: &Session, expected: Option<MemoryMode>) -> Result<()> {
    match expected {
        Some(expected) if expected != session.details.memory_mode => {
            Err(Conflict::TypeMismatch { field: "memory_mode" }.into())
        }
        _ => Ok(()),
    }
}

/// What a caller wants to change in a row.
#[derive(Clone, Debug, Default)]
pub struct PatchSession {
    pub title: Option<Option<String>>,
    pub description: Option<Option<String>>,
    /// Merged key by key; `null` removes one.
    pub metadata: Option<Json>,
    pub inactive: Option<bool>,
    pub participants: Option<Vec<String>>,
}

/// The effect of a change of the row. `departed` are the people who left the session themselves.
pub fn patch(
    actor: &Actor,
    session: &Session,
    departed: &[UserId],
    wish: &PatchSession,
) -> Result<Option<SessionStep>> {
    let mut update = Update::default();
    if let Some(title) = &wish.title {
        title.as_deref().map_or(Ok(()), check_title)?;
        update.title = Some(title.as_deref().map(Into::into));
    }
    if let Some(description) = &wish.description {
        if let Some(text) = description {
            check_text("description", text, limits::DESCRIPTION_CHARS_MAX)?;
        }
        let source = description.is_some().then_some(DescriptionSource::User);
        update.description = Some((description.as_deref().map(Into::into), source));
    }
    if let Some(wanted) = &wish.metadata {
        check_caller_metadata(actor, wanted)?;
        update.metadata = merged(&session.details.metadata, object(wanted))?;
    }
    if let Some(inactive) = wish.inactive
        && inactive != session.head.inactive
    {
        update.inactive = Some(inactive);
    }
    if let Some(names) = &wish.participants {
        crate::access::check(actor, Verb::Share, session)?;
        bridge::check_none(session, "shared with participants")?;
        let participants = participants_of(names, session.head.holder.as_ref())?;
        check_nobody_is_put_back(actor, &participants, departed)?;
        update.participants = Some(participants);
    }
    let changes = update.title.is_some()
        || update.description.is_some()
        || update.metadata.is_some()
        || update.inactive.is_some()
        || update.participants.is_some();
    Ok(changes.then_some(SessionStep::of(update)))
}

/// A person who left a session can be put back by themselves or by an owner, not by another participant.
fn check_nobody_is_put_back(actor: &Actor, participants: &[UserId], departed: &[UserId]) -> Result<()> {
    let put_back =
        participants.iter().find(|user| departed.contains(user) && actor.user.as_ref() != Some(user));
    match put_back {
        Some(user) if actor.role != Role::Owner => Err(Error::denied(format!(
            "`{user}` has left this session; only `{user}` or an owner can put `{user}` back"
        ))),
        _ => Ok(()),
    }
}

/// The effect of leaving: the caller is removed from the participants and recorded as departed.
pub fn leave(actor: &Actor, session: &Session) -> Result<SessionStep> {
    bridge::check_none(session, "left")?;
    let user = actor.user.as_ref().ok_or_else(|| Error::denied("this credential names no user"))?;
    if session.head.holder.as_ref() == Some(user) {
        return Err(Error::denied("the holder of a session cannot leave it; delete or hide it instead"));
    }
    Ok(SessionStep::of(Update { leaves: Some(user.clone()), ..Update::default() }))
}

/// The effect of coming back after leaving. `None` when the caller takes part already. A caller who never left gets
/// the answer of a stranger.
pub fn come_back(actor: &Actor, session: &Session, departed: &[UserId]) -> Result<Option<SessionStep>> {
    let user = actor.user.as_ref().ok_or_else(|| Error::denied("this credential names no user"))?;
    if session.head.holder.as_ref() == Some(user) || session.participants.contains(user) {
        bridge::check_none(session, "joined")?;
        return Ok(None);
    }
    if !departed.contains(user) {
        return Err(Error::NotFound);
    }
    Ok(Some(SessionStep::of(Update { add_participant: Some(user.clone()), ..Update::default() })))
}

/// A status change that a caller asks for.
#[derive(Clone, Debug)]
pub struct Transition {
    pub to: Status,
    pub expected: Option<Status>,
    pub reason: Option<String>,
}

/// The status changes that a caller may ask for by name. All others happen through claims, settles, submits, answers
/// and decisions.
///
/// `task` is the session's task as it is now: starting a draft needs the trigger right on it.
pub fn transition(
    actor: &Actor,
    session: &Session,
    task: Option<&StoredDefinition<Task>>,
    wish: &Transition,
) -> Result<SessionStep> {
    let from = session.head.status;
    let refused = || Error::Conflict(Conflict::InvalidTransition { from, to: wish.to });
    if let Some(expected) = wish.expected.filter(|expected| *expected != from) {
        return Err(Conflict::StatusNotExpected { status: from, expected, to: wish.to }.into());
    }
    if let Some(reason) = &wish.reason {
        check_text("reason", reason, limits::SENTENCE_CHARS_MAX)?;
    }
    let holds = actor.user.is_some() && session.head.holder == actor.user;
    let owner = actor.role == Role::Owner;
    let by = match (from, wish.to) {
        (Status::Draft, Status::Pending) => {
            check_has_no_form(session, "queued")?;
            check_may_queue(actor, task.map_or(QueueCause::NoTask, QueueCause::Task))?;
            if session.details.parent_id.is_some() {
                return Err(refused());
            }
            Authority::Trigger
        }
        (Status::Idle, Status::Running) | (Status::Running, Status::Idle) if session.head.is_external => {
            if !(holds || owner) {
                return Err(Error::denied("only its holder moves an external session"));
            }
            if session.head.claim.is_some() {
                return Err(refused());
            }
            Authority::ExternalHolder
        }
        (_, Status::Expired) if owner => Authority::Owner,
        (Status::Pending, Status::Abandoned) if owner => Authority::Owner,
        (_, Status::Abandoned) if owner || holds => Authority::OwnerOrHolder,
        (_, Status::Expired | Status::Abandoned) => {
            return Err(Error::denied("only an owner, or the holder of the session, ends it"));
        }
        _ => return Err(refused()),
    };
    let mut step = move_to(session, wish.to, by, wish.reason.as_deref())?;
    if wish.to.is_terminal() {
        step.update.end_reason = Some(wish.reason.as_deref().unwrap_or("cancelled").into());
    }
    Ok(step)
}

/// One checked status change with everything that belongs to it: the event, the claim, the deadline.
pub fn move_to(session: &Session, to: Status, by: Authority, reason: Option<&str>) -> Result<SessionStep> {
    let head = &session.head;
    check_move(head.status, to, by, head.is_talk)?;
    if by == Authority::Submit
        && matches!(to, Status::Pending | Status::Abandoned)
        && head.session_type != SessionType::Tool
    {
        return Err(Conflict::InvalidTransition { from: head.status, to }.into());
    }
    let update = Update {
        status: Some(to),
        claim: head.claim.is_some().then_some(ClaimChange::Release),
        stop_requested: (head.stop_requested && to != Status::Running).then_some(false),
        attempts: (by == Authority::Decision).then_some(0),
        started: to == Status::Running,
        completed: to.is_terminal(),
        deadline: Some(session.deadline_in(to)),
        // An error of an earlier attempt is cleared when the session completes.
        error_message: (to == Status::Completed && session.details.error_message.is_some())
            .then(|| Box::from("")),
        ..Update::default()
    };
    let mut step =
        SessionStep { events: vec![status_change(head.status, to, reason)?], ..SessionStep::of(update) };
    if by != Authority::Decision {
        withdraw_question(session, to, &mut step)?;
    }
    Ok(step)
}

/// Closes the pending question of a session that moves on without its answer.
fn withdraw_question(session: &Session, to: Status, step: &mut SessionStep) -> Result<()> {
    if session.details.run.is_none() {
        return Ok(());
    }
    let mut run = Run::of(session);
    let Some(id) = run.approval_id.take() else { return Ok(()) };
    run.elicitation = None;
    let state = if to == Status::Expired { ApprovalState::Expired } else { ApprovalState::Cancelled };
    step.records.push(Record::CloseApproval { id: id.into(), state, decided_by: None, body: None });
    step.update.run = Some(run.to_json()?);
    Ok(())
}

/// The event of every status change.
pub fn status_change(from: Status, to: Status, reason: Option<&str>) -> Result<NewEvent> {
    let mut metadata = json!({"from": from.as_str(), "to": to.as_str()});
    if let Some(reason) = reason {
        metadata["reason"] = reason.into();
    }
    Ok(NewEvent::engine(EventType::known("session.status_change"), Some(Json::of(&metadata)?)))
}

/// A response is one person's answer to a form, and a tool session one invocation of a tool: both are queued by their own
/// commands alone, and a copy of them would have no form.
fn check_has_no_form(session: &Session, done: &'static str) -> Result<()> {
    match session.head.session_type {
        SessionType::Response => Err(Conflict::NotForType { kind: "response", done }.into()),
        SessionType::Tool => Err(Conflict::NotForType { kind: "tool", done }.into()),
        SessionType::Agent | SessionType::Mixed => Ok(()),
    }
}

/// Refuses to do again what no worker did: responses, tool sessions and a person's own activity.
pub fn check_retryable(session: &Session) -> Result<()> {
    match session.head.session_type {
        SessionType::Agent | SessionType::Mixed if !session.head.is_bridge => Ok(()),
        _ => Err(Conflict::NoRun.into()),
    }
}

/// A new session that does the work of a failing one again.
pub fn retry(actor: &Actor, session: &Session, ids: &dyn IdSource) -> Result<NewSession> {
    let head = &session.head;
    if !head.status.is_failing() {
        return Err(Conflict::NotRetried { status: head.status }.into());
    }
    let mut fresh =
        Head::blank(Incarnation::drawn(ids), head.session_type, Status::Pending, head.holder.clone());
    fresh.is_external = head.is_external;
    fresh.is_group = head.is_group;
    fresh.priority = head.priority;
    let old = &session.details;
    let run = old.run.as_ref().map(|_| Run::of(session).afresh(actor).to_json()).transpose()?;
    Ok(NewSession {
        id: SessionId::drawn(ids),
        head: fresh,
        details: Details {
            run,
            task_id: old.task_id.clone(),
            agent_slug: old.agent_slug.clone(),
            entity_id: old.entity_id.clone(),
            retry_of: Some(session.id.clone()),
            title: old.title.clone(),
            input: old.input.clone(),
            metadata: old.metadata.clone(),
            memory_mode: old.memory_mode,
            ..Details::blank(SessionSource::direct(actor.surface, false))
        },
        participants: session.participants.clone(),
        fork_of: None,
    })
}

/// A new session that shares another's log up to a sequence.
pub fn fork(actor: &Actor, session: &Session, at_sequence: u64, ids: &dyn IdSource) -> Result<NewSession> {
    bridge::check_none(session, "forked")?;
    check_has_no_form(session, "forked")?;
    if at_sequence == 0 || at_sequence > session.head.last_sequence {
        let message = format!("must be 1 to {}", session.head.last_sequence);
        return Err(Error::invalid("at_sequence", message));
    }
    let head = &session.head;
    let status = if head.is_talk { Status::Idle } else { Status::Draft };
    let mut fresh = Head::blank(Incarnation::drawn(ids), head.session_type, status, actor.user.clone());
    fresh.is_talk = head.is_talk;
    fresh.is_external = head.is_external;
    fresh.last_sequence = at_sequence;
    fresh.described = session.details.description.is_some();
    let old = &session.details;
    Ok(NewSession {
        id: SessionId::drawn(ids),
        head: fresh,
        details: Details {
            agent_slug: old.agent_slug.clone(),
            entity_id: old.entity_id.clone(),
            title: old.title.clone(),
            description: old.description.clone(),
            description_source: old.description_source,
            input: old.input.clone(),
            memory_mode: old.memory_mode,
            ..Details::blank(SessionSource::direct(actor.surface, false))
        },
        participants: participants_of(&[], actor.user.as_ref())?,
        fork_of: Some(Fork { session: session.id.clone(), incarnation: head.incarnation, at_sequence }),
    })
}

/// The first event of every log.
pub fn created_event(new: &NewSession) -> Result<NewEvent> {
    let mut metadata = json!({
        "session_type": new.head.session_type.as_str(),
        "status": new.head.status.as_str(),
    });
    if let Some(origin) = &new.details.retry_of {
        metadata["retry_of"] = origin.as_str().into();
    }
    if let Some(fork) = &new.fork_of {
        metadata["fork_of"] = fork.session.as_str().into();
        metadata["at_sequence"] = fork.at_sequence.into();
    }
    Ok(NewEvent::engine(EventType::known("session.created"), Some(Json::of(&metadata)?)))
}

/// Whether a session may be removed. `promotion` is the one that waits for a decision.
pub fn check_deletable(
    actor: &Actor,
    session: &Session,
    promotion: Option<&Approval>,
    how: Deletion,
) -> Result<()> {
    if how == Deletion::Forced && actor.role != Role::Owner {
        return Err(Error::denied("only an owner deletes by force"));
    }
    if session.head.is_group && how == Deletion::Ordinary {
        return Err(Conflict::GroupSession.into());
    }
    if promotion.is_some() {
        return Err(Conflict::PromotionPending.into());
    }
    check_at_rest(session)
}

/// How a session is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Ordinary,
    /// Also a session that others take part in as a group.
    Forced,
}

/// Refuses a session that runs or waits for a decision.
pub fn check_at_rest(session: &Session) -> Result<()> {
    if matches!(session.head.status, Status::Running | Status::WaitingHuman | Status::AwaitingTool) {
        return Err(Conflict::SessionRunning.into());
    }
    Ok(())
}

fn check_id_is_free_to_choose(actor: &Actor, id: &SessionId) -> Result<()> {
    if actor.role == Role::Channel {
        if within_prefix(actor, id) {
            return Ok(());
        }
        return Err(Error::denied("this channel key opens only sessions under its own prefix"));
    }
    if RESERVED_PREFIXES.iter().any(|prefix| id.as_str().starts_with(prefix)) {
        return Err(Error::invalid("id", "this prefix belongs to channels and schedules; choose another id"));
    }
    Ok(())
}

fn source_of(actor: &Actor, wish: SourceWish) -> Result<SessionSource> {
    let implied = SessionSource {
        platform: actor.prefix.as_deref().and_then(|prefix| {
            let platform = prefix.split(':').next()?;
            crate::people::PLATFORMS.iter().find(|known| **known == platform).map(|known| (*known).into())
        }),
        company: wish.company.unwrap_or(Company::Direct),
        ..SessionSource::direct(
            if actor.role == Role::Channel { SourceKind::Channel } else { actor.surface },
            matches!(actor.surface, SourceKind::Cli | SourceKind::Web) || actor.role == Role::Channel,
        )
    };
    let contradicts = wish.kind.is_some_and(|kind| kind != implied.kind)
        || wish.interactive.is_some_and(|interactive| interactive != implied.interactive)
        || wish.platform.is_some_and(|platform| Some(&*platform) != implied.platform.as_deref());
    if contradicts {
        return Err(Error::invalid(
            "source",
            "kind, platform and interactive follow from the surface; leave them out",
        ));
    }
    Ok(implied)
}

fn check_title(title: &str) -> Result<()> {
    check_text("title", title, limits::NAME_CHARS_MAX)
}

fn check_caller_metadata(actor: &Actor, metadata: &Json) -> Result<()> {
    check_metadata(metadata)?;
    if let Some(own) = [TOOL_SLUG, REPLACED_BY].into_iter().find(|own| object(metadata).contains_key(*own)) {
        return Err(Error::invalid(format!("metadata.{own}"), "is written by Sederunt alone"));
    }
    if actor.role != Role::Channel
        && let Some(key) = object(metadata).keys().find(|key| PLATFORM_KEYS.contains(&key.as_str()))
    {
        return Err(Error::invalid(format!("metadata.{key}"), "is written by channels alone"));
    }
    Ok(())
}

fn object(json: &Json) -> serde_json::Map<String, Value> {
    match json.value() {
        Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    }
}

fn merged(old: &Json, new: impl IntoIterator<Item = (String, Value)>) -> Result<Option<Json>> {
    let before = object(old);
    let mut after = before.clone();
    for (key, value) in new {
        if value.is_null() {
            after.remove(&key);
        } else {
            after.insert(key, value);
        }
    }
    if after == before {
        return Ok(None);
    }
    let json = Json::of(&after)?;
    check_metadata(&json)?;
    Ok(Some(json))
}

fn participants_of(names: &[String], holder: Option<&UserId>) -> Result<Vec<UserId>> {
    if names.len() > limits::PARTICIPANTS_MAX {
        return Err(Error::invalid("participants", format!("names more than {}", limits::PARTICIPANTS_MAX)));
    }
    let mut users: Vec<UserId> =
        names.iter().map(|name| UserId::parse(name)).collect::<Result<_>>().map_err(|error| match error {
            Error::Invalid { message, .. } => Error::invalid("participants", message),
            other => other,
        })?;
    users.extend(holder.cloned());
    users.sort_unstable();
    users.dedup();
    Ok(users)
}

#[cfg(test)]
pub(crate) mod tests;
