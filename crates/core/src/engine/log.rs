//! Commands on logs: append and read.

use std::sync::Arc;

use smallvec::smallvec;

use super::Engine;
use super::sessions::check_limit;
use super::work::without_a_claim;
use crate::access::{Actor, ReadExtent, Role, Verb};
use crate::activity::bridge;
use crate::document::PATCH;
use crate::error::{Error, Result};
use crate::event::{
    AppendOutcome, Event, EventPage, EventQuery, EventType, Kinds, NewEvent, Writer, payload,
};
use crate::ids::{SessionId, check_name};
use crate::json::Json;
use crate::limits;
use crate::store::{AppendRule, Change, ChangePart, CommitResult, Guard, IdemKey, PartTarget, Write};

/// Events that a caller wants to append.
#[derive(Clone, Debug, Default)]
pub struct Append {
    pub events: Vec<DraftEvent>,
    pub expected_sequence: Option<u64>,
    pub epoch: Option<u64>,
}

/// One event as a caller gave it.
#[derive(Clone, Debug, Default)]
pub struct DraftEvent {
    pub kind: String,
    /// Follows from the type; a role that contradicts it is refused.
    pub role: Option<String>,
    pub content: Option<Json>,
    pub metadata: Option<Json>,
    pub subthread_id: Option<String>,
    pub external_event_id: Option<String>,
}

/// The events as the log holds them.
#[derive(Clone, Debug)]
pub struct AppendResult {
    pub events: Vec<Arc<Event>>,
    pub last_sequence: u64,
    /// The session was asked to stop; only the claim holder is told.
    pub stop_requested: bool,
    /// Events of a person's activity that are not recorded: repeated views of an entity, and excluded paths. `None`
    /// for other events.
    pub dropped: Option<usize>,
}

impl Engine {
    /// Keeps a message that nobody answers. A session that was hidden shows again.
    pub async fn append_message(
        &self,
        actor: &Arc<Actor>,
        id: &SessionId,
        content: Json,
        key: Option<IdemKey>,
    ) -> Result<AppendResult> {
        let draft =
            DraftEvent { kind: "user.message".to_owned(), content: Some(content), ..DraftEvent::default() };
        let wish = Append { events: vec![draft], ..Append::default() };
        let done = match self.append(actor, id, wish, key).await {
            Err(Error::Denied(_))
                if self.load(actor, Verb::Read, id).await.is_ok_and(|one| one.head.is_bridge) =>
            {
                return Err(Error::invalid("session_id", "is a human session, which takes no messages"));
            }
            done => done?,
        };
        if self.state(actor, id).await.is_ok_and(|state| state.inactive) {
            self.show_again(actor, id).await?;
        }
        Ok(done)
    }

    /// Appends one event or a batch, whole or not at all. Nothing is loaded first: the guard is
    /// checked under the lock of the write, so concurrent appenders never conflict.
    pub async fn append(
        &self,
        actor: &Arc<Actor>,
        id: &SessionId,
        wish: Append,
        key: Option<IdemKey>,
    ) -> Result<AppendResult> {
        if wish.events.iter().any(|draft| draft.kind.starts_with(bridge::PREFIX)) {
            let has_epoch = wish.epoch.is_some();
            return match self.record(actor, id, wish, key).await {
                Err(error) if has_epoch => Err(without_a_claim(actor, error)),
                done => done,
            };
        }
        if wish.events.iter().any(|draft| draft.kind == PATCH) {
            return self.append_with_patches(actor, id, wish, key).await;
        }
        let events = check_batch(actor, wish.events)?;
        self.check_byte_quota(actor).await?;
        let kinds = Kinds::of(events.iter().map(|event| &event.kind));
        let rule = AppendRule { actor: actor.clone(), kinds, epoch: wish.epoch };
        let part = ChangePart {
            on: PartTarget::Session(id.clone()),
            guard: Guard { sequence: wish.expected_sequence, append: Some(rule), ..Guard::default() },
            writes: smallvec![Write::Append(events)],
        };
        let done = match self.commit(Change::new(actor.tenant.clone()).part(part).keyed(key)).await {
            Err(error) if wish.epoch.is_some() => return Err(without_a_claim(actor, error)),
            done => done?,
        };
        self.appended(actor, id, done, wish.epoch.is_some()).await
    }

    /// The events of an append, or those of the first one with its key.
    pub(super) async fn appended(
        &self,
        actor: &Actor,
        id: &SessionId,
        done: CommitResult,
        has_claim: bool,
    ) -> Result<AppendResult> {
        if let Some(replay) = &done.replay {
            let session = self.session_after(actor, id, &done).await?;
            let events = self.events_at(actor, id, &replay.sequences).await?;
            return Ok(AppendResult {
                last_sequence: replay.sequences.iter().copied().max().unwrap_or(session.head.last_sequence),
                events,
                stop_requested: has_claim && session.head.stop_requested,
                dropped: None,
            });
        }
        let part = done.parts.into_iter().next().ok_or_else(|| Error::internal("a commit lost its part"))?;
        let mut events = Vec::with_capacity(part.appended.len());
        for appended in part.appended {
            events.push(match appended {
                AppendOutcome::New(event) => event,
                AppendOutcome::Repeat(sequence) => {
                    self.events_at(actor, id, &[sequence]).await?.pop().ok_or(Error::NotFound)?
                }
            });
        }
        Ok(AppendResult {
            events,
            last_sequence: part.head.last_sequence,
            stop_requested: has_claim && part.head.stop_requested,
            dropped: None,
        })
    }

    pub(super) async fn events_at(
        &self,
        actor: &Actor,
        id: &SessionId,
        sequences: &[u64],
    ) -> Result<Vec<Arc<Event>>> {
        let mut events: Vec<Arc<Event>> = Vec::with_capacity(sequences.len());
        let mut page: Vec<Arc<Event>> = Vec::new();
        for &sequence in sequences {
            if !page.iter().any(|event| event.sequence == sequence) {
                let query = EventQuery {
                    after: sequence - 1,
                    limit: limits::BATCH_EVENTS_MAX.min(sequences.len()),
                    ..EventQuery::default()
                };
                let read = self.sessions.events(&actor.tenant, id, query).await?;
                page = read.events.into_iter().map(Arc::new).collect();
            }
            let found = page.iter().find(|event| event.sequence == sequence).ok_or(Error::NotFound)?;
            events.push(found.clone());
        }
        Ok(events)
    }

    /// A page of a session's log.
    pub async fn read(&self, actor: &Actor, id: &SessionId, mut query: EventQuery) -> Result<EventPage> {
        check_limit(query.limit)?;
        for kind in &query.types {
            EventType::parse(kind)
                .map_err(|_| Error::invalid("types", format!("`{kind}` is no event type")))?;
        }
        // An owner reads everything in the tenant: the page itself tells whether the session exists.
        if actor.role != Role::Owner {
            self.load(actor, Verb::Read, id).await?;
        }
        if let Some(shown) = ReadExtent::of(actor.role).events.types() {
            query.types = if query.types.is_empty() {
                shown.iter().map(|kind| (*kind).to_owned()).collect()
            } else {
                query.types.into_iter().filter(|kind| shown.contains(&kind.as_str())).collect()
            };
            if query.types.is_empty() {
                return Err(Error::denied("a share link shows messages alone"));
            }
        }
        let page = self.log_page(actor, id, query).await?;
        if page.is_bridge || actor.role == Role::Guest {
            self.load_log(actor, id).await?;
        }
        Ok(page)
    }

    /// A page of a log that the caller may read. A share link's page is read by the link, and holds messages alone.
    pub(super) async fn log_page(
        &self,
        actor: &Actor,
        id: &SessionId,
        query: EventQuery,
    ) -> Result<EventPage> {
        match actor.link {
            Some(hash) => self.sessions.shared_events(&actor.tenant, hash, id, query).await,
            None => self.sessions.events(&actor.tenant, id, query).await,
        }
    }
}

pub(super) fn check_batch(actor: &Actor, drafts: Vec<DraftEvent>) -> Result<Vec<NewEvent>> {
    if drafts.is_empty() {
        return Err(Error::invalid("events", "must name at least one event"));
    }
    if drafts.len() > limits::BATCH_EVENTS_MAX {
        return Err(Error::TooLarge { what: "batch (in events)", limit: limits::BATCH_EVENTS_MAX });
    }
    let author =
        actor.author().or_else(|| (actor.role == Role::Worker).then(|| actor.credential.as_str().into()));
    let mut bytes = 0;
    let mut events = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let event = check_draft(draft, author.clone())?;
        bytes += event.bytes();
        if bytes > limits::BATCH_BYTES_MAX {
            return Err(Error::TooLarge { what: "batch", limit: limits::BATCH_BYTES_MAX });
        }
        events.push(event);
    }
    Ok(events)
}

fn check_draft(draft: DraftEvent, author: Option<Box<str>>) -> Result<NewEvent> {
    let kind = EventType::parse(&draft.kind)?;
    if draft.role.as_deref().is_some_and(|role| role != kind.role().as_str()) {
        let message = format!("a `{}` event has the role `{}`", kind.as_str(), kind.role().as_str());
        return Err(Error::invalid("role", message));
    }
    let content = draft.content.clone().map(payload::content_parts).transpose()?;
    if draft.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
        return Err(Error::invalid("metadata", "must be an object"));
    }
    payload::check_size(content.as_ref(), draft.metadata.as_ref())?;
    if kind.writer() == Writer::BridgeHolder {
        return recorded(kind, content, &draft, author);
    }
    if let Err(misfit) = payload::check(&kind, content.as_ref(), draft.metadata.as_ref())
        // Types that only Sederunt writes are refused by the caller's rights, with any content.
        && kind.writer() != Writer::Engine
    {
        return Err(misfit);
    }
    if let Some(subthread) = &draft.subthread_id {
        check_name("subthread_id", subthread)?;
    }
    if let Some(external) = &draft.external_event_id {
        check_name("external_event_id", external)?;
    }
    Ok(NewEvent {
        kind,
        content,
        metadata: draft.metadata,
        subthread_id: draft.subthread_id.map(Into::into),
        external_event_id: draft.external_event_id.map(Into::into),
        author,
    })
}

/// An event of a person's own activity, in the form that is stored. The server alone names it.
fn recorded(
    kind: EventType,
    content: Option<Json>,
    draft: &DraftEvent,
    author: Option<Box<str>>,
) -> Result<NewEvent> {
    for (field, given) in
        [("subthread_id", &draft.subthread_id), ("external_event_id", &draft.external_event_id)]
    {
        if given.is_some() {
            return Err(Error::invalid(field, format!("`{}` has no `{field}`", kind.as_str())));
        }
    }
    let recorded = bridge::check_event(&kind, content.as_ref(), draft.metadata.as_ref())?;
    Ok(NewEvent {
        kind,
        content: recorded.content,
        metadata: recorded.metadata,
        subthread_id: None,
        external_event_id: recorded.external_event_id,
        author,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SourceKind;

    fn draft(kind: &str) -> DraftEvent {
        DraftEvent { kind: kind.into(), ..DraftEvent::default() }
    }

    fn check(drafts: Vec<DraftEvent>) -> Result<Vec<NewEvent>> {
        check_batch(&Actor::local(SourceKind::Api), drafts)
    }

    fn text(bytes: usize) -> Json {
        let text = format!(r#"[{{"type":"text","text":"{}"}}]"#, "x".repeat(bytes - 27));
        assert_eq!(text.len(), bytes);
        Json::stored(text)
    }

    #[test]
    fn batches_meet_their_limits_and_are_refused_one_past() {
        assert_eq!(check(Vec::new()).unwrap_err().code(), "invalid");
        let many = |n| vec![draft("external.event"); n];
        assert!(check(many(limits::BATCH_EVENTS_MAX)).is_ok());
        assert_eq!(check(many(limits::BATCH_EVENTS_MAX + 1)).unwrap_err().code(), "too_large");

        let sized = |bytes| DraftEvent { content: Some(text(bytes)), ..draft("user.message") };
        assert!(check(vec![sized(limits::EVENT_BYTES_MAX)]).is_ok());
        assert_eq!(check(vec![sized(limits::EVENT_BYTES_MAX + 1)]).unwrap_err().code(), "too_large");
        let full = limits::BATCH_BYTES_MAX / limits::EVENT_BYTES_MAX;
        assert!(check(vec![sized(limits::EVENT_BYTES_MAX); full]).is_ok());
        let mut over = vec![sized(limits::EVENT_BYTES_MAX); full];
        over.push(sized(100));
        assert_eq!(check(over).unwrap_err().code(), "too_large");

        let metadata = |n: usize| DraftEvent {
            metadata: Some(Json::stored(format!(r#"{{"k":"{}"}}"#, "v".repeat(n - 8)))),
            ..draft("external.event")
        };
        assert!(check(vec![metadata(limits::METADATA_BYTES_MAX)]).is_ok());
        assert_eq!(check(vec![metadata(limits::METADATA_BYTES_MAX + 1)]).unwrap_err().code(), "too_large");
    }

    #[test]
    fn a_role_that_contradicts_the_type_is_refused() {
        let with = |role: &str| DraftEvent { role: Some(role.into()), ..draft("external.event") };
        assert!(check(vec![with("system")]).is_ok());
        assert_eq!(check(vec![with("agent")]).unwrap_err().code(), "invalid");
    }
}
