//! Commands on sessions: open, change, move, stop, fork, delete; and reading them.

use smallvec::smallvec;
use uuid::Uuid;

use super::talk::change_from_plan;
use super::{CommandOutcome, Decided, Engine, step_part};
use crate::access::{self, Actor, Role, Verb};
use crate::definitions::{Agent, DefinitionKind, StoredDefinition, Task};
use crate::error::{Conflict, Error, Result};
use crate::ids::{SessionId, TenantId, UserId, check_text};
use crate::limits;
use crate::memory::owner::must_end_before;
use crate::people::Audit;
use crate::session::decide::{self, EXTERNAL_AGENT, OpenSession, PatchSession, SessionStep, Transition};
use crate::session::query::{ListCursor, Page, SessionQuery, TypeFilter, Visibility};
use crate::session::status::Authority;
use crate::session::{MemoryMode, Session, SessionState, Status};
use crate::store::{
    Change, ChangePart, Guard, IdemKey, KeyNote, NewSession, PartTarget, Record, SearchHit, SearchQuery,
    Update, Write,
};
use crate::talk::Talk;
use crate::talk::pause::{self, AbandonReason};
use crate::work;

/// A session that was opened.
#[derive(Clone, Debug)]
pub struct OpenedSession {
    pub session: Session,
    pub created: bool,
}

impl Engine {
    /// Opens a session: makes it, or shows the existing one of that id again.
    pub async fn open(
        &self,
        actor: &Actor,
        wish: OpenSession,
        key: Option<IdemKey>,
    ) -> Result<OpenedSession> {
        access::check_general(actor, Verb::Open)?;
        if actor.role == Role::Channel && wish.id.is_none() {
            return Err(Error::invalid("id", "a channel key names the session under its own prefix"));
        }
        if wish.memory_mode == Some(MemoryMode::Incognito) && self.incognito.is_none() {
            return Err(Error::invalid(
                "memory_mode",
                "this server writes everything that it is given to disk; it opens no incognito sessions",
            ));
        }
        let drawn = self.ids.ordered();
        let id = match &wish.id {
            Some(text) => SessionId::parse_new(text)?,
            None => SessionId::stored(drawn.to_string()),
        };
        let key = key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key });
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    if let Some(session) = self.sessions.session(&actor.tenant, &id).await? {
                        access::check(actor, Verb::Read, &session)?;
                        let Some(step) = decide::reopen(actor, &session, &wish)? else {
                            return Ok(Decided::Nothing(session));
                        };
                        let change =
                            Change::new(actor.tenant.clone()).part(step_part(&session, step)).keyed(key);
                        return Ok(Decided::change(change));
                    }
                    let mut wish = wish.clone();
                    if let Some(task) = &wish.task_id {
                        wish.task_id = Some(self.definition::<Task>(actor, task).await?.id.into());
                    }
                    let new = decide::open(actor, id.clone(), wish, &*self.ids)?;
                    let mut new = self.with_parent(actor, new).await?;
                    if let Some(slug) = &new.details.agent_slug {
                        new.head.is_external = self.runs_outside(&actor.tenant, slug).await?;
                    }
                    Ok(Decided::change(creation(actor, new, key)?))
                })
            })
            .await?;
        let done = match done {
            CommandOutcome::Nothing(session) => return Ok(OpenedSession { session, created: false }),
            CommandOutcome::Done(done, ()) => done,
        };
        let (id, created) = match (&done.replay, &wish.id) {
            (Some(replay), None) => {
                (replay.note.map_or(id, |note| SessionId::stored(note.0.to_string())), true)
            }
            (Some(_), Some(_)) => (id, true),
            // Reopening appends nothing.
            (None, _) => (id, done.parts.iter().any(|part| !part.appended.is_empty())),
        };
        Ok(OpenedSession { session: self.session_after(actor, &id, &done).await?, created })
    }

    /// Whether an agent's model runs outside Sederunt: its sessions are external.
    pub(super) async fn runs_outside(&self, tenant: &TenantId, slug: &str) -> Result<bool> {
        if slug == EXTERNAL_AGENT {
            return Ok(true);
        }
        let agent = self.agent_named(tenant, slug).await?;
        Ok(agent.is_some_and(|agent| agent.value.model.as_deref() == Some(EXTERNAL_AGENT)))
    }

    /// The agent that a session names, if it is defined.
    pub async fn agent_of(&self, session: &Session) -> Result<Option<Agent>> {
        match &session.details.agent_slug {
            Some(slug) => Ok(self.agent_named(&session.tenant, slug).await?.map(|agent| agent.value)),
            None => Ok(None),
        }
    }

    pub(super) async fn agent_named(
        &self,
        tenant: &TenantId,
        slug: &str,
    ) -> Result<Option<StoredDefinition<Agent>>> {
        let doc = self.tenant.doc(tenant, DefinitionKind::Agent, slug).await?;
        doc.as_ref().map(StoredDefinition::of).transpose()
    }

    async fn with_parent(&self, actor: &Actor, mut new: NewSession) -> Result<NewSession> {
        if let Some(parent) = &new.details.parent_id {
            let parent = self.load(actor, Verb::Read, parent).await.map_err(|error| match error {
                Error::NotFound => Error::invalid("parent_id", "names no session that you may see"),
                other => other,
            })?;
            new.details.root_id = Some(parent.details.root_id.unwrap_or(parent.id));
        }
        Ok(new)
    }

    /// One session.
    pub async fn session(&self, actor: &Actor, id: &SessionId) -> Result<Session> {
        self.load(actor, Verb::Read, id).await
    }

    /// A session for a caller who exports its row and log: the audit trail records it. Incognito sessions leave no
    /// trace there either.
    pub async fn export(&self, actor: &Actor, id: &SessionId) -> Result<Session> {
        let session = self.load_log(actor, id).await?;
        if session.details.memory_mode != MemoryMode::Incognito {
            self.note(actor, "session.export", id.as_str()).await?;
        }
        Ok(session)
    }

    /// The state of a session, at the cost of one row.
    pub async fn state(&self, actor: &Actor, id: &SessionId) -> Result<SessionState> {
        self.load_log(actor, id).await.map(SessionState::from)
    }

    /// A page of the sessions that the caller may see.
    pub async fn sessions(&self, actor: &Actor, mut query: SessionQuery) -> Result<Page<Session>> {
        check_limit(query.limit)?;
        query.seen_by = visibility(actor)?;
        if let Some(text) = &query.text {
            check_text("q", text, limits::QUERY_CHARS_MAX)?;
        }
        self.tenant.sessions(&actor.tenant, query).await
    }

    /// The sessions that a session brought forth.
    pub async fn children(
        &self,
        actor: &Actor,
        id: &SessionId,
        limit: usize,
        after: Option<ListCursor>,
    ) -> Result<Page<Session>> {
        check_limit(limit)?;
        let parent = self.load(actor, Verb::Read, id).await?;
        let query = SessionQuery {
            parent_id: Some(parent.id),
            inactive: Some(false),
            after,
            ..SessionQuery::of(TypeFilter::All, limit)
        };
        self.sessions(actor, query).await
    }

    /// Changes the row of a session. Participants are not added while a sitting is open that uses one person's
    /// memory: that is [`Conflict::SittingOpen`], and the surface ends the sitting first.
    pub async fn patch(
        &self,
        actor: &Actor,
        id: &SessionId,
        wish: PatchSession,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (session, talk, departed) = match &wish.participants {
                        Some(_) => {
                            let (session, talk) = self.conversation(actor, Verb::Edit, id).await?;
                            (session, talk, self.sessions.departed(&actor.tenant, id).await?)
                        }
                        None => (self.load(actor, Verb::Edit, id).await?, Talk::default(), Vec::new()),
                    };
                    self.carried_out(session, key, |session| {
                        let step = decide::patch(actor, session, &departed, &wish)?;
                        let participants = step.as_ref().and_then(|step| step.update.participants.as_ref());
                        check_sitting_allows(&talk, participants.map(Vec::as_slice))?;
                        Ok(step)
                    })
                    .await
                })
            })
            .await;
        self.as_it_stands(actor, id, key, done).await
    }

    /// Removes the caller from the participants of a session. From then on only the caller or an owner can put them
    /// back.
    pub async fn leave(&self, actor: &Actor, id: &SessionId) -> Result<()> {
        self.decide_and_commit(|| {
            Box::pin(async {
                let session = self.load(actor, Verb::Leave, id).await?;
                let step = decide::leave(actor, &session)?;
                Ok(Decided::<()>::change(self.change_for(&session, step).await?))
            })
        })
        .await
        .map(drop)
    }

    /// Puts a caller who has left a session back among its participants. Refused with [`Conflict::SittingOpen`] while a
    /// sitting is open that uses one person's memory, as [`Engine::patch`] is.
    pub async fn come_back(&self, actor: &Actor, id: &SessionId, key: Option<IdemKey>) -> Result<Session> {
        access::check_general(actor, Verb::Leave)?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (session, talk) =
                        self.sessions.talk(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
                    let departed = self.sessions.departed(&actor.tenant, id).await?;
                    self.carried_out(session, key, |session| {
                        let step = decide::come_back(actor, session, &departed)?;
                        let added = step.as_ref().and_then(|step| step.update.add_participant.as_ref());
                        check_sitting_allows(&talk, added.map(std::slice::from_ref))?;
                        Ok(step)
                    })
                    .await
                })
            })
            .await;
        self.as_it_stands(actor, id, key, done).await
    }

    /// Shows a hidden session in lists again.
    pub async fn show_again(&self, actor: &Actor, id: &SessionId) -> Result<Session> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.load(actor, Verb::Talk, id).await?;
                    self.carried_out(session, None, |session| {
                        let shown = Update { inactive: Some(false), ..Update::default() };
                        Ok(session.head.inactive.then(|| SessionStep::of(shown)))
                    })
                    .await
                })
            })
            .await;
        self.as_it_stands(actor, id, None, done).await
    }

    /// Makes a status change that a caller may ask for by name.
    pub async fn transition(
        &self,
        actor: &Actor,
        id: &SessionId,
        wish: Transition,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.load(actor, Verb::Edit, id).await?;
                    let task = match wish.to {
                        Status::Pending => self.startable_task_of(actor, &session).await?,
                        _ => None,
                    };
                    self.carried_out(session, key, |session| {
                        decide::transition(actor, session, task.as_ref(), &wish).map(Some)
                    })
                    .await
                })
            })
            .await;
        self.as_it_stands(actor, id, key, done).await
    }

    /// The task of a session that a caller wants to queue. Refuses a task that writes entities which the caller may
    /// not have written.
    pub(super) async fn startable_task_of(
        &self,
        actor: &Actor,
        session: &Session,
    ) -> Result<Option<StoredDefinition<Task>>> {
        let task = self.task_of(session).await?;
        if let Some(task) = &task {
            self.right_to_write(actor, task, None).await?;
        }
        Ok(task)
    }

    /// Asks a session to stop. Its worker learns by its next heartbeat or append.
    pub async fn stop(&self, actor: &Actor, id: &SessionId, key: Option<IdemKey>) -> Result<Session> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (session, talk) = self.conversation(actor, Verb::Steer, id).await?;
                    let status = session.head.status;
                    if status.is_terminal() {
                        return Err(Conflict::NothingToStop { status }.into());
                    }
                    if let Some(plan) = pause::give_up(&session, &talk, AbandonReason::Stopped)? {
                        return Ok(Decided::change(change_from_plan(&session, &plan).keyed(key)));
                    }
                    let by = match (actor.role, session.head.status) {
                        (Role::Owner, Status::Pending) => Authority::Owner,
                        (_, Status::Pending) => {
                            return Err(Error::denied("only an owner cancels queued work"));
                        }
                        _ => Authority::OwnerOrHolder,
                    };
                    self.carried_out(session, key, |session| work::decide::stop(session, by)).await
                })
            })
            .await;
        self.as_it_stands(actor, id, key, done).await
    }

    /// Makes a new session that shares this one's log up to a sequence.
    pub async fn fork(
        &self,
        actor: &Actor,
        id: &SessionId,
        at_sequence: u64,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        let session = self.load(actor, Verb::Share, id).await?;
        let fork = decide::fork(actor, &session, at_sequence, &*self.ids)?;
        let documents = self.forked_documents(&session, &fork.id, at_sequence).await?;
        self.create(actor, fork, documents, key).await
    }

    /// Removes a session with its log.
    pub async fn delete(&self, actor: &Actor, id: &SessionId) -> Result<()> {
        self.remove(actor, id, decide::Deletion::Ordinary).await
    }

    /// Removes a session with its log, even a group's: only on an owner's explicit request, with an audit action of
    /// its own.
    pub async fn delete_by_force(&self, actor: &Actor, id: &SessionId) -> Result<()> {
        self.remove(actor, id, decide::Deletion::Forced).await
    }

    async fn remove(&self, actor: &Actor, id: &SessionId, how: decide::Deletion) -> Result<()> {
        self.decide_and_commit(|| {
            Box::pin(async {
                let session = self.load(actor, Verb::Delete, id).await?;
                let promotion = self.pending_promotion(&session).await?;
                decide::check_deletable(actor, &session, promotion.as_ref(), how)?;
                let part = ChangePart {
                    on: PartTarget::Session(session.id.clone()),
                    guard: Guard::seen(&session),
                    writes: smallvec![Write::Delete],
                };
                let audit = Audit {
                    actor: audit_name(actor),
                    action: if session.head.is_group { "session.delete_group" } else { "session.delete" },
                    target: session.id.to_string(),
                };
                let mut change = Change::new(actor.tenant.clone()).part(part).audited(audit);
                change.parts.extend(self.hand_retries_on(&session).await?);
                change.records = self.views_to_drop(&session).await?;
                Ok(Decided::<()>::change(change))
            })
        })
        .await
        .map(drop)
    }

    /// Searches titles, descriptions and messages that the caller may see, newest first.
    pub async fn search(
        &self,
        actor: &Actor,
        text: &str,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page<SearchHit, i64>> {
        check_limit(limit)?;
        check_text("q", text, limits::QUERY_CHARS_MAX)?;
        let words: Vec<String> = search_words(text);
        if words.is_empty() {
            return Err(Error::invalid("q", "must contain a word to look for"));
        }
        let query = SearchQuery { words, seen_by: visibility(actor)?, after, limit };
        self.tenant.search(&actor.tenant, query).await
    }

    /// The change that a decision on a session leads to, if any.
    async fn carried_out(
        &self,
        session: Session,
        key: Option<IdemKey>,
        decide: impl Fn(&Session) -> Result<Option<SessionStep>> + Sync,
    ) -> Result<Decided<Session>> {
        let Some(step) = decide(&session)? else { return Ok(Decided::Nothing(session)) };
        Ok(Decided::change(self.change_for(&session, step).await?.keyed(key)))
    }

    /// The session after a command on it, or after the first one with its key.
    async fn as_it_stands(
        &self,
        actor: &Actor,
        id: &SessionId,
        key: Option<IdemKey>,
        done: Result<CommandOutcome<Session>>,
    ) -> Result<Session> {
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(session) => Ok(session),
            CommandOutcome::Done(done, ()) => self.session_after(actor, id, &done).await,
        }
    }

    async fn create(
        &self,
        actor: &Actor,
        new: NewSession,
        records: Vec<Record>,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        let drawn = Uuid::parse_str(new.id.as_str()).map_err(Error::internal)?;
        let key = key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key });
        let mut change = creation(actor, new, key)?;
        change.records = records;
        let done = self.commit(change).await?;
        let id = done.replay.as_ref().and_then(|replay| replay.note).map_or(drawn, |note| note.0);
        self.session_after(actor, &SessionId::stored(id.to_string()), &done).await
    }
}

pub(super) fn creation(actor: &Actor, new: NewSession, key: Option<IdemKey>) -> Result<Change> {
    let events = vec![decide::created_event(&new)?];
    let part = ChangePart {
        on: PartTarget::New(Box::new(new)),
        guard: Guard::default(),
        writes: smallvec![Write::Append(events)],
    };
    Ok(Change::new(actor.tenant.clone()).part(part).keyed(key))
}

/// The scope of a caller's lists and searches.
fn visibility(actor: &Actor) -> Result<Option<Visibility>> {
    access::check_lists(actor)?;
    Ok(match actor.role {
        Role::Owner => None,
        Role::Member | Role::Guest => Some(Visibility::Participant(
            actor.user.clone().ok_or_else(|| Error::denied("this credential names no user"))?,
        )),
        Role::Worker => Some(Visibility::Claims(actor.credential.clone())),
        Role::Channel => Some(Visibility::Prefix(actor.prefix.as_deref().unwrap_or_default().to_owned())),
        Role::Share => return Err(Error::internal("a share link was let into a list")),
    })
}

/// The index words of what a caller typed.
pub(crate) fn search_words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Refuses to add participants while a sitting is open that uses one person's memory.
fn check_sitting_allows(talk: &Talk, added: Option<&[UserId]>) -> Result<()> {
    match (added, &talk.sitting) {
        (Some(people), Some(open)) if must_end_before(&open.owner, people) => {
            Err(Conflict::SittingOpen.into())
        }
        _ => Ok(()),
    }
}

pub(super) fn check_limit(limit: usize) -> Result<()> {
    if limit == 0 || limit > limits::PAGE_ROWS_MAX {
        return Err(Error::invalid("limit", format!("must be 1 to {}", limits::PAGE_ROWS_MAX)));
    }
    Ok(())
}

/// How a caller is named in the audit trail.
pub(super) fn audit_name(actor: &Actor) -> String {
    actor.user.as_ref().map_or_else(|| actor.credential.to_string(), ToString::to_string)
}
