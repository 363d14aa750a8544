//! Commands on responses: opening one for a respondent, saving and abandoning it, and showing it. Submitting is in
//! `responses/submitting.rs`; who has which response, in `responses/finding.rs`.
//!
//! A response of a stranger who has given nothing yet is not stored. Its id is derived, so that the first save, or the
//! submit, makes the session under the id that the stranger was told.

mod finding;
mod submitting;

use smallvec::smallvec;
use uuid::Uuid;

use self::finding::{ResponseTarget, admitted};
pub use self::submitting::SubmittedResponse;
use super::views::{clearance, known};
use super::{CommandOutcome, Decided, Engine};
use crate::access::{Actor, Role};
use crate::definitions::{DefinitionKind, Entity, StoredDefinition, View};
use crate::error::{Conflict, Error, Result};
use crate::ids::SessionId;
use crate::json::Json;
use crate::limits;
use crate::response::decide::{self, NewResponse, OpenOutcome, SaveOutcome};
use crate::response::{ResponseFilter, ResponseQuery, ResponseState, StoredResponse};
use crate::session::Status;
use crate::session::decide::{SessionStep, created_event};
use crate::session::query::Page;
use crate::store::{
    Change, ChangePart, CommitResult, Guard, IdemKey, KeyNote, PartTarget, Record, Replay, Write,
};
use crate::view::respondent::{Admission, Respondent, RespondentKind, admit};

/// Anonymous drafts that one new draft may end: more than one only if concurrent commits went past the limit.
const DRAFTS_ENDED_MAX: usize = 4;

/// A response that a caller has opened.
#[derive(Clone, Debug)]
pub struct OpenedResponse {
    pub response: StoredResponse,
    /// It was not there before.
    pub is_new: bool,
    /// The cookie by which the respondent is recognised next time.
    pub cookie: Option<String>,
}

impl Engine {
    /// Opens a view for the caller: the response that the caller has open, or a new one. A repeat under the same key is
    /// answered with the response that the first request opened, as it is now.
    pub async fn open_response(
        &self,
        actor: &Actor,
        view_id: &str,
        cookie: Option<&str>,
        entity_id: Option<&str>,
        key: Option<IdemKey>,
    ) -> Result<OpenedResponse> {
        if actor.role == Role::Share && entity_id.is_some() {
            return Err(Error::invalid("entity_id", "is for members; a link does not choose an entity"));
        }
        let secret = self.tenant.installation_key().await?;
        let (stranger, drawn) = (Respondent::cookie(self.ids.hex()), SessionId::drawn(&*self.ids));
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let view = self.found_view(actor, view_id).await?;
                    let now = self.tenant.now().await?;
                    let claims = known(&secret, actor, &view, cookie, now);
                    let (who, is_fresh) = match admit(&view, actor, claims.clone().map(|claims| claims.who))?
                    {
                        Admission::As(who) => (who, false),
                        Admission::Anyone => (stranger.clone(), true),
                        Admission::AsLead => {
                            return Err(Error::invalid("lead", "say who you are first: name and e-mail"));
                        }
                    };
                    let is_lead = who.kind == RespondentKind::Lead;
                    let cookie = (is_fresh || is_lead)
                        .then(|| clearance(&secret, &actor.tenant, &view, who.clone(), is_lead, now));
                    let admitted = admitted(&secret, actor, &view, who, claims.as_ref());
                    let history = self.history_of(actor, &view, &admitted).await?;
                    admitted.check_proven(&history)?;
                    self.check_reach(actor, &view, &admitted.name, history.standing.as_ref()).await?;
                    let ordinal = match decide::open(&view.value, &history, now)? {
                        OpenOutcome::Standing(row) => {
                            return Ok(Decided::Nothing((row.session, None, cookie)));
                        }
                        OpenOutcome::New { ordinal } => ordinal,
                    };
                    let entity = self.entity_of(actor, entity_id).await?;
                    decide::check_entity(decide::config(&view.value)?, entity.as_ref())?;
                    let entity_id = entity.as_ref().map(|entity| &*entity.id);
                    let respondent = admitted.as_new(ordinal);
                    let mut change = Change::new(actor.tenant.clone());
                    if admitted.who.kind == RespondentKind::Cookie {
                        let id =
                            decide::derived_id(&secret, &actor.tenant, &view.id, &admitted.name, ordinal);
                        if key.is_some() {
                            // Only the key is kept, so that a repeat is told of the same response.
                            let change = Box::new(change.keyed(noting(key, &id)));
                            return Ok(Decided::Change(change, Some((id, cookie))));
                        }
                        let new = decide::new(actor, id.clone(), &view, respondent, entity_id, &*self.ids)?;
                        let shown = Box::new(new.shown(actor.tenant.clone(), now));
                        return Ok(Decided::Nothing((id, Some(shown), cookie)));
                    }
                    let new = decide::new(actor, drawn.clone(), &view, respondent, entity_id, &*self.ids)?;
                    self.make(&mut change, new, None).await?;
                    let change = Box::new(change.keyed(noting(key, &drawn)));
                    Ok(Decided::Change(change, Some((drawn.clone(), cookie))))
                })
            })
            .await;
        let (id, is_new, new_cookie) = match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing((_, Some(shown), cookie)) => {
                return Ok(OpenedResponse { response: *shown, is_new: true, cookie });
            }
            CommandOutcome::Nothing((id, None, new_cookie)) => match self.first_noted(actor, key).await? {
                Some(first) => return self.opened_before(actor, &first, cookie).await,
                None => (id, false, new_cookie),
            },
            CommandOutcome::Done(done, opened) => match (noted_in(&done), opened) {
                (Some(first), _) => return self.opened_before(actor, &first, cookie).await,
                (None, Some((id, new_cookie))) => (id, true, new_cookie),
                (None, None) => return Err(Error::internal("a key that notes no response")),
            },
        };
        let response = match self.sessions.response(&actor.tenant, &id).await? {
            Some(stored) => stored,
            // The key of a stranger was kept, and nothing else.
            None => self.response(actor, &id, cookie).await?,
        };
        Ok(OpenedResponse { response, is_new, cookie: new_cookie })
    }

    /// The answer to a repeated opening: the response that the first request opened, as the caller may read it now. A
    /// caller who only names the address of a lead is told what anybody is told who names it.
    async fn opened_before(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
    ) -> Result<OpenedResponse> {
        match self.response(actor, id, cookie).await {
            Ok(response) => Ok(OpenedResponse { response, is_new: true, cookie: None }),
            Err(Error::NotFound) => Err(Conflict::AlreadyAnswered.into()),
            Err(error) => Err(error),
        }
    }

    /// The response that the first request under a key was about, if the key was used.
    async fn first_noted(&self, actor: &Actor, key: Option<IdemKey>) -> Result<Option<SessionId>> {
        let Some(key) = key else { return Ok(None) };
        let replay = self.sessions.recall(&actor.tenant, key).await?;
        Ok(replay.as_ref().and_then(noted_by))
    }

    /// A response, for its respondent, owners, the view's maker and the assignee.
    pub async fn response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
    ) -> Result<StoredResponse> {
        self.readable(actor, id, cookie).await.map(|(target, _)| target.response)
    }

    /// The responses to a view, newest first, for owners, the view's maker and the assignee.
    pub async fn responses(
        &self,
        actor: &Actor,
        view_id: &str,
        filter: ResponseFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<StoredResponse, i64>> {
        super::sessions::check_limit(limit)?;
        if !matches!(actor.role, Role::Owner | Role::Member) {
            return Err(Error::denied("owners, the maker of a view and its assignee read its responses"));
        }
        let view: StoredDefinition<View> = self.definition(actor, view_id).await?;
        let query = ResponseQuery { view_id: view.id, filter, after, limit };
        self.sessions.responses(&actor.tenant, query).await
    }

    /// Saves values into the caller's own response.
    pub async fn save_response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
        values: &Json,
        version: Option<u64>,
    ) -> Result<StoredResponse> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let target = self.own_response(actor, id, cookie).await?;
                    let step = match decide::save(&target.response, values, version)? {
                        SaveOutcome::Unchanged => return Ok(Decided::Nothing(Box::new(target.response))),
                        SaveOutcome::Saved(step) => *step,
                    };
                    decide::check_open(&target.view.value, self.tenant.now().await?)?;
                    Ok(Decided::change(self.response_change(target, step).await?))
                })
            })
            .await?;
        match done {
            CommandOutcome::Nothing(response) => Ok(*response),
            CommandOutcome::Done(..) => self.stored_response(actor, id).await,
        }
    }

    /// Gives up an open response: its respondent or an owner does.
    pub async fn abandon_response(
        &self,
        actor: &Actor,
        id: &SessionId,
        cookie: Option<&str>,
        key: Option<IdemKey>,
    ) -> Result<StoredResponse> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (target, is_own) = self.readable(actor, id, cookie).await?;
                    if !is_own && actor.role != Role::Owner {
                        return Err(Error::denied("only its respondent or an owner abandons a response"));
                    }
                    let step = decide::abandon(&target.response.session, "abandoned")?;
                    if target.new.is_some() {
                        // Nothing was stored, so there is nothing to end.
                        let mut gone = target.response;
                        gone.session.head.status = Status::Abandoned;
                        return Ok(Decided::Nothing(Box::new(gone)));
                    }
                    Ok(Decided::change(self.response_change(target, step).await?.keyed(key)))
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(gone) => Ok(*gone),
            // Read as the caller may read it now, also if the key is that of an earlier request.
            CommandOutcome::Done(..) => self.response(actor, id, cookie).await,
        }
    }

    /// The change that carries out a step of a response; makes one that is not stored yet.
    async fn response_change(&self, target: ResponseTarget, step: SessionStep) -> Result<Change> {
        match target.new {
            None => self.change_for(&target.response.session, step).await,
            Some(new) => {
                let mut change = Change::new(target.response.session.tenant);
                self.make(&mut change, *new, Some(step)).await?;
                Ok(change)
            }
        }
    }

    /// Adds a new response to a change, with its first step. Where a view has as many open anonymous drafts as it may,
    /// the longest silent one makes room.
    async fn make(&self, change: &mut Change, new: NewResponse, step: Option<SessionStep>) -> Result<()> {
        let NewResponse { session, mut row } = new;
        let mut events = vec![created_event(&session)?];
        let mut part = ChangePart {
            on: PartTarget::New(Box::new(session)),
            guard: Guard::default(),
            writes: smallvec![],
        };
        let mut records = Vec::new();
        let mut update = None;
        if let Some(mut step) = step {
            events.append(&mut step.events);
            if step.update.status == Some(Status::Completed) {
                row.state = ResponseState::Submitted;
            }
            records = step.records;
            update = Some(step.update);
        }
        part.writes.push(Write::Append(events));
        part.writes.extend(update.map(|update| Write::Update(Box::new(update))));
        change.parts.push(part);
        let takes_room = row.is_anonymous && row.state == ResponseState::Open;
        let view_id = row.view_id.clone();
        change.records.push(Record::AddResponse(Box::new(row)));
        change.records.append(&mut records);
        if takes_room {
            let (kept, tenant) = (limits::ANONYMOUS_DRAFTS_MAX - 1, change.tenant.clone());
            for id in self.sessions.silent_drafts(&tenant, &view_id, kept, DRAFTS_ENDED_MAX).await? {
                let Some(silent) = self.sessions.session(&tenant, &id).await? else { continue };
                let step = decide::abandon(&silent, "made_room")?;
                let ended = self.change_for(&silent, step).await?;
                change.parts.extend(ended.parts);
                change.records.extend(ended.records);
            }
        }
        Ok(())
    }

    async fn stored_response(&self, actor: &Actor, id: &SessionId) -> Result<StoredResponse> {
        self.sessions.response(&actor.tenant, id).await?.ok_or(Error::NotFound)
    }

    /// The entity that a member names for a new response.
    async fn entity_of(&self, actor: &Actor, id: Option<&str>) -> Result<Option<StoredDefinition<Entity>>> {
        let Some(id) = id else { return Ok(None) };
        let doc = self.tenant.doc(&actor.tenant, DefinitionKind::Entity, id).await?.ok_or(Error::NotFound)?;
        StoredDefinition::of(&doc).map(Some)
    }
}

/// A key that notes which response its request is about.
fn noting(key: Option<IdemKey>, id: &SessionId) -> Option<IdemKey> {
    key.map(|key| IdemKey { note: Uuid::parse_str(id.as_str()).ok().map(KeyNote), ..key })
}

/// The response that the first request under a key was about.
fn noted_by(replay: &Replay) -> Option<SessionId> {
    replay.note.map(|KeyNote(id)| SessionId::stored(id.to_string()))
}

/// The same of a commit that was answered by its key.
fn noted_in(done: &CommitResult) -> Option<SessionId> {
    done.replay.as_ref().and_then(noted_by)
}
